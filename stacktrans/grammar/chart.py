"""Parsing a source."""

import math
from collections.abc import Sequence

import numpy as np

from stacktrans.grammar.normal_form import Binary, Lexical, NormalForm
from stacktrans.grammar.rules import GrammarError

MOST_CELLS = 1 << 25
"""The most places that a chart has, which is half a gigabyte."""


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
        if math.prod(shape) > MOST_CELLS:
            most = math.isqrt(MOST_CELLS // len(form)) - 1
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
