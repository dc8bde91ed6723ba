"""Strings that a network is run on: all short ones over a few symbols, and those that are drawn.

Of a stream they are rows of sequences, one after another: those that are drawn are alone at first,
and then ever more in a row, since what one leaves behind can spoil the next.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from stacktrans.common.randomness import Purpose, generator
from stacktrans.model.checkpoint import Checkpoint
from stacktrans.tasks.alphabets import Ids, Mask
from stacktrans.tasks.base import LengthLaw, Lengths, NoSuchLength, test_pairs
from stacktrans.tasks.layout import Pair

FEW = 3
"""The most different symbols in short strings of a task with many."""
MANY = 6
"""With more symbols than this, a task has many."""
MOST_SHORT = 1500
"""How many short strings there are at most, and so up to which length."""
MOST_TRIED = 20_000
"""How many strings are looked at to find short ones that the task has."""
IN_A_ROW = 8
"""How many sequences of a stream stand in a row at most."""


class Tried(NamedTuple):
    """A string that network and machine are run on.

    Attributes:
        ids: the source; of a stream, all that is read.
        scored: of each symbol that is said, whether it matters; None where all do.
    """

    ids: Ids
    scored: Mask | None

    @property
    def where(self) -> Mask:
        """[n] of each symbol, whether it matters."""
        return np.ones(len(self.ids), np.bool_) if self.scored is None else self.scored

    def scored_of(self, answer: Sequence[int]) -> Iterable[int]:
        """The symbols of an answer that matter."""
        return answer if self.scored is None else itertools.compress(answer, self.scored)


class Short(NamedTuple):
    """All strings of a task up to a length, over its first symbols.

    Attributes:
        strings: themselves.
        symbols: how many symbols they are made of.
        longest: their greatest length.
    """

    strings: list[Tried]
    symbols: int
    longest: int


def short_strings(checkpoint: Checkpoint, most: int = MOST_SHORT) -> Short:
    """All short strings that the task has an answer for, up to a number."""
    task = checkpoint.task
    symbols = FEW if len(task.source) > MANY else len(task.source)
    found: list[Tried] = []
    tried, longest = 0, 0
    for length in itertools.count(1):
        tried += symbols**length
        if tried > MOST_TRIED:
            break
        sources = itertools.product(task.source.symbols[:symbols], repeat=length)
        pairs = (task.answered(source) for source in sources)
        own = [tried_on(checkpoint, [pair]) for pair in pairs if pair]
        if len(found) + len(own) > most:
            break
        found += own
        longest = length
    return Short(found, symbols, longest)


def tried_on(checkpoint: Checkpoint, pairs: Sequence[Pair]) -> Tried:
    """The string of pairs in a row, of which only a stream has several."""
    task = checkpoint.task
    if checkpoint.layout.consecutive:
        ids, _, scored = checkpoint.layout.example(pairs)
        return Tried(ids, scored)
    (pair,) = pairs
    if task.same_length:
        return Tried(pair.source, np.array([*task.scored(task.source.decode(pair.source))]))
    return Tried(pair.source, None)


def drawn_strings(
    checkpoint: Checkpoint, lengths: Lengths, count: int, seed: int, law: LengthLaw | None = None
) -> list[Tried]:
    """Strings of the task of some lengths, drawn as when it is measured; none if it has none.

    Of pairs in files they are some of those to train on and of those to test on, each once.
    """
    drawn = generator(seed, Purpose.SAMPLE)
    law = law or checkpoint.config.task.law_of(lengths)
    stream = checkpoint.layout.consecutive
    rows = [1 + number % IN_A_ROW if stream else 1 for number in range(count)]
    task = checkpoint.task
    try:
        pairs = task.sample(drawn, lengths, sum(rows), law)
    except NoSuchLength:
        pairs = []
    if task.paths:
        with contextlib.suppress(NoSuchLength):
            pairs = [*pairs, *test_pairs(task, lengths)[:count]]
        once = {pair.source.tobytes(): pair for pair in pairs}
        return [tried_on(checkpoint, [pair]) for pair in once.values()]
    if not pairs:
        return []
    taken = iter(pairs)
    return [tried_on(checkpoint, [next(taken) for _ in range(row)]) for row in rows]
