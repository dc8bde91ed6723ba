"""A transducer in arrays: run without torch, in compiled code or, for short work, in Python."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from stacktrans.common.errors import OVERFLOW
from stacktrans.common.registry import CONTROLLERS
from stacktrans.decoding.model import Mixed
from stacktrans.kernels.arrays import Array
from stacktrans.kernels.batches import Kind
from stacktrans.kernels.cells import CELLS
from stacktrans.kernels.running import RunWeights, State, run_mixed, run_steps
from stacktrans.memory import Memory, Reading, make_memory
from stacktrans.model.units import Units
from stacktrans.settings.model_config import BuffersConfig, ModelConfig
from stacktrans.tasks.alphabets import Ids, Mask


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
    failure: ClassVar[str] = OVERFLOW
    certain: ClassVar[bool] = False

    @property
    def hard(self) -> bool:
        """Whether signals are made 0 or 1."""
        return self.weights.kind.hard

    @property
    def buffers(self) -> BuffersConfig | None:
        """See `Model.buffers`."""
        return self.config.buffers

    @property
    def shows_memory(self) -> bool:
        """Whether what the memory holds can be told from the arrays of its compiled code."""
        own = type(self.memory)
        return own.reading_of is not Memory.reading_of or own.reading is Memory.reading

    def made_hard(self, hard: bool) -> ArrayModel:
        """The same where signals are made 0 or 1, or not."""
        return replace(self, weights=self.weights.made_hard(hard))

    def start(self, batch: int, steps: int = 0) -> State:
        """See `Model.start`."""
        return State.first(self.weights, batch, steps)

    def advance(self, state: State, ids: Ids | Mixed, asked: Mask | None = None) -> Array:
        """See `Model.advance`."""
        if isinstance(ids, Mixed):
            sums = self.weights.projected  # the last of them is for no input
            first, share = sums[ids.ids], ids.share[:, None].astype(sums.dtype)
            with np.errstate(all="ignore"):
                mixed = first + share * (sums[ids.later] - first)
            return self.read_out(run_mixed(self.weights, state, mixed))
        hidden = run_steps(self.weights, state, ids)
        hidden = hidden.reshape(-1, hidden.shape[2]) if asked is None else hidden[asked]
        return self.read_out(hidden)

    def select(self, state: State, items: Ids) -> State:
        """See `Model.select`."""
        return state.chosen(items)

    def read_out(self, hidden: Array) -> Array:
        """Logits [..., outputs] from the controller's outputs [..., H]."""
        with np.errstate(all="ignore"):
            if self.output:
                hidden = np.tanh(hidden @ self.output[0].T + self.output[1])
            return hidden @ self.classifier[0].T + self.classifier[1]

    def pushed(self, state: State) -> Array:
        """See `Predictor.pushed`."""
        return state.run.values[0] if state.run else np.zeros((0, 0))

    def reading(self, state: State, contents: bool = True) -> Reading:
        """See `Predictor.reading`."""
        return self.memory.reading_of(state.store, state.read[0], state.used, contents)


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
