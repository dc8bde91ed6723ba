"""From a sweep's file to the runs that it asks for, and what is checked before any begins."""

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, PositiveInt, field_validator, model_validator

from stacktrans.common.errors import UsageError, unknown_name
from stacktrans.common.randomness import Purpose, generator
from stacktrans.common.registry import use_plugins
from stacktrans.common.visible import shell_text
from stacktrans.settings.candidates import candidate_configs, identity_of, title_of
from stacktrans.settings.command import training_command
from stacktrans.settings.config import RunConfig, TaskConfig
from stacktrans.settings.layers import (
    Settings,
    SettingsLayer,
    merge_layers,
    nearest_location,
    nested,
    read_layer,
    validated,
)
from stacktrans.settings.resolve import DEFAULT_RECIPE
from stacktrans.settings.schema import setting_path
from stacktrans.settings.task_files import defines_task, load_task
from stacktrans.settings.values import Range, Strict, Strings
from stacktrans.tasks.base import (
    DepthLimit,
    LengthLaw,
    Lengths,
    NoSuchLaw,
    NoSuchLength,
    Task,
    held_out_pairs,
)
from stacktrans.tasks.corpus import Corpus

Condition = Annotated[Settings, BeforeValidator(lambda settings: settings or {})]
"""Settings of a condition, perhaps none."""
BY_TASK = "by_task"
"""What settings or a condition say of single tasks of the grid stands under this, by name."""
Figure = float | tuple[float, float, float]
"""A published figure: a number, or least, median and greatest."""


class Measure(Strict):
    """A number that is measured of every run.

    Attributes:
        of: an accuracy, the share of lengths at which every string is right, the perplexity of a
            text, or `machine`: 1 if a machine can be extracted that answers every string as the
            model with hard signals does, 0 if not.
        strings: those that the run's summary measured on; None draws others.
        lengths: of strings that are drawn; those of the task's test range if not given.
        depth: of derivations, instead of lengths.
        each: whether `count` strings are drawn of every length.
        seed: of the strings that are drawn.
        hard: make the memory's signals 0 or 1.
    """

    of: Literal["coarse", "fine", "symbols", "lengths", "perplexity", "machine"]
    strings: Literal["train", "development", "valid", "test"] | None = None
    lengths: Range | None = None
    depth: PositiveInt | None = None
    each: bool = False
    count: Strings = 1000
    seed: Annotated[int, Field(ge=0)] = 1
    hard: bool = False

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        drawn = self.model_fields_set - {"of", "strings"}
        if self.strings and drawn:
            raise ValueError(f"{min(drawn)}: cannot be used with strings: {self.strings}")
        if self.strings and self.of in ("lengths", "machine"):
            raise ValueError(f"of: {self.of} needs strings that are drawn")
        if self.of == "machine" and (others := drawn - {"lengths", "count"}):
            raise ValueError(f"{min(others)}: cannot be used with of: machine")
        if self.of == "perplexity" and self.strings not in ("valid", "test"):
            raise ValueError("of: perplexity needs strings: valid or test")
        if self.of != "perplexity" and self.strings == "valid":
            raise ValueError(f"strings: valid is a text, which has no {self.of} but a perplexity")
        return self

    def range_of(self, config: TaskConfig, task: Task) -> tuple[Lengths, LengthLaw]:
        """The lengths of strings that are drawn, and how they are spread; may raise `NoSuchLaw`."""
        if self.depth is None:
            lengths = self.lengths or config.ranges.test
            return lengths, config.law_of(lengths)
        law = DepthLimit(self.depth)
        return self.lengths or task.lengths_within(law), law


class Choice(Strict):
    """How a winner is chosen.

    Attributes:
        by: the least perplexity in training or, of a text, of the validation text; or the
            greatest accuracy on the development set or on the run's own strings of the test range.
        among: axes of the grid, along which all runs but the winner are dropped.
    """

    by: Literal[
        "training perplexity", "validation perplexity", "development accuracy", "test accuracy"
    ]
    among: list[str]


