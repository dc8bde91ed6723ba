"""The weights of a trained model as the first ones of another, which may know other symbols."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from stacktrans.common.errors import UsageError
from stacktrans.common.visible import json_text
from stacktrans.model.transducer import Transducer, without_numbers
from stacktrans.settings.layers import Settings
from stacktrans.settings.model_config import ModelConfig
from stacktrans.tasks.alphabets import Role

FREE = {"model.start", "model.kernel", "model.controller.state_gradient", "model.memory.capacity"}
"""Settings that may be others in a model with the weights of a trained one: it has the same shape
and computes the same. So may the numbers of its buffers, if it has any."""
BUFFERS = "model.buffers"


class SharedIds(NamedTuple):
    """The ids of the symbols that two models know, of all that they read or say.

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


def check_alike(config: ModelConfig, trained: ModelConfig, name: str) -> None:
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


Axes = dict[str, list[SharedIds | None]]
"""Of each weight by its name, for each axis the ids whose places it begins with; None for none."""


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
        places = [
            ids.along(size) if ids else (torch.arange(size), torch.arange(size))
            for size, ids in zip(known[name].shape, axes[name], strict=True)
        ]
        there, here = (np.ix_(*(each[which].numpy() for each in places)) for which in (0, 1))
        weight[here] = known[name][there].to(weight)


def axes_of(trained: Transducer, inputs: SharedIds, outputs: SharedIds) -> Axes:
    """Which axes of a trained model's weights have places for ids, found by adding an id.

    Args:
        trained: the model.
        inputs: the input ids that it shares with another model.
        outputs: the output ids, likewise.

    Raises:
        UsageError: it can't be known what of a weight belongs to which id; of the parts of this
            package it always is.
    """

    def shapes(more_inputs: int, more_outputs: int) -> dict[str, torch.Size]:
        counts = inputs.counts[0] + more_inputs, outputs.counts[0] + more_outputs
        weights = without_numbers(trained.config, *counts).state_dict()
        return {name: weight.shape for name, weight in weights.items()}

    own, with_input, with_output = shapes(0, 0), shapes(1, 0), shapes(0, 1)
    by_growth = {(0, 0): None, (1, 0): inputs, (0, 1): outputs}

    def ids_of(name: str, axis: int) -> SharedIds | None:
        size = own[name][axis]
        growth = with_input[name][axis] - size, with_output[name][axis] - size
        if growth in by_growth:
            return by_growth[growth]
        if inputs.are_the_same and outputs.are_the_same:
            return None
        raise UsageError(f"{name}: it can't be known what of this weight belongs to which symbol")

    return {name: [ids_of(name, axis) for axis in range(len(own[name]))] for name in own}
