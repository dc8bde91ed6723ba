"""Pairs of strings in files and pipes: lines in, pairs in and out; files of pairs read whole."""

import gzip
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar

import numpy as np

from stacktrans.common.errors import StacktransError, clipped, shown
from stacktrans.common.files import write_atomically
from stacktrans.common.messages import print_message
from stacktrans.common.reading import (
    PACKED,
    check_length,
    decode_line,
    name_of,
    parsed_json,
    read_content,
)
from stacktrans.common.visible import json_text
from stacktrans.tasks.alphabets import Ids, UnknownSymbol
from stacktrans.tasks.base import Task
from stacktrans.tasks.columns import (
    COLUMNS,
    LOOKED_AT,
    columns_of,
    columns_of_header,
    detect_columns,
    normalized,
)
from stacktrans.tasks.layout import Pair

PairFormat = Literal["tsv", "jsonl"]
Item = TypeVar("Item")
Result = TypeVar("Result")

PARTS = ("train", "dev", "test")
SET_NAMES = {"train": "training", "dev": "development", "test": "test"}
"""The sets, as people call them."""
TRAIN, DEV, TEST = range(3)
NAMED = 3
"""How many of some lines are named."""

READING = ("columns", "symbols", "separator", "normalize", "header")
"""How files are read, of what is in a request."""


def format_pair(task: Task, pair: Pair, form: PairFormat) -> str:
    """A pair as a line, without its end."""
    fields = dict(zip(task.columns, written_fields(task, pair), strict=True))
    return "\t".join(fields.values()) if form == "tsv" else json_text(fields)


def written_fields(task: Task, pair: Pair) -> tuple[str, ...]:
    """What stands in the columns of a pair: as it stands in its file, if it comes from one."""
    if pair.written is not None:
        return pair.written
    source = task.source.join(task.source.decode(pair.source))
    target = task.target.join(task.target.decode(pair.target))
    read = [column for column in task.columns if column != "target"]
    found = {"target": target, **dict(zip(read, source.split("\t", len(read) - 1), strict=True))}
    return tuple(found[column] for column in task.columns)


