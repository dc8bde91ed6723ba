"""Files of pairs, read whole, and kept apart into what is trained on, chosen by and tested on."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from stacktrans.common.errors import StacktransError, clipped, shown
from stacktrans.common.incoming import LONGEST, decode_line
from stacktrans.common.reading import parsed_json
from stacktrans.tasks.contents import read_content
from stacktrans.tasks.flat import Numbers
from stacktrans.tasks.lines import RawLines

COLUMNS = ("source", "target", "features")
PARTS = ("train", "dev", "test")
CALLED = {"train": "training", "dev": "development", "test": "test"}
"""The sets, as people call them."""
TRAIN, DEV, TEST = range(3)
NAMED = 3
"""How many of some lines are named."""


class Request(NamedTuple):
    """Which files are read, and how.

    Attributes:
        train: the file to train on; so are `dev`, to choose by, and `test`, to test on, if any.
        columns: what stands in the columns of a line, by commas; None to be found out.
        symbols: "characters" or "words", or both, of sources and of targets, by commas; likewise.
        split: the random seed by which pairs are kept apart.
    """

    train: str
    dev: str | None
    test: str | None
    columns: str | None
    symbols: str | None
    split: int

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
    """

    columns: tuple[str, ...]
    digests: dict[str, str] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    files: Numbers = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    numbers: Numbers = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    parts: Numbers = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    strings: dict[str, list[str]] = field(default_factory=dict)

    def place(self, index: int) -> str:
        """Where a line stands, as `file:line`."""
        return f"{self.names[self.files[index]]}:{self.numbers[index]}"

    def places(self, indices: Sequence[int] | Numbers) -> str:
        """Where the first of some lines stand."""
        more = ", ..." if len(indices) > NAMED else ""
        return ", ".join(map(self.place, indices[:NAMED])) + more

    @property
    def sources(self) -> tuple[str, ...]:
        """The columns of what is read."""
        return tuple(column for column in self.columns if column != "target")


def read_files(request: Request) -> Lines:
    """All lines of some files; raises `UsageError`, and `StacktransError` for a wrong line."""
    columns = columns_of(request.columns) if request.columns else None
    lines = Lines(columns or ())
    for part, path in request.paths():
        content = read_content(path)
        lines.digests[PARTS[part]] = hashlib.sha256(content).hexdigest()
        raw = RawLines.of(path, content)
        del content
        if not lines.columns:
            lines.columns = _found_columns(raw)
        _add(lines, raw, part)
    return lines


def columns_of(text: object) -> tuple[str, ...]:
    """The columns in a text with commas; raises `ValueError` for others than there can be."""
    columns = tuple(text.split(",")) if isinstance(text, str) else ()
    if not {"source", "target"} <= {*columns} <= {*COLUMNS} or len({*columns}) < len(columns):
        expected = "expected source,target or source,target,features"
        raise ValueError(f"columns is {shown(text)}; {expected}")
    return columns


def _found_columns(raw: RawLines) -> tuple[str, ...]:
    """The columns of the first line with anything on it; of JSON, those of any line."""
    if raw.as_json:
        return COLUMNS if any(map(_has_features, raw.lines)) else COLUMNS[:2]
    for number, line in raw.numbered():
        try:
            text = decode_line(line)
        except StacktransError as error:
            raise StacktransError(f"{raw.name}:{number}: {error}") from error
        count = text.count("\t") + 1
        if count not in (2, 3):
            form = "expected source, a tab, target, and perhaps a tab and features"
            of = f"{count} columns: " if count > 1 else ""
            raise StacktransError(f"{raw.name}:{number}: {form}; found {of}{clipped(text)!r}")
        return COLUMNS[:count]
    return COLUMNS[:2]


def _has_features(line: bytes) -> bool:
    if b'"features"' not in line:  # nearly always, and quickly known
        return False
    try:
        found = parsed_json(line.decode("utf-8"))
    except ValueError:  # which will be said when all of the line is read
        return False
    return isinstance(found, dict) and "features" in found


def _add(lines: Lines, raw: RawLines, part: int) -> None:
    added = {column: lines.strings.setdefault(column, []) for column in lines.columns}
    adders = [strings.append for strings in added.values()]
    numbers = []
    for number, fields in raw.fields(lines.columns):
        numbers.append(number)
        for add, text in zip(adders, fields, strict=True):
            add(text)
    for name, value in (("numbers", numbers), ("parts", part), ("files", len(lines.names))):
        new = np.broadcast_to(np.array(value, dtype=np.int64), len(numbers))
        setattr(lines, name, np.concatenate([getattr(lines, name), new]))
    lines.names.append(raw.name)


def check_sizes(lines: Lines, column: str, sizes: Numbers) -> None:
    """Raise `StacktransError` for a source without symbols, or a string with too many."""
    least = 1 if column == "source" else 0
    if len(wrong := np.flatnonzero((sizes < least) | (sizes > LONGEST))):
        place, size = lines.place(wrong[0]), sizes[wrong[0]]
        expected = f"at least {least}" if size < least else f"at most {LONGEST}"
        raise StacktransError(f"{place}: a {column} of {size} symbols; expected {expected}")


def check_file(part: str, file: object) -> None:
    """Raise `ValueError` unless something is the name of a file, or None."""
    if not isinstance(file, str | None):
        raise ValueError(f"{part} is {shown(file)}; expected the name of a file")
    try:
        str(file).encode()
    except UnicodeEncodeError:
        raise ValueError(f"{part} is {shown(file)}; expected a name in UTF-8") from None
