"""Alphabets: symbols and their ids; encoding of written strings as ids, and decoding."""

import string
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from stacktrans.common.errors import StacktransError, check_parameter, shown
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
"""Letters alone, for generators of plugins that need digits and signs for marks."""
MAX_SYMBOLS = 65_536
LARGE_ALPHABET = 6
"""The maximum number of symbols of an alphabet that is not large."""
FEW_SYMBOLS = 3
"""The first symbols of a large alphabet, over which all short strings are tested."""
UNKNOWN_SYMBOL = "<unk>"
"""Shown instead of a symbol outside the alphabet."""
UNSCORED_MARK = "·"
"""Shown instead of an output that is undetermined and therefore not scored."""
NO_OUTPUT = -1
"""The id for a step at which a machine has no output, since none is scored there."""
OUT_OF_VOCABULARY = -2
"""The id, in a pair, of a symbol outside the alphabet: no output equals it."""
FAILED = -3
"""The id for a step at which a model fails, and for those after it: numbers overflow, or a machine
has no rule."""
_NEWLINE = ord("\n")
_MARKS = {NO_OUTPUT: UNSCORED_MARK, OUT_OF_VOCABULARY: UNKNOWN_SYMBOL, FAILED: UNSCORED_MARK}


class UnknownSymbol(StacktransError):
    """A symbol of a string that the task's alphabet lacks."""

    def __init__(self, symbol: str, position: int) -> None:
        self.symbol = symbol
        self.position = position
        super().__init__(f"symbol {position} is {shown(symbol)}, which is not in the alphabet")


Role = tuple[str, ...]
"""The meaning of an id, independent of its number: a kind, and how the symbol is written."""
SYMBOL, FEATURE = "symbol", "feature"
"""The kinds of roles of what strings consist of; all other kinds are marks."""


class Alphabet:
    """An ordered set of symbols with ids from 0, and the notation of strings over it.

    Args:
        symbols: the symbols, in the order of their ids.
        words: whether strings are words separated by spaces.
        unknown: the id of all other symbols; None if these are errors.
    """

    def __init__(self, symbols: Sequence[str], *, words: bool, unknown: int | None = None) -> None:
        self.symbols, self.words, self.unknown = tuple(symbols), words, unknown
        self._ids = {symbol: index for index, symbol in enumerate(self.symbols)}

    def __len__(self) -> int:
        return len(self.symbols)

    @property
    def unknown_ids(self) -> frozenset[int]:
        """The ids that stand for several symbols."""
        return frozenset(() if self.unknown is None else [self.unknown])

    @property
    def is_character_level(self) -> bool:
        """Whether strings are written as characters without spaces, none of them a line end."""
        return not self.words and all(
            len(symbol) == 1 and symbol != "\n" and not 0xD800 <= ord(symbol) < 0xE000
            for symbol in self.symbols
        )

    def roles(self) -> list[Role]:
        """The role of each id."""
        return [(SYMBOL, symbol) for symbol in self.symbols]

    def split(self, line: str) -> list[str]:
        """Split a written string into symbols, whether the alphabet has them or not."""
        return split_words(line) if self.words else list(line)

    def join(self, symbols: Sequence[str]) -> str:
        """Write a string of symbols."""
        return (" " if self.words else "").join(symbols)

    def encode(self, symbols: Sequence[str]) -> Ids:
        """Ids of symbols; may raise `UnknownSymbol`, with positions counted from 1."""
        if self.unknown is not None:
            return self.encode_leniently(symbols)
        try:
            return np.fromiter(map(self._ids.__getitem__, symbols), np.int64, len(symbols))
        except KeyError:
            position = next(n for n, symbol in enumerate(symbols) if symbol not in self._ids)
            raise UnknownSymbol(symbols[position], position + 1) from None

    def encode_leniently(self, symbols: Sequence[str]) -> Ids:
        """Ids of symbols; those of unknown ones are `unknown`, or else `OUT_OF_VOCABULARY`."""
        unknown = OUT_OF_VOCABULARY if self.unknown is None else self.unknown
        return np.array([self._ids.get(symbol, unknown) for symbol in symbols], dtype=np.int64)

    def decode(self, ids: Sequence[int] | Ids) -> list[str]:
        """Symbols of ids; `UNKNOWN_SYMBOL` and `UNSCORED_MARK` for ids that stand for none."""
        return [self.symbols[index] if index >= 0 else _MARKS[index] for index in ids]


class Characters:
    """A vectorized codec between text and ids, for an alphabet of characters.

    Args:
        alphabet: the symbols.

    Raises:
        ValueError: the symbols are not characters, or one is a line end.
    """

    def __init__(self, alphabet: Alphabet) -> None:
        if not alphabet.is_character_level:
            raise ValueError("the symbols of lines must be characters")
        self._points = np.array([*map(ord, alphabet.symbols)], np.uint32)
        # The last entry is for all code points above the greatest known one.
        self._ids = np.full(max(_NEWLINE, self._points.max(initial=0)) + 2, OUT_OF_VOCABULARY)
        self._ids[self._points] = np.arange(len(self._points))
        self._ids[_NEWLINE] = NO_OUTPUT

    def encode(self, text: str) -> Ragged | None:
        """Encode lines, each with its line end, as ids; None if a character has no id."""
        points = np.frombuffer(text.encode("utf-32-le"), np.uint32)
        ids = self._ids.take(points, mode="clip")
        ends = np.flatnonzero(ids == NO_OUTPUT)
        symbols = ids[ids != NO_OUTPUT]
        if symbols.min(initial=0) < 0:
            return None
        return Ragged(symbols, np.append(0, ends - np.arange(len(ends))))

    def decode(self, lines: Ragged) -> str:
        """Decode ids as lines, each with its line end."""
        points = np.full(len(lines.values) + len(lines), _NEWLINE, np.uint32)
        points[np.arange(len(lines.values)) + lines.row_indices] = self._points[lines.values]
        return points.tobytes().decode("utf-32-le")


def meaningless_symbols(count: int, characters: str, marks: Sequence[str] = ()) -> Alphabet:
    """An alphabet of `count` interchangeable symbols, followed by marks.

    The symbols are the first of `characters` if there are enough of them; otherwise they are the
    words s1, s2, ..., and all symbols, marks included, are separated by spaces.

    Raises:
        ValueError: the count is out of range.
    """
    in_range = type(count) is int and 1 <= count <= MAX_SYMBOLS
    check_parameter(in_range, "symbols", count, f"a number from 1 to {MAX_SYMBOLS}")
    words = count > len(characters)
    symbols = [f"s{number}" for number in range(1, count + 1)] if words else characters[:count]
    return Alphabet([*symbols, *marks], words=words)
