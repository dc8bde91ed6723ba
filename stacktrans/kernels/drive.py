"""All steps of a batch in compiled code, forward and backward: any controller with any memory.

What they are given is put together in `batches`.
"""

from typing import Any

from stacktrans.kernels import kernel
from stacktrans.kernels.arithmetic import add, copy
from stacktrans.kernels.compiling import Array, compiled_entry, inlined
from stacktrans.kernels.steps import (
    Backward,
    Forward,
    going_on,
    position_backward,
    position_step,
    rounded,
    sigmoid_signals,
    sigmoid_signals_backward,
    units_backward,
    units_step,
    values_backward,
    values_step,
)


@inlined
def operate(
    memory: Any,
    own: int,
    tanh_values: int,
    hard: int,
    bias: Array,
    sums: Array,
    signals: Array,
    reads: Array,
    item: int,
    step: int,
    place: int,
    later: int,
) -> None:
    """What an item does with its memory at a step: signals, then values, then pop, push and read.

    Args:
        memory: changed in place.
        own: how many of the signals are the memory's; those of buffers follow.
        tanh_values: as `Forward` has it.
        hard: as `Forward` has it.
        bias: [signals + pushes * m].
        sums: the same and more; what comes out of the controller.
        signals: [signals] set.
        reads: [reads * m] set.
        item: which of the batch.
        step: which of its steps.
        place: of the step.
        later: how many steps of this item come after it.
    """
    kernel.set_signals(memory, sums, bias, signals[:own])
    sigmoid_signals(sums[own:], bias[own:], signals[own:])
    if hard:
        kernel.make_hard(memory, signals[:own])
        rounded(signals[own:])
    vectors = kernel.pushed(memory, item, step, place)
    values_step(sums, bias, signals.shape[0], tanh_values, vectors)
    kernel.step_forward(memory, item, step, place, later, signals, reads)


@compiled_entry
def forward(run: Forward, memory: Any, own: int, first: int) -> None:
    """All steps: units, then signals and values, then the memory.

    Args:
        run: what they take.
        memory: before the first step; becomes that after the last.
        own: how many of the signals are the memory's; those of buffers follow.
        first: how many steps the memory has taken before the first of these.
    """
    tanh_values, hard, buffered = run.tanh_values, run.hard, run.inputs.buffered
    bias, starts, read, trace, heads = run.bias, run.starts, run.read, run.trace, run.heads
    going = run.state.shape[2]
    for step in range(starts[1] - starts[0]):
        going = going_on(starts, step, going)
        units_step(run, step, going)
        for item in range(going):
            place = starts[item] + step
            later = starts[item + 1] - place - 1
            operate(
                memory,
                own,
                tanh_values,
                hard,
                bias,
                heads[item],
                trace.signals[place],
                read[item],
                item,
                first + step,
                place,
                later,
            )
            if buffered:
                position_step(trace, starts, item, place)
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
            kernel.step_backward(memory, item, step, place, later, signals, grad_read[item], grad)
            if buffered:
                position_backward(count, grad_position[item], grad)
            add(grad, grads.signals[place])
            kernel.signals_backward(memory, signals[:own], grad[:own])
            if buffered:
                sigmoid_signals_backward(signals[own:], grad[own:])
            vectors = kernel.pushed(memory, item, step, place)
            grad_vectors = kernel.pushed_gradient(memory, item, step, place)
            values_backward(tanh_values, vectors, grad_vectors, count, grad)
            copy(grad_heads[place], grad)
        units_backward(run, step, going)
