"""Products of few rows by a matrix that stays the same for a whole sequence.

A step multiplies B rows, B being the batch, by each weight. Libraries for linear algebra copy such
operands into the order their inner loop wants at every call; here the weight is put into that order
once a sequence, in panels of `PANEL_BYTES`. The compiled product is in `stacktrans.kernels.tiles`.
"""

import importlib
from typing import Any

import numpy as np
from llvmlite import binding

from stacktrans.kernels.arrays import Array
from stacktrans.kernels.compiling import before_compiling

VECTORS = 2  # vectors across a panel


def _registers() -> tuple[int, int]:
    """Bytes in a vector register of this processor, and how many of them it has."""
    features = binding.get_host_cpu_features()
    if features.get("avx512f"):
        return 64, 32
    if features.get("avx"):
        return 32, 16
    if features.get("neon"):
        return 16, 32
    return 16, 16


VECTOR_BYTES, REGISTERS = _registers()
PANEL_BYTES = VECTORS * VECTOR_BYTES
"""How wide a panel is."""


def product(left: Array, rows: int, matrix: Array, out: Array) -> None:
    """Out = left @ matrix, for the first rows.

    Args:
        left: [B, ...] with K numbers a row.
        rows: how many of the B.
        matrix: [panels, K, width], from `panels`.
        out: [B, ...] with panels * width numbers a row, as many rows set.
    """
    count, depth, width = matrix.shape
    given = left[:rows].reshape(rows, depth)
    whole = matrix.transpose(1, 0, 2).reshape(depth, count * width)
    out[:rows] = (given @ whole).reshape(rows, *out.shape[1:])


before_compiling(lambda _: importlib.import_module("stacktrans.kernels.tiles"))


def panel_columns(dtype: np.dtype[Any]) -> int:
    """How wide a panel is."""
    return PANEL_BYTES // dtype.itemsize


def padded(columns: int, dtype: np.dtype[Any]) -> int:
    """`columns` with those that fill the last panel."""
    width = panel_columns(dtype)
    return -(-columns // width) * width


def panels(matrix: Array) -> Array:
    """The columns of a matrix [K, N] in panels: [ceil(N / width), K, width].

    After the last column there are zeros.
    """
    depth, columns = matrix.shape
    width = panel_columns(matrix.dtype)
    count = -(-columns // width)
    filled = np.zeros((depth, count * width), dtype=matrix.dtype)
    filled[:, :columns] = matrix
    return np.ascontiguousarray(filled.reshape(depth, count, width).transpose(1, 0, 2))


def gate_panels(weight: Array, gates: int) -> Array:
    """The rows of a weight [gates * H, K] as columns of panels, each gate starting a panel."""
    size, depth = len(weight) // gates, weight.shape[1]
    whole = padded(size, weight.dtype)
    by_gate = np.zeros((gates, whole, depth), dtype=weight.dtype)
    by_gate[:, :size] = weight.reshape(gates, size, depth)
    return panels(by_gate.reshape(gates * whole, depth).T)
