"""Reading files and streams within limits: text, gzip, JSON, and lines as they arrive."""

import gzip
import io
import json
import os
import re
import select
import stat
import sys
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from stacktrans.common.errors import StacktransError, UsageError
from stacktrans.common.messages import print_message

STDIN = Path("-")
"""The file name of standard input."""
MAX_BYTES = 1 << 24
"""The maximum size of a file of settings or of records of a run."""
MAX_DIGITS = 1000
"""The maximum length of a whole number in JSON, in characters."""
_OPEN_ALREADY = re.compile(r"/dev/(stdin|fd/\d+)|/proc/self/fd/\d+")
"""Paths of files that this process has open, such as those of <(...) in a shell."""

GZIP_SUFFIX = ".gz"
"""The suffix of files compressed by gzip."""
GZIP_MAGIC = b"\x1f\x8b"
"""The first bytes of a file compressed by gzip, which are not valid UTF-8."""
MAX_CONTENT = 1 << 30
"""The maximum size of a file of pairs or lines, in bytes, before and after decompression."""
_stream_contents: dict[tuple[Path, Any], bytes] = {}
"""The contents of streams that were read, by path and version."""
MAX_LENGTH = 1_000_000
"""The maximum length of a source, in symbols."""
DEEPEST_DERIVATION = 10_000
"""The maximum depth of derivations."""
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""The first bytes of a file in UTF-8 written by some editors."""
LINES_AT_ONCE = 4096
BYTES_AT_ONCE = 1 << 17
"""A group of lines has at most this many bytes, plus the rest of its last line."""
CHUNK = 1 << 16
LONGEST_LINE = 1 << 24
"""The maximum length of a line, in bytes; a source has at most `MAX_LENGTH` symbols."""
_WORD = re.compile(r"[^ \t\n\r\f\v]+")


def name_of(path: Path) -> str:
    """The name of a file in messages."""
    return "standard input" if path == STDIN else str(path)


def check_readable(path: str | os.PathLike[str]) -> None:
    """Raise `UsageError` unless a path is a file that can be read without waiting.

    Reading a named pipe waits for a writer, and a device may never end. Files that this process
    has open, such as /dev/stdin, are accepted.
    """
    try:
        with _os_errors_of(path):
            mode = os.stat(path).st_mode
    except ValueError as error:  # a null character
        raise UsageError(f"{os.fspath(path)!r}: not a file name") from error
    if stat.S_ISDIR(mode):
        raise UsageError(f"{path}: Is a directory; expected a file")
    if not (stat.S_ISREG(mode) or is_stream(path)):
        kind = {stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket"}.get(stat.S_IFMT(mode))
        raise UsageError(f"{path}: {kind or 'a device'}; expected a file")


def open_file(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a file for reading; raises `UsageError` if it is none or can't be read."""
    check_readable(path)
    with _os_errors_of(path):
        return open(path, "rb")


def check_uncompressed(path: str | os.PathLike[str]) -> None:
    """Raise `UsageError` unless a path is a readable file that is not compressed by gzip."""
    check_readable(path)
    if os.path.isfile(path):  # reading would take from a pipe what others expect
        with open_file(path) as stream:
            if stream.read(len(GZIP_MAGIC)) == GZIP_MAGIC:
                raise UsageError(f"{path}: compressed; expected lines of text, as zcat gives them")


