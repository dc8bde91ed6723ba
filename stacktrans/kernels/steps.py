"""What every step of a sequence has, whatever the memory: units, and the values they push."""

import math
from typing import Any, NamedTuple

from stacktrans.kernels import Array
from stacktrans.kernels.compiling import compiled, reordered
from stacktrans.kernels.loops import sigmoid, tanh


class Weights(NamedTuple):
    """What multiplies rows at each step, in panels (see `products`), for L layers.

    Attributes:
        below: what was read, for the gates of the lowest layer.
        between: [L - 1, ...] a layer's output, for the gates of the layer above.
        hidden: [L, ...] a layer's hidden state, for its own gates.
        heads: the highest layer's output, for all signals and then all values.
    """

    below: Array
    between: Array
    hidden: Array
    heads: Array


class Inputs(NamedTuple):
    """What the steps read.

    Attributes:
        starts: [B + 1] where the inputs of each item start, and M.
        ids: [M + 2 B] the id of each input of an item and twice that of no input, one item after
            the other; without buffers [N] the id that each step reads.
        projected: [ids, L, gates, H] sums of the gates over each id.
        buffered: 1 if an item's steps read where the strengths of its reads take it, 0 if each
            reads the next.
    """

    starts: Array
    ids: Array
    projected: Array
    buffered: int


class StepTrace(NamedTuple):
    """What went on in N steps, those of each item of a batch one after the other.

    Attributes:
        saved: [N, L, saved, H] what going backwards needs of the units; without that,
            [1, L, saved, H] of whichever step was last.
        hidden: [N, L, H].
        signals: [N, signals].
        reads: [N, reads, m].
        positions: [N] how many of an item's inputs were read before; empty without buffers.
    """

    saved: Array
    hidden: Array
    signals: Array
    reads: Array
    positions: Array


class BatchStep(NamedTuple):
    """A step of a batch.

    Attributes:
        number: which of the steps of each string, from 0.
        indices: [B] where it is among all N steps, of the items that have as many.
        starts: [B + 1] where the steps of each item start among them, and N.
    """

    number: int
    indices: Array
    starts: Array


class Forward(NamedTuple):
    """What running the steps of B items takes, whatever the memory.

    Attributes:
        unit: number of the type of unit.
        tanh_values: 1 if values go through a tanh, 0 if through a sigmoid.
        hard: 1 if signals are made 0 or 1.
        weights: in panels.
        bias: [signals + pushes * m] of the signals and values.
        starts: [B + 1] where the steps of each item start, and N. No item takes more steps than
            one before it.
        inputs: what the steps read.
        state: [L, states, B, H] of the units before the first step; becomes that after the last.
        read: [B, reads, m] read before the first step; becomes what was read last.
        trace: set.
        outer: [B, gates, as wide as a gate in `weights.below`] to work in.
        inner: the same.
        heads: [B, as wide as `weights.heads`] to work in.
        values: [B, pushes, m] to work in.
        indices: [B] to work in.
    """

    unit: int
    tanh_values: int
    hard: int
    weights: Weights
    bias: Array
    starts: Array
    inputs: Inputs
    state: Array
    read: Array
    trace: StepTrace
    outer: Array
    inner: Array
    heads: Array
    values: Array
    indices: Array


class Backward(NamedTuple):
    """What running the steps of B items backwards takes, whatever the memory.

    Attributes:
        unit: number of the type of unit.
        tanh_values: as for going forwards.
        weights: in panels, but those of the transposed matrices.
        starts: [B + 1] as for going forwards.
        inputs: the same.
        state_gradient: share of the gradient that goes back through the state at each step.
        trace: of the steps.
        grads: gradients of what is in the trace, from outside: of `hidden`, [N, 1, H], that
            of the highest layer; `saved` is not used.
        grad_projected: [N, L, gates, H] set.
        grad_inner: the same of what the hidden state adds to the gates; set, unless empty.
        grad_heads: [N, 1, signals + pushes * m] of the sums under both; set.
        grad_state: [L, states, B, H] zeros; becomes that of the state before the first step.
        outer: [B, gates, H] to work in.
        inner: the same; the same array if grad_inner is empty.
        heads: [B, signals + pushes * m] to work in.
        below: [B, as wide as `weights.below`] to work in.
        grad_read: [B, reads, m] to work in.
        grad_hidden: [B, as wide as `weights.hidden`] to work in.
        grad_position: [B] zeros, to work in.
        values: [B, pushes, m] to work in.
        grad_values: [B, pushes, m] to work in.
        indices: [B] to work in.
    """

    unit: int
    tanh_values: int
    weights: Weights
    starts: Array
    inputs: Inputs
    state_gradient: float
    trace: StepTrace
    grads: StepTrace
    grad_projected: Array
    grad_inner: Array
    grad_heads: Array
    grad_state: Array
    outer: Array
    inner: Array
    heads: Array
    below: Array
    grad_read: Array
    grad_hidden: Array
    grad_position: Array
    values: Array
    grad_values: Array
    indices: Array


