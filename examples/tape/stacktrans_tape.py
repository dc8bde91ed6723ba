"""A differentiable tape with a head that moves, as a Turing machine has."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from stacktrans.memory import Memory, MemorySnapshot, MemoryState


@dataclass(frozen=True)
class Written(MemoryState):
    """What a tape holds after n steps: 2 n + 1 cells, all that the head can have reached.

    Attributes:
        cells: [B, 2 n + 1, m] what is written in each, the leftmost first.
        head: [B, 2 n + 1] how much of the head is at each; adds up to 1.
    """

    cells: Tensor
    head: Tensor


class Tape(Memory[Written]):
    """A tape that is written at its head, which then moves, and is read where it comes to."""

    name = "tape"
    signal_names = ("left", "stay", "right", "write")
    push_names = ("head",)
    reads = 1

    def signals(self, sums: Tensor) -> Tensor:
        """Where to move adds up to 1; how much to write is from 0 to 1."""
        return torch.cat([torch.softmax(sums[:, :3], dim=1), torch.sigmoid(sums[:, 3:])], dim=1)

    def initial(self, batch_size: int, value_size: int, like: Tensor) -> Written:
        return Written(like.new_zeros(batch_size, 1, value_size), like.new_ones(batch_size, 1))

    def step(self, state: Written, signals: Tensor, values: Tensor) -> tuple[Written, Tensor]:
        left, stay, right, write = signals.split(1, dim=1)
        share = (write * state.head).unsqueeze(2)
        cells = state.cells + share * (values - state.cells)
        # The tape becomes one cell longer at either end.
        head = left * pad(state.head, (0, 2)) + stay * pad(state.head, (1, 1))
        head = head + right * pad(state.head, (2, 0))
        state = Written(pad(cells, (0, 0, 1, 1)), head)
        return state, self.under_head(state)

    def under_head(self, state: Written) -> Tensor:
        """[B, 1, m] what is read."""
        return torch.bmm(state.head.unsqueeze(1), state.cells)

    def snapshot(self, state: Written) -> MemorySnapshot:
        return MemorySnapshot(read_cells={"tape": self.under_head(state)[0]})
