"""Compiled steps of memories with ends: rows of a strength each, pushed, popped and read there.

Stack, queue and deque (grefenstette2015, equations 1 to 11) are such memories, and differ
only in a table, `Ends`: which signal pops or pushes at which end, and which ends are read.

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

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from stacktrans.common.ends import Ends
from stacktrans.kernels import kernel
from stacktrans.kernels.arithmetic import add_scaled, dot
from stacktrans.kernels.arrays import fresh
from stacktrans.kernels.compiling import Array, compiled
from stacktrans.kernels.kernel import Kernel, Room
from stacktrans.memory.strengths.rows import Backward, EndArrays, Rows, empty_rows, push_row


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
        if room.values is None:
            values = fresh(*shape, dtype=room.dtype)
        else:
            values = np.ascontiguousarray(room.values).reshape(shape)
        return empty_rows(self.ends, self.rings, values, room.steps)


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
        push_row(new + push, links[end], links[end ^ 1])
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
