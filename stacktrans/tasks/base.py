"""What a task is: pairs of strings over two alphabets, and their exact answers."""

import functools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import BeforeValidator, ConfigDict, Field

from stacktrans.common.errors import StacktransError, UsageError
from stacktrans.common.randomness import Purpose
from stacktrans.common.randomness import generator as generator_of
from stacktrans.common.reading import DEEPEST, LONGEST
from stacktrans.tasks.alphabets import FEATURE, SYMBOL, UNSCORED_MARK, Alphabet, Ids
from stacktrans.tasks.layout import Layout, OutputBound, Pair


def no_truth_values(value: Any) -> Any:
    """A value, or several, before it is read as numbers; raises `ValueError` for true and false."""
    several = value if isinstance(value, list | tuple) else [value]
    if any(isinstance(each, bool) for each in several):
        raise ValueError("expected numbers" if several is value else "expected a number")
    return value


@dataclass(frozen=True)
class NormalLengths:
    """Lengths in symbols from a normal distribution, rounded towards 0 and cut to the range."""

    __pydantic_config__ = ConfigDict(extra="forbid")
    mean: Annotated[float, BeforeValidator(no_truth_values), Field(ge=0, le=LONGEST)]
    deviation: Annotated[float, BeforeValidator(no_truth_values), Field(ge=0, le=LONGEST)]


@dataclass(frozen=True)
class DepthLimit:
    """Derivations of a grammar, all equally likely whose trees, words included, are no deeper."""

    __pydantic_config__ = ConfigDict(extra="forbid")
    depth: Annotated[int, BeforeValidator(no_truth_values), Field(ge=1, le=DEEPEST)]


LengthLaw = Literal["uniform", "task"] | NormalLengths | DepthLimit
"""How strings are spread over a range of lengths: over those that the task has uniformly, as its
own distribution has them within the range, or as the classes above say."""


class Lengths(NamedTuple):
    """A range of source lengths in symbols, both ends included."""

    shortest: int
    longest: int

    def __str__(self) -> str:
        return f"{self.shortest}:{self.longest}"


def checked_lengths(shortest: int, longest: int, said: str) -> Lengths:
    """A range that was asked for; raises `UsageError`, which begins with what was said."""
    if not 1 <= shortest <= longest <= LONGEST:
        raise UsageError(f"{said}: expected 1 <= shortest <= longest <= {LONGEST}")
    return Lengths(shortest, longest)


SAMPLED, SAMPLE = Lengths(1, 64), 200
"""What is looked at to know how long answers are: sources of these lengths, and so many."""


class NotASource(StacktransError):
    """A string over the right alphabet that the task gives no answer."""


class NoSuchLength(StacktransError):
    """The task has no string whose length lies in the range asked for."""


class NoSuchLaw(StacktransError):
    """The task has no strings that are spread like this."""


def mask_unscored(said: Sequence[str], scored: Iterable[bool]) -> list[str]:
    """What is said, with `UNSCORED_MARK` in the place of each symbol that is not scored."""
    return [symbol if known else UNSCORED_MARK for symbol, known in zip(said, scored, strict=True)]


