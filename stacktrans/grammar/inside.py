"""Chomsky normal form; inside probabilities and sampling by length; CYK parsing and translation."""

import math
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from graphlib import TopologicalSorter
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from stacktrans.grammar.rules import (
    MAX_PARTS,
    Alternative,
    GrammarError,
    Nonterminal,
    Part,
    Rules,
    Sentence,
    Template,
    unit_links,
)

Floats = NDArray[np.float64]
LONGEST_KEPT = 256
"""The longest span whose cumulative probabilities are cached; longer ones are rare and large."""
MAX_CELLS, MAX_SUMS = 500_000, 1_000_000_000
"""The most entries of the inside table, and the most terms of its sums; either takes seconds."""

MAX_CHART_CELLS = 1 << 25
"""The maximum number of entries of a chart, which take half a gigabyte."""


class Production(NamedTuple):
    """A production of the normal form: X -> word, or X -> left right.

    Attributes:
        log_probability: the natural logarithm of its probability.
        target: the template of its target; None if it continues a longer rule with a template.
        left: the first symbol.
        right: the second symbol.
        word: the word in place of the symbols; empty if there are symbols.
    """

    log_probability: float
    target: Template | None
    left: int = 0
    right: int = 0
    word: str = ""


class NormalForm:
    """The Chomsky normal form of a grammar's source side.

    A symbol is a number. It stands for a nonterminal of the grammar, a word inside a longer rule,
    or a suffix of a right-hand side; rules with the same suffix share its symbol.

    Attributes:
        root: the start symbol.
        lexical: the productions of a word of each symbol.
        binary: the productions of two symbols of each symbol.
    """

    def __init__(self, root: str, rules: Rules) -> None:
        self.lexical: list[list[Production]] = []
        self.binary: list[list[Production]] = []
        self._single: dict[Part, int] = {Nonterminal(name): self._new_symbol() for name in rules}
        # Suffixes of several parts: the first part, and the symbol of the rest.
        self._suffixes: dict[tuple[Part, int], int] = {}
        for name, alternatives in _without_units(rules).items():
            for alternative in alternatives:
                self._add(self._single[Nonterminal(name)], alternative)
        self.root = self._single[Nonterminal(root)]

    def __len__(self) -> int:
        return len(self.binary)

    def _new_symbol(self) -> int:
        self.lexical.append([])
        self.binary.append([])
        return len(self.binary) - 1

    def _add(self, symbol: int, alternative: Alternative) -> None:
        if not alternative.probability:
            raise GrammarError("unit productions one after another have a probability of nearly 0")
        log_probability, (first, *rest) = math.log(alternative.probability), alternative.source
        if rest:
            parts = self._symbol_of(first), self._symbol_of(*rest)
            self.binary[symbol].append(Production(log_probability, alternative.target, *parts))
        else:  # a single part is a word, since there are no unit productions
            self.lexical[symbol].append(
                Production(log_probability, alternative.target, word=str(first))
            )

    def _symbol_of(self, *parts: Part) -> int:
        """The symbol that derives some parts with probability 1, and without a template."""
        *others, last = parts
        if last not in self._single:
            self._single[last] = self._new_symbol()
            self.lexical[-1].append(Production(0.0, None, word=str(last)))
        symbol = self._single[last]
        for part in reversed(others):
            if (part, symbol) not in self._suffixes:
                production = Production(0.0, None, self._symbol_of(part), symbol)
                self._suffixes[part, symbol] = self._new_symbol()
                self.binary[-1].append(production)
            symbol = self._suffixes[part, symbol]
        return symbol


def _without_units(rules: Rules) -> dict[str, list[Alternative]]:
    """The rules with each unit production replaced by the alternatives of its nonterminal."""
    replaced: dict[str, list[Alternative]] = {}
    size = 0
    for name in TopologicalSorter(unit_links(rules)).static_order():
        replaced[name] = []
        for alternative in rules[name]:
            unit = alternative.unit
            for inner in [None] if unit is None else replaced[unit]:
                replaced[name].append(_composed(alternative, inner) if inner else alternative)
                size += 1 + len(replaced[name][-1].target)
                if size > MAX_PARTS:
                    raise GrammarError.of(
                        name,
                        "unit productions that lead to one another stand for too many rules; "
                        "expected fewer",
                    )
    return replaced


