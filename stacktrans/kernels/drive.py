"""All steps of a batch in compiled code, forward and backward: any controller with any memory.

What they are given is put together in `batches`. Arrays are taken from their records once, before
the steps, and are passed whole: numba counts references to every array that is taken from a record
or is a view of another, which takes as long as the arithmetic of a small model.
"""

from typing import Any

from stacktrans.kernels import kernel, steps
from stacktrans.kernels.cells import cell_backward, cell_step
from stacktrans.kernels.compiling import compiled_entry
from stacktrans.kernels.panels import product


@compiled_entry(lambda run, *_: int(run.starts[-1]))
def forward(run: steps.Forward, memory: Any, own: int, first: int) -> None:
    """All steps: units, then signals and values, then the memory.

    Args:
        run: what they take.
        memory: before the first step; becomes that after the last.
        own: how many of the signals are the memory's; those of buffers follow.
        first: how many steps the memory has taken before the first of these.
    """
    weights, inputs, trace, starts = run.weights, run.inputs, run.trace, run.starts
    below, between, recurrent, said = weights.below, weights.between, weights.hidden, weights.heads
    outer, inner, heads, bias, values = run.outer, run.inner, run.heads, run.bias, run.values
    saved, hidden, signals, reads = trace.saved, trace.hidden, trace.signals, trace.reads
    read, positions, free, state = run.read, trace.positions, run.places, run.state
    layers, count = state.shape[0], signals.shape[1]
    for number in range(starts[1] - starts[0]):
        places = steps.places_at(starts, number, free)
        going, step = places.shape[0], steps.BatchStep(first + number, places, starts)
        for layer in range(layers):
            if layer == 0:
                product(read, going, below, outer)
            else:
                product(state[layer - 1, 0], going, between[layer - 1], outer)
            product(state[layer, 0], going, recurrent[layer], inner)
            steps.add_projected(inputs, layer, places, positions, outer)
            cell_step(run.cell, layer, places, outer, inner, state, saved)
            steps.keep_rows(state[layer, 0], layer, places, hidden)
        product(state[layers - 1, 0], going, said, heads)
        kernel.set_signals(memory, own, places, heads, bias, signals)
        if run.hard:
            kernel.make_hard(memory, own, places, signals)
        if own < count:
            steps.sigmoid_signals(own, count, places, heads, bias, signals)
            if run.hard:
                steps.rounded(own, count, places, signals)
            steps.positions_step(positions, signals, starts, places)
        steps.values_step(run.tanh_values, count, going, heads, bias, values)
        kernel.step_forward(memory, step, signals, values, read)
        steps.keep_reads(read, places, reads)


@compiled_entry(lambda run, *_: int(run.starts[-1]))
def backward(run: steps.Backward, memory: Any, own: int) -> None:
    """All steps backwards, down to the memory before the first, which is constant.

    Args:
        run: what they take.
        memory: after the last step.
        own: how many of the signals are the memory's.
    """
    weights, inputs, trace, grads = run.weights, run.inputs, run.trace, run.grads
    below, between, recurrent, said = weights.below, weights.between, weights.hidden, weights.heads
    outer, inner, heads, grad_hidden = run.outer, run.inner, run.heads, run.grad_hidden
    saved, signals, positions = trace.saved, trace.signals, trace.positions
    starts, free = run.starts, run.places
    grad_below, grad_read, grad_state = run.below, run.grad_read, run.grad_state
    grad_position, values, grad_values = run.grad_position, run.values, run.grad_values
    grad_projected, grad_inner, grad_heads = run.grad_projected, run.grad_inner, run.grad_heads
    given_hidden, given_reads, given_signals = grads.hidden, grads.reads, grads.signals
    layers, count = grad_state.shape[0], signals.shape[1]
    grad_below.fill(0)
    for number in range(starts[1] - starts[0] - 1, -1, -1):
        places = steps.places_at(starts, number, free)
        going, step = places.shape[0], steps.BatchStep(number, places, starts)
        steps.reads_backward(places, grad_below, given_reads, grad_read)
        kernel.step_backward(memory, step, signals, values, grad_read, heads, grad_values)
        steps.values_backward(run.tanh_values, count, going, values, grad_values, heads)
        steps.signals_given(own, places, grad_position, given_signals, heads)
        kernel.signals_backward(memory, own, places, signals, heads)
        steps.sigmoid_signals_backward(own, count, places, signals, heads)
        steps.keep_rows(heads, 0, places, grad_heads)
        product(heads, going, said, grad_hidden)
        steps.add_given(grad_state, places, given_hidden)
        steps.add_rows(grad_state[layers - 1, 0], going, grad_hidden)
        for layer in range(layers - 1, -1, -1):
            cell_backward(run.cell, layer, places, saved, grad_state, outer, inner)
            steps.keep_gates(outer, layer, places, grad_projected)
            if grad_inner.shape[0]:
                steps.keep_gates(inner, layer, places, grad_inner)
            if inputs.buffered:
                steps.positions_backward(inputs, layer, places, positions, outer, grad_position)
            product(inner, going, recurrent[layer], grad_hidden)
            steps.add_rows(grad_state[layer, 0], going, grad_hidden)
            if run.state_gradient != 1:
                steps.scale_state(grad_state, layer, going, run.state_gradient)
            if layer == 0:
                product(outer, going, below, grad_below)
            else:
                product(outer, going, between[layer - 1], grad_hidden)
                steps.add_rows(grad_state[layer - 1, 0], going, grad_hidden)
