"""Compiled steps of LSTM, GRU and simple recurrent layers on a batch, forward and backward.

A type of unit is an entry in `UNITS`, by the name of its controller, and a branch in each of
`unit_step` and `unit_backward`.

The pre-activations of the gates come in two parts, since the GRU needs both: `outer` from the input
and the layer below, `inner` from the hidden state. `saved` keeps what the backward pass needs of a
step. Rows of `outer` and `inner` may be longer than H.

Arrays are passed whole and indexed where they are used: numba counts references to every view
of an array, which takes longer than the arithmetic of a small layer. Each innermost loop writes to
one array, since only such are vectorized.
"""

from typing import NamedTuple

from stacktrans.kernels import Array
from stacktrans.kernels.compiling import compiled
from stacktrans.kernels.elementwise import sigmoid, tanh


class UnitType(NamedTuple):
    """A type of recurrent unit: its numbers of gates, states and saved values.

    Attributes:
        number: its number in compiled code.
        gates: blocks of H rows in the weights.
        states: vectors of the state, of which the first is the output.
        saved: vectors kept at each step for the backward pass.
        split: whether the gradients of `outer` and `inner` differ.
        second_order: whether each id has its own weights on the hidden state.
    """

    number: int
    gates: int
    states: int
    saved: int
    split: bool
    second_order: bool = False


LSTM, GRU, RNN, LINEAR, SIGMOID = 0, 1, 2, 3, 4
UNITS = {
    "lstm": UnitType(LSTM, gates=4, states=2, saved=5, split=False),
    "gru": UnitType(GRU, gates=3, states=1, saved=5, split=True),
    "rnn": UnitType(RNN, gates=1, states=1, saved=1, split=False),
    "second-order": UnitType(RNN, gates=1, states=1, saved=1, split=False, second_order=True),
    "sigmoid": UnitType(SIGMOID, gates=1, states=1, saved=1, split=False),
    "linear": UnitType(LINEAR, gates=1, states=1, saved=0, split=False),
}


@compiled
def unit_step(
    unit: int, layer: int, indices: Array, outer: Array, inner: Array, state: Array, saved: Array
) -> None:
    """The next state of a layer.

    Args:
        unit: number of the type of unit.
        layer: which of the L layers.
        indices: [B] the step of each item among all N.
        outer: [B, gates, H or more] sums over the input, with the bias, and what comes from below.
        inner: [B, gates, H or more] sums over the hidden state.
        state: [L, states, B, H] changed in place.
        saved: [N, L, saved, H] for the backward pass; [1, ...] to keep only the last step.
    """
    if unit == LSTM:
        _lstm_step(layer, indices, outer, inner, state, saved)
    elif unit == GRU:
        _gru_step(layer, indices, outer, inner, state, saved)
    else:
        _simple_step(unit, layer, indices, outer, inner, state, saved)


@compiled
def unit_backward(
    unit: int,
    layer: int,
    indices: Array,
    saved: Array,
    grad: Array,
    grad_outer: Array,
    grad_inner: Array,
) -> None:
    """Gradients of a step of a layer.

    Args:
        unit: number of the type of unit.
        layer: which of the L layers.
        indices: [B] the step of each item among all N.
        saved: [N, L, saved, H] as `unit_step` set it.
        grad: [L, states, B, H] of the state after the step; becomes that of the state before it,
            without the part that passes through `inner`.
        grad_outer: [B, gates, H] set.
        grad_inner: [B, gates, H] set; the same array as grad_outer unless the units are `split`.
    """
    if unit == LSTM:
        _lstm_backward(layer, indices, saved, grad, grad_outer)
    elif unit == GRU:
        _gru_backward(layer, indices, saved, grad, grad_outer, grad_inner)
    else:
        _simple_backward(unit, layer, indices, saved, grad, grad_outer)


@compiled
def _simple_step(
    unit: int, layer: int, indices: Array, outer: Array, inner: Array, state: Array, saved: Array
) -> None:
    """A step of units with a single gate; their output is saved."""
    for item in range(indices.shape[0]):
        index = min(indices[item], saved.shape[0] - 1)
        for i in range(state.shape[3]):
            total = outer[item, 0, i]
            if unit != LINEAR:
                total += inner[item, 0, i]
            state[layer, 0, item, i] = total
        if unit == RNN:
            for i in range(state.shape[3]):
                state[layer, 0, item, i] = tanh(state[layer, 0, item, i])
        elif unit == SIGMOID:
            for i in range(state.shape[3]):
                state[layer, 0, item, i] = sigmoid(state[layer, 0, item, i])
        if unit != LINEAR:
            for i in range(state.shape[3]):
                saved[index, layer, 0, i] = state[layer, 0, item, i]


@compiled
def _simple_backward(
    unit: int, layer: int, indices: Array, saved: Array, grad: Array, out: Array
) -> None:
    one = grad.dtype.type(1)
    for item in range(indices.shape[0]):
        index = indices[item]
        for i in range(grad.shape[3]):
            out[item, 0, i] = grad[layer, 0, item, i]
        if unit == RNN:
            for i in range(grad.shape[3]):
                value = saved[index, layer, 0, i]
                out[item, 0, i] *= one - value * value
        elif unit == SIGMOID:
            for i in range(grad.shape[3]):
                value = saved[index, layer, 0, i]
                out[item, 0, i] = out[item, 0, i] * value * (one - value)
        for i in range(grad.shape[3]):
            grad[layer, 0, item, i] = 0


