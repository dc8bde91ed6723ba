"""Evaluation of a model on drawn strings, held-out sets and given pairs, by ranges of lengths."""

import contextlib
import functools
import operator
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from stacktrans.common.errors import UsageError
from stacktrans.common.randomness import Purpose, generator
from stacktrans.common.reading import name_of
from stacktrans.inference.baselines import baseline_scores
from stacktrans.inference.scores import Scores, checkpoint_scores
from stacktrans.model.checkpoint import Checkpoint
from stacktrans.tasks.base import Task, held_out_pairs, random_subset
from stacktrans.tasks.layout import Pair
from stacktrans.tasks.lengths import LengthDistribution, Lengths, NoSuchLength
from stacktrans.tasks.pairs import Pairs
from stacktrans.tasks.written_pairs import pairs_of_strings, read_pairs

BLOCK = 250
"""Strings that are drawn and scored at a time, which bounds the memory needed."""


@dataclass(frozen=True, kw_only=True)
class EvalRequest:
    """The strings that a model is evaluated on.

    Attributes:
        data: pairs as written, or a file of them. Unless given, strings are drawn, or are those of
            the held-out files.
        bounds: ranges of lengths; unless given, all of the pairs, or the task's own ranges.
        test_only: whether only the test range, or the test set, is used by default.
        count: maximum number of strings of each range; by default 1000 drawn strings, or all pairs.
        each: whether `count` strings of every length are drawn, 100 by default.
        depth: maximum depth of derivations.
        seed: random seed of the drawn strings.
        beam: width of the beam; see `checkpoint_scores`.
        n_best: the number of best answers among which targets are ranked, no more than `beam`.
        baselines: whether the answers of baselines to pairs are scored, too, if the files that a
            model was trained on are there.
        prefix: of the names of options in messages.
    """

    data: str | os.PathLike[str] | Sequence[Sequence[str] | Mapping[str, str]] | None = None
    bounds: Sequence[Lengths] = ()
    test_only: bool = False
    count: int | None = None
    each: bool = False
    depth: int | None = None
    seed: int = 1
    beam: int | None = None
    n_best: int | None = None
    baselines: bool = False
    prefix: str = ""


def evaluate(checkpoint: Checkpoint, request: EvalRequest) -> list[tuple[Lengths, Scores]]:
    """The scores of a model on each requested range of lengths.

    Raises:
        StacktransError: there are no such strings, or something is not a pair.
        UsageError: the model is of a text, or the request contradicts itself.
    """
    config, task = checkpoint.config.task, checkpoint.task
    if config.lengths is None:
        raise UsageError("a language model has no accuracy, but a perplexity")
    if request.data is None and not task.file_parameters:
        test = config.lengths.test
        usual = [test] if request.test_only else [config.lengths.train, test]
        wanted: Sequence[Lengths | None] = request.bounds or ([None] if request.depth else usual)
        ranges = [config.range_of(task, bounds, request.depth, test) for bounds in wanted]
        return [
            (range_, scores_of_range(checkpoint, range_, law, request)) for range_, law in ranges
        ]
    for name in ("each", "depth"):
        if getattr(request, name):
            raise UsageError(f"{request.prefix}{name}: for strings that are drawn, not for pairs")
    if request.data is None:
        sets = task.held_out()
        chosen = {"test": sets["test"]} if request.test_only else sets
        return scores_of_pairs(checkpoint, chosen, request, "held-out pairs")
    if isinstance(request.data, str | os.PathLike):
        path = Path(request.data)
        pairs, where = read_pairs(path, task), name_of(path)
    else:
        pairs, where = pairs_of_strings(request.data, task), "data"
    return scores_of_pairs(checkpoint, {"": pairs}, request, where)


def scores_of_range(
    checkpoint: Checkpoint, lengths: Lengths, law: LengthDistribution, request: EvalRequest
) -> Scores:
    """The scores of strings that are drawn from a range of lengths.

    For pairs in files, those of the test set are scored, all of them unless the request has a
    count.

    Raises:
        NoSuchLength: the task has no string of such a length.
    """
    task = checkpoint.task
    if task.file_parameters:
        pairs = random_subset(task, held_out_pairs(task, lengths), request.count, request.seed)
        return _scores_of(checkpoint, pairs, request)
    each, count = request.each, request.count or (100 if request.each else 1000)
    every = range(lengths.shortest, lengths.longest + 1)
    blocks = []
    for part in [Lengths(length, length) for length in every] if each else [lengths]:
        with contextlib.suppress(NoSuchLength) if each else contextlib.nullcontext():
            for start in range(0, count, BLOCK):
                # By length, or longer strings would begin like shorter ones.
                key = [start, *([part.shortest] if each else [])]
                rng = generator(request.seed, Purpose.EVALUATION, *key)
                pairs = task.sample(rng, part, min(BLOCK, count - start), law)
                blocks.append(_scores_of(checkpoint, pairs, request))
    if not blocks:
        raise NoSuchLength(f"the task has no string of length {lengths}")
    return functools.reduce(operator.add, blocks)


def scores_of_pairs(
    checkpoint: Checkpoint, sets: Mapping[str, Sequence[Pair]], request: EvalRequest, where: str
) -> list[tuple[Lengths, Scores]]:
    """The scores of each set within each range of lengths, or of all its pairs without ranges.

    Args:
        checkpoint: the model.
        sets: pairs, by the name that the scores of a set have.
        request: the ranges, and how pairs are scored.
        where: the name of all sets, with which messages begin.

    Raises:
        UsageError: a set is empty, or none has a pair of some range.
    """
    if not all(sets.values()):
        raise UsageError(f"{where}: no pairs")
    parts = [
        (name, *part)
        for name, pairs in sets.items()
        for part in _by_range(checkpoint.task, pairs, request)
    ]
    for range_ in request.bounds:
        if not any(chosen for _, bounds, chosen in parts if bounds == range_):
            raise UsageError(f"{where}: no source has a length of {range_}")
    return [
        (range_, _scores_of(checkpoint, chosen, request, name))
        for name, range_, chosen in parts
        if chosen
    ]


def _scores_of(
    checkpoint: Checkpoint, pairs: Sequence[Pair], request: EvalRequest, name: str = ""
) -> Scores:
    """The scores of pairs, with those of baselines if they are requested and possible."""
    task = checkpoint.task
    training = task.training_pairs() if request.baselines and isinstance(task, Pairs) else None
    # Baselines have an error rate, so that the model beside them needs answers, too.
    beam = request.beam or (1 if training else None)
    scores = checkpoint_scores(checkpoint, pairs, beam, name, request.n_best)
    return replace(scores, baselines=baseline_scores(task, training, pairs)) if training else scores


def _by_range(
    task: Task, pairs: Sequence[Pair], request: EvalRequest
) -> list[tuple[Lengths, list[Pair]]]:
    """Ranges of lengths, each with pairs in it, or some of them; one of all without bounds."""
    if not request.bounds:
        chosen = random_subset(task, pairs, request.count, request.seed)
        lengths = [pair.length for pair in chosen]
        return [(Lengths(min(lengths), max(lengths)), chosen)]
    parts, pairs = [], [*pairs]  # iterating over a set creates new pairs each time
    for range_ in request.bounds:
        within = [pair for pair in pairs if range_.includes(pair.length)]
        parts.append((range_, random_subset(task, within, request.count, request.seed)))
    return parts
