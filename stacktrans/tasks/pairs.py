"""Pairs of strings in files: a training, a development and a test set.

What the task knows of them are their symbols, and checksums of the files.
"""

import hashlib
import os
import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from stacktrans.common.errors import UsageError, shown
from stacktrans.common.reading import LONGEST, PACKED, STDIN, is_stream, name_of, read_content
from stacktrans.tasks.alphabets import Ids
from stacktrans.tasks.base import LengthLaw, Lengths, NotASource, Task
from stacktrans.tasks.columns import (
    SEPARATORS,
    UNITS,
    SourceAlphabet,
    TargetAlphabet,
    Tokenizer,
    columns_of,
)
from stacktrans.tasks.layout import OutputBound, Pair
from stacktrans.tasks.lines import DEV, PARTS, SET_NAMES, TEST, TRAIN, PairFiles, check_file
from stacktrans.tasks.sets import PairSets, load_sets, read_sets, save_sets


class Pairs(Task):
    """Pairs of strings in files: TSV or JSON lines, perhaps packed by gzip; - for standard input.

    Args:
        train: the file to train on; its symbols are those that are known.
        dev: the file to choose and to stop by; without one, a tenth of the pairs is kept apart
            at random.
        test: the file to test on; without one, the longest tenth of the pairs is kept apart.
        columns: what stands in a line: "source,target" or "source,target,features", in any order;
            found out unless given.
        symbols: what strings are made of, "characters" or "words", or both, of sources and of
            targets: "characters,words"; found out unless given.
        split: the random seed by which pairs are kept apart; that of the run unless given.
        separator: what stands between features; found out unless given. White space around them
            is ignored.
        normalize: the Unicode normalization form that all strings are brought into: "nfc", "nfd",
            "nfkc" or "none"; unless given, none, with a warning if they are mixed.
        header: whether a first line that names the columns is not a pair; unless given, it is not
            one if no columns are given.
        known: symbols and checksums that the files have, which a run fills in.

    Raises:
        ValueError: a parameter is wrong; the message says which.
    """

    source: SourceAlphabet
    file_parameters: ClassVar[tuple[str, ...]] = PARTS

    def __init__(
        self,
        train: str | None = None,
        dev: str | None = None,
        test: str | None = None,
        columns: str | None = None,
        symbols: str | None = None,
        split: int | None = None,
        separator: str | None = None,
        normalize: str | None = None,
        header: bool | None = None,
        known: dict[str, Any] | None = None,
    ) -> None:
        for part, file in zip(PARTS, (train, dev, test), strict=True):
            check_file(part, file)
        if [train, dev, test].count(str(STDIN)) > 1:
            raise ValueError(f"{STDIN}: standard input can be only one of the files")
        if columns is not None:
            self.columns = columns_of(columns)
        if split is not None and (type(split) is not int or split < 0):
            raise ValueError(f"split is {split!r}; expected a random seed")
        if not isinstance(header, bool | None):
            raise ValueError(f"header is {shown(header)}; expected true or false")
        header = columns is None if header is None else header
        reading = separator, normalize, header
        self.request = PairFiles(train, dev, test, columns, symbols, split or 0, *reading)
        self._split = split
        self.known, self.sampled = known, known is not None
        units = UNITS[0] if symbols is None else symbols
        separator = SEPARATORS[0] if separator is None else separator
        tokenizer = Tokenizer.of(units, "features" in self.columns, separator, normalize)
        found = _symbols(known, tokenizer)
        self.source = SourceAlphabet(
            found["source"], found.get("features"), self.columns, tokenizer
        )
        self.target = TargetAlphabet(found["target"], tokenizer)

    def settings_from_files(self, seed: int, before: Task | None = None) -> dict[str, Any]:
        if self.known is not None:
            return {}
        found = self._read(seed if self._split is None else self._split, before or self)
        lengths = {"train": list(found.sets[TRAIN].lengths), "test": list(found.sets[TEST].lengths)}
        parameters = {**found.request._asdict(), "known": dict(found.known)}
        del parameters["kept"]  # which are among those that are known
        return {"parameters": parameters, "lengths": lengths, "length_law": "task"}

    @cached_property
    def data(self) -> PairSets:
        """What is in the files.

        Raises:
            UsageError: a file can't be read, or is not what it was.
            StacktransError: a line is not a pair.
        """
        found = self._read(self.request.split, self)
        self._check_digests(found.known["digests"])
        if self.known != found.known:
            raise UsageError(
                "task.parameters.known: the files no longer have the symbols that this model was "
                "trained with; restore them, or go on with train --from"
            )
        return found

    def _check_digests(self, found: Mapping[str, str]) -> None:
        """Raise `UsageError` if files have other SHA-256 than those that are known."""
        for part, digest in found.items():
            if self.known and self.known["digests"].get(part) != digest:
                file = name_of(Path(getattr(self.request, part) or ""))
                raise UsageError(
                    f"{file}: not the {SET_NAMES[part]} pairs that this model began with"
                )

    def save_data(self, folder: Path) -> None:
        """Write what is in the files to a new folder, for `use_data` in other processes."""
        save_sets(self.data, folder)

    def use_data(self, folder: Path) -> None:
        """Take the pairs from a folder instead of the files."""
        self.data = load_sets(folder, self.request, self.known or {})

    def check_files(self) -> None:
        """Raise `UsageError` if a file has changed or is missing; a pipe can't be read again."""
        files = {PARTS[part]: path for part, path in self.request.paths() if not is_stream(path)}
        contents = ((part, read_content(path)) for part, path in files.items())
        self._check_digests({part: hashlib.sha256(each).hexdigest() for part, each in contents})

    @property
    def steps(self) -> OutputBound:
        return OutputBound(*(self.known or {}).get("steps", (2, 20)))

    def _read(self, split: int, before: Task) -> PairSets:
        if self.request.train is None:
            raise UsageError("task.parameters.train: no file given; expected a file of pairs")
        return read_sets(self.request._replace(split=split, kept=before.known_symbols()))

    def pair(self, source: Ids, target: Ids) -> Pair:
        return Pair(source, target, None, int((source <= self.source.unknown).sum()))

    def sample(
        self, generator: np.random.Generator, lengths: Lengths, count: int, law: LengthLaw
    ) -> list[Pair]:
        return self.data.sets[TRAIN].draw(generator, lengths, count, law)

    def held_out(self) -> dict[str, Sequence[Pair]]:
        return {SET_NAMES[PARTS[part]]: self.data.sets[part] for part in (DEV, TEST)}

    def answer(self, source: Sequence[str]) -> list[str | None]:
        raise NotASource("the answers to other sources than those in the files are not known")


