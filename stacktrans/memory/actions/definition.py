"""Stacks, lists and tapes operated by probabilities of actions, step by step in torch.

The equations are those of joulin2015, section 3, and deletang2023. Any number of stacks, or lists,
or tapes, stand side by side, each with a softmax over its own actions. A cell after a step is the
expectation, under the actions' probabilities, of the cell after each action. Cells have no
strengths: an empty one is -1, or 0 in the memories of deletang2023.
"""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from stacktrans.common.ends import TOP, Ends, side_by_side
from stacktrans.common.registry import LazyModule
from stacktrans.memory.base import CellContents, Memory, MemorySnapshot, MemoryState, State

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from torch.nn import functional

    from stacktrans.kernels import Array
    from stacktrans.kernels.kernel import Store, StoreSizes
else:
    torch, functional = LazyModule("torch"), LazyModule("torch.nn.functional")


class ActionMemory(Memory[State]):
    """Stacks, lists or tapes side by side, each operated by probabilities of its actions.

    Args:
        count: the number of stacks, lists or tapes.
        depth: the number of cells that are read of each.
        no_op: whether doing nothing is an action.
        capacity: the most cells of a stack, or on each side of a list's head; the furthest are
            lost. None for no limit.

    Attributes:
        structure: "stack", "list" or "tape".
        base_actions: the names of the signals of each stack, list or tape but for doing nothing.
        idle: the name of doing nothing.
        writes: 1 for tapes, whose first signal is no action, but the strength of writing; else 0.
        actions: the names of all these signals, in order.
    """

    takes_actions = True
    carries = True
    empty = -1.0
    structure: ClassVar[str]
    base_actions: ClassVar[tuple[str, ...]]
    idle: ClassVar[str] = "no-op"
    writes: ClassVar[int] = 0

    def __init__(
        self, count: int = 1, depth: int = 2, no_op: bool = True, capacity: int | None = None
    ) -> None:
        self.count, self.depth, self.no_op, self.capacity = count, depth, no_op, capacity
        self.actions = (*self.base_actions, *((self.idle,) if no_op else ()))

    @functools.cached_property
    def signal_names(self) -> tuple[str, ...]:
        return tuple(
            f"{action} {number}" if self.count > 1 else action
            for number in range(1, self.count + 1)
            for action in self.actions
        )

    @property
    def push_names(self) -> tuple[str, ...]:
        return tuple(f"{self.structure} {number}" for number in range(1, self.count + 1))

    @property
    def parts(self) -> Sequence[Memory[Any]]:
        return [type(self)(1, self.depth, self.no_op, self.capacity)] * self.count

    @property
    def ends(self) -> Ends | None:
        names = self.push_names if self.count > 1 else (self.structure,)
        return side_by_side([self._ends_of_copy()] * self.count, names, self.signal_names)

    @abstractmethod
    def _ends_of_copy(self) -> Ends:
        """The ends of one of the stacks or lists."""

    @property
    def reads(self) -> int:
        return self.count * self.depth

    def signals(self, sums: Tensor) -> Tensor:
        """Probabilities of actions: a softmax for each stack or list; a sigmoid for a strength."""
        strengths, actions = self._by_copy(sums).tensor_split([self.writes], dim=2)
        softmax = torch.softmax(actions, dim=2)
        return torch.cat([torch.sigmoid(strengths), softmax], dim=2).flatten(1)

    def discretize(self, signals: Tensor) -> Tensor:
        """One-hot vectors of the most probable action of each stack or list; a rounded strength."""
        strengths, actions = self._by_copy(signals).tensor_split([self.writes], dim=2)
        one_hot = functional.one_hot(actions.argmax(dim=2), actions.shape[2]).to(signals.dtype)
        return torch.cat([torch.round(strengths), one_hot], dim=2).flatten(1)

    def _by_copy(self, numbers: Tensor) -> Tensor:
        """[B, signals] -> [B, count, actions]."""
        parts: Tensor = numbers.unflatten(1, (self.count, len(self.actions)))
        return parts

    def _probabilities(self, signals: Tensor) -> list[Tensor]:
        """The signals, each [B, count, 1, 1], the last of which is 0 without `no_op`.

        They are probabilities of actions; for tapes, the first is the strength of writing.
        """
        parts = list(self._by_copy(signals).unsqueeze(3).split(1, dim=2))
        return parts if self.no_op else [*parts, torch.zeros_like(parts[0])]

    @abstractmethod
    def nearest_cells(self, state: State) -> Tensor:
        """The nearest cells in the order of reads, [B, count, n, m]: `depth` or more, if any."""

    def read(self, state: State) -> Tensor:
        """The cells that are read, [B, count, depth, m]."""
        return self._padded(self.nearest_cells(state), self.depth)[:, :, : self.depth]

    def step(self, state: State, signals: Tensor, values: Tensor) -> tuple[State, Tensor]:
        state = self.update(state, signals, values)
        return state, self.read(state).flatten(1, 2)

    def snapshot_of(self, store: Any, reads: Array, steps: int) -> MemorySnapshot:
        read_cells = reads.reshape(self.count, self.depth, -1).copy()
        return self._snapshot(read_cells, store.all_cells())

    def snapshot(self, state: State) -> MemorySnapshot:
        return self._snapshot(self.read(state)[0], self.all_cells(state))

    def _snapshot(
        self, read_cells: Iterable[Tensor | Array], cells: Iterable[CellContents]
    ) -> MemorySnapshot:
        return MemorySnapshot(
            read_cells=dict(zip(self.push_names, read_cells, strict=True)),
            cells=dict(zip(self.push_names, cells, strict=True)),
        )

    @abstractmethod
    def all_cells(self, state: State) -> list[CellContents]:
        """All cells of each stack or list of the first string of a batch."""

    @abstractmethod
    def update(self, state: State, signals: Tensor, values: Tensor) -> State:
        """Take the actions without reading; shapes as in `step`."""

    def _mix(self, cells: Tensor, top: Tensor, push: Tensor, pop: Tensor, stay: Tensor) -> Tensor:
        """Push to, pop and keep cells [B, count, n, m] by shares [B, count, 1, 1].

        `top`, [B, count, 1, m], is pushed. The result has n + 1 cells, up to the capacity.
        """
        pushed = torch.cat([top, cells], dim=2)
        length = pushed.shape[2]
        popped, kept = self._padded(cells[:, :, 1:], length), self._padded(cells, length)
        mean = push * pushed + pop * popped + stay * kept
        mean = mean if torch.is_grad_enabled() else self._trimmed(mean)
        return mean[:, :, : self.capacity]

    def _padded(self, cells: Tensor, length: int) -> Tensor:
        """Cells [B, count, n, m], padded with empty ones to `length` or more."""
        missing = max(0, length - cells.shape[2])
        return functional.pad(cells, (0, 0, 0, missing), value=self.empty) if missing else cells

    def _trimmed(self, cells: Tensor) -> Tensor:
        """Cells without those at the end that are empty in every string, up to rounding errors."""
        filled = (cells - self.empty).abs() > torch.finfo(cells.dtype).eps
        used = filled.any(dim=3).any(dim=1).any(dim=0).nonzero()
        return cells[:, :, : int(used[-1]) + 1 if len(used) else 0]


