"""Leaving out the stacks or lists that a model does without (joulin2015, section 3.3)."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from stacktrans.model.transducer import Transducer


def pruned(model: Transducer, kept: Sequence[int]) -> Transducer:
    """A model with some of its stacks or lists alone.

    To its controller the others are empty for ever, as far as its biases can say so.

    Args:
        model: that is `prunable`.
        kept: which of them, from 0, in order; one at least.
    """
    if not prunable(model):
        raise TypeError("only some of several stacks or lists can be left out")
    memory = model.memory
    fewer = model.config.memory.model_copy(update={"count": len(kept)})
    config = model.config.model_copy(update={"memory": fewer})
    outputs, inputs = len(model.classifier.weight), model.inputs
    smaller = Transducer(config, inputs, outputs)
    weights = dict(model.state_dict())
    own, count = torch.tensor(list(kept)), memory.count
    size = model.config.memory_size
    actions, pushed = len(memory.signal_names) // count, memory.pushes // count * size
    for name in ("operation.signals.weight", "operation.signals.bias"):
        weights |= _rows(weights, name, own, actions)
    for name in ("operation.values.weight", "operation.values.bias"):
        weights |= _rows(weights, name, own, pushed)
    below = weights["controller.layers.0.below_weight"]
    by_memory = below.unflatten(1, (count, -1))
    weights["controller.layers.0.below_weight"] = by_memory[:, own].flatten(1)
    if "controller.layers.0.bias" in weights:
        left_out = torch.ones(count, dtype=torch.bool).index_fill(0, own, False)
        empty = memory.initial_reads(1, size, below).view(count, -1)[left_out].flatten()
        silent = (by_memory[:, left_out].flatten(1) * empty).sum(dim=1)
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
    return model.memory.count > 1 and bool(model.controller.read_weights)


def least(model: Transducer, as_good: Callable[[Transducer], bool]) -> Transducer:
    """The model with as few stacks or lists as a depth-first search finds to be as good.

    Each in turn is left out, if what remains is no worse than the whole, and from there on those
    after it, until nothing more can be left out.

    Args:
        model: that can be pruned.
        as_good: whether a model is no worse than the whole.
    """

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

    return pruned(model, search(tuple(range(model.memory.count)), 0))
