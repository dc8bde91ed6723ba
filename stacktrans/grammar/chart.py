"""Parsing a source."""

import math
from bisect import bisect_left
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stacktrans.common.errors import abridged
from stacktrans.grammar.normal_form import Binary, Lexical, NormalForm
from stacktrans.grammar.rules import GrammarError, NotInGrammar

Floats = NDArray[np.float64]
MOST_CELLS = 1 << 25
"""The most places that a chart has, which is half a gigabyte."""
Indices = NDArray[np.intp]


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
        places: dict[str, list[int]] = {}
        for position, word in enumerate(self._words):
            places.setdefault(word, []).append(position)
        for symbol, productions in enumerate(self._form.lexical):
            for production in productions:
                at = places.get(production.word, [])
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
                derivation.append(self._best_lexical(symbol, self._words[start]))
                continue
            production, split = self._best_split(symbol, start, length)
            derivation.append(production)
            pending.append((production.right, start + split, length - split))
            pending.append((production.left, start, split))
        return derivation

    def _best_lexical(self, symbol: int, word: str) -> Lexical:
        fitting = [each for each in self._form.lexical[symbol] if each.word == word]
        return max(fitting, key=lambda each: each.log_probability)

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

    def longest_prefix(self) -> int:
        """How many of the first words begin some sentence."""
        steps = np.array(
            [
                (symbol, each.left, each.right)
                for symbol, productions in enumerate(self._form.binary)
                for each in productions
            ],
            dtype=np.intp,
        ).reshape(-1, 3)
        beginnings = _beginnings(len(self._form), steps)
        # Where some words begin no sentence, more words do not either.
        ends = range(1, len(self._words) + 1)
        return bisect_left(ends, True, key=lambda end: not self._begins(end, steps, beginnings))

    def _begins(self, end: int, steps: Indices, beginnings: list[list[int]]) -> bool:
        """Whether the words before `end` begin some sentence.

        Args:
            end: at least 1.
            steps: parent, left and right symbol of each binary production, [P, 3].
            beginnings: as `_beginnings` gives them.
        """
        parents, lefts, rights = steps.T
        # begun[X, i]: X derives the words from i up to the end, and perhaps more.
        begun = np.zeros((len(self._form), end), dtype=bool)
        for start in reversed(range(end)):
            seeds = np.isfinite(self._from_start[:, start, end - start])
            spanned = np.isfinite(self._from_start[lefts, start, 1 : end - start])
            goes_on = (spanned & begun[rights, start + 1 :]).any(axis=1)
            seeds[parents[goes_on]] = True
            # Every symbol derives something, so that what follows a left corner exists.
            begun[_begun_by(np.flatnonzero(seeds).tolist(), beginnings), start] = True
        return bool(begun[self._form.root, 0])


def _beginnings(symbols: int, steps: Indices) -> list[list[int]]:
    """For each symbol, those that have a production which begins with it."""
    found: list[list[int]] = [[] for _ in range(symbols)]
    for parent, left, _ in steps.tolist():
        found[left].append(parent)
    return found


def _begun_by(seeds: list[int], beginnings: list[list[int]]) -> list[int]:
    """The symbols of which some derivation begins with one of some symbols, these included."""
    found, pending = set(seeds), seeds
    while pending:
        further = set(beginnings[pending.pop()]) - found
        found |= further
        pending += further
    return sorted(found)


def where_it_fails(chart: Chart, words: Sequence[str]) -> NotInGrammar:
    """What is wrong with words that the chart of them does not derive."""
    readable = chart.longest_prefix()
    if readable == len(words):
        begun = f"'{_abridged(words)}' begins a sentence of the grammar but is none"
        return NotInGrammar(f"the sentence ends too early: {begun}", readable + 1)
    begun = _abridged(words[: readable + 1])
    return NotInGrammar(
        f"word {readable + 1}, '{words[readable]}': no sentence of the grammar begins '{begun}'",
        readable + 1,
    )


def _abridged(words: Sequence[str]) -> str:
    """Words side by side, without the middle of a long string."""
    return " ".join(abridged(words))
