"""Formats of configurations, and how an older one is read.

A run's configuration is whole. One of format 1 is completed by the recipes and the defaults of that
time, which lie in `frozen/` and never change; one of format 2 says everything under other names
(see `renamed`). Both are converted, so that a model always answers as it did when it was trained.
A file of settings that names no format is a user's own, and takes the recipe of today.
"""

import functools
import operator
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from stacktrans import __version__
from stacktrans.common.errors import UsageError, unknown_name
from stacktrans.settings.config import FORMAT
from stacktrans.settings.layers import (
    Layer,
    Settings,
    nearest_place,
    nested,
    overlaid,
    overlay,
    read_layer,
    recipe_layers,
)
from stacktrans.settings.model_config import ControllerConfig, MemoryConfig
from stacktrans.settings.renamed import GONE, RENAMED
from stacktrans.settings.training_config import ROUNDINGS, StreamConfig
from stacktrans.settings.values import Named

FROZEN = Path(__file__).parent / "frozen"


def of_today(layer: Layer) -> Layer:
    """A file of settings as written today; raises `UsageError` if an older one is not whole."""
    older = _older(layer)
    return _converted(older) if older else layer


def unsayable(layer: Layer) -> list[str]:
    """What an older configuration says of training that can't be said today, with its place."""
    if not (older := _older(layer)):
        return []
    return [
        f"{older.place(path.split('.'))}: {path}: {_at(older.settings, path)}"
        for path in _lost(older.settings)
    ]


def _older(layer: Layer) -> Layer | None:
    """A configuration of format 1 or 2, which says everything; None for what is of today."""
    found = layer.settings.get("format")
    place = layer.place(("format",))
    if found is not None and (type(found) is not int or found < 1):
        raise UsageError(f"{place}: format: expected a number from 1 to {FORMAT}")
    if found is not None and found > FORMAT:
        raise UsageError(
            f"{place}: format {found} is newer than this stacktrans {__version__} reads "
            f"(up to {FORMAT}); upgrade stacktrans"
        )
    if found not in (1, 2):
        return None
    older = _completed(layer) if found == 1 else layer
    _check_complete(older)
    return older


def _completed(layer: Layer) -> Layer:
    """A configuration of format 1 with all that it left out."""
    folder = FROZEN / "format-1"
    rules = read_layer(folder / "defaults.yaml").settings
    task = layer.section("task")
    model, name = layer.section("model").settings, layer.settings.get("recipe", "default")
    if not isinstance(model.get("memory"), str):
        raise UsageError(f"{layer.place(('model',))}: model.memory is missing")
    paper = task.settings.get("paper", rules["task"]["paper"])
    recipes = recipe_layers(folder / "recipes", name, paper, model, [task])
    below = [Layer("", {**rules["run"], "task": rules["task"]}), *recipes]
    settings = overlaid(overlay(below), layer.settings)
    ours = settings["task"]
    parameters = {**rules["parameters"].get(ours.get("generator"), {}), **ours["parameters"]}
    task_over = overlay([Layer("", ours), *(part.section("task") for part in recipes)])
    settings["task"] = {**task_over, "parameters": parameters, "recipes": {}}
    for part in ("memory", "controller"):  # which `overlaid` writes as it is done today
        settings["model"][part] = settings["model"][part]["name"]
    return Layer(layer.origin, settings, layer.node)


_KEPT = {
    "": "version recipe seed threads workers task",
    "model.": "memory controller embedding_size output_size kernel",
    "model.start.": "gate_bias signal_bias weights",
    "training.": "optimizer learning_rate read_rate weight_decay batch_size sequences loss_per "
    "gradient_clip length_law curriculum gate_noise averaging stop rounding max_steps time_limit",
}
_PLACES = {
    f"{section}{name}": f"{section}{name}" for section in _KEPT for name in _KEPT[section].split()
}
_PLACES |= RENAMED
"""Settings of format 2, and what they are called now, if not all are written as they were."""


