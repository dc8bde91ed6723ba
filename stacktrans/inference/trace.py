"""Traces of a model on one string: inputs, outputs, signals, reads and memory contents by step."""

import itertools
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from stacktrans.automata.wording import RuleDescription, entry_name
from stacktrans.common.errors import OVERFLOW, StacktransError
from stacktrans.decoding import decoder
from stacktrans.decoding.decoder import Answer, decode, log_softmax, most_probable_ids, predict
from stacktrans.decoding.model import Numbers
from stacktrans.memory import CellContents, MemorySnapshot, RowContents
from stacktrans.model.checkpoint import Checkpoint
from stacktrans.tasks import layout as sections
from stacktrans.tasks.alphabets import FAILED, NO_OUTPUT, UNSCORED_MARK, Ids, UnknownSymbol
from stacktrans.tasks.base import NotASource, Task, mask_unscored
from stacktrans.tasks.layout import Layout

BEGIN, SEPARATOR, END = "<s>", "|||", "</s>"
_MARKS = {sections.BEGIN: [BEGIN], sections.SEPARATOR: [SEPARATOR], sections.BLANK: [END]}
"""The written form of inputs that are not symbols."""
NOTHING = ""
"""The input of a step that reads nothing."""
MIN_WEIGHT = 0.005
"""The smallest weight or probability in a trace."""


@dataclass(frozen=True)
class ReadShare:
    """The share of a row in a vector read from a memory.

    Attributes:
        symbol: the input of the step that pushed the row; of a machine, its stack symbol.
        step: that step, from 1; in a buffer, the number of the symbol.
        weight: the weight of the row in the read.
    """

    symbol: str
    step: int
    weight: float


@dataclass(frozen=True)
class StoredRow:
    """A row in a memory with strengths.

    Attributes:
        symbol: the input of the step that pushed the row; of a machine, its stack symbol.
        step: that step, from 1.
        strength: the strength of the row, at least `MIN_WEIGHT`.
    """

    symbol: str
    step: int
    strength: float


@dataclass(frozen=True)
class CellRow:
    """The cells of a stack, from the bottom up, or of a list, from left to right.

    Empty cells at the ends are omitted.

    Attributes:
        filled: distance of each cell from an empty one, from 0 to 1: the mean of |x - e| over its
            components x, divided by 1 + |e|, where e is the number in an empty cell.
        values: components of each cell.
        head: index, from 0, of the cell at the head of a list; None for a stack.
        stack_symbols: of a machine, the stack symbol of each cell; empty for other models.
    """

    filled: list[float]
    values: list[list[float]]
    head: int | None
    stack_symbols: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class TraceStep:
    """A step of a trace: input, output, signals, reads and memory contents.

    Attributes:
        step: number of the step, from 1.
        input: symbol read; of a buffered model, the one with the greatest share, or nothing.
        output: most probable symbol; None before the answer, and where a machine has no output.
        probability: probability of the output; None where there is no output.
        likely: outputs with their probabilities, if these are at least `MIN_WEIGHT`.
        signals: value of each signal.
        pushed: vector pushed, for each end, stack or list.
        reads: shares of rows in what is read, largest first, for each end.
        total_strength: sum of all strengths in the memory after the step.
        tops: cells that are read of each stack, list or tape, for memories with cells.
        contents: rows of each queue, stack or deque after the step, bottom (or front) first, for
            memories with strengths; empty, as `lines`, unless contents were requested.
        lines: cells of each stack or list after the step, for memories whose cells are mixed.
        input_read: shares of what was read from the input buffer, largest first; None, as the
            following three, without buffers.
        input_left: sum of the strengths in the input buffer when it is read.
        written: shares of the output in the symbols of the answer, largest first.
        output_strength: sum of all strengths written to the output buffer until after the step.
        scored: whether the output is a scored symbol of the answer; of a buffered model, whether it
            is written to the answer.
        rule: the rule that a machine applies; None for other models.
        state: the state of a machine after the step; None if it has a single one.
        stuck: what a machine without a rule for it observes; the step does nothing then, and is the
            last. None at all other steps.
    """

    step: int
    input: str
    output: str | None
    probability: float | None
    likely: dict[str, float]
    signals: dict[str, float]
    pushed: dict[str, list[float]]
    reads: dict[str, list[ReadShare]]
    total_strength: float
    tops: dict[str, list[list[float]]]
    contents: dict[str, list[StoredRow]] = field(default_factory=dict)
    lines: dict[str, CellRow] = field(default_factory=dict)
    input_read: list[ReadShare] | None = None
    input_left: float | None = None
    written: list[ReadShare] | None = None
    output_strength: float | None = None
    scored: bool = True
    rule: RuleDescription | None = None
    state: str | None = None
    stuck: str | None = None

    def by_stack(self) -> dict[str, dict[str, float]]:
        """The signals of each memory with actions."""
        signals = iter(self.signals.items())
        # The last two are those of the buffers, if there are any.
        of_memory = len(self.signals) - 2 * (self.input_read is not None)
        count = of_memory // max(len(self.pushed), 1)
        return {name: dict(itertools.islice(signals, count)) for name in self.pushed}


