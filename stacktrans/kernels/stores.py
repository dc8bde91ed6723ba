"""What a memory brings so that compiled code runs it."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import torch
from torch import Tensor

from stacktrans.kernels.compiling import Array

# Room is made for at least so much.
_LEAST_ROOM = 64


def room_for(used: int, needed: int) -> int:
    """How much room to make: as much again as is used, so that on average a thing moves once."""
    return max(2 * used, needed, _LEAST_ROOM)


class Held(Protocol):
    """What a memory holds, to go on from."""

    def without(self, items: Array) -> Self:
        """The same, but that of some of the batch, [B] bool, is empty."""


@dataclass(frozen=True, slots=True, eq=False)
class Carried:
    """What B strings carry on, as constants.

    Attributes:
        units: [L, states, B, H] the state of the controller.
        read: [B, reads * m] what was read last.
        held: what the memory holds; None for one that holds nothing.
        new: [B] which of them begin anew, and carry nothing.
    """

    units: Tensor
    read: Tensor
    held: Held | None
    new: Tensor

    def restarted(self, items: Tensor) -> "Carried":
        """The same, but some of them, [B] bool, begin anew: with the initial state of units."""
        return replace(self, new=self.new | items)


class Store(Protocol):
    """The memory of a batch: the arrays that compiled code works on."""

    def forward(self, part: slice, places: slice) -> Any:
        """The arrays of a part of the batch, as `drive.forward` takes them.

        Args:
            part: of the batch.
            places: which of the N steps are its own.
        """

    def backward(self, part: slice, places: slice) -> Any:
        """The same as `drive.backward` takes them; what they refer to is not changed."""

    def with_room(self, steps: int) -> Self:
        """The memory with room for some steps more."""

    def after(self, steps: int) -> Self:
        """The memory after some steps."""

    @property
    def held(self) -> Held | None:
        """What it holds; None for a memory that does not go on from piece to piece."""


class Room(NamedTuple):
    """What there is to be room for in a memory.

    Attributes:
        batch: number of strings B.
        columns: size m of a pushed vector.
        dtype: of all numbers.
        steps: T of each string.
        places: how many steps all strings take together, of which all that going backwards
            needs is kept; None to keep nothing.
        held: what the memory begins with, which stays as it is; None for nothing.
        values: [B, T, pushes * m] what is pushed, if that is known already.
    """

    batch: int
    columns: int
    dtype: torch.dtype
    steps: int
    places: int | None = None
    held: Any = None
    values: Tensor | None = None


class Kernel(ABC):
    """The compiled steps of a kind of memory.

    The arrays of its stores are a NamedTuple, by whose type numba chooses what a step does: the
    functions of `drive` that are implemented for it.

    Attributes:
        nothing: what is read of the empty memory, in every place.
    """

    nothing: ClassVar[float] = 0.0

    @property
    @abstractmethod
    def signals(self) -> int:
        """How many numbers it takes at each step."""

    @property
    @abstractmethod
    def pushes(self) -> int:
        """How many vectors it takes at each step."""

    @property
    @abstractmethod
    def reads(self) -> int:
        """How many vectors are read at each step."""

    @abstractmethod
    def store(self, room: Room) -> Store:
        """A memory with room for steps."""

    def check_held(self, held: Any, batch: int, columns: int) -> None:
        """Raise `ValueError` unless what a batch holds can be what this memory begins with."""
        if held is not None:
            raise ValueError("what is carried is of another memory")
