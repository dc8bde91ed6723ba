"""Pairs of files kept apart to choose by and to test on, and what is odd about them."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from stacktrans.common.errors import UsageError
from stacktrans.common.randomness import Purpose, generator
from stacktrans.common.reading import name_of
from stacktrans.tasks.files import CALLED, DEV, NAMED, PARTS, TEST, TRAIN, Lines, Request
from stacktrans.tasks.flat import Chosen, Flat, Numbers
from stacktrans.tasks.layouts import UNSAYABLE

SHARE_APART = 10
"""One pair in so many is kept apart for a set that has no file."""


class Keys(NamedTuple):
    """Numbers for what is the same: [n] for sources with their features, and for whole pairs."""

    source: Numbers
    pair: Numbers


def keep_apart(lines: Lines, keys: Keys, sizes: Numbers, request: Request) -> list[str]:
    """Take what has no file of its own from the training pairs; says what, a sentence for each.

    The longest sources are to be tested on, others at random to choose by. Lines with the same
    source stay together.

    Args:
        sizes: [n] the length of each source.

    Raises:
        UsageError: there are too few different sources.
    """
    said = []
    name, all_training = name_of(Path(request.train)), int((lines.parts == TRAIN).sum())
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
        taken = rows[order[: ends[np.searchsorted(ends, wanted)]]]
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
            f"{CALLED[PARTS[part]]} set (lengths {lengths})"
        )
    return said


def _numbered(keys: Numbers) -> Numbers:
    """[n] for each of some keys its number, in the order in which they come first."""
    # That of the keys themselves is another in every process.
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    numbers = np.empty(len(first), dtype=np.int64)
    numbers[np.argsort(first)] = np.arange(len(first))
    return numbers[group]


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


def unsayable(lines: Lines, targets: Flat) -> Iterator[str]:
    """Which targets to choose by or to test on no answer can match, a sentence for each set.

    Args:
        targets: [n] the ids of each.
    """
    owners = np.repeat(np.arange(len(targets)), targets.lengths)
    lost = np.zeros(len(targets), dtype=np.bool_)
    lost[owners[targets.codes == UNSAYABLE]] = True
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
