"""How a run's configuration is put together.

It is laid down in layers, each over the one before: the recipe, what was published of the task
alone, a configuration file, single settings, and assignments `key=value`.
"""

import contextlib
import functools
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, TypedDict, Unpack

from pydantic import AfterValidator, Field, ValidationError

from stacktrans.common import __version__
from stacktrans.common.errors import UsageError, shown, unknown_name
from stacktrans.common.reading import STDIN
from stacktrans.common.registry import GENERATORS, MEMORIES
from stacktrans.settings import packaged
from stacktrans.settings.config import FORMAT, RunConfig, Seed, TaskFile, path_parameters
from stacktrans.settings.layers import (
    Settings,
    SettingsLayer,
    checked,
    merge_layers,
    merged_settings,
    nearest_location,
    option_layer,
    part_settings,
    read_layer,
    recipe_layers,
    validated,
)
from stacktrans.settings.model_config import ControllerConfig, MemoryConfig
from stacktrans.settings.packaged import AUTO
from stacktrans.settings.values import Named, Strict
from stacktrans.tasks import TaskError, default_parameters
from stacktrans.tasks.base import Task
from stacktrans.tasks.layout import Layout, LayoutKind

DEFAULT_RECIPE = "default"
PUBLISHED = "paper"
"""The recipe of published settings, the one that a task may change."""


class Strategy(Strict):
    """A way to set up a model and its training, raced with others where no recipe is given.

    It is what one idea changes of the default recipe, and can be given by its name as a recipe is.
    """

    idea: str
    """what it does, and for what, in a sentence."""
    kinds: Annotated[list[LayoutKind], Field(min_length=1)]
    """the tasks that it is for."""
    memory: Annotated[str, AfterValidator(MEMORIES.canonical)]
    """where none is asked for."""
    of_this_memory: bool = False
    """whether it is for no other memory."""
    first_with_features: bool = False
    """whether it begins before all others where sources have features."""
    paper: str = ""
    """whose default recipe it changes; the general one unless given, whatever the task's is."""
    settings: Settings
    """what else it changes of that recipe."""


@functools.cache
def strategies() -> dict[str, Strategy]:
    """All strategies by name, in the order in which they are tried."""
    layer = read_layer(Path(__file__).parent / "strategies.yaml")
    return {name: validated(Strategy, each, [layer]) for name, each in layer.settings.items()}


def strategy_layer(name: str) -> SettingsLayer:
    """What a strategy changes of the default recipe."""
    strategy = strategies()[name]
    memory = {"model": {"memory": strategy.memory}}
    return SettingsLayer(f"strategy {name}", merged_settings(memory, strategy.settings))


def find_task(name: str) -> Path:
    """A task's file: a path, or one in `./tasks`, or a shipped one; raises `UsageError`."""
    if Path(name).suffix in {".yaml", ".yml"}:
        return Path(name)
    for folder in packaged.folders("tasks"):
        if os.path.isfile(path := folder / f"{name}.yaml"):
            return path
    raise UsageError(unknown_name("task", name, packaged.task_files()))


def load_task(name: str, assignments: Sequence[str] = (), seed: int = 1) -> TaskFile:
    """The task of a name or file.

    Args:
        name: of the task, or its file.
        seed: that of a run, by which it keeps pairs of a file apart.
        assignments: changes to it given as `key=value`, the keys as in its file or, as in a run's
            configuration, after `task.`.

    Raises:
        UsageError: it can't be read, or a change is wrong; the message says where.
    """
    changes = [option_layer(assignment, TaskFile, "task") for assignment in assignments]
    layers = [read_task(find_task(name)), *changes]
    task, _ = checked_task(completed(merge_layers(layers), layers, seed), layers)
    return task


def read_task(path: Path) -> SettingsLayer:
    """What the file of a task says; the files of pairs that it names are relative to it."""
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