def _composed(unit: Alternative, inner: Alternative) -> Alternative:
    """The composition of a unit production with an alternative of its nonterminal."""
    index = unit.target.index(0)
    return replace(
        inner,
        probability=unit.probability * inner.probability,
        target=unit.target[:index] + inner.target + unit.target[index + 1 :],
    )


def target_of(derivation: Sequence[Production | Alternative]) -> list[str]:
    """The target of a leftmost derivation, given by its rules in order."""
    phrases: list[list[str]] = []
    # In reverse order, a rule comes after all its phrases, the first of which is on top.
    for rule in reversed(derivation):
        if rule.target is None:
            continue
        children = [phrases.pop() for item in rule.target if isinstance(item, int)]
        phrase: list[str] = []
        for item in rule.target:
            phrase += children[item] if isinstance(item, int) else [item]
        phrases.append(phrase)
    return phrases.pop()


class InsideTable:
    """Inside probabilities by symbol and source length, and sampling from them.

    The inside probability of a symbol X at length n > 1 is the sum over productions X -> Y Z and
    splits k of p(X -> Y Z) inside(Y, k) inside(Z, n - k), which is a convolution.
    """

    def __init__(self, form: NormalForm) -> None:
        self._form = form
        self._lexical = [np.array([each.log_probability for each in row]) for row in form.lexical]
        self._binary = [
            (
                np.array([[each.log_probability] for each in row]).reshape(-1, 1),
                np.array([each.left for each in row], dtype=np.intp),
                np.array([each.right for each in row], dtype=np.intp),
            )
            for row in form.binary
        ]
        productions = sum(len(lefts) for _, lefts, _ in self._binary)
        self._most = min(MAX_CELLS // len(form), math.isqrt(2 * MAX_SUMS // max(productions, 1)))
        # [symbols, longest + 1]; there are no empty sources.
        self._table: Floats = np.full((len(form), 1), -np.inf)
        self._kept: dict[tuple[int, int], array[float]] = {}

    def of_lengths(self, longest: int) -> Floats:
        """[longest + 1] log inside probabilities of the root; may raise `GrammarError`."""
        if longest > self._most:
            raise GrammarError(
                f"sentences of {longest} words are too long to be drawn from this grammar; "
                f"expected at most {self._most}"
            )
        known = self._table.shape[1]
        if longest >= known:
            more = min(max(longest, 2 * known - 2), self._most) + 1 - known
            self._table = np.pad(self._table, ((0, 0), (0, more)), constant_values=-np.inf)
            for length in range(known, known + more):
                for each in range(len(self._form)):
                    weights = self._log_weights(each, length)
                    self._table[each, length] = np.logaddexp.reduce(weights)
        return self._table[self._form.root, : longest + 1]

    def _log_weights(self, symbol: int, length: int) -> Floats:
        """Log weight of each production and split: [lexical], or [binary * (length - 1)]."""
        if length == 1:
            return self._lexical[symbol]
        log_probabilities, lefts, rights = self._binary[symbol]
        left: Floats = self._table[lefts, 1:length]
        right: Floats = self._table[rights, length - 1 : 0 : -1]
        return (log_probabilities + left + right).ravel()

    def _choices(self, symbol: int, length: int) -> "array[float]":
        """Cumulative probabilities of `_log_weights`, normalized."""
        log_weights = self._log_weights(symbol, length)
        weights = np.exp(log_weights - self._table[symbol, length])
        cumulative = array("d", np.cumsum(weights).tobytes())
        if length <= LONGEST_KEPT:
            self._kept[symbol, length] = cumulative
        return cumulative

    def draw(self, rng: Generator, length: int) -> Sentence:
        """Draw a derivation of a possible source length; returns source and target."""
        lexical, binary, kept = self._form.lexical, self._form.binary, self._kept
        derivation: list[Production] = []
        pending = [(self._form.root, length)]
        for uniform in rng.random(2 * length - 1).tolist():
            goal = pending.pop()
            cumulative = kept.get(goal) or self._choices(*goal)
            # Scaled by the sum, which may differ from 1 by rounding.
            choice = bisect_right(cumulative, uniform * cumulative[-1])
            symbol, span = goal
            if span == 1:
                derivation.append(lexical[symbol][choice])
                continue
            number, split = divmod(choice, span - 1)
            production = binary[symbol][number]
            derivation.append(production)
            pending += [(production.right, span - split - 1), (production.left, split + 1)]
        source = [each.word for each in derivation if each.word]
        return source, target_of(derivation)


class Chart:
    """The Viterbi chart of a source (Cocke, Younger and Kasami).

    Scores are log probabilities of the most probable derivation of a span. They are stored twice,
    so that all spans of a length, with all their splits, are two slices:

        from_start[X, i, k]: X derives the k words from position i
        to_end[X, j, k]: X derives the k words before position j

    both [symbols, n + 1, n + 1] for n words.

    Raises:
        GrammarError: the source is too long for a grammar of this size.
    """

    def __init__(self, form: NormalForm, words: Sequence[str]) -> None:
        self._form = form
        self._words = words
        shape = (len(form), len(words) + 1, len(words) + 1)
        if math.prod(shape) > MAX_CHART_CELLS:
            most = math.isqrt(MAX_CHART_CELLS // len(form)) - 1
            raise GrammarError(
                f"{len(words)} words are too many to parse with this grammar; expected at most "
                f"{most}"
            )
        self._from_start = np.full(shape, -np.inf)
        self._to_end = np.full(shape, -np.inf)
        self._read_words()
        for length in range(2, len(words) + 1):
            self._read_spans(length)

    def _read_words(self) -> None:
        scores, words = self._from_start[:, :-1, 1], np.array(self._words, dtype=object)
        for symbol, productions in enumerate(self._form.lexical):
            for production in productions:
                at = words == production.word
                scores[symbol, at] = np.maximum(scores[symbol, at], production.log_probability)
        self._to_end[:, 1:, 1] = scores

    def _read_spans(self, length: int) -> None:
        starts = len(self._words) - length + 1
        for symbol, productions in enumerate(self._form.binary):
            best = self._from_start[symbol, :starts, length]
            for production in productions:
                first = self._from_start[production.left, :starts, 1:length]
                second = self._to_end[production.right, length:, length - 1 : 0 : -1]
                scores = (first + second).max(axis=1) + production.log_probability
                np.maximum(best, scores, out=best)
            self._to_end[symbol, length:, length] = best

    @property
    def complete(self) -> bool:
        """Whether the start symbol derives the source."""
        return bool(np.isfinite(self._from_start[self._form.root, 0, len(self._words)]))

    def best_target(self) -> list[str]:
        """The target of the most probable derivation of the source."""
        derivation: list[Production] = []
        pending = [(self._form.root, 0, len(self._words))]
        while pending:
            symbol, start, length = pending.pop()
            if length == 1:
                word = self._words[start]
                fitting = [each for each in self._form.lexical[symbol] if each.word == word]
                derivation.append(max(fitting, key=lambda each: each.log_probability))
                continue
            production, split = self._best_split(symbol, start, length)
            derivation.append(production)
            pending.append((production.right, start + split, length - split))
            pending.append((production.left, start, split))
        return target_of(derivation)

    def _best_split(self, symbol: int, start: int, length: int) -> tuple[Production, int]:
        productions = self._form.binary[symbol]
        scores = [
            self._from_start[each.left, start, 1:length]
            + self._to_end[each.right, start + length, length - 1 : 0 : -1]
            + each.log_probability
            for each in productions
        ]
        number, split = divmod(int(np.argmax(scores)), length - 1)
        return productions[number], split + 1