@contextmanager
def _os_errors_of(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn an `OSError` about a path into a `UsageError`."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error


def read_bytes(path: str | os.PathLike[str], most: int | None = None) -> bytes:
    """Read a file; raises `UsageError` if it can't be read, or has more than `most` bytes."""
    with open_file(path) as stream, _os_errors_of(path):
        content = stream.read(-1 if most is None else most + 1)
    if most is not None:
        check_size(str(path), content, most)
    return content


def check_size(name: str, content: bytes, most: int) -> None:
    """Raise `UsageError` if the content of a file has more than `most` bytes."""
    if len(content) > most:
        raise UsageError(f"{name}: more than {most >> 20} MiB; expected less")


def read_text(path: str | os.PathLike[str]) -> str:
    """Read a file in UTF-8; raises `UsageError` if it can't be read, or has too many bytes."""
    try:
        return read_bytes(path, MAX_BYTES).decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not a text file in UTF-8 (byte {error.start})") from error


def parse_json(text: str | bytes) -> Any:
    """Parse JSON.

    Raises:
        ValueError: the text is not JSON, is nested too deeply, repeats a key of an object, or has a
            whole number with too many digits; the message says which.
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
    result = dict(pairs)
    if len(result) < len(pairs):
        (key, _), *_ = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"the key {key!r} repeats")
    return result


def _as_integer(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise ValueError(f"a whole number of {len(text)} digits; expected at most {MAX_DIGITS}")
    return int(text)


def json_lines(path: Path) -> Iterator[Any]:
    """Read a file of JSON lines.

    Raises:
        UsageError: the file can't be read.
        ValueError: a line is not JSON; the message names it.
    """
    for number, line in enumerate(read_bytes(path).splitlines(), start=1):
        try:
            yield parse_json(line)
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from error


def is_stream(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a stream of this process, which can perhaps be read only once."""
    return Path(path) == STDIN or _OPEN_ALREADY.fullmatch(os.fspath(path)) is not None


def read_content(path: str | os.PathLike[str]) -> bytes:
    """Read a file, possibly compressed, or standard input.

    Raises:
        UsageError: it can't be read, is truncated, or has more than `MAX_CONTENT` bytes.
    """
    path = Path(path)
    content = _stream_content(path) if is_stream(path) else read_bytes(path, MAX_CONTENT)
    if path.suffix == GZIP_SUFFIX or content.startswith(GZIP_MAGIC):
        name = name_of(path)
        try:
            content = gzip.GzipFile(fileobj=io.BytesIO(content)).read(MAX_CONTENT + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise UsageError(f"{name}: not a complete gzip file ({error})") from error
        check_size(name, content, MAX_CONTENT)
    return content.removeprefix(BYTE_ORDER_MARK)


def file_version(path: Path) -> Any:
    """A value that changes when a file is written, or a stream is replaced by another."""
    if path == STDIN:
        return sys.stdin and sys.stdin.buffer
    try:
        state = os.stat(path)
    except (OSError, ValueError):  # reported when the file is read
        return None
    modified = (state.st_size, state.st_mtime_ns) if stat.S_ISREG(state.st_mode) else ()
    return state.st_dev, state.st_ino, *modified


def _stream_content(path: Path) -> bytes:
    """The content of a stream, which is kept, since a stream can be read only once."""
    stream = file_version(path)
    if stream is None and path == STDIN:
        raise UsageError(f"{name_of(path)} is closed; expected pairs or lines")
    if (path, stream) not in _stream_contents:
        for other in [other for other in _stream_contents if other[0] == path]:
            del _stream_contents[other]
        if path == STDIN and sys.stdin.isatty():  # such as a resumed run that read from a pipe
            print_message("waiting for pairs or lines from the terminal; end them with Ctrl-D")
        with _os_errors_of(name_of(path)):
            read = stream.read(MAX_CONTENT + 1) if path == STDIN else read_bytes(path, MAX_CONTENT)
        check_size(name_of(path), read, MAX_CONTENT)
        _stream_contents[path, stream] = read
    return _stream_contents[path, stream]


def decode_line(line: bytes) -> str:
    """Decode a line without its line end; raises `StacktransError` if it is too long or no text."""
    if len(line) > LONGEST_LINE:
        raise StacktransError(f"more than {LONGEST_LINE} bytes in a line; expected fewer")
    if b"\0" in line:
        position = line.index(0) + 1
        raise StacktransError(
            f"byte {position} is 0x00, as in UTF-16 or binary data; expected text in UTF-8"
        )
    try:
        return line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise StacktransError(
            f"byte {error.start + 1} is 0x{byte:02x}, which is not UTF-8"
        ) from None


def split_words(text: str) -> list[str]:
    """Split a string at ASCII whitespace.

    Other spaces of Unicode remain part of words, so that joining words with spaces restores them.
    """
    return _WORD.findall(text)


class LinePiece(NamedTuple):
    """A line, or a part of one.

    Attributes:
        raw: its bytes, without the line end; a line longer than `LONGEST_LINE` is truncated to a
            piece that is still longer.
        begins: whether it is the beginning of the line.
        ends: whether it is the end of the line.
    """

    raw: bytes
    begins: bool = True
    ends: bool = True


def line_groups(descriptor: int, name: str, parts: bool = False) -> Iterator[list[LinePiece]]:
    """Read lines in groups, each with all lines that can be read without waiting.

    Args:
        descriptor: an open file or pipe.
        name: its name in messages.
        parts: whether a group may end with an incomplete line.

    Raises:
        StacktransError: the file can't be read; the message says why.
    """
    is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
    group: list[LinePiece] = []
    rest, begins = bytearray(), True
    chunks = _chunks(descriptor, name)
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
        chunk = next(chunks, None)
        if chunk is None:
            break
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


def _chunks(descriptor: int, name: str) -> Iterator[bytes]:
    """The bytes of a file as they arrive, without a byte order mark; raises `StacktransError`."""
    chunks = iter(partial(_next_bytes, descriptor, name), b"")
    start = b""
    for chunk in chunks:
        start += chunk  # the mark may arrive in parts, too
        if start == BYTE_ORDER_MARK or not BYTE_ORDER_MARK.startswith(start):
            break
    yield start.removeprefix(BYTE_ORDER_MARK)
    yield from chunks


def _next_bytes(descriptor: int, name: str) -> bytes:
    """Read the next bytes, waiting for them; raises `StacktransError`."""
    while True:
        try:
            return os.read(descriptor, CHUNK)
        except BlockingIOError:  # the descriptor is non-blocking
            select.select([descriptor], [], [])
        except OSError as error:
            raise StacktransError(f"{name}: {error.strerror}") from error


def check_length(length: int) -> None:
    """Raise `StacktransError` if a string is longer than `MAX_LENGTH`."""
    if length > MAX_LENGTH:
        raise StacktransError(f"a string of {length} symbols; expected at most {MAX_LENGTH}")
