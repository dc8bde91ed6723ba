"""The least memory with compiled steps: one cell, which is written as far as a signal says."""

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from torch import Tensor

from stacktrans.kernels import kernel
from stacktrans.kernels.arrays import fresh, fresh_zeros
from stacktrans.kernels.compiling import Array
from stacktrans.kernels.kernel import Kernel, Room
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
    """[N, 1, m], [N, m], [B, m] zeros, [1, m] to work in."""

    values: Array
    before: Array
    grad: Array
    grad_values: Array


@kernel.implements(kernel.pushed, Forward, Backward)
def pushed(memory: Forward, item: int, step: int, place: int) -> Array:
    vectors: Array = memory.values[place]
    return vectors


@kernel.implements(kernel.pushed_gradient, Backward)
def pushed_gradient(memory: Backward, item: int, step: int, place: int) -> Array:
    return memory.grad_values


@kernel.implements(kernel.step_forward, Forward)
def step_forward(
    memory: Forward, item: int, step: int, place: int, later: int, signals: Array, reads: Array
) -> None:
    cell, value = memory.cells[item], memory.values[place, 0]
    for i in range(cell.shape[0]):
        memory.before[place, i] = cell[i]
        cell[i] += signals[0] * (value[i] - cell[i])
        reads[i] = cell[i]


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
    grad, value, before = memory.grad[item], memory.values[place, 0], memory.before[place]
    grad_signals[0] = 0
    for i in range(grad.shape[0]):
        grad[i] += grad_reads[i]
        grad_signals[0] += grad[i] * (value[i] - before[i])
        memory.grad_values[0, i] = signals[0] * grad[i]
        grad[i] *= 1 - signals[0]


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
        return Backward(self.values[places], self.before[places], grad, np.zeros_like(grad[:1]))

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
        if room.values is not None:
            values = np.ascontiguousarray(room.values).reshape(values.shape)
        return LatchStore(cells, values, fresh(places, room.columns, dtype=room.dtype))