@dataclass(frozen=True)
class Trace:
    """A trace: all steps of a transducer on one source.

    Attributes:
        model: the network or the machine in one line.
        source: as it is written.
        answer: the model's answer, as it is written.
        marked: the answer, with a mark for each symbol that is not scored.
        ended: whether the model ended its answer by itself.
        expected: the exact answer, or that in the user's files, with a mark for each symbol that is
            not determined; None if there is none.
        no_target: why there is no expected answer; None if there is one.
        correct: whether the answer is the exact one; None without an exact answer.
        failure: why a machine has no answer; None if it has one.
        steps: the steps of the run.
    """

    model: str
    source: str
    answer: str
    marked: str
    ended: bool
    expected: str | None
    no_target: str | None
    correct: bool | None
    failure: str | None
    steps: list[TraceStep]


def trace(checkpoint: Checkpoint, source: list[str], contents: bool = True) -> Trace:
    """Trace a model over the symbols of a source and of its own answer.

    The trace of a machine without an answer ends with the step at which no rule applies, or a rule
    has no output where the answer needs one.

    Args:
        checkpoint: the model.
        source: the symbols of the source.
        contents: whether steps have the memory's contents, which takes time and memory in the
            square of their number.

    Raises:
        UnknownSymbol: a symbol of the source is not in the alphabet.
        NotASource: the source is empty.
        StacktransError: the model's numbers overflow.
    """
    task = checkpoint.task
    ids = task.encode_source(source)
    answer = decode(checkpoint.predictor, checkpoint.layout, [ids], log_probs=False)[0]
    if answer.failed and not checkpoint.machine:
        raise StacktransError(checkpoint.predictor.failure)
    steps_of = _buffered_steps if checkpoint.config.model.buffers else _steps
    target, failure = _written(checkpoint, answer), None
    steps = steps_of(checkpoint, ids, target, contents)
    if answer.failed:
        steps, failure = _until_failure(steps, checkpoint.layout)
    elif steps and steps[-1].stuck:
        steps.pop()  # after the answer, where no rule is needed
    written = task.target.decode(target)
    scored = [True] * len(written)
    if task.same_length:
        scored = [*task.scored(source)][: len(written)]
        if not checkpoint.config.model.buffers:
            pairs = zip(steps, scored, strict=not answer.failed)
            steps[: len(scored)] = [replace(each, scored=each.scored and of) for each, of in pairs]
    _check_finite(steps)
    expected, correct, no_target = _expected(task, source, written, answer.ended)
    return Trace(
        model=checkpoint.description,
        source=task.source.join(source),
        answer=task.target.join(written),
        marked=task.target.join(mask_unscored(written, scored)),
        ended=answer.ended and not answer.failed,
        expected=expected,
        no_target=no_target,
        correct=correct,
        failure=failure,
        steps=steps,
    )


def _check_finite(steps: Sequence[TraceStep]) -> None:
    """Raise `StacktransError` if a number of a step is infinite or NaN."""
    for step in steps:
        try:
            # The contents follow from the signals, and may be large.
            json.dumps(asdict(replace(step, contents={}, lines={})), allow_nan=False)
        except ValueError:
            raise StacktransError(f"step {step.step}: {OVERFLOW}") from None


def _expected(
    task: Task, source: Sequence[str], written: Sequence[str], ended: bool
) -> tuple[str | None, bool | None, str | None]:
    """What a trace has as `expected`, `correct` and `no_target`, for the symbols written."""
    try:
        symbols = task.known_answer(source, written)
    except (NotASource, UnknownSymbol) as error:
        return None, None, str(error)
    right = [known in (None, own) for known, own in zip(symbols, written, strict=False)]
    correct = ended and len(written) == len(symbols) and all(right)
    return task.target.join([symbol or UNSCORED_MARK for symbol in symbols]), correct, None


