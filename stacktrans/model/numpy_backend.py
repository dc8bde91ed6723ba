"""A transducer in arrays: run without torch, in compiled code or, for short work, in Python."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from stacktrans.common.errors import OVERFLOW
from stacktrans.common.registry import CONTROLLERS
from stacktrans.decoding.model import SoftInput
from stacktrans.kernels import Array
from stacktrans.kernels.batches import (
    Architecture,
    Given,
    ModelWeights,
    Sizes,
    check_ids,
    forward_part,
    forward_weights,
)
from stacktrans.kernels.compiling import CompiledFunction
from stacktrans.kernels.kernel import Store
from stacktrans.kernels.steps import Forward, Inputs, Weights
from stacktrans.kernels.units import UNITS
from stacktrans.kernels.unroll import forward
from stacktrans.memory import Memory, MemorySnapshot, make_memory
from stacktrans.model.units import Units
from stacktrans.settings.model_config import BuffersConfig, ModelConfig
from stacktrans.tasks.alphabets import Ids, Mask

STRINGS_AT_ONCE = 64
"""Strings that take several steps together: few enough for their states to stay in a cache."""


def architecture_of(
    config: ModelConfig, memory: Memory[Any], hard: bool = False
) -> Architecture | None:
    """What compiled code has to run for a model; None if there is none for it."""
    # Only if it is the class's own: what a class computes may differ from what its base does.
    units = vars(CONTROLLERS.load(config.controller.name)).get("compiled_unit")
    steps = memory.compiled() if units else None
    if not steps:
        return None
    tanh = config.value_nonlinearity == "tanh"
    gradient = config.units.state_gradient
    return Architecture(UNITS[units], steps, config.buffers is not None, tanh, gradient, hard)


@dataclass(eq=False)
class RunWeights(ModelWeights[Array]):
    """The weights of a model that is only run, as for a single string.

    Attributes:
        sizes: of everything in a run.

    Raises:
        ValueError: they are not of the right shapes.
    """

    sizes: Sizes = field(init=False)

    def __post_init__(self) -> None:
        self.sizes = Sizes.of(self)

    @functools.cached_property
    def panels(self) -> Weights:
        """What multiplies rows at each step."""
        return forward_weights(self)

    @property
    def inputs(self) -> int:
        """How many ids of inputs there are."""
        return len(self.projected) - self.architecture.buffered


@dataclass(eq=False)
class State:
    """B strings on their way through a model.

    Attributes:
        sizes: of everything in a run.
        units: [L, states, B, H] the state of the units.
        read: [B, reads * m] what was read last.
        store: the memory.
        room: how many steps it has room for.
        used: how many of them were taken.
        signals: [B, signals] of the last step.
        memory: the arrays of the memory.
        run: what a step takes; None before the first.
    """

    sizes: Sizes
    units: Array
    read: Array
    store: Store
    room: int
    used: int = 0
    signals: Array = field(init=False)
    memory: Any = field(init=False)
    run: Forward | None = None

    def __post_init__(self) -> None:
        CompiledFunction.expect(self.sizes.batch * self.room)
        self.signals = np.zeros((self.sizes.batch, self.sizes.signals), self.sizes.dtype)
        self._look()

    @classmethod
    def first(cls, weights: RunWeights, batch: int, steps: int) -> State:
        """The state of B strings before the first step, with room for some steps."""
        sizes = weights.sizes._replace(batch=batch)
        units = np.repeat(weights.initial, batch, axis=2)
        return cls(sizes, units, sizes.nothing_read(), sizes.store(steps), steps)

    def _look(self) -> None:
        everything = slice(0, self.sizes.batch)
        self.memory = self.store.forward(everything, everything)

    def make_room(self, steps: int) -> None:
        """Have room for some steps more; of the memory only what can still be read is kept."""
        if self.used + steps > self.room:
            steps = max(steps, self.room)
            CompiledFunction.expect(self.sizes.batch * steps)
            self.store = self.store.after(self.used).with_room(steps)
            self.room, self.used = steps, 0
            self._look()

    def select(self, items: Array) -> State:
        """That of other strings, each from where one of these is, by their indices."""
        store = self.store.after(self.used).select(items).with_room(self.room - self.used)
        sizes = self.sizes._replace(batch=len(items))
        units = np.ascontiguousarray(self.units[:, :, items])  # as compiled code takes it to be
        return State(sizes, units, self.read[items], store, self.room - self.used)


def run_steps(weights: RunWeights, state: State, ids: Array) -> Array:
    """The controller's outputs over the next T steps, [B, T, H], with ids [B, T].

    Raises:
        IndexError: there is no such id.
        ValueError: they are not of B strings.
    """
    sizes, (batch, steps) = state.sizes, ids.shape
    if batch != sizes.batch:
        raise ValueError(f"inputs of {batch} strings for a run over {sizes.batch}")
    check_ids(ids, weights.inputs)
    if steps == 1:
        return _step(weights, state, ids[:, 0], weights.projected)[:, None]
    state.make_room(steps)
    starts, trace = np.arange(batch + 1) * steps, sizes.new_trace(batch * steps, saved=1)
    inputs = _inputs(sizes, starts, ids, weights.projected)
    given = Given(weights.panels, starts, inputs, state.store, trace)
    for first in range(0, batch, STRINGS_AT_ONCE):
        part = slice(first, min(first + STRINGS_AT_ONCE, batch))
        units = state.units[:, :, part].copy()
        forward_part(sizes, part, given, weights.bias, units, state.read[part], state.used)
        state.units[:, :, part] = units
    state.used += steps
    state.signals = trace.signals.reshape(batch, steps, -1)[:, -1]
    return trace.hidden[:, -1].reshape(batch, steps, -1)


def run_mixed(weights: RunWeights, state: State, projected: Array) -> Array:
    """The controller's outputs over a step, [B, H], with the gates' sums over what is read.

    Args:
        weights: of the model.
        state: changed in place.
        projected: [B, L * gates * H].
    """
    return _step(weights, state, np.arange(len(projected)), projected)


def _step(weights: RunWeights, state: State, ids: Array, projected: Array) -> Array:
    sizes, batch = state.sizes, len(ids)
    state.make_room(1)
    run = state.run
    if run is None:
        starts, trace = np.arange(batch + 1), sizes.new_trace(batch, saved=1)
        inputs = _inputs(sizes, starts, ids, projected)
        run = state.run = sizes.run(
            weights.panels, weights.bias, starts, inputs, state.units, state.read, trace
        )
    else:
        run.inputs.ids[:] = ids
        if projected is not weights.projected:
            run.inputs.projected[:] = projected.reshape(run.inputs.projected.shape)
    forward(run, state.memory, sizes.architecture.memory.signals, state.used)
    state.used += 1
    state.signals = run.trace.signals
    return run.trace.hidden[:, -1]


def _inputs(sizes: Sizes, starts: Array, ids: Array, projected: Array) -> Inputs:
    flat = np.array(ids, np.int64).ravel()
    return Inputs(starts, flat, projected.reshape(len(projected), *sizes.projected), 0)


@dataclass(frozen=True, eq=False)
class NumpyModel:
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
    failure: ClassVar[str] = OVERFLOW
    certain: ClassVar[bool] = False

    @property
    def hard(self) -> bool:
        """Whether signals are made 0 or 1."""
        return self.weights.architecture.hard

    @property
    def buffers(self) -> BuffersConfig | None:
        """See `Model.buffers`."""
        return self.config.buffers

    @property
    def shows_memory(self) -> bool:
        """Whether what the memory holds can be told from the arrays of its compiled code."""
        own = type(self.memory)
        return own.snapshot_of is not Memory.snapshot_of or own.snapshot is Memory.snapshot

    def discretised(self, hard: bool = True) -> NumpyModel:
        """The same where signals are made 0 or 1, or not."""
        architecture = self.weights.architecture._replace(hard=hard)
        return replace(self, weights=replace(self.weights, architecture=architecture))

    def start(self, batch: int, steps: int = 0) -> State:
        """See `Model.start`."""
        return State.first(self.weights, batch, steps)

    def advance(self, state: State, ids: Ids | SoftInput, requested: Mask | None = None) -> Array:
        """See `Model.advance`."""
        if isinstance(ids, SoftInput):
            sums = self.weights.projected  # the last of them is for no input
            first, later = sums.take(ids.ids, axis=0), sums.take(ids.next_ids, axis=0)
            with np.errstate(all="ignore"):
                mixed = first + ids.next_share[:, None].astype(sums.dtype) * (later - first)
            return self.read_out(run_mixed(self.weights, state, mixed))
        hidden = run_steps(self.weights, state, ids)
        hidden = hidden.reshape(-1, hidden.shape[2]) if requested is None else hidden[requested]
        return self.read_out(hidden)

    def select(self, state: State, items: Ids) -> State:
        """See `Model.select`."""
        return state.select(items)

    def read_out(self, hidden: Array) -> Array:
        """Logits [..., outputs] from the controller's outputs [..., H]."""
        with np.errstate(all="ignore"):
            if self.output:
                hidden = np.tanh(hidden @ self.output[0].T + self.output[1])
            return hidden @ self.classifier[0].T + self.classifier[1]

    def pushed_vectors(self, state: State) -> Array:
        """See `Predictor.pushed_vectors`."""
        return state.run.values[0] if state.run else np.zeros((0, 0))

    def snapshot(self, state: State, contents: bool = True) -> MemorySnapshot:
        """See `Predictor.snapshot`."""
        return self.memory.snapshot_of(state.store, state.read[0], state.used, contents)


