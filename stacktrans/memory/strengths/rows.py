"""The rows of memories with ends, whose strengths are pushed, popped and read: the arrays.

A pop by u takes away the rows nearest the end that have strengths summing up to u
or less, for good, and what is left of u from the next row, the boundary. A read takes
rows from the end inwards until their strengths reach 1. So the rows that are left are
kept in a doubly linked list, and a step costs as much as the rows it takes away (each
only once) and those it reads, however many there are.

The list is a ring: row 0 is no row, but stands above the top and below the bottom. The
links and the strength of a row taken away stay as they were, so that going backwards it
can be put back: what has to be recorded is only, for each pop, the row at the end and the
strength of the boundary before it.

Several memories side by side are one with a ring each, whose rows are numbered together: the ends
of its rings are numbered as in `stacktrans.common.ends`.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from stacktrans.common.ends import BOTTOM, TOP, Ends
from stacktrans.kernels.arrays import Array, fresh, fresh_zeros, room_for, taken
from stacktrans.kernels.compiling import compiled, compiled_entry


class EndArrays(NamedTuple):
    """The table of `stacktrans.common.ends` as arrays.

    Attributes:
        pops: [pops, 2] the signal, and the end it pops from.
        pushes: [pushes, 2] the signal, and the end it pushes to.
        reads: [reads] the ends read.
    """

    pops: Array
    pushes: Array
    reads: Array

    @classmethod
    def of(cls, ends: Ends) -> "EndArrays":
        """Those of a table without moves and depths."""
        pops, pushes = np.array(ends.pops, np.int64), np.array(ends.pushes, np.int64)
        reads = np.array(ends.reads, np.int64)
        return cls(pops.reshape(-1, 2), pushes.reshape(-1, 2), reads)


class Rows(NamedTuple):
    """The rows of a memory and what was done with them in T steps, for a batch of B.

    Rows are numbered from 1.

    Attributes:
        ends: what a step does.
        strength: [B, rows + 1] the strength of each row.
        links: [B, 2 * rings, rows + 1] of each ring, the row below each of its rows, and the row
            above it.
        values: [B, rows, m] the vectors of all rows.
        first_before: [B, T, pops] the row at the end before each pop.
        strength_before: [B, T, pops] the strength of the boundary before each pop.
        old: how many rows there were before the first step.
    """

    ends: EndArrays
    strength: Array
    links: Array
    values: Array
    first_before: Array
    strength_before: Array
    old: int = 0

    @property
    def held(self) -> None:
        """Nothing is known of what is held."""

    def forward(self, part: slice, places: slice) -> "Rows":
        """See `Store`."""
        return Rows._make((self.ends, *(array[part] for array in self[1:6]), self.old))

    def backward(self, part: slice, places: slice) -> "Backward":
        """See `Store`."""
        rows = self.forward(part, places)
        return Backward(
            rows.ends,
            # Going backwards takes the memory apart: a copy, so that it can be done twice.
            rows.strength.copy(),
            rows.links.copy(),
            *rows[3:6],
            fresh_zeros(*rows.strength.shape, dtype=rows.strength.dtype),
            fresh_zeros(*rows.values.shape, dtype=rows.values.dtype),
        )

    def with_room(self, steps: int) -> "Rows":
        """See `Store`; where there is not enough, rows that were taken away are left behind."""
        batch, room, columns = self.values.shape
        added = steps * len(self.ends.pushes)
        if self.old + added <= room:
            first, strength = _records(self.ends, batch, steps, self.strength.dtype)
            return self._replace(first_before=first, strength_before=strength)
        left = rows_left(self.links)
        shape = (batch, room_for(left, left + added), columns)
        values = fresh(*shape, dtype=self.values.dtype)
        moved = empty_rows(self.ends, self.links.shape[1] // 2, values, steps)._replace(old=left)
        move_rows(self, moved)
        return moved

    def after(self, steps: int) -> "Rows":
        """See `Store`."""
        return self._replace(old=self.old + steps * len(self.ends.pushes))

    def chosen(self, items: Array) -> "Rows":
        """See `Store`."""
        strength, links, values = (taken(array, items) for array in self[1:4])
        return self._replace(strength=strength, links=links, values=values)


class Backward(NamedTuple):
    """The same going backwards, down to the empty memory.

    Attributes are those of `Rows`, in place, and

        grad: [B, rows + 1] zeros; the gradients of strengths.
        grad_values: [B, rows, m] zeros; become the gradients of the values.
    """

    ends: EndArrays
    strength: Array
    links: Array
    values: Array
    first_before: Array
    strength_before: Array
    grad: Array
    grad_values: Array


def empty_rows(ends: EndArrays, rings: int, values: Array, steps: int) -> Rows:
    """A memory without rows, which may get as many as there are values."""
    batch, rows, _ = values.shape
    links = np.empty((batch, 2 * rings, rows + 1), dtype=np.int32)
    links[:, :, 0] = 0
    strength = np.empty((batch, rows + 1), dtype=values.dtype)
    return Rows(ends, strength, links, values, *_records(ends, batch, steps, values.dtype))


def _records(ends: EndArrays, batch: int, steps: int, dtype: np.dtype[Any]) -> tuple[Array, Array]:
    """Room for `Rows.first_before` and `Rows.strength_before`."""
    shape = (batch, steps, len(ends.pops))
    return np.empty(shape, dtype=np.int32), np.empty(shape, dtype=dtype)


@compiled
def push_row(links: Array, item: int, end: int, row: int) -> None:
    """Put a row at an end."""
    first = links[item, end, 0]
    links[item, end, row] = first
    links[item, end ^ 1, row] = 0
    links[item, end ^ 1, first] = row
    links[item, end, 0] = row


@compiled_entry(lambda links: links.shape[0])
def rows_left(links: Array) -> int:
    """The largest number of rows that an item of the batch has left."""
    most = 0
    for item in range(links.shape[0]):
        count = 0
        for ring in range(links.shape[1] // 2):
            above = links[item, 2 * ring + BOTTOM]
            row = above[0]
            while row != 0:
                count += 1
                row = above[row]
        most = max(most, count)
    return most


@compiled_entry(lambda rows, to: len(rows.links))
def move_rows(rows: Rows, to: Rows) -> None:
    """Move the rows that are left to new arrays, numbered ring by ring from the bottom."""
    for item in range(rows.links.shape[0]):
        count = 0
        for ring in range(rows.links.shape[1] // 2):
            top, bottom = 2 * ring + TOP, 2 * ring + BOTTOM
            to.links[item, top, 0] = 0
            to.links[item, bottom, 0] = 0
            row = rows.links[item, bottom, 0]
            while row != 0:
                count += 1
                to.strength[item, count] = rows.strength[item, row]
                for i in range(rows.values.shape[2]):
                    to.values[item, count - 1, i] = rows.values[item, row - 1, i]
                push_row(to.links, item, top, count)
                row = rows.links[item, bottom, row]


def shares(rows: Rows, steps: int) -> tuple[float, list[Array]]:
    """What the first item of a batch holds after some steps, all of whose rows are still there.

    Returns:
        The sum of all strengths, and for each end that is read, [steps] how much of what was
        pushed at each step a read takes.
    """
    strength, links = rows.strength[0], rows.links[0]
    pushes, one = len(rows.ends.pushes), strength.dtype.type(1)
    held = 0.0
    for ring in range(len(links) // 2):
        held += sum(float(strength[row]) for row in _inward(links[2 * ring + BOTTOM]))
    found = []
    for end in rows.ends.reads.tolist():
        parts = np.zeros(steps, strength.dtype)
        total = strength.dtype.type(0)
        for row in _inward(links[end]):
            if total >= one:
                break
            parts[(row - 1) // pushes] += min(strength[row], one - total)
            total += strength[row]
        found.append(parts)
    return held, found


def rows_held(rows: Rows) -> Iterator[tuple[Array, Array]]:
    """What each ring of the first item of a batch holds, all of whose rows are still there.

    Gives the step, from 0, that pushed each row, and its strength, bottom first: [n] each.
    """
    strength, links, pushes = rows.strength[0], rows.links[0], len(rows.ends.pushes)
    for ring in range(len(links) // 2):
        held = np.array([*_inward(links[2 * ring + BOTTOM])], np.int64)
        yield (held - 1) // pushes, strength[held]


def _inward(links: Array) -> Iterator[int]:
    """The rows of a memory from an end inwards."""
    row = int(links[0])
    while row:
        yield row
        row = int(links[row])
