"""The sets of pairs in files: what is trained on, chosen by and tested on, and what is odd."""

import json
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, compress, pairwise
from pathlib import Path
from typing import Any, NamedTuple, Self, overload

import numpy as np
import numpy.typing as npt

from stacktrans.common.errors import CheckpointError, StacktransError, UsageError, shown
from stacktrans.common.ragged import Ragged, concatenate_pairwise, row_starts
from stacktrans.common.randomness import Purpose, generator
from stacktrans.common.reading import LONGEST, file_version
from stacktrans.tasks.alphabets import MAX_SYMBOLS, OUT_OF_VOCABULARY, Ids, Mask
from stacktrans.tasks.base import LengthLaw, Lengths, NoSuchLaw, NoSuchLength
from stacktrans.tasks.columns import (
    UNITS,
    SourceAlphabet,
    TargetAlphabet,
    Tokenizer,
    detect_separator,
    detect_unit,
)
from stacktrans.tasks.layout import OutputBound, Pair
from stacktrans.tasks.lines import (
    DEV,
    NAMED,
    PARTS,
    SET_NAMES,
    TEST,
    TRAIN,
    PairFiles,
    PairLines,
    read_files,
)

ALMOST_NONE = 0.25
"""A first line with so small a share of symbols that come again is odd."""

SHARE_APART = 10
"""One pair in so many is kept apart for a set that has no file."""
REPLACED = 0.25
"""A symbol that comes n times in the training set is read as unknown with probability a / (a + n),
and this is a (Kiperwasser and Goldberg 2016, section 4.2)."""
Probabilities = npt.NDArray[np.float64]
AT_ONCE = 1 << 16
"""Strings that are split into symbols at once."""


@dataclass(frozen=True)
class SymbolColumn:
    """What stands in a column of n lines.

    Attributes:
        name: of the column.
        writing: how symbols are written.
        strings: [n] the numbers of the symbols of each.
        symbols: what each number stands for, in the order in which they come first.
    """

    name: str
    tokenizer: Tokenizer
    strings: Ragged
    symbols: Sequence[str]

    @classmethod
    def of(cls, texts: Sequence[str], name: str, tokenizer: Tokenizer) -> Self:
        """The column of some written strings."""
        split, numbers = tokenizer.splitter(name), defaultdict[str, int]()
        numbers.default_factory = numbers.__len__
        lengths, parts = [], [np.empty(0, np.uint8)]
        for start in range(0, len(texts), AT_ONCE):
            found = [*map(split, texts[start : start + AT_ONCE])]
            lengths.append([*map(len, found)])
            codes = map(numbers.__getitem__, chain.from_iterable(found))
            parts.append(_small(np.fromiter(codes, dtype=np.int32)))
        strings = Ragged(np.concatenate(parts), row_starts(np.concatenate(lengths)))
        return cls(name, tokenizer, strings, [*numbers])

    def __getitem__(self, index: int) -> str:
        symbols = [self.symbols[number] for number in self.strings[index]]
        return self.tokenizer.joined(self.name, symbols)

    def select(self, mask: Mask) -> "SymbolColumn":
        """Those of the lines that a mask [n] tells."""
        return replace(self, strings=self.strings.compress(mask))

    def used(self) -> list[str]:
        """The symbols in the strings."""
        used = np.zeros(len(self.symbols), dtype=np.bool_)
        used[self.strings.values] = True
        return [*compress(self.symbols, used)]

    def as_ids(self, known: Mapping[str, int], unknown: int) -> Ragged:
        """The strings as ids of symbols; one stands for those that are not known."""
        ids = np.array([known.get(symbol, unknown) for symbol in self.symbols], dtype=np.int32)
        small, codes = _small(ids), self.strings.values
        parts = (small[codes[at : at + AT_ONCE]] for at in range(0, len(codes), AT_ONCE))
        return Ragged(np.concatenate([small[:0], *parts]), self.strings.starts)


def keys(columns: Iterable[SymbolColumn]) -> Ids:
    """[n] a number for what is in n lines of some columns, the same only where all of it is."""
    rows = zip(*(_contents(column.strings) for column in columns), strict=True)
    return np.fromiter(map(hash, rows), dtype=np.int64)


def _contents(strings: Ragged) -> Iterator[bytes]:
    """What is in each string, as bytes."""
    content, size = strings.values.tobytes(), strings.values.itemsize
    return (content[begin:end] for begin, end in pairwise((strings.starts * size).tolist()))


