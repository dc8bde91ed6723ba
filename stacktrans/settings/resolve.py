"""Resolve recipe or strategy, task, files and options to the configuration of a run.

Its layers, from the lowest to the highest: the recipe, published settings of the task, a
configuration file, options, and assignments `key=value`.
"""

import contextlib
import functools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError

from stacktrans.common.errors import UsageError, shown, unknown_name
from stacktrans.common.registry import GENERATORS, MEMORIES
from stacktrans.settings import locations
from stacktrans.settings.config import RunConfig, Seed, TaskFile
from stacktrans.settings.layers import (
    Settings,
    SettingsLayer,
    merge_layers,
    merged_settings,
    nearest_location,
    option_layer,
    part_settings,
    read_layer,
    validated,
)
from stacktrans.settings.locations import AUTO
from stacktrans.settings.model_config import ENCODER_DECODERS, ControllerConfig, MemoryConfig
from stacktrans.settings.task_files import (
    completed_task,
    defines_task,
    make_task,
    refuse,
    task_layers,
)
from stacktrans.settings.values import PartConfig, Section
from stacktrans.tasks import default_parameters
from stacktrans.tasks.base import Task
from stacktrans.tasks.layout import Layout, LayoutKind

DEFAULT_RECIPE = "default"


Trait = Literal["features", "labels", "fixed length", "varying length", "few symbols"]
"""A trait of a task: sources have features, or few different symbols; targets are labels, are
equally long, or are not."""


class Strategy(Section):
    """A way to set up a model and its training, raced against others if no recipe is given.

    It changes the default recipe, and its name can be given as a recipe.
    """

    idea: str
    """its idea, in a sentence."""
    kinds: Annotated[list[LayoutKind], Field(min_length=1)]
    """the kinds of tasks that it is for."""
    memory: Annotated[str, AfterValidator(MEMORIES.canonical)]
    """its memory, unless another is requested; a strategy without a memory fits no other."""
    first_with: Trait | None = None
    """the trait of tasks for which it begins before all others."""
    only_with: Trait | None = None
    """the trait without which it does not take part."""
    paper: str = ""
    """the paper whose default recipe it changes, whatever the task's is; empty for the general
    one."""
    settings: Settings
    """its further changes to that recipe."""

    @property
    def controller(self) -> str | None:
        """The name of its controller; None for that of the recipe."""
        return requested_part(self.settings, "controller")


@functools.cache
def strategies() -> dict[str, Strategy]:
    """All strategies by name, in the order in which they are tried."""
    layer = read_layer(Path(__file__).parent / "strategies.yaml")
    return {name: validated(Strategy, given, [layer]) for name, given in layer.settings.items()}


def strategy_layer(name: str) -> SettingsLayer:
    """The changes of a strategy to the default recipe."""
    strategy = strategies()[name]
    memory = {"model": {"memory": strategy.memory}}
    return SettingsLayer(f"strategy {name}", merged_settings(memory, strategy.settings))


def resolve(recipe: str | None = None, **requested: Any) -> RunConfig:
    """Put the configuration of a run together.

    A file that states its format is a complete configuration, to which no recipe is applied.

    Args:
        recipe: name of a recipe, or of a strategy.
        requested: the other arguments of `requested_layers`.

    Raises:
        UsageError: something is missing, unknown or wrong; the message says where.
    """
    return resolved(requested_layers(recipe, **requested))


def requested_layers(
    recipe: str | None = None,
    *,
    prefix: str = "",
    base: SettingsLayer | None = None,
    task: str | None = None,
    config: str | None = None,
    settings: Settings | None = None,
    options: Sequence[SettingsLayer] = (),
    assignments: Sequence[str] = (),
) -> list[SettingsLayer]:
    """The layers of requested settings, from the lowest to the highest.

    Args:
        recipe: name of a recipe, or of a strategy.
        prefix: of the names of arguments in messages.
        base: the lowest layer; see `stacktrans.settings.config.inherited_layer`.
        task: name or file of a task.
        config: file of a configuration, complete or partial.
        settings: further settings, nested by section.
        options: layers of command-line options.
        assignments: settings as `key=value`.

    Raises:
        UsageError: a file can't be read, or an assignment is wrong.
    """
    if config == "":
        raise UsageError(f"{prefix}config: expected the name of a file")
    named = {"task": task, "recipe": recipe}
    return [
        *([base] if base else []),
        *([read_layer(config)] if config is not None else []),
        *(
            SettingsLayer(prefix + name, {name: value})
            for name, value in named.items()
            if value is not None
        ),
        *([SettingsLayer(f"{prefix}settings", settings)] if settings else []),
        *options,
        *(option_layer(text, RunConfig) for text in assignments),
    ]


