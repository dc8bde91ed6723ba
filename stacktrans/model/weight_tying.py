"""Initial output weights that are tied to the embeddings of the same symbols."""

from collections.abc import Iterator, Sequence

import torch

from stacktrans.model.transducer import Transducer
from stacktrans.tasks.alphabets import SYMBOL, Role

SCALE = 0.3
"""Standard deviation of the output weights of a symbol whose embedding has the expected length."""


@torch.no_grad()
def tie_initial_weights(model: Transducer, inputs: Sequence[Role], outputs: Sequence[Role]) -> None:
    """Initialize the output weights of symbols from the embeddings of the same input symbols.

    The embeddings are multiplied by one random matrix, so that the sizes may differ. With unrelated
    weights, vectors that come through a memory have to be mapped symbol by symbol, which is slow to
    learn for many symbols; with these, one mapping is right for all. It is weight tying (Press and
    Wolf 2017, "Using the Output Embedding to Improve Language Models"), but only initially.

    Args:
        model: a newly drawn model; without embeddings it is not changed.
        inputs: role of each input id.
        outputs: role of each output id.
    """
    if model.embedding is None:
        return
    pairs = torch.tensor([*_pairs(inputs, outputs)], dtype=torch.int64).view(-1, 2)
    output_ids, input_ids = pairs[:, 0], pairs[:, 1]
    embeddings, weights = model.embedding.weight, model.classifier.weight
    through = torch.randn(embeddings.shape[1], weights.shape[1]) / embeddings.shape[1] ** 0.5
    weights[output_ids] = SCALE * embeddings[input_ids] @ through.to(weights)


def _pairs(inputs: Sequence[Role], outputs: Sequence[Role]) -> Iterator[tuple[int, int]]:
    """The output id and the input id of each symbol that is both read and written."""
    id_of = {role: index for index, role in enumerate(inputs)}
    for output_id, role in enumerate(outputs):
        # In a joint sequence, symbols of the source and of the target have different ids.
        input_id = id_of.get(("source", *role), id_of.get(role))
        if role[0] == SYMBOL and input_id is not None:
            yield output_id, input_id
