"""How a controller sees its input: as vectors that are learned, or as one-hot ones."""

from typing import Protocol

import torch
from torch import Tensor, nn

from stacktrans.model.controllers import Layer


class Embedding(Protocol):
    """What ids are embedded as.

    Attributes:
        num_embeddings: number of ids.
    """

    num_embeddings: int

    def __call__(self, ids: Tensor) -> Tensor:
        """The vectors of ids: [...] -> [..., E]."""

    def sums(self, layer: Layer, ids: Tensor) -> Tensor:
        """The part of a layer's sums that depends on x alone: ids [...] -> [..., gates * H]."""


class Learned(nn.Embedding):
    """Ids as vectors that are learned."""

    def sums(self, layer: Layer, ids: Tensor) -> Tensor:
        """See `Embedding`."""
        return layer.project(self(ids))


class OneHot(nn.Module):
    """Ids as vectors with a single 1; nothing of them is learned.

    The vectors are never made where their sums alone are wanted: those are columns of the weights,
    so that an id costs the same however many there are.

    Args:
        count: number of ids.
    """

    def __init__(self, count: int) -> None:
        super().__init__()
        self.num_embeddings = count
        # It knows of which type and where the vectors are to be.
        self.register_buffer("one", torch.ones(()), persistent=False)
        self.one: Tensor

    def forward(self, ids: Tensor) -> Tensor:
        """[...] -> [..., count]."""
        return nn.functional.one_hot(ids, self.num_embeddings).to(self.one.dtype)

    def sums(self, layer: Layer, ids: Tensor) -> Tensor:
        """See `Embedding`."""
        return layer.look_up(ids)