class Task(ABC):
    """A string-to-string problem that can be sampled and solved exactly.

    Attributes:
        source: the alphabet of sources.
        target: the alphabet of targets.
        same_length: whether there is a target symbol for each source symbol (synchronous tasks).
        sampled: whether strings of a given range of lengths can be drawn.
        columns: the columns of a written pair.
        file_parameters: names of the parameters that are paths; empty if it reads no pairs.
        padded: whether outputs are synchronous although targets have other lengths than their
            sources, as in buffered models; both are filled up then.
        backwards: whether sources are read, and targets output, from the last symbol to the first;
            has no effect on synchronous tasks.
    """

    source: Alphabet
    target: Alphabet
    same_length: bool = False
    sampled: bool = True
    columns: tuple[str, ...] = ("source", "target")
    file_parameters: ClassVar[tuple[str, ...]] = ()
    padded: bool = False
    backwards: bool = False

    @functools.cached_property
    def layout(self) -> Layout:
        """How its pairs become what a model reads and says."""
        sizes = len(self.source), len(self.target)
        if self.same_length:
            return Layout.synchronous(*sizes)
        if self.padded:
            return Layout.padded(*sizes, self.steps, self.backwards)
        return Layout.joint(*sizes, lambda: self.steps, self.backwards)

    @property
    def steps(self) -> OutputBound:
        """How many steps the output of a target and its end takes, by a sample of pairs."""
        try:
            pairs = self.sample(np.random.default_rng(0), SAMPLED, SAMPLE, "uniform")
        except (NoSuchLength, NoSuchLaw):
            return OutputBound(2, 20)
        return OutputBound.for_pairs(
            np.array([(len(each.source), len(each.target)) for each in pairs])
        )

    def pair(self, source: Ids, target: Ids) -> Pair:
        """A source with its target, and which symbols of it are scored."""
        return Pair(source, target)

    def scored(self, source: Iterable[str]) -> Iterator[bool]:
        """Of each symbol of a source, as it comes, whether the one said for it is scored.

        For tasks with a target symbol for each source symbol. It depends only on what has come of
        the source; from where that is not the beginning of a source, everything counts as scored.
        """
        return (True for _ in source)

    @property
    def scores_all(self) -> bool:
        """Whether `scored` is sure to say so of every symbol."""
        return type(self).scored is Task.scored

    def encode_source(self, source: Sequence[str]) -> Ids:
        """The ids of a source that a model can read.

        Raises:
            UnknownSymbol: a symbol is not in the source alphabet.
            NotASource: it is empty, and only its symbols are read.
        """
        ids = self.source.encode(source)
        if not (len(ids) or len(self.layout.prompt(ids))):
            raise NotASource("the source is empty; expected at least one symbol")
        return ids

    def settings_from_files(self, seed: int, before: "Task | None" = None) -> dict[str, Any]:
        """The settings of the task that follow from its files; often none.

        Args:
            seed: the random seed of the run.
            before: the task of the model that the run starts from, whose symbols are kept.
        """
        return {}

    def known_symbols(self) -> frozenset[tuple[str, str]]:
        """The symbols and features that a model knows, each after the column that it stands in."""
        columns = {SYMBOL: "source", FEATURE: "features"}
        read = ((columns[role[0]], role[1]) for role in self.source.roles() if role[0] in columns)
        said = (("target", role[1]) for role in self.target.roles() if role[0] == SYMBOL)
        return frozenset([*read, *said])

    def held_out(self) -> dict[str, Sequence[Pair]]:
        """The sets of pairs that are not trained on, by their names; none if strings are drawn.

        The last is the one to test on.
        """
        return {}

    def lengths_within(self, law: DepthLimit) -> Lengths:
        """The lengths that derivations within a depth have; raises `NoSuchLaw`."""
        raise NoSuchLaw("a depth is for tasks with a grammar")

    def labelled(self, source: Sequence[str]) -> Pair | None:
        """A source with its exact answer; None if it has none."""
        try:
            answer = self.answer(source)
        except NotASource:
            return None
        # What can't be known is not scored, and so may be anything.
        target = [self.target.symbols[0] if symbol is None else symbol for symbol in answer]
        pair = self.pair(self.source.encode(source), self.target.encode(target))
        if None not in answer:
            return pair
        known = np.array([symbol is not None for symbol in answer])
        return pair._replace(scored=known if pair.scored is None else pair.scored & known)

    @abstractmethod
    def sample(
        self, generator: np.random.Generator, lengths: Lengths, count: int, law: LengthLaw
    ) -> list[Pair]:
        """Draw `count` pairs whose sources have lengths within a range, spread over it by a law.

        Raises:
            NoSuchLength: no source has a length within the range.
            NoSuchLaw: the task does not know this law.
        """

    @abstractmethod
    def answer(self, source: Sequence[str]) -> list[str | None]:
        """The exact target of a source (the oracle); None where it can't be known.

        Raises:
            UnknownSymbol: a symbol is not in the source alphabet.
            NotASource: the task gives this string no answer; the message says why.
        """


def held_out_pairs(task: Task, lengths: Lengths) -> list[Pair]:
    """The pairs of a task of files that it is tested on, of some lengths.

    Raises `NoSuchLength` if there is none.
    """
    *_, pairs = task.held_out().values()
    found = [pair for pair in pairs if lengths.shortest <= pair.length <= lengths.longest]
    if not found:
        raise NoSuchLength(f"no pair of the test set has a length in {lengths}")
    return found


def draw_lengths(
    generator: np.random.Generator, lengths: Lengths, count: int, law: LengthLaw, step: int = 1
) -> Ids:
    """Lengths, multiples of `step`, of strings; raises `NoSuchLength` and `NoSuchLaw`."""
    smallest, largest = -(-lengths.shortest // step), lengths.longest // step
    if smallest > largest:
        raise NoSuchLength(f"no length in {lengths} is a multiple of {step}")
    if isinstance(law, DepthLimit):
        raise NoSuchLaw("a depth is for tasks with a grammar")
    if isinstance(law, NormalLengths):
        drawn = generator.normal(law.mean, law.deviation, size=count).astype(np.int64)
        return np.clip(drawn // step, smallest, largest) * step
    # Both other laws are one: these lengths are drawn uniformly.
    drawn = generator.integers(smallest, largest, size=count, endpoint=True)
    return drawn * step


def draw_strings(
    generator: np.random.Generator,
    symbols: int,
    lengths: Lengths,
    count: int,
    law: LengthLaw,
    step: int = 1,
) -> list[Ids]:
    """Strings of ids under `symbols`, all equally likely; lengths and errors of `draw_lengths`."""
    drawn = draw_lengths(generator, lengths, count, law, step)
    strings = generator.integers(symbols, size=int(drawn.sum()))
    return np.split(strings, np.cumsum(drawn)[:-1])


PAIRS_PER_DRAW = 100
"""Pairs that are drawn at once, so that a longer list begins with the shorter one."""


def draw_pairs(
    task: Task, lengths: Lengths, count: int, seed: int, law: LengthLaw
) -> Iterator[Pair]:
    """Pairs of a task, to be written down; raises as `Task.sample` does."""
    for start in range(0, count, PAIRS_PER_DRAW):
        generator = generator_of(seed, Purpose.GENERATION, start)
        yield from task.sample(generator, lengths, PAIRS_PER_DRAW, law)[: count - start]
