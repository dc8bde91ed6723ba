"""Baselines for pairs in files: answers that need no model, only the training pairs."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from stacktrans.common.ragged import Ragged
from stacktrans.decoding.decoder import Answer
from stacktrans.inference.predictions import compared
from stacktrans.inference.scores import Scores, counted_pairs
from stacktrans.tasks.alphabets import NO_OUTPUT, Ids
from stacktrans.tasks.base import Task, random_subset
from stacktrans.tasks.layout import Pair
from stacktrans.tasks.pair_alphabets import Feature
from stacktrans.tasks.sets import PairSet

MAX_SYMBOLS = 200_000_000
"""The most scored sources times symbols of training sources, compared in about a second."""
ROWS = 64
"""Sources that are compared with all training sources at a time, which bounds the memory needed."""


def baseline_scores(task: Task, training: PairSet, pairs: Sequence[Pair]) -> dict[str, Scores]:
    """The scores of answers that need no model, by how they are found.

    They are: a copy of the source without its features (not for labels); the target of the training
    source with the smallest edit distance, features included; and the most frequent training
    target. Ties go to the first. Of many pairs, only a random choice is scored.
    """
    most = max(1, MAX_SYMBOLS // max(1, len(training.sources.values)))
    chosen = random_subset(task, pairs, most, seed=0)
    targets = [*map(bytes, training.targets)]
    ((frequent, _),) = Counter(targets).most_common(1)
    rows = [*_nearest(training.sources, [pair.source for pair in chosen]), targets.index(frequent)]
    *nearest, most = (training.targets[row].tolist() for row in rows)
    copies = {} if task.layout.labels else {"copied source": [_copy(task, each) for each in chosen]}
    others = {"nearest source": nearest, "most frequent target": [most] * len(chosen)}
    answers = copies | others
    return {name: _scores(task, chosen, found) for name, found in answers.items()}


def _copy(task: Task, pair: Pair) -> list[int]:
    """A source as an answer; symbols that targets do not have count as wrong, as in any answer."""
    symbols = [each for each in task.source.decode(pair.source) if not isinstance(each, Feature)]
    return [NO_OUTPUT if at < 0 else at for at in task.target.encode_leniently(symbols).tolist()]


def _nearest(training: Ragged, sources: Sequence[Ids]) -> Iterator[int]:
    """The row of the first nearest training source of each source."""
    from rapidfuzz.distance import Levenshtein  # waits until it is needed
    from rapidfuzz.process import cdist

    known, given = _texts(training), _texts(Ragged.of(sources))
    for first in range(0, len(given), ROWS):
        distances = cdist(given[first : first + ROWS], known, scorer=Levenshtein.distance)
        yield from distances.argmin(axis=1).tolist()


def _texts(strings: Ragged) -> list[str]:
    """Strings of ids as texts, which are compared faster."""
    text = strings.values.astype("<u4").tobytes().decode("utf-32-le", "surrogatepass")
    return [text[begin:end] for begin, end in pairwise(strings.starts.tolist())]


def _scores(task: Task, pairs: Sequence[Pair], answers: Sequence[list[int]]) -> Scores:
    """The scores of answers, symbols and ends of which do not depend on those before."""
    found, ends = np.empty(len(pairs), np.object_), task.layout.end is not None
    both = [*zip(pairs, answers, strict=True)]
    found[:] = [compared(task, task.layout, pair, [Answer(each, 0.0, True)]) for pair, each in both]
    fine, lengths = [each.fine for each in found], [pair.length for pair in pairs]
    ended = [ends and len(each) == len(pair.target) for pair, each in both]
    right, scored = np.array([(each.position_matches, each.symbols + ends) for each in found]).T
    scores = Scores(np.array(lengths), np.array(fine), right + ended, scored, 0 * scored, found)
    return scores.of(counted_pairs(task, pairs, scores.fine))
