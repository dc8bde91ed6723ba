"""Recurrent units: one step of one layer of a batch, forward and backward.

A kind of units is an entry in `CELLS` and a branch each in `cell_step` and `cell_backward`; which
of them a controller is run by, it says itself (`Layer.cell`).

The sums of the gates come in two parts, since the GRU needs them apart: `outer` from the input
and from below, `inner` from the hidden state. What the backward pass needs of a step is in `saved`.
Rows of `outer` and `inner` may be longer than H.

Arrays are passed whole and indexed where they are used: numba counts references to every view
of an array, which takes longer than the arithmetic of a small layer. Each innermost loop writes to
one array, since only such are vectorised.
"""

from typing import NamedTuple

from stacktrans.kernels.arrays import Array
from stacktrans.kernels.compiling import compiled
from stacktrans.kernels.loops import sigmoid, tanh


class UnitKind(NamedTuple):
    """What the code around a kind of units has to know about it.

    Attributes:
        number: by which compiled code knows it.
        gates: blocks of H rows in the weights.
        states: vectors the state is made of; the first is the output.
        saved: vectors kept at each step for going backwards.
        split: whether the gradients of `outer` and `inner` differ.
    """

    number: int
    gates: int
    states: int
    saved: int
    split: bool


LSTM, GRU, RNN, LINEAR, SIGMOID = 0, 1, 2, 3, 4
CELLS = {
    "lstm": UnitKind(LSTM, gates=4, states=2, saved=5, split=False),
    "gru": UnitKind(GRU, gates=3, states=1, saved=5, split=True),
    "rnn": UnitKind(RNN, gates=1, states=1, saved=1, split=False),
    "sigmoid": UnitKind(SIGMOID, gates=1, states=1, saved=1, split=False),
    "linear": UnitKind(LINEAR, gates=1, states=1, saved=0, split=False),
}


@compiled
def cell_step(
    cell: int, layer: int, places: Array, outer: Array, inner: Array, state: Array, saved: Array
) -> None:
    """The next state of a layer.

    Args:
        cell: number of the kind of units.
        layer: which of the L layers.
        places: [B] the step of each item among all N.
        outer: [B, gates, H or more] sums over the input, with the bias, and what comes from below.
        inner: [B, gates, H or more] sums over the hidden state.
        state: [L, states, B, H] changed in place.
        saved: [N, L, saved, H] for the backward pass; [1, ...] to keep only the last step.
    """
    if cell == LSTM:
        _lstm_step(layer, places, outer, inner, state, saved)
    elif cell == GRU:
        _gru_step(layer, places, outer, inner, state, saved)
    else:
        _simple_step(cell, layer, places, outer, inner, state, saved)


@compiled
def cell_backward(
    cell: int,
    layer: int,
    places: Array,
    saved: Array,
    grad: Array,
    grad_outer: Array,
    grad_inner: Array,
) -> None:
    """Gradients of a step of a layer.

    Args:
        cell: number of the kind of units.
        layer: which of the L layers.
        places: [B] the step of each item among all N.
        saved: [N, L, saved, H] as `cell_step` set it.
        grad: [L, states, B, H] of the state after the step; becomes that of the state before it,
            less what goes through `inner`.
        grad_outer: [B, gates, H] set.
        grad_inner: [B, gates, H] set; the same array as grad_outer unless the units are `split`.
    """
    if cell == LSTM:
        _lstm_backward(layer, places, saved, grad, grad_outer)
    elif cell == GRU:
        _gru_backward(layer, places, saved, grad, grad_outer, grad_inner)
    else:
        _simple_backward(cell, layer, places, saved, grad, grad_outer)


@compiled
def _simple_step(
    cell: int, layer: int, places: Array, outer: Array, inner: Array, state: Array, saved: Array
) -> None:
    """Units with a single gate; saved is their output."""
    for item in range(places.shape[0]):
        place = min(places[item], saved.shape[0] - 1)
        for i in range(state.shape[3]):
            total = outer[item, 0, i]
            if cell != LINEAR:
                total += inner[item, 0, i]
            state[layer, 0, item, i] = total
        if cell == RNN:
            for i in range(state.shape[3]):
                state[layer, 0, item, i] = tanh(state[layer, 0, item, i])
        elif cell == SIGMOID:
            for i in range(state.shape[3]):
                state[layer, 0, item, i] = sigmoid(state[layer, 0, item, i])
        if cell != LINEAR:
            for i in range(state.shape[3]):
                saved[place, layer, 0, i] = state[layer, 0, item, i]


@compiled
def _simple_backward(
    cell: int, layer: int, places: Array, saved: Array, grad: Array, out: Array
) -> None:
    one = grad.dtype.type(1)
    for item in range(places.shape[0]):
        place = places[item]
        for i in range(grad.shape[3]):
            out[item, 0, i] = grad[layer, 0, item, i]
        if cell == RNN:
            for i in range(grad.shape[3]):
                value = saved[place, layer, 0, i]
                out[item, 0, i] *= one - value * value
        elif cell == SIGMOID:
            for i in range(grad.shape[3]):
                value = saved[place, layer, 0, i]
                out[item, 0, i] = out[item, 0, i] * value * (one - value)
        for i in range(grad.shape[3]):
            grad[layer, 0, item, i] = 0


