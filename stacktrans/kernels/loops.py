"""What is compiled in the place of what `stacktrans.kernels.arithmetic` writes in whole arrays.

Each loop writes to one array, since only such are vectorised.
"""

import math
from typing import Any

from stacktrans.kernels.arithmetic import exp, sigmoid, tanh
from stacktrans.kernels.compiling import Array


def dot(left: Array, right: Array) -> Any:
    """See `arithmetic.dot`."""
    total = left.dtype.type(0)
    for i in range(left.shape[0]):
        total += left[i] * right[i]
    return total


def add_scaled(out: Array, scale: Any, row: Array) -> None:
    """See `arithmetic.add_scaled`."""
    for i in range(out.shape[0]):
        out[i] += scale * row[i]


def add(out: Array, more: Array) -> None:
    """See `arithmetic.add`."""
    for i in range(min(out.shape[0], more.shape[0])):
        out[i] += more[i]


def scale(out: Array, by: float) -> None:
    """See `arithmetic.scale`."""
    factor = out.dtype.type(by)
    for i in range(out.shape[0]):
        out[i] *= factor


def multiply(out: Array, by: Array) -> None:
    """See `arithmetic.multiply`."""
    for i in range(out.shape[0]):
        out[i] *= by[i]


def copy(out: Array, row: Array) -> None:
    """See `arithmetic.copy`."""
    for i in range(out.shape[0]):
        out[i] = row[i]


def sigmoid_sum(first: Array, second: Array, out: Array) -> None:
    """See `arithmetic.sigmoid_sum`."""
    for i in range(out.shape[0]):
        out[i] = sigmoid(first[i] + second[i])


def tanh_sum(first: Array, second: Array, out: Array) -> None:
    """See `arithmetic.tanh_sum`."""
    for i in range(out.shape[0]):
        out[i] = tanh(first[i] + second[i])


def sigmoid_sums(first: Array, second: Array, third: Array, out: Array) -> None:
    """See `arithmetic.sigmoid_sums`."""
    for i in range(out.shape[0]):
        out[i] = sigmoid(first[i] + second[i] + third[i])


def tanh_sums(first: Array, second: Array, third: Array, out: Array) -> None:
    """See `arithmetic.tanh_sums`."""
    for i in range(out.shape[0]):
        out[i] = tanh(first[i] + second[i] + third[i])


def plain_sums(first: Array, second: Array, out: Array) -> None:
    """See `arithmetic.plain_sums`."""
    for i in range(out.shape[0]):
        out[i] = first[i] + second[i]


def keep_and_admit(out: Array, keep: Array, admit: Array, candidate: Array) -> None:
    """See `arithmetic.keep_and_admit`."""
    for i in range(out.shape[0]):
        out[i] = keep[i] * out[i] + admit[i] * candidate[i]


def times_tanh(out: Array, by: Array, under: Array) -> None:
    """See `arithmetic.times_tanh`."""
    for i in range(out.shape[0]):
        out[i] = by[i] * tanh(under[i])


def towards(out: Array, first: Array, share: Array) -> None:
    """See `arithmetic.towards`."""
    for i in range(out.shape[0]):
        out[i] = first[i] + share[i] * (out[i] - first[i])


def interpolate(first: Array, second: Array, share: Any, out: Array) -> None:
    """See `arithmetic.interpolate`."""
    for gate in range(first.shape[0]):
        one, other, row = first[gate], second[gate], out[gate]
        for i in range(one.shape[0]):
            row[i] = one[i] + share * (other[i] - one[i])


def mixed(size: int, before: Any, there: Any, after: Any, padded: Array, out: Array) -> None:
    """See `arithmetic.mixed`."""
    middle, last = padded[size:], padded[2 * size :]
    for i in range(out.shape[0]):
        out[i] = before * padded[i] + there * middle[i] + after * last[i]


def index_of_largest(row: Array) -> int:
    """See `arithmetic.index_of_largest`."""
    largest, found = row[0], 0
    for i in range(row.shape[0]):
        if row[i] > largest:
            largest, found = row[i], i
        elif not row[i] <= largest:
            return -1
    return found if -math.inf < largest < math.inf else -1


def log_share(row: Array, index: int) -> Any:
    """See `arithmetic.log_share`."""
    largest = row[index]
    for i in range(row.shape[0]):
        row[i] = exp(row[i] - largest)
    total = row.dtype.type(0)
    for i in range(row.shape[0]):
        total += row[i]
    return row.dtype.type(-math.log(total))
