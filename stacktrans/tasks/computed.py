"""Tasks whose sources are drawn one by one, and whose answers are computed from them."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

import numpy as np

from stacktrans.tasks.alphabets import DIGITS, PRINTABLE, Alphabet, Ids, meaningless_symbols
from stacktrans.tasks.base import (
    LengthLaw,
    Lengths,
    NoSuchLaw,
    NoSuchLength,
    NotASource,
    Task,
    draw_strings,
)
from stacktrans.tasks.layout import Pair

Symbols = Sequence[str]

WAIT = "#"


class Computed(Task):
    """A source of a length is drawn, and its answer is computed from it.

    Lengths are spread uniformly over those that there are.
    """

    def has_length(self, length: int) -> bool:
        """Whether there are sources of a length."""
        return True

    @abstractmethod
    def draw(self, generator: np.random.Generator, length: int) -> Symbols:
        """A source of a length that there is."""

    @abstractmethod
    def solve(self, source: Symbols) -> Symbols:
        """The answer to a source of known symbols; raises `NotASource` where there is none."""

    def sample(
        self, generator: np.random.Generator, lengths: Lengths, count: int, law: LengthLaw
    ) -> list[Pair]:
        if law not in ("uniform", "task"):
            raise NoSuchLaw("expected lengths that are spread uniformly")
        possible = [*filter(self.has_length, range(lengths.shortest, lengths.longest + 1))]
        if not possible:
            raise NoSuchLength(f"no source has a length in {lengths}")
        drawn = generator.choice(possible, size=count).tolist()
        return [self._pair_of(self.draw(generator, length)) for length in drawn]

    def _pair_of(self, source: Symbols) -> Pair:
        return Pair(self.source.encode(source), self.target.encode(self.solve(source)))

    def answer(self, source: Symbols) -> list[str | None]:
        self.source.encode(source)
        return [*self.solve(source)]


def expect(right: bool, expected: str) -> None:
    """Raise `NotASource` if a source is not as expected."""
    if not right:
        raise NotASource(f"expected {expected}")


def drawn_from(generator: np.random.Generator, symbols: Symbols, length: int) -> list[str]:
    """A string of symbols, all equally likely."""
    return [symbols[index] for index in generator.integers(len(symbols), size=length)]


class Rearrangement(Task):
    """The target holds the source's symbols in another order.

    Args:
        symbols: how many different symbols there are: printable characters as long as these
            suffice, or else words s1, s2, ... separated by spaces.
    """

    multiple_of: ClassVar[int] = 1

    def __init__(self, symbols: int = 128) -> None:
        self.source = self.target = meaningless_symbols(symbols, PRINTABLE)

    @abstractmethod
    def rearrange(self, source: Ids) -> Ids:
        """The target of a source whose length is a multiple of `multiple_of`."""

    def sample(
        self, generator: np.random.Generator, lengths: Lengths, count: int, law: LengthLaw
    ) -> list[Pair]:
        size = len(self.source)
        sources = draw_strings(generator, size, lengths, count, law, self.multiple_of)
        return [Pair(source, self.rearrange(source)) for source in sources]

    def answer(self, source: Sequence[str]) -> list[str | None]:
        ids = self.source.encode(source)
        if len(ids) % self.multiple_of:
            raise NotASource(
                f"the source has {len(ids)} symbols; expected a multiple of {self.multiple_of}"
            )
        return [*self.target.decode(self.rearrange(ids))]


class Copy(Rearrangement):
    """abc -> abc"""

    def rearrange(self, source: Ids) -> Ids:
        return source


class Reverse(Rearrangement):
    """abc -> cba"""

    def rearrange(self, source: Ids) -> Ids:
        return source[::-1]


class BigramFlip(Rearrangement):
    """abcd -> badc; lengths are even"""

    multiple_of = 2

    def rearrange(self, source: Ids) -> Ids:
        return source.reshape(-1, 2)[:, ::-1].reshape(-1)


class WaitingReversal(Task):
    """0110#### -> ####0110: a string w and as many marks, to as many marks and w reversed.

    Only what follows the target's first marks is scored, and lengths are those of w.

    Args:
        symbols: how many symbols w is made of: digits and letters as long as these suffice, or
            else words s1, s2, ... separated by spaces, as the marks are then, too.
        deleted: how many of them, the last ones, are left out of the answer, which then has
            marks at its end that are not scored.

    Attributes:
        kept: how many of the symbols, the first ones, are not left out.
    """

    same_length = True

    def __init__(self, symbols: int = 2, deleted: int = 0) -> None:
        self.source = self.target = meaningless_symbols(symbols, DIGITS, [WAIT])
        if type(deleted) is not int or not 0 <= deleted < symbols:
            raise ValueError(f"deleted is {deleted!r}; expected a number from 0 to {symbols - 1}")
        self._wait = symbols
        self.kept = symbols - deleted

    def pair(self, source: Ids, target: Ids) -> Pair:
        half = len(source) // 2
        scored = (np.arange(len(target)) >= half) & (target != self._wait)
        return Pair(source, target, scored, half)

    def scored(self, source: Iterable[str]) -> Iterator[bool]:
        kept = set(self.source.symbols[: self.kept])
        read = answered = marks = 0
        whole = True
        for symbol in source:
            waiting = symbol == WAIT
            whole = whole and (waiting or not marks)
            marks, read = marks + waiting, read + (not waiting)
            answered += symbol in kept
            whole = whole and marks <= read
            yield not whole or 0 < marks <= answered

    def sample(
        self, generator: np.random.Generator, lengths: Lengths, count: int, law: LengthLaw
    ) -> list[Pair]:
        strings = draw_strings(generator, self._wait, lengths, count, law)
        return [self._pair_of(string) for string in strings]

    def _pair_of(self, string: Ids) -> Pair:
        waiting = np.full_like(string, self._wait)
        kept = string[string < self.kept][::-1]
        target = np.concatenate([waiting, kept, waiting[len(kept) :]])
        return self.pair(np.concatenate([string, waiting]), target)

    def answer(self, source: Sequence[str]) -> list[str | None]:
        ids = self.source.encode(source)
        half = len(ids) // 2
        pair = self._pair_of(ids[:half])
        if (ids[:half] == self._wait).any() or not np.array_equal(pair.source, ids):
            raise NotASource(
                f"expected a string without {WAIT} and then as many {WAIT} as it is long"
            )
        known = zip(self.target.decode(pair.target), self.scored(source), strict=True)
        return [symbol if scored else None for symbol, scored in known]


class Parity(Task):
    """1101 -> 1001: whether there were an odd number of ones so far"""

    same_length = True
    delayed = False

    def __init__(self) -> None:
        self.source = self.target = Alphabet(["0", "1"], words=False)

    def _odd(self, bits: Ids) -> Ids:
        odd: Ids = (np.cumsum(bits) - bits * self.delayed) % 2
        return odd

    def sample(
        self, generator: np.random.Generator, lengths: Lengths, count: int, law: LengthLaw
    ) -> list[Pair]:
        sources = draw_strings(generator, 2, lengths, count, law)
        return [self.pair(source, self._odd(source)) for source in sources]

    def answer(self, source: Sequence[str]) -> list[str | None]:
        return [*self.target.decode(self._odd(self.source.encode(source)))]


class DelayedParity(Parity):
    """1101 -> 0100: whether there were an odd number of ones before"""

    delayed = True
