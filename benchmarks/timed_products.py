"""The part of `speed.py` that times the product of a step."""

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
    matmul,  # noqa: F401 - compiles what follows
)
from stacktrans.kernels.batches import panels
from stacktrans.kernels.unroll import product

GATES = 4
TIMES = 200
"""Products in a measurement."""
njit: Any = numba.njit


@njit()  # type: ignore[untyped-decorator]
def in_tiles(left: Array, matrix: Array, out: Array) -> None:
    """The compiled product, many times."""
    for _ in range(TIMES):
        product(left, left.shape[0], matrix, out)


@njit(fastmath=True)  # type: ignore[untyped-decorator]
def in_loops(left: Array, matrix: Array, out: Array) -> None:
    """The same in plain loops, of which the innermost is vectorised."""
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
    """The same by numpy, which calls a library for linear algebra."""
    for _ in range(TIMES):
        left @ matrix


def products(scale: Scale) -> Iterator[Result]:
    """Part j."""
    rows = []
    for size, _ in scale.sizes:
        drawn = np.random.default_rng(1)
        left = drawn.normal(size=(BATCH, size)).astype(np.float32)
        matrix = drawn.normal(size=(size, GATES * size)).astype(np.float32)
        packed = panels(matrix)
        out = np.empty((BATCH, packed.shape[0] * packed.shape[2]), np.float32)

        ours = _least(scale, partial(in_tiles, left, packed, out))
        loops = _least(scale, partial(in_loops, left, packed, out))
        library = _least(scale, partial(by_library, left, matrix))
        row = [f"{ours:.1f}", multiple(loops / ours), multiple(library / ours)]
        rows.append([str(size), str(GATES * size), *row])
    yield Result(
        "The product of a step",
        f"{BATCH} rows by the matrix of a step's gates, one thread: microseconds in tiles "
        "(`stacktrans/kernels/matmul.py`), and the multiple of them that plain compiled loops over "
        "the same panels take, and a call of numpy's matmul.",
        ["rows of it", "columns", "µs", "plain loops take", "matmul takes"],
        rows,
    )


def _least(scale: Scale, work: Callable[[], None]) -> float:
    """Microseconds of a product, the least of several measurements."""
    work()  # which compiles
    found, ends = list[float](), time.perf_counter() + scale.seconds
    while len(found) < scale.rounds or time.perf_counter() < ends:
        begun = time.process_time()
        work()
        found.append(time.process_time() - begun)
    return 1e6 * min(found) / TIMES
