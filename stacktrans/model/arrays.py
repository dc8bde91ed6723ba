"""A transducer in arrays: run without torch, in compiled code or, for short work, in Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np

from stacktrans.common.grouping import STEPS_AT_ONCE
from stacktrans.common.ragged import Ragged, starts_of
from stacktrans.common.registry import CONTROLLERS
from stacktrans.kernels import kernel
from stacktrans.kernels.answering import Asking, ReadOut, Writing, answer, read_rows, read_written
from stacktrans.kernels.arithmetic import sigmoid
from stacktrans.kernels.arrays import fresh
from stacktrans.kernels.batches import Kind, check_ids, forward_part
from stacktrans.kernels.cells import CELLS
from stacktrans.kernels.compiling import Array
from stacktrans.kernels.drive import forward
from stacktrans.kernels.loading import call, prepare
from stacktrans.kernels.products import padded, panels
from stacktrans.kernels.running import Running, RunWeights
from stacktrans.kernels.steps import Inputs, Trace
from stacktrans.kernels.threads import of_each
from stacktrans.memory import Memory, Reading, make_memory
from stacktrans.model.predictor import (
    NO_MARKS,
    Marks,
    Question,
    Questions,
    Said,
    SaidTogether,
    StepTaken,
    said_to_all,
)
from stacktrans.model.units import Units
from stacktrans.settings.model_config import ModelConfig
from stacktrans.tasks.alphabets import Ids, Mask

SIDE_BY_SIDE = 64
"""The most strings that are run at once: with more, what they hold leaves the processor's cache."""
ROWS_AT_ONCE = 256
"""Outputs of a buffered model that are read out at once."""
_ROOM = 1000
"""Symbols that there is room for in an answer at first, besides four for each that is read."""
_NEVER = -2
"""The output that is never said."""
_Strings = TypeVar("_Strings", Questions, Ragged)


def kind_of(config: ModelConfig, memory: Memory[Any], hard: bool = False) -> Kind | None:
    """What compiled code has to run for a model; None if there is none for it."""
    # Only if it is the class's own: what a class computes may differ from what its base does.
    units = vars(CONTROLLERS.load(config.controller.name)).get("cell")
    steps = memory.compiled() if units else None
    if not steps:
        return None
    tanh = config.value_nonlinearity == "tanh"
    gradient = config.units.state_gradient
    return Kind(CELLS[units], steps, config.buffers is not None, tanh, gradient, hard)


class Unrolled(NamedTuple):
    """N steps over strings, those of a string after those of the one before.

    Attributes:
        hidden: [N, H] the controller's outputs.
        signals: [N, signals].
        starts: [strings + 1] where the steps of each start, and N.
        taken: how many of the steps of each were taken, if it has as many; of the others nothing
            is known.
    """

    hidden: Array
    signals: Array
    starts: Ids
    taken: int


