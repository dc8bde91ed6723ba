"""From a sweep's file to the runs that it asks for."""

import contextlib
import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from stacktrans.common.documents import DocumentError, parsed
from stacktrans.common.errors import UsageError, unknown_name
from stacktrans.common.registry import plugin_options, use_plugins
from stacktrans.common.visible import shell_text
from stacktrans.settings.config import RunConfig
from stacktrans.settings.layers import (
    NAMED,
    Layer,
    Settings,
    nearest_place,
    nested,
    overlay,
    read_layer,
    setting_path,
    validated,
)
from stacktrans.settings.resolve import defines_task, parted_task, resolve
from stacktrans.sweeps.checks import check_axes, check_names, check_runs
from stacktrans.sweeps.file import SweepFile


@dataclass(frozen=True)
class PlannedRun:
    """A run: its row of the table, its place in the grid, and the command that repeats it."""

    condition: str
    axes: Mapping[str, Any]
    config: RunConfig
    command: str

    @cached_property
    def identity(self) -> str:
        """Changes whenever anything does that decides the run, the version included."""
        return self.config.identity()

    @property
    def directory(self) -> str:
        """The name of its directory."""
        return f"{self.config.title}-{self.identity}"

    @property
    def name(self) -> str:
        """Its name in messages."""
        parts = [self.condition, *(f"{key} {value}" for key, value in self.axes.items())]
        return " ".join(", ".join(parts).split())


@dataclass(frozen=True)
class Plan:
    """A sweep's file with a profile laid over it, and all of its runs in the table's order."""

    path: Path
    profile: str | None
    file: SweepFile
    runs: Sequence[PlannedRun]

    @property
    def name(self) -> str:
        """Its name: the file's, and the profile's."""
        return "-".join([self.path.stem, *([self.profile] if self.profile else [])])

    def only(self, pattern: str) -> Sequence[PlannedRun]:
        """The runs whose name a pattern fits, or holds; raises `UsageError` if there is none."""
        found = [run for run in self.runs if pattern in run.name or fnmatchcase(run.name, pattern)]
        if not found:
            raise UsageError(f"no run named '{pattern}'; one is '{self.runs[0].name}'")
        return found


def read_plan(path: Path, profile: str | None = None) -> Plan:
    """Read a sweep's file and resolve its runs; raises `UsageError` saying where it is wrong."""
    layer = read_layer(path)
    layers = [layer]
    if profile is not None:
        profiles = validated(SweepFile, layer.settings, layers).profiles
        if profile not in profiles:
            raise UsageError(f"{path}: {unknown_name('profile', profile, profiles)}")
        layers.append(layer.section("profiles", profile))
    file = validated(SweepFile, overlay(layers), layers)
    use_plugins(*(path.parent / plugin for plugin in file.plugins))
    check_names(file, layers)
    check_axes(file, layers)
    runs = [run for name in file.conditions for run in _runs_of(path, name, file, layers)]
    check_runs(file, runs, layers)
    return Plan(path, profile, file, runs)


def _runs_of(
    path: Path, condition: str, file: SweepFile, layers: Sequence[Layer]
) -> list[PlannedRun]:
    own = [layer.section("settings") for layer in layers]
    own += [layer.section("conditions", condition) for layer in layers]
    axes = [_axis(key, values, layers) for key, values in file.grid.items()]
    runs = []
    try:
        for point in itertools.product(*axes):
            asked = [*own, *(layer for _, layer in point)]
            place = dict(zip(file.grid, (value for value, _ in point), strict=True))
            runs.append(PlannedRun(condition, place, resolve(options=asked), _command(asked)))
    except UsageError as error:
        where = "" if str(path) in str(error) else f"{path}: "
        first, *others = error.problems
        raise UsageError(f"{where}condition '{condition}': {first}", *others) from error
    return runs


def _axis(key: str, values: Sequence[Any], layers: Sequence[Layer]) -> list[tuple[Any, Layer]]:
    """The values along an axis of the grid, with the settings that they stand for."""
    origin = nearest_place(layers, ("grid", key))
    path = setting_path(key, RunConfig, origin)
    return [(value, Layer(origin, nested(path, value))) for value in values]


def _command(layers: Sequence[Layer]) -> str:
    """The command line that trains with what some layers say."""
    words = ["stacktrans", "train", *plugin_options()]
    base, changes = parted_task(layers)
    tasks = [layer.settings["task"] for layer in (base, *changes) if layer]
    if tasks and isinstance(tasks[0], str):
        words += ["--task", tasks.pop(0)]
    of_task = overlay(Layer("", {"task": task}) for task in tasks)
    for path, value in _leaves({**overlay(layers), "task": {}, **of_task}):
        option = _OPTIONS.get(path)
        words += [option, str(value)] if option else ["--set", f"{path}={_as_yaml(value)}"]
    return shell_text(words)


def _as_yaml(value: Any) -> str:
    """A value in one line of YAML that is read as this very value."""
    plain = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    with contextlib.suppress(DocumentError):
        if plain.isprintable() and repr(parsed(plain).value) == repr(value):
            return plain
    dumped: str = yaml.safe_dump(value, default_flow_style=True, width=math.inf, sort_keys=False)
    return dumped.removesuffix("\n...\n").strip()


_OPTIONS = {
    "recipe": "--recipe",
    "model.memory.name": "--memory",
    "model.controller.name": "--controller",
    "seed": "--seed",
}


def _leaves(settings: Settings, section: str = "") -> Iterator[tuple[str, Any]]:
    """Settings and their paths; a whole task, and a block of training, at once."""
    for key, value in settings.items():
        path = section + key
        parted = not section or (section == "model." and key in NAMED)
        if parted and isinstance(value, dict) and not defines_task(value):
            yield from _leaves(value, f"{path}.")
        else:
            yield path, value
