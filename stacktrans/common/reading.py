"""Files named by users, read within bounds, and JSON in them."""

import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from stacktrans.common.errors import UsageError

STDIN = Path("-")
"""What stands for standard input among files."""
MOST_BYTES = 1 << 24
"""The largest file of settings or of a run's records that is read."""
MOST_DIGITS = 1000
"""The longest whole number in JSON, in characters."""
_OPEN_ALREADY = re.compile(r"/dev/(stdin|fd/\d+)|/proc/self/fd/\d+")
"""Names of files that this process has open, such as a shell's <(...)."""


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
    if not (stat.S_ISREG(mode) or is_open_already(path)):
        kind = {stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket"}.get(stat.S_IFMT(mode))
        raise UsageError(f"{path}: {kind or 'a device'}; expected a file")


def is_open_already(path: str | os.PathLike[str]) -> bool:
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
