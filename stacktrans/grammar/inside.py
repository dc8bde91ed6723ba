"""Over the normal form: probabilities of lengths, sampling at an exact length, and parsing."""

import math
from array import array
from bisect import bisect_right
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stacktrans.grammar.normal_form import Binary, Lexical, NormalForm
from stacktrans.grammar.rules import GrammarError

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]
LONGEST_KEPT = 256
"""Choices at longer spans are few in a derivation and large, so they are not kept."""
MOST_CELLS, MOST_SUMS = 500_000, 1_000_000_000
"""The most places that the table has, and the most sums that are made for it; both take seconds."""

MOST_CHART_CELLS = 1 << 25
"""The most places that a chart has, which is half a gigabyte."""


class InsideTable:
    """Inside probabilities by symbol and source length, and draws by them.

    The logarithm of the inside probability of symbol X at length n is, by X's binary
    productions, the logarithm of the sum over productions X -> Y Z and splits k of
    p(X -> Y Z) inside(Y, k) inside(Z, n - k), which is a convolution.
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
        self._most = min(MOST_CELLS // len(form), math.isqrt(2 * MOST_SUMS // max(productions, 1)))
        # [symbols, longest + 1]; there are no empty sources.
        self._table: Floats = np.full((len(form), 1), -np.inf)
        self._kept: dict[tuple[int, int], array[float]] = {}

    def of_lengths(self, symbol: int, longest: int) -> Floats:
        """A symbol's log inside probabilities, [longest + 1]; raises `GrammarError` if too long."""
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
        return self._table[symbol, : longest + 1]

    def _log_weights(self, symbol: int, length: int) -> Floats:
        """Log probability of each way to begin: [lexical], or [binary * (length - 1)]."""
        if length == 1:
            return self._lexical[symbol]
        log_probabilities, lefts, rights = self._binary[symbol]
        left: Floats = self._table[lefts, 1:length]
        right: Floats = self._table[rights, length - 1 : 0 : -1]
        return (log_probabilities + left + right).ravel()

    def _choices(self, symbol: int, length: int) -> "array[float]":
        """Cumulative probabilities of `_log_weights`, given the symbol and the length."""
        log_weights = self._log_weights(symbol, length)
        weights = np.exp(log_weights - self._table[symbol, length])
        cumulative = array("d", np.cumsum(weights).tobytes())
        if length <= LONGEST_KEPT:
            self._kept[symbol, length] = cumulative
        return cumulative

    def draw(self, generator: np.random.Generator, length: int) -> list[Lexical | Binary]:
        """A derivation from the root, drawn among those of a possible source length."""
        lexical, binary, kept = self._form.lexical, self._form.binary, self._kept
        derivation: list[Lexical | Binary] = []
        pending = [(self._form.root, length)]
        for uniform in generator.random(2 * length - 1).tolist():
            goal = pending.pop()
            cumulative = kept.get(goal) or self._choices(*goal)
            # The sum may differ from 1 by rounding; scaled, the choice stays within it.
            choice = bisect_right(cumulative, uniform * cumulative[-1])
            symbol, span = goal
            if span == 1:
                derivation.append(lexical[symbol][choice])
                continue
            number, split = divmod(choice, span - 1)
            production = binary[symbol][number]
            derivation.append(production)
            pending.append((production.right, span - split - 1))
            pending.append((production.left, split + 1))
        return derivation


class Chart:
    """The best derivation of every part of a source (Cocke, Younger and Kasami's chart).

    Scores are log probabilities of the most probable derivation, kept twice, so that all
    spans of one length and all their splits are two slices:

        from_start[X, i, k]: X derives the k words from position i
        to_end[X, j, k]: X derives the k words before position j

    both [symbols, n + 1, n + 1] for n words.

    Raises:
        GrammarError: there are too many words for so large a grammar.
    """

    def __init__(self, form: NormalForm, words: Sequence[str]) -> None:
        self._form = form
        self._words = words
        shape = (len(form), len(words) + 1, len(words) + 1)
        if math.prod(shape) > MOST_CHART_CELLS:
            most = math.isqrt(MOST_CHART_CELLS // len(form)) - 1
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
        scores = np.full((len(self._form), len(self._words)), -np.inf)
        words = np.array(self._words, dtype=object)
        for symbol, productions in enumerate(self._form.lexical):
            for production in productions:
                at = words == production.word
                scores[symbol, at] = np.maximum(scores[symbol, at], production.log_probability)
        self._from_start[:, :-1, 1] = scores
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
        """Whether the root derives all the words."""
        return bool(np.isfinite(self._from_start[self._form.root, 0, len(self._words)]))

    def best_derivation(self) -> list[Lexical | Binary]:
        """The most probable derivation of all the words from the root."""
        derivation: list[Lexical | Binary] = []
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
        return derivation

    def _best_split(self, symbol: int, start: int, length: int) -> tuple[Binary, int]:
        productions = self._form.binary[symbol]
        scores = [
            self._from_start[each.left, start, 1:length]
            + self._to_end[each.right, start + length, length - 1 : 0 : -1]
            + each.log_probability
            for each in productions
        ]
        number, split = divmod(int(np.argmax(scores)), length - 1)
        return productions[number], split + 1