def _converted(layer: Layer) -> Layer:
    """A configuration of format 2 as one of today."""
    settings: Settings = {"format": FORMAT}
    for old, new in _PLACES.items():
        settings = overlaid(settings, nested(new, _at(layer.settings, old)))
    if isinstance(settings["task"], dict):
        settings["task"].pop("recipes", None)
    model, training, was = settings["model"], settings["training"], layer.settings["training"]
    for part, kind in (("memory", MemoryConfig), ("controller", ControllerConfig)):
        fields = kind.KINDS.get(str(model[part].get("name")), Named).model_fields
        model[part] = _picked(model[part], fields)
    if not layer.settings["model"]["buffered"]:
        model["buffers"] = None
    if was["settle_loss"] is None:
        training["settle"] = None
    if was["restart_after"] is None and was["give_up_after"] is None:
        training["restart"] = None
    norm, limit, examples, stream = (
        was[name] for name in ("gradient_clip", "gradient_limit", "examples", "stream")
    )
    clip = {"norm": norm} if norm is not None else {"value": limit}
    training["gradient_clip"] = None if norm is limit is None else clip
    training["data"] = {"examples": examples} if examples else None
    if stream:
        training["data"] = {"stream": _picked(stream, StreamConfig.model_fields)}
    training["stop"] = None if stream else _stop(was)
    training["rounding"] = _rounding_of(was)
    return Layer(layer.origin, settings, layer.node)


def _stop(training: Settings) -> Settings:
    rule = training["stop"]
    if rule != "solved":
        return {str(rule): {"patience": training["patience"]}}
    accuracy, times = training["solved_accuracy"], training["solved_times"]
    return {rule: {"accuracy": accuracy, "ranges": training["solved_on"], "times": times}}


def _rounding_of(training: Settings) -> str | None:
    """The name of the way in which a run rounds; None for none, and for one without a name."""
    given = training["rounding"]
    if not isinstance(given, Mapping):
        return None
    best = training["rounding_kept"] == "best"
    then = {"rate": training["rounding_rate"], "best": best, "lossless": False}
    rounding = {**given, **then}
    return next((name for name, each in ROUNDINGS.items() if each._asdict() == rounding), None)


def _lost(old: Settings) -> list[str]:
    """The paths of what an older configuration says of training that can't be said today."""
    training, buffered = old["training"], old["model"]["buffered"]
    stream, rounding = training["stream"], training["rounding"]
    smoothing = {"adam": 0.999, "rmsprop": 0.9}.get(training["optimizer"], training["smoothing"])
    is_stream = old["task"]["generator"] in ("counting", "memorization", "addition")
    clipped = None not in (training["gradient_clip"], training["gradient_limit"])
    lost = {
        "smoothing": training["smoothing"] != smoothing,
        "loss_over": is_stream and training["loss_over"] != ("all" if stream else "known"),
        "buffer_penalty": buffered and training["buffer_penalty"] != 1,
        "gradient_limit": clipped,
        "rounding": rounding is not None and _rounding_of(training) is None,
        "prune": training["prune"] != (rounding is not None),
        "stream": bool(stream) and stream != {**stream, **_constants(stream)},
    }
    return [f"training.{name}" for name, is_lost in lost.items() if is_lost]


def _constants(stream: Settings) -> Settings:
    """What is the same of every stream, or text, today, by what it was called."""
    text = stream["sequences"] is None
    return {
        "rate_decay": StreamConfig.RATE_DECAY,
        "least_rate": StreamConfig.LEAST_RATE,
        "empty_after": None if text else StreamConfig.EMPTY_AFTER,
        "first_longest": None if text else StreamConfig.FIRST_LONGEST,
        **({} if stream["starts"] == 1 else {"judged_after": StreamConfig.JUDGED_AFTER}),
    }


def _check_complete(layer: Layer) -> None:
    """Raise `UsageError` if a configuration of format 2 lacks a setting, or has another."""
    expected = {"format", "model", "model.start", "training", *_PLACES, *GONE}
    found = set(layer.settings)
    for section in ("model", "model.start", "training"):
        found |= {f"{section}.{name}" for name in layer.section(*section.split(".")).settings}
    problems = [(path, f"{path} is missing") for path in sorted(expected - found)]
    problems += [
        (path, unknown_name("setting", path, expected)) for path in sorted(found - expected)
    ]
    if problems:
        raise UsageError(
            *(f"{nearest_place([layer], path.split('.'))}: {said}" for path, said in problems)
        )


def _picked(settings: Settings, names: Iterable[str]) -> Settings:
    return {name: settings[name] for name in names if name in settings}


def _at(settings: Settings, path: str) -> Any:
    """What stands under a path."""
    return functools.reduce(operator.getitem, path.split("."), settings)
