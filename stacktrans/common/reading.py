"""Reading files: whole, packed, as JSON, once from a stream, or line by line as they come."""

import gzip
import io
import json
import os
import re
import select
import stat
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from stacktrans.common.errors import StacktransError, UsageError
from stacktrans.common.messages import print_message

STDIN = Path("-")
"""What stands for standard input among files."""
MOST_BYTES = 1 << 24
"""The largest file of settings or of a run's records that is read."""
MOST_DIGITS = 1000
"""The longest whole number in JSON, in characters."""
_OPEN_ALREADY = re.compile(r"/dev/(stdin|fd/\d+)|/proc/self/fd/\d+")
"""Names of files that this process has open, such as a shell's <(...)."""

PACKED = ".gz"
"""What the name of a file ends with that is packed by gzip."""
PACKED_BEGINS = b"\x1f\x8b"
"""What the content of such a file begins with, and no text in UTF-8."""
MOST_CONTENT = 1 << 30
"""The most bytes that are read of a file, packed or not."""
_held: dict[tuple[Path, Any], bytes] = {}
"""What has come from streams."""
LONGEST = 1_000_000
"""The longest source that can be asked for, in symbols."""
DEEPEST = 10_000
"""The greatest depth of derivations that can be asked for."""
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""What some editors begin a file in UTF-8 with."""
LINES_AT_ONCE = 4096
BYTES_AT_ONCE = 1 << 17
"""So much is answered at once, and some more where a line is long: the next answers wait for it."""
CHUNK = 1 << 16
LONGEST_LINE = 1 << 24
"""The longest line that is read, in bytes; a source has at most `LONGEST` symbols."""
_WORD = re.compile(r"[^ \t\n\r\f\v]+")


def name_of(path: Path) -> str:
    """What a file is called in messages."""
    return "standard input" if path == STDIN else str(path)


def check_readable(path: str | os.PathLike[str]) -> None:
    """Raise `UsageError` unless something is a file that can be read without waiting for it.

    A named pipe would wait until somebody writes to it, and a device may never end. What this
    process has open already, such as /dev/stdin, is fine.
    """
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except ValueError as error:  # a null character
        raise UsageError(f"{os.fspath(path)!r}: not a file name") from error
    if stat.S_ISDIR(mode):
        raise UsageError(f"{path}: Is a directory; expected a file")
    if not (stat.S_ISREG(mode) or is_open_descriptor(path)):
        kind = {stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket"}.get(stat.S_IFMT(mode))
        raise UsageError(f"{path}: {kind or 'a device'}; expected a file")


def is_open_descriptor(path: str | os.PathLike[str]) -> bool:
    """Whether a name is of what this process has open; to another process it is something else."""
    return _OPEN_ALREADY.fullmatch(os.fspath(path)) is not None


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to read from; raises `UsageError` as `check_readable` does, or if it can't be read."""
    check_readable(path)
    try:
        stream = open(path, "rb")  # noqa: SIM115 - closed below
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    with stream:
        yield stream


def read_bytes(path: str | os.PathLike[str], most: int | None = None) -> bytes:
    """The content of a file; raises `UsageError` if it can't be read, or has more bytes."""
    with opened(path) as stream:
        try:
            content = stream.read(-1 if most is None else most + 1)
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}") from error
    if most is not None:
        check_size(str(path), content, most)
    return content


def check_size(name: str, content: bytes, most: int) -> None:
    """Raise `UsageError` if the content of a file has more than `most` bytes."""
    if len(content) > most:
        raise UsageError(f"{name}: more than {most >> 20} MiB; expected less")


def read_text(path: str | os.PathLike[str], most: int | None = MOST_BYTES) -> str:
    """The text of a file; raises `UsageError` as `read_bytes` does, or if it is not in UTF-8."""
    try:
        return read_bytes(path, most).decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not a text file in UTF-8 (byte {error.start})") from error


