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
from stacktrans.kernels.arithmetic import add_scaled, copy, dot, exp, mixed
from stacktrans.kernels.arrays import check_shape
from stacktrans.kernels.compiling import Array, compiled, inlined
from stacktrans.kernels.kernel import Kernel, Room
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
def _shares(actions: Actions, signals: Array, which: int) -> tuple[Any, Any, Any, Any]:
    """The probabilities of one stack's or list's actions, its own and then that of doing nothing.

    Of a stack's, which are two, the third is 0.
    """
    none = signals.dtype.type(0)
    own = signals[which * actions.each : (which + 1) * actions.each]
    return (
        own[0],
        own[1],
        own[2] if actions.lists else none,
        own[actions.each - 1] if actions.no_op else none,
    )


@inlined
def _kept_of(memory: Cells, item: int, step: int, row: int, which: int) -> Array:
    """The part of what is kept of a step that is of one row."""
    rows, count = memory.cells.shape[1], memory.cells.shape[2]
    first = memory.kept_starts[step]
    each = (memory.kept_starts[step + 1] - first) // (rows * count)
    first += (row * count + which) * each
    return memory.kept[item, first : first + each]


@compiled
def _row_step(
    memory: Cells,
    item: int,
    step: int,
    row: int,
    which: int,
    pushed: Array,
    push: Any,
    stay: Any,
    pop: Any,
) -> None:
    """A step of one row of cells, but for `used`: the shares of what is done, `pushed` is [m]."""
    size, used, padded = pushed.shape[0], memory.used[item, row], memory.padded
    cells, left = memory.cells[item, row, which], min(used + 1, memory.actions.capacity)
    at_once = max(1, _NUMBERS_AT_ONCE // size) * size
    copy(padded[:size], pushed)
    for start in range(0, left * size, at_once):
        count = min(at_once, left * size - start)
        there = size + max(0, min(count + size, used * size - start))
        copy(padded[size:there], cells[start:])
        padded[there : count + 2 * size] = EMPTY
        if memory.kept_starts.shape[0] > 1:
            kept = _kept_of(memory, item, step, row, which)
            copy(kept[start : min(kept.shape[0], start + count + 2 * size)], padded)
        mixed(size, push, stay, pop, padded, cells[start : start + count])
        copy(padded[:size], padded[count:])


@compiled
def _row_backward(
    kept: Array,
    size: int,
    used: int,
    reached: int,
    push: Any,
    stay: Any,
    pop: Any,
    grad: Array,
    padded: Array,
) -> tuple[Any, Any, Any]:
    """Carry gradients over a step of one row of cells; gives back those of the three shares.

    `grad`, [room * m], is of the cells after the step, of which `reached` have one, and becomes
    that of those before it; the first m of `padded` become the gradient of what was pushed.
    """
    numbers = reached * size
    given = grad[:numbers]
    of_push = dot(given, kept)
    of_stay = dot(given, kept[size:])
    of_pop = dot(given, kept[2 * size :])
    padded[:size] = 0
    copy(padded[size : size + numbers], given)
    padded[size + numbers : PADDING * size + numbers] = 0
    mixed(size, pop, stay, push, padded, grad[: min(used, reached + 1) * size])
    for i in range(size):
        padded[i] = push * padded[size + i]
    return of_push, of_stay, of_pop


@compiled
def _used(cells: Cells, item: int, row: int, step: int, later: int) -> tuple[int, int]:
    """How many cells of a row were in use before a step, and of those after it have a gradient."""
    actions = cells.actions
    used = min(cells.used_first[item, row] + step, actions.capacity)
    return used, min(used + 1, actions.capacity, actions.depth + later)


@compiled
def _stack_step(
    memory: Cells, item: int, step: int, values: Array, signals: Array, reads: Array
) -> None:
    """Take the actions of stacks, then read (joulin2015, section 3.1)."""
    actions, size = memory.actions, values.shape[1]
    left = min(memory.used[item, 0] + 1, actions.capacity)
    width = actions.depth * size
    for which in range(actions.number):
        push, pop, _, stay = _shares(actions, signals, which)
        _row_step(memory, item, step, 0, which, values[which], push, stay, pop)
        out = reads[which * width : (which + 1) * width]
        there = min(left * size, width)
        copy(out[:there], memory.cells[item, 0, which])
        out[there:] = EMPTY
    memory.used[item, 0] = left


@compiled
def _stack_backward(
    memory: Backward,
    item: int,
    step: int,
    later: int,
    signals: Array,
    grad_reads: Array,
    grad_signals: Array,
) -> None:
    """Carry gradients back over a step of stacks."""
    cells, actions, size = memory.cells, memory.cells.actions, memory.grad_values.shape[1]
    used, reached = _used(cells, item, 0, step, later)
    width = actions.depth * size
    for which in range(actions.number):
        push, pop, _, stay = _shares(actions, signals, which)
        grad = memory.grad_cells[item, 0, which]
        near = grad[: min(reached, actions.depth) * size]
        add_scaled(near, near.dtype.type(1), grad_reads[which * width : (which + 1) * width])
        kept = _kept_of(cells, item, step, 0, which)
        of_push, of_stay, of_pop = _row_backward(
            kept, size, used, reached, push, stay, pop, grad, cells.padded
        )
        out = grad_signals[which * actions.each : (which + 1) * actions.each]
        out[0], out[1] = of_push, of_pop
        if actions.no_op:
            out[2] = of_stay
        copy(memory.grad_values[which], cells.padded)


@compiled
def _copy_cell(memory: Cells, item: int, row: int, which: int, cell: int, out: Array) -> None:
    """Set out, [m], to a cell of a row."""
    size = out.shape[0]
    if cell < memory.used[item, row]:
        copy(out, memory.cells[item, row, which, cell * size : (cell + 1) * size])
    else:
        out[:] = EMPTY


@compiled
def _list_step(
    memory: Cells, item: int, step: int, values: Array, signals: Array, reads: Array
) -> None:
    """Take the actions of lists, then read (joulin2015, section 3.2).

    Read are the head and then, in turn, the cells left and right of it.
    """
    actions, size = memory.actions, values.shape[1]
    spare = memory.padded[memory.padded.shape[0] - 2 * size :]
    first_left, first_right = spare[:size], spare[size:]
    for which in range(actions.number):
        insert, left, right, stay = _shares(actions, signals, which)
        head = memory.head[item, which * size : (which + 1) * size]
        _copy_cell(memory, item, 0, which, 0, first_left)
        _copy_cell(memory, item, 1, which, 0, first_right)
        _row_step(memory, item, step, 0, which, head, insert + right, stay, left)
        _row_step(memory, item, step, 1, which, head, left, insert + stay, right)
        value = values[which]
        for i in range(size):
            head[i] = (
                insert * value[i] + stay * head[i] + left * first_left[i] + right * first_right[i]
            )
    for row in range(2):
        memory.used[item, row] = min(memory.used[item, row] + 1, actions.capacity)
    for which in range(actions.number):
        start = which * actions.depth * size
        copy(reads[start : start + size], memory.head[item, which * size : (which + 1) * size])
        for place in range(1, actions.depth):
            out = reads[start + place * size : start + (place + 1) * size]
            _copy_cell(memory, item, (place - 1) % 2, which, (place - 1) // 2, out)


@compiled
def _list_backward(
    memory: Backward,
    item: int,
    step: int,
    later: int,
    values: Array,
    signals: Array,
    grad_reads: Array,
    grad_signals: Array,
) -> None:
    """Carry gradients back over a step of lists."""
    cells, actions, padded = memory.cells, memory.cells.actions, memory.cells.padded
    size, one = values.shape[1], values.dtype.type(1)
    used_left, reached_left = _used(cells, item, 0, step, later)
    used_right, reached_right = _used(cells, item, 1, step, later)
    for which in range(actions.number):
        insert, left, right, stay = _shares(actions, signals, which)
        grad_left, grad_right = memory.grad_cells[item, 0, which], memory.grad_cells[item, 1, which]
        head = memory.grad_head[item, which * size : (which + 1) * size]
        first = which * actions.depth * size
        add_scaled(head, one, grad_reads[first : first + size])
        for place in range(1, actions.depth):
            right_of, cell = (place - 1) % 2, (place - 1) // 2
            if cell < (reached_right if right_of else reached_left):
                near = grad_right if right_of else grad_left
                start = first + place * size
                out = near[cell * size : (cell + 1) * size]
                add_scaled(out, one, grad_reads[start : start + size])
        kept_left = _kept_of(cells, item, step, 0, which)
        kept_right = _kept_of(cells, item, step, 1, which)
        push_left, stay_left, pop_left = _row_backward(
            kept_left, size, used_left, reached_left, insert + right, stay, left, grad_left, padded
        )
        # What was pushed on both sides is the old head.
        before = memory.grad_values[which]
        copy(before, padded)
        push_right, stay_right, pop_right = _row_backward(
            kept_right,
            size,
            used_right,
            reached_right,
            left,
            insert + stay,
            right,
            grad_right,
            padded,
        )
        add_scaled(before, one, padded)
        add_scaled(before, stay, head)
        if used_left:
            add_scaled(grad_left[:size], left, head)
        if used_right:
            add_scaled(grad_right[:size], right, head)
        own = grad_signals[which * actions.each : (which + 1) * actions.each]
        own[0] = dot(head, values[which]) + push_left + stay_right
        own[1] = dot(head, kept_left[size:]) + pop_left + push_right
        own[2] = dot(head, kept_right[size:]) + push_left + pop_right
        if actions.no_op:
            own[3] = dot(head, kept_left) + stay_left + stay_right
        given = padded[:size]
        copy(given, head)
        copy(head, before)
        for i in range(size):
            before[i] = insert * given[i]


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


@kernel.implements(kernel.set_signals, Cells)
def set_signals(memory: Cells, sums: Array, bias: Array, signals: Array) -> None:
    """A softmax over the actions of each stack or list."""
    _softmax(memory.actions.each, sums, bias, signals)


@compiled
def _softmax(each: int, sums: Array, bias: Array, signals: Array) -> None:
    own = signals.shape[0]
    for i in range(own):
        signals[i] = sums[i] + bias[i]
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


@kernel.implements(kernel.signals_backward, Backward)
def signals_backward(memory: Backward, signals: Array, grad: Array) -> None:
    """Of the sums under probabilities."""
    each = memory.cells.actions.each
    for start in range(0, signals.shape[0], each):
        total = grad.dtype.type(0)
        for i in range(start, start + each):
            total += signals[i] * grad[i]
        for i in range(start, start + each):
            grad[i] = signals[i] * (grad[i] - total)


@kernel.implements(kernel.make_hard, Cells)
def make_hard(memory: Cells, signals: Array) -> None:
    """The most probable action of each stack or list has 1, the others 0."""
    each = memory.actions.each
    for start in range(0, signals.shape[0], each):
        best = start
        for i in range(start + 1, start + each):
            if signals[i] > signals[best]:
                best = i
        for i in range(start, start + each):
            signals[i] = 0
        signals[best] = 1


@kernel.implements(kernel.pushed, Cells)
def pushed(memory: Cells, item: int, step: int, place: int) -> Array:
    """A vector for each stack or list."""
    vectors: Array = memory.values[place if memory.values.shape[0] > 1 else 0]
    return vectors


@kernel.implements(kernel.pushed, Backward)
def pushed_before(memory: Backward, item: int, step: int, place: int) -> Array:
    """The same, all of which were kept."""
    vectors: Array = memory.cells.values[place]
    return vectors


@kernel.implements(kernel.pushed_gradient, Backward)
def pushed_gradient(memory: Backward, item: int, step: int, place: int) -> Array:
    """Those of the step that was carried over last."""
    return memory.grad_values


@kernel.implements(kernel.step_forward, Cells)
def step_forward(
    memory: Cells, item: int, step: int, place: int, later: int, signals: Array, reads: Array
) -> None:
    """Take the actions, then read."""
    values = memory.values[place if memory.values.shape[0] > 1 else 0]
    if memory.actions.lists:
        _list_step(memory, item, step, values, signals, reads)
    else:
        _stack_step(memory, item, step, values, signals, reads)
    if later == 0 or memory.kept_starts.shape[0] == 1:
        _forget_empty(memory, item, values.shape[1])


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
    """Carry the gradients of cells back over the step."""
    if memory.cells.actions.lists:
        values = memory.cells.values[place]
        _list_backward(memory, item, step, later, values, signals, grad_reads, grad_signals)
    else:
        _stack_backward(memory, item, step, later, signals, grad_reads, grad_signals)
