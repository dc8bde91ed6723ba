"""The neural stack: grefenstette2015, equations 1 to 3.

The state keeps C_t[i], the sum of the strengths from row i up to the top,
instead of the strengths: equations 2 and 3 are then one elementwise line each.
"""

import torch
from torch import Tensor
from torch.nn import functional

from stacktrans.memory.strengths import StrengthMemory, Strengths, fall
from stacktrans.names import MemoryName


class Stack(StrengthMemory):
    """Pops from the top, pushes on top, reads from the top; row 0 is the bottom."""

    name = MemoryName.STACK
    signal_names = ("pop", "push")
    ends = ("top",)

    def update(self, state: Strengths, signals: Tensor, values: Tensor) -> Strengths:
        pop, push = signals[:, :1], signals[:, 1:]
        remaining = functional.pad(torch.relu(state.cumulative - pop), (0, 1))
        return Strengths(
            remaining + push,  # equation 2
            state.rows.extended(values),  # equation 1
        )

    def read_weights(self, state: Strengths) -> Tensor:
        return fall(state.cumulative.clamp(max=1)).unsqueeze(1)  # equation 3

    def strengths(self, state: Strengths) -> Tensor:
        return fall(state.cumulative)

    def row_origins(self, steps: int) -> list[int]:
        return list(range(steps))
