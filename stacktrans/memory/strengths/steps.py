"""Memories with ends: rows of a strength each, pushed, popped and read at the top or the bottom.

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
of the n-th ring, from 0, are 2 n + TOP and 2 n + BOTTOM, so that the other end is `end ^ 1`.

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

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from stacktrans.kernels import kernel
from stacktrans.kernels.arithmetic import add_scaled, copy, dot
from stacktrans.kernels.arrays import fresh, fresh_zeros, room_for, taken
from stacktrans.kernels.compiling import Array, compiled, compiled_entry
from stacktrans.kernels.kernel import Kernel, Room

TOP, BOTTOM = 0, 1
"""The ends of the first ring."""


class Ends(NamedTuple):
    """What a step does with a memory: all pops, then all pushes, then all reads, in this order.

    Attributes:
        pops: [pops, 2] the signal, and the end it pops from; those of a ring stand together.
        pushes: [pushes, 2] the signal, and the end it pushes to.
        reads: [reads] the ends read.
    """

    pops: Array
    pushes: Array
    reads: Array


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

    ends: Ends
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
        moved = _empty_rows(self.ends, self.links.shape[1] // 2, values, steps)._replace(old=left)
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

    ends: Ends
    strength: Array
    links: Array
    values: Array
    first_before: Array
    strength_before: Array
    grad: Array
    grad_values: Array


def _empty_rows(ends: Ends, rings: int, values: Array, steps: int) -> Rows:
    """A memory without rows, which may get as many as there are values."""
    batch, rows, _ = values.shape
    links = np.empty((batch, 2 * rings, rows + 1), dtype=np.int32)
    links[:, :, 0] = 0
    strength = np.empty((batch, rows + 1), dtype=values.dtype)
    return Rows(ends, strength, links, values, *_records(ends, batch, steps, values.dtype))


def _records(ends: Ends, batch: int, steps: int, dtype: np.dtype[Any]) -> tuple[Array, Array]:
    """Room for `Rows.first_before` and `Rows.strength_before`."""
    shape = (batch, steps, len(ends.pops))
    return np.empty(shape, dtype=np.int32), np.empty(shape, dtype=dtype)


@dataclass(frozen=True)
class StrengthKernel(Kernel):
    """The compiled steps of a memory that has ends; of one without there is nothing to do.

    Attributes:
        ends: what a step does.
        rings: how many memories stand side by side.
    """

    ends: Ends
    rings: int = 1

    @classmethod
    def of(
        cls, pops: list[tuple[int, int]], pushes: list[tuple[int, int]], reads: list[int]
    ) -> Self:
        """One that does what `Ends` says, as lists."""
        tables = [np.array(lines, dtype=np.int64).reshape(-1, 2) for lines in (pops, pushes)]
        ends = Ends(tables[0], tables[1], np.array(reads, dtype=np.int64))
        return cls(len(pops) + len(pushes), len(pushes), len(reads), ends)

    @classmethod
    def side_by_side(cls, kernels: Iterable[Self]) -> Self:
        """One that does what all of them do, each with its own signals, pushes and reads."""
        pops, pushes, reads = [], [], []
        signals = rings = 0
        for each in kernels:
            later = np.array([signals, 2 * rings])
            pops.append(each.ends.pops + later)
            pushes.append(each.ends.pushes + later)
            reads.append(each.ends.reads + 2 * rings)
            signals, rings = signals + each.signals, rings + each.rings
        ends = Ends(*map(np.concatenate, (pops, pushes, reads)))
        return cls(signals, len(ends.pushes), len(ends.reads), ends, rings)

    def store(self, room: Room) -> Rows:
        """See `Kernel.store`; nothing is known of what is held."""
        shape = (room.batch, room.steps * self.pushes, room.columns)
        if room.values is None:
            values = fresh(*shape, dtype=room.dtype)
        else:
            values = np.ascontiguousarray(room.values).reshape(shape)
        return _empty_rows(self.ends, self.rings, values, room.steps)


# In what follows, `inward` are the links from a row to the next one further from the end at
# hand, and `outward` those to the next one nearer to it: inward[0] is the row at the end.


@compiled
def _pop(amount: Any, strength: Array, inward: Array, outward: Array) -> Any:
    """Take strength `amount` from an end; gives back the strength of the boundary before."""
    row = inward[0]
    total = strength.dtype.type(0)
    while row != 0 and total + strength[row] <= amount:
        total += strength[row]
        row = inward[row]
    inward[0] = row
    outward[row] = 0
    if row == 0:
        return strength.dtype.type(0)
    before = strength[row]
    strength[row] = total + before - amount
    return before


@compiled
def _pop_backward(
    amount: Any,
    first_before: int,
    strength_before: Any,
    strength: Array,
    inward: Array,
    outward: Array,
    grad: Array,
) -> Any:
    """Undo a pop; gives back the gradient of its amount."""
    boundary = inward[0]
    row = first_before
    total = strength.dtype.type(0)
    while row != boundary:
        total += strength[row]
        row = inward[row]
    passed = grad.dtype.type(0)
    if boundary != 0:
        strength[boundary] = strength_before
        if total != amount:
            passed = grad[boundary]
    row = first_before
    nearer = 0
    while row != boundary:
        grad[row] = passed
        nearer = row
        row = inward[row]
    outward[boundary] = nearer
    inward[0] = first_before
    return -passed


@compiled
def _push(row: int, inward: Array, outward: Array) -> None:
    """Put a row at an end."""
    first = inward[0]
    inward[row] = first
    outward[row] = 0
    outward[first] = row
    inward[0] = row


@compiled
def _push_undone(row: int, inward: Array, outward: Array) -> None:
    """Take off the row that was put at an end last."""
    inward[0] = inward[row]
    outward[inward[row]] = 0


@compiled
def _read(strength: Array, inward: Array, values: Array, out: Array) -> None:
    """Set out, [m], to what is read at an end; `values` has the vector of row 1 first."""
    out[:] = 0
    one = strength.dtype.type(1)
    row = inward[0]
    total = strength.dtype.type(0)
    while row != 0 and total < one:
        weight = min(strength[row], one - total)
        add_scaled(out, weight, values[row - 1])
        total += strength[row]
        row = inward[row]


@compiled
def _read_backward(
    strength: Array, inward: Array, values: Array, grad_read: Array, grad: Array, grad_values: Array
) -> int:
    """Add to the gradients of strengths and values, given that of what was read at an end.

    Gives back the boundary, or 0.
    """
    one = strength.dtype.type(1)
    row = inward[0]
    total = strength.dtype.type(0)
    while row != 0 and total + strength[row] <= one:
        grad[row] += dot(grad_read, values[row - 1])
        add_scaled(grad_values[row - 1], strength[row], grad_read)
        total += strength[row]
        row = inward[row]
    boundary: int = row
    if boundary == 0 or total == one:
        return boundary
    add_scaled(grad_values[boundary - 1], one - total, grad_read)
    share = dot(grad_read, values[boundary - 1])
    row = inward[0]
    while row != boundary:
        grad[row] -= share
        row = inward[row]
    return boundary


@compiled
def _forget_empty(first: int, ring: int, pushes: Array, strength: Array, grad: Array) -> None:
    """Take their gradients from those of a step's rows, from `first`, that a ring has empty."""
    for push in range(pushes.shape[0]):
        if pushes[push, 1] // 2 == ring and strength[first + push] == 0:
            grad[first + push] = 0