def _layer(
    units: type[Units], weights: Mapping[str, Array], number: int, rows: Array, read_size: int
) -> tuple[Array, Array, Array, Array]:
    """What `RunWeights` has of a layer, by its number from 0: sums, two weights, initial state.

    `rows` are the vectors of all ids, [ids, E].
    """
    if not units.units:  # what it sees is passed on
        embedded = rows.shape[1]
        places = np.eye(embedded + read_size, dtype=rows.dtype)
        shown = rows @ places[:embedded]
        below = np.ascontiguousarray(places[:, embedded:])
        return shown, below, np.zeros_like(places), np.zeros_like(places[:1])
    prefix = f"controller.layers.{number}."
    given, initial = weights[f"{prefix}input_weight"], weights[f"{prefix}initial_state"]
    nothing = np.zeros((len(given), initial.shape[1]), given.dtype)
    return (
        rows @ given.T + weights.get(f"{prefix}bias", given.dtype.type(0)),
        weights[f"{prefix}below_weight"],
        weights.get(f"{prefix}hidden_weight", nothing),
        initial,
    )


def _linear(weights: Mapping[str, Array], name: str, size: int) -> tuple[Array, Array]:
    """The weight and the bias of a linear map; one of no outputs if there is none."""
    nothing = np.zeros((0, size), weights["classifier.weight"].dtype)
    weight = weights.get(f"{name}.weight", nothing)
    return weight, weights.get(f"{name}.bias", np.zeros(len(weight), weight.dtype))