def resolved(layers: Sequence[SettingsLayer]) -> RunConfig:
    """The configuration that requested layers result in; raises as `resolve` does."""
    complete = next((layer for layer in reversed(layers) if layer.settings.get("format")), None)
    requested = merge_layers(layers)
    if complete:
        _check_none_missing(complete)
        if requested["recipe"] != complete.settings["recipe"]:
            raise UsageError(
                f"recipe {requested['recipe']}: {complete.origin} is a whole configuration, "
                "which takes nothing from a recipe"
            )
    elif (name := str(requested.get("recipe"))) in strategies():
        layers = [strategy_layer(name), *layers]
    elif requested_part(requested, "controller") in ENCODER_DECODERS:
        layers = [SettingsLayer("", {"model": {"memory": "none"}}), *layers]
    requested = merge_layers(layers)
    first, *changes = task_layers(layers)
    # The task may be another than that of the complete configuration.
    has_own_task = complete is not None and first.origin == complete.origin
    recipes = [] if has_own_task else _recipes_below(layers, requested, [first, *changes])
    of_recipes = [layer.section("task") for layer in recipes if "task" in layer.settings]
    of_task = [first, *of_recipes, *changes]
    initial = _initial_task(layers, first) if requested.get("start_from") else None
    task, made = completed_task(of_task, requested_seed(requested), initial)
    given = task.get("parameters", {})
    # Those given come first, in their order.
    task["parameters"] = {**given, **default_parameters(task["generator"]), **given}
    task.pop("recipes", None)

    everything = layers if complete else [*recipes, *layers]
    merged = {"recipe": DEFAULT_RECIPE, **merge_layers(everything), "task": task}
    of_model = [layer.section("model").settings for layer in layers]
    model = merged.get("model", {})
    if not any(isinstance(given.get("buffers"), dict) for given in of_model):
        model = {**model, "buffers": None}  # a recipe has settings of buffers, but adds none
    merged["model"] = without_unfit_settings(model, of_model)
    run = validated(RunConfig, merged, everything)
    _check_layout(run, made.layout, layers)
    return run


def requested_part(requested: Settings, part: str) -> str | None:
    """The name of the memory or controller in requested settings, if there is one."""
    model = requested.get("model")
    given = part_settings(model.get(part)) if isinstance(model, dict) else None
    return str(given["name"]) if isinstance(given, dict) and "name" in given else None


def requested_seed(requested: Settings) -> int:
    """The seed in requested settings; 1 if there is none, or a wrong one."""
    with contextlib.suppress(ValidationError):  # reported when the configuration is validated
        return Seed.model_validate({"seed": requested.get("seed", 1)}).seed
    return 1


def _initial_task(layers: Sequence[SettingsLayer], task: SettingsLayer) -> Task | None:
    """The task of the checkpoint that a run starts from; None if the run has the same."""
    lowest = next(layer for layer in layers if "task" in layer.settings)
    if lowest.origin == task.origin or not defines_task(lowest.settings["task"]):
        return None
    section = lowest.section("task")
    return make_task(validated(TaskFile, section.settings, [section]), [section])


def _check_layout(run: RunConfig, layout: Layout, layers: Sequence[SettingsLayer]) -> None:
    """Raise `UsageError` for settings that do not fit the layout of the task."""
    for path, reason in _misfits(run, layout):
        problem = f"task {run.task.name} {reason}; expected a task of pairs, such as reverse"
        raise UsageError(f"{nearest_location(layers, path)}: {problem}")


def _misfits(run: RunConfig, layout: Layout) -> Iterator[tuple[Sequence[str], str]]:
    """Settings that do not fit a layout, and the reason, as a predicate of the task."""
    if run.model.buffers and layout.consecutive:
        # In a stream the model also reads the target, and could copy it to its output.
        reason = "is not for a buffered model, which would read the answer before it gives it"
        yield ("model", "buffers"), reason
    if layout.kind != "pairs":
        reason = "has no targets after its sources"
        if run.model.backwards:
            yield ("model", "backwards"), reason
        if run.model.encoder_decoder:
            yield ("model", "controller"), reason
        if run.training.source_loss:
            yield ("training", "source_loss"), reason


