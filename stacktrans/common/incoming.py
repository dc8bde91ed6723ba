"""Lines that come from files and pipes, as many as are there already."""

import os
import re
import select
import stat
from collections.abc import Iterator
from typing import NamedTuple

from stacktrans.common.errors import StacktransError

LONGEST = 1_000_000
"""The longest source that can be asked for, in symbols."""
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""What some editors begin a file in UTF-8 with."""
LINES_AT_ONCE = 1024
BYTES_AT_ONCE = 1 << 17
"""So much is answered at once, and some more where a line is long: the next answers wait for it."""
CHUNK = 1 << 16
LONGEST_LINE = 1 << 24
"""The longest line that is read, in bytes; a source has at most `LONGEST` symbols."""

_WORD = re.compile(r"[^ \t\n\r\f\v]+")


def decode_line(line: bytes) -> str:
    """A line without its end; raises `StacktransError` if it is too long or not text."""
    if len(line) > LONGEST_LINE:
        raise StacktransError(f"more than {LONGEST_LINE} bytes in a line; expected fewer")
    if b"\0" in line:
        place = f"byte {line.index(0) + 1} is 0x00"
        raise StacktransError(f"{place}, as in UTF-16 or binary data; expected text in UTF-8")
    try:
        return line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise StacktransError(
            f"byte {error.start + 1} is 0x{byte:02x}, which is not UTF-8"
        ) from None


def split_words(text: str) -> list[str]:
    """The words of a string: what stands between spaces, tabs and the like of ASCII.

    Other spaces of Unicode are part of words, since they could not be written back.
    """
    return _WORD.findall(text)


class Unreadable(StacktransError):
    """What comes in can't be read."""


class Piece(NamedTuple):
    """A line, or a part of one.

    Attributes:
        raw: what was read, without the line's end; of a line that is longer than
            `LONGEST_LINE`, no more than shows that.
        begins: whether the line begins with it.
        ends: whether the line ends with it.
    """

    raw: bytes
    begins: bool = True
    ends: bool = True


def line_groups(descriptor: int, parts: bool = False) -> Iterator[list[Piece]]:
    """Lines as they come: as many as are there already, but without waiting for more.

    Args:
        descriptor: an open file or pipe.
        parts: whether not to wait for the end of a line either.

    Raises:
        Unreadable: it can't be read; the message says why.
    """
    is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
    group: list[Piece] = []
    rest, begins, first = bytearray(), True, True
    while True:
        waiting = not (is_file or select.select([descriptor], [], [], 0)[0])
        if parts and waiting and rest:
            group.append(Piece(bytes(rest), begins, ends=False))
            rest, begins = bytearray(), False
        enough = len(group) >= LINES_AT_ONCE or _size(group) >= BYTES_AT_ONCE
        if group and (waiting or enough):
            yield group[:LINES_AT_ONCE]
            del group[:LINES_AT_ONCE]
            continue
        chunk = _next_bytes(descriptor)
        if not chunk:
            break
        if first:
            while chunk != BYTE_ORDER_MARK and BYTE_ORDER_MARK.startswith(chunk):
                more = _next_bytes(descriptor)  # the mark may come bit by bit, too
                chunk += more
                if not more:
                    break
            chunk, first = chunk.removeprefix(BYTE_ORDER_MARK), False
        beginning, *lines = chunk.split(b"\n")
        if len(rest) <= LONGEST_LINE:
            rest += beginning
        if lines:
            group.append(Piece(bytes(rest), begins))
            group += map(Piece, lines[:-1])
            rest, begins = bytearray(lines[-1]), True
    if rest or not begins:
        group.append(Piece(bytes(rest), begins))
    for start in range(0, len(group), LINES_AT_ONCE):
        yield group[start : start + LINES_AT_ONCE]


def _size(group: list[Piece]) -> int:
    """Bytes in lines."""
    return sum(len(piece.raw) for piece in group)


def _next_bytes(descriptor: int) -> bytes:
    """What comes next, waiting for it; raises `Unreadable`."""
    while True:
        try:
            return os.read(descriptor, CHUNK)
        except BlockingIOError:  # somebody has set it so
            select.select([descriptor], [], [])
        except OSError as error:
            raise Unreadable(str(error.strerror)) from error


def check_length(length: int) -> None:
    """Raise `StacktransError` if a string is longer than any that a model is asked about."""
    if length > LONGEST:
        raise StacktransError(f"a string of {length} symbols; expected at most {LONGEST}")
