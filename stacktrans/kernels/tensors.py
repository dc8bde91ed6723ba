"""Between tensors and the arrays of compiled code."""

import math
import threading
import weakref
from collections import OrderedDict
from collections.abc import Sequence
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


# Buffers that nothing refers to any more, by their size in bytes, the size last used at the end, to
# be used again: having pages from the system and giving them back, batch after batch, takes
# a twentieth of the time.
_spare: OrderedDict[int, list[Array]] = OrderedDict()
_guard = threading.RLock()
_LEAST_BYTES = 2**17  # smaller ones do not go back to the system
_MOST_BYTES = 2**26
_MOST_SPARE = 8  # of one size
MOST_SPARE_BYTES = 2**28
"""How much is kept for later, of all sizes together."""


def fresh(*shape: int, dtype: torch.dtype) -> Tensor:
    """A new tensor with anything in it.

    Its memory is numpy's, which asks the system for huge pages for large arrays as torch does not.
    """
    size = math.prod(shape) * dtype.itemsize
    if not _LEAST_BYTES <= size <= _MOST_BYTES:
        return torch.from_numpy(np.empty(shape, dtype=array_dtype(dtype)))
    buffer = _taken(_rounded(size))
    array = buffer[:size].view(array_dtype(dtype)).reshape(shape)
    weakref.finalize(array, _put_back, buffer).atexit = False
    return torch.from_numpy(array)


def _rounded(size: int) -> int:
    """A size that others nearby have, too, at most an eighth greater."""
    step: int = 2 ** (size.bit_length() - 4)
    return -(-size // step) * step


def _taken(size: int) -> Array:
    with _guard:
        if spare := _spare.get(size):
            _spare.move_to_end(size)
            return spare.pop()
    return np.empty(size, dtype=np.uint8)


def _put_back(buffer: Array) -> None:
    with _guard:
        spare = _spare.setdefault(buffer.nbytes, [])
        _spare.move_to_end(buffer.nbytes)
        if len(spare) < _MOST_SPARE:
            spare.append(buffer)
        while sum(size * len(buffers) for size, buffers in _spare.items()) > MOST_SPARE_BYTES:
            oldest, buffers = next(iter(_spare.items()))
            if buffers:
                buffers.pop()
            if not buffers:
                del _spare[oldest]


def fresh_zeros(*shape: int, dtype: torch.dtype) -> Tensor:
    """The same with zeros."""
    return fresh(*shape, dtype=dtype).zero_()


def as_array(tensor: Tensor) -> Array:
    """The numbers of a tensor for compiled code to read; a copy if they are not in a row."""
    array: Array = tensor.detach().contiguous().numpy()
    return array


def in_place(tensor: Tensor) -> Array:
    """The numbers of a tensor for compiled code to change."""
    if not tensor.is_contiguous():
        raise ValueError("compiled code changes only tensors whose numbers are in a row")
    return as_array(tensor)


def check_shape(what: str, given: Sequence[int], expected: tuple[int, ...]) -> None:
    """Raise `ValueError` unless a shape is the expected one."""
    if tuple(given) != expected:
        raise ValueError(f"{what}: expected the shape {expected}, not {tuple(given)}")
