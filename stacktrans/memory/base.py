"""The interface of differentiable memories (signals, state, step), and snapshots for traces."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Self, TypeVar

from stacktrans.common.ends import Ends
from stacktrans.common.errors import UsageError
from stacktrans.common.registry import LazyModule

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from stacktrans.kernels import Array
    from stacktrans.kernels.kernel import Store, StoreSizes
    from stacktrans.settings.model_config import ModelConfig
else:
    torch = LazyModule("torch")


class MemoryState:
    """The state of a memory after some steps of B strings; never changed in place.

    The first dimension of all its tensors is B, by which beam search selects strings.
    """


State = TypeVar("State", bound=MemoryState)


class RowContents(NamedTuple):
    """The rows of a stack, queue or deque, bottom (or front) first.

    Attributes:
        origins: [n] the step, from 0, that pushed each.
        strengths: [n] the strength of each.
        stack_symbols: [n] the name of each row's stack symbol; empty for a network's memory.
    """

    origins: Tensor | Array
    strengths: Tensor | Array
    stack_symbols: Sequence[str] = ()


class CellContents(NamedTuple):
    """The cells of a stack, bottom first, or of a list, from left to right.

    Attributes:
        values: [n, m].
        head: the index of the cell at the head of a list; None for a stack.
        stack_symbols: [n] the name of each cell's stack symbol; empty for a network's memory.
    """

    values: Tensor | Array
    head: int | None = None
    stack_symbols: Sequence[str] = ()


@dataclass(frozen=True)
class MemorySnapshot:
    """The contents of the first memory of a batch, and what was read of it last, for traces.

    Attributes:
        total_strength: the sum of all strengths.
        read_weights: for each vector read, the weight [steps] of what was pushed at each step.
        read_cells: the cells [n, m] that are read of each stack or list, by its name.
        stack_symbols: for each vector read from the memory of a machine, its stack symbol.
        rows: of a memory with strengths, the rows of each queue, stack or deque, by its name.
        cells: of a memory without strengths, all cells of each stack, list or tape, by its name.
    """

    total_strength: float = 0.0
    read_weights: Mapping[str, Tensor | Array] = field(default_factory=dict)
    read_cells: Mapping[str, Tensor | Array] = field(default_factory=dict)
    stack_symbols: Mapping[str, str] = field(default_factory=dict)
    rows: Mapping[str, RowContents] = field(default_factory=dict)
    cells: Mapping[str, CellContents] = field(default_factory=dict)


class Memory(ABC, Generic[State]):
    """A differentiable data structure that a controller operates by continuous signals.

    It has no parameters. A step maps a state, one number for each of `signal_names` and the vectors
    to push to the next state and the vectors read.

    Attributes:
        name: its name in settings.
        takes_actions: whether signals are probabilities of actions, which add up to 1 for each of
            `push_names`.
        carries: whether its state can be `carried` from segment to segment of a long sequence.
        empty: the number in empty cells, and in the vectors read of the empty memory.
        count: the number of stacks or lists side by side, all with the same signals and reads.
        capacity: the most cells of a row; None for no limit.
    """

    name: ClassVar[str]
    takes_actions: ClassVar[bool] = False
    carries: ClassVar[bool] = False
    empty: ClassVar[float] = 0.0
    count: int = 1
    capacity: int | None = None

    @classmethod
    def from_config(cls, config: ModelConfig) -> Self:
        """The memory of a model, made with the settings that its constructor takes."""
        return cls(**config.memory.arguments)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    @property
    @abstractmethod
    def signal_names(self) -> tuple[str, ...]:
        """The names of the signals, the first word of each being the operation."""

    @property
    @abstractmethod
    def push_names(self) -> tuple[str, ...]:
        """The name of the place that each vector is pushed to."""

    @property
    def read_names(self) -> tuple[str, ...]:
        """The name of the place that each vector is read from; by default, `push_names`."""
        return self.push_names

    @property
    def parts(self) -> Sequence[Memory[Any]]:
        """The memories side by side that it consists of, in the order of signals and reads."""
        return [self]

    @property
    def ends(self) -> Ends | None:
        """The end at which each signal pushes, pops or moves; None if signals do anything else."""
        return None

    @property
    def pushes(self) -> int:
        """The number of vectors pushed at each step."""
        return len(self.push_names)

    @property
    @abstractmethod
    def reads(self) -> int:
        """The number of vectors read at each step."""

    def signals(self, sums: Tensor) -> Tensor:
        """Signals in [0, 1], by their pre-activations [B, len(signal_names)]."""
        return torch.sigmoid(sums)

    def discretize(self, signals: Tensor) -> Tensor:
        """Signals [B, len(signal_names)] rounded to 0 or 1."""
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
        """The vectors read of the empty memory, [B, reads, m]; by default, they are `empty`."""
        return like.new_full((batch_size, self.reads, value_size), self.empty)

    def check_can_carry(self) -> None:
        """Raise `UsageError` unless the state can be carried from segment to segment."""
        if not self.carries:
            raise UsageError(
                f"memory {self.name}: its state can't be carried from one segment of a stream to "
                "the next"
            )

    def carried(self, state: State) -> State:
        """The state from which the next segment of a sequence continues; by default, all of it."""
        return state

    @abstractmethod
    def step(self, state: State, signals: Tensor, values: Tensor) -> tuple[State, Tensor]:
        """Pop, push and move as the signals say, then read.

        Args:
            state: the memory before the step.
            signals: [B, len(signal_names)].
            values: [B, pushes, m] the vectors to push.

        Returns:
            The memory after the step, and the vectors read, [B, reads, m].
        """

    def __call__(self, state: State, signals: Tensor, values: Tensor) -> tuple[State, Tensor]:
        """Take a step."""
        return self.step(state, signals, values)

    def snapshot(self, state: State) -> MemorySnapshot:
        """The contents of the first string's memory, for traces; none by default."""
        return MemorySnapshot()

    def snapshot_of(self, store: Any, reads: Array, steps: int) -> MemorySnapshot:
        """The contents of the first memory in a store of compiled code; none by default.

        Args:
            store: made by `store` with room for all steps.
            reads: [reads * m] what was read last.
            steps: the number of steps taken.
        """
        return MemorySnapshot()

    def store(self, sizes: StoreSizes) -> Store:
        """The memory in compiled code, with room for steps.

        Raises:
            NotImplementedError: it has no compiled steps; torch runs it.
            ValueError: the contents are those of another memory or of another batch.
        """
        raise NotImplementedError

    @property
    def is_compiled(self) -> bool:
        """Whether its class has a `store` of its own: a subclass may compute something else."""
        return "store" in vars(type(self))