def completed(
    settings: Settings, layers: Sequence[SettingsLayer], seed: int, before: Task | None = None
) -> Settings:
    """The settings of a task with what its files tell, if it has any that were not read yet.

    Args:
        seed: of the run.
        before: the task of the model that the run starts from, if it starts from one.
    """
    if not path_parameters(settings.get("generator")):
        return settings
    task = validated(TaskFile, {**settings, "lengths": None, "length_law": None}, layers)
    learned = _made(task, layers).settings_from_files(
        seed, None if "known" in task.parameters else before
    )
    if learned:
        _refuse_given(settings, layers, "cannot be used: the files tell")
    return {**settings, **learned}


def requested_seed(wanted: Settings) -> int:
    """The seed that is asked for."""
    with contextlib.suppress(ValidationError):  # which will be said of the whole configuration
        return Seed.model_validate({"seed": wanted.get("seed", 1)}).seed
    return 1


def _made(task: TaskFile, layers: Sequence[SettingsLayer]) -> Task:
    """What a task makes; raises `UsageError` saying where it can't be made."""
    try:
        return task.make()
    except TaskError as error:
        raise UsageError(f"{nearest_location(layers, error.location)}: {error}") from error


def checked_task(settings: Settings, layers: Sequence[SettingsLayer]) -> tuple[TaskFile, Task]:
    """The task of some settings, and what it makes; raises `UsageError` saying where it can't."""
    task = validated(TaskFile, settings, layers)
    _check_recipes(layers)
    made = _made(task, layers)
    if made.sampled:
        _refuse([] if task.lengths else ["lengths"], layers)
    else:
        _refuse_given(settings, layers, "cannot be used: nothing is drawn")
    return task, made


def _check_recipes(layers: Sequence[SettingsLayer]) -> None:
    """Raise `UsageError` if a task changes how it is trained, but by what was published of it."""
    for layer in layers:
        for name in layer.section("recipes").settings:
            if name != PUBLISHED:
                raise UsageError(
                    f"{layer.place(('recipes', name))}: recipes.{name}: expected {PUBLISHED} "
                    "alone, for what was published of the task; what else it is trained with "
                    "belongs in a file of settings"
                )


def _refuse_given(settings: Settings, layers: Sequence[SettingsLayer], why: str) -> None:
    given = [name for name in ("lengths", "length_law") if settings.get(name) is not None]
    _refuse(given, layers, why)


class Requested(TypedDict, total=False):
    """What can be asked for beside a recipe: see `resolve`."""

    base: SettingsLayer | None
    task: str | None
    config: str | None
    settings: Settings | None
    options: Sequence[SettingsLayer]
    assignments: Sequence[str]


def resolve(recipe: str | None = None, **asked: Unpack[Requested]) -> RunConfig:
    """Put a run's configuration together.

    A file that names its format is a whole configuration, and no recipe lies under it.

    Args:
        recipe: name of a recipe, or of a strategy.
        base: what all else lies over; see `stacktrans.settings.config`.
        task: name or file of a task.
        config: file of a configuration, whole or in part.
        settings: other settings, nested by section.
        options: settings given as options of their own.
        assignments: settings given as `key=value`.

    Raises:
        UsageError: something is missing, unknown or wrong; the message says where.
    """
    return resolved(requested_layers(recipe, asked))


