"""Pairs of files kept apart to choose by and to test on."""

from typing import NamedTuple

import numpy as np

from stacktrans.common.errors import UsageError
from stacktrans.common.randomness import Purpose, generator
from stacktrans.tasks.files import CALLED, DEV, PARTS, TEST, TRAIN, Lines, Request
from stacktrans.tasks.flat import Numbers

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
