"""Controller and memory over a whole sequence, and a memory alone, for torch's autograd."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from stacktrans.kernels import drive
from stacktrans.kernels.cells import Cell
from stacktrans.kernels.compiling import Array
from stacktrans.kernels.products import gate_panels, padded, panels
from stacktrans.kernels.sizes import (
    Reading,
    Sizes,
    check_carried,
    check_ids,
    check_memory,
    check_reading,
    check_steps,
    check_weights,
    starts_of,
)
from stacktrans.kernels.steps import Backward, Trace, Weights
from stacktrans.kernels.stores import Carried, Kernel, Room, Store
from stacktrans.kernels.tensors import as_array, fresh, fresh_zeros, in_place
from stacktrans.kernels.threads import in_parts


class Kind(NamedTuple):
    """What is run.

    Attributes:
        units: of the controller.
        memory: the kind of memory.
        buffered: whether inputs are read from a buffer; the last two signals are then the
            strengths of reading on and of writing.
        tanh_values: whether values go through a tanh, and not a sigmoid.
        state_gradient: share of the gradient that goes back through the state at each step.
        hard: whether signals are made 0 or 1, and of actions one is taken for certain; there are
            no gradients then.
    """

    units: Cell
    memory: Kernel
    buffered: bool = False
    tanh_values: bool = True
    state_gradient: float = 1.0
    hard: bool = False


class LayerWeights(NamedTuple):
    """One layer of the controller.

    Attributes:
        below: [gates * H, size of what comes from below] for the vectors read at the step
            before, and in a higher layer for the output of the layer below.
        hidden: [gates * H, H].
        initial: the state before the first step, each [H] or [B, H].
    """

    below: Tensor
    hidden: Tensor
    initial: tuple[Tensor, ...]


class SequenceOutput(NamedTuple):
    """What came out of N steps, or of T steps of a batch of B.

    Attributes:
        hidden: [N, H] or [B, T, H] the output of the highest layer; the others in the same way.
        signals: [N, signals] strengths, in the order of the memory's `signal_names`.
        reads: [N, reads * m] the vectors read.
    """

    hidden: Tensor
    signals: Tensor
    reads: Tensor


def forward_weights(cell: Cell, layers: Sequence[tuple[Tensor, Tensor]], heads: Tensor) -> Weights:
    """The weights in panels for going forwards.

    Args:
        cell: kind of units.
        layers: `below` and `hidden` of each layer.
        heads: [signals + pushes * m, H].
    """
    below = [gate_panels(below, cell.gates) for below, _ in layers]
    hidden = [gate_panels(hidden, cell.gates) for _, hidden in layers]
    return _stacked(below, hidden, panels(heads.t()))


def _backward_weights(layers: Sequence[tuple[Tensor, Tensor]], heads: Tensor) -> Weights:
    """The transposed weights in panels."""
    below = [panels(below) for below, _ in layers]
    hidden = [panels(hidden) for _, hidden in layers]
    return _stacked(below, hidden, panels(heads))


def _stacked(below: list[Tensor], hidden: list[Tensor], heads: Tensor) -> Weights:
    between = torch.stack(below[1:]) if below[1:] else hidden[0].new_empty(0, *hidden[0].shape)
    together = torch.stack(hidden) if hidden[1:] else hidden[0].unsqueeze(0)
    return Weights(as_array(below[0]), as_array(between), as_array(together), as_array(heads))


class _Sequence(torch.autograd.Function):
    """All steps; see `fused_sequence`."""

    @staticmethod
    def forward(
        ctx: Any,
        kind: Kind,
        signals: int,
        starts: Array,
        input_starts: Array,
        ids: Array,
        before: Carried | None,
        projected: Tensor,
        initial: Tensor,
        head_weight: Tensor,
        head_bias: Tensor,
        *weights: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor, Carried]:
        """Run the steps.

        Args:
            ctx: what the backward pass needs.
            kind: what is run.
            signals: how many of the heads are signals.
            starts: [B + 1] where the steps of each item start, and N.
            input_starts: [B + 1] where the inputs of each item start, and how many there are.
            ids: what is read, as `Inputs.ids` has it.
            before: what memory and reads to begin with; None for the empty memory.
            projected: [ids, L * gates * H].
            initial: [L, states, B, H].
            head_weight: [signals + pushes * m, H].
            head_bias: [signals + pushes * m].
            weights: `below` and `hidden` of each layer in turn.
        """
        layers, _, batch, size = initial.shape
        sizes = sizes_of(kind, layers, batch, size, signals, head_weight)
        reading = Reading(input_starts, ids, projected)
        check_steps(starts, batch)
        check_reading(reading, sizes, starts)
        check_weights(sizes, _pairs(weights), head_weight, head_bias, initial)
        trace = sizes.new_trace(int(starts[-1]))
        longest = int(np.diff(starts).max(initial=0))
        store, first = _beginning(sizes, before, longest, int(starts[-1]))
        ready = forward_weights(sizes.cell, _pairs(weights), head_weight)
        start = initial.detach()

        def run(part: slice) -> tuple[Tensor, Tensor]:
            state = start[:, :, part].clone(memory_format=torch.contiguous_format)
            read = first[part].clone()
            sizes.forward(part, ready, head_bias, starts, reading, state, read, store, trace)
            return state, read

        states, reads_last = zip(*in_parts(run, batch), strict=True)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(initial, head_weight, *weights, projected, *trace)
        ctx.sizes, ctx.store, ctx.first, ctx.starts = sizes, store, first, starts
        ctx.state_gradient = float(kind.state_gradient)
        ctx.input_starts, ctx.ids = input_starts, ids
        _, hidden, signal, reads, _ = trace
        carried = Carried(
            torch.cat(states, dim=2),
            torch.cat(reads_last),
            store.held,
            torch.zeros(batch, dtype=torch.bool),
        )
        return hidden[:, -1], signal, reads, carried

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        """Run the steps backwards, then take each weight's gradient as one product."""
        initial, head_weight, *rest = ctx.saved_tensors
        weights, projected, trace = rest[:-6], rest[-6], rest[-5:]
        _, hidden, _, reads, positions = trace
        sizes: Sizes = ctx.sizes
        if sizes.hard:
            raise ValueError("signals that are made 0 or 1 have no gradients")
        starts: Array = ctx.starts
        grad = _grads(sizes, trace, grads[:3])
        ready = _backward_weights(_pairs(weights), head_weight)
        reading = Reading(ctx.input_starts, ctx.ids, projected)

        def run(part: slice) -> Tensor:
            return _backward_part(
                sizes,
                part,
                ready,
                starts,
                reading,
                initial,
                ctx.state_gradient,
                ctx.store,
                trace,
                grad,
            )

        grad_initial = torch.cat(in_parts(run, sizes.batch), dim=2)
        grad_weights: list[Tensor | None] = []
        wanted = ctx.needs_input_grad[-len(weights) :]
        for layer in range(sizes.layers):
            outer = grad.projected[:, layer]
            inner = grad.inner[:, layer] if sizes.cell.split else outer
            below: Tensor | None = None
            before: Tensor | None = None
            if wanted[2 * layer]:
                below = (
                    _weight_gradient(outer, hidden[:, layer - 1])
                    if layer
                    else _late_weight_gradient(outer, reads, ctx.first, starts)
                )
            if wanted[2 * layer + 1]:
                before = _late_weight_gradient(inner, hidden[:, layer], initial[layer, 0], starts)
            grad_weights += [below, before]
        return (
            None,
            None,
            None,
            None,
            None,
            None,
            _projected_gradient(grad.projected.flatten(1), reading, starts, positions),
            grad_initial,
            _weight_gradient(grad.heads, hidden[:, -1]),
            grad.heads.sum(dim=0),
            *grad_weights,
        )


