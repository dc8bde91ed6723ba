"""Files of pairs, read whole: what stands in the columns of their lines."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from stacktrans.common.errors import StacktransError, clipped, shown
from stacktrans.common.reading import parsed_json, read_content
from stacktrans.tasks.alphabets import Ids
from stacktrans.tasks.columns import COLUMNS, LOOKED_AT, columns_of, found_columns, normalized
from stacktrans.tasks.lines import RawLines

PARTS = ("train", "dev", "test")
CALLED = {"train": "training", "dev": "development", "test": "test"}
"""The sets, as people call them."""
TRAIN, DEV, TEST = range(3)
NAMED = 3
"""How many of some lines are named."""

READING = ("columns", "symbols", "separator", "normalize", "header")
"""How files are read, of what is in a request."""


class Request(NamedTuple):
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
class Lines:
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


def read_files(request: Request) -> Lines:
    """All lines of some files; raises `UsageError`, and `StacktransError` for a wrong line.

    The columns of all of them are those that are asked for, or those of the first. Unless columns
    are asked for, each may have them in an order of its own.
    """
    lines = Lines(columns_of(request.columns) if request.columns else ())
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
        own = raw.header or _found_columns(raw, request, lines)
        lines.columns = lines.columns or own
        lines.names.append(raw.name)
        parts.append(part)
        numbers.append(_added(lines, raw.fields(lines.columns, own), request.normalize))
    sizes = [*map(len, numbers)]
    lines.numbers = np.concatenate(numbers)
    lines.files, lines.parts = np.repeat(range(len(sizes)), sizes), np.repeat(parts, sizes)
    return lines


def _found_columns(raw: RawLines, request: Request, lines: Lines) -> tuple[str, ...]:
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
    columns = found_columns(raw.name, rows, request.separator, usual)
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


def _added(lines: Lines, rows: Iterable[tuple[int, list[str]]], form: str | None) -> Ids:
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
