"""How much memory a run needs at the very least, so that one that can't fit is refused at once."""

import math
import os

from stacktrans.common.errors import UsageError
from stacktrans.memory import make_memory
from stacktrans.model.controllers import CONTROLLERS, controller_size
from stacktrans.model.transducer import weight_shapes
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
    weights = _BYTES * _COPIES * count_weights(config, layout)
    if weights > there:
        raise UsageError(f"model: its weights {_refusal(weights, there)}")
    batch = _BYTES * _numbers_of_a_batch(config, layout)
    if weights + batch > there:
        size = config.training.batch_size
        raise UsageError(
            f"training.batch_size: {size} strings at once {_refusal(weights + batch, there)}"
        )


def count_weights(config: RunConfig, layout: Layout) -> int:
    """How many numbers a run's model holds, those that are not learned included."""
    model = config.model
    shapes = weight_shapes(model, layout.inputs, layout.outputs).values()
    size = _controller_size(config, layout)
    passing_on = size * size if model.controller == "linear" else 0
    return sum(map(math.prod, shapes)) + passing_on


def _numbers_of_a_batch(config: RunConfig, layout: Layout) -> int:
    """At least how many numbers are kept of a batch: gates, states and what is said."""
    model, size = config.model, _controller_size(config, layout)
    rows = model.layers * (len(CONTROLLERS[model.controller].gates) + 1) * size
    return config.training.batch_size * _steps(config) * (rows + layout.outputs)


def _steps(config: RunConfig) -> int:
    """At least how many steps a sequence of a batch has in the mean."""
    training = config.training
    if training.stream:
        return training.stream.steps
    shortest, longest = config.task.ranges.train
    law = training.length_law or config.task.length_law
    return shortest if law or training.curriculum else (shortest + longest) // 2


def _controller_size(config: RunConfig, layout: Layout) -> int:
    model, memory = config.model, make_memory(config.model)
    embedded = model.embedding_size if isinstance(model.embedding_size, int) else layout.inputs
    return controller_size(model, embedded, memory.reads * model.memory_size if memory else 0)


def _bytes_of_machine() -> float:
    """The machine's memory; infinite where the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return math.inf


def _refusal(needed: float, there: float) -> str:
    return f"need at least {needed / 2**30:,.1f} GiB; this machine has {there / 2**30:,.1f}"
