"""What a model says to sources of its own accord, beside what it should say."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from stacktrans.decoding.beam import search
from stacktrans.decoding.decoder import Answer
from stacktrans.model.checkpoint import Checkpoint
from stacktrans.tasks.base import with_marks
from stacktrans.tasks.layout import Pair
from stacktrans.tasks.lines import written_fields


@dataclass(frozen=True)
class Prediction:
    """A model's answer to a source with a known target.

    Attributes:
        source: as it is written; `target` and `answer` in the same way, the answer with `·` for
            symbols that are not scored.
        right: whether the answer is the target, and was ended there.
        first_wrong: of a wrong answer, the first place that differs from the target's, from 1; one
            after the target's last symbol if the answer is longer, or was not ended. None of a
            right one.
        edits: the fewest symbols to insert, delete or replace in the answer to make it the target
            (Levenshtein's distance), of those that are scored.
        symbols: how many of the target's symbols are scored.
        fine: the share of the target, its end included, that was said before the first error.
        pair: source and target as ids.
    """

    source: str
    target: str
    answer: str
    right: bool
    first_wrong: int | None
    edits: int
    symbols: int
    fine: float = field(repr=False)
    pair: Pair = field(repr=False, compare=False)


def predictions(
    checkpoint: Checkpoint, pairs: Sequence[Pair], known: npt.NDArray[np.bool_], beam: int
) -> list[Prediction]:
    """What a model says to the sources of pairs, each by itself, in their order.

    An answer is not cut off before its target would end.

    Args:
        checkpoint: the model.
        pairs: sources and targets.
        known: [n] the pairs whose targets the model is known to say: only the others are answered.
        beam: the width of the beam that searches for answers; greedy ones with 1.
    """
    found = {
        index: Answer([*pairs[index].target], 0.0, True) for index in np.flatnonzero(known).tolist()
    }
    asked: dict[int | None, list[int]] = {}
    for index in np.flatnonzero(~known).tolist():
        if not pairs[index].known:
            found[index] = Answer([], 0.0, False)
            continue
        asked.setdefault(_limit(checkpoint, pairs[index]), []).append(index)
    for limit, group in asked.items():
        sources = [pairs[index].source for index in group]
        answers = search(checkpoint.predictor, checkpoint.layout, sources, beam, limit=limit)
        found.update(zip(group, (best for best, *_ in answers), strict=True))
    return [_compared(checkpoint, pair, found[index]) for index, pair in enumerate(pairs)]


def _limit(checkpoint: Checkpoint, pair: Pair) -> int | None:
    """The most symbols of an answer; None for as many as usual."""
    layout, needed = checkpoint.layout, len(pair.target)
    if not layout.feeds_back:
        return None
    return needed if needed > layout.limit(len(pair.source)) else None


def _compared(checkpoint: Checkpoint, pair: Pair, answer: Answer) -> Prediction:
    """An answer beside its target."""
    from rapidfuzz.distance import Levenshtein  # waits until it is needed

    task = checkpoint.task
    counts_end = checkpoint.layout.end is not None
    said, ended = ([], False) if answer.failed else (answer.target, answer.ended)
    target: list[int] = pair.target.tolist()
    written, edits = task.target.decode(said), Levenshtein.distance(said, target)
    places = [*range(len(target))]
    if pair.scored is not None:  # a symbol for each symbol, or none
        places = np.flatnonzero(pair.scored).tolist()
        own = [said[place] for place in places] if said else []
        edits = Levenshtein.distance(own, [target[place] for place in places])
        written = with_marks(written, pair.scored) if said else []
    wrong = _wrong(said, target, places, ended)
    in_turn = checkpoint.layout.in_turn
    turned = [in_turn(np.array(each)).tolist() for each in (said, target)]
    first = _wrong(turned[0], turned[1], places, ended)[:1]
    before = sum(place < first[0] for place in places) if first else 0
    by_column = dict(zip(task.columns, written_fields(task, pair), strict=True))
    target_written = by_column.pop("target")
    return Prediction(
        "\t".join(by_column.values()),
        target_written,
        task.target.join(written),
        not wrong,
        wrong[0] + 1 if wrong else None,
        edits,
        len(places),
        before / max(len(places) + counts_end, 1) if wrong else 1.0,
        pair,
    )


def _wrong(said: list[int], target: list[int], places: list[int], ended: bool) -> list[int]:
    """The places of a target at which something else is said; that of its end is after the last."""
    wrong = [place for place in places if said[place : place + 1] != target[place : place + 1]]
    whole = ended and len(said) == len(target)
    return wrong if whole else [*wrong, len(target)]
