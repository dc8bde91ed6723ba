"""Strings in files and pipes: lines in, pairs in and out."""

import json
import os
import select
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from stacktrans.errors import StacktransError, UsageError
from stacktrans.sequences import Pair
from stacktrans.tasks.base import Task

PairFormat = Literal["tsv", "jsonl"]
STDIN = Path("-")
"""What stands for standard input among files."""
LINES_AT_ONCE = 256
CHUNK = 1 << 16
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""What some editors begin a file in UTF-8 with."""


class UnreadableLine(StacktransError):
    """A line that is no text."""


def decode_line(line: bytes) -> str:
    """The text of a line without its end; raises `UnreadableLine` if it is not UTF-8."""
    try:
        return line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise UnreadableLine(
            f"byte {error.start + 1} is 0x{byte:02x}, which is not UTF-8"
        ) from None


class Piece(NamedTuple):
    """A line, or a part of one.

    Attributes:
        raw: what was read, without the line's end.
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
    rest, begins, group, first = b"", True, list[Piece](), True
    while True:
        waiting = not (is_file or _has_more(descriptor))
        if parts and waiting and rest:
            group.append(Piece(rest, begins, ends=False))
            rest, begins = b"", False
        if group and (waiting or len(group) >= LINES_AT_ONCE):
            yield group[:LINES_AT_ONCE]
            group = group[LINES_AT_ONCE:]
            continue
        chunk = os.read(descriptor, CHUNK)
        if not chunk:
            break
        if first:
            chunk, first = chunk.removeprefix(BYTE_ORDER_MARK), False
        *lines, rest = (rest + chunk).split(b"\n") if b"\n" in chunk else (rest + chunk,)
        for line in lines:
            group.append(Piece(line, begins))
            begins = True
    if rest or not begins:
        group.append(Piece(rest, begins))
    for start in range(0, len(group), LINES_AT_ONCE):
        yield group[start : start + LINES_AT_ONCE]


def _has_more(descriptor: int) -> bool:
    ready, _, _ = select.select([descriptor], [], [], 0)
    return bool(ready)


def format_pair(task: Task, pair: Pair, form: PairFormat) -> str:
    """A pair as a line, without its end."""
    source = task.source.join(task.source.decode(pair.source))
    target = task.target.join(task.target.decode(pair.target))
    if form == "tsv":
        return f"{source}\t{target}"
    return json.dumps({"source": source, "target": target}, ensure_ascii=False)


def name_of(path: Path) -> str:
    """What a file is called in messages."""
    return "standard input" if path == STDIN else str(path)


def read_pairs(path: Path, task: Task) -> list[Pair]:
    """Read pairs as `format_pair` writes them, of a file or of standard input.

    They are JSON lines if the file's name ends with .jsonl or .json, or if the first line with
    anything on it begins with { and has no tab; TSV otherwise, whose lines all have one.

    Raises:
        UsageError: the file can't be read.
        StacktransError: a line is no pair over the task's alphabets.
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
            source, target = _fields(decode_line(line), as_json)
            pairs.append(_pair(task, task.source.split(source), task.target.split(target)))
        except StacktransError as error:
            raise StacktransError(f"{name}:{number}: {error}") from error
    if not pairs:
        raise StacktransError(f"{name}: holds no pairs")
    return pairs


def read_lines(path: Path) -> list[bytes]:
    """The lines of a file or of standard input; raises `UsageError` if it can't be read."""
    try:
        content = sys.stdin.buffer.read() if path == STDIN else path.read_bytes()
    except OSError as error:
        raise UsageError(f"{name_of(path)}: {error.strerror}") from error
    return content.removeprefix(BYTE_ORDER_MARK).split(b"\n")


def _pair(task: Task, source: list[str], target: list[str]) -> Pair:
    if task.same_length and len(source) != len(target):
        raise StacktransError(
            f"the source has {len(source)} symbols and the target {len(target)}; expected as many"
        )
    return task.pair(task.encoded(source), task.target.encode(target))


def _fields(line: str, as_json: bool) -> tuple[str, str]:
    if as_json:
        try:
            entry = json.loads(line)
            source, target = entry["source"], entry["target"]
            if isinstance(source, str) and isinstance(target, str):
                return source, target
            raise ValueError
        except (ValueError, TypeError, KeyError, RecursionError):
            raise StacktransError(
                f"expected a JSON object with source and target, found {line[:60]!r}"
            ) from None
    fields = line.split("\t")
    if len(fields) != 2:
        raise StacktransError(f"expected source, a tab, target; found {line[:60]!r}")
    return fields[0], fields[1]
