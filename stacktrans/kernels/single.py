"""Functions of a float32 that vectorise.

A call of the C library costs 11 ns an element, and keeps the loop around it from being vectorised;
so float32 goes through a polynomial, and float64, which is here for checks of gradients, through
the C library.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from stacktrans.kernels import arithmetic
from stacktrans.kernels.compiling import compiled

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


def _sigmoid(x: Any) -> Any:
    return 1.0 / (1.0 + math.exp(-x))


def _tanh(x: Any) -> Any:
    return math.tanh(x)


def _exp(x: Any) -> Any:
    return math.exp(x)


def _declare(function: Any, single: Any, other: Callable[[Any], Any]) -> None:
    """What a function is in compiled code for float32, and for others."""

    # Not strict: it would want the annotations repeated in the lambda.
    @overload(function, strict=False)
    def choose(x: Any) -> Any:
        return (lambda x: single(x)) if x == types.float32 else other


_declare(arithmetic.sigmoid, _sigmoid_single, _sigmoid)
_declare(arithmetic.tanh, _tanh_single, _tanh)
_declare(arithmetic.exp, _exp_single, _exp)
DECLARED = (arithmetic.sigmoid, arithmetic.tanh, arithmetic.exp)
"""What is declared here."""
