"""The plan of a sweep: its file, read and checked, and all of its runs."""

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from stacktrans.common.errors import UsageError, unknown_name
from stacktrans.common.randomness import Purpose, generator
from stacktrans.common.reading import is_stream
from stacktrans.common.registry import use_plugins
from stacktrans.common.visible import shell_text
from stacktrans.settings.candidates import candidate_configs, identity_of
from stacktrans.settings.command import training_command
from stacktrans.settings.config import RunConfig, path_parameters
from stacktrans.settings.layers import (
    SettingsLayer,
    merge_layers,
    nearest_location,
    nested,
    read_layer,
    validated,
)
from stacktrans.settings.resolve import DEFAULT_RECIPE
from stacktrans.settings.schema import KeyPath, setting_path
from stacktrans.settings.task_files import defines_task, find_task, read_task
from stacktrans.sweeps.sweep_file import BY_TASK, SweepFile
from stacktrans.tasks.base import held_out_pairs
from stacktrans.tasks.corpus import Corpus
from stacktrans.tasks.lengths import NoSuchLaw, NoSuchLength

Layers = Sequence[SettingsLayer]
"""The settings of a sweep's file, and of a profile."""
Reference = tuple[str, KeyPath, str | None, Collection[str | None]]
"""What kind of thing is referred to, the path of the reference, the name, and the known names."""
_DEVELOPMENT_SETS = "training.data.examples, or pairs in files"


@dataclass(frozen=True)
class PlannedRun:
    """A run of a sweep.

    Attributes:
        condition: its row of the table.
        axes: its point in the grid: the value of each axis.
        configs: its configuration, by the name of the recipe; several in a race of strategies.
        identity: a digest of all that determines its result; see `identity_of`.
        words: the words of the command that repeats it.
    """

    condition: str
    axes: Mapping[str, Any]
    configs: Mapping[str, RunConfig]
    identity: str
    words: Sequence[str]

    @property
    def config(self) -> RunConfig:
        """Its configuration; in a race, that of the first strategy."""
        return next(iter(self.configs.values()))

    @property
    def command(self) -> str:
        """The command that repeats it."""
        return shell_text(self.words)

    @property
    def name(self) -> str:
        """Its name in messages."""
        parts = [self.condition, *(f"{key} {value}" for key, value in self.axes.items())]
        return " ".join(", ".join(parts).split())


@dataclass(frozen=True)
class Plan:
    """A sweep's file, merged with a profile, and all of its runs in the order of the table."""

    path: Path
    profile: str | None
    file: SweepFile
    runs: Sequence[PlannedRun]

    @property
    def name(self) -> str:
        """The name of the file, and of the profile."""
        return "-".join([self.path.stem, *([self.profile] if self.profile else [])])

    def only(self, pattern: str) -> Sequence[PlannedRun]:
        """The runs whose names contain or match a pattern; raises `UsageError` if there is none."""
        runs = [run for run in self.runs if pattern in run.name or fnmatchcase(run.name, pattern)]
        if not (pattern and runs):
            raise UsageError(f"no run named '{pattern}'; one is '{self.runs[0].name}'")
        return runs


def distinct(runs: Iterable[PlannedRun]) -> list[PlannedRun]:
    """One run of each identity: conditions with the same configuration share their runs."""
    return [*{run.identity: run for run in runs}.values()]


def read_plan(path: Path, profile: str | None = None) -> Plan:
    """Read a sweep's file and resolve its runs; raises `UsageError` with a location."""
    return make_plan(path, read_layer(path), profile)


def make_plan(path: Path, layer: SettingsLayer, profile: str | None = None) -> Plan:
    """Resolve the runs of the settings that `path` has or will have; raises `UsageError`."""
    layers = [layer]
    if profile is not None:
        profiles = validated(SweepFile, layer.settings, layers).profiles
        if profile not in profiles:
            raise UsageError(f"{path}: {unknown_name('profile', profile, profiles)}")
        layers.append(layer.section("profiles", profile))
    file = validated(SweepFile, merge_layers(layers), layers)
    use_plugins(*(path.parent / plugin for plugin in file.plugins))
    check_names(file, layers)
    axes = _axes(file, layers)
    runs = [run for name in file.conditions for run in _runs_of(path, name, file, layers, axes)]
    check_runs(file, runs, layers)
    return Plan(path, profile, file, runs)


