"""Vectors that are met, each once: those that are nearly the same are one."""

from __future__ import annotations

import numpy as np

from stacktrans.kernels.compiling import Array
from stacktrans.tasks.alphabets import Ids


class Vectors:
    """Vectors with numbers, in the order in which they were met.

    Args:
        first: [D] the vector of number 0.
        grid: how far numbers may be apart that count as the same.
    """

    def __init__(self, first: Array, grid: float) -> None:
        self._scale = 1 / grid
        self._dtype, self._size = first.dtype, len(first)
        self._numbers: dict[bytes, int] = {}
        self._met: list[Array] = []
        self._table = np.zeros((0, self._size), self._dtype)
        self.add(first[None])

    def __len__(self) -> int:
        return len(self._met)

    def add(self, vectors: Array) -> Ids:
        """The numbers of vectors [N, D], of which some may be new."""
        rounded = np.rint(vectors * self._scale).astype(np.int32)
        found = np.empty(len(vectors), np.int64)
        for place, row in enumerate(rounded):
            number = self._numbers.setdefault(row.tobytes(), len(self._met))
            if number == len(self._met):
                self._met.append(vectors[place])
            found[place] = number
        return found

    def of(self, numbers: Ids) -> Array:
        """[..., D] the vectors of numbers [...]."""
        if len(self._table) < len(self._met):
            self._table = np.array(self._met, self._dtype).reshape(len(self._met), self._size)
        vectors: Array = self._table[numbers]
        return vectors
