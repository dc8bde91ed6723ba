"""Tasks of the suite that count: runs of a symbol, unary and binary numbers, majorities."""

import itertools
import string
from collections import Counter

import numpy as np

from stacktrans.tasks.alphabets import LETTERS, Alphabet, meaningless_symbols
from stacktrans.tasks.computed import Computed, Symbols, drawn_from, expect
from stacktrans.tasks.streams import parse_pattern


class Majority(Computed):
    """abaab -> a: the more frequent letter, or = if both are equally frequent"""

    name = "majority"

    def __init__(self) -> None:
        self.source = Alphabet("ab", words=False)
        self.target = Alphabet("ab=", words=False)

    def draw(self, generator: np.random.Generator, length: int) -> Symbols:
        return drawn_from(generator, "ab", length)

    def solve(self, source: Symbols) -> Symbols:
        counts = Counter(source)
        if counts["a"] == counts["b"]:
            return "="
        return "a" if counts["a"] > counts["b"] else "b"


class Runs(Computed):
    """Strings of runs of a symbol.

    Args:
        symbols: how many different letters there are, at least 2.
        longest: how long a run may be, at most 9.
    """

    def __init__(self, symbols: int = 26, longest: int = 4) -> None:
        if not 1 <= longest <= 9:
            raise ValueError(f"longest is {longest}; expected a number from 1 to 9")
        if symbols < 2:
            raise ValueError(f"symbols is {symbols}; expected at least 2")
        self.counted = meaningless_symbols(symbols, LETTERS, string.digits[1 : longest + 1])
        self.letters = self.counted.symbols[:symbols]
        self.plain = Alphabet(self.letters, words=self.counted.words)
        self.longest = longest

    def run_starts(self, generator: np.random.Generator, count: int) -> list[str]:
        """Draw the letters of consecutive runs; adjacent runs have different letters."""
        steps = generator.integers(1, len(self.letters), size=count)
        return [self.letters[place] for place in np.cumsum(steps) % len(self.letters)]

    def drawn_runs(self, generator: np.random.Generator, length: int) -> list[str]:
        """Draw a string of runs that has `length` letters."""
        lengths = generator.integers(1, self.longest, size=length, endpoint=True)
        letters = np.repeat(np.array(self.run_starts(generator, length), dtype=object), lengths)
        return [*letters[:length]]

    def runs(self, source: Symbols) -> list[tuple[str, int]]:
        """The letters and lengths of runs; raises `NotASource` if one is too long."""
        runs = [(letter, len([*run])) for letter, run in itertools.groupby(source)]
        most = max((count for _, count in runs), default=0)
        expect(most <= self.longest, f"runs of at most {self.longest}")
        return runs


