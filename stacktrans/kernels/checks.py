"""What compiled code takes on trust: it reads and writes wherever sizes and ids say.

Checked once a call, before the steps. A model's own sizes agree; what it is given may not.
"""

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from stacktrans.kernels.actions import Actions
from stacktrans.kernels.carrying import Carried
from stacktrans.kernels.compiling import Array
from stacktrans.kernels.ends import Ends
from stacktrans.kernels.sizes import Reading, Sizes


def signals_of(memory: Ends | Actions) -> int:
    """How many signals a kind of memory takes at each step."""
    if isinstance(memory, Ends):
        return len(memory.pops) + len(memory.pushes)
    return memory.number * memory.each


def check_steps(starts: Array, batch: int) -> None:
    """Raise `ValueError` unless B items take steps, none more than one before it.

    Args:
        starts: [B + 1] where the steps of each item start, and N.
        batch: B.
    """
    taken = np.diff(starts)
    if len(taken) != batch or (taken < 0).any() or (np.diff(taken) > 0).any():
        raise ValueError(f"expected the steps of {batch} items, the longest first, not {taken}")


def check_ids(ids: Array, count: int) -> None:
    """Raise `IndexError` unless all ids are under a count."""
    if len(ids) and not 0 <= ids.min() <= ids.max() < count:
        raise IndexError(f"ids are {ids.min()} to {ids.max()}; expected 0 to {count - 1}")


def check_reading(reading: Reading, sizes: Sizes, starts: Array) -> None:
    """Check what the steps read.

    Args:
        reading: of the whole batch.
        sizes: kinds and sizes.
        starts: [B + 1] where the steps of each item start, and N.

    Raises:
        IndexError: there are no sums over an id.
        ValueError: there are too few ids or sums, or too many.
    """
    ids, given = reading.ids, np.diff(reading.starts)
    # With buffers, two more ids an item than there are inputs.
    expected = int(reading.starts[-1]) + (2 * sizes.batch if sizes.buffered else 0)
    in_step = sizes.buffered or np.array_equal(reading.starts, starts)
    if not in_step or len(given) != sizes.batch or (given < 0).any() or len(ids) != expected:
        raise ValueError(f"the {len(ids)} ids are not those of the steps")
    count = len(reading.projected)
    sums = sizes.layers * sizes.cell.gates * sizes.size
    _check_shape("sums over the ids", reading.projected.shape, (count, sums))
    check_ids(ids, count)


def check_weights(
    sizes: Sizes,
    layers: Sequence[tuple[Tensor, Tensor]],
    heads: Tensor,
    bias: Tensor,
    initial: Tensor,
) -> None:
    """Raise `ValueError` unless weights are of the right shapes.

    Args:
        sizes: kinds and sizes.
        layers: `below` and `hidden` of each layer.
        heads: [signals + pushes * m, H].
        bias: [signals + pushes * m].
        initial: [L, states, B, H] the state before the first step.
    """
    signals = signals_of(sizes.memory) + (2 if sizes.buffered else 0)
    _check_shape("signals", (sizes.signals,), (signals,))
    rows = sizes.cell.gates * sizes.size
    for index, (below, hidden) in enumerate(layers):
        width = sizes.size if index else sizes.read
        _check_shape(f"below of layer {index}", below.shape, (rows, width))
        _check_shape(f"hidden of layer {index}", hidden.shape, (rows, sizes.size))
    _check_shape("weights of signals and values", heads.shape, (sizes.heads, sizes.size))
    _check_shape("biases of signals and values", bias.shape, (sizes.heads,))
    state = (sizes.layers, sizes.cell.states, sizes.batch, sizes.size)
    _check_shape("initial state", initial.shape, state)


def check_carried(carried: Carried, sizes: Sizes) -> None:
    """Raise `ValueError` unless what B strings carry is of the same memory and of these sizes.

    The state of the units is known to be: it takes the place of the initial one.
    """
    _check_shape("read", carried.read.shape, (sizes.batch, sizes.read))
    memory, cells = sizes.memory, carried.cells
    if isinstance(memory, Actions) and cells is not None:
        rows = 1 + memory.lists
        _check_shape("cells", cells.held.shape[:3], (sizes.batch, rows, memory.number))
        numbers = memory.lists * memory.number * sizes.columns
        _check_shape("heads of lists", cells.head.shape, (sizes.batch, numbers))
    elif isinstance(memory, Actions) or cells is not None:
        raise ValueError("what is carried is of another memory")


def check_memory(ends: Ends, signals: Tensor, values: Tensor) -> None:
    """Raise `ValueError` unless a memory alone is given as much as it takes.

    Args:
        ends: its kind.
        signals: [B, T, signals].
        values: [B, T, pushes * m].
    """
    _check_shape("signals", signals.shape, (*values.shape[:2], signals_of(ends)))
    if values.shape[2] % len(ends.pushes):
        raise ValueError(f"values: {values.shape[2]} numbers for {len(ends.pushes)} vectors")


def _check_shape(what: str, given: Sequence[int], expected: tuple[int, ...]) -> None:
    if tuple(given) != expected:
        raise ValueError(f"{what}: expected the shape {expected}, not {tuple(given)}")
