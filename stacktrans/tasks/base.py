"""The base class of tasks, which draw pairs and give exact answers; drawn and held-out pairs."""

import functools
import itertools
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator

from stacktrans.common.errors import StacktransError, UsageError, clipped
from stacktrans.common.randomness import Purpose, generator
from stacktrans.common.visible import visible_symbol
from stacktrans.tasks.alphabets import FEATURE, SYMBOL, UNKNOWN_SYMBOL, UNSCORED_MARK, Alphabet, Ids
from stacktrans.tasks.layout import Layout, OutputBound, Pair, is_fixed
from stacktrans.tasks.lengths import (
    DepthLimit,
    LengthDistribution,
    Lengths,
    NoSuchLaw,
    NoSuchLength,
)

SAMPLE_LENGTHS, SAMPLE_SIZE = Lengths(1, 64), 200
"""Lengths and number of the sources from which the length of answers is estimated."""


class NotASource(StacktransError):
    """A string over the source alphabet for which the task defines no answer."""


def mask_unscored(outputs: Sequence[str], scored: Iterable[bool]) -> list[str]:
    """Outputs, with `UNSCORED_MARK` instead of each symbol that is not scored."""
    pairs = zip(outputs, scored, strict=True)
    return [symbol if is_scored else UNSCORED_MARK for symbol, is_scored in pairs]


