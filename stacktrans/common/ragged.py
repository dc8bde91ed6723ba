"""Rows of different lengths, one after another in one array; and groups of similar ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import numpy.typing as npt

STEPS_AT_ONCE = 2**17
"""The most steps of all strings that are run at once, unless one alone takes more."""


def starts_of(lengths: npt.NDArray[np.int64] | Sequence[int]) -> npt.NDArray[np.int64]:
    """Where each of n rows of some lengths starts, and the last ends: [n + 1]."""
    starts = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=starts[1:])
    return starts


@dataclass(frozen=True, eq=False, slots=True)
class Ragged(Sequence[npt.NDArray[Any]]):
    """n rows.

    Attributes:
        values: [M] those of the first row, then those of the second, and so on.
        starts: [n + 1] where those of each row start, and M.
    """

    values: npt.NDArray[Any]
    starts: npt.NDArray[np.int64]

    @classmethod
    def of(cls, rows: Sequence[npt.NDArray[Any]]) -> Ragged:
        """The same rows, of one type; rows that are one after another already are given back."""
        if isinstance(rows, Ragged):
            return rows
        values = np.concatenate(rows) if len(rows) else np.empty(0, np.int64)
        return cls(values, starts_of([*map(len, rows)]))

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """[n] of the rows."""
        return np.diff(self.starts)

    @property
    def rows(self) -> npt.NDArray[np.int64]:
        """[M] the index of the row of each value."""
        return np.repeat(np.arange(len(self)), self.lengths)

    def __len__(self) -> int:
        return len(self.starts) - 1

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
            raise ValueError("rows that do not follow one another")
        starts = self.starts[first : max(first, last) + 1]
        return Ragged(self.values[starts[0] : starts[-1]], starts - starts[0])

    def chosen(self, order: npt.NDArray[np.int64]) -> Ragged:
        """Some of the rows, in another order, by their indices."""
        return self._at(self.starts[:-1][order], self.lengths[order])

    def within(self, mask: npt.NDArray[np.bool_]) -> Ragged:
        """The rows that a mask [n] tells, in their order; needs no index for each value."""
        lengths = self.lengths
        return Ragged(self.values[np.repeat(mask, lengths)], starts_of(lengths[mask]))

    def cut(self, lengths: npt.NDArray[np.int64]) -> Ragged:
        """The first so many values of each row, [n]."""
        return self._at(self.starts[:-1], lengths)

    def reversed(self) -> Ragged:
        """Each row from its last value to its first."""
        ends = np.repeat(self.starts[1:] + self.starts[:-1] - 1, self.lengths)
        return Ragged(self.values[ends - np.arange(len(self.values))], self.starts)

    def padded(self, filler: Any = 0) -> npt.NDArray[Any]:
        """[n, longest] each row, and after it a filler."""
        shape = (len(self), int(self.lengths.max(initial=0)))
        table = np.full(shape, filler, self.values.dtype)
        table[np.arange(shape[1]) < self.lengths[:, None]] = self.values
        return table

    def last(self, missing: Any) -> npt.NDArray[Any]:
        """[n] the last value of each row, or what stands for one that is missing."""
        places = self.starts[1:] - 1
        found = np.append(self.values, missing)[places]
        return np.where(self.lengths > 0, found, missing)

    def where(
        self, chosen: npt.NDArray[np.bool_]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The rows of the chosen values, [M], and their places in these rows."""
        found = np.flatnonzero(chosen)
        rows = np.searchsorted(self.starts, found, side="right") - 1
        return rows, found - self.starts[rows]

    def placed(self, lengths: npt.NDArray[np.int64], first: int = 0, filler: Any = 0) -> Ragged:
        """Rows of some lengths, [n], each with one of these from a place on, and else a filler."""
        starts = starts_of(lengths)
        values = np.full(starts[-1], filler, self.values.dtype)
        places = np.repeat(starts[:-1] + first - self.starts[:-1], self.lengths)
        values[places + np.arange(len(places))] = self.values
        return Ragged(values, starts)

    def _at(self, places: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> Ragged:
        """Rows of some lengths that start at some places."""
        starts = starts_of(lengths)
        within = np.repeat(places - starts[:-1], lengths) + np.arange(starts[-1])
        return Ragged(self.values[within], starts)


def lengthened(rows: Ragged, others: Ragged) -> Ragged:
    """Each row with another one after it."""
    order = np.argsort(np.concatenate([rows.rows, others.rows]), kind="stable")
    values = np.concatenate([rows.values, others.values])[order]
    return Ragged(values, starts_of(rows.lengths + others.lengths))


def joined(parts: Sequence[Ragged]) -> Ragged:
    """The rows of each, one after another; at least one."""
    if len(parts) == 1:
        return parts[0]
    lengths = np.concatenate([part.lengths for part in parts])
    return Ragged(np.concatenate([part.values for part in parts]), starts_of(lengths))


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