@dataclass(frozen=True, slots=True)
class StackCells(MemoryState):
    """The contents of stacks.

    Attributes:
        cells: [B, count, n, m] from the top down; all cells below are empty.
    """

    cells: Tensor


def _store(memory: ActionMemory[Any], sizes: StoreSizes) -> Store:
    """The `store` of each class of this file, set in each: `is_compiled` ignores a base's."""
    from stacktrans.memory.actions.kernel import new_cells  # not needed by all commands

    return new_cells(memory, sizes)


class ActionStack(ActionMemory[StackCells]):
    """Stacks that are pushed and popped by probabilities of actions (joulin2015, section 3.1)."""

    name = "stack-rnn"
    structure = "stack"
    base_actions = ("push", "pop")

    def initial(self, batch_size: int, value_size: int, like: Tensor) -> StackCells:
        return StackCells(like.new_empty(batch_size, self.count, 0, value_size))

    def carried(self, state: StackCells) -> StackCells:
        return StackCells(self._trimmed(state.cells))

    def nearest_cells(self, state: StackCells) -> Tensor:
        return state.cells

    def all_cells(self, state: StackCells) -> list[CellContents]:
        return [CellContents(cells.flip(0)) for cells in state.cells[0]]

    def update(self, state: StackCells, signals: Tensor, values: Tensor) -> StackCells:
        push, pop, stay = self._probabilities(signals)
        return StackCells(self._mix(state.cells, values.unsqueeze(2), push, pop, stay))

    def _ends_of_copy(self) -> Ends:
        return Ends(
            (self.structure,),
            pops=((1, TOP),),
            pushes=((0, TOP),),
            reads=(TOP,) * self.depth,
            signal_names=self.actions,
            depths=tuple(range(self.depth)),
        )

    store = _store


