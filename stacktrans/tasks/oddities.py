"""What is odd about the pairs of files, a sentence for each kind."""

import unicodedata
from collections.abc import Iterator, Mapping

import numpy as np

from stacktrans.common.errors import shown
from stacktrans.common.ragged import Ragged
from stacktrans.tasks.alphabets import UNSAYABLE
from stacktrans.tasks.files import CALLED, DEV, NAMED, PARTS, TEST, TRAIN, Lines, Request
from stacktrans.tasks.flat import Chosen, Numbers
from stacktrans.tasks.splits import Keys

ALMOST_NONE = 0.25
"""A first line with so small a share of symbols that come again is odd."""


def odd_first_lines(lines: Lines, strings: Mapping[str, Ragged]) -> Iterator[str]:
    """Which files begin with a line almost all of whose symbols come nowhere else in them.

    Args:
        strings: of the columns, [n] each, as numbers of symbols.
    """
    for file in range(len(lines.names)):
        rows = lines.files == file
        shared = distinct = known = total = 0
        for column in ("source", "target"):
            within = strings[column].within(rows)
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


def mixed_forms(lines: Lines, request: Request) -> Iterator[str]:
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


def oddities(lines: Lines, keys: Keys) -> Iterator[str]:
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
                called, elsewhere = CALLED[PARTS[part]], CALLED[PARTS[other]]
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


def unsayable(lines: Lines, targets: Ragged) -> Iterator[str]:
    """Which targets to choose by or to test on no answer can match, a sentence for each set.

    Args:
        targets: [n] the ids of each.
    """
    lost = np.zeros(len(targets), dtype=np.bool_)
    lost[targets.rows[targets.values == UNSAYABLE]] = True
    for part in (DEV, TEST):
        of_part = lines.parts == part
        if len(rows := np.flatnonzero(lost & of_part)):
            has, counts = ("has", "counts") if len(rows) == 1 else ("have", "count")
            yield (
                f"{len(rows):,} of {of_part.sum():,} targets of the {CALLED[PARTS[part]]} set "
                f"{has} symbols that no target to train on has, and {counts} as wrong "
                f"({lines.places(rows)})"
            )


def _again(keys: Numbers) -> Numbers:
    """The indices of numbers that have come before."""
    _, first = np.unique(keys, return_index=True)
    new: Chosen = np.zeros(len(keys), dtype=np.bool_)
    new[first] = True
    return np.flatnonzero(~new)


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
