"""Beam search: the most probable answers, and not the most probable symbol at each step.

All hypotheses of all sources of one length are run side by side. At each step as many of each
source are kept as the beam is wide, the most probable: those that have ended, and the continuations
of the others (sutskever2014, section 3.2). The score is the logarithm of an answer's probability.
It is not divided by the length, as is done where models end too soon: it would no longer say how
probable an answer is. And as nothing is more probable than what it continues, what has ended and
is first can't be overtaken.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from stacktrans.common.errors import UsageError
from stacktrans.inference.decoding import (
    NO_SYMBOL,
    Answer,
    after_prefixes,
    ends_of,
    side_by_side,
    transduce,
)
from stacktrans.model.transducer import Transducer
from stacktrans.tasks.layouts import Ids, JointSequence, Layout, Stream

WIDEST = 4096
"""The most hypotheses of a source that are kept."""


@torch.no_grad()
def search(
    model: Transducer,
    layout: Layout,
    sources: Sequence[Ids],
    width: int,
    best: int = 1,
    limit: int | None = None,
) -> list[list[Answer]]:
    """The most probable answers to sources that are found, for each the best first.

    A beam of width 1 finds the greedy answers, and so does any where a model does not read what it
    has said: then there is nothing to search, and one answer to each source.

    Args:
        model: what answers.
        layout: of its task.
        sources: ids of source symbols.
        width: how many hypotheses of each source are kept at each step.
        best: the most answers to each source, no more than `width`.
        limit: as for `transduce`. The score of an answer that is cut off is that of its symbols.

    Raises:
        UsageError: the beam is wider than `WIDEST`.
    """
    if width > WIDEST:
        raise UsageError(f"a beam of {width}: expected at most {WIDEST}")
    if width == 1 or not isinstance(layout, JointSequence | Stream):
        return [[answer] for answer in transduce(model, layout, sources, limit)]
    answers: dict[int, list[Answer]] = {}
    for group, most in side_by_side(layout, sources, limit, width):
        same = [sources[index] for index in group]
        answers.update(zip(group, _search(model, layout, same, width, best, most), strict=True))
    return [answers[index] for index in range(len(sources))]


class _Beam(NamedTuple):
    """K hypotheses of each of N sources, the most probable first.

    Attributes:
        scores: [N, K] the logarithms of their probabilities; -inf where there is none.
        running: [N, K] which of them have not ended.
        parents: [N, K] which hypothesis of the step before each continues, or is.
        symbols: [N, K] what it says after it; `NO_SYMBOL` for nothing.
    """

    scores: Tensor
    running: Tensor
    parents: Tensor
    symbols: Tensor

    @classmethod
    def first(cls, count: int, width: int, device: torch.device) -> "_Beam":
        """The empty answer alone."""
        scores = torch.full((count, width), -torch.inf, dtype=torch.float64, device=device)
        scores[:, 0] = 0
        ids = torch.full((count, width), NO_SYMBOL, device=device)
        return cls(scores, scores == 0, ids, ids)

    def next(self, logs: Tensor, end: int, last: int) -> "_Beam":
        """The most probable after a step, by the logarithms [N, K, outputs] of each output."""
        width = self.scores.shape[1]
        found = logs.topk(min(width, logs.shape[2]), dim=2)
        each = found.indices.shape[2]
        continued = (self.scores.unsqueeze(2) + found.values).masked_fill(
            ~self.running.unsqueeze(2), -torch.inf
        )
        stayed = self.scores.masked_fill(self.running, -torch.inf)
        scores = torch.cat([stayed, continued.flatten(1)], dim=1)
        said = torch.cat([torch.full_like(self.symbols, NO_SYMBOL), found.indices.flatten(1)], 1)
        # Stable, so that of equally probable ones those that stood before others still do.
        scores, order = scores.sort(dim=1, descending=True, stable=True)
        scores, order = scores[:, :width], order[:, :width]
        symbols, later = said.gather(1, order), order - width
        parents = torch.where(later < 0, order, later // each)
        # A score that is not a number runs no further: it would be the highest for ever.
        running = (later >= 0) & (scores > -torch.inf) & (symbols != end)
        symbols = symbols.masked_fill(symbols == end, NO_SYMBOL)
        return _Beam(scores, running & (symbols != last), parents, symbols)

    def cut_off(self, logs: Tensor, end: int) -> "_Beam":
        """The same after the last step: each ends if that is most probable, or else is cut off."""
        best = logs.max(dim=2)
        ending = self.running & (best.indices == end)
        scores = torch.where(ending, self.scores + best.values, self.scores)
        scores, order = scores.sort(dim=1, descending=True, stable=True)
        running = (self.running & ~ending).gather(1, order)
        return _Beam(scores, running, order, torch.full_like(order, NO_SYMBOL))


def _search(
    model: Transducer,
    layout: JointSequence | Stream,
    sources: Sequence[Ids],
    width: int,
    best: int,
    limit: int,
) -> list[list[Answer]]:
    """The best answers to sources of one length, found side by side."""
    run, hidden = after_prefixes(model, layout, sources)
    count, (end, last) = len(sources), ends_of(layout)
    rows = torch.arange(count, device=hidden.device).unsqueeze(1)
    chosen = rows.expand(count, width)
    beams = [_Beam.first(count, width, hidden.device)]
    while True:
        run.choose(chosen.flatten())
        if len(beams) > 1:
            inputs = torch.where(beams[-1].running, beams[-1].symbols + layout.first_target, 0)
            hidden = run.step(inputs.view(-1, 1)).hidden[:, -1]
        else:
            hidden = hidden.repeat_interleave(width, dim=0)
        logs = torch.log_softmax(model.read_out(hidden), dim=-1).unflatten(0, (count, width))
        if len(beams) > limit:
            beams.append(beams[-1].cut_off(logs, end))
            break
        beams.append(beams[-1].next(logs, end, last))
        if not beams[-1].running[:, :best].any():
            break
        chosen = rows * width + beams[-1].parents
    return _answers(beams, best, endless=end == last)


def _answers(beams: Sequence[_Beam], best: int, endless: bool) -> list[list[Answer]]:
    """The best of the last hypotheses, with all that they have said."""
    place = torch.arange(best, device=beams[0].scores.device).expand(len(beams[0].scores), best)
    said = []
    for beam in reversed(beams[1:]):
        said.append(beam.symbols.gather(1, place))
        place = beam.parents.gather(1, place)
    symbols = torch.stack(said[::-1], dim=2).tolist()
    scores, running = (part[:, :best].tolist() for part in beams[-1][:2])
    return [
        [
            Answer([symbol for symbol in row if symbol != NO_SYMBOL], score, endless or not goes_on)
            for row, score, goes_on in zip(*of_source, strict=True)
            if score != -torch.inf
        ]
        for of_source in zip(symbols, scores, running, strict=True)
    ]