def resolved(layers: Sequence[SettingsLayer]) -> RunConfig:
    """The configuration of what is asked for in some layers; raises as `resolve` does."""
    whole = next((layer for layer in reversed(layers) if layer.settings.get("format")), None)
    wanted = merge_layers(layers)
    if whole:
        _check_whole(whole)
    elif (name := str(wanted.get("recipe"))) in strategies():
        layers = [strategy_layer(name), *layers]
        wanted = merge_layers(layers)
    if whole and wanted["recipe"] != whole.settings["recipe"]:
        raise UsageError(
            f"recipe {wanted['recipe']}: {whole.origin} is a whole configuration, "
            "which takes nothing from a recipe"
        )
    first, *changes = task_layers(layers)
    # The task may be another than the whole configuration's own.
    own_task = whole is not None and first.origin == whole.origin
    recipes = [] if own_task else _recipes_under(wanted, [first, *changes])
    of_recipes = [layer.section("task") for layer in recipes if "task" in layer.settings]
    of_task = [first, *of_recipes, *changes]
    before = _task_before(layers, first) if wanted.get("start_from") else None
    task_settings = completed(merge_layers(of_task), of_task, requested_seed(wanted), before)
    made = checked_task(task_settings, of_task)[1]
    given = task_settings.get("parameters", {})
    defaults = default_parameters(task_settings["generator"])
    task_settings["parameters"] = {**given, **defaults, **given}  # in the order of those given
    task_settings.pop("recipes", None)

    everything = layers if whole else [*recipes, *layers]
    merged = {"recipe": DEFAULT_RECIPE, **merge_layers(everything), "task": task_settings}
    users = [layer.section("model").settings for layer in layers]
    model = merged.get("model", {})
    if not any(isinstance(said.get("buffers"), dict) for said in users):
        model = {**model, "buffers": None}  # it is not for a recipe to say whether there are any
    merged["model"] = parts_fitting(model, users)
    run = validated(RunConfig, merged, everything)
    _check_layout(run, made.layout, layers)
    return run


def _task_before(layers: Sequence[SettingsLayer], task: SettingsLayer) -> Task | None:
    """The task of the checkpoint that the other layers lie over; None if it is the run's own."""
    below = next(layer for layer in layers if "task" in layer.settings)
    if below.origin == task.origin or not defines_task(below.settings["task"]):
        return None
    section = below.section("task")
    return _made(validated(TaskFile, section.settings, [section]), [section])


def _check_layout(run: RunConfig, layout: Layout, layers: Sequence[SettingsLayer]) -> None:
    """Raise `UsageError` for settings that make no sense with what a model reads of a task."""
    for section, config in (("model", run.model), ("training", run.training)):
        for name, reason in config.misfits(layout):
            place = nearest_location(layers, (section, name))
            raise UsageError(f"{place}: task {run.task.name} {reason}, such as reverse")


def requested_layers(recipe: str | None, asked: Requested) -> list[SettingsLayer]:
    """What is asked for, in layers; raises as `resolve` does."""
    base, file, settings = asked.get("base"), asked.get("config"), asked.get("settings")
    said = {
        "task": {"task": task} if (task := asked.get("task")) else None,
        "recipe": {"recipe": recipe} if recipe else None,
        "settings": settings,
    }
    return checked(
        [
            *([base] if base else []),
            *([_of_this_format(read_layer(file))] if file else []),
            *(SettingsLayer(name, settings) for name, settings in said.items() if settings),
            *asked.get("options", ()),
            *(option_layer(each, RunConfig) for each in asked.get("assignments", ())),
        ]
    )


def _of_this_format(file: SettingsLayer) -> SettingsLayer:
    """A file of settings; raises `UsageError` if it names another format than that of today."""
    found = file.settings.get("format")
    if found is not None and (type(found) is not int or found != FORMAT):
        expected = f"format: expected {FORMAT}, which this stacktrans {__version__} reads"
        raise UsageError(f"{file.place(('format',))}: {expected}; found {shown(found)}")
    return file


def _check_whole(file: SettingsLayer) -> None:
    """Raise `UsageError` if a whole configuration leaves out a setting, even one with a default."""
    expected = validated(RunConfig, file.settings, [file]).model_dump()
    if expected["task"]["generator"] in GENERATORS:
        expected["task"]["parameters"] = default_parameters(expected["task"]["generator"])
    _refuse([*_missing(file.settings, expected)], [file])


def _missing(given: Settings, expected: Settings, prefix: str = "") -> Iterator[str]:
    """The paths of settings that are expected and not given."""
    for name, value in expected.items():
        if name not in given:
            yield prefix + name
        elif isinstance(value, dict):
            yield from _missing(part_settings(given[name]), value, f"{prefix}{name}.")


