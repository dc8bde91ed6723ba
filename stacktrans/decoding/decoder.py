"""The decoder: how the outputs of any model become answers in any layout.

It feeds outputs back, stops, and keeps the buffers. Strings of similar length are run side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from stacktrans.common.ragged import STEPS_AT_ONCE, Ragged, batches_of, concatenate, row_starts
from stacktrans.decoding.model import Buffers, Model, Numbers, SoftInput
from stacktrans.tasks.alphabets import NO_OUTPUT, Ids, Mask
from stacktrans.tasks.layout import Layout

STEPS_IN_A_PIECE = 2**15
"""Steps of all strings of a batch that are taken at once: what comes of them takes some room."""
EXPECTED = 64
"""Symbols of an answer that are expected besides two for each that is read, if so many may be."""
NONE = -1
"""The index of no answer symbol."""


def log_softmax(logits: Numbers) -> Numbers:
    """The logarithms of probabilities, [..., n], by logits; NaN where numbers overflow."""
    with np.errstate(all="ignore"):
        lower = logits - logits.max(axis=-1, keepdims=True)
        found: Numbers = lower - np.log(np.exp(lower).sum(axis=-1, keepdims=True))
    return found


def most_probable(logits: Numbers) -> tuple[Ids, Numbers]:
    """The most probable outputs [n] and the logarithms of their probabilities, of [n, outputs].

    Where numbers overflow the output is -1, and the logarithm NaN; where no output is possible, as
    every logit is -inf, it is `NO_OUTPUT` and 0.
    """
    chosen = most_probable_ids(logits)
    share = np.take_along_axis(log_softmax(logits), np.maximum(chosen, 0)[:, None], axis=1)[:, 0]
    share[chosen == NO_OUTPUT] = 0
    found: Ids = np.where(np.isnan(share), -1, chosen)
    return found, share


def most_probable_ids(logits: Numbers) -> Ids:
    """The most probable outputs alone; see `most_probable`."""
    chosen: Ids = logits.argmax(axis=1)
    highest = logits[np.arange(len(chosen)), chosen]
    if not np.isfinite(highest).all():
        chosen[~np.isfinite(highest)] = -1
        chosen[highest == -np.inf] = NO_OUTPUT
    return chosen


class Answer(NamedTuple):
    """A model's answer to a source.

    Attributes:
        target: the target symbols' ids.
        log_probability: of the whole answer, its end included, in nats; NaN where the model has no
            answer, and otherwise 0 if it was not asked for.
        ended: whether the model ended it; otherwise it was cut off.
    """

    target: list[int]
    log_probability: float
    ended: bool

    @property
    def failed(self) -> bool:
        """Whether the model has no answer; see `Model.failure`."""
        return self.log_probability != self.log_probability


@dataclass(frozen=True, eq=False)
class Answers(Sequence[Answer]):
    """The answers to n sources.

    Attributes:
        targets: the target symbols' ids.
        log_probs: [n] as `Answer` has them.
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
        symbols: outputs; -1 where the model has none.
        log_probs: the logarithms of their probabilities; None if they were not asked for.
    """

    symbols: Ragged
    log_probs: Ragged | None


class DecodingStep(NamedTuple):
    """A step of B of the strings.

    Attributes:
        items: [B] which of the strings that were given.
        ids: [B] what was read, or most of it.
        logits: [B, outputs].
        positions: [B] the index in its answer of each output, from 0; `NONE` before the answer.
        state: the model's, after the step.
    """

    items: Ids
    ids: Ids
    logits: Numbers
    positions: Ids
    state: Any


Observer = Callable[[DecodingStep], None]
"""Is called after each step."""


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
        model: what answers.
        layout: of its task.
        sources: ids of source symbols.
        limit: the most symbols of an answer; None for the layout's. It is ignored where outputs
            are synchronous.
        log_probs: whether probabilities are asked for.
        observe: is called with each step.
    """
    given = Ragged.of(sources)
    prompts = layout.prompts(given)
    if not layout.feeds_back:
        outputs = predict(model, prompts, None, log_probs, observe)
        targets, ended = layout.decode(outputs.symbols)
    else:
        limits = layout.limit(given.lengths, limit)
        run = partial(_follow, model, layout, prompts, limits, log_probs, observe)
        outputs = _in_groups(run, _expected(prompts, limits), model.threads)
        targets, ended = layout.decode(outputs.symbols, limits)
    return Answers(targets, _totals(layout, outputs, targets), ended)


