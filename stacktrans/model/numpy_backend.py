"""The numpy backend: transducers run by compiled code without torch, their states and weights.

For short work the same functions run uncompiled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from stacktrans.common.errors import OVERFLOW
from stacktrans.common.registry import CONTROLLERS
from stacktrans.decoding.model import SoftInput
from stacktrans.kernels import Array
from stacktrans.kernels.batches import (
    Architecture,
    BatchArguments,
    ModelWeights,
    Sizes,
    check_ids,
    forward_part,
)
from stacktrans.kernels.compiling import CompiledFunction
from stacktrans.kernels.kernel import Store
from stacktrans.kernels.steps import Forward, Inputs
from stacktrans.kernels.units import UNITS
from stacktrans.kernels.unroll import forward
from stacktrans.memory import Memory, MemorySnapshot, make_memory
from stacktrans.model.units import Units
from stacktrans.settings.model_config import BuffersConfig, ModelConfig
from stacktrans.tasks.alphabets import Ids, Mask

STRINGS_AT_ONCE = 64
"""Strings that are run together over several steps, so few that their states stay in a cache."""


def architecture_of(
    config: ModelConfig, memory: Memory[Any], hard: bool = False
) -> Architecture | None:
    """The architecture of a model for compiled code; None if there is no such code for it."""
    units = UNITS.get(config.controller.name)
    if not units or not memory.is_compiled or (config.buffers and units.second_order):
        return None
    tanh = config.value_nonlinearity == "tanh"
    gradient = config.units.state_gradient
    return Architecture(units, memory, config.buffers is not None, tanh, gradient, hard)


class NumpyState:
    """The state of a transducer after some steps of B strings.

    Attributes:
        weights: of the model.
        units: [L, states, B, H] the state of the units.
        read: [B, reads * m] what was read last.
        store: the memory, as a `Store`.
        room: the number of steps that the memory has room for.
        used: the number of these that were taken.
        sizes: of all arrays in a run.
        signals: [B, signals] of the last step.
        memory: what compiled steps take: views of the arrays of `store`.
        run: the arguments of a single step, which are reused; None before the first.
    """

    def __init__(
        self, weights: ModelWeights[Array], units: Array, read: Array, store: Store, room: int
    ) -> None:
        self.weights, self.units, self.read, self.store = weights, units, read, store
        self.room, self.used = room, 0
        self.sizes = weights.sizes._replace(batch=len(read))
        CompiledFunction.compile_if_long(self.sizes.batch * room)
        self.signals = np.zeros((self.sizes.batch, weights.architecture.signals), self.sizes.dtype)
        self.run: Forward | None = None
        self._set_memory()

    @classmethod
    def initial(cls, weights: ModelWeights[Array], batch: int, steps: int) -> NumpyState:
        """The state of B strings before the first step, with room for some steps."""
        sizes = weights.sizes._replace(batch=batch)
        units = np.repeat(weights.initial, batch, axis=2)
        return cls(weights, units, sizes.nothing_read(), sizes.store(steps), steps)

    def _set_memory(self) -> None:
        everything = slice(0, self.sizes.batch)
        self.memory = self.store.forward(everything, everything)

    def make_room(self, steps: int) -> None:
        """Make room for more steps, keeping only the part of the memory that can still be read."""
        if self.used + steps > self.room:
            steps = max(steps, self.room)
            CompiledFunction.compile_if_long(self.sizes.batch * steps)
            self.store = self.store.with_room(steps, self.used)
            self.room, self.used = steps, 0
            self._set_memory()

    def select(self, items: Array) -> NumpyState:
        """The states of some strings, by their indices, which may repeat."""
        room = self.room - self.used
        store = self.store.select(items).with_room(room, self.used)
        units = np.ascontiguousarray(self.units[:, :, items])  # as compiled code requires
        return NumpyState(self.weights, units, self.read[items], store, room)

    def advance(self, ids: Array) -> Array:
        """Take a step for each of the ids [B, T], and return the controller's outputs, [B, T, H].

        Raises:
            IndexError: an id is out of range.
            ValueError: the ids are not of B strings.
        """
        weights, sizes, (batch, steps) = self.weights, self.sizes, ids.shape
        if batch != sizes.batch:
            raise ValueError(f"inputs of {batch} strings for a run over {sizes.batch}")
        check_ids(ids, len(weights.projected) - weights.architecture.buffered)
        if steps == 1:
            return self.step(ids[:, 0], weights.projected)[:, None]
        self.make_room(steps)
        starts, trace = np.arange(batch + 1) * steps, sizes.new_trace(batch * steps, saved=1)
        inputs = _inputs(sizes, starts, ids, weights.projected)
        given = BatchArguments(weights.forward_panels, starts, inputs, self.store, trace)
        for first in range(0, batch, STRINGS_AT_ONCE):
            part = slice(first, min(first + STRINGS_AT_ONCE, batch))
            units = self.units[:, :, part].copy()
            forward_part(sizes, part, given, weights.bias, units, self.read[part], self.used)
            self.units[:, :, part] = units
        self.used += steps
        self.signals = trace.signals.reshape(batch, steps, -1)[:, -1]
        return trace.hidden[:, -1].reshape(batch, steps, -1)

    def step(self, ids: Array, projected: Array) -> Array:
        """Take a step, and return the controller's outputs, [B, H].

        `ids` [B] are the rows of `projected`, [ids, L * gates * H], that the strings read.
        """
        weights, sizes, batch = self.weights, self.sizes, len(ids)
        self.make_room(1)
        run = self.run
        if run is None:
            starts, trace = np.arange(batch + 1), sizes.new_trace(batch, saved=1)
            inputs = _inputs(sizes, starts, ids, projected)
            panels, bias = weights.forward_panels, weights.bias
            run = sizes.forward_arguments(
                panels, bias, starts, inputs, self.units, self.read, trace
            )
            self.run = run
        else:
            run.inputs.ids[:] = ids
            if projected is not weights.projected:
                run.inputs.projected[:] = projected.reshape(run.inputs.projected.shape)
        forward(run, self.memory, sizes.memory_signals, self.used)
        self.used += 1
        self.signals = run.trace.signals
        return run.trace.hidden[:, -1]


def _inputs(sizes: Sizes, starts: Array, ids: Array, projected: Array) -> Inputs:
    flat = np.array(ids, np.int64).ravel()
    return Inputs(starts, flat, projected.reshape(len(projected), *sizes.projected), 0)


@dataclass(frozen=True, eq=False)
class NumpyModel:
    """A transducer whose weights are numpy arrays, run by compiled code.

    Attributes:
        config: of the model.
        memory: its memory.
        weights: of controller, signals and values; the initial state is that of one string.
        output: weight and bias of o_t; None if logits are read from the controller's output.
        classifier: weight and bias of the logits.
        threads: the number of batches that are run at the same time.
    """

    config: ModelConfig
    memory: Memory[Any]
    weights: ModelWeights[Array]
    output: tuple[Array, Array] | None
    classifier: tuple[Array, Array]
    threads: int = 1
    failure: ClassVar[str] = OVERFLOW
    is_deterministic: ClassVar[bool] = False

    @property
    def hard(self) -> bool:
        """Whether signals are rounded to 0 or 1."""
        return self.weights.architecture.hard

    @property
    def outputs(self) -> int:
        """See `Model.outputs`."""
        return len(self.classifier[1])

    @property
    def buffers(self) -> BuffersConfig | None:
        """See `Model.buffers`."""
        return self.config.buffers

    def discretized(self, hard: bool = True) -> NumpyModel:
        """See `Predictor.discretized`."""
        architecture = self.weights.architecture._replace(hard=hard)
        return replace(self, weights=replace(self.weights, architecture=architecture))

    def start(self, batch: int, steps: int = 0) -> NumpyState:
        """See `Model.start`."""
        return NumpyState.initial(self.weights, batch, steps)

    def advance(
        self, state: NumpyState, ids: Ids | SoftInput, requested: Mask | None = None
    ) -> Array:
        """See `Model.advance`."""
        if isinstance(ids, SoftInput):
            projected = self.weights.projected  # the last row is for no input
            first, second = projected.take(ids.ids, axis=0), projected.take(ids.next_ids, axis=0)
            with np.errstate(all="ignore"):
                mean = first + ids.next_share[:, None].astype(first.dtype) * (second - first)
            return self.read_out(state.step(np.arange(len(mean)), mean))
        hidden = state.advance(ids)
        hidden = hidden.reshape(-1, hidden.shape[2]) if requested is None else hidden[requested]
        return self.read_out(hidden)

    def select(self, state: NumpyState, items: Ids) -> NumpyState:
        """See `Model.select`."""
        return state.select(items)

    def read_out(self, hidden: Array) -> Array:
        """Logits [..., outputs] from the controller's outputs [..., H]."""
        with np.errstate(all="ignore"):
            if self.output:
                hidden = np.tanh(hidden @ self.output[0].T + self.output[1])
            return hidden @ self.classifier[0].T + self.classifier[1]

    def pushed_vectors(self, state: NumpyState) -> Array:
        """See `Predictor.pushed_vectors`."""
        return state.run.values[0] if state.run else np.zeros((0, 0))

    def snapshot(self, state: NumpyState) -> MemorySnapshot:
        """See `Predictor.snapshot`."""
        return self.memory.snapshot_of(state.store, state.read[0], state.used)


