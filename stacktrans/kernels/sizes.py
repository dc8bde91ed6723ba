"""The kinds and sizes of everything in a run of controller and memory."""

from typing import NamedTuple

import torch
from torch import Tensor

from stacktrans.kernels.cells import Cell
from stacktrans.kernels.ends import Ends, Rows
from stacktrans.kernels.products import padded
from stacktrans.kernels.sequence import Trace, Weights, sequence_forward
from stacktrans.kernels.tensors import as_array, fresh, fresh_zeros, in_place


class Sizes(NamedTuple):
    """Kinds and sizes.

    Attributes:
        cell: kind of units.
        ends: kind of memory.
        layers: L.
        batch: B.
        size: H.
        signals: how many a step.
        columns: size m of a pushed vector.
        dtype: of all numbers.
    """

    cell: Cell
    ends: Ends
    layers: int
    batch: int
    size: int
    signals: int
    columns: int
    dtype: torch.dtype

    @property
    def heads(self) -> int:
        """Numbers that come out of the controller for the memory at each step."""
        return self.signals + self.pushed

    @property
    def pushed(self) -> int:
        """Numbers pushed at each step, all vectors together."""
        return len(self.ends.pushes) * self.columns

    @property
    def read(self) -> int:
        """Numbers read at each step."""
        return len(self.ends.reads) * self.columns

    def new_trace(self, steps: int) -> tuple[Tensor, ...]:
        """Room for all that `Trace` keeps of so many steps."""
        before = (self.batch, steps)
        return (
            fresh(*before, self.layers, self.cell.saved, self.size, dtype=self.dtype),
            fresh(*before, self.layers, self.size, dtype=self.dtype),
            fresh(*before, self.signals, dtype=self.dtype),
            fresh(*before, self.read, dtype=self.dtype),
        )

    def forward(
        self,
        part: slice,
        weights: Weights,
        bias: Tensor,
        projected: Tensor,
        state: Tensor,
        read: Tensor,
        rows: Rows,
        values: Tensor,
        old: int,
        trace: tuple[Tensor, ...],
    ) -> None:
        """Run all steps for a part of the batch; arguments as for `sequence_forward`.

        Only `projected`, `rows`, `values` and `trace` are of the whole batch.
        """
        count = part.stop - part.start
        gates = (count, self.cell.gates, padded(self.size, self.dtype))
        sequence_forward(
            self.cell.number,
            self.ends,
            weights,
            as_array(bias),
            as_array(projected[part].unflatten(2, (self.layers, self.cell.gates, self.size))),
            in_place(state),
            in_place(read),
            rows.of(part),
            in_place(values[part]),
            old,
            Trace(*(in_place(tensor[part]) for tensor in trace)),
            in_place(fresh(*gates, dtype=self.dtype)),
            in_place(fresh(*gates, dtype=self.dtype)),
            in_place(fresh(count, padded(self.heads, self.dtype), dtype=self.dtype)),
        )


def nothing_read(sizes: Sizes, count: int) -> Tensor:
    """What was read before the first step."""
    return fresh_zeros(count, sizes.read, dtype=sizes.dtype)
