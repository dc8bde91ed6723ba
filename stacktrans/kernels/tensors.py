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
from torch.nn import functional

from stacktrans.kernels.compiling import Array
from stacktrans.kernels.products import PANEL_BYTES

ARRAY_DTYPES: dict[torch.dtype, np.dtype[Any]] = {
    torch.float32: np.dtype(np.float32),
    torch.float64: np.dtype(np.float64),
}
"""The types of numbers that there is compiled code for, and numpy's name of each."""
TENSOR_DTYPES = {array: tensor for tensor, array in ARRAY_DTYPES.items()}


def can_run(tensor: Tensor) -> bool:
    """Whether there is compiled code for tensors like this one."""
    return tensor.device.type == "cpu" and tensor.dtype in ARRAY_DTYPES


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
        return torch.from_numpy(np.empty(shape, dtype=ARRAY_DTYPES[dtype]))
    # A size that others nearby have, too, at most an eighth greater.
    step = 2 ** (size.bit_length() - 4)
    buffer = _taken(-(-size // step) * step)
    array = buffer[:size].view(ARRAY_DTYPES[dtype]).reshape(shape)
    weakref.finalize(array, _put_back, buffer).atexit = False
    return torch.from_numpy(array)


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
    """The numbers of a tensor for compiled code to read; a copy if it is not contiguous."""
    array: Array = tensor.detach().contiguous().numpy()
    return array


def in_place(tensor: Tensor) -> Array:
    """The numbers of a tensor for compiled code to change."""
    if not tensor.is_contiguous():
        raise ValueError("compiled code changes only contiguous tensors")
    return as_array(tensor)


def workspace(*shape: int, dtype: torch.dtype) -> Array:
    """A new array with anything in it, for compiled code to work in."""
    return as_array(fresh(*shape, dtype=dtype))


def taken(array: Array, items: Array) -> Array:
    """Items of an array [B, ...], by their indices, of which one may be there several times.

    If they are B, the array is changed in place, so that only those that change are copied.
    """
    if len(items) != len(array):
        return array[items]
    changed = np.flatnonzero(items != np.arange(len(array)))
    array[changed] = array[items[changed]]
    return array


def check_shape(what: str, given: Sequence[int], expected: tuple[int, ...]) -> None:
    """Raise `ValueError` unless a shape is the expected one."""
    if tuple(given) != expected:
        raise ValueError(f"{what}: expected the shape {expected}, not {tuple(given)}")


_LEAST_ROOM = 64


def room_for(used: int, needed: int) -> int:
    """How much room to make: as much again as is used, so that on average a thing moves once."""
    return max(2 * used, needed, _LEAST_ROOM)


def padded(columns: int, dtype: torch.dtype) -> int:
    """`columns` with those that fill the last panel."""
    width = PANEL_BYTES // dtype.itemsize
    return -(-columns // width) * width


def panels(matrix: Tensor) -> Tensor:
    """The columns of a matrix [K, N] in panels: [ceil(N / width), K, width], see `products`.

    After the last column there are zeros.
    """
    columns, width = matrix.shape[1], PANEL_BYTES // matrix.dtype.itemsize
    whole = padded(columns, matrix.dtype)
    filled = functional.pad(matrix, (0, whole - columns)) if whole > columns else matrix
    split: Tensor = filled.unflatten(1, (whole // width, width))
    return split.transpose(0, 1).contiguous()


def gate_panels(weight: Tensor, gates: int) -> Tensor:
    """The rows of a weight [gates * H, K] as columns of panels, each gate starting a panel."""
    size = len(weight) // gates
    if short := padded(size, weight.dtype) - size:
        by_gate = weight.unflatten(0, (gates, size))
        weight = functional.pad(by_gate, (0, 0, 0, short)).flatten(0, 1)
    return panels(weight.t())
