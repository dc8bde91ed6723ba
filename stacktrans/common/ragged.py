"""Ragged arrays: rows of different lengths in one array; grouping of indices of like size."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import numpy.typing as npt

STEPS_AT_ONCE = 2**17
"""The maximum number of steps of all strings of a batch, unless a single string takes more."""


def row_starts(lengths: npt.NDArray[np.int64] | Sequence[int]) -> npt.NDArray[np.int64]:
    """The index at which each of n rows starts, and the total length: [n + 1]."""
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


@dataclass(frozen=True, eq=False, slots=True)
class Ragged(Sequence[npt.NDArray[Any]]):
    """A ragged array of n rows.

    Attributes:
        values: [M] the values of the first row, then those of the second, and so on.
        starts: [n + 1] the index in `values` at which each row starts, and M.
    """

    values: npt.NDArray[Any]
    starts: npt.NDArray[np.int64]

    @classmethod
    def of(cls, rows: Sequence[npt.NDArray[Any]]) -> Ragged:
        """Make a ragged array of rows of one type; one that is ragged already is returned as is."""
        if isinstance(rows, Ragged):
            return rows
        values = np.concatenate(rows) if len(rows) else np.empty(0, np.int64)
        return cls(values, row_starts([*map(len, rows)]))

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """[n] the length of each row."""
        return np.diff(self.starts)

    @property
    def row_indices(self) -> npt.NDArray[np.int64]:
        """[M] the row of each value."""
        return np.repeat(np.arange(len(self)), self.lengths)

    @property
    def positions(self) -> npt.NDArray[np.int64]:
        """[M] the index of each value in its row."""
        return np.arange(len(self.values)) - np.repeat(self.starts[:-1], self.lengths)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __iter__(self) -> Iterator[npt.NDArray[Any]]:
        for begin, end in itertools.pairwise(self.starts.tolist()):
            yield self.values[begin:end]

    @overload
    def __getitem__(self, index: int) -> npt.NDArray[Any]: ...

    @overload
    def __getitem__(self, index: slice) -> Ragged: ...

    def __getitem__(self, index: int | slice) -> npt.NDArray[Any] | Ragged:
        if not isinstance(index, slice):
            row = range(len(self))[index]
            return self.values[self.starts[row] : self.starts[row + 1]]
        first, last, step = index.indices(len(self))
        if step != 1:
            raise ValueError("a slice of a ragged array needs a step of 1")
        starts = self.starts[first : max(first, last) + 1]
        return Ragged(self.values[starts[0] : starts[-1]], starts - starts[0])

    def take(self, indices: npt.NDArray[np.int64]) -> Ragged:
        """The rows at some indices, in the order of the indices."""
        return self._slices(self.starts[:-1][indices], self.lengths[indices])

    def compress(self, mask: npt.NDArray[np.bool_]) -> Ragged:
        """The rows that a mask [n] selects; faster than `take`, which indexes every value."""
        lengths = self.lengths
        return Ragged(self.values[np.repeat(mask, lengths)], row_starts(lengths[mask]))

    def truncate(self, lengths: npt.NDArray[np.int64]) -> Ragged:
        """Each row cut to its first `lengths` values, [n]."""
        return self._slices(self.starts[:-1], lengths)

    def reversed(self) -> Ragged:
        """Each row from its last value to its first."""
        ends = np.repeat(self.starts[1:] + self.starts[:-1] - 1, self.lengths)
        return Ragged(self.values[ends - np.arange(len(self.values))], self.starts)

    def padded(self, filler: Any = 0) -> npt.NDArray[Any]:
        """[n, longest] the rows, padded on the right with a filler."""
        shape = (len(self), int(self.lengths.max(initial=0)))
        table = np.full(shape, filler, self.values.dtype)
        table[np.arange(shape[1]) < self.lengths[:, None]] = self.values
        return table

    def last(self, missing: Any) -> npt.NDArray[Any]:
        """[n] the last value of each row; `missing` for an empty row."""
        last = np.append(self.values, missing)[self.starts[1:] - 1]
        return np.where(self.lengths > 0, last, missing)

    def padded_to(self, lengths: npt.NDArray[np.int64], first: int = 0, filler: Any = 0) -> Ragged:
        """Rows of the given lengths, [n], each with one of these from index `first` on.

        The rest of each row is the filler.
        """
        starts = row_starts(lengths)
        values = np.full(starts[-1], filler, self.values.dtype)
        shifts = np.repeat(starts[:-1] + first - self.starts[:-1], self.lengths)
        values[shifts + np.arange(len(shifts))] = self.values
        return Ragged(values, starts)

    def _slices(self, begins: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> Ragged:
        """Rows of some lengths that begin at some indices of `values`."""
        starts = row_starts(lengths)
        indices = np.repeat(begins - starts[:-1], lengths) + np.arange(starts[-1])
        return Ragged(self.values[indices], starts)


def concatenate_pairwise(rows: Ragged, others: Ragged) -> Ragged:
    """Each row followed by the row of `others` with the same index."""
    order = np.argsort(np.concatenate([rows.row_indices, others.row_indices]), kind="stable")
    values = np.concatenate([rows.values, others.values])[order]
    return Ragged(values, row_starts(rows.lengths + others.lengths))


def concatenate(parts: Sequence[Ragged]) -> Ragged:
    """The rows of the first part, then those of the second, and so on; at least one part."""
    if len(parts) == 1:
        return parts[0]
    lengths = np.concatenate([part.lengths for part in parts])
    return Ragged(np.concatenate([part.values for part in parts]), row_starts(lengths))


def batches_of(sizes: Sequence[int], most: int) -> Iterator[list[int]]:
    """Group indices of items of similar size, so that count times largest size stays within `most`.

    An item larger than `most` gets a group of its own.
    """
    group: list[int] = []
    for index in sorted(range(len(sizes)), key=sizes.__getitem__):
        if group and (len(group) + 1) * sizes[index] > most:
            yield group
            group = []
        group.append(index)
    if group:
        yield group
