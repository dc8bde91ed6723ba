"""The arrays of stacks and lists for compiled code (joulin2015, section 3).

The cells of a stack, and those on each side of a list's head, are a row. What going backwards over
a step needs is its rows as they were before it, and they are kept; but not what lies deeper than
any read of a later step can reach: a cell comes nearer by one at each step.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from stacktrans.kernels import Array
from stacktrans.kernels.kernel import Room, room_for, select_items
from stacktrans.memory.actions import EMPTY

UNLIMITED = 2**62
PADDING = 3
"""How many cells the array with a row of cells has more: one before them, and two after."""


class Actions(NamedTuple):
    """The kind of memory.

    Attributes:
        lists: 1 for lists, 0 for stacks.
        number: how many stand side by side.
        depth: how many cells of each are read.
        each: actions of each.
        no_op: 1 if the last of them is to do nothing.
        capacity: how many cells in a row are kept, at least 1.
    """

    lists: int
    number: int
    depth: int
    each: int
    no_op: int
    capacity: int


class Cells(NamedTuple):
    """The cells of a memory, and what was kept of T steps, for a batch of B.

    Attributes:
        actions: the kind of memory.
        cells: [B, rows, count, room * m] the cells of each row, nearest first: of stacks there is
            one row, of lists there are two, those left of the head and those right of it.
        head: [B, count * m]; empty for stacks.
        used: [B, rows] how many cells of a row are in use; all others are empty. After the last
            step of a string the last of them is not empty.
        used_first: [B, rows] the same before the first of the T steps.
        kept: [B, numbers] of each step, [rows, count, ...] the cells in use before it, with what
            was pushed on them before and empty cells after; empty if nothing is kept.
        kept_starts: [T + 1] where the numbers of each step start in `kept`; [1] if nothing is.
        values: [N, count, m] what is pushed at each step; [1, count, m] to keep only the last.
        padded: [(room + 3 + 2) * m] to work in; the last two cells are for lists.
    """

    actions: Actions
    cells: Array
    head: Array
    used: Array
    used_first: Array
    kept: Array
    kept_starts: Array
    values: Array
    padded: Array

    @classmethod
    def empty(cls, actions: Actions, room: Room) -> "Cells":
        """No cells, and no room for any; but for what is pushed."""
        dtype, batch, rows = room.dtype, room.batch, 1 + actions.lists
        shape = (1 if room.total_steps is None else room.total_steps, actions.number, room.columns)
        return cls(
            actions,
            np.zeros((batch, rows, actions.number, 0), dtype),
            np.full((batch, actions.lists * actions.number * room.columns), EMPTY, dtype),
            np.zeros((batch, rows), np.int64),
            np.zeros((batch, rows), np.int64),
            np.zeros((batch, 0), dtype),
            np.zeros(1, np.int64),
            np.empty(shape, dtype),
            np.zeros(0, dtype),
        )

    @property
    def room(self) -> int:
        """How many cells of a row there is room for."""
        return int(self.cells.shape[3] // self.values.shape[2])

    @property
    def most(self) -> int:
        """The most cells that any row has in use."""
        return int(self.used.max(initial=0))

    @property
    def contents(self) -> "Cells":
        """See `Store`: the cells, without what was kept of steps."""
        return self._replace(
            kept=self.kept[:, :0].copy(),
            kept_starts=self.kept_starts[:1],
            values=self.values[:0].copy(),
        )

    def forward(self, part: slice, indices: slice) -> "Cells":
        """See `Store`."""
        values = self.values[indices] if len(self.values) > 1 else self.values
        work = (self.room + PADDING + 2) * values.shape[2]
        padded = np.empty(work, values.dtype)
        own = (array[part] for array in self[1:6])
        return Cells._make((self.actions, *own, self.kept_starts, values, padded))

    def backward(self, part: slice, indices: slice) -> "CellsBackward":
        """See `Store`; what was held before the first step is constant."""
        cells = self.forward(part, indices)
        batch, rows, count, _ = cells.cells.shape
        size, dtype = cells.values.shape[2], cells.values.dtype
        # A step deeper than any read reaches, since gradients move before they are cut off.
        room = min(self.room, self.actions.depth + len(self.kept_starts) - 1)
        return CellsBackward(
            cells,
            np.zeros((batch, rows, count, room * size), dtype),
            np.zeros((batch, count * size), dtype),
        )

    def with_room(self, steps: int) -> "Cells":
        """See `Store`."""
        needed = min(self.most + steps, self.actions.capacity)
        if needed <= self.room:
            return self
        return self.moved(min(room_for(self.most, needed), self.actions.capacity))

    def after(self, steps: int) -> "Cells":
        """See `Store`; it is changed in place."""
        return self

    def select(self, items: Array) -> "Cells":
        """See `Store`."""
        own = (select_items(array, items) for array in self[1:6])
        return Cells._make((self.actions, *own, *self[6:]))

    def moved(self, room: int) -> "Cells":
        """A copy that has room for so many cells in each row."""
        size = self.values.shape[2]
        shape = (*self.cells.shape[:3], room * size)
        cells = np.empty(shape, self.cells.dtype)
        used = self.most * size
        cells[..., :used] = self.cells[..., :used]
        return self._replace(
            cells=cells, head=self.head.copy(), used=self.used.copy(), used_first=self.used.copy()
        )

    def keeping(self, steps: int, first: int) -> "Cells":
        """The same with room to keep what going backwards over some steps needs.

        Args:
            steps: T.
            first: the most cells that are in use before the first of them.
        """
        actions, size, step = self.actions, self.values.shape[2], np.arange(steps)
        after = np.minimum(first + step + 1, actions.capacity)
        reached = np.minimum(after, actions.depth + steps - 1 - step)
        rows = (1 + actions.lists) * actions.number
        starts = np.cumsum([0, *((reached + PADDING - 1) * size * rows)])
        shape = (len(self.used), int(starts[-1]))
        kept = np.empty(shape, self.cells.dtype)
        return self._replace(kept=kept, kept_starts=starts)


class CellsBackward(NamedTuple):
    """The same going backwards, down to the memory before the first step, which is constant.

    Attributes:
        cells: what was kept of the steps.
        grad_cells: [B, rows, count, room * m] zeros; the gradients of cells. Only of cells that a
            later read can reach.
        grad_head: [B, count * m] zeros; the same of the heads.
    """

    cells: Cells
    grad_cells: Array
    grad_head: Array


def lines_of(memory: Cells) -> Iterator[tuple[Array, int | None]]:
    """The cells of each stack or list of the first item of a batch.

    Gives [n, m] those of a stack from the bottom up, or of a list from left to right, and which of
    them, from 0, is at the head of a list.
    """
    size, used = memory.values.shape[2], memory.used[0]
    for which in range(memory.actions.number):
        near, *right = (
            memory.cells[0, row, which, : used[row] * size].reshape(-1, size)
            for row in range(len(used))
        )
        if not right:
            yield near[::-1].copy(), None
            continue
        head = memory.head[:1, which * size : (which + 1) * size]
        yield np.concatenate([near[::-1], head, *right]), len(near)
