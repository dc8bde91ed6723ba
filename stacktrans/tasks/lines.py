"""Lines of files of pairs, in TSV or JSON: how they are read as fields, and written."""

import gzip
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar

from stacktrans.common.errors import StacktransError, UsageError, check_parameter, shown
from stacktrans.common.files import write_atomically
from stacktrans.common.reading import GZIP_SUFFIX, decode_line, name_of, parse_json, read_content
from stacktrans.common.visible import counted, json_text, listed
from stacktrans.tasks.base import Task
from stacktrans.tasks.columns import columns_of_headings
from stacktrans.tasks.layout import Pair

PairFormat = Literal["tsv", "jsonl"]
Item = TypeVar("Item")
Result = TypeVar("Result")

TOKENS, STRINGS, LABELS = ".tok", "main.tok", "labels.txt"
"""The names of files of strings and of their labels, a line each (flare2025)."""


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
    unpacked = path.with_suffix("") if path.suffix == GZIP_SUFFIX else path
    return "jsonl" if unpacked.suffix in {".jsonl", ".json"} else "tsv"


def labeled_file(path: Path) -> Path:
    """The path, or that of `main.tok` in a directory, whose labels are in `labels.txt`.

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
    path, *beside = files_of(path)
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
    packed = path.suffix == GZIP_SUFFIX
    write_atomically(path, gzip.compress(content, mtime=0) if packed else content)


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
        lines: the lines without LF; a CR at the end is kept.
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

    def header_note(self, is_pair: bool) -> str:
        """The report of a header, which may be read as a pair."""
        note = f"{self.name}: the first line names the columns: {','.join(self.header or ())}"
        return f"{note}, but is read as a pair, since columns are given" if is_pair else note

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


_NO_FIELD = re.compile("[\0\t\n\r\ud800-\udfff]")
"""Characters that a string in JSON can contain, but no field of a line."""


def found_columns(line: str) -> str:
    """A line with a wrong number of columns, and that number, for a message."""
    count = line.count("\t") + 1
    if count > 1:
        return f"found {count} columns: {shown(line)}"
    hint = "; tabs separate columns, not commas" if "," in line else ""
    return f"found {shown(line)}{hint}"


def _fields(line: str, columns: Sequence[str], as_json: bool) -> list[str]:
    """The fields of a line; raises `StacktransError` if it has other columns."""
    if not as_json:
        fields = line.split("\t")
        if len(fields) == len(columns):
            return fields
        raise StacktransError(f"expected {', a tab, '.join(columns)}; {found_columns(line)}")
    try:
        value = parse_json(line)
    except ValueError as error:
        message = f"expected a JSON object: {error}; found {shown(line)}"
        raise StacktransError(message) from error
    values = [value.get(column) for column in columns] if isinstance(value, dict) else []
    texts = [field for field in values if isinstance(field, str)]
    if len(texts) < len(columns):
        form = f"a JSON object with texts called {listed(columns)},"
        raise StacktransError(f"expected {form} found {shown(line)}")
    if bad := next(filter(None, map(_NO_FIELD.search, texts)), None):
        expected = "text without tabs, line ends, null characters and unpaired surrogates"
        raise StacktransError(f"a string with {bad[0]!r} in it; expected {expected}")
    return texts


def check_file(part: str, file: object) -> None:
    """Raise `ValueError` unless a parameter is the name of a file, or None."""
    check_parameter(isinstance(file, str | None), part, file, "the name of a file")
    try:
        str(file).encode()
    except UnicodeEncodeError:
        check_parameter(False, part, file, "a name in UTF-8")
