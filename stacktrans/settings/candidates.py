"""Configurations of the runs of a race, one per strategy that fits; titles and hashes of runs."""

from collections.abc import Container, Mapping, Sequence

from stacktrans.common import __version__
from stacktrans.common.errors import UsageError, unknown_name
from stacktrans.common.registry import MEMORIES
from stacktrans.settings.config import NOT_RACED, RunConfig, TaskConfig, digest
from stacktrans.settings.layers import SettingsLayer, merge_layers
from stacktrans.settings.locations import AUTO
from stacktrans.settings.model_config import ENCODER_DECODERS
from stacktrans.settings.resolve import (
    DEFAULT_RECIPE,
    Trait,
    requested_part,
    requested_seed,
    resolved,
    strategies,
)
from stacktrans.settings.task_files import completed_task, task_layers
from stacktrans.tasks.alphabets import FEATURE
from stacktrans.tasks.base import Task
from stacktrans.tasks.layout import LayoutKind

MAX_FOR_MATRICES = 64
"""The most symbols of sources for which there are enough pairs to learn a matrix for each."""


def candidate_configs(
    layers: Sequence[SettingsLayer],
    names: Sequence[str] = (),
    budget: float | None = None,
    prefix: str = "",
) -> dict[str, RunConfig]:
    """The configurations to train, by their recipes; for the recipe auto, those to be raced.

    These are the named strategies, or all strategies for the task and the memory with which all
    other settings are valid. If there is only one, there is no race; if there is none, as for the
    memory of a plugin, the recipe is the default one.

    Args:
        layers: requested settings, from the lowest to the highest.
        names: names of strategies; all of them by default.
        budget: seconds of the race, or of the run if there is only one.
        prefix: of the names of options in messages.

    Raises:
        UsageError: as `resolve` does, or strategies or a budget are given without a race.
    """
    merged = merge_layers(layers)
    starts_from = merged.get("start_from") is not None
    if merged.get("recipe", AUTO) != AUTO or starts_from:
        why = NOT_RACED if starts_from else "only for the recipe auto, which is a race"
        for name, given in (("strategies", names), ("budget", budget)):
            if given:
                raise UsageError(f"{prefix}{name}: {why}")
        run = resolved(layers)
        return {run.recipe: run}
    settings, task = completed_task(task_layers(layers), requested_seed(merged))
    # So that the task's files need not be read again for each strategy.
    of_files = [name for name in ("parameters", "lengths", "length_law") if name in settings]
    contents = {"task": {name: settings[name] for name in of_files}}
    layers = [*layers, SettingsLayer("", contents)]
    memory = requested_part(merged, "memory")
    memory = memory and MEMORIES.canonical(memory)
    for name in names:
        if problem := _problem(name, task.layout.kind, memory):
            raise UsageError(problem)
    fitting = names or _fitting(task, memory, requested_part(merged, "controller"))
    configs = _different(fitting, layers, named=bool(names))
    configs = configs or {DEFAULT_RECIPE: _with_recipe(DEFAULT_RECIPE, layers)}
    if len(configs) > 1 or not budget:
        return configs
    ((name, run),) = configs.items()
    limit = {"time_limit": min(budget, run.training.time_limit or budget)}
    return {name: run.model_copy(update={"training": run.training.model_copy(update=limit)})}


def _fitting(task: Task, memory: str | None, controller: str | None = None) -> list[str]:
    """The strategies for a task, and perhaps a memory and a controller, in the order of a race."""
    fixed_length = task.layout.kind == "pairs" and task.fixed_length
    has: dict[Trait, bool] = {
        "features": any(role[0] == FEATURE for role in task.source.roles()),
        "labels": task.positive is not None,
        "fixed length": fixed_length,
        "varying length": not fixed_length,
        "few symbols": len(task.source) <= MAX_FOR_MATRICES,
    }
    traits = {trait for trait, is_there in has.items() if is_there}
    known = {
        name: strategy
        for name, strategy in strategies().items()
        if not _problem(name, task.layout.kind, memory)
        and strategy.only_with in {None, *traits}
        and (controller not in ENCODER_DECODERS or controller == strategy.controller)
    }
    return sorted(known, key=lambda name: known[name].first_with not in traits)


def _different(
    names: Sequence[str], layers: Sequence[SettingsLayer], named: bool
) -> dict[str, RunConfig]:
    """The different configurations of strategies; invalid ones are an error if named."""
    different: dict[str, RunConfig] = {}
    errors: list[UsageError] = []
    for name in names:
        try:
            run = _with_recipe(name, layers)
        except UsageError as error:
            if named:
                raise
            errors.append(error)
        else:
            # One without a memory and a state cannot learn much.
            if named or run.model.has_state or run.model.memory.name != "none":
                different.setdefault(str(run.deciding_settings()), run)
    if errors and not different:
        raise errors[0]
    return {run.recipe: run for run in different.values()}


def _problem(name: str, kind: LayoutKind, memory: str | None) -> str | None:
    """The reason why a strategy is not for a kind of layout or a memory, if there is one."""
    strategy = strategies().get(name)
    if strategy is None:
        return unknown_name("strategy", name, strategies())
    if kind not in strategy.kinds:
        return f"strategy {name}: not for a task of this kind ({kind})"
    if strategy.memory == "none" and memory not in (None, "none"):
        return f"strategy {name}: its memory is none, not {memory}"
    return None


def _with_recipe(name: str, layers: Sequence[SettingsLayer]) -> RunConfig:
    return resolved([*layers, SettingsLayer("", {"recipe": name})])


def not_raced(task: TaskConfig, names: Container[str], memory: str | None) -> list[str]:
    """The strategies for a task, and perhaps a memory, except for those with some names."""
    return [name for name in _fitting(task.make(), memory) if name not in names]


def title_of(configs: Mapping[str, RunConfig]) -> str:
    """The name of the directory of a run, or of a race."""
    first, *others = configs.values()
    if any(each.model.memory.name != first.model.memory.name for each in others):
        return f"{first.task.name}-{AUTO}-{first.seed}"
    return first.title


def identity_of(configs: Mapping[str, RunConfig], layers: Sequence[SettingsLayer]) -> str:
    """A hash of all that affects the result of a run or a race.

    Of a race these are its task, the settings that were requested, and the version, which decides
    on the strategies.

    Args:
        configs: configurations by the names of recipes.
        layers: the settings that they were made from.
    """
    first, *others = configs.values()
    if not others:
        return first.identity()
    deciding = {"task": first.task.deciding_settings(), "version": __version__}
    return digest({**merge_layers(layers), **deciding, "workers": None})
