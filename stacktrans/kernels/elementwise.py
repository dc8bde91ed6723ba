"""Compiled exp, sigmoid and tanh of a number, and dot products and sums of rows.

Each loop writes to one array, since only such loops are vectorized. A call of the C library takes
11 ns an element and keeps the loop around it from being vectorized. Therefore float32 is computed
by a polynomial, and float64, which only checks of gradients need, by the C library.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from stacktrans.kernels import Array
from stacktrans.kernels.compiling import before_compiling, compiled, reordered

Function = Callable[[Any], Any]
_ZERO = np.float32(0)
_ONE = np.float32(1)
_TWO = np.float32(2)
_TEN = np.float32(10)
_LARGEST = np.float32(89)  # exp of it is infinite
_LARGEST_SUM = np.float32(87)  # 1 + exp of minus it is 1
_LOG2_E = np.float32(1.4426950408889634)
# ln 2 in two parts: the first ends in enough zeros for its product by a small whole number to
# be exact.
_LN2_HIGH = np.float32(0.693359375)
_LN2_LOW = np.float32(-2.1219444005469057e-4)
# Adding and subtracting it rounds to the nearest whole number, which meanwhile stands in the low
# bits of the sum.
_ROUNDER = np.float32(1.5 * 2**23)
# expm1(r) / r - 1 = r (C2 + C3 r + ...), relative error of expm1 under 2e-8 for |r| <= ln(2) / 2
# (least squares with weights repeated until the errors level out).
_C2 = np.float32(0.4999999701976776)
_C3 = np.float32(0.1666654348373413)
_C4 = np.float32(0.04166720062494278)
_C5 = np.float32(0.008366520516574383)
_C6 = np.float32(0.0013882523635402322)
_BIAS = 127  # of the exponent of a float32
_MANTISSA = 23  # bits of it


@compiled
def _exp_parts(x: Any) -> tuple[Any, Any]:
    """exp(r) - 1 and 2 ** n with x = r + n ln 2, of a float32 x >= -87, or a NaN.

    From 89 on the power of two is infinity.
    """
    # Written so that a NaN passes through.
    x = _LARGEST if x > _LARGEST else x
    rounded = x * _LOG2_E + _ROUNDER
    whole = rounded - _ROUNDER
    rest = (x - whole * _LN2_HIGH) - whole * _LN2_LOW
    poly = _C2 + rest * (_C3 + rest * (_C4 + rest * (_C5 + rest * _C6)))
    bits = np.float32(rounded).view(np.int32) + _BIAS << _MANTISSA
    power = np.int32(bits).view(np.float32)
    return rest + rest * rest * poly, power


@compiled
def _sigmoid_single(x: Any) -> Any:
    x = _LARGEST_SUM if x > _LARGEST_SUM else x
    less_one, scale = _exp_parts(-x)
    return _ONE / (_ONE + scale * (_ONE + less_one))


@compiled
def _tanh_single(x: Any) -> Any:
    # tanh is 1 - 4e-9 at 10, which is 1 in float32.
    x = _TEN if x > _TEN else x
    x = -_TEN if x < -_TEN else x
    less_one, scale = _exp_parts(_TWO * x)
    power = scale * less_one + (scale - _ONE)
    return power / (power + _TWO)


@compiled
def _exp_single(x: Any) -> Any:
    less_one, scale = _exp_parts(-_LARGEST_SUM if x < -_LARGEST_SUM else x)
    return _ZERO if x < -_LARGEST_SUM else scale * (_ONE + less_one)


def exp(x: Any) -> Any:
    """The exponential of x; for float32 it is 0 where it is under 1.6e-38."""
    return np.exp(x)


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x))."""
    with np.errstate(over="ignore"):  # which is 0
        return 1 / (1 + np.exp(-x))


def tanh(x: Any) -> Any:
    """Hyperbolic tangent."""
    return np.tanh(x)


def _compute_by(function: Function, single: Function, double: Function) -> None:
    """Have compiled code compute a function of float32 by `single`, and of others by `double`."""

    def choose(x: Any) -> Any:
        return single if str(x) == "float32" else double

    # Not strict, which would require the annotations in the lambdas.
    before_compiling(lambda extending: extending.overload(function, strict=False)(choose))


_compute_by(exp, lambda x: _exp_single(x), lambda x: math.exp(x))
_compute_by(sigmoid, lambda x: _sigmoid_single(x), lambda x: 1.0 / (1.0 + math.exp(-x)))
_compute_by(tanh, lambda x: _tanh_single(x), lambda x: math.tanh(x))


@reordered
def dot(left: Array, right: Array) -> Any:
    """The sum of left[i] * right[i] over the length of the left operand."""
    total = left.dtype.type(0)
    for i in range(left.shape[0]):
        total += left[i] * right[i]
    return total


@compiled
def add_scaled(out: Array, scale: Any, row: Array) -> None:
    """Add scale * row to out."""
    for i in range(out.shape[0]):
        out[i] += scale * row[i]


@compiled
def add(out: Array, more: Array) -> None:
    """Add `more` to `out`, over the shorter length."""
    for i in range(min(out.shape[0], more.shape[0])):
        out[i] += more[i]


@compiled
def copy(out: Array, row: Array) -> None:
    """Copy the start of a row to `out`."""
    for i in range(out.shape[0]):
        out[i] = row[i]
