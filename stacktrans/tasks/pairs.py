"""The task of pairs in the user's files, with its known symbols and checksums as settings."""

import hashlib
import os
import re
import unicodedata
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator

from stacktrans.common.errors import StacktransError, UsageError, check_parameter, shown
from stacktrans.common.reading import GZIP_SUFFIX, MAX_LENGTH, STDIN, is_stream, name_of
from stacktrans.tasks.alphabets import Ids
from stacktrans.tasks.base import NotASource, Task
from stacktrans.tasks.columns import Tokenizer, parse_columns, positive_label
from stacktrans.tasks.layout import OutputBound, Pair
from stacktrans.tasks.lengths import LengthDistribution, Lengths
from stacktrans.tasks.lines import STRINGS, check_file, labeled_file, read_pair_content
from stacktrans.tasks.pair_alphabets import SourceAlphabet, TargetAlphabet
from stacktrans.tasks.pair_files import DEV, SET_NAMES, SPLITS, TEST, TRAIN, PairFiles
from stacktrans.tasks.sets import PairSet, PairSets, read_sets

GENERIC_STEMS = {Path(STRINGS).stem, "train", "training"}
"""Names of files that say nothing about a task, which is then named after their folder."""
MAX_SEARCHED_BYTES = 10_000_000
"""The maximum size of the files whose training pairs are looked at, in bytes: a second to read."""


