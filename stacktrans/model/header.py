"""What the header of a file of weights says beside their shapes: written, read and checked."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stacktrans.common.errors import CheckpointError, UsageError, shown
from stacktrans.common.reading import parsed_json
from stacktrans.common.registry import REGISTRIES
from stacktrans.model.weights import metadata_of
from stacktrans.settings.config import RunConfig

ORIGINS = "origins"
"""The key, of the plugins that the model is made with."""
SHARPNESS = "sharpness"
"""The key there of the factor by which signals were made nearer to 0 or 1."""


def metadata(
    config: RunConfig, accuracy: Mapping[str, Any] | None, sharpness: float
) -> dict[str, str]:
    """What is said of weights: their task, version, configuration and accuracy, and plugins."""
    said = {"task": config.task.name, "version": config.version, "configuration": config.identity()}
    if accuracy:
        said["accuracy"] = json.dumps(accuracy)
    if sharpness != 1:
        said[SHARPNESS] = json.dumps(sharpness)
    model = config.model
    names = (model.memory.name, model.controller.name, config.task.generator)
    origins = {
        registry.kind: {name: origin}
        for registry, name in zip(REGISTRIES, names, strict=True)
        if (origin := registry.origin(name))
    }
    if origins:
        said[ORIGINS] = json.dumps(origins)
    return said


def sharpness_of(path: Path) -> float:
    """How sharp the signals of weights are; raises `CheckpointError` for what can't be."""
    written = metadata_of(path).get(SHARPNESS, "1")
    try:
        sharpness = float(written)
    except (TypeError, ValueError):
        sharpness = math.nan
    if not 0 < sharpness < math.inf:
        raise CheckpointError(f"{path}: {SHARPNESS} is {shown(written)}; expected more than 0")
    return sharpness


def check_origins(path: Path) -> None:
    """Raise `UsageError` if weights are of a model with parts that are not known here."""
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
            part = f"{registry.kind} {name}"
            raise UsageError(f"{path}: {part} is from {origin}, which is not {state}")
