"""Mistakes of a sweep's file whose parts are right, but do not fit each other."""

import functools
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from stacktrans.common.errors import UsageError, unknown_name
from stacktrans.common.randomness import Purpose, generator
from stacktrans.settings.config import RunConfig
from stacktrans.settings.layers import Layer, nearest_place, setting_path
from stacktrans.settings.resolve import defines_task, load_task
from stacktrans.sweeps.file import Measure, Part, SweepFile
from stacktrans.tasks import make_task
from stacktrans.tasks.base import LengthLaw, Lengths, NoSuchLaw, NoSuchLength, Task
from stacktrans.tasks.corpus import Corpus

if TYPE_CHECKING:
    from stacktrans.sweeps.plan import PlannedRun

Place = tuple[str | int, ...]
"""Keys and indices that lead to something in a file."""


def _refusal(layers: Sequence[Layer], place: Place, problem: str) -> UsageError:
    return UsageError(f"{nearest_place(layers, place)}: {problem}")


def check_names(file: SweepFile, layers: Sequence[Layer]) -> None:
    """Raise `UsageError` if an unknown measure, condition, axis or task is named."""
    for kind, place, name, known in _named(file):
        if name not in known:
            raise _refusal(layers, place, unknown_name(kind, name, known))
    swept = _swept_tasks(layers)
    for place, task in _named_tasks(file):
        if task and not swept:
            raise _refusal(layers, place, "task: cannot be used: the grid has no tasks")
        if swept and not task:
            raise _refusal(layers, place, "task: is missing")
        if task and None not in swept and task not in swept:
            known = [name for name in swept if name]
            raise _refusal(layers, place, unknown_name("task", task, known))


def _named(file: SweepFile) -> Iterator[tuple[str, Place, str, Iterable[str]]]:
    """Kinds, places, names, and the names that exist."""
    for number, published in enumerate(file.published):
        place: Place = ("published", number)
        yield "measure", (*place, "measure"), published.measure, file.measures
        for condition in published.values:
            yield "condition", (*place, "values", condition), condition, file.conditions
    for place, part in _parts(file):
        yield "condition", (*place, "condition"), part.condition, file.conditions
        if part.above is not None:
            yield "condition", (*place, "above"), part.above, file.conditions
        if part.measure is not None:
            yield "measure", (*place, "measure"), part.measure, file.measures
    if file.solved:
        yield "measure", ("solved", "measure"), file.solved.measure, file.measures
    for number, axis in enumerate(file.choose.among if file.choose else ()):
        yield "axis", ("choose", "among", number), axis, file.grid


def _named_tasks(file: SweepFile) -> Iterator[tuple[Place, str]]:
    for number, published in enumerate(file.published):
        for condition, figures in published.values.items():
            for task in figures if isinstance(figures, dict) else ():
                yield ("published", number, "values", condition, task), task
    for place, part in _parts(file):
        yield (*place, "task"), part.task


def _parts(file: SweepFile) -> Iterator[tuple[Place, Part]]:
    for number, claim in enumerate(file.claims):
        for index, part in enumerate(claim.holds):
            yield ("claims", number, "holds", index), part


def _swept_tasks(layers: Sequence[Layer]) -> list[str | None]:
    """Names of all tasks of the grid, and None for what changes another.

    Those that a profile leaves out are among them: figures may be of them.
    """
    names: list[str | None] = []
    for layer in layers:
        for number, task in enumerate(layer.section("grid").settings.get("task") or []):
            try:
                own = task.get("name") if isinstance(task, dict) else load_task(str(task)).name
            except UsageError as error:
                raise _refusal([layer], ("grid", "task", number), str(error)) from error
            names.append(own)
    return names


def check_axes(file: SweepFile, layers: Sequence[Layer]) -> None:
    """Raise `UsageError` if a setting has several axes, or has one and is a condition's, too."""
    axes: dict[str, str] = {}
    for key, values in file.grid.items():
        path = setting_path(key, RunConfig, nearest_place(layers, ("grid", key)))
        if path in axes:
            same = f"{key} is the same setting as {axes[path]}"
            raise _refusal(layers, ("grid", key), same)
        axes[path] = key
        for number, value in enumerate(values):
            if value in values[:number]:
                raise _refusal(layers, ("grid", key, number), f"{key}: {value!r} is there twice")
    for condition, settings in file.conditions.items():
        for path, key in axes.items():
            keys = path.split(".")
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


def check_runs(file: SweepFile, runs: "Sequence[PlannedRun]", layers: Sequence[Layer]) -> None:
    """Raise `UsageError` if two tasks have one name, or what is measured can't be."""
    values: dict[str, Any] = {}
    for run in runs:
        name, value = run.config.task.name, run.axes.get("task")
        if values.setdefault(name, value) != value:
            both = f"task: {values[name]} and {value} are both called {name}"
            raise _refusal(layers, ("grid", "task"), both)
    for run in runs:
        for name, measure in file.measures.items():
            if problem := _problem(run.config, measure):
                where: Place = ("measures", name)
                raise _refusal(layers, where, f"{name}: {problem} ({run.name})")
        if file.choose and (problem := _choice_problem(run.config, file.choose.by)):
            where = ("choose", "by")
            raise _refusal(layers, where, f"{file.choose.by}: {problem} ({run.name})")


def _problem(config: RunConfig, measure: Measure) -> str:
    """Why something can't be measured of a run; empty if it can."""
    task = _task_of(config)
    if isinstance(task, Corpus) != (measure.of == "perplexity"):
        return f"of: {measure.of} is {'not' if isinstance(task, Corpus) else 'only'} for texts"
    if measure.strings == "development" and not config.training.examples:
        return "strings: development needs training.data.examples"
    try:
        if not measure.strings:
            _draw(task, *measure.range_of(config.task, task))
    except (NoSuchLaw, NoSuchLength) as error:
        return str(error)
    return ""


@functools.lru_cache
def _draw(task: Task, lengths: Lengths, law: LengthLaw) -> None:
    """Draw a string; raises `NoSuchLaw` or `NoSuchLength` if that can't be done."""
    task.sample(generator(0, Purpose.EVALUATION), lengths, 1, law)


def _task_of(config: RunConfig) -> Task:
    return _made(config.task.generator, json.dumps(config.task.parameters))


@functools.lru_cache
def _made(generator: str, parameters: str) -> Task:
    """A task; once for each, since hundreds of runs have the same."""
    return make_task("", generator, json.loads(parameters))


def _choice_problem(config: RunConfig, by: str) -> str:
    """Why a winner can't be chosen by something; empty if one can."""
    of_text = isinstance(_task_of(config), Corpus)
    if by == "development accuracy" and not config.training.examples:
        return "needs training.data.examples"
    if by == "validation perplexity" and not of_text:
        return "is only for texts"
    return "is not for texts" if by == "test accuracy" and of_text else ""
