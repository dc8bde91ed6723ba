"""What a network does without: memories that no answer depends on.

A memory that is pushed to and popped for no reason makes steps differ that are the same in all that
counts, and there are more of them the more it holds. So it is shut before anything is learned of
the network, if the answers are the same without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from stacktrans.common.ends import Ends
from stacktrans.extraction.agreement import answers_of
from stacktrans.extraction.strings import Tried
from stacktrans.model.ablation import without_signals
from stacktrans.model.checkpoint import Checkpoint
from stacktrans.tasks.alphabets import Ids

AT_ONCE = 50
"""How many strings are answered before it is asked whether all answers were the same."""


def simplified(checkpoint: Checkpoint, ends: Ends, strings: Sequence[Tried]) -> Checkpoint:
    """The model without what it does not need.

    Args:
        checkpoint: of the model.
        ends: of its memory.
        strings: those whose answers have to stay the same, the most telling ones first.
    """
    parts = [strings[first : first + AT_ONCE] for first in range(0, len(strings), AT_ONCE)]
    right = [_answers(checkpoint, part) for part in parts]

    def answers_alike(tried: Checkpoint) -> bool:
        return all(
            _same(_answers(tried, part), own) for part, own in zip(parts, right, strict=True)
        )

    for pushes in _pushes_to_each(ends):
        if answers_alike(tried := without_signals(checkpoint, pushes)):
            checkpoint = tried
    return checkpoint


def _pushes_to_each(ends: Ends) -> Iterator[list[int]]:
    """The signals that push to each memory; those of the last come first."""
    for alphabet in sorted(set(ends.alphabets), reverse=True):
        yield [signal for signal, end in ends.pushes if ends.alphabets[end // 2] == alphabet]


def _answers(checkpoint: Checkpoint, strings: Sequence[Tried]) -> list[Ids | None]:
    return answers_of(checkpoint, checkpoint.predictor.made_hard(True), strings)


def _same(ones: Sequence[Ids | None], others: Sequence[Ids | None]) -> bool:
    return all(
        one is not None and other is not None and np.array_equal(one, other)
        for one, other in zip(ones, others, strict=True)
    )
