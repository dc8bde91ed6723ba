"""Between tensors and the arrays of compiled code."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from stacktrans.kernels.compiling import Array

_DTYPES: dict[torch.dtype, np.dtype[Any]] = {
    torch.float32: np.dtype(np.float32),
    torch.float64: np.dtype(np.float64),
}


def can_run(tensor: Tensor) -> bool:
    """Whether there is compiled code for tensors like this one."""
    return tensor.device.type == "cpu" and tensor.dtype in _DTYPES


def array_dtype(dtype: torch.dtype) -> np.dtype[Any]:
    """Numpy's name of a dtype."""
    if dtype not in _DTYPES:
        raise TypeError(f"compiled code is for float32 and float64, and these are {dtype}")
    return _DTYPES[dtype]


def fresh(*shape: int, dtype: torch.dtype) -> Tensor:
    """A new tensor with nothing in it yet.

    Numpy asks the system for huge pages for large arrays, and torch does not: with small ones,
    the first writing to 40 MB takes 16 ms and not 4.
    """
    return torch.from_numpy(np.empty(shape, dtype=array_dtype(dtype)))


def fresh_zeros(*shape: int, dtype: torch.dtype) -> Tensor:
    """The same with zeros."""
    return torch.from_numpy(np.zeros(shape, dtype=array_dtype(dtype)))


def as_array(tensor: Tensor) -> Array:
    """The numbers of a tensor for compiled code to read; a copy if they are not in a row."""
    array: Array = tensor.detach().contiguous().numpy()
    return array


def in_place(tensor: Tensor) -> Array:
    """The numbers of a tensor for compiled code to change."""
    if not tensor.is_contiguous():
        raise ValueError("compiled code changes only tensors whose numbers are in a row")
    return as_array(tensor)
