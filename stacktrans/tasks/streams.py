"""Streams of sequences one after another (joulin2015, section 4).

A sequence is a prompt and an answer, which is what can be known of it: given the prompt, every
symbol of the answer is certain.
"""

import math
import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from stacktrans.common.errors import shown
from stacktrans.common.reading import LONGEST
from stacktrans.tasks.alphabets import DIGITS, Alphabet, Ids, meaningless_symbols
from stacktrans.tasks.base import LengthLaw, Lengths, NoSuchLength, NotASource, Task, draw_lengths
from stacktrans.tasks.layout import Layout, Pair

_BLOCK = re.compile(r"(\S)(?:\^(?:([a-z0-9]+)|\(([a-z0-9+]+)\)))?")
LONGEST_RUN = 100
"""The longest that a run is written, in characters."""

_PROBLEM = re.compile(r"(0|1[01]*)\+(0|1[01]*)=")


class SymbolRun(NamedTuple):
    """A run of one symbol.

    Attributes:
        symbol: a single character.
        terms: what its length is the sum of: each a product of numbers and counts.
        introduces: the count that is met here for the first time; None if there is none.
    """

    symbol: str
    terms: tuple[tuple[int | str, ...], ...]
    introduces: str | None

    def times(self, counts: Mapping[str, int]) -> int:
        """How long the run is."""
        return sum(
            math.prod(counts[factor] if isinstance(factor, str) else factor for factor in term)
            for term in self.terms
        )


def blocks_of(pattern: str) -> list[SymbolRun]:
    """The runs of a pattern.

    Each is a symbol, or one with how often it comes: `a^n`, `a^2n`, `a^(n+m)`, `a^nm`. A count
    that is met for the first time stands alone. Raises `ValueError` that says what is wrong.
    """
    if not isinstance(pattern, str) or not pattern.split():
        raise ValueError(f"pattern is {shown(pattern)}; expected one like 'a^n b^n'")
    blocks: list[SymbolRun] = []
    known: set[str] = set()
    for written in pattern.split():
        block = _block(pattern, written, known)
        if block.symbol in {earlier.symbol for earlier in blocks}:
            raise ValueError(f"pattern '{pattern}': '{block.symbol}' has two runs")
        blocks.append(block)
        known |= {block.introduces} if block.introduces else set()
    if not known:
        raise ValueError(f"pattern '{pattern}': there is nothing to count")
    return blocks


def _block(pattern: str, written: str, known: set[str]) -> SymbolRun:
    found = _BLOCK.fullmatch(written)
    if not found or len(written) > LONGEST_RUN:
        raise ValueError(
            f"pattern {shown(pattern)}: can't read {shown(written)}; expected one like 'a^n' "
            f"of at most {LONGEST_RUN} characters"
        )
    symbol, alone, together = found.groups()
    terms = tuple(
        tuple(
            int(factor) if factor.isdigit() else factor for factor in re.findall(r"\d+|[a-z]", term)
        )
        for term in (alone or together or "1").split("+")
    )
    if any(factor == 0 for term in terms for factor in term):
        raise ValueError(f"pattern '{pattern}': '{written}' has 0 as a number; expected 1 or more")
    new = {factor for term in terms for factor in term if isinstance(factor, str)} - known
    if new and terms != ((*new,),):
        raise ValueError(
            f"pattern '{pattern}': '{written}' counts {', '.join(sorted(new))} for the first time; "
            "such a count stands alone"
        )
    return SymbolRun(symbol, terms, next(iter(new), None))


class StreamTask(Task):
    """Sequences by a number n, which is what their lengths are.

    Attributes:
        smallest: the least n.
    """

    smallest = 1

    @abstractmethod
    def draw(self, generator: np.random.Generator, size: int) -> tuple[list[str], list[str]]:
        """The prompt and the answer of a sequence with a given n."""

    @abstractmethod
    def size_of(self, prompt: Sequence[str]) -> int:
        """The n of a prompt; its length if it is not the prompt of any sequence."""

    def pair(self, source: Ids, target: Ids) -> Pair:
        return Pair(source, target, size=self.size_of(self.source.decode(source)))

    def sample(
        self, generator: np.random.Generator, lengths: Lengths, count: int, law: LengthLaw
    ) -> list[Pair]:
        shortest = max(lengths.shortest, self.smallest)
        sizes = draw_lengths(generator, Lengths(shortest, lengths.longest), count, law)
        pairs = []
        for size in map(int, sizes):
            prompt, answer = self.draw(generator, size)
            pairs.append(Pair(self.source.encode(prompt), self.target.encode(answer), size=size))
        return pairs


