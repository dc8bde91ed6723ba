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

Derivatives, in terms of strengths. A pop leaves to the boundary the sum of its own strength
and those of the rows taken away, less u: so its gradient goes to each of them, and, with
minus, to u. A read gives the boundary, the row within which the sum reaches 1, the rest to
1: so where x[i] is the product of the gradient of what is read with the value of row i,
each row before the boundary has the gradient x[i] - x[boundary].

Ties are those of `stacktrans.memory.strengths`. If the rows taken away have just the strength of
the pop, the boundary keeps its gradient to itself; if those before the boundary fill a read, it
has no part in it. A row pushed with strength 0 has the gradient of the reads of its own step,
whether or not they get that far, and of the first pop after it, if it is taken away by it.
"""

from typing import Any, NamedTuple

import numpy as np

from stacktrans.kernels import drive
from stacktrans.kernels.arithmetic import add_scaled, copy, dot
from stacktrans.kernels.compiling import Array, compiled, compiled_entry
from stacktrans.kernels.steps import rounded, sigmoid_signals, sigmoid_signals_adjoint
from stacktrans.memory.strengths.base import BOTTOM, TOP


class Ends(NamedTuple):
    """What a step does with a memory: all pops, then all pushes, then all reads, in this order.

    Attributes:
        pops: [pops, 2] the signal, and the end it pops from.
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
        strength: [B, rows + 1] the strength of each row.
        links: [B, 2, rows + 1] the row below each row, and the row above it.
        first_before: [B, T, pops] the row at the end before each pop.
        strength_before: [B, T, pops] the strength of the boundary before each pop.
    """

    strength: Array
    links: Array
    first_before: Array
    strength_before: Array

    def of(self, part: slice) -> "Rows":
        """Those of a part of the batch."""
        return Rows(*(array[part] for array in self))


def empty_rows(ends: Ends, batch: int, steps: int, dtype: np.dtype[Any]) -> Rows:
    """A memory without rows, and room for those of `steps` steps."""
    rows = steps * len(ends.pushes)
    links = np.empty((batch, 2, rows + 1), dtype=np.int32)
    links[:, :, 0] = 0
    record = (batch, steps, len(ends.pops))
    return Rows(
        np.empty((batch, rows + 1), dtype=dtype),
        links,
        np.empty(record, dtype=np.int32),
        np.empty(record, dtype=dtype),
    )


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
def _pop_adjoint(
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
    """Read at an end.

    Args:
        strength: [rows + 1].
        inward: [rows + 1].
        values: [rows, m] the vector of each row, that of row 1 first.
        out: [m] the vector read.
    """
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
def _read_adjoint(
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
def _forget_empty(first: int, after: int, strength: Array, grad: Array) -> None:
    """Take their gradients from those of some rows that have strength 0."""
    for row in range(first, after):
        if strength[row] == 0:
            grad[row] = 0


class Forward(NamedTuple):
    """A memory of B strings, going forwards.

    Attributes:
        ends: what a step does.
        rows: in place.
        values: [B, rows, m] the vectors of all rows.
        old: how many rows there were before the first step.
    """

    ends: Ends
    rows: Rows
    values: Array
    old: int


class Backward(NamedTuple):
    """The same going backwards, down to the empty memory.

    Attributes:
        ends: what a step does.
        rows: in place.
        values: [B, rows, m] the vectors of all rows.
        grad: [B, rows + 1] zeros; the gradients of strengths.
        grad_values: [B, rows, m] zeros; become the gradients of the values.
    """

    ends: Ends
    rows: Rows
    values: Array
    grad: Array
    grad_values: Array


@drive.implements(drive.set_signals, Forward)
def set_signals(memory: Forward, sums: Array, bias: Array, signals: Array) -> None:
    """Each is a sigmoid of its sum."""
    sigmoid_signals(sums, bias, signals)


@drive.implements(drive.make_hard, Forward)
def make_hard(memory: Forward, signals: Array) -> None:
    """Round each."""
    rounded(signals)


@drive.implements(drive.signals_adjoint, Backward)
def signals_adjoint(memory: Backward, signals: Array, grad: Array) -> None:
    """Of the sums under sigmoids."""
    sigmoid_signals_adjoint(signals, grad)


@drive.implements(drive.pushed, Forward)
def pushed(memory: Forward, item: int, step: int, place: int) -> Array:
    """The vectors of the step's new rows."""
    pushes = memory.ends.pushes.shape[0]
    new = memory.old + step * pushes
    return memory.values[item, new : new + pushes]


