"""The neural stack: grefenstette2015, equations 1 to 3."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from stacktrans.memory.strengths.base import TOP, StrengthMemory, Strengths, popped, read_by

if TYPE_CHECKING:
    from stacktrans.kernels.stores import Kernel


class Stack(StrengthMemory):
    """Pops from the top, pushes on top, reads from the top.

    Row 0 is the bottom.
    """

    name = "stack"
    signal_names = ("pop", "push")
    ends = ("top",)

    def update(self, state: Strengths, signals: Tensor, values: Tensor) -> Strengths:
        pop, push = signals[:, :1], signals[:, 1:]
        left = popped(state.strengths.flip(1), pop).flip(1)
        return Strengths(
            torch.cat([left, push], dim=1),  # equation 2
            state.rows.extended(values),  # equation 1
        )

    def read_weights(self, state: Strengths) -> Tensor:
        return read_by(state.strengths.flip(1)).flip(1).unsqueeze(1)  # equation 3

    def row_origins(self, steps: int) -> list[int]:
        return list(range(steps))

    def kernel(self) -> "Kernel":
        from stacktrans.memory.strengths.store import StrengthKernel  # waits for numba

        return StrengthKernel.of(pops=[(0, TOP)], pushes=[(1, TOP)], reads=[TOP])
