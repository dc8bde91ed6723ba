"""Reading and writing files of pairs as TSV or JSON lines, one file or those of all sets."""

import gzip
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar

import numpy as np

from stacktrans.common.errors import StacktransError, UsageError, check_parameter, shown
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
from stacktrans.common.visible import counted, json_text
from stacktrans.tasks.alphabets import Ids, UnknownSymbol
from stacktrans.tasks.base import Task
from stacktrans.tasks.columns import (
    COLUMNS,
    MAX_INSPECTED,
    columns_of_headings,
    detect_columns,
    normalized,
    parse_columns,
)
from stacktrans.tasks.layout import Pair

PairFormat = Literal["tsv", "jsonl"]
Item = TypeVar("Item")
Result = TypeVar("Result")

SPLITS = ("train", "dev", "test")
TRAIN, DEV, TEST = range(3)
"""The index of each set."""
SET_NAMES = ("training", "development", "test")
"""The name of each set in messages."""
MAX_LISTED = 3
"""The maximum number of lines that a message lists."""

TOKENS, STRINGS, LABELS = ".tok", "main.tok", "labels.txt"
"""The names of files of strings and of their labels, a line each (flare2025)."""
READING = ("columns", "symbols", "separator", "normalize", "header")
"""The fields of `PairFiles` that say how files are read."""


def format_pair(task: Task, pair: Pair, form: PairFormat) -> str:
    """A pair as a line, without a line end."""
    fields = written_fields(task, pair)
    return "\t".join(fields.values()) if form == "tsv" else json_text(fields)


def written_fields(task: Task, pair: Pair) -> dict[str, str]:
    """The fields of a pair by the task's columns, in their order; unchanged for one of a file."""
    if pair.written is not None:
        return dict(zip(task.columns, pair.written, strict=True))
    source = task.source.join(task.source.decode(pair.source))
    target = task.target.join(task.target.decode(pair.target))
    inputs = [column for column in task.columns if column != "target"]
    fields = dict(zip(inputs, source.split("\t", len(inputs) - 1), strict=True), target=target)
    return {column: fields[column] for column in task.columns}


def pair_format_of(path: Path) -> PairFormat:
    """The format of pairs that a file's name stands for."""
    unpacked = path.with_suffix("") if path.suffix == PACKED else path
    return "jsonl" if unpacked.suffix in {".jsonl", ".json"} else "tsv"


def labelled_file(path: Path) -> Path:
    """The file of strings in a directory, beside which their labels are; otherwise the path.

    Raises:
        UsageError: the directory has no such file.
    """
    if not path.is_dir():
        return path
    if not (path / STRINGS).exists():
        raise UsageError(f"{path}: a directory without {STRINGS}; expected a file of pairs")
    return path / STRINGS


def files_of(path: Path) -> list[Path]:
    """The files that a file of pairs consists of: itself, and that of the labels of strings."""
    return [path, *([path.with_name(LABELS)] if path.suffix == TOKENS else [])]


