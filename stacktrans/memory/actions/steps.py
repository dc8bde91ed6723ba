"""Compiled steps of stacks and lists on the arrays of `cells`, forward and backward.

A step sets each cell of a row to the weighted mean of the cell before it, itself and the cell
after it. All three are read from one padded row, which begins with the vector pushed and ends with
empty cells. So a step is one loop that vectorizes, whatever the size m of a cell; the backward pass
is this loop with the weights of the first and the last cell exchanged.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from stacktrans.kernels import Array, kernel
from stacktrans.kernels.batches import check_shape
from stacktrans.kernels.compiling import compiled
from stacktrans.kernels.elementwise import add, add_scaled, copy, dot, exp
from stacktrans.kernels.kernel import StoreSizes
from stacktrans.kernels.steps import (
    BatchStep,
    round_signals,
    sigmoid_signals,
    sigmoid_signals_backward,
)
from stacktrans.memory.actions.cells import PADDING, UNLIMITED, ActionSpec, Cells, CellsBackward

if TYPE_CHECKING:
    from stacktrans.memory.actions.definition import ActionMemory

_NUMBERS_AT_ONCE = 2048
"""The numbers of a row that are updated together, so few that they stay in the nearest cache."""


def new_cells(memory: "ActionMemory[Any]", sizes: StoreSizes) -> Cells:
    """The `Memory.store` of stacks or lists."""
    lists = memory.structure != "stack"
    actions, capacity = len(memory.actions), memory.capacity or UNLIMITED
    shape = int(lists), memory.count, memory.depth, actions, int(memory.no_op), capacity
    spec = ActionSpec(*shape, memory.empty, memory.writes)
    before = Cells.empty(spec, sizes)
    if (contents := sizes.contents) is not None:
        if not isinstance(contents, Cells):
            raise ValueError("the contents are those of another memory")
        check_shape("cells", contents.cells.shape[:3], before.cells.shape[:3])
        check_shape("heads of lists", contents.head.shape, before.head.shape)
        before = contents._replace(values=before.values)
    cells = before.resized(min(before.max_used + sizes.steps, capacity))
    return cells if sizes.total_steps is None else cells.saving(sizes.steps, before.max_used)


@compiled
def _probabilities(spec: ActionSpec, signals: Array, index: int, k: int) -> tuple[Any, ...]:
    """The probabilities of the four actions of a list, or of push, pop, none and no-op of a stack.

    `k` is the index of the list or stack. A tape is a list without insertions.
    """
    none = signals.dtype.type(0)
    first = k * spec.actions
    return (
        none if spec.writes else signals[index, first],
        signals[index, first + 1],
        signals[index, first + 2] if spec.lists else none,
        signals[index, first + spec.actions - 1] if spec.no_op else none,
    )


@compiled
def _saved_at(saved_starts: Array, step: int, rows: int) -> tuple[int, int]:
    """The start of what a step saves, and how many numbers it saves of each row; 0 if nothing."""
    if saved_starts.shape[0] == 1:
        return 0, 0
    first = saved_starts[step]
    return first, (saved_starts[step + 1] - first) // rows


@compiled
def _row_step(
    cells: Array,
    size: int,
    used: int,
    after: int,
    shares: Any,
    empty: float,
    padded: Array,
    saved: Array,
) -> None:
    """Take a step on one row of cells.

    Args:
        cells: [room * m] changed in place.
        size: m.
        used: the number of cells in use before the step.
        after: the number of cells in use after the step.
        shares: probabilities of pushing on the row, leaving it and popping it.
        empty: the number in empty cells.
        padded: the vector pushed, [m], and then workspace.
        saved: set for the backward pass; may be empty.
    """
    push, stay, pop = shares
    at_once = max(1, _NUMBERS_AT_ONCE // size) * size
    for start in range(0, after * size, at_once):
        count = min(at_once, after * size - start)
        filled = max(0, min(count + size, used * size - start))
        part, middle, last = cells[start:], padded[size:], padded[2 * size :]
        for i in range(filled):
            middle[i] = part[i]
        for i in range(filled, count + size):
            middle[i] = empty
        saved_part = saved[start:]
        for i in range(min(saved_part.shape[0], count + 2 * size)):
            saved_part[i] = padded[i]
        for i in range(count):
            part[i] = push * padded[i] + stay * middle[i] + pop * last[i]
        next_padded = padded[count:]
        for i in range(size):
            padded[i] = next_padded[i]


@compiled
def _row_backward(
    saved: Array, size: int, used: int, reached: int, shares: Any, grad: Array, padded: Array
) -> tuple[Any, Any, Any]:
    """Take a step on one row backwards, and return the gradients of the three shares.

    `grad`, [room * m], is the gradient of the first `reached` cells after the step, and becomes
    that of the cells before it; the first m of `padded` become that of the vector pushed.
    """
    push, stay, pop = shares
    numbers = reached * size
    grad_after, middle, last = grad[:numbers], padded[size:], padded[2 * size :]
    grad_push = dot(grad_after, saved)
    grad_stay = dot(grad_after, saved[size:])
    grad_pop = dot(grad_after, saved[2 * size :])
    for i in range(size):
        padded[i] = 0
    for i in range(numbers):
        middle[i] = grad_after[i]
    padding = middle[numbers:]
    for i in range((PADDING - 1) * size):
        padding[i] = 0
    for i in range(min(used, reached + 1) * size):
        grad[i] = pop * padded[i] + stay * middle[i] + push * last[i]
    for i in range(size):
        padded[i] = push * middle[i]
    return grad_push, grad_stay, grad_pop


@compiled
def _used(spec: ActionSpec, initial_used: int, step: int, later: int) -> tuple[int, int]:
    """The number of cells of a row in use before a step, and of those after it with a gradient."""
    used = min(initial_used + step, spec.capacity)
    return used, min(used + 1, spec.capacity, spec.depth + later)


@compiled
def _read_cell(
    cells: Array, used: int, cell: int, empty: float, reads: Array, item: int, read: int
) -> None:
    """Set a read of [B, reads, m] to a cell of a row."""
    size = reads.shape[2]
    for i in range(size):
        reads[item, read, i] = cells[cell * size + i] if cell < used else empty


# References to arrays are counted, so they are taken from the memory before the loop over items,
# and as few as possible within it.


@compiled
def _stack_step(
    memory: Cells, step: BatchStep, signals: Array, values: Array, reads: Array
) -> None:
    """Take the actions of stacks, then read (joulin2015, section 3.1)."""
    spec, rows, used, padded = memory.spec, memory.cells, memory.used, memory.padded
    saved, indices, size = memory.saved, step.indices, reads.shape[2]
    first, length = _saved_at(memory.saved_starts, step.number, spec.copies)
    for item in range(indices.shape[0]):
        used_after = min(used[item, 0] + 1, spec.capacity)
        for k in range(spec.copies):
            push, pop, _, stay = _probabilities(spec, signals, indices[item], k)
            cells, start = rows[item, 0, k], first + k * length
            for i in range(size):
                padded[i] = values[item, k, i]
            saved_row = saved[item, start : start + length]
            shares, before = (push, stay, pop), used[item, 0]
            _row_step(cells, size, before, used_after, shares, spec.empty, padded, saved_row)
            for cell in range(spec.depth):
                read = k * spec.depth + cell
                _read_cell(cells, used_after, cell, spec.empty, reads, item, read)
        used[item, 0] = used_after


@compiled
def _stack_backward(
    memory: CellsBackward,
    step: BatchStep,
    signals: Array,
    grad_reads: Array,
    grad_signals: Array,
    grad_values: Array,
) -> None:
    """Backpropagate through a step of stacks."""
    cells, grad_cells = memory.cells, memory.grad_cells
    spec, saved, padded = cells.spec, cells.saved, cells.padded
    initial_used, indices, starts = cells.initial_used, step.indices, step.starts
    size = grad_values.shape[2]
    first, length = _saved_at(cells.saved_starts, step.number, spec.copies)
    for item in range(indices.shape[0]):
        later = starts[item + 1] - indices[item] - 1
        used, reached = _used(spec, initial_used[item, 0], step.number, later)
        for k in range(spec.copies):
            push, pop, _, stay = _probabilities(spec, signals, indices[item], k)
            grad, start = grad_cells[item, 0, k], first + k * length
            for cell in range(min(reached, spec.depth)):
                add(grad[cell * size :], grad_reads[item, k * spec.depth + cell])
            saved_row = saved[item, start : start + length]
            grad_push, grad_stay, grad_pop = _row_backward(
                saved_row, size, used, reached, (push, stay, pop), grad, padded
            )
            signal = k * spec.actions
            grad_signals[item, signal] = grad_push
            grad_signals[item, signal + 1] = grad_pop
            if spec.no_op:
                grad_signals[item, signal + 2] = grad_stay
            for i in range(size):
                grad_values[item, k, i] = padded[i]


@compiled
def _write(head: Array, write: float, vector: Array, replaced: Array) -> None:
    """Write a vector at the head of a tape, and set `replaced` to what was there."""
    for i in range(head.shape[0]):
        replaced[i] = head[i]
        head[i] += write * (vector[i] - head[i])


@compiled
def _write_backward(head: Array, write: float, vectors: Any, grad_vector: Array) -> Any:
    """Backpropagate through writing at the head of a tape, and return the gradient of `write`.

    Args:
        head: the gradient of the head after writing, which becomes that of the head before.
        write: the strength.
        vectors: the one that was written, and the one that it replaced.
        grad_vector: set to the gradient of the vector written.
    """
    written, replaced = vectors
    grad_write = dot(head, written) - dot(head, replaced)
    for i in range(head.shape[0]):
        grad_vector[i] = write * head[i]
        head[i] -= grad_vector[i]
    return grad_write


@compiled
def _list_step(memory: Cells, step: BatchStep, signals: Array, values: Array, reads: Array) -> None:
    """Take the actions of lists, then read (joulin2015, section 3.2).

    The head is read first, then alternately the cells left and right of it.
    """
    spec, rows, used, padded = memory.spec, memory.cells, memory.used, memory.padded
    saved, indices, size = memory.saved, step.indices, reads.shape[2]
    heads, pushed = memory.head, memory.values
    spare = padded[padded.shape[0] - 2 * size :]
    first_left, first_right = spare[:size], spare[size:]
    first, length = _saved_at(memory.saved_starts, step.number, 2 * spec.copies)
    for item in range(indices.shape[0]):
        used_left, used_right = used[item, 0], used[item, 1]
        to_left = min(used_left + 1, spec.capacity)
        to_right = min(used_right + 1, spec.capacity)
        for k in range(spec.copies):
            insert, left, right, stay = _probabilities(spec, signals, indices[item], k)
            head = heads[item, k * size : (k + 1) * size]
            if spec.writes:
                replaced = pushed[min(indices[item], pushed.shape[0] - 1), spec.copies + k]
                _write(head, signals[indices[item], k * spec.actions], values[item, k], replaced)
            lefts, rights = rows[item, 0, k], rows[item, 1, k]
            for i in range(size):
                first_left[i] = lefts[i] if used_left else spec.empty
                first_right[i] = rights[i] if used_right else spec.empty
            start = first + k * length
            saved_row = saved[item, start : start + length]
            copy(padded[:size], head)
            shares = insert + right, stay, left
            _row_step(lefts, size, used_left, to_left, shares, spec.empty, padded, saved_row)
            start += spec.copies * length
            saved_row = saved[item, start : start + length]
            copy(padded[:size], head)
            shares = left, insert + stay, right
            _row_step(rights, size, used_right, to_right, shares, spec.empty, padded, saved_row)
            for i in range(size):
                head[i] = (
                    insert * values[item, k, i]
                    + stay * head[i]
                    + left * first_left[i]
                    + right * first_right[i]
                )
            read = k * spec.depth
            copy(reads[item, read], head)
            for near in range(1, spec.depth):
                side, reached = (lefts, to_left) if near % 2 else (rights, to_right)
                cell = (near - 1) // 2
                _read_cell(side, reached, cell, spec.empty, reads, item, read + near)
        used[item, 0] = to_left
        used[item, 1] = to_right


@compiled
def _reads_backward(grad_reads: Array, head: Array, grads: Any, reached: Any) -> None:
    """Add the gradients of the cells read of a list, [depth, m], to those of head and cells."""
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
    """Backpropagate through a step of lists."""
    cells, grad_cells, grad_heads = memory.cells, memory.grad_cells, memory.grad_head
    spec, saved, padded, values = cells.spec, cells.saved, cells.padded, cells.values
    initial_used, indices, starts = cells.initial_used, step.indices, step.starts
    size = grad_values.shape[2]
    first, length = _saved_at(cells.saved_starts, step.number, 2 * spec.copies)
    for item in range(indices.shape[0]):
        index, later = indices[item], starts[item + 1] - indices[item] - 1
        used_left, to_left = _used(spec, initial_used[item, 0], step.number, later)
        used_right, to_right = _used(spec, initial_used[item, 1], step.number, later)
        for k in range(spec.copies):
            insert, left, right, stay = _probabilities(spec, signals, index, k)
            grad_left, grad_right = grad_cells[item, 0, k], grad_cells[item, 1, k]
            head = grad_heads[item, k * size : (k + 1) * size]
            first_read = k * spec.depth
            own_reads = grad_reads[item, first_read : first_read + spec.depth]
            _reads_backward(own_reads, head, (grad_left, grad_right), (to_left, to_right))
            start = first + k * length
            saved_left = saved[item, start : start + length]
            start += spec.copies * length
            saved_right = saved[item, start : start + length]
            shares = insert + right, stay, left
            push_left, stay_left, pop_left = _row_backward(
                saved_left, size, used_left, to_left, shares, grad_left, padded
            )
            # What was pushed on both sides is the old head.
            before = grad_values[item, k]
            copy(before, padded)
            shares = left, insert + stay, right
            push_right, stay_right, pop_right = _row_backward(
                saved_right, size, used_right, to_right, shares, grad_right, padded
            )
            add(before, padded)
            add_scaled(before, stay, head)
            if used_left:
                add_scaled(grad_left[:size], left, head)
            if used_right:
                add_scaled(grad_right[:size], right, head)
            grad_shares = grad_signals[item, k * spec.actions : (k + 1) * spec.actions]
            grad_shares[0] = dot(head, values[index, k]) + push_left + stay_right
            grad_shares[1] = dot(head, saved_left[size:]) + pop_left + push_right
            grad_shares[2] = dot(head, saved_right[size:]) + push_left + pop_right
            if spec.no_op:
                grad_shares[3] = dot(head, saved_left) + stay_left + stay_right
            for i in range(size):
                given = head[i]
                head[i] = before[i]
                before[i] = insert * given
            if spec.writes:
                vectors = values[index, k], values[index, spec.copies + k]
                write = signals[index, k * spec.actions]
                grad_shares[0] = _write_backward(head, write, vectors, before)


@compiled
def _drop_empty(cells: Array, used: Array, item: int, size: int, empty: float) -> None:
    """Drop the cells of size m at the end of each row that are empty, but for rounding errors."""
    for row in range(used.shape[1]):
        while used[item, row] and _is_empty(cells, item, row, used[item, row] - 1, size, empty):
            used[item, row] -= 1


@compiled
def _is_empty(cells: Array, item: int, row: int, cell: int, size: int, empty: float) -> bool:
    """Whether a cell of a row is empty in all stacks or lists side by side."""
    nearly = np.finfo(cells.dtype).eps
    for k in range(cells.shape[2]):
        for i in range(cell * size, (cell + 1) * size):
            # A NaN is not empty.
            if not abs(cells[item, row, k, i] - empty) <= nearly:
                return False
    return True


@kernel.set_signals.register(Cells)
def set_signals(
    memory: Cells, count: int, indices: Array, sums: Array, bias: Array, signals: Array
) -> None:
    """Set the actions of each stack or list to a softmax, and a write strength to a sigmoid."""
    actions, writes = memory.spec.actions, memory.spec.writes
    for item in range(indices.shape[0]):
        index = indices[item]
        for start in range(0, count, actions):
            first = start + writes
            largest = sums[item, first] + bias[first]
            for i in range(first + 1, start + actions):
                largest = max(largest, sums[item, i] + bias[i])
            for i in range(start, start + actions):
                signals[index, i] = sums[item, i] + bias[i] - largest
        for i in range(count):
            signals[index, i] = exp(signals[index, i])
        for start in range(0, count, actions):
            first = start + writes
            total = signals[index, first]
            for i in range(first + 1, start + actions):
                total += signals[index, i]
            for i in range(first, start + actions):
                signals[index, i] /= total
    for start in range(0, count, actions):
        sigmoid_signals(start, start + writes, indices, sums, bias, signals)


@kernel.signals_backward.register(CellsBackward)
def signals_backward(
    memory: CellsBackward, count: int, indices: Array, signals: Array, grad: Array
) -> None:
    """Turn gradients of probabilities into those of the sums under them."""
    actions, writes = memory.cells.spec.actions, memory.cells.spec.writes
    for start in range(0, count, actions):
        sigmoid_signals_backward(start, start + writes, indices, signals, grad)
    for item in range(indices.shape[0]):
        index = indices[item]
        for start in range(0, count, actions):
            total = grad.dtype.type(0)
            for i in range(start + writes, start + actions):
                total += signals[index, i] * grad[item, i]
            for i in range(start + writes, start + actions):
                grad[item, i] = signals[index, i] * (grad[item, i] - total)


@kernel.discretize.register(Cells)
def discretize(memory: Cells, count: int, indices: Array, signals: Array) -> None:
    """Set the likeliest action of each stack or list to 1, others to 0; round a write strength."""
    actions, writes = memory.spec.actions, memory.spec.writes
    for start in range(0, count, actions):
        round_signals(start, start + writes, indices, signals)
    for item in range(indices.shape[0]):
        index = indices[item]
        for start in range(writes, count, actions):
            best = start
            for i in range(start + 1, start + actions - writes):
                if signals[index, i] > signals[index, best]:
                    best = i
            for i in range(start, start + actions - writes):
                signals[index, i] = 0
            signals[index, best] = 1


@kernel.step_forward.register(Cells)
def step_forward(
    memory: Cells, step: BatchStep, signals: Array, values: Array, reads: Array
) -> None:
    """Take the actions, then read."""
    indices, starts, cells, used = step.indices, step.starts, memory.cells, memory.used
    pushed, nothing_saved = memory.values, memory.saved_starts.shape[0] == 1
    for item in range(indices.shape[0]):
        index = min(indices[item], pushed.shape[0] - 1)
        for k in range(values.shape[1]):
            for i in range(values.shape[2]):
                pushed[index, k, i] = values[item, k, i]
    if memory.spec.lists:
        _list_step(memory, step, signals, values, reads)
    else:
        _stack_step(memory, step, signals, values, reads)
    for item in range(indices.shape[0]):
        if indices[item] + 1 == starts[item + 1] or nothing_saved:
            _drop_empty(cells, used, item, values.shape[2], memory.spec.empty)


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
    """Backpropagate through a step of stacks or lists."""
    indices, pushed = step.indices, memory.cells.values
    for item in range(indices.shape[0]):
        for k in range(values.shape[1]):
            for i in range(values.shape[2]):
                values[item, k, i] = pushed[indices[item], k, i]
    if memory.cells.spec.lists:
        _list_backward(memory, step, signals, grad_reads, grad_signals, grad_values)
    else:
        _stack_backward(memory, step, signals, grad_reads, grad_signals, grad_values)
