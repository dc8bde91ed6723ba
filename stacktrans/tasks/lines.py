"""Strings in files and pipes: lines in, pairs in and out."""

import functools
import os
import select
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple

from stacktrans.common.errors import StacktransError
from stacktrans.common.reading import parsed_json, read_bytes
from stacktrans.common.visible import json_text
from stacktrans.tasks.base import LONGEST, Task
from stacktrans.tasks.layouts import Pair

PairFormat = Literal["tsv", "jsonl"]
STDIN = Path("-")
"""What stands for standard input among files."""
LINES_AT_ONCE = 256
CHUNK = 1 << 16
LONGEST_LINE = 1 << 24
"""The longest line that is read, in bytes; a source has at most `LONGEST` symbols."""
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""What some editors begin a file in UTF-8 with."""


def decode_line(line: bytes) -> str:
    """A line without its end; raises `StacktransError` if it is too long or not text."""
    if len(line) > LONGEST_LINE:
        raise StacktransError(f"more than {LONGEST_LINE} bytes in a line; expected fewer")
    try:
        return line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise StacktransError(
            f"byte {error.start + 1} is 0x{byte:02x}, which is not UTF-8"
        ) from None


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
    """
    is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
    group: list[Piece] = []
    rest, begins, first = bytearray(), True, True
    while True:
        waiting = not (is_file or select.select([descriptor], [], [], 0)[0])
        if parts and waiting and rest:
            group.append(Piece(bytes(rest), begins, ends=False))
            rest, begins = bytearray(), False
        if group and (waiting or len(group) >= LINES_AT_ONCE):
            yield group[:LINES_AT_ONCE]
            del group[:LINES_AT_ONCE]
            continue
        chunk = os.read(descriptor, CHUNK)
        if not chunk:
            break
        if first:
            chunk, first = chunk.removeprefix(BYTE_ORDER_MARK), False
        for number, part in enumerate(chunk.split(b"\n")):
            if number:  # there was the end of a line before it
                group.append(Piece(bytes(rest), begins))
                rest, begins = bytearray(), True
            if len(rest) <= LONGEST_LINE:
                rest += part
    if rest or not begins:
        group.append(Piece(bytes(rest), begins))
    for start in range(0, len(group), LINES_AT_ONCE):
        yield group[start : start + LINES_AT_ONCE]


def format_pair(task: Task, pair: Pair, form: PairFormat) -> str:
    """A pair as a line, without its end."""
    source = task.source.join(task.source.decode(pair.source))
    target = task.target.join(task.target.decode(pair.target))
    if form == "tsv":
        return f"{source}\t{target}"
    return json_text({"source": source, "target": target})


def name_of(path: Path) -> str:
    """What a file is called in messages."""
    return "standard input" if path == STDIN else str(path)


def read_pairs(path: Path, task: Task) -> list[Pair]:
    """Read pairs as `format_pair` writes them, of a file or of standard input.

    They are JSON lines if the file's name ends with .jsonl or .json, or if the first line with
    anything on it begins with { and has no tab; TSV otherwise, whose lines all have one.

    Raises:
        UsageError: the file can't be read.
        StacktransError: a line is not a pair over the task's alphabets.
    """
    lines, name = read_lines(path), name_of(path)
    first = next((line for line in lines if line.strip()), b"")
    begins_as_json = first.lstrip().startswith(b"{") and b"\t" not in first
    as_json = path.suffix in {".jsonl", ".json"} or begins_as_json
    pairs = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            pairs.append(_pair(task, *_fields(decode_line(line), as_json)))
        except StacktransError as error:
            raise StacktransError(f"{name}:{number}: {error}") from error
    if not pairs:
        raise StacktransError(f"{name}: holds no pairs")
    return pairs


def read_lines(path: str | os.PathLike[str]) -> list[bytes]:
    """The lines of a file or of standard input without `\\n`; raises `UsageError`."""
    content = _all_of(sys.stdin.buffer) if Path(path) == STDIN else read_bytes(path)
    return content.removeprefix(BYTE_ORDER_MARK).split(b"\n")


@functools.lru_cache(maxsize=1)
def _all_of(stream: BinaryIO) -> bytes:
    """What comes from a stream, which comes only once."""
    return stream.read()


def check_length(symbols: Sequence[str]) -> None:
    """Raise `StacktransError` if a string is longer than any that a model is asked about."""
    if len(symbols) > LONGEST:
        raise StacktransError(f"a string of {len(symbols)} symbols; expected at most {LONGEST}")


def given_pairs(pairs: Iterable[tuple[str, str]], task: Task) -> list[Pair]:
    """Pairs of strings as written; raises `StacktransError` for one that is not the task's."""
    found = []
    for number, (source, target) in enumerate(pairs, start=1):
        try:
            found.append(_pair(task, source, target))
        except StacktransError as error:
            raise StacktransError(f"pair {number}: {error}") from error
    return found


def _pair(task: Task, written_source: str, written_target: str) -> Pair:
    source, target = task.source.split(written_source), task.target.split(written_target)
    check_length(source)
    check_length(target)
    if task.same_length and len(source) != len(target):
        raise StacktransError(
            f"the source has {len(source)} symbols and the target {len(target)}; expected as many"
        )
    return task.pair(task.encoded(source), task.target.encode(target))


def _fields(line: str, as_json: bool) -> tuple[str, str]:
    form = "a JSON object with source and target," if as_json else "source, a tab, target;"
    try:
        fields = parsed_json(line) if as_json else line.split("\t")
    except ValueError:
        fields = None
    match fields:
        case {"source": str(source), "target": str(target)}:
            return source, target
        case [source, target] if not as_json:
            return source, target
    raise StacktransError(f"expected {form} found {line[:60]!r}")
