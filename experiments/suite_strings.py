"""Tasks of the suite on arbitrary strings: each target is a function of the whole string.

A symbol is even or odd by its position in the alphabet, counted from 0.
"""

import numpy as np

from stacktrans.tasks.alphabets import Ids
from stacktrans.tasks.computed import Transformation


class Doubled(Transformation):
    """abc -> abcabc"""

    name = "doubled"

    def transform(self, source: Ids) -> Ids:
        return np.tile(source, 2)


class DoubledSymbols(Transformation):
    """abc -> aabbcc"""

    name = "doubled-symbols"

    def transform(self, source: Ids) -> Ids:
        return np.repeat(source, 2)


class SomeDoubled(Transformation):
    """abcd -> abbcdd: odd symbols are doubled"""

    name = "some-doubled"

    def transform(self, source: Ids) -> Ids:
        return np.repeat(source, 1 + source % 2)


class HalvesSwapped(Transformation):
    """abcd -> cdab; lengths are even"""

    name = "halves-swapped"
    multiple_of = 2

    def transform(self, source: Ids) -> Ids:
        return np.roll(source, len(source) // 2)


class RotatedLeft(Transformation):
    """abcd -> bcda"""

    name = "rotated-left"

    def transform(self, source: Ids) -> Ids:
        return np.roll(source, -1)


class RotatedRight(Transformation):
    """abcd -> dabc"""

    name = "rotated-right"

    def transform(self, source: Ids) -> Ids:
        return np.roll(source, 1)


class EndsExchanged(Transformation):
    """abcd -> dbca"""

    name = "ends-exchanged"

    def transform(self, source: Ids) -> Ids:
        exchanged = source.copy()
        exchanged[:1], exchanged[-1:] = source[-1:], source[:1]
        return exchanged


class OddLeftOut(Transformation):
    """abcd -> ac: odd symbols are noise"""

    name = "odd-left-out"

    def transform(self, source: Ids) -> Ids:
        kept: Ids = source[source % 2 == 0]
        return kept


class OddLeftOutReversed(Transformation):
    """abcd -> ca: reversed, and odd symbols are noise"""

    name = "odd-left-out-reversed"

    def transform(self, source: Ids) -> Ids:
        kept: Ids = source[source % 2 == 0][::-1]
        return kept


class EverySecondLeftOut(Transformation):
    """abcde -> ace"""

    name = "every-second-left-out"

    def transform(self, source: Ids) -> Ids:
        return source[::2]


class Replaced(Transformation):
    """abc -> bcd: each symbol is replaced by a later one of the alphabet, which wraps around

    Args:
        symbols: how many different symbols there are.
        shift: by how many positions later.
    """

    name = "replaced"

    def __init__(self, symbols: int = 128, shift: int = 1) -> None:
        super().__init__(symbols)
        self.shift = shift

    def transform(self, source: Ids) -> Ids:
        return (source + self.shift) % len(self.source)


class Palindrome(Transformation):
    """abc -> abccba"""

    name = "palindrome"

    def transform(self, source: Ids) -> Ids:
        return np.concatenate([source, source[::-1]])


class ReversedAndCopied(Transformation):
    """abc -> cbaabc"""

    name = "reversed-and-copied"

    def transform(self, source: Ids) -> Ids:
        return np.concatenate([source[::-1], source])


class ReversedAndDoubled(Transformation):
    """abc -> ccbbaa"""

    name = "reversed-and-doubled"

    def transform(self, source: Ids) -> Ids:
        return np.repeat(source[::-1], 2)


class OutsideIn(Transformation):
    """abcde -> aebdc: the first, the last, the second, the last but one, ..."""

    name = "outside-in"

    def transform(self, source: Ids) -> Ids:
        return np.stack([source, source[::-1]], axis=1).ravel()[: len(source)]


class EvenFirst(Transformation):
    """abacd -> aacbd: even symbols before odd ones, otherwise in their order"""

    name = "even-first"

    def transform(self, source: Ids) -> Ids:
        return np.concatenate([source[source % 2 == 0], source[source % 2 == 1]])


class FirstAfterEach(Transformation):
    """abc -> aabaca: the first symbol once more after each"""

    name = "first-after-each"

    def transform(self, source: Ids) -> Ids:
        firsts = np.repeat(source[:1], len(source))
        return np.stack([source, firsts], axis=1).ravel()


class TrigramFlip(Transformation):
    """abcdef -> cbafed; lengths are multiples of 3"""

    name = "trigram-flip"
    multiple_of = 3

    def transform(self, source: Ids) -> Ids:
        return source.reshape(-1, 3)[:, ::-1].ravel()


class RunningSum(Transformation):
    """The sum of all symbols so far, as positions in the alphabet, modulo the alphabet's size"""

    name = "running-sum"

    def transform(self, source: Ids) -> Ids:
        return np.cumsum(source) % len(self.source)


class SumAppended(Transformation):
    """The string, then the sum of its positions in the alphabet, modulo the alphabet's size"""

    name = "sum-appended"

    def transform(self, source: Ids) -> Ids:
        return np.append(source, source.sum() % len(self.source))


class Sum(Transformation):
    """The sum of all symbols, as positions in the alphabet, modulo the alphabet's size"""

    name = "sum"

    def transform(self, source: Ids) -> Ids:
        return np.array([source.sum() % len(self.source)])