def predict(
    model: Model,
    strings: Sequence[Ids],
    requested: Sequence[Mask] | None = None,
    log_probs: bool = True,
    observe: Observer | None = None,
) -> Outputs:
    """The outputs for symbols that are given, one for each.

    Args:
        model: what predicts; with buffers, it writes an output for each symbol.
        strings: ids of what is read.
        asked: of each symbol, whether its output is asked for; None for all.
        log_probs: whether probabilities are asked for.
        observe: is called with each step.
    """
    given = Ragged.of(strings)
    where = None if requested is None else Ragged.of(requested)
    steps = steps_over(model.buffers, given.lengths) if model.buffers else given.lengths

    def run(group: Ids) -> Outputs:
        own, found = given.take(group), _Collected(log_probs)
        wanted = np.arange(own.lengths.max()) < own.lengths[:, None]
        if where is not None:
            wanted &= where.take(group).padded()
        (_written if model.buffers else _synchronous)(model, own, wanted, found, observe, group)
        return found.outputs(len(group))

    return _in_groups(run, steps, model.threads)


def steps_over(buffers: Buffers, lengths: Ids) -> Ids:
    """How many steps are taken over inputs of some lengths."""
    return buffers.steps_per_symbol * lengths + buffers.extra_steps


class _Collected:
    """Outputs of the strings of a group, as they come.

    Args:
        log_probs: whether their probabilities are asked for.
    """

    def __init__(self, log_probs: bool) -> None:
        self._logs = log_probs
        self._strings = [np.empty(0, np.int64)]
        self._symbols = [np.empty(0, np.int64)]
        self._shares: list[Numbers] = [np.empty(0)]

    def add(self, strings: Ids, logits: Numbers) -> Ids:
        """Add the most probable outputs for some strings, and give them back."""
        if not len(strings):
            return strings
        if self._logs:
            symbols, shares = most_probable(logits)
            self._shares.append(shares)
        else:
            symbols = most_probable_ids(logits)
        self._strings.append(strings)
        self._symbols.append(symbols)
        return symbols

    def outputs(self, count: int) -> Outputs:
        """Those for so many strings, in their order."""
        strings = np.concatenate(self._strings)
        order = np.argsort(strings, kind="stable")
        starts = row_starts(np.bincount(strings, minlength=count))
        symbols = Ragged(np.concatenate(self._symbols)[order], starts)
        shares = Ragged(np.concatenate(self._shares)[order], starts) if self._logs else None
        return Outputs(symbols, shares)


def _in_groups(run: Callable[[Ids], Outputs], steps: Ids, threads: int) -> Outputs:
    """Run strings in groups, and put the outputs in their order.

    Args:
        run: gives the outputs for a group of strings, by their indices.
        steps: [n] the most steps that each takes.
        threads: how many groups are run at the same time.
    """
    # The longest first.
    groups = [np.array(group[::-1]) for group in batches_of(steps.tolist(), STEPS_AT_ONCE)]
    if threads > 1 and len(groups) > 1:
        with ThreadPoolExecutor(threads) as pool:
            parts = [*pool.map(run, groups)]
    else:
        parts = [*map(run, groups)]
    if not parts:
        return Outputs(Ragged.of([]), None)
    back = np.argsort(np.concatenate(groups))
    log_probs = [part.log_probs for part in parts if part.log_probs is not None]
    symbols = concatenate([part.symbols for part in parts]).take(back)
    return Outputs(symbols, concatenate(log_probs).take(back) if log_probs else None)


def _totals(layout: Layout, outputs: Outputs, targets: Ragged) -> Numbers:
    """[n] the logarithms of the probabilities of answers, as `Answer` has them."""
    symbols, lengths = outputs.symbols, targets.lengths
    if layout.end is not None:  # which is counted, too
        after = symbols.truncate(np.minimum(lengths + 1, symbols.lengths))
        lengths = lengths + (after.lengths > lengths) * (after.last(-1) == layout.end)
    counted = symbols.truncate(lengths)
    missing = counted.values == -1
    if layout.feeds_back or layout.ends_answers:  # otherwise what is not scored need not be known
        missing |= counted.values == NO_OUTPUT
    shares = (
        outputs.log_probs.truncate(lengths).values
        if outputs.log_probs
        else np.zeros(len(counted.values))
    )
    weights = np.where(missing, np.nan, shares)
    return np.bincount(counted.rows, weights, minlength=len(targets))