def _runs_of(
    path: Path, condition: str, file: SweepFile, layers: Layers, axes: Mapping[str, str]
) -> list[PlannedRun]:
    """The runs of a condition; `axes` are the settings of the grid by their keys."""
    shared = [layer.section("settings") for layer in layers]
    shared += [layer.section("conditions", condition) for layer in layers]
    runs, of_first_seed = [], dict[str, Mapping[str, RunConfig]]()
    try:
        for point in itertools.product(*file.grid.values()):
            values = dict(zip(file.grid, point, strict=True))
            task = swept_task(values["task"]) if "task" in values else None
            options = [SettingsLayer("", {"recipe": DEFAULT_RECIPE})]
            options += [part for layer in shared for part in _parts_for_task(layer, task)]
            for key, value in values.items():
                origin = nearest_location(layers, ("grid", key))
                options.append(SettingsLayer(origin, nested(axes[key], value)))
            same = str({name: value for name, value in values.items() if name != "seed"})
            if "seed" in values and same in of_first_seed:
                configs = _with_seed(of_first_seed[same], values["seed"], options)
            else:
                configs = candidate_configs(options)
                if not any(config.has_pair_files for config in configs.values()):
                    of_first_seed[same] = configs  # otherwise the seed may decide on a split
            identity, words = identity_of(configs, options), training_command(options)
            runs.append(PlannedRun(condition, values, configs, identity, words))
    except UsageError as error:
        where = "" if str(path) in str(error) else f"{path}: "
        first, *others = error.problems
        raise UsageError(f"{where}condition '{condition}': {first}", *others) from error
    return runs


def _with_seed(configs: Mapping[str, RunConfig], seed: Any, layers: Layers) -> dict[str, RunConfig]:
    """Configurations with another seed; raises `UsageError`."""
    return {
        name: validated(RunConfig, dict(config) | {"seed": seed}, layers)
        for name, config in configs.items()
    }


def _parts_for_task(layer: SettingsLayer, task: str | None) -> list[SettingsLayer]:
    """The settings of a layer for all tasks, and then those for a task of the grid alone."""
    general = layer.without(BY_TASK)
    return [general, layer.section(BY_TASK, task)] if task else [general]


def _error_at(layers: Layers, path: KeyPath, problem: str) -> UsageError:
    return UsageError(f"{nearest_location(layers, path)}: {problem}")


def check_names(file: SweepFile, layers: Layers) -> None:
    """Raise `UsageError` for a reference to an unknown measure, condition, axis or task."""
    tasks = _swept_tasks(layers)
    for kind, path, name, known in _references(file, tasks, layers):
        if name is None:
            if kind == "task" and tasks:
                raise _error_at(layers, path, "task: is missing")
        elif kind == "task" and not tasks:
            raise _error_at(layers, path, f"task {name}: the grid has no tasks")
        elif None not in known and name not in known:
            raise _error_at(layers, path, unknown_name(kind, name, map(str, known)))


def _references(
    file: SweepFile, tasks: Collection[str | None], layers: Layers
) -> Iterator[Reference]:
    """The references in figures, claims, the choice of a winner, and settings of single tasks."""
    for number, published in enumerate(file.published):
        path: KeyPath = ("published", number)
        yield "measure", (*path, "measure"), published.measure, file.measures
        for condition, figures in published.values.items():
            row = (*path, "values", condition)
            yield "condition", row, condition, file.conditions
            for task in figures if isinstance(figures, dict) else ():
                yield "task", (*row, task), task, tasks
    for number, claim in enumerate(file.claims):
        for index, part in enumerate(claim.holds):
            path = ("claims", number, "holds", index)
            yield "condition", (*path, "condition"), part.condition, file.conditions
            yield "condition", (*path, "above"), part.above, file.conditions
            yield "measure", (*path, "measure"), part.measure, file.measures
            yield "task", (*path, "task"), part.task or None, tasks
    if file.solved:
        yield "measure", ("solved", "measure"), file.solved.measure, file.measures
    for number, axis in enumerate(file.choose.among if file.choose else ()):
        yield "axis", ("choose", "among", number), axis, file.grid
    for keys in (("settings",), *(("conditions", name) for name in file.conditions)):
        for layer in layers:
            for task in layer.section(*keys, BY_TASK).settings:
                yield "task", (*keys, BY_TASK, task), task, [each for each in tasks if each]


def _swept_tasks(layers: Layers) -> list[str | None]:
    """The name of each task of the grid, as `swept_task`; with those that a profile removes.

    Published figures and claims may refer to removed tasks.
    """
    names: list[str | None] = []
    for layer in layers:
        for number, task in enumerate(layer.section("grid").settings.get("task") or []):
            try:
                names.append(swept_task(task))
            except UsageError as error:
                raise _error_at([layer], ("grid", "task", number), str(error)) from error
    return names