def parts_fitting(model: Settings, users: Sequence[Settings]) -> Settings:
    """A model without settings of another memory or controller.

    A recipe says what holds for any memory and controller, and a file below an option that chooses
    another is about the one that it had.

    Args:
        model: as put together.
        users: what was asked for of it, later ones on top.
    """
    fitting = dict(model)
    kinds: dict[str, type[Named]] = {"memory": MemoryConfig, "controller": ControllerConfig}
    for part, kind in kinds.items():
        if not isinstance(model.get(part), dict):
            continue  # which will be said when it is validated
        meant: set[str] = set()
        for said in users:
            own = part_settings(said.get(part))
            if isinstance(own, dict):
                meant = set(own) if "name" in own else meant.union(own)
        unfit = kind.known() - kind.kind_of(model[part]).model_fields.keys() - meant
        fitting[part] = {key: value for key, value in model[part].items() if key not in unfit}
    return fitting


def _recipes_under(asked: Settings, of_task: Sequence[SettingsLayer]) -> list[SettingsLayer]:
    """What the recipe says that lies under what is asked for."""
    name, known = str(asked.get("recipe", DEFAULT_RECIPE)), packaged.recipe_names()
    if name not in (*known, *strategies()):
        raise UsageError(unknown_name("recipe", name, [AUTO, *known, *strategies()]))
    memory = part_settings(asked.get("model", {}).get("memory"))
    if memory is None or (isinstance(memory, dict) and "name" not in memory):
        raise UsageError(f"no memory given; expected one of {', '.join(MEMORIES.installed())}")
    paper = validated(TaskFile, merge_layers(of_task), of_task).paper
    if strategy := strategies().get(name):
        name, paper = DEFAULT_RECIPE, strategy.paper
    return recipe_layers(name, paper, asked["model"], of_task)


def _refuse(names: Sequence[str], layers: Sequence[SettingsLayer], why: str = "is missing") -> None:
    """Raise `UsageError` that names settings, if there are any, with their places."""
    if names:
        raise UsageError(
            *(f"{nearest_location(layers, name.split('.'))}: {name} {why}" for name in names)
        )


def split_task(layers: Sequence[SettingsLayer]) -> tuple[SettingsLayer | None, list[SettingsLayer]]:
    """What layers say of the task: the last that names or defines it, and those that change it.

    A change holds wherever it stands: above the layer that names the task, or below it. Raises
    `UsageError` if what one of them says can't be a task.
    """
    base, changes = None, []
    for layer in layers:
        task = layer.settings.get("task")
        if isinstance(task, str) or defines_task(task):
            base = layer
        elif isinstance(task, dict):
            changes.append(layer)
        elif task is not None:
            raise UsageError(f"{layer.place(('task',))}: task: expected a name or settings")
    if base is None:  # but perhaps one that lacks a part
        parts = {"name", "generator"}
        base = next((layer for layer in changes if parts & layer.settings["task"].keys()), None)
        changes = [layer for layer in changes if layer is not base]
    return base, changes


def defines_task(task: object) -> bool:
    """Whether settings are a whole task, and not changes to one."""
    return isinstance(task, dict) and {"name", "generator"} <= task.keys()


def task_layers(layers: Sequence[SettingsLayer]) -> list[SettingsLayer]:
    """What the layers say of the task: its definition, then changes to it."""
    base, changes = split_task(layers)
    if base is None:
        raise UsageError("no task given; expected a name, such as copy, or a YAML file")
    return [
        base.section("task") if isinstance(base.settings["task"], dict) else _named(base),
        *(layer.section("task") for layer in changes),
    ]


def _named(layer: SettingsLayer) -> SettingsLayer:
    """The definition of the task that a layer names."""
    try:
        path = find_task(layer.settings["task"])
    except UsageError as error:
        place = f"{layer.place(('task',))}: " if layer.node else ""
        raise UsageError(f"{place}{error}") from error
    return read_task(path)
