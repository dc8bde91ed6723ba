"""The compiled code of memories with actions, and the arrays of a batch of them."""

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from torch import Tensor

from stacktrans.kernels.compiling import Array
from stacktrans.kernels.stores import Kernel, Room, room_for
from stacktrans.kernels.tensors import array_dtype, check_shape, fresh, fresh_zeros, in_place
from stacktrans.memory.actions.base import EMPTY, ActionMemory
from stacktrans.memory.actions.rows import PADDING, Cells
from stacktrans.memory.actions.signals import UNLIMITED, Actions
from stacktrans.memory.actions.steps import Backward, Forward


@dataclass(frozen=True)
class ActionKernel(Kernel):
    """The compiled steps of stacks or lists.

    Attributes:
        actions: which of them.
    """

    actions: Actions
    nothing = EMPTY

    @classmethod
    def of(cls, memory: ActionMemory[Any], lists: bool) -> Self:
        """Those of a memory of stacks, or of `lists`."""
        return cls(
            Actions(
                int(lists),
                memory.count,
                memory.depth,
                len(memory.actions),
                int(memory.no_op),
                memory.capacity or UNLIMITED,
            )
        )

    @property
    def signals(self) -> int:
        return self.actions.number * self.actions.each

    @property
    def pushes(self) -> int:
        return self.actions.number

    @property
    def reads(self) -> int:
        return self.actions.number * self.actions.depth

    def store(self, room: Room) -> "CellStore":
        """See `Kernel.store`; cells are held."""
        actions, dtype, kept = self.actions, room.dtype, room.places
        shape = (1 if kept is None else kept, actions.number, room.columns)
        values = fresh(*shape, dtype=dtype) if room.values is None else room.values.reshape(shape)
        before = self._no_cells(room) if room.held is None else room.held
        used = _most(before)
        cells = _moved(before, min(used + room.steps, actions.capacity), values)
        if kept is not None:
            starts = _kept_starts(actions, used, room.steps, room.columns)
            numbers = in_place(fresh(room.batch, int(starts[-1]), dtype=dtype))
            cells = cells._replace(kept=numbers, kept_starts=starts)
        return CellStore(actions, cells, values.contiguous())

    def _no_cells(self, room: Room) -> Cells:
        dtype, batch, rows = array_dtype(room.dtype), room.batch, 1 + self.actions.lists
        numbers = self.actions.lists * self.actions.number * room.columns
        nothing = np.zeros((batch, rows), dtype=np.int64)
        return Cells(
            np.zeros((batch, rows, self.actions.number, 0), dtype=dtype),
            np.full((batch, numbers), EMPTY, dtype=dtype),
            nothing,
            nothing,
            np.zeros((batch, 0), dtype=dtype),
            np.zeros(1, dtype=np.int64),
        )

    def check_held(self, held: Any, batch: int, columns: int) -> None:
        if not isinstance(held, Cells):
            raise ValueError("what is carried is of another memory")
        actions = self.actions
        check_shape("cells", held.held.shape[:3], (batch, 1 + actions.lists, actions.number))
        numbers = actions.lists * actions.number * columns
        check_shape("heads of lists", held.head.shape, (batch, numbers))


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

    @property
    def held(self) -> Cells:
        """See `Store`."""
        return self.cells.alone()

    def forward(self, part: slice, places: slice) -> Forward:
        """See `Store`."""
        values = self.values[places] if len(self.values) > 1 else self.values
        size, dtype = values.shape[2], values.dtype
        return Forward(
            self.actions,
            self.cells.of(part),
            in_place(values),
            in_place(fresh((self.room + PADDING) * size, dtype=dtype)),
            in_place(fresh(2 * size, dtype=dtype)),
        )

    def backward(self, part: slice, places: slice) -> Backward:
        """See `Store`; what was held before the first step is constant."""
        actions, cells, values = self.actions, self.cells.of(part), self.values[places]
        (_, count, size), dtype = values.shape, values.dtype
        steps = len(cells.kept_starts) - 1
        # A step deeper than any read reaches, since gradients move before they are cut off.
        room = min(self.room, actions.depth + steps)
        batch, rows = cells.used.shape
        return Backward(
            actions,
            cells,
            in_place(values),
            in_place(fresh(count, size, dtype=dtype)),
            in_place(fresh_zeros(batch, rows, count, room * size, dtype=dtype)),
            in_place(fresh_zeros(batch, count * size, dtype=dtype)),
            in_place(fresh((room + PADDING) * size, dtype=dtype)),
        )

    def with_room(self, steps: int) -> "CellStore":
        """See `Store`."""
        used = _most(self.cells)
        needed = min(used + steps, self.actions.capacity)
        if needed <= self.room:
            return self
        room = min(room_for(used, needed), self.actions.capacity)
        return self._replace(cells=_moved(self.cells, room, self.values))

    def after(self, steps: int) -> "CellStore":
        """See `Store`; it is changed in place."""
        return self


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
