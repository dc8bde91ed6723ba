"""A differentiable tape with a moving head, as in a Turing machine."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from stacktrans.memory import Memory, MemorySnapshot, MemoryState


@dataclass(frozen=True)
class TapeState(MemoryState):
    """The state of a tape after n steps: 2 n + 1 cells, all that the head can have reached.

    Attributes:
        cells: [B, 2 n + 1, m] the vectors on the tape, from left to right.
        head: [B, 2 n + 1] the distribution of the head over the cells.
    """

    cells: Tensor
    head: Tensor


class Tape(Memory[TapeState]):
    """A differentiable tape: written at its head, which moves, and read at the new position."""

    name = "tape"
    signal_names = ("left", "stay", "right", "write")
    push_names = ("head",)
    reads = 1

    def signals(self, sums: Tensor) -> Tensor:
        """A softmax over the moves, and a sigmoid for the strength of writing."""
        return torch.cat([torch.softmax(sums[:, :3], dim=1), torch.sigmoid(sums[:, 3:])], dim=1)

    def initial(self, batch_size: int, value_size: int, like: Tensor) -> TapeState:
        return TapeState(like.new_zeros(batch_size, 1, value_size), like.new_ones(batch_size, 1))

    def step(self, state: TapeState, signals: Tensor, values: Tensor) -> tuple[TapeState, Tensor]:
        left, stay, right, write = signals.split(1, dim=1)
        share = (write * state.head).unsqueeze(2)
        cells = state.cells + share * (values - state.cells)
        # The tape becomes one cell longer at either end.
        head = left * pad(state.head, (0, 2)) + stay * pad(state.head, (1, 1))
        head = head + right * pad(state.head, (2, 0))
        state = TapeState(pad(cells, (0, 0, 1, 1)), head)
        return state, self.under_head(state)

    def under_head(self, state: TapeState) -> Tensor:
        """The vectors under the head, [B, 1, m]."""
        return torch.bmm(state.head.unsqueeze(1), state.cells)

    def snapshot(self, state: TapeState) -> MemorySnapshot:
        return MemorySnapshot(read_cells={"tape": self.under_head(state)[0]})
