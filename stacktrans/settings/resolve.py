"""How a run's configuration is put together.

It is laid down in layers, each over the one before: the recipe, the task's own changes to the
recipe, a configuration file, the command line's options, and `--set`.
"""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel

from stacktrans.common.errors import UsageError, unknown_name
from stacktrans.settings.config import FORMAT, RunConfig, TaskConfig
from stacktrans.settings.formats import Rules, rules_of, written_format
from stacktrans.settings.layers import (
    Layer,
    Settings,
    nearest_place,
    option_layer,
    overlay,
    read_layer,
    validated,
)
from stacktrans.settings.packaged import BY_KIND, folders, recipe_names, task_files

TASK_OPTION = "--task"


def find_task(name: str) -> Path:
    """The file of a task: a path, a task in `./tasks`, or a shipped one.

    Raises:
        UsageError: there is none.
    """
    if Path(name).suffix in {".yaml", ".yml"}:
        return Path(name)
    for folder in folders("tasks"):
        with contextlib.suppress(OSError):  # no file has a name as long as that
            if (folder / f"{name}.yaml").is_file():
                return folder / f"{name}.yaml"
    raise UsageError(unknown_name("task", name, task_files()))


def load_task(name: str, assignments: Sequence[str] = ()) -> TaskConfig:
    """The task of a name or file.

    Args:
        name: of the task, or its file.
        assignments: changes to it given as `key=value`, the keys as in its file or, as in a run's
            configuration, after `task.`.

    Raises:
        UsageError: it can't be read, or a change is wrong; the message says where.
    """
    changes = [option_layer(assignment, TaskConfig, "task") for assignment in assignments]
    layers = [read_layer(find_task(name)), *changes]
    task = _checked_task(overlay(layers), layers)
    _check_recipes(layers, recipe_names())
    return task


def _checked_task(settings: Settings, layers: Sequence[Layer]) -> TaskConfig:
    """The task of some settings, which can be made; raises `UsageError` saying where it can't."""
    from stacktrans.tasks import TaskError, make_task

    task = validated(TaskConfig, settings, layers)
    try:
        made = make_task(task.name, task.generator, task.parameters)
    except TaskError as error:
        raise UsageError(f"{nearest_place(layers, error.location)}: {error}") from error
    problem = "is missing" if made.drawn else "is of no use: nothing is drawn"
    wrong = [name for name in _DRAWING if not made.drawn and settings.get(name) is not None]
    if made.drawn and task.lengths is None:
        wrong = ["lengths"]
    if wrong:
        raise UsageError(*(f"{nearest_place(layers, (name,))}: {name} {problem}" for name in wrong))
    return task


def _check_recipes(task_layers: Sequence[Layer], known: Sequence[str]) -> None:
    """Raise `UsageError` if a task changes a recipe that there is not."""
    for layer in task_layers:
        for name in layer.section("recipes").settings:
            if name not in known:
                place = layer.place(("recipes", name))
                raise UsageError(f"{place}: {unknown_name('recipe', name, known)}")


_DRAWING = ("lengths", "length_law")
"""What a task says of the strings that are drawn."""


def _recipe_layers(
    rules: Rules, recipe: str, paper: str, model: Settings, task_layers: Sequence[Layer]
) -> list[Layer]:
    """What a recipe says in general, for tasks of a paper, and for the task.

    Args:
        rules: whose recipe it is.
        recipe: its name.
        paper: of the task.
        model: what is asked for; the memory is.
        task_layers: of the task.
    """
    known = rules.recipe_names()
    if recipe not in known:
        raise UsageError(unknown_name("recipe", recipe, known))
    _check_recipes(task_layers, known)
    found = [read_layer(rules.recipes / f"{recipe}.yaml")]
    of_paper = rules.recipes / paper / f"{recipe}.yaml"
    if of_paper.is_file():
        found.append(read_layer(of_paper))
    found += [layer.section("recipes", recipe) for layer in task_layers]
    kinds = {"by_memory": model["memory"]}
    usual = overlay(_checked(part for layer in found for part in _expanded(layer, kinds)))
    kinds["by_controller"] = str(model.get("controller", usual["model"]["controller"]))
    return _checked(part for layer in found for part in _expanded(layer, kinds))


