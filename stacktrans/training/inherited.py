"""What a run has from the checkpoint that it starts from: its first weights."""

import hashlib
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import torch

from stacktrans.common.errors import UsageError
from stacktrans.model import checkpoint
from stacktrans.model.carry_over import SharedIds, axes_of, carry_over, check_alike
from stacktrans.model.transducer import Transducer
from stacktrans.settings.config import CarriedConfig, RunConfig, StartFromConfig
from stacktrans.settings.contest import kind_of
from stacktrans.settings.strategies import Kind
from stacktrans.settings.task_config import TaskConfig
from stacktrans.tasks import make_task
from stacktrans.tasks.alphabets import FEATURE, SYMBOL, Alphabet, Role
from stacktrans.tasks.base import Task

FirstWeights = Callable[[Transducer], None]
"""Gives a model the weights that it begins with."""


def checksum_of(name: str | Path) -> str:
    """The SHA-256 of the weights of a checkpoint; raises `CheckpointError` if there is none."""
    with open(checkpoint.locate(name) / checkpoint.WEIGHTS, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def inherited(
    config: RunConfig, start_from: StartFromConfig, task: Task
) -> tuple[FirstWeights, StartFromConfig]:
    """The first weights of a run that starts from a checkpoint, and what became of the symbols.

    Args:
        config: of the run.
        start_from: the checkpoint.
        task: of the run, with all symbols that its model knows.

    Raises:
        CheckpointError: there is no checkpoint, or it is damaged.
        UsageError: it has other weights by now, or the run can't start from it.
    """
    name = start_from.checkpoint
    found = checkpoint.load(name, torch.device("cpu"))
    found.model.sharpen(1 / found.model.sharpness)  # signals of 0 or 1 would not learn any more
    if checksum_of(name) != start_from.sha256:
        raise UsageError(
            f"{name}: its weights are not those that the run started from (SHA-256 "
            f"{start_from.sha256})"
        )
    theirs, ours = _kind(found.config.task), _kind(config.task)
    if theirs != ours:
        of = f"the model in {name} is for tasks of the kind '{theirs}'"
        raise UsageError(f"task {config.task.name}: is of the kind '{ours}'; {of}")
    check_alike(config.model, found.config.model, name)
    trained = found.layout.roles(found.task.source, found.task.target)
    known = task.layout.roles(task.source, task.target)
    axes = axes_of(found.model, *map(SharedIds.of, trained, known))
    counts = {
        "source_symbols": _carried(found.task.source, task.source),
        "target_symbols": _carried(found.task.target, task.target),
    }
    return partial(carry_over, found.model, axes), start_from.model_copy(update=counts)


def _kind(task: TaskConfig) -> Kind:
    return kind_of(make_task(task.name, task.generator, task.parameters))


def _carried(trained: Alphabet, other: Alphabet) -> CarriedConfig:
    """What becomes of the symbols, marks apart, of an alphabet that a trained model knows."""
    before, now = _symbols(trained.roles()), _symbols(other.roles())
    both, new, dropped = (len(each) for each in (before & now, now - before, before - now))
    return CarriedConfig(carried_over=both, new=new, dropped=dropped)


def _symbols(roles: Iterable[Role]) -> set[Role]:
    return {role for role in roles if role[0] in (SYMBOL, FEATURE)}
