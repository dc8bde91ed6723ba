"""Memories whose cells are mixed by the probabilities of actions (joulin2015, section 3).

Any number of stacks, or of lists, stand side by side, and each has a softmax over its actions
to itself. What a cell holds after a step is the mean, by the actions' probabilities, of what
it would hold after each. There are no strengths: a cell that is empty holds -1.
"""

from __future__ import annotations

import functools
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from stacktrans.common.ends import TOP, Ends, side_by_side
from stacktrans.common.registry import LazyModule
from stacktrans.memory.actions import EMPTY
from stacktrans.memory.base import CellContents, Memory, MemorySnapshot, MemoryState, State

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from torch.nn import functional

    from stacktrans.kernels import Array
    from stacktrans.kernels.kernel import Kernel
else:
    torch, functional = LazyModule("torch"), LazyModule("torch.nn.functional")

NO_OP = "no-op"


class ActionMemory(Memory[State]):
    """Stacks or lists, each with its actions.

    Args:
        count: how many there are side by side.
        depth: how many cells of each are read.
        no_op: whether doing nothing is an action.
        capacity: how many cells in a row are kept, those furthest away being lost; None for
            as many as are needed.

    Attributes:
        kind: what one of them is called.
        actions: their names, in the order of the signals of each stack or list.
    """

    takes_actions = True
    carries = True
    kind: ClassVar[str]
    own_actions: ClassVar[tuple[str, ...]]

    def __init__(
        self, count: int = 1, depth: int = 2, no_op: bool = True, capacity: int | None = None
    ) -> None:
        self.count, self.depth, self.no_op, self.capacity = count, depth, no_op, capacity
        self.actions = (*self.own_actions, *((NO_OP,) if no_op else ()))

    @functools.cached_property
    def signal_names(self) -> tuple[str, ...]:
        return tuple(
            f"{action} {number}" if self.count > 1 else action
            for number in range(1, self.count + 1)
            for action in self.actions
        )

    @property
    def push_names(self) -> tuple[str, ...]:
        return tuple(f"{self.kind} {number}" for number in range(1, self.count + 1))

    @property
    def ends(self) -> Ends:
        names = self.push_names if self.count > 1 else (self.kind,)
        return side_by_side([self._ends_of_one()] * self.count, names, self.signal_names)

    @abstractmethod
    def _ends_of_one(self) -> Ends:
        """The ends of one stack or list."""

    @property
    def reads(self) -> int:
        return self.count * self.depth

    def signals(self, sums: Tensor) -> Tensor:
        """Probabilities of the actions, which add up to 1 for each stack or list."""
        return torch.softmax(self._by_memory(sums), dim=2).flatten(1)

    def discretise(self, signals: Tensor) -> Tensor:
        """The most probable action of each stack or list, for certain."""
        signals = self._by_memory(signals)
        best = signals.argmax(dim=2)
        certain: Tensor = functional.one_hot(best, len(self.actions))
        return certain.to(signals.dtype).flatten(1)

    def initial_reads(self, batch_size: int, value_size: int, like: Tensor) -> Tensor:
        return like.new_full((batch_size, self.reads, value_size), EMPTY)

    def _by_memory(self, numbers: Tensor) -> Tensor:
        """[B, signals] -> [B, count, actions]."""
        parts: Tensor = numbers.unflatten(1, (self.count, len(self.actions)))
        return parts

    def _probabilities(self, signals: Tensor) -> list[Tensor]:
        """Each action's, [B, count, 1, 1]; 0 for doing nothing if that is no action."""
        parts = list(self._by_memory(signals).unsqueeze(3).split(1, dim=2))
        return parts if self.no_op else [*parts, torch.zeros_like(parts[0])]

    @abstractmethod
    def cells(self, state: State) -> Tensor:
        """[B, count, depth or more, m] what is held, nearest first, as it is read."""

    def step(self, state: State, signals: Tensor, values: Tensor) -> tuple[State, Tensor]:
        state = self.update(state, signals, values)
        return state, with_room(self.cells(state), self.depth)[:, :, : self.depth].flatten(1, 2)

    def snapshot_of(
        self, store: Any, reads: Array, steps: int, contents: bool = True
    ) -> MemorySnapshot:
        read_cells = reads.reshape(self.count, self.depth, -1).copy()
        from stacktrans.memory.actions.cells import lines_of  # which not every command needs

        lines = [CellContents(*line) for line in lines_of(store)] if contents else []
        return MemorySnapshot(
            read_cells=dict(zip(self.push_names, read_cells, strict=True)),
            cells=dict(zip(self.push_names, lines, strict=False)),
        )

    def snapshot(self, state: State) -> MemorySnapshot:
        read_cells = with_room(self.cells(state), self.depth)[0, :, : self.depth]
        return MemorySnapshot(
            read_cells=dict(zip(self.push_names, read_cells, strict=True)),
            cells=dict(zip(self.push_names, self.lines(state), strict=True)),
        )

    @abstractmethod
    def lines(self, state: State) -> list[CellContents]:
        """All cells of each stack or list of the first string."""

    @abstractmethod
    def update(self, state: State, signals: Tensor, values: Tensor) -> State:
        """Take the actions, without reading; shapes as in `step`."""

    def _mixed(self, cells: Tensor, top: Tensor, push: Tensor, pop: Tensor, stay: Tensor) -> Tensor:
        """Cells [B, count, n, m] after a step, one more than before unless that is too many.

        On them is pushed `top`, [B, count, 1, m]; the shares are [B, count, 1, 1].
        """
        pushed = torch.cat([top, cells], dim=2)
        more = pushed.shape[2]
        popped, kept = with_room(cells[:, :, 1:], more), with_room(cells, more)
        mixed = push * pushed + pop * popped + stay * kept
        mixed = mixed if torch.is_grad_enabled() else without_empty(mixed)
        return mixed[:, :, : self.capacity]