def _layer(
    units: type[Units],
    weights: Mapping[str, Array],
    number: int,
    project: Callable[[Array], Array],
    size: int,
    read_size: int,
) -> tuple[Array, Array, Array, Array]:
    """Projected inputs, below weight, hidden weight and initial state of a layer.

    `number` counts layers from 0; `project` multiplies a weight [n, E] by the vectors of all ids,
    to [ids, n]; `size` is that of the controller's output.
    """
    if not units.has_units:  # its output is [x_t ; r_{t-1}]
        identity = np.eye(size, dtype=weights["classifier.weight"].dtype)
        of_inputs, below = np.split(identity, [size - read_size], axis=1)
        no_recurrence, initial = np.zeros_like(identity)[None], np.zeros_like(identity[:1])
        return project(of_inputs), np.ascontiguousarray(below), no_recurrence, initial
    prefix = f"controller.layers.{number}."
    input_weight, initial = weights[f"{prefix}input_weight"], weights[f"{prefix}initial_state"]
    no_recurrence = np.zeros((len(input_weight), initial.shape[1]), input_weight.dtype)
    hidden = weights.get(f"{prefix}hidden_weight", no_recurrence)
    if hidden.ndim == 3:  # of second-order units: a matrix for each id
        matrices = project(hidden.reshape(-1, hidden.shape[2]))
        hidden = matrices.reshape(-1, *hidden.shape[:2])
    else:
        hidden = hidden[None]
    bias = weights.get(f"{prefix}bias", input_weight.dtype.type(0))
    return project(input_weight) + bias, weights[f"{prefix}below_weight"], hidden, initial


