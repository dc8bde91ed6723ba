"""Values of steps by groups of steps that are alike."""

from __future__ import annotations

import numpy as np

from stacktrans.extraction.runs import NOTHING
from stacktrans.tasks.alphabets import Ids

FEW_SYMBOLS = 8
"""Up to how many symbols of a part of a string are apart from the beginning."""


def exchanged(contents: Ids, others: Ids, places: list[int]) -> Ids:
    """[n, places] the same with other things in some places."""
    found = contents.copy()
    found[:, places] = others[:, places]
    return found


def few_apart(parts: Ids) -> Ids:
    """Classes of symbols by their parts of strings; those of a part with few are apart at once."""
    sizes = np.bincount(parts)[parts]
    alone = parts.max() + 1 + np.arange(len(parts))
    classes: Ids = np.unique(np.where(sizes <= FEW_SYMBOLS, alone, parts), return_inverse=True)[1]
    return classes.reshape(-1)


def usual_values(numbers: Ids, values: Ids) -> Ids:
    """The value that each different number, in order, has most often."""
    pairs, counts = np.unique(np.column_stack([numbers, values]), axis=0, return_counts=True)
    order = np.lexsort([-counts, pairs[:, 0]])
    _, first = np.unique(pairs[order, 0], return_index=True)
    usual: Ids = pairs[order][first, 1]
    return usual


def bounds(values: Ids, groups: Ids, count: int) -> tuple[Ids, Ids]:
    """The least and the greatest value of each group; `NOTHING` does not count."""
    known = values != NOTHING
    first = np.full(count, np.iinfo(np.int64).max)
    last = np.full(count, NOTHING)
    np.minimum.at(first, groups[known], values[known])
    np.maximum.at(last, groups[known], values[known])
    return first, last


def divided(values: Ids, groups: Ids, count: int, tolerance: float = 0.0, few: float = 0.0) -> Ids:
    """The groups that have different values, but for a share of steps, and a few more."""
    first, last = bounds(values, groups, count)
    found = np.flatnonzero((last != NOTHING) & (first != last))
    if not tolerance or not len(found):
        return found
    most, total = counted(values, groups, count)
    return found[total[found] - most[found] > tolerance * total[found] + few]


def counted(values: Ids, groups: Ids, count: int) -> tuple[Ids, Ids]:
    """How many steps of each group have its commonest value, and how many any."""
    known = values != NOTHING
    room = int(values.max(initial=0)) + 1
    pairs, counts = np.unique(groups[known] * room + values[known], return_counts=True)
    most, total = np.zeros((2, count), np.int64)
    np.maximum.at(most, pairs // room, counts)
    np.add.at(total, pairs // room, counts)
    return most, total


def deviating(values: Ids, groups: Ids, count: int) -> int:
    """How many steps do otherwise than most of their group."""
    most, total = counted(values, groups, count)
    return int((total - most).sum())
