"""The arguments of the compiled loop, and what a step does besides units and memory."""

import math
from typing import Any, NamedTuple

from stacktrans.kernels import Array
from stacktrans.kernels.compiling import compiled, reordered
from stacktrans.kernels.elementwise import sigmoid, tanh


class Weights(NamedTuple):
    """The weights of L layers and the heads in panels, which multiply rows at each step.

    Attributes:
        below: from the vectors read to the gates of the lowest layer.
        between: [L - 1, ...] from the output of a layer to the gates of the layer above.
        hidden: [L, 1 or ids, ...] from the hidden state of a layer to its own gates; of
            second-order units, by the id that is read.
        heads: from the output of the highest layer to all signals and then all values.
    """

    below: Array
    between: Array
    hidden: Array
    heads: Array


class Inputs(NamedTuple):
    """The inputs of all steps: ids, and their contributions to the gates.

    Attributes:
        starts: [B + 1] the index at which the inputs of each item start, and M.
        ids: [M + 2 B] the ids of each item's inputs, followed by that of no input twice, item by
            item; without buffers, [N] the id that each step reads.
        projected: [ids, L, gates, H] the contribution of each id to the gates.
        buffered: 1 if the strengths of an item's reads say which inputs it reads, 0 if each step
            reads the next.
    """

    starts: Array
    ids: Array
    projected: Array
    buffered: int


class StepTrace(NamedTuple):
    """The record of N steps, item by item.

    Attributes:
        saved: [N, L, saved, H] what the backward pass needs of the units; without a backward
            pass, [1, L, saved, H] of the last step.
        hidden: [N, L, H] the outputs of all layers.
        signals: [N, signals] the signals.
        reads: [N, 1, reads * m] the vectors read.
        positions: [N] the total strength of the reads of an item's inputs before each step; empty
            without buffers.
    """

    saved: Array
    hidden: Array
    signals: Array
    reads: Array
    positions: Array


class BatchStep(NamedTuple):
    """A step of a batch.

    Attributes:
        number: its number within each string, from 0.
        indices: [B or fewer] its index among all N steps, for each item that takes it.
        starts: [B + 1] the index at which the steps of each item start, and N.
    """

    number: int
    indices: Array
    starts: Array


class Forward(NamedTuple):
    """The arguments of the forward pass of B items that do not depend on the memory.

    Attributes:
        unit: number of the type of unit.
        tanh_values: 1 if values go through a tanh, 0 if through a sigmoid.
        hard: 1 if signals are made 0 or 1.
        weights: in panels.
        bias: [signals + pushes * m] of the signals and values.
        noise: [N, signals] added to the pre-activations of signals; [0, signals] for none.
        starts: [B + 1] the index at which the steps of each item start, and N. No item takes more
            steps than one before it.
        inputs: the inputs that the steps read.
        state: [L, states, B, H] of the units before the first step; becomes that after the last.
        read: [B, reads, m] read before the first step; becomes what the last step read.
        trace: the record of the steps; set.
        heads: [B, as wide as `weights.heads`] becomes the pre-activations of signals and values at
            the last step, without the bias.
        values: [B, pushes, m] becomes what the last step pushed.
    """

    unit: int
    tanh_values: int
    hard: int
    weights: Weights
    bias: Array
    noise: Array
    starts: Array
    inputs: Inputs
    state: Array
    read: Array
    trace: StepTrace
    heads: Array
    values: Array


class Grads(NamedTuple):
    """Gradients of the outputs of N steps, and those that the backward pass sets.

    Attributes:
        hidden: [N, H] of the highest layer's output.
        signals: [N, signals].
        projected: [N, L, gates * H] of the gates' pre-activations; set.
        inner: [N, L, gates * H] of the hidden state's part of the gates; set, unless empty.
        heads: [N, 1, signals + pushes * m] of the pre-activations of both; set.
    """

    hidden: Array
    signals: Array
    projected: Array
    inner: Array
    heads: Array


class Backward(NamedTuple):
    """The arguments of the backward pass of B items that do not depend on the memory.

    Attributes:
        unit: number of the type of unit.
        tanh_values: as in the forward pass.
        weights: the transposed matrices in panels.
        starts: [B + 1] as in the forward pass.
        inputs: as in the forward pass.
        state_gradient: share of the gradient that passes back through the state at each step.
        trace: the record of the steps.
        grads: gradients at all steps.
        grad_state: [L, states, B, H] zeros; becomes that of the state before the first step.
        grad_read: [B, reads, m] to work in.
        values: [B, pushes, m] to work in.
    """

    unit: int
    tanh_values: int
    weights: Weights
    starts: Array
    inputs: Inputs
    state_gradient: float
    trace: StepTrace
    grads: Grads
    grad_state: Array
    grad_read: Array
    values: Array


