"""Whole sequences, forward and backward: any controller with a memory that has actions."""

from stacktrans.kernels.action_steps import action_adjoint, action_step
from stacktrans.kernels.actions import Actions, certain, softmax_signals, softmax_signals_adjoint
from stacktrans.kernels.arithmetic import copy
from stacktrans.kernels.compiling import Array, compiled_entry
from stacktrans.kernels.rows import Cells, forget_empty
from stacktrans.kernels.steps import (
    Backward,
    Forward,
    add,
    going_on,
    position_adjoint,
    position_step,
    rounded,
    sigmoid_signals_adjoint,
    units_adjoint,
    units_step,
    values_adjoint,
    values_step,
)


@compiled_entry
def action_forward(
    run: Forward, actions: Actions, cells: Cells, values: Array, padded: Array, spare: Array
) -> None:
    """All steps: units, then signals and values, then the memory.

    Args:
        run: what they take.
        actions: the kind of memory.
        cells: the memory before the first step, with room for T cells more in each row unless
            that is too many; becomes that after the last, without empty cells at the end.
        values: [N, count, m] set; [1, count, m] to keep only those of whichever step was last.
        padded: [(room + 3) * m] to work in.
        spare: [2 * m] to work in.
    """
    cell, tanh_values, hard = run.cell, run.tanh_values, run.hard
    weights, bias, starts, inputs = run.weights, run.bias, run.starts, run.inputs
    state, read, trace = run.state, run.read, run.trace
    outer, inner, heads, between = run.outer, run.inner, run.heads, run.between
    batch, size = state.shape[2], values.shape[2]
    own, count = actions.number * actions.each, trace.signals.shape[1]
    remembers = cells.kept_starts.shape[0] > 1
    going = batch
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
        for item in range(going):
            place = starts[item] + step
            signals, sums, pushed = (
                trace.signals[place],
                heads[item],
                values[place if values.shape[0] > 1 else 0],
            )
            softmax_signals(actions, sums, bias, signals)
            if hard:
                certain(actions, signals)
                rounded(signals[own:])
            values_step(sums, bias, count, tanh_values, pushed)
            if inputs.buffered:
                position_step(trace, starts, item, place)
            action_step(actions, cells, item, step, signals, pushed, read[item], padded, spare)
            copy(trace.reads[place], read[item])
            if not remembers:
                forget_empty(cells, item, size)
    for item in range(batch):
        forget_empty(cells, item, size)


@compiled_entry
def action_backward(
    run: Backward,
    actions: Actions,
    cells: Cells,
    values: Array,
    grad_values: Array,
    grad_cells: Array,
    grad_head: Array,
    padded: Array,
) -> None:
    """All steps backwards, down to the memory before the first, which is constant.

    Args:
        run: what they take.
        actions: the kind of memory.
        cells: what was kept of the steps.
        values: [N, count, m] as they were set.
        grad_values: [count, m] to work in.
        grad_cells: [B, rows, count, room * m] zeros, to work in.
        grad_head: [B, count * m] zeros, to work in.
        padded: [(room + 3) * m] to work in.
    """
    cell, tanh_values, weights = run.cell, run.tanh_values, run.weights
    starts, inputs, initial = run.starts, run.inputs, run.initial
    state_gradient, trace, grads = run.state_gradient, run.trace, run.grads
    grad_projected, grad_inner, grad_heads = run.grad_projected, run.grad_inner, run.grad_heads
    grad_state, outer, inner, heads = run.grad_state, run.outer, run.inner, run.heads
    grad_read, grad_hidden, grad_position = run.grad_read, run.grad_hidden, run.grad_position
    batch, count = grad_state.shape[2], trace.signals.shape[1]
    own = actions.number * actions.each
    grad_read.fill(0)
    for step in range(starts[1] - starts[0] - 1, -1, -1):
        going = going_on(starts, step, batch)
        for item in range(going):
            place = starts[item] + step
            signals = trace.signals[place]
            add(grad_read[item], grads.reads[place])
            action_adjoint(
                actions,
                cells,
                item,
                step,
                starts[item + 1] - place - 1,
                signals,
                values[place],
                grad_read[item],
                grad_cells[item],
                grad_head[item],
                heads[item],
                grad_values,
                padded,
            )
            if inputs.buffered:
                position_adjoint(count, grad_position[item], heads[item])
            add(heads[item], grads.signals[place])
            softmax_signals_adjoint(actions, signals, heads[item])
            sigmoid_signals_adjoint(signals[own:], heads[item, own:])
            values_adjoint(tanh_values, values[place], grad_values, count, heads[item])
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