def _small(numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same numbers in as few bytes each as they need."""
    low, high = numbers.min(initial=0), numbers.max(initial=0)
    kinds = (np.uint8, np.int8, np.uint16, np.int16, np.int32)
    bounds = ((kind, np.iinfo(kind)) for kind in kinds)
    return numbers.astype(next(kind for kind, of in bounds if of.min <= low and high <= of.max))


def check_sizes(lines: PairLines, column: str, sizes: Ids) -> None:
    """Raise `StacktransError` for a source without symbols, or a string with too many."""
    least = 1 if column == "source" else 0
    if len(wrong := np.flatnonzero((sizes < least) | (sizes > LONGEST))):
        place, size = lines.place(wrong[0]), sizes[wrong[0]]
        expected = f"at least {least}" if size < least else f"at most {LONGEST}"
        raise StacktransError(f"{place}: a {column} of {size} symbols; expected {expected}")


class Keys(NamedTuple):
    """Numbers for what is the same: [n] for sources with their features, and for whole pairs."""

    source: Ids
    pair: Ids


def hold_out(lines: PairLines, keys: Keys, sizes: Ids, request: PairFiles) -> list[str]:
    """Take what has no file of its own from the training pairs; says what, a sentence for each.

    The longest sources are to be tested on, others at random to choose by. Lines with the same
    source stay together.

    Args:
        sizes: [n] the length of each source.

    Raises:
        UsageError: there are too few different sources.
    """
    said = []
    name, all_training = lines.names[0], int((lines.parts == TRAIN).sum())
    wanted = max(1, all_training // SHARE_APART)
    for part, file in ((TEST, request.test), (DEV, request.dev)):
        if file is not None:
            continue
        rows = np.flatnonzero(lines.parts == TRAIN)
        group = _numbered(keys.source[rows])
        if part == TEST:
            order = np.lexsort((group, -sizes[rows]))
        else:
            rng = generator(request.split, Purpose.SPLIT)
            order = np.argsort(rng.permutation(group.max() + 1)[group], kind="stable")
        ordered = group[order]
        ends = np.flatnonzero(np.diff(ordered, append=-1)) + 1
        last = min(int(np.searchsorted(ends, wanted)), len(ends) - 1)
        taken = rows[order[: ends[last]]]
        if len(taken) == len(rows):
            need = 1 + (request.test is None) + (request.dev is None)
            raise UsageError(
                f"{name}: too few different sources to keep some apart; expected at least {need}, "
                "or files of their own for what is not trained on"
            )
        lines.parts[taken] = part
        how = "the longest" if part == TEST else f"at random (seed {request.split})"
        lengths = f"{sizes[taken].min()}:{sizes[taken].max()}"
        said.append(
            f"{name}: {len(taken):,} of {all_training:,} pairs, {how}, are kept apart as the "
            f"{SET_NAMES[PARTS[part]]} set (lengths {lengths})"
        )
    return said


def _numbered(keys: Ids) -> Ids:
    """[n] for each of some keys its number, in the order in which they come first."""
    # That of the keys themselves is another in every process.
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    numbers = np.empty(len(first), dtype=np.int64)
    numbers[np.argsort(first)] = np.arange(len(first))
    return numbers[group]


def odd_first_lines(lines: PairLines, columns: Mapping[str, SymbolColumn]) -> Iterator[str]:
    """Which files begin with a line almost all of whose symbols come nowhere else in them."""
    for file in range(len(lines.names)):
        rows = lines.files == file
        shared = distinct = known = total = 0
        for column in ("source", "target"):
            within = columns[column].strings.compress(rows)
            counts = np.bincount(within.values)
            first = np.bincount(within[0], minlength=len(counts))
            again = counts > first
            shared, distinct = shared + (again & (first > 0)).sum(), distinct + (first > 0).sum()
            known, total = known + again.sum(), total + (counts - first).sum()
        # Where few symbols come twice, as in a list of words, this is nothing special.
        if shared <= ALMOST_NONE * distinct and 0 < 2 * known <= total:
            place = lines.place(int(rows.argmax()))
            why = "the first line shares almost no symbols with the others"
            yield f"{place}: {why}; is it a header?"


def mixed_forms(lines: PairLines, request: PairFiles) -> Iterator[str]:
    """Whether some strings are decomposed in Unicode and others composed, if any form is fine."""
    if request.normalize is not None:
        return
    others = [
        (row, text)
        for strings in lines.strings.values()
        for row, text in enumerate(strings)
        if not text.isascii()
    ]
    # Some characters are decomposed in both forms, and so longer in NFC.
    decomposed = [
        each for each in others if len(unicodedata.normalize("NFC", each[1])) < len(each[1])
    ]
    if decomposed and not all(unicodedata.is_normalized("NFD", text) for _, text in others):
        row, text = decomposed[0]
        yield (
            f"{len(decomposed):,} strings have letters in decomposed form (NFD), such as "
            f"{shown(text)} ({lines.place(row)}), others in composed form (NFC), which are "
            "different symbols; see --normalize"
        )


def oddities(lines: PairLines, keys: Keys) -> Iterator[str]:
    """What is odd about some pairs, a sentence for each kind: repeated ones, and other answers."""
    training = np.flatnonzero(lines.parts == TRAIN)
    if len(again := _again(keys.pair[training])):
        verb = "pair repeats" if len(again) == 1 else "pairs repeat"
        where = lines.places(training[again])
        yield f"{len(again):,} {verb} an earlier one of the training set ({where})"
    for part, others in ((DEV, [TRAIN]), (TEST, [TRAIN, DEV])):
        rows = np.flatnonzero(lines.parts == part)
        for other in others:
            known = keys.source[lines.parts == other]
            seen = rows[np.isin(keys.source[rows], known)]
            if len(seen):
                called, elsewhere = SET_NAMES[PARTS[part]], SET_NAMES[PARTS[other]]
                inflated = ", so that accuracy on it tells less" if other == TRAIN else ""
                verb = "is" if len(seen) == 1 else "are"
                yield (
                    f"{len(seen):,} of {len(rows):,} sources of the {called} set {verb} in the "
                    f"{elsewhere} set, too{inflated} ({lines.places(seen)})"
                )
    several, examples = _several_answers(keys)
    if several:
        pairs = "; ".join(f"{lines.place(one)} and {lines.place(other)}" for one, other in examples)
        more = "; ..." if several > len(examples) else ""
        verb = "source has" if several == 1 else "sources have"
        yield f"{several:,} {verb} more than one answer ({pairs}{more})"


def unsayable(lines: PairLines, targets: Ragged) -> Iterator[str]:
    """Which targets to choose by or to test on no answer can match, a sentence for each set.

    Args:
        targets: [n] the ids of each.
    """
    lost = np.zeros(len(targets), dtype=np.bool_)
    lost[targets.rows[targets.values == OUT_OF_VOCABULARY]] = True
    for part in (DEV, TEST):
        of_part = lines.parts == part
        if len(rows := np.flatnonzero(lost & of_part)):
            has, counts = ("has", "counts") if len(rows) == 1 else ("have", "count")
            yield (
                f"{len(rows):,} of {of_part.sum():,} targets of the {SET_NAMES[PARTS[part]]} set "
                f"{has} symbols that no target to train on has, and {counts} as wrong "
                f"({lines.places(rows)})"
            )


def _again(keys: Ids) -> Ids:
    """The indices of numbers that have come before."""
    _, first = np.unique(keys, return_index=True)
    return np.setdiff1d(np.arange(len(keys)), first, assume_unique=True)


def _several_answers(keys: Keys) -> tuple[int, list[tuple[int, int]]]:
    """How many sources have several answers, and two lines of each of the first ones."""
    _, distinct = np.unique(keys.pair, return_index=True)
    rows = np.sort(distinct)
    _, first, group, counts = np.unique(
        keys.source[rows], return_index=True, return_inverse=True, return_counts=True
    )
    several = np.flatnonzero(counts > 1)
    earliest = several[np.argsort(first[several])][:NAMED]
    found = [rows[np.flatnonzero(group == each)[:2]] for each in earliest]
    return len(several), [(int(one), int(other)) for one, other in found]


class PairSet(Sequence[Pair]):
    """Pairs of strings that are held in few arrays, and put together when they are asked for.

    Args:
        sources: ids of what is read of each source.
        sizes: [n] the length of each, without features.
        targets: ids of each target.
        columns: what stands in the columns of their lines, unless that is not to be told.
    """

    def __init__(
        self, sources: Ragged, sizes: Ids, targets: Ragged, columns: Sequence[SymbolColumn] = ()
    ) -> None:
        self.sources, self.sizes, self.targets, self.columns = sources, sizes, targets, columns
        self._order = np.argsort(sizes, kind="stable")
        self._ordered = sizes[self._order]

    def __len__(self) -> int:
        return len(self.sizes)

    @overload
    def __getitem__(self, index: int) -> Pair: ...

    @overload
    def __getitem__(self, index: slice) -> list[Pair]: ...

    def __getitem__(self, index: int | slice) -> Pair | list[Pair]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        source, target = (each[index].astype(np.int64) for each in (self.sources, self.targets))
        written = tuple(column[index] for column in self.columns) or None
        return Pair(source, target, None, int(self.sizes[index]), written)

    @property
    def lengths(self) -> Lengths:
        """The shortest and the longest source."""
        return Lengths(int(self._ordered[0]), int(self._ordered[-1]))

    @property
    def steps(self) -> OutputBound:
        """How many steps a source needs for its answer in step with it."""
        lengths = np.stack([self.sources.lengths, self.targets.lengths], axis=1)
        return OutputBound.for_pairs(np.unique(lengths, axis=0))

    def of_lengths(self, lengths: Lengths) -> Ids:
        """The indices of pairs whose sources have these lengths, the shortest first."""
        begin = np.searchsorted(self._ordered, lengths.shortest, "left")
        return self._order[begin : np.searchsorted(self._ordered, lengths.longest, "right")]

    def draw(
        self, rng: np.random.Generator, lengths: Lengths, count: int, law: LengthLaw
    ) -> list[Pair]:
        """`count` of the pairs of these lengths, each perhaps several times.

        Raises:
            NoSuchLength: there is none.
            NoSuchLaw: the law is neither "task", by which all pairs are equally likely, nor
                "uniform", by which all lengths are that there are.
        """
        possible = self.of_lengths(lengths)
        if not len(possible):
            raise NoSuchLength(f"no source of the files has a length in {lengths}")
        if law == "task":
            places = rng.integers(len(possible), size=count)
        elif law == "uniform":
            sizes = self.sizes[possible]
            drawn = rng.choice(np.unique(sizes), size=count)
            begin, end = (np.searchsorted(sizes, drawn, side) for side in ("left", "right"))
            places = rng.integers(begin, end)
        else:
            raise NoSuchLaw("pairs in files have the lengths that they have")
        return [self[index] for index in possible[places].tolist()]


@dataclass(frozen=True)
class PairSets:
    """All that files of pairs say.

    Attributes:
        request: which they are, with what was found out.
        known: symbols and checksums, as `Pairs` takes them.
        notes: what is to be said of them, a sentence each.
        sets: training, development and test set, the last two with what stands in their lines, but
            not after `load_sets`.
    """

    request: PairFiles
    known: Mapping[str, Any]
    notes: Sequence[str]
    sets: Sequence[PairSet]


NOTES = "notes.json"
ARRAYS = ("source-ids", "source-starts", "sizes", "target-ids", "target-starts")
"""What `save_sets` writes of each set, a file each."""


def save_sets(found: PairSets, folder: Path) -> None:
    """Write ids and notes to a new folder, from which any number of processes share them."""
    folder.mkdir()
    for part, pairs in zip(PARTS, found.sets, strict=True):
        sources, targets = pairs.sources, pairs.targets
        arrays = sources.values, sources.starts, pairs.sizes, targets.values, targets.starts
        for name, array in zip(ARRAYS, arrays, strict=True):
            np.save(folder / f"{part}-{name}.npy", array)
    (folder / NOTES).write_text(json.dumps(found.notes))


def load_sets(folder: Path, request: PairFiles, known: Mapping[str, Any]) -> PairSets:
    """Memory-map what `save_sets` has written; raises `CheckpointError` if it is damaged."""
    sets = []
    try:
        notes = json.loads((folder / NOTES).read_text())
        for part in PARTS:
            files = [folder / f"{part}-{name}.npy" for name in ARRAYS]
            ids, starts, sizes, *targets = (np.asarray(np.load(file, "r")) for file in files)
            sets.append(PairSet(Ragged(ids, starts), sizes, Ragged(*targets)))
    except (OSError, ValueError, EOFError) as error:
        raise CheckpointError(f"{folder}: damaged ({error})") from error
    return PairSets(request, known, notes, sets)


_kept: dict[Any, PairSets] = {}
"""What was read last, and when its files were changed."""


def read_sets(request: PairFiles) -> PairSets:
    """What is in some files, which are read again only if they have changed.

    Raises:
        UsageError: a file can't be read, or has too few pairs to keep some apart.
        StacktransError: a line is not a pair.
    """
    stamps = tuple(file_version(path) for _, path in request.paths())
    if (request, stamps) not in _kept:
        found = _read_sets(request)
        _kept.clear()
        _kept[request, stamps] = _kept[found.request, stamps] = found
    return _kept[request, stamps]


def _read_sets(request: PairFiles) -> PairSets:
    lines = read_files(request)
    separator = request.separator or detect_separator(lines.strings.get("features", ()))
    request = request._replace(separator=separator)
    tokenizer, unit_notes = _writing_of(lines, request)
    notes = [*lines.notes, *unit_notes, *mixed_forms(lines, request)]
    request = request._replace(columns=",".join(lines.columns), symbols=tokenizer.units)
    columns = {  # the texts of each are forgotten as soon as they are in numbers
        name: SymbolColumn.of(lines.strings.pop(name), name, tokenizer) for name in lines.columns
    }
    for name, column in columns.items():
        check_sizes(lines, name, column.strings.lengths)
    sizes = columns["source"].strings.lengths
    # As they are read: that there are more spaces between words makes no difference.
    read = [column for name, column in columns.items() if name != "target"]
    same = Keys(keys(read), keys(columns.values()))
    said = f"{lines.names[0]}: columns {request.columns}; symbols are {tokenizer.units}"
    said += f"; features are separated by {separator}" if tokenizer.features else ""
    notes = [said, *notes, *odd_first_lines(lines, columns)]
    notes += [*hold_out(lines, same, sizes, request), *oddities(lines, same)]

    masks = [lines.parts == part for part in (TRAIN, DEV, TEST)]
    symbols = {}
    for name, column in columns.items():
        split = tokenizer.splitter(name)
        # Where strings are of characters, a word is not a symbol.
        kept = {each for of, each in request.kept if of == name and len(split(each)) == 1}
        symbols[name] = sorted(kept.union(column.select(masks[TRAIN]).used()))
    _check_symbols(symbols, lines.names[0])
    # The model will ask for the files with all of these.
    every = frozenset((column, each) for column, found in symbols.items() for each in found)
    known: dict[str, SourceAlphabet | TargetAlphabet] = {
        "target": TargetAlphabet(symbols["target"], tokenizer)
    }
    known["source"] = known["features"] = SourceAlphabet(
        symbols["source"], symbols.get("features"), lines.columns, tokenizer
    )
    ids = {name: each.as_ids(*known[name].ids_of(name)) for name, each in columns.items()}
    notes += unsayable(lines, ids["target"])
    sources, targets = ids["source"], ids["target"]
    if tokenizer.features:
        sources = concatenate_pairwise(ids["features"], sources)
    sets = []
    for part, mask in enumerate(masks):
        written = [] if part == TRAIN else [column.select(mask) for column in columns.values()]
        sets.append(PairSet(sources.compress(mask), sizes[mask], targets.compress(mask), written))
    told = {name: tokenizer.joined(name, symbols[name]) for name in tokenizer.columns}
    further = {"steps": [*sets[TRAIN].steps], "digests": lines.digests}
    return PairSets(request._replace(kept=every), {**told, **further}, notes, sets)


def _writing_of(lines: PairLines, request: PairFiles) -> tuple[Tokenizer, list[str]]:
    """How strings are written, and a note for each unit that some strings contradict.

    That is as was asked for, or as the strings to train on seem to be.
    """
    notes, units = [], request.symbols
    if units is None:
        rows, found = np.flatnonzero(lines.parts == TRAIN), dict[str, str | None]()
        for column in ("source", "target"):
            strings = lines.strings[column]
            found[column], odd = detect_unit(strings[row] for row in rows.tolist())
            if odd:
                example = f"{shown(strings[rows[odd[0]]])}, {lines.place(rows[odd[0]])}"
                has = "no spaces" if found[column] == "words" else "spaces"
                many = f"{len(odd):,} of {len(rows):,} {column}s have {has} ({example})"
                notes.append(f"{many}, but all are read as {found[column]}; see --symbols")
        # Of strings of one character nothing can be found out; then they are like the others.
        source, target = found["source"], found["target"]
        units = f"{source or target or UNITS[0]},{target or source or UNITS[0]}"
    features = "features" in lines.columns
    return Tokenizer.of(units, features, request.separator, request.normalize), notes


def _check_symbols(symbols: Mapping[str, Sequence[str]], name: str) -> None:
    """Raise `StacktransError` for too many different symbols to know, or none to say."""
    for column, found in symbols.items():
        if len(found) > MAX_SYMBOLS:
            many = f"{len(found)} different symbols in the column {column}"
            raise StacktransError(f"{name}: {many}; expected at most {MAX_SYMBOLS}")
    if not symbols["target"]:
        raise StacktransError(
            f"{name}: all targets to train on are empty; expected some with symbols to say"
        )


def unknown_probabilities(pairs: PairSet, count: int) -> Probabilities:
    """[count] for each id that is read, how probably it is read as unknown in training."""
    counts = np.zeros(count, dtype=np.int64)
    codes = pairs.sources.values
    for start in range(0, len(codes), 1 << 20):
        counts += np.bincount(codes[start : start + (1 << 20)], minlength=count)
    return REPLACED / (REPLACED + counts.astype(np.float64))