def pair_format_of(path: Path) -> PairFormat:
    """How pairs are written in a file, as its name says."""
    unpacked = path.with_suffix("") if path.suffix == PACKED else path
    return "jsonl" if unpacked.suffix in {".jsonl", ".json"} else "tsv"


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write a file of lines whole or not at all, packed if its name says so; raises `OSError`."""
    content = "".join(f"{line}\n" for line in lines).encode()
    # Without the time, the same lines are the same file.
    write_atomically(path, gzip.compress(content, mtime=0) if path.suffix == PACKED else content)


def read_pairs(path: Path, task: Task) -> list[Pair]:
    """Read pairs as `format_pair` writes them, of a file or of standard input; see `RawLines`.

    A header line that names the columns is not a pair, and is reported on stderr.

    Raises:
        UsageError: the file can't be read.
        StacktransError: a line is not a pair.
    """
    lines = RawLines.of(path, read_content(path))
    if lines.header:
        print_message(lines.header_note)
    rows = lines.fields(task.columns)
    return [pair for _, pair in read_numbered(f"{lines.name}:", rows, partial(_pair, task))]


def read_numbered(
    prefix: str, numbered: Iterable[tuple[int, Item]], read: Callable[[Item], Result]
) -> Iterator[tuple[int, Result]]:
    """What is read of numbered lines, or the like.

    Raises:
        StacktransError: as `read` does; the message begins with the prefix and the number.
    """
    for number, item in numbered:
        try:
            yield number, read(item)
        except StacktransError as error:
            raise StacktransError(f"{prefix}{number}: {error}") from error


class RawLines(NamedTuple):
    """The lines of a file of pairs.

    They are JSON lines if the file's name ends with .jsonl or .json, or if the first line with
    anything on it begins with { or [ and has no tab; TSV otherwise, whose lines all have one.

    Attributes:
        name: of the file, in messages.
        lines: without their ends.
        as_json: whether they are JSON lines.
        header: the columns that the first line with anything on it names, which then is not a pair;
            None if it is one.
    """

    name: str
    lines: list[bytes]
    as_json: bool
    header: tuple[str, ...] | None = None

    @classmethod
    def of(cls, path: Path, content: bytes) -> "RawLines":
        """Those of the content of a file; raises `StacktransError` for a JSON array."""
        found = cls(name_of(path), content.split(b"\n"), pair_format_of(path) == "jsonl")
        number, first = next(found.numbered(), (1, b""))
        first = first.lstrip(b" ")
        if first.startswith((b"{", b"[")) and b"\t" not in first:
            found = found._replace(as_json=True)
        if not found.as_json:
            return found._replace(
                header=columns_of_header(first.decode("utf-8", "replace").split("\t"))
            )
        if first.startswith(b"["):
            expected = "expected a JSON object on each line"
            raise StacktransError(f"{found.name}:{number}: {expected}; found a JSON array")
        return found

    @property
    def header_note(self) -> str:
        """What to report of the header."""
        return f"{self.name}: the first line names the columns: {','.join(self.header or ())}"

    def fields(
        self, columns: Sequence[str], own: Sequence[str] = ()
    ) -> Iterator[tuple[int, list[str]]]:
        """The number of each line with something on it, from 1, and what stands in its columns.

        A header is left out, and tells the order of columns; without one it is `own`, if given.
        Raises `StacktransError` for a line without these columns, or if there is no line.
        """
        own = self.header or own or columns
        if not {*columns} <= {*own}:
            expected = f"expected {', '.join(columns)}"
            raise StacktransError(f"{self.name}: has columns {', '.join(own)}; {expected}")
        order = [own.index(column) for column in columns]
        number, lines = 0, islice(self.decoded(), bool(self.header), None)
        read = partial(_fields, columns=own, as_json=self.as_json)
        for number, fields in read_numbered(f"{self.name}:", lines, read):
            yield number, [fields[place] for place in order]
        if not number:
            raise StacktransError(f"{self.name}: holds no pairs")

    def decoded(self) -> Iterator[tuple[int, str]]:
        """The lines of `numbered` as text; raises `StacktransError` for one that is not."""
        return read_numbered(f"{self.name}:", self.numbered(), decode_line)

    def numbered(self) -> Iterator[tuple[int, bytes]]:
        """The lines with something on them, and their numbers from 1.

        A tab is something: what stands before and after it may be empty, or spaces.
        """
        numbered = enumerate(self.lines, start=1)
        return ((number, line) for number, line in numbered if line.strip(b" \r"))


def pairs_of_strings(pairs: Iterable[tuple[str, ...]], task: Task) -> list[Pair]:
    """Pairs of strings as written; raises `StacktransError` for one that is not the task's."""
    rows = enumerate(pairs, start=1)
    return [pair for _, pair in read_numbered("pair ", rows, partial(_pair, task))]


def _pair(task: Task, fields: Sequence[str]) -> Pair:
    """The pair of what stands in the task's columns, whether its symbols are known or not."""
    if len(fields) != len(task.columns):
        expected = ", ".join(task.columns)
        raise StacktransError(f"expected {expected}; found {len(fields)} strings")
    by_column = dict(zip(task.columns, fields, strict=True))
    target = task.target.split(by_column.pop("target"))
    source = task.source.split("\t".join(by_column.values()))
    check_length(len(source))
    check_length(len(target))
    if task.same_length and len(source) != len(target):
        raise StacktransError(
            f"the source has {len(source)} symbols and the target {len(target)}; expected as many"
        )
    try:
        pair = task.pair(task.encode_source(source), task.target.encode(target))
    except UnknownSymbol:
        ids = task.source.encode_known(source), task.target.encode_known(target)
        pair = task.pair(*ids)._replace(known=False)
    return pair._replace(written=tuple(fields))


_NO_FIELD = re.compile("[\t\n\r\ud800-\udfff]")
"""What a string in JSON can hold, but no column of a line."""


def _fields(line: str, columns: Sequence[str], as_json: bool) -> list[str]:
    """What stands in a line's columns; raises `StacktransError` if it has others."""
    if not as_json:
        fields = line.split("\t")
        if len(fields) == len(columns):
            return fields
        form = f"{', a tab, '.join(columns)};"
        count = f" {len(fields)} columns:" if len(fields) > 1 else ""
        raise StacktransError(f"expected {form} found{count} {clipped(line)!r}")
    try:
        found = parsed_json(line)
    except ValueError as error:
        raise StacktransError(
            f"expected a JSON object: {error}; found {clipped(line)!r}"
        ) from error
    held = [found.get(column) for column in columns] if isinstance(found, dict) else []
    texts = [field for field in held if isinstance(field, str)]
    if len(texts) < len(columns):
        form = f"a JSON object with texts called {' and '.join(columns)},"
        raise StacktransError(f"expected {form} found {clipped(line)!r}")
    if bad := next(filter(None, map(_NO_FIELD.search, texts)), None):
        raise StacktransError(
            f"a string with {bad[0]!r} in it; expected text without tabs and line ends"
        )
    return texts


class PairFiles(NamedTuple):
    """Which files are read, and how.

    Attributes:
        train: the file to train on; so are `dev`, to choose by, and `test`, to test on, if any.
        columns: what stands in the columns of a line, by commas; None to be found out.
        symbols: "characters" or "words", or both, of sources and of targets, by commas; None to be
            found out.
        split: the random seed by which pairs are kept apart.
        separator: what stands between features; None to be found out.
        normalize: the Unicode normalization form of all strings, or "none"; None to leave them as
            they are, with a warning if they are mixed.
        header: whether a first line that names the columns is not a pair.
        kept: symbols to be known whether the files have them or not, each after its column.
    """

    train: str | None
    dev: str | None
    test: str | None
    columns: str | None
    symbols: str | None
    split: int
    separator: str | None = None
    normalize: str | None = None
    header: bool = True
    kept: frozenset[tuple[str, str]] = frozenset()

    def paths(self) -> Iterator[tuple[int, Path]]:
        """The files that there are, by their sets."""
        named = (self.train, self.dev, self.test)
        return ((part, Path(file)) for part, file in enumerate(named) if file is not None)


@dataclass
class PairLines:
    """n lines of pairs, of all files, in their order.

    Attributes:
        columns: what stood in the columns.
        digests: SHA-256 of what is in each file, by its set.
        names: of the files.
        files: [n] which of these each line is of.
        numbers: [n] its number there, from 1.
        parts: [n] the set that it is in.
        strings: [n] what stood in each column.
        notes: what was found out about the columns, a sentence each.
    """

    columns: tuple[str, ...]
    digests: dict[str, str] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    files: Ids = field(init=False)
    numbers: Ids = field(init=False)
    parts: Ids = field(init=False)
    strings: dict[str, list[str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def place(self, index: int) -> str:
        """Where a line stands, as `file:line`."""
        return f"{self.names[self.files[index]]}:{self.numbers[index]}"

    def places(self, indices: Sequence[int] | Ids) -> str:
        """Where the first of some lines stand."""
        more = ", ..." if len(indices) > NAMED else ""
        return ", ".join(map(self.place, indices[:NAMED])) + more


def read_files(request: PairFiles) -> PairLines:
    """All lines of some files; raises `UsageError`, and `StacktransError` for a wrong line.

    The columns of all of them are those that are asked for, or those of the first. Unless columns
    are asked for, each may have them in an order of its own.
    """
    lines = PairLines(columns_of(request.columns) if request.columns else ())
    parts, numbers = [], []
    for part, path in request.paths():
        content = read_content(path)
        lines.digests[PARTS[part]] = hashlib.sha256(content).hexdigest()
        raw = RawLines.of(path, content)
        del content
        if raw.header:
            as_pair = "" if request.header else ", but is read as a pair, since columns are given"
            lines.notes.append(raw.header_note + as_pair)
        if not request.header:
            raw = raw._replace(header=None)
        own = raw.header or _detect_columns(raw, request, lines)
        lines.columns = lines.columns or own
        lines.names.append(raw.name)
        parts.append(part)
        numbers.append(_added(lines, raw.fields(lines.columns, own), request.normalize))
    sizes = [*map(len, numbers)]
    lines.numbers = np.concatenate(numbers)
    lines.files, lines.parts = np.repeat(range(len(sizes)), sizes), np.repeat(parts, sizes)
    return lines


def _detect_columns(raw: RawLines, request: PairFiles, lines: PairLines) -> tuple[str, ...]:
    """The columns of a file without a header; of JSON, those of any line.

    Where they can't be found out, they are those of the files before.
    """
    usual = lines.columns
    if raw.as_json:
        return usual or (COLUMNS if any(map(_has_features, raw.lines)) else COLUMNS[:2])
    if len(usual) == 2 or (usual and not request.header):
        return usual
    rows: list[list[str]] = []
    for number, text in islice(raw.decoded(), LOOKED_AT):
        fields = text.split("\t")
        if not rows and len(fields) not in (2, 3):
            form = "expected source, a tab, target, and perhaps a tab and features"
            of = f"{len(fields)} columns: " if len(fields) > 1 else ""
            raise StacktransError(f"{raw.name}:{number}: {form}; found {of}{clipped(text)!r}")
        if len(fields) == 2 and not rows:
            break
        if len(fields) != 3:
            found = f"found {len(fields)}: {clipped(text)!r}"
            raise StacktransError(f"{raw.name}:{number}: expected 3 columns, as before; {found}")
        rows.append(fields)
    if not rows:
        return usual or COLUMNS[:2]
    columns = detect_columns(raw.name, rows, request.separator, usual)
    place = columns.index("features") + 1
    lines.notes.append(f"{raw.name}: column {place} of 3 seems to hold features; see --columns")
    return columns


def _has_features(line: bytes) -> bool:
    if b'"features"' not in line:  # nearly always, and quickly known
        return False
    try:
        found = parsed_json(line.decode("utf-8"))
    except ValueError:  # which will be said when all of the line is read
        return False
    return isinstance(found, dict) and "features" in found


def _added(lines: PairLines, rows: Iterable[tuple[int, list[str]]], form: str | None) -> Ids:
    """The numbers of the rows of a file, whose strings are added to the others."""
    adders = [lines.strings.setdefault(column, []).append for column in lines.columns]
    numbers = []
    for number, fields in rows:
        numbers.append(number)
        for add, text in zip(adders, fields, strict=True):
            add(normalized(text, form))
    return np.array(numbers, dtype=np.int64)


def check_file(part: str, file: object) -> None:
    """Raise `ValueError` unless something is the name of a file, or None."""
    if not isinstance(file, str | None):
        raise ValueError(f"{part} is {shown(file)}; expected the name of a file")
    try:
        str(file).encode()
    except UnicodeEncodeError:
        raise ValueError(f"{part} is {shown(file)}; expected a name in UTF-8") from None
