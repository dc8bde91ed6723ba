"""Alphabets: the symbols that strings are made of, and how these are written."""

import string
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from stacktrans.common.errors import StacktransError
from stacktrans.common.ragged import Ragged
from stacktrans.common.reading import split_words

Ids = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
ASCII = "".join(map(chr, range(0x21, 0x7F)))
PRINTABLE = ASCII + "".join(filter(str.isalpha, map(chr, range(0xC0, 0x100))))
"""Printable characters: ASCII without the space, then Latin-1 letters."""
DIGITS = string.digits + string.ascii_letters
"""Digits and then letters."""
LETTERS = string.ascii_letters + "".join(filter(str.isalpha, map(chr, range(0xC0, 0x180))))
"""Letters alone, so that digits and signs are left for marks."""
MAX_SYMBOLS = 65_536
UNSCORED_MARK = "·"
"""Shown for a symbol of an answer that can't be known, and so is not scored."""
OUT_OF_VOCABULARY = -2
"""The id, in a pair, of a symbol that a model doesn't know: whatever it says there is wrong."""
NO_OUTPUT = -3
"""The id of a symbol of an answer where a machine has no output."""


class UnknownSymbol(StacktransError):
    """A string holds a symbol that the task's alphabet lacks."""

    def __init__(self, symbol: str, position: int) -> None:
        self.symbol = symbol
        self.position = position
        super().__init__(f"symbol {position} is {symbol!r}, which the model does not know")


Role = tuple[str, ...]
"""What an id stands for, whatever its number in a model: its kind, and how it is written."""
SYMBOL, FEATURE = "symbol", "feature"
"""Roles of these kinds are of what strings are made of; all others are of marks."""


class Alphabet:
    """An ordered set of symbols, and how strings over it are written.

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

    @property
    def is_character_level(self) -> bool:
        """Whether strings are written as characters that a line can hold, without spaces."""
        return not self.words and all(
            len(symbol) == 1 and symbol != "\n" and not 0xD800 <= ord(symbol) < 0xE000
            for symbol in self.symbols
        )

    def roles(self) -> list[Role]:
        """What each id stands for."""
        return [(SYMBOL, symbol) for symbol in self.symbols]

    def split(self, line: str) -> list[str]:
        """A written string's symbols, known or not."""
        return split_words(line) if self.words else list(line)

    def join(self, symbols: Sequence[str]) -> str:
        """How a string of symbols is written."""
        return (" " if self.words else "").join(symbols)

    def encode(self, symbols: Sequence[str]) -> Ids:
        """The ids of symbols; raises `UnknownSymbol`, positions counted from 1."""
        try:
            return np.fromiter(map(self._ids.__getitem__, symbols), np.int64, len(symbols))
        except KeyError:
            position = next(n for n, symbol in enumerate(symbols) if symbol not in self._ids)
            raise UnknownSymbol(symbols[position], position + 1) from None

    def encode_known(self, symbols: Sequence[str]) -> Ids:
        """The ids of symbols; `OUT_OF_VOCABULARY` for those that are not in the alphabet."""
        return np.array(
            [self._ids.get(symbol, OUT_OF_VOCABULARY) for symbol in symbols], dtype=np.int64
        )

    def decode(self, ids: Sequence[int] | Ids) -> list[str]:
        """The symbols of ids; `UNSCORED_MARK` for `NO_OUTPUT` and `OUT_OF_VOCABULARY`."""
        if NO_OUTPUT in ids or OUT_OF_VOCABULARY in ids:
            return [UNSCORED_MARK if index < 0 else self.symbols[index] for index in ids]
        return [*map(self.symbols.__getitem__, ids)]


class Characters:
    """Lines over an alphabet whose symbols are characters, many at once.

    Args:
        alphabet: the symbols.

    Raises:
        ValueError: they are not characters that a line can hold.
    """

    def __init__(self, alphabet: Alphabet) -> None:
        if not alphabet.is_character_level:
            raise ValueError("the symbols of lines must be characters")
        self._points = np.array([*map(ord, alphabet.symbols)], np.uint32)
        # The last is for all characters after the greatest that is known.
        self._ids = np.full(max(_NEWLINE, self._points.max(initial=0)) + 2, -1)
        self._ids[self._points] = np.arange(len(self._points))
        self._ids[_NEWLINE] = NO_OUTPUT

    def encode(self, text: str) -> Ragged | None:
        """The ids of lines, each with its end; None if there is a character without one."""
        points = np.frombuffer(text.encode("utf-32-le"), np.uint32)
        ids = self._ids.take(points, mode="clip")
        ends = np.flatnonzero(ids == NO_OUTPUT)
        symbols = ids[ids != NO_OUTPUT]
        if symbols.min(initial=0) < 0:
            return None
        return Ragged(symbols, np.append(0, ends - np.arange(len(ends))))

    def decode(self, lines: Ragged) -> str:
        """The lines of ids, each with its end."""
        points = np.full(len(lines.values) + len(lines), _NEWLINE, np.uint32)
        points[np.arange(len(lines.values)) + lines.rows] = self._points[lines.values]
        return points.tobytes().decode("utf-32-le")


_NEWLINE = ord("\n")


def meaningless_symbols(count: int, characters: str, marks: Sequence[str] = ()) -> Alphabet:
    """An alphabet of `count` symbols and some marks after them.

    As long as there are enough characters, the symbols are the first of these; otherwise they are
    the words s1, s2, ..., and strings are written with spaces between symbols, marks included.

    Raises:
        ValueError: the count is out of range.
    """
    if type(count) is not int or not 1 <= count <= MAX_SYMBOLS:
        raise ValueError(f"symbols is {count!r}; expected a number from 1 to {MAX_SYMBOLS}")
    words = count > len(characters)
    symbols = [f"s{number}" for number in range(1, count + 1)] if words else characters[:count]
    return Alphabet([*symbols, *marks], words=words)
