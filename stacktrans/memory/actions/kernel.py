"""Compiled steps of stacks, lists and tapes with actions, as `stacktrans.kernels` calls them."""

from typing import TYPE_CHECKING, Any

import numpy as np

from stacktrans.kernels import Array, kernel
from stacktrans.kernels.batches import check_shape
from stacktrans.kernels.compiling import compiled
from stacktrans.kernels.elementwise import exp
from stacktrans.kernels.kernel import StoreSizes
from stacktrans.kernels.steps import (
    BatchStep,
    round_signals,
    sigmoid_signals,
    sigmoid_signals_backward,
)
from stacktrans.memory.actions.cells import UNLIMITED, ActionSpec, Cells, CellsBackward
from stacktrans.memory.actions.lists import list_backward, list_step
from stacktrans.memory.actions.stacks import stack_backward, stack_step

if TYPE_CHECKING:
    from stacktrans.memory.actions.definition import ActionMemory


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
        list_step(memory, step, signals, values, reads)
    else:
        stack_step(memory, step, signals, values, reads)
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
        list_backward(memory, step, signals, grad_reads, grad_signals, grad_values)
    else:
        stack_backward(memory, step, signals, grad_reads, grad_signals, grad_values)


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