def _checked(layers: Iterable[Layer]) -> list[Layer]:
    listed = list(layers)
    _check_kinds(listed)
    return listed


def _expanded(layer: Layer, kinds: Mapping[str, str]) -> list[Layer]:
    """A layer, and then what it says of the given kinds of memory and controller alone."""
    settings = {key: value for key, value in layer.settings.items() if key not in BY_KIND}
    parts = [Layer(layer.origin, settings, layer.node)]
    for key, name in kinds.items():
        special = layer.section(key, name)
        parts += _expanded(special, kinds) if special.settings else []
    return parts


def resolve(
    *,
    task: str | None = None,
    recipe: str | None = None,
    config: str | None = None,
    settings: Settings | None = None,
    options: Sequence[Layer] = (),
    assignments: Sequence[str] = (),
) -> RunConfig:
    """Put a run's configuration together.

    A file of today's format is a whole configuration, and no recipe lies under it; one of an older
    format is completed by what was the rule then (see `stacktrans.settings.formats`).

    Args:
        task: name or file of a task.
        recipe: name of a recipe.
        config: file of a configuration, whole or in part.
        settings: other settings, nested by section.
        options: settings given as options of their own.
        assignments: settings given as `key=value`.

    Raises:
        UsageError: something is missing, unknown or wrong; the message says where.
    """
    file = read_layer(config) if config else None
    found = written_format(file) if file else None
    rules, whole = rules_of(found), found == FORMAT
    layers = [file] if file else []
    if task:
        layers.append(Layer(TASK_OPTION, {"task": task}))
    if recipe:
        layers.append(Layer("--recipe", {"recipe": recipe}))
    if settings:
        layers.append(Layer("settings", settings))
    layers += options
    layers += [option_layer(assignment, RunConfig) for assignment in assignments]
    _check_kinds(layers)
    asked = overlay(layers)
    if whole and file:
        _check_recipe_kept(asked, file)
        _refuse_missing([name for name in ("task",) if name not in asked], layers)

    first, *changes = _task_layers(layers)
    # The task may be another than the whole configuration's own.
    whole_task = whole and file is not None and first.origin == file.origin
    recipe_layers = [] if whole_task else _recipes_under(asked, rules, [first, *changes])
    task_layers = [first, *(layer.section("task") for layer in recipe_layers), *changes]
    layers = layers if whole else [*recipe_layers, *layers]
    task_settings = overlay([Layer("", rules.task), *task_layers])
    _checked_task(task_settings, task_layers)
    task_settings = _said_whole(task_settings, rules, layers, whole_task)
    resolved = {**rules.run, **overlay(layers), "task": task_settings}
    if found:
        resolved["format"] = FORMAT
    run = validated(RunConfig, resolved, layers)
    if whole:
        _check_whole(run, layers, whole_task)
    _check_buffered(run, layers)
    return run


def _recipes_under(asked: Settings, rules: Rules, task_layers: Sequence[Layer]) -> list[Layer]:
    """What the recipe says that lies under what is asked for."""
    _check_memory(asked)
    paper = _checked_task(overlay(task_layers), task_layers).paper
    name = str(asked.get("recipe", rules.run.get("recipe", "default")))
    return _recipe_layers(rules, name, paper, asked["model"], task_layers)


def _check_recipe_kept(asked: Settings, file: Layer) -> None:
    """Raise `UsageError` if a whole configuration is to have a recipe that it is not of."""
    if asked.get("recipe") != file.settings.get("recipe"):
        raise UsageError(
            f"recipe {asked['recipe']}: {file.origin} is a whole configuration, "
            "which takes nothing from a recipe"
        )


