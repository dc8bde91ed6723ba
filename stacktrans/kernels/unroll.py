"""The compiled loop over all steps of a batch, forward and backward: units, then memory.

`batches` prepares the arguments. Arrays are taken from their records once, before the steps, and
passed whole: numba counts references to every array that is taken from a record or is a view of
another, which takes as long as the arithmetic of a small model.
"""

import importlib
from typing import Any

import numpy as np

from stacktrans.kernels import Array, kernel, steps
from stacktrans.kernels.compiling import before_compiling, compiled, compiled_entry
from stacktrans.kernels.units import LINEAR, unit_backward, unit_step


def product(left: Array, first: int, rows: int, matrix: Array, out: Array) -> None:
    """Set out to left @ matrix, for some rows.

    Args:
        left: [B, K].
        first: the first of the B rows.
        rows: how many of them.
        matrix: [panels, K, width], as `panels` in `stacktrans.kernels.batches` makes it.
        out: [B, panels * width], of which as many rows are set.
    """
    count, depth, width = matrix.shape
    whole = matrix.transpose(1, 0, 2).reshape(depth, count * width)
    part = slice(first, first + rows)
    out[part] = left[part] @ whole


@compiled
def product_room(rows: int, matrix: Array) -> Array:
    """Room for a `product` of some rows by a matrix, [rows, panels * width]."""
    return np.empty((rows, matrix.shape[0] * matrix.shape[2]), matrix.dtype)


@compiled
def recurrent_product(left: Array, ids: Array, indices: Array, matrices: Array, out: Array) -> None:
    """Set out to left @ the matrix of the id that an item reads, or the only matrix there is.

    Args:
        left: [B, K].
        ids: [N] the id that each step reads; unused with a single matrix.
        indices: [B or fewer] indices of the step among all N, of the items that take it.
        matrices: [1 or ids, ...] as in `product`.
        out: [B, panels * width].
    """
    if matrices.shape[0] == 1:
        product(left, 0, indices.shape[0], matrices[0], out)
    else:
        for item in range(indices.shape[0]):
            product(left, item, 1, matrices[ids[indices[item]]], out)


before_compiling(lambda _: importlib.import_module("stacktrans.kernels.matmul"))


@compiled_entry(lambda run, *_: int(run.starts[-1]))
def forward(run: steps.Forward, memory: Any, own: int, first: int) -> None:
    """Run all steps: the units, then signals and values, then the memory.

    Args:
        run: the arguments of all steps.
        memory: the arrays before the first step, which become those after the last.
        own: the number of signals of the memory; those of buffers follow.
        first: the number of steps that the memory took before these.
    """
    weights, inputs, trace, starts = run.weights, run.inputs, run.trace, run.starts
    below, between, recurrent, final = weights.below, weights.between, weights.hidden, weights.heads
    bias, noise, heads, values, state = run.bias, run.noise, run.heads, run.values, run.state
    saved, hidden, signals, reads = trace.saved, trace.hidden, trace.signals, trace.reads
    read, positions, layers, count = run.read, trace.positions, state.shape[0], signals.shape[1]
    items, gates = len(read), inputs.projected.shape[2]
    # To work in.
    outer_rows, inner_rows = product_room(items, below), product_room(items, below)
    outer, inner = outer_rows.reshape(items, gates, -1), inner_rows.reshape(items, gates, -1)
    read_rows, free = read.reshape(items, -1), np.empty(items, np.int64)
    for number in range(starts[1] - starts[0]):
        indices = steps.indices_at(starts, number, free)
        active, step = indices.shape[0], steps.BatchStep(first + number, indices, starts)
        for layer in range(layers):
            if layer == 0:
                product(read_rows, 0, active, below, outer_rows)
            else:
                product(state[layer - 1, 0], 0, active, between[layer - 1], outer_rows)
            if run.unit != LINEAR:
                hidden_state = state[layer, 0]
                recurrent_product(hidden_state, inputs.ids, indices, recurrent[layer], inner_rows)
            steps.add_projected(inputs, layer, indices, positions, outer)
            unit_step(run.unit, layer, indices, outer, inner, state, saved)
            steps.keep_rows(state[layer, 0], layer, indices, hidden)
        product(state[layers - 1, 0], 0, active, final, heads)
        if noise.shape[0]:
            steps.add_at(indices, noise, heads)
        kernel.set_signals(memory, own, indices, heads, bias, signals)
        if run.hard:
            kernel.discretize(memory, own, indices, signals)
        if own < count:
            steps.sigmoid_signals(own, count, indices, heads, bias, signals)
            if run.hard:
                steps.round_signals(own, count, indices, signals)
            steps.positions_step(positions, signals, starts, indices)
        steps.values_step(run.tanh_values, count, active, heads, bias, values)
        kernel.step_forward(memory, step, signals, values, read)
        steps.keep_rows(read_rows, 0, indices, reads)


