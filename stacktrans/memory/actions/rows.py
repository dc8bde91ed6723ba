"""Rows of cells, which a step mixes by the probabilities of what can be done to them.

The cells of a stack, and those on each side of a list's head (joulin2015, section 3), are a row:
after a step, each cell is the mean of what stood before it, in its place and after it. All three
are found in one array, the row with what is pushed on it before its first cell and empty cells
after its last, so that a step is one loop, which vectorises, whatever the size m of a cell; and
its adjoint is the same loop with the shares of the first and the last exchanged.

What the adjoint needs is this array as it was before each step, and it is kept; but not what
lies deeper than any read of a later step can reach: a cell comes nearer by one at each step.
"""

from typing import Any, NamedTuple

import numpy as np

from stacktrans.kernels.arithmetic import copy, dot
from stacktrans.kernels.compiling import Array, compiled
from stacktrans.memory.actions.base import EMPTY

PADDING = 3
"""How many cells the array with a row of cells has more: one before them, and two after."""


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
def kept_of(cells: Cells, item: int, step: int, row: int, which: int) -> Array:
    """The part of what is kept of a step that is of one row."""
    first = cells.kept_starts[step]
    each = (cells.kept_starts[step + 1] - first) // (cells.held.shape[1] * cells.held.shape[2])
    first += (row * cells.held.shape[2] + which) * each
    return cells.kept[item, first : first + each]


@compiled
def row_step(
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
        kept = kept_of(cells, item, step, row, which)
        copy(kept[: min(kept.shape[0], (used + PADDING) * size)], padded)
    _mixed(size, push, stay, pop, padded, held[: left * size])


@compiled
def row_adjoint(
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