def with_room(cells: Tensor, count: int) -> Tensor:
    """Cells [B, count, n, m] and empty ones after them, `count` or more in all."""
    missing = max(0, count - cells.shape[2])
    return functional.pad(cells, (0, 0, 0, missing), value=EMPTY) if missing else cells


def without_empty(cells: Tensor) -> Tensor:
    """Cells without those at the end that are empty, but for a rounding error, in every string."""
    held = (cells - EMPTY).abs() > torch.finfo(cells.dtype).eps
    used = held.any(dim=3).any(dim=1).any(dim=0).nonzero()
    return cells[:, :, : int(used[-1]) + 1 if len(used) else 0]


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

    def carried(self, state: StackCells) -> StackCells:
        return StackCells(without_empty(state.cells.detach()))

    def cells(self, state: StackCells) -> Tensor:
        return state.cells

    def lines(self, state: StackCells) -> list[CellContents]:
        return [CellContents(cells.flip(0)) for cells in state.cells[0]]

    def update(self, state: StackCells, signals: Tensor, values: Tensor) -> StackCells:
        push, pop, stay = self._probabilities(signals)
        return StackCells(self._mixed(state.cells, values.unsqueeze(2), push, pop, stay))

    def _ends_of_one(self) -> Ends:
        return Ends(
            (self.kind,),
            pops=((1, TOP),),
            pushes=((0, TOP),),
            reads=(TOP,) * self.depth,
            signal_names=self.actions,
            depths=tuple(range(self.depth)),
        )

    def kernel(self) -> Kernel:
        from stacktrans.memory.actions.steps import ActionKernel  # which not every command needs

        return ActionKernel.of(self, lists=False)


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

    def carried(self, state: ListCells) -> ListCells:
        left, right = (without_empty(side.detach()) for side in (state.left, state.right))
        return ListCells(state.head.detach(), left, right)

    def cells(self, state: ListCells) -> Tensor:
        beside = self.depth // 2
        sides = [with_room(side, beside)[:, :, :beside] for side in (state.left, state.right)]
        return torch.cat([state.head, torch.stack(sides, dim=3).flatten(2, 3)], dim=2)

    def lines(self, state: ListCells) -> list[CellContents]:
        sides = zip(state.left[0], state.head[0], state.right[0], strict=True)
        return [
            CellContents(torch.cat([left.flip(0), head, right]), len(left))
            for left, head, right in sides
        ]

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

    def _ends_of_one(self) -> Ends:
        left, right = TOP, 2 + TOP  # the head is the top of what is left of it
        beside = range(self.depth - 1)
        return Ends(
            (self.kind, f"{self.kind} right of its head"),
            pops=(),
            pushes=((0, left),),
            reads=(left, *(right if cell % 2 else left for cell in beside)),
            signal_names=self.actions,
            depths=(0, *(cell // 2 + (cell % 2 == 0) for cell in beside)),
            moves=((1, left, right), (2, right, left)),
        )

    def kernel(self) -> Kernel:
        from stacktrans.memory.actions.steps import ActionKernel  # which not every command needs

        return ActionKernel.of(self, lists=True)
