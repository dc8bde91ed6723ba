"""Data sets from files of pairs: reading, drawing pairs, memory mapping."""

import itertools
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.random import Generator

from stacktrans.common.errors import CheckpointError, StacktransError, shown
from stacktrans.common.ragged import Ragged, concatenate_pairwise
from stacktrans.common.reading import file_version, name_of, split_words
from stacktrans.tasks.alphabets import MAX_SYMBOLS, UNKNOWN_SYMBOL, Ids
from stacktrans.tasks.columns import (
    MIN_VALUE_RATIO,
    UNITS,
    Tokenizer,
    detect_separator,
    detect_unit,
)
from stacktrans.tasks.held_out import hold_out
from stacktrans.tasks.layout import OutputBound, Pair, is_fixed
from stacktrans.tasks.lengths import LengthDistribution, Lengths, NoSuchLaw, NoSuchLength
from stacktrans.tasks.pair_alphabets import Feature, SourceAlphabet, TargetAlphabet
from stacktrans.tasks.pair_checks import (
    check_sizes,
    empty_target_warnings,
    header_warnings,
    missing_label_warnings,
    normalization_warnings,
    pair_warnings,
    space_warnings,
    unknown_target_warnings,
)
from stacktrans.tasks.pair_files import DEV, SPLITS, TEST, TRAIN, PairFiles, PairLines, read_files
from stacktrans.tasks.symbol_columns import SymbolColumn, hashes_of

UNIT_COLUMNS = ("source", "target")
"""The columns that have units."""
REPLACED = 0.25
"""The a in a / (a + n), the probability that a symbol with n occurrences in the training set is
replaced by the unknown symbol (Kiperwasser and Goldberg 2016, section 4.2)."""
AT_ONCE = 1000
"""Pairs that are decoded together when all are iterated over."""
Probabilities = npt.NDArray[np.float64]


@dataclass(eq=False, repr=False)
class PairSet(Sequence[Pair]):
    """A sequence of n pairs whose strings are stored in a few arrays.

    Attributes:
        sources: ids of each source, features included.
        sizes: [n] the length of each source without features.
        targets: ids of each target.
        origins: [n, 2] the index of the set whose file a line is from, and its number there.
        columns: the columns of their lines; empty if the fields are not needed.
    """

    sources: Ragged
    sizes: Ids
    targets: Ragged
    origins: Ids
    columns: Sequence[SymbolColumn] = ()

    def __post_init__(self) -> None:
        self._order = np.argsort(self.sizes, kind="stable")
        self._ordered = self.sizes[self._order]

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, index: Any) -> Any:
        """A pair; for a slice, a list of pairs."""
        if isinstance(index, slice):
            return self.take(np.arange(*index.indices(len(self))))
        return self.take(np.array([range(len(self))[index]]))[0]

    def __iter__(self) -> Iterator[Pair]:
        for first in range(0, len(self), AT_ONCE):
            yield from self[first : first + AT_ONCE]

    def take(self, indices: Ids) -> list[Pair]:
        """The pairs at some indices."""
        rows = (each.take(indices) for each in (self.sources, self.targets))
        sources, targets = (Ragged(each.values.astype(np.int64), each.starts) for each in rows)
        sizes = self.sizes[indices].tolist()
        written = (
            tuple(column[row] for column in self.columns) or None for row in indices.tolist()
        )
        return [*map(Pair, sources, targets, itertools.repeat(None), sizes, written)]

    @property
    def lengths(self) -> Lengths:
        """The range of source lengths."""
        return Lengths(int(self._ordered[0]), int(self._ordered[-1]))

    @property
    def target_lengths(self) -> dict[str, Any]:
        """A bound on the length of targets with their end, and whether all are equally long."""
        lengths = np.stack([self.sources.lengths, self.targets.lengths], axis=1)
        different = np.unique(lengths, axis=0)
        bound = OutputBound.for_pairs(different)
        return {"steps": [*bound], "fixed_length": is_fixed(different)}

    def of_lengths(self, lengths: Lengths) -> Ids:
        """Indices of the pairs whose source lengths lie in a range, in the order of length."""
        begin = np.searchsorted(self._ordered, lengths.shortest, "left")
        return self._order[begin : np.searchsorted(self._ordered, lengths.longest, "right")]

    def draw(
        self, rng: Generator, lengths: Lengths, count: int, law: LengthDistribution
    ) -> list[Pair]:
        """Draw pairs of a range of lengths, with replacement.

        Args:
            rng: the random generator.
            lengths: the range.
            count: number of pairs.
            law: "task" for uniform pairs, or "uniform" for uniform lengths among the existing ones.

        Raises:
            NoSuchLength: no source has a length in the range.
            NoSuchLaw: another distribution is requested.
        """
        possible = self.of_lengths(lengths)
        if not len(possible):
            raise NoSuchLength(f"no source of the files has a length of {lengths}")
        if law == "task":
            indices = rng.integers(len(possible), size=count)
        elif law == "uniform":
            sizes = self.sizes[possible]
            drawn = rng.choice(np.unique(sizes), size=count)
            begin, end = (np.searchsorted(sizes, drawn, side) for side in ("left", "right"))
            indices = rng.integers(begin, end)
        else:
            raise NoSuchLaw("length_law: expected uniform or task for pairs in files")
        return self.take(possible[indices])


