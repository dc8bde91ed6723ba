"""The options of `train` as settings, and settings as a command for whoever repeats a run."""

import contextlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from stacktrans.common.documents import DocumentError, parsed
from stacktrans.common.registry import plugin_options
from stacktrans.settings.config import TaskConfig
from stacktrans.settings.layers import NAMED, Settings, SettingsLayer, merge_layers, nested
from stacktrans.settings.packaged import AUTO
from stacktrans.settings.resolve import defines_task, parts_fitting, split_task
from stacktrans.tasks.lines import READING

OPTIONS = {
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
"""The paths of the settings that have options, and arguments in Python, of their own."""

SEED = "seed"
_OPTIONS = {
    "recipe": "--recipe",
    "model.memory.name": "--memory",
    "model.controller.name": "--controller",
    SEED: "--seed",
}


def option_layers(given: Mapping[str, Any], prefix: str = "") -> list[SettingsLayer]:
    """A layer for each option that is given; None is not, nor is the memory auto.

    Args:
        given: values, by the names of `OPTIONS`.
        prefix: of options on a command line, by which messages call them.
    """
    return [
        SettingsLayer(
            prefix + name.replace("_", "-") if prefix else name, nested(OPTIONS[name], value)
        )
        for name, value in given.items()
        if value is not None and (name, value) != ("memory", AUTO)
    ]


def inherited_reading(task: TaskConfig, given: Mapping[str, Any]) -> dict[str, Any]:
    """How new pairs in files are to be read: as those of a task were, unless given otherwise.

    Args:
        task: of the checkpoint.
        given: parameters of `stacktrans.tasks.pairs.Pairs`; None for those not given.
    """
    known = task.parameters if task.generator == "pairs" else {}
    like = {name: known.get(name) for name in READING}
    if given.get("columns") is not None:
        like["header"] = None  # which columns that are given decide
    return like | {name: value for name, value in given.items() if value is not None}


def training_command(layers: Sequence[SettingsLayer]) -> list[str]:
    """The words of a command that trains with what some layers say.

    The recipe auto is not named, so that another may be.
    """
    words = ["stacktrans", "train", *plugin_options()]
    base, changes = split_task(layers)
    tasks = [layer.settings["task"] for layer in (base, *changes) if layer]
    if tasks and isinstance(tasks[0], str):
        words += ["--task", tasks.pop(0)]
    of_task = merge_layers(SettingsLayer("", {"task": task}) for task in tasks)
    settings = merge_layers(layers)
    if "model" in settings:
        users = [layer.section("model").settings for layer in layers]
        settings["model"] = parts_fitting(settings["model"], users)
    forgotten = {path for layer in layers for path, each in _leaves(layer.settings) if each is None}
    for path, value in _leaves({**settings, "task": {}, **of_task}):
        if (path, value) == ("recipe", AUTO):
            continue
        if isinstance(value, dict) and path in forgotten:  # what the recipe says of it is, too
            words += ["--set", f"{path}=null"]
        option = _OPTIONS.get(path)
        if option and (path != SEED or type(value) is int):
            words += [option, str(value)]
        else:
            words += ["--set", f"{path}={_as_yaml(value)}"]
    return words


def alone(words: Sequence[str], recipe: str, max_steps: int | None) -> list[str]:
    """The words of a command that trains one of the runs of a race, perhaps for so many batches."""
    limit = ["--max-steps", str(max_steps)] if max_steps else []
    # What --set says would lie over the options.
    kept = _without(words, "recipe", *(("max_steps", "training.max_steps") if limit else ()))
    return [*kept, "--recipe", recipe, *limit]


def _without(words: Sequence[str], *settings: str) -> Iterator[str]:
    """Words without options, and assignments by --set, of some settings."""
    options = {f"--{name.replace('_', '-')}" for name in settings}
    coming = iter(words)
    for word in coming:
        if word in options:
            next(coming)
        elif word != "--set":
            yield word
        elif (setting := next(coming)).partition("=")[0].strip() not in settings:
            yield from (word, setting)


def _as_yaml(value: Any) -> str:
    """A value in one line of YAML that is read as this very value."""
    plain = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    with contextlib.suppress(DocumentError):
        if plain.isprintable() and repr(parsed(plain).value) == repr(value):
            return plain
    dumped: str = yaml.safe_dump(value, default_flow_style=True, width=math.inf, sort_keys=False)
    return dumped.removesuffix("\n...\n").strip()


def _leaves(settings: Settings, section: str = "") -> Iterator[tuple[str, Any]]:
    """Settings and their paths; a whole task, and a block of training, at once."""
    for key, value in settings.items():
        path = section + key
        parted = not section or (section == "model." and key in NAMED)
        if parted and isinstance(value, dict) and not defines_task(value):
            yield from _leaves(value, f"{path}.")
        else:
            yield path, value
