"""Answers of a model to the sources of pairs, beside their targets."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from stacktrans.decoding.beam import search
from stacktrans.decoding.decoder import Answer
from stacktrans.inference.edits import Edit, edits_of
from stacktrans.model.checkpoint import Checkpoint
from stacktrans.tasks.base import Task, mask_unscored
from stacktrans.tasks.layout import Layout, Pair
from stacktrans.tasks.lines import written_fields


@dataclass(frozen=True)
class Prediction:
    """A model's answer to a source, beside the source's target.

    Attributes:
        source: as it is written.
        target: as it is written.
        answer: as it is written, with `·` for symbols that are not scored.
        right: whether the answer is the target, and was ended there.
        first_wrong: position, from 1, of the first error of a wrong answer; one after the target's
            last symbol if the answer is longer, or was not ended. None if the answer is right.
        alignment: the fewest edits that turn the target into the answer, over the scored symbols.
        symbols: number of scored symbols of the target.
        position_matches: number of these that the answer has at the same positions.
        fine: share of the target, its end included, that was output before the first error.
        pair: source and target as ids.
        ended: whether the model ended the answer; None if it has none.
        log_probability: of the whole answer, in nats; None if it has none.
        rank: of the target among the best answers that were searched for, from 1; None if it is not
            one of them.
    """

    source: str
    target: str
    answer: str
    right: bool
    first_wrong: int | None
    alignment: tuple[Edit, ...] = field(repr=False)
    symbols: int
    position_matches: int
    fine: float = field(repr=False)
    pair: Pair = field(repr=False, compare=False)
    ended: bool | None = field(default=True, repr=False, compare=False)
    log_probability: float | None = field(default=None, compare=False)
    rank: int | None = field(default=None, repr=False, compare=False)

    @property
    def edits(self) -> int:
        """Levenshtein distance of answer and target, over the scored symbols."""
        return len(self.alignment)


def predictions(
    checkpoint: Checkpoint,
    pairs: Sequence[Pair],
    beam: int = 1,
    known: npt.NDArray[np.float64] | None = None,
    n_best: int = 1,
) -> list[Prediction]:
    """A model's answers to the sources of pairs, each by itself, in their order.

    An answer is not cut off before its target would end.

    Args:
        checkpoint: the model.
        pairs: sources and targets.
        beam: the width of the beam that searches for answers; greedy ones with 1.
        known: [n] log-probabilities of answers known to be right, which are not decoded again; NaN
            for others.
        n_best: the number of best answers among which targets are ranked.
    """
    task, layout, answers = checkpoint.task, checkpoint.layout, dict[int, Sequence[Answer]]()
    by_limit: dict[int | None, list[int]] = {}  # None for the layout's limit
    for index, pair in enumerate(pairs):
        if known is not None and not np.isnan(known[index]):
            answers[index] = [Answer(pair.target.tolist(), float(known[index]), True)]
        elif not pair.in_vocabulary:
            answers[index] = [Answer([], math.nan, False)]
        else:
            needed = len(pair.target)
            usual = not layout.feeds_back or needed <= layout.limit(len(pair.source))
            by_limit.setdefault(None if usual else needed, []).append(index)
    for limit, group in by_limit.items():
        sources = [pairs[index].source for index in group]
        hypotheses = search(checkpoint.predictor, layout, sources, beam, n_best, limit)
        answers.update(zip(group, hypotheses, strict=True))
    return [compared(task, layout, pair, answers[index]) for index, pair in enumerate(pairs)]


def compared(task: Task, layout: Layout, pair: Pair, hypotheses: Sequence[Answer]) -> Prediction:
    """The best of some answers beside its target."""
    answer = hypotheses[0]
    output, ended = ([], False) if answer.failed else (answer.target, answer.ended)
    target: list[int] = pair.target.tolist()
    shown, expected, kept = task.target.decode(output), target, output
    scored = [*range(len(target))]
    if pair.scored is not None:  # the answer has a symbol for each of the target's, or none
        scored = np.flatnonzero(pair.scored).tolist()
        kept = [output[index] for index in scored] if output else []
        expected = [target[index] for index in scored]
        shown = mask_unscored(shown, pair.scored) if output else []
    errors = _errors(output, target, scored, ended)
    others = (_errors(each.target, target, scored, each.ended) for each in hypotheses[1:])
    ranks = [rank for rank, wrong in enumerate((errors, *others), start=1) if not wrong]
    as_output, as_expected = (
        layout.in_reading_order(np.array(ids)).tolist() for ids in (output, target)
    )
    first = _errors(as_output, as_expected, scored, ended)[:1]
    before = sum(index < first[0] for index in scored) if first else 0
    written = written_fields(task, pair)
    target_written = written.pop("target")
    return Prediction(
        source="\t".join(written.values()),
        target=target_written,
        answer=task.target.join(shown),
        right=not errors,
        first_wrong=errors[0] + 1 if errors else None,
        alignment=tuple(edits_of(task.target, expected, kept)),
        symbols=len(scored),
        position_matches=sum(output[at : at + 1] == target[at : at + 1] for at in scored),
        fine=before / max(len(scored) + (layout.end is not None), 1) if errors else 1.0,
        pair=pair,
        ended=None if answer.failed else answer.ended,
        log_probability=None if answer.failed else answer.log_probability,
        rank=ranks[0] if ranks else None,
    )


def _errors(output: list[int], target: list[int], scored: list[int], ended: bool) -> list[int]:
    """The scored indices at which an output is not its target; a wrong end follows the last one."""
    wrong = [at for at in scored if output[at : at + 1] != target[at : at + 1]]
    complete = ended and len(output) == len(target)
    return wrong if complete else [*wrong, len(target)]
