"""A controller and its memory from call to call, without gradients: all in arrays."""

import functools
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stacktrans.kernels.arrays import Array
from stacktrans.kernels.batches import Kind, Sizes, check_ids, forward_weights
from stacktrans.kernels.compiling import Entry
from stacktrans.kernels.drive import forward
from stacktrans.kernels.kernel import Store
from stacktrans.kernels.steps import Forward, Inputs, Trace, Weights


class RunWeights:
    """The weights of a model that is only run.

    Args:
        kind: what is run.
        projected: [ids, L * gates * H] the gates' sums over each id, bias included; with buffers,
            the last is for no input.
        initial: [L, states, H] the state before the first step.
        heads: [signals + pushes * m, H] of signals and values.
        bias: [signals + pushes * m] of signals and values.
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
        self.sizes = Sizes.of(kind, signals, initial[:, :, None], heads, bias, layers)

    def made_hard(self, hard: bool) -> "RunWeights":
        """The same where signals are made 0 or 1, or not."""
        kind = self.kind._replace(hard=hard)
        return RunWeights(
            kind, self.projected, self.initial, self.heads, self.bias, self.layers, self.signals
        )

    @functools.cached_property
    def panels(self) -> Weights:
        """What multiplies rows at each step."""
        return forward_weights(self.kind.units.gates, self.layers, self.heads)

    @property
    def inputs(self) -> int:
        """How many ids of inputs there are."""
        return len(self.projected) - self.kind.buffered


@dataclass(eq=False)
class State:
    """B strings on their way through a model.

    Attributes:
        sizes: of everything in a run.
        units: [L, states, B, H] the state of the units.
        read: [B, reads * m] what was read last.
        store: the memory.
        room: how many steps it has room for.
        used: how many of them were taken.
        signals: [B, signals] of the last step.
        memory: the arrays of the memory.
        run: what a step takes; None before the first.
    """

    sizes: Sizes
    units: Array
    read: Array
    store: Store
    room: int
    used: int = 0
    signals: Array = field(init=False)
    memory: Any = field(init=False)
    run: Forward | None = None

    def __post_init__(self) -> None:
        Entry.expect(self.sizes.batch * self.room)
        self.signals = np.zeros((self.sizes.batch, self.sizes.signals), self.sizes.dtype)
        self._look()

    @classmethod
    def first(cls, weights: RunWeights, batch: int, steps: int) -> "State":
        """The state of B strings before the first step, with room for some steps."""
        sizes = weights.sizes._replace(batch=batch)
        units = np.repeat(weights.initial[:, :, None], batch, axis=2)
        return cls(sizes, units, sizes.nothing_read(), sizes.store(steps), steps)

    def _look(self) -> None:
        everything = slice(0, self.sizes.batch)
        self.memory = self.store.forward(everything, everything)

    def make_room(self, steps: int) -> None:
        """Have room for some steps more; of the memory only what can still be read is kept."""
        if self.used + steps > self.room:
            steps = max(steps, self.room)
            Entry.expect(self.sizes.batch * steps)
            self.store = self.store.after(self.used).with_room(steps)
            self.room, self.used = steps, 0
            self._look()

    def chosen(self, items: Array) -> "State":
        """That of other strings, each from where one of these is, by their indices."""
        store = self.store.after(self.used).chosen(items).with_room(self.room - self.used)
        sizes = self.sizes._replace(batch=len(items))
        units = np.ascontiguousarray(self.units[:, :, items])  # as compiled code takes it to be
        return State(sizes, units, self.read[items], store, self.room - self.used)


def run_steps(weights: RunWeights, state: State, ids: Array) -> Array:
    """The controller's outputs over the next T steps, [B, T, H], with ids [B, T].

    Raises:
        IndexError: there is no such id.
        ValueError: they are not of B strings.
    """
    if len(ids) != state.sizes.batch:
        raise ValueError(f"inputs of {len(ids)} strings for a run over {state.sizes.batch}")
    check_ids(ids, weights.inputs)
    return _run(weights, state, ids, weights.projected)


def run_mixed(weights: RunWeights, state: State, projected: Array) -> Array:
    """The controller's outputs over a step, [B, H], with the gates' sums over what is read.

    Args:
        weights: of the model.
        state: changed in place.
        projected: [B, L * gates * H].
    """
    return _run(weights, state, np.arange(len(projected))[:, None], projected)[:, 0]


def _run(weights: RunWeights, state: State, ids: Array, projected: Array) -> Array:
    sizes, (batch, steps) = state.sizes, ids.shape
    state.make_room(steps)
    run = state.run
    if steps != 1 or run is None:
        starts = np.arange(batch + 1) * steps
        flat = np.ascontiguousarray(ids, np.int64).ravel()
        shaped = projected.reshape(len(projected), *sizes.projected)
        given = Inputs(starts, flat, shaped, 0)
        trace = Trace._make(sizes.new_trace(batch * steps, saved=1))
        run = sizes.run(weights.panels, weights.bias, starts, given, state.units, state.read, trace)
        if steps == 1:
            state.run = run
    else:
        run.inputs.ids[:] = ids[:, 0]
        if projected is not weights.projected:
            run.inputs.projected[:] = projected.reshape(run.inputs.projected.shape)
    forward(run, state.memory, sizes.kind.memory.signals, state.used)
    state.used += steps
    own = run.trace.signals.reshape(batch, steps, -1)
    state.signals = own[:, -1]
    return run.trace.hidden[:, -1].reshape(batch, steps, -1)