@compiled
def _lstm_step(
    layer: int, indices: Array, outer: Array, inner: Array, state: Array, saved: Array
) -> None:
    """A step of LSTM units: input, forget, output, candidate; saved with the cell state before."""
    size = state.shape[3]
    for item in range(indices.shape[0]):
        index = min(indices[item], saved.shape[0] - 1)
        for gate in range(3):
            for i in range(size):
                saved[index, layer, gate, i] = sigmoid(outer[item, gate, i] + inner[item, gate, i])
        for i in range(size):
            saved[index, layer, 3, i] = tanh(outer[item, 3, i] + inner[item, 3, i])
        for i in range(size):
            saved[index, layer, 4, i] = state[layer, 1, item, i]
        for i in range(size):
            input_gate, forget_gate = saved[index, layer, 0, i], saved[index, layer, 1, i]
            added = input_gate * saved[index, layer, 3, i]
            state[layer, 1, item, i] = forget_gate * state[layer, 1, item, i] + added
        for i in range(size):
            state[layer, 0, item, i] = saved[index, layer, 2, i] * tanh(state[layer, 1, item, i])


@compiled
def _lstm_backward(layer: int, indices: Array, saved: Array, grad: Array, out: Array) -> None:
    size, one = grad.shape[3], grad.dtype.type(1)
    for item in range(indices.shape[0]):
        index = indices[item]
        for i in range(size):
            added = saved[index, layer, 0, i] * saved[index, layer, 3, i]
            # tanh of the cell state, until the array is needed
            out[item, 0, i] = tanh(saved[index, layer, 1, i] * saved[index, layer, 4, i] + added)
        for i in range(size):
            tanh_cell, output_gate = out[item, 0, i], saved[index, layer, 2, i]
            grad[layer, 1, item, i] += (
                grad[layer, 0, item, i] * output_gate * (one - tanh_cell * tanh_cell)
            )
        for i in range(size):
            output_gate = saved[index, layer, 2, i]
            out[item, 2, i] = (
                grad[layer, 0, item, i] * out[item, 0, i] * output_gate * (one - output_gate)
            )
        for i in range(size):
            input_gate, candidate = saved[index, layer, 0, i], saved[index, layer, 3, i]
            out[item, 0, i] = grad[layer, 1, item, i] * candidate * input_gate * (one - input_gate)
        for i in range(size):
            forget_gate, before = saved[index, layer, 1, i], saved[index, layer, 4, i]
            out[item, 1, i] = grad[layer, 1, item, i] * before * forget_gate * (one - forget_gate)
        for i in range(size):
            input_gate, candidate = saved[index, layer, 0, i], saved[index, layer, 3, i]
            out[item, 3, i] = grad[layer, 1, item, i] * input_gate * (one - candidate * candidate)
        for i in range(size):
            grad[layer, 1, item, i] *= saved[index, layer, 1, i]
        for i in range(size):
            grad[layer, 0, item, i] = 0


@compiled
def _gru_step(
    layer: int, indices: Array, outer: Array, inner: Array, state: Array, saved: Array
) -> None:
    """A step of GRU units: reset, update, candidate.

    They are saved with the inner sums of the candidate and the state before.
    """
    size = state.shape[3]
    for item in range(indices.shape[0]):
        index = min(indices[item], saved.shape[0] - 1)
        for gate in range(2):
            for i in range(size):
                saved[index, layer, gate, i] = sigmoid(outer[item, gate, i] + inner[item, gate, i])
        for i in range(size):
            saved[index, layer, 3, i] = inner[item, 2, i]
        for i in range(size):
            saved[index, layer, 4, i] = state[layer, 0, item, i]
        for i in range(size):
            recalled = saved[index, layer, 3, i] * saved[index, layer, 0, i]
            saved[index, layer, 2, i] = tanh(outer[item, 2, i] + recalled)
        for i in range(size):
            candidate = saved[index, layer, 2, i]
            change = state[layer, 0, item, i] - candidate
            state[layer, 0, item, i] = candidate + saved[index, layer, 1, i] * change


@compiled
def _gru_backward(
    layer: int, indices: Array, saved: Array, grad: Array, grad_outer: Array, grad_inner: Array
) -> None:
    size, one = grad.shape[3], grad.dtype.type(1)
    for item in range(indices.shape[0]):
        index = indices[item]
        for i in range(size):
            update, candidate = saved[index, layer, 1, i], saved[index, layer, 2, i]
            change = grad[layer, 0, item, i] * (saved[index, layer, 4, i] - candidate)
            grad_outer[item, 1, i] = change * update * (one - update)
        for i in range(size):
            update, candidate = saved[index, layer, 1, i], saved[index, layer, 2, i]
            share = grad[layer, 0, item, i] * (one - update)
            grad_outer[item, 2, i] = share * (one - candidate * candidate)
        for i in range(size):
            reset, recalled = saved[index, layer, 0, i], saved[index, layer, 3, i]
            grad_outer[item, 0, i] = grad_outer[item, 2, i] * recalled * reset * (one - reset)
        for gate in range(2):
            for i in range(size):
                grad_inner[item, gate, i] = grad_outer[item, gate, i]
        for i in range(size):
            grad_inner[item, 2, i] = grad_outer[item, 2, i] * saved[index, layer, 0, i]
        for i in range(size):
            grad[layer, 0, item, i] *= saved[index, layer, 1, i]