class _Grads(NamedTuple):
    """Gradients that come from outside (`hidden` to `reads`), or are found step by step."""

    hidden: Tensor
    signals: Tensor
    reads: Tensor
    projected: Tensor
    inner: Tensor
    heads: Tensor


def _grads(sizes: Sizes, trace: Sequence[Tensor], given: Sequence[Tensor | None]) -> _Grads:
    _, hidden, signals, reads, _ = trace
    places, layers, size = hidden.shape
    gates = (places, layers, sizes.cell.gates * size)
    grad_hidden, grad_signals, grad_reads = given
    return _Grads(
        _or_zeros(grad_hidden, hidden[:, -1]).unsqueeze(1),
        _or_zeros(grad_signals, signals),
        _or_zeros(grad_reads, reads),
        fresh(*gates, dtype=sizes.dtype),
        fresh(*(gates if sizes.cell.split else (0, 0, 0)), dtype=sizes.dtype),
        fresh(places, sizes.heads, dtype=sizes.dtype),
    )


def _backward_part(
    sizes: Sizes,
    part: slice,
    weights: Weights,
    starts: Array,
    reading: Reading,
    initial: Tensor,
    state_gradient: float,
    store: Store,
    trace: Sequence[Tensor],
    grad: _Grads,
) -> Tensor:
    """Run the steps backwards for a part of the batch; gives back the gradient of `initial`."""
    dtype, count = sizes.dtype, part.stop - part.start
    if not count:
        return fresh_zeros(*initial.shape, dtype=dtype)
    places = slice(starts[part.start], starts[part.stop])
    saved, hidden, signals, reads, positions = (
        as_array(tensor[places] if len(tensor) else tensor) for tensor in trace
    )
    grad_state = fresh_zeros(*initial[:, :, part].shape, dtype=dtype)
    outer = in_place(fresh(count, sizes.cell.gates, sizes.size, dtype=dtype))
    inner, grad_inner = outer, grad.inner[:0]
    if sizes.cell.split:
        inner, grad_inner = np.empty_like(outer), grad.inner[places]
    run = Backward(
        sizes.cell.number,
        int(sizes.tanh_values),
        weights,
        starts_of(part, starts),
        reading.of(part, sizes),
        as_array(initial[:, :, part]),
        state_gradient,
        Trace(saved, hidden, signals, reads, positions),
        Trace(
            saved,
            as_array(grad.hidden[places]),
            as_array(grad.signals[places]),
            as_array(grad.reads[places]),
            positions,
        ),
        in_place(grad.projected[places]),
        in_place(grad_inner),
        in_place(grad.heads[places]),
        in_place(grad_state),
        outer,
        inner,
        in_place(fresh(count, sizes.heads, dtype=dtype)),
        in_place(fresh(count, padded(sizes.read, dtype), dtype=dtype)),
        in_place(fresh(count, padded(sizes.size, dtype), dtype=dtype)),
        in_place(fresh_zeros(count, dtype=dtype)),
    )
    drive.backward(run, store.backward(part, places), sizes.memory.signals)
    return grad_state


