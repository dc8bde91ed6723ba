"""Tasks of the suite whose sources have a structure: marks, runs, numbers, brackets, formulas.

A source of an exact length is drawn, and its answer is a function of it.
"""

import itertools
import string
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np

from stacktrans.tasks.base import LengthLaw, Lengths, NoSuchLaw, NoSuchLength, NotASource, Task
from stacktrans.tasks.layouts import Alphabet, Pair, meaningless_symbols
from stacktrans.tasks.patterns import blocks_of

Symbols = Sequence[str]
Steps = np.typing.NDArray[np.int64]
LETTERS = string.ascii_letters + "".join(filter(str.isalpha, map(chr, range(0xC0, 0x180))))
MARK = "|"
YES, NO = "1", "0"
BINARY = Alphabet(NO + YES, words=False)


class Computed(Task):
    """A source is drawn, and its answer is computed."""

    def has_length(self, length: int) -> bool:
        """Whether there are sources of a length."""
        return True

    @abstractmethod
    def draw(self, generator: np.random.Generator, length: int) -> Symbols:
        """A source of a length that there is."""

    @abstractmethod
    def solve(self, source: Symbols) -> Symbols:
        """The answer to a source of known symbols; raises `NotASource`."""

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


class Marked(Computed):
    """Strings of meaningless symbols, the letters, with marks between their parts.

    Args:
        symbols: how many different letters there are.
    """

    def __init__(self, symbols: int = 26) -> None:
        self.source = self.target = meaningless_symbols(symbols, LETTERS, [MARK])
        self.letters = self.source.symbols[:symbols]

    def parts(self, source: Symbols, count: int | None = None) -> list[list[str]]:
        """What stands between marks; raises `NotASource` if these are not `count` parts."""
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


class Parted(Marked):
    """axbycz -> abc|xyz; lengths are even"""

    name = "parted"

    def has_length(self, length: int) -> bool:
        return length % 2 == 0

    def draw(self, generator: np.random.Generator, length: int) -> Symbols:
        return drawn_from(generator, self.letters, length)

    def solve(self, source: Symbols) -> Symbols:
        expect(len(source) % 2 == 0, "an even number of symbols")
        expect(MARK not in source, f"no {MARK}")
        return [*source[::2], MARK, *source[1::2]]


