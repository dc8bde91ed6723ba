"""Task files: find, load and check them; separate the task in a run's layers of settings."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from stacktrans.common.errors import UsageError, unknown_name
from stacktrans.common.reading import STDIN
from stacktrans.settings import locations
from stacktrans.settings.config import TaskFile, path_parameters
from stacktrans.settings.layers import (
    Settings,
    SettingsLayer,
    merge_layers,
    merged_settings,
    nearest_location,
    option_layer,
    read_layer,
    validated,
)
from stacktrans.tasks import TaskError
from stacktrans.tasks.base import Task

TASK_SUFFIXES = {".yaml", ".yml"}
"""The suffixes of files of tasks."""


def find_task(name: str) -> Path:
    """The file of a task: a path, a name in `./tasks`, or a shipped one; raises `UsageError`."""
    if Path(name).suffix in TASK_SUFFIXES:
        return Path(name)
    for folder in locations.folders("tasks"):
        if os.path.isfile(path := folder / f"{name}.yaml"):
            return path
    raise UsageError(unknown_name("task", name, locations.task_files()))


def load_task(name: str, assignments: Sequence[str] = (), seed: int = 1) -> TaskFile:
    """Load a task by its name or file.

    Args:
        name: of the task, or its file.
        assignments: changes as `key=value`; keys are those of its file, or those of the
            configuration of a run, which begin with `task.`.
        seed: of a run, by which the pairs of a file are split into sets.

    Raises:
        UsageError: it can't be read, or a change is wrong; the message says where.
    """
    changes = [option_layer(assignment, TaskFile, "task") for assignment in assignments]
    settings, _ = completed_task([read_task(find_task(name)), *changes], seed)
    return TaskFile.model_validate(settings)


def read_task(path: Path) -> SettingsLayer:
    """Read the file of a task; relative paths of files of pairs in it start from its folder."""
    layer = read_layer(path)
    given = layer.settings.get("parameters")
    files = {
        key: os.path.join(path.parent, given[key])
        for key in path_parameters(layer.settings.get("generator"))
        if isinstance(given, dict) and isinstance(given.get(key), str) and given[key] != str(STDIN)
    }
    if not files:
        return layer
    return replace(layer, settings=merged_settings(layer.settings, {"parameters": files}))


def completed_task(
    layers: Sequence[SettingsLayer], seed: int, initial: Task | None = None
) -> tuple[Settings, Task]:
    """The complete settings of a task, with what its files decide, and the task.

    Args:
        layers: of the task.
        seed: of the run.
        initial: the task of the checkpoint that the run starts from, if it starts from one.

    Raises:
        UsageError: a setting is wrong or missing; the message says where.
    """
    settings = merge_layers(layers)
    lengths = [name for name in ("lengths", "length_law") if settings.get(name) is not None]
    if path_parameters(settings.get("generator")):
        task = validated(TaskFile, {**settings, "lengths": None, "length_law": None}, layers)
        initial = None if "known" in task.parameters else initial
        learned = make_task(task, layers).settings_from_files(seed, initial)
        if learned:
            refuse(lengths, layers, "cannot be used: the files decide")
        settings |= learned
    task = validated(TaskFile, settings, layers)
    made = make_task(task, layers)
    if not made.sampled:
        refuse(lengths, layers, "cannot be used: the task draws no strings")
    elif not task.lengths:
        refuse(["lengths"], layers)
    return settings, made


def make_task(task: TaskFile, layers: Sequence[SettingsLayer]) -> Task:
    """Make a task; raises `UsageError` with the location of the setting if it can't be made."""
    try:
        return task.make()
    except TaskError as error:
        raise UsageError(f"{nearest_location(layers, error.location)}: {error}") from error


def refuse(paths: Sequence[str], layers: Sequence[SettingsLayer], why: str = "is missing") -> None:
    """Raise `UsageError` that lists settings with their locations, if there are any."""
    if paths:
        raise UsageError(
            *(f"{nearest_location(layers, path.split('.'))}: {path} {why}" for path in paths)
        )


def split_task(layers: Sequence[SettingsLayer]) -> tuple[SettingsLayer | None, list[SettingsLayer]]:
    """The last layer that names or defines a task, and all layers that change the task.

    Changes apply whether they are above or below the layer with the task.

    Raises:
        UsageError: a layer has a value for the task that is neither a name nor settings.
    """
    base, changes = None, []
    for layer in layers:
        task = layer.settings.get("task")
        if isinstance(task, str) or defines_task(task):
            base = layer
        elif isinstance(task, dict):
            changes.append(layer)
        elif task is not None:
            raise UsageError(f"{layer.location(('task',))}: task: expected a name or settings")
    if base is None:  # perhaps a layer has part of a definition
        parts = {"name", "generator"}
        base = next((layer for layer in changes if parts & layer.settings["task"].keys()), None)
        changes = [layer for layer in changes if layer is not base]
    return base, changes


def defines_task(task: object) -> bool:
    """Whether settings define a task rather than change one."""
    return isinstance(task, dict) and {"name", "generator"} <= task.keys()


def task_layers(layers: Sequence[SettingsLayer]) -> list[SettingsLayer]:
    """The definition of the task in some layers, and the changes to it, as layers of the task."""
    base, changes = split_task(layers)
    if base is None:
        raise UsageError(
            "no task given; expected a task (a name such as copy, or a YAML file), data (pairs of "
            "strings) or a text"
        )
    definition = base.settings["task"]
    first = base.section("task") if isinstance(definition, dict) else _named_task(base)
    return [first, *(layer.section("task") for layer in changes)]


def _named_task(layer: SettingsLayer) -> SettingsLayer:
    """The file of the task that a layer names."""
    try:
        path = find_task(layer.settings["task"])
    except UsageError as error:
        location = f"{layer.location(('task',))}: " if layer.node else ""
        raise UsageError(f"{location}{error}") from error
    return read_task(path)
