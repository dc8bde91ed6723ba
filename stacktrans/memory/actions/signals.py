"""What can be done to memories with actions: a probability each (joulin2015, section 3)."""

from typing import Any, NamedTuple

from stacktrans.kernels.arithmetic import exp
from stacktrans.kernels.compiling import Array, compiled

UNLIMITED = 2**62


class Actions(NamedTuple):
    """The kind of memory.

    Attributes:
        lists: 1 for lists, 0 for stacks.
        number: how many stand side by side.
        depth: how many cells of each are read.
        each: actions of each.
        no_op: 1 if the last of them is to do nothing.
        capacity: how many cells in a row are kept, at least 1.
    """

    lists: int
    number: int
    depth: int
    each: int
    no_op: int
    capacity: int = UNLIMITED


@compiled
def softmax_signals(actions: Actions, sums: Array, bias: Array, signals: Array) -> None:
    """A softmax over the actions of each stack or list.

    Args:
        sums: [signals or more].
        bias: [signals or more].
        signals: [signals] set.
    """
    each, own = actions.each, signals.shape[0]
    for i in range(own):
        signals[i] = sums[i] + bias[i]
    for start in range(0, own, each):
        largest = signals[start]
        for i in range(start + 1, start + each):
            largest = max(largest, signals[i])
        for i in range(start, start + each):
            signals[i] -= largest
    for i in range(own):
        signals[i] = exp(signals[i])
    for start in range(0, own, each):
        total = signals[start]
        for i in range(start + 1, start + each):
            total += signals[i]
        for i in range(start, start + each):
            signals[i] /= total


@compiled
def softmax_signals_adjoint(actions: Actions, signals: Array, grad: Array) -> None:
    """Turn the gradients of the actions' probabilities into those of the sums under them."""
    each = actions.each
    for start in range(0, actions.number * each, each):
        total = grad.dtype.type(0)
        for i in range(start, start + each):
            total += signals[i] * grad[i]
        for i in range(start, start + each):
            grad[i] = signals[i] * (grad[i] - total)


@compiled
def certain(actions: Actions, signals: Array) -> None:
    """The most probable action of each stack or list has 1, the others 0."""
    each = actions.each
    for start in range(0, actions.number * each, each):
        best = start
        for i in range(start + 1, start + each):
            if signals[i] > signals[best]:
                best = i
        for i in range(start, start + each):
            signals[i] = 0
        signals[best] = 1


@compiled
def shares(actions: Actions, signals: Array, which: int) -> tuple[Any, Any, Any, Any]:
    """The probabilities of one stack's or list's actions, its own and then that of doing nothing.

    Of a stack's, which are two, the third is 0.
    """
    none = signals.dtype.type(0)
    own = signals[which * actions.each : (which + 1) * actions.each]
    return (
        own[0],
        own[1],
        own[2] if actions.lists else none,
        own[actions.each - 1] if actions.no_op else none,
    )
