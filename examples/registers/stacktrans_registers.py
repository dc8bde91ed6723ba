"""Registers that hold a vector each, as in a register machine."""

from dataclasses import dataclass

import torch
from torch import Tensor

from stacktrans.memory import Memory, MemorySnapshot, MemoryState


@dataclass(frozen=True)
class RegisterState(MemoryState):
    """The contents of n registers.

    Attributes:
        contents: [B, n, m] the vector in each register.
    """

    contents: Tensor


class Registers(Memory[RegisterState]):
    """Differentiable registers: each is written as far as its signal says; then one is read.

    Args:
        registers: how many there are.
    """

    name = "registers"
    push_names = ("registers",)
    reads = 1

    def __init__(self, registers: int = 4) -> None:
        self.registers = registers

    @property
    def signal_names(self) -> tuple[str, ...]:
        numbers = range(1, self.registers + 1)
        return (
            *(f"write {number}" for number in numbers),
            *(f"read {number}" for number in numbers),
        )

    def signals(self, sums: Tensor) -> Tensor:
        """A sigmoid for the strength of each writing, and a softmax over the register to read."""
        strengths, choices = sums.chunk(2, dim=1)
        return torch.cat([torch.sigmoid(strengths), torch.softmax(choices, dim=1)], dim=1)

    def initial(self, batch_size: int, value_size: int, like: Tensor) -> RegisterState:
        return RegisterState(like.new_zeros(batch_size, self.registers, value_size))

    def step(
        self, state: RegisterState, signals: Tensor, values: Tensor
    ) -> tuple[RegisterState, Tensor]:
        write, read = signals.chunk(2, dim=1)
        contents = state.contents + write.unsqueeze(2) * (values - state.contents)
        return RegisterState(contents), torch.bmm(read.unsqueeze(1), contents)

    def snapshot(self, state: RegisterState) -> MemorySnapshot:
        cells = enumerate(state.contents[0].split(1), start=1)
        return MemorySnapshot(read_cells={f"register {number}": cell for number, cell in cells})