@dataclass(frozen=True, eq=False)
class ArrayModel:
    """A transducer in arrays.

    Attributes:
        config: the shape of the model.
        memory: its memory.
        weights: of controller, signals and values.
        output: the weight and the bias of o_t; None if outputs are read from the controller.
        classifier: the same of the logits.
        threads: how many batches are run at the same time.
    """

    config: ModelConfig
    memory: Memory[Any]
    weights: RunWeights
    output: tuple[Array, Array] | None
    classifier: tuple[Array, Array]
    threads: int = 1

    @property
    def hard(self) -> bool:
        """Whether signals are made 0 or 1."""
        return self.weights.kind.hard

    @property
    def shows_memory(self) -> bool:
        """Whether what the memory holds can be told from the arrays of its compiled code."""
        own = type(self.memory)
        return own.reading_of is not Memory.reading_of or own.reading is Memory.reading

    def made_hard(self, hard: bool) -> ArrayModel:
        """The same where signals are made 0 or 1, or not."""
        return replace(self, weights=self.weights.made_hard(hard))

    def start(self, batch_size: int) -> Running:
        """A run over B strings, whose `step` takes the next ids, [B, T].

        Raises:
            ValueError: the model has buffers.
        """
        return Running(self.weights, batch_size)

    def read_out(self, hidden: Array) -> Array:
        """Logits [..., outputs] from the controller's outputs [..., H]."""
        with np.errstate(all="ignore"):
            if self.output:
                hidden = np.tanh(hidden @ self.output[0].T + self.output[1])
            return hidden @ self.classifier[0].T + self.classifier[1]

    def answers(
        self, questions: Sequence[Question], marks: Marks = NO_MARKS, logs: bool = True
    ) -> Sequence[Said]:
        """See `Predictor.answers`; those that are alike in length are run side by side.

        Room is made for as many symbols as answers usually have, and for more only where one has
        not ended by then: it may have as many as can be counted.
        """
        if not questions:
            return []
        given = Questions.of(questions)
        limits = np.minimum(given.limits, 4 * given.ids.lengths + _ROOM)
        found = self._said_to(replace(given, limits=limits), marks, logs)
        on = np.flatnonzero((limits < given.limits) & _go_on(given.counts + limits, found, marks))
        while len(on):
            limits[on] = np.minimum(given.limits[on], 8 * limits[on])
            again = replace(given, limits=limits).chosen(on)
            longer = self._said_to(again, marks, logs)
            order = np.arange(len(given))
            order[on] = len(given) + np.arange(len(on))
            found = said_to_all([found, longer]).chosen(order)
            still = _go_on(again.counts + again.limits, longer, marks)
            on = on[still & (again.limits < given.limits[on])]
        return found

    def _said_to(self, questions: Questions, marks: Marks, logs: bool) -> SaidTogether:
        """The same, with room for all that may be said."""
        steps = questions.ids.lengths + questions.limits + 1
        alone = bool((questions.limits < 0).all()) and steps.max() <= STEPS_AT_ONCE
        prepare(int(steps.sum()), forward if alone else answer)
        check_ids(questions.ids.values, len(self.weights.projected))

        def said(group: Questions) -> SaidTogether:
            if alone:
                return self._given(group, logs)
            return self._answers(group, marks, logs)

        return self._of_groups(questions, steps, said)

    def _of_groups(
        self, strings: _Strings, steps: Ids, said: Callable[[_Strings], SaidTogether]
    ) -> SaidTogether:
        """What is said to strings, in their order, by the most steps that each takes, [n]."""
        order = np.argsort(-steps, kind="stable")
        longest_first = strings.chosen(order)
        groups = [longest_first[group] for group in _side_by_side(steps[order])]
        return said_to_all(of_each(said, groups, self.threads)).chosen(np.argsort(order))

    def _given(self, questions: Questions, logs: bool) -> SaidTogether:
        """The same for those of a group to which nothing but what is given is read.

        By the steps that training takes, too, so that it need not compile others.
        """
        hidden = self.unrolled(questions.ids).hidden
        rows = hidden if questions.asked is None else hidden[questions.asked.values]
        said = np.empty(len(rows), np.int64)
        shares = np.empty(len(rows) if logs else 0, hidden.dtype)
        read_rows(rows, said, shares, self._read_out(min(ROWS_AT_ONCE, max(1, len(rows)))))
        return SaidTogether.of(said, shares if logs else None, starts_of(questions.counts))

    def _answers(self, questions: Questions, marks: Marks, logs: bool) -> SaidTogether:
        """The same for those of a group."""
        weights, batch = self.weights, len(questions)
        sizes = weights.sizes._replace(batch=batch)
        each = np.arange(batch + 1)
        projected = weights.projected.reshape(len(weights.projected), *sizes.projected)
        run = sizes.run(
            weights.panels,
            weights.bias,
            each,
            Inputs(each, np.zeros(batch, np.int64), projected, 0),
            weights.states(batch),
            sizes.nothing_read(),
            Trace._make(sizes.new_trace(batch, saved=1)),
        )
        ids, asked, limits = questions.ids, questions.asked, questions.limits
        where = np.ones(len(ids.values), np.bool_) if asked is None else asked.values
        places = starts_of(questions.counts + limits + 1)
        asking = Asking(
            ids.values,
            ids.starts,
            where.astype(np.uint8),
            limits,
            marks.first_target,
            _NEVER if marks.end is None else marks.end,
            _NEVER if marks.last is None else marks.last,
            np.empty(places[-1], np.int64),
            np.empty(places[-1] if logs else 0, sizes.dtype),
            places[:-1].copy(),
            np.empty((3, batch), np.int64),
        )
        steps = int((ids.lengths + limits).max()) + 1
        store = sizes.store(steps).forward(slice(0, batch), slice(0, batch))
        call(answer, run, store, sizes.kind.memory.signals, asking, self._read_out(batch))
        whole = SaidTogether.of(asking.said, asking.logs if logs else None, places)
        return whole.cut(asking.places - places[:-1])

    def _read_out(self, rows: int) -> ReadOut:
        """What makes symbols of so many of the controller's outputs."""
        dtype, size = self.weights.sizes.dtype, self.weights.sizes.size
        weight, bias = self.output or (np.zeros((0, size), dtype), np.zeros(0, dtype))
        logits, logits_bias = self.classifier
        return ReadOut(
            panels(weight.T),
            bias,
            panels(logits.T),
            logits_bias,
            fresh(rows, size, dtype=dtype),
            fresh(rows, padded(len(bias), dtype), dtype=dtype),
            fresh(rows, len(bias), dtype=dtype),
            fresh(rows, padded(len(logits_bias), dtype), dtype=dtype),
        )

    def written(self, sources: Sequence[Ids], logs: bool = True) -> Sequence[Said]:
        """See `Predictor.written`."""
        if not sources:
            return []
        given = Ragged.of(sources)
        steps = self.config.steps_over(given.lengths)
        prepare(int(steps.sum()), forward)
        return self._of_groups(given, steps, partial(self._written, logs=logs))

    def _written(self, sources: Ragged, logs: bool) -> SaidTogether:
        assert self.config.buffers is not None
        count, skip = len(sources.values), self.config.buffers.output_skip
        run = self.unrolled(sources, wanted=sources.lengths + skip)
        writing = Writing(
            run.hidden,
            np.ascontiguousarray(run.signals[:, -1]),
            run.starts,
            run.taken,
            float(skip),
            sources.lengths,
            np.empty(count, np.int64),
            np.empty(count if logs else 0, run.hidden.dtype),
            np.empty_like(self.classifier[1]),
        )
        read_written(writing, self._read_out(ROWS_AT_ONCE))
        return SaidTogether.of(writing.said, writing.logs if logs else None, sources.starts)

    def unrolled(self, sources: Ragged, wanted: Ids | None = None) -> Unrolled:
        """The steps over n strings, the one with the most of them first.

        What follows does not matter once each has written as much to its buffer as is wanted, [n].
        """
        weights, batch = self.weights, len(sources)
        sizes = weights.sizes._replace(batch=batch)
        starts, ids = starts_of(self.config.steps_over(sources.lengths)), sources.values
        if self.config.buffers:
            nothing = len(weights.projected) - 1
            check_ids(ids, nothing)
            ids = np.insert(ids, np.repeat(sources.starts[1:], 2), nothing)
        inputs = sizes.inputs(starts, sources.starts, ids, weights.projected)
        count = int(starts[-1])
        trace = sizes.new_trace(count, saved=1)
        store = sizes.store(int(np.diff(starts).max(initial=0)))
        taken = forward_part(
            sizes,
            slice(0, batch),
            weights.panels,
            weights.bias,
            starts,
            inputs,
            weights.states(batch),
            sizes.nothing_read(),
            store,
            trace,
            None if wanted is None else wanted.astype(sizes.dtype),
        )
        return Unrolled(np.ascontiguousarray(trace[1][:, -1]), trace[2], starts, taken)

    def follow(self, ids: Ids, contents: bool = True) -> Iterable[StepTaken]:
        """See `Predictor.follow`."""
        prepare(self.config.steps_over(len(ids)), forward)
        hidden, signals, *_ = self.unrolled(Ragged.of([ids]))
        values = self.pushed(hidden)
        readings = self._readings(signals, values, contents)
        logits = self.read_out(hidden)
        return map(StepTaken, logits, signals, values, readings)

    def pushed(self, hidden: Array) -> Array:
        """The vectors that are pushed: [T, H] -> [T, pushes, m]."""
        weights, first = self.weights, self.weights.signals
        with np.errstate(all="ignore"):
            sums = hidden @ weights.heads[first:].T + weights.bias[first:]
            vectors: Array = np.tanh(sums) if weights.kind.tanh_values else sigmoid(sums)
        return vectors.reshape(len(hidden), self.memory.pushes, weights.sizes.columns)

    def _readings(self, signals: Array, values: Array, contents: bool) -> Iterator[Reading]:
        """What the memory holds after each of some steps, which it takes again."""
        sizes, count = self.weights.sizes._replace(batch=1), len(signals)
        store, one = sizes.store(count), slice(0, 1)
        memory, reads = store.forward(one, one), np.zeros(sizes.read, sizes.dtype)
        for step in range(count):
            with np.errstate(all="ignore"):
                kernel.pushed(memory, 0, step, 0)[:] = values[step]
                kernel.step_forward(memory, 0, step, 0, 1, signals[step], reads)
            yield self.memory.reading_of(store, reads, step + 1, contents)