def task_from_files(
    other: object, data: str | os.PathLike[str] | None, given: Mapping[str, Any], prefix: str = ""
) -> dict[str, Any] | None:
    """The settings of a task whose pairs are in files, called like the one to train on.

    Args:
        other: a task that was named, if one was.
        data: the file to train on; None where there is none.
        given: further parameters of `Pairs`; None for those not given.
        prefix: of the names of arguments in messages.

    Raises:
        UsageError: there are both, or parameters without a file.
    """
    further = {
        name: os.fspath(value) if isinstance(value, os.PathLike) else value
        for name, value in given.items()
        if value is not None
    }
    if data is None:
        for name, value in further.items():
            raise UsageError(f"{prefix}{name} {value}: needs {prefix}data")
        return None
    if other is not None:
        raise UsageError(f"{prefix}data {os.fspath(data)}: cannot be used with task {other}")
    path = Path(data)
    stem = "" if path == STDIN else path.name.removesuffix(PACKED).partition(".")[0]
    parameters = {"train": os.fspath(data), **further}
    return {"name": _as_name(stem) or "pairs", "generator": "pairs", "parameters": parameters}


def _as_name(text: str) -> str:
    """A text as a name of a task: letters, marks, digits, and a - for other characters."""
    return re.sub("-+", "-", "".join(each if _is_in_names(each) else "-" for each in text))


def _is_in_names(character: str) -> bool:
    category = unicodedata.category(character)
    return category[0] in "LM" or category in ("Nd", "Pc") or character in "+-"


def _symbols(known: Any, tokenizer: Tokenizer) -> dict[str, Sequence[str]]:
    """The symbols that are known, by columns; none before; raises `ValueError`."""
    if known is None:
        return {column: [] for column in tokenizer.columns}
    further = {"steps", "digests"}
    if not isinstance(known, Mapping) or known.keys() != {*tokenizer.columns, *further}:
        raise ValueError(f"known: expected {', '.join(tokenizer.columns)}, steps and digests")
    if not isinstance(known["digests"], Mapping):
        raise ValueError("known: digests: expected one for each file")
    steps = known["steps"]
    whole = isinstance(steps, list) and [*map(type, steps)] == [int, int]
    if not whole or min(steps) < 0 or max(steps) > LONGEST + 1:
        raise ValueError("known: steps: expected two numbers")
    found = {}
    for column in tokenizer.columns:
        if not isinstance(known[column], str):
            raise ValueError(f"known: {column}: expected symbols as they are written")
        found[column] = tokenizer.splitter(column)(known[column])
        if len({*found[column]}) < len(found[column]):
            raise ValueError(f"known: {column}: expected every symbol once")
    return found
