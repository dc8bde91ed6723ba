"""What `eval` measures: strings that are drawn, or a file of pairs."""

from collections.abc import Iterator, Sequence

from stacktrans.common.errors import UsageError
from stacktrans.common.randomness import Purpose, generator
from stacktrans.inference.evaluation import Scores, score
from stacktrans.model.checkpoint import Checkpoint
from stacktrans.settings.config import TaskConfig
from stacktrans.tasks.base import DepthLimit, LengthLaw, Lengths, NoSuchLength, Task
from stacktrans.tasks.layouts import Pair

BLOCK = 250
"""Strings that are drawn and measured at once, so that no more are held."""


def ranges(
    config: TaskConfig,
    task: Task,
    bounds: Sequence[Lengths],
    usual: Sequence[Lengths],
    depth: int | None,
) -> list[tuple[Lengths, LengthLaw]]:
    """Ranges of lengths, each with how they are spread: those asked for, or else the usual."""
    if depth is None:
        return [(range_, config.law_of(range_)) for range_ in bounds or usual]
    law = DepthLimit(depth)
    return [(range_, law) for range_ in bounds or [task.lengths_within(law)]]


def scores_of_range(
    checkpoint: Checkpoint, lengths: Lengths, law: LengthLaw, count: int, seed: int
) -> Scores:
    """The scores of `count` strings that are drawn from a range."""
    blocks = _drawn(checkpoint.task, lengths, law, count, seed)
    return _joined(score(checkpoint.model, checkpoint.layout, pairs) for pairs in blocks)


def scores_of_each(
    checkpoint: Checkpoint, lengths: Lengths, law: LengthLaw, count: int, seed: int
) -> Scores:
    """The scores of `count` strings of every length within a range that the task has."""
    there = [
        Lengths(length, length)
        for length in range(lengths.shortest, lengths.longest + 1)
        if _exists(checkpoint.task, length, law)
    ]
    if not there:
        raise NoSuchLength(f"the task has no length in {lengths}")
    return _joined(scores_of_range(checkpoint, length, law, count, seed) for length in there)


def _exists(task: Task, length: int, law: LengthLaw) -> bool:
    try:
        task.sample(generator(0, Purpose.EVALUATION), Lengths(length, length), 1, law)
    except NoSuchLength:
        return False
    return True


def _drawn(
    task: Task, lengths: Lengths, law: LengthLaw, count: int, seed: int
) -> Iterator[list[Pair]]:
    for start in range(0, count, BLOCK):
        rng = generator(seed, Purpose.EVALUATION, start)
        yield task.sample(rng, lengths, min(BLOCK, count - start), law)


def _joined(parts: Iterator[Scores]) -> Scores:
    total = next(parts)
    for part in parts:
        total = total + part
    return total


def scores_of_pairs(
    checkpoint: Checkpoint, pairs: Sequence[Pair], bounds: Sequence[Lengths], name: str
) -> list[tuple[Lengths, Scores]]:
    """The scores of pairs, by ranges of lengths; of one range if none is given.

    Raises:
        UsageError: there are none, or none of some range; the message begins with their name.
    """
    if not pairs:
        raise UsageError(f"{name}: no pairs")
    scores = score(checkpoint.model, checkpoint.layout, pairs)
    found = Lengths(int(scores.lengths.min()), int(scores.lengths.max()))
    results = [(range_, scores.of_lengths(*range_)) for range_ in bounds or [found]]
    for range_, within in results:
        if not within.count:
            raise UsageError(f"lengths {range_}: {name} has no source of such a length")
    return results
