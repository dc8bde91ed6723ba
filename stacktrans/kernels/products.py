"""Products of few rows by a matrix that stays the same for a whole sequence, in panels.

The columns of such a matrix stand in panels, as wide as compiled code takes them at once (see
`stacktrans.kernels.tiles`); in Python a panel is a single column, so that they are its transpose.
"""

from typing import Any

import numpy as np

from stacktrans.kernels.compiling import Array, compiled_as, uses_numba


def panel_columns(dtype: np.dtype[Any]) -> int:
    """How wide a panel is."""
    if not uses_numba():
        return 1
    from stacktrans.kernels.tiles import PANEL_BYTES  # waits for numba

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


@compiled_as("stacktrans.kernels.tiles:product")
def product(left: Array, matrix: Array, out: Array) -> None:
    """Out = left @ matrix.

    Args:
        left: [B, K].
        matrix: [panels, K, width], from `panels`.
        out: [B or more, panels * width].
    """
    count, depth, width = matrix.shape
    out[: len(left)] = left @ matrix.transpose(1, 0, 2).reshape(depth, count * width)
