"""Weighted synchronous context-free grammars: sentences of an exact length, exact answers.

Each alternative of a nonterminal has two right-hand sides whose nonterminals are linked
by indices, so that a derivation yields a source and its target together (the inversion
transduction grammars of grefenstette2015, section 4.2, are the case of interest).

Lengths, sampling and parsing share one normal form. It is Chomsky's, of the source side
only: a derivation of it reads the source in binary steps, and its productions carry
templates from which the target is put together, in whatever order they ask for. With
neither empty nor unit productions, a source of n words has exactly 2n - 1 productions.

Probabilities are kept as logarithms throughout, so that no length is out of reach.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from stacktrans.common.errors import abridged
from stacktrans.grammar.depth import DepthTable
from stacktrans.grammar.inside import Booleans, Chart, Floats, InsideTable, NormalForm
from stacktrans.grammar.rules import (
    Bracketing,
    GrammarError,
    Nonterminal,
    bracketing,
    check_rules,
    following,
    read_rules,
)

__all__ = ["Bracketing", "Grammar", "GrammarError"]


class Grammar:
    """A weighted synchronous context-free grammar.

    It is made as a task file's `parameters` write it down. An alternative has a `probability` (a
    number, or a fraction such as "1/5"), a `source`, and a `target` that is the source if left out.
    `NAME:index` is a nonterminal, linked by its index to the one on the other side; all else is a
    word. `each: {k: [1, 33]}` stands for 33 equally likely alternatives, which share the
    probability, with {k} replaced by 1 to 33.

    Args:
        root: the nonterminal that derives sentences.
        rules: the alternatives of each nonterminal.

    Attributes:
        source_words: the source's terminal words, in order of first appearance.
        target_words: the target's.
        depths: derivations by their depth.

    Raises:
        GrammarError: the rules are not a grammar; the message says where and why.
    """

    def __init__(self, root: object, rules: object) -> None:
        self._root, self._rules = str(root), read_rules(rules)
        check_rules(self._root, self._rules)
        alternatives = [each for listed in self._rules.values() for each in listed]
        self.source_words = _distinct_words(each.source for each in alternatives)
        self.target_words = _distinct_words(each.target for each in alternatives)
        self._form = NormalForm(self._root, self._rules)
        self._inside = InsideTable(self._form)
        self.depths = DepthTable(self._root, self._rules)

    def length_probabilities(self, longest: int) -> Floats:
        """The probability that a derivation's source has n words, [longest + 1].

        Their sum is less than 1 where some derivations never end. Raises `GrammarError` for
        lengths that are too long.
        """
        return np.exp(self._inside.of_lengths(self._form.root, longest))

    def has_lengths(self, longest: int) -> Booleans:
        """Whether some source has n words, however improbable, [longest + 1].

        Raises `GrammarError` for lengths that are too long.
        """
        return np.isfinite(self._inside.of_lengths(self._form.root, longest))

    def sample(self, generator: np.random.Generator, length: int) -> tuple[list[str], list[str]]:
        """Source and target of a derivation drawn among those of one source length.

        Takes 2 * length - 1 numbers from the generator, whatever it draws.

        Raises:
            GrammarError: no sentence's source has that length.
        """
        if length < 1 or not self.has_lengths(length)[length]:
            raise GrammarError(f"no sentence of the grammar has {length} source words")
        return self._inside.draw(generator, length)

    def check_same_length(self) -> None:
        """Raise `GrammarError` unless each alternative has as many words on both its sides."""
        for name, alternatives in self._rules.items():
            for index, each in enumerate(alternatives):
                words, others = len(each.source) - each.arity, len(each.target) - each.arity
                if words != others:
                    message = f"{words} words in the source and {others} in the target"
                    raise GrammarError.of(name, f"{message}; expected as many", index)

    def following(self, source: Iterable[str]) -> Iterator[frozenset[str]]:
        """The words that can come after each beginning of a source, the empty one first."""
        return following(self._root, self._rules, source)

    def bracketing(self) -> Bracketing | None:
        """The brackets that sources are made of, if the rules have the shape of such."""
        return bracketing(self._root, self._rules)

    def translate(self, source: Sequence[str]) -> list[str]:
        """The target of a source; with several derivations, that of the most probable.

        Among equally probable derivations, alternatives written earlier come first, then those
        with shorter first constituents.

        Raises:
            GrammarError: no sentence has this source, and the message says where it fails; or it is
                too long to be parsed.
        """
        if not source:
            raise GrammarError("the source is empty; expected at least one word")
        chart = Chart(self._form, source)
        if not chart.complete:
            raise self._failure(source)
        return chart.best_target()

    def _failure(self, source: Sequence[str]) -> GrammarError:
        """What is wrong with words that are not a sentence's source."""
        begun = zip(self.following(source), source, strict=False)
        for place, (possible, word) in enumerate(begun, start=1):
            if word not in possible:
                words = " ".join(abridged(source[:place]))
                return GrammarError(
                    f"word {place}, '{word}': no sentence of the grammar begins '{words}'"
                )
        whole = " ".join(abridged(source))
        return GrammarError(
            f"the sentence ends too early: '{whole}' only begins a sentence of the grammar"
        )


def _distinct_words(sides: Iterable[Iterable[str | int | Nonterminal]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for side in sides for word in side if isinstance(word, str)))
