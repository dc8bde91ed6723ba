"""Ablations: models without memory, pushes, pops or state, made by changing weights.

The errors of an ablated model show what the part is used for. Backends run it like any other model:
a blocked signal has a bias far below 0, and an input that is cut off has weights of 0.
"""

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from stacktrans.common.errors import UsageError, unknown_name
from stacktrans.common.registry import CONTROLLERS
from stacktrans.decoding.model import Numbers
from stacktrans.model.checkpoint import Checkpoint
from stacktrans.model.units import Units
from stacktrans.model.weights import has_known_shapes, weight_shapes

BLOCKED = -1e30
"""The bias of a blocked gate or signal: far below the sums of other actions, which are large after
signals were rounded."""
PARTS = ("memory", "pushes", "pops", "state")
"""The parts that can be ablated."""
Weights = dict[str, Numbers]


def ablatable_parts(checkpoint: Checkpoint) -> list[str]:
    """The parts of a model that can be ablated; none of a machine, or without built-in units."""
    if not (has_known_shapes(checkpoint.config.model) and checkpoint.weights):
        return []
    memory = checkpoint.memory
    present = (
        memory.reads > 0,
        bool(memory.ends and memory.ends.pushes),
        bool(memory.ends and memory.ends.pops),
        checkpoint.config.model.has_state,
    )
    return [*itertools.compress(PARTS, present)]


def ablate(checkpoint: Checkpoint, part: str) -> Checkpoint:
    """A copy of a model without one of its parts.

    Args:
        checkpoint: a model with a built-in controller.
        part: "memory", so that reads are zero; "pushes" or "pops", which are blocked; or "state",
            so that a controller knows nothing of earlier steps but what it reads from memory.

    Raises:
        UsageError: the part is unknown, or the model does not have it.
    """
    if part not in PARTS:
        raise UsageError(unknown_name("part", part, PARTS))
    parts = ablatable_parts(checkpoint)
    if part not in parts:
        if parts:
            has = f"the model has no {part}; it has {', '.join(parts)}"
            raise UsageError(f"{checkpoint.path}: {has}")
        what = f"a model with controller {checkpoint.config.model.controller.name}"
        if checkpoint.machine or checkpoint.members:
            what = "a machine" if checkpoint.machine else "an ensemble"
        raise UsageError(f"{checkpoint.path}: {what} has no parts that can be left out")
    ends = checkpoint.memory.ends
    if ends and part in ("pushes", "pops"):
        blocked = ends.pushes if part == "pushes" else ends.pops
        return ablate_signals(checkpoint, [signal for signal, _ in blocked])
    ablated, weights = _copy_with_biases(checkpoint)
    if part == "memory":
        _cut_reads(ablated, weights)
    else:
        _cut_state(ablated, weights)
    return ablated


def ablate_signals(checkpoint: Checkpoint, signals: Sequence[int]) -> Checkpoint:
    """A copy of a model in which some signals are 0, or their actions are never taken.

    Args:
        checkpoint: a model with weights.
        signals: their indices in `Checkpoint.signal_names`.
    """
    ablated, weights = _copy_with_biases(checkpoint)
    weights["operation.signals.weight"][[*signals]] = 0
    weights["operation.signals.bias"][[*signals]] = BLOCKED
    return ablated


def _copy_with_biases(checkpoint: Checkpoint) -> tuple[Checkpoint, Weights]:
    """A copy of a model, with biases of 0 if it has none, and its weights, to be changed."""
    model, layout = checkpoint.config.model, checkpoint.layout
    weights = {name: weight.copy() for name, weight in checkpoint.current_weights.items()}
    if not model.controller.biases:
        controller = model.controller.model_copy(update={"biases": True})
        model = model.model_copy(update={"controller": controller})
        dtype = weights["classifier.weight"].dtype
        shapes = weight_shapes(model, layout.inputs, layout.outputs)
        weights = {name: np.zeros(shape, dtype) for name, shape in shapes.items()} | weights
    config = checkpoint.config.model_copy(update={"model": model})
    return replace(checkpoint, config=config, weights=weights), weights


def _cut_reads(checkpoint: Checkpoint, weights: Weights) -> None:
    """Set the weights on the vectors read to 0."""
    if "controller.layers.0.below_weight" in weights:
        weights["controller.layers.0.below_weight"][:] = 0
        return
    # The output of a linear controller ends with the vectors read.
    read_size = checkpoint.memory.reads * checkpoint.config.model.memory_size
    output = "output.0.weight" if "output.0.weight" in weights else "classifier.weight"
    for name in ("operation.signals.weight", "operation.values.weight", output):
        if name in weights:
            weights[name][:, weights[name].shape[1] - read_size :] = 0


def _cut_state(checkpoint: Checkpoint, weights: Weights) -> None:
    """Set the weights on the controller's state to 0, and close the gates that keep it."""
    model = checkpoint.config.model
    units: type[Units] = CONTROLLERS.load(model.controller.name)
    size = model.units.hidden_size
    for layer in range(model.units.layers):
        prefix = f"controller.layers.{layer}."
        if f"{prefix}hidden_weight" in weights:
            weights[f"{prefix}hidden_weight"][:] = 0
        if units.keep_gate:
            first = units.gates.index(units.keep_gate) * size
            rows = slice(first, first + size)
            weights[f"{prefix}bias"][rows] = BLOCKED
            for name in ("input_weight", "below_weight"):
                weights[f"{prefix}{name}"][rows] = 0