class Pairs(Task):
    """Pairs of strings in files: TSV or JSON lines, perhaps compressed; - for standard input.

    Args:
        train: the file to train on, whose symbols are the known ones.
        dev: the file to choose weights and to stop by; by default, a random tenth of the pairs.
        test: the file to test on; by default, the tenth of the pairs with the longest sources.
        columns: the columns of a line: "source,target" or "source,target,features", in any order;
            detected by default.
        symbols: the unit of strings, "characters" or "words", or those of sources and of targets:
            "characters,words"; detected by default.
        split: the random seed by which pairs are held out; by default that of the run.
        separator: the separator of features, white space around which is ignored; detected by
            default.
        normalize: the Unicode normalization form of all strings: "nfc", "nfd", "nfkc" or "none"; by
            default none, with a warning if forms are mixed.
        header: whether a first line that names the columns is not a pair; by default, true unless
            columns are given.
        labels: whether each target is one of two labels; by default, whether there are only two
            targets, of one word each.
        interchangeable: whether symbols that few pairs seem to treat equally are permuted in
            training, which makes new pairs of them.
        known: symbols and checksums of the files, which a run fills in.

    Raises:
        ValueError: a parameter is wrong; the message says which.
    """

    source: SourceAlphabet
    file_parameters: ClassVar[tuple[str, ...]] = SPLITS

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
        labels: bool | None = None,
        interchangeable: bool = True,
        known: dict[str, Any] | None = None,
    ) -> None:
        for part, file in zip(SPLITS, (train, dev, test), strict=True):
            check_file(part, file)
        if [train, dev, test].count(str(STDIN)) > 1:
            raise ValueError(f"{STDIN}: standard input can be only one of the files")
        if columns is not None:
            self.columns = parse_columns(columns)
        is_seed = split is None or (type(split) is int and split >= 0)
        check_parameter(is_seed, "split", split, "a random seed")
        check_parameter(isinstance(header, bool | None), "header", header, "true or false")
        check_parameter(isinstance(labels, bool | None), "labels", labels, "true or false")
        is_bool = isinstance(interchangeable, bool)
        check_parameter(is_bool, "interchangeable", interchangeable, "true or false")
        header = columns is None if header is None else header
        labels = labels if known is None else bool(labels)
        self.request = PairFiles(
            train, dev, test, columns, symbols, split or 0, separator, normalize, header, labels
        )
        self._split, self.interchangeable = split, interchangeable
        self.known, self.sampled = known, known is not None
        tokenizer = Tokenizer.of(symbols, "features" in self.columns, separator, normalize)
        read = _read_known(known, tokenizer)
        self.source = SourceAlphabet(read["source"], read.get("features"), self.columns, tokenizer)
        self.target = TargetAlphabet(read["target"], tokenizer)
        if known is not None and labels:
            if len(self.target) != 2:
                kept = "those of an earlier model are kept unless parameters.known is null"
                raise ValueError(f"labels: {shown([*self.target.symbols])}; expected two; {kept}")
            self.positive = positive_label(self.target.symbols)

    def settings_from_files(self, seed: int, before: Task | None = None) -> dict[str, Any]:
        if self.known is not None:
            return {}
        data = self._read(seed if self._split is None else self._split, before or self)
        parameters = {**data.request._asdict(), "known": dict(data.known)}
        del parameters["extra_symbols"]  # which `known` has
        if not parameters["labels"]:
            del parameters["labels"]
        if not self.interchangeable:
            parameters["interchangeable"] = False
        lengths = {"train": [*data.sets[TRAIN].lengths], "test": [*data.sets[TEST].lengths]}
        return {"parameters": parameters, "lengths": lengths, "length_law": "task"}

    @cached_property
    def data(self) -> PairSets:
        """The contents of the files.

        Raises:
            UsageError: a file can't be read, or has changed.
            StacktransError: a line is not a pair.
        """
        self._check_found()
        data = self._read(self.request.split, self)
        self._check_digests(data.known["digests"])
        if self.known != data.known:
            raise UsageError(
                "task.parameters.known: the files no longer have the symbols that this model was "
                "trained with; restore them, or continue with train --from"
            )
        return data

    def _check_found(self) -> None:
        """Raise `UsageError` if a file of a checkpoint is not found by its relative path."""
        for _, path in self.request.paths() if self.known else ():
            if not (path.is_absolute() or path == STDIN or os.path.exists(path)):
                where = "its path is relative to the directory in which training began"
                raise UsageError(f"{path}: not found; {where}")

    def _check_digests(self, digests: Mapping[str, str]) -> None:
        """Raise `UsageError` if the SHA-256 of a file is not the known one."""
        for part, digest in digests.items():
            if self.known and self.known["digests"].get(part) != digest:
                file = name_of(Path(getattr(self.request, part) or ""))
                name = SET_NAMES[SPLITS.index(part)]
                raise UsageError(f"{file}: the {name} pairs have changed since training began")

    def check_files(self) -> None:
        """Raise `UsageError` if a file, other than a pipe, has changed or is missing."""
        self._check_found()
        files = {SPLITS[part]: path for part, path in self.request.paths() if not is_stream(path)}
        contents = ((part, read_pair_content(path)) for part, path in files.items())
        self._check_digests({part: hashlib.sha256(each).hexdigest() for part, each in contents})

    @property
    def output_bound(self) -> OutputBound:
        return OutputBound(*(self.known or {}).get("steps", (2, 20)))

    @property
    def fixed_length(self) -> bool:
        return bool((self.known or {}).get("fixed_length"))

    def _read(self, split: int, before: Task) -> PairSets:
        if self.request.train is None:
            raise UsageError("task.parameters.train: no file given; expected a file of pairs")
        request = self.request._replace(split=split, extra_symbols=before.known_symbols())
        if before.positive is not None and request.labels is None:  # a recognizer stays one
            request = request._replace(labels=True)
        return read_sets(request)

    def pair(self, source: Ids, target: Ids) -> Pair:
        return Pair(source, target, None, int((source <= self.source.unknown).sum()))

    def sample(
        self, rng: Generator, lengths: Lengths, count: int, law: LengthDistribution
    ) -> list[Pair]:
        return self.data.sets[TRAIN].draw(rng, lengths, count, law)

    def held_out(self) -> dict[str, Sequence[Pair]]:
        return {SET_NAMES[part]: self.data.sets[part] for part in (DEV, TEST)}

    def sets_not_shared(self, other: "Pairs") -> list[str]:
        """The names of the held-out sets, pairs of which may be training pairs of another task."""
        digests, others = (dict((task.known or {})["digests"]) for task in (self, other))
        if digests != others:
            return [SET_NAMES[DEV], SET_NAMES[TEST]]
        # The pairs of a test set without a file are the longest, whatever the seed.
        drawn = SPLITS[DEV] not in digests
        return [SET_NAMES[DEV]] if drawn and self.request.split != other.request.split else []

    def training_pairs(self) -> PairSet | None:
        """The training pairs; None if a file is large, a pipe, missing or changed."""
        with suppress(OSError, StacktransError):
            paths = [path for _, path in self.request.paths()]
            sizes = [path.stat().st_size for path in paths if path.is_file()]
            if len(sizes) == len(paths) and sum(sizes) <= MAX_SEARCHED_BYTES:
                return self.data.sets[TRAIN]
        return None

    def answer(self, source: Sequence[str]) -> list[str | None]:
        raise NotASource("the answers to other sources than those in the files are not known")

    def known_answer(self, source: Sequence[str], answer: Sequence[str]) -> list[str | None]:
        if self.training_pairs() is None:
            raise NotASource("the files are missing, have changed, or are too large to search")
        ids = self.source.encode(source)
        targets = [
            tuple(pairs.targets[row].tolist())
            for pairs in self.data.sets
            for row in np.flatnonzero(pairs.sources.lengths == len(ids)).tolist()
            if np.array_equal(pairs.sources[row], ids)
        ]
        if not targets or self.source.decode(ids) != [*source]:  # all unknown symbols are equal
            raise NotASource("this source is not in the files")
        own = tuple(self.target.encode(answer).tolist())
        return [*self.target.decode([*(own if own in targets else targets[0])])]


