"""Recognition of the language of a grammar: its strings, edited ones, and random ones."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.random import Generator

from stacktrans.common.errors import check_parameter
from stacktrans.common.reading import split_words
from stacktrans.tasks.alphabets import Alphabet, Ids
from stacktrans.tasks.base import NotASource
from stacktrans.tasks.grammatical import IN_QUOTES, GrammarTask, grammar_errors_as
from stacktrans.tasks.layout import OutputBound, Pair
from stacktrans.tasks.lengths import LengthDistribution, Lengths, NoSuchLaw, NoSuchLength

MEMBER, EDITED, RANDOM = "member", "edited", "random"
"""The kinds of strings: in the language; outside, made from one inside; outside, random."""
MAX_DRAWN = 1000
"""The maximum number of strings that are drawn until one lies outside the language."""


class Membership(GrammarTask):
    """Whether a string is in the language of a grammar.

    Half of the strings are. A quarter are strings of the language with a symbol inserted, deleted
    or replaced, one time or more: a further time with probability one half (flare2025). A quarter
    are of random symbols. Parsing shows that these two kinds are not in the language.

    Args:
        labels: the labels of strings outside and in the language.
        parameters: the arguments of `GrammarTask`, of which only the source side is used.

    Raises:
        ValueError: the labels are not two words.
    """

    positive = 1
    output_bound = OutputBound(1, 1)
    fixed_length = True

    def __init__(self, *, labels: Sequence[str] = ("0", "1"), **parameters: Any) -> None:
        super().__init__(**parameters)
        given = isinstance(labels, list | tuple) and all(isinstance(each, str) for each in labels)
        words = given and len({*labels}) == len(labels) == 2
        valid = words and all(split_words(label) == [label] for label in labels)
        check_parameter(bool(valid), "labels", labels, f"two words, {IN_QUOTES}")
        self.target = Alphabet(labels, words=True)

    def answer(self, source: Sequence[str]) -> list[str | None]:
        self.source.encode(source)
        with grammar_errors_as(NotASource):  # it is too long
            return [self.target.symbols[self.grammar.derives(source)]]

    def sample(
        self, rng: Generator, lengths: Lengths, count: int, law: LengthDistribution
    ) -> list[Pair]:
        members = super().sample(rng, lengths, count, law)
        kinds = rng.choice([MEMBER, EDITED, RANDOM], size=count, p=[0.5, 0.25, 0.25]).tolist()
        return [
            pair._replace(kind=kind)
            if kind == MEMBER
            else Pair(self._outside(rng, pair.source, kind, lengths), np.array([0]), kind=kind)
            for pair, kind in zip(members, kinds, strict=True)
        ]

    def _pair_of(self, source: list[str], target: list[str]) -> Pair:
        return Pair(self.source.encode(source), np.array([self.positive]))

    def _outside(self, rng: Generator, member: Ids, kind: str, lengths: Lengths) -> Ids:
        """Draw a string outside the language.

        Raises:
            NoSuchLength: none is found.
            NoSuchLaw: strings of these lengths are too long to be parsed.
        """
        for _ in range(MAX_DRAWN):
            if kind == EDITED:
                ids = self._edited(rng, member)
            else:
                length = rng.integers(lengths.shortest, lengths.longest, endpoint=True)
                ids = rng.integers(len(self.source), size=length)
            with grammar_errors_as(NoSuchLaw):
                if lengths.includes(len(ids)) and not self.grammar.derives(self.source.decode(ids)):
                    return ids
        raise NoSuchLength(f"no {kind} string outside the language has a length of {lengths}")

    def _edited(self, rng: Generator, string: Ids) -> Ids:
        """A string with one or more symbols inserted, deleted or replaced."""
        for _ in range(rng.geometric(0.5)):
            symbol, edit = rng.integers(len(self.source)), rng.integers(3)
            at = rng.integers(len(string) + (edit == 0)) if len(string) else 0
            after = at + (edit > 0)
            inserted = [] if edit == 1 else [symbol]
            string = np.concatenate([string[:at], inserted, string[after:]]).astype(np.int64)
        return string
