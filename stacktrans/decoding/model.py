"""The protocol of everything that can be run: a network, by its definition or compiled; a machine.

A model has a state for each batch of strings. It is advanced by symbols, and gives logits.
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
    """What B strings read from an input buffer: a weighted mean of two consecutive symbols each.

    Attributes:
        ids: [B] the first symbols.
        next_ids: [B] the second symbols.
        next_share: [B] the weights of the second; those of the first are 1 less these.
    """

    ids: Ids
    next_ids: Ids
    next_share: Numbers


class Buffers(Protocol):
    """An input buffer that is read from, and an output buffer that is written to."""

    @property
    def steps_per_symbol(self) -> int:
        """How many steps are taken for each symbol of the input."""

    @property
    def extra_steps(self) -> int:
        """How many further steps are taken."""

    @property
    def output_skip(self) -> int:
        """How much of what is written is dropped."""


class State(Protocol):
    """B strings on their way through a model.

    Attributes:
        signals: [B, signals] of the last step; of a model with buffers, the last two are the
            strengths of reading on and of writing.
    """

    signals: Numbers


class Model(Protocol):
    """What can be run.

    Attributes:
        failure: why there is no answer where logits are not numbers.
        certain: whether each output has the probability 1.
    """

    failure: ClassVar[str]
    certain: ClassVar[bool]

    @property
    def threads(self) -> int:
        """How many batches are run at the same time."""

    @property
    def buffers(self) -> Buffers | None:
        """Its buffers, if it has any."""

    def start(self, batch: int, steps: int = 0) -> Any:
        """The state of B strings before their first symbol, with room for some steps."""

    def advance(self, state: Any, ids: Ids | SoftInput, requested: Mask | None = None) -> Numbers:
        """Logits after each of the next T symbols, [n, outputs].

        Args:
            state: changed in place.
            ids: [B, T] symbols; of a model with buffers those of one step, and the id after the
                last stands for no input.
            asked: [B, T] of which the logits are asked for, string by string; None for all.

        Raises:
            IndexError: there is no such id.
        """

    def select(self, state: Any, items: Ids) -> Any:
        """The state of other strings, each from where one of these is, by their indices.

        It takes the place of the state that is given.
        """


class Predictor(Model, Protocol):
    """A model that is only run."""

    @property
    def config(self) -> ModelConfig:
        """The shape of the model."""

    @property
    def memory(self) -> Memory[Any]:
        """Its memory."""

    @property
    def hard(self) -> bool:
        """Whether signals are made 0 or 1."""

    def discretised(self, hard: bool = True) -> Self:
        """The same where signals are made 0 or 1, or not."""

    def pushed_vectors(self, state: Any) -> Numbers:
        """The vectors that the first string pushed in the last step, [pushes, m]."""

    def snapshot(self, state: Any, contents: bool = True) -> MemorySnapshot:
        """What the memory of the first string holds, of a state with room for all its steps.

        Args:
            state: of the model.
            contents: whether all that it holds is asked for, which takes time by the number of
                steps; without, it may be left out.
        """
