"""A minimal memory with compiled steps: one cell, overwritten in proportion to a signal."""

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from torch import Tensor

from stacktrans.kernels import Array, kernel
from stacktrans.kernels.kernel import StoreSizes
from stacktrans.kernels.steps import BatchStep
from stacktrans.memory import Memory, MemoryState


@dataclass(frozen=True)
class Cell(MemoryState):
    """What is held: [B, m]."""

    content: Tensor


class Latch(Memory[Cell]):
    """A single cell."""

    name = "latch"
    signal_names = ("write",)
    push_names = ("cell",)
    reads = 1

    def initial(self, batch_size: int, value_size: int, like: Tensor) -> Cell:
        return Cell(like.new_zeros(batch_size, value_size))

    def step(self, state: Cell, signals: Tensor, values: Tensor) -> tuple[Cell, Tensor]:
        content = state.content + signals * (values[:, 0] - state.content)
        return Cell(content), content.unsqueeze(1)

    def store(self, sizes: StoreSizes) -> "LatchStore":
        cells = np.zeros((sizes.batch, sizes.columns), sizes.dtype)
        indices = sizes.batch * sizes.steps if sizes.total_steps is None else sizes.total_steps
        values = np.empty((indices, 1, sizes.columns), sizes.dtype)
        return LatchStore(cells, values, np.empty((indices, sizes.columns), sizes.dtype))


class Forward(NamedTuple):
    """[B, m] cells; [N, 1, m] what is pushed; [N, m] the cells before each step."""

    cells: Array
    values: Array
    before: Array


class Backward(NamedTuple):
    """[N, 1, m] pushed values; [N, m] cells before each step; [B, m] gradients, initially 0."""

    values: Array
    before: Array
    grad: Array


@kernel.step_forward.register(Forward)
def step_forward(
    memory: Forward, step: BatchStep, signals: Array, values: Array, reads: Array
) -> None:
    for item, index in enumerate(step.indices):
        for i in range(values.shape[2]):
            memory.values[index, 0, i] = values[item, 0, i]
            memory.before[index, i] = memory.cells[item, i]
            change = values[item, 0, i] - memory.cells[item, i]
            memory.cells[item, i] += signals[index, 0] * change
            reads[item, 0, i] = memory.cells[item, i]


@kernel.step_backward.register(Backward)
def step_backward(
    memory: Backward,
    step: BatchStep,
    signals: Array,
    values: Array,
    grad_reads: Array,
    grad_signals: Array,
    grad_values: Array,
) -> None:
    for item, index in enumerate(step.indices):
        grad_signals[item, 0] = 0
        for i in range(values.shape[2]):
            memory.grad[item, i] += grad_reads[item, 0, i]
            values[item, 0, i] = memory.values[index, 0, i]
            change = values[item, 0, i] - memory.before[index, i]
            grad_signals[item, 0] += memory.grad[item, i] * change
            grad_values[item, 0, i] = signals[index, 0] * memory.grad[item, i]
            memory.grad[item, i] *= 1 - signals[index, 0]


class LatchStore(NamedTuple):
    """The cells of a batch."""

    cells: Array
    values: Array
    before: Array
    contents: None = None

    def forward(self, part: slice, indices: slice) -> Forward:
        return Forward(self.cells[part], self.values[indices], self.before[indices])

    def backward(self, part: slice, indices: slice) -> Backward:
        grad = np.zeros_like(self.cells[part])
        return Backward(self.values[indices], self.before[indices], grad)

    def with_room(self, steps: int, taken: int) -> Self:
        indices, columns = len(self.cells) * steps, self.cells.shape[1]
        return self._replace(
            values=np.empty((indices, 1, columns), self.cells.dtype),
            before=np.empty((indices, columns), self.cells.dtype),
        )

    def select(self, items: Array) -> Self:
        return self._replace(cells=self.cells[items])