class SolvedCriterion(Strict):
    """When a run counts as solved: if a measure is at least so much."""

    measure: str
    least: float


class Published(Strict):
    """Published figures of a measure: by condition, and by task where the grid has tasks."""

    source: str
    measure: str
    values: dict[str, Figure | dict[str, Figure]]


class ClaimPart(Strict):
    """A part of a claim: a bound on a cell of the table.

    Attributes:
        task: of the cell, where the grid has tasks.
        measure: the first one if not given.
        above: a condition whose figure is smaller.
    """

    condition: str
    task: str = ""
    measure: str | None = None
    least: float | None = None
    most: float | None = None
    above: str | None = None

    @model_validator(mode="after")
    def _compares(self) -> Self:
        if sum(value is not None for value in (self.least, self.most, self.above)) != 1:
            raise ValueError("expected one of least, most and above")
        return self


class Claim(Strict):
    """A paper's claim, and the parts of the table that have to agree for it to hold here."""

    claim: str
    source: str
    holds: Annotated[list[ClaimPart], Field(min_length=1)]


class SweepFile(Strict):
    """A sweep.

    Attributes:
        plugins: files, beside this one, with memories, controllers or generators of one's own.
        settings: shared by all runs, as in a configuration file; under `by_task`, those of single
            tasks of the grid.
        conditions: rows of the table: settings by name, as in a configuration file.
        grid: settings and the values that they take; all combinations are run. Null, in a
            profile, for an axis that it leaves out.
        percent: whether all figures here are in per cent, that of `solved` and the tolerance, too.
        tolerance: how far a figure may be from the published one without being marked.
        choose: how a winner is chosen; the median counts if not given.
        profiles: changes to all of this, by name; one of them can be laid over it.
    """

    title: str
    description: str = ""
    plugins: list[str] = Field(default_factory=list)
    settings: Settings = Field(default_factory=dict)
    conditions: Annotated[dict[str, Condition], Field(min_length=1)]
    grid: dict[str, Annotated[list[Any], Field(min_length=1)]] = Field(default_factory=dict)
    measures: Annotated[dict[str, Measure], Field(min_length=1)]
    percent: bool = False
    tolerance: Annotated[float, Field(ge=0)] = 0
    solved: SolvedCriterion | None = None
    choose: Choice | None = None
    published: list[Published] = Field(default_factory=list)
    claims: list[Claim] = Field(default_factory=list)
    profiles: dict[str, Settings] = Field(default_factory=dict)

    @property
    def unit(self) -> float:
        """What a figure of the file is divided by to be a share of 1."""
        return 100 if self.percent else 1

    @field_validator("grid", mode="before")
    @classmethod
    def _nothing_is_no_axis(cls, grid: Any) -> Any:
        if isinstance(grid, dict):
            return {key: values for key, values in grid.items() if values is not None}
        return grid

    @model_validator(mode="after")
    def _perplexities_are_no_shares(self) -> Self:
        texts = [name for name, measure in self.measures.items() if measure.of == "perplexity"]
        if texts and (self.percent or (self.solved and self.solved.measure in texts)):
            key = "percent" if self.percent else "solved"
            raise ValueError(f"{key}: cannot be used with {texts[0]}, a perplexity")
        return self


Place = tuple[str | int, ...]
"""Keys and indices that lead to something in a file."""
Named = tuple[str, Place, str | None, Collection[str | None]]
"""The kind of what is named, its place, its name if it is given, and the names that exist."""
_DEVELOPED = "training.data.examples, or pairs in files"


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
    file = validated(SweepFile, merge_layers(layers), layers)
    use_plugins(*(path.parent / plugin for plugin in file.plugins))
    check_names(file, layers)
    check_axes(file, layers)
    runs = [run for name in file.conditions for run in _runs_of(path, name, file, layers)]
    check_runs(file, runs, layers)
    return Plan(path, profile, file, runs)


