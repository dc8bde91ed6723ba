"""A step of a memory with actions, and its adjoint, whichever memory it is."""

from stacktrans.kernels.actions import Actions
from stacktrans.kernels.compiling import Array, compiled
from stacktrans.kernels.lists import list_adjoint, list_step
from stacktrans.kernels.rows import Cells
from stacktrans.kernels.stacks import stack_adjoint, stack_step


@compiled
def action_step(
    actions: Actions,
    cells: Cells,
    item: int,
    step: int,
    signals: Array,
    values: Array,
    reads: Array,
    padded: Array,
    spare: Array,
) -> None:
    """Take the actions, then read.

    Args:
        actions: the kind of memory.
        cells: changed in place.
        item: which of the batch.
        step: which of the T steps.
        signals: [count * actions or more] probabilities.
        values: [count, m] what is pushed or inserted.
        reads: [count * depth * m] set.
        padded: [(room + 3) * m] to work in.
        spare: [2 * m] to work in.
    """
    if actions.lists:
        list_step(actions, cells, item, step, signals, values, reads, padded, spare)
    else:
        stack_step(actions, cells, item, step, signals, values, reads, padded)


@compiled
def action_adjoint(
    actions: Actions,
    cells: Cells,
    item: int,
    step: int,
    later: int,
    signals: Array,
    values: Array,
    grad_reads: Array,
    grad_cells: Array,
    grad_head: Array,
    grad_signals: Array,
    grad_values: Array,
    padded: Array,
) -> None:
    """Carry gradients back over a step.

    Args:
        actions: the kind of memory.
        cells: what was kept of the steps.
        item: which of the batch.
        step: which of its steps.
        later: how many steps of this item come after it.
        signals: [count * actions or more] probabilities.
        values: [count, m] what was pushed or inserted.
        grad_reads: [count * depth * m or more].
        grad_cells: [rows, count, room * m] of the cells after the step; becomes that of the
            cells before it. Only of cells that a later read can reach.
        grad_head: [count * m] the same of the heads.
        grad_signals: [count * actions or more] set.
        grad_values: [count, m] set.
        padded: [(room + 3) * m] to work in.
    """
    if actions.lists:
        list_adjoint(
            actions,
            cells,
            item,
            step,
            later,
            signals,
            values,
            grad_reads,
            grad_cells,
            grad_head,
            grad_signals,
            grad_values,
            padded,
        )
    else:
        stack_adjoint(
            actions,
            cells,
            item,
            step,
            later,
            signals,
            grad_reads,
            grad_cells,
            grad_signals,
            grad_values,
            padded,
        )
