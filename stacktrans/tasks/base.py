"""What a task is: pairs of strings over two alphabets, and their exact answers."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from stacktrans.errors import StacktransError
from stacktrans.sequences import Ids, Pair

LengthLaw = Literal["uniform", "task"]
LONGEST = 1_000_000
"""The longest source that can be asked for, in symbols."""


class Lengths(NamedTuple):
    """A range of source lengths in symbols, both ends included."""

    shortest: int
    longest: int

    def __str__(self) -> str:
        return f"{self.shortest}:{self.longest}"


class UnknownSymbol(StacktransError):
    """A string holds a symbol that the task's alphabet lacks."""

    def __init__(self, symbol: str, position: int) -> None:
        self.symbol = symbol
        self.position = position
        super().__init__(f"symbol {position} is {symbol!r}, which the model does not know")


class NotASource(StacktransError):
    """A string over the right alphabet is none that the task maps to an answer."""


class NoSuchLength(StacktransError):
    """The task has no string whose length lies in the range asked for."""


class Alphabet:
    """An ordered set of symbols, and how strings over it are written.

    Symbols that are single characters are written side by side; longer ones
    (words) are separated by spaces.

    Args:
        symbols: the symbols, in the order of their ids.
        words: whether strings are words separated by spaces.
    """

    def __init__(self, symbols: Sequence[str], *, words: bool) -> None:
        self.symbols = tuple(symbols)
        self.words = words
        self._ids = {symbol: index for index, symbol in enumerate(self.symbols)}

    def __len__(self) -> int:
        return len(self.symbols)

    def split(self, line: str) -> list[str]:
        """A written string's symbols, known or not."""
        return line.split() if self.words else list(line)

    def join(self, symbols: Sequence[str]) -> str:
        """How a string of symbols is written."""
        return (" " if self.words else "").join(symbols)

    def encode(self, symbols: Sequence[str]) -> Ids:
        """The ids of symbols; raises `UnknownSymbol`, positions counted from 1."""
        for position, symbol in enumerate(symbols, start=1):
            if symbol not in self._ids:
                raise UnknownSymbol(symbol, position)
        return np.array([self._ids[symbol] for symbol in symbols], dtype=np.int64)

    def decode(self, ids: Sequence[int] | Ids) -> list[str]:
        """The symbols of ids."""
        return [self.symbols[index] for index in ids]


class Task(ABC):
    """A string-to-string problem that can be sampled and solved exactly.

    Attributes:
        source: the alphabet of sources.
        target: the alphabet of targets.
    """

    source: Alphabet
    target: Alphabet

    @abstractmethod
    def sample(
        self, generator: np.random.Generator, lengths: Lengths, count: int, law: LengthLaw
    ) -> list[Pair]:
        """Draw pairs whose sources have lengths within `lengths`.

        Args:
            generator: where the randomness comes from.
            lengths: shortest and longest source, both included.
            count: number of pairs.
            law: "uniform" over the possible lengths, or "task", as the task's own
                distribution has them within the range.

        Raises:
            NoSuchLength: no source has a length within the range.
        """

    @abstractmethod
    def answer(self, source: Sequence[str]) -> list[str]:
        """The exact target of a source (the oracle).

        Raises:
            UnknownSymbol: a symbol is not in the source alphabet.
            NotASource: the task gives this string no answer; the message says why.
        """