def _linear(weights: Mapping[str, Array], name: str, size: int) -> tuple[Array, Array]:
    """Weight and bias of a linear map from `size` inputs; without outputs if the model has none."""
    no_outputs = np.zeros((0, size), weights["classifier.weight"].dtype)
    weight = weights.get(f"{name}.weight", no_outputs)
    return weight, weights.get(f"{name}.bias", np.zeros(len(weight), weight.dtype))


def from_weights(
    config: ModelConfig, weights: Mapping[str, Array], inputs: int, hard: bool, threads: int = 1
) -> NumpyModel | None:
    """A model with named weights of the shapes of `weight_shapes`.

    None if there is no compiled code for it.
    """
    memory = make_memory(config)
    architecture = architecture_of(config, memory, hard)
    if architecture is None:
        return None
    units: type[Units] = CONTROLLERS.load(config.controller.name)
    embeddings = weights.get("embedding.weight")  # None for one-hot vectors
    vector_size = inputs if embeddings is None else embeddings.shape[1]

    def project(weight: Array) -> Array:
        products = weight.T if embeddings is None else embeddings @ weight.T
        # The zeros are read after a buffer's last input. Compiled code requires C order.
        return np.pad(np.ascontiguousarray(products), ((0, int(architecture.buffered)), (0, 0)))

    read_size = memory.reads * config.memory_size
    size = units.hidden_size_for(config, vector_size, read_size)
    with np.errstate(all="ignore"):
        layers = [
            _layer(units, weights, number, project, size, read_size)
            for number in range(config.units.layers)
        ]
    projected, below, hidden, initial = zip(*layers, strict=True)
    signals, signals_bias = _linear(weights, "operation.signals", size)
    values, values_bias = _linear(weights, "operation.values", size)
    model_weights = ModelWeights(
        architecture,
        np.concatenate(projected, axis=1),
        np.stack(initial)[:, :, None],
        np.concatenate([signals, values]),
        np.concatenate([signals_bias, values_bias]),
        [weight for layer in zip(below, hidden, strict=True) for weight in layer],
    )
    output = _linear(weights, "output.0", size) if "output.0.weight" in weights else None
    classifier = _linear(weights, "classifier", size)
    return NumpyModel(config, memory, model_weights, output, classifier, threads)
