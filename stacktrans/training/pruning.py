"""Leaving out the stacks or lists that a model does not need."""

from collections.abc import Callable, Sequence

import torch

from stacktrans.model.transducer import Transducer

Accuracies = tuple[float, float]
"""Coarse accuracy of a model as it is, and hard."""


def as_good(found: Accuracies, before: Accuracies) -> bool:
    """Whether neither accuracy has become worse."""
    return all(now >= was for now, was in zip(found, before, strict=True))


def without_needless(model: Transducer, measured: Callable[[Transducer], Accuracies]) -> Transducer:
    """The model without the stacks or lists that it does not need, soft or hard."""
    if not prunable(model):
        return model
    before = measured(model)
    return least(model, lambda smaller: as_good(measured(smaller), before))


def prunable(model: Transducer) -> bool:
    """Whether some of a model's memory may be left out."""
    return model.memory.count > 1 and bool(model.controller.read_weights)


def least(model: Transducer, as_good: Callable[[Transducer], bool]) -> Transducer:
    """The model with as few stacks or lists as a depth-first search finds to be as good.

    Each in turn is left out, if what remains is as good as the whole, and from there on those
    after it, until nothing more can be left out.
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


def pruned(model: Transducer, kept: Sequence[int]) -> Transducer:
    """A prunable model with only those stacks or lists whose indices are kept, one at least.

    To its controller the others are empty for ever, as far as its biases can say so.
    """
    if not prunable(model):
        raise TypeError("only some of several stacks or lists can be left out")
    memory = model.memory
    fewer = model.config.memory.model_copy(update={"count": len(kept)})
    config = model.config.model_copy(update={"memory": fewer})
    smaller = Transducer(config, model.inputs, len(model.classifier.weight))
    weights = dict(model.state_dict())
    own, count = torch.tensor(list(kept)), memory.count
    size = model.config.memory_size
    rows = {"signals": len(memory.signal_names) // count, "values": memory.pushes // count * size}
    for part, each in rows.items():
        for kind in ("weight", "bias"):
            name = f"operation.{part}.{kind}"
            if name in weights:
                weights[name] = weights[name].unflatten(0, (-1, each))[own].flatten(0, 1)
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