def parsed_json(text: str | bytes) -> Any:
    """The value of a JSON text.

    Raises:
        ValueError: it is not one, is nested too deeply, has a key twice in an object or a whole
            number of too many digits; the message says which.
    """
    try:
        return json.loads(text, object_pairs_hook=_as_object, parse_int=_as_integer)
    except json.JSONDecodeError as error:
        if error.msg.startswith("Unterminated string"):
            raise ValueError(
                f"a string begins at character {error.pos + 1} and does not end on its line"
            ) from None
        raise ValueError(f"not JSON: {error.msg} at character {error.pos + 1}") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _as_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(key for key in keys if keys.count(key) > 1)!r} repeats")
    return found


def _as_integer(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise ValueError(f"a whole number of {len(text)} digits; expected at most {MOST_DIGITS}")
    return int(text)


def json_lines(path: Path) -> Iterator[Any]:
    """The values of the lines of a file of JSON.

    Raises:
        UsageError: the file can't be read.
        ValueError: a line is not JSON; the message names it.
    """
    for number, line in enumerate(read_bytes(path).splitlines(), start=1):
        try:
            yield parsed_json(line)
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from error


def is_stream(path: Path) -> bool:
    """Whether what is there comes to this process alone, and perhaps only once."""
    return path == STDIN or is_open_descriptor(path)


def read_content(path: str | os.PathLike[str]) -> bytes:
    """What is in a file or in standard input, unpacked.

    Raises:
        UsageError: it can't be read, is not whole, or has more than `MOST_CONTENT` bytes.
    """
    path = Path(path)
    content = _only_once(path) if is_stream(path) else read_bytes(path, MOST_CONTENT)
    if path.suffix == PACKED or content.startswith(PACKED_BEGINS):
        name = name_of(path)
        try:
            content = gzip.GzipFile(fileobj=io.BytesIO(content)).read(MOST_CONTENT + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise UsageError(f"{name}: not a whole file of gzip ({error})") from error
        check_size(name, content, MOST_CONTENT)
    return content.removeprefix(BYTE_ORDER_MARK)


def file_version(path: Path) -> Any:
    """Changes when a file does; of streams, when there is another."""
    if path == STDIN:
        return sys.stdin and sys.stdin.buffer
    try:
        state = os.stat(path)
    except (OSError, ValueError):  # which will be said when it is read
        return None
    as_it_is = (state.st_size, state.st_mtime_ns) if stat.S_ISREG(state.st_mode) else ()
    return state.st_dev, state.st_ino, *as_it_is


def _only_once(path: Path) -> bytes:
    """What comes from a stream, which is kept, since it may be asked for again."""
    stream = file_version(path)
    if stream is None and path == STDIN:
        raise UsageError(f"{name_of(path)}: closed; expected pairs or lines from there")
    if (path, stream) not in _held:
        for other in [other for other in _held if other[0] == path]:
            del _held[other]
        if path == STDIN and sys.stdin.isatty():  # as where a run that was fed by a pipe is resumed
            print_message("waiting for pairs or lines from the terminal; end them with Ctrl-D")
        read = stream.read(MOST_CONTENT + 1) if path == STDIN else read_bytes(path, MOST_CONTENT)
        check_size(name_of(path), read, MOST_CONTENT)
        _held[path, stream] = read
    return _held[path, stream]


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


class LinePiece(NamedTuple):
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


def line_groups(descriptor: int, parts: bool = False) -> Iterator[list[LinePiece]]:
    """Lines as they come: as many as are there already, but without waiting for more.

    Args:
        descriptor: an open file or pipe.
        parts: whether not to wait for the end of a line either.

    Raises:
        Unreadable: it can't be read; the message says why.
    """
    is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
    group: list[LinePiece] = []
    rest, begins, first = bytearray(), True, True
    while True:
        waiting = not (is_file or select.select([descriptor], [], [], 0)[0])
        if parts and waiting and rest:
            group.append(LinePiece(bytes(rest), begins, ends=False))
            rest, begins = bytearray(), False
        size = sum(len(piece.raw) for piece in group)
        enough = len(group) >= LINES_AT_ONCE or size >= BYTES_AT_ONCE
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
            group.append(LinePiece(bytes(rest), begins))
            group += map(LinePiece, lines[:-1])
            rest, begins = bytearray(lines[-1]), True
    if rest or not begins:
        group.append(LinePiece(bytes(rest), begins))
    for start in range(0, len(group), LINES_AT_ONCE):
        yield group[start : start + LINES_AT_ONCE]


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
