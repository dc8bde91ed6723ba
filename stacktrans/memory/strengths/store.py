"""The compiled code of memories that keep strengths, and the arrays of a batch of them."""

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from torch import Tensor

from stacktrans.kernels.compiling import Array
from stacktrans.kernels.stores import Kernel, Room, room_for
from stacktrans.kernels.tensors import array_dtype, fresh, fresh_zeros, in_place
from stacktrans.memory.strengths.steps import (
    Backward,
    Ends,
    Forward,
    Rows,
    empty_rows,
    move_rows,
    rows_left,
)


@dataclass(frozen=True)
class StrengthKernel(Kernel):
    """The compiled steps of a memory that has ends; of one without there is nothing to do.

    Attributes:
        ends: what a step does.
    """

    ends: Ends

    @classmethod
    def of(
        cls, pops: list[tuple[int, int]], pushes: list[tuple[int, int]], reads: list[int]
    ) -> Self:
        """See `stacktrans.memory.strengths.base.compiled`."""
        return cls(Ends(_table(pops), _table(pushes), np.array(reads, dtype=np.int64)))

    @property
    def signals(self) -> int:
        return len(self.ends.pops) + len(self.ends.pushes)

    @property
    def pushes(self) -> int:
        return len(self.ends.pushes)

    @property
    def reads(self) -> int:
        return len(self.ends.reads)

    def store(self, room: Room) -> "RowStore":
        """See `Kernel.store`; nothing is known of what is held."""
        shape = (room.batch, room.steps * self.pushes, room.columns)
        known = room.values
        values = fresh(*shape, dtype=room.dtype) if known is None else known.reshape(shape)
        rows = empty_rows(self.ends, room.batch, room.steps, array_dtype(room.dtype))
        return RowStore(self.ends, rows, values.contiguous())


def _table(lines: list[tuple[int, int]]) -> Array:
    return np.array(lines, dtype=np.int64).reshape(-1, 2)


class RowStore(NamedTuple):
    """The memory of a batch.

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

    @property
    def held(self) -> None:
        """See `Store`."""

    def forward(self, part: slice, places: slice) -> Forward:
        """See `Store`."""
        return Forward(self.ends, self.rows.of(part), in_place(self.values[part]), self.old)

    def backward(self, part: slice, places: slice) -> Backward:
        """See `Store`."""
        dtype, values, rows = self.values.dtype, self.values[part], self.rows.of(part)
        return Backward(
            self.ends,
            # Going backwards takes the memory apart: a copy, so that it can be done twice.
            rows._replace(strength=rows.strength.copy(), links=rows.links.copy()),
            in_place(values),
            in_place(fresh_zeros(len(values), values.shape[1] + 1, dtype=dtype)),
            in_place(fresh_zeros(*values.shape, dtype=dtype)),
        )

    def with_room(self, steps: int) -> "RowStore":
        """See `Store`; where there is not enough, rows that were taken away are left behind."""
        batch, room, columns = self.values.shape
        dtype = array_dtype(self.values.dtype)
        added = steps * len(self.ends.pushes)
        if self.old + added <= room:
            record = empty_rows(self.ends, batch, steps, dtype)
            rows = record._replace(strength=self.rows.strength, links=self.rows.links)
            return self._replace(rows=rows)
        left = rows_left(self.rows.links)
        room = room_for(left, left + added)
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
        """See `Store`."""
        return self._replace(old=self.old + steps * len(self.ends.pushes))
