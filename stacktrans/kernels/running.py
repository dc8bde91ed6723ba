"""A controller and its memory from call to call, without gradients: all in arrays."""

from typing import NamedTuple

import numpy as np

from stacktrans.kernels.batches import Kind, Sizes, forward_part, forward_weights
from stacktrans.kernels.compiling import Array, uses_numba
from stacktrans.kernels.drive import forward
from stacktrans.kernels.kernel import Store
from stacktrans.kernels.loading import prepare
from stacktrans.kernels.steps import Weights


class RunWeights:
    """The weights of a model that is only run.

    Args:
        kind: what is run.
        projected: [ids, L * gates * H] the gates' sums over each id, bias included; with buffers,
            the last id is no input.
        initial: [L, states, H] the state before the first step.
        heads: [signals + pushes * m, H] of signals and values.
        bias: [signals + pushes * m] likewise.
        layers: `below` and `hidden` of each layer, as `sequences.LayerWeights` has them.
        signals: how many of the heads are signals.

    Raises:
        ValueError: they are not of the right shapes.
    """

    def __init__(
        self,
        kind: Kind,
        projected: Array,
        initial: Array,
        heads: Array,
        bias: Array,
        layers: list[Array],
        signals: int,
    ) -> None:
        self.kind, self.projected, self.initial = kind, projected, initial
        self.heads, self.bias, self.layers, self.signals = heads, bias, layers, signals
        self._panels: dict[bool, Weights] = {}
        self.sizes = Sizes.of(kind, signals, initial[:, :, None], heads, bias, layers)

    def made_hard(self, hard: bool) -> "RunWeights":
        """The same where signals are made 0 or 1, or not."""
        kind = self.kind._replace(hard=hard)
        return RunWeights(
            kind, self.projected, self.initial, self.heads, self.bias, self.layers, self.signals
        )

    @property
    def panels(self) -> Weights:
        """What multiplies rows at each step."""
        numba = uses_numba()  # whose code has wider ones
        if numba not in self._panels:
            gates = self.kind.units.gates
            self._panels = {numba: forward_weights(gates, self.layers, self.heads)}
        return self._panels[numba]

    def states(self, batch: int) -> Array:
        """The initial states of B strings, [L, states, B, H]."""
        return np.repeat(self.initial[:, :, None], batch, axis=2)


class Output(NamedTuple):
    """What came out of T steps of a batch of B.

    Attributes:
        hidden: [B, T, H] the output of the highest layer.
        signals: [B, T, signals] strengths, in the order of the memory's `signal_names`.
        reads: [B, T, reads * m] the vectors read.
    """

    hidden: Array
    signals: Array
    reads: Array


class Running:
    """A controller and its memory, for a batch of B, from call to call without gradients.

    Of the memory only those rows are kept that can still be read, or those cells that are not
    empty.

    Args:
        weights: of the model, which has no buffers.
        batch_size: B.

    Attributes:
        store: the memory.

    Raises:
        ValueError: there are buffers.
    """

    def __init__(self, weights: RunWeights, batch_size: int) -> None:
        if weights.kind.buffered:
            raise ValueError("a buffered model can't continue from call to call")
        self._weights = weights
        self._sizes = weights.sizes._replace(batch=batch_size)
        self._state = weights.states(batch_size)
        self._read = self._sizes.nothing_read()
        self.store: Store = self._sizes.store(0)

    def step(self, ids: Array) -> Output:
        """The next T steps, with the ids [B, T].

        Raises:
            IndexError: there is no such id.
            ValueError: they are not of B strings.
        """
        sizes, weights = self._sizes, self._weights
        batch, steps = ids.shape
        prepare(batch * steps, forward)
        if batch != sizes.batch:
            raise ValueError(f"inputs of {batch} strings for a run over {sizes.batch}")
        trace = sizes.new_trace(batch * steps, saved=1)
        starts = np.arange(batch + 1) * steps
        given = sizes.inputs(starts, starts, np.ascontiguousarray(ids).ravel(), weights.projected)
        self.store = self.store.with_room(steps)
        forward_part(
            sizes,
            slice(0, batch),
            weights.panels,
            weights.bias,
            starts,
            given,
            self._state,
            self._read,
            self.store,
            trace,
        )
        self.store = self.store.after(steps)
        hidden, signals, reads = (
            part.reshape(batch, steps, *part.shape[1:]) for part in trace[1:4]
        )
        return Output(np.ascontiguousarray(hidden[:, :, -1]), signals, reads)

    def hidden(self, ids: Array) -> Array:
        """The output of the highest layer over the next T steps, [B, T, H]; see `step`."""
        return self.step(ids).hidden

    def choose(self, items: Array) -> None:
        """Go on with other strings, each from where one of these is, by their indices."""
        self._sizes = self._sizes._replace(batch=len(items))
        self._state = np.ascontiguousarray(self._state[:, :, items])
        self._read = self._read[items]
        self.store = self.store.chosen(items)
