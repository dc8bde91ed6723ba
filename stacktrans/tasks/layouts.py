"""One example for every paper: input ids, target ids and a mask of scored positions."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


SEQUENCES_IN_A_ROW = 200
"""How many sequences of a stream are measured one after another (joulin2015, section 5)."""


class Pair(NamedTuple):
    """A source and its target, as indices into the task's source and target symbols.

    Attributes:
        source: [k].
        target: [l].
        scored: [l] which symbols of the target are scored; None for all.
        size: the length that the task counts; None for that of the source.
    """

    source: Ids
    target: Ids
    scored: Mask | None = None
    size: int | None = None

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
    """How pairs become what a model reads and what it should say."""

    @property
    @abstractmethod
    def inputs(self) -> int:
        """Number of input ids."""

    @property
    @abstractmethod
    def outputs(self) -> int:
        """Number of output ids; the first are the target symbols."""

    @abstractmethod
    def steps(self, pair: Pair) -> int:
        """How many symbols the model reads of a pair."""

    @abstractmethod
    def batch(self, pairs: Sequence[Pair]) -> Batch:
        """Lay pairs out side by side."""

    def rows(self, pairs: Sequence[Pair]) -> list[list[int]]:
        """Which pairs, by their indices, are measured one after another: each alone."""
        return [[index] for index in range(len(pairs))]

    def joined(self, rows: Sequence[Sequence[Pair]], everything: bool = False) -> Batch:
        """Lay rows of pairs out side by side, each of pairs that follow one another.

        Args:
            rows: of one pair each, unless the layout is a stream.
            everything: whether every symbol of a stream is scored, and not only what can be known.
        """
        return self.batch([pair for (pair,) in rows])


def _empty_batch(lengths: list[int]) -> Batch:
    shape = (len(lengths), max(lengths))
    inputs, targets = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    return Batch(inputs, targets, np.zeros(shape, dtype=np.bool_), lengths)


@dataclass(frozen=True, slots=True)
class SameLength(Layout):
    """A target symbol for each source symbol, in step (hao2018, section 4).

    The model says the target's n-th symbol when it has read the source's n-th; a buffered one
    when it has read them all.

    Attributes:
        source_size: number of source symbols.
        target_size: number of target symbols.
    """

    source_size: int
    target_size: int

    @property
    def inputs(self) -> int:
        return self.source_size

    @property
    def outputs(self) -> int:
        return self.target_size

    def steps(self, pair: Pair) -> int:
        return len(pair.source)

    def batch(self, pairs: Sequence[Pair]) -> Batch:
        batch = _empty_batch([self.steps(pair) for pair in pairs])
        for row, pair in enumerate(pairs):
            length = len(pair.source)
            batch.inputs[row, :length] = pair.source
            batch.mask[row, :length] = True if pair.scored is None else pair.scored
            batch.targets[row, :length] = pair.target
        batch.targets[~batch.mask] = 0
        return batch


@dataclass(frozen=True, slots=True)
class Stream(Layout):
    """Sequences one after another, without boundaries (joulin2015, section 4).

    A sequence is a source, the prompt, and a target, which is what can be known of it. The
    model reads all of a stream and says the next symbol; scored are those of targets and,
    if it is known, the first symbol of the sequence that follows.

    An answer ends before the symbol that the next sequence begins with; or after a symbol that
    marks its end; or, if neither is known, when it is one symbol shorter than the prompt.

    Attributes:
        symbols: number of symbols, of sources and targets alike.
        follow: the symbol that every sequence begins with; None if it can't be known.
        last: the symbol that every target ends with; None if there is none.
    """

    symbols: int
    follow: int | None = None
    last: int | None = None

    @property
    def inputs(self) -> int:
        return self.symbols

    @property
    def outputs(self) -> int:
        return self.symbols

    @property
    def end(self) -> int | None:
        """The output that ends an answer and is no part of it."""
        return self.follow

    @property
    def first_target(self) -> int:
        """The input id of target symbol 0."""
        return 0

    def prefix(self, source: Ids) -> Ids:
        """What is read before the first answer."""
        return source

    def longest_answer(self, length: int, limit: int | None) -> int:
        """The most symbols waited for, after a source of so many; at most `limit`, if given."""
        if self.follow is None and self.last is None:
            usual = max(0, length - 1)
            return usual if limit is None else min(usual, limit)
        # As many as can be counted by products of counts.
        return length * length + 20 if limit is None else limit

    def steps(self, pair: Pair) -> int:
        return len(pair.source) + len(pair.target)

    def batch(self, pairs: Sequence[Pair]) -> Batch:
        return self.joined([[pair] for pair in pairs])

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

    def joined(self, rows: Sequence[Sequence[Pair]], everything: bool = False) -> Batch:
        batch = _empty_batch([sum(map(self.steps, pairs)) for pairs in rows])
        for row, pairs in enumerate(rows):
            if not pairs:
                continue
            symbols = np.concatenate([part for pair in pairs for part in pair[:2]])
            length, place = len(symbols), 0
            batch.inputs[row, :length] = symbols
            batch.targets[row, : length - 1] = symbols[1:]
            for pair in pairs:
                end = place + self.steps(pair)
                known = end - len(pair.target) - 1
                batch.mask[row, known : end if self.follow is not None else end - 1] = True
                place = end
            if everything:
                batch.mask[row, : length - 1] = True
            if self.follow is not None:
                batch.targets[row, length - 1] = self.follow
        batch.targets[~batch.mask] = 0
        return batch


@dataclass(frozen=True, slots=True)
class Sentences(Stream):
    """The sentences of a text, one after another; `follow` ends each and so comes before each.

    The model says every symbol, the first of a sentence and its end included.
    """

    def prefix(self, source: Ids) -> Ids:
        return np.concatenate([[self.follow], source])

    def longest_answer(self, length: int, limit: int | None) -> int:
        return length + 20 if limit is None else limit


@dataclass(frozen=True, slots=True)
class JointSequence(Layout):
    """The layout `<s> a1 .. ak ||| b1 .. bl </s>` (grefenstette2015, section 4.1).

    Source and target symbols have ids, and so embeddings, of their own. The
    model reads all but `</s>` and is scored on b1 .. bl and `</s>`.

    Attributes:
        source_size: number of source symbols.
        target_size: number of target symbols.
    """

    source_size: int
    target_size: int

    begin = 0
    separator = 1
    first_source = 2

    @property
    def first_target(self) -> int:
        """The input id of target symbol 0."""
        return self.first_source + self.source_size

    @property
    def inputs(self) -> int:
        return self.first_target + self.target_size

    @property
    def end(self) -> int:
        """The output id of `</s>`; the others are the target symbols."""
        return self.target_size

    @property
    def outputs(self) -> int:
        return self.target_size + 1

    @property
    def last(self) -> None:
        """No target symbol ends an answer."""
        return None

    def prefix(self, source: Ids) -> Ids:
        """What is read before the first answer: `<s> a1 .. ak |||`."""
        return np.concatenate([[self.begin], source + self.first_source, [self.separator]])

    def longest_answer(self, length: int, limit: int | None) -> int:
        """The most symbols waited for, after a source of so many; `limit`, if given."""
        return 2 * length + 20 if limit is None else limit

    def steps(self, pair: Pair) -> int:
        return len(pair.source) + len(pair.target) + 2

    def batch(self, pairs: Sequence[Pair]) -> Batch:
        batch = _empty_batch([self.steps(pair) for pair in pairs])
        for row, pair in enumerate(pairs):
            start, stop = len(pair.source) + 1, batch.lengths[row]
            batch.inputs[row, : start + 1] = self.prefix(pair.source)
            batch.inputs[row, start + 1 : stop] = pair.target + self.first_target
            batch.targets[row, start : stop - 1] = pair.target
            batch.targets[row, stop - 1] = self.end
            batch.mask[row, start:stop] = True
        return batch
