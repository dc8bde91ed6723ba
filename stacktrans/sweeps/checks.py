"""Mistakes of a sweep's file whose parts are right, but do not fit each other."""

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from stacktrans.common.errors import UsageError, unknown_name
from stacktrans.common.randomness import Purpose, generator
from stacktrans.settings.config import RunConfig
from stacktrans.settings.layers import Layer, nearest_place, setting_path
from stacktrans.settings.resolve import defines_task, load_task
from stacktrans.sweeps.file import BY_TASK, SweepFile
from stacktrans.tasks import make_task
from stacktrans.tasks.base import NoSuchLaw, NoSuchLength, test_pairs
from stacktrans.tasks.corpus import Corpus

if TYPE_CHECKING:
    from stacktrans.sweeps.plan import PlannedRun

Place = tuple[str | int, ...]
"""Keys and indices that lead to something in a file."""
Named = tuple[str, Place, str | None, Collection[str | None]]
"""The kind of what is named, its place, its name if it is given, and the names that exist."""


def _refusal(layers: Sequence[Layer], place: Place, problem: str) -> UsageError:
    return UsageError(f"{nearest_place(layers, place)}: {problem}")


def check_names(file: SweepFile, layers: Sequence[Layer]) -> None:
    """Raise `UsageError` if an unknown measure, condition, axis or task is named."""
    tasks = _swept_tasks(layers)
    named = (*_named(file, tasks), *_single_tasks(file, tasks, layers))
    for kind, place, name, known in named:
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
    file: SweepFile, tasks: Collection[str | None], layers: Sequence[Layer]
) -> Iterator[Named]:
    """The tasks of which settings, or a condition, say something alone."""
    known = [task for task in tasks if task is not None]
    for place in (("settings",), *(("conditions", name) for name in file.conditions)):
        for layer in layers:
            for task in layer.section(*place, BY_TASK).settings:
                yield "task", (*place, BY_TASK, task), str(task), known


def _swept_tasks(layers: Sequence[Layer]) -> list[str | None]:
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


def check_runs(file: SweepFile, runs: "Sequence[PlannedRun]", layers: Sequence[Layer]) -> None:
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


_DEVELOPED = "training.data.examples, or pairs in files"


def _problems(file: SweepFile, config: RunConfig) -> Iterator[tuple[Place, str]]:
    """Why something can't be measured of a run, or a winner can't be chosen by it."""
    task = make_task("", config.task.generator, config.task.parameters)
    of_text = isinstance(task, Corpus)
    development = config.of_files or config.training.examples
    for name, measure in file.measures.items():
        place: Place = ("measures", name)
        if of_text != (measure.of == "perplexity"):
            yield place, f"{name}: of: {measure.of} is {'not' if of_text else 'only'} for texts"
        elif measure.strings == "development" and not development:
            yield place, f"{name}: strings: development needs {_DEVELOPED}"
        elif not measure.strings:
            try:
                lengths, law = measure.range_of(config.task, task)
                if config.of_files:
                    test_pairs(task, lengths)
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
