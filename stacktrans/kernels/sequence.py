"""Whole sequences, forward and backward: any controller with a memory that has ends, or none.

And such a memory alone. Those with actions are in `action_sequence`.
"""

from stacktrans.kernels.arithmetic import copy
from stacktrans.kernels.compiling import Array, compiled_entry
from stacktrans.kernels.ends import Ends, Rows, memory_adjoint, memory_step
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


@compiled_entry
def sequence_forward(run: Forward, ends: Ends, rows: Rows, values: Array, old: int) -> None:
    """All steps: units, then signals and values, then the memory.

    Args:
        run: what they take.
        ends: the kind of memory.
        rows: the memory before the first step; becomes that after the last.
        values: [B, rows, m] the vectors of all rows; those of new ones are set.
        old: how many rows there were.
    """
    cell, tanh_values, hard = run.cell, run.tanh_values, run.hard
    weights, bias, starts, inputs = run.weights, run.bias, run.starts, run.inputs
    state, read, trace = run.state, run.read, run.trace
    outer, inner, heads, between = run.outer, run.inner, run.heads, run.between
    going = state.shape[2]
    pushes = ends.pushes.shape[0]
    count = trace.signals.shape[1]
    for step in range(starts[1] - starts[0]):
        going = going_on(starts, step, going)
        units_step(
            step,
            going,
            cell,
            weights,
            starts,
            inputs,
            state,
            read,
            trace,
            outer,
            inner,
            heads,
            between,
        )
        new = old + step * pushes
        for item in range(going):
            place = starts[item] + step
            signals, sums = trace.signals[place], heads[item]
            sigmoid_signals(sums, bias, signals)
            if hard:
                rounded(signals)
            values_step(sums, bias, count, tanh_values, values[item, new : new + pushes])
            if inputs.buffered:
                position_step(trace, starts, item, place)
            memory_step(ends, rows, item, step, new + 1, signals, values[item], read[item])
            copy(trace.reads[place], read[item])


@compiled_entry
def sequence_backward(
    run: Backward,
    ends: Ends,
    rows: Rows,
    values: Array,
    grad_values: Array,
    grad_strength: Array,
) -> None:
    """All steps backwards, of a memory that was empty before the first.

    Args:
        run: what they take.
        ends: the kind of memory.
        rows: the memory after the last step; becomes that before the first.
        values: [B, rows, m] the vectors of all rows.
        grad_values: [B, rows, m] zeros; become the gradients of the values.
        grad_strength: [B, rows + 1] zeros.
    """
    cell, tanh_values, weights = run.cell, run.tanh_values, run.weights
    starts, inputs, initial = run.starts, run.inputs, run.initial
    state_gradient, trace, grads = run.state_gradient, run.trace, run.grads
    grad_projected, grad_inner, grad_heads = run.grad_projected, run.grad_inner, run.grad_heads
    grad_state, outer, inner, heads = run.grad_state, run.outer, run.inner, run.heads
    grad_read, grad_hidden, grad_position = run.grad_read, run.grad_hidden, run.grad_position
    batch = grad_state.shape[2]
    pushes = ends.pushes.shape[0]
    count = trace.signals.shape[1]
    grad_read.fill(0)
    for step in range(starts[1] - starts[0] - 1, -1, -1):
        going = going_on(starts, step, batch)
        new = step * pushes
        for item in range(going):
            place = starts[item] + step
            add(grad_read[item], grads.reads[place])
            memory_adjoint(
                ends,
                rows,
                item,
                step,
                new + 1,
                trace.signals[place],
                values[item],
                grad_read[item],
                grad_strength[item],
                grad_values[item],
                heads[item],
            )
            if inputs.buffered:
                position_adjoint(count, grad_position[item], heads[item])
            add(heads[item], grads.signals[place])
            sigmoid_signals_adjoint(trace.signals[place], heads[item])
            values_adjoint(
                tanh_values,
                values[item, new : new + pushes],
                grad_values[item, new : new + pushes],
                count,
                heads[item],
            )
            copy(grad_heads[place], heads[item])
        units_adjoint(
            step,
            going,
            cell,
            weights,
            starts,
            inputs,
            initial,
            state_gradient,
            trace,
            grads,
            grad_projected,
            grad_inner,
            grad_state,
            outer,
            inner,
            heads,
            grad_read,
            grad_hidden,
            grad_position,
        )


@compiled_entry
def memory_forward(
    ends: Ends, rows: Rows, signals: Array, values: Array, old: int, reads: Array
) -> None:
    """All steps of a memory alone.

    Args:
        ends: the kind of memory.
        rows: the memory before the first step; becomes that after the last.
        signals: [B, T, signals].
        values: [B, rows, m] the vectors of all rows.
        old: how many rows there were.
        reads: [B, T, reads * m] set.
    """
    batch, steps = signals.shape[:2]
    pushes = ends.pushes.shape[0]
    for item in range(batch):
        for step in range(steps):
            new = old + step * pushes + 1
            memory_step(
                ends,
                rows,
                item,
                step,
                new,
                signals[item, step],
                values[item],
                reads[item, step],
            )


@compiled_entry
def memory_backward(
    ends: Ends,
    rows: Rows,
    signals: Array,
    values: Array,
    grad_reads: Array,
    grad_strength: Array,
    grad_values: Array,
    grad_signals: Array,
) -> None:
    """All steps of a memory alone backwards, down to the empty memory.

    Args:
        ends: the kind of memory.
        rows: the memory after the last step; becomes that before the first.
        signals: [B, T, signals].
        values: [B, rows, m] the vectors of all rows.
        grad_reads: [B, T, reads * m].
        grad_strength: [B, rows + 1] zeros.
        grad_values: [B, rows, m] zeros; become the gradients of the values.
        grad_signals: [B, T, signals] set.
    """
    batch, steps = grad_signals.shape[:2]
    pushes = ends.pushes.shape[0]
    for item in range(batch):
        for step in range(steps - 1, -1, -1):
            memory_adjoint(
                ends,
                rows,
                item,
                step,
                step * pushes + 1,
                signals[item, step],
                values[item],
                grad_reads[item, step],
                grad_strength[item],
                grad_values[item],
                grad_signals[item, step],
            )