@compiled
def indices_at(starts: Array, step: int, indices: Array) -> Array:
    """Set where in the trace the items that take a step have it; gives back their places.

    The items with the most steps are the first ones; see `Forward.starts`.
    """
    count = 0
    while count < indices.shape[0] and starts[count + 1] - starts[count] > step:
        indices[count] = starts[count] + step
        count += 1
    return indices[:count]


@compiled
def sigmoid_signals(
    first: int, last: int, indices: Array, sums: Array, bias: Array, signals: Array
) -> None:
    """Set the signals from `first` up to `last` of a step, [N, signals], by sums [B, signals]."""
    for item in range(indices.shape[0]):
        index = indices[item]
        for i in range(first, last):
            signals[index, i] = sigmoid(sums[item, i] + bias[i])


@compiled
def sigmoid_signals_backward(
    first: int, last: int, indices: Array, signals: Array, grad: Array
) -> None:
    """Turn the gradients of signals, [B, signals], into those of the sums under them."""
    one = grad.dtype.type(1)
    for item in range(indices.shape[0]):
        index = indices[item]
        for i in range(first, last):
            signal = signals[index, i]
            grad[item, i] *= signal * (one - signal)


@compiled
def rounded(first: int, last: int, indices: Array, signals: Array) -> None:
    """Signals made 0 or 1; one half is 0, as torch rounds it, and a NaN stays."""
    for item in range(indices.shape[0]):
        index = indices[item]
        for i in range(first, last):
            if signals[index, i] > 0.5:
                signals[index, i] = 1
            elif signals[index, i] <= 0.5:
                signals[index, i] = 0


@compiled
def values_step(
    tanh_values: int, first: int, count: int, sums: Array, bias: Array, values: Array
) -> None:
    """Set the values that items push, [B, pushes, m], by the sums under them, from the `first`."""
    size = values.shape[2]
    for push in range(values.shape[1]):
        start = first + push * size
        part_bias = bias[start:]
        for item in range(count):
            part = sums[item, start:]
            if tanh_values:
                for i in range(size):
                    values[item, push, i] = tanh(part[i] + part_bias[i])
            else:
                for i in range(size):
                    values[item, push, i] = sigmoid(part[i] + part_bias[i])


@compiled
def values_backward(
    tanh_values: int, first: int, count: int, values: Array, grad_values: Array, grad: Array
) -> None:
    """Set the gradients of the sums under values, [B, ...] from the `first`, by theirs."""
    size, one = values.shape[2], values.dtype.type(1)
    for push in range(values.shape[1]):
        for item in range(count):
            part = grad[item, first + push * size :]
            if tanh_values:
                for i in range(size):
                    value = values[item, push, i]
                    part[i] = grad_values[item, push, i] * (one - value * value)
            else:
                for i in range(size):
                    value = values[item, push, i]
                    part[i] = grad_values[item, push, i] * value * (one - value)


@compiled
def _read_at(starts: Array, ids: Array, item: int, position: Any) -> tuple[int, int, Any]:
    """The ids of the two inputs that are read from a position on, and the share of the second."""
    start = starts[item]
    last = starts[item + 1] - start
    # Two more ids an item than there are inputs. A NaN is no place among them, and is not made
    # whole; it shows in the share.
    first = start + 2 * item + (int(position) if position < last else last)
    return ids[first], ids[first + 1], position - math.floor(position)


@compiled
def add_projected(
    inputs: Inputs, layer: int, indices: Array, positions: Array, outer: Array
) -> None:
    """Add the sums of the gates over what is read, [B, gates, H or more]."""
    projected, buffered = inputs.projected, inputs.buffered
    starts, ids = inputs.starts, inputs.ids
    gates, size = projected.shape[2], projected.shape[3]
    for item in range(indices.shape[0]):
        if buffered:
            one, other, share = _read_at(starts, ids, item, positions[indices[item]])
            for gate in range(gates):
                for i in range(size):
                    first, second = projected[one, layer, gate, i], projected[other, layer, gate, i]
                    outer[item, gate, i] += first + share * (second - first)
        else:
            one = ids[indices[item]]
            for gate in range(gates):
                for i in range(size):
                    outer[item, gate, i] += projected[one, layer, gate, i]


