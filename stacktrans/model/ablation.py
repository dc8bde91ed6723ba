"""Ablations: a model without a part of what it works with, by changing its weights.

What a model makes of its memory is seen by what is wrong without it. No compiled code has to know
of this: a signal that is shut is one whose sum is far below 0, and what is not seen has weights
of 0.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from stacktrans.common.errors import UsageError, unknown_name
from stacktrans.common.registry import CONTROLLERS
from stacktrans.decoding.model import Numbers
from stacktrans.model.checkpoint import Checkpoint
from stacktrans.model.units import Units
from stacktrans.model.weights import weight_shapes

SHUT = -1e30
"""The sum of a gate or a signal that is 0: far below those of other actions, too, which are great
in a model that was made discrete."""
KEEPING = {"lstm": "forget", "gru": "update"}
"""The gates that keep a state, by the controllers that have one."""
PARTS = ("memory", "pushes", "pops", "state")
"""What a model may be without."""
Weights = dict[str, Numbers]
Change = Callable[[Checkpoint, Weights], None]
"""Changes a copy of a model's weights."""


def ablatable_parts(checkpoint: Checkpoint) -> list[str]:
    """The parts that a model can be run without, of those that it has."""
    known = checkpoint.config.model.controller.name in CONTROLLERS.builtin
    if not (known and checkpoint.weights):  # or else it is unknown what the weights mean
        return []
    memory = checkpoint.memory
    there = (
        memory.reads > 0,
        bool(memory.ends and memory.ends.pushes),
        bool(memory.ends and memory.ends.pops),
        "controller.layers.0.hidden_weight" in checkpoint.weights,
    )
    return [*itertools.compress(PARTS, there)]


def ablate(checkpoint: Checkpoint, part: str) -> Checkpoint:
    """A model that has lost a part: its weights, but for those of the part, are the same.

    Args:
        checkpoint: a model with a controller of this package.
        part: "memory", whose reads are then zero; "pushes" or "pops", which are blocked; or
            "state", after which a controller knows nothing of the steps before but what it reads.

    Raises:
        UsageError: there is no such part, or the model has none, or its controller is a plugin's.
    """
    if part not in PARTS:
        raise UsageError(unknown_name("part", part, PARTS))
    own = ablatable_parts(checkpoint)
    if part not in own:
        has = f"it has {', '.join(own)}" if own else "it has nothing that it could be without"
        raise UsageError(f"{checkpoint.path}: the model has no {part}; {has}")
    if part in ("memory", "state"):
        return _changed(checkpoint, _blind if part == "memory" else _forget)
    ends = checkpoint.memory.ends
    assert ends is not None
    shut = ends.pushes if part == "pushes" else ends.pops
    return ablate_signals(checkpoint, [signal for signal, _ in shut])


def ablate_signals(checkpoint: Checkpoint, signals: Sequence[int]) -> Checkpoint:
    """A model in which some signals are 0, or their actions are never taken.

    Args:
        checkpoint: a model with weights.
        signals: their numbers; see `Checkpoint.signal_names`.
    """

    def shut(_: Checkpoint, weights: Weights) -> None:
        weights["operation.signals.weight"][[*signals]] = 0
        weights["operation.signals.bias"][[*signals]] = SHUT

    return _changed(checkpoint, shut)


def _changed(checkpoint: Checkpoint, change: Change) -> Checkpoint:
    complete = _with_all_biases(replace(checkpoint, weights=checkpoint.current_weights))
    weights = {name: weight.copy() for name, weight in complete.weights.items()}
    change(complete, weights)
    return replace(complete, weights=weights)


def _with_all_biases(checkpoint: Checkpoint) -> Checkpoint:
    """The same model, with biases of 0 where it has none."""
    model, layout, weights = checkpoint.config.model, checkpoint.layout, checkpoint.weights
    if model.controller.biases:
        return checkpoint
    controller = model.controller.model_copy(update={"biases": True})
    model = model.model_copy(update={"controller": controller})
    dtype = weights["classifier.weight"].dtype
    shapes = weight_shapes(model, layout.inputs, layout.outputs)
    zeros = {name: np.zeros(shape, dtype) for name, shape in shapes.items()}
    config = checkpoint.config.model_copy(update={"model": model})
    return replace(checkpoint, config=config, weights={**zeros, **weights})


def _blind(checkpoint: Checkpoint, weights: Weights) -> None:
    """Have reads be seen as zeros."""
    if "controller.layers.0.below_weight" in weights:
        weights["controller.layers.0.below_weight"][:] = 0
        return
    # A linear controller passes on what it sees, and what was read is the last of that.
    read = checkpoint.memory.reads * checkpoint.config.model.memory_size
    of_outputs = "output.0.weight" if "output.0.weight" in weights else "classifier.weight"
    for name in ("operation.signals.weight", "operation.values.weight", of_outputs):
        if name in weights:
            weights[name][:, weights[name].shape[1] - read :] = 0


def _forget(checkpoint: Checkpoint, weights: Weights) -> None:
    """Have a controller's state be nothing at the beginning of each step."""
    model = checkpoint.config.model
    units: type[Units] = CONTROLLERS.load(model.controller.name)
    gates, size = units.gates, model.units.hidden_size
    for layer in range(model.units.layers):
        prefix = f"controller.layers.{layer}."
        weights[f"{prefix}hidden_weight"][:] = 0
        if keeping := KEEPING.get(model.controller.name):
            first = gates.index(keeping) * size
            rows = slice(first, first + size)
            weights[f"{prefix}bias"][rows] = SHUT
            for seen in ("input_weight", "below_weight"):
                weights[f"{prefix}{seen}"][rows] = 0


def ablations(checkpoint: Checkpoint) -> Iterator[tuple[str, Checkpoint]]:
    """The model without each of its parts, by their names."""
    for part in ablatable_parts(checkpoint):
        yield part, ablate(checkpoint, part)
