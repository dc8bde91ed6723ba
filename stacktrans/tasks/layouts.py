"""From symbols to what a model reads: pairs of strings, and how batches are laid out."""

from abc import ABC, abstractmethod
from bisect import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, TypeVar

import numpy as np

from stacktrans.tasks.alphabets import Alphabet, Ids, Mask, Role

Symbols = TypeVar("Symbols", Ids, list[int], list[str])
SEQUENCES_IN_A_ROW = 200
"""How many sequences of a stream are measured one after another (joulin2015, section 5)."""
LONGEST_PRODUCT = 100_000
"""The most symbols that are waited for as a product of counts, unless sources are that long."""
ENDING: Role = ("end",)


class Pair(NamedTuple):
    """A source and its target, as indices into the task's source and target symbols.

    Attributes:
        source: [k].
        target: [l].
        scored: [l] which symbols of the target are scored; None for all.
        size: the length that the task counts; None for that of the source.
        written: what stands in the task's columns in a file; None if it comes from none.
        known: whether a model can read it; if not, `UNSAYABLE` stands for the symbols that are not
            in the task's alphabets, no answer is asked for, and it counts as wrong.
    """

    source: Ids
    target: Ids
    scored: Mask | None = None
    size: int | None = None
    written: tuple[str, ...] | None = None
    known: bool = True

    @property
    def length(self) -> int:
        """The length by which ranges of lengths choose."""
        return len(self.source) if self.size is None else self.size


@dataclass(frozen=True, slots=True)
class Batch:
    """B examples, padded on the right to T steps.

    Attributes:
        inputs: [B, T] ids of what the model reads.
        targets: [B, T] ids of what it should say; 0 where nothing is scored.
        mask: [B, T] True at the scored positions.
        lengths: [B] steps of each before the padding.
    """

    inputs: Ids
    targets: Ids
    mask: Mask
    lengths: list[int]


class Layout(ABC):
    """How pairs become what a model reads and what it should say.

    Attributes:
        inputs: number of input ids.
        outputs: number of output ids; the first are the target symbols.
    """

    inputs: int
    outputs: int

    def roles(self, source: Alphabet, target: Alphabet) -> tuple[list[Role], list[Role]]:
        """What each input id and each output id stands for, with these alphabets."""
        return source.roles(), target.roles()

    def in_turn(self, symbols: Symbols) -> Symbols:
        """A string in the order in which a model reads or says it; or, of that, the string."""
        return symbols

    @abstractmethod
    def steps(self, pair: Pair) -> int:
        """How many symbols the model reads of a pair."""

    @abstractmethod
    def example(self, pairs: Sequence[Pair], everything: bool) -> tuple[Ids, Ids, Mask]:
        """Inputs, targets and where they are scored, of pairs in a row: [T] each; see `joined`."""

    def rows(self, pairs: Sequence[Pair]) -> list[list[int]]:
        """Which pairs, by their indices, are measured one after another: each alone."""
        return [[index] for index in range(len(pairs))]

    def batch(self, pairs: Sequence[Pair]) -> Batch:
        """Lay pairs out side by side."""
        return self.joined([[pair] for pair in pairs])

    def joined(self, rows: Sequence[Sequence[Pair]], everything: bool = False) -> Batch:
        """Lay rows of pairs out side by side, each of pairs that follow one another.

        Args:
            rows: of one pair each, unless the layout is a stream.
            everything: whether every symbol of a stream is scored, and not only what can be known.
        """
        examples = [self.example(pairs, everything) for pairs in rows]
        lengths = [len(inputs) for inputs, _, _ in examples]
        shape = (len(rows), max(lengths))
        inputs, targets = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        mask = np.zeros(shape, dtype=np.bool_)
        for row, (length, (read, said, scored)) in enumerate(zip(lengths, examples, strict=True)):
            inputs[row, :length] = read
            targets[row, :length] = said * scored
            mask[row, :length] = scored
        return Batch(inputs, targets, mask, lengths)


class InStep(Layout):
    """The n-th symbol is said when the n-th is read, or, by buffered models, after all are read.

    It does not read what it has said.
    """

    @abstractmethod
    def read(self, source: Ids) -> Ids:
        """What the model reads of a source."""

    @abstractmethod
    def answered(self, said: Ids) -> tuple[Ids, bool]:
        """The answer in what a model has said from beginning to end, and whether it ended it."""


class SameLength(InStep):
    """A target symbol for each source symbol (hao2018, section 4).

    Args:
        source_size: number of source symbols.
        target_size: number of target symbols.
    """

    def __init__(self, source_size: int, target_size: int) -> None:
        self.inputs, self.outputs = source_size, target_size

    def read(self, source: Ids) -> Ids:
        return source

    def answered(self, said: Ids) -> tuple[Ids, bool]:
        return said, True

    def steps(self, pair: Pair) -> int:
        return len(pair.source)

    def example(self, pairs: Sequence[Pair], everything: bool) -> tuple[Ids, Ids, Mask]:
        (pair,) = pairs
        scored = np.ones(len(pair.target), np.bool_) if pair.scored is None else pair.scored
        return pair.source, pair.target, scored