@compiled
def _lstm_step(
    layer: int, places: Array, outer: Array, inner: Array, state: Array, saved: Array
) -> None:
    """The gates are input, forget, output, candidate; saved are they and the memory before."""
    size = state.shape[3]
    for item in range(places.shape[0]):
        place = min(places[item], saved.shape[0] - 1)
        for gate in range(3):
            for i in range(size):
                saved[place, layer, gate, i] = sigmoid(outer[item, gate, i] + inner[item, gate, i])
        for i in range(size):
            saved[place, layer, 3, i] = tanh(outer[item, 3, i] + inner[item, 3, i])
        for i in range(size):
            saved[place, layer, 4, i] = state[layer, 1, item, i]
        for i in range(size):
            keep, admit = saved[place, layer, 1, i], saved[place, layer, 0, i]
            admitted = admit * saved[place, layer, 3, i]
            state[layer, 1, item, i] = keep * state[layer, 1, item, i] + admitted
        for i in range(size):
            state[layer, 0, item, i] = saved[place, layer, 2, i] * tanh(state[layer, 1, item, i])


@compiled
def _lstm_backward(layer: int, places: Array, saved: Array, grad: Array, out: Array) -> None:
    size, one = grad.shape[3], grad.dtype.type(1)
    for item in range(places.shape[0]):
        place = places[item]
        for i in range(size):
            admitted = saved[place, layer, 0, i] * saved[place, layer, 3, i]
            # tanh of the memory, until the place is needed
            out[item, 0, i] = tanh(saved[place, layer, 1, i] * saved[place, layer, 4, i] + admitted)
        for i in range(size):
            shown, show = out[item, 0, i], saved[place, layer, 2, i]
            grad[layer, 1, item, i] += grad[layer, 0, item, i] * show * (one - shown * shown)
        for i in range(size):
            show = saved[place, layer, 2, i]
            out[item, 2, i] = grad[layer, 0, item, i] * out[item, 0, i] * show * (one - show)
        for i in range(size):
            admit, candidate = saved[place, layer, 0, i], saved[place, layer, 3, i]
            out[item, 0, i] = grad[layer, 1, item, i] * candidate * admit * (one - admit)
        for i in range(size):
            keep, before = saved[place, layer, 1, i], saved[place, layer, 4, i]
            out[item, 1, i] = grad[layer, 1, item, i] * before * keep * (one - keep)
        for i in range(size):
            admit, candidate = saved[place, layer, 0, i], saved[place, layer, 3, i]
            out[item, 3, i] = grad[layer, 1, item, i] * admit * (one - candidate * candidate)
        for i in range(size):
            grad[layer, 1, item, i] *= saved[place, layer, 1, i]
        for i in range(size):
            grad[layer, 0, item, i] = 0


@compiled
def _gru_step(
    layer: int, places: Array, outer: Array, inner: Array, state: Array, saved: Array
) -> None:
    """The gates are reset, update, candidate.

    Saved are they, the inner sums of the last and the state before.
    """
    size = state.shape[3]
    for item in range(places.shape[0]):
        place = min(places[item], saved.shape[0] - 1)
        for gate in range(2):
            for i in range(size):
                saved[place, layer, gate, i] = sigmoid(outer[item, gate, i] + inner[item, gate, i])
        for i in range(size):
            saved[place, layer, 3, i] = inner[item, 2, i]
        for i in range(size):
            saved[place, layer, 4, i] = state[layer, 0, item, i]
        for i in range(size):
            recalled = saved[place, layer, 3, i] * saved[place, layer, 0, i]
            saved[place, layer, 2, i] = tanh(outer[item, 2, i] + recalled)
        for i in range(size):
            candidate = saved[place, layer, 2, i]
            change = state[layer, 0, item, i] - candidate
            state[layer, 0, item, i] = candidate + saved[place, layer, 1, i] * change


@compiled
def _gru_backward(
    layer: int, places: Array, saved: Array, grad: Array, grad_outer: Array, grad_inner: Array
) -> None:
    size, one = grad.shape[3], grad.dtype.type(1)
    for item in range(places.shape[0]):
        place = places[item]
        for i in range(size):
            update, candidate = saved[place, layer, 1, i], saved[place, layer, 2, i]
            change = grad[layer, 0, item, i] * (saved[place, layer, 4, i] - candidate)
            grad_outer[item, 1, i] = change * update * (one - update)
        for i in range(size):
            update, candidate = saved[place, layer, 1, i], saved[place, layer, 2, i]
            share = grad[layer, 0, item, i] * (one - update)
            grad_outer[item, 2, i] = share * (one - candidate * candidate)
        for i in range(size):
            reset, recalled = saved[place, layer, 0, i], saved[place, layer, 3, i]
            grad_outer[item, 0, i] = grad_outer[item, 2, i] * recalled * reset * (one - reset)
        for gate in range(2):
            for i in range(size):
                grad_inner[item, gate, i] = grad_outer[item, gate, i]
        for i in range(size):
            grad_inner[item, 2, i] = grad_outer[item, 2, i] * saved[place, layer, 0, i]
        for i in range(size):
            grad[layer, 0, item, i] *= saved[place, layer, 1, i]