def _written(checkpoint: Checkpoint, answer: Answer) -> Ids:
    """The symbols of an answer; if a machine fails, those written before that."""
    target, layout = np.array(answer.target, np.int64), checkpoint.layout
    missing = {FAILED, NO_OUTPUT} if layout.feeds_back else {FAILED}
    read = itertools.takewhile(lambda each: each not in missing, layout.in_reading_order(target))
    return layout.in_reading_order(np.array([*read], np.int64))


def _until_failure(steps: Sequence[TraceStep], layout: Layout) -> tuple[list[TraceStep], str]:
    """The steps of a machine up to the first at which it has no answer, and the reason."""
    for number, step in enumerate(steps, start=1):
        needed = number == len(steps) if layout.feeds_back else layout.ends_answers and step.written
        if step.rule and needed and step.output is None:
            reason = f"rule {step.rule.number} has no output, but the answer needs one"
            return [*steps[:number]], f"{reason}, at step {number}"
    return [*steps], f"no rule applies at step {len(steps)}: {steps[-1].stuck}"


class ModelStep(NamedTuple):
    """The numerical values of one step of a model, before symbols are named.

    Attributes:
        logits: [outputs].
        signals: [signals].
        pushed: [pushes, m] vectors pushed.
        snapshot: the memory after the step.
        rule: as in `TraceStep`, like the next two.
        state: the state of a machine.
        stuck: what a machine without a rule for it observes.
    """

    logits: Numbers
    signals: Numbers
    pushed: Numbers
    snapshot: MemorySnapshot
    rule: RuleDescription | None
    state: str | None
    stuck: str | None


def _observed(checkpoint: Checkpoint, ids: Ids, contents: bool) -> list[ModelStep]:
    """The steps of a model over given inputs."""
    model, machine = checkpoint.tracing_predictor, checkpoint.machine
    steps = list[ModelStep]()

    def observe(step: decoder.DecodingStep) -> None:
        if steps and steps[-1].stuck:
            return
        signals = np.array(step.state.signals[0])
        pushed = np.array(model.pushed_vectors(step.state))
        snapshot = model.snapshot(step.state)
        if not contents:
            snapshot = replace(snapshot, rows={}, cells={})
        rule = state = stuck = None
        if machine:
            configuration = step.state.items[0]
            if configuration.stuck:
                signals = np.zeros_like(signals)
                stuck = machine.describe_observation(configuration.observation)
            else:
                rule = machine.rule_descriptions[configuration.last.rule - 1]
            if machine.states.size > 1:
                state = entry_name(machine, machine.states, configuration.state)
        steps.append(ModelStep(step.logits[0], signals, pushed, snapshot, rule, state, stuck))

    predict(model, [ids], log_probs=False, observe=observe)
    return steps


def _steps(checkpoint: Checkpoint, source: Ids, target: Ids, contents: bool) -> list[TraceStep]:
    layout = checkpoint.layout
    ids, first_answer = layout.prompt(source), 1
    if layout.first_target is not None:
        first_answer = 1 if layout.consecutive else len(ids)
        read = layout.fed_back(layout.in_reading_order(target))
        ids = np.concatenate([ids, read + layout.first_target])
    symbols = input_symbols(checkpoint, ids)
    observed = enumerate(_observed(checkpoint, ids.astype(np.int64), contents), start=1)
    steps = [_step(checkpoint, number, step, symbols) for number, step in observed]
    prompt, answer = steps[: first_answer - 1], steps[first_answer - 1 :]
    nothing: dict[str, Any] = {"output": None, "probability": None, "likely": {}, "scored": False}
    return [*(replace(step, **nothing) for step in prompt), *answer]


def input_symbols(checkpoint: Checkpoint, ids: Ids) -> list[str]:
    """The written form of inputs."""
    task = checkpoint.task
    alphabets = {sections.SOURCE: task.source.symbols, sections.TARGET: task.target.symbols}
    symbols = alphabets | _MARKS
    inputs = [symbol for section, _ in checkpoint.layout.sections for symbol in symbols[section]]
    return [inputs[index] for index in ids.astype(np.int64)]


