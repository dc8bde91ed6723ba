"""Elementwise functions and sums over arrays, in the precision of their arguments.

They are written in whole arrays, as Python is quickest with; compiled are the loops of
`stacktrans.kernels.loops`, which do the same.
"""

from typing import Any

import numpy as np

from stacktrans.kernels.compiling import Array, compiled_as, overloaded

_LOOPS = "stacktrans.kernels.loops"


@overloaded
def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x))."""
    with np.errstate(over="ignore"):  # which is 0
        return 1 / (1 + np.exp(-x))


@overloaded
def tanh(x: Any) -> Any:
    """Hyperbolic tangent."""
    return np.tanh(x)


@overloaded
def exp(x: Any) -> Any:
    """The exponential of x; in compiled code for float32 it is 0 where it is under 1.6e-38."""
    return np.exp(x)


@compiled_as(f"{_LOOPS}:dot", any_order=True)
def dot(left: Array, right: Array) -> Any:
    """Sum of left[i] * right[i], of as many as there are on the left."""
    return left @ right[: len(left)]


@compiled_as(f"{_LOOPS}:add_scaled")
def add_scaled(out: Array, scale: Any, row: Array) -> None:
    """Add scale * row to out."""
    out += scale * row[: len(out)]


@compiled_as(f"{_LOOPS}:add")
def add(out: Array, more: Array) -> None:
    """Add as many numbers as both have."""
    count = min(len(out), len(more))
    out[:count] += more[:count]


@compiled_as(f"{_LOOPS}:scale")
def scale(out: Array, by: float) -> None:
    """out *= by, in the precision of out."""
    out *= out.dtype.type(by)


@compiled_as(f"{_LOOPS}:multiply")
def multiply(out: Array, by: Array) -> None:
    """out *= by, elementwise."""
    out *= by[: len(out)]


@compiled_as(f"{_LOOPS}:copy")
def copy(out: Array, row: Array) -> None:
    """Set out to the numbers at the start of row."""
    out[:] = row[: len(out)]


@compiled_as(f"{_LOOPS}:sigmoid_sum")
def sigmoid_sum(first: Array, second: Array, out: Array) -> None:
    """out = sigmoid(first + second)."""
    out[:] = sigmoid(first[: len(out)] + second[: len(out)])


@compiled_as(f"{_LOOPS}:tanh_sum")
def tanh_sum(first: Array, second: Array, out: Array) -> None:
    """out = tanh(first + second)."""
    out[:] = np.tanh(first[: len(out)] + second[: len(out)])


@compiled_as(f"{_LOOPS}:sigmoid_sums")
def sigmoid_sums(first: Array, second: Array, third: Array, out: Array) -> None:
    """out = sigmoid(first + second + third)."""
    count = len(out)
    out[:] = sigmoid(first[:count] + second[:count] + third[:count])


@compiled_as(f"{_LOOPS}:tanh_sums")
def tanh_sums(first: Array, second: Array, third: Array, out: Array) -> None:
    """out = tanh(first + second + third)."""
    count = len(out)
    out[:] = np.tanh(first[:count] + second[:count] + third[:count])


@compiled_as(f"{_LOOPS}:plain_sums")
def plain_sums(first: Array, second: Array, out: Array) -> None:
    """out = first + second."""
    out[:] = first[: len(out)] + second[: len(out)]


@compiled_as(f"{_LOOPS}:keep_and_admit")
def keep_and_admit(out: Array, keep: Array, admit: Array, candidate: Array) -> None:
    """out = keep out + admit candidate."""
    out[:] = keep * out + admit * candidate


@compiled_as(f"{_LOOPS}:times_tanh")
def times_tanh(out: Array, by: Array, under: Array) -> None:
    """out = by tanh(under)."""
    out[:] = by * np.tanh(under)


@compiled_as(f"{_LOOPS}:towards")
def towards(out: Array, first: Array, share: Array) -> None:
    """out = first + share (out - first)."""
    out[:] = first + share * (out - first)


@compiled_as(f"{_LOOPS}:interpolate")
def interpolate(first: Array, second: Array, share: Any, out: Array) -> None:
    """out = (1 - share) first + share second, of two dimensions."""
    out[:] = first + share * (second - first)


@compiled_as(f"{_LOOPS}:mixed")
def mixed(size: int, before: Any, there: Any, after: Any, padded: Array, out: Array) -> None:
    """out[i] = before padded[i] + there padded[i + size] + after padded[i + 2 size]."""
    count = len(out)
    middle, last = padded[size : size + count], padded[2 * size : 2 * size + count]
    out[:] = before * padded[:count] + there * middle + after * last


@compiled_as(f"{_LOOPS}:index_of_largest")
def index_of_largest(row: Array) -> int:
    """The index of the largest number, of the first of several; -1 if there is no finite one."""
    found = int(row.argmax())
    return found if np.isfinite(row[found]) else -1


@compiled_as(f"{_LOOPS}:log_share", any_order=True)
def log_share(row: Array, index: int) -> Any:
    """The logarithm of the share that exp(row[index]) has of them all; the row may be changed."""
    return -np.log(np.exp(row - row[index]).sum())