def _beginning(
    sizes: Sizes, before: Carried | None, steps: int, places: int
) -> tuple[Store, Tensor]:
    """The memory before the first of T steps, N together, and what was read: [B, reads * m]."""
    nothing = sizes.nothing_read()
    if before is None:
        return sizes.store(steps, places), nothing
    check_carried(before, sizes)
    read = torch.where(before.new.unsqueeze(1), nothing, before.read)
    held = before.held and before.held.without(before.new.numpy())
    return sizes.store(steps, places, held), read


def _pairs(weights: Sequence[Tensor]) -> list[tuple[Tensor, Tensor]]:
    """`below` and `hidden` of each layer."""
    return list(zip(weights[::2], weights[1::2], strict=True))


def _weight_gradient(grad: Tensor, by: Tensor) -> Tensor:
    """[N, out] gradients of what came out and [N, in] what went in -> [out, in]."""
    # This way round the libraries for linear algebra are a sixth faster.
    return (by.t() @ grad).t()


def _or_zeros(grad: Tensor | None, like: Tensor) -> Tensor:
    return torch.zeros_like(like) if grad is None else grad


def _late_weight_gradient(grad: Tensor, by: Tensor, first: Tensor, starts: Array) -> Tensor:
    """The same where what went in came out of the step before.

    Args:
        grad: [N, out] gradients of what came out.
        by: [N, in] what came out one step earlier than it went in.
        first: [B, in] what went in at the first step of each item.
        starts: [B + 1] where the steps of each item start, and N.
    """
    at = torch.from_numpy(starts[:-1][np.diff(starts) > 0])
    # Put right at the few first steps: a copy of `by`, one step later, takes longer.
    before = by[(at - 1).clamp(min=0)] * (at > 0).unsqueeze(1)
    right = first[: len(at)] - before
    return torch.addmm(right.t() @ grad[at], by[:-1].t(), grad[1:]).t()


