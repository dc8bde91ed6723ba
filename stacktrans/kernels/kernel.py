"""What a memory brings so that compiled code runs it: a kernel, with arrays, and steps over them.

The arrays are a NamedTuple going forwards, and another going backwards. What differs between
memories are the functions at the end: each memory has its own for its types of arrays, and numba
chooses by the type. A step is numbered within its string, and has a place among the N steps of all
strings, which stand one string after the other.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np

from stacktrans.kernels import Array
from stacktrans.kernels.compiling import by_memory
from stacktrans.kernels.steps import BatchStep, rounded, sigmoid_signals, sigmoid_signals_backward

_LEAST_ROOM = 64


def room_for(used: int, needed: int) -> int:
    """Room to make: twice what is used, so that on average each row or cell moves once."""
    return max(2 * used, needed, _LEAST_ROOM)


def select_items(array: Array, items: Array) -> Array:
    """Items of an array [B, ...], by their indices, which may repeat.

    If they are B, the array is changed in place, so that only those that change are copied.
    """
    if len(items) != len(array):
        return array[items]
    changed = np.flatnonzero(items != np.arange(len(array)))
    array[changed] = array[items[changed]]
    return array


class Store(Protocol):
    """The memory of a batch: the arrays that compiled code works on."""

    def forward(self, part: slice, indices: slice) -> Any:
        """The arrays of a part of the batch, of which some of the N steps are its own."""

    def backward(self, part: slice, indices: slice) -> Any:
        """The same for going backwards; what they refer to is not changed."""

    def with_room(self, steps: int) -> Self:
        """The memory with room for some steps more."""

    def after(self, steps: int) -> Self:
        """The memory after some steps."""

    def select(self, items: Array) -> Self:
        """The memory of some of the batch, by their indices; one may be there several times.

        It takes the place of this one, which is not used any more.
        """

    @property
    def contents(self) -> Self | None:
        """What it holds; None for a memory that is not carried from piece to piece."""


class Room(NamedTuple):
    """What a memory needs room for.

    Attributes:
        batch: number of strings B.
        columns: size m of a pushed vector.
        dtype: of all numbers.
        steps: T of each string.
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


@dataclass(frozen=True)
class Kernel(ABC):
    """The compiled steps of a kind of memory.

    Attributes:
        signals: how many numbers it takes at each step.
        pushes: how many vectors it takes at each step.
        reads: how many vectors are read at each step.
        nothing: what is read of the empty memory, in every place.
    """

    signals: int
    pushes: int
    reads: int
    nothing: ClassVar[float] = 0.0

    @abstractmethod
    def store(self, room: Room) -> Store:
        """A memory with room for steps."""

    def check_contents(self, contents: Any, batch: int, columns: int) -> None:
        """Raise `ValueError` unless what a batch holds can be what this memory begins with."""
        if contents is not None:
            raise ValueError("what is carried is of another memory")


@by_memory
def set_signals(
    memory: Any, count: int, indices: Array, sums: Array, bias: Array, signals: Array
) -> None:
    """Set the memory's signals at a step by the sums under them; by sigmoids, if not declared.

    Args:
        memory: as it was before the step.
        count: how many signals it has, the first ones.
        indices: [B] of the step.
        sums: [B, count or more].
        bias: [count or more] added to the sums.
        signals: [N, count or more] set.
    """
    sigmoid_signals(0, count, indices, sums, bias, signals)


@by_memory
def signals_backward(memory: Any, count: int, indices: Array, signals: Array, grad: Array) -> None:
    """Turn the gradients of the memory's signals, in place, into those of the sums under them."""
    sigmoid_signals_backward(0, count, indices, signals, grad)


@by_memory
def make_hard(memory: Any, count: int, indices: Array, signals: Array) -> None:
    """Make the memory's signals 0 or 1; each is rounded, if not declared."""
    rounded(0, count, indices, signals)


@by_memory
def step_forward(memory: Any, step: BatchStep, signals: Array, values: Array, reads: Array) -> None:
    """Do what signals say, then read.

    Args:
        memory: changed in place.
        step: the step.
        signals: [N, signals or more] at all steps.
        values: [B, pushes, m] to push; to be copied.
        reads: [B, reads, m] set.
    """
    raise NotImplementedError


@by_memory
def step_backward(
    memory: Any,
    step: BatchStep,
    signals: Array,
    values: Array,
    grad_reads: Array,
    grad_signals: Array,
    grad_values: Array,
) -> None:
    """Carry gradients back over a step.

    Args:
        memory: changed in place.
        step: the step.
        signals: [N, signals or more] at all steps.
        values: [B, pushes, m] set to what was pushed.
        grad_reads: [B, reads, m] of what was read.
        grad_signals: [B, signals or more] set.
        grad_values: [B, pushes, m] set.
    """
    raise NotImplementedError
