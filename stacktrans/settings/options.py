"""The settings that have options of their own, and arguments in Python, by their names."""

from collections.abc import Mapping
from typing import Any

from stacktrans.settings.layers import Layer, nested
from stacktrans.settings.packaged import AUTO

PLACES = {
    "workers": "workers",
    "seed": "seed",
    "memory": "model.memory",
    "controller": "model.controller",
    "hidden": "model.controller.hidden_size",
    "memory_size": "model.memory.size",
    "buffered": "model",
    "text": "task.parameters",
    "data": "task",
    "max_steps": "training.max_steps",
    "time_limit": "training.time_limit",
}
"""The paths of the settings."""


def option_layers(given: Mapping[str, Any], prefix: str = "") -> list[Layer]:
    """A layer for each option that is given; None is not, nor is the memory auto.

    Args:
        given: values, by the names of `PLACES`.
        prefix: of options on a command line, by which messages call them.
    """
    return [
        Layer(_called(name, prefix), nested(PLACES[name], value))
        for name, value in given.items()
        if value is not None and (name, value) != ("memory", AUTO)
    ]


def _called(name: str, prefix: str) -> str:
    return prefix + name.replace("_", "-") if prefix else name
