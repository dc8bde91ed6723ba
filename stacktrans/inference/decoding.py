"""Transducing strings: greedy decoding, and targets that are as long as their sources."""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from stacktrans.common.grouping import STEPS_AT_ONCE, batches_of
from stacktrans.common.ragged import Ragged
from stacktrans.machines.running import NO_OUTPUT
from stacktrans.model.predictor import (
    Marks,
    Numbers,
    Predictor,
    Question,
    Questions,
    Run,
    Said,
    symbols_of,
)
from stacktrans.tasks.alphabets import NOT_KNOWN, Ids, Mask
from stacktrans.tasks.layouts import InStep, JointSequence, Layout, SameLength, Stream

PIECE = 1024
"""Steps of a source that are run at once."""


class Answer(NamedTuple):
    """A model's answer to a source.

    Attributes:
        target: the target symbols' ids.
        log_probability: of the whole answer, `</s>` included, in nats; NaN where numbers
            overflow, and otherwise 0 if it was not asked for.
        ended: whether the model ended it; otherwise it was cut off.
        lacking: why there is none; None if there is one.
    """

    target: list[int]
    log_probability: float
    ended: bool
    lacking: str | None = None


def transduce(
    model: Predictor,
    layout: Layout,
    sources: Sequence[Ids],
    limit: int | None = None,
    logs: bool = True,
) -> list[Answer]:
    """The greedy answers to sources, in their order; none where a machine has no rule.

    An answer has at most `limit` symbols, or the layout's usual number unless given; where answers
    are given in step with sources, the limit is ignored. `logs` asks for their probabilities.
    """
    if not sources:
        return []
    if isinstance(layout, InStep):
        read = [layout.read(source) for source in sources]
        return [_in_step(layout, each) for each in in_step(model, read, logs)]
    assert isinstance(layout, JointSequence | Stream)
    limits = [layout.longest_answer(len(source), limit) for source in sources]
    questions = [
        _question(layout, source, most) for source, most in zip(sources, limits, strict=True)
    ]
    marks = marks_of(layout)
    said = model.answers(questions, marks, logs)
    return [_greedy(layout, marks, each, most) for each, most in zip(said, limits, strict=True)]


def transduce_together(
    model: Predictor, layout: Layout, sources: Ragged, limit: int | None = None
) -> tuple[Ragged, Mask] | None:
    """The greedy answers to sources, as `transduce` gives them, in few arrays.

    Returns:
        The symbols of each, and [n] whether the model ended it; None if there is one that has no
        answer, or numbers that overflow.
    """
    if isinstance(layout, SameLength):  # what is said is the answer
        symbols = symbols_of(in_step(model, sources, logs=False))
        if symbols is None or symbols.values.min(initial=0) < 0:
            return None
        return symbols, np.ones(len(symbols), np.bool_)
    answers = transduce(model, layout, sources, limit, logs=False)
    if any(answer.lacking or math.isnan(answer.log_probability) for answer in answers):
        return None
    ended = np.array([answer.ended for answer in answers], np.bool_)
    targets = [np.array(answer.target, np.int64) for answer in answers]
    return Ragged.of(targets), ended


def _no_answer(why: str) -> Answer:
    return Answer([], 0.0, False, why)


def in_step(model: Predictor, read: Sequence[Ids], logs: bool = True) -> Sequence[Said]:
    """What is said with a symbol for each symbol read, to strings in their order."""
    if model.config.buffers:
        return model.written(read, logs)
    return model.answers(Questions.everywhere(read), logs=logs)


def marks_of(layout: JointSequence | Stream) -> Marks:
    """How a layout's outputs are read again, and which of them end an answer."""
    return Marks(layout.first_target, layout.end, layout.last)


def _question(layout: JointSequence | Stream, source: Ids, limit: int) -> Question:
    """What comes after a source."""
    prefix = layout.prefix(source)
    asked = np.zeros(len(prefix), np.bool_)
    asked[-1] = True
    return Question(prefix, asked, limit)


def _in_step(layout: InStep, said: Said) -> Answer:
    if said.lacking:
        return _no_answer(said.lacking)
    target, ended = layout.answered(said.symbols)
    scored = len(target) + (len(target) < len(said.symbols))  # the end of an answer included
    symbols = target.tolist()
    # Of as many symbols as the source has, some may not be asked for.
    if not isinstance(layout, SameLength) and NOT_KNOWN in symbols:
        return _no_answer(NO_OUTPUT)
    return Answer(symbols, _log_probability(symbols, said.logs[:scored]), ended)


def _greedy(layout: JointSequence | Stream, marks: Marks, said: Said, limit: int) -> Answer:
    symbols = said.symbols.tolist()
    if said.lacking or NOT_KNOWN in symbols:
        return _no_answer(said.lacking or NO_OUTPUT)
    last = symbols[-1] if symbols else None
    ended = marks.end is not None and last == marks.end
    cut = not ended and len(symbols) > limit
    kept = len(symbols) - (ended or cut)
    counted = kept + ended
    total = _log_probability(symbols[:counted], said.logs[:counted])
    if not ended and not cut:
        ended = marks.last is not None and last == marks.last
    endless = marks.end is None and marks.last is None
    return Answer(layout.in_turn(symbols[:kept]), total, endless or ended)


def _log_probability(symbols: list[int], logs: Numbers) -> float:
    """Of an answer, by the logarithms of its symbols; see `Answer`."""
    if -1 in symbols:
        return math.nan
    return float(logs.sum(dtype=np.float64)) if len(logs) else 0.0


def side_by_side(
    layout: JointSequence | Stream, sources: Sequence[Ids], limit: int | None, width: int = 1
) -> Iterator[tuple[list[int], int]]:
    """Groups of sources of one length, by their indices, with the most symbols of their answers.

    Each source takes room for `width` of them.
    """
    limits = [layout.longest_answer(len(source), limit) for source in sources]
    sizes = [len(source) + most + 2 for source, most in zip(sources, limits, strict=True)]
    for group in batches_of(sizes, STEPS_AT_ONCE // width):
        for length in {len(sources[index]) for index in group}:
            same = [index for index in group if len(sources[index]) == length]
            yield same, limits[same[0]]


def after_prefixes(
    model: Predictor, layout: JointSequence | Stream, sources: Sequence[Ids]
) -> tuple[Run, Numbers]:
    """A run over sources of one length up to their answers, and its last output, [B, H]."""
    prefixes = np.stack([layout.prefix(source) for source in sources])
    run = model.start(len(sources))
    for first in range(0, prefixes.shape[1], PIECE):
        hidden = run.hidden(prefixes[:, first : first + PIECE])
    return run, hidden[:, -1]
