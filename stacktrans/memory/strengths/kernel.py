"""Arrays and compiled steps of stacks, queues and deques of rows with strengths.

These memories (grefenstette2015, equations 1 to 11) differ only in a table, `Ends`: which signal
pops or pushes at which end, and which ends are read.

A pop with strength u removes the rows nearest to its end whose strengths add up to u or less, for
good, and takes the rest of u from the next row, the boundary. A read takes rows from its end
inwards until their strengths reach 1. So the rows that are left form a doubly linked list, and the
cost of a step is the number of rows that it removes (each only once) and reads, however many there
are.

The list is a ring: row 0 is a sentinel above the top and below the bottom. Removed rows keep their
links and strengths, so that the backward pass can insert them again: all that each pop records is
the row at its end and the strength of the boundary before it.

Several memories side by side are one memory with several rings, whose rows are numbered together;
the ends of the rings are numbered as in `stacktrans.common.ends`.

Derivatives by strengths. A pop leaves the boundary its own strength and those of the rows removed,
less u: so the gradient of the boundary goes to each of them and, negated, to u. A read takes of its
boundary, the row within which the sum reaches 1, what is missing to 1: so each row before it has
the gradient x[i] - x[boundary], where x[i] is the product of the read's gradient with row i.

Ties are broken as in `stacktrans.memory.strengths.definition`. If the rows removed have just the
strength of the pop, the gradient of the boundary is its own alone; if the rows before the boundary
fill a read, the boundary has no part in it. A row pushed with strength 0 has the gradient of the
reads of its own step, even if they end before it, and of the next pop, if that removes it.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from stacktrans.common.ends import BOTTOM, TOP, Ends
from stacktrans.kernels import Array, kernel
from stacktrans.kernels.compiling import compiled, reordered
from stacktrans.kernels.kernel import StoreSizes, room_for, select_items
from stacktrans.kernels.steps import BatchStep
from stacktrans.memory.base import Memory, MemorySnapshot, RowContents


class EndArrays(NamedTuple):
    """The table `Ends` as arrays.

    Attributes:
        pops: [pops, 2] the signal and the end of each pop.
        pushes: [pushes, 2] the signal and the end of each push.
        reads: [reads] the end of each read.
    """

    pops: Array
    pushes: Array
    reads: Array

    @classmethod
    def of(cls, ends: Ends) -> "EndArrays":
        """The arrays of a table without moves and depths."""
        pops, pushes = np.array(ends.pops, np.int64), np.array(ends.pushes, np.int64)
        reads = np.array(ends.reads, np.int64)
        return cls(pops.reshape(-1, 2), pushes.reshape(-1, 2), reads)


class Rows(NamedTuple):
    """The rows of a memory, numbered from 1, and what T steps recorded, for a batch of B.

    Attributes:
        ends: of pops, pushes and reads.
        strength: [B, rows + 1] the strength of each row.
        links: [B, 2 * rings, rows + 1] of each ring, the row below each of its rows, and the row
            above it.
        values: [B, rows, m] the vectors of all rows.
        end_row: [B, T, pops] the row at its end before each pop.
        boundary_strength: [B, T, pops] the strength of the boundary before each pop.
        initial_rows: the number of rows before the first step.
    """

    ends: EndArrays
    strength: Array
    links: Array
    values: Array
    end_row: Array
    boundary_strength: Array
    initial_rows: int = 0

    @property
    def contents(self) -> None:
        """None: what the memory of an earlier segment holds is not carried on."""

    def forward(self, part: slice, indices: slice) -> "Rows":
        """See `Store`."""
        return Rows._make((self.ends, *(array[part] for array in self[1:6]), self.initial_rows))

    def backward(self, part: slice, indices: slice) -> "RowsBackward":
        """See `Store`."""
        rows = self.forward(part, indices)
        return RowsBackward(
            # Copies, since the backward pass takes the memory apart, and may run twice.
            rows._replace(strength=rows.strength.copy(), links=rows.links.copy()),
            np.zeros(rows.strength.shape, rows.strength.dtype),
            np.zeros(rows.values.shape, rows.values.dtype),
        )

    def with_room(self, steps: int, taken: int) -> "Rows":
        """See `Store`; if there is not enough room, only rows that are left are moved."""
        batch, room, columns = self.values.shape
        pushes = len(self.ends.pushes)
        before, added = self.initial_rows + taken * pushes, steps * pushes
        if before + added <= room:
            first, strength = _records(self.ends, batch, steps, self.strength.dtype)
            return self._replace(end_row=first, boundary_strength=strength, initial_rows=before)
        by_item = [_rows_left(links) for links in self.links]
        left = max((sum(map(len, by_ring)) for by_ring in by_item), default=0)
        values = np.empty((batch, room_for(left, left + added), columns), self.values.dtype)
        moved = empty_rows(self.ends, self.links.shape[1] // 2, values, steps, left)
        for item, by_ring in enumerate(by_item):
            self._move(item, by_ring, moved)
        return moved

    def _move(self, item: int, by_ring: Sequence[Array], to: "Rows") -> None:
        """Copy the rows of an item to new arrays, numbered ring by ring from the bottom."""
        end = 1
        for ring, rows in enumerate(by_ring):
            first, end = end, end + len(rows)
            to.strength[item, first:end] = self.strength[item, rows]
            to.values[item, first - 1 : end - 1] = self.values[item, rows - 1]
            numbers = np.array([0, *range(first, end)])
            to.links[item, 2 * ring + BOTTOM, numbers] = np.roll(numbers, -1)
            to.links[item, 2 * ring + TOP, numbers] = np.roll(numbers, 1)

    def select(self, items: Array) -> "Rows":
        """See `Store`."""
        strength, links, values = (select_items(array, items) for array in self[1:4])
        return self._replace(strength=strength, links=links, values=values)

    def snapshot(self, steps: int, reads: Sequence[str], rings: Sequence[str]) -> MemorySnapshot:
        """The contents of the first memory of a batch after some steps, whose rows never moved.

        Args:
            steps: the number of steps.
            reads: the names of the reads.
            rings: the names of the rings.
        """
        strength, links = self.strength[0], self.links[0]
        pushes, one = len(self.ends.pushes), strength.dtype.type(1)
        by_ring, read_weights = _rows_left(links), {}
        for name, end in zip(reads, self.ends.reads.tolist(), strict=True):
            read_weights[name] = np.zeros(steps, strength.dtype)
            total = strength.dtype.type(0)
            for row in _inward(links[end]):
                if total >= one:
                    break
                read_weights[name][(row - 1) // pushes] += min(strength[row], one - total)
                total += strength[row]
        named = zip(rings, by_ring, strict=True)
        return MemorySnapshot(
            total_strength=sum((sum(strength[rows].tolist()) for rows in by_ring), start=0.0),
            read_weights=read_weights,
            rows={name: RowContents((ring - 1) // pushes, strength[ring]) for name, ring in named},
        )


class RowsBackward(NamedTuple):
    """The rows of a memory going backwards, down to the empty memory.

    Attributes:
        rows: changed in place.
        grad_strength: [B, rows + 1] zeros; the gradients of strengths.
        grad_values: [B, rows, m] zeros; become the gradients of the values.
    """

    rows: Rows
    grad_strength: Array
    grad_values: Array


def empty_rows(
    ends: EndArrays, rings: int, values: Array, steps: int, initial_rows: int = 0
) -> Rows:
    """A memory without rows, and with room for as many as `values` has."""
    batch, rows, _ = values.shape
    links = np.empty((batch, 2 * rings, rows + 1), dtype=np.int32)
    links[:, :, 0] = 0
    strength = np.empty((batch, rows + 1), dtype=values.dtype)
    records = _records(ends, batch, steps, values.dtype)
    return Rows(ends, strength, links, values, *records, initial_rows)


def _records(ends: EndArrays, batch: int, steps: int, dtype: np.dtype[Any]) -> tuple[Array, Array]:
    """Room for the records of steps: `end_row` and `boundary_strength`."""
    shape = (batch, steps, len(ends.pops))
    return np.empty(shape, dtype=np.int32), np.empty(shape, dtype=dtype)


def _rows_left(links: Array) -> list[Array]:
    """The rows in each ring of a memory, from the bottom, by its links [2 * rings, rows + 1]."""
    return [np.array([*_inward(of_end)], np.int64) for of_end in links[BOTTOM::2]]


def _inward(links: Array) -> Iterator[int]:
    """The rows of a ring from an end inwards."""
    row = int(links[0])
    while row:
        yield row
        row = int(links[row])


def new_rows(memory: Memory[Any], sizes: StoreSizes) -> Rows:
    """The `Memory.store` of stacks, queues and deques; contents are not carried."""
    assert memory.ends is not None
    values = np.empty((sizes.batch, sizes.steps * memory.pushes, sizes.columns), sizes.dtype)
    return empty_rows(EndArrays.of(memory.ends), len(memory.ends.names), values, sizes.steps)


# links[item, end] are the links from a row to the next one further from an end, and those to the
# next one nearer to it are links[item, end ^ 1]; links[item, end, 0] is the row at the end.


# References to arrays are counted, so they are taken from the memory before the loop over items.


@compiled
def _pop(memory: Rows, step: BatchStep, pop: int, signals: Array) -> None:
    """Pop at an end, and record the row there and the strength of the boundary."""
    strength, links, indices, number = memory.strength, memory.links, step.indices, step.number
    end_row, boundary_strength = memory.end_row, memory.boundary_strength
    signal, end = memory.ends.pops[pop]
    for item in range(indices.shape[0]):
        amount = signals[indices[item], signal]
        row = links[item, end, 0]
        end_row[item, number, pop] = row
        total = strength.dtype.type(0)
        while row != 0 and total + strength[item, row] <= amount:
            total += strength[item, row]
            row = links[item, end, row]
        links[item, end, 0] = row
        links[item, end ^ 1, row] = 0
        boundary_strength[item, number, pop] = 0
        if row != 0:
            boundary_strength[item, number, pop] = strength[item, row]
            strength[item, row] = total + strength[item, row] - amount


@compiled
def _pop_backward(
    memory: RowsBackward, step: BatchStep, pop: int, signals: Array, grad_signals: Array
) -> None:
    """Undo a pop, and set the gradient of its signal."""
    rows = memory.rows
    strength, links, indices, number = rows.strength, rows.links, step.indices, step.number
    end_row, boundary_strength = rows.end_row, rows.boundary_strength
    grad_strength = memory.grad_strength
    signal, end = rows.ends.pops[pop]
    for item in range(indices.shape[0]):
        first, boundary = end_row[item, number, pop], links[item, end, 0]
        row = first
        total = strength.dtype.type(0)
        while row != boundary:
            total += strength[item, row]
            row = links[item, end, row]
        passed = grad_strength.dtype.type(0)
        if boundary != 0:
            strength[item, boundary] = boundary_strength[item, number, pop]
            if total != signals[indices[item], signal]:
                passed = grad_strength[item, boundary]
        row = first
        nearer = 0
        while row != boundary:
            grad_strength[item, row] = passed
            nearer = row
            row = links[item, end, row]
        links[item, end ^ 1, boundary] = nearer
        links[item, end, 0] = first
        grad_signals[item, signal] = -passed


@compiled
def _clear_empty(memory: RowsBackward, step: BatchStep, ring: int) -> None:
    """Set the gradients of rows to 0 that the step before pushed on a ring with strength 0."""
    rows = memory.rows
    strength, grad_strength, pushes = rows.strength, memory.grad_strength, rows.ends.pushes
    first = (step.number - 1) * pushes.shape[0] + 1
    for push in range(pushes.shape[0]):
        if pushes[push, 1] // 2 == ring:
            for item in range(step.indices.shape[0]):
                if strength[item, first + push] == 0:
                    grad_strength[item, first + push] = 0


@compiled
def _push(memory: Rows, step: BatchStep, push: int, signals: Array, pushed: Array) -> None:
    """Put a row at an end."""
    strength, links, values, indices = memory.strength, memory.links, memory.values, step.indices
    signal, end = memory.ends.pushes[push]
    row = memory.initial_rows + step.number * memory.ends.pushes.shape[0] + push + 1
    for item in range(indices.shape[0]):
        strength[item, row] = signals[indices[item], signal]
        first = links[item, end, 0]
        links[item, end, row] = first
        links[item, end ^ 1, row] = 0
        links[item, end ^ 1, first] = row
        links[item, end, 0] = row
        for i in range(values.shape[2]):
            values[item, row - 1, i] = pushed[item, push, i]


@compiled
def _push_backward(
    memory: RowsBackward,
    step: BatchStep,
    push: int,
    grad_signals: Array,
    pushed: Array,
    grad_pushed: Array,
) -> None:
    """Undo a push, and set the gradients of its signal and vector."""
    rows = memory.rows
    links, values = rows.links, rows.values
    grad_strength, grad_values = memory.grad_strength, memory.grad_values
    signal, end = rows.ends.pushes[push]
    row = step.number * rows.ends.pushes.shape[0] + push + 1
    for item in range(step.indices.shape[0]):
        grad_signals[item, signal] = grad_strength[item, row]
        links[item, end, 0] = links[item, end, row]
        links[item, end ^ 1, links[item, end, row]] = 0
        for i in range(values.shape[2]):
            pushed[item, push, i] = values[item, row - 1, i]
        for i in range(values.shape[2]):
            grad_pushed[item, push, i] = grad_values[item, row - 1, i]


@compiled
def _read(memory: Rows, count: int, read: int, reads: Array) -> None:
    """Read at an end, into [B, reads, m]."""
    strength, links, values = memory.strength, memory.links, memory.values
    end = memory.ends.reads[read]
    size, one = values.shape[2], strength.dtype.type(1)
    for item in range(count):
        for i in range(size):
            reads[item, read, i] = 0
        row = links[item, end, 0]
        total = strength.dtype.type(0)
        while row != 0 and total < one:
            weight = min(strength[item, row], one - total)
            for i in range(size):
                reads[item, read, i] += weight * values[item, row - 1, i]
            total += strength[item, row]
            row = links[item, end, row]


@reordered
def _product(item: int, grad_reads: Array, read: int, values: Array, row: int) -> Any:
    """The product of a read's gradient and the value of a row."""
    total = values.dtype.type(0)
    for i in range(values.shape[2]):
        total += grad_reads[item, read, i] * values[item, row - 1, i]
    return total


