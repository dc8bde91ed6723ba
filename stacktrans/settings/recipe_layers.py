"""What a recipe says in general, of tasks of a paper, of the task, and of kinds of models."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from stacktrans.common.errors import UsageError, unknown_name
from stacktrans.settings.layers import Layer, Settings, overlaid, overlay, read_layer
from stacktrans.settings.packaged import BY_KIND, recipe_names


def recipe_layers(
    folder: Path, recipe: str, paper: str, model: Settings, task_layers: Sequence[Layer]
) -> list[Layer]:
    """What a recipe says in general, of a paper's tasks, and of a task, the last on top.

    Args:
        folder: of recipes.
        recipe: its name.
        paper: of the task.
        model: settings asked for, among them the memory.
        task_layers: of the task, with its changes to recipes.

    Raises:
        UsageError: the recipe, or one that the task changes, is unknown.
    """
    known = recipe_names(folder)
    if recipe not in known:
        raise UsageError(unknown_name("recipe", recipe, known))
    check_recipes(task_layers, known)
    files = [folder / f"{recipe}.yaml", folder / paper / f"{recipe}.yaml"]
    found = [read_layer(path) for path in files if path == files[0] or path.is_file()]
    found += [layer.section("recipes", recipe) for layer in task_layers]
    kinds = {"by_memory": _name_of(model["memory"])}
    usual = overlay(checked(part for layer in found for part in _expanded(layer, kinds)))
    kinds["by_controller"] = _name_of(overlaid(usual, {"model": model})["model"]["controller"])
    return checked(part for layer in found for part in _expanded(layer, kinds))


def _name_of(part: Any) -> str:
    """The name of a part of a model, which may have been given with settings of its own."""
    return str(part.get("name") if isinstance(part, Mapping) else part)


def check_recipes(task_layers: Sequence[Layer], known: Sequence[str]) -> None:
    """Raise `UsageError` if a task changes an unknown recipe."""
    for layer in task_layers:
        for name in layer.section("recipes").settings:
            if name not in known:
                place = layer.place(("recipes", name))
                raise UsageError(f"{place}: {unknown_name('recipe', name, known)}")


def checked(layers: Iterable[Layer]) -> list[Layer]:
    """Layers whose sections can be put together; raises `UsageError` where they can't."""
    listed = list(layers)
    for layer in listed:
        for section in ("model", "training"):
            if not isinstance(layer.settings.get(section, {}), dict):
                raise UsageError(f"{layer.place((section,))}: {section}: expected settings")
        if not isinstance(layer.settings.get("recipe", ""), str):
            raise UsageError(f"{layer.place(('recipe',))}: recipe: expected a name")
    return listed


def _expanded(layer: Layer, kinds: Mapping[str, str]) -> list[Layer]:
    """A layer, and then what it says of the given kinds of memory and controller alone."""
    settings = {key: value for key, value in layer.settings.items() if key not in BY_KIND}
    parts = [Layer(layer.origin, settings, layer.node)]
    for key, name in kinds.items():
        special = layer.section(key, name)
        parts += _expanded(special, kinds) if special.settings else []
    return parts
