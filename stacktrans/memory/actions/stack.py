"""Stacks with actions: joulin2015, section 3.1."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from stacktrans.memory.actions.base import ActionMemory, constant, without_empty
from stacktrans.memory.base import MemoryState

if TYPE_CHECKING:
    from stacktrans.kernels.stores import Kernel


@dataclass(frozen=True, slots=True)
class StackCells(MemoryState):
    """What stacks hold.

    Attributes:
        cells: [B, count, n, m] from the top down; what is under them is empty.
    """

    cells: Tensor


class ActionStack(ActionMemory[StackCells]):
    """Stacks that are pushed to or popped: joulin2015, section 3.1."""

    name = "stack-rnn"
    kind = "stack"
    own_actions = ("push", "pop")

    def initial(self, batch_size: int, value_size: int, like: Tensor) -> StackCells:
        return StackCells(like.new_empty(batch_size, self.count, 0, value_size))

    def carried(self, state: StackCells, new: Tensor) -> StackCells:
        return StackCells(without_empty(constant(state.cells, new)))

    def cells(self, state: StackCells) -> Tensor:
        return state.cells

    def update(self, state: StackCells, signals: Tensor, values: Tensor) -> StackCells:
        push, pop, stay = self._probabilities(signals)
        return StackCells(self._mixed(state.cells, values.unsqueeze(2), push, pop, stay))

    def kernel(self) -> "Kernel":
        from stacktrans.memory.actions.store import ActionKernel  # waits for numba

        return ActionKernel.of(self, lists=False)
