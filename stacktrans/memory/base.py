"""What every differentiable memory offers to a transducer."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Generic, Self, TypeVar

import torch
from torch import Tensor

from stacktrans.common.errors import UsageError

if TYPE_CHECKING:
    from stacktrans.settings.config import ModelConfig


class MemoryState:
    """What a memory holds after some steps, for a batch of B strings; never changed in place."""


VECTOR_SETTINGS = ("memory_size", "value_nonlinearity")
"""Settings of a model that say what is pushed, whatever its memory."""
State = TypeVar("State", bound=MemoryState)


class Memory(ABC, Generic[State]):
    """A data structure that is pushed to, popped and read by degrees.

    A memory has no parameters. At each step it takes one number for each of `signal_names`,
    and vectors to push, and gives back its next state and the vectors read.

    Attributes:
        name: how settings call it.
        settings: of the model's configuration, what it is made with beside what all memories
            have, in the order of its arguments.
    """

    name: ClassVar[str]
    settings: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def from_config(cls, config: "ModelConfig") -> Self:
        """The memory of a model, which is made with the settings that concern it."""
        return cls(*(getattr(config, setting) for setting in cls.settings))

    @property
    @abstractmethod
    def signal_names(self) -> tuple[str, ...]:
        """What the controller gives at each step; the first word of each says what is done."""

    @property
    @abstractmethod
    def push_names(self) -> tuple[str, ...]:
        """What each vector that it takes at a step is pushed to."""

    @property
    def pushes(self) -> int:
        """How many vectors it takes at each step."""
        return len(self.push_names)

    @property
    @abstractmethod
    def reads(self) -> int:
        """How many vectors are read at each step."""

    def signals(self, sums: Tensor) -> Tensor:
        """What the controller's sums [B, len(signal_names)] mean, each in [0, 1]."""
        return torch.sigmoid(sums)

    def hard(self, signals: Tensor) -> Tensor:
        """Signals [B, len(signal_names)] made 0 or 1."""
        return torch.round(signals)

    @abstractmethod
    def initial(self, batch_size: int, value_size: int, like: Tensor) -> State:
        """The empty memory.

        Args:
            batch_size: number of strings B.
            value_size: size m of a pushed vector.
            like: a tensor of the same dtype, on the same device.
        """

    def initial_reads(self, batch_size: int, value_size: int, like: Tensor) -> Tensor:
        """What is read of the empty memory: [B, reads, m], zeros unless it says otherwise."""
        return like.new_zeros(batch_size, self.reads, value_size)

    def carried(self, state: State, new: Tensor) -> State:
        """What a memory holds, as constants to go on from; some of the strings have it empty.

        Args:
            state: the memory.
            new: [B] which strings' is empty.

        Raises:
            UsageError: this memory can't be carried from piece to piece.
        """
        raise UsageError(
            f"memory {self.name}: only stacks and lists with actions go on from piece to piece"
        )

    @abstractmethod
    def step(self, state: State, signals: Tensor, values: Tensor) -> tuple[State, Tensor]:
        """Do what the signals say, then read.

        Args:
            state: the memory before the step.
            signals: [B, len(signal_names)].
            values: [B, pushes, m] the vectors to push.

        Returns:
            The memory after the step, and the vectors read, [B, reads, m].
        """
