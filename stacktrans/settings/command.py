"""From options of `train` to layers of settings, and back to commands that repeat or resume."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from stacktrans.common.documents import yaml_line
from stacktrans.common.registry import plugin_options
from stacktrans.settings.config import TaskConfig
from stacktrans.settings.layers import COMPONENTS, Settings, SettingsLayer, merge_layers, nested
from stacktrans.settings.locations import AUTO
from stacktrans.settings.resolve import without_unfit_settings
from stacktrans.settings.task_files import defines_task, split_task
from stacktrans.tasks.pair_files import READING

OPTIONS = {
    "workers": "workers",
    "seed": "seed",
    "memory": "model.memory",
    "controller": "model.controller",
    "hidden": "model.controller.hidden_size",
    "memory_size": "model.memory.size",
    "buffered": "model",
    "accept": "training.rounding",
    "text": "task.parameters",
    "data": "task",
    "max_steps": "training.max_steps",
    "time_limit": "training.time_limit",
}
"""The settings that have their own options in `train`, by the names of the options."""

ROUNDING_FOR = {"machine": "machine", "discrete": "discrete", "soft": "lossless"}
"""The rounding that accepts solutions with a machine, discrete ones, or all; for the option
accept."""

_OPTION_OF = {
    "recipe": "--recipe",
    "model.memory.name": "--memory",
    "model.controller.name": "--controller",
    "seed": "--seed",
}


def option_layers(given: Mapping[str, Any], prefix: str = "") -> list[SettingsLayer]:
    """A layer for each option with a value other than None, and other than auto for the memory.

    Args:
        given: values by the names of `OPTIONS`.
        prefix: of the names of options in messages.
    """
    return [
        SettingsLayer(
            prefix + name.replace("_", "-") if prefix else name,
            nested(OPTIONS[name], ROUNDING_FOR[value] if name == "accept" else value),
        )
        for name, value in given.items()
        if value is not None and (name, value) != ("memory", AUTO)
    ]


def inherited_reading(task: TaskConfig, given: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters for reading new pairs, taken over from the task of a checkpoint unless given.

    Args:
        task: of the checkpoint.
        given: parameters of `stacktrans.tasks.pairs.Pairs`; None for those not given.
    """
    known = task.parameters if task.generator == "pairs" else {}
    inherited = {name: known.get(name) for name in READING}
    if given.get("columns") is not None:
        inherited["header"] = None  # the given columns decide whether there is a header
    return inherited | {name: value for name, value in given.items() if value is not None}


def training_command(layers: Sequence[SettingsLayer]) -> list[str]:
    """The words of a command that trains with the settings of some layers.

    The recipe auto is left out, so that another can be added.
    """
    words = ["stacktrans", "train", *plugin_options()]
    base, changes = split_task(layers)
    tasks = [layer.settings["task"] for layer in (base, *changes) if layer]
    if tasks and isinstance(tasks[0], str):
        words += ["--task", tasks.pop(0)]
    of_task = merge_layers(SettingsLayer("", {"task": task}) for task in tasks)
    settings = merge_layers(layers)
    if "model" in settings:
        of_model = [layer.section("model").settings for layer in layers]
        settings["model"] = without_unfit_settings(settings["model"], of_model)
    nulls = {path for layer in layers for path, value in _leaves(layer.settings) if value is None}
    for path, value in _leaves({**settings, "task": {}, **of_task}):
        if (path, value) == ("recipe", AUTO):
            continue
        if isinstance(value, dict) and path in nulls:  # so that the recipe's settings are dropped
            words += ["--set", f"{path}=null"]
        option = _OPTION_OF.get(path)
        if option and (path != "seed" or type(value) is int):
            words += [option, str(value)]
        else:
            words += ["--set", f"{path}={yaml_line(value)}"]
    return words


def single_run_command(words: Sequence[str], recipe: str, max_steps: int | None) -> list[str]:
    """The arguments of the command that trains a single run of a race, from those for the race."""
    limit = ["--max-steps", str(max_steps)] if max_steps else []
    # Assignments by --set would override the options.
    kept = _without(words, "recipe", *(("max_steps", "training.max_steps") if limit else ()))
    return [*kept, "--recipe", recipe, *limit]


def resume_command(directory: str | Path) -> list[str]:
    """The words of a command that resumes a run or race, with the loaded plugins."""
    return ["stacktrans", "train", "--resume", str(directory), *plugin_options()]


def _without(words: Sequence[str], *settings: str) -> Iterator[str]:
    """Words of a command without the options, and assignments by --set, of some settings."""
    options = {f"--{name.replace('_', '-')}" for name in settings}
    rest = iter(words)
    for word in rest:
        if word in options:
            next(rest)
        elif word != "--set":
            yield word
        elif (assignment := next(rest)).partition("=")[0].strip() not in settings:
            yield from (word, assignment)


def _leaves(settings: Settings, section: str = "") -> Iterator[tuple[str, Any]]:
    """Settings with their paths; a complete task, or a block of training, is one value."""
    for key, value in settings.items():
        path = section + key
        is_section = not section or (section == "model." and key in COMPONENTS)
        if is_section and isinstance(value, dict) and not defines_task(value):
            yield from _leaves(value, f"{path}.")
        else:
            yield path, value
