"""The part of `speed.py` that times the matrix product of a step."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numba
import numpy as np
from measuring import BATCH
from results import Result, multiple
from scale import Scale

from stacktrans.kernels import (
    Array,
    matmul,  # noqa: F401 - registers the implementation of `product`
)
from stacktrans.kernels.batches import panels
from stacktrans.kernels.unroll import product

GATES = 4
TIMES = 200
"""Products in a measurement."""
njit: Any = numba.njit


@njit()  # type: ignore[untyped-decorator]
def in_tiles(left: Array, matrix: Array, out: Array) -> None:
    """Compute the product in tiles, `TIMES` times."""
    for _ in range(TIMES):
        product(left, 0, left.shape[0], matrix, out)


@njit(fastmath=True)  # type: ignore[untyped-decorator]
def in_loops(left: Array, matrix: Array, out: Array) -> None:
    """Compute the product in plain loops, the innermost of which is vectorized, `TIMES` times."""
    count, depth, width = matrix.shape
    for _ in range(TIMES):
        for panel in range(count):
            for row in range(left.shape[0]):
                part = out[row, panel * width : (panel + 1) * width]
                part[:] = 0
                for k in range(depth):
                    factor = left[row, k]
                    for j in range(width):
                        part[j] += factor * matrix[panel, k, j]


def by_library(left: Array, matrix: Array) -> None:
    """Compute the product with numpy's linear algebra library, `TIMES` times."""
    for _ in range(TIMES):
        left @ matrix


def products(scale: Scale) -> Iterator[Result]:
    """Part j: the matrix product of a step in tiles, in plain loops and with numpy."""
    rows = []
    for size, _ in scale.sizes:
        rng = np.random.default_rng(1)
        left = rng.normal(size=(BATCH, size)).astype(np.float32)
        matrix = rng.normal(size=(size, GATES * size)).astype(np.float32)
        packed = panels(matrix)
        out = np.empty((BATCH, packed.shape[0] * packed.shape[2]), np.float32)

        ours = _least(scale, partial(in_tiles, left, packed, out))
        loops = _least(scale, partial(in_loops, left, packed, out))
        library = _least(scale, partial(by_library, left, matrix))
        row = [f"{ours:.1f}", multiple(loops / ours), multiple(library / ours)]
        rows.append([str(size), str(GATES * size), *row])
    yield Result(
        "The product of a step",
        f"{BATCH} rows times the matrix of a step's gates, one thread: microseconds in tiles "
        "(`stacktrans/kernels/matmul.py`), and the ratios of the times of plain compiled loops "
        "over the same panels and of numpy's matmul to that.",
        ["matrix rows", "columns", "µs", "plain loops / tiles", "matmul / tiles"],
        rows,
    )


def _least(scale: Scale, work: Callable[[], None]) -> float:
    """Microseconds per product, the minimum of several measurements."""
    work()  # compiles
    times, ends = list[float](), time.perf_counter() + scale.seconds
    while len(times) < scale.rounds or time.perf_counter() < ends:
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return 1e6 * min(times) / TIMES