def from_weights(
    config: ModelConfig, weights: Mapping[str, Array], inputs: int, hard: bool, threads: int = 1
) -> NumpyModel | None:
    """A model of weights by their names, of the shapes of `weight_shapes`.

    None if there is no compiled code for it.
    """
    memory = make_memory(config)
    architecture = architecture_of(config, memory, hard)
    if architecture is None:
        return None
    units: type[Units] = CONTROLLERS.load(config.controller.name)
    rows = weights.get("embedding.weight", np.eye(inputs, dtype=weights["classifier.weight"].dtype))
    if architecture.buffered:  # after the last input nothing is read
        rows = np.concatenate([rows, np.zeros_like(rows[:1])])
    read_size = memory.reads * config.memory_size
    size = units.size_in(config, rows.shape[1], read_size)
    with np.errstate(all="ignore"):
        layers = [
            _layer(units, weights, number, rows, read_size) for number in range(config.units.layers)
        ]
    projected, below, hidden, initial = zip(*layers, strict=True)
    signals, signals_bias = _linear(weights, "operation.signals", size)
    values, values_bias = _linear(weights, "operation.values", size)
    run = RunWeights(
        architecture,
        np.concatenate(projected, axis=1),
        np.stack(initial)[:, :, None],
        np.concatenate([signals, values]),
        np.concatenate([signals_bias, values_bias]),
        [weight for layer in zip(below, hidden, strict=True) for weight in layer],
        len(signals),
    )
    output = _linear(weights, "output.0", size) if "output.0.weight" in weights else None
    return NumpyModel(config, memory, run, output, _linear(weights, "classifier", size), threads)