@dataclass(frozen=True)
class PairSets:
    """The contents of files of pairs.

    Attributes:
        request: the files, with all that was detected about them.
        known: symbols and checksums, as the parameter of `Pairs`.
        notes: sentences on what was detected, and warnings.
        sets: training, development and test set. The last two have the fields of their lines,
            unless they come from `load_sets`.
    """

    request: PairFiles
    known: Mapping[str, Any]
    notes: Sequence[str]
    sets: Sequence[PairSet]

    def location(self, file: int, number: int) -> str:
        """The origin of a pair, by the index of its file's set and its number, as `file:line`."""
        return f"{name_of(Path(getattr(self.request, SPLITS[file])))}:{number}"


NOTES = "notes.json"
ARRAYS = ("source-ids", "source-starts", "sizes", "origins", "target-ids", "target-starts")
"""The arrays of a set, each of which `save_sets` writes to a file."""


def save_sets(contents: PairSets, directory: Path) -> None:
    """Write ids and notes to a new directory, from which processes can map them into memory."""
    directory.mkdir()
    for part, pairs in zip(SPLITS, contents.sets, strict=True):
        sources, targets = pairs.sources, pairs.targets
        own = pairs.sizes, pairs.origins
        arrays = sources.values, sources.starts, *own, targets.values, targets.starts
        for name, array in zip(ARRAYS, arrays, strict=True):
            np.save(directory / f"{part}-{name}.npy", array)
    (directory / NOTES).write_text(json.dumps(contents.notes))


def load_sets(directory: Path, request: PairFiles, known: Mapping[str, Any]) -> PairSets:
    """Memory-map the files of `save_sets`; raises `CheckpointError` if they are damaged."""
    sets = []
    try:
        notes = json.loads((directory / NOTES).read_text())
        for part in SPLITS:
            ids, starts, sizes, origins, *targets = (
                np.asarray(np.load(directory / f"{part}-{name}.npy", "r")) for name in ARRAYS
            )
            sets.append(PairSet(Ragged(ids, starts), sizes, Ragged(*targets), origins))
    except (OSError, ValueError, EOFError) as error:
        raise CheckpointError(f"{directory}: damaged ({error})") from error
    return PairSets(request, known, notes, sets)


_last_read: dict[Any, PairSets] = {}
"""The contents that were read last, by the requests for them and the versions of the files."""


def read_sets(request: PairFiles) -> PairSets:
    """Read files of pairs; those of the last request are only read again if they have changed.

    Raises:
        UsageError: a file can't be read, or has too few pairs to hold some out.
        StacktransError: a line is not a pair.
    """
    versions = tuple(map(file_version, request.files()))
    if (request, versions) not in _last_read:
        contents = _read_sets(request)
        _last_read.clear()
        _last_read[request, versions] = _last_read[contents.request, versions] = contents
    return _last_read[request, versions]