class Compared(Halves):
    """Two parts that in half of the sources are alike, and else differ in one place."""

    def __init__(self, symbols: int = 26) -> None:
        super().__init__(symbols)
        if symbols < 2:
            raise ValueError(f"symbols is {symbols}; expected at least 2")
        self.target = BINARY

    @abstractmethod
    def alike(self, first: list[str]) -> list[str]:
        """The second part that a first one asks for."""

    def has_length(self, length: int) -> bool:
        return super().has_length(length) and length > 1

    def draw(self, generator: np.random.Generator, length: int) -> Symbols:
        first = drawn_from(generator, self.letters, length // 2)
        second = [*self.alike(first)]
        if generator.random() < 0.5:
            place = generator.integers(len(second))
            others = [letter for letter in self.letters if letter != second[place]]
            second[place] = others[generator.integers(len(others))]
        return joined([first, second])

    def solve(self, source: Symbols) -> Symbols:
        first, second = self.halves(source)
        return YES if self.alike(first) == second else NO


class Same(Compared):
    """abc|abc -> 1, abc|abd -> 0: whether both parts are the same"""

    name = "same"

    def alike(self, first: list[str]) -> list[str]:
        return first


class Mirrored(Compared):
    """abc|cba -> 1, abc|cbb -> 0: whether the second part is the first one reversed"""

    name = "mirrored"

    def alike(self, first: list[str]) -> list[str]:
        return first[::-1]


class Phrases(Marked):
    """Parts of any lengths.

    Args:
        symbols: how many different letters there are.
        phrases: how many parts; if none, one symbol of a source in six is a mark.
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
    """Strings, in the answers of which one of the alphabet's first letters has a mark before it.

    Args:
        symbols: how many different letters there are.
    """

    def __init__(self, symbols: int = 3) -> None:
        self.target = meaningless_symbols(symbols, LETTERS, ["'"])
        self.source = Alphabet(self.target.symbols[:symbols], words=self.target.words)

    @abstractmethod
    def chosen(self, places: list[int]) -> int:
        """Which of the places of the first letter is marked."""

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


class Majority(Computed):
    """abaab -> a: the more frequent letter; neither, =, if both are as frequent"""

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
        """The letters of runs in a row, no two neighbours the same."""
        steps = generator.integers(1, len(self.letters), size=count)
        return [self.letters[place] for place in np.cumsum(steps) % len(self.letters)]

    def drawn_runs(self, generator: np.random.Generator, length: int) -> list[str]:
        """Runs whose lengths add up to a number."""
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
    """Two unary numbers, one of which may be 0, with a sign between them."""

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
    """110+011 -> 1001, least digits first: 3 + 6 = 9; the answer has one digit more

    Args:
        interleaved: whether the digits of both numbers take turns, without a sign: 101101.
        greatest_first: whether the greatest digits come first, in the source alone.
    """

    name = "binary-sum"

    def __init__(self, interleaved: bool = False, greatest_first: bool = False) -> None:
        self.source = Alphabet("01" if interleaved else "01+", words=False)
        self.target = BINARY
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
        self.counts = blocks_of(source)
        self.runs = blocks_of(f"{source} {target}")[len(self.counts) :]
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
        return "".join(block.symbol * block.times(counts) for block in self.runs)


def drawn_word(generator: np.random.Generator, ups: int) -> Steps:
    """Steps of a path that first goes below 0 with its last step, all paths equally likely.

    There are `ups` steps of 1 and one more of -1. Of the rotations of any such sequence, one is
    such a path (the cycle lemma): that which begins after the sequence's first minimum. Without
    its last step the path is a word of Dyck's; as it is, it tells operators, 1, from operands in
    a formula that is written with the operators first.
    """
    steps = np.repeat([1, -1], [ups, ups + 1])
    generator.shuffle(steps)
    return np.roll(steps, -int(np.cumsum(steps).argmin()) - 1)


def drawn_prefix(generator: np.random.Generator, length: int) -> Steps:
    """Steps of 1 and -1 of a path that never goes below 0, all paths equally likely.

    From a path that ends at 0 or 1, one comes of turning around each step that goes lower than
    any before. These are the last steps up from their heights, so that each path comes once.
    """
    steps = np.repeat([1, -1], [(length + 1) // 2, length // 2])
    generator.shuffle(steps)
    heights = np.cumsum(steps)
    lowest = np.minimum.accumulate(np.minimum(heights, 0))
    return np.where(lowest < np.concatenate([[0], lowest[:-1]]), 1, steps)


class Brackets(Computed):
    """Strings of brackets.

    Args:
        kinds: how many kinds of brackets there are; ( ), [ ], { } and < >, or, if there are
            more, words (1 )1 (2 )2 ...
    """

    def __init__(self, kinds: int = 2) -> None:
        if not 1 <= kinds <= 10_000:
            raise ValueError(f"kinds is {kinds}; expected a number from 1 to 10000")
        numbers = range(1, kinds + 1)
        self.words = kinds > len("([{<")
        self.openers = [f"({n}" for n in numbers] if self.words else [*"([{<"[:kinds]]
        self.closers = [f"){n}" for n in numbers] if self.words else [*")]}>"[:kinds]]
        self.closer = dict(zip(self.openers, self.closers, strict=True))
        self.brackets = Alphabet([*self.openers, *self.closers], words=self.words)

    def written(self, generator: np.random.Generator, steps: Steps) -> list[str]:
        """A path as brackets, each pair of a kind of its own."""
        openers = iter(drawn_from(generator, self.openers, len(steps)))
        pending: list[str] = []
        found = []
        for step in steps.tolist():
            if step > 0:
                found.append(next(openers))
                pending.append(self.closer[found[-1]])
            else:
                found.append(pending.pop())
        return found

    def pending(self, source: Symbols) -> Iterator[tuple[str, list[str]]]:
        """Each bracket and the closing ones that are then due, the next one last.

        Raises `NotASource` at a bracket that closes another than the last open one.
        """
        due: list[str] = []
        for bracket in source:
            if bracket in self.closer:
                due.append(self.closer[bracket])
            else:
                expect(bool(due) and due.pop() == bracket, "brackets that match")
            yield bracket, due


class BracketsCompleted(Brackets):
    """([]([ -> ])): the brackets that are missing at the end"""

    name = "brackets-completed"

    def __init__(self, kinds: int = 2) -> None:
        super().__init__(kinds)
        self.source = self.brackets
        self.target = Alphabet(self.closers, words=self.words)

    def draw(self, generator: np.random.Generator, length: int) -> Symbols:
        return self.written(generator, drawn_prefix(generator, length))

    def solve(self, source: Symbols) -> Symbols:
        return [*self.pending(source)][-1][1][::-1] if source else []


class Paired(Brackets):
    """Brackets each of which has a partner; lengths are even."""

    def has_length(self, length: int) -> bool:
        return length % 2 == 0

    def draw(self, generator: np.random.Generator, length: int) -> Symbols:
        return self.written(generator, drawn_word(generator, length // 2)[:-1])

    def depths(self, source: Symbols) -> list[int]:
        """How many brackets each one is within, its own pair counted."""
        found, due = [], 0
        for bracket, pending in self.pending(source):
            due = len(pending)
            found.append(due + (bracket not in self.closer))
        expect(due == 0, "brackets that are all closed")
        return found


class BracketsNamed(Paired):
    """([..) -> ([]): each closing bracket is a dot, and its kind is to be found"""

    name = "brackets-named"

    def __init__(self, kinds: int = 2) -> None:
        super().__init__(kinds)
        self.source = Alphabet([*self.openers, "."], words=self.words)
        self.target = self.brackets

    def draw(self, generator: np.random.Generator, length: int) -> Symbols:
        drawn = super().draw(generator, length)
        return [bracket if bracket in self.closer else "." for bracket in drawn]

    def solve(self, source: Symbols) -> Symbols:
        due: list[str] = []
        found = []
        for bracket in source:
            if bracket in self.closer:
                due.append(self.closer[bracket])
            else:
                expect(bool(due), "brackets that match")
            found.append(bracket if bracket in self.closer else due.pop())
        expect(not due, "brackets that are all closed")
        return found


class DepthsLabelled(Paired):
    """(()()) -> 100001, 1 where an odd number of pairs is around a bracket, its own counted

    Args:
        kinds: how many kinds of brackets there are.
        modulus: of which number the multiples are left out.
    """

    name = "depths-labelled"

    def __init__(self, kinds: int = 2, modulus: int = 2) -> None:
        super().__init__(kinds)
        if not 2 <= modulus <= 10:
            raise ValueError(f"modulus is {modulus}; expected a number from 2 to 10")
        self.source = self.brackets
        self.target = Alphabet(string.digits[:modulus], words=False)
        self.modulus = modulus

    def solve(self, source: Symbols) -> Symbols:
        return [str(depth % self.modulus) for depth in self.depths(source)]


class BracketsChecked(Paired):
    """([]) -> 1, ([)) -> 0: whether all brackets match; at most one is of a wrong kind

    Args:
        kinds: how many kinds of brackets there are, at least 2.
    """

    name = "brackets-checked"

    def __init__(self, kinds: int = 2) -> None:
        super().__init__(kinds)
        if kinds < 2:
            raise ValueError(f"kinds is {kinds}; expected at least 2")
        self.source, self.target = self.brackets, BINARY

    def draw(self, generator: np.random.Generator, length: int) -> Symbols:
        drawn = [*super().draw(generator, length)]
        if generator.random() < 0.5:
            place = generator.integers(length)
            same = self.openers if drawn[place] in self.closer else self.closers
            others = [bracket for bracket in same if bracket != drawn[place]]
            drawn[place] = others[generator.integers(len(others))]
        return drawn

    def solve(self, source: Symbols) -> Symbols:
        try:
            self.depths(source)
        except NotASource:
            return NO
        return YES


class CommentsRemoved(Computed):
    """ab{c{d}e}f -> abf: comments, which may be nested, are left out

    Args:
        symbols: how many different letters there are.
    """

    name = "comments-removed"

    def __init__(self, symbols: int = 26) -> None:
        self.target = meaningless_symbols(symbols, LETTERS)
        self.source = meaningless_symbols(symbols, LETTERS, "{}")

    def draw(self, generator: np.random.Generator, length: int) -> Symbols:
        # With more brackets than this, little is left of a long source.
        pairs = int(generator.integers(length // 4, endpoint=True))
        drawn = drawn_from(generator, self.target.symbols, length)
        places = np.sort(generator.choice(length, size=2 * pairs, replace=False))
        for place, step in zip(places, drawn_word(generator, pairs)[:-1], strict=True):
            drawn[place] = "{" if step > 0 else "}"
        return drawn

    def solve(self, source: Symbols) -> Symbols:
        kept, depth = [], 0
        for symbol in source:
            if symbol in ("{", "}"):
                depth += 1 if symbol == "{" else -1
                expect(depth >= 0, "comments that begin before they end")
            elif not depth:
                kept.append(symbol)
        expect(depth == 0, "comments that end")
        return kept


Formula = str | tuple["Formula", "Formula", "Formula"]
"""An operand; or an operator and the formulas to its left and right."""
Notation = Literal["prefix", "postfix", "infix", "left", "right"]
LENGTHS = {"prefix": 2, "postfix": 2, "infix": 4, "left": 2, "right": 2}
"""Symbols that an operation adds in each notation. Infix has parentheses around every operation,
which left and right do without: an operator's left operand is all that comes before, or its right
one all that comes after."""


def drawn_formula(
    generator: np.random.Generator, operators: Symbols, operands: Symbols, operations: int
) -> Formula:
    """A formula with so many operations, all equally likely."""
    symbols = zip(
        drawn_word(generator, operations).tolist(),
        drawn_from(generator, operators, 2 * operations + 1),
        drawn_from(generator, operands, 2 * operations + 1),
        strict=True,
    )
    prefix = [operator if step > 0 else operand for step, operator, operand in symbols]
    return parsed(prefix, "prefix", operators)


def parsed(source: Symbols, notation: Notation, operators: Symbols) -> Formula:
    """The formula that is written in a notation; raises `NotASource` if there is none."""
    if notation == "infix":
        found = _of_nested(source, operators)
    elif notation in ("left", "right"):
        found = _of_chain(source, operators, notation == "left")
    else:
        found = _of_polish(source, operators, notation == "prefix")
    expect(len(found) == 1, f"a formula in {notation} notation")
    return found[0]


def _of_polish(source: Symbols, operators: Symbols, prefix: bool) -> list[Formula]:
    """What is left over at the end: a single formula, if it is one."""
    found: list[Formula] = []
    for symbol in source[::-1] if prefix else source:
        if symbol not in operators:
            found.append(symbol)
        elif len(found) < 2:
            return []
        else:
            last, before = found.pop(), found.pop()
            found.append((symbol, last, before) if prefix else (symbol, before, last))
    return found


def _of_chain(source: Symbols, operators: Symbols, left: bool) -> list[Formula]:
    if [symbol in operators for symbol in source] != [n % 2 == 1 for n in range(len(source))]:
        return []
    found: list[Formula] = []
    for symbol in source if left else source[::-1]:
        found.append(symbol)
        if len(found) == 3:
            before, operator, last = found
            found = [(operator, before, last) if left else (operator, last, before)]
    return found


def _of_nested(source: Symbols, operators: Symbols) -> list[Formula]:
    """Likewise; what is within parentheses that are open is kept apart."""
    within: list[list[Formula]] = [[]]
    for symbol in source:
        if symbol == "(":
            within.append([])
        elif symbol != ")":
            within[-1].append(symbol)
        elif len(within) < 2 or not _is_operation(within[-1], operators):
            return []
        else:
            first, operator, second = within.pop()
            within[-1].append((operator, first, second))
    return within[0] if len(within) == 1 and {*within[0]}.isdisjoint(operators) else []


def _is_operation(parts: list[Formula], operators: Symbols) -> bool:
    return [isinstance(part, str) and part in operators for part in parts] == [False, True, False]


def written(formula: Formula, notation: Notation) -> list[str]:
    """A formula in a notation."""
    pending, found = [formula], []
    while pending:
        part = pending.pop()
        if isinstance(part, str):
            found.append(part)
            continue
        operator, left, right = part
        orders: dict[str, list[Formula]] = {
            "prefix": [operator, left, right],
            "postfix": [left, right, operator],
            "infix": ["(", left, operator, right, ")"],
        }
        pending += orders.get(notation, [left, operator, right])[::-1]
    return found


def value(formula: Formula) -> bool:
    """What a formula with the operators & (and), | (or) and ^ (either) comes to."""
    found: list[bool] = []
    for symbol in written(formula, "postfix"):
        if symbol in (YES, NO):
            found.append(symbol == YES)
        else:
            second, first = found.pop(), found.pop()
            results = {"&": first and second, "|": first or second, "^": first != second}
            found.append(results[symbol])
    return found[0]


class OfFormula(Computed):
    """Sources are formulas with operators of two operands.

    Args:
        notation: how they are written.
        operators: the operators.
        operands: the alphabet of the operands.
    """

    def __init__(self, notation: Notation, operators: Symbols, operands: Alphabet) -> None:
        if notation not in LENGTHS:
            expected = ", ".join(LENGTHS)
            raise ValueError(f"notation is {notation!r}; expected one of {expected}")
        if not operators or not {*operators} <= {*string.punctuation} - {*"()"}:
            raise ValueError(f"operators is {operators!r}; expected signs, such as +*")
        parentheses = ["(", ")"] if notation == "infix" else []
        symbols = [*operands.symbols, *operators, *parentheses]
        self.source = Alphabet(symbols, words=operands.words)
        self.notation: Notation = notation
        self.operators, self.operands = operators, operands.symbols

    def has_length(self, length: int) -> bool:
        return length % LENGTHS[self.notation] == 1

    def draw(self, generator: np.random.Generator, length: int) -> Symbols:
        if self.notation in ("left", "right"):
            drawn = drawn_from(generator, self.operands, length)
            drawn[1::2] = drawn_from(generator, self.operators, length // 2)
            return drawn
        operations = length // LENGTHS[self.notation]
        formula = drawn_formula(generator, self.operators, self.operands, operations)
        return written(formula, self.notation)

    def formula(self, source: Symbols) -> Formula:
        """What a source says."""
        return parsed(source, self.notation, self.operators)


class Notated(OfFormula):
    """((a+b)*c) -> ab+c*: a formula in another notation

    Args:
        notation: of the source: prefix; postfix; infix, with parentheses around every operation;
            left or right, without any, operators to the left or to the right binding tighter.
        answer: the notation of the answer, likewise, but not left or right.
        symbols: how many different operands there are.
        operators: the operators.
    """

    name = "notated"

    def __init__(
        self, notation: Notation, answer: Notation, symbols: int = 26, operators: str = "+*"
    ) -> None:
        super().__init__(notation, operators, meaningless_symbols(symbols, LETTERS))
        if answer not in ("prefix", "postfix", "infix"):
            raise ValueError(f"answer is {answer!r}; expected prefix, postfix or infix")
        self.to: Notation = answer
        parentheses = ["(", ")"] if answer == "infix" else []
        self.target = Alphabet([*self.operands, *operators, *parentheses], words=self.source.words)

    def solve(self, source: Symbols) -> Symbols:
        return written(self.formula(source), self.to)


class Evaluated(OfFormula):
    """((1&0)|1) -> 1: what a formula comes to

    Args:
        notation: prefix; postfix; infix, with parentheses around every operation; left or right,
            without any.
        operators: of & (and), | (or) and ^ (either).
    """

    name = "evaluated"

    def __init__(self, notation: Notation, operators: str = "&|") -> None:
        if not {*operators} <= {*"&|^"}:
            raise ValueError(f"operators is {operators!r}; expected some of & | ^")
        super().__init__(notation, operators, BINARY)
        self.target = BINARY

    def solve(self, source: Symbols) -> Symbols:
        return YES if value(self.formula(source)) else NO
