"""What answers: a model in arrays, or one in torch, behind the same names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt

from stacktrans.settings.model_config import ModelConfig
from stacktrans.tasks.alphabets import Ids, Mask

if TYPE_CHECKING:
    from stacktrans.memory import Memory, Reading

Numbers = npt.NDArray[Any]
"""Floating-point numbers in the precision of a model."""


class Said(NamedTuple):
    """What was said to one string.

    Attributes:
        symbols: [n] outputs; -1 where numbers overflow.
        logs: [n] the logarithms of their probabilities; empty if they were not asked for.
        lacking: why nothing was said, by a machine that has no rule; None otherwise.
    """

    symbols: Ids
    logs: Numbers
    lacking: str | None = None


class Question(NamedTuple):
    """A string that is read, and what is asked.

    Attributes:
        ids: [n] what is given.
        asked: [n] where it is asked what comes next; None for everywhere.
        limit: how many symbols may be said after what is given, each of which is read before the
            next; what comes after the last of them is asked, too. -1 for none.
    """

    ids: Ids
    asked: Mask | None = None
    limit: int = -1

    @property
    def where(self) -> Mask:
        """[n] where it is asked."""
        return np.ones(len(self.ids), np.bool_) if self.asked is None else self.asked


class Marks(NamedTuple):
    """How outputs are read again, and which of them end what is said.

    Attributes:
        first_target: the id, as an input, of output 0.
        end: the output that ends what is said, without being part of it; None for none.
        last: the output that is the last of what is said; None for none.
    """

    first_target: int = 0
    end: int | None = None
    last: int | None = None

    @property
    def ending(self) -> list[int]:
        """Outputs that nothing is said after, one of overflowing numbers included."""
        return [-1, *(mark for mark in (self.end, self.last) if mark is not None)]


NO_MARKS = Marks()
"""For what reads nothing that it has said."""


class StepTaken(NamedTuple):
    """What went on in a step of one string.

    Attributes:
        logits: [outputs].
        signals: [signals].
        pushed: [pushes, m] the vectors pushed.
        reading: what the memory holds after it.
    """

    logits: Numbers
    signals: Numbers
    pushed: Numbers
    reading: Reading


class Run(Protocol):
    """A run over B strings, from call to call."""

    def hidden(self, ids: Ids) -> Numbers:
        """The controller's outputs over the next T steps, [B, T, H], with the ids [B, T].

        Raises:
            IndexError: there is no such id.
            ValueError: they are not of B strings.
        """

    def choose(self, items: Ids) -> None:
        """Go on with other strings, each from where one of these is, by their indices."""


class Predictor(Protocol):
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

    def made_hard(self, hard: bool) -> Self:
        """The same where signals are made 0 or 1, or not."""

    def start(self, batch_size: int) -> Run:
        """A run over B strings; of a model without buffers."""

    def read_out(self, hidden: Numbers) -> Numbers:
        """Logits [..., outputs] from the controller's outputs [..., H]."""

    def answers(
        self, questions: Sequence[Question], marks: Marks = NO_MARKS, logs: bool = True
    ) -> list[Said]:
        """What a model without buffers says to strings, in their order.

        Args:
            questions: what is read and asked.
            marks: how outputs are read again, and which of them are the last.
            logs: whether the probabilities are asked for.
        """

    def written(self, sources: Sequence[Ids], logs: bool = True) -> list[Said]:
        """What a buffered model says to strings: as many symbols to each as it has.

        Args:
            sources: ids of what is read.
            logs: whether the probabilities are asked for.
        """

    def follow(self, ids: Ids, contents: bool = True) -> Iterable[StepTaken]:
        """A model's way through one string, step by step.

        Args:
            ids: what is read.
            contents: whether readings have all that the memory holds, which takes time and room
                by the square of the steps; without, they may lack it.
        """


def log_softmax(logits: Numbers) -> Numbers:
    """The logarithms of probabilities, [..., n], by logits; NaN where numbers overflow."""
    with np.errstate(all="ignore"):
        lower = logits - logits.max(axis=-1, keepdims=True)
        found: Numbers = lower - np.log(np.exp(lower).sum(axis=-1, keepdims=True))
    return found


def likeliest(logits: Numbers) -> tuple[Ids, Numbers]:
    """The most probable outputs [...] and the logarithms of their probabilities, of [..., n].

    Where numbers overflow the output is -1, and the logarithm NaN.
    """
    logs = log_softmax(logits)
    chosen = logits.argmax(axis=-1)
    share = np.take_along_axis(logs, chosen[..., None], axis=-1)[..., 0]
    return np.where(np.isfinite(share), chosen, -1), share
