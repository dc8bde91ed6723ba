"""Memories with actions: cells that a step mixes by the probabilities of what can be done to them.

Stacks and lists (joulin2015, section 3) are such memories. The cells of a stack, and those on
each side of a list's head, are a row: after a step, each cell is the mean of what stood before
it, in its place and after it. All three are found in one array, the row with what is pushed on
it before its first cell and empty cells after its last, so that a step is one loop, which
vectorises, whatever the size m of a cell; and its adjoint is the same loop with the shares of
the first and the last exchanged.

What the adjoint needs is this array as it was before each step, and it is kept; but not what
lies deeper than any read of a later step can reach: a cell comes nearer by one at each step.
"""

from typing import Any, NamedTuple

import numpy as np

from stacktrans.kernels.arithmetic import add_scaled, copy, dot, exp, sigmoid
from stacktrans.kernels.compiling import Array, compiled
from stacktrans.memory.actions import EMPTY

PADDING = 3
"""How many cells the array with a row of cells has more: one before them, and two after."""
UNLIMITED = 2**62


class Actions(NamedTuple):
    """The kind of memory.

    Attributes:
        lists: 1 for lists, 0 for stacks.
        number: how many stand side by side.
        depth: how many cells of each are read.
        each: actions of each.
        no_op: 1 if the last of them is to do nothing.
        capacity: how many cells in a row are kept, at least 1.
    """

    lists: int
    number: int
    depth: int
    each: int
    no_op: int
    capacity: int = UNLIMITED


class Cells(NamedTuple):
    """The cells of a memory, and what was kept of T steps, for a batch of B.

    Attributes:
        held: [B, rows, count, room * m] the cells of each row, nearest first: of stacks there is
            one row, of lists there are two, those left of the head and those right of it.
        head: [B, count * m]; empty for stacks.
        used: [B, rows] how many cells of a row are in use; all others are empty.
        used_first: [B, rows] the same before the first of the T steps.
        kept: [B, numbers] of each step, [rows, count, ...] the cells in use before it, with what
            was pushed on them before and empty cells after; empty if nothing is kept.
        kept_starts: [T + 1] where the numbers of each step start in `kept`; [1] if nothing is.
    """

    held: Array
    head: Array
    used: Array
    used_first: Array
    kept: Array
    kept_starts: Array

    def of(self, part: slice) -> "Cells":
        """Those of a part of the batch."""
        return Cells(
            self.held[part],
            self.head[part],
            self.used[part],
            self.used_first[part],
            self.kept[part],
            self.kept_starts,
        )

    def alone(self) -> "Cells":
        """The cells, without what was kept of steps."""
        return self._replace(
            kept=np.empty((len(self.kept), 0), self.kept.dtype), kept_starts=self.kept_starts[:1]
        )

    def without(self, items: Array) -> "Cells":
        """The cells, of which those of some of the batch, [B] bool, are empty."""
        return self._replace(
            head=np.where(items[:, None], self.head.dtype.type(EMPTY), self.head),
            used=np.where(items[:, None], 0, self.used),
        )


@compiled
def softmax_signals(actions: Actions, sums: Array, bias: Array, signals: Array) -> None:
    """A softmax over the actions of each stack or list; what is left are sigmoids.

    Args:
        sums: [signals or more].
        bias: [signals].
        signals: [signals] set.
    """
    each, own = actions.each, actions.number * actions.each
    for i in range(signals.shape[0]):
        signals[i] = sums[i] + bias[i]
    for start in range(0, own, each):
        largest = signals[start]
        for i in range(start + 1, start + each):
            largest = max(largest, signals[i])
        for i in range(start, start + each):
            signals[i] -= largest
    for i in range(own):
        signals[i] = exp(signals[i])
    for start in range(0, own, each):
        total = signals[start]
        for i in range(start + 1, start + each):
            total += signals[i]
        for i in range(start, start + each):
            signals[i] /= total
    for i in range(own, signals.shape[0]):
        signals[i] = sigmoid(signals[i])


@compiled
def softmax_signals_adjoint(actions: Actions, signals: Array, grad: Array) -> None:
    """Turn the gradients of the actions' probabilities into those of the sums under them."""
    each = actions.each
    for start in range(0, actions.number * each, each):
        total = grad.dtype.type(0)
        for i in range(start, start + each):
            total += signals[i] * grad[i]
        for i in range(start, start + each):
            grad[i] = signals[i] * (grad[i] - total)


@compiled
def certain(actions: Actions, signals: Array) -> None:
    """The most probable action of each stack or list has 1, the others 0."""
    each = actions.each
    for start in range(0, actions.number * each, each):
        best = start
        for i in range(start + 1, start + each):
            if signals[i] > signals[best]:
                best = i
        for i in range(start, start + each):
            signals[i] = 0
        signals[best] = 1