def _projected_gradient(rows: Tensor, reading: Reading, starts: Array, positions: Tensor) -> Tensor:
    """Gradients of the sums over each id, from those of the sums at each step.

    Args:
        rows: [N, L * gates * H].
        reading: what the steps read.
        starts: [B + 1] where the steps of each item start, and N.
        positions: [N] as `Trace.positions` has them; empty without buffers.
    """
    count = len(reading.projected)
    if not len(positions):
        return _added_up(rows, reading.ids, count)
    lengths, items = np.diff(reading.starts), np.arange(len(starts) - 1)
    of = np.repeat(items, np.diff(starts))
    places = positions.numpy()
    # A NaN is no place; as in compiled code.
    whole = np.where(places < lengths[of], places, lengths[of]).astype(int)
    first = (reading.starts[:-1] + 2 * items)[of] + whole
    share = torch.from_numpy(places - np.floor(places)).unsqueeze(1)
    later = rows * share
    return _added_up(rows - later, reading.ids[first], count) + _added_up(
        later, reading.ids[first + 1], count
    )


def _added_up(rows: Tensor, ids: Array, count: int) -> Tensor:
    """Rows added up by the id they belong to: [N, size] and [N] -> [count, size]."""
    places = torch.from_numpy(ids)
    grad: Tensor = torch.ops.aten.embedding_dense_backward(rows, places, count, -1, False)
    return grad


def sizes_of(
    kind: Kind, layers: int, batch: int, size: int, signals: int, head_weight: Tensor
) -> Sizes:
    """The kinds and sizes of a run whose heads have the given weights."""
    columns = (head_weight.shape[0] - signals) // max(kind.memory.pushes, 1)
    return Sizes(
        kind.units,
        kind.memory,
        layers,
        batch,
        size,
        signals,
        columns,
        head_weight.dtype,
        kind.buffered,
        kind.tanh_values,
        kind.hard,
    )


def fused_sequence(
    kind: Kind,
    lengths: Sequence[int],
    steps: Sequence[int],
    ids: Tensor,
    projected: Sequence[Tensor],
    layers: Sequence[LayerWeights],
    signal_weight: Tensor,
    signal_bias: Tensor,
    value_weight: Tensor,
    value_bias: Tensor,
) -> SequenceOutput:
    """The steps of a controller and the memory it operates, for a batch of B.

    Args:
        kind: what is run.
        lengths: how many inputs each item has, M together; the longest first.
        steps: how many steps each item takes, N together; without buffers, as many.
        ids: [M] the inputs, those of an item one after the other.
        projected: for each layer, [ids, gates * H] the gates' sums over each id, bias
            included; with buffers, the last is no input.
        layers: the lowest first.
        signal_weight: [signals, H].
        signal_bias: [signals].
        value_weight: [pushes * m, H].
        value_bias: [pushes * m].
    """
    input_starts = np.cumsum([0, *lengths])
    inputs = as_array(ids)
    if kind.buffered:
        check_ids(inputs, len(projected[0]) - 1)
        inputs = np.insert(inputs, np.repeat(input_starts[1:], 2), len(projected[0]) - 1)
    heads = (signal_weight, signal_bias, value_weight, value_bias)
    starts = np.cumsum([0, *steps])
    return _run(kind, starts, input_starts, inputs, projected, layers, heads, None)[0]