def _check_none_missing(file: SettingsLayer) -> None:
    """Raise `UsageError` if a complete configuration lacks a setting, even one with a default."""
    expected = validated(RunConfig, file.settings, [file]).model_dump()
    if expected["task"]["generator"] in GENERATORS:
        expected["task"]["parameters"] = default_parameters(expected["task"]["generator"])
    refuse([*_missing(file.settings, expected)], [file])


def _missing(given: Settings, expected: Settings, prefix: str = "") -> Iterator[str]:
    """The paths of settings that are expected and not given."""
    for name, value in expected.items():
        if name not in given:
            yield prefix + name
        elif isinstance(value, dict):
            yield from _missing(part_settings(given[name]), value, f"{prefix}{name}.")


def without_unfit_settings(model: Settings, requested: Sequence[Settings]) -> Settings:
    """Drop settings of a model that its memory or controller does not have.

    A recipe has settings for every memory and controller, and a file has those of the part that an
    option replaces. Settings that are given for the chosen part are kept, and refused later.

    Args:
        model: the merged settings.
        requested: the settings of the model in each requested layer, later ones on top.
    """
    fitting = dict(model)
    classes: dict[str, type[PartConfig]] = {"memory": MemoryConfig, "controller": ControllerConfig}
    for part, config in classes.items():
        if not isinstance(model.get(part), dict):
            continue  # reported when the model is validated
        meant: set[str] = set()
        for given in requested:
            own = part_settings(given.get(part))
            if isinstance(own, dict):
                meant = set(own) if "name" in own else meant.union(own)
        known = config.config_class(model[part]).model_fields.keys()
        unfit = config.all_settings() - known - meant
        fitting[part] = {key: value for key, value in model[part].items() if key not in unfit}
    return fitting


def _recipes_below(
    layers: Sequence[SettingsLayer], requested: Settings, of_task: Sequence[SettingsLayer]
) -> list[SettingsLayer]:
    """The layers of the recipe, below the requested ones.

    They are its settings in general, for the tasks of a paper, and for this task, each followed by
    those for its memory, controller or generator alone.
    """
    name, known = str(requested.get("recipe", DEFAULT_RECIPE)), locations.recipe_names()
    if name not in (*known, *strategies()):
        message = unknown_name("recipe", name, [AUTO, *known, *strategies()])
        raise UsageError(f"{nearest_location(layers, ('recipe',))}: {message}")
    paper = validated(TaskFile, merge_layers(of_task), of_task).paper
    if strategy := strategies().get(name):
        name, paper = DEFAULT_RECIPE, strategy.paper
    folder = locations.recipes()
    files = dict.fromkeys([folder / f"{name}.yaml", folder / paper / f"{name}.yaml"])
    recipe = [read_layer(path) for path in files if path.is_file()]
    recipe += [layer.section("recipes", name) for layer in of_task]
    own = SettingsLayer("", {"model": requested.get("model", {})})
    chosen = merge_layers([*recipe, own])
    memory = requested_part(chosen, "memory")
    given = chosen.get("model", {}).get("memory")
    if memory is None and given is not None and not isinstance(given, dict):
        where = nearest_location(layers, ("model", "memory"))
        expected = f"expected a name such as queue+stack (given: {shown(given)})"
        raise UsageError(f"{where}: model.memory: {expected}")
    if memory is None:
        raise UsageError(f"no memory given; expected one of {', '.join(MEMORIES.installed())}")
    parts = {
        "by_memory": MEMORIES.canonical(memory),
        "by_generator": str(merge_layers(of_task).get("generator")),
        "by_controller": str(requested_part(chosen, "controller")),
    }
    return _with_special_cases(recipe, parts)


def _with_special_cases(
    layers: Sequence[SettingsLayer], parts: Mapping[str, str]
) -> list[SettingsLayer]:
    """The layers of a recipe, each followed by its special cases for some parts, which may nest.

    Args:
        layers: with sections of special cases, such as `by_memory`.
        parts: names by these sections, such as that of the memory.
    """
    expanded: list[SettingsLayer] = []
    for layer in layers:
        special = [layer.section(section, name) for section, name in parts.items()]
        expanded.append(layer.without(*parts))
        expanded += _with_special_cases([case for case in special if case.settings], parts)
    return expanded
