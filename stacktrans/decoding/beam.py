"""Beam search: the most probable answers, rather than the most probable symbol at each step.

All hypotheses of all sources of one length are advanced in one batch. At each step the beam keeps
the most probable of each source, up to its width: those that have ended, and the continuations of
the others (sutskever2014, section 3.2). The score is the log-probability of an answer, without the
usual division by its length, so that it still is a probability. Since no continuation is more
probable than its prefix, a finished hypothesis that ranks first cannot be overtaken.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from stacktrans.common.errors import UsageError
from stacktrans.common.ragged import STEPS_AT_ONCE, Ragged, batches_of
from stacktrans.decoding.decoder import (
    Answer,
    advance_in_chunks,
    decode,
    expected_steps,
    log_softmax,
    steps_at_once,
)
from stacktrans.decoding.model import Model, Numbers
from stacktrans.tasks.alphabets import Ids, Mask
from stacktrans.tasks.layout import Layout

MAX_WIDTH = 4096
"""The most hypotheses of a source that are kept."""
NO_SYMBOL = -1
"""The continuation of a hypothesis that has ended."""


def beam_width(beam: int | None, n_best: int | None, prefix: str = "") -> int | None:
    """The width of a beam that finds the N best answers: as given, or N; None if neither is given.

    Args:
        beam: the width.
        n_best: the number N.
        prefix: of the names of options in messages.

    Raises:
        UsageError: the beam is narrower.
    """
    if beam and n_best and beam < n_best:
        many = f"{prefix}n-best" if prefix else "n_best"
        raise UsageError(f"{prefix}beam {beam}: expected at least {n_best}, for {many} {n_best}")
    return beam or n_best


def search(
    model: Model,
    layout: Layout,
    sources: Sequence[Ids],
    width: int,
    best: int = 1,
    limit: int | None = None,
    log_probs: bool = True,
) -> list[list[Answer]]:
    """The most probable answers to each source, the best first.

    A beam of width 1 gives the greedy answers. So does any width for a model that does not read its
    outputs or is certain of them, where there is nothing to search: one answer to each source.

    Args:
        model: the model.
        layout: of its task.
        sources: the ids of source symbols.
        width: the number of hypotheses of each source that are kept at each step.
        best: the most answers to each source, no more than `width`.
        limit: the most symbols of an answer, as in `decode`. The score of an answer that is cut off
            is that of its symbols.
        log_probs: whether log-probabilities are computed of greedy answers, too.

    Raises:
        UsageError: the beam is wider than `MAX_WIDTH`.
    """
    if width > MAX_WIDTH:
        raise UsageError(f"a beam of {width}: expected at most {MAX_WIDTH}")
    if width == 1 or model.is_deterministic or not layout.feeds_back:
        return [[answer] for answer in decode(model, layout, sources, limit, log_probs)]
    given = Ragged.of(sources)
    lengths, prompts = given.lengths, layout.prompts(given)
    limits = layout.limit(lengths, limit)
    steps = expected_steps(prompts.lengths, limits)
    answers: dict[int, list[Answer]] = {}
    for group in batches_of(steps.tolist(), steps_at_once(model, STEPS_AT_ONCE) // width):
        for length in np.unique(lengths[group]):
            equally_long = [index for index in group if lengths[index] == length]
            batch = np.stack([prompts[index] for index in equally_long])
            ranked = _search(model, layout, batch, width, best, int(limits[equally_long[0]]))
            answers.update(zip(equally_long, ranked, strict=True))
    return [answers[index] for index in range(len(sources))]


class _Beam(NamedTuple):
    """K hypotheses of each of N sources, the most probable first.

    Attributes:
        scores: [N, K] their log-probabilities; -inf where there is no hypothesis.
        running: [N, K] whether each has not ended.
        parents: [N, K] the index in the previous beam of the hypothesis that each continues or is.
        symbols: [N, K] the symbol by which each continues it; `NO_SYMBOL` if it has ended.
    """

    scores: Numbers
    running: Mask
    parents: Ids
    symbols: Ids

    @classmethod
    def first(cls, count: int, width: int) -> "_Beam":
        """The empty hypothesis alone."""
        scores = np.full((count, width), -np.inf)
        scores[:, 0] = 0
        ids = np.full((count, width), NO_SYMBOL)
        return cls(scores, scores == 0, ids, ids)

    def next(self, log_probs: Numbers, layout: Layout) -> "_Beam":
        """The beam after a step, by the log-probabilities of its outputs, [N, K, outputs]."""
        count, width = self.scores.shape
        outputs = _ranks(log_probs)[..., :width]
        branching = outputs.shape[2]
        values = np.take_along_axis(log_probs, outputs, axis=2)
        continued = np.where(self.running[..., None], self.scores[..., None] + values, -np.inf)
        finished = np.where(self.running, -np.inf, self.scores)
        scores = np.concatenate([finished, continued.reshape(count, -1)], axis=1)
        no_symbols = np.full_like(self.symbols, NO_SYMBOL)
        symbols = np.concatenate([no_symbols, outputs.reshape(count, -1)], axis=1)
        ranks = _ranks(scores)[:, :width]
        scores, symbols = (np.take_along_axis(row, ranks, axis=1) for row in (scores, symbols))
        continuation = ranks - width
        parents = np.where(continuation < 0, ranks, continuation // branching)
        # A NaN ends its hypothesis, which would rank first for ever.
        running = (continuation >= 0) & (scores > -np.inf) & (symbols != layout.end)
        symbols = np.where(symbols == layout.end, NO_SYMBOL, symbols)
        return _Beam(scores, running & ~np.isin(symbols, layout.last), parents, symbols)

    def cut_off(self, log_probs: Numbers, layout: Layout) -> "_Beam":
        """The beam at the limit: hypotheses end if that is most probable, or are cut off."""
        best = log_probs.argmax(axis=2)
        ending = self.running & (best == layout.end)
        values = np.take_along_axis(log_probs, best[..., None], axis=2)[..., 0]
        # A NaN counts, too: it says that there is no answer.
        counted = ending | (self.running & ~np.isfinite(values))
        scores = np.where(counted, self.scores + values, self.scores)
        ranks = _ranks(scores)
        scores = np.take_along_axis(scores, ranks, axis=1)
        running = np.take_along_axis(self.running & ~ending, ranks, axis=1)
        return _Beam(scores, running, ranks, np.full_like(ranks, NO_SYMBOL))


def _ranks(scores: Numbers) -> Ids:
    """The indices of scores [..., n] from the highest to the lowest, NaN first; ties in order."""
    ranks: Ids = np.argsort(np.where(np.isnan(scores), -np.inf, -scores), axis=-1, kind="stable")
    return ranks


def _search(
    model: Model, layout: Layout, prompts: Ids, width: int, best: int, limit: int
) -> list[list[Answer]]:
    """The best answers to prompts of one length, [N, T]."""
    count, first_target = len(prompts), layout.first_target or 0
    state = model.start(count, prompts.shape[1])
    requested = np.zeros(prompts.shape, np.bool_)
    requested[:, -1] = True
    *_, (_, logits) = advance_in_chunks(model, state, prompts, requested)
    rows = np.arange(count)[:, None]
    selected = np.repeat(rows, width, axis=1)
    logits = logits[selected.ravel()]
    beams = [_Beam.first(count, width)]
    while True:
        state = model.select(state, selected.ravel())
        if len(beams) > 1:
            inputs = np.where(beams[-1].running, beams[-1].symbols + first_target, 0)
            logits = model.advance(state, inputs.reshape(-1, 1))
        log_probs = log_softmax(logits).reshape(count, width, -1)
        # NaN of the first says that there is no answer; others are dropped.
        log_probs[:, 1:][np.isnan(log_probs[:, 1:])] = -np.inf
        if len(beams) > limit:
            beams.append(beams[-1].cut_off(log_probs, layout))
            break
        beams.append(beams[-1].next(log_probs, layout))
        if not beams[-1].running[:, :best].any():
            break
        selected = rows * width + beams[-1].parents
    return _answers(layout, beams, best)


def _answers(layout: Layout, beams: Sequence[_Beam], best: int) -> list[list[Answer]]:
    """The best hypotheses of the last beam as answers, by backtracking through all beams."""
    index = np.repeat(np.arange(best)[None], len(beams[0].scores), axis=0)
    backwards = []
    for beam in reversed(beams[1:]):
        backwards.append(np.take_along_axis(beam.symbols, index, axis=1))
        index = np.take_along_axis(beam.parents, index, axis=1)
    symbols = np.stack(backwards[::-1], axis=2)
    scores, running = (column[:, :best].tolist() for column in beams[-1][:2])
    return [
        [
            Answer(
                layout.in_reading_order(row[row != NO_SYMBOL]).tolist(),
                score,
                not (layout.ends_answers and cut_off),
            )
            for row, score, cut_off in zip(*hypotheses, strict=True)
            if score != -np.inf
        ]
        for hypotheses in zip(symbols, scores, running, strict=True)
    ]
