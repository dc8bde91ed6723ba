"""A step of a memory with actions, and its adjoint, whichever memory it is."""

from typing import NamedTuple

from stacktrans.kernels import drive
from stacktrans.kernels.compiling import Array
from stacktrans.memory.actions.list_steps import list_adjoint, list_step
from stacktrans.memory.actions.rows import Cells, forget_empty
from stacktrans.memory.actions.signals import (
    Actions,
    certain,
    softmax_signals,
    softmax_signals_adjoint,
)
from stacktrans.memory.actions.stack_steps import stack_adjoint, stack_step


class Forward(NamedTuple):
    """A memory of B strings, going forwards.

    Attributes:
        actions: the kind of memory.
        cells: in place, with room for T cells more in each row unless that is too many; after the
            last step of a string without empty cells at the end.
        values: [N, count, m] set; [1, count, m] to keep only those of whichever step was last.
        padded: [(room + 3) * m] to work in.
        spare: [2 * m] to work in.
    """

    actions: Actions
    cells: Cells
    values: Array
    padded: Array
    spare: Array


class Backward(NamedTuple):
    """The same going backwards, down to the memory before the first step, which is constant.

    Attributes:
        actions: the kind of memory.
        cells: what was kept of the steps.
        values: [N, count, m] as they were set.
        grad_values: [count, m] those of the step at hand.
        grad_cells: [B, rows, count, room * m] zeros; the gradients of cells. Only of cells that a
            later read can reach.
        grad_head: [B, count * m] zeros; the same of the heads.
        padded: [(room + 3) * m] to work in.
    """

    actions: Actions
    cells: Cells
    values: Array
    grad_values: Array
    grad_cells: Array
    grad_head: Array
    padded: Array


@drive.implements(drive.set_signals, Forward)
def set_signals(memory: Forward, sums: Array, bias: Array, signals: Array) -> None:
    """Probabilities."""
    softmax_signals(memory.actions, sums, bias, signals)


@drive.implements(drive.make_hard, Forward)
def make_hard(memory: Forward, signals: Array) -> None:
    """One action of each for certain."""
    certain(memory.actions, signals)


@drive.implements(drive.signals_adjoint, Backward)
def signals_adjoint(memory: Backward, signals: Array, grad: Array) -> None:
    """Of the sums under probabilities."""
    softmax_signals_adjoint(memory.actions, signals, grad)


@drive.implements(drive.pushed, Forward, Backward)
def pushed(memory: Forward, item: int, step: int, place: int) -> Array:
    """A vector for each stack or list."""
    vectors: Array = memory.values[place if memory.values.shape[0] > 1 else 0]
    return vectors


@drive.implements(drive.pushed_adjoint, Backward)
def pushed_adjoint(memory: Backward, item: int, step: int, place: int) -> Array:
    """Those of the step that was carried over last."""
    return memory.grad_values


@drive.implements(drive.memory_step, Forward)
def memory_step(
    memory: Forward, item: int, step: int, place: int, later: int, signals: Array, reads: Array
) -> None:
    """Take the actions, then read."""
    actions, cells = memory.actions, memory.cells
    values = memory.values[place if memory.values.shape[0] > 1 else 0]
    if actions.lists:
        list_step(actions, cells, item, step, signals, values, reads, memory.padded, memory.spare)
    else:
        stack_step(actions, cells, item, step, signals, values, reads, memory.padded)
    if later == 0 or cells.kept_starts.shape[0] == 1:
        forget_empty(cells, item, values.shape[1])


@drive.implements(drive.memory_adjoint, Backward)
def memory_adjoint(
    memory: Backward,
    item: int,
    step: int,
    place: int,
    later: int,
    signals: Array,
    grad_reads: Array,
    grad_signals: Array,
) -> None:
    """Carry the gradients of cells back over the step."""
    if memory.actions.lists:
        list_adjoint(
            memory.actions,
            memory.cells,
            item,
            step,
            later,
            signals,
            memory.values[place],
            grad_reads,
            memory.grad_cells[item],
            memory.grad_head[item],
            grad_signals,
            memory.grad_values,
            memory.padded,
        )
    else:
        stack_adjoint(
            memory.actions,
            memory.cells,
            item,
            step,
            later,
            signals,
            grad_reads,
            memory.grad_cells[item],
            grad_signals,
            memory.grad_values,
            memory.padded,
        )
