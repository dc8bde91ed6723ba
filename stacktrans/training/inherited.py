"""The first weights of a run: from a checkpoint, or with one meaning for inputs and outputs."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

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

SCALE = 0.3
"""Standard deviation of the weights, times the length of an embedding over its expected length."""


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


@torch.no_grad()
def start_alike(model: Transducer, inputs: Sequence[Role], outputs: Sequence[Role]) -> None:
    """Have the output weights of symbols that are read as well start as their embeddings.

    They go through one random matrix, so that the sizes may differ. With weights that have nothing
    to do with each other, what comes through a memory is to be mapped symbol by symbol, which is
    slow where there are many; with these, one mapping is right for all. It is the tying of input
    and output embeddings (Press and Wolf 2017, "Using the Output Embedding to Improve Language
    Models"), but only to begin with.

    Args:
        model: has just been drawn, and is changed; without embeddings it stays as it is.
        inputs: what each input id stands for.
        outputs: what each output id stands for.
    """
    if model.embedding is None:
        return
    said, read = _same(inputs, outputs)
    embeddings, weights = model.embedding.weight, model.classifier.weight
    through = torch.randn(embeddings.shape[1], weights.shape[1]) / embeddings.shape[1] ** 0.5
    weights[said] = SCALE * embeddings[read] @ through.to(weights)


def _same(inputs: Sequence[Role], outputs: Sequence[Role]) -> tuple[Tensor, Tensor]:
    """The output ids and the input ids [n] of what can both be read and be said."""
    pairs = torch.tensor([*_pairs(inputs, outputs)], dtype=torch.int64).view(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def _pairs(inputs: Sequence[Role], outputs: Sequence[Role]) -> Iterator[tuple[int, int]]:
    places = {role: index for index, role in enumerate(inputs)}
    for index, role in enumerate(outputs):
        # In a joint sequence, what a source consists of is told apart from what a target does.
        place = places.get(("source", *role), places.get(role))
        if role[0] == SYMBOL and place is not None:
            yield index, place
