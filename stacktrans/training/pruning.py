"""Leaving out the stacks or lists that a model does without (joulin2015, section 3.3)."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from stacktrans.memory.actions import EMPTY, ActionMemory
from stacktrans.model.controllers import RecurrentLayer
from stacktrans.model.transducer import Transducer


def pruned(model: Transducer, kept: Sequence[int]) -> Transducer:
    """A model with some of its stacks or lists alone.

    To its controller the others are empty for ever, as far as its biases can say so.

    Args:
        model: with a memory whose cells are mixed by actions, and a recurrent controller.
        kept: which of them, from 0, in order; one at least.
    """
    memory, operation = model.memory, model.operation
    if not isinstance(memory, ActionMemory) or not operation or not operation.values:
        raise TypeError("only stacks and lists with actions can be left out")
    config = model.config.model_copy(update={"memory_count": len(kept)})
    outputs, inputs = len(model.classifier.weight), model.embedding.num_embeddings
    smaller = Transducer(config, inputs, outputs)
    weights = dict(model.state_dict())
    own = torch.tensor(list(kept))
    actions, size = len(memory.actions), model.config.memory_size
    for name in ("operation.signals.weight", "operation.signals.bias"):
        weights |= _rows(weights, name, own, actions)
    for name in ("operation.values.weight", "operation.values.bias"):
        weights |= _rows(weights, name, own, size)
    below = weights["controller.layers.0.below_weight"]
    by_memory = below.unflatten(1, (memory.count, memory.depth * size))
    weights["controller.layers.0.below_weight"] = by_memory[:, own].flatten(1)
    if "controller.layers.0.bias" in weights:
        left_out = torch.ones(memory.count, dtype=torch.bool).index_fill(0, own, False)
        silent = EMPTY * by_memory[:, left_out].flatten(1).sum(dim=1)
        weights["controller.layers.0.bias"] = weights["controller.layers.0.bias"] + silent
    smaller.to(device=below.device, dtype=below.dtype).load_state_dict(weights)
    return smaller.eval()


def _rows(weights: dict[str, Tensor], name: str, own: Tensor, size: int) -> dict[str, Tensor]:
    """The rows of a tensor, if there is one, that belong to some of the memories."""
    if name not in weights:
        return {}
    return {name: weights[name].unflatten(0, (-1, size))[own].flatten(0, 1)}


def prunable(model: Transducer) -> bool:
    """Whether something of a model's memory may be left out."""
    layer = model.controller.layers[0]
    several = isinstance(model.memory, ActionMemory) and model.memory.count > 1
    return several and isinstance(layer, RecurrentLayer)


def least(model: Transducer, as_good: Callable[[Transducer], bool]) -> Transducer:
    """The model with as few stacks or lists as a depth-first search finds to be as good.

    Each in turn is left out, if what remains is no worse than the whole, and from there on those
    after it, until nothing more can be left out.

    Args:
        model: that can be pruned.
        as_good: whether a model is no worse than the whole.
    """
    memory = model.memory
    if not isinstance(memory, ActionMemory):
        raise TypeError("only stacks and lists with actions can be left out")

    def search(kept: tuple[int, ...], first: int) -> tuple[int, ...]:
        best = kept
        later = [index for index in kept if index >= first]
        for place, index in enumerate(later):
            if len(kept) - len(later) + place >= len(best):
                break  # not even without all that come after would fewer be left
            fewer = tuple(other for other in kept if other != index)
            if fewer and as_good(pruned(model, fewer)):
                found = search(fewer, index)
                best = min(best, found, key=len)
        return best

    return pruned(model, search(tuple(range(memory.count)), 0))