@reordered
def _share_gradient(
    projected: Array, one: int, other: int, layer: int, item: int, grad: Array
) -> Any:
    """The gradient of the share of the second of two inputs."""
    total = grad.dtype.type(0)
    for gate in range(projected.shape[2]):
        for i in range(projected.shape[3]):
            change = projected[other, layer, gate, i] - projected[one, layer, gate, i]
            total += grad[item, gate, i] * change
    return total


@compiled
def positions_backward(
    inputs: Inputs, layer: int, indices: Array, positions: Array, outer: Array, grad: Array
) -> None:
    """Add to the gradients of the positions of items in their buffers, [B]."""
    projected, starts, ids = inputs.projected, inputs.starts, inputs.ids
    for item in range(indices.shape[0]):
        one, other, _ = _read_at(starts, ids, item, positions[indices[item]])
        grad[item] += _share_gradient(projected, one, other, layer, item, outer)


@compiled
def keep_rows(rows: Array, layer: int, indices: Array, kept: Array) -> None:
    """Put rows of a step, [B, K or more], where they are kept, [N, L, K]."""
    for item in range(indices.shape[0]):
        index = indices[item]
        for i in range(kept.shape[2]):
            kept[index, layer, i] = rows[item, i]


@compiled
def keep_gates(rows: Array, layer: int, indices: Array, kept: Array) -> None:
    """Put the gradients of gates, [B, gates, H], where they are kept, [N, L, gates, H]."""
    for item in range(indices.shape[0]):
        index = indices[item]
        for gate in range(rows.shape[1]):
            for i in range(rows.shape[2]):
                kept[index, layer, gate, i] = rows[item, gate, i]


@compiled
def keep_reads(read: Array, indices: Array, reads: Array) -> None:
    """Put what was read at a step, [B, reads, m], where it is kept, [N, reads, m]."""
    for item in range(indices.shape[0]):
        index = indices[item]
        for end in range(reads.shape[1]):
            for i in range(reads.shape[2]):
                reads[index, end, i] = read[item, end, i]


@compiled
def reads_backward(indices: Array, below: Array, given: Array, grad: Array) -> None:
    """Set the gradients of what was read: from the units of the next step, and from outside."""
    size = grad.shape[2]
    for end in range(grad.shape[1]):
        for item in range(indices.shape[0]):
            index, part = indices[item], below[item, end * size :]
            for i in range(size):
                grad[item, end, i] = part[i] + given[index, end, i]


@compiled
def signals_given(
    own: int, indices: Array, grad_position: Array, given: Array, grad: Array
) -> None:
    """Set the gradients of the signals of buffers, and add those of all that are from outside."""
    count = given.shape[1]
    for item in range(indices.shape[0]):
        if own < count:
            # Of the last two only the strength of reading on matters to the next step.
            grad[item, own] = grad_position[item]
            grad[item, own + 1] = 0
        index = indices[item]
        for i in range(count):
            grad[item, i] += given[index, i]


@compiled
def add_rows(out: Array, count: int, rows: Array) -> None:
    """Add rows, [B, K or more], to others, [B, K]."""
    for item in range(count):
        for i in range(out.shape[1]):
            out[item, i] += rows[item, i]


@compiled
def positions_step(positions: Array, signals: Array, starts: Array, indices: Array) -> None:
    """Go on in the input of each buffer by what the signals of a step say."""
    read_on = signals.shape[1] - 2
    for item in range(indices.shape[0]):
        index = indices[item]
        if index + 1 < starts[item + 1]:
            positions[index + 1] = positions[index] + signals[index, read_on]


@compiled
def add_given(grad_state: Array, indices: Array, given: Array) -> None:
    """Add gradients from outside, [N, 1, H], to those of the output of the highest layer."""
    layer = grad_state.shape[0] - 1
    for item in range(indices.shape[0]):
        index = indices[item]
        for i in range(grad_state.shape[3]):
            grad_state[layer, 0, item, i] += given[index, 0, i]


@compiled
def scale_state(grad_state: Array, layer: int, count: int, by: float) -> None:
    """Multiply the gradients of the state of a layer by a share."""
    share = grad_state.dtype.type(by)
    for part in range(grad_state.shape[1]):
        for item in range(count):
            for i in range(grad_state.shape[3]):
                grad_state[layer, part, item, i] *= share
