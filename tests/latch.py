"""The least memory with compiled steps: one cell, which is written as far as a signal says."""

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from torch import Tensor

from stacktrans.kernels import kernel
from stacktrans.kernels.arrays import Array, fresh, fresh_zeros
from stacktrans.kernels.kernel import Kernel, Room
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

    def kernel(self) -> Kernel:
        return LatchKernel(signals=1, pushes=1, reads=1)


class Forward(NamedTuple):
    """[B, m] cells; [N, 1, m] what is pushed; [N, m] the cells before each step."""

    cells: Array
    values: Array
    before: Array


class Backward(NamedTuple):
    """[N, 1, m], [N, m], [B, m] zeros."""

    values: Array
    before: Array
    grad: Array


@kernel.step_forward.register(Forward)
def step_forward(
    memory: Forward, step: BatchStep, signals: Array, values: Array, reads: Array
) -> None:
    for item, place in enumerate(step.places):
        for i in range(values.shape[2]):
            memory.values[place, 0, i] = values[item, 0, i]
            memory.before[place, i] = memory.cells[item, i]
            change = values[item, 0, i] - memory.cells[item, i]
            memory.cells[item, i] += signals[place, 0] * change
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
    for item, place in enumerate(step.places):
        grad_signals[item, 0] = 0
        for i in range(values.shape[2]):
            memory.grad[item, i] += grad_reads[item, 0, i]
            values[item, 0, i] = memory.values[place, 0, i]
            change = values[item, 0, i] - memory.before[place, i]
            grad_signals[item, 0] += memory.grad[item, i] * change
            grad_values[item, 0, i] = signals[place, 0] * memory.grad[item, i]
            memory.grad[item, i] *= 1 - signals[place, 0]


class LatchStore(NamedTuple):
    """The cells of a batch."""

    cells: Array
    values: Array
    before: Array
    held: None = None

    def forward(self, part: slice, places: slice) -> Forward:
        return Forward(self.cells[part], self.values[places], self.before[places])

    def backward(self, part: slice, places: slice) -> Backward:
        grad = np.zeros_like(self.cells[part])
        return Backward(self.values[places], self.before[places], grad)

    def with_room(self, steps: int) -> Self:
        places, columns = len(self.cells) * steps, self.cells.shape[1]
        return self._replace(
            values=fresh(places, 1, columns, dtype=self.cells.dtype),
            before=fresh(places, columns, dtype=self.cells.dtype),
        )

    def after(self, steps: int) -> Self:
        return self

    def chosen(self, items: Array) -> Self:
        return self._replace(cells=self.cells[items])


class LatchKernel(Kernel):
    """Its compiled steps."""

    def store(self, room: Room) -> LatchStore:
        cells = fresh_zeros(room.batch, room.columns, dtype=room.dtype)
        places = room.batch * room.steps if room.places is None else room.places
        values = fresh(places, 1, room.columns, dtype=room.dtype)
        return LatchStore(cells, values, fresh(places, room.columns, dtype=room.dtype))