@compiled
def _read_backward(memory: RowsBackward, step: BatchStep, read: int, grad_reads: Array) -> None:
    """Add the gradients of strengths and values, by the gradient of what was read at an end."""
    rows = memory.rows
    strength, links, values = rows.strength, rows.links, rows.values
    grad_strength, grad_values = memory.grad_strength, memory.grad_values
    pushes, end = rows.ends.pushes, rows.ends.reads[read]
    size, one = values.shape[2], strength.dtype.type(1)
    new = step.number * pushes.shape[0] + 1
    for item in range(step.indices.shape[0]):
        row = links[item, end, 0]
        total = strength.dtype.type(0)
        while row != 0 and total + strength[item, row] <= one:
            grad_strength[item, row] += _product(item, grad_reads, read, values, row)
            for i in range(size):
                grad_values[item, row - 1, i] += strength[item, row] * grad_reads[item, read, i]
            total += strength[item, row]
            row = links[item, end, row]
        boundary = row
        if boundary == 0:
            continue
        if total != one:
            for i in range(size):
                grad_values[item, boundary - 1, i] += (one - total) * grad_reads[item, read, i]
            share = _product(item, grad_reads, read, values, boundary)
            row = links[item, end, 0]
            while row != boundary:
                grad_strength[item, row] -= share
                row = links[item, end, row]
        for push in range(pushes.shape[0]):
            # A row pushed at the other end is beyond the boundary.
            if strength[item, new + push] == 0 and pushes[push, 1] == end ^ 1:
                grad_strength[item, new + push] += _product(
                    item, grad_reads, read, values, new + push
                )


