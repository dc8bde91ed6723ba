"""Tasks of streams of sequences: counting by patterns like a^n b^n, memorization, addition.

The tasks are those of joulin2015, section 4. A sequence is a prompt and an answer, its
predictable part: given the prompt, every symbol of the answer is certain.
"""

import math
import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from stacktrans.common.errors import check_parameter, shown
from stacktrans.common.reading import MAX_LENGTH
from stacktrans.tasks.alphabets import DIGITS, Alphabet, Ids, meaningless_symbols
from stacktrans.tasks.base import NotASource, Task
from stacktrans.tasks.computed import expect
from stacktrans.tasks.layout import Layout, Pair
from stacktrans.tasks.lengths import LengthDistribution, Lengths, NoSuchLength, draw_lengths

_RUN = re.compile(r"(\S)(?:\^(?:([a-z0-9]+)|\(([a-z0-9]+(?:\+[a-z0-9]+)*)\)))?")
MAX_RUN_NOTATION = 100
"""The maximum length of the notation of a run, in characters."""

_PROBLEM = re.compile(r"(0|1[01]*)\+(0|1[01]*)=")


class SymbolRun(NamedTuple):
    """A run of a symbol in a pattern.

    Attributes:
        symbol: a single character.
        terms: the terms of its length, each a product of numbers and counts.
        introduces: the count that occurs here for the first time; None if there is none.
    """

    symbol: str
    terms: tuple[tuple[int | str, ...], ...]
    introduces: str | None

    def length(self, counts: Mapping[str, int]) -> int:
        """The length of the run."""
        return sum(
            math.prod(counts[factor] if isinstance(factor, str) else factor for factor in term)
            for term in self.terms
        )


def parse_pattern(pattern: str) -> list[SymbolRun]:
    """Parse the runs of a pattern; raises `ValueError`.

    A run is a symbol, perhaps with a length: `a^n`, `a^2n`, `a^(n+m)`, `a^nm`. A count stands alone
    where it occurs for the first time.
    """
    is_text = isinstance(pattern, str) and bool(pattern.split())
    check_parameter(is_text, "pattern", pattern, "one like 'a^n b^n'")
    runs: list[SymbolRun] = []
    known: set[str] = set()
    for written in pattern.split():
        run = _parse_run(pattern, written, known)
        if run.symbol in {earlier.symbol for earlier in runs}:
            raise ValueError(f"pattern '{pattern}': '{run.symbol}' has two runs")
        runs.append(run)
        known |= {run.introduces} if run.introduces else set()
    if not known:
        raise ValueError(f"pattern '{pattern}': no run has a count, as in a^n")
    return runs


def _parse_run(pattern: str, written: str, known: set[str]) -> SymbolRun:
    match = _RUN.fullmatch(written)
    if not match or len(written) > MAX_RUN_NOTATION:
        raise ValueError(
            f"pattern {shown(pattern)}: can't read {shown(written)}; expected one like 'a^n' "
            f"or 'c^(2n+m)', of at most {MAX_RUN_NOTATION} characters"
        )
    symbol, product, total = match.groups()
    terms = tuple(
        tuple(
            int(factor) if factor.isdigit() else factor for factor in re.findall(r"\d+|[a-z]", term)
        )
        for term in (product or total or "1").split("+")
    )
    if any(factor == 0 for term in terms for factor in term):
        raise ValueError(f"pattern '{pattern}': '{written}' has 0 as a number; expected 1 or more")
    new = {factor for term in terms for factor in term if isinstance(factor, str)} - known
    if new and (len(new) > 1 or terms != ((*new,),)):
        raise ValueError(
            f"pattern '{pattern}': '{written}' introduces {' and '.join(sorted(new))}; "
            "a new count must stand alone"
        )
    return SymbolRun(symbol, terms, next(iter(new), None))


class StreamTask(Task):
    """A task of sequences that are generated from a size n, which counts as their length.

    Attributes:
        smallest: the least n.
    """

    smallest = 1

    @abstractmethod
    def draw(self, rng: Generator, size: int) -> tuple[list[str], list[str]]:
        """Draw the prompt and the answer of a sequence of size n."""

    @abstractmethod
    def size_of(self, prompt: Sequence[str]) -> int:
        """The size n of a prompt; for other strings, their length."""

    def pair(self, source: Ids, target: Ids) -> Pair:
        return Pair(source, target, size=self.size_of(self.source.decode(source)))

    def sample(
        self, rng: Generator, lengths: Lengths, count: int, law: LengthDistribution
    ) -> list[Pair]:
        if lengths.longest < self.smallest:
            least = f"the shortest has {self.smallest}"
            raise NoSuchLength(f"no sequence has a length of {lengths}; {least}")
        shortest = max(lengths.shortest, self.smallest)
        sizes = draw_lengths(rng, Lengths(shortest, lengths.longest), count, law)
        pairs = []
        for size in map(int, sizes):
            prompt, answer = self.draw(rng, size)
            pairs.append(Pair(self.source.encode(prompt), self.target.encode(answer), size=size))
        return pairs


