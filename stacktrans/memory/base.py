"""What every differentiable memory offers to a transducer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Self, TypeVar

from stacktrans.common.ends import Ends
from stacktrans.common.errors import UsageError
from stacktrans.common.registry import LazyModule

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from stacktrans.kernels import Array
    from stacktrans.kernels.kernel import Kernel
    from stacktrans.settings.model_config import ModelConfig
else:
    torch = LazyModule("torch")


class MemoryState:
    """What a memory holds after some steps, for a batch of B strings; never changed in place.

    The first dimension of every tensor in it is B: a beam search chooses strings by it.
    """


State = TypeVar("State", bound=MemoryState)


class RowContents(NamedTuple):
    """The rows that a part of a memory holds, bottom (or front) first.

    Attributes:
        origins: [n] the step, from 0, that pushed each.
        strengths: [n] of each.
    """

    origins: Tensor | Array
    strengths: Tensor | Array


class CellContents(NamedTuple):
    """The cells of a part of a memory, bottom first, or from left to right.

    Attributes:
        values: [n, m].
        head: which of them, from 0, is at the head; None where there is no head.
    """

    values: Tensor | Array
    head: int | None = None


@dataclass(frozen=True)
class MemorySnapshot:
    """The contents of the first memory of a batch, and what was read of it last, for traces.

    Attributes:
        total_strength: the sum of all strengths.
        read_weights: for each vector read, the weight [steps] of what was pushed at each step.
        read_cells: the cells [n, m] that are read of each stack or list, by its name.
        rows: of a memory with strengths, the rows of each queue, stack or deque, by its name.
        cells: of a memory with actions, all cells of each stack or list, by its name.
    """

    total_strength: float = 0.0
    read_weights: Mapping[str, Tensor | Array] = field(default_factory=dict)
    read_cells: Mapping[str, Tensor | Array] = field(default_factory=dict)
    rows: Mapping[str, RowContents] = field(default_factory=dict)
    cells: Mapping[str, CellContents] = field(default_factory=dict)


class Memory(ABC, Generic[State]):
    """A data structure that is pushed to, popped and read by degrees.

    It has no parameters. At each step it takes one number for each of `signal_names`, and vectors
    to push, and gives back its next state and the vectors read.

    Attributes:
        name: how settings call it.
        takes_actions: whether its signals are probabilities of actions, which add up to 1 for each
            of `push_names`.
        carries: whether it can be `carried` from piece to piece of a long sequence.
        count: how many of the same stand side by side, with equal shares of all that there is.
        capacity: how many cells of a row are kept; None for all.
    """

    name: ClassVar[str]
    takes_actions: ClassVar[bool] = False
    carries: ClassVar[bool] = False
    count: int = 1
    capacity: int | None = None

    @classmethod
    def from_config(cls, config: ModelConfig) -> Self:
        """The memory of a model, which is made with settings of its own."""
        return cls(**config.memory.own)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    @property
    @abstractmethod
    def signal_names(self) -> tuple[str, ...]:
        """What the controller gives at each step; the first word of each says what is done."""

    @property
    @abstractmethod
    def push_names(self) -> tuple[str, ...]:
        """What each vector that it takes at a step is pushed to."""

    @property
    def ends(self) -> Ends | None:
        """What each signal does where it is 1; None if it is no push, pop or move of cells."""
        return None

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

    def discretise(self, signals: Tensor) -> Tensor:
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

    def check_carries(self) -> None:
        """Raise `UsageError` unless it can be carried from piece to piece."""
        if not self.carries:
            raise UsageError(f"memory {self.name} can't be run piece by piece")

    def carried(self, state: State) -> State:
        """What it holds, as constants to continue from."""
        raise NotImplementedError

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

    def __call__(self, state: State, signals: Tensor, values: Tensor) -> tuple[State, Tensor]:
        """A step."""
        return self.step(state, signals, values)

    def snapshot(self, state: State) -> MemorySnapshot:
        """What the first string's memory holds, as traces show it; nothing unless it says so."""
        return MemorySnapshot()

    def snapshot_of(
        self, store: Any, reads: Array, steps: int, contents: bool = True
    ) -> MemorySnapshot:
        """The same of a store of compiled code, after some steps.

        Args:
            store: what `Kernel.store` gave, with room for all steps.
            reads: [reads * m] what was read last.
            steps: how many there were.
            contents: whether all that it holds is asked for: `rows` and `lines`.
        """
        return MemorySnapshot()

    def kernel(self) -> Kernel | None:
        """The compiled code of its steps; None for a memory that is run in torch."""
        return None

    def compiled(self) -> Kernel | None:
        """The same, unless it is inherited: what another class computes may be something else."""
        own: Callable[[Any], Kernel] | None = vars(type(self)).get("kernel")
        return own(self) if own else None