@compiled
def _padded(first: Array, cells: Array, out: Array) -> None:
    """What is pushed on cells, these, and two empty ones.

    Args:
        first: [m].
        cells: [n * m].
        out: [(n + 3) * m or more] set.
    """
    size, held = first.shape[0], cells.shape[0]
    copy(out[:size], first)
    copy(out[size : size + held], cells)
    out[size + held : 3 * size + held] = EMPTY


@compiled
def _mixed(size: int, before: Any, there: Any, after: Any, padded: Array, out: Array) -> None:
    """Mix each cell of a padded row with its neighbours, by the shares of the three."""
    middle, last = padded[size:], padded[2 * size :]
    for i in range(out.shape[0]):
        out[i] = before * padded[i] + there * middle[i] + after * last[i]


@compiled
def _kept_of(cells: Cells, item: int, step: int, row: int, which: int) -> Array:
    """The part of what is kept of a step that is of one row."""
    first = cells.kept_starts[step]
    each = (cells.kept_starts[step + 1] - first) // (cells.held.shape[1] * cells.held.shape[2])
    first += (row * cells.held.shape[2] + which) * each
    return cells.kept[item, first : first + each]


@compiled
def _row_step(
    cells: Cells,
    item: int,
    step: int,
    row: int,
    which: int,
    pushed: Array,
    used: int,
    left: int,
    push: Any,
    stay: Any,
    pop: Any,
    padded: Array,
) -> None:
    """A step of one row of cells.

    Args:
        cells: changed in place.
        item: which of the batch.
        step: which of the T steps.
        row: which row of each stack or list.
        which: which stack or list.
        pushed: [m].
        used: how many cells were in use before.
        left: how many are afterwards.
        push: share of the push; so are the other two.
        padded: [(used + 3) * m or more] to work in.
    """
    size = pushed.shape[0]
    held = cells.held[item, row, which]
    _padded(pushed, held[: used * size], padded)
    if cells.kept_starts.shape[0] > 1:
        kept = _kept_of(cells, item, step, row, which)
        copy(kept[: min(kept.shape[0], (used + PADDING) * size)], padded)
    _mixed(size, push, stay, pop, padded, held[: left * size])


@compiled
def _row_adjoint(
    kept: Array,
    size: int,
    used: int,
    reached: int,
    push: Any,
    stay: Any,
    pop: Any,
    grad: Array,
    padded: Array,
) -> tuple[Any, Any, Any]:
    """Carry gradients over a step of one row of cells; gives back those of the three shares.

    Args:
        kept: what was kept of the step.
        size: m.
        used: how many cells were in use before.
        reached: how many of those after it have a gradient.
        push: share of the push; so are the other two.
        grad: [room * m] of the cells after the step; becomes that of those before it, of which
            there are at most `reached` and one.
        padded: [(reached + 3) * m or more] to work in; its first m become the gradient of what
            was pushed.
    """
    numbers = reached * size
    given = grad[:numbers]
    of_push = dot(given, kept)
    of_stay = dot(given, kept[size:])
    of_pop = dot(given, kept[2 * size :])
    padded[:size] = 0
    copy(padded[size : size + numbers], given)
    padded[size + numbers : PADDING * size + numbers] = 0
    _mixed(size, pop, stay, push, padded, grad[: min(used, reached + 1) * size])
    for i in range(size):
        padded[i] = push * padded[size + i]
    return of_push, of_stay, of_pop


@compiled
def _shares(actions: Actions, signals: Array, which: int) -> tuple[Any, Any, Any, Any]:
    """The probabilities of one stack's or list's actions, its own and then that of doing nothing.

    Of a stack's, which are two, the third is 0.
    """
    none = signals.dtype.type(0)
    own = signals[which * actions.each : (which + 1) * actions.each]
    return (
        own[0],
        own[1],
        own[2] if actions.lists else none,
        own[actions.each - 1] if actions.no_op else none,
    )


@compiled
def _stack_step(
    actions: Actions,
    cells: Cells,
    item: int,
    step: int,
    signals: Array,
    values: Array,
    reads: Array,
    padded: Array,
) -> None:
    size = values.shape[1]
    used = cells.used[item, 0]
    left = min(used + 1, actions.capacity)
    width = actions.depth * size
    for which in range(actions.number):
        push, pop, _, stay = _shares(actions, signals, which)
        pushed = values[which]
        _row_step(cells, item, step, 0, which, pushed, used, left, push, stay, pop, padded)
        out = reads[which * width : (which + 1) * width]
        there = min(left * size, width)
        copy(out[:there], cells.held[item, 0, which])
        out[there:] = EMPTY
    cells.used[item, 0] = left


