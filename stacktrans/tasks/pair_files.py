"""Files of pairs for training, development and test: how they are read, and all their lines."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from stacktrans.common.errors import StacktransError, shown
from stacktrans.common.reading import parse_json
from stacktrans.tasks.alphabets import Ids
from stacktrans.tasks.columns import (
    COLUMNS,
    MAX_INSPECTED,
    detect_columns,
    normalized,
    parse_columns,
)
from stacktrans.tasks.lines import (
    RawLines,
    files_of,
    found_columns,
    labeled_file,
    read_pair_content,
)

SPLITS = ("train", "dev", "test")
TRAIN, DEV, TEST = range(3)
"""The index of each set."""
SET_NAMES = ("training", "development", "test")
"""The name of each set in messages."""
MAX_LISTED = 3
"""The maximum number of lines that a message lists."""
READING = ("columns", "symbols", "separator", "normalize", "header")
"""The fields of `PairFiles` that say how files are read."""


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
            (part, labeled_file(Path(file))) for part, file in enumerate(files) if file is not None
        )

    def files(self) -> Iterator[Path]:
        """All files that are read."""
        return (file for _, path in self.paths() for file in files_of(path))


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

    def location(self, index: int) -> str:
        """The origin of a line, as `file:line`."""
        return f"{self.names[self.files[index]]}:{self.numbers[index]}"

    def locations(self, indices: Sequence[int] | Ids) -> str:
        """The origins of the first of some lines."""
        more = ", ..." if len(indices) > MAX_LISTED else ""
        return ", ".join(self.short_locations(indices[:MAX_LISTED])) + more

    def short_locations(self, indices: Sequence[int] | Ids) -> list[str]:
        """The origins of lines, without the file where it is that of the line before."""
        files = [None, *self.files[indices].tolist()]
        return [
            str(self.numbers[index]) if file == before else self.location(index)
            for index, (before, file) in zip(indices, pairwise(files), strict=True)
        ]


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
            lines.notes.append(raw.header_note(is_pair=not request.header))
        if not request.header:
            raw = raw._replace(header=None)
        there = raw.header or columns_of(raw, request, lines.columns)
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


def columns_of(raw: RawLines, request: PairFiles, default: tuple[str, ...]) -> tuple[str, ...]:
    """The columns of a file without a header; by default those of the task, if it has some."""
    if default and (raw.as_json or len(default) == 2 or not request.header):
        return default
    if raw.as_json:
        return COLUMNS if any(map(_has_features, raw.lines)) else COLUMNS[:2]
    rows = _rows_of_three(raw)
    if not rows:
        return default or COLUMNS[:2]
    return detect_columns(raw.name, rows, request.separator, default)


def _rows_of_three(raw: RawLines) -> list[list[str]]:
    """The fields of the first lines if they have three columns; none if they have two.

    Raises `StacktransError` for any other number.
    """
    rows: list[list[str]] = []
    for number, text in islice(raw.decoded(), MAX_INSPECTED):
        fields = text.split("\t")
        if not rows and len(fields) not in (2, 3):
            form = "expected source, a tab, target, and perhaps a tab and features"
            raise StacktransError(f"{raw.name}:{number}: {form}; {found_columns(text)}")
        if len(fields) == 2 and not rows:
            break
        if len(fields) != 3:
            found = f"found {len(fields)}: {shown(text)}"
            raise StacktransError(f"{raw.name}:{number}: expected 3 columns, as before; {found}")
        rows.append(fields)
    return rows


def _has_features(line: bytes) -> bool:
    """Whether a JSON line is an object with a field "features"."""
    if b'"features"' not in line:  # nearly always, and much faster than parsing
        return False
    try:
        value = parse_json(line.decode("utf-8"))
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
