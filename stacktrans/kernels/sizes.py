"""The kinds and sizes of everything in a run of controller and memory.

What a run is given is checked once a call, before the steps: a model's own sizes agree, but the
rest may be anything, and compiled code would read and write out of bounds.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from stacktrans.kernels import drive
from stacktrans.kernels.cells import Cell
from stacktrans.kernels.compiling import Array
from stacktrans.kernels.products import padded
from stacktrans.kernels.steps import Forward, Inputs, Trace, Weights
from stacktrans.kernels.stores import Carried, Kernel, Room, Store
from stacktrans.kernels.tensors import as_array, check_shape, fresh, fresh_zeros, in_place


class Sizes(NamedTuple):
    """Kinds and sizes.

    Attributes:
        cell: kind of units.
        memory: the kind of memory.
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
    memory: Kernel
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
        return self.memory.pushes * self.columns

    @property
    def read(self) -> int:
        """Numbers read at each step."""
        return self.memory.reads * self.columns

    def store(self, steps: int, places: int | None = None, held: object = None) -> Store:
        """A memory of the batch; arguments as `Room` has them."""
        room = Room(self.batch, self.columns, self.dtype, steps, places, held)
        return self.memory.store(room)

    def nothing_read(self) -> Tensor:
        """What was read before the first step: [B, reads * m]."""
        return fresh(self.batch, self.read, dtype=self.dtype).fill_(self.memory.nothing)

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
        drive.forward(run, store.forward(part, places), self.memory.signals)


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


def check_steps(starts: Array, batch: int) -> None:
    """Raise `ValueError` unless B items take steps, none more than one before it.

    Args:
        starts: [B + 1] where the steps of each item start, and N.
        batch: B.
    """
    taken = np.diff(starts)
    if len(taken) != batch or (taken < 0).any() or (np.diff(taken) > 0).any():
        raise ValueError(f"expected the steps of {batch} items, the longest first, not {taken}")


def check_ids(ids: Array, count: int) -> None:
    """Raise `IndexError` unless all ids are under a count."""
    if len(ids) and not 0 <= ids.min() <= ids.max() < count:
        raise IndexError(f"ids are {ids.min()} to {ids.max()}; expected 0 to {count - 1}")


def check_reading(reading: Reading, sizes: Sizes, starts: Array) -> None:
    """Check what the steps read.

    Args:
        reading: of the whole batch.
        sizes: kinds and sizes.
        starts: [B + 1] where the steps of each item start, and N.

    Raises:
        IndexError: there are no sums over an id.
        ValueError: there are too few ids or sums, or too many.
    """
    ids, given = reading.ids, np.diff(reading.starts)
    # With buffers, two more ids an item than there are inputs.
    expected = int(reading.starts[-1]) + (2 * sizes.batch if sizes.buffered else 0)
    in_step = sizes.buffered or np.array_equal(reading.starts, starts)
    if not in_step or len(given) != sizes.batch or (given < 0).any() or len(ids) != expected:
        raise ValueError(f"the {len(ids)} ids are not those of the steps")
    count = len(reading.projected)
    sums = sizes.layers * sizes.cell.gates * sizes.size
    check_shape("sums over the ids", reading.projected.shape, (count, sums))
    check_ids(ids, count)


def check_weights(
    sizes: Sizes,
    layers: Sequence[tuple[Tensor, Tensor]],
    heads: Tensor,
    bias: Tensor,
    initial: Tensor,
) -> None:
    """Raise `ValueError` unless weights are of the right shapes.

    Args:
        sizes: kinds and sizes.
        layers: `below` and `hidden` of each layer.
        heads: [signals + pushes * m, H].
        bias: [signals + pushes * m].
        initial: [L, states, B, H] the state before the first step.
    """
    signals = sizes.memory.signals + (2 if sizes.buffered else 0)
    check_shape("signals", (sizes.signals,), (signals,))
    rows = sizes.cell.gates * sizes.size
    for index, (below, hidden) in enumerate(layers):
        width = sizes.size if index else sizes.read
        check_shape(f"below of layer {index}", below.shape, (rows, width))
        check_shape(f"hidden of layer {index}", hidden.shape, (rows, sizes.size))
    check_shape("weights of signals and values", heads.shape, (sizes.heads, sizes.size))
    check_shape("biases of signals and values", bias.shape, (sizes.heads,))
    state = (sizes.layers, sizes.cell.states, sizes.batch, sizes.size)
    check_shape("initial state", initial.shape, state)


def check_carried(carried: Carried, sizes: Sizes) -> None:
    """Raise `ValueError` unless what B strings carry is of the same memory and of these sizes.

    The state of the units is known to be: it takes the place of the initial one.
    """
    check_shape("read", carried.read.shape, (sizes.batch, sizes.read))
    sizes.memory.check_held(carried.held, sizes.batch, sizes.columns)


def check_memory(memory: Kernel, signals: Tensor, values: Tensor) -> None:
    """Raise `ValueError` unless a memory alone is given as much as it takes.

    Args:
        memory: its kind.
        signals: [B, T, signals].
        values: [B, T, pushes * m].
    """
    check_shape("signals", signals.shape, (*values.shape[:2], memory.signals))
    if values.shape[2] % memory.pushes:
        raise ValueError(f"values: {values.shape[2]} numbers for {memory.pushes} vectors")
