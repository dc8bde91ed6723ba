"""Pairs that are held out: the test and the development set that have no files of their own."""

import numpy as np
import numpy.typing as npt

from stacktrans.common.errors import UsageError
from stacktrans.common.randomness import Purpose, generator
from stacktrans.common.visible import counted
from stacktrans.tasks.alphabets import Ids
from stacktrans.tasks.lengths import Lengths
from stacktrans.tasks.pair_files import DEV, SET_NAMES, TEST, TRAIN, PairFiles, PairLines

HELD_OUT = 10
"""One in this many pairs is held out for a set without a file."""


def hold_out(
    lines: PairLines, sources: Ids, sizes: Ids, labels: Ids, request: PairFiles
) -> list[str]:
    """Move about a tenth of the pairs from the training set to each set without a file.

    The test set gets the longest sources, the development set random ones, with labels
    in about the same proportion. Lines with equal sources stay together, and a source with each
    label stays in the training set.

    Args:
        lines: all lines, whose `parts` are changed.
        sources: [n] the hash of each source.
        sizes: [n] the length of each source.
        labels: [n] the label of each source, or equal numbers for all if targets are no labels.
        request: the sets that have files, and the random seed.

    Returns:
        A sentence on each set.

    Raises:
        UsageError: there are too few distinct sources.
    """
    notes = []
    name, all_training = lines.names[TRAIN], int((lines.parts == TRAIN).sum())
    wanted = max(1, all_training // HELD_OUT)
    for part, file in ((TEST, request.test), (DEV, request.dev)):
        if file is not None:
            continue
        rows = np.flatnonzero(lines.parts == TRAIN)
        group = _numbered_by_first_appearance(sources[rows])
        first = rows[np.unique(group, return_index=True)[1]]
        places = -sizes[first] if part == TEST else _drawn_places(labels[first], request.split)
        falling = np.lexsort((group, places[group]))[::-1]
        _, last_lines = np.unique(labels[rows][falling], return_index=True)
        kept = group[falling[last_lines]]  # the source in the last place with each label
        order = np.lexsort((group, places[group], np.isin(group, kept)))
        ends = np.flatnonzero(np.diff(group[order], append=-1)) + 1  # of the lines of each source
        many = len(kept)  # sources to train on
        left = many + (part == TEST and request.dev is None)  # one for the development set
        last = min(int(np.searchsorted(ends, wanted)), len(ends) - 1 - left)
        if last < 0:
            need = many + (request.test is None) + (request.dev is None)
            raise UsageError(
                f"{name}: too few distinct sources to hold some out; expected at least {need}, "
                "or files for the development and test sets"
            )
        taken = rows[order[: ends[last]]]
        lines.parts[taken] = part
        how = "the longest" if part == TEST else f"at random (seed {request.split})"
        if part == TEST and sizes[first[kept]].max() > sizes[taken].min():
            how += ", but for one with each label"
        verb = "is" if len(taken) == 1 else "are"
        different = f"{counted(last + 1, 'different source')}, " if last + 1 < len(taken) else ""
        content = f"{different}lengths {Lengths(sizes[taken].min(), sizes[taken].max())}"
        notes.append(
            f"{name}: {len(taken):,} of {all_training:,} pairs, {how}, {verb} held out as the "
            f"{SET_NAMES[part]} set ({content})"
        )
    return notes


def _drawn_places(labels: Ids, seed: int) -> npt.NDArray[np.float64]:
    """[m] numbers from 0 to 1 that put m distinct sources in a random order, stratified by label.

    The number is the share of the sources with the same label that come before.

    Args:
        labels: [m] the label of each source: that of its first line.
        seed: the random seed.
    """
    drawn, places = generator(seed, Purpose.SPLIT).permutation(len(labels)), np.zeros(len(labels))
    for label in np.unique(labels):
        same = np.flatnonzero(labels == label)
        places[same[np.argsort(drawn[same])]] = np.arange(len(same)) / len(same)
    return places


def _numbered_by_first_appearance(keys: Ids) -> Ids:
    """[n] for each key the number of distinct keys before its first appearance."""
    # The order of the keys themselves, which are hashes, differs between processes.
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    numbers = np.empty(len(first), dtype=np.int64)
    numbers[np.argsort(first)] = np.arange(len(first))
    return numbers[group]
