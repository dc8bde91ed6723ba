"""Whole sequences, forward and backward: any controller with any memory, or a memory alone.

What differs between memories are the functions at the top. Each memory has its own, for the
NamedTuple types that its arrays are of when going forwards and backwards, and numba chooses by the
type. A step of a memory is numbered within its string, and has a place among the N steps of all
strings, which stand one string after the other.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from numba.extending import overload

from stacktrans.kernels.arithmetic import copy
from stacktrans.kernels.compiling import Array, compiled_entry
from stacktrans.kernels.steps import (
    Backward,
    Forward,
    add,
    going_on,
    position_adjoint,
    position_step,
    rounded,
    sigmoid_signals,
    sigmoid_signals_adjoint,
    units_adjoint,
    units_step,
    values_adjoint,
    values_step,
)

Function = TypeVar("Function", bound=Callable[..., Any])
_IMPLEMENTATIONS: dict[tuple[str, type], Callable[..., Any]] = {}


def _by_type(function: Function) -> Function:
    """A function of compiled code that is another for each type of its first argument."""

    def choose(memory: Any, *_: Any) -> Callable[..., Any] | None:
        return _IMPLEMENTATIONS.get((function.__name__, getattr(memory, "instance_class", object)))

    # Written out in the driver: to count the references to a memory's arrays takes its time.
    overload(function, strict=False, inline="always")(choose)
    return function


def implements(function: Callable[..., Any], *kinds: type) -> Callable[[Function], Function]:
    """Declare what one of the functions below does for some types of arrays."""

    def declared(own: Function) -> Function:
        for kind in kinds:
            _IMPLEMENTATIONS[function.__name__, kind] = own
        return own

    return declared


@_by_type
def set_signals(memory: Any, sums: Array, bias: Array, signals: Array) -> None:
    """Set the memory's signals, [signals], by the sums under them."""
    raise NotImplementedError


@_by_type
def signals_adjoint(memory: Any, signals: Array, grad: Array) -> None:
    """Turn the gradients of the memory's signals, in place, into those of the sums under them."""
    raise NotImplementedError


@_by_type
def make_hard(memory: Any, signals: Array) -> None:
    """Make the memory's signals 0 or 1."""
    raise NotImplementedError


@_by_type
def pushed(memory: Any, item: int, step: int, place: int) -> Array:
    """What is pushed at a step, [pushes, m]: to be set going forwards, known going backwards."""
    raise NotImplementedError


@_by_type
def pushed_adjoint(memory: Any, item: int, step: int, place: int) -> Array:
    """The gradients of what was pushed, [pushes, m], after `memory_adjoint` of the step."""
    raise NotImplementedError


@_by_type
def memory_step(
    memory: Any, item: int, step: int, place: int, later: int, signals: Array, reads: Array
) -> None:
    """Do what signals say with what is `pushed`, then read.

    Args:
        memory: changed in place.
        item: which of the batch.
        step: which of its steps.
        place: of the step.
        later: how many steps of this item come after it.
        signals: [signals or more].
        reads: [reads * m] set.
    """
    raise NotImplementedError


@_by_type
def memory_adjoint(
    memory: Any,
    item: int,
    step: int,
    place: int,
    later: int,
    signals: Array,
    grad_reads: Array,
    grad_signals: Array,
) -> None:
    """Carry gradients back over a step; arguments as for `memory_step`.

    Args:
        grad_reads: [reads * m or more] of what was read.
        grad_signals: [signals or more] set.
    """
    raise NotImplementedError


