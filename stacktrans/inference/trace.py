"""What a transducer did at each step, as data."""

import itertools
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from stacktrans.common.errors import OVERFLOW, StacktransError, UsageError
from stacktrans.decoding import decoder
from stacktrans.decoding.decoder import decode, log_softmax, most_probable_ids, predict
from stacktrans.decoding.model import Numbers
from stacktrans.memory import CellContents, MemorySnapshot, RowContents
from stacktrans.memory.actions import EMPTY
from stacktrans.model.checkpoint import Checkpoint
from stacktrans.tasks import layout as sections
from stacktrans.tasks.alphabets import NO_OUTPUT, UNSCORED_MARK, Ids, UnknownSymbol
from stacktrans.tasks.base import NotASource, mask_unscored

BEGIN, SEPARATOR, END = "<s>", "|||", "</s>"
_MARKS = {sections.BEGIN: [BEGIN], sections.SEPARATOR: [SEPARATOR], sections.BLANK: [END]}
"""How inputs that are no symbols are shown."""
NOTHING = ""
"""Read where there is no input left."""
SMALLEST = 0.005
"""What has less weight or probability is left out."""


@dataclass(frozen=True)
class ReadShare:
    """One row's share in a read.

    Attributes:
        symbol: the symbol being read when the row was pushed.
        step: the step, from 1, that pushed it; in a buffer, the number of the symbol.
        weight: its weight in the read.
    """

    symbol: str
    step: int
    weight: float


@dataclass(frozen=True)
class Held:
    """A row that a memory holds.

    Attributes:
        symbol: the symbol being read when it was pushed.
        step: the step, from 1, that pushed it.
        strength: its strength, `SMALLEST` or more.
    """

    symbol: str
    step: int
    strength: float


@dataclass(frozen=True)
class CellRow:
    """The cells of a stack, from the bottom up, or of a list, from left to right.

    Cells at an end are left out where they are empty.

    Attributes:
        filled: how far each is from an empty one, from 0 to 1: the mean of (x + 1) / 2 over the
            numbers x that it holds, since an empty one holds -1.
        values: what each holds.
        head: which of them, from 0, is at the head of a list; None of a stack.
    """

    filled: list[float]
    values: list[list[float]]
    head: int | None


@dataclass(frozen=True)
class TraceStep:
    """One step of a transducer.

    Attributes:
        step: number of the step, from 1.
        input: the symbol read; of a buffered model, the one read most of, or nothing.
        output: the most probable symbol; None while nothing is answered, or where a machine has no
            output.
        probability: of the output; None where there is no output.
        likely: the probability of each output, where it is at least `SMALLEST`.
        signals: strength of each signal.
        pushed: for each end, stack or list, the vector pushed.
        reads: for each end, the rows that the read is made of, heaviest first.
        held: sum of all strengths in the memory after the step.
        tops: where a memory shows cells, those that are read, for each stack, list or tape.
        contents: of memories with strengths, the rows of each queue, stack or deque after the
            step, bottom (or front) first; nothing, as in `lines`, unless contents were asked for.
        lines: of memories whose cells are mixed, the cells of each stack or list after the step.
        input_read: what was read from the input buffer, heaviest first; None without buffers.
        input_left: sum of the strengths in the input buffer when it is read; None
            without buffers.
        written: the symbols of the answer that the output is part of, heaviest first; None
            without buffers.
        output_held: sum of the strengths in the output buffer after the step; None
            without buffers.
        scored: whether the output is a scored symbol of the answer.
    """

    step: int
    input: str
    output: str | None
    probability: float | None
    likely: dict[str, float]
    signals: dict[str, float]
    pushed: dict[str, list[float]]
    reads: dict[str, list[ReadShare]]
    held: float
    tops: dict[str, list[list[float]]]
    contents: dict[str, list[Held]] = field(default_factory=dict)
    lines: dict[str, CellRow] = field(default_factory=dict)
    input_read: list[ReadShare] | None = None
    input_left: float | None = None
    written: list[ReadShare] | None = None
    output_held: float | None = None
    scored: bool = True

    def by_stack(self) -> dict[str, dict[str, float]]:
        """For each stack or list whose cells are mixed by actions, the signals that are its own."""
        signals = iter(self.signals.items())
        # The last two are those of the buffers, if there are any.
        of_memory = len(self.signals) - 2 * (self.input_read is not None)
        count = of_memory // max(len(self.tops), 1)
        return {name: dict(itertools.islice(signals, count)) for name in self.tops}


@dataclass(frozen=True)
class Trace:
    """A transducer's way through one source, step by step.

    Attributes:
        source: as it is written.
        answer: the model's answer, as it is written.
        marked: the same with a mark for each symbol that is not scored.
        ended: whether the model ended its answer by itself.
        expected: the exact answer, with a mark where it can't be known; None if the task
            gives none.
        why_not: why the task gives none.
        correct: whether the answer is the exact one; None if there is none.
        steps: each with its input and output, and the vectors pushed and read.
    """

    source: str
    answer: str
    marked: str
    ended: bool
    expected: str | None
    why_not: str | None
    correct: bool | None
    steps: list[TraceStep]


