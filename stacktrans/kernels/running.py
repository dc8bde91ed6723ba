"""A controller and its memory that go on from call to call, without gradients.

For evaluation and decoding: of the memory only those rows are kept that can still be read.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from stacktrans.kernels.ends import empty_rows, move_rows, rows_left
from stacktrans.kernels.fused import (
    Kind,
    LayerWeights,
    SequenceOutput,
    forward_weights,
    sizes_of,
)
from stacktrans.kernels.sizes import Reading, nothing_read
from stacktrans.kernels.tensors import array_dtype, as_array, fresh, in_place

# Room for rows is made for at least so many.
_LEAST_ROWS = 64


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
        signals, size = signal_weight.shape
        heads = torch.cat([signal_weight, value_weight])
        self._sizes = sizes_of(kind, len(layers), batch_size, size, signals, heads)
        ends, dtype, columns = self._sizes.ends, self._sizes.dtype, self._sizes.columns
        with torch.no_grad():
            self._weights = forward_weights(
                self._sizes.cell,
                [(layer.below, layer.hidden) for layer in layers],
                heads,
            )
            self._bias = torch.cat([signal_bias, value_bias])
            self._state = torch.stack(
                [
                    torch.stack([state.expand(batch_size, size) for state in layer.initial])
                    for layer in layers
                ]
            )
            self._projected = torch.cat(list(projected), dim=1)
        self._read = nothing_read(self._sizes, batch_size)
        self._rows = empty_rows(ends, batch_size, 0, array_dtype(dtype))
        self._values = fresh(batch_size, 0, columns, dtype=dtype)
        self._used = 0

    def step(self, inputs: Tensor) -> SequenceOutput:
        """The next T steps: [B, T] which of the inputs there is."""
        sizes = self._sizes
        steps = inputs.shape[1]
        trace = sizes.new_trace(sizes.batch * steps, saved=1)
        starts = np.arange(sizes.batch + 1) * steps
        added = steps * len(sizes.ends.pushes)
        self._make_room(added)
        record = empty_rows(sizes.ends, sizes.batch, steps, array_dtype(sizes.dtype))
        sizes.forward(
            slice(0, sizes.batch),
            self._weights,
            self._bias,
            starts,
            Reading(starts, as_array(inputs.flatten()), self._projected),
            self._state,
            self._read,
            record._replace(strength=self._rows.strength, links=self._rows.links),
            self._values,
            self._used,
            trace,
        )
        self._used += added
        whole = (sizes.batch, steps)
        hidden, signals, reads = (part.unflatten(0, whole) for part in trace[1:4])
        return SequenceOutput(hidden[:, :, -1], signals, reads)

    def _make_room(self, added: int) -> None:
        """Have room for so many more rows; if there is not, leave the rows taken away behind."""
        batch, room, columns = self._values.shape
        if self._used + added <= room:
            return
        left = rows_left(self._rows.links)
        # As much room again as is taken: so on average a row is moved no more than once.
        room = max(2 * left, left + added, _LEAST_ROWS)
        ends, dtype = self._sizes.ends, self._sizes.dtype
        steps = -(-room // len(ends.pushes))
        rows = empty_rows(ends, batch, steps, array_dtype(dtype))
        values = fresh(batch, rows.strength.shape[1] - 1, columns, dtype=dtype)
        move_rows(
            self._rows.strength,
            self._rows.links,
            in_place(self._values),
            rows.strength,
            rows.links,
            in_place(values),
        )
        self._rows, self._values, self._used = rows, values, left