@compiled_entry(lambda run, *_: int(run.starts[-1]))
def backward(run: steps.Backward, memory: Any, own: int) -> None:
    """Run the backward pass of all steps; the memory before the first is constant.

    Args:
        run: the arguments of all steps.
        memory: the arrays after the last step.
        own: the number of signals of the memory.
    """
    weights, inputs, trace, grads = run.weights, run.inputs, run.trace, run.grads
    below, between, recurrent, final = weights.below, weights.between, weights.hidden, weights.heads
    saved, signals, positions, starts = trace.saved, trace.signals, trace.positions, run.starts
    grad_state, grad_read, values = run.grad_state, run.grad_read, run.values
    upstream_hidden, upstream_signals = grads.hidden, grads.signals
    grad_projected, grad_inner, grad_heads = grads.projected, grads.inner, grads.heads
    layers, count, items = grad_state.shape[0], signals.shape[1], len(values)
    split, dtype = grad_inner.shape[0] > 0, grad_state.dtype
    state_gradient = dtype.type(run.state_gradient)
    # To work in.
    outer = np.empty((items, inputs.projected.shape[2], grad_state.shape[3]), dtype)
    inner = np.empty_like(outer) if split else outer
    outer_rows, inner_rows = outer.reshape(items, -1), inner.reshape(items, -1)
    heads, grad_values = np.empty((items, grad_heads.shape[2]), dtype), np.empty_like(values)
    grad_hidden, grad_below = product_room(items, final), product_room(items, below)
    read_rows, free = grad_read.reshape(items, -1), np.empty(items, np.int64)
    grad_position = np.zeros(items, dtype)
    grad_below.fill(0)
    for number in range(starts[1] - starts[0] - 1, -1, -1):
        indices = steps.indices_at(starts, number, free)
        active, step = indices.shape[0], steps.BatchStep(number, indices, starts)
        steps.copy_rows(grad_below, active, read_rows)
        kernel.step_backward(memory, step, signals, values, grad_read, heads, grad_values)
        steps.values_backward(run.tanh_values, count, active, values, grad_values, heads)
        steps.add_upstream_signals(own, indices, grad_position, upstream_signals, heads)
        kernel.signals_backward(memory, own, indices, signals, heads)
        steps.sigmoid_signals_backward(own, count, indices, signals, heads)
        steps.keep_rows(heads, 0, indices, grad_heads)
        product(heads, 0, active, final, grad_hidden)
        steps.add_at(indices, upstream_hidden, grad_state[layers - 1, 0])
        steps.add_rows(grad_state[layers - 1, 0], active, grad_hidden)
        for layer in range(layers - 1, -1, -1):
            unit_backward(run.unit, layer, indices, saved, grad_state, outer, inner)
            steps.keep_rows(outer_rows, layer, indices, grad_projected)
            if split:
                steps.keep_rows(inner_rows, layer, indices, grad_inner)
            if inputs.buffered:
                steps.positions_backward(inputs, layer, indices, positions, outer, grad_position)
            if run.unit != LINEAR:
                recurrent_product(inner_rows, inputs.ids, indices, recurrent[layer], grad_hidden)
                steps.add_rows(grad_state[layer, 0], active, grad_hidden)
            if state_gradient != 1:
                steps.scale_state(state_gradient, layer, active, grad_state)
            if layer == 0:
                product(outer_rows, 0, active, below, grad_below)
            else:
                product(outer_rows, 0, active, between[layer - 1], grad_hidden)
                steps.add_rows(grad_state[layer - 1, 0], active, grad_hidden)
