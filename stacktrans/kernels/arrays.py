"""New arrays for compiled code to work on, and how much room they have."""

import math
import threading
import weakref
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

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


def fresh(*shape: int, dtype: np.dtype[Any]) -> Array:
    """A new array with anything in it.

    For large arrays numpy asks the system for huge pages, as torch does not for tensors.
    """
    size = math.prod(shape) * dtype.itemsize
    if not _LEAST_BYTES <= size <= _MOST_BYTES:
        return np.empty(shape, dtype=dtype)
    # A size that others nearby have, too, at most an eighth greater.
    step = 2 ** (size.bit_length() - 4)
    buffer = _taken(-(-size // step) * step)
    # An array whose base is no array is what every view of it refers to, and keeps.
    whole = np.frombuffer(buffer.data, dtype=np.uint8)
    weakref.finalize(whole, _put_back, buffer).atexit = False
    array: Array = whole[:size].view(dtype).reshape(shape)
    return array


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


def fresh_zeros(*shape: int, dtype: np.dtype[Any]) -> Array:
    """The same with zeros."""
    array = fresh(*shape, dtype=dtype)
    array.fill(0)
    return array


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
