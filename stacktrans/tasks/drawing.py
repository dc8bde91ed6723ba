"""Pairs of a task that are drawn to be written down."""

from collections.abc import Iterator

from stacktrans.common.randomness import Purpose, generator
from stacktrans.tasks.base import LengthLaw, Lengths, Task
from stacktrans.tasks.layouts import Pair

_BLOCK = 100
"""Pairs that are drawn at once, so that a longer list begins with the shorter one."""


def drawn_pairs(
    task: Task, lengths: Lengths, count: int, seed: int, law: LengthLaw
) -> Iterator[Pair]:
    """So many pairs of a task.

    Args:
        task: what draws them.
        lengths: of their sources.
        count: how many.
        seed: which.
        law: how lengths are spread.

    Raises:
        NoSuchLength: the task has none of these lengths.
        NoSuchLaw: it has none that are spread like this.
    """
    for start in range(0, count, _BLOCK):
        rng = generator(seed, Purpose.GENERATION, start)
        yield from task.sample(rng, lengths, _BLOCK, law)[: count - start]
