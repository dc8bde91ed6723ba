"""Compiled steps of stacks with actions on the arrays of `cells`, forward and backward."""

from stacktrans.kernels import Array
from stacktrans.kernels.compiling import compiled
from stacktrans.kernels.elementwise import add
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
def stack_step(memory: Cells, step: BatchStep, signals: Array, values: Array, reads: Array) -> None:
    """Take the actions of stacks, then read (joulin2015, section 3.1)."""
    spec, rows, used, padded = memory.spec, memory.cells, memory.used, memory.padded
    saved, indices, size = memory.saved, step.indices, reads.shape[2]
    first, length = saved_at(memory.saved_starts, step.number, spec.copies)
    for item in range(indices.shape[0]):
        used_after = min(used[item, 0] + 1, spec.capacity)
        for k in range(spec.copies):
            push, pop, _, stay = probabilities(spec, signals, indices[item], k)
            cells, start = rows[item, 0, k], first + k * length
            for i in range(size):
                padded[i] = values[item, k, i]
            saved_row = saved[item, start : start + length]
            shares, before = (push, stay, pop), used[item, 0]
            row_step(cells, size, before, used_after, shares, spec.empty, padded, saved_row)
            for cell in range(spec.depth):
                read = k * spec.depth + cell
                read_cell(cells, used_after, cell, spec.empty, reads, item, read)
        used[item, 0] = used_after


@compiled
def stack_backward(
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
    first, length = saved_at(cells.saved_starts, step.number, spec.copies)
    for item in range(indices.shape[0]):
        later = starts[item + 1] - indices[item] - 1
        used, reached = cells_in_use(spec, initial_used[item, 0], step.number, later)
        for k in range(spec.copies):
            push, pop, _, stay = probabilities(spec, signals, indices[item], k)
            grad, start = grad_cells[item, 0, k], first + k * length
            for cell in range(min(reached, spec.depth)):
                add(grad[cell * size :], grad_reads[item, k * spec.depth + cell])
            saved_row = saved[item, start : start + length]
            grad_push, grad_stay, grad_pop = row_backward(
                saved_row, size, used, reached, (push, stay, pop), grad, padded
            )
            signal = k * spec.actions
            grad_signals[item, signal] = grad_push
            grad_signals[item, signal + 1] = grad_pop
            if spec.no_op:
                grad_signals[item, signal + 2] = grad_stay
            for i in range(size):
                grad_values[item, k, i] = padded[i]