@compiled
def _first(cells: Cells, item: int, row: int, which: int, size: int, out: Array) -> None:
    """Set out, [m], to the first cell of a row."""
    if cells.used[item, row]:
        copy(out, cells.held[item, row, which])
    else:
        out[:] = EMPTY


@compiled
def _list_step(
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
    size = values.shape[1]
    used_left, used_right = cells.used[item, 0], cells.used[item, 1]
    more_left = min(used_left + 1, actions.capacity)
    more_right = min(used_right + 1, actions.capacity)
    first_left, first_right = spare[:size], spare[size : 2 * size]
    for which in range(actions.number):
        insert, left, right, stay = _shares(actions, signals, which)
        head = cells.head[item, which * size : (which + 1) * size]
        _first(cells, item, 0, which, size, first_left)
        _first(cells, item, 1, which, size, first_right)
        _row_step(
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
        _row_step(
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
    _list_read(actions, cells, item, size, reads)


@compiled
def _list_read(actions: Actions, cells: Cells, item: int, size: int, reads: Array) -> None:
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
        _list_step(actions, cells, item, step, signals, values, reads, padded, spare)
    else:
        _stack_step(actions, cells, item, step, signals, values, reads, padded)


@compiled
def _stack_adjoint(
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
    size = grad_values.shape[1]
    used = min(cells.used_first[item, 0] + step, actions.capacity)
    left = min(used + 1, actions.capacity)
    reached = min(left, actions.depth + later)
    width = actions.depth * size
    for which in range(actions.number):
        push, pop, _, stay = _shares(actions, signals, which)
        grad = grad_cells[0, which]
        near = grad[: min(left, actions.depth) * size]
        add_scaled(near, near.dtype.type(1), grad_reads[which * width : (which + 1) * width])
        kept = _kept_of(cells, item, step, 0, which)
        of_push, of_stay, of_pop = _row_adjoint(
            kept, size, used, reached, push, stay, pop, grad, padded
        )
        out = grad_signals[which * actions.each : (which + 1) * actions.each]
        out[0], out[1] = of_push, of_pop
        if actions.no_op:
            out[2] = of_stay
        copy(grad_values[which], padded)


@compiled
def _list_adjoint(
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
    size = grad_values.shape[1]
    used_left = min(cells.used_first[item, 0] + step, actions.capacity)
    used_right = min(cells.used_first[item, 1] + step, actions.capacity)
    reached_left = min(used_left + 1, actions.capacity, actions.depth + later)
    reached_right = min(used_right + 1, actions.capacity, actions.depth + later)
    one = grad_reads.dtype.type(1)
    _list_read_adjoint(actions, size, reached_left, reached_right, grad_reads, grad_cells)
    for which in range(actions.number):
        insert, left, right, stay = _shares(actions, signals, which)
        head = grad_head[which * size : (which + 1) * size]
        start = which * actions.depth * size
        add_scaled(head, one, grad_reads[start : start + size])
        kept_left = _kept_of(cells, item, step, 0, which)
        kept_right = _kept_of(cells, item, step, 1, which)
        grad_left, grad_right = grad_cells[0, which], grad_cells[1, which]
        push_left, stay_left, pop_left = _row_adjoint(
            kept_left,
            size,
            used_left,
            reached_left,
            insert + right,
            stay,
            left,
            grad_left,
            padded,
        )
        # What was pushed on both sides is the old head.
        before = grad_values[which]
        copy(before, padded)
        push_right, stay_right, pop_right = _row_adjoint(
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
def _list_read_adjoint(
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
        _list_adjoint(
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
        _stack_adjoint(
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


@compiled
def forget_empty(cells: Cells, item: int, size: int) -> None:
    """Leave out the cells of size m at the end of each row that are empty, within rounding."""
    nearly = np.finfo(cells.held.dtype).eps
    for row in range(cells.used.shape[1]):
        used = cells.used[item, row]
        while used and _is_empty(cells.held[item, row], used - 1, size, nearly):
            used -= 1
        cells.used[item, row] = used


@compiled
def _is_empty(row: Array, cell: int, size: int, nearly: float) -> bool:
    """Whether a cell is empty in all of the stacks or lists, [count, room * m], side by side."""
    for which in range(row.shape[0]):
        for i in range(cell * size, (cell + 1) * size):
            # A NaN is not empty.
            if not abs(row[which, i] - EMPTY) <= nearly:
                return False
    return True
