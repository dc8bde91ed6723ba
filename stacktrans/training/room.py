"""How much memory a run needs at the very least, so that one that can't fit is refused at once."""

import math
import os

from stacktrans.common.errors import UsageError
from stacktrans.model.transducer import Transducer, without_numbers
from stacktrans.settings.config import RunConfig
from stacktrans.tasks.layouts import Layout

_BYTES = 4
_COPIES = 3
"""Of the weights: themselves, their gradients, and their running mean."""


def check_room(config: RunConfig, layout: Layout) -> None:
    """Refuse a run that this machine has no room for.

    Args:
        config: of the run.
        layout: of its task.

    Raises:
        UsageError: its weights, or what a batch makes of them, surely do not fit.
    """
    there = _bytes_of_machine()
    model = without_numbers(config.model, layout.inputs, layout.outputs)
    weights = _BYTES * _COPIES * count_weights(model)
    if weights > there:
        raise UsageError(f"model: its weights {_refusal(weights, there)}")
    batch = _BYTES * _numbers_of_a_batch(config, model, layout.outputs)
    if weights + batch > there:
        size = config.training.batch_size
        raise UsageError(
            f"training.batch_size: {size} strings at once {_refusal(weights + batch, there)}"
        )


def count_weights(model: Transducer) -> int:
    """How many numbers a model holds, those that are not learned included."""
    return sum(tensor.numel() for tensor in (*model.parameters(), *model.buffers()))


def _numbers_of_a_batch(config: RunConfig, model: Transducer, outputs: int) -> int:
    """At least how many numbers are kept of a batch: gates, states and what is said."""
    layers = model.controller.all_layers
    rows = sum((len(layer.gates) + 1) * layer.hidden_size for layer in layers)
    return config.training.batch_size * _steps(config) * (rows + outputs)


def _steps(config: RunConfig) -> int:
    """At least how many steps a sequence of a batch has in the mean."""
    training = config.training
    if training.stream:
        return training.stream.steps
    shortest, longest = config.task.ranges.train
    law = training.length_law or config.task.length_law
    return shortest if law or training.curriculum else (shortest + longest) // 2


def _bytes_of_machine() -> float:
    """The machine's memory; infinite where the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return math.inf


def _refusal(needed: float, there: float) -> str:
    return f"need at least {needed / 2**30:,.1f} GiB; this machine has {there / 2**30:,.1f}"
