"""The metadata in the header of a weights file: configuration, accuracy, sharpness and plugins."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stacktrans.common.errors import CheckpointError, UsageError, shown
from stacktrans.common.reading import parsed_json
from stacktrans.common.registry import REGISTRIES
from stacktrans.common.visible import visible
from stacktrans.model.weights import metadata_of
from stacktrans.settings.config import RunConfig
from stacktrans.settings.values import LARGEST, SMALLEST

ORIGINS = "origins"
"""The key in the metadata of weights of the plugins that define the model."""
SHARPNESS = "sharpness"
"""The key in the metadata of weights of `Transducer.sharpness`."""


def metadata(
    config: RunConfig, accuracy: Mapping[str, Any] | None, sharpness: float
) -> dict[str, str]:
    """The metadata of weights: task, version, configuration, accuracy, sharpness and plugins."""
    entries = {
        "task": config.task.name,
        "version": config.version,
        "configuration": config.identity(),
    }
    if accuracy:
        entries["accuracy"] = json.dumps(accuracy)
    if sharpness != 1:
        entries[SHARPNESS] = json.dumps(sharpness)
    model = config.model
    names = (model.memory.name, model.controller.name, config.task.generator)
    origins = {
        registry.kind: {name: origin}
        for registry, name in zip(REGISTRIES, names, strict=True)
        if (origin := registry.origin(name))
    }
    if origins:
        entries[ORIGINS] = json.dumps(origins)
    return entries


def sharpness_of(path: Path) -> float:
    """The sharpness in the metadata of weights; raises `CheckpointError` if it can't be one."""
    text = metadata_of(path).get(SHARPNESS, "1")
    try:
        sharpness = float(text)
    except (TypeError, ValueError):
        sharpness = math.nan
    if not SMALLEST <= sharpness <= LARGEST:
        expected = f"expected a number from {SMALLEST} to {LARGEST}"
        raise CheckpointError(f"{path}: {SHARPNESS} is {shown(text)}; {expected}")
    return sharpness


def check_origins(path: Path) -> None:
    """Raise `UsageError` if the model of some weights needs plugins that are not loaded."""
    try:
        origins = parsed_json(metadata_of(path).get(ORIGINS, "{}"))
        named = [
            (name, str(origin), kind)
            for kind in REGISTRIES
            for name, origin in origins.get(kind.kind, {}).items()
        ]
    except (AttributeError, TypeError, ValueError):  # of other metadata than `save` writes
        return
    for name, origin, registry in named:
        if name not in registry:
            state = "loaded" if origin.startswith("plugin ") else "installed"
            part = f"{registry.kind} {visible(name)}"
            raise UsageError(f"{path}: {part} is from {visible(origin)}, which is not {state}")
