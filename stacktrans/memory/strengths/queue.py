"""The neural queue: grefenstette2015, equations 1, 4 and 5."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from stacktrans.memory.strengths.base import BOTTOM, TOP, StrengthMemory, Strengths, popped, read_by

if TYPE_CHECKING:
    from stacktrans.kernels.stores import Kernel


class Queue(StrengthMemory):
    """Pops and reads at the front, pushes at the back.

    Row 0 is the front.
    """

    name = "queue"
    signal_names = ("pop", "push")
    ends = ("front",)

    def update(self, state: Strengths, signals: Tensor, values: Tensor) -> Strengths:
        pop, push = signals[:, :1], signals[:, 1:]
        return Strengths(
            torch.cat([popped(state.strengths, pop), push], dim=1),  # equation 4
            state.rows.extended(values),  # equation 1
        )

    def read_weights(self, state: Strengths) -> Tensor:
        return read_by(state.strengths).unsqueeze(1)  # equation 5

    def row_origins(self, steps: int) -> list[int]:
        return list(range(steps))

    def kernel(self) -> "Kernel":
        from stacktrans.memory.strengths.store import StrengthKernel  # waits for numba

        return StrengthKernel.of(pops=[(0, BOTTOM)], pushes=[(1, TOP)], reads=[BOTTOM])