@kernel.implements(kernel.pushed, Rows)
def pushed(memory: Rows, item: int, step: int, place: int) -> Array:
    """The vectors of the step's new rows."""
    pushes = memory.ends.pushes.shape[0]
    new = memory.old + step * pushes
    return memory.values[item, new : new + pushes]


@kernel.implements(kernel.pushed, Backward)
def pushed_before(memory: Backward, item: int, step: int, place: int) -> Array:
    """The vectors of the rows that were new at the step."""
    pushes = memory.ends.pushes.shape[0]
    return memory.values[item, step * pushes : (step + 1) * pushes]


@kernel.implements(kernel.pushed_gradient, Backward)
def pushed_gradient(memory: Backward, item: int, step: int, place: int) -> Array:
    """They are complete once the step is undone."""
    pushes = memory.ends.pushes.shape[0]
    return memory.grad_values[item, step * pushes : (step + 1) * pushes]


@kernel.implements(kernel.step_forward, Rows)
def step_forward(
    memory: Rows, item: int, step: int, place: int, later: int, signals: Array, reads: Array
) -> None:
    """Pop, push and read."""
    # By names of their own: to reach into a tuple again at each turn of a loop takes time.
    pops, pushes, ends = memory.ends.pops, memory.ends.pushes, memory.ends.reads
    first_before, strength_before = memory.first_before, memory.strength_before
    strength, links, values = memory.strength[item], memory.links[item], memory.values[item]
    new = memory.old + step * pushes.shape[0] + 1
    for pop in range(pops.shape[0]):
        signal, end = pops[pop]
        first_before[item, step, pop] = links[end, 0]
        strength_before[item, step, pop] = _pop(
            signals[signal], strength, links[end], links[end ^ 1]
        )
    for push in range(pushes.shape[0]):
        signal, end = pushes[push]
        strength[new + push] = signals[signal]
        _push(new + push, links[end], links[end ^ 1])
    size = values.shape[1]
    for read in range(ends.shape[0]):
        out = reads[read * size : (read + 1) * size]
        _read(strength, links[ends[read]], values, out)