class Task(ABC):
    """A string-to-string problem that can be sampled and solved exactly.

    Attributes:
        source: the alphabet of sources.
        target: the alphabet of targets.
        same_length: whether there is a target symbol for each source symbol (synchronous tasks).
        sampled: whether strings of a given range of lengths can be drawn.
        positive: the target id of the label of the strings in a language, if each target is one of
            two labels; None for other targets.
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
    positive: int | None = None
    columns: tuple[str, ...] = ("source", "target")
    file_parameters: ClassVar[tuple[str, ...]] = ()
    padded: bool = False
    backwards: bool = False

    @functools.cached_property
    def layout(self) -> Layout:
        """How its pairs become input and output ids of a model."""
        sizes = len(self.source), len(self.target)
        if self.same_length:
            return Layout.synchronous(*sizes)
        if self.padded:
            return Layout.padded(*sizes, self.output_bound, self.backwards)
        labels = self.positive is not None
        return Layout.joint(*sizes, lambda: self.output_bound, self.backwards, labels)

    @property
    def output_bound(self) -> OutputBound:
        """A bound on the length of targets with their end, estimated from a sample of pairs."""
        lengths = self._sampled_lengths
        return OutputBound(2, 20) if lengths is None else OutputBound.for_pairs(lengths)

    @property
    def fixed_length(self) -> bool:
        """Whether targets are equally long, whatever the source, in a sample of pairs."""
        lengths = self._sampled_lengths
        return lengths is not None and is_fixed(lengths)

    @functools.cached_property
    def _sampled_lengths(self) -> Ids | None:
        """[n, 2] source and target lengths of a sample of pairs; None if none can be drawn."""
        try:
            pairs = self.sample(np.random.default_rng(0), SAMPLE_LENGTHS, SAMPLE_SIZE, "uniform")
        except (NoSuchLength, NoSuchLaw):
            return None
        return np.array([(len(pair.source), len(pair.target)) for pair in pairs])

    def pair(self, source: Ids, target: Ids) -> Pair:
        """The pair of a source and its target, with the mask of scored symbols."""
        return Pair(source, target)

    def scored(self, source: Iterable[str]) -> Iterator[bool]:
        """Whether the output for each symbol of a source is scored, computed online.

        For synchronous tasks. A value depends only on the symbols up to its own. After a prefix
        that no source has, everything counts as scored.
        """
        return (True for _ in source)

    @property
    def scores_all(self) -> bool:
        """Whether `scored` is true of every symbol of every source."""
        return type(self).scored is Task.scored

    def encode_source(self, source: Sequence[str]) -> Ids:
        """Encode a source as ids.

        Raises:
            UnknownSymbol: a symbol is not in the source alphabet.
            NotASource: the source is empty, and the prompt would be, too.
        """
        ids = self.source.encode(source)
        if not (len(ids) or len(self.layout.prompt(ids))):
            raise NotASource("the source is empty; expected at least one symbol")
        return ids

    def settings_from_files(self, seed: int, before: "Task | None" = None) -> dict[str, Any]:
        """Settings of the task that are determined by its files; empty for most tasks.

        Args:
            seed: the random seed of the run.
            before: the task of the model that the run starts from, whose symbols are kept.
        """
        return {}

    def known_symbols(self) -> frozenset[tuple[str, str]]:
        """The symbols and features in the alphabets, as pairs of column and symbol."""
        names = {SYMBOL: "source", FEATURE: "features"}
        sources = [(names[role[0]], role[1]) for role in self.source.roles() if role[0] in names]
        targets = [("target", role[1]) for role in self.target.roles() if role[0] == SYMBOL]
        return frozenset(sources + targets)

    def held_out(self) -> dict[str, Sequence[Pair]]:
        """Development and test set by name, the test set last; empty if strings are drawn."""
        return {}

    def lengths_within(self, law: DepthLimit) -> Lengths:
        """The range of source lengths of derivations up to a depth; raises `NoSuchLaw`."""
        raise NoSuchLaw("depth: only for tasks with a grammar")

    def exact_pair(self, source: Sequence[str]) -> Pair | None:
        """The pair of a source and its exact answer; None if the task defines none."""
        try:
            answer = self.answer(source)
        except NotASource:
            return None
        # Undetermined symbols are not scored, so any symbol can stand for them.
        target = [self.target.symbols[0] if symbol is None else symbol for symbol in answer]
        pair = self.pair(self.source.encode(source), self.target.encode(target))
        if None not in answer:
            return pair
        known = np.array([symbol is not None for symbol in answer])
        return pair._replace(scored=known if pair.scored is None else pair.scored & known)

    @abstractmethod
    def sample(
        self, rng: Generator, lengths: Lengths, count: int, law: LengthDistribution
    ) -> list[Pair]:
        """Draw `count` pairs whose source lengths lie within a range and follow a distribution.

        Raises:
            NoSuchLength: no source has a length within the range.
            NoSuchLaw: the task does not support this distribution.
        """

    @abstractmethod
    def answer(self, source: Sequence[str]) -> list[str | None]:
        """The exact target of a source (the oracle); None for symbols that are undetermined.

        Raises:
            UnknownSymbol: a symbol is not in the source alphabet.
            NotASource: the task defines no answer to this string; the message says why.
        """

    def known_answer(self, source: Sequence[str], answer: Sequence[str]) -> list[str | None]:
        """The target that an answer to a source is compared with; raises as `Task.answer`.

        It is the exact one or, of several in the user's files, the answer if it is one of them.
        """
        return self.answer(source)


def held_out_pairs(task: Task, lengths: Lengths) -> list[Pair]:
    """The pairs of the test set of a task with files, within a range of lengths.

    Raises `NoSuchLength` if there is none.
    """
    *_, test_set = task.held_out().values()
    pairs = [pair for pair in test_set if lengths.includes(pair.length)]
    if not pairs:
        raise NoSuchLength(f"no pair of the test set has a length of {lengths}")
    return pairs


def source_key(task: Task, pair: Pair) -> Hashable:
    """A key that all pairs of one source share; None if a symbol is not in the vocabulary.

    Sources that differ in unknown symbols have the same ids, but they are written differently.
    """
    if not pair.in_vocabulary:
        return None
    if task.source.unknown_ids.isdisjoint(pair.source.tolist()):
        return pair.source.tobytes()
    fields = zip(task.columns, pair.written or (), strict=False)
    return tuple(written for column, written in fields if column != "target") or None


def random_subset(
    task: Task, pairs: Sequence[Pair], most: int | None, seed: int, key: int = 0
) -> list[Pair]:
    """All pairs, or some of them: a random choice that is always the same, in their order.

    Args:
        task: their task.
        pairs: the pairs.
        most: how many are drawn, if there are more; other targets of their sources, which are right
            as well, are added. None for all.
        seed: the random seed.
        key: distinguishes several choices.
    """
    if most is None or len(pairs) <= most:
        return [*pairs]
    drawn = {*generator(seed, Purpose.EXAMPLES, key).permutation(len(pairs))[:most].tolist()}
    targets: dict[Hashable, set[bytes]] = {}
    for pair in map(pairs.__getitem__, drawn):
        targets.setdefault(source_key(task, pair), set()).add(pair.target.tobytes())
    targets.pop(None, None)
    chosen = []
    for index, pair in enumerate(pairs):
        known = targets.get(source_key(task, pair), set())
        if index in drawn or (known and pair.target.tobytes() not in known):
            known.add(pair.target.tobytes())
            chosen.append(pair)
    return chosen


PAIRS_PER_DRAW = 100
"""Pairs per random generator, so that a longer list begins with the shorter one."""


def draw_pairs(
    task: Task, lengths: Lengths, count: int, seed: int, law: LengthDistribution
) -> Iterator[Pair]:
    """Draw reproducible pairs of a task, such as for a file; raises as `Task.sample` does."""
    for start in range(0, count, PAIRS_PER_DRAW):
        rng = generator(seed, Purpose.GENERATION, start)
        yield from task.sample(rng, lengths, PAIRS_PER_DRAW, law)[: count - start]


def check_alphabets(task: Task, other: Task, name: str, unknown: bool = True) -> None:
    """Raise `UsageError` if another task, of some name or that of a model, has other alphabets.

    Args:
        task: the task.
        other: the other task.
        name: of the other task or its model.
        unknown: whether the other task needs an unknown symbol if the task has one.
    """
    for side in ("source", "target"):
        expected, given = getattr(task, side), getattr(other, side)
        # A label is a single symbol, which is written in the same way as a word.
        labels = side == "target" and task.positive is not None
        if given.words != expected.words and not labels:
            shown = ["words" if each.words else "characters" for each in (given, expected)]
        elif given.symbols != expected.symbols and (
            unknown or (*given.symbols, UNKNOWN_SYMBOL) != expected.symbols
        ):
            shown = _distinct(given.symbols, expected.symbols)
        else:
            continue
        raise UsageError("{}: the {} symbols are {}; expected {}".format(name, side, *shown))


def _distinct(*alphabets: Sequence[str]) -> list[str]:
    """Different alphabets as text: the beginning of each, or what follows their common one."""
    texts = [[visible_symbol(symbol) for symbol in symbols] for symbols in alphabets]
    shown = [clipped(" ".join(text)) for text in texts]
    if len({*shown}) == len(shown):
        return shown
    pairs = zip(*texts, strict=False)
    common = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
    return [clipped(" ".join(["…", *text[common:]])) for text in texts]