def _runs_of(
    path: Path, condition: str, file: SweepFile, layers: Sequence[SettingsLayer]
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
            asked = [SettingsLayer("", {"recipe": DEFAULT_RECIPE})]
            asked += [part for layer in own for part in _of_task(layer, task)]
            asked += [layer for _, layer in point]
            configs, command = candidate_configs(options=asked), training_command(asked)
            runs.append(PlannedRun(condition, place, configs, shell_text(command)))
    except UsageError as error:
        where = "" if str(path) in str(error) else f"{path}: "
        first, *others = error.problems
        raise UsageError(f"{where}condition '{condition}': {first}", *others) from error
    return runs


def _of_task(layer: SettingsLayer, task: str | None) -> list[SettingsLayer]:
    """What a layer says of all tasks, and then of one of the grid alone, if the grid has tasks."""
    general = layer.without(BY_TASK)
    return [general, layer.section(BY_TASK, task)] if task else [general]


def _axis(
    key: str, values: Sequence[Any], layers: Sequence[SettingsLayer]
) -> list[tuple[Any, SettingsLayer]]:
    """The values along an axis of the grid, with the settings that they stand for."""
    origin = nearest_location(layers, ("grid", key))
    path = setting_path(key, RunConfig, origin)
    return [(value, SettingsLayer(origin, nested(path, value))) for value in values]


def _refusal(layers: Sequence[SettingsLayer], place: Place, problem: str) -> UsageError:
    return UsageError(f"{nearest_location(layers, place)}: {problem}")


def check_names(file: SweepFile, layers: Sequence[SettingsLayer]) -> None:
    """Raise `UsageError` if an unknown measure, condition, axis or task is named."""
    tasks = _swept_tasks(layers)
    for kind, place, name, known in (*_named(file, tasks), *_single_tasks(file, tasks, layers)):
        if name is None:
            if kind == "task" and tasks:
                raise _refusal(layers, place, "task: is missing")
        elif kind == "task" and not tasks:
            raise _refusal(layers, place, "task: cannot be used: the grid has no tasks")
        elif None not in known and name not in known:
            raise _refusal(layers, place, unknown_name(kind, name, map(str, known)))


def _named(file: SweepFile, tasks: Collection[str | None]) -> Iterator[Named]:
    """What is named in figures, claims and choices."""
    for number, published in enumerate(file.published):
        place: Place = ("published", number)
        yield "measure", (*place, "measure"), published.measure, file.measures
        for condition, figures in published.values.items():
            row = (*place, "values", condition)
            yield "condition", row, condition, file.conditions
            for task in figures if isinstance(figures, dict) else ():
                yield "task", (*row, task), task, tasks
    for number, claim in enumerate(file.claims):
        for index, part in enumerate(claim.holds):
            place = ("claims", number, "holds", index)
            yield "condition", (*place, "condition"), part.condition, file.conditions
            yield "condition", (*place, "above"), part.above, file.conditions
            yield "measure", (*place, "measure"), part.measure, file.measures
            yield "task", (*place, "task"), part.task or None, tasks
    if file.solved:
        yield "measure", ("solved", "measure"), file.solved.measure, file.measures
    for number, axis in enumerate(file.choose.among if file.choose else ()):
        yield "axis", ("choose", "among", number), axis, file.grid


def _single_tasks(
    file: SweepFile, tasks: Collection[str | None], layers: Sequence[SettingsLayer]
) -> Iterator[Named]:
    """The tasks of which settings, or a condition, say something alone."""
    known = [task for task in tasks if task is not None]
    for place in (("settings",), *(("conditions", name) for name in file.conditions)):
        for layer in layers:
            for task in layer.section(*place, BY_TASK).settings:
                yield "task", (*place, BY_TASK, task), str(task), known


def _swept_tasks(layers: Sequence[SettingsLayer]) -> list[str | None]:
    """Names of all tasks of the grid, and None for what changes another.

    Those that a profile leaves out are among them: figures may be of them.
    """
    names: list[str | None] = []
    for layer in layers:
        for number, task in enumerate(layer.section("grid").settings.get("task") or []):
            try:
                names.append(swept_task(task))
            except UsageError as error:
                raise _refusal([layer], ("grid", "task", number), str(error)) from error
    return names


def swept_task(value: Any) -> str | None:
    """The name of a task of the grid, None for what changes another; may raise `UsageError`."""
    return value.get("name") if isinstance(value, dict) else load_task(str(value)).name


def check_axes(file: SweepFile, layers: Sequence[SettingsLayer]) -> None:
    """Raise `UsageError` if a setting has several axes, or has one and is a condition's, too."""
    axes: dict[str, str] = {}
    for key, values in file.grid.items():
        path = setting_path(key, RunConfig, nearest_location(layers, ("grid", key)))
        if path in axes:
            same = f"{key} is the same setting as {axes[path]}"
            raise _refusal(layers, ("grid", key), same)
        axes[path] = key
        for number, value in enumerate(values):
            if value in values[:number]:
                raise _refusal(layers, ("grid", key, number), f"{key}: {value!r} is there twice")
    for condition, settings in file.conditions.items():
        for path, key in axes.items():
            for above in ((), *((BY_TASK, task) for task in settings.get(BY_TASK) or ())):
                keys = [*above, *path.split(".")]
                said = _said(settings, keys)
                if said and not any(_is_change(value) for value in [*said, *file.grid[key]]):
                    problem = f"{path}: cannot be used, since {key} is an axis of the grid"
                    raise _refusal(layers, ("conditions", condition, *keys), problem)


def _said(settings: Any, keys: Sequence[str]) -> list[Any]:
    """What settings have under some keys, if they have anything there."""
    for key in keys:
        if not isinstance(settings, dict) or key not in settings:
            return []
        settings = settings[key]
    return [settings]


def _is_change(value: Any) -> bool:
    """Whether a value leaves something of what it is laid over."""
    return isinstance(value, dict) and not defines_task(value)


def check_runs(
    file: SweepFile, runs: Sequence[PlannedRun], layers: Sequence[SettingsLayer]
) -> None:
    """Raise `UsageError` if two tasks have one name, or what is measured can't be."""
    values: dict[str, Any] = {}
    distinct: dict[str, PlannedRun] = {}
    for run in runs:
        task, value = run.config.task, run.axes.get("task")
        if values.setdefault(task.name, value) != value:
            both = f"task: {values[task.name]} and {value} are both called {task.name}"
            raise _refusal(layers, ("grid", "task"), both)
        distinct.setdefault(f"{task!r} {bool(run.config.training.examples)}", run)
    for run in distinct.values():
        for place, problem in _problems(file, run.config):
            raise _refusal(layers, place, f"{problem} ({run.name})")


def _problems(file: SweepFile, config: RunConfig) -> Iterator[tuple[Place, str]]:
    """Why something can't be measured of a run, or a winner can't be chosen by it."""
    task = config.task.make()
    of_text = isinstance(task, Corpus)
    development = config.has_pair_files or config.training.examples
    for name, measure in file.measures.items():
        place: Place = ("measures", name)
        if of_text != (measure.of == "perplexity"):
            yield place, f"{name}: of: {measure.of} is {'not' if of_text else 'only'} for texts"
        elif measure.strings == "development" and not development:
            yield place, f"{name}: strings: development needs {_DEVELOPED}"
        elif not measure.strings:
            try:
                lengths, law = measure.range_of(config.task, task)
                if config.has_pair_files:
                    held_out_pairs(task, lengths)
                else:
                    task.sample(generator(0, Purpose.EVALUATION), lengths, 1, law)
            except (NoSuchLaw, NoSuchLength) as error:
                yield place, f"{name}: {error}"
    by, place = file.choose and file.choose.by, ("choose", "by")
    if by == "development accuracy" and not development:
        yield place, f"{by}: needs {_DEVELOPED}"
    if by == "validation perplexity" and not of_text:
        yield place, f"{by}: is only for texts"
    if by == "test accuracy" and of_text:
        yield place, f"{by}: is not for texts"
