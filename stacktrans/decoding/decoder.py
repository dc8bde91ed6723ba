"""Greedy decoding, and outputs for given strings (teacher forcing).

The decoder feeds outputs back as inputs, stops at the end of an answer, and keeps the buffers of
buffered models. Strings of similar length are decoded in one batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from stacktrans.common.ragged import STEPS_AT_ONCE, Ragged, batches_of, concatenate, row_starts
from stacktrans.decoding.model import Buffers, Model, Numbers, SoftInput
from stacktrans.decoding.output_buffers import NO_POSITION, OutputBuffers
from stacktrans.tasks.alphabets import FAILED, NO_OUTPUT, Ids, Mask
from stacktrans.tasks.layout import Layout

STEPS_PER_CHUNK = 2**15
"""The most steps, of all strings of a batch together, whose logits are computed at once."""
FEW_OUTPUTS = 512
"""Models with at most this many outputs take `STEPS_AT_ONCE` steps together; others take
proportionally fewer, so that logits need no more memory."""
EXPECTED_SYMBOLS = 64
"""Room is made for answers of twice the length of their prompts plus this many symbols, or for
their limits if those are less."""
PAST_THE_END = -1
"""The id in an input buffer after the last input, of which nothing is read."""


def log_softmax(logits: Numbers) -> Numbers:
    """The log-probabilities [..., n] of logits; NaN where numbers overflow."""
    with np.errstate(all="ignore"):
        shifted = logits - logits.max(axis=-1, keepdims=True)
        log_probs: Numbers = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return log_probs


def most_probable(logits: Numbers) -> tuple[Ids, Numbers]:
    """The most probable outputs [n] and their log-probabilities, by logits [n, outputs].

    Where numbers overflow they are `FAILED` and NaN; where every logit is -inf, so that no output
    is possible, `NO_OUTPUT` and 0.
    """
    outputs = most_probable_ids(logits)
    best = np.maximum(outputs, 0)[:, None]
    log_probs = np.take_along_axis(log_softmax(logits), best, axis=1)[:, 0]
    log_probs[outputs == NO_OUTPUT] = 0
    outputs[np.isnan(log_probs)] = FAILED
    return outputs, log_probs


def most_probable_ids(logits: Numbers) -> Ids:
    """The most probable outputs [n] without their log-probabilities; see `most_probable`."""
    outputs: Ids = logits.argmax(axis=1)
    highest = logits[np.arange(len(outputs)), outputs]
    if not np.isfinite(highest).all():
        outputs[~np.isfinite(highest)] = FAILED
        outputs[highest == -np.inf] = NO_OUTPUT
    return outputs


class Answer(NamedTuple):
    """A model's answer to a source.

    Attributes:
        target: the ids of its target symbols.
        log_probability: in nats, of the whole answer with its end; NaN where the model has no
            answer, and otherwise 0 if probabilities were not requested.
        ended: whether the model ended it; otherwise it was cut off.
    """

    target: list[int]
    log_probability: float
    ended: bool

    @property
    def failed(self) -> bool:
        """Whether the model has no answer; `Model.failure` says why."""
        return math.isnan(self.log_probability)


@dataclass(frozen=True, eq=False)
class Answers(Sequence[Answer]):
    """The answers to n sources.

    Attributes:
        targets: the ids of their target symbols.
        log_probs: [n] their log-probabilities, as in `Answer`.
        ended: [n] whether the model ended each.
    """

    targets: Ragged
    log_probs: Numbers
    ended: Mask

    def __len__(self) -> int:
        return len(self.ended)

    def __getitem__(self, index: Any) -> Any:
        log_probability = float(self.log_probs[index])
        return Answer(self.targets[index].tolist(), log_probability, bool(self.ended[index]))


class Outputs(NamedTuple):
    """The most probable outputs for n strings.

    Attributes:
        symbols: their ids; `FAILED` or `NO_OUTPUT` where the model has none.
        log_probs: their log-probabilities; None if they were not requested.
    """

    symbols: Ragged
    log_probs: Ragged | None


class DecodingStep(NamedTuple):
    """A decoding step of B strings, as observers see it.

    Attributes:
        items: [B] the indices of the strings.
        ids: [B] the symbols read; of a buffer, the first of two.
        logits: [B, outputs].
        positions: [B] the index in its answer of each output, from 0; before it, `NO_POSITION`.
        state: of the model, after the step.
    """

    items: Ids
    ids: Ids
    logits: Numbers
    positions: Ids
    state: Any


Observer = Callable[[DecodingStep], None]
"""Is called after each step."""


class _Feedback(NamedTuple):
    """The feedback of outputs as inputs.

    Attributes:
        first_target: the input id of output 0.
        ends: the outputs after which an answer is complete.
        limits: [n] the most symbols of each answer; an end may follow.
    """

    first_target: int
    ends: tuple[int, ...]
    limits: Ids


def expected_steps(prompts: Ids, limits: Ids) -> Ids:
    """The steps over prompts [n] and answers, which may be far from reaching their limits [n]."""
    return prompts + np.minimum(limits, 2 * prompts + EXPECTED_SYMBOLS)


def decode(
    model: Model,
    layout: Layout,
    sources: Sequence[Ids],
    limit: int | None = None,
    log_probs: bool = True,
    observe: Observer | None = None,
) -> Answers:
    """The greedy answers to sources, in their order.

    Args:
        model: the model.
        layout: of its task.
        sources: the ids of source symbols.
        limit: the most symbols of an answer; None for the layout's limit. It is ignored where
            outputs are synchronous.
        log_probs: whether log-probabilities are computed.
        observe: is called with each step.
    """
    given = Ragged.of(sources)
    prompts = layout.prompts(given)
    if layout.first_target is None:
        outputs = predict(model, prompts, None, log_probs, observe)
        targets, ended = layout.decode(outputs.symbols)
    else:
        limits = layout.limit(given.lengths, limit)
        ends = (*layout.last, *([] if layout.end is None else [layout.end]))
        last = np.zeros(len(prompts.values), np.bool_)
        last[prompts.starts[1:] - 1] = True
        feedback = _Feedback(layout.first_target, ends, limits)
        requested = Ragged(last, prompts.starts)
        outputs = _outputs(model, prompts, requested, feedback, log_probs, observe)
        targets, ended = layout.decode(outputs.symbols, limits)
    return Answers(targets, _answer_log_probs(layout, outputs, targets), ended)


def predict(
    model: Model,
    strings: Sequence[Ids],
    requested: Sequence[Mask] | None = None,
    log_probs: bool = True,
    observe: Observer | None = None,
) -> Outputs:
    """The outputs for given strings, one for each symbol.

    Args:
        model: the model; with buffers, it writes an output for each symbol.
        strings: the ids of the symbols read.
        requested: which symbols' outputs are returned; None for all.
        log_probs: whether log-probabilities are computed.
        observe: is called with each step.
    """
    given = Ragged.of(strings)
    if requested is None:
        requested = Ragged(np.ones(len(given.values), np.bool_), given.starts)
    return _outputs(model, given, Ragged.of(requested), None, log_probs, observe)


def steps_over(buffers: Buffers, lengths: Ids) -> Ids:
    """The number of steps that a buffered model takes over inputs of some lengths."""
    return buffers.steps_per_symbol * lengths + buffers.extra_steps


def steps_at_once(model: Model, most: int) -> int:
    """`most` steps, or proportionally fewer if a model has more than `FEW_OUTPUTS` outputs."""
    return max(1, most * FEW_OUTPUTS // max(FEW_OUTPUTS, model.outputs))


def advance_in_chunks(
    model: Model, state: Any, ids: Ids, requested: Mask
) -> Iterator[tuple[slice, Numbers]]:
    """Advance a model by symbols [B, T] in chunks of up to `STEPS_PER_CHUNK` steps.

    Yields the columns of each chunk and the logits of the outputs requested in it, [n, outputs].
    """
    size = max(1, steps_at_once(model, STEPS_PER_CHUNK) // len(ids))
    for start in range(0, ids.shape[1], size):
        columns = slice(start, min(start + size, ids.shape[1]))
        yield columns, model.advance(state, ids[:, columns], requested[:, columns])


@dataclass(frozen=True, eq=False)
class _Batch:
    """A batch of strings that are decoded in parallel, with their outputs so far.

    Attributes:
        indices: of the strings among all that are decoded.
        strings: the symbols read.
        requested: [B, T] which symbols' outputs are returned; padded to the longest string.
        steps: the most steps that are expected of any.
        log_probs: whether log-probabilities are computed.
        observe: is called with each step.
        found: rows of the batch with the outputs for them, and the log-probabilities of these.
    """

    indices: Ids
    strings: Ragged
    requested: Mask
    steps: int
    log_probs: bool
    observe: Observer | None
    found: list[tuple[Ids, Ids, Numbers]] = field(default_factory=list)

    def add(self, rows: Ids, logits: Numbers) -> Ids:
        """Add the most probable outputs for some of the strings, and return them."""
        if not len(rows):
            return rows
        if self.log_probs:
            symbols, scores = most_probable(logits)
        else:
            symbols, scores = most_probable_ids(logits), np.empty(0)
        self.found.append((rows, symbols, scores))
        return symbols

    def outputs(self) -> Outputs:
        """All outputs, string by string."""
        nothing = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
        columns = zip(nothing, *self.found, strict=True)
        rows, symbols, scores = (np.concatenate(column) for column in columns)
        order = np.argsort(rows, kind="stable")
        starts = row_starts(np.bincount(rows, minlength=len(self.indices)))
        log_probs = Ragged(scores[order], starts) if self.log_probs else None
        return Outputs(Ragged(symbols[order], starts), log_probs)


def _outputs(
    model: Model,
    strings: Ragged,
    requested: Ragged,
    feedback: _Feedback | None,
    log_probs: bool,
    observe: Observer | None,
) -> Outputs:
    """The outputs for n strings, which are decoded in batches of similar length.

    Args:
        model: the model.
        strings: the symbols read.
        requested: which symbols' outputs are returned.
        feedback: how outputs are read after each string; None if they are not.
        log_probs: whether log-probabilities are computed.
        observe: is called with each step.
    """
    steps = strings.lengths
    if model.buffers:
        steps = steps_over(model.buffers, steps)
    elif feedback:
        steps = expected_steps(steps, feedback.limits)

    def run(indices: Ids) -> Outputs:
        mask = requested.take(indices).padded(feedback is not None)
        room = int(steps[indices].max())
        batch = _Batch(indices, strings.take(indices), mask, room, log_probs, observe)
        if model.buffers:
            _decode_buffered(model, batch)
        else:
            _decode_batch(model, batch, feedback)
        return batch.outputs()

    # The longest string of a batch comes first.
    most = steps_at_once(model, STEPS_AT_ONCE)
    groups = [np.array(group[::-1]) for group in batches_of(steps.tolist(), most)]
    if model.threads > 1 and len(groups) > 1:
        with ThreadPoolExecutor(model.threads) as pool:
            parts = [*pool.map(run, groups)]
    else:
        parts = [*map(run, groups)]
    if not parts:
        return Outputs(Ragged.of([]), None)
    order = np.argsort(np.concatenate(groups))
    scores = [part.log_probs for part in parts if part.log_probs is not None]
    symbols = concatenate([part.symbols for part in parts]).take(order)
    return Outputs(symbols, concatenate(scores).take(order) if scores else None)


def _answer_log_probs(layout: Layout, outputs: Outputs, targets: Ragged) -> Numbers:
    """[n] the log-probabilities of answers, as `Answer` has them."""
    symbols, lengths = outputs.symbols, targets.lengths
    if layout.end is not None:  # which is counted, too
        after = symbols.truncate(np.minimum(lengths + 1, symbols.lengths))
        lengths = lengths + (after.lengths > lengths) * (after.last(-1) == layout.end)
    counted = symbols.truncate(lengths)
    missing = counted.values == FAILED
    if layout.feeds_back or layout.ends_answers:  # otherwise some outputs may be undefined
        missing |= counted.values == NO_OUTPUT
    scores = outputs.log_probs.truncate(lengths).values if outputs.log_probs is not None else 0.0
    weights = np.where(missing, np.nan, scores)
    return np.bincount(counted.row_indices, weights, minlength=len(targets))


def _decode_batch(model: Model, batch: _Batch, feedback: _Feedback | None) -> None:
    """Collect the outputs requested of strings that are read and, with feedback, those after them.

    Steps over given symbols are taken together, but one at a time for an observer.
    """
    observe, requested, lengths = batch.observe, batch.requested, batch.strings.lengths
    ids, longest = batch.strings.padded(), int(lengths.max())
    state = model.start(len(ids), batch.steps)
    together = 0 if observe else int(lengths.min()) - 1 if feedback else longest
    given = ids[:, :together], requested[:, :together]
    for columns, logits in advance_in_chunks(model, state, *given):
        batch.add(np.nonzero(requested[:, columns])[0], logits)
    # The first output belongs to the last symbol of a string; one more than the limit may be its
    # end.
    before = lengths - 1 if feedback else np.zeros_like(lengths)
    final = lengths - 1 + (feedback.limits[batch.indices] if feedback else 0)
    rows, active, outputs = np.arange(len(ids)), np.ones(len(ids), np.bool_), np.zeros_like(lengths)
    for step in count(together):
        active &= step <= final
        if not active.any():
            return
        if _to_select(active, observe):
            kept = np.flatnonzero(active)
            state, ids, requested = model.select(state, kept), ids[kept], requested[kept]
            rows, active, outputs = rows[kept], active[kept], outputs[kept]
            lengths, before, final = lengths[kept], before[kept], final[kept]
        inputs = outputs + (feedback.first_target if feedback else 0)
        wanted = active
        if step < longest:
            inputs = np.where(step < lengths, ids[:, step], inputs)
            wanted = active & requested[:, step]
        logits = model.advance(state, inputs[:, None], None if observe else wanted[:, None])
        if observe:
            positions = np.where(wanted, step - before, NO_POSITION)
            observe(DecodingStep(batch.indices[rows], inputs, logits, positions, state))
            logits = logits[wanted]
        symbols = batch.add(rows[wanted], logits)
        if feedback:
            ended = symbols < 0
            for end in feedback.ends:
                ended |= symbols == end
            outputs[wanted] = np.where(ended, 0, symbols)
            active[wanted] = ~ended


def _to_select(active: Mask, observe: Observer | None) -> bool:
    """Whether to drop the strings that have ended; until then, the model runs over them in vain.

    Selecting strings copies their states, so it waits until no more than half of them are active;
    but an observer is shown active strings alone.
    """
    left = int(np.count_nonzero(active))
    return 2 * left <= len(active) or (observe is not None and left < len(active))


def _decode_buffered(model: Model, batch: _Batch) -> None:
    """Collect outputs that are written to a buffer, as many as there are inputs (hao2018, 3.2).

    The input buffer is popped with the read strength of the step before, and then read with
    strength 1. The n-th output is read with strength 1 after n - 1 has been popped: its logits are
    a mean of those of all steps that wrote a part of it.
    """
    assert model.buffers is not None
    observe, lengths = batch.observe, batch.strings.lengths
    steps, rows = steps_over(model.buffers, lengths), np.arange(len(lengths))
    state = model.start(len(rows), batch.steps)
    buffers = OutputBuffers(model.buffers, lengths, state.signals.dtype)
    padded = batch.strings.padded(PAST_THE_END)
    ids = np.pad(padded, ((0, 0), (0, 2)), constant_values=PAST_THE_END)
    starts, position = rows * ids.shape[1], np.zeros(len(rows), state.signals.dtype)
    for step in range(batch.steps):
        index = starts + np.fmin(position, lengths).astype(np.int64)
        first = ids.take(index)
        inputs = SoftInput(first, ids.take(index + 1), position - np.floor(position))
        logits = model.advance(state, inputs)
        read, written = state.signals[:, -2:].T
        position = position + read
        # Nothing is written after the answer, where a machine may have no rule.
        writing = (step < steps) & ~buffers.full
        positions = buffers.write(np.where(writing, written, 0), logits)
        active = step + 1 < steps
        if observe:
            observe(DecodingStep(batch.indices[rows], first, logits, positions, state))
        else:  # only an observer sees the steps after an answer
            active &= ~buffers.full
        if not active.any():
            break
        if _to_select(active, observe):
            kept = np.flatnonzero(active)
            state, rows, position = model.select(state, kept), rows[kept], position[kept]
            starts, lengths, steps = starts[kept], lengths[kept], steps[kept]
            buffers.select(kept)
    batch.add(np.nonzero(batch.requested)[0], buffers.read()[batch.requested])
