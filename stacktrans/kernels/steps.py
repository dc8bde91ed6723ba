"""What every step of a sequence has, whatever the memory: units, and the values they push."""

import math
from typing import Any, NamedTuple

from stacktrans.kernels.arithmetic import (
    add,
    copy,
    dot,
    interpolate,
    scale,
    sigmoid,
    sigmoid_sum,
    tanh_sum,
)
from stacktrans.kernels.cells import cell_backward, cell_step
from stacktrans.kernels.compiling import Array, compiled, inlined
from stacktrans.kernels.products import product


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


class Trace(NamedTuple):
    """What went on in N steps, those of each item of a batch one after the other.

    Attributes:
        saved: [N, L, saved, H] what going backwards needs of the units; without that,
            [1, L, saved, H] of whichever step was last.
        hidden: [N, L, H].
        signals: [N, signals].
        reads: [N, reads * m].
        positions: [N] how many of an item's inputs were read before; empty without buffers.
    """

    saved: Array
    hidden: Array
    signals: Array
    reads: Array
    positions: Array


class Forward(NamedTuple):
    """What running the steps of B items takes, whatever the memory.

    Attributes:
        cell: number of the kind of units.
        tanh_values: 1 if values go through a tanh, 0 if through a sigmoid.
        hard: 1 if signals are made 0 or 1.
        weights: in panels.
        bias: [signals + pushes * m] of the signals and values.
        starts: [B + 1] where the steps of each item start, and N. No item takes more steps than
            one before it.
        inputs: what the steps read.
        state: [L, states, B, H] of the units before the first step; becomes that after the last.
        read: [B, reads * m] read before the first step; becomes what was read last.
        trace: set.
        outer: [B, gates, as wide as a gate in `weights.below`] to work in.
        inner: the same.
        heads: [B, as wide as `weights.heads`] to work in.
        between: [gates, H] to work in.
    """

    cell: int
    tanh_values: int
    hard: int
    weights: Weights
    bias: Array
    starts: Array
    inputs: Inputs
    state: Array
    read: Array
    trace: Trace
    outer: Array
    inner: Array
    heads: Array
    between: Array


class Backward(NamedTuple):
    """What running the steps of B items backwards takes, whatever the memory.

    Attributes:
        cell: number of the kind of units.
        tanh_values: as for going forwards.
        weights: in panels, but those of the transposed matrices.
        starts: [B + 1] as for going forwards.
        inputs: the same.
        initial: [L, states, B, H] the state before the first step.
        state_gradient: share of the gradient that goes back through the state at each step.
        trace: of the steps.
        grads: gradients of what is in the trace, from outside: of `hidden`, [N, 1, H], that
            of the highest layer; `saved` is not used.
        grad_projected: [N, L, gates * H] set.
        grad_inner: the same of what the hidden state adds to the gates; set, unless empty.
        grad_heads: [N, signals + pushes * m] of the sums under both; set.
        grad_state: [L, states, B, H] zeros; becomes that of the state before the first step.
        outer: [B, gates, H] to work in.
        inner: the same; the same array if grad_inner is empty.
        heads: [B, signals + pushes * m] to work in.
        grad_read: [B, as wide as `weights.below`] to work in.
        grad_hidden: [B, as wide as `weights.hidden`] to work in.
        grad_position: [B] zeros, to work in.
    """

    cell: int
    tanh_values: int
    weights: Weights
    starts: Array
    inputs: Inputs
    initial: Array
    state_gradient: float
    trace: Trace
    grads: Trace
    grad_projected: Array
    grad_inner: Array
    grad_heads: Array
    grad_state: Array
    outer: Array
    inner: Array
    heads: Array
    grad_read: Array
    grad_hidden: Array
    grad_position: Array


@compiled
def sigmoid_signals(sums: Array, bias: Array, signals: Array) -> None:
    """Set as many signals as there are."""
    for i in range(signals.shape[0]):
        signals[i] = sigmoid(sums[i] + bias[i])


@compiled
def sigmoid_signals_backward(signals: Array, grad: Array) -> None:
    """Turn the gradients of signals into those of the sums under them."""
    one = grad.dtype.type(1)
    for i in range(signals.shape[0]):
        grad[i] *= signals[i] * (one - signals[i])


@compiled
def rounded(signals: Array) -> None:
    """Signals made 0 or 1; one half is 0, as torch rounds it, and a NaN stays."""
    for i in range(signals.shape[0]):
        if signals[i] > 0.5:
            signals[i] = 1
        elif signals[i] <= 0.5:
            signals[i] = 0


@compiled
def values_step(sums: Array, bias: Array, first: int, tanh_values: int, values: Array) -> None:
    """Set the values of one item, [pushes, m], by the sums, of which the `first` are signals'."""
    size = values.shape[1]
    for push in range(values.shape[0]):
        start = first + push * size
        value = values[push]
        part, part_bias = sums[start : start + size], bias[start : start + size]
        if tanh_values:
            tanh_sum(part, part_bias, value)
        else:
            sigmoid_sum(part, part_bias, value)


@compiled
def values_backward(
    tanh_values: int, values: Array, grad_values: Array, first: int, grad: Array
) -> None:
    """Set the gradients of the sums, but for the `first`, by those of the values, [pushes, m]."""
    one = grad.dtype.type(1)
    size = values.shape[1]
    for push in range(values.shape[0]):
        part = grad[first + push * size : first + (push + 1) * size]
        value, grad_value = values[push], grad_values[push]
        if tanh_values:
            for i in range(size):
                part[i] = grad_value[i] * (one - value[i] * value[i])
        else:
            for i in range(size):
                part[i] = grad_value[i] * value[i] * (one - value[i])