@compiled_entry
def forward(run: Forward, memory: Any, own: int) -> None:
    """All steps: units, then signals and values, then the memory.

    Args:
        run: what they take.
        memory: before the first step; becomes that after the last.
        own: how many of the signals are the memory's; those of buffers follow.
    """
    tanh_values, hard, buffered = run.tanh_values, run.hard, run.inputs.buffered
    bias, starts, read, trace, heads = run.bias, run.starts, run.read, run.trace, run.heads
    going, count = run.state.shape[2], trace.signals.shape[1]
    for step in range(starts[1] - starts[0]):
        going = going_on(starts, step, going)
        units_step(run, step, going)
        for item in range(going):
            place = starts[item] + step
            signals, sums = trace.signals[place], heads[item]
            set_signals(memory, sums, bias, signals[:own])
            if hard:
                make_hard(memory, signals[:own])
            if buffered:
                sigmoid_signals(sums[own:], bias[own:], signals[own:])
                if hard:
                    rounded(signals[own:])
            vectors = pushed(memory, item, step, place)
            values_step(sums, bias, count, tanh_values, vectors)
            if buffered:
                position_step(trace, starts, item, place)
            later = starts[item + 1] - place - 1
            memory_step(memory, item, step, place, later, signals, read[item])
            copy(trace.reads[place], read[item])


@compiled_entry
def backward(run: Backward, memory: Any, own: int) -> None:
    """All steps backwards, down to the memory before the first, which is constant.

    Args:
        run: what they take.
        memory: after the last step.
        own: how many of the signals are the memory's.
    """
    tanh_values, buffered, starts = run.tanh_values, run.inputs.buffered, run.starts
    trace, grads, heads = run.trace, run.grads, run.heads
    grad_heads, grad_read, grad_position = run.grad_heads, run.grad_read, run.grad_position
    batch, count = run.grad_state.shape[2], trace.signals.shape[1]
    grad_read.fill(0)
    for step in range(starts[1] - starts[0] - 1, -1, -1):
        going = going_on(starts, step, batch)
        for item in range(going):
            place = starts[item] + step
            signals, grad = trace.signals[place], heads[item]
            later = starts[item + 1] - place - 1
            add(grad_read[item], grads.reads[place])
            memory_adjoint(memory, item, step, place, later, signals, grad_read[item], grad)
            if buffered:
                position_adjoint(count, grad_position[item], grad)
            add(grad, grads.signals[place])
            signals_adjoint(memory, signals[:own], grad[:own])
            if buffered:
                sigmoid_signals_adjoint(signals[own:], grad[own:])
            vectors = pushed(memory, item, step, place)
            grad_vectors = pushed_adjoint(memory, item, step, place)
            values_adjoint(tanh_values, vectors, grad_vectors, count, grad)
            copy(grad_heads[place], grad)
        units_adjoint(run, step, going)


@compiled_entry
def memory_forward(memory: Any, signals: Array, reads: Array) -> None:
    """All steps of a memory alone, in which what is pushed is set.

    Args:
        memory: before the first step; becomes that after the last.
        signals: [B, T, signals].
        reads: [B, T, reads * m] set.
    """
    batch, steps = signals.shape[:2]
    for item in range(batch):
        for step in range(steps):
            place, later = item * steps + step, steps - step - 1
            memory_step(memory, item, step, place, later, signals[item, step], reads[item, step])


@compiled_entry
def memory_backward(
    memory: Any, signals: Array, grad_reads: Array, grad_signals: Array, grad_values: Array
) -> None:
    """All steps of a memory alone backwards.

    Args:
        memory: after the last step.
        signals: [B, T, signals].
        grad_reads: [B, T, reads * m].
        grad_signals: [B, T, signals] set.
        grad_values: [B, T, pushes, m] set.
    """
    batch, steps = grad_signals.shape[:2]
    for item in range(batch):
        for step in range(steps - 1, -1, -1):
            place, later = item * steps + step, steps - step - 1
            memory_adjoint(
                memory,
                item,
                step,
                place,
                later,
                signals[item, step],
                grad_reads[item, step],
                grad_signals[item, step],
            )
            given, found = grad_values[item, step], pushed_adjoint(memory, item, step, place)
            for push in range(given.shape[0]):
                copy(given[push], found[push])
