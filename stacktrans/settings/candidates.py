"""The candidates of a race: strategies that suit the task and the other settings."""

import hashlib
import math
from collections.abc import Container, Mapping, Sequence
from typing import Unpack

from stacktrans.common.errors import UsageError, unknown_name
from stacktrans.common.registry import MEMORIES
from stacktrans.settings.config import NOT_RACED, RunConfig, TaskConfig
from stacktrans.settings.layers import (
    Settings,
    SettingsLayer,
    merge_layers,
    part_name,
    part_settings,
)
from stacktrans.settings.packaged import AUTO
from stacktrans.settings.resolve import (
    DEFAULT_RECIPE,
    Requested,
    requested_layers,
    requested_seed,
    resolved,
    strategies,
)
from stacktrans.settings.task_files import checked_task, task_layers, with_file_contents
from stacktrans.tasks.alphabets import FEATURE
from stacktrans.tasks.base import Task
from stacktrans.tasks.layout import LayoutKind


def candidate_configs(
    recipe: str | None = None,
    names: Sequence[str] = (),
    budget: float | None = None,
    **asked: Unpack[Requested],
) -> dict[str, RunConfig]:
    """The configurations to train, by their recipes; of the recipe auto, those that are raced.

    These are the strategies that are named, or all that are for the task and the memory, and that
    what else is asked for fits. Where there is but one, there is no race, and where there is none,
    as for a memory of one's own, the recipe is the default one.

    Args:
        recipe: its name.
        names: of strategies; all unless some are given.
        budget: seconds of the race; of the run, if there is but one.
        asked: what else is asked for, as for `resolve`.

    Raises:
        UsageError: as `resolve` does, or strategies or a budget are given where nothing is raced.
    """
    if budget is not None and not 0 < budget < math.inf:
        raise UsageError(f"budget {budget:g}: expected seconds, more than 0")
    layers = requested_layers(recipe, asked)
    wanted = merge_layers(layers)
    starts_from = wanted.get("start_from") is not None
    if wanted.get("recipe", AUTO) != AUTO or starts_from:
        why = NOT_RACED if starts_from else "only for the recipe auto, which is a race"
        for name, given in (("strategies", names), ("budget", budget)):
            if given:
                raise UsageError(f"{name}: {why}")
        run = resolved(layers)
        return {run.recipe: run}
    layers = _read_once(layers, wanted)
    first, *changes = task_layers(layers)
    task = checked_task(merge_layers([first, *changes]), [first, *changes])[1]
    tried = [*names] or _in_order(task)
    found = _resolved(tried, task.layout.kind, _memory(wanted), layers, bool(names))
    found = found or {DEFAULT_RECIPE: _with_recipe(DEFAULT_RECIPE, layers)}
    if len(found) > 1 or not budget:
        return found
    ((name, run),) = found.items()
    limit = {"time_limit": run.training.time_limit or budget}
    return {name: run.model_copy(update={"training": run.training.model_copy(update=limit)})}


def _in_order(task: Task) -> list[str]:
    """All strategies, in the order in which they begin with a task."""
    features = any(role[0] == FEATURE for role in task.source.roles())
    known = strategies()
    return sorted(known, key=lambda name: not (features and known[name].first_with_features))


def _read_once(layers: list[SettingsLayer], wanted: Settings) -> list[SettingsLayer]:
    """Layers that also have what the task's files tell, so that they need not be read again."""
    of_task = task_layers(layers)
    settings = merge_layers(of_task)
    told = with_file_contents(settings, of_task, requested_seed(wanted))
    changes = {name: told.get(name) for name in ("parameters", "lengths", "length_law")}
    return layers if told is settings else [*layers, SettingsLayer("", {"task": changes})]


def _memory(wanted: Mapping[str, object]) -> str | None:
    """The name of the memory that is asked for, if one is."""
    model = wanted.get("model")
    memory = part_settings(model.get("memory")) if isinstance(model, dict) else None
    named = isinstance(memory, dict) and "name" in memory
    return MEMORIES.canonical(part_name(memory)) if named else None


def _resolved(
    names: Sequence[str],
    kind: LayoutKind,
    memory: str | None,
    layers: Sequence[SettingsLayer],
    named: bool,
) -> dict[str, RunConfig]:
    """The different configurations of strategies; those that do not fit are an error if named."""
    found: dict[str, RunConfig] = {}
    problems: list[UsageError] = []
    for name in names:
        if problem := _problem(name, kind, memory):
            if named:
                raise UsageError(problem)
            continue
        try:
            run = _with_recipe(name, layers)
        except UsageError as error:
            if named:
                raise
            problems.append(error)
            continue
        if named or _remembers(run):
            found.setdefault(run.identity(), run)
    if problems and not found:
        raise problems[0]
    return {run.recipe: run for run in found.values()}


def _problem(name: str, kind: LayoutKind, memory: str | None) -> str | None:
    """Why a strategy is not for a kind of task, or a memory."""
    strategy = strategies().get(name)
    if strategy is None:
        return unknown_name("strategy", name, strategies())
    if kind not in strategy.kinds:
        return f"strategy {name}: not for a task of this kind ({kind})"
    if strategy.of_this_memory and memory not in (None, strategy.memory):
        return f"strategy {name}: its memory is {strategy.memory}, not {memory}"
    return None


def _remembers(run: RunConfig) -> bool:
    """Whether a model has a memory, or a controller that carries anything from step to step."""
    name, recurrent = run.model.controller.name, getattr(run.model.controller, "recurrent", True)
    has_state = name == "lstm" or (name != "linear" and recurrent)
    return has_state or run.model.memory.name != "none"


def _with_recipe(name: str, layers: Sequence[SettingsLayer]) -> RunConfig:
    return resolved([*layers, SettingsLayer("", {"recipe": name})])


def not_raced(task: TaskConfig, names: Container[str], memory: str | None) -> list[str]:
    """The strategies for a task, and a memory if one is given, that are not among some."""
    kind = task.make().layout.kind
    return [name for name in strategies() if name not in names and not _problem(name, kind, memory)]


def title_of(configs: Mapping[str, RunConfig]) -> str:
    """What the directory of a run is called, or of a race of several."""
    first, *others = configs.values()
    if any(each.model.memory.name != first.model.memory.name for each in others):
        return f"{first.task.name}-{AUTO}-{first.seed}"
    return first.title


def identity_of(configs: Mapping[str, RunConfig]) -> str:
    """Changes whenever a setting does that decides what comes out, or another strategy is raced."""
    identities = [each.identity() for each in configs.values()]
    if len(identities) == 1:
        return identities[0]
    return hashlib.sha256("\n".join(identities).encode()).hexdigest()[:16]
