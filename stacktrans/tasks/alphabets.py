"""Alphabets of any size, of symbols that mean nothing."""

from collections.abc import Sequence

from stacktrans.tasks.base import Alphabet

ASCII = "".join(chr(code) for code in range(0x21, 0x7F))
LATIN_LETTERS = "".join(chr(code) for code in range(0xC0, 0x100) if chr(code).isalpha())
PRINTABLE = ASCII + LATIN_LETTERS
"""Printable characters: ASCII without the space, then Latin-1 letters."""
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""Digits and then letters."""
MOST_SYMBOLS = 65_536


def meaningless_symbols(count: int, characters: str, marks: Sequence[str] = ()) -> Alphabet:
    """An alphabet of `count` symbols and some marks after them.

    As long as there are enough characters, the symbols are the first of these; otherwise they are
    the words s1, s2, ..., and strings are written with spaces between symbols, marks included.

    Raises:
        ValueError: there can't be so many.
    """
    if type(count) is not int or not 1 <= count <= MOST_SYMBOLS:
        raise ValueError(f"symbols is {count!r}; expected a number from 1 to {MOST_SYMBOLS}")
    words = count > len(characters)
    symbols = [f"s{number}" for number in range(1, count + 1)] if words else characters[:count]
    return Alphabet([*symbols, *marks], words=words)