def _said_whole(task: Settings, rules: Rules, layers: Sequence[Layer], already: bool) -> Settings:
    """A task with what else its generator is made with, and without recipes, which are laid down.

    Args:
        task: its settings.
        rules: what completes them.
        layers: where they came from.
        already: whether it is the task of a whole configuration, from which nothing is missing.

    Raises:
        UsageError: something is.
    """
    from stacktrans.tasks import default_parameters

    given, generator = task.get("parameters", {}), task["generator"]
    defaults = {**default_parameters(generator), **rules.parameters.get(generator, {})}
    missing = {name: value for name, value in defaults.items() if name not in given}
    if already:
        names = [f"parameters.{name}" for name in missing if "parameters" in task]
        names += [name for name in ("parameters", "recipes", "length_law") if name not in task]
        _refuse_missing([f"task.{name}" for name in names], layers)
    return {**task, "parameters": {**given, **missing}, "recipes": {}}


def _check_buffered(run: RunConfig, layers: Sequence[Layer]) -> None:
    """Raise `UsageError` if a buffered model would find its answers in its input buffer.

    In a joint sequence or a stream the model reads the target, too, and what is said of a symbol
    may be written after it has been read. Nor can such an answer be said symbol by symbol.
    """
    from stacktrans.tasks import make_task

    task = run.task
    if run.model.buffered and not make_task(task.name, task.generator, task.parameters).same_length:
        raise UsageError(
            f"{nearest_place(layers, ('model', 'buffered'))}: task {task.name} is not for a "
            "buffered model, which would read the answer before it gives it; expected a task "
            "with a target symbol for each source symbol, such as reversal"
        )


def _check_whole(run: RunConfig, layers: Sequence[Layer], with_task: bool) -> None:
    """Raise `UsageError` if settings were not said, even such as may be left out by users."""
    missing = _unsaid(run)
    _refuse_missing([name for name in missing if with_task or not name.startswith("task.")], layers)


def _refuse_missing(names: Sequence[str], layers: Sequence[Layer]) -> None:
    if names:
        raise UsageError(
            "\n".join(
                f"{nearest_place(layers, name.split('.'))}: {name} is missing" for name in names
            )
        )


def _unsaid(section: BaseModel, prefix: str = "") -> list[str]:
    """The settings that stand in the code alone."""
    unsaid = []
    for name in type(section).model_fields:
        value = getattr(section, name)
        if name not in section.model_fields_set:
            unsaid.append(prefix + name)
        elif isinstance(value, BaseModel):
            unsaid += _unsaid(value, f"{prefix}{name}.")
    return unsaid


def _check_kinds(layers: Sequence[Layer]) -> None:
    """Check what has to be known before the settings can be put together."""
    for layer in layers:
        for section in ("model", "training"):
            if not isinstance(layer.settings.get(section, {}), dict):
                raise UsageError(f"{layer.place((section,))}: {section}: expected settings")
        if not isinstance(layer.settings.get("recipe", ""), str):
            raise UsageError(f"{layer.place(('recipe',))}: recipe: expected a name")


def _check_memory(asked: Settings) -> None:
    """Raise `UsageError` if no memory is asked for: recipes differ in it."""
    model = asked.get("model", {})
    if "memory" not in model:
        raise UsageError(
            "no memory given; say --memory NAME, or model.memory in a file: stack, ..."
        )
    if not isinstance(model["memory"], str):
        raise UsageError(f"model.memory: expected a name (given: {model['memory']!r})")


def parted_task(layers: Sequence[Layer]) -> tuple[Layer | None, list[Layer]]:
    """What layers say of the task: the last that names or defines it, and those that change it.

    A change holds wherever it stands: above the layer that names the task, or below it.

    Raises:
        UsageError: what one of them says can't be a task.
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


def _task_layers(layers: Sequence[Layer]) -> list[Layer]:
    """What the layers say of the task: its definition, then changes to it."""
    base, changes = parted_task(layers)
    if base is None:
        raise UsageError("no task given; say --task NAME, or task in a file of settings")
    defined = base.section("task") if isinstance(base.settings["task"], dict) else _named(base)
    return [defined, *(layer.section("task") for layer in changes)]


def _named(layer: Layer) -> Layer:
    """The definition of the task that a layer names."""
    place = layer.place(("task",))
    try:
        path = find_task(layer.settings["task"])
    except UsageError as error:
        # An option is named by what is wrong with it; a file by its line.
        raise UsageError(str(error) if place == TASK_OPTION else f"{place}: {error}") from error
    return read_layer(path)
