"""Protocols of runnable models: states, buffers, and predictors whose memory can be inspected.

A model has a state for a batch of strings. Symbols advance the state and give logits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self

import numpy.typing as npt

from stacktrans.tasks.alphabets import Ids, Mask

if TYPE_CHECKING:
    from stacktrans.memory import Memory, MemorySnapshot
    from stacktrans.settings.model_config import ModelConfig

Numbers = npt.NDArray[Any]
"""Floating-point numbers in the precision of a model."""


class SoftInput(NamedTuple):
    """The reads of B strings from an input buffer: weighted means of two consecutive symbols.

    Attributes:
        ids: [B] the first symbols.
        next_ids: [B] the second symbols.
        next_share: [B] the weights of the second; those of the first are 1 less these.
    """

    ids: Ids
    next_ids: Ids
    next_share: Numbers


class Buffers(Protocol):
    """The input buffer that a model reads, and the output buffer that it writes (hao2018, 3.2)."""

    @property
    def steps_per_symbol(self) -> int:
        """The number of steps for each symbol of the input."""

    @property
    def extra_steps(self) -> int:
        """The number of further steps."""

    @property
    def output_skip(self) -> int:
        """The total strength of the first outputs, which are dropped."""


class Model(Protocol):
    """A model that is advanced step by step.

    Attributes:
        failure: the reason why there is no answer where logits are NaN.
        is_deterministic: whether each output has the probability 1.
    """

    failure: ClassVar[str]
    is_deterministic: ClassVar[bool]

    @property
    def outputs(self) -> int:
        """The number of different outputs."""

    @property
    def threads(self) -> int:
        """The number of batches that are run at the same time."""

    @property
    def buffers(self) -> Buffers | None:
        """Its buffers; None if it has none."""

    def start(self, batch: int, steps: int = 0) -> Any:
        """The initial state of B strings, with room for some steps; more room is made as needed.

        A state has the `signals` of the last step, [B, signals]; of a model with buffers, the last
        two are the strengths with which the input buffer is popped and the output buffer is
        written.
        """

    def advance(self, state: Any, ids: Ids | SoftInput, requested: Mask | None = None) -> Numbers:
        """Logits after each of the next T symbols, [n, outputs].

        Args:
            state: changed in place.
            ids: [B, T] symbols; for a model with buffers, what one step reads, where -1 or the id
                after the last stands for no input.
            requested: [B, T] which of the logits are returned, string by string; None for all.

        Raises:
            IndexError: an id is out of range.
        """

    def select(self, state: Any, items: Ids) -> Any:
        """The states of some strings, by their indices, which may repeat.

        The given state must not be used any more.
        """


class Discretizable(Model, Protocol):
    """A model that can be run with continuous or with discrete signals."""

    @property
    def hard(self) -> bool:
        """Whether signals are rounded to 0 or 1."""

    def discretized(self, hard: bool = True) -> Self:
        """The same weights with signals rounded to 0 or 1, or continuous."""


class Predictor(Discretizable, Protocol):
    """A trained model whose memory can be inspected."""

    @property
    def config(self) -> ModelConfig:
        """The configuration of the model."""

    @property
    def memory(self) -> Memory[Any]:
        """Its memory."""

    def pushed_vectors(self, state: Any) -> Numbers:
        """The vectors that the first string pushed in the last step, [pushes, m]."""

    def snapshot(self, state: Any) -> MemorySnapshot:
        """The contents of the first string's memory, and what was read of it last.

        Args:
            state: of the model, started with room for all its steps.
        """
