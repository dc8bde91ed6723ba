"""Tasks of the suite on letters with marks: between parts, around capitals, or before a letter."""

import itertools
import string
from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from stacktrans.tasks.alphabets import LETTERS, Alphabet, meaningless_symbols
from stacktrans.tasks.computed import Computed, Symbols, drawn_from, expect

MARK = "|"


class Marked(Computed):
    """Strings of meaningless symbols, the letters, with marks between their parts.

    Args:
        symbols: how many different letters there are.
    """

    def __init__(self, symbols: int = 26) -> None:
        self.source = self.target = meaningless_symbols(symbols, LETTERS, [MARK])
        self.letters = self.source.symbols[:symbols]

    def parts(self, source: Symbols, count: int | None = None) -> list[list[str]]:
        """The parts between marks; raises `NotASource` if there are not `count` of them."""
        found: list[list[str]] = [[]]
        for symbol in source:
            if symbol == MARK:
                found.append([])
            else:
                found[-1].append(symbol)
        expect(count in (None, len(found)), f"{count} parts with {MARK} between them")
        return found


def joined(parts: Sequence[Symbols]) -> list[str]:
    """Parts with marks between them."""
    return [symbol for part in parts for symbol in (MARK, *part)][1:]


class Halves(Marked):
    """Two parts of the same length."""

    def has_length(self, length: int) -> bool:
        return length % 2 == 1

    def draw(self, generator: np.random.Generator, length: int) -> Symbols:
        drawn = drawn_from(generator, self.letters, length)
        drawn[length // 2] = MARK
        return drawn

    def halves(self, source: Symbols) -> tuple[list[str], list[str]]:
        """Both parts; raises `NotASource` if they are not of the same length."""
        first, second = self.parts(source, 2)
        expect(len(first) == len(second), "two parts of the same length")
        return first, second


class Interleaved(Halves):
    """abc|xyz -> axbycz; lengths are odd"""

    name = "interleaved"

    def solve(self, source: Symbols) -> Symbols:
        return [*itertools.chain(*zip(*self.halves(source), strict=True))]


class Partitioned(Marked):
    """axbycz -> abc|xyz; lengths are even"""

    name = "partitioned"

    def has_length(self, length: int) -> bool:
        return length % 2 == 0

    def draw(self, generator: np.random.Generator, length: int) -> Symbols:
        return drawn_from(generator, self.letters, length)

    def solve(self, source: Symbols) -> Symbols:
        expect(len(source) % 2 == 0, "an even number of symbols")
        expect(MARK not in source, f"no {MARK}")
        return [*source[::2], MARK, *source[1::2]]


class Compared(Halves):
    """Two parts that match in half of the sources, and differ in one place in the others."""

    def __init__(self, symbols: int = 26) -> None:
        super().__init__(symbols)
        if symbols < 2:
            raise ValueError(f"symbols is {symbols}; expected at least 2")
        self.target = Alphabet("01", words=False)

    @abstractmethod
    def matching(self, first: list[str]) -> list[str]:
        """The second part that matches a first part."""

    def has_length(self, length: int) -> bool:
        return super().has_length(length) and length > 1

    def draw(self, generator: np.random.Generator, length: int) -> Symbols:
        first = drawn_from(generator, self.letters, length // 2)
        second = [*self.matching(first)]
        if generator.random() < 0.5:
            place = generator.integers(len(second))
            others = [letter for letter in self.letters if letter != second[place]]
            second[place] = others[generator.integers(len(others))]
        return joined([first, second])

    def solve(self, source: Symbols) -> Symbols:
        first, second = self.halves(source)
        return "1" if self.matching(first) == second else "0"


class Same(Compared):
    """abc|abc -> 1, abc|abd -> 0: whether both parts are the same"""

    name = "same"

    def matching(self, first: list[str]) -> list[str]:
        return first


class Mirrored(Compared):
    """abc|cba -> 1, abc|cbb -> 0: whether the second part is the first one reversed"""

    name = "mirrored"

    def matching(self, first: list[str]) -> list[str]:
        return first[::-1]


class Phrases(Marked):
    """Parts of any lengths.

    Args:
        symbols: how many different letters there are.
        phrases: how many parts there are; by default, each symbol is a mark with probability 1/6.
    """

    def __init__(self, symbols: int = 26, phrases: int | None = None) -> None:
        super().__init__(symbols)
        if phrases is not None and phrases < 1:
            raise ValueError(f"phrases is {phrases}; expected at least 1")
        self.phrases = phrases

    def has_length(self, length: int) -> bool:
        return self.phrases is None or length >= self.phrases - 1

    def draw(self, generator: np.random.Generator, length: int) -> Symbols:
        drawn = drawn_from(generator, self.letters, length)
        if self.phrases is None:
            marks = np.flatnonzero(generator.random(length) < 1 / 6)
        else:
            marks = generator.choice(length, size=self.phrases - 1, replace=False)
        for place in marks:
            drawn[place] = MARK
        return drawn


class PhrasesReversed(Phrases):
    """ab|cde -> ba|edc: each part reversed, in the order in which they come"""

    name = "phrases-reversed"

    def solve(self, source: Symbols) -> Symbols:
        return joined([part[::-1] for part in self.parts(source, self.phrases)])


class PhraseOrderReversed(Phrases):
    """ab|cde -> cde|ab: the last part first, each as it is"""

    name = "phrase-order-reversed"

    def solve(self, source: Symbols) -> Symbols:
        return joined(self.parts(source, self.phrases)[::-1])


class FirstPhraseReversed(Phrases):
    """ab|cde -> ba|cde: the first part reversed"""

    name = "first-phrase-reversed"

    def solve(self, source: Symbols) -> Symbols:
        first, *others = self.parts(source, self.phrases)
        return joined([first[::-1], *others])


class LastPhrase(Phrases):
    """ab|cde -> cde"""

    name = "last-phrase"

    def solve(self, source: Symbols) -> Symbols:
        return self.parts(source, self.phrases)[-1]


class Capitals(Computed):
    """ab^cd^e -> abCDe: a mark begins capitals, and the next one ends them

    Args:
        symbols: how many different letters there are, at most 26.
    """

    name = "capitals"

    def __init__(self, symbols: int = 26) -> None:
        if not 1 <= symbols <= 26:
            raise ValueError(f"symbols is {symbols}; expected a number from 1 to 26")
        letters = string.ascii_lowercase[:symbols]
        self.source = Alphabet([*letters, "^"], words=False)
        self.target = Alphabet([*letters, *letters.upper()], words=False)

    def draw(self, generator: np.random.Generator, length: int) -> Symbols:
        letters = drawn_from(generator, self.source.symbols[:-1], length)
        marks = generator.random(length) < 1 / 6
        return ["^" if mark else letter for mark, letter in zip(marks, letters, strict=True)]

    def solve(self, source: Symbols) -> Symbols:
        parts = "".join(source).split("^")
        return [
            *itertools.chain(*(part.upper() if n % 2 else part for n, part in enumerate(parts)))
        ]


class OneMarked(Computed):
    """Copying, with a mark before one occurrence of the first letter of the alphabet.

    Args:
        symbols: how many different letters there are.
    """

    def __init__(self, symbols: int = 3) -> None:
        self.target = meaningless_symbols(symbols, LETTERS, ["'"])
        self.source = Alphabet(self.target.symbols[:symbols], words=self.target.words)

    @abstractmethod
    def chosen(self, places: list[int]) -> int:
        """Choose the position to mark from those of the first letter of the alphabet."""

    def draw(self, generator: np.random.Generator, length: int) -> Symbols:
        return drawn_from(generator, self.source.symbols, length)

    def solve(self, source: Symbols) -> Symbols:
        places = [place for place, each in enumerate(source) if each == self.source.symbols[0]]
        if not places:
            return source
        return [*source[: self.chosen(places)], "'", *source[self.chosen(places) :]]


class FirstMarked(OneMarked):
    """cacab -> c'acab: the first a is marked"""

    name = "first-marked"

    def chosen(self, places: list[int]) -> int:
        return places[0]


class LastMarked(OneMarked):
    """cacab -> cac'ab: the last a is marked"""

    name = "last-marked"

    def chosen(self, places: list[int]) -> int:
        return places[-1]
