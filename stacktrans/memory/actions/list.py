"""Lists with actions: joulin2015, section 3.2."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from stacktrans.memory.actions.base import ActionMemory, constant, with_room, without_empty
from stacktrans.memory.base import MemoryState

if TYPE_CHECKING:
    from stacktrans.kernels.stores import Kernel


@dataclass(frozen=True, slots=True)
class ListCells(MemoryState):
    """What lists hold.

    Attributes:
        head: [B, count, 1, m].
        left: [B, count, n, m] what is left of the head, nearest first.
        right: [B, count, n', m] what is right of it, nearest first.
    """

    head: Tensor
    left: Tensor
    right: Tensor


class ActionList(ActionMemory[ListCells]):
    """Lists with a head that moves: joulin2015, section 3.2.

    An insertion puts the new cell right of the old head, which is then the first on its left:
    so the printed equations have it (left of the head L[i + 1], right of it L[i]), and nothing
    is lost. What is read is the head, then the cells next to it: left, right, left and so on.
    """

    name = "list-rnn"
    kind = "list"
    own_actions = ("insert", "left", "right")

    def initial(self, batch_size: int, value_size: int, like: Tensor) -> ListCells:
        nothing = like.new_empty(batch_size, self.count, 0, value_size)
        return ListCells(with_room(nothing, 1), nothing, nothing)

    def carried(self, state: ListCells, new: Tensor) -> ListCells:
        left, right = (without_empty(constant(side, new)) for side in (state.left, state.right))
        return ListCells(constant(state.head, new), left, right)

    def cells(self, state: ListCells) -> Tensor:
        beside = self.depth // 2
        sides = [with_room(side, beside)[:, :, :beside] for side in (state.left, state.right)]
        return torch.cat([state.head, torch.stack(sides, dim=3).flatten(2, 3)], dim=2)

    def update(self, state: ListCells, signals: Tensor, values: Tensor) -> ListCells:
        insert, left, right, stay = self._probabilities(signals)
        head = insert * values.unsqueeze(2) + stay * state.head
        head = head + left * with_room(state.left, 1)[:, :, :1]
        head = head + right * with_room(state.right, 1)[:, :, :1]
        return ListCells(
            head,
            self._mixed(state.left, state.head, insert + right, left, stay),
            self._mixed(state.right, state.head, left, right, insert + stay),
        )

    def kernel(self) -> "Kernel":
        from stacktrans.memory.actions.store import ActionKernel  # waits for numba

        return ActionKernel.of(self, lists=True)
