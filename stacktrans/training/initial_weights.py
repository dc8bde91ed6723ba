"""Initial weights that are carried over from a checkpoint."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from stacktrans.common.errors import UsageError
from stacktrans.common.files import WEIGHTS
from stacktrans.common.visible import json_text
from stacktrans.model import checkpoint, checkpoint_files
from stacktrans.model.transducer import Transducer, meta_transducer
from stacktrans.settings.config import RunConfig, StartFromConfig, SymbolTransferConfig
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
"""Settings that need not agree with those of a trained model to take over its weights, since they
affect neither their shapes nor their meaning; nor need the settings of its buffers."""
BUFFERS = "model.buffers"

Initializer = Callable[[Transducer], None]
"""A function that gives a model its initial weights."""


class SharedIds(NamedTuple):
    """The ids of input and output symbols that two models share.

    Attributes:
        trained: [n] ids in the trained model.
        other: [n] ids in the other model.
        counts: number of all ids of the trained model, and of the other.
    """

    trained: Tensor
    other: Tensor
    counts: tuple[int, int]

    @classmethod
    def of(cls, trained: Sequence[Role], other: Sequence[Role]) -> "SharedIds":
        """The shared ids, given the role of each id of the two models."""
        id_of = {role: index for index, role in enumerate(trained)}
        shared = [(id_of[role], index) for index, role in enumerate(other) if role in id_of]
        ids = torch.tensor(shared, dtype=torch.int64).view(-1, 2)
        return cls(ids[:, 0], ids[:, 1], (len(trained), len(other)))

    @property
    def are_the_same(self) -> bool:
        """Whether the two models have the same ids for the same symbols."""
        first, second = self.counts
        return first == second == len(self.other) and torch.equal(self.trained, self.other)

    def along(self, size: int) -> tuple[Tensor, Tensor]:
        """The indices of shared entries on an axis, in the trained model and in the other.

        They are those of the shared ids, and of all entries after the ids.

        Args:
            size: the size of the axis in the trained model.
        """
        first, second = self.counts
        further = torch.arange(size - first)
        return torch.cat([self.trained, first + further]), torch.cat([self.other, second + further])


def check_compatible(config: ModelConfig, trained: ModelConfig, name: str) -> None:
    """Raise `UsageError` if a model can't take over the weights of a trained one.

    Args:
        config: configuration of the model.
        trained: configuration of the trained model.
        name: name of its checkpoint, for messages.
    """
    theirs = dict(_deciding(trained.model_dump()))
    problems = [
        f"{path}: {json_text(value)}, but {json_text(theirs[path])} in {name}"
        for path, value in _deciding(config.model_dump())
        if path in theirs and theirs[path] != value
    ]
    if problems:
        raise UsageError(*problems)


def _deciding(settings: Settings, section: str = "model") -> Iterator[tuple[str, Any]]:
    """The settings that affect the shapes or the meaning of a model's weights, by path."""
    for key, value in settings.items():
        path = f"{section}.{key}"
        if path == BUFFERS:
            yield path, None if value is None else {}
        elif isinstance(value, dict) and path not in FREE:
            yield from _deciding(value, path)
        elif path not in FREE:
            yield path, value


Axes = dict[str, list[SharedIds]]
"""For each axis of each weight, by the name of the weight, the ids that index it; or none."""
_NO_IDS = SharedIds.of((), ())


@torch.no_grad()
def carry_over(trained: Transducer, axes: Axes, model: Transducer) -> None:
    """Give a model the weights of a trained one, except for those of ids that only it has.

    Args:
        trained: a model of the same shape, but for its ids.
        axes: the ids on the axes of its weights.
        model: the model that is changed.
    """
    weights = trained.state_dict()
    for name, weight in model.state_dict().items():
        sizes = zip(weights[name].shape, axes[name], strict=True)
        ids = [shared.along(size) for size, shared in sizes]
        there, here = (np.ix_(*(pair[which].numpy() for pair in ids)) for which in (0, 1))
        weight[here] = weights[name][there].to(weight)


def axes_of(trained: Transducer, inputs: SharedIds, outputs: SharedIds) -> Axes:
    """Determine which axes of a trained model's weights are indexed by ids, by adding an id.

    Args:
        trained: the trained model.
        inputs: the input ids that it shares with another model.
        outputs: the output ids that it shares with another model.

    Raises:
        UsageError: the axes of a weight of a plugin can't be determined.
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
        raise UsageError(f"{name}: cannot tell which part of this weight belongs to which symbol")

    return {name: [ids_of(name, axis) for axis in range(len(own[name]))] for name in own}


def checksum_of(name: str | Path) -> str:
    """The SHA-256 of the weights of a checkpoint; raises `CheckpointError` if there is none."""
    with open(checkpoint_files.locate(name) / WEIGHTS, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def weights_from_checkpoint(
    config: RunConfig, start_from: StartFromConfig, task: Task
) -> tuple[Initializer, StartFromConfig]:
    """The initial weights of a run that starts from a checkpoint, and counts of its symbols.

    Args:
        config: configuration of the run.
        start_from: the checkpoint.
        task: task of the run, with all symbols that its model knows.

    Raises:
        CheckpointError: there is no checkpoint, or it is damaged.
        UsageError: its weights have changed, or the run can't start from it.
    """
    name = start_from.checkpoint
    trained = checkpoint.load(name, torch.device("cpu"))
    trained.model.sharpen(1 / trained.model.sharpness)  # signals of 0 or 1 have no gradients
    if checksum_of(name) != start_from.sha256:
        expected = f"those that the run started from (SHA-256 {start_from.sha256})"
        raise UsageError(f"{name}: its weights are not {expected}")
    check_compatible(config.model, trained.config.model, name)
    theirs, ours = trained.layout.kind, task.layout.kind
    if theirs != ours:
        of = f"the model in {name} is for tasks of the kind '{theirs}'"
        raise UsageError(f"task {config.task.name}: is of the kind '{ours}'; {of}")
    trained_roles = trained.layout.roles(trained.task.source, trained.task.target)
    roles = task.layout.roles(task.source, task.target)
    axes = axes_of(trained.model, *map(SharedIds.of, trained_roles, roles))
    counts = {
        "source_symbols": _carried(trained.task.source, task.source),
        "target_symbols": _carried(trained.task.target, task.target),
    }
    return partial(carry_over, trained.model, axes), start_from.model_copy(update=counts)


def _carried(trained: Alphabet, other: Alphabet) -> SymbolTransferConfig:
    """Count the symbols, without marks, that are carried over, new and dropped."""
    before, now = (
        {role for role in alphabet.roles() if role[0] in (SYMBOL, FEATURE)}
        for alphabet in (trained, other)
    )
    return SymbolTransferConfig(
        carried_over=len(before & now), new=len(now - before), dropped=len(before - now)
    )