def task_from_files(
    other: object, data: str | os.PathLike[str] | None, given: Mapping[str, Any], prefix: str = ""
) -> dict[str, Any] | None:
    """The settings of a task of files, named after the file to train on.

    Args:
        other: another task that is requested, if one is.
        data: the file to train on; None for no task of files.
        given: further parameters of `Pairs`, some of them None.
        prefix: prefix of the names of arguments in messages.

    Raises:
        UsageError: there are two tasks, parameters without a file, or a wrong parameter.
    """
    further = {
        name: os.fspath(value) if isinstance(value, os.PathLike) else value
        for name, value in given.items()
        if value is not None
    }
    if data is None:
        if further:
            name, value = next(iter(further.items()))
            raise UsageError(f"{prefix}{name} {value}: needs {prefix}data")
        return None
    if other is not None:
        raise UsageError(f"{prefix}data {os.fspath(data)}: cannot be used with task {other}")
    try:
        Pairs(**{name: value for name, value in further.items() if name not in SPLITS})
    except ValueError as error:  # which begins with the name of the parameter
        raise UsageError(f"{prefix}{error}") from error
    files = {"train": os.fspath(data), **further}
    parameters = files | {part: _file(files[part]) for part in SPLITS if part in files}
    path = Path(parameters["train"])
    stem = "" if path == STDIN else path.name.removesuffix(GZIP_SUFFIX).partition(".")[0]
    if stem in GENERIC_STEMS:
        stem = path.absolute().parent.name
    return {"name": _as_name(stem) or "pairs", "generator": "pairs", "parameters": parameters}


def _file(path: Any) -> Any:
    """The path of a file of pairs; that of the file of strings in a directory with labels."""
    found = labeled_file(Path(path))
    return os.fspath(found) if found != Path(path) else path


def _as_name(text: str) -> str:
    """A text as a name of a task, with a - instead of what is neither letter, mark nor digit."""
    characters = (character if _is_in_names(character) else "-" for character in text)
    return re.sub("-+", "-", "".join(characters))


def _is_in_names(character: str) -> bool:
    category = unicodedata.category(character)
    return category[0] in "LM" or category in ("Nd", "Pc") or character in "+-"


def _read_known(known: Any, tokenizer: Tokenizer) -> dict[str, Sequence[str]]:
    """The symbols of each column in the parameter `known`; raises `ValueError`."""
    if known is None:
        return {column: [] for column in tokenizer.columns}
    expected = [*tokenizer.columns, "steps", "fixed_length", "digests"]
    if not isinstance(known, Mapping) or known.keys() != {*expected}:
        raise ValueError(f"known: expected {', '.join(expected[:-1])} and {expected[-1]}")
    if not isinstance(known["digests"], Mapping):
        raise ValueError("known: digests: expected one for each file")
    steps = known["steps"]
    are_numbers = isinstance(steps, list) and [*map(type, steps)] == [int, int]
    if not are_numbers or min(steps) < 0 or max(steps) > MAX_LENGTH + 1:
        raise ValueError("known: steps: expected two numbers")
    if not isinstance(known["fixed_length"], bool):
        raise ValueError("known: fixed_length: expected true or false")
    symbols = {}
    for column in tokenizer.columns:
        if not isinstance(known[column], str):
            raise ValueError(f"known: {column}: expected symbols as they are written")
        symbols[column] = tokenizer.splitter(column)(known[column])
        if len({*symbols[column]}) < len(symbols[column]):
            raise ValueError(f"known: {column}: expected every symbol once")
    return symbols
