"""The neural double-ended queue: grefenstette2015, equations 6 to 11.

The state keeps P_t[i], the sum of the strengths from the bottom up to row i.
"""

import torch
from torch import Tensor

from stacktrans.memory.strengths import StrengthMemory, Strengths, rise
from stacktrans.names import MemoryName


class Deque(StrengthMemory):
    """Pops, pushes and reads at both ends; row 0 is the bottom.

    Within a step the pop from the top comes first, then the pop from the
    bottom on what is left, then both pushes, then both reads.
    """

    name = MemoryName.DEQUE
    signal_names = ("pop top", "push top", "pop bottom", "push bottom")
    ends = ("top", "bottom")

    def update(self, state: Strengths, signals: Tensor, values: Tensor) -> Strengths:
        pop_top, push_top, pop_bottom, push_bottom = signals.split(1, dim=1)
        before = state.cumulative
        total = before[:, -1:] if before.shape[1] else torch.zeros_like(pop_top)
        total = torch.relu(total - pop_top)
        below = torch.where(before < total, before, total)  # equation 7
        below = torch.relu(below - pop_bottom)  # equation 8
        total = torch.relu(total - pop_bottom) + push_bottom
        rows = [push_bottom, below + push_bottom, total + push_top]
        pushed_top, pushed_bottom = values.split(1, dim=1)
        return Strengths(
            torch.cat(rows, dim=1),  # equation 9
            state.rows.extended(pushed_top, front=pushed_bottom),  # equation 6
        )

    def read_weights(self, state: Strengths) -> Tensor:
        below = state.cumulative
        before = torch.cat([torch.zeros_like(below[:, :1]), below[:, :-1]], dim=1)
        total = below[:, -1:]
        top = (total - before).clamp(max=1) - (total - below).clamp(max=1)  # equation 10
        bottom = rise(below.clamp(max=1))  # equation 11
        return torch.stack([top, bottom], dim=1)

    def strengths(self, state: Strengths) -> Tensor:
        return rise(state.cumulative)

    def row_origins(self, steps: int) -> list[int]:
        return [*reversed(range(steps)), *range(steps)]
