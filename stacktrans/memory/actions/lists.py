"""Compiled steps of lists and tapes on the arrays of `cells`, forward and backward."""

from typing import Any

from stacktrans.kernels import Array
from stacktrans.kernels.compiling import compiled
from stacktrans.kernels.elementwise import add, add_scaled, copy, dot
from stacktrans.kernels.steps import BatchStep
from stacktrans.memory.actions.cells import Cells, CellsBackward
from stacktrans.memory.actions.rows import (
    cells_in_use,
    probabilities,
    read_cell,
    row_backward,
    row_step,
    saved_at,
)


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
def list_step(memory: Cells, step: BatchStep, signals: Array, values: Array, reads: Array) -> None:
    """Take the actions of lists, then read (joulin2015, section 3.2).

    The head is read first, then alternately the cells left and right of it.
    """
    spec, rows, used, padded = memory.spec, memory.cells, memory.used, memory.padded
    saved, indices, size = memory.saved, step.indices, reads.shape[2]
    heads, pushed = memory.head, memory.values
    spare = padded[padded.shape[0] - 2 * size :]
    first_left, first_right = spare[:size], spare[size:]
    first, length = saved_at(memory.saved_starts, step.number, 2 * spec.copies)
    for item in range(indices.shape[0]):
        used_left, used_right = used[item, 0], used[item, 1]
        to_left = min(used_left + 1, spec.capacity)
        to_right = min(used_right + 1, spec.capacity)
        for k in range(spec.copies):
            insert, left, right, stay = probabilities(spec, signals, indices[item], k)
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
            row_step(lefts, size, used_left, to_left, shares, spec.empty, padded, saved_row)
            start += spec.copies * length
            saved_row = saved[item, start : start + length]
            copy(padded[:size], head)
            shares = left, insert + stay, right
            row_step(rights, size, used_right, to_right, shares, spec.empty, padded, saved_row)
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
                read_cell(side, reached, cell, spec.empty, reads, item, read + near)
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
def list_backward(
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
    first, length = saved_at(cells.saved_starts, step.number, 2 * spec.copies)
    for item in range(indices.shape[0]):
        index, later = indices[item], starts[item + 1] - indices[item] - 1
        used_left, to_left = cells_in_use(spec, initial_used[item, 0], step.number, later)
        used_right, to_right = cells_in_use(spec, initial_used[item, 1], step.number, later)
        for k in range(spec.copies):
            insert, left, right, stay = probabilities(spec, signals, index, k)
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
            push_left, stay_left, pop_left = row_backward(
                saved_left, size, used_left, to_left, shares, grad_left, padded
            )
            # What was pushed on both sides is the old head.
            before = grad_values[item, k]
            copy(before, padded)
            shares = left, insert + stay, right
            push_right, stay_right, pop_right = row_backward(
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