def _go_on(most: Ids, said: SaidTogether, marks: Marks) -> Mask:
    """[n] which answers were only ended by the most symbols, [n], that there is room for."""
    symbols = said.symbols
    last = np.append(symbols.values, -1)[symbols.starts[1:] - 1]
    ends: Mask = (symbols.lengths < most) | np.isin(last, marks.ending)
    return ~ends


def _side_by_side(steps: Ids) -> Iterator[slice]:
    """Groups of strings that are run at once, by the steps that each takes, the most first."""
    first = 0
    while first < len(steps):
        most = STEPS_AT_ONCE // max(1, int(steps[first]))
        last = first + max(1, min(SIDE_BY_SIDE, most))
        yield slice(first, last)
        first = last


class _Layer(NamedTuple):
    """The weights of a layer, as `RunWeights` takes them."""

    projected: Array
    below: Array
    hidden: Array
    initial: Array


def _layer(
    units: type[Units], weights: Mapping[str, Array], number: int, rows: Array, read_size: int
) -> _Layer:
    """A layer, by its number from 0; `rows` are the vectors of all ids, [ids, E]."""
    if not units.units:  # what it sees is passed on
        embedded = rows.shape[1]
        places = np.eye(embedded + read_size, dtype=rows.dtype)
        shown = rows @ places[:embedded]
        below = np.ascontiguousarray(places[:, embedded:])
        return _Layer(shown, below, np.zeros_like(places), np.zeros_like(places[:1]))
    prefix = f"controller.layers.{number}."
    given, initial = weights[f"{prefix}input_weight"], weights[f"{prefix}initial_state"]
    nothing = np.zeros((len(given), initial.shape[1]), given.dtype)
    return _Layer(
        rows @ given.T + weights.get(f"{prefix}bias", given.dtype.type(0)),
        weights[f"{prefix}below_weight"],
        weights.get(f"{prefix}hidden_weight", nothing),
        initial,
    )


