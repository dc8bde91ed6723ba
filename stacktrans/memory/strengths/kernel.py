"""Compiled steps of memories with ends: rows of a strength each, pushed, popped and read there.

Stack, queue and deque (grefenstette2015, equations 1 to 11) are such memories, and differ
only in a table, `Ends`: which signal pops or pushes at which end, and which ends are read.

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

Derivatives, in terms of strengths. A pop leaves to the boundary the sum of its own strength
and those of the rows taken away, less u: so its gradient goes to each of them, and, with
minus, to u. A read gives the boundary, the row within which the sum reaches 1, the rest to
1: so where x[i] is the product of the gradient of what is read with the value of row i,
each row before the boundary has the gradient x[i] - x[boundary].

Ties are those of `stacktrans.memory.strengths.definition`. If the rows taken away have just the
strength of the pop, the boundary keeps its gradient to itself; if those before the boundary fill a
read, it has no part in it. A row pushed with strength 0 has the gradient of the reads of its own
step, whether or not they get that far, and of the first pop after it, if it is taken away by it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from stacktrans.common.ends import BOTTOM, TOP, Ends
from stacktrans.kernels import Array, kernel
from stacktrans.kernels.compiling import compiled, compiled_entry, reordered
from stacktrans.kernels.kernel import Kernel, Room, room_for, select_items
from stacktrans.kernels.steps import BatchStep
from stacktrans.memory.base import MemorySnapshot, RowContents


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
    def contents(self) -> None:
        """None: what the memory of an earlier piece holds is not carried on."""

    def forward(self, part: slice, indices: slice) -> "Rows":
        """See `Store`."""
        return Rows._make((self.ends, *(array[part] for array in self[1:6]), self.old))

    def backward(self, part: slice, indices: slice) -> "RowsBackward":
        """See `Store`."""
        rows = self.forward(part, indices)
        return RowsBackward(
            rows.ends,
            # Going backwards takes the memory apart: a copy, so that it can be done twice.
            rows.strength.copy(),
            rows.links.copy(),
            *rows[3:6],
            np.zeros(rows.strength.shape, rows.strength.dtype),
            np.zeros(rows.values.shape, rows.values.dtype),
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
        values = np.empty(shape, self.values.dtype)
        moved = empty_rows(self.ends, self.links.shape[1] // 2, values, steps)._replace(old=left)
        move_rows(self, moved)
        return moved

    def after(self, steps: int) -> "Rows":
        """See `Store`."""
        return self._replace(old=self.old + steps * len(self.ends.pushes))

    def select(self, items: Array) -> "Rows":
        """See `Store`."""
        strength, links, values = (select_items(array, items) for array in self[1:4])
        return self._replace(strength=strength, links=links, values=values)


class RowsBackward(NamedTuple):
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


def snapshot_of(
    rows: Rows, steps: int, reads: Sequence[str], rings: Sequence[str]
) -> MemorySnapshot:
    """What the first item of a batch holds after some steps, all of whose rows are still there.

    Args:
        rows: of the batch.
        steps: how many there were.
        reads: names of what is read.
        rings: names of the rings whose rows are included; empty to leave them out.
    """
    strength, links = rows.strength[0], rows.links[0]
    pushes, one = len(rows.ends.pushes), strength.dtype.type(1)
    total_strength, by_ring, read_weights = 0.0, [], {}
    for ring in range(len(links) // 2):
        by_ring.append(np.array([*_inward(links[2 * ring + BOTTOM])], np.int64))
        total_strength += sum(strength[by_ring[-1]].tolist())
    for name, end in zip(reads, rows.ends.reads.tolist(), strict=True):
        read_weights[name] = np.zeros(steps, strength.dtype)
        total = strength.dtype.type(0)
        for row in _inward(links[end]):
            if total >= one:
                break
            read_weights[name][(row - 1) // pushes] += min(strength[row], one - total)
            total += strength[row]
    named = zip(rings, by_ring, strict=False)
    return MemorySnapshot(
        total_strength=total_strength,
        read_weights=read_weights,
        rows={name: RowContents((own - 1) // pushes, strength[own]) for name, own in named},
    )


def _inward(links: Array) -> Iterator[int]:
    """The rows of a memory from an end inwards."""
    row = int(links[0])
    while row:
        yield row
        row = int(links[row])


@dataclass(frozen=True)
class StrengthKernel(Kernel):
    """The compiled steps of a memory that has ends; of one without there is nothing to do.

    Attributes:
        ends: what a step does.
        rings: how many memories stand side by side.
    """

    ends: EndArrays
    rings: int

    @classmethod
    def of(cls, ends: Ends) -> Self:
        """One that does what a table says, which has no moves and no depths."""
        counts = len(ends.signal_names), len(ends.pushes), len(ends.reads)
        return cls(*counts, EndArrays.of(ends), len(ends.names))

    def store(self, room: Room) -> Rows:
        """See `Kernel.store`; nothing is known of what is held."""
        shape = (room.batch, room.steps * self.pushes, room.columns)
        values = np.empty(shape, room.dtype)
        return empty_rows(self.ends, self.rings, values, room.steps)


# In what follows, links[item, end] are the links from a row to the next one further from an end,
# and links[item, end ^ 1] those to the next one nearer to it: links[item, end, 0] is the row at
# the end.


# References to arrays are counted, so they are taken from the memory before the items are gone
# through, and not in the loop.


@compiled
def _pop(memory: Rows, step: BatchStep, pop: int, signals: Array) -> None:
    """Take strength from an end, and record the row there and the strength of the boundary."""
    strength, links, indices, number = memory.strength, memory.links, step.indices, step.number
    first_before, strength_before = memory.first_before, memory.strength_before
    signal, end = memory.ends.pops[pop]
    for item in range(indices.shape[0]):
        amount = signals[indices[item], signal]
        row = links[item, end, 0]
        first_before[item, number, pop] = row
        total = strength.dtype.type(0)
        while row != 0 and total + strength[item, row] <= amount:
            total += strength[item, row]
            row = links[item, end, row]
        links[item, end, 0] = row
        links[item, end ^ 1, row] = 0
        strength_before[item, number, pop] = 0
        if row != 0:
            strength_before[item, number, pop] = strength[item, row]
            strength[item, row] = total + strength[item, row] - amount


@compiled
def _pop_backward(
    memory: RowsBackward, step: BatchStep, pop: int, signals: Array, grad_signals: Array
) -> None:
    """Undo a pop, and set the gradient of its strength."""
    strength, links, indices, number = memory.strength, memory.links, step.indices, step.number
    first_before, strength_before = memory.first_before, memory.strength_before
    grad = memory.grad
    signal, end = memory.ends.pops[pop]
    for item in range(indices.shape[0]):
        first, boundary = first_before[item, number, pop], links[item, end, 0]
        row = first
        total = strength.dtype.type(0)
        while row != boundary:
            total += strength[item, row]
            row = links[item, end, row]
        passed = grad.dtype.type(0)
        if boundary != 0:
            strength[item, boundary] = strength_before[item, number, pop]
            if total != signals[indices[item], signal]:
                passed = grad[item, boundary]
        row = first
        nearer = 0
        while row != boundary:
            grad[item, row] = passed
            nearer = row
            row = links[item, end, row]
        links[item, end ^ 1, boundary] = nearer
        links[item, end, 0] = first
        grad_signals[item, signal] = -passed


@compiled
def _forget_empty(memory: RowsBackward, step: BatchStep, ring: int) -> None:
    """Take their gradients from the rows of the step before that were pushed empty on a ring."""
    strength, grad, pushes = memory.strength, memory.grad, memory.ends.pushes
    first = (step.number - 1) * pushes.shape[0] + 1
    for push in range(pushes.shape[0]):
        if pushes[push, 1] // 2 == ring:
            for item in range(step.indices.shape[0]):
                if strength[item, first + push] == 0:
                    grad[item, first + push] = 0


@compiled
def _push(memory: Rows, step: BatchStep, push: int, signals: Array, pushed: Array) -> None:
    """Put a row at an end."""
    strength, links, values, indices = memory.strength, memory.links, memory.values, step.indices
    signal, end = memory.ends.pushes[push]
    row = memory.old + step.number * memory.ends.pushes.shape[0] + push + 1
    for item in range(indices.shape[0]):
        strength[item, row] = signals[indices[item], signal]
        push_row(links, item, end, row)
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
    """Take off the row that was put at an end last, and set the gradients of what was pushed."""
    links, values, grad, grad_values = memory.links, memory.values, memory.grad, memory.grad_values
    signal, end = memory.ends.pushes[push]
    row = step.number * memory.ends.pushes.shape[0] + push + 1
    for item in range(step.indices.shape[0]):
        grad_signals[item, signal] = grad[item, row]
        links[item, end, 0] = links[item, end, row]
        links[item, end ^ 1, links[item, end, row]] = 0
        for i in range(values.shape[2]):
            pushed[item, push, i] = values[item, row - 1, i]
        for i in range(values.shape[2]):
            grad_pushed[item, push, i] = grad_values[item, row - 1, i]


@compiled
def _read(memory: Rows, count: int, read: int, reads: Array) -> None:
    """Set what is read at an end, [B, reads, m]."""
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
    """Of the gradient of what was read and the value of a row."""
    total = values.dtype.type(0)
    for i in range(values.shape[2]):
        total += grad_reads[item, read, i] * values[item, row - 1, i]
    return total


@compiled
def _read_backward(memory: RowsBackward, step: BatchStep, read: int, grad_reads: Array) -> None:
    """Add to the gradients of strengths and values, given that of what was read at an end."""
    strength, links, values = memory.strength, memory.links, memory.values
    grad, grad_values = memory.grad, memory.grad_values
    pushes, end = memory.ends.pushes, memory.ends.reads[read]
    size, one = values.shape[2], strength.dtype.type(1)
    new = step.number * pushes.shape[0] + 1
    for item in range(step.indices.shape[0]):
        row = links[item, end, 0]
        total = strength.dtype.type(0)
        while row != 0 and total + strength[item, row] <= one:
            grad[item, row] += _product(item, grad_reads, read, values, row)
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
                grad[item, row] -= share
                row = links[item, end, row]
        for push in range(pushes.shape[0]):
            # What was pushed at the other end lies beyond any boundary.
            if strength[item, new + push] == 0 and pushes[push, 1] == end ^ 1:
                grad[item, new + push] += _product(item, grad_reads, read, values, new + push)


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
    """Undo the step: the memory is then as it was before."""
    pops, pushes, reads = memory.ends.pops, memory.ends.pushes, memory.ends.reads
    for read in range(reads.shape[0]):
        _read_backward(memory, step, read, grad_reads)
    for push in range(pushes.shape[0] - 1, -1, -1):
        _push_backward(memory, step, push, grad_signals, values, grad_values)
    for pop in range(pops.shape[0] - 1, -1, -1):
        ring = pops[pop, 1] // 2
        if step.number > 0 and (pop == 0 or pops[pop - 1, 1] // 2 != ring):  # the ring's first
            _forget_empty(memory, step, ring)
        _pop_backward(memory, step, pop, signals, grad_signals)