@kernel.step_forward.register(Rows)
def step_forward(
    memory: Rows, step: BatchStep, signals: Array, values: Array, reads: Array
) -> None:
    """Pop, push and read."""
    ends = memory.ends
    for pop in range(ends.pops.shape[0]):
        _pop(memory, step, pop, signals)
    for push in range(ends.pushes.shape[0]):
        _push(memory, step, push, signals, values)
    for read in range(ends.reads.shape[0]):
        _read(memory, step.indices.shape[0], read, reads)


@kernel.step_backward.register(RowsBackward)
def step_backward(
    memory: RowsBackward,
    step: BatchStep,
    signals: Array,
    values: Array,
    grad_reads: Array,
    grad_signals: Array,
    grad_values: Array,
) -> None:
    """Backpropagate through a step, and undo it."""
    ends = memory.rows.ends
    pops, pushes, reads = ends.pops, ends.pushes, ends.reads
    for read in range(reads.shape[0]):
        _read_backward(memory, step, read, grad_reads)
    for push in range(pushes.shape[0] - 1, -1, -1):
        _push_backward(memory, step, push, grad_signals, values, grad_values)
    for pop in range(pops.shape[0] - 1, -1, -1):
        ring = pops[pop, 1] // 2
        if step.number > 0 and (pop == 0 or pops[pop - 1, 1] // 2 != ring):  # the ring's first
            _clear_empty(memory, step, ring)
        _pop_backward(memory, step, pop, signals, grad_signals)
