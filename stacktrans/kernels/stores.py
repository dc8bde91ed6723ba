"""Memories of a batch: the arrays that compiled code works on, and room for more."""

from typing import NamedTuple

import numpy as np
from torch import Tensor

from stacktrans.kernels.action_sequence import action_backward, action_forward
from stacktrans.kernels.actions import Actions
from stacktrans.kernels.compiling import Array
from stacktrans.kernels.ends import Ends, Rows, empty_rows, move_rows, rows_left
from stacktrans.kernels.rows import PADDING, Cells
from stacktrans.kernels.sequence import sequence_backward, sequence_forward
from stacktrans.kernels.sizes import Sizes
from stacktrans.kernels.steps import Backward, Forward
from stacktrans.kernels.tensors import array_dtype, fresh, fresh_zeros, in_place
from stacktrans.memory.actions import EMPTY

# Room for rows and cells is made for at least so many.
_LEAST_ROOM = 64


class RowStore(NamedTuple):
    """A memory that has ends, or none.

    Attributes:
        ends: its kind.
        rows: of the batch.
        values: [B, rows, m] the vectors of all rows.
        old: how many rows there are.
    """

    ends: Ends
    rows: Rows
    values: Tensor
    old: int = 0

    def forward(self, part: slice, places: slice, run: Forward) -> None:
        """Run steps of a part of the batch; `places` is not used."""
        values = in_place(self.values[part])
        sequence_forward(run, self.ends, self.rows.of(part), values, self.old)

    def backward(self, part: slice, places: slice, run: Backward) -> None:
        """Run steps of a part of the batch backwards, from the first row on."""
        dtype, values = self.values.dtype, self.values[part]
        rows = self.rows.of(part)
        # Going backwards takes the memory apart: a copy, so that it can be done twice.
        sequence_backward(
            run,
            self.ends,
            rows._replace(strength=rows.strength.copy(), links=rows.links.copy()),
            in_place(values),
            in_place(fresh_zeros(*values.shape, dtype=dtype)),
            in_place(fresh_zeros(len(values), values.shape[1] + 1, dtype=dtype)),
        )

    def with_room(self, steps: int) -> "RowStore":
        """The memory with room for the rows of some steps more.

        If there is not enough beside those that there are, they move, and rows that were taken
        away are left behind.
        """
        batch, room, columns = self.values.shape
        dtype = array_dtype(self.values.dtype)
        added = steps * len(self.ends.pushes)
        if self.old + added <= room:
            record = empty_rows(self.ends, batch, steps, dtype)
            rows = record._replace(strength=self.rows.strength, links=self.rows.links)
            return self._replace(rows=rows)
        left = rows_left(self.rows.links)
        # As much room again as is taken: so on average a row is moved no more than once.
        room = max(2 * left, left + added, _LEAST_ROOM)
        rows = empty_rows(self.ends, batch, -(-room // len(self.ends.pushes)), dtype)
        shape = (batch, rows.strength.shape[1] - 1, columns)
        values = fresh(*shape, dtype=self.values.dtype)
        move_rows(
            self.rows.strength,
            self.rows.links,
            in_place(self.values),
            rows.strength,
            rows.links,
            in_place(values),
        )
        return RowStore(self.ends, rows, values, left)

    def after(self, steps: int) -> "RowStore":
        """The memory after some steps."""
        return self._replace(old=self.old + steps * len(self.ends.pushes))


class CellStore(NamedTuple):
    """A memory that has actions.

    Attributes:
        actions: its kind.
        cells: of the batch.
        values: [N, count, m] what is pushed at each step; [1, count, m] to keep only the last.
    """

    actions: Actions
    cells: Cells
    values: Tensor

    @property
    def room(self) -> int:
        """How many cells of a row there is room for."""
        return int(self.cells.held.shape[3] // self.values.shape[2])

    def forward(self, part: slice, places: slice, run: Forward) -> None:
        """Run steps of a part of the batch, which are at some of the N places."""
        values = self.values[places] if len(self.values) > 1 else self.values
        size, dtype = values.shape[2], values.dtype
        action_forward(
            run,
            self.actions,
            self.cells.of(part),
            in_place(values),
            in_place(fresh((self.room + PADDING) * size, dtype=dtype)),
            in_place(fresh(2 * size, dtype=dtype)),
        )

    def backward(self, part: slice, places: slice, run: Backward) -> None:
        """Run steps of a part of the batch backwards; what was held before them is constant."""
        actions, cells, values = self.actions, self.cells.of(part), self.values[places]
        (_, count, size), dtype = values.shape, values.dtype
        steps = len(cells.kept_starts) - 1
        # A step deeper than any read reaches, since gradients move before they are cut off.
        room = min(self.room, actions.depth + steps)
        batch, rows = cells.used.shape
        action_backward(
            run,
            actions,
            cells,
            in_place(values),
            in_place(fresh(count, size, dtype=dtype)),
            in_place(fresh_zeros(batch, rows, count, room * size, dtype=dtype)),
            in_place(fresh_zeros(batch, count * size, dtype=dtype)),
            in_place(fresh((room + PADDING) * size, dtype=dtype)),
        )

    def with_room(self, steps: int) -> "CellStore":
        """The memory with room for the cells of some steps more."""
        used = _most(self.cells)
        needed = min(used + steps, self.actions.capacity)
        if needed <= self.room:
            return self
        room = min(max(2 * used, needed, _LEAST_ROOM), self.actions.capacity)
        return self._replace(cells=_moved(self.cells, room, self.values))

    def after(self, steps: int) -> "CellStore":
        """The memory after some steps: it is changed in place."""
        return self


def empty_store(sizes: Sizes, steps: int, places: int | None = None) -> RowStore | CellStore:
    """A memory that is empty, with room for T steps of each of B strings.

    Args:
        sizes: kinds and sizes.
        steps: T.
        places: how many steps all strings take together, of which all that the adjoint needs is
            to be kept; None to keep nothing.
    """
    kind, dtype = sizes.memory, sizes.dtype
    if isinstance(kind, Ends):
        rows = empty_rows(kind, sizes.batch, steps, array_dtype(dtype))
        room = rows.strength.shape[1] - 1
        return RowStore(kind, rows, fresh(sizes.batch, room, sizes.columns, dtype=dtype))
    return cell_store(sizes, kind, _no_cells(sizes, kind), steps, places)


def cell_store(
    sizes: Sizes, kind: Actions, cells: Cells, steps: int, places: int | None = None
) -> CellStore:
    """A memory that begins with given cells, which stay as they are; as for `empty_store`."""
    used = _most(cells)
    values = fresh(1 if places is None else places, kind.number, sizes.columns, dtype=sizes.dtype)
    cells = _moved(cells, min(used + steps, kind.capacity), values)
    if places is not None:
        starts = _kept_starts(kind, used, steps, sizes.columns)
        kept = fresh(sizes.batch, int(starts[-1]), dtype=sizes.dtype)
        cells = cells._replace(kept=in_place(kept), kept_starts=starts)
    return CellStore(kind, cells, values)


def _no_cells(sizes: Sizes, kind: Actions) -> Cells:
    batch, rows, dtype = sizes.batch, 1 + kind.lists, array_dtype(sizes.dtype)
    nothing_kept = np.zeros((batch, 0), dtype=dtype)
    return Cells(
        np.zeros((batch, rows, kind.number, 0), dtype=dtype),
        np.full((batch, kind.lists * kind.number * sizes.columns), EMPTY, dtype=dtype),
        np.zeros((batch, rows), dtype=np.int64),
        np.zeros((batch, rows), dtype=np.int64),
        nothing_kept,
        np.zeros(1, dtype=np.int64),
    )


def _most(cells: Cells) -> int:
    """The most cells that any row has in use."""
    return int(cells.used.max(initial=0))


def _moved(cells: Cells, room: int, values: Tensor) -> Cells:
    """A copy of cells that has room for so many in each row."""
    size = values.shape[2]
    held = in_place(fresh(*cells.held.shape[:3], room * size, dtype=values.dtype))
    used = _most(cells) * size
    held[..., :used] = cells.held[..., :used]
    return cells._replace(
        held=held, head=cells.head.copy(), used=cells.used.copy(), used_first=cells.used.copy()
    )


def _kept_starts(kind: Actions, used: int, steps: int, size: int) -> Array:
    """Where the numbers of each step start in `Cells.kept`, if at most `used` cells come first."""
    step = np.arange(steps)
    after = np.minimum(used + step + 1, kind.capacity)
    reached = np.minimum(after, kind.depth + steps - 1 - step)
    each = (reached + PADDING - 1) * size * (1 + kind.lists) * kind.number
    starts: Array = np.cumsum([0, *each])
    return starts
