"""What answers: a model in arrays, or one in torch, behind the same names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt

from stacktrans.common.ragged import Ragged, Together, joined, starts_of
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


@dataclass(frozen=True, eq=False, slots=True)
class Questions(Together[Question]):
    """What is read of n strings, and asked, in few arrays.

    Attributes:
        ids: what is given, a row to each string.
        asked: where it is asked what comes next, likewise; None for everywhere.
        limits: [n] as `Question.limit`.
    """

    ids: Ragged
    asked: Ragged | None
    limits: Ids

    @classmethod
    def of(cls, questions: Sequence[Question]) -> Questions:
        """The same; those that are in few arrays already are given back."""
        if isinstance(questions, cls):
            return questions
        everywhere = all(each.asked is None for each in questions)
        return cls(
            Ragged.of([each.ids for each in questions]),
            None if everywhere else Ragged.of([each.where for each in questions]),
            np.array([each.limit for each in questions], np.int64),
        )

    @classmethod
    def everywhere(cls, strings: Sequence[Ids]) -> Questions:
        """What comes after each symbol of some strings is asked, and no more."""
        return cls(Ragged.of(strings), None, np.full(len(strings), -1))

    @property
    def counts(self) -> Ids:
        """[n] of how many of the symbols given it is asked what comes next."""
        if self.asked is None:
            return self.ids.lengths
        before: Ids = starts_of(self.asked.values)[self.asked.starts]
        return np.diff(before)

    def __len__(self) -> int:
        return len(self.ids)

    def _item(self, index: int) -> Question:
        asked = None if self.asked is None else self.asked[index]
        return Question(self.ids[index], asked, int(self.limits[index]))

    def _part(self, part: slice) -> Questions:
        asked = None if self.asked is None else self.asked[part]
        return Questions(self.ids[part], asked, self.limits[part])

    def chosen(self, order: Ids) -> Questions:
        """Some of them, in another order, by their indices."""
        asked = None if self.asked is None else self.asked.chosen(order)
        return Questions(self.ids.chosen(order), asked, self.limits[order])


_NO_LOGS: Numbers = np.empty(0)


@dataclass(frozen=True, eq=False, slots=True)
class SaidTogether(Together[Said]):
    """What was said to n strings, in few arrays.

    Attributes:
        symbols: outputs, a row to each string; -1 where numbers overflow.
        logs: the logarithms of their probabilities; None if they were not asked for.
    """

    symbols: Ragged
    logs: Ragged | None

    @classmethod
    def of(cls, symbols: Ids, logs: Numbers | None, starts: Ids) -> SaidTogether:
        """What is in arrays, with where that to each string starts, and the last ends."""
        return cls(Ragged(symbols, starts), None if logs is None else Ragged(logs, starts))

    def __len__(self) -> int:
        return len(self.symbols)

    def _item(self, index: int) -> Said:
        return Said(self.symbols[index], _NO_LOGS if self.logs is None else self.logs[index])

    def _part(self, part: slice) -> SaidTogether:
        return SaidTogether(self.symbols[part], None if self.logs is None else self.logs[part])

    def chosen(self, order: Ids) -> SaidTogether:
        """The same to some of the strings, in another order, by their indices."""
        logs = None if self.logs is None else self.logs.chosen(order)
        return SaidTogether(self.symbols.chosen(order), logs)

    def cut(self, lengths: Ids) -> SaidTogether:
        """The first so many symbols of each, [n]."""
        logs = None if self.logs is None else self.logs.cut(lengths)
        return SaidTogether(self.symbols.cut(lengths), logs)


def said_to_all(parts: Sequence[SaidTogether]) -> SaidTogether:
    """What was said to the strings of each part, one after another."""
    logs = [part.logs for part in parts if part.logs is not None]
    return SaidTogether(joined([part.symbols for part in parts]), joined(logs) if logs else None)


def symbols_of(said: Sequence[Said]) -> Ragged | None:
    """The symbols that were said to each string; None if a machine lacked them for one."""
    if isinstance(said, SaidTogether):
        return said.symbols
    if any(each.lacking for each in said):
        return None
    return Ragged.of([each.symbols for each in said])


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
    ) -> Sequence[Said]:
        """What a model without buffers says to strings, in their order.

        Args:
            questions: what is read and asked.
            marks: how outputs are read again, and which of them are the last.
            logs: whether the probabilities are asked for.
        """

    def written(self, sources: Sequence[Ids], logs: bool = True) -> Sequence[Said]:
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