@compiled
def _neighbours(inputs: Inputs, item: int, position: Any) -> tuple[int, int, Any]:
    """The ids of the two inputs that are read from a position on, and the share of the second."""
    start = inputs.starts[item]
    last = inputs.starts[item + 1] - start
    # Two more ids an item than there are inputs. A NaN is no place among them, and is not made
    # whole; it shows in the share.
    first = start + 2 * item + (int(position) if position < last else last)
    return inputs.ids[first], inputs.ids[first + 1], position - math.floor(position)


@compiled
def _between_backward(first: Array, second: Array, grad: Array) -> Any:
    """The gradient of the share."""
    total = grad.dtype.type(0)
    for gate in range(first.shape[0]):
        total += dot(grad[gate], second[gate]) - dot(grad[gate], first[gate])
    return total


@compiled
def going_on(starts: Array, step: int, most: int) -> int:
    """How many of the first `most` items take the given step; see `Forward.starts`."""
    while starts[most] - starts[most - 1] <= step:
        most -= 1
    return most


@inlined
def units_step(run: Forward, step: int, going: int) -> None:
    """A step of the units of every layer of the first `going` items, and of the sums in `heads`."""
    cell, weights, starts, inputs = run.cell, run.weights, run.starts, run.inputs
    state, read, trace = run.state, run.read, run.trace
    outer, inner, heads, between = run.outer, run.inner, run.heads, run.between
    batch, layers = state.shape[2], state.shape[0]
    last = state.shape[1] - 1
    outer_rows, inner_rows = outer.reshape(batch, -1), inner.reshape(batch, -1)
    forgets = trace.saved.shape[0] == 1
    for layer in range(layers):
        if layer == 0:
            product(read[:going], weights.below, outer_rows)
        else:
            product(state[layer - 1, 0, :going], weights.between[layer - 1], outer_rows)
        product(state[layer, 0, :going], weights.hidden[layer], inner_rows)
        for item in range(going):
            place = starts[item] + step
            hidden = state[layer, 0, item]
            if inputs.buffered:
                one, other, share = _neighbours(inputs, item, trace.positions[place])
                interpolate(
                    inputs.projected[one, layer], inputs.projected[other, layer], share, between
                )
                sums = between
            else:
                sums = inputs.projected[inputs.ids[place], layer]
            cell_step(
                cell,
                sums,
                outer[item],
                inner[item],
                hidden,
                state[layer, last, item],
                trace.saved[0 if forgets else place, layer],
            )
            copy(trace.hidden[place, layer], hidden)
    product(state[layers - 1, 0, :going], weights.heads, heads)


@compiled
def position_step(trace: Trace, starts: Array, item: int, place: int) -> None:
    """Go on in the input of a buffer by what the signals of a step say."""
    if place + 1 < starts[item + 1]:
        signals = trace.signals[place]
        read_on = signals[signals.shape[0] - 2]
        trace.positions[place + 1] = trace.positions[place] + read_on


@compiled
def position_backward(count: int, grad_position: Any, grad: Array) -> None:
    """Set the gradients of the signals of the buffers, which are the last of `count`."""
    grad[count - 2] = grad_position
    grad[count - 1] = 0


@inlined
def units_backward(run: Backward, step: int, going: int) -> None:
    """Carry gradients back over what `units_step` does, from those of the sums in `heads`."""
    cell, weights, starts, inputs = run.cell, run.weights, run.starts, run.inputs
    initial, state_gradient, trace, grads = run.initial, run.state_gradient, run.trace, run.grads
    grad_projected, grad_inner, grad_state = run.grad_projected, run.grad_inner, run.grad_state
    outer, inner, heads = run.outer, run.inner, run.heads
    grad_read, grad_hidden, grad_position = run.grad_read, run.grad_hidden, run.grad_position
    batch, layers = grad_state.shape[2], grad_state.shape[0]
    last = grad_state.shape[1] - 1
    outer_rows, inner_rows = outer.reshape(batch, -1), inner.reshape(batch, -1)
    product(heads[:going], weights.heads, grad_hidden)
    for item in range(going):
        add(grad_state[layers - 1, 0, item], grads.hidden[starts[item] + step, 0])
        add(grad_state[layers - 1, 0, item], grad_hidden[item])
    for layer in range(layers - 1, -1, -1):
        for item in range(going):
            place = starts[item] + step
            before = trace.hidden[place - 1, layer] if step else initial[layer, 0, item]
            cell_backward(
                cell,
                trace.saved[place, layer],
                before,
                grad_state[layer, 0, item],
                grad_state[layer, last, item],
                outer[item],
                inner[item],
            )
            copy(grad_projected[place, layer], outer_rows[item])
            if inputs.buffered:
                one, other, _ = _neighbours(inputs, item, trace.positions[place])
                grad_position[item] += _between_backward(
                    inputs.projected[one, layer], inputs.projected[other, layer], outer[item]
                )
            if grad_inner.shape[0]:
                copy(grad_inner[place, layer], inner_rows[item])
        product(inner_rows[:going], weights.hidden[layer], grad_hidden)
        for item in range(going):
            add(grad_state[layer, 0, item], grad_hidden[item])
            if state_gradient != 1:
                for part in range(last + 1):
                    scale(grad_state[layer, part, item], state_gradient)
        if layer == 0:
            product(outer_rows[:going], weights.below, grad_read)
        else:
            product(outer_rows[:going], weights.between[layer - 1], grad_hidden)
            for item in range(going):
                add(grad_state[layer - 1, 0, item], grad_hidden[item])