def read_pair_content(path: Path) -> bytes:
    """The content of a file of pairs, as TSV for strings in a .tok file with labels beside it.

    Raises:
        UsageError: a file can't be read, or there are not as many labels as strings.
    """
    path, *beside = files_of(labelled_file(path))
    if not beside:
        return read_content(path)
    strings, labels = (read_content(file).splitlines() for file in (path, *beside))
    if len(strings) != len(labels):
        found = f"{counted(len(labels), 'label')} for {counted(len(strings), 'string')}"
        raise UsageError(f"{beside[0]}: {found} in {path}")
    return b"".join(b"%b\t%b\n" % line for line in zip(strings, labels, strict=True))


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write a file atomically, compressed if its name ends with .gz; raises `OSError`."""
    content = "".join(f"{line}\n" for line in lines).encode()
    # Without the time of writing, equal lines make equal files.
    write_atomically(path, gzip.compress(content, mtime=0) if path.suffix == PACKED else content)


def read_pairs(path: Path, task: Task) -> list[Pair]:
    """Read pairs in the formats of `format_pair`, from a file or standard input; see `RawLines`.

    A header line that names the columns is not a pair, and is reported on stderr, as are columns
    that seem to be in another order than those of the task.

    Raises:
        UsageError: the file can't be read.
        StacktransError: a line is not a pair.
    """
    lines = RawLines.of(path, read_pair_content(path))
    request = getattr(task, "request", PairFiles(str(path)))
    there = lines.header or _detect_columns(lines, request, task.columns)
    if lines.header:
        print_message(lines.header_note)
    elif there != task.columns:
        print_message(lines.order_note(there))
    rows = lines.fields(task.columns, there)
    return [pair for _, pair in read_numbered(f"{lines.name}:", rows, partial(_pair, task))]


def read_numbered(
    prefix: str, numbered: Iterable[tuple[int, Item]], read: Callable[[Item], Result]
) -> Iterator[tuple[int, Result]]:
    """Read numbered lines, or other numbered items.

    Raises:
        StacktransError: an error of `read`, with the prefix and the number before its message.
    """
    for number, item in numbered:
        try:
            yield number, read(item)
        except StacktransError as error:
            raise StacktransError(f"{prefix}{number}: {error}") from error


class RawLines(NamedTuple):
    """The lines of a file of pairs.

    They are JSON lines if the file's name ends with .jsonl or .json, or if the first line that is
    not blank begins with { or [ and has no tab. Otherwise they are TSV, whose lines all have tabs.

    Attributes:
        name: the file, in messages.
        lines: the lines without their ends.
        as_json: whether they are JSON lines.
        header: the columns in the first line that is not blank; None if that is a pair.
    """

    name: str
    lines: list[bytes]
    as_json: bool
    header: tuple[str, ...] | None

    @classmethod
    def of(cls, path: Path, content: bytes) -> "RawLines":
        """Split the content of a file; raises `StacktransError` for a JSON array."""
        name, lines = name_of(path), content.split(b"\n")
        number, first = next(_numbered(lines), (1, b""))
        first = first.lstrip(b" ")
        is_json = first.startswith((b"{", b"[")) and b"\t" not in first
        if not is_json and pair_format_of(path) == "tsv":
            header = columns_of_headings(first.decode("utf-8", "replace").split("\t"))
            return cls(name, lines, False, header)
        if first.startswith(b"["):
            expected = "expected a JSON object on each line"
            raise StacktransError(f"{name}:{number}: {expected}; found a JSON array")
        return cls(name, lines, True, None)

    @property
    def header_note(self) -> str:
        """The report of a header."""
        return f"{self.name}: the first line names the columns: {','.join(self.header or ())}"

    def order_note(self, columns: Sequence[str]) -> str:
        """The report of columns that are detected in another order than that of a task."""
        seem = f"the columns seem to be {','.join(columns)}"
        return f"{self.name}: {seem}; a first line with their names decides"

    def fields(
        self, columns: Sequence[str], there: Sequence[str]
    ) -> Iterator[tuple[int, list[str]]]:
        """The number, from 1, and the fields of each line that is not blank, without the header.

        Args:
            columns: the columns of the fields that are given.
            there: the columns of the file.

        Raises:
            StacktransError: a line does not have these columns, or all lines are blank.
        """
        if not {*columns} <= {*there}:
            expected = f"expected {', '.join(columns)}"
            raise StacktransError(f"{self.name}: has columns {', '.join(there)}; {expected}")
        order = [there.index(column) for column in columns]
        number, lines = 0, islice(self.decoded(), bool(self.header), None)
        read = partial(_fields, columns=there, as_json=self.as_json)
        for number, fields in read_numbered(f"{self.name}:", lines, read):
            yield number, [fields[index] for index in order]
        if not number:
            raise StacktransError(f"{self.name}: contains no pairs")

    def decoded(self) -> Iterator[tuple[int, str]]:
        """The numbers and texts of lines that are not blank; raises `StacktransError`."""
        return read_numbered(f"{self.name}:", _numbered(self.lines), decode_line)


def _numbered(lines: Sequence[bytes]) -> Iterator[tuple[int, bytes]]:
    """The lines that are not blank, with their numbers from 1; a tab separates empty fields."""
    numbered = enumerate(lines, start=1)
    return ((number, line) for number, line in numbered if line.strip(b" \r"))


def pairs_of_strings(pairs: Iterable[Sequence[str] | Mapping[str, str]], task: Task) -> list[Pair]:
    """Read pairs of written strings, perhaps by the names of columns.

    Raises:
        StacktransError: one is not a pair of the task.
    """
    rows = enumerate(pairs, start=1)
    return [pair for _, pair in read_numbered("pair ", rows, partial(_pair, task))]


def _pair(task: Task, fields: Sequence[str] | Mapping[str, str]) -> Pair:
    """The pair of fields of the task's columns, whose symbols may be unknown."""
    if len(fields) != len(task.columns):
        expected = ", ".join(task.columns)
        raise StacktransError(f"expected {expected}; found {counted(len(fields), 'string')}")
    if isinstance(fields, Mapping):
        fields = [fields[column] for column in task.columns]
    by_column = dict(zip(task.columns, fields, strict=True))
    target = task.target.split(by_column.pop("target"))
    source = task.source.split("\t".join(by_column.values()))
    check_length(len(source))
    check_length(len(target))
    if task.same_length and len(source) != len(target):
        raise StacktransError(
            f"the source has {counted(len(source), 'symbol')} and the target {len(target)}; "
            "expected as many"
        )
    try:
        pair = task.pair(task.encode_source(source), task.target.encode(target))
    except UnknownSymbol:
        ids = task.source.encode_leniently(source), task.target.encode_leniently(target)
        pair = task.pair(*ids)._replace(in_vocabulary=False)
    return pair._replace(written=tuple(fields))


_NO_FIELD = re.compile("[\t\n\r\ud800-\udfff]")
"""Characters that a string in JSON can contain, but no field of a line."""


def _fields(line: str, columns: Sequence[str], as_json: bool) -> list[str]:
    """The fields of a line; raises `StacktransError` if it has other columns."""
    if not as_json:
        fields = line.split("\t")
        if len(fields) == len(columns):
            return fields
        form = f"{', a tab, '.join(columns)};"
        count = f" {len(fields)} columns:" if len(fields) > 1 else ""
        raise StacktransError(f"expected {form} found{count} {shown(line)}")
    try:
        value = parsed_json(line)
    except ValueError as error:
        message = f"expected a JSON object: {error}; found {shown(line)}"
        raise StacktransError(message) from error
    values = [value.get(column) for column in columns] if isinstance(value, dict) else []
    texts = [field for field in values if isinstance(field, str)]
    if len(texts) < len(columns):
        form = f"a JSON object with texts called {' and '.join(columns)},"
        raise StacktransError(f"expected {form} found {shown(line)}")
    if bad := next(filter(None, map(_NO_FIELD.search, texts)), None):
        raise StacktransError(
            f"a string with {bad[0]!r} in it; expected text without tabs and line ends"
        )
    return texts


class PairFiles(NamedTuple):
    """Paths of the sets of pairs, and how the files are read.

    Attributes:
        train: the training set.
        dev: the development set; None to hold out a part of the training set.
        test: the test set; None to hold out a part of the training set.
        columns: the columns of a line, with commas; None to detect them.
        symbols: "characters" or "words", or the units of sources and of targets with a comma; None
            to detect them.
        split: the random seed by which pairs are held out.
        separator: the separator of features; None to detect it.
        normalize: the Unicode normalization form of all strings, or "none"; None to leave them
            unchanged, with a warning if forms are mixed.
        header: whether a first line that names the columns is not a pair.
        labels: whether each target is one of two labels; None to detect it.
        extra_symbols: symbols of the alphabets besides those of the files, as pairs of column and
            symbol.
    """

    train: str | None
    dev: str | None = None
    test: str | None = None
    columns: str | None = None
    symbols: str | None = None
    split: int = 0
    separator: str | None = None
    normalize: str | None = None
    header: bool = True
    labels: bool | None = None
    extra_symbols: frozenset[tuple[str, str]] = frozenset()

    def paths(self) -> Iterator[tuple[int, Path]]:
        """The index of each set that has a file, and the file's path."""
        files = (self.train, self.dev, self.test)
        return (
            (part, labelled_file(Path(file))) for part, file in enumerate(files) if file is not None
        )


@dataclass
class PairLines:
    """The n lines of all files of pairs, in their order.

    Attributes:
        columns: the columns of all files.
        found: how the columns of the first file were found, for a note; empty if they are usual.
        digests: SHA-256 of each file, by the key of its set.
        names: the name of each file, by the index of its set.
        files: [n] the index of the set whose file a line is from.
        numbers: [n] the number of a line in its file, from 1.
        parts: [n] the index of the set that a line belongs to.
        strings: for each column, [n] fields.
        notes: sentences on what was detected.
    """

    columns: tuple[str, ...]
    found: str = ""
    digests: dict[str, str] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    files: Ids = field(init=False)
    numbers: Ids = field(init=False)
    parts: Ids = field(init=False)
    strings: dict[str, list[str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def origins(self) -> Ids:
        """[n, 2] of each line the index of the set whose file it is from, and its number there."""
        return np.column_stack([self.files, self.numbers])

    def location(self, index: int) -> str:
        """The origin of a line, as `file:line`."""
        return f"{self.names[self.files[index]]}:{self.numbers[index]}"

    def locations(self, indices: Sequence[int] | Ids) -> str:
        """The origins of the first of some lines."""
        more = ", ..." if len(indices) > MAX_LISTED else ""
        return ", ".join(map(self.location, indices[:MAX_LISTED])) + more


def read_files(request: PairFiles) -> PairLines:
    """All lines of files of pairs; raises `UsageError`, and `StacktransError` for a wrong line.

    The columns are the requested ones, or else those of the first file; then the other files may
    have them in another order.
    """
    lines = PairLines(parse_columns(request.columns) if request.columns else ())
    numbers = []
    for part, path in request.paths():
        content = read_pair_content(path)
        lines.digests[SPLITS[part]] = hashlib.sha256(content).hexdigest()
        raw = RawLines.of(path, content)
        del content
        own = lines.columns or raw.header
        if raw.header and request.header and part == TRAIN and raw.header == own:
            lines.found = ", as the first line says"
        elif raw.header:
            as_pair = "" if request.header else ", but is read as a pair, since columns are given"
            lines.notes.append(raw.header_note + as_pair)
        if not request.header:
            raw = raw._replace(header=None)
        there = raw.header or _detect_columns(raw, request, lines.columns)
        if not (raw.header or raw.as_json or lines.columns) and len(there) == 3:
            lines.found = ", as it seems (see --columns)"
        elif not raw.header and lines.columns and there != lines.columns:
            lines.notes.append(raw.order_note(there))
        lines.columns = lines.columns or there
        lines.names[part] = raw.name
        numbers.append(_append_fields(lines, raw.fields(lines.columns, there), request.normalize))
    lines.numbers = np.concatenate(numbers)
    lines.files = np.repeat([*lines.names], [*map(len, numbers)])
    lines.parts = lines.files.copy()
    return lines


def _detect_columns(raw: RawLines, request: PairFiles, default: tuple[str, ...]) -> tuple[str, ...]:
    """The columns of a file without a header; by default those of the task, if it has some."""
    if default and (raw.as_json or len(default) == 2 or not request.header):
        return default
    if raw.as_json:
        return COLUMNS if any(map(_has_features, raw.lines)) else COLUMNS[:2]
    rows: list[list[str]] = []
    for number, text in islice(raw.decoded(), MAX_INSPECTED):
        fields = text.split("\t")
        if not rows and len(fields) not in (2, 3):
            form = "expected source, a tab, target, and perhaps a tab and features"
            count = f"{len(fields)} columns: " if len(fields) > 1 else ""
            raise StacktransError(f"{raw.name}:{number}: {form}; found {count}{shown(text)}")
        if len(fields) == 2 and not rows:
            break
        if len(fields) != 3:
            found = f"found {len(fields)}: {shown(text)}"
            raise StacktransError(f"{raw.name}:{number}: expected 3 columns, as before; {found}")
        rows.append(fields)
    if not rows:
        return default or COLUMNS[:2]
    return detect_columns(raw.name, rows, request.separator, default)


def _has_features(line: bytes) -> bool:
    """Whether a JSON line is an object with a field "features"."""
    if b'"features"' not in line:  # nearly always, and much faster than parsing
        return False
    try:
        value = parsed_json(line.decode("utf-8"))
    except ValueError:  # which is reported when all fields are read
        return False
    return isinstance(value, dict) and "features" in value


def _append_fields(
    lines: PairLines, rows: Iterable[tuple[int, list[str]]], form: str | None
) -> Ids:
    """Append the normalized fields of a file to the others; returns the numbers of its lines."""
    appenders = [lines.strings.setdefault(column, []).append for column in lines.columns]
    numbers = []
    for number, fields in rows:
        numbers.append(number)
        for append, text in zip(appenders, fields, strict=True):
            append(normalized(text, form))
    return np.array(numbers, dtype=np.int64)


def check_file(part: str, file: object) -> None:
    """Raise `ValueError` unless a parameter is the name of a file, or None."""
    check_parameter(isinstance(file, str | None), part, file, "the name of a file")
    try:
        str(file).encode()
    except UnicodeEncodeError:
        check_parameter(False, part, file, "a name in UTF-8")