def _read_sets(request: PairFiles) -> PairSets:
    lines = read_files(request)
    tokenizer, request, notes = _detect_format(lines, request)
    columns = {  # the fields of each column are deleted as soon as they are encoded
        name: SymbolColumn.of(lines.strings.pop(name), name, tokenizer) for name in lines.columns
    }
    for name, column in columns.items():
        check_sizes(lines, name, column.strings.lengths, bool(request.labels))
    # Of the encoded strings, so that the number of spaces between words makes no difference.
    inputs = [column for name, column in columns.items() if name != "target"]
    sources, pairs = hashes_of(inputs), hashes_of(columns.values())
    sizes = columns["source"].strings.lengths
    notes += header_warnings(lines, columns)
    notes += empty_target_warnings(lines, columns["target"].strings.lengths)
    labels = hashes_of([columns["target"]]) if request.labels else np.zeros_like(sizes)
    notes += hold_out(lines, sources, sizes, labels, request)
    notes += pair_warnings(lines, sources, pairs)
    if request.labels:
        notes += missing_label_warnings(lines, columns["target"])
    training = lines.parts == TRAIN
    symbols = {
        name: _training_symbols(column.select(training), request)
        for name, column in columns.items()
    }
    _check_symbols(symbols, lines.names[TRAIN])
    sets, unknown_notes = _encode(lines, columns, symbols, tokenizer)
    known = {
        **{name: tokenizer.joined(name, symbols[name]) for name in tokenizer.columns},
        **sets[TRAIN].target_lengths,
        "digests": lines.digests,
    }
    # A model that knows these symbols requests the files with all of them.
    extra = frozenset((name, symbol) for name, known in symbols.items() for symbol in known)
    return PairSets(request._replace(extra_symbols=extra), known, [*notes, *unknown_notes], sets)


def _detect_format(lines: PairLines, request: PairFiles) -> tuple[Tokenizer, PairFiles, list[str]]:
    """The tokenizer, the request with everything that was detected, and notes on it."""
    separator = request.separator or detect_separator(lines.strings.get("features", ()))
    request = request._replace(separator=separator)
    tokenizer, unit_notes = _detect_tokenizer(lines, request)
    labels, label_notes = _detect_labels(lines, request)
    if labels:
        tokenizer = tokenizer._replace(target="words")
    request = request._replace(
        columns=",".join(lines.columns), symbols=tokenizer.units, labels=labels
    )
    units = f"symbols are {tokenizer.source}"
    if tokenizer.source != tokenizer.target:
        units = f"sources are {tokenizer.source}, targets {tokenizer.target}"
    note = f"{lines.names[TRAIN]}: columns {request.columns}{lines.found}; {units}"
    if tokenizer.features:
        note += f"; features are separated by {separator}"
    text_notes = [*normalization_warnings(lines, request), *space_warnings(lines, tokenizer)]
    return tokenizer, request, [note, *lines.notes, *unit_notes, *label_notes, *text_notes]


def _encode(
    lines: PairLines,
    columns: Mapping[str, SymbolColumn],
    symbols: Mapping[str, Sequence[str]],
    tokenizer: Tokenizer,
) -> tuple[list[PairSet], Iterator[str]]:
    """The training, development and test set, and notes on targets with unknown symbols."""
    source = SourceAlphabet(symbols["source"], symbols.get("features"), lines.columns, tokenizer)
    target = TargetAlphabet(symbols["target"], tokenizer)
    sources, targets = (
        columns[name].as_ids(alphabet.encode(columns[name].symbols))
        for name, alphabet in (("source", source), ("target", target))
    )
    if tokenizer.features:
        features = columns["features"]
        ids = source.encode([*map(Feature, features.symbols)])
        sources = concatenate_pairwise(features.as_ids(ids), sources)
    sets, sizes = list[PairSet](), columns["source"].strings.lengths
    for part in (TRAIN, DEV, TEST):
        mask = lines.parts == part
        written = [] if part == TRAIN else [column.select(mask) for column in columns.values()]
        strings = sources.compress(mask), sizes[mask], targets.compress(mask)
        origins = np.column_stack([lines.files[mask], lines.numbers[mask]])
        sets.append(PairSet(*strings, origins, written))
    return sets, unknown_target_warnings(lines, targets)


