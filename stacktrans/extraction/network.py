"""A hard network as a function: a state, a symbol and what is read give what is done with them.

Vectors that are met are kept once each; how long may be learned is asked in all long loops.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from stacktrans.common.errors import OVERFLOW, StacktransError
from stacktrans.decoding.decoder import outputs_of
from stacktrans.kernels.arrays import Array
from stacktrans.kernels.loops import sigmoid
from stacktrans.model.arrays import ArrayModel, State, run_mixed
from stacktrans.model.checkpoint import Checkpoint
from stacktrans.model.of_machine import memories_of
from stacktrans.tasks.alphabets import Ids

AT_ONCE = 4096
"""The most steps that are taken side by side."""
GRACE = 3.0
"""How many more seconds may be spent on making rules of what was learned, and on comparing."""
UNDECIDED = 0.1
"""A signal that is further than this from 0 and from 1 is undecided."""


class CannotExtract(StacktransError):
    """A model is no machine, or none that could be found; the message says why."""


class OutOfTime(CannotExtract):
    """There is no time left for what was begun."""


class Deadline:
    """When nothing more is to be learned.

    Args:
        seconds: after how many, from now.
    """

    def __init__(self, seconds: float = math.inf) -> None:
        self.seconds, self._begun = seconds, time.monotonic()

    @property
    def taken(self) -> float:
        """How many seconds it has taken so far."""
        return time.monotonic() - self._begun

    @property
    def over(self) -> bool:
        """Whether there is no time left to learn."""
        return self.passed_by(0)

    def passed_by(self, grace: float) -> bool:
        """Whether it was more than so many seconds ago."""
        return self.taken > self.seconds + grace

    def check(self, grace: float = 0) -> None:
        """Raise `OutOfTime` if it was more than so many seconds ago."""
        if self.passed_by(grace):
            raise OutOfTime(
                f"no machine found within {self.seconds:g} s; with more time there may be one"
            )


UNLIMITED = Deadline()
"""Is never over."""


class Vectors:
    """Vectors with numbers, in the order in which they were met.

    Args:
        first: [D] the vector of number 0.
        grid: how far numbers may be apart that count as the same.
    """

    def __init__(self, first: Array, grid: float) -> None:
        self._scale = 1 / grid
        self._dtype, self._size = first.dtype, len(first)
        self._numbers: dict[bytes, int] = {}
        self._met: list[Array] = []
        self._table = np.zeros((0, self._size), self._dtype)
        self.add(first[None])

    def __len__(self) -> int:
        return len(self._met)

    def add(self, vectors: Array) -> Ids:
        """The numbers of vectors [N, D], of which some may be new."""
        rounded = np.rint(vectors * self._scale).astype(np.int32)
        found = np.empty(len(vectors), np.int64)
        for place, row in enumerate(rounded):
            number = self._numbers.setdefault(row.tobytes(), len(self._met))
            if number == len(self._met):
                self._met.append(vectors[place])
            found[place] = number
        return found

    def of(self, numbers: Ids) -> Array:
        """[..., D] the vectors of numbers [...]."""
        if len(self._table) < len(self._met):
            self._table = np.array(self._met, self._dtype).reshape(len(self._met), self._size)
        vectors: Array = self._table[numbers]
        return vectors


class Outcome(NamedTuple):
    """What a network does in N steps.

    Attributes:
        signals: [N, signals] 0 or 1.
        logits: [N, outputs].
        pushed: [N, pushes, m] the vectors that are pushed where the signals say so.
        states: [N, D] what it goes on with.
        undecided: how many signals were far from 0 and from 1 before they were made so.
    """

    signals: Array
    logits: Array
    pushed: Array
    states: Array
    undecided: int

    @property
    def outputs(self) -> Ids:
        """[N] the most probable."""
        return outputs_of(self.logits)


class Network:
    """A checkpoint's model, its signals made 0 or 1, a step at a time.

    A state is what the next step sees of this one without the memory: nothing of units that do
    not see their own output, and only the cells of such an LSTM.

    Args:
        checkpoint: of the model.

    Attributes:
        model: its arrays.
        layout: of its task.
        ends: of its memory.
        nothing: the id that stands for no input, which buffered models read after the last.
        empty: [m] what is read of an empty memory.
        start: [D] the state before the first step.

    Raises:
        CannotExtract: it has a memory whose contents cannot be told apart, or reads texts.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        predictor = checkpoint.predictor
        if checkpoint.machine:
            raise CannotExtract(f"{checkpoint.path}: a machine already")
        if not isinstance(predictor, ArrayModel):
            raise CannotExtract("only models with compiled code can be made machines")
        if checkpoint.layout.kind == "text":
            raise CannotExtract("the model reads a text; expected pairs of strings, or a stream")
        ends = memories_of(checkpoint.memory, checkpoint.memory.signal_names)
        if ends is None:
            name = checkpoint.config.model.memory.name
            expected = "expected stacks, queues, deques and lists, without a capacity"
            raise CannotExtract(f"memory {name} cannot be part of a machine; {expected}")
        self.ends, self._memory = ends, checkpoint.memory
        self.model = predictor.made_hard(True)
        self.layout = checkpoint.layout
        self.nothing = len(self.model.weights.projected) - 1
        self.start = self.model.weights.initial.reshape(-1)[self._kept]
        kind = self.model.weights.kind
        self.empty = np.full(self.size, kind.memory.nothing, self.start.dtype)

    @property
    def size(self) -> int:
        """Size m of a pushed vector."""
        return self.model.weights.sizes.columns

    @functools.cached_property
    def _kept(self) -> Array:
        """Which numbers of all states the next step sees, [L * states * H]."""
        weights = self.model.weights
        kept = np.ones(weights.initial.shape, np.bool_)
        units = weights.kind.units
        for layer, hidden in enumerate(weights.layers[1::2]):
            if not hidden.any():
                kept[layer, 0] = units.split  # a GRU keeps a share of it all the same
        return kept.reshape(-1)

    def _soft(self, sums: Array) -> Array:
        """The signals before they are made 0 or 1, of the sums under them."""
        if not self._memory.takes_actions:
            found: Array = sigmoid(sums)
            return found
        signals = len(self.ends.signal_names)
        own = sums[:, :signals].reshape(len(sums), self._memory.count, -1)
        powers = np.exp(own - own.max(axis=2, keepdims=True))
        soft = (powers / powers.sum(axis=2, keepdims=True)).reshape(len(sums), -1)
        of_buffers = sigmoid(sums[:, signals:])
        return np.concatenate([soft, of_buffers], axis=1)

    def step(
        self, states: Array, ids: Ids, reads: Array, check: Callable[[], None] = lambda: None
    ) -> Outcome:
        """One step of each of N strings, from any state with any vectors read.

        Args:
            states: [N, D].
            ids: [N] what is read.
            reads: [N, reads, m] the vectors read from the memory before it.
            check: is asked now and then, and raises what ends it.

        Raises:
            StacktransError: the model's numbers overflow.
        """
        parts = []
        for first in range(0, max(len(ids), 1), AT_ONCE):
            check()
            at = slice(first, first + AT_ONCE)
            parts.append(self._step(states[at], ids[at], reads[at]))
        signals, logits, pushed, after = (
            np.concatenate([part[field] for part in parts]) for field in range(4)
        )
        return Outcome(signals, logits, pushed, after, sum(part.undecided for part in parts))

    def _step(self, states: Array, ids: Ids, reads: Array) -> Outcome:
        initial, count = self.model.weights.initial, len(ids)
        state = self.model.start(count, 1)
        given = np.repeat(initial.reshape(1, -1), count, axis=0)
        given[:, self._kept] = states
        state.units[:] = given.reshape(count, *initial.shape).transpose(1, 2, 0, 3)
        state.read[:] = reads.reshape(count, -1)
        return self.advance(state, ids)

    def advance(self, state: State, ids: Ids) -> Outcome:
        """The next step of the strings of a state, which is changed, with ids [N].

        Raises:
            StacktransError: the model's numbers overflow.
        """
        weights, count = self.model.weights, len(ids)
        hidden = run_mixed(weights, state, weights.projected[ids])
        logits = self.model.read_out(hidden)
        if (outputs_of(logits) < 0).any():
            raise StacktransError(OVERFLOW)
        with np.errstate(over="ignore"):
            heads = hidden @ weights.heads[: weights.signals].T + weights.bias[: weights.signals]
            soft = self._soft(heads)
        return Outcome(
            state.signals.astype(np.int8),
            logits,
            self._pushed(hidden),
            state.units.transpose(2, 0, 1, 3).reshape(count, -1)[:, self._kept],
            int((np.minimum(soft, 1 - soft) > UNDECIDED).sum()),
        )

    def _pushed(self, hidden: Array) -> Array:
        """The vectors that would be pushed: [N, H] -> [N, pushes, m]."""
        weights, first = self.model.weights, self.model.weights.signals
        with np.errstate(all="ignore"):
            sums = hidden @ weights.heads[first:].T + weights.bias[first:]
            vectors: Array = np.tanh(sums) if weights.kind.tanh_values else sigmoid(sums)
        return vectors.reshape(len(hidden), self.model.memory.pushes, self.size)
