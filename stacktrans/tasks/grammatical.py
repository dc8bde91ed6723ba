"""Tasks given by a synchronous grammar (grefenstette2015, section 4.2)."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stacktrans.grammar import Grammar, NotInGrammar
from stacktrans.grammar.inside import Floats
from stacktrans.sequences import Pair
from stacktrans.tasks.base import Alphabet, LengthLaw, Lengths, NoSuchLength, NotASource, Task


class Grammatical(Task):
    """Source and target are the two sides of a derivation.

    Args:
        parameters: a grammar, as `Grammar.from_parameters` reads it.
    """

    def __init__(self, **parameters: Any) -> None:
        self.grammar = Grammar.from_parameters(parameters)
        self.source = Alphabet(self.grammar.source_words, words=True)
        self.target = Alphabet(self.grammar.target_words, words=True)

    def sample(
        self, generator: np.random.Generator, lengths: Lengths, count: int, law: LengthLaw
    ) -> list[Pair]:
        drawn = generator.choice(
            np.arange(lengths.shortest, lengths.longest + 1),
            size=count,
            p=self._length_probabilities(lengths, law),
        )
        pairs = [self.grammar.sample(generator, int(length)) for length in drawn]
        return [
            Pair(self.source.encode(source), self.target.encode(target)) for source, target in pairs
        ]

    def _length_probabilities(self, lengths: Lengths, law: LengthLaw) -> Floats:
        probabilities = self.grammar.length_probabilities(lengths.longest)[lengths.shortest :]
        if not probabilities.any():
            raise NoSuchLength(f"no sentence of the grammar has a length in {lengths}")
        if law == "uniform":
            probabilities = (probabilities > 0).astype(np.float64)
        normalised: Floats = probabilities / probabilities.sum()
        return normalised

    def answer(self, source: Sequence[str]) -> list[str]:
        self.source.encode(source)
        try:
            return self.grammar.translate(source)
        except NotInGrammar as error:
            raise NotASource(str(error)) from error
