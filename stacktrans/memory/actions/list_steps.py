"""Lists: a step, and its adjoint (joulin2015, section 3.2)."""

from stacktrans.kernels.arithmetic import add_scaled, copy, dot
from stacktrans.kernels.compiling import Array, compiled
from stacktrans.memory.actions.base import EMPTY
from stacktrans.memory.actions.rows import Cells, kept_of, row_adjoint, row_step
from stacktrans.memory.actions.signals import Actions, shares


@compiled
def _first(cells: Cells, item: int, row: int, which: int, size: int, out: Array) -> None:
    """Set out, [m], to the first cell of a row."""
    if cells.used[item, row]:
        copy(out, cells.held[item, row, which])
    else:
        out[:] = EMPTY


@compiled
def list_step(
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
    """Take the actions, then read; as `action_step`."""
    size = values.shape[1]
    used_left, used_right = cells.used[item, 0], cells.used[item, 1]
    more_left = min(used_left + 1, actions.capacity)
    more_right = min(used_right + 1, actions.capacity)
    first_left, first_right = spare[:size], spare[size : 2 * size]
    for which in range(actions.number):
        insert, left, right, stay = shares(actions, signals, which)
        head = cells.head[item, which * size : (which + 1) * size]
        _first(cells, item, 0, which, size, first_left)
        _first(cells, item, 1, which, size, first_right)
        row_step(
            cells,
            item,
            step,
            0,
            which,
            head,
            used_left,
            more_left,
            insert + right,
            stay,
            left,
            padded,
        )
        row_step(
            cells,
            item,
            step,
            1,
            which,
            head,
            used_right,
            more_right,
            left,
            insert + stay,
            right,
            padded,
        )
        value = values[which]
        for i in range(size):
            head[i] = (
                insert * value[i] + stay * head[i] + left * first_left[i] + right * first_right[i]
            )
    cells.used[item, 0], cells.used[item, 1] = more_left, more_right
    _read(actions, cells, item, size, reads)


@compiled
def _read(actions: Actions, cells: Cells, item: int, size: int, reads: Array) -> None:
    """Read the head and then, in turn, the cells left and right of it."""
    for which in range(actions.number):
        start = which * actions.depth * size
        copy(reads[start : start + size], cells.head[item, which * size : (which + 1) * size])
        for place in range(1, actions.depth):
            row, cell = (place - 1) % 2, (place - 1) // 2
            out = reads[start + place * size : start + (place + 1) * size]
            if cell < cells.used[item, row]:
                copy(out, cells.held[item, row, which, cell * size : (cell + 1) * size])
            else:
                out[:] = EMPTY


@compiled
def list_adjoint(
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
    """Carry gradients back over a step; as `action_adjoint`."""
    size = grad_values.shape[1]
    used_left = min(cells.used_first[item, 0] + step, actions.capacity)
    used_right = min(cells.used_first[item, 1] + step, actions.capacity)
    reached_left = min(used_left + 1, actions.capacity, actions.depth + later)
    reached_right = min(used_right + 1, actions.capacity, actions.depth + later)
    one = grad_reads.dtype.type(1)
    _read_adjoint(actions, size, reached_left, reached_right, grad_reads, grad_cells)
    for which in range(actions.number):
        insert, left, right, stay = shares(actions, signals, which)
        head = grad_head[which * size : (which + 1) * size]
        start = which * actions.depth * size
        add_scaled(head, one, grad_reads[start : start + size])
        kept_left = kept_of(cells, item, step, 0, which)
        kept_right = kept_of(cells, item, step, 1, which)
        grad_left, grad_right = grad_cells[0, which], grad_cells[1, which]
        push_left, stay_left, pop_left = row_adjoint(
            kept_left, size, used_left, reached_left, insert + right, stay, left, grad_left, padded
        )
        # What was pushed on both sides is the old head.
        before = grad_values[which]
        copy(before, padded)
        push_right, stay_right, pop_right = row_adjoint(
            kept_right,
            size,
            used_right,
            reached_right,
            left,
            insert + stay,
            right,
            grad_right,
            padded,
        )
        add_scaled(before, one, padded)
        add_scaled(before, stay, head)
        if used_left:
            add_scaled(grad_left[:size], left, head)
        if used_right:
            add_scaled(grad_right[:size], right, head)
        out = grad_signals[which * actions.each : (which + 1) * actions.each]
        out[0] = dot(head, values[which]) + push_left + stay_right
        out[1] = dot(head, kept_left[size:]) + pop_left + push_right
        out[2] = dot(head, kept_right[size:]) + push_left + pop_right
        if actions.no_op:
            out[3] = dot(head, kept_left) + stay_left + stay_right
        given = padded[:size]
        copy(given, head)
        copy(head, before)
        for i in range(size):
            before[i] = insert * given[i]


@compiled
def _read_adjoint(
    actions: Actions,
    size: int,
    reached_left: int,
    reached_right: int,
    grad_reads: Array,
    grad_cells: Array,
) -> None:
    """Add to the gradients of the cells beside the head, given those of what was read."""
    one = grad_reads.dtype.type(1)
    for which in range(actions.number):
        start = which * actions.depth * size
        for place in range(1, actions.depth):
            row, cell = (place - 1) % 2, (place - 1) // 2
            if cell < (reached_right if row else reached_left):
                out = grad_cells[row, which, cell * size : (cell + 1) * size]
                first = start + place * size
                add_scaled(out, one, grad_reads[first : first + size])
