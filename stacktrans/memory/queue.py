"""The neural queue: grefenstette2015, equations 1, 4 and 5.

The state keeps P_t[i], the sum of the strengths from the front up to row i.
"""

import torch
from torch import Tensor

from stacktrans.memory.strengths import StrengthMemory, Strengths, rise
from stacktrans.names import MemoryName


class Queue(StrengthMemory):
    """Pops and reads at the front, pushes at the back; row 0 is the front."""

    name = MemoryName.QUEUE
    signal_names = ("pop", "push")
    ends = ("front",)

    def update(self, state: Strengths, signals: Tensor, values: Tensor) -> Strengths:
        pop, push = signals[:, :1], signals[:, 1:]
        remaining = torch.relu(state.cumulative - pop)
        total = remaining[:, -1:] if remaining.shape[1] else torch.zeros_like(push)
        return Strengths(
            torch.cat([remaining, total + push], dim=1),  # equation 4
            state.rows.extended(values),  # equation 1
        )

    def read_weights(self, state: Strengths) -> Tensor:
        return rise(state.cumulative.clamp(max=1)).unsqueeze(1)  # equation 5

    def strengths(self, state: Strengths) -> Tensor:
        return rise(state.cumulative)

    def row_origins(self, steps: int) -> list[int]:
        return list(range(steps))