@compiled
def indices_at(starts: Array, step: int, indices: Array) -> Array:
    """The indices in the trace of a step, for the items that take it: a part of `indices`, set.

    The items with the most steps come first; see `Forward.starts`.
    """
    count = 0
    while count < indices.shape[0] and starts[count + 1] - starts[count] > step:
        indices[count] = starts[count] + step
        count += 1
    return indices[:count]


@compiled
def add_at(indices: Array, given: Array, out: Array) -> None:
    """Add what is given for all steps, [N, K], to rows of a step, [B, K or more]."""
    for item in range(indices.shape[0]):
        index = indices[item]
        for i in range(given.shape[1]):
            out[item, i] += given[index, i]


@compiled
def sigmoid_signals(
    first: int, last: int, indices: Array, sums: Array, bias: Array, signals: Array
) -> None:
    """Set signals `first` to `last` of a step, [N, signals], from pre-activations [B, signals]."""
    for item in range(indices.shape[0]):
        index = indices[item]
        for i in range(first, last):
            signals[index, i] = sigmoid(sums[item, i] + bias[i])


@compiled
def sigmoid_signals_backward(
    first: int, last: int, indices: Array, signals: Array, grad: Array
) -> None:
    """Turn the gradients of signals, [B, signals], into those of their pre-activations."""
    one = grad.dtype.type(1)
    for item in range(indices.shape[0]):
        index = indices[item]
        for i in range(first, last):
            signal = signals[index, i]
            grad[item, i] *= signal * (one - signal)


@compiled
def round_signals(first: int, last: int, indices: Array, signals: Array) -> None:
    """Round signals to 0 or 1; one half becomes 0, as in torch, and a NaN stays."""
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
    """Set the values to push, [B, pushes, m], from the pre-activations in columns `first` on."""
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
    """Set the gradients of the values' pre-activations, [B, ...], columns `first` on of `grad`."""
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
    """The ids of the two inputs at a position of the input buffer, and the share of the second."""
    start = starts[item]
    last = starts[item + 1] - start
    # Each item has two more ids than inputs. A NaN is not converted to a whole number; it shows
    # in the share.
    first = start + 2 * item + (int(position) if position < last else last)
    return ids[first], ids[first + 1], position - math.floor(position)


@compiled
def add_projected(
    inputs: Inputs, layer: int, indices: Array, positions: Array, outer: Array
) -> None:
    """Add the contribution of the inputs to the gates, [B, gates, H or more]."""
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
    """Add to the gradients of the positions in the input buffers, [B]."""
    projected, starts, ids = inputs.projected, inputs.starts, inputs.ids
    for item in range(indices.shape[0]):
        one, other, _ = _read_at(starts, ids, item, positions[indices[item]])
        grad[item] += _share_gradient(projected, one, other, layer, item, outer)


@compiled
def keep_rows(rows: Array, layer: int, indices: Array, kept: Array) -> None:
    """Record rows of a step, [B, K or more], in [N, L, K]."""
    for item in range(indices.shape[0]):
        index = indices[item]
        for i in range(kept.shape[2]):
            kept[index, layer, i] = rows[item, i]


@compiled
def add_upstream_signals(
    own: int, indices: Array, grad_position: Array, given: Array, grad: Array
) -> None:
    """Set the gradients of the buffers' signals, and add those from outside to all signals."""
    if own < given.shape[1]:
        for item in range(indices.shape[0]):
            # Of the two signals of the buffers, only the read strength affects the next step.
            grad[item, own] = grad_position[item]
            grad[item, own + 1] = 0
    add_at(indices, given, grad)


@compiled
def add_rows(out: Array, count: int, rows: Array) -> None:
    """Add rows, [B, K or more], to `out`, [B, K]."""
    for item in range(count):
        for i in range(out.shape[1]):
            out[item, i] += rows[item, i]


@compiled
def copy_rows(rows: Array, count: int, out: Array) -> None:
    """Copy rows, [B, K or more], to `out`, [B, K]."""
    for item in range(count):
        for i in range(out.shape[1]):
            out[item, i] = rows[item, i]


@compiled
def scale_state(factor: Any, layer: int, count: int, state: Array) -> None:
    """Multiply the state of a layer, in [L, states, B, H], for some items."""
    for vector in range(state.shape[1]):
        for item in range(count):
            for i in range(state.shape[3]):
                state[layer, vector, item, i] *= factor


@compiled
def positions_step(positions: Array, signals: Array, starts: Array, indices: Array) -> None:
    """Advance the position in each input buffer by the read strength of a step."""
    read_on = signals.shape[1] - 2
    for item in range(indices.shape[0]):
        index = indices[item]
        if index + 1 < starts[item + 1]:
            positions[index + 1] = positions[index] + signals[index, read_on]
