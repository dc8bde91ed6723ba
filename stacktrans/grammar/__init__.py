"""Weighted synchronous context-free grammars, with sampling at an exact length and translation.

Each alternative of a nonterminal has two right-hand sides whose nonterminals are linked by
indices, so that a derivation yields a source and its target together. The inversion transduction
grammars of grefenstette2015, section 4.2, are a special case.

Lengths, sampling and parsing share a Chomsky normal form of the source side. Its productions carry
templates from which the target is composed, in any order of the phrases. Without empty and unit
productions, a derivation of n source words has exactly 2n - 1 productions.

Probabilities are logarithms throughout, so that long sentences do not underflow.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.random import Generator

from stacktrans.common.errors import abridged
from stacktrans.grammar.depth import Derivations
from stacktrans.grammar.earley import next_words
from stacktrans.grammar.inside import Chart, Floats, InsideTable, NormalForm
from stacktrans.grammar.rules import GrammarError, Nonterminal, Sentence, check_rules, read_rules

__all__ = ["Grammar", "GrammarError"]

FIRST_WORDS = 20
"""The words by which most strings outside a language are refused without a chart."""


class Grammar:
    """A weighted synchronous context-free grammar.

    The arguments are the `parameters` of a task file. An alternative has a `probability` (a number,
    or a fraction such as "1/5"), a `source`, and a `target`, by default the source. `NAME:index`
    is a nonterminal, linked by its index to the one on the other side; other strings are words.
    `each: {k: [1, 33]}` abbreviates 33 equally likely alternatives, which share the probability,
    with {k} replaced by 1 to 33.

    Args:
        root: the start symbol.
        rules: the alternatives of each nonterminal.

    Attributes:
        root: the start symbol.
        rules: the alternatives of each nonterminal.
        source_words: the terminals of sources, in the order of first appearance.
        target_words: the terminals of targets.

    Raises:
        GrammarError: the rules are not a valid grammar; the message names the nonterminal.
    """

    def __init__(self, root: object, rules: object) -> None:
        self.root, self.rules = str(root), read_rules(rules)
        check_rules(self.root, self.rules)
        alternatives = [each for listed in self.rules.values() for each in listed]
        self.source_words = _distinct_words(each.source for each in alternatives)
        self.target_words = _distinct_words(each.target for each in alternatives)
        self._form = NormalForm(self.root, self.rules)
        self._inside = InsideTable(self._form)
        self._derivations: dict[int, Derivations] = {}

    def log_length_probabilities(self, longest: int) -> Floats:
        """[longest + 1] the log of the probability that the source of a derivation has n words.

        The sum of the probabilities is less than 1 if derivations can be infinite. Raises
        `GrammarError` for lengths beyond the limit.
        """
        return self._inside.of_lengths(longest)

    def sample(self, rng: Generator, length: int) -> Sentence:
        """Draw a derivation with a source of a given length; returns source and target.

        Takes exactly 2 * length - 1 numbers from the generator.

        Raises:
            GrammarError: no source has this length.
        """
        if length < 1 or not np.isfinite(self.log_length_probabilities(length)[length]):
            raise GrammarError(f"no sentence of the grammar has {length} source words")
        return self._inside.draw(rng, length)

    def derivations(self, depth: int) -> Derivations:
        """The derivations up to a depth, with their counts; raises `GrammarError`."""
        if depth not in self._derivations:
            self._derivations[depth] = Derivations(self.root, self.rules, depth)
        return self._derivations[depth]

    def check_same_length(self) -> None:
        """Raise `GrammarError` unless both sides of each alternative have equally many words."""
        for name, alternatives in self.rules.items():
            for index, each in enumerate(alternatives):
                words, others = len(each.source) - each.arity, len(each.target) - each.arity
                if words != others:
                    message = f"{words} words in the source and {others} in the target"
                    raise GrammarError.of(name, f"{message}; expected as many", index)

    def next_words(self, source: Iterable[str]) -> Iterator[frozenset[str]]:
        """The words that can follow each prefix of a source, from the empty prefix on."""
        return next_words(self.root, self.rules, source)

    def derives(self, source: Sequence[str]) -> bool:
        """Whether some derivation has this source; raises `GrammarError` if it is too long.

        Most strings that are drawn at random are refused for their first words, long before a
        chart of all words is filled.
        """
        first = source[:FIRST_WORDS]
        prefixes = zip(self.next_words(first), first, strict=False)
        begins = all(word in possible for possible, word in prefixes)
        return begins and bool(source) and Chart(self._form, source).complete

    def translate(self, source: Sequence[str]) -> list[str]:
        """The target of the most probable derivation of a source.

        Among equally probable derivations, earlier alternatives are preferred, then shorter first
        constituents.

        Raises:
            GrammarError: no sentence has this source, with the first wrong word in the message; or
                it is too long to parse.
        """
        if not source:
            raise GrammarError("the source is empty; expected at least one word")
        chart = Chart(self._form, source)
        if not chart.complete:
            raise self._failure(source)
        return chart.best_target()

    def _failure(self, source: Sequence[str]) -> GrammarError:
        """The error for words that are not the source of a sentence."""
        prefixes = zip(self.next_words(source), source, strict=False)
        for number, (possible, word) in enumerate(prefixes, start=1):
            if word not in possible:
                words = " ".join(abridged(source[:number]))
                return GrammarError(
                    f"word {number}, '{word}': no sentence of the grammar begins '{words}'"
                )
        whole = " ".join(abridged(source))
        return GrammarError(
            f"the sentence ends too early: '{whole}' only begins a sentence of the grammar"
        )


def _distinct_words(sides: Iterable[Iterable[str | int | Nonterminal]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for side in sides for word in side if isinstance(word, str)))
