"""Between tensors and the arrays of compiled code."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from stacktrans.kernels import arrays
from stacktrans.kernels.arrays import Array

ARRAY_DTYPES: dict[torch.dtype, np.dtype[Any]] = {
    torch.float32: np.dtype(np.float32),
    torch.float64: np.dtype(np.float64),
}
"""The types of numbers that there is compiled code for, and numpy's name of each."""


def can_run(tensor: Tensor) -> bool:
    """Whether there is compiled code for tensors like this one."""
    return tensor.device.type == "cpu" and tensor.dtype in ARRAY_DTYPES


def fresh(*shape: int, dtype: torch.dtype) -> Tensor:
    """A new tensor with anything in it.

    Its memory is numpy's, which asks the system for huge pages for large arrays as torch does not.
    """
    return torch.from_numpy(arrays.fresh(*shape, dtype=ARRAY_DTYPES[dtype]))


def fresh_zeros(*shape: int, dtype: torch.dtype) -> Tensor:
    """The same with zeros."""
    return fresh(*shape, dtype=dtype).zero_()


def as_array(tensor: Tensor) -> Array:
    """The numbers of a tensor for compiled code to read; a copy if it is not contiguous."""
    array: Array = tensor.detach().contiguous().numpy()
    return array


def in_place(tensor: Tensor) -> Array:
    """The numbers of a tensor for compiled code to change."""
    if not tensor.is_contiguous():
        raise ValueError("compiled code changes only contiguous tensors")
    return as_array(tensor)
