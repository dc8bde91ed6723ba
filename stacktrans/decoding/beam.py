"""Beam search: the most probable answers, and not the most probable symbol at each step.

All hypotheses of all sources of one length are run side by side. At each step as many of each
source are kept as the beam is wide, the most probable: those that have ended, and the continuations
of the others (sutskever2014, section 3.2). The score is the logarithm of an answer's probability.
It is not divided by the length, as is done where models end too soon: it would no longer say how
probable an answer is. And as nothing is more probable than what it continues, what has ended and
is first can't be overtaken.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from stacktrans.common.errors import UsageError
from stacktrans.common.ragged import STEPS_AT_ONCE, Ragged, batches_of
from stacktrans.decoding.decoder import NONE, STEPS_IN_A_PIECE, Answer, decode, log_softmax
from stacktrans.decoding.model import Model, Numbers
from stacktrans.tasks.alphabets import Ids, Mask
from stacktrans.tasks.layout import Layout

WIDEST = 4096
"""The most hypotheses of a source that are kept."""


def search(
    model: Model,
    layout: Layout,
    sources: Sequence[Ids],
    width: int,
    best: int = 1,
    limit: int | None = None,
    logs: bool = True,
) -> list[list[Answer]]:
    """The most probable answers to sources that are found, for each the best first.

    A beam of width 1 finds the greedy answers, and so does any where a model does not read its
    outputs, or is certain of them: then there is nothing to search, and one answer to each source.

    Args:
        model: what answers.
        layout: of its task.
        sources: ids of source symbols.
        width: how many hypotheses of each source are kept at each step.
        best: the most answers to each source, no more than `width`.
        limit: as for `decode`. The score of an answer that is cut off is that of its symbols.
        logs: whether probabilities are asked for where nothing is searched by them.

    Raises:
        UsageError: the beam is wider than `WIDEST`.
    """
    if width > WIDEST:
        raise UsageError(f"a beam of {width}: expected at most {WIDEST}")
    if width == 1 or model.certain or not layout.feeds_back:
        return [[answer] for answer in decode(model, layout, sources, limit, logs)]
    given = Ragged.of(sources)
    lengths, limits, prompts = (
        given.lengths,
        layout.limit(given.lengths, limit),
        layout.prompts(given),
    )
    answers: dict[int, list[Answer]] = {}
    for group in batches_of((lengths + limits + 2).tolist(), STEPS_AT_ONCE // width):
        for length in np.unique(lengths[group]):
            same = [index for index in group if lengths[index] == length]
            own = np.stack([prompts[index] for index in same])
            found = _search(model, layout, own, width, best, int(limits[same[0]]))
            answers.update(zip(same, found, strict=True))
    return [answers[index] for index in range(len(sources))]


class _Beam(NamedTuple):
    """K hypotheses of each of N sources, the most probable first.

    Attributes:
        scores: [N, K] the logarithms of their probabilities; -inf where there is none.
        running: [N, K] which of them have not ended.
        parents: [N, K] which hypothesis of the step before each continues, or is.
        symbols: [N, K] what it says after it; `NONE` for nothing.
    """

    scores: Numbers
    running: Mask
    parents: Ids
    symbols: Ids

    @classmethod
    def first(cls, count: int, width: int) -> "_Beam":
        """The empty answer alone."""
        scores = np.full((count, width), -np.inf)
        scores[:, 0] = 0
        ids = np.full((count, width), NONE)
        return cls(scores, scores == 0, ids, ids)

    def next(self, logs: Numbers, layout: Layout) -> "_Beam":
        """The most probable after a step, by the logarithms [N, K, outputs] of each output."""
        count, width = self.scores.shape
        found = _highest(logs, min(width, logs.shape[2]))
        each = found.shape[2]
        values = np.take_along_axis(logs, found, axis=2)
        continued = np.where(self.running[..., None], self.scores[..., None] + values, -np.inf)
        stayed = np.where(self.running, -np.inf, self.scores)
        scores = np.concatenate([stayed, continued.reshape(count, -1)], axis=1)
        nothing = np.full_like(self.symbols, NONE)
        said = np.concatenate([nothing, found.reshape(count, -1)], axis=1)
        scores, order = _sorted(scores)
        scores, order = scores[:, :width], order[:, :width]
        symbols, later = np.take_along_axis(said, order, axis=1), order - width
        parents = np.where(later < 0, order, later // each)
        # A score that is not a number runs no further: it would be the highest for ever.
        running = (later >= 0) & (scores > -np.inf) & (symbols != layout.end)
        symbols = np.where(symbols == layout.end, NONE, symbols)
        return _Beam(scores, running & (symbols != layout.last), parents, symbols)

    def cut_off(self, logs: Numbers, layout: Layout) -> "_Beam":
        """The same after the last step: each ends if that is most probable, or else is cut off."""
        best = logs.argmax(axis=2)
        ending = self.running & (best == layout.end)
        values = np.take_along_axis(logs, best[..., None], axis=2)[..., 0]
        # What is not a number must not go unsaid.
        counted = ending | (self.running & np.isnan(values))
        scores, order = _sorted(np.where(counted, self.scores + values, self.scores))
        running = np.take_along_axis(self.running & ~ending, order, axis=1)
        return _Beam(scores, running, order, np.full_like(order, NONE))


def _highest(logs: Numbers, count: int) -> Ids:
    """The indices of the highest numbers of [..., n], the highest first, NaN before all others."""
    order: Ids = np.argsort(np.where(np.isnan(logs), -np.inf, -logs), axis=-1, kind="stable")
    return order[..., :count]


def _sorted(scores: Numbers) -> tuple[Numbers, Ids]:
    """Scores [N, K], the highest first, and where they stood.

    Of equally probable ones those that stood before others still do.
    """
    order = _highest(scores, scores.shape[1])
    return np.take_along_axis(scores, order, axis=1), order


def _search(
    model: Model, layout: Layout, prompts: Ids, width: int, best: int, limit: int
) -> list[list[Answer]]:
    """The best answers to prompts of one length, [N, T], found side by side."""
    count, first = len(prompts), layout.first_target or 0
    state = model.start(count, prompts.shape[1])
    for piece in _pieces(prompts):
        requested = np.zeros(piece.shape, np.bool_)
        requested[:, -1] = True
        logits = model.advance(state, piece, requested)
    rows = np.arange(count)[:, None]
    chosen = np.repeat(rows, width, axis=1)
    logits = logits[chosen.ravel()]
    beams = [_Beam.first(count, width)]
    while True:
        state = model.select(state, chosen.ravel())
        if len(beams) > 1:
            inputs = np.where(beams[-1].running, beams[-1].symbols + first, 0)
            logits = model.advance(state, inputs.reshape(-1, 1))
        logs = log_softmax(logits).reshape(count, width, -1)
        if len(beams) > limit:
            beams.append(beams[-1].cut_off(logs, layout))
            break
        beams.append(beams[-1].next(logs, layout))
        if not beams[-1].running[:, :best].any():
            break
        chosen = rows * width + beams[-1].parents
    return _answers(layout, beams, best)


def _pieces(prompts: Ids) -> Iterator[Ids]:
    size = max(1, STEPS_IN_A_PIECE // len(prompts))
    for start in range(0, prompts.shape[1], size):
        yield prompts[:, start : start + size]


def _answers(layout: Layout, beams: Sequence[_Beam], best: int) -> list[list[Answer]]:
    """The best of the last hypotheses, with all of their symbols."""
    place = np.repeat(np.arange(best)[None], len(beams[0].scores), axis=0)
    found = []
    for beam in reversed(beams[1:]):
        found.append(np.take_along_axis(beam.symbols, place, axis=1))
        place = np.take_along_axis(beam.parents, place, axis=1)
    symbols = np.stack(found[::-1], axis=2)
    scores, running = (part[:, :best].tolist() for part in beams[-1][:2])
    return [
        [
            Answer(
                layout.in_reading_order(row[row != NONE]).tolist(),
                score,
                not (layout.ends_answers and goes_on),
            )
            for row, score, goes_on in zip(*of_source, strict=True)
            if score != -np.inf
        ]
        for of_source in zip(symbols, scores, running, strict=True)
    ]
