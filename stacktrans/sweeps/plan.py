"""From a sweep's file to the runs that it asks for."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any

from stacktrans.common.errors import UsageError, unknown_name
from stacktrans.common.registry import use_plugins
from stacktrans.common.visible import shell_text
from stacktrans.settings.command import training_command
from stacktrans.settings.config import RunConfig
from stacktrans.settings.contest import contestants, identity_of, title_of
from stacktrans.settings.layers import (
    Layer,
    nearest_place,
    nested,
    overlay,
    read_layer,
    setting_path,
    validated,
)
from stacktrans.settings.resolve import DEFAULT_RECIPE
from stacktrans.sweeps.checks import check_axes, check_names, check_runs, swept_task
from stacktrans.sweeps.file import BY_TASK, SweepFile


@dataclass(frozen=True)
class PlannedRun:
    """A run: its row of the table, its place in the grid, and the command that repeats it.

    Attributes:
        configs: by the name of the recipe; several where strategies are raced.
    """

    condition: str
    axes: Mapping[str, Any]
    configs: Mapping[str, RunConfig]
    command: str

    @property
    def config(self) -> RunConfig:
        """Its configuration; that of the first strategy where several are raced."""
        return next(iter(self.configs.values()))

    @cached_property
    def identity(self) -> str:
        """Changes whenever a setting does that decides the run, or another strategy is raced."""
        return identity_of(self.configs)

    @property
    def directory(self) -> str:
        """The name of its directory."""
        return f"{title_of(self.configs)}-{self.identity}"

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
    names = {str(task): swept_task(task) for task in file.grid.get("task", [])}
    runs = []
    try:
        for point in itertools.product(*axes):
            place = dict(zip(file.grid, (value for value, _ in point), strict=True))
            task = names.get(str(place.get("task")))
            asked = [part for layer in own for part in _of_task(layer, task)]
            asked += [layer for _, layer in point]
            configs = contestants(usual=DEFAULT_RECIPE, options=asked)
            command = training_command([Layer("", {"recipe": DEFAULT_RECIPE}), *asked])
            runs.append(PlannedRun(condition, place, configs, shell_text(command)))
    except UsageError as error:
        where = "" if str(path) in str(error) else f"{path}: "
        first, *others = error.problems
        raise UsageError(f"{where}condition '{condition}': {first}", *others) from error
    return runs


def _of_task(layer: Layer, task: str | None) -> list[Layer]:
    """What a layer says of all tasks, and then of one of the grid alone, if the grid has tasks."""
    of_all = {key: value for key, value in layer.settings.items() if key != BY_TASK}
    general = Layer(layer.origin, of_all, layer.node)
    return [general, layer.section(BY_TASK, task)] if task else [general]


def _axis(key: str, values: Sequence[Any], layers: Sequence[Layer]) -> list[tuple[Any, Layer]]:
    """The values along an axis of the grid, with the settings that they stand for."""
    origin = nearest_place(layers, ("grid", key))
    path = setting_path(key, RunConfig, origin)
    return [(value, Layer(origin, nested(path, value))) for value in values]