def _detect_tokenizer(lines: PairLines, request: PairFiles) -> tuple[Tokenizer, list[str]]:
    """The tokenizer of the requested units, or of those that are detected in the training set.

    Returns:
        The tokenizer, and a note on each column some of whose strings contradict its unit.
    """
    notes, units = [], request.symbols
    if units is None:
        rows, detected = np.flatnonzero(lines.parts == TRAIN), dict[str, str | None]()
        for column in UNIT_COLUMNS:
            strings = lines.strings[column]
            detected[column], odd = detect_unit(strings[row] for row in rows.tolist())
            if odd:
                example = f"{shown(strings[rows[odd[0]]])}, {lines.location(rows[odd[0]])}"
                what = "no spaces" if detected[column] == "words" else "spaces"
                has = f"{'has' if len(odd) == 1 else 'have'} {what}"
                many = f"{len(odd):,} of {len(rows):,} {column}s {has} ({example})"
                notes.append(f"{many}, but all are read as {detected[column]}; see --symbols")
        # A column of single characters, whose unit is unknown, has the unit of the other.
        source, target = detected["source"], detected["target"]
        units = f"{source or target or UNITS[0]},{target or source or UNITS[0]}"
    features = "features" in lines.columns
    return Tokenizer.of(units, features, request.separator, request.normalize), notes


def _detect_labels(lines: PairLines, request: PairFiles) -> tuple[bool, list[str]]:
    """Whether targets are labels, as requested or detected, and a note on labels."""
    if request.labels is False:
        return False, []
    rows = np.flatnonzero(lines.parts == TRAIN).tolist()
    sources, targets = ([lines.strings[name][row] for row in rows] for name in UNIT_COLUMNS)
    counts = sorted(Counter(" ".join(split_words(each)) for each in targets).items())
    two_words = len(counts) == 2 and all(len(split_words(each)) == 1 for each, _ in counts)
    labels: bool | None = request.labels
    if labels is None:
        kept = {symbol for name, symbol in request.extra_symbols if name == "target"}
        labels = (
            two_words
            and kept <= {*dict(counts)}
            and len({*sources}) >= MIN_VALUE_RATIO * len(counts)
        )
    if not labels:
        return False, []
    if not two_words:
        many = f"{len(counts)} different targets"
        raise StacktransError(f"{lines.names[TRAIN]}: labels: {many}; expected two words")
    listed = ", ".join(f"{shown(label)} ({count:,})" for label, count in counts)
    return True, [f"{lines.names[TRAIN]}: two labels: {listed}"]


def _training_symbols(column: SymbolColumn, request: PairFiles) -> list[str]:
    """The symbols of a column of the training set, and those kept from another model, sorted."""
    split = column.tokenizer.splitter(column.name)
    # A kept symbol must still be one symbol: a word is none where strings are characters.
    kept = {symbol for name, symbol in request.extra_symbols if name == column.name}
    symbols = {symbol for symbol in kept if len(split(symbol)) == 1}.union(column.used())
    # Sources and features have a symbol for all unknown ones, which may also be in their text.
    return sorted(symbols if column.name == "target" else symbols - {UNKNOWN_SYMBOL})


def _check_symbols(symbols: Mapping[str, Sequence[str]], name: str) -> None:
    """Raise `StacktransError` for too many distinct symbols, or for empty targets only."""
    for column, known in symbols.items():
        if len(known) > MAX_SYMBOLS:
            many = f"{len(known)} different symbols in the column {column}"
            raise StacktransError(f"{name}: {many}; expected at most {MAX_SYMBOLS}")
    if not symbols["target"]:
        raise StacktransError(
            f"{name}: all targets to train on are empty; expected some with symbols"
        )


def unknown_probabilities(pairs: PairSet, count: int) -> Probabilities:
    """[count] for each source id, the probability that training replaces it by the unknown one."""
    counts = np.bincount(pairs.sources.values, minlength=count)
    return REPLACED / (REPLACED + counts.astype(np.float64))
