"""Checks of the lines of files of pairs: errors in sizes, and warnings of likely mistakes."""

import unicodedata
from collections.abc import Iterator, Mapping

import numpy as np

from stacktrans.common.errors import StacktransError, shown
from stacktrans.common.ragged import Ragged
from stacktrans.common.reading import MAX_LENGTH
from stacktrans.common.visible import counted
from stacktrans.tasks.alphabets import OUT_OF_VOCABULARY, Ids
from stacktrans.tasks.columns import Tokenizer
from stacktrans.tasks.pair_files import (
    DEV,
    MAX_LISTED,
    SET_NAMES,
    TEST,
    TRAIN,
    PairFiles,
    PairLines,
)
from stacktrans.tasks.symbol_columns import SymbolColumn

ALMOST_NONE = 0.25
"""A first line is suspicious if no more than this share of its symbols occurs again."""


def check_sizes(lines: PairLines, column: str, sizes: Ids, labels: bool) -> None:
    """Raise `StacktransError` for a string that is too long or too short.

    A label is one symbol, and a source without a label has at least one.
    """
    least, most = (1, 1) if labels and column == "target" else (0, MAX_LENGTH)
    if column == "source" and not labels:
        least = 1
    if len(wrong := np.flatnonzero((sizes < least) | (sizes > most))):
        line, size = lines.location(wrong[0]), sizes[wrong[0]]
        expected = f"at least {least}" if size < least else f"at most {most}"
        expected = "a label" if least == most else expected
        raise StacktransError(
            f"{line}: a {column} of {counted(int(size), 'symbol')}; expected {expected}"
        )


def header_warnings(lines: PairLines, columns: Mapping[str, SymbolColumn]) -> Iterator[str]:
    """A warning for each file whose first line shares almost no symbols with the others."""
    for file in lines.names:
        rows = lines.files == file
        shared = distinct = known = total = 0
        for column in ("source", "target"):
            within = columns[column].strings.compress(rows)
            counts = np.bincount(within.values)
            first = np.bincount(within[0], minlength=len(counts))
            again = counts > first
            shared, distinct = shared + (again & (first > 0)).sum(), distinct + (first > 0).sum()
            known, total = known + again.sum(), total + (counts - first).sum()
        # In a file of which few symbols occur twice, such as a list of words, this is no sign.
        if shared <= ALMOST_NONE * distinct and 0 < 2 * known <= total:
            line = lines.location(int(rows.argmax()))
            why = "the first line shares almost no symbols with the others"
            yield f"{line}: {why}; is it a header?"


def normalization_warnings(lines: PairLines, request: PairFiles) -> Iterator[str]:
    """A warning if some strings are decomposed in Unicode and others composed."""
    if request.normalize is not None:
        return
    others = [
        (row, text)
        for strings in lines.strings.values()
        for row, text in enumerate(strings)
        if not text.isascii()
    ]
    # A decomposed string is longer than its NFC, which decomposes some characters, too.
    decomposed = [
        (row, text) for row, text in others if len(unicodedata.normalize("NFC", text)) < len(text)
    ]
    if decomposed and not all(unicodedata.is_normalized("NFD", text) for _, text in others):
        row, text = decomposed[0]
        many = counted(len(decomposed), "string has", "strings have")
        yield (
            f"{many} letters in decomposed form (NFD), such as "
            f"{shown(text)} ({lines.location(row)}), others in composed form (NFC), which are "
            "different symbols; see --normalize"
        )


def space_warnings(lines: PairLines, tokenizer: Tokenizer) -> Iterator[str]:
    """A warning of white space at the ends of strings, where characters are symbols."""
    for column in ("source", "target"):
        if getattr(tokenizer, column) == "characters":
            strings = enumerate(lines.strings[column])
            if rows := [row for row, text in strings if text.strip() != text]:
                many = counted(len(rows), f"{column} begins or ends", f"{column}s begin or end")
                yield f"{many} with white space, which is a symbol ({lines.locations(rows)})"


