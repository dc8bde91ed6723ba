"""Compiled steps of a row of cells, forward and backward, and what steps of all rows need.

A step sets each cell of a row to the weighted mean of the cell before it, itself and the cell
after it. All three are read from one padded row, which begins with the vector pushed and ends with
empty cells. So a step is one loop that vectorizes, whatever the size m of a cell; the backward pass
is this loop with the weights of the first and the last cell exchanged.

The steps in `stacks` and `lists` take arrays from the memory before their loop over items, and as
few as possible within it, since references to arrays are counted.
"""

from typing import Any

from stacktrans.kernels import Array
from stacktrans.kernels.compiling import compiled
from stacktrans.kernels.elementwise import dot
from stacktrans.memory.actions.cells import PADDING, ActionSpec

_NUMBERS_AT_ONCE = 2048
"""The numbers of a row that are updated together, so few that they stay in the nearest cache."""


@compiled
def probabilities(spec: ActionSpec, signals: Array, index: int, k: int) -> tuple[Any, ...]:
    """The probabilities of the four actions of a list, or of push, pop, none and no-op of a stack.

    `k` is the index of the list or stack. A tape is a list without insertions.
    """
    none = signals.dtype.type(0)
    first = k * spec.actions
    return (
        none if spec.writes else signals[index, first],
        signals[index, first + 1],
        signals[index, first + 2] if spec.lists else none,
        signals[index, first + spec.actions - 1] if spec.no_op else none,
    )


@compiled
def saved_at(saved_starts: Array, step: int, rows: int) -> tuple[int, int]:
    """The start of what a step saves, and how many numbers it saves of each row; 0 if nothing."""
    if saved_starts.shape[0] == 1:
        return 0, 0
    first = saved_starts[step]
    return first, (saved_starts[step + 1] - first) // rows


@compiled
def cells_in_use(spec: ActionSpec, initial_used: int, step: int, later: int) -> tuple[int, int]:
    """The number of cells of a row in use before a step, and of those after it with a gradient."""
    used = min(initial_used + step, spec.capacity)
    return used, min(used + 1, spec.capacity, spec.depth + later)


@compiled
def row_step(
    cells: Array,
    size: int,
    used: int,
    after: int,
    shares: Any,
    empty: float,
    padded: Array,
    saved: Array,
) -> None:
    """Take a step on one row of cells.

    Args:
        cells: [room * m] changed in place.
        size: m.
        used: the number of cells in use before the step.
        after: the number of cells in use after the step.
        shares: probabilities of pushing on the row, leaving it and popping it.
        empty: the number in empty cells.
        padded: the vector pushed, [m], and then workspace.
        saved: set for the backward pass; may be empty.
    """
    push, stay, pop = shares
    at_once = max(1, _NUMBERS_AT_ONCE // size) * size
    for start in range(0, after * size, at_once):
        count = min(at_once, after * size - start)
        filled = max(0, min(count + size, used * size - start))
        part, middle, last = cells[start:], padded[size:], padded[2 * size :]
        for i in range(filled):
            middle[i] = part[i]
        for i in range(filled, count + size):
            middle[i] = empty
        saved_part = saved[start:]
        for i in range(min(saved_part.shape[0], count + 2 * size)):
            saved_part[i] = padded[i]
        for i in range(count):
            part[i] = push * padded[i] + stay * middle[i] + pop * last[i]
        next_padded = padded[count:]
        for i in range(size):
            padded[i] = next_padded[i]


@compiled
def row_backward(
    saved: Array, size: int, used: int, reached: int, shares: Any, grad: Array, padded: Array
) -> tuple[Any, Any, Any]:
    """Take a step on one row backwards, and return the gradients of the three shares.

    `grad`, [room * m], is the gradient of the first `reached` cells after the step, and becomes
    that of the cells before it; the first m of `padded` become that of the vector pushed.
    """
    push, stay, pop = shares
    numbers = reached * size
    grad_after, middle, last = grad[:numbers], padded[size:], padded[2 * size :]
    grad_push = dot(grad_after, saved)
    grad_stay = dot(grad_after, saved[size:])
    grad_pop = dot(grad_after, saved[2 * size :])
    for i in range(size):
        padded[i] = 0
    for i in range(numbers):
        middle[i] = grad_after[i]
    padding = middle[numbers:]
    for i in range((PADDING - 1) * size):
        padding[i] = 0
    for i in range(min(used, reached + 1) * size):
        grad[i] = pop * padded[i] + stay * middle[i] + push * last[i]
    for i in range(size):
        padded[i] = push * middle[i]
    return grad_push, grad_stay, grad_pop


@compiled
def read_cell(
    cells: Array, used: int, cell: int, empty: float, reads: Array, item: int, read: int
) -> None:
    """Set a read of [B, reads, m] to a cell of a row."""
    size = reads.shape[2]
    for i in range(size):
        reads[item, read, i] = cells[cell * size + i] if cell < used else empty