class RunsDecoded(Runs):
    """a3b2 -> aaabb; lengths are even"""

    name = "runs-decoded"

    def __init__(self, symbols: int = 26, longest: int = 4) -> None:
        super().__init__(symbols, longest)
        self.source, self.target = self.counted, self.plain

    def has_length(self, length: int) -> bool:
        return length % 2 == 0

    def draw(self, generator: np.random.Generator, length: int) -> Symbols:
        counts = generator.integers(1, self.longest, size=length // 2, endpoint=True)
        letters = self.run_starts(generator, length // 2)
        return [*itertools.chain(*zip(letters, map(str, counts), strict=True))]

    def solve(self, source: Symbols) -> Symbols:
        letters, counts = source[::2], source[1::2]
        right = set(letters) <= {*self.letters} and not {*counts} & {*self.letters}
        expect(right and len(letters) == len(counts), "a letter and a digit, again and again")
        return [
            each for letter, n in zip(letters, counts, strict=True) for each in [letter] * int(n)
        ]


class RunsEncoded(Runs):
    """aaabb -> a3b2"""

    name = "runs-encoded"

    def __init__(self, symbols: int = 26, longest: int = 4) -> None:
        super().__init__(symbols, longest)
        self.source, self.target = self.plain, self.counted

    def draw(self, generator: np.random.Generator, length: int) -> Symbols:
        return self.drawn_runs(generator, length)

    def solve(self, source: Symbols) -> Symbols:
        return [each for letter, count in self.runs(source) for each in (letter, str(count))]


class RunsShortened(Runs):
    """aaabb -> ab"""

    name = "runs-shortened"

    def __init__(self, symbols: int = 26, longest: int = 4) -> None:
        super().__init__(symbols, longest)
        self.source = self.target = self.plain

    def draw(self, generator: np.random.Generator, length: int) -> Symbols:
        return self.drawn_runs(generator, length)

    def solve(self, source: Symbols) -> Symbols:
        return [letter for letter, _ in self.runs(source)]


class Unary(Computed):
    """Two unary numbers, each of which may be 0, with a sign between them."""

    sign: str

    def __init__(self) -> None:
        self.source = Alphabet(["1", self.sign], words=False)
        self.target = Alphabet("1", words=False)

    def numbers(self, source: Symbols) -> tuple[int, int]:
        """Both numbers; raises `NotASource` if there are not two."""
        expect(source.count(self.sign) == 1, f"one {self.sign}")
        place = source.index(self.sign)
        return place, len(source) - place - 1


class UnarySum(Unary):
    """111+11 -> 11111"""

    name = "unary-sum"
    sign = "+"

    def draw(self, generator: np.random.Generator, length: int) -> Symbols:
        first = int(generator.integers(length))
        return "1" * first + "+" + "1" * (length - first - 1)

    def solve(self, source: Symbols) -> Symbols:
        return "1" * sum(self.numbers(source))


class UnaryDifference(Unary):
    """11111-11 -> 111; the second number is not the greater one"""

    name = "unary-difference"
    sign = "-"

    def draw(self, generator: np.random.Generator, length: int) -> Symbols:
        first = int(generator.integers(length // 2, length))
        return "1" * first + "-" + "1" * (length - first - 1)

    def solve(self, source: Symbols) -> Symbols:
        first, second = self.numbers(source)
        expect(first >= second, "the second number not to be greater than the first")
        return "1" * (first - second)


class BinarySum(Computed):
    """110+011 -> 1001, least significant digit first: 3 + 6 = 9; the answer has one digit more

    Args:
        interleaved: whether the digits of the two numbers alternate, without a sign: 101101.
        greatest_first: whether the most significant digits come first, but only in the source.
    """

    name = "binary-sum"

    def __init__(self, interleaved: bool = False, greatest_first: bool = False) -> None:
        self.source = Alphabet("01" if interleaved else "01+", words=False)
        self.target = Alphabet("01", words=False)
        self.interleaved, self.greatest_first = interleaved, greatest_first

    def has_length(self, length: int) -> bool:
        return length > 1 and length % 2 != self.interleaved

    def draw(self, generator: np.random.Generator, length: int) -> Symbols:
        digits = drawn_from(generator, "01", length)
        if not self.interleaved:
            digits[length // 2] = "+"
        return digits

    def solve(self, source: Symbols) -> Symbols:
        if self.interleaved:
            first, second = "".join(source[::2]), "".join(source[1::2])
        else:
            first, _, second = "".join(source).partition("+")
        right = len(first) == len(second) > 0 and {*first, *second} <= {*"01"}
        expect(right, "two numbers with the same number of digits")
        step = 1 if self.greatest_first else -1
        total = int(first[::step], 2) + int(second[::step], 2)
        return f"{total:0{len(first) + 1}b}"[::-1]


class Counted(Computed):
    """Runs of symbols that depend on the lengths of runs, such as aabbb -> cccdd

    Args:
        source: a pattern of runs each of which has a count of its own, such as a^n b^m.
        target: a pattern of the same counts, with other symbols, such as c^m d^n.
    """

    name = "counted"

    def __init__(self, source: str, target: str) -> None:
        self.counts = parse_pattern(source)
        self.runs = parse_pattern(f"{source} {target}")[len(self.counts) :]
        for block in self.counts:
            if block.introduces is None:
                raise ValueError(f"source '{source}': '{block.symbol}' has no count of its own")
        for block in self.runs:
            if block.introduces is not None:
                raise ValueError(f"target '{target}': '{block.introduces}' is not in the source")
        self.source = Alphabet([block.symbol for block in self.counts], words=False)
        self.target = Alphabet([block.symbol for block in self.runs], words=False)

    def has_length(self, length: int) -> bool:
        return length >= len(self.counts)

    def draw(self, generator: np.random.Generator, length: int) -> Symbols:
        ends = np.sort(generator.choice(length - 1, len(self.counts) - 1, replace=False)) + 1
        lengths = np.diff(ends, prepend=0, append=length)
        return "".join(
            block.symbol * count for block, count in zip(self.counts, lengths, strict=True)
        )

    def solve(self, source: Symbols) -> Symbols:
        runs = [(symbol, len([*run])) for symbol, run in itertools.groupby(source)]
        expect([symbol for symbol, _ in runs] == [*self.source.symbols], "a run of each symbol")
        counts = {str(block.introduces): n for block, (_, n) in zip(self.counts, runs, strict=True)}
        return "".join(block.symbol * block.length(counts) for block in self.runs)