def pair_warnings(lines: PairLines, sources: Ids, pairs: Ids) -> Iterator[str]:
    """Warnings of repeated pairs, sources in several sets, and sources with several targets.

    Args:
        lines: all lines.
        sources: [n] the hash of each source with its features.
        pairs: [n] the hash of each pair.
    """
    training = np.flatnonzero(lines.parts == TRAIN)
    if len(again := _again(pairs[training])):
        many = counted(len(again), "pair repeats", "pairs repeat")
        yield f"{many} an earlier one of the training set ({lines.locations(training[again])})"
    for part, others in ((DEV, [TRAIN]), (TEST, [TRAIN, DEV])):
        rows = np.flatnonzero(lines.parts == part)
        rows = np.delete(rows, _again(sources[rows]))
        for other in others:
            seen = rows[np.isin(sources[rows], sources[lines.parts == other])]
            if len(seen):
                verb = "is" if len(seen) == 1 else "are"
                inflated = ", which inflates accuracy on it" if other == TRAIN else ""
                many = f"{len(seen):,} of {counted(len(rows), 'source')}"
                yield (
                    f"{many} of the {SET_NAMES[part]} set {verb} "
                    f"in the {SET_NAMES[other]} set, too{inflated} ({lines.locations(seen)})"
                )
    several, examples = _several_answers(sources, pairs)
    if several:
        found = lines.short_locations(np.concatenate(examples))
        listed = "; ".join(map(" and ".join, zip(found[::2], found[1::2], strict=True)))
        more = "; ..." if several > len(examples) else ""
        many = counted(several, "source has", "sources have")
        right = "an answer is right if it is one of those in its set"
        yield f"{many} more than one target ({listed}{more}); {right}"


def empty_target_warnings(lines: PairLines, sizes: Ids) -> Iterator[str]:
    """A warning of targets without symbols, by the length of each target, [n]."""
    if len(rows := np.flatnonzero(sizes == 0)):
        many = counted(len(rows), "target is", "targets are")
        yield f"{many} empty, which counts as an answer ({lines.locations(rows)})"


def missing_label_warnings(lines: PairLines, targets: SymbolColumn) -> Iterator[str]:
    """A warning for each set that lacks a label of the training set."""
    known, *others = (targets.select(lines.parts == part).used() for part in (TRAIN, DEV, TEST))
    for part, labels in zip((DEV, TEST), others, strict=True):
        for label in sorted({*known}.difference(labels)):
            yield (
                f"the {SET_NAMES[part]} set has no string labeled {shown(label)}: "
                "accuracy on it says nothing about such strings"
            )


def unknown_target_warnings(lines: PairLines, targets: Ragged) -> Iterator[str]:
    """A warning for each set with targets that the target alphabet does not cover.

    Args:
        lines: all lines.
        targets: [n] the ids of each target.
    """
    lost = np.unique(targets.row_indices[targets.values == OUT_OF_VOCABULARY])
    for part in (DEV, TEST):
        if len(rows := lost[lines.parts[lost] == part]):
            has, counts = ("has", "counts") if len(rows) == 1 else ("have", "count")
            yield (
                f"{len(rows):,} of {counted((lines.parts == part).sum(), 'target')} of the "
                f"{SET_NAMES[part]} set {has} symbols that are in no training target, and "
                f"{counts} as wrong ({lines.locations(rows)})"
            )


def _again(keys: Ids) -> Ids:
    """The indices of keys that repeat an earlier one."""
    _, first = np.unique(keys, return_index=True)
    return np.setdiff1d(np.arange(len(keys)), first, assume_unique=True)


def _several_answers(sources: Ids, pairs: Ids) -> tuple[int, list[Ids]]:
    """How many sources have several targets, and two lines of each of the first ones."""
    _, distinct = np.unique(pairs, return_index=True)
    rows = np.sort(distinct)
    _, first, group, counts = np.unique(
        sources[rows], return_index=True, return_inverse=True, return_counts=True
    )
    several = np.flatnonzero(counts > 1)
    earliest = several[np.argsort(first[several])][:MAX_LISTED]
    return len(several), [rows[np.flatnonzero(group == each)[:2]] for each in earliest]
