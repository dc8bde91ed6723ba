"""Recurrent units: one step of one item of the batch, forward and backward.

A kind of units is an entry in `CELLS` and a branch each in `cell_step` and `cell_backward`; which
of them a controller is run by, it says itself (`Layer.cell`).

The sums of the gates come in two parts, since the GRU needs them apart: `outer` from the input
and from below, `inner` from the hidden state. What going backwards needs of a step is in `saved`.
Rows of `outer` and `inner` may be longer than H. Loops write to one array each, since only
such are vectorised.
"""

from typing import NamedTuple

from stacktrans.kernels.arithmetic import (
    copy,
    keep_and_admit,
    multiply,
    plain_sums,
    sigmoid_sums,
    tanh,
    tanh_sums,
    times_tanh,
    towards,
)
from stacktrans.kernels.compiling import Array, compiled


class Cell(NamedTuple):
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
    "lstm": Cell(LSTM, gates=4, states=2, saved=5, split=False),
    "gru": Cell(GRU, gates=3, states=1, saved=4, split=True),
    "rnn": Cell(RNN, gates=1, states=1, saved=1, split=False),
    "sigmoid": Cell(SIGMOID, gates=1, states=1, saved=1, split=False),
    "linear": Cell(LINEAR, gates=1, states=1, saved=0, split=False),
}


@compiled
def cell_step(
    cell: int,
    projected: Array,
    outer: Array,
    inner: Array,
    hidden: Array,
    memory: Array,
    saved: Array,
) -> None:
    """The next state of the units of one item.

    Args:
        cell: number of the kind of units.
        projected: [gates, H] sums over the input, bias included.
        outer: [gates, H or more] sums over what comes from below.
        inner: [gates, H or more] sums over the hidden state.
        hidden: [H] the first vector of the state, changed in place.
        memory: [H] the last vector of the state, changed in place.
        saved: [saved, H] for going backwards.
    """
    if cell == LSTM:
        _lstm_step(projected, outer, inner, hidden, memory, saved)
    elif cell == GRU:
        _gru_step(projected, outer, inner, hidden, saved)
    elif cell == RNN:
        tanh_sums(projected[0], outer[0], inner[0], hidden)
        copy(saved[0], hidden)
    elif cell == SIGMOID:
        sigmoid_sums(projected[0], outer[0], inner[0], hidden)
        copy(saved[0], hidden)
    else:
        plain_sums(projected[0], outer[0], hidden)


@compiled
def cell_backward(
    cell: int,
    saved: Array,
    before: Array,
    grad_hidden: Array,
    grad_memory: Array,
    grad_outer: Array,
    grad_inner: Array,
) -> None:
    """Gradients of a step of the units of one item.

    Args:
        cell: number of the kind of units.
        saved: [saved, H] of this step.
        before: [H] the hidden state before it.
        grad_hidden: [H] of the first vector of the state after the step; changed in place to
            that of the state before it, less what goes through `inner`.
        grad_memory: [H] the same of the last vector of the state.
        grad_outer: [gates, H] set.
        grad_inner: [gates, H] set; the same array as grad_outer unless the units are `split`.
    """
    if cell == LSTM:
        _lstm_backward(saved, grad_hidden, grad_memory, grad_outer)
    elif cell == GRU:
        _gru_backward(saved, before, grad_hidden, grad_outer, grad_inner)
    else:
        sums = grad_outer[0]
        one = sums.dtype.type(1)
        copy(sums, grad_hidden)
        if cell == RNN:
            value = saved[0]
            for i in range(sums.shape[0]):
                sums[i] *= one - value[i] * value[i]
        elif cell == SIGMOID:
            value = saved[0]
            for i in range(sums.shape[0]):
                sums[i] = sums[i] * value[i] * (one - value[i])
        grad_hidden.fill(0)


@compiled
def _sigmoid_backward(value: Array, grad: Array, other: Array, out: Array) -> None:
    """Gradient of the sum under a sigmoid whose product with `other` has the gradient `grad`."""
    one = value.dtype.type(1)
    for i in range(out.shape[0]):
        out[i] = grad[i] * other[i] * value[i] * (one - value[i])


@compiled
def _tanh_backward(value: Array, grad: Array, other: Array, out: Array) -> None:
    """Gradient of the sum under a tanh whose product with `other` has the gradient `grad`."""
    one = value.dtype.type(1)
    for i in range(out.shape[0]):
        out[i] = grad[i] * other[i] * (one - value[i] * value[i])


@compiled
def _lstm_step(
    projected: Array, outer: Array, inner: Array, hidden: Array, memory: Array, saved: Array
) -> None:
    """The gates are input, forget, output, candidate; saved are they and the memory before."""
    for gate in range(3):
        sigmoid_sums(projected[gate], outer[gate], inner[gate], saved[gate])
    tanh_sums(projected[3], outer[3], inner[3], saved[3])
    copy(saved[4], memory)
    admit, keep, show, candidate = saved[0], saved[1], saved[2], saved[3]
    keep_and_admit(memory, keep, admit, candidate)
    times_tanh(hidden, show, memory)


@compiled
def _lstm_backward(saved: Array, grad_hidden: Array, grad_memory: Array, grad: Array) -> None:
    admit, keep, show, candidate, before = saved[0], saved[1], saved[2], saved[3], saved[4]
    one = saved.dtype.type(1)
    shown = grad[0]  # tanh of the memory, until the place is needed
    for i in range(shown.shape[0]):
        shown[i] = tanh(keep[i] * before[i] + admit[i] * candidate[i])
    for i in range(grad_memory.shape[0]):
        grad_memory[i] += grad_hidden[i] * show[i] * (one - shown[i] * shown[i])
    _sigmoid_backward(show, grad_hidden, shown, grad[2])
    _sigmoid_backward(admit, grad_memory, candidate, grad[0])
    _sigmoid_backward(keep, grad_memory, before, grad[1])
    _tanh_backward(candidate, grad_memory, admit, grad[3])
    multiply(grad_memory, keep)
    grad_hidden.fill(0)


@compiled
def _gru_step(projected: Array, outer: Array, inner: Array, hidden: Array, saved: Array) -> None:
    """The gates are reset, update, candidate; saved are they and the inner sums of the last."""
    for gate in range(2):
        sigmoid_sums(projected[gate], outer[gate], inner[gate], saved[gate])
    reset, keep, candidate, recalled = saved[0], saved[1], saved[2], saved[3]
    copy(recalled, inner[2])
    copy(candidate, recalled)
    multiply(candidate, reset)
    tanh_sums(projected[2], outer[2], candidate, candidate)
    towards(hidden, candidate, keep)


@compiled
def _gru_backward(
    saved: Array, before: Array, grad_hidden: Array, grad_outer: Array, grad_inner: Array
) -> None:
    reset, update, candidate, recalled = saved[0], saved[1], saved[2], saved[3]
    one = saved.dtype.type(1)
    # What the update and the candidate are multiplied by, until they are overwritten.
    change, share = grad_outer[1], grad_outer[2]
    for i in range(change.shape[0]):
        change[i] = before[i] - candidate[i]
    for i in range(share.shape[0]):
        share[i] = one - update[i]
    _sigmoid_backward(update, grad_hidden, change, grad_outer[1])
    _tanh_backward(candidate, grad_hidden, share, grad_outer[2])
    _sigmoid_backward(reset, grad_outer[2], recalled, grad_outer[0])
    for gate in range(3):
        copy(grad_inner[gate], grad_outer[gate])
    multiply(grad_inner[2], reset)
    multiply(grad_hidden, update)