class Counting(StreamTask):
    """aaab -> bbccc, for the pattern a^n b^n c^n.

    A prompt ends with the first symbol after the last run that introduces a count: from there on
    everything is certain, and so is the first symbol of the next sequence. Counts are at least 1,
    and the size is their sum.

    Args:
        pattern: runs of symbols with their lengths, such as a^n b^m c^(2n+m): a count alone where
            it occurs first, and then sums and products of numbers and counts.
    """

    def __init__(self, pattern: str) -> None:
        self.runs = parse_pattern(pattern)
        self.source = self.target = Alphabet([run.symbol for run in self.runs], words=False)
        self._counts = [run.introduces for run in self.runs if run.introduces]
        last = max(index for index, run in enumerate(self.runs) if run.introduces)
        if last + 1 == len(self.runs):
            raise ValueError(
                f"pattern '{pattern}': its last run introduces a count, so nothing is predictable"
            )
        self._before, self._turning_symbol = self.runs[: last + 1], self.runs[last + 1].symbol
        groups = [f"({re.escape(run.symbol)}+)" for run in self._before]
        self._prompt = re.compile("".join(groups) + re.escape(self._turning_symbol))
        self._pattern = pattern
        self.smallest = len(self._counts)
        self.layout = Layout.stream(len(self.source), follow=0)

    def draw(self, rng: Generator, size: int) -> tuple[list[str], list[str]]:
        cuts = rng.choice(size - 1, size=len(self._counts) - 1, replace=False) + 1
        counts = np.diff([0, *sorted(cuts.tolist()), size]).tolist()
        symbols = self._written(dict(zip(self._counts, counts, strict=True)))
        known = symbols.index(self._turning_symbol) + 1
        return symbols[:known], symbols[known:]

    def _written(self, counts: Mapping[str, int]) -> list[str]:
        """The sequence of some counts; raises `NoSuchLength` if it is too long for any model."""
        lengths = [run.length(counts) for run in self.runs]
        if sum(lengths) > MAX_LENGTH:
            raise NoSuchLength(
                f"{self._pattern} has more than {MAX_LENGTH} symbols where its counts are "
                f"{', '.join(f'{name} = {count}' for name, count in counts.items())}"
            )
        runs = zip(self.runs, lengths, strict=True)
        return [symbol for run, length in runs for symbol in run.symbol * length]

    def answer(self, source: Sequence[str]) -> list[str | None]:
        self.source.encode(source)
        counts = self._counted(source)
        try:
            symbols = self._written(counts) if counts else []
        except NoSuchLength as error:
            raise NotASource(str(error)) from error
        is_prefix = bool(counts) and list(source) == symbols[: len(source)]
        turning = f"its first {self._turning_symbol}"
        expect(is_prefix, f"the beginning of {self._pattern}, as far as {turning} or further")
        return [*symbols[len(source) :]]

    def size_of(self, prompt: Sequence[str]) -> int:
        counts = self._counted(prompt)
        return sum(counts.values()) if counts else len(prompt)

    def _counted(self, symbols: Sequence[str]) -> dict[str, int] | None:
        """The counts of a prompt, or of a longer prefix of a sequence; None for other strings."""
        match = self._prompt.match("".join(symbols))
        strings = zip(self._before, match.groups() if match else (), strict=False)
        return {run.introduces: len(string) for run, string in strings if run.introduces} or None


class Memorization(StreamTask):
    """1223= -> 3221: a string, and then its reverse

    Args:
        symbols: how many symbols strings are made of: digits except 0 and letters if these
            suffice, or else words s1, s2, ...; then = is separated by spaces, too.
    """

    def __init__(self, symbols: int = 2) -> None:
        self.source = self.target = meaningless_symbols(symbols, DIGITS[1:], ["="])
        self.layout = Layout.stream(len(self.source))

    def draw(self, rng: Generator, size: int) -> tuple[list[str], list[str]]:
        drawn = rng.integers(len(self.source) - 1, size=size)
        string = self.source.decode(drawn)
        return [*string, "="], string[::-1]

    def answer(self, source: Sequence[str]) -> list[str | None]:
        self.source.encode(source)
        *string, last = source or [""]
        expect(last == "=" and "=" not in string and bool(string), "a string and then =")
        return [*string[::-1]]

    def size_of(self, prompt: Sequence[str]) -> int:
        return len(prompt) - 1


class Addition(StreamTask):
    """101+1= -> 011. : the sum of two binary numbers, its last digit first, and a full stop

    Numbers have no leading zeros. The size n is the sum of their lengths, where 0 has length 0.
    """

    def __init__(self) -> None:
        self.source = self.target = Alphabet(["0", "1", "+", "=", "."], words=False)
        self.layout = Layout.stream(len(self.source), last=self.source.symbols.index("."))

    def draw(self, rng: Generator, size: int) -> tuple[list[str], list[str]]:
        length = int(rng.integers(size, endpoint=True))
        first, second = (
            int("1" + "".join(map(str, rng.integers(2, size=digits - 1))), 2) if digits else 0
            for digits in (length, size - length)
        )
        return [*f"{first:b}+{second:b}="], _sum(first, second)

    def answer(self, source: Sequence[str]) -> list[str | None]:
        self.source.encode(source)
        match = _PROBLEM.fullmatch("".join(source))
        if not match:
            raise NotASource("expected two binary numbers like 101+1=, without zeros before them")
        first, second = (int(number, 2) for number in match.groups())
        return [*_sum(first, second)]

    def size_of(self, prompt: Sequence[str]) -> int:
        match = _PROBLEM.fullmatch("".join(prompt))
        if not match:
            return len(prompt)
        return sum(len(number) for number in match.groups() if number != "0")


def _sum(first: int, second: int) -> list[str]:
    return [*f"{first + second:b}"[::-1], "."]