@kernel.implements(kernel.step_backward, Backward)
def step_backward(
    memory: Backward,
    item: int,
    step: int,
    place: int,
    later: int,
    signals: Array,
    grad_reads: Array,
    grad_signals: Array,
) -> None:
    """Undo the step: the memory is then as it was before."""
    pops, pushes, ends = memory.ends.pops, memory.ends.pushes, memory.ends.reads
    first_before, strength_before = memory.first_before, memory.strength_before
    strength, links, values = memory.strength[item], memory.links[item], memory.values[item]
    grad, grad_values = memory.grad[item], memory.grad_values[item]
    size, count = values.shape[1], pushes.shape[0]
    new = step * count + 1
    for read in range(ends.shape[0]):
        part = grad_reads[read * size : (read + 1) * size]
        end = ends[read]
        boundary = _read_backward(strength, links[end], values, part, grad, grad_values)
        for row in range(new, new + count):
            # What was pushed at the other end lies beyond any boundary.
            if boundary != 0 and strength[row] == 0 and pushes[row - new, 1] == end ^ 1:
                grad[row] += dot(part, values[row - 1])
    for push in range(count - 1, -1, -1):
        signal, end = pushes[push]
        grad_signals[signal] = grad[new + push]
        _push_undone(new + push, links[end], links[end ^ 1])
    for pop in range(pops.shape[0] - 1, -1, -1):
        signal, end = pops[pop]
        if step > 0 and (pop == 0 or pops[pop - 1, 1] // 2 != end // 2):  # the ring's first
            _forget_empty(new - count, end // 2, pushes, strength, grad)
        grad_signals[signal] = _pop_backward(
            signals[signal],
            first_before[item, step, pop],
            strength_before[item, step, pop],
            strength,
            links[end],
            links[end ^ 1],
            grad,
        )


@compiled_entry
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


@compiled_entry
def move_rows(rows: Rows, to: Rows) -> None:
    """Move the rows that are left to new arrays, numbered ring by ring from the bottom."""
    for item in range(rows.links.shape[0]):
        count = 0
        for ring in range(rows.links.shape[1] // 2):
            above = rows.links[item, 2 * ring + BOTTOM]
            below, outward = to.links[item, 2 * ring + TOP], to.links[item, 2 * ring + BOTTOM]
            below[0] = 0
            outward[0] = 0
            row = above[0]
            while row != 0:
                count += 1
                to.strength[item, count] = rows.strength[item, row]
                copy(to.values[item, count - 1], rows.values[item, row - 1])
                _push(count, below, outward)
                row = above[row]


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


def _inward(links: Array) -> Iterator[int]:
    """The rows of a memory from an end inwards."""
    row = int(links[0])
    while row:
        yield row
        row = int(links[row])
