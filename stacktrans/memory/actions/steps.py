"""Compiled steps of stacks and lists with actions (joulin2015, section 3).

After a step, each cell of a row is the mean of what stood before it, in its place and after it. All
three are found in one array, the row with what is pushed on it before its first cell and empty
cells after its last, so that a step is one loop, which vectorises, whatever the size m of a cell;
and going backwards is the same loop with the shares of the first and the last exchanged.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from stacktrans.kernels import kernel
from stacktrans.kernels.arrays import Array, check_shape
from stacktrans.kernels.compiling import compiled
from stacktrans.kernels.kernel import Kernel, Room
from stacktrans.kernels.loops import dot, exp
from stacktrans.kernels.steps import Step
from stacktrans.memory.actions import EMPTY
from stacktrans.memory.actions.cells import PADDING, UNLIMITED, Actions, Backward, Cells

if TYPE_CHECKING:
    from stacktrans.memory.actions.definition import ActionMemory

_NUMBERS_AT_ONCE = 2048
"""Of a row: so few that they stay in the processor's nearest cache until they are mixed."""


@dataclass(frozen=True)
class ActionKernel(Kernel):
    """The compiled steps of stacks or lists.

    Attributes:
        actions: which of them.
    """

    actions: Actions
    nothing = EMPTY

    @classmethod
    def of(cls, memory: "ActionMemory[Any]", lists: bool) -> Self:
        """Those of a memory of stacks, or of `lists`."""
        count, each, capacity = memory.count, len(memory.actions), memory.capacity or UNLIMITED
        actions = Actions(int(lists), count, memory.depth, each, int(memory.no_op), capacity)
        return cls(count * each, count, memory.reads, actions)

    def store(self, room: Room) -> Cells:
        """See `Kernel.store`; cells are held."""
        empty = Cells.empty(self.actions, room)
        before = empty if room.held is None else room.held._replace(values=empty.values)
        cells = before.moved(min(before.most + room.steps, self.actions.capacity))
        return cells if room.places is None else cells.keeping(room.steps, before.most)

    def check_held(self, held: Any, batch: int, columns: int) -> None:
        if not isinstance(held, Cells):
            raise ValueError("what is carried is of another memory")
        actions = self.actions
        check_shape("cells", held.cells.shape[:3], (batch, 1 + actions.lists, actions.number))
        numbers = actions.lists * actions.number * columns
        check_shape("heads of lists", held.head.shape, (batch, numbers))


@compiled
def _shares(actions: Actions, signals: Array, place: int, which: int) -> tuple[Any, Any, Any, Any]:
    """The probabilities of one stack's or list's actions, its own and then that of doing nothing.

    Of a stack's, which are two, the third is 0.
    """
    none = signals.dtype.type(0)
    first = which * actions.each
    return (
        signals[place, first],
        signals[place, first + 1],
        signals[place, first + 2] if actions.lists else none,
        signals[place, first + actions.each - 1] if actions.no_op else none,
    )


@compiled
def _kept_of(memory: Cells, item: int, step: int, row: int, which: int) -> Array:
    """The part of what is kept of a step that is of one row; empty if nothing is."""
    if memory.kept_starts.shape[0] == 1:
        nothing: Array = memory.kept[item]
        return nothing
    rows, count = memory.cells.shape[1], memory.cells.shape[2]
    first = memory.kept_starts[step]
    each = (memory.kept_starts[step + 1] - first) // (rows * count)
    first += (row * count + which) * each
    return memory.kept[item, first : first + each]


