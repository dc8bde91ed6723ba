"""Stacks with actions: a step, and its adjoint (joulin2015, section 3.1)."""

from stacktrans.kernels.arithmetic import add_scaled, copy
from stacktrans.kernels.compiling import Array, compiled
from stacktrans.memory.actions.base import EMPTY
from stacktrans.memory.actions.rows import Cells, kept_of, row_adjoint, row_step
from stacktrans.memory.actions.signals import Actions, shares


@compiled
def stack_step(
    actions: Actions,
    cells: Cells,
    item: int,
    step: int,
    signals: Array,
    values: Array,
    reads: Array,
    padded: Array,
) -> None:
    """Take the actions, then read; as `action_step`."""
    size = values.shape[1]
    used = cells.used[item, 0]
    left = min(used + 1, actions.capacity)
    width = actions.depth * size
    for which in range(actions.number):
        push, pop, _, stay = shares(actions, signals, which)
        pushed = values[which]
        row_step(cells, item, step, 0, which, pushed, used, left, push, stay, pop, padded)
        out = reads[which * width : (which + 1) * width]
        there = min(left * size, width)
        copy(out[:there], cells.held[item, 0, which])
        out[there:] = EMPTY
    cells.used[item, 0] = left


@compiled
def stack_adjoint(
    actions: Actions,
    cells: Cells,
    item: int,
    step: int,
    later: int,
    signals: Array,
    grad_reads: Array,
    grad_cells: Array,
    grad_signals: Array,
    grad_values: Array,
    padded: Array,
) -> None:
    """Carry gradients back over a step; as `action_adjoint`."""
    size = grad_values.shape[1]
    used = min(cells.used_first[item, 0] + step, actions.capacity)
    left = min(used + 1, actions.capacity)
    reached = min(left, actions.depth + later)
    width = actions.depth * size
    for which in range(actions.number):
        push, pop, _, stay = shares(actions, signals, which)
        grad = grad_cells[0, which]
        near = grad[: min(left, actions.depth) * size]
        add_scaled(near, near.dtype.type(1), grad_reads[which * width : (which + 1) * width])
        kept = kept_of(cells, item, step, 0, which)
        of_push, of_stay, of_pop = row_adjoint(
            kept, size, used, reached, push, stay, pop, grad, padded
        )
        out = grad_signals[which * actions.each : (which + 1) * actions.each]
        out[0], out[1] = of_push, of_pop
        if actions.no_op:
            out[2] = of_stay
        copy(grad_values[which], padded)