def _linear(weights: Mapping[str, Array], name: str, size: int) -> tuple[Array, Array]:
    """The weight and the bias of a linear map; one of no outputs if there is none."""
    weight = weights.get(f"{name}.weight", np.zeros((0, size), np.float32))
    return weight, weights.get(f"{name}.bias", np.zeros(len(weight), weight.dtype))


def from_weights(
    config: ModelConfig, weights: Mapping[str, Array], inputs: int, hard: bool, threads: int = 1
) -> ArrayModel | None:
    """A model of weights by their names, of the shapes of `weight_shapes`.

    None if there is no compiled code for it.
    """
    memory = make_memory(config)
    kind = kind_of(config, memory, hard)
    if kind is None:
        return None
    units: type[Units] = CONTROLLERS.load(config.controller.name)
    rows = weights.get("embedding.weight", np.eye(inputs, dtype=np.float32))
    if kind.buffered:  # after the last input nothing is read
        rows = np.concatenate([rows, np.zeros_like(rows[:1])])
    read_size = memory.reads * config.memory_size
    size = units.size_in(config, rows.shape[1], read_size)
    with np.errstate(all="ignore"):
        layers = [
            _layer(units, weights, number, rows, read_size) for number in range(config.units.layers)
        ]
    signals, signals_bias = _linear(weights, "operation.signals", size)
    values, values_bias = _linear(weights, "operation.values", size)
    run = RunWeights(
        kind,
        np.concatenate([layer.projected for layer in layers], axis=1),
        np.stack([layer.initial for layer in layers]),
        np.concatenate([signals, values]),
        np.concatenate([signals_bias, values_bias]),
        [weight for layer in layers for weight in (layer.below, layer.hidden)],
        len(signals),
    )
    output = _linear(weights, "output.0", size) if "output.0.weight" in weights else None
    return ArrayModel(config, memory, run, output, _linear(weights, "classifier", size), threads)