@compiled
def _row_step(
    cells: Array, size: int, used: int, left: int, shares: Any, padded: Array, kept: Array
) -> None:
    """A step of one row of cells.

    Args:
        cells: [room * m] changed in place.
        size: m.
        used: how many of them are in use before the step.
        left: and after it.
        shares: probabilities of pushing on the row, leaving it and popping it.
        padded: what is pushed, [m], and then room to work in.
        kept: what is kept of the step, set; may be empty.
    """
    push, stay, pop = shares
    at_once = max(1, _NUMBERS_AT_ONCE // size) * size
    for start in range(0, left * size, at_once):
        count = min(at_once, left * size - start)
        there = max(0, min(count + size, used * size - start))
        part, middle, last = cells[start:], padded[size:], padded[2 * size :]
        for i in range(there):
            middle[i] = part[i]
        for i in range(there, count + size):
            middle[i] = EMPTY
        own = kept[start:]
        for i in range(min(own.shape[0], count + 2 * size)):
            own[i] = padded[i]
        for i in range(count):
            part[i] = push * padded[i] + stay * middle[i] + pop * last[i]
        next_padded = padded[count:]
        for i in range(size):
            padded[i] = next_padded[i]


@compiled
def _row_backward(
    kept: Array, size: int, used: int, reached: int, shares: Any, grad: Array, padded: Array
) -> tuple[Any, Any, Any]:
    """Carry gradients over a step of one row of cells; gives back those of the three shares.

    `grad`, [room * m], is of the cells after the step, of which `reached` have one, and becomes
    that of those before it; the first m of `padded` become the gradient of what was pushed.
    """
    push, stay, pop = shares
    numbers = reached * size
    given, middle, last = grad[:numbers], padded[size:], padded[2 * size :]
    of_push, of_stay, of_pop = (
        dot(given, kept),
        dot(given, kept[size:]),
        dot(given, kept[2 * size :]),
    )
    for i in range(size):
        padded[i] = 0
    for i in range(numbers):
        middle[i] = given[i]
    after = middle[numbers:]
    for i in range((PADDING - 1) * size):
        after[i] = 0
    for i in range(min(used, reached + 1) * size):
        grad[i] = pop * padded[i] + stay * middle[i] + push * last[i]
    for i in range(size):
        padded[i] = push * middle[i]
    return of_push, of_stay, of_pop


@compiled
def _used(cells: Cells, item: int, row: int, step: int, later: int) -> tuple[int, int]:
    """How many cells of a row were in use before a step, and of those after it have a gradient."""
    actions = cells.actions
    used = min(cells.used_first[item, row] + step, actions.capacity)
    return used, min(used + 1, actions.capacity, actions.depth + later)


@compiled
def _copy(row: Array, out: Array) -> None:
    for i in range(out.shape[0]):
        out[i] = row[i]


@compiled
def _add(out: Array, share: Any, row: Array) -> None:
    for i in range(out.shape[0]):
        out[i] += share * row[i]


@compiled
def _copy_cell(cells: Array, used: int, cell: int, out: Array) -> None:
    """Set out, [m], to a cell of a row."""
    size = out.shape[0]
    if cell < used:
        _copy(cells[cell * size : (cell + 1) * size], out)
    else:
        out[:] = EMPTY


@compiled
def _stack_step(memory: Cells, item: int, step: Step, signals: Array, reads: Array) -> None:
    """Take the actions of stacks, then read (joulin2015, section 3.1)."""
    actions, place, size, padded = memory.actions, step.places[item], reads.shape[2], memory.padded
    used = memory.used[item, 0]
    left = min(used + 1, actions.capacity)
    values = memory.values[min(place, memory.values.shape[0] - 1)]
    for which in range(actions.number):
        push, pop, _, stay = _shares(actions, signals, place, which)
        kept = _kept_of(memory, item, step.number, 0, which)
        cells = memory.cells[item, 0, which]
        _copy(values[which], padded[:size])
        _row_step(cells, size, used, left, (push, stay, pop), padded, kept)
        for cell in range(actions.depth):
            _copy_cell(cells, left, cell, reads[item, which * actions.depth + cell])
    memory.used[item, 0] = left


@compiled
def _stack_backward(
    memory: Backward,
    item: int,
    step: Step,
    signals: Array,
    grad_reads: Array,
    grad_signals: Array,
    grad_values: Array,
) -> None:
    """Carry gradients back over a step of stacks."""
    cells, actions, size = memory.cells, memory.cells.actions, grad_values.shape[2]
    place = step.places[item]
    used, reached = _used(cells, item, 0, step.number, step.starts[item + 1] - place - 1)
    for which in range(actions.number):
        push, pop, _, stay = _shares(actions, signals, place, which)
        grad = memory.grad_cells[item, 0, which]
        for cell in range(min(reached, actions.depth)):
            near = grad[cell * size : (cell + 1) * size]
            _add(near, near.dtype.type(1), grad_reads[item, which * actions.depth + cell])
        kept = _kept_of(cells, item, step.number, 0, which)
        of_push, of_stay, of_pop = _row_backward(
            kept, size, used, reached, (push, stay, pop), grad, cells.padded
        )
        first = which * actions.each
        grad_signals[item, first] = of_push
        grad_signals[item, first + 1] = of_pop
        if actions.no_op:
            grad_signals[item, first + 2] = of_stay
        _copy(cells.padded, grad_values[item, which])


@compiled
def _list_step(memory: Cells, item: int, step: Step, signals: Array, reads: Array) -> None:
    """Take the actions of lists, then read (joulin2015, section 3.2).

    Read are the head and then, in turn, the cells left and right of it.
    """
    actions, place, size, padded = memory.actions, step.places[item], reads.shape[2], memory.padded
    spare = padded[padded.shape[0] - 2 * size :]
    first_left, first_right = spare[:size], spare[size:]
    used_left, used_right = memory.used[item, 0], memory.used[item, 1]
    to_left = min(used_left + 1, actions.capacity)
    to_right = min(used_right + 1, actions.capacity)
    values = memory.values[min(place, memory.values.shape[0] - 1)]
    for which in range(actions.number):
        insert, left, right, stay = _shares(actions, signals, place, which)
        head = memory.head[item, which * size : (which + 1) * size]
        lefts, rights = memory.cells[item, 0, which], memory.cells[item, 1, which]
        _copy_cell(lefts, used_left, 0, first_left)
        _copy_cell(rights, used_right, 0, first_right)
        kept = _kept_of(memory, item, step.number, 0, which)
        _copy(head, padded[:size])
        _row_step(lefts, size, used_left, to_left, (insert + right, stay, left), padded, kept)
        kept = _kept_of(memory, item, step.number, 1, which)
        _copy(head, padded[:size])
        _row_step(rights, size, used_right, to_right, (left, insert + stay, right), padded, kept)
        value = values[which]
        for i in range(size):
            head[i] = (
                insert * value[i] + stay * head[i] + left * first_left[i] + right * first_right[i]
            )
        first = which * actions.depth
        _copy(head, reads[item, first])
        for near in range(1, actions.depth):
            out, cell = reads[item, first + near], (near - 1) // 2
            if near % 2:
                _copy_cell(lefts, to_left, cell, out)
            else:
                _copy_cell(rights, to_right, cell, out)
    memory.used[item, 0] = to_left
    memory.used[item, 1] = to_right


@compiled
def _list_backward(
    memory: Backward,
    item: int,
    step: Step,
    signals: Array,
    grad_reads: Array,
    grad_signals: Array,
    grad_values: Array,
) -> None:
    """Carry gradients back over a step of lists."""
    cells, actions, padded = memory.cells, memory.cells.actions, memory.cells.padded
    place, size, one = step.places[item], grad_values.shape[2], signals.dtype.type(1)
    later = step.starts[item + 1] - place - 1
    used_left, to_left = _used(cells, item, 0, step.number, later)
    used_right, to_right = _used(cells, item, 1, step.number, later)
    for which in range(actions.number):
        insert, left, right, stay = _shares(actions, signals, place, which)
        grad_left, grad_right = memory.grad_cells[item, 0, which], memory.grad_cells[item, 1, which]
        head = memory.grad_head[item, which * size : (which + 1) * size]
        _reads_backward(
            actions.depth,
            which,
            grad_reads[item],
            head,
            (grad_left, grad_right),
            (to_left, to_right),
        )
        kept_left = _kept_of(cells, item, step.number, 0, which)
        kept_right = _kept_of(cells, item, step.number, 1, which)
        shares = insert + right, stay, left
        push_left, stay_left, pop_left = _row_backward(
            kept_left, size, used_left, to_left, shares, grad_left, padded
        )
        # What was pushed on both sides is the old head.
        before = grad_values[item, which]
        _copy(padded, before)
        shares = left, insert + stay, right
        push_right, stay_right, pop_right = _row_backward(
            kept_right, size, used_right, to_right, shares, grad_right, padded
        )
        _add(before, one, padded)
        _add(before, stay, head)
        if used_left:
            _add(grad_left[:size], left, head)
        if used_right:
            _add(grad_right[:size], right, head)
        own = grad_signals[item, which * actions.each : (which + 1) * actions.each]
        own[0] = dot(head, cells.values[place, which]) + push_left + stay_right
        own[1] = dot(head, kept_left[size:]) + pop_left + push_right
        own[2] = dot(head, kept_right[size:]) + push_left + pop_right
        if actions.no_op:
            own[3] = dot(head, kept_left) + stay_left + stay_right
        given = padded[:size]
        _copy(head, given)
        _copy(before, head)
        for i in range(size):
            before[i] = insert * given[i]


@compiled
def _reads_backward(
    depth: int, which: int, grad_reads: Array, head: Array, grads: Any, reached: Any
) -> None:
    """Add the gradients of what was read of a list to those of its head and its cells."""
    size, one = head.shape[0], head.dtype.type(1)
    _add(head, one, grad_reads[which * depth])
    for near in range(1, depth):
        side, cell = (near - 1) % 2, (near - 1) // 2
        if cell < reached[side]:
            out = grads[side][cell * size : (cell + 1) * size]
            _add(out, one, grad_reads[which * depth + near])


@compiled
def _forget_empty(memory: Cells, item: int, size: int) -> None:
    """Leave out the cells of size m at the end of each row that are empty, within rounding."""
    nearly = np.finfo(memory.cells.dtype).eps
    for row in range(memory.used.shape[1]):
        used = memory.used[item, row]
        while used and _is_empty(memory.cells[item, row], used - 1, size, nearly):
            used -= 1
        memory.used[item, row] = used


@compiled
def _is_empty(row: Array, cell: int, size: int, nearly: float) -> bool:
    """Whether a cell is empty in all of the stacks or lists, [count, room * m], side by side."""
    for which in range(row.shape[0]):
        for i in range(cell * size, (cell + 1) * size):
            # A NaN is not empty.
            if not abs(row[which, i] - EMPTY) <= nearly:
                return False
    return True


@kernel.set_signals.register(Cells)
def set_signals(
    memory: Cells, count: int, places: Array, sums: Array, bias: Array, signals: Array
) -> None:
    """A softmax over the actions of each stack or list."""
    for item in range(places.shape[0]):
        own = signals[places[item], :count]
        for i in range(count):
            own[i] = sums[item, i] + bias[i]
        _softmax(memory.actions.each, own)


@compiled
def _softmax(each: int, signals: Array) -> None:
    own = signals.shape[0]
    for start in range(0, own, each):
        largest = signals[start]
        for i in range(start + 1, start + each):
            largest = max(largest, signals[i])
        for i in range(start, start + each):
            signals[i] -= largest
    for i in range(own):
        signals[i] = exp(signals[i])
    for start in range(0, own, each):
        total = signals[start]
        for i in range(start + 1, start + each):
            total += signals[i]
        for i in range(start, start + each):
            signals[i] /= total


@kernel.signals_backward.register(Backward)
def signals_backward(
    memory: Backward, count: int, places: Array, signals: Array, grad: Array
) -> None:
    """Of the sums under probabilities."""
    each = memory.cells.actions.each
    for item in range(places.shape[0]):
        place = places[item]
        for start in range(0, count, each):
            total = grad.dtype.type(0)
            for i in range(start, start + each):
                total += signals[place, i] * grad[item, i]
            for i in range(start, start + each):
                grad[item, i] = signals[place, i] * (grad[item, i] - total)


@kernel.make_hard.register(Cells)
def make_hard(memory: Cells, count: int, places: Array, signals: Array) -> None:
    """The most probable action of each stack or list has 1, the others 0."""
    each = memory.actions.each
    for item in range(places.shape[0]):
        place = places[item]
        for start in range(0, count, each):
            best = start
            for i in range(start + 1, start + each):
                if signals[place, i] > signals[place, best]:
                    best = i
            for i in range(start, start + each):
                signals[place, i] = 0
            signals[place, best] = 1


@kernel.step_forward.register(Cells)
def step_forward(memory: Cells, step: Step, signals: Array, values: Array, reads: Array) -> None:
    """Take the actions, then read."""
    last = memory.values.shape[0] - 1
    for item in range(step.places.shape[0]):
        place = step.places[item]
        for which in range(values.shape[1]):
            _copy(values[item, which], memory.values[min(place, last), which])
        if memory.actions.lists:
            _list_step(memory, item, step, signals, reads)
        else:
            _stack_step(memory, item, step, signals, reads)
        if place + 1 == step.starts[item + 1] or memory.kept_starts.shape[0] == 1:
            _forget_empty(memory, item, values.shape[2])


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
    """Carry the gradients of cells back over the step."""
    for item in range(step.places.shape[0]):
        for which in range(values.shape[1]):
            _copy(memory.cells.values[step.places[item], which], values[item, which])
        if memory.cells.actions.lists:
            _list_backward(memory, item, step, signals, grad_reads, grad_signals, grad_values)
        else:
            _stack_backward(memory, item, step, signals, grad_reads, grad_signals, grad_values)