class Counting(StreamTask):
    """aaab -> bbccc, for the pattern a^n b^n c^n.

    A prompt goes on to the first symbol after the last run that a count is met in for the first
    time: from there on all is certain. So is what follows the answer, since the next sequence
    begins with the first symbol. Counts are 1 or more, and the length is their sum.

    Args:
        pattern: runs of symbols and how often each comes, such as a^n b^m c^(2n+m); see
            `blocks_of`.
    """

    def __init__(self, pattern: str) -> None:
        self.blocks = blocks_of(pattern)
        self.source = self.target = Alphabet([block.symbol for block in self.blocks], words=False)
        self._counts = [block.introduces for block in self.blocks if block.introduces]
        last = max(index for index, block in enumerate(self.blocks) if block.introduces)
        if last + 1 == len(self.blocks):
            raise ValueError(f"pattern '{pattern}': nothing of it can be known beforehand")
        self._before, self._turn = self.blocks[: last + 1], self.blocks[last + 1].symbol
        runs = [f"({re.escape(block.symbol)}+)" for block in self._before]
        self._runs = re.compile("".join(runs) + re.escape(self._turn))
        self._pattern = pattern
        self.smallest = len(self._counts)
        self.layout = Layout.stream(len(self.source), follow=0)

    def draw(self, generator: np.random.Generator, size: int) -> tuple[list[str], list[str]]:
        cuts = generator.choice(size - 1, size=len(self._counts) - 1, replace=False) + 1
        counts = np.diff([0, *sorted(cuts.tolist()), size]).tolist()
        symbols = self._written(dict(zip(self._counts, counts, strict=True)))
        known = symbols.index(self._turn) + 1
        return symbols[:known], symbols[known:]

    def _written(self, counts: Mapping[str, int]) -> list[str]:
        """A sequence with given counts; raises `NoSuchLength` if it is too long for any model."""
        times = [block.times(counts) for block in self.blocks]
        if sum(times) > LONGEST:
            raise NoSuchLength(
                f"{self._pattern} has more than {LONGEST} symbols where its counts are "
                f"{', '.join(f'{name} = {count}' for name, count in counts.items())}"
            )
        runs = zip(self.blocks, times, strict=True)
        return [symbol for block, count in runs for symbol in block.symbol * count]

    def answer(self, source: Sequence[str]) -> list[str | None]:
        self.source.encode(source)
        counts = self._counted(source)
        try:
            symbols = self._written(counts) if counts else []
        except NoSuchLength as error:
            raise NotASource(str(error)) from error
        if not counts or list(source) != symbols[: len(source)]:
            raise NotASource(
                f"expected the beginning of {self._pattern}, as far as its first {self._turn} "
                "or further"
            )
        return [*symbols[len(source) :]]

    def size_of(self, prompt: Sequence[str]) -> int:
        counts = self._counted(prompt)
        return sum(counts.values()) if counts else len(prompt)

    def _counted(self, symbols: Sequence[str]) -> dict[str, int] | None:
        """The counts of a sequence that goes as far as they are known; None if it does not."""
        runs = self._runs.match("".join(symbols))
        named = zip(self._before, runs.groups() if runs else (), strict=False)
        return {block.introduces: len(run) for block, run in named if block.introduces} or None


class Memorization(StreamTask):
    """1223= -> 3221: a string, and then its reverse

    Args:
        symbols: how many symbols strings are made of: digits but for 0 and letters as long as
            these suffice, or else words s1, s2, ... separated by spaces, as = is then, too.
    """

    def __init__(self, symbols: int = 2) -> None:
        self.source = self.target = meaningless_symbols(symbols, DIGITS[1:], ["="])
        self.layout = Layout.stream(len(self.source))

    def draw(self, generator: np.random.Generator, size: int) -> tuple[list[str], list[str]]:
        drawn = generator.integers(len(self.source) - 1, size=size)
        string = self.source.decode(drawn)
        return [*string, "="], string[::-1]

    def answer(self, source: Sequence[str]) -> list[str | None]:
        self.source.encode(source)
        *string, last = source or [""]
        if last != "=" or "=" in string or not string:
            raise NotASource("expected a string and then =")
        return [*string[::-1]]

    def size_of(self, prompt: Sequence[str]) -> int:
        return len(prompt) - 1


class Addition(StreamTask):
    """101+1= -> 011. : the sum of two binary numbers, its last digit first, and a full stop

    The first digit of a number is 1, and 0 has none: it is written 0. Their lengths sum up to n.
    """

    def __init__(self) -> None:
        self.source = self.target = Alphabet(["0", "1", "+", "=", "."], words=False)
        self.layout = Layout.stream(len(self.source), last=self.source.symbols.index("."))

    def draw(self, generator: np.random.Generator, size: int) -> tuple[list[str], list[str]]:
        length = int(generator.integers(size, endpoint=True))
        first, second = (
            int("1" + "".join(map(str, generator.integers(2, size=digits - 1))), 2) if digits else 0
            for digits in (length, size - length)
        )
        return [*f"{first:b}+{second:b}="], _sum(first, second)

    def _numbers(self, source: Sequence[str]) -> Sequence[str]:
        """The digits of both; raises `NotASource` if these are not two numbers."""
        found = _PROBLEM.fullmatch("".join(source))
        if not found:
            raise NotASource("expected two binary numbers like 101+1=, without zeros before them")
        return found.groups()

    def answer(self, source: Sequence[str]) -> list[str | None]:
        self.source.encode(source)
        first, second = (int(number, 2) for number in self._numbers(source))
        return [*_sum(first, second)]

    def size_of(self, prompt: Sequence[str]) -> int:
        try:
            return sum(len(number) for number in self._numbers(prompt) if number != "0")
        except NotASource:
            return len(prompt)


def _sum(first: int, second: int) -> list[str]:
    return [*f"{first + second:b}"[::-1], "."]