@drive.implements(drive.pushed, Backward)
def pushed_before(memory: Backward, item: int, step: int, place: int) -> Array:
    """The vectors of the rows that were new at the step."""
    pushes = memory.ends.pushes.shape[0]
    return memory.values[item, step * pushes : (step + 1) * pushes]


@drive.implements(drive.pushed_adjoint, Backward)
def pushed_adjoint(memory: Backward, item: int, step: int, place: int) -> Array:
    """They are complete once the step is undone."""
    pushes = memory.ends.pushes.shape[0]
    return memory.grad_values[item, step * pushes : (step + 1) * pushes]


@drive.implements(drive.memory_step, Forward)
def memory_step(
    memory: Forward, item: int, step: int, place: int, later: int, signals: Array, reads: Array
) -> None:
    """Pop, push and read."""
    ends, rows, values = memory.ends, memory.rows, memory.values[item]
    strength = rows.strength[item]
    links = rows.links[item]
    new = memory.old + step * ends.pushes.shape[0] + 1
    for pop in range(ends.pops.shape[0]):
        signal, end = ends.pops[pop]
        rows.first_before[item, step, pop] = links[end, 0]
        rows.strength_before[item, step, pop] = _pop(
            signals[signal], strength, links[end], links[1 - end]
        )
    for push in range(ends.pushes.shape[0]):
        signal, end = ends.pushes[push]
        strength[new + push] = signals[signal]
        _push(new + push, links[end], links[1 - end])
    size = values.shape[1]
    for read in range(ends.reads.shape[0]):
        out = reads[read * size : (read + 1) * size]
        _read(strength, links[ends.reads[read]], values, out)


@drive.implements(drive.memory_adjoint, Backward)
def memory_adjoint(
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
    ends, rows, values = memory.ends, memory.rows, memory.values[item]
    grad, grad_values = memory.grad[item], memory.grad_values[item]
    strength = rows.strength[item]
    links = rows.links[item]
    size = values.shape[1]
    pushes = ends.pushes.shape[0]
    new = step * pushes + 1
    for read in range(ends.reads.shape[0]):
        part = grad_reads[read * size : (read + 1) * size]
        end = ends.reads[read]
        boundary = _read_adjoint(strength, links[end], values, part, grad, grad_values)
        for row in range(new, new + pushes):
            # What was pushed at the other end lies beyond any boundary.
            if boundary != 0 and strength[row] == 0 and ends.pushes[row - new, 1] != end:
                grad[row] += dot(part, values[row - 1])
    for push in range(pushes - 1, -1, -1):
        signal, end = ends.pushes[push]
        grad_signals[signal] = grad[new + push]
        _push_undone(new + push, links[end], links[1 - end])
    for pop in range(ends.pops.shape[0] - 1, -1, -1):
        signal, end = ends.pops[pop]
        if pop == 0 and step > 0:
            _forget_empty(new - pushes, new, strength, grad)
        grad_signals[signal] = _pop_adjoint(
            signals[signal],
            rows.first_before[item, step, pop],
            rows.strength_before[item, step, pop],
            strength,
            links[end],
            links[1 - end],
            grad,
        )


@compiled_entry
def rows_left(links: Array) -> int:
    """The largest number of rows that an item of the batch has left."""
    most = 0
    for item in range(links.shape[0]):
        above = links[item, 1]
        row = above[0]
        count = 0
        while row != 0:
            count += 1
            row = above[row]
        most = max(most, count)
    return most


@compiled_entry
def move_rows(
    strength: Array, links: Array, values: Array, to_strength: Array, to_links: Array, to: Array
) -> None:
    """Move the rows that are left to new arrays, numbered from the bottom.

    Args:
        strength: [B, rows + 1].
        links: [B, 2, rows + 1].
        values: [B, rows, m].
        to_strength: [B, new rows + 1] set.
        to_links: [B, 2, new rows + 1] set.
        to: [B, new rows, m] set to the values.
    """
    for item in range(links.shape[0]):
        above = links[item, 1]
        below, outward = to_links[item, TOP], to_links[item, BOTTOM]
        below[0] = 0
        outward[0] = 0
        row = above[0]
        count = 0
        while row != 0:
            count += 1
            to_strength[item, count] = strength[item, row]
            copy(to[item, count - 1], values[item, row - 1])
            _push(count, below, outward)
            row = above[row]
