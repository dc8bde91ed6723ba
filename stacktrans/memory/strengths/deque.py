"""The neural double-ended queue: grefenstette2015, equations 6 to 11."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from stacktrans.memory.strengths.base import BOTTOM, TOP, StrengthMemory, Strengths, popped, read_by

if TYPE_CHECKING:
    from stacktrans.kernels.stores import Kernel


class Deque(StrengthMemory):
    """Pops, pushes and reads at both ends.

    Row 0 is the bottom. Within a step the pop from the top comes first, then the pop from the
    bottom on what is left, then both pushes, then both reads.
    """

    name = "deque"
    signal_names = ("pop top", "push top", "pop bottom", "push bottom")
    ends = ("top", "bottom")

    def update(self, state: Strengths, signals: Tensor, values: Tensor) -> Strengths:
        pop_top, push_top, pop_bottom, push_bottom = signals.split(1, dim=1)
        left = popped(state.strengths.flip(1), pop_top).flip(1)  # equation 7
        left = popped(left, pop_bottom)  # equation 8
        pushed_top, pushed_bottom = values.split(1, dim=1)
        return Strengths(
            torch.cat([push_bottom, left, push_top], dim=1),  # equation 9
            state.rows.extended(pushed_top, front=pushed_bottom),  # equation 6
        )

    def read_weights(self, state: Strengths) -> Tensor:
        top = read_by(state.strengths.flip(1)).flip(1)  # equation 10
        bottom = read_by(state.strengths)  # equation 11
        return torch.stack([top, bottom], dim=1)

    def row_origins(self, steps: int) -> list[int]:
        return [*reversed(range(steps)), *range(steps)]

    def kernel(self) -> "Kernel":
        from stacktrans.memory.strengths.store import StrengthKernel  # waits for numba

        return StrengthKernel.of(
            pops=[(0, TOP), (2, BOTTOM)], pushes=[(1, TOP), (3, BOTTOM)], reads=[TOP, BOTTOM]
        )