def _expected(prompts: Ragged, limits: Ids) -> Ids:
    """About how many steps each prompt and its answer take; limits may be far from that."""
    lengths = prompts.lengths
    return lengths + np.minimum(limits, 2 * lengths + EXPECTED)


def _follow(
    model: Model,
    layout: Layout,
    prompts: Ragged,
    limits: Ids,
    log_probs: bool,
    observe: Observer | None,
    group: Ids,
) -> Outputs:
    """The outputs after prompts, each of which is the next input."""
    assert layout.first_target is not None
    prompts, limits = prompts.take(group), limits[group]
    lengths, found = prompts.lengths, _Collected(log_probs)
    ids, longest = prompts.padded(), int(lengths.max())
    # The step after which there is room for one symbol more than the limit.
    final = lengths + limits - 1
    state = model.start(len(group), int(_expected(prompts, limits).max()))
    first = 0 if observe else int(lengths.min()) - 1
    size = max(1, STEPS_IN_A_PIECE // len(group))
    for start in range(0, first, size):
        piece = ids[:, start : min(start + size, first)]
        model.advance(state, piece, np.zeros(piece.shape, np.bool_))
    strings, going = np.arange(len(group)), np.ones(len(group), np.bool_)
    chosen = np.zeros_like(strings)
    for step in count(first):
        read = chosen + layout.first_target
        if step < longest:
            read = np.where(step < lengths, ids[:, min(step, longest - 1)], read)
        requested = going & (step >= lengths - 1)
        logits = model.advance(state, read[:, None], None if observe else requested[:, None])
        if observe:
            answers = np.where(requested, step + 1 - lengths, NONE)
            observe(DecodingStep(group[strings], read, logits, answers, state))
            logits = logits[requested]
        symbols = found.add(strings[requested], logits)
        ends = (symbols < 0) | (step >= final[requested])
        for mark in (layout.end, layout.last):
            if mark is not None:
                ends |= symbols == mark
        chosen[requested] = np.where(ends, 0, symbols)
        going[requested] = ~ends
        if not going.any():
            break
        if _to_select(going, observe):
            kept = np.flatnonzero(going)
            state = model.select(state, kept)
            ids, strings, going = ids[kept], strings[kept], going[kept]
            lengths, final, chosen = lengths[kept], final[kept], chosen[kept]
    return found.outputs(len(group))


def _synchronous(
    model: Model,
    strings: Ragged,
    requested: Mask,
    found: _Collected,
    observe: Observer | None,
    group: Ids,
) -> None:
    """Collect the outputs asked for, [strings, symbols], one for each symbol that is read."""
    ids, lengths = strings.padded(), strings.lengths
    state = model.start(len(group), ids.shape[1])
    size = 1 if observe else max(1, STEPS_IN_A_PIECE // len(group))
    for start in range(0, ids.shape[1], size):
        piece, own = ids[:, start : start + size], requested[:, start : start + size]
        if not observe:
            found.add(np.nonzero(own)[0], model.advance(state, piece, own))
            continue
        left = np.count_nonzero(lengths > start)  # the longest come first
        if left < len(state.signals):
            state = model.select(state, np.arange(left))
        piece, own = piece[:left, 0], own[:left, 0]
        logits = model.advance(state, piece[:, None])
        observe(DecodingStep(group[:left], piece, logits, np.where(own, start, NONE), state))
        found.add(np.flatnonzero(own), logits[own])


def _to_select(going: Mask, observe: Observer | None) -> bool:
    """Whether strings that have ended are left out; otherwise they go on reading, whatever it is.

    What is left has to be copied, so this waits until only half of them go on, but for an observer,
    who is to see no other.
    """
    left = int(np.count_nonzero(going))
    return 2 * left <= len(going) or (observe is not None and left < len(going))


def _written(
    model: Model,
    strings: Ragged,
    requested: Mask,
    found: _Collected,
    observe: Observer | None,
    group: Ids,
) -> None:
    """Collect outputs that are written to a buffer, as many as there are inputs (hao2018, 3.2).

    The input buffer is popped with the strength of reading on at the step before, and then read
    with strength 1. The n-th output is read with strength 1 after n - 1 has been popped: it is
    made of the logits of all steps that have a part in it.
    """
    assert model.buffers is not None
    lengths, every = strings.lengths, np.arange(len(group))
    steps = steps_over(model.buffers, lengths)
    state = model.start(len(group), int(steps.max()))
    buffers = _OutputBuffers(model, lengths, state.signals.dtype)
    # After the last input nothing is read.
    ids = np.pad(strings.padded(NONE), ((0, 0), (0, 2)), constant_values=NONE)
    starts, position = every * ids.shape[1], np.zeros(len(group), state.signals.dtype)
    for step in range(int(steps.max())):
        place = starts + np.fmin(position, lengths).astype(np.int64)
        first = ids.take(place)
        mixed = SoftInput(first, ids.take(place + 1), position - np.floor(position))
        logits = model.advance(state, mixed)
        position = position + state.signals[:, -2]
        # What is done after the answer does not matter: a machine may have no rule for it.
        writing = (step < steps) & ~buffers.full
        answers = buffers.write(np.where(writing, state.signals[:, -1], 0), logits)
        going = step + 1 < steps
        if observe:
            observe(DecodingStep(group[every], first, logits, answers, state))
        else:  # what follows does not matter
            going &= ~buffers.full
        if not going.any():
            break
        if _to_select(going, observe):
            kept = np.flatnonzero(going)
            state, every, position = model.select(state, kept), every[kept], position[kept]
            starts, lengths, steps = starts[kept], lengths[kept], steps[kept]
            buffers.select(kept)
    found.add(np.nonzero(requested)[0], buffers.read()[requested])


class _OutputBuffers:
    """The output buffers of B strings, of which each symbol is kept as a sum of logits.

    Args:
        model: what writes.
        lengths: [B] how many symbols are read of each.
        dtype: of what is written.
    """

    def __init__(self, model: Model, lengths: Ids, dtype: np.dtype[Any]) -> None:
        assert model.buffers is not None
        self._skip, self._lengths = model.buffers.output_skip, lengths
        self._shape = len(lengths), int(lengths.max())
        self._sums: Numbers = np.zeros((0, 0), dtype)
        # Where in it the symbols of each string start; strings of a batch have as much room.
        self._starts = np.arange(len(lengths)) * self._shape[1]
        # Strengths are added up in double precision, as torch does it.
        self._totals = np.zeros(len(lengths))
        self._written = np.zeros(len(lengths), dtype)

    @property
    def full(self) -> Mask:
        """Whether all symbols of each of the strings that are written to are written."""
        found: Mask = self._written >= self._lengths
        return found

    def select(self, items: Ids) -> None:
        """Write to some of those written to alone, by their indices."""
        self._mark_overflow()
        self._starts, self._lengths = self._starts[items], self._lengths[items]
        self._totals, self._written = self._totals[items], self._written[items]

    def write(self, strengths: Numbers, logits: Numbers) -> Ids:
        """Write logits with strengths.

        Args:
            strengths: [n] 0 to 1, for the strings that are written to.
            logits: [n, outputs].

        Returns:
            [n] the symbol that each is part of, the first of two; `NONE` for none.
        """
        if not len(self._sums):
            shape = np.prod(self._shape), logits.shape[1]
            self._sums = np.zeros(shape, self._sums.dtype)
        before, lengths = self._written, self._lengths
        self._totals += strengths
        after = self._written = np.maximum(self._totals.astype(before.dtype) - self._skip, 0)
        number = np.floor(before)
        places = np.fmin(number, lengths).astype(np.int64)
        shares = np.minimum(after - number, 1) - (before - number)
        for later, share in enumerate((shares, after - number - 1)):
            (rows,) = ((share > 0) & (places + later < lengths)).nonzero()
            if len(rows):
                own = (self._starts + places + later).take(rows)
                more = share.take(rows)[:, None] * logits.take(rows, axis=0)
                self._sums[own] = self._sums.take(own, axis=0) + more
        return np.where((shares > 0) & (places < lengths), places, NONE)

    def read(self) -> Numbers:
        """[B, symbols, outputs] the logits of all symbols; NaN where strengths overflow."""
        self._mark_overflow()
        return self._sums.reshape(*self._shape, self._sums.shape[1])

    def _mark_overflow(self) -> None:
        for start in self._starts[np.isnan(self._totals)]:
            self._sums[start : start + self._shape[1]] = np.nan
