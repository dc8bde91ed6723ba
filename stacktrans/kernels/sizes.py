"""The kinds and sizes of everything in a run of controller and memory."""

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from stacktrans.kernels.actions import Actions
from stacktrans.kernels.cells import Cell
from stacktrans.kernels.compiling import Array
from stacktrans.kernels.ends import Ends
from stacktrans.kernels.products import padded
from stacktrans.kernels.steps import Backward, Forward, Inputs, Trace, Weights
from stacktrans.kernels.tensors import as_array, fresh, fresh_zeros, in_place
from stacktrans.memory.actions import EMPTY


class Store(Protocol):
    """A memory of a batch; see `stores`."""

    def forward(self, part: slice, places: slice, run: Forward) -> None:
        """Run steps of a part of the batch, which are at some of the N places."""

    def backward(self, part: slice, places: slice, run: Backward) -> None:
        """Run them backwards."""


class Sizes(NamedTuple):
    """Kinds and sizes.

    Attributes:
        cell: kind of units.
        memory: its kind.
        layers: L.
        batch: B.
        size: H.
        signals: how many a step, those of buffers included.
        columns: size m of a pushed vector.
        dtype: of all numbers.
        buffered: whether the steps read from a buffer.
        tanh_values: whether values go through a tanh, and not a sigmoid.
        hard: whether signals are made 0 or 1.
    """

    cell: Cell
    memory: Ends | Actions
    layers: int
    batch: int
    size: int
    signals: int
    columns: int
    dtype: torch.dtype
    buffered: bool = False
    tanh_values: bool = True
    hard: bool = False

    @property
    def heads(self) -> int:
        """Numbers that come out of the controller for the memory at each step."""
        return self.signals + self.pushed

    @property
    def pushed(self) -> int:
        """Numbers pushed at each step, all vectors together."""
        return pushes_of(self.memory) * self.columns

    @property
    def read(self) -> int:
        """Numbers read at each step."""
        if isinstance(self.memory, Ends):
            return len(self.memory.reads) * self.columns
        return self.memory.number * self.memory.depth * self.columns

    def new_trace(self, places: int, saved: int | None = None) -> tuple[Tensor, ...]:
        """Room for all that `Trace` keeps of N steps; of what is saved, for as many as said."""
        saved = places if saved is None else saved
        return (
            fresh(saved, self.layers, self.cell.saved, self.size, dtype=self.dtype),
            fresh(places, self.layers, self.size, dtype=self.dtype),
            fresh(places, self.signals, dtype=self.dtype),
            fresh(places, self.read, dtype=self.dtype),
            fresh_zeros(places if self.buffered else 0, dtype=self.dtype),
        )

    def forward(
        self,
        part: slice,
        weights: Weights,
        bias: Tensor,
        starts: Array,
        reading: "Reading",
        state: Tensor,
        read: Tensor,
        store: Store,
        trace: tuple[Tensor, ...],
    ) -> None:
        """Run all steps for a part of the batch; arguments as `Forward` has them.

        Of the whole batch are `starts`, `reading`, `store` and `trace`.
        """
        if part.start == part.stop:
            return
        count, places = part.stop - part.start, slice(starts[part.start], starts[part.stop])
        gates = (count, self.cell.gates, padded(self.size, self.dtype))
        run = Forward(
            self.cell.number,
            int(self.tanh_values),
            int(self.hard),
            weights,
            as_array(bias),
            starts_of(part, starts),
            reading.of(part, self),
            in_place(state),
            in_place(read),
            Trace(
                in_place(trace[0][places] if len(trace[0]) > 1 else trace[0]),
                *(in_place(tensor[places] if len(tensor) else tensor) for tensor in trace[1:]),
            ),
            in_place(fresh(*gates, dtype=self.dtype)),
            in_place(fresh(*gates, dtype=self.dtype)),
            in_place(fresh(count, padded(self.heads, self.dtype), dtype=self.dtype)),
            in_place(fresh(self.cell.gates, self.size, dtype=self.dtype)),
        )
        store.forward(part, places, run)


class Reading(NamedTuple):
    """What the steps of a whole batch read.

    Attributes:
        starts: [B + 1] where the inputs of each item start, and M.
        ids: [M + 2 B] or [N], as `Inputs.ids` has them.
        projected: [ids, L * gates * H].
    """

    starts: Array
    ids: Array
    projected: Tensor

    def of(self, part: slice, sizes: Sizes) -> Inputs:
        """Of a part of the batch."""
        more = 2 if sizes.buffered else 0
        first = self.starts[part.start] + more * part.start
        last = self.starts[part.stop] + more * part.stop
        shape = (sizes.layers, sizes.cell.gates, sizes.size)
        return Inputs(
            starts_of(part, self.starts),
            self.ids[first:last],
            as_array(self.projected.unflatten(1, shape)),
            int(sizes.buffered),
        )


def starts_of(part: slice, starts: Array) -> Array:
    """Where the steps of each item of a part of the batch start, from the first of the part."""
    own: Array = starts[part.start : part.stop + 1]
    moved: Array = own - own[0]
    return moved


def pushes_of(memory: Ends | Actions) -> int:
    """How many vectors a kind of memory takes at each step."""
    return len(memory.pushes) if isinstance(memory, Ends) else memory.number


def nothing_read(sizes: Sizes, count: int) -> Tensor:
    """What was read before the first step of so many strings: [count, reads * m]."""
    read = fresh(count, sizes.read, dtype=sizes.dtype)
    return read.fill_(0 if isinstance(sizes.memory, Ends) else EMPTY)