class Steps(NamedTuple):
    """How many steps a source of k symbols is given for its answer: `each` * k + `further`."""

    each: int
    further: int

    def of(self, length: int) -> int:
        """The steps for a source of so many symbols."""
        return max(1, self.each * length + self.further)

    @classmethod
    def for_pairs(cls, lengths: Ids) -> "Steps":
        """The fewest that suffice for pairs with sources and targets of some lengths, [n, 2].

        Of bounds that are as close, the one that grows faster with the source is chosen, since
        longer sources are to come.
        """
        sources, needed = lengths[:, 0], lengths[:, 1] + 1
        steepest = int((-(-needed // np.maximum(sources, 1))).max())

        def bound(each: int) -> Steps:
            return cls(each, max(0, int((needed - each * sources).max())))

        def steps(bound: Steps) -> int:
            return int((bound.each * sources + bound.further).sum())

        # In `each` the steps are convex, so that they fall until they are fewest and rise then.
        rises = bisect(
            range(2, steepest + 1),
            False,
            key=lambda each: steps(bound(each)) > steps(bound(each - 1)),
        )
        return bound(1 + rises)


class EitherWay(Layout):
    """Strings are read and said from the first symbol to the last or, if backwards, to the first.

    Attributes:
        backwards: whether from the last symbol to the first.
    """

    backwards: bool

    def in_turn(self, symbols: Symbols) -> Symbols:
        return symbols[::-1] if self.backwards else symbols


class Padded(EitherWay, InStep):
    """Both sides filled up: `a1 .. ak` with blanks, `b1 .. bl` with `</s>`, which ends the answer.

    What hao2018 writes as w #^|w|, for targets of any length. The model is scored on b1 .. bl and
    the first `</s>`.

    Args:
        source_size: number of source symbols.
        target_size: number of target symbols.
        given: the steps that a source is given.
        backwards: whether both strings are turned around before they are filled up.
    """

    def __init__(
        self, source_size: int, target_size: int, given: Steps, backwards: bool = False
    ) -> None:
        self.backwards = backwards
        self.blank, self.inputs = source_size, source_size + 1
        self.end, self.outputs = target_size, target_size + 1
        self.given = given

    def roles(self, source: Alphabet, target: Alphabet) -> tuple[list[Role], list[Role]]:
        return [*source.roles(), ("blank",)], [*target.roles(), ENDING]

    def read(self, source: Ids) -> Ids:
        return self._filled(self.in_turn(source), self.blank, self.given.of(len(source)))

    def answered(self, said: Ids) -> tuple[Ids, bool]:
        ends = np.flatnonzero(said == self.end)
        answer = said[: ends[0]] if len(ends) else said
        return self.in_turn(answer), bool(len(ends))

    def steps(self, pair: Pair) -> int:
        return max(self.given.of(len(pair.source)), len(pair.source), len(pair.target) + 1)

    def example(self, pairs: Sequence[Pair], everything: bool) -> tuple[Ids, Ids, Mask]:
        (pair,) = pairs
        steps = self.steps(pair)
        inputs = self._filled(self.in_turn(pair.source), self.blank, steps)
        targets = self._filled(self.in_turn(pair.target), self.end, steps)
        return inputs, targets, np.arange(steps) <= len(pair.target)

    @staticmethod
    def _filled(ids: Ids, filler: int, length: int) -> Ids:
        return np.concatenate([ids, np.full(max(0, length - len(ids)), filler)]).astype(np.int64)


class Stream(Layout):
    """Sequences one after another, without boundaries (joulin2015, section 4).

    A sequence is a source, the prompt, and a target, which is what can be known of it. The
    model reads all of a stream and says the next symbol; scored are those of targets and,
    if it is known, the first symbol of the sequence that follows.

    An answer ends before the symbol that the next sequence begins with; or after a symbol that
    marks its end; or, if neither is known, when it is one symbol shorter than the prompt.

    Args:
        symbols: number of symbols, of sources and targets alike.
        follow: the symbol that every sequence begins with; None if it can't be known.
        last: the symbol that every target ends with; None if there is none.

    Attributes:
        end: the output that ends an answer and is not part of it; None if there is none.
        first_target: the input id of target symbol 0.
    """

    first_target = 0

    def __init__(self, symbols: int, follow: int | None = None, last: int | None = None) -> None:
        self.inputs = self.outputs = symbols
        self.follow = self.end = follow
        self.last = last

    def prefix(self, source: Ids) -> Ids:
        """What is read before the first answer."""
        return source

    def longest_answer(self, length: int, limit: int | None) -> int:
        """The most symbols waited for, after a source of so many; at most `limit`, if given."""
        if self.follow is None and self.last is None:
            usual = max(0, length - 1)
            return usual if limit is None else min(usual, limit)
        # As many as can be counted by products of counts, but not without end.
        most = min(length * length, max(4 * length, LONGEST_PRODUCT)) + 20
        return most if limit is None else limit

    def steps(self, pair: Pair) -> int:
        return len(pair.source) + len(pair.target)

    def rows(self, pairs: Sequence[Pair]) -> list[list[int]]:
        """Those of one length together, in their order, up to `SEQUENCES_IN_A_ROW`."""
        by_length: dict[int, list[int]] = {}
        for index, pair in enumerate(pairs):
            by_length.setdefault(pair.length, []).append(index)
        size = SEQUENCES_IN_A_ROW
        return [
            same[start : start + size]
            for same in by_length.values()
            for start in range(0, len(same), size)
        ]

    def example(self, pairs: Sequence[Pair], everything: bool) -> tuple[Ids, Ids, Mask]:
        last = 0 if self.follow is None else self.follow
        parts = [part for pair in pairs for part in pair[:2]]
        symbols = np.concatenate([*parts, [last]]).astype(np.int64)
        scored = np.full(len(symbols) - 1, everything)
        place = 0
        for pair in pairs:
            place += self.steps(pair)
            scored[place - len(pair.target) - 1 : place - (self.follow is None)] = True
        if self.follow is None:
            scored[-1:] = False
        return symbols[:-1], symbols[1:], scored


class Sentences(Stream):
    """The sentences of a text, one after another; `follow` ends each and so comes before each.

    The model says every symbol, the first of a sentence and its end included.
    """

    def prefix(self, source: Ids) -> Ids:
        return np.concatenate([[self.follow], source])

    def longest_answer(self, length: int, limit: int | None) -> int:
        return length + 20 if limit is None else limit


class JointSequence(EitherWay):
    """The layout `<s> a1 .. ak ||| b1 .. bl </s>` (grefenstette2015, section 4.1).

    Source and target symbols have ids, and so embeddings, of their own. The
    model reads all but `</s>` and is scored on b1 .. bl and `</s>`. Read backwards, the strings are
    `<s> ak .. a1 ||| bl .. b1 </s>`.

    Args:
        source_size: number of source symbols.
        target_size: number of target symbols.
        steps: gives the steps that suffice in training to output a target and its end, which are
            needed only to limit answers; unless given, for targets as long as their sources.
        backwards: whether sources are read, and targets said, from the last symbol to the first.

    Attributes:
        end: the output id of `</s>`; the others are the target symbols.
        first_target: the input id of target symbol 0.
        last: the target symbol that ends an answer: none.
    """

    begin, separator, first_source = 0, 1, 2
    last = None

    def __init__(
        self,
        source_size: int,
        target_size: int,
        steps: Callable[[], Steps] = lambda: Steps(1, 1),
        backwards: bool = False,
    ) -> None:
        self.backwards, self._steps = backwards, cache(steps)
        self.first_target = self.first_source + source_size
        self.inputs = self.first_target + target_size
        self.end, self.outputs = target_size, target_size + 1

    def roles(self, source: Alphabet, target: Alphabet) -> tuple[list[Role], list[Role]]:
        read = [("source", *role) for role in source.roles()]
        said = [("target", *role) for role in target.roles()]
        return [("begin",), ("separator",), *read, *said], [*target.roles(), ENDING]

    def prefix(self, source: Ids) -> Ids:
        """What is read before the first answer: `<s> a1 .. ak |||`."""
        read = np.empty(len(source) + 2, np.int64)
        read[0], read[-1] = self.begin, self.separator
        read[1:-1] = self.in_turn(source) + self.first_source
        return read

    def longest_answer(self, length: int, limit: int | None) -> int:
        """The most symbols of an answer to a source of some length.

        That is `limit`, or twice what training targets let expect, and 20 more.
        """
        return 2 * (self._steps().of(length) - 1) + 20 if limit is None else limit

    def steps(self, pair: Pair) -> int:
        return len(pair.source) + len(pair.target) + 2

    def example(self, pairs: Sequence[Pair], everything: bool) -> tuple[Ids, Ids, Mask]:
        ((source, target, *_),) = pairs
        target = self.in_turn(target)
        unscored = np.zeros(len(source) + 1, dtype=np.int64)
        read = np.maximum(target, 0) + self.first_target  # where it can't be said, any will do
        inputs = np.concatenate([self.prefix(source), read])
        targets = np.concatenate([unscored, target, [self.end]])
        return inputs, targets, np.arange(len(inputs)) >= len(unscored)