def trace(checkpoint: Checkpoint, source: list[str], contents: bool = True) -> Trace:
    """Follow a model through the symbols of a source and its own answer.

    Args:
        checkpoint: the model.
        source: its symbols.
        contents: whether steps have all that the memory holds, which takes time and room by the
            square of their number.

    Raises:
        UnknownSymbol: a symbol of the source is not in the alphabet.
        NotASource: there is nothing to follow.
        StacktransError: the model's numbers overflow.
    """
    task = checkpoint.task
    ids = task.encode_source(source)
    answer = decode(checkpoint.predictor, checkpoint.layout, [ids], log_probs=False)[0]
    if answer.failed:
        raise StacktransError(checkpoint.predictor.failure)
    written = task.target.decode(answer.target)
    scored = [*task.scored(source)] if task.same_length else [True] * len(written)
    follow = _buffered_steps if checkpoint.config.model.buffers else _steps
    steps = follow(checkpoint, ids, answer.target, contents)
    if task.same_length and not checkpoint.config.model.buffers:
        steps = [replace(step, scored=own) for step, own in zip(steps, scored, strict=True)]
    for step in steps:
        try:
            # What is held follows from the signals, and there may be much of it.
            json.dumps(asdict(replace(step, contents={}, lines={})), allow_nan=False)
        except ValueError:  # NaN or infinite
            raise StacktransError(f"step {step.step}: {OVERFLOW}") from None
    expected, correct, why_not = None, None, None
    try:
        symbols = task.answer(source)
        expected = task.target.join([symbol or UNSCORED_MARK for symbol in symbols])
        agree = [right in (None, own) for right, own in zip(symbols, written, strict=False)]
        correct = answer.ended and len(written) == len(symbols) and all(agree)
    except (NotASource, UnknownSymbol) as error:
        why_not = str(error)
    return Trace(
        source=task.source.join(source),
        answer=task.target.join(written),
        marked=task.target.join(mask_unscored(written, scored)),
        ended=answer.ended,
        expected=expected,
        why_not=why_not,
        correct=correct,
        steps=steps,
    )


def of_stacks(followed: Trace, numbers: Sequence[int]) -> Trace:
    """A trace with some of the stacks or lists alone, by their numbers from 1.

    Raises:
        UsageError: there is none with such a number.
    """
    names = list(followed.steps[0].tops)
    for number in numbers:
        if not 1 <= number <= len(names):
            there_are = f"they are 1 to {len(names)}" if names else "the model has none"
            raise UsageError(f"no stack {number}: {there_are}")
    kept = [name for number, name in enumerate(names, start=1) if number in numbers]

    def chosen(step: TraceStep) -> TraceStep:
        own = step.by_stack()
        return replace(
            step,
            signals={name: value for stack in kept for name, value in own[stack].items()},
            pushed={name: vector for name, vector in step.pushed.items() if name in kept},
            tops={name: cells for name, cells in step.tops.items() if name in kept},
            lines={name: line for name, line in step.lines.items() if name in kept},
        )

    return replace(followed, steps=[chosen(step) for step in followed.steps])


class Taken(NamedTuple):
    """A step that a model has taken.

    Attributes:
        logits: [outputs].
        signals: [signals].
        pushed: [pushes, m] the vectors pushed.
        snapshot: the contents of the memory after it.
    """

    logits: Numbers
    signals: Numbers
    pushed: Numbers
    snapshot: MemorySnapshot


def _followed(checkpoint: Checkpoint, ids: Ids, contents: bool) -> list[Taken]:
    """The steps of a model over symbols that are given."""
    model, found = checkpoint.tracing_predictor, list[Taken]()

    def observe(step: decoder.DecodingStep) -> None:
        logits, signals = step.logits[0], np.array(step.state.signals[0])
        if not np.isnan(signals).any():  # as after a buffered machine's answer, which has no rule
            pushed, snapshot = (
                model.pushed_vectors(step.state),
                model.snapshot(step.state, contents),
            )
            found.append(Taken(logits, signals, np.array(pushed), snapshot))

    predict(model, [ids], log_probs=False, observe=observe)
    return found


def _steps(
    checkpoint: Checkpoint, source: Ids, target: list[int], contents: bool
) -> list[TraceStep]:
    layout = checkpoint.layout
    ids, first_answer = layout.prompt(source), 1
    if layout.first_target is not None:
        first_answer = 1 if layout.consecutive else len(ids)
        ids = np.concatenate([ids, layout.in_reading_order(np.array(target)) + layout.first_target])
    symbols = _shown(checkpoint, ids)
    taken = enumerate(_followed(checkpoint, ids.astype(np.int64), contents), start=1)
    steps = [_step(checkpoint, number, each, symbols, contents) for number, each in taken]
    unanswered = [
        replace(step, output=None, probability=None, likely={})
        for step in steps[: first_answer - 1]
    ]
    return [*unanswered, *steps[first_answer - 1 :]]