def _buffered_steps(
    checkpoint: Checkpoint, source: Ids, target: Ids, contents: bool
) -> list[TraceStep]:
    layout, buffers = checkpoint.layout, checkpoint.config.model.buffers
    assert buffers is not None
    source = layout.prompt(source)
    symbols = input_symbols(checkpoint, source)
    answer = checkpoint.task.target.decode(layout.in_reading_order(target))
    if layout.end is not None:
        answer = [*answer, END][: len(source)]
    observed = _observed(checkpoint, source, contents)
    read, write = np.array([step.signals[-2:] for step in observed]).reshape(-1, 2).T
    before = np.cumsum(read) - read
    left = np.maximum(len(source) - before, 0)
    reads = _read_shares(np.arange(1, len(source) + 1) - before[:, None])
    written = np.maximum(np.cumsum(write) - buffers.output_skip, 0)
    # A row is named after the symbol with the greatest share when the row was pushed.
    names = [symbols[int(row.argmax())] if row.any() else NOTHING for row in reads]
    steps = [_step(checkpoint, number, step, names) for number, step in enumerate(observed, 1)]
    parts = _read_shares(written - np.arange(len(answer))[:, None])
    return [
        replace(
            step,
            input_read=_shares(reads[index], symbols),
            input_left=float(left[index]),
            written=(shares := _shares(parts[:, index], answer)),
            output_strength=float(write[: index + 1].sum()),
            scored=step.scored and bool(shares),
        )
        for index, step in enumerate(steps)
    ]


def _read_shares(cumulative: Numbers) -> Numbers:
    """The shares of a buffer's rows in a read, [..., rows], from sums of strengths up to each."""
    return np.diff(np.clip(cumulative, 0, 1), axis=-1, prepend=0)


def _step(checkpoint: Checkpoint, number: int, step: ModelStep, symbols: list[str]) -> TraceStep:
    """The trace of step `number`, from 1, of a run over symbols."""
    memory, snapshot = checkpoint.memory, step.snapshot
    outputs = [*checkpoint.task.target.symbols, END]
    best = int(most_probable_ids(step.logits[None])[0])
    none = best < 0
    probabilities = np.exp(log_softmax(step.logits))
    likely = [] if none else np.flatnonzero(probabilities >= MIN_WEIGHT).tolist()
    names = checkpoint.signal_names
    return TraceStep(
        step=number,
        input=symbols[number - 1],
        output=None if none else outputs[best],
        probability=None if none else float(probabilities[best]),
        likely={outputs[index]: float(probabilities[index]) for index in likely},
        scored=not none,
        signals=dict(zip(names, step.signals.tolist(), strict=True)),
        pushed=dict(zip(memory.push_names, step.pushed.tolist(), strict=True)),
        reads={
            name: _shares(weights, symbols[:number], snapshot.stack_symbols.get(name))
            for name, weights in snapshot.read_weights.items()
        },
        total_strength=snapshot.total_strength,
        tops={name: own.tolist() for name, own in snapshot.read_cells.items()},
        contents={name: _stored_rows(own, symbols) for name, own in snapshot.rows.items()},
        lines={name: _cell_row(own, memory.empty) for name, own in snapshot.cells.items()},
        rule=step.rule,
        state=step.state,
        stuck=step.stuck,
    )


def _shares(weights: Any, symbols: list[str], stack_symbol: str | None = None) -> list[ReadShare]:
    """The shares with at least `MIN_WEIGHT` weight, largest first, from weights [n] of n symbols.

    A machine reads a single stack symbol.
    """
    pairs = enumerate(zip(symbols, weights.tolist(), strict=True), start=1)
    shares = (ReadShare(stack_symbol or symbol, step, weight) for step, (symbol, weight) in pairs)
    kept = (share for share in shares if share.weight >= MIN_WEIGHT)
    return sorted(kept, key=lambda share: -share.weight)


def _stored_rows(rows: RowContents, symbols: list[str]) -> list[StoredRow]:
    """The rows with at least `MIN_WEIGHT` strength."""
    steps = rows.origins.tolist()
    names = rows.stack_symbols or [symbols[step] for step in steps]
    return [
        StoredRow(symbol, step + 1, strength)
        for symbol, step, strength in zip(names, steps, rows.strengths.tolist(), strict=True)
        if strength >= MIN_WEIGHT
    ]


def _cell_row(cells: CellContents, empty: float) -> CellRow:
    """The cells from the first to the last that is not empty, or is the head."""
    values, head = np.array(cells.values.tolist()).reshape(cells.values.shape), cells.head
    distances = np.abs(values - empty).mean(axis=-1) / (1 + abs(empty))
    filled = np.minimum(distances, 1)  # machines number stack symbols
    shown = np.flatnonzero(filled >= MIN_WEIGHT).tolist() + ([] if head is None else [head])
    kept = slice(min(shown, default=0), max(shown, default=-1) + 1)
    index = None if head is None else head - kept.start
    stack_symbols = [*cells.stack_symbols[kept]]
    return CellRow(filled[kept].tolist(), values[kept].tolist(), index, stack_symbols)