def fused_piece(
    kind: Kind,
    ids: Tensor,
    projected: Sequence[Tensor],
    layers: Sequence[LayerWeights],
    state: Carried | None,
    signal_weight: Tensor,
    signal_bias: Tensor,
    value_weight: Tensor,
    value_bias: Tensor,
) -> tuple[SequenceOutput, Carried]:
    """T steps of each of B strings that go on from what an earlier piece of them left.

    Gradients go back to the first of these steps, and no further; those of the initial state are
    of the strings that begin with it.

    Args:
        kind: what is run, without buffers; its memory goes on from piece to piece.
        ids: [B, T] the inputs.
        projected: as for `fused_sequence`, and so are the others.
        layers: the lowest first.
        state: what they carry; None for strings that begin.
        signal_weight: [signals, H].
        signal_bias: [signals].
        value_weight: [pushes * m, H].
        value_bias: [pushes * m].

    Returns:
        What came out, the steps of a string one after the other, and what they carry on.
    """
    batch, steps = ids.shape
    starts = np.arange(batch + 1) * steps
    heads = (signal_weight, signal_bias, value_weight, value_bias)
    return _run(kind, starts, starts, as_array(ids.flatten()), projected, layers, heads, state)


def _run(
    kind: Kind,
    starts: Array,
    input_starts: Array,
    inputs: Array,
    projected: Sequence[Tensor],
    layers: Sequence[LayerWeights],
    heads: tuple[Tensor, Tensor, Tensor, Tensor],
    state: Carried | None,
) -> tuple[SequenceOutput, Carried]:
    signal_weight, signal_bias, value_weight, value_bias = heads
    batch, size = len(starts) - 1, layers[0].hidden.shape[1]
    initial = torch.stack(
        [torch.stack([part.expand(batch, size) for part in layer.initial]) for layer in layers]
    )
    if state is not None:
        initial = torch.where(state.new.unsqueeze(1), initial, state.units)
    weights = [weight for layer in layers for weight in (layer.below, layer.hidden)]
    run: Any = _Sequence.apply
    *done, carried = run(
        kind,
        signal_weight.shape[0],
        starts,
        input_starts,
        inputs,
        state,
        torch.cat(list(projected), dim=1) if projected[1:] else projected[0],
        initial,
        torch.cat([signal_weight, value_weight]),
        torch.cat([signal_bias, value_bias]),
        *weights,
    )
    return SequenceOutput(*done), carried


class _MemoryAlone(torch.autograd.Function):
    """All steps of a memory; see `fused_memory`."""

    @staticmethod
    def forward(ctx: Any, memory: Kernel, signals: Tensor, values: Tensor) -> Tensor:
        """Run the steps; shapes as for `fused_memory`."""
        check_memory(memory, signals, values)
        batch, steps, numbers = values.shape
        columns = numbers // memory.pushes
        room = Room(batch, columns, values.dtype, steps, batch * steps, values=values)
        store = memory.store(room)
        reads = fresh(batch, steps, memory.reads * columns, dtype=values.dtype)

        def run(part: slice) -> None:
            arrays = store.forward(part, _places(part, steps))
            drive.memory_forward(arrays, as_array(signals[part]), in_place(reads[part]))

        in_parts(run, batch)
        ctx.save_for_backward(signals)
        ctx.store, ctx.pushes, ctx.shape = store, memory.pushes, values.shape
        return reads

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Run the steps backwards."""
        (signals,) = ctx.saved_tensors
        batch, steps, _ = ctx.shape
        grad_signals = fresh(*signals.shape, dtype=signals.dtype)
        grad_values = fresh(*ctx.shape, dtype=signals.dtype).unflatten(2, (ctx.pushes, -1))

        def run(part: slice) -> None:
            drive.memory_backward(
                ctx.store.backward(part, _places(part, steps)),
                as_array(signals[part]),
                as_array(grads[0][part]),
                in_place(grad_signals[part]),
                in_place(grad_values[part]),
            )

        in_parts(run, batch)
        return None, grad_signals, grad_values.flatten(2)


def _places(part: slice, steps: int) -> slice:
    """Of the steps of a part of a batch of which each takes as many."""
    return slice(part.start * steps, part.stop * steps)


def fused_memory(memory: Kernel, signals: Tensor, values: Tensor) -> Tensor:
    """T steps of a memory alone, from empty.

    Args:
        memory: its kind.
        signals: [B, T, signals] in [0, 1].
        values: [B, T, pushes * m] the vectors to push.

    Returns:
        [B, T, reads * m] the vectors read.
    """
    run: Any = _MemoryAlone.apply
    reads: Tensor = run(memory, signals, values)
    return reads
