"""Tasks on random strings: copying, reversal, bigram flipping, parity; base classes for others."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from stacktrans.common.errors import StacktransError, check_parameter, shown
from stacktrans.tasks.alphabets import (
    DIGITS,
    PRINTABLE,
    Alphabet,
    Ids,
    UnknownSymbol,
    meaningless_symbols,
)
from stacktrans.tasks.base import NotASource, Task
from stacktrans.tasks.layout import Pair
from stacktrans.tasks.lengths import (
    LengthDistribution,
    Lengths,
    NoSuchLaw,
    NoSuchLength,
    draw_strings,
)

Symbols = Sequence[str]

WAIT = "#"


class Computed(Task):
    """A task that draws a source of a given length as symbols, and computes its target.

    Lengths are uniform over those that exist.
    """

    def has_length(self, length: int) -> bool:
        """Whether any source has a length."""
        return True

    @abstractmethod
    def draw(self, rng: Generator, length: int) -> Symbols:
        """Draw a source of a length that exists."""

    @abstractmethod
    def solve(self, source: Symbols) -> Symbols:
        """The target of a source over the alphabet; raises `NotASource` where there is none."""

    def sample(
        self, rng: Generator, lengths: Lengths, count: int, law: LengthDistribution
    ) -> list[Pair]:
        if law not in ("uniform", "task"):
            raise NoSuchLaw("length_law: expected uniform or task for this generator")
        possible = [*filter(self.has_length, range(lengths.shortest, lengths.longest + 1))]
        if not possible:
            raise NoSuchLength(f"no source has a length of {lengths}")
        drawn = rng.choice(possible, size=count).tolist()
        try:
            sources = (self.draw(rng, length) for length in drawn)
            return [
                Pair(self.source.encode(source), self.target.encode(self.solve(source)))
                for source in sources
            ]
        except UnknownSymbol as error:  # in a generator of a plugin
            raise StacktransError(
                f"generator {type(self).__name__} drew a wrong pair: {error}"
            ) from error

    def answer(self, source: Symbols) -> list[str | None]:
        self.source.encode(source)
        return [*self.solve(source)]


def expect(right: bool, expected: str) -> None:
    """Raise `NotASource`, with what was expected, unless a condition holds."""
    if not right:
        raise NotASource(f"expected {expected}")


def drawn_from(rng: Generator, symbols: Symbols, length: int) -> list[str]:
    """Draw a uniform random string over some symbols."""
    return [symbols[index] for index in rng.integers(len(symbols), size=length)]


class Transformation(Task):
    """A function of uniform random strings, computed on whole arrays of ids.

    Args:
        symbols: how many different symbols there are: printable characters if these suffice, or
            else words s1, s2, ... separated by spaces.

    Attributes:
        multiple_of: a number that divides the length of every source.
    """

    multiple_of: ClassVar[int] = 1

    def __init__(self, symbols: int = 128) -> None:
        self.source = self.target = meaningless_symbols(symbols, PRINTABLE)

    @abstractmethod
    def transform(self, source: Ids) -> Ids:
        """The target of a source whose length is a multiple of `multiple_of`."""

    def sample(
        self, rng: Generator, lengths: Lengths, count: int, law: LengthDistribution
    ) -> list[Pair]:
        sources = draw_strings(rng, len(self.source), lengths, count, law, self.multiple_of)
        return [Pair(source, self._target_of(source)) for source in sources]

    def _target_of(self, source: Ids) -> Ids:
        """The target of a source; raises `StacktransError` if that of a plugin is wrong."""
        target, last = np.asarray(self.transform(source.copy())), len(self.target) - 1
        if target.ndim != 1 or (len(target) and target.dtype.kind not in "iu"):
            problem = f"{shown(target.tolist())}; expected an array of ids"
        elif len(target) and not 0 <= target.min() <= target.max() <= last:
            problem = f"ids {target.min()} to {target.max()}; expected 0 to {last}"
        else:
            return target.astype(np.int64, copy=False)
        raise StacktransError(f"generator {type(self).__name__} drew a wrong pair: {problem}")

    def answer(self, source: Sequence[str]) -> list[str | None]:
        ids = self.source.encode(source)
        divisible = len(ids) % self.multiple_of == 0
        expect(divisible, f"a multiple of {self.multiple_of} symbols; found {len(ids)}")
        return [*self.target.decode(self._target_of(ids))]


class Copy(Transformation):
    """abc -> abc"""

    def transform(self, source: Ids) -> Ids:
        return source


class Reverse(Transformation):
    """abc -> cba"""

    def transform(self, source: Ids) -> Ids:
        return source[::-1]


class BigramFlip(Transformation):
    """abcd -> badc; lengths are even"""

    multiple_of = 2

    def transform(self, source: Ids) -> Ids:
        return source.reshape(-1, 2)[:, ::-1].reshape(-1)


class Parity(Transformation):
    """1101 -> 1001: whether the number of ones so far is odd"""

    same_length = True
    delayed = False

    def __init__(self) -> None:
        self.source = self.target = Alphabet(["0", "1"], words=False)

    def transform(self, source: Ids) -> Ids:
        odd: Ids = (np.cumsum(source) - source * self.delayed) % 2
        return odd


class DelayedParity(Parity):
    """1101 -> 0100: whether the number of ones before is odd"""

    delayed = True


class WaitingReversal(Task):
    """0110#### -> ####0110: a string w and as many marks, to as many marks and w reversed.

    Only the symbols after the first marks of the target are scored. Lengths are those of w.

    Args:
        symbols: how many symbols w is made of: digits and letters if these suffice, or else words
            s1, s2, ...; then the marks are separated by spaces, too.
        deleted: how many of the symbols, the last ones, are deleted from the answer, which then
            ends with as many marks that are not scored.

    Attributes:
        kept: how many of the symbols, the first ones, are not deleted.
    """

    same_length = True

    def __init__(self, symbols: int = 2, deleted: int = 0) -> None:
        self.source = self.target = meaningless_symbols(symbols, DIGITS, [WAIT])
        in_range = type(deleted) is int and 0 <= deleted < symbols
        check_parameter(in_range, "deleted", deleted, f"a number from 0 to {symbols - 1}")
        self._wait = symbols
        self.kept = symbols - deleted

    def pair(self, source: Ids, target: Ids) -> Pair:
        half = len(source) // 2
        scored = (np.arange(len(target)) >= half) & (target != self._wait)
        return Pair(source, target, scored, half)

    def scored(self, source: Iterable[str]) -> Iterator[bool]:
        kept = set(self.source.symbols[: self.kept])
        read = answered = marks = 0
        is_prefix = True
        for symbol in source:
            waiting = symbol == WAIT
            marks, read = marks + waiting, read + (not waiting)
            answered += symbol in kept
            is_prefix = is_prefix and (waiting or not marks) and marks <= read
            yield not is_prefix or 0 < marks <= answered

    def sample(
        self, rng: Generator, lengths: Lengths, count: int, law: LengthDistribution
    ) -> list[Pair]:
        return [*map(self._pair_of, draw_strings(rng, self._wait, lengths, count, law))]

    def _pair_of(self, string: Ids) -> Pair:
        waiting = np.full_like(string, self._wait)
        kept = string[string < self.kept][::-1]
        target = np.concatenate([waiting, kept, waiting[len(kept) :]])
        return self.pair(np.concatenate([string, waiting]), target)

    def answer(self, source: Sequence[str]) -> list[str | None]:
        ids = self.source.encode(source)
        half = len(ids) // 2
        pair = self._pair_of(ids[:half])
        is_source = not (ids[:half] == self._wait).any() and np.array_equal(pair.source, ids)
        expect(is_source, f"a string without {WAIT} and then as many {WAIT} as it is long")
        symbols = zip(self.target.decode(pair.target), self.scored(source), strict=True)
        return [symbol if scored else None for symbol, scored in symbols]
