"""Elementwise functions that vectorise, in the precision of their argument.

A call of the C library costs 11 ns an element, and keeps the loop around it from being
vectorised; so float32 goes through a polynomial, and float64, which is here for checks
of gradients, through the C library.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from stacktrans.kernels.compiling import Array, Function, compiled, compiled_sum

_ZERO = np.float32(0)
_ONE = np.float32(1)
_TWO = np.float32(2)
_TEN = np.float32(10)
_LARGEST = np.float32(89)  # exp of it is infinite
_LARGEST_SUM = np.float32(87)  # 1 + exp of minus it is 1
_LOG2_E = np.float32(1.4426950408889634)
# ln 2 in two parts: the first has zeros enough at its end for its product by a small
# whole number to be exact.
_LN2_HIGH = np.float32(0.693359375)
_LN2_LOW = np.float32(-2.1219444005469057e-4)
# Added to a number and taken off again, it leaves the nearest whole number, which stands
# meanwhile in the low bits of the sum.
_ROUNDER = np.float32(1.5 * 2**23)
# expm1(r) / r - 1 = r (C2 + C3 r + ...), relative error of expm1 under 2e-8 for |r| <= ln(2) / 2
# (least squares with weights repeated until the errors level out).
_C2 = np.float32(0.4999999701976776)
_C3 = np.float32(0.1666654348373413)
_C4 = np.float32(0.04166720062494278)
_C5 = np.float32(0.008366520516574383)
_C6 = np.float32(0.0013882523635402322)


def _write_power_of_two(_context: Any, _rounded: Any) -> Any:
    """2 to the whole number that stands in the low bits of a float32 after `_ROUNDER`."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        bits = ir.IntType(32)
        whole = builder.bitcast(args[0], bits)
        biased = builder.add(whole, ir.Constant(bits, 127))
        return builder.bitcast(builder.shl(biased, ir.Constant(bits, 23)), ir.FloatType())

    return types.float32(types.float32), generate


_power_of_two: Any = intrinsic(_write_power_of_two)


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
    return rest + rest * rest * poly, _power_of_two(rounded)


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


def _in_float32(single: Any) -> Callable[[Function], Function]:
    """In compiled code, what a function is for float32; for float64 it is as it is written."""

    def declared(function: Function) -> Function:
        # Not strict: it would want the annotations repeated in the lambda.
        @overload(function, strict=False)
        def choose(x: Any) -> Any:
            return (lambda x: single(x)) if x == types.float32 else function

        return function

    return declared


@_in_float32(_sigmoid_single)
def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x))."""
    return 1.0 / (1.0 + math.exp(-x))


@_in_float32(_tanh_single)
def tanh(x: Any) -> Any:
    """Hyperbolic tangent."""
    return math.tanh(x)


@_in_float32(_exp_single)
def exp(x: Any) -> Any:
    """The exponential of x; in float32 it is 0 where it would be under 1.6e-38."""
    return math.exp(x)


@compiled_sum
def dot(left: Array, right: Array) -> Any:
    """Sum of left[i] * right[i]."""
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
    """Add as many numbers as both have."""
    for i in range(min(out.shape[0], more.shape[0])):
        out[i] += more[i]


@compiled
def scale(out: Array, by: float) -> None:
    """out *= by, in the precision of out."""
    factor = out.dtype.type(by)
    for i in range(out.shape[0]):
        out[i] *= factor


@compiled
def copy(out: Array, row: Array) -> None:
    """Set out to the numbers at the start of row."""
    for i in range(out.shape[0]):
        out[i] = row[i]
