"""What a memory brings so that compiled code runs it: a kernel, with arrays, and steps over them.

The arrays are a NamedTuple going forwards, and another going backwards. What differs between
memories are the functions at the end: each memory has its own for its types of arrays, and numba
chooses by the type. A step is numbered within its string, and has a place among the N steps of all
strings, which stand one string after the other.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np

from stacktrans.kernels.compiling import Array, Function, Overloaded, overloaded
from stacktrans.kernels.steps import rounded, sigmoid_signals, sigmoid_signals_backward


class Store(Protocol):
    """The memory of a batch: the arrays that compiled code works on."""

    def forward(self, part: slice, places: slice) -> Any:
        """The arrays of a part of the batch, of which some of the N steps are its own."""

    def backward(self, part: slice, places: slice) -> Any:
        """The same for going backwards; what they refer to is not changed."""

    def with_room(self, steps: int) -> Self:
        """The memory with room for some steps more."""

    def after(self, steps: int) -> Self:
        """The memory after some steps."""

    def chosen(self, items: Array) -> Self:
        """The memory of some of the batch, by their indices; one may be there several times.

        It takes the place of this one, which is not used any more.
        """

    @property
    def held(self) -> Self | None:
        """What it holds; None for a memory that is not carried from piece to piece."""


class Room(NamedTuple):
    """What a memory needs room for.

    Attributes:
        batch: number of strings B.
        columns: size m of a pushed vector.
        dtype: of all numbers.
        steps: T of each string.
        places: N, how many steps all strings take together, of which all that going backwards
            needs is kept; None to keep nothing.
        held: what the memory begins with, which stays as it is; None for nothing.
        values: [B, T, pushes * m] what is pushed, if that is known already.
    """

    batch: int
    columns: int
    dtype: np.dtype[Any]
    steps: int
    places: int | None = None
    held: Any = None
    values: Array | None = None


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

    def check_held(self, held: Any, batch: int, columns: int) -> None:
        """Raise `ValueError` unless what a batch holds can be what this memory begins with."""
        if held is not None:
            raise ValueError("what is carried is of another memory")


def implements(function: Callable[..., Any], *kinds: type) -> Callable[[Function], Function]:
    """Declare what one of the functions below does for some types of arrays."""
    assert isinstance(function, Overloaded)

    def declared(own: Function) -> Function:
        function.own.update(dict.fromkeys(kinds, own))
        return own

    return declared


@overloaded
def set_signals(memory: Any, sums: Array, bias: Array, signals: Array) -> None:
    """Set the memory's signals, [signals], by the sums under them; by sigmoids, if not declared."""
    sigmoid_signals(sums, bias, signals)


@overloaded
def signals_backward(memory: Any, signals: Array, grad: Array) -> None:
    """Turn the gradients of the memory's signals, in place, into those of the sums under them."""
    sigmoid_signals_backward(signals, grad)


@overloaded
def make_hard(memory: Any, signals: Array) -> None:
    """Make the memory's signals 0 or 1; each is rounded, if not declared."""
    rounded(signals)


@overloaded
def pushed(memory: Any, item: int, step: int, place: int) -> Array:
    """What is pushed at a step, [pushes, m]: to be set going forwards, known going backwards."""
    raise NotImplementedError


@overloaded
def pushed_gradient(memory: Any, item: int, step: int, place: int) -> Array:
    """The gradients of what was pushed, [pushes, m], after the `step_backward` of the step."""
    raise NotImplementedError


@overloaded
def step_forward(
    memory: Any, item: int, step: int, place: int, later: int, signals: Array, reads: Array
) -> None:
    """Do what signals say with what is `pushed`, then read.

    Args:
        memory: changed in place.
        item: which of the batch.
        step: which of its steps.
        place: of the step.
        later: how many steps of this item come after it.
        signals: [signals or more].
        reads: [reads * m] set.
    """
    raise NotImplementedError


@overloaded
def step_backward(
    memory: Any,
    item: int,
    step: int,
    place: int,
    later: int,
    signals: Array,
    grad_reads: Array,
    grad_signals: Array,
) -> None:
    """Carry gradients back over a step; arguments as for `step_forward`.

    Args:
        grad_reads: [reads * m or more] of what was read.
        grad_signals: [signals or more] set.
    """
    raise NotImplementedError
