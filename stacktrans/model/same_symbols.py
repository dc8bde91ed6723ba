"""What a symbol means as an answer starts as what it means as an input."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from stacktrans.model.transducer import Transducer
from stacktrans.tasks.alphabets import SYMBOL, Role

SCALE = 0.3
"""Standard deviation of the weights, times the length of an embedding over its expected length."""


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
