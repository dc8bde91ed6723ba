"""Arrays of cells of stacks and lists, which the compiled `steps` change (joulin2015).

The cells of a stack, and those on each side of a list's head, are a row. For the backward pass, the
rows are saved as they were before each step, but only to the depth that later steps can read: a
cell comes nearer by at most one at each step.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from stacktrans.kernels import Array
from stacktrans.kernels.kernel import StoreSizes, room_for, select_items
from stacktrans.memory.base import CellContents

UNLIMITED = 2**62
PADDING = 3
"""The cells of a padded row beyond its own: one before them, and two after."""


class ActionSpec(NamedTuple):
    """Number, depth and actions of the stacks or lists of a memory.

    Attributes:
        lists: 1 for lists, 0 for stacks.
        copies: the number of stacks or lists side by side.
        depth: the number of cells that are read of each.
        actions: the number of signals of each.
        no_op: 1 if the last of them is to do nothing.
        capacity: the most cells of a row, at least 1.
        empty: the number in empty cells.
        writes: 1 for tapes: lists whose first signal is the strength of writing at the head, and
            not the probability of an insertion. Else 0.
    """

    lists: int
    copies: int
    depth: int
    actions: int
    no_op: int
    capacity: int
    empty: float
    writes: int


class Cells(NamedTuple):
    """The cells of a memory, and what T steps saved for the backward pass, for a batch of B.

    Attributes:
        spec: of the memory.
        cells: [B, rows, copies, room * m] the cells of each row, nearest first: one row for stacks,
            two for lists, left and right of the head.
        head: [B, copies * m] the heads of lists; empty for stacks.
        used: [B, rows] the number of cells of a row in use; all others are empty. After the last
            step of a string the last cell in use is not empty.
        initial_used: [B, rows] the number of cells in use before the first of the T steps.
        saved: [B, numbers] for each step, [rows, copies, ...] the cells in use before it, preceded
            by what was pushed and followed by empty cells; empty if nothing is saved.
        saved_starts: [T + 1] the start of each step in `saved`; [1] if nothing is saved.
        values: [N, copies, m] the vectors pushed at each step; [1, copies, m] for the last alone.
            For tapes as many again follow, the heads that were written over.
        padded: [(room + 3 + 2) * m] workspace; the last two cells are for lists.
    """

    spec: ActionSpec
    cells: Array
    head: Array
    used: Array
    initial_used: Array
    saved: Array
    saved_starts: Array
    values: Array
    padded: Array

    @classmethod
    def empty(cls, spec: ActionSpec, sizes: StoreSizes) -> "Cells":
        """Memories without cells and without room for any, but for the vectors pushed."""
        dtype, batch, rows = sizes.dtype, sizes.batch, 1 + spec.lists
        pushed = 1 if sizes.total_steps is None else sizes.total_steps
        return cls(
            spec,
            np.zeros((batch, rows, spec.copies, 0), dtype),
            np.full((batch, spec.lists * spec.copies * sizes.columns), spec.empty, dtype),
            np.zeros((batch, rows), np.int64),
            np.zeros((batch, rows), np.int64),
            np.zeros((batch, 0), dtype),
            np.zeros(1, np.int64),
            np.empty((pushed, (1 + spec.writes) * spec.copies, sizes.columns), dtype),
            np.zeros(0, dtype),
        )

    @property
    def room(self) -> int:
        """The number of cells that a row has room for."""
        return int(self.cells.shape[3] // self.values.shape[2])

    @property
    def max_used(self) -> int:
        """The most cells that any row has in use."""
        return int(self.used.max(initial=0))

    @property
    def contents(self) -> "Cells":
        """See `Store`: the cells, without what steps saved."""
        saved, values = self.saved[:, :0].copy(), self.values[:0].copy()
        return self._replace(saved=saved, saved_starts=self.saved_starts[:1], values=values)

    def forward(self, part: slice, indices: slice) -> "Cells":
        """See `Store`."""
        values = self.values[indices] if len(self.values) > 1 else self.values
        padded = np.empty((self.room + PADDING + 2) * values.shape[2], values.dtype)
        arrays = (array[part] for array in self[1:6])
        return Cells._make((self.spec, *arrays, self.saved_starts, values, padded))

    def backward(self, part: slice, indices: slice) -> "CellsBackward":
        """See `Store`; the contents before the first step are constant."""
        cells = self.forward(part, indices)
        batch, rows, copies, _ = cells.cells.shape
        size, dtype = cells.values.shape[2], cells.values.dtype
        # A step deeper than any read reaches, since gradients move before they are cut off.
        room = min(self.room, self.spec.depth + len(self.saved_starts) - 1)
        grad_cells = np.zeros((batch, rows, copies, room * size), dtype)
        return CellsBackward(cells, grad_cells, np.zeros((batch, copies * size), dtype))

    def with_room(self, steps: int, taken: int) -> "Cells":
        """See `Store`; `taken` is not needed, since steps change the arrays in place."""
        needed = min(self.max_used + steps, self.spec.capacity)
        if needed <= self.room:
            return self
        return self.resized(min(room_for(self.max_used, needed), self.spec.capacity))

    def select(self, items: Array) -> "Cells":
        """See `Store`."""
        arrays = (select_items(array, items) for array in self[1:6])
        return Cells._make((self.spec, *arrays, *self[6:]))

    def resized(self, room: int) -> "Cells":
        """A copy with room for a number of cells in each row."""
        size = self.values.shape[2]
        cells = np.empty((*self.cells.shape[:3], room * size), self.cells.dtype)
        used = self.max_used * size
        cells[..., :used] = self.cells[..., :used]
        return self._replace(
            cells=cells, head=self.head.copy(), used=self.used.copy(), initial_used=self.used.copy()
        )

    def saving(self, steps: int, used: int) -> "Cells":
        """A copy with room to save what the backward pass over some steps needs.

        Args:
            steps: T.
            used: the most cells that are in use before the first of them.
        """
        spec, size, step = self.spec, self.values.shape[2], np.arange(steps)
        used_after = np.minimum(used + step + 1, spec.capacity)
        reached = np.minimum(used_after, spec.depth + steps - 1 - step)
        rows = (1 + spec.lists) * spec.copies
        starts = np.cumsum([0, *((reached + PADDING - 1) * size * rows)])
        saved = np.empty((len(self.used), int(starts[-1])), self.cells.dtype)
        return self._replace(saved=saved, saved_starts=starts)

    def all_cells(self) -> Iterator[CellContents]:
        """The cells of each stack or list of the first string of a batch."""
        size, used = self.values.shape[2], self.used[0]
        for k in range(self.spec.copies):
            near, *right = (
                self.cells[0, row, k, : used[row] * size].reshape(-1, size)
                for row in range(len(used))
            )
            if right:
                head = self.head[:1, k * size : (k + 1) * size]
                yield CellContents(np.concatenate([near[::-1], head, *right]), len(near))
            else:
                yield CellContents(near[::-1].copy())


class CellsBackward(NamedTuple):
    """The cells of a memory going backwards, down to those before the first step.

    Attributes:
        cells: with what the steps saved.
        grad_cells: [B, rows, copies, room * m] zeros; the gradients of the cells that a later read
            can reach.
        grad_head: [B, copies * m] zeros; the gradients of the heads.
    """

    cells: Cells
    grad_cells: Array
    grad_head: Array
