"""A controller and its memory that go on from call to call, without gradients.

For evaluation and decoding: of the memory only those rows are kept that can still be read, or
those cells that are not empty.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from stacktrans.kernels.autograd import (
    Kind,
    LayerWeights,
    SequenceOutput,
    forward_weights,
    sizes_of,
)
from stacktrans.kernels.sizes import Reading, check_reading, check_weights
from stacktrans.kernels.tensors import as_array


class Running:
    """State of a controller and its memory, for a batch of B.

    Args:
        kind: what is run, without buffers; as for `fused_sequence`, and so are the others.
        batch_size: B.
        projected: for each layer, [ids, gates * H].
        layers: the lowest first.
        signal_weight: [signals, H].
        signal_bias: [signals].
        value_weight: [pushes * m, H].
        value_bias: [pushes * m].

    Raises:
        ValueError: there are buffers, or weights are not of the right shapes.
    """

    def __init__(
        self,
        kind: Kind,
        batch_size: int,
        projected: Sequence[Tensor],
        layers: Sequence[LayerWeights],
        signal_weight: Tensor,
        signal_bias: Tensor,
        value_weight: Tensor,
        value_bias: Tensor,
    ) -> None:
        if kind.buffered:
            raise ValueError("a buffered model can't go on from call to call")
        signals, size = signal_weight.shape
        heads = torch.cat([signal_weight, value_weight])
        self._sizes = sizes_of(kind, len(layers), batch_size, size, signals, heads)
        with torch.no_grad():
            self._bias = torch.cat([signal_bias, value_bias])
            self._state = torch.stack(
                [
                    torch.stack([state.expand(batch_size, size) for state in layer.initial])
                    for layer in layers
                ]
            )
            self._projected = torch.cat(list(projected), dim=1)
            pairs = [(layer.below, layer.hidden) for layer in layers]
            check_weights(self._sizes, pairs, heads, self._bias, self._state)
            self._weights = forward_weights(self._sizes.cell, pairs, heads)
        self._read = self._sizes.nothing_read()
        self._store = self._sizes.store(0)

    def step(self, inputs: Tensor) -> SequenceOutput:
        """The next T steps: [B, T] which of the inputs there is.

        Raises:
            IndexError: there is no such input.
            ValueError: they are not of B strings.
        """
        sizes = self._sizes
        batch, steps = inputs.shape
        if batch != sizes.batch:
            raise ValueError(f"inputs of {batch} strings for a run over {sizes.batch}")
        trace = sizes.new_trace(sizes.batch * steps, saved=1)
        starts = np.arange(sizes.batch + 1) * steps
        reading = Reading(starts, as_array(inputs.flatten()), self._projected)
        check_reading(reading, sizes, starts)
        self._store = self._store.with_room(steps)
        sizes.forward(
            slice(0, sizes.batch),
            self._weights,
            self._bias,
            starts,
            reading,
            self._state,
            self._read,
            self._store,
            trace,
        )
        self._store = self._store.after(steps)
        whole = (sizes.batch, steps)
        hidden, signals, reads = (part.unflatten(0, whole) for part in trace[1:4])
        return SequenceOutput(hidden[:, :, -1], signals, reads)
