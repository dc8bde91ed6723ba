"""How a run's configuration is put together.

It is laid down in layers, each over the one before: the recipe, the task's own changes to the
recipe, a configuration file, the command line's options, and `--set`.
"""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from stacktrans import __version__
from stacktrans.config import FORMAT, RunConfig, TaskConfig
from stacktrans.errors import UsageError, unknown_name
from stacktrans.packaged import recipe_names, recipes, shipped
from stacktrans.settings import (
    Layer,
    Settings,
    nearest_place,
    option_layer,
    overlay,
    read_layer,
    validated,
)

TASK_OPTION = "--task"


def find_task(name: str) -> Path:
    """The file of a task: a path, a task in `./tasks`, or a shipped one.

    Raises:
        UsageError: there is none.
    """
    if Path(name).suffix in {".yaml", ".yml"}:
        return Path(name)
    folders = [Path("tasks"), shipped("tasks")]
    for folder in folders:
        with contextlib.suppress(OSError):  # no file has a name as long as that
            if (folder / f"{name}.yaml").is_file():
                return folder / f"{name}.yaml"
    known = {path.stem for folder in folders for path in folder.glob("*.yaml")}
    raise UsageError(unknown_name("task", name, known))


def load_task(name: str) -> TaskConfig:
    """The task of a name or file; raises `UsageError` if it can't be read."""
    layer = read_layer(find_task(name))
    return _checked_task(layer.settings, [layer])


def _checked_task(settings: Settings, layers: Sequence[Layer]) -> TaskConfig:
    """The task of some settings, which can be made; raises `UsageError` saying where it can't."""
    from stacktrans.tasks import TaskError, make_task

    task = validated(TaskConfig, settings, layers)
    try:
        made = make_task(task.name, task.generator, task.parameters)
    except TaskError as error:
        raise UsageError(f"{nearest_place(layers, error.location)}: {error}") from error
    problem = "is missing" if made.drawn else "is of no use: nothing is drawn"
    wrong = [name for name in _DRAWING if (getattr(task, name) is None) == made.drawn]
    if wrong:
        raise UsageError(
            "\n".join(f"{nearest_place(layers, (name,))}: {name} {problem}" for name in wrong)
        )
    return task


_DRAWING = ("lengths", "length_law")
"""What a task says of the strings that are drawn."""


def _recipe_layers(
    recipe: str, paper: str, model: Settings, task_layers: Sequence[Layer]
) -> list[Layer]:
    """What a recipe says in general, for tasks of a paper, and for the task.

    Args:
        recipe: its name.
        paper: of the task.
        model: what is asked for; the memory is.
        task_layers: of the task.
    """
    if recipe not in recipe_names():
        raise UsageError(unknown_name("recipe", recipe, recipe_names()))
    found = [read_layer(recipes() / f"{recipe}.yaml")]
    of_paper = recipes() / paper / f"{recipe}.yaml"
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
    settings = {key: value for key, value in layer.settings.items() if key not in _BY_KIND}
    parts = [Layer(layer.origin, settings, layer.node)]
    for key, name in kinds.items():
        special = layer.section(key, name)
        parts += _expanded(special, kinds) if special.settings else []
    return parts


_BY_KIND = ("by_memory", "by_controller")


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
    layers = [read_layer(config)] if config else []
    if task:
        layers.append(Layer(TASK_OPTION, {"task": task}))
    if recipe:
        layers.append(Layer("--recipe", {"recipe": recipe}))
    layers.append(Layer("settings", settings or {}))
    layers += options
    layers += [option_layer(assignment, RunConfig) for assignment in assignments]
    asked = overlay(layers)
    _check_format(asked, config)

    _check_kinds(layers)
    model = asked.get("model", {})
    if "memory" not in model:
        raise UsageError(
            "no memory given; say --memory NAME, or model.memory in a file: stack, ..."
        )
    if not isinstance(model["memory"], str):
        raise UsageError(f"model.memory: expected a name (given: {model['memory']!r})")
    first, *changes = _task_layers(layers)
    paper = _checked_task(overlay([first, *changes]), [first, *changes]).paper
    name = asked.get("recipe", "default")
    recipe_layers = _recipe_layers(name, paper, model, [first, *changes])
    task_layers = [first, *(layer.section("task") for layer in recipe_layers), *changes]
    task_settings = _without_task_changes(overlay(task_layers))
    _checked_task(task_settings, task_layers)
    layers = [*recipe_layers, *layers]
    resolved = overlay(layers) | {"task": task_settings, "recipe": name}
    return validated(RunConfig, resolved, layers)


def _without_task_changes(task: Settings) -> Settings:
    """A task without what its recipes change in it, which has been done."""
    recipes = task.get("recipes", {})
    if not isinstance(recipes, dict):
        return task
    kept = {
        name: {key: value for key, value in changes.items() if key != "task"}
        if isinstance(changes, dict)
        else changes
        for name, changes in recipes.items()
    }
    return {**task, "recipes": kept}


def _check_format(settings: Settings, config: str | None) -> None:
    found = settings.get("format", FORMAT)
    if isinstance(found, int) and found > FORMAT:
        raise UsageError(
            f"{config or 'settings'}: format {found} is newer than this stacktrans "
            f"{__version__} reads (up to {FORMAT}); upgrade stacktrans"
        )


def _check_kinds(layers: Sequence[Layer]) -> None:
    """Check what has to be known before the settings can be put together."""
    for layer in layers:
        for section in ("model", "training"):
            if not isinstance(layer.settings.get(section, {}), dict):
                raise UsageError(f"{layer.place((section,))}: {section}: expected settings")
        if not isinstance(layer.settings.get("recipe", ""), str):
            raise UsageError(f"{layer.place(('recipe',))}: recipe: expected a name")


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