def swept_task(value: Any) -> str | None:
    """The name of a task of the grid; None for a change to another task; may raise `UsageError`."""
    given = value if isinstance(value, dict) else read_task(find_task(str(value))).settings
    name = given.get("name")
    return name if isinstance(name, str) else None


def _axes(file: SweepFile, layers: Layers) -> dict[str, str]:
    """The paths of the settings of the grid, by their keys.

    Raises:
        UsageError: a setting is unknown, or has two axes, or both an axis and a value in a
            condition.
    """
    axes: dict[str, str] = {}
    for key, values in file.grid.items():
        path = setting_path(key, RunConfig, nearest_location(layers, ("grid", key)))
        for other in axes:
            if axes[other] == path:
                raise _error_at(layers, ("grid", key), f"{key} is the same setting as {other}")
        axes[key] = path
        for number, value in enumerate(values):
            if value in values[:number]:
                raise _error_at(layers, ("grid", key, number), f"{key}: {value!r} appears twice")
    for condition, settings in file.conditions.items():
        for key, path in axes.items():
            for prefix in ((), *((BY_TASK, task) for task in settings.get(BY_TASK) or ())):
                keys = [*prefix, *path.split(".")]
                values = _values_at(settings, keys)
                if values and not any(map(_is_change, [*values, *file.grid[key]])):
                    problem = f"{path}: cannot be used, since {key} is an axis of the grid"
                    raise _error_at(layers, ("conditions", condition, *keys), problem)
    return axes


def _values_at(settings: Any, keys: Sequence[str]) -> list[Any]:
    """The value at a path of keys, in a list; empty if there is none."""
    for key in keys:
        if not isinstance(settings, dict) or key not in settings:
            return []
        settings = settings[key]
    return [settings]


def _is_change(value: Any) -> bool:
    """Whether a value changes only a part of the value that it is merged with."""
    return isinstance(value, dict) and not defines_task(value)


def check_runs(file: SweepFile, runs: Sequence[PlannedRun], layers: Layers) -> None:
    """Raise `UsageError` if two tasks have one name, or a run can't be measured as requested."""
    values: dict[str, Any] = {}
    by_task: dict[str, PlannedRun] = {}
    for run in runs:
        task, value = run.config.task, run.axes.get("task")
        if values.setdefault(task.name, value) != value:
            problem = f"task: {values[task.name]} and {value} are both called {task.name}"
            raise _error_at(layers, ("grid", "task"), problem)
        by_task.setdefault(f"{task!r} {bool(run.config.training.examples)}", run)
    for run in by_task.values():
        for path, problem in _problems(file, run.config):
            raise _error_at(layers, path, f"{problem} ({run.name})")


def _problems(file: SweepFile, config: RunConfig) -> Iterator[tuple[KeyPath, str]]:
    """Files, measures, or criteria of a winner that are impossible for a run, with their paths."""
    for name in path_parameters(config.task.generator):
        if (file_name := config.task.parameters.get(name)) and is_stream(file_name):
            why = "expected a file, which each run can read by itself"
            yield ("settings", "task", "parameters", name), f"{name} {file_name}: {why}"
    task = config.task.make()
    is_text = isinstance(task, Corpus)
    development = config.has_pair_files or config.training.examples
    for name, measure in file.measures.items():
        path: KeyPath = ("measures", name)
        if is_text != (measure.of == "perplexity"):
            yield path, f"{name}: of: {measure.of} is {'not' if is_text else 'only'} for texts"
        elif measure.strings == "development" and not development:
            yield path, f"{name}: strings: development needs {_DEVELOPMENT_SETS}"
        elif (measure.each or measure.depth) and config.has_pair_files:
            yield path, f"{name}: {'each' if measure.each else 'depth'}: not for pairs in files"
        elif measure.lengths and not (measure.lengths[0] or config.has_pair_files):
            yield path, f"{name}: lengths: expected 1 <= shortest"
        elif not measure.strings:
            try:
                lengths, law = measure.range_of(config.task, task)
                if config.has_pair_files:
                    held_out_pairs(task, lengths)
                else:
                    task.sample(generator(0, Purpose.EVALUATION), lengths, 1, law)
            except (NoSuchLaw, NoSuchLength) as error:
                yield path, f"{name}: {error}"
    by, path = file.choose and file.choose.by, ("choose", "by")
    if by == "development accuracy" and not development:
        yield path, f"{by}: needs {_DEVELOPMENT_SETS}"
    if by == "validation perplexity" and not is_text:
        yield path, f"{by}: is only for texts"
    if by == "test accuracy" and is_text:
        yield path, f"{by}: is not for texts"
