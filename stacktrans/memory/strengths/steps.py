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

from stacktrans.common.ends import Ends
from stacktrans.kernels import kernel
from stacktrans.kernels.arrays import Array, fresh
from stacktrans.kernels.compiling import compiled, reordered
from stacktrans.kernels.kernel import Kernel, Room
from stacktrans.kernels.steps import Step
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
        values = fresh(*shape, dtype=room.dtype)
        return empty_rows(self.ends, self.rings, values, room.steps)


# In what follows, links[item, end] are the links from a row to the next one further from an end,
# and links[item, end ^ 1] those to the next one nearer to it: links[item, end, 0] is the row at
# the end.


# References to arrays are counted, so they are taken from the memory before the items are gone
# through, and not in the loop.


@compiled
def _pop(memory: Rows, step: Step, pop: int, signals: Array) -> None:
    """Take strength from an end, and record the row there and the strength of the boundary."""
    strength, links, places, number = memory.strength, memory.links, step.places, step.number
    first_before, strength_before = memory.first_before, memory.strength_before
    signal, end = memory.ends.pops[pop]
    for item in range(places.shape[0]):
        amount = signals[places[item], signal]
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
    memory: Backward, step: Step, pop: int, signals: Array, grad_signals: Array
) -> None:
    """Undo a pop, and set the gradient of its strength."""
    strength, links, places, number = memory.strength, memory.links, step.places, step.number
    first_before, strength_before = memory.first_before, memory.strength_before
    grad = memory.grad
    signal, end = memory.ends.pops[pop]
    for item in range(places.shape[0]):
        first, boundary = first_before[item, number, pop], links[item, end, 0]
        row = first
        total = strength.dtype.type(0)
        while row != boundary:
            total += strength[item, row]
            row = links[item, end, row]
        passed = grad.dtype.type(0)
        if boundary != 0:
            strength[item, boundary] = strength_before[item, number, pop]
            if total != signals[places[item], signal]:
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
def _forget_empty(memory: Backward, step: Step, ring: int) -> None:
    """Take their gradients from the rows of the step before that were pushed empty on a ring."""
    strength, grad, pushes = memory.strength, memory.grad, memory.ends.pushes
    first = (step.number - 1) * pushes.shape[0] + 1
    for push in range(pushes.shape[0]):
        if pushes[push, 1] // 2 == ring:
            for item in range(step.places.shape[0]):
                if strength[item, first + push] == 0:
                    grad[item, first + push] = 0


@compiled
def _push(memory: Rows, step: Step, push: int, signals: Array, pushed: Array) -> None:
    """Put a row at an end."""
    strength, links, values, places = memory.strength, memory.links, memory.values, step.places
    signal, end = memory.ends.pushes[push]
    row = memory.old + step.number * memory.ends.pushes.shape[0] + push + 1
    for item in range(places.shape[0]):
        strength[item, row] = signals[places[item], signal]
        push_row(links, item, end, row)
        for i in range(values.shape[2]):
            values[item, row - 1, i] = pushed[item, push, i]


@compiled
def _push_backward(
    memory: Backward, step: Step, push: int, grad_signals: Array, pushed: Array, grad_pushed: Array
) -> None:
    """Take off the row that was put at an end last, and set the gradients of what was pushed."""
    links, values, grad, grad_values = memory.links, memory.values, memory.grad, memory.grad_values
    signal, end = memory.ends.pushes[push]
    row = step.number * memory.ends.pushes.shape[0] + push + 1
    for item in range(step.places.shape[0]):
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
    strength, links, values, end = (
        memory.strength,
        memory.links,
        memory.values,
        memory.ends.reads[read],
    )
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
def _read_backward(memory: Backward, step: Step, read: int, grad_reads: Array) -> None:
    """Add to the gradients of strengths and values, given that of what was read at an end."""
    strength, links, values, pushes = (
        memory.strength,
        memory.links,
        memory.values,
        memory.ends.pushes,
    )
    grad, grad_values, end = memory.grad, memory.grad_values, memory.ends.reads[read]
    size, one = values.shape[2], strength.dtype.type(1)
    new = step.number * pushes.shape[0] + 1
    for item in range(step.places.shape[0]):
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
def step_forward(memory: Rows, step: Step, signals: Array, values: Array, reads: Array) -> None:
    """Pop, push and read."""
    ends = memory.ends
    for pop in range(ends.pops.shape[0]):
        _pop(memory, step, pop, signals)
    for push in range(ends.pushes.shape[0]):
        _push(memory, step, push, signals, values)
    for read in range(ends.reads.shape[0]):
        _read(memory, step.places.shape[0], read, reads)


@kernel.step_backward.register(Backward)
def step_backward(
    memory: Backward,
    step: Step,
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