def _shown(checkpoint: Checkpoint, ids: Ids) -> list[str]:
    """How ids that are read are shown."""
    task = checkpoint.task
    own = {sections.SOURCE: task.source.symbols, sections.TARGET: task.target.symbols}
    symbols = {**own, **_MARKS}
    shown = [symbol for section, _ in checkpoint.layout.sections for symbol in symbols[section]]
    return [shown[index] for index in ids.astype(np.int64)]


def _buffered_steps(
    checkpoint: Checkpoint, source: Ids, target: list[int], contents: bool
) -> list[TraceStep]:
    layout, buffers = checkpoint.layout, checkpoint.config.model.buffers
    assert buffers is not None
    source = layout.prompt(source)
    symbols = _shown(checkpoint, source)
    outputs = [*checkpoint.task.target.symbols, END]
    answer = [outputs[index] for index in layout.in_reading_order(np.array(target, np.int64))]
    if layout.end is not None:
        answer = [*answer, END][: len(source)]
    taken = _followed(checkpoint, source, contents)
    read, write = np.array([each.signals[-2:] for each in taken]).reshape(-1, 2).T
    before = np.cumsum(read) - read
    left = np.maximum(len(source) - before, 0)
    reads = _parts_of(np.arange(1, len(source) + 1) - before[:, None])
    written = np.maximum(np.cumsum(write) - buffers.output_skip, 0)
    parts = _parts_of(written - np.arange(len(answer))[:, None])
    # A row is named after the symbol that was read most of when it was pushed.
    names = [symbols[int(row.argmax())] if row.any() else NOTHING for row in reads]
    return [
        replace(
            _step(checkpoint, index + 1, each, names, contents),
            input_read=_shares(reads[index], symbols),
            input_left=float(left[index]),
            written=_shares(parts[:, index], answer),
            output_held=float(write[: index + 1].sum()),
        )
        for index, each in enumerate(taken)
    ]


def _parts_of(cumulative: Numbers) -> Numbers:
    """How much of each row of a buffer is read, [..., rows], by the sums of strengths up to it."""
    return np.diff(np.clip(cumulative, 0, 1), axis=-1, prepend=0)


def _step(
    checkpoint: Checkpoint, number: int, taken: Taken, symbols: list[str], contents: bool
) -> TraceStep:
    """Step `number` of a run over symbols."""
    memory, snapshot = checkpoint.memory, taken.snapshot
    outputs = [*checkpoint.task.target.symbols, END]
    best = int(most_probable_ids(taken.logits[None])[0])
    none = best == NO_OUTPUT
    probabilities = np.exp(log_softmax(taken.logits))
    likely = [] if none else np.flatnonzero(probabilities >= SMALLEST).tolist()
    names = checkpoint.signal_names
    rows, cells = (snapshot.rows, snapshot.cells) if contents else ({}, {})
    return TraceStep(
        step=number,
        input=symbols[number - 1],
        output=None if none else outputs[best],
        probability=None if none else float(probabilities[best]),
        likely={outputs[index]: float(probabilities[index]) for index in likely},
        signals=dict(zip(names, taken.signals.tolist(), strict=True)),
        pushed=dict(zip(memory.push_names, taken.pushed.tolist(), strict=True)),
        reads={
            name: _shares(weights, symbols[:number])
            for name, weights in snapshot.read_weights.items()
        },
        held=snapshot.total_strength,
        tops={name: own.tolist() for name, own in snapshot.read_cells.items()},
        contents={name: _held(held, symbols) for name, held in rows.items()},
        lines={name: _line(own) for name, own in cells.items()},
    )


def _shares(weights: Any, symbols: list[str]) -> list[ReadShare]:
    """The parts with at least `SMALLEST` weight, heaviest first: weights [n] of n symbols."""
    weighed = enumerate(zip(symbols, weights.tolist(), strict=True), start=1)
    parts = [ReadShare(symbol, step, weight) for step, (symbol, weight) in weighed]
    kept = (part for part in parts if part.weight >= SMALLEST)
    return sorted(kept, key=lambda part: -part.weight)


def _held(rows: RowContents, symbols: list[str]) -> list[Held]:
    """The rows with at least `SMALLEST` strength."""
    pairs = zip(rows.origins.tolist(), rows.strengths.tolist(), strict=True)
    return [
        Held(symbols[step], step + 1, strength) for step, strength in pairs if strength >= SMALLEST
    ]


def _line(cells: CellContents) -> CellRow:
    """The cells from the first to the last that is not empty, or is the head."""
    values, head = np.array(cells.values.tolist()).reshape(cells.values.shape), cells.head
    filled = (values - EMPTY).mean(axis=-1) / 2
    there = np.flatnonzero(filled >= SMALLEST).tolist() + ([] if head is None else [head])
    kept = slice(min(there, default=0), max(there, default=-1) + 1)
    place = None if head is None else head - kept.start
    return CellRow(filled[kept].tolist(), values[kept].tolist(), place)
