"""Compiled steps of stacks and lists with actions (joulin2015, section 3).

After a step, each cell of a row is the mean of what stood before it, in its place and after it. All
three are found in one array, the row with what is pushed on it before its first cell and empty
cells after its last, so that a step is one loop, which vectorises, whatever the size m of a cell;
and going backwards is the same loop with the shares of the first and the last exchanged.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from stacktrans.kernels import Array, kernel
from stacktrans.kernels.batches import check_shape
from stacktrans.kernels.compiling import compiled
from stacktrans.kernels.elementwise import add, add_scaled, copy, dot, exp
from stacktrans.kernels.kernel import Kernel, Room
from stacktrans.kernels.steps import BatchStep
from stacktrans.memory.actions import EMPTY
from stacktrans.memory.actions.cells import PADDING, UNLIMITED, Actions, Cells, CellsBackward

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
        before = empty if room.contents is None else room.contents._replace(values=empty.values)
        cells = before.moved(min(before.most + room.steps, self.actions.capacity))
        return cells if room.total_steps is None else cells.keeping(room.steps, before.most)

    def check_contents(self, contents: Any, batch: int, columns: int) -> None:
        if not isinstance(contents, Cells):
            raise ValueError("what is carried is of another memory")
        actions = self.actions
        check_shape("cells", contents.cells.shape[:3], (batch, 1 + actions.lists, actions.number))
        numbers = actions.lists * actions.number * columns
        check_shape("heads of lists", contents.head.shape, (batch, numbers))


@compiled
def _shares(actions: Actions, signals: Array, index: int, which: int) -> tuple[Any, Any, Any, Any]:
    """The probabilities of one stack's or list's actions, its own and then that of doing nothing.

    Of a stack's, which are two, the third is 0.
    """
    none = signals.dtype.type(0)
    first = which * actions.each
    return (
        signals[index, first],
        signals[index, first + 1],
        signals[index, first + 2] if actions.lists else none,
        signals[index, first + actions.each - 1] if actions.no_op else none,
    )


@compiled
def _kept_at(kept_starts: Array, step: int, rows: int) -> tuple[int, int]:
    """Where what is kept of a step starts, and how many numbers it has of each row; 0 of none."""
    if kept_starts.shape[0] == 1:
        return 0, 0
    first = kept_starts[step]
    return first, (kept_starts[step + 1] - first) // rows


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
    of_push = dot(given, kept)
    of_stay = dot(given, kept[size:])
    of_pop = dot(given, kept[2 * size :])
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
def _used(actions: Actions, used_first: int, step: int, later: int) -> tuple[int, int]:
    """How many cells of a row were in use before a step, and of those after it have a gradient."""
    used = min(used_first + step, actions.capacity)
    return used, min(used + 1, actions.capacity, actions.depth + later)


@compiled
def _read_cell(cells: Array, used: int, cell: int, reads: Array, item: int, read: int) -> None:
    """Set what is read, [B, reads, m], to a cell of a row."""
    size = reads.shape[2]
    for i in range(size):
        reads[item, read, i] = cells[cell * size + i] if cell < used else EMPTY


# References to arrays are counted, so they are taken from the memory before the items are gone
# through, and as few as can be in the loop.


@compiled
def _stack_step(
    memory: Cells, step: BatchStep, signals: Array, values: Array, reads: Array
) -> None:
    """Take the actions of stacks, then read (joulin2015, section 3.1)."""
    actions, rows, used, padded = memory.actions, memory.cells, memory.used, memory.padded
    kept, indices, size = memory.kept, step.indices, reads.shape[2]
    first, each = _kept_at(memory.kept_starts, step.number, actions.number)
    for item in range(indices.shape[0]):
        left = min(used[item, 0] + 1, actions.capacity)
        for which in range(actions.number):
            push, pop, _, stay = _shares(actions, signals, indices[item], which)
            cells, start = rows[item, 0, which], first + which * each
            for i in range(size):
                padded[i] = values[item, which, i]
            own = kept[item, start : start + each]
            _row_step(cells, size, used[item, 0], left, (push, stay, pop), padded, own)
            for cell in range(actions.depth):
                _read_cell(cells, left, cell, reads, item, which * actions.depth + cell)
        used[item, 0] = left


@compiled
def _stack_backward(
    memory: CellsBackward,
    step: BatchStep,
    signals: Array,
    grad_reads: Array,
    grad_signals: Array,
    grad_values: Array,
) -> None:
    """Carry gradients back over a step of stacks."""
    cells, grad_cells = memory.cells, memory.grad_cells
    actions, kept, padded = cells.actions, cells.kept, cells.padded
    used_first, indices, starts = cells.used_first, step.indices, step.starts
    size = grad_values.shape[2]
    first, each = _kept_at(cells.kept_starts, step.number, actions.number)
    for item in range(indices.shape[0]):
        later = starts[item + 1] - indices[item] - 1
        used, reached = _used(actions, used_first[item, 0], step.number, later)
        for which in range(actions.number):
            push, pop, _, stay = _shares(actions, signals, indices[item], which)
            grad, start = grad_cells[item, 0, which], first + which * each
            for cell in range(min(reached, actions.depth)):
                add(grad[cell * size :], grad_reads[item, which * actions.depth + cell])
            own = kept[item, start : start + each]
            of_push, of_stay, of_pop = _row_backward(
                own, size, used, reached, (push, stay, pop), grad, padded
            )
            signal = which * actions.each
            grad_signals[item, signal] = of_push
            grad_signals[item, signal + 1] = of_pop
            if actions.no_op:
                grad_signals[item, signal + 2] = of_stay
            for i in range(size):
                grad_values[item, which, i] = padded[i]


@compiled
def _list_step(memory: Cells, step: BatchStep, signals: Array, values: Array, reads: Array) -> None:
    """Take the actions of lists, then read (joulin2015, section 3.2).

    Read are the head and then, in turn, the cells left and right of it.
    """
    actions, rows, used, padded = memory.actions, memory.cells, memory.used, memory.padded
    kept, indices, size = memory.kept, step.indices, reads.shape[2]
    heads = memory.head
    spare = padded[padded.shape[0] - 2 * size :]
    first_left, first_right = spare[:size], spare[size:]
    first, each = _kept_at(memory.kept_starts, step.number, 2 * actions.number)
    for item in range(indices.shape[0]):
        used_left, used_right = used[item, 0], used[item, 1]
        to_left = min(used_left + 1, actions.capacity)
        to_right = min(used_right + 1, actions.capacity)
        for which in range(actions.number):
            insert, left, right, stay = _shares(actions, signals, indices[item], which)
            head = heads[item, which * size : (which + 1) * size]
            lefts, rights = rows[item, 0, which], rows[item, 1, which]
            for i in range(size):
                first_left[i] = lefts[i] if used_left else EMPTY
                first_right[i] = rights[i] if used_right else EMPTY
            start = first + which * each
            own = kept[item, start : start + each]
            copy(padded[:size], head)
            _row_step(lefts, size, used_left, to_left, (insert + right, stay, left), padded, own)
            start += actions.number * each
            own = kept[item, start : start + each]
            copy(padded[:size], head)
            _row_step(rights, size, used_right, to_right, (left, insert + stay, right), padded, own)
            for i in range(size):
                head[i] = (
                    insert * values[item, which, i]
                    + stay * head[i]
                    + left * first_left[i]
                    + right * first_right[i]
                )
            read = which * actions.depth
            copy(reads[item, read], head)
            for near in range(1, actions.depth):
                side, reached = (lefts, to_left) if near % 2 else (rights, to_right)
                _read_cell(side, reached, (near - 1) // 2, reads, item, read + near)
        used[item, 0] = to_left
        used[item, 1] = to_right


@compiled
def _reads_backward(grad_reads: Array, head: Array, grads: Any, reached: Any) -> None:
    """Add the gradients of what was read of a list, [depth, m], to those of head and cells."""
    add(head, grad_reads[0])
    for near in range(1, grad_reads.shape[0]):
        side, cell = (near - 1) % 2, (near - 1) // 2
        if cell < reached[side]:
            add(grads[side][cell * head.shape[0] :], grad_reads[near])


@compiled
def _list_backward(
    memory: CellsBackward,
    step: BatchStep,
    signals: Array,
    grad_reads: Array,
    grad_signals: Array,
    grad_values: Array,
) -> None:
    """Carry gradients back over a step of lists."""
    cells, grad_cells, grad_heads = memory.cells, memory.grad_cells, memory.grad_head
    actions, kept, padded, values = cells.actions, cells.kept, cells.padded, cells.values
    used_first, indices, starts = cells.used_first, step.indices, step.starts
    size = grad_values.shape[2]
    first, each = _kept_at(cells.kept_starts, step.number, 2 * actions.number)
    for item in range(indices.shape[0]):
        index, later = indices[item], starts[item + 1] - indices[item] - 1
        used_left, to_left = _used(actions, used_first[item, 0], step.number, later)
        used_right, to_right = _used(actions, used_first[item, 1], step.number, later)
        for which in range(actions.number):
            insert, left, right, stay = _shares(actions, signals, index, which)
            grad_left, grad_right = grad_cells[item, 0, which], grad_cells[item, 1, which]
            head = grad_heads[item, which * size : (which + 1) * size]
            first_read = which * actions.depth
            own_reads = grad_reads[item, first_read : first_read + actions.depth]
            _reads_backward(own_reads, head, (grad_left, grad_right), (to_left, to_right))
            start = first + which * each
            kept_left = kept[item, start : start + each]
            start += actions.number * each
            kept_right = kept[item, start : start + each]
            push_left, stay_left, pop_left = _row_backward(
                kept_left, size, used_left, to_left, (insert + right, stay, left), grad_left, padded
            )
            # What was pushed on both sides is the old head.
            before = grad_values[item, which]
            copy(before, padded)
            push_right, stay_right, pop_right = _row_backward(
                kept_right,
                size,
                used_right,
                to_right,
                (left, insert + stay, right),
                grad_right,
                padded,
            )
            add(before, padded)
            add_scaled(before, stay, head)
            if used_left:
                add_scaled(grad_left[:size], left, head)
            if used_right:
                add_scaled(grad_right[:size], right, head)
            own = grad_signals[item, which * actions.each : (which + 1) * actions.each]
            own[0] = dot(head, values[index, which]) + push_left + stay_right
            own[1] = dot(head, kept_left[size:]) + pop_left + push_right
            own[2] = dot(head, kept_right[size:]) + push_left + pop_right
            if actions.no_op:
                own[3] = dot(head, kept_left) + stay_left + stay_right
            for i in range(size):
                given = head[i]
                head[i] = before[i]
                before[i] = insert * given


@compiled
def _forget_empty(cells: Array, used: Array, item: int, size: int) -> None:
    """Leave out the cells of size m at the end of each row that are empty, within rounding."""
    for row in range(used.shape[1]):
        while used[item, row] and _is_empty(cells, item, row, used[item, row] - 1, size):
            used[item, row] -= 1


@compiled
def _is_empty(cells: Array, item: int, row: int, cell: int, size: int) -> bool:
    """Whether a cell of a row is empty in all of the stacks or lists side by side."""
    nearly = np.finfo(cells.dtype).eps
    for which in range(cells.shape[2]):
        for i in range(cell * size, (cell + 1) * size):
            # A NaN is not empty.
            if not abs(cells[item, row, which, i] - EMPTY) <= nearly:
                return False
    return True


@kernel.set_signals.register(Cells)
def set_signals(
    memory: Cells, count: int, indices: Array, sums: Array, bias: Array, signals: Array
) -> None:
    """A softmax over the actions of each stack or list."""
    each = memory.actions.each
    for item in range(indices.shape[0]):
        index = indices[item]
        for start in range(0, count, each):
            largest = sums[item, start] + bias[start]
            for i in range(start + 1, start + each):
                largest = max(largest, sums[item, i] + bias[i])
            for i in range(start, start + each):
                signals[index, i] = sums[item, i] + bias[i] - largest
        for i in range(count):
            signals[index, i] = exp(signals[index, i])
        for start in range(0, count, each):
            total = signals[index, start]
            for i in range(start + 1, start + each):
                total += signals[index, i]
            for i in range(start, start + each):
                signals[index, i] /= total


@kernel.signals_backward.register(CellsBackward)
def signals_backward(
    memory: CellsBackward, count: int, indices: Array, signals: Array, grad: Array
) -> None:
    """Of the sums under probabilities."""
    each = memory.cells.actions.each
    for item in range(indices.shape[0]):
        index = indices[item]
        for start in range(0, count, each):
            total = grad.dtype.type(0)
            for i in range(start, start + each):
                total += signals[index, i] * grad[item, i]
            for i in range(start, start + each):
                grad[item, i] = signals[index, i] * (grad[item, i] - total)


@kernel.make_hard.register(Cells)
def make_hard(memory: Cells, count: int, indices: Array, signals: Array) -> None:
    """The most probable action of each stack or list has 1, the others 0."""
    each = memory.actions.each
    for item in range(indices.shape[0]):
        index = indices[item]
        for start in range(0, count, each):
            best = start
            for i in range(start + 1, start + each):
                if signals[index, i] > signals[index, best]:
                    best = i
            for i in range(start, start + each):
                signals[index, i] = 0
            signals[index, best] = 1


@kernel.step_forward.register(Cells)
def step_forward(
    memory: Cells, step: BatchStep, signals: Array, values: Array, reads: Array
) -> None:
    """Take the actions, then read."""
    indices, starts, cells, used = step.indices, step.starts, memory.cells, memory.used
    pushed, nothing_kept = memory.values, memory.kept_starts.shape[0] == 1
    for item in range(indices.shape[0]):
        index = min(indices[item], pushed.shape[0] - 1)
        for which in range(values.shape[1]):
            for i in range(values.shape[2]):
                pushed[index, which, i] = values[item, which, i]
    if memory.actions.lists:
        _list_step(memory, step, signals, values, reads)
    else:
        _stack_step(memory, step, signals, values, reads)
    for item in range(indices.shape[0]):
        if indices[item] + 1 == starts[item + 1] or nothing_kept:
            _forget_empty(cells, used, item, values.shape[2])


@kernel.step_backward.register(CellsBackward)
def step_backward(
    memory: CellsBackward,
    step: BatchStep,
    signals: Array,
    values: Array,
    grad_reads: Array,
    grad_signals: Array,
    grad_values: Array,
) -> None:
    """Carry the gradients of cells back over the step."""
    indices, pushed = step.indices, memory.cells.values
    for item in range(indices.shape[0]):
        for which in range(values.shape[1]):
            for i in range(values.shape[2]):
                values[item, which, i] = pushed[indices[item], which, i]
    if memory.cells.actions.lists:
        _list_backward(memory, step, signals, grad_reads, grad_signals, grad_values)
    else:
        _stack_backward(memory, step, signals, grad_reads, grad_signals, grad_values)