class SuperposedStack(ActionStack):
    """Superposed stacks of vectors: each is the mean of those after its actions (deletang2023).

    They are the stacks of joulin2015, but an empty cell is zero, and the top alone is read.
    """

    name = "superposed"
    empty = 0.0

    def __init__(
        self, count: int = 1, depth: int = 1, no_op: bool = True, capacity: int | None = None
    ) -> None:
        super().__init__(count, depth, no_op, capacity)

    store = _store


@dataclass(frozen=True, slots=True)
class ListCells(MemoryState):
    """The contents of lists.

    Attributes:
        head: [B, count, 1, m] the cell at the head.
        left: [B, count, n, m] the cells left of the head, nearest first.
        right: [B, count, n', m] the cells right of the head, nearest first.
    """

    head: Tensor
    left: Tensor
    right: Tensor


class ActionList(ActionMemory[ListCells]):
    """Doubly linked lists with a head that inserts and moves (joulin2015, section 3.2).

    An insertion puts the new cell right of the old head, which becomes the first cell on its left,
    as in the printed equations (left of the head L[i + 1], right of it L[i]), so that nothing is
    lost. The head is read first, then the cells beside it: left, right, left and so on.
    """

    name = "list-rnn"
    structure = "list"
    base_actions = ("insert", "left", "right")

    def initial(self, batch_size: int, value_size: int, like: Tensor) -> ListCells:
        nothing = like.new_empty(batch_size, self.count, 0, value_size)
        return ListCells(self._padded(nothing, 1), nothing, nothing)

    def carried(self, state: ListCells) -> ListCells:
        return replace(state, left=self._trimmed(state.left), right=self._trimmed(state.right))

    def nearest_cells(self, state: ListCells) -> Tensor:
        beside = self.depth // 2
        sides = [self._padded(side, beside)[:, :, :beside] for side in (state.left, state.right)]
        return torch.cat([state.head, torch.stack(sides, dim=3).flatten(2, 3)], dim=2)

    def all_cells(self, state: ListCells) -> list[CellContents]:
        sides = zip(state.left[0], state.head[0], state.right[0], strict=True)
        return [
            CellContents(torch.cat([left.flip(0), head, right]), len(left))
            for left, head, right in sides
        ]

    def update(self, state: ListCells, signals: Tensor, values: Tensor) -> ListCells:
        insert, left, right, stay = self._probabilities(signals)
        head = insert * values.unsqueeze(2) + stay * state.head
        head = head + left * self._padded(state.left, 1)[:, :, :1]
        head = head + right * self._padded(state.right, 1)[:, :, :1]
        return ListCells(
            head,
            self._mix(state.left, state.head, insert + right, left, stay),
            self._mix(state.right, state.head, left, right, insert + stay),
        )

    def _ends_of_copy(self) -> Ends:
        left, right = TOP, 2 + TOP  # the head is the top of the row on its left
        beside = range(self.depth - 1)
        return Ends(
            (self.structure, f"{self.structure} right of its head"),
            pops=(),
            pushes=((0, left),),
            reads=(left, *(right if cell % 2 else left for cell in beside)),
            signal_names=self.actions,
            depths=(0, *(cell // 2 + (cell % 2 == 0) for cell in beside)),
            moves=((1, left, right), (2, right, left)),
        )

    store = _store


class Tape(ActionList):
    """Tapes of vectors that are written and read at a head, which moves (deletang2023).

    A step writes to the head with a strength, then takes the actions of a list but for insertions,
    then reads. The published tape is a ring of cells, is written with strength 1, and also jumps by
    the length of the input, which no memory knows.
    """

    name = "tape"
    takes_actions = False
    empty = 0.0
    structure = "tape"
    base_actions = ("write", "left", "right")
    idle = "stay"
    writes = 1

    def __init__(
        self, count: int = 1, depth: int = 1, no_op: bool = True, capacity: int | None = None
    ) -> None:
        super().__init__(count, depth, no_op, capacity)

    @property
    def ends(self) -> None:
        return None  # writing replaces a cell, which is no push

    def update(self, state: ListCells, signals: Tensor, values: Tensor) -> ListCells:
        write = self._probabilities(signals)[0]
        head = state.head + write * (values.unsqueeze(2) - state.head)
        moves = functional.pad(self._by_copy(signals)[:, :, 1:], (1, 0)).flatten(1)
        return super().update(replace(state, head=head), moves, values)  # without insertions

    store = _store
