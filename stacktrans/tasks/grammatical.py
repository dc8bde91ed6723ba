"""Tasks of a given grammar: translation (also of the same length) and next-symbol prediction.

Translation is as in grefenstette2015, section 4.2, and prediction as in hao2018, section 4.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice, pairwise, tee
from typing import Any

import numpy as np
from numpy.random import Generator

from stacktrans.common.errors import StacktransError, check_parameter, unknown_name
from stacktrans.grammar import Grammar, GrammarError
from stacktrans.grammar.inside import Floats
from stacktrans.tasks.alphabets import Alphabet, Ids
from stacktrans.tasks.base import NotASource, Task
from stacktrans.tasks.layout import Pair
from stacktrans.tasks.lengths import (
    DepthLimit,
    LengthDistribution,
    Lengths,
    NormalLengths,
    NoSuchLaw,
    NoSuchLength,
)

MAX_FOLLOWED = 1000
"""The maximum length of sentences whose possible next symbols are computed, in quadratic time."""
IN_QUOTES = "in quotes where YAML reads a number or a truth value"
"""The end of messages about lists of words."""


@contextmanager
def grammar_errors_as(kind: type[StacktransError]) -> Iterator[None]:
    """Turn a `GrammarError` into an error of another kind, with the same message."""
    try:
        yield
    except GrammarError as error:
        raise kind(str(error)) from error


def _alphabet(words: Sequence[str], characters: bool) -> Alphabet:
    for word in words:
        if characters and len(word) > 1:
            raise GrammarError(f"characters: '{word}' is more than one character")
    return Alphabet(words, words=not characters)


class GrammarTask(Task):
    """A task whose sources and targets are the two sides of a derivation.

    Args:
        characters: whether strings are written as characters, and not as words with spaces.
        root: the start symbol.
        rules: the alternatives of each nonterminal.
    """

    def __init__(self, *, characters: bool = False, root: object, rules: object) -> None:
        check_parameter(isinstance(characters, bool), "characters", characters, "true or false")
        self.grammar = Grammar(root, rules)
        self.source = _alphabet(self.grammar.source_words, characters)
        self.target = _alphabet(self.grammar.target_words, characters)

    def sample(
        self, rng: Generator, lengths: Lengths, count: int, law: LengthDistribution
    ) -> list[Pair]:
        logs = self._log_weights(lengths.longest, law)[lengths.shortest :]
        if not np.isfinite(logs).any():
            raise NoSuchLength(f"no sentence of the grammar has a length of {lengths}")
        possible = np.arange(lengths.shortest, lengths.longest + 1)
        weights = np.exp(logs - logs.max())
        drawn = rng.choice(possible, size=count, p=weights / weights.sum()).tolist()
        draw = self.grammar.sample
        if isinstance(law, DepthLimit):
            draw = self.grammar.derivations(law.depth).sample
        return [self._pair_of(*draw(rng, length)) for length in drawn]

    def lengths_within(self, law: DepthLimit) -> Lengths:
        with grammar_errors_as(NoSuchLaw):
            bounds = self.grammar.derivations(law.depth).bounds
        if not bounds:
            raise NoSuchLength(f"no derivation of the grammar has a depth of {law.depth} or less")
        return Lengths(*bounds)

    def _pair_of(self, source: list[str], target: list[str]) -> Pair:
        return self.pair(self.source.encode(source), self.target.encode(target))

    def _log_weights(self, longest: int, law: LengthDistribution) -> Floats:
        """[longest + 1] logs of the weights of lengths, which may exceed the range of floats."""
        if isinstance(law, NormalLengths):
            raise NoSuchLaw("length_law: expected uniform, task or a depth for a grammar")
        with grammar_errors_as(NoSuchLaw):
            if not isinstance(law, DepthLimit):
                logs = self.grammar.log_length_probabilities(longest)
                return logs if law == "task" else np.where(np.isfinite(logs), 0.0, -np.inf)
            counts = self.grammar.derivations(law.depth).counts(longest)
        numbers = map(counts.get, range(longest + 1))
        return np.array([math.log(number) if number else -math.inf for number in numbers])

    def answer(self, source: Sequence[str]) -> list[str | None]:
        self.source.encode(source)
        with grammar_errors_as(NotASource):
            return [*self.grammar.translate(source)]


class SameLengthGrammarTask(GrammarTask):
    """A synchronous task of a grammar whose rules have equally many words on both sides."""

    same_length = True

    def __init__(self, **parameters: Any) -> None:
        super().__init__(**parameters)
        self.grammar.check_same_length()


class NextSymbolTask(GrammarTask):
    """Prediction of each symbol of a sentence from those before it.

    A source is a sentence without its last symbol, and its target the sentence without its first.
    Lengths are those of sentences.

    Args:
        predict: the symbols that are scored.
        parameters: the arguments of `GrammarTask`, of which only the source side is used.
    """

    same_length = True

    def __init__(self, *, predict: Sequence[str], **parameters: Any) -> None:
        super().__init__(**parameters)
        self.target = self.source
        given = isinstance(predict, list | tuple) and predict
        are_words = given and all(isinstance(word, str) for word in predict)
        check_parameter(bool(are_words), "predict", predict, f"a list of words, {IN_QUOTES}")
        for word in predict:
            if word not in self.source.symbols:
                raise GrammarError(f"predict: {unknown_name('word', word, self.source.symbols)}")
        self.predict = frozenset(predict)
        self._scored = self.source.encode(sorted(self.predict))

    def pair(self, source: Ids, target: Ids) -> Pair:
        return Pair(source, target, np.isin(target, self._scored), len(source) + 1)

    def _pair_of(self, source: list[str], target: list[str]) -> Pair:
        ids = self.source.encode(source)
        return self.pair(ids[:-1], ids[1:])

    def sample(
        self, rng: Generator, lengths: Lengths, count: int, law: LengthDistribution
    ) -> list[Pair]:
        # The source of a sentence of one symbol would be empty.
        if lengths.longest < 2:
            raise NoSuchLength(f"lengths {lengths}: none is more than 1")
        longer = lengths._replace(shortest=max(lengths.shortest, 2))
        return super().sample(rng, longer, count, law)

    def scored(self, source: Iterable[str]) -> Iterator[bool]:
        words, read = tee(source)
        possible = pairwise(self.grammar.next_words(words))
        # After an impossible word none is possible any more, so that everything is scored.
        for word, (before, after) in zip(islice(read, MAX_FOLLOWED), possible, strict=False):
            yield word not in before or len(after & self.predict) == 1
        yield from (True for _ in read)

    def answer(self, source: Sequence[str]) -> list[str | None]:
        """At each position the only scored symbol that can come next; None if several can."""
        self.source.encode(source)
        if len(source) > MAX_FOLLOWED:
            raise NotASource(f"what can follow is computed for at most {MAX_FOLLOWED} symbols")
        possible = list(self.grammar.next_words(source))
        for length, (before, word) in enumerate(zip(possible, source, strict=False), start=1):
            if word not in before:
                prefix = self.source.join(source[:length])
                raise NotASource(f"no sentence of the grammar begins with '{prefix}'")
        known = [sorted(after & self.predict) for after in possible[1:]]
        return [symbols[0] if len(symbols) == 1 else None for symbols in known]
