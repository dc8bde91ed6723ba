"""Pruning of a trained model: its memories are removed, as far as it can do without them."""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from stacktrans.common.registry import MEMORIES
from stacktrans.model.transducer import Transducer


def prunable(model: Transducer) -> bool:
    """Whether some of a model's memories may be pruned."""
    return len(model.memory.parts) > 1 and bool(model.controller.weights_on_reads)


def smallest(model: Transducer, is_as_good: Callable[[Transducer], bool]) -> Transducer:
    """The model with as few memories as a depth-first search finds to be as good.

    Each memory in turn is left out if the rest is as good as the whole; the search goes on from
    there with the memories after it, until no more can be left out.
    """

    def search(kept: tuple[int, ...], first: int) -> tuple[int, ...]:
        best = kept
        later = [index for index in kept if index >= first]
        for left_out, index in enumerate(later):
            if len(kept) - len(later) + left_out >= len(best):
                break  # not even without all later ones would fewer be left
            fewer = tuple(other for other in kept if other != index)
            if fewer and is_as_good(pruned(model, fewer)):
                best = min(best, search(fewer, index), key=len)
        return best

    return pruned(model, search(tuple(range(len(model.memory.parts))), 0))


def pruned(model: Transducer, kept: Sequence[int]) -> Transducer:
    """A prunable model with only those memories whose indices are given, at least one.

    The reads of the removed memories, those of an empty memory at every step, are folded into the
    biases of the controller, if it has any.
    """
    parts, size = model.memory.parts, model.config.memory_size
    name = MEMORIES.combined([parts[index].name for index in kept])
    fewer = {"count": len(kept)} if model.memory.count > 1 else {"name": name}
    memory = model.config.memory.model_copy(update=fewer)
    # Its initial biases may be of signals that it no longer has.
    initial = model.config.initialization.model_copy(update={"signal_bias": {}})
    config = model.config.model_copy(update={"memory": memory, "initialization": initial})
    smaller = Transducer(config, model.inputs, len(model.classifier.weight))
    weights = dict(model.state_dict())
    rows = {
        "signals": [len(part.signal_names) for part in parts],
        "values": [part.pushes * size for part in parts],
    }
    for name, sizes in rows.items():
        for key in (f"operation.{name}.weight", f"operation.{name}.bias"):
            if key in weights:
                # The rows of signals of buffers follow those of memories.
                *blocks, rest = weights[key].tensor_split(np.cumsum(sizes).tolist())
                weights[key] = torch.cat([*(blocks[index] for index in kept), rest])
    below = weights["controller.layers.0.below_weight"]
    by_part = below.split([part.reads * size for part in parts], dim=1)
    weights["controller.layers.0.below_weight"] = torch.cat([by_part[at] for at in kept], dim=1)
    if "controller.layers.0.bias" in weights:
        for at in set(range(len(parts))).difference(kept):
            empty = parts[at].initial_reads(1, size, below).flatten()
            silent = (by_part[at] * empty).sum(dim=1)
            weights["controller.layers.0.bias"] = weights["controller.layers.0.bias"] + silent
    smaller.to(device=below.device, dtype=below.dtype).load_state_dict(weights)
    return smaller.eval()
