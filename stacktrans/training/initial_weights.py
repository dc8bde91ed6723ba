"""Initial weights: carried over from a checkpoint, or shared by inputs and outputs."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from stacktrans.common.errors import UsageError
from stacktrans.common.visible import json_text
from stacktrans.model import checkpoint
from stacktrans.model.transducer import Transducer, meta_transducer
from stacktrans.settings.config import CarriedConfig, RunConfig, StartFromConfig
from stacktrans.settings.layers import Settings
from stacktrans.settings.model_config import ModelConfig
from stacktrans.tasks.alphabets import FEATURE, SYMBOL, Alphabet, Role
from stacktrans.tasks.base import Task

FREE = {
    "model.initialization",
    "model.kernel",
    "model.controller.state_gradient",
    "model.memory.capacity",
}
"""Settings that may be others in a model with the weights of a trained one: it has the same shape
and computes the same. So may the numbers of its buffers, if it has any."""
BUFFERS = "model.buffers"

FirstWeights = Callable[[Transducer], None]
"""Gives a model the weights that it begins with."""
SCALE = 0.3
"""Standard deviation of the weights, times the length of an embedding over its expected length."""


class SharedIds(NamedTuple):
    """The ids of input and output symbols that two models share.

    Attributes:
        trained: [n] in the trained one.
        other: [n] in the other.
        counts: how many ids of any symbols the trained one has, and the other.
    """

    trained: Tensor
    other: Tensor
    counts: tuple[int, int]

    @classmethod
    def of(cls, trained: Sequence[Role], other: Sequence[Role]) -> "SharedIds":
        """Those of what each id of the two stands for."""
        known = {role: index for index, role in enumerate(trained)}
        both = [(known[role], index) for index, role in enumerate(other) if role in known]
        places = torch.tensor(both, dtype=torch.int64).view(-1, 2)
        return cls(places[:, 0], places[:, 1], (len(trained), len(other)))

    @property
    def are_the_same(self) -> bool:
        """Whether each id stands for the same in both."""
        first, second = self.counts
        return first == second == len(self.other) and torch.equal(self.trained, self.other)

    def along(self, size: int) -> tuple[Tensor, Tensor]:
        """Places on an axis of so many in the trained model: of these ids, and of all after ids."""
        further = torch.arange(size - self.counts[0])
        parts = zip((self.trained, self.other), self.counts, strict=True)
        trained, other = (torch.cat([ids, count + further]) for ids, count in parts)
        return trained, other


def check_compatible(config: ModelConfig, trained: ModelConfig, name: str) -> None:
    """Raise `UsageError` if a model can't have the weights of a trained one.

    Args:
        config: of the model.
        trained: of the trained one.
        name: of its checkpoint, for messages.
    """
    theirs = dict(_deciding(trained.model_dump()))
    problems = [
        f"{path}: {json_text(value)}; the model in {name} has {json_text(theirs[path])}"
        for path, value in _deciding(config.model_dump())
        if path in theirs and theirs[path] != value
    ]
    if problems:
        raise UsageError(*problems)


def _deciding(settings: Settings, section: str = "model") -> Iterator[tuple[str, Any]]:
    """The settings of a model that decide what its weights are, by their paths."""
    for key, value in settings.items():
        path = f"{section}.{key}"
        if path == BUFFERS:
            yield path, value and "buffers"
        elif isinstance(value, dict) and path not in FREE:
            yield from _deciding(value, path)
        elif path not in FREE:
            yield path, value


Axes = dict[str, list[SharedIds]]
"""Of each weight by its name, for each axis the ids whose places it begins with, if any."""
_NO_IDS = SharedIds.of((), ())


@torch.no_grad()
def carry_over(trained: Transducer, axes: Axes, model: Transducer) -> None:
    """Give a model the weights of a trained one; those of ids that only it has stay as they are.

    Args:
        trained: alike, but for its ids.
        axes: of its weights.
        model: the one that is changed.
    """
    known = trained.state_dict()
    for name, weight in model.state_dict().items():
        places = [ids.along(size) for size, ids in zip(known[name].shape, axes[name], strict=True)]
        there, here = (np.ix_(*(each[which].numpy() for each in places)) for which in (0, 1))
        weight[here] = known[name][there].to(weight)


def axes_of(trained: Transducer, inputs: SharedIds, outputs: SharedIds) -> Axes:
    """Which axes of a trained model's weights have places for ids, found by adding an id.

    Args:
        trained: the model.
        inputs: the input ids that it shares with another model.
        outputs: the output ids that it shares with another model.

    Raises:
        UsageError: it can't be known what of a weight belongs to which id; of the parts of this
            package it always is.
    """

    def shapes(more_inputs: int, more_outputs: int) -> dict[str, torch.Size]:
        counts = inputs.counts[0] + more_inputs, outputs.counts[0] + more_outputs
        weights = meta_transducer(trained.config, *counts).state_dict()
        return {name: weight.shape for name, weight in weights.items()}

    own, with_input, with_output = shapes(0, 0), shapes(1, 0), shapes(0, 1)
    by_growth = {(0, 0): _NO_IDS, (1, 0): inputs, (0, 1): outputs}

    def ids_of(name: str, axis: int) -> SharedIds:
        size = own[name][axis]
        growth = with_input[name][axis] - size, with_output[name][axis] - size
        if growth in by_growth:
            return by_growth[growth]
        if inputs.are_the_same and outputs.are_the_same:
            return _NO_IDS
        raise UsageError(f"{name}: it can't be known what of this weight belongs to which symbol")

    return {name: [ids_of(name, axis) for axis in range(len(own[name]))] for name in own}


def checksum_of(name: str | Path) -> str:
    """The SHA-256 of the weights of a checkpoint; raises `CheckpointError` if there is none."""
    with open(checkpoint.locate(name) / checkpoint.WEIGHTS, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def weights_from_checkpoint(
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
    theirs, ours = (each.task.make().layout.kind for each in (found.config, config))
    if theirs != ours:
        of = f"the model in {name} is for tasks of the kind '{theirs}'"
        raise UsageError(f"task {config.task.name}: is of the kind '{ours}'; {of}")
    check_compatible(config.model, found.config.model, name)
    trained = found.layout.roles(found.task.source, found.task.target)
    known = task.layout.roles(task.source, task.target)
    axes = axes_of(found.model, *map(SharedIds.of, trained, known))
    counts = {
        "source_symbols": _carried(found.task.source, task.source),
        "target_symbols": _carried(found.task.target, task.target),
    }
    return partial(carry_over, found.model, axes), start_from.model_copy(update=counts)


def _carried(trained: Alphabet, other: Alphabet) -> CarriedConfig:
    """What becomes of the symbols, marks apart, of an alphabet that a trained model knows."""
    before, now = (
        {role for role in each.roles() if role[0] in (SYMBOL, FEATURE)} for each in (trained, other)
    )
    both, new, dropped = (len(each) for each in (before & now, now - before, before - now))
    return CarriedConfig(carried_over=both, new=new, dropped=dropped)


@torch.no_grad()
def tie_initial_weights(model: Transducer, inputs: Sequence[Role], outputs: Sequence[Role]) -> None:
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
    pairs = torch.tensor([*_pairs(inputs, outputs)], dtype=torch.int64).view(-1, 2)
    said, read = pairs[:, 0], pairs[:, 1]
    embeddings, weights = model.embedding.weight, model.classifier.weight
    through = torch.randn(embeddings.shape[1], weights.shape[1]) / embeddings.shape[1] ** 0.5
    weights[said] = SCALE * embeddings[read] @ through.to(weights)


def _pairs(inputs: Sequence[Role], outputs: Sequence[Role]) -> Iterator[tuple[int, int]]:
    """The output id and the input id of each symbol that can both be read and be written."""
    places = {role: index for index, role in enumerate(inputs)}
    for index, role in enumerate(outputs):
        # In a joint sequence, what a source consists of is told apart from what a target does.
        place = places.get(("source", *role), places.get(role))
        if role[0] == SYMBOL and place is not None:
            yield index, place
