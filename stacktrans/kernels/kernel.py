"""What a memory implements for compiled code: its `Store` of arrays, and step functions.

The arrays are a NamedTuple for the forward pass and another for the backward pass. A memory
implements the step functions at the end of this file for its types of arrays, and numba chooses by
the type. A step has a number within its string and an index among the N steps of all strings, which
stand one string after another.
"""

from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from stacktrans.kernels import Array
from stacktrans.kernels.compiling import memory_function
from stacktrans.kernels.steps import (
    BatchStep,
    round_signals,
    sigmoid_signals,
    sigmoid_signals_backward,
)

_LEAST_ROOM = 64


def room_for(used: int, needed: int) -> int:
    """Room to make: twice what is used, so that on average each row or cell moves once."""
    return max(2 * used, needed, _LEAST_ROOM)


def select_items(array: Array, items: Array) -> Array:
    """Items of an array [B, ...], by their indices, which may repeat.

    If there are B indices, the array is changed in place, and only items that change are copied.
    """
    if len(items) != len(array):
        return array[items]
    changed = np.flatnonzero(items != np.arange(len(array)))
    array[changed] = array[items[changed]]
    return array


class Store(Protocol):
    """The arrays of a memory for a batch, on which compiled code works."""

    def forward(self, part: slice, indices: slice) -> Any:
        """The arrays of the forward pass for a part of the batch and its steps among the N."""

    def backward(self, part: slice, indices: slice) -> Any:
        """The arrays of the backward pass for a part of the batch; the memory is not changed."""

    def with_room(self, steps: int, taken: int) -> Self:
        """The memory with room for more steps; `taken` steps were taken since the last call."""

    def select(self, items: Array) -> Self:
        """The memory of some items of the batch, by their indices, which may repeat.

        The original must not be used afterwards, since its arrays may be changed.
        """

    @property
    def contents(self) -> Self | None:
        """What the memory holds; None for one that is not carried from segment to segment."""


class StoreSizes(NamedTuple):
    """What a `Store` is made for: the sizes of its arrays, and the contents that it begins with.

    Attributes:
        batch: number of strings B.
        columns: size m of a pushed vector.
        dtype: of all numbers.
        steps: T, the most that any string takes.
        total_steps: N, of all strings together, to keep what the backward pass needs; None to
            keep nothing.
        contents: what the memory begins with, which stays as it is; None for nothing.
    """

    batch: int
    columns: int
    dtype: np.dtype[Any]
    steps: int
    total_steps: int | None = None
    contents: Any = None


@memory_function
def set_signals(
    memory: Any, count: int, indices: Array, sums: Array, bias: Array, signals: Array
) -> None:
    """Set the memory's signals at a step from their pre-activations; by default, by sigmoids.

    Args:
        memory: as it was before the step.
        count: the number of its signals, which come first.
        indices: [B] indices of the step among all N.
        sums: [B, count or more].
        bias: [count or more] added to the sums.
        signals: [N, count or more] set.
    """
    sigmoid_signals(0, count, indices, sums, bias, signals)


@memory_function
def signals_backward(memory: Any, count: int, indices: Array, signals: Array, grad: Array) -> None:
    """Turn the gradients of the memory's signals, in place, into those of the pre-activations."""
    sigmoid_signals_backward(0, count, indices, signals, grad)


@memory_function
def discretize(memory: Any, count: int, indices: Array, signals: Array) -> None:
    """Make the memory's signals 0 or 1; by default, each is rounded."""
    round_signals(0, count, indices, signals)


@memory_function
def step_forward(memory: Any, step: BatchStep, signals: Array, values: Array, reads: Array) -> None:
    """Operate the memory by its signals, then read it.

    Args:
        memory: changed in place.
        step: the step.
        signals: [N, signals or more] at all steps.
        values: [B, pushes, m] to push, which are copied.
        reads: [B, reads, m] set.
    """
    raise NotImplementedError


@memory_function
def step_backward(
    memory: Any,
    step: BatchStep,
    signals: Array,
    values: Array,
    grad_reads: Array,
    grad_signals: Array,
    grad_values: Array,
) -> None:
    """Propagate gradients back through a step.

    Args:
        memory: changed in place.
        step: the step.
        signals: [N, signals or more] at all steps.
        values: [B, pushes, m] set to the values that were pushed.
        grad_reads: [B, reads, m] gradients of the vectors that were read.
        grad_signals: [B, signals or more] set.
        grad_values: [B, pushes, m] set.
    """
    raise NotImplementedError
