"""A hard network as a function of a state, a symbol and what is read; and what it did in runs.

Vectors that are met are kept once each; how long may be learned is asked in all long loops.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from stacktrans.common.errors import OVERFLOW, StacktransError
from stacktrans.decoding.decoder import DecodingStep, decode, most_probable_ids, predict
from stacktrans.decoding.model import SoftInput
from stacktrans.kernels import Array
from stacktrans.kernels.elementwise import sigmoid
from stacktrans.model.checkpoint import Checkpoint
from stacktrans.model.machine_backend import memories_of
from stacktrans.model.numpy_backend import NumpyModel, State
from stacktrans.tasks.alphabets import Ids, Mask

NOTHING = -1
"""Stands for what does not matter: a vector that is not pushed, an output that is not scored."""
EMPTY = 0
"""The number of the vector that is read from an empty memory."""
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

    def __init__(self, seconds: float) -> None:
        self.seconds, self._begun = seconds, time.monotonic()

    @property
    def taken(self) -> float:
        """How many seconds it has taken so far."""
        return time.monotonic() - self._begun

    def over(self, grace: float = 0) -> bool:
        """Whether it was more than so many seconds ago."""
        return self.taken > self.seconds + grace

    def check(self, grace: float = 0) -> None:
        """Raise `OutOfTime` if it was more than so many seconds ago."""
        if self.over(grace):
            raise OutOfTime(
                f"no machine found within {self.seconds:g} s; with more time there may be one"
            )


class Vectors:
    """Vectors with numbers, in the order in which they were met.

    Args:
        first: [D] the vector of number 0.
        grid: how far numbers may be apart that count as the same.
    """

    def __init__(self, first: Array, grid: float) -> None:
        self._scale = 1 / grid
        self._numbers: dict[bytes, int] = {}
        self._met: list[Array] = []
        self._table = first[:0]
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
            self._table = np.stack(self._met)
        vectors: Array = self._table[numbers]
        return vectors


class Outcome(NamedTuple):
    """What a network does in N steps.

    Attributes:
        signals: [N, signals] 0 or 1.
        logits: [N, outputs].
        pushed: [N, pushes, m] the vectors that are pushed where the signals say so.
        states: [N, D] what it goes on with.
        undecided: [N] how many signals were far from 0 and from 1 before they were made so.
    """

    signals: Array
    logits: Array
    pushed: Array
    states: Array
    undecided: Ids


class Network:
    """A checkpoint's model, its signals made 0 or 1, a step at a time.

    A state is what the next step sees of this one without the memory: nothing of units that do
    not see their own output, and only the cells of such an LSTM.

    Args:
        checkpoint: of the model.
        deadline: after which no more steps are taken.

    Attributes:
        deadline: see above.
        model: its arrays.
        layout: of its task.
        ends: of its memory.
        nothing: the id that stands for no input, which buffered models read after the last.
        empty: [m] what is read of an empty memory.
        start: [D] the state before the first step.

    Raises:
        CannotExtract: it has a memory whose contents cannot be told apart, or reads texts.
    """

    def __init__(self, checkpoint: Checkpoint, deadline: Deadline) -> None:
        self.deadline, predictor = deadline, checkpoint.predictor
        if checkpoint.machine:
            raise CannotExtract(f"{checkpoint.path}: a machine already")
        if not isinstance(predictor, NumpyModel):
            raise CannotExtract("only models with compiled code can be made machines")
        if checkpoint.layout.kind == "text":
            raise CannotExtract("the model reads a text; expected pairs of strings, or a stream")
        ends = memories_of(checkpoint.memory, checkpoint.memory.signal_names)
        if ends is None:
            name = checkpoint.config.model.memory.name
            expected = "expected stacks, queues, deques and lists, without a capacity"
            raise CannotExtract(f"memory {name} cannot be part of a machine; {expected}")
        self.ends, self.layout = ends, checkpoint.layout
        self.model = replace(predictor.discretised(), threads=1)
        self.nothing = len(self.model.weights.projected) - 1
        self.start = self.model.weights.initial[:, :, 0][self._kept]
        nothing = self.model.weights.architecture.memory.nothing
        self.empty = np.full(self.model.weights.sizes.columns, nothing, self.start.dtype)

    @functools.cached_property
    def _kept(self) -> Array:
        """Which numbers of all states the next step sees, [L, states, H]."""
        weights = self.model.weights
        kept = np.ones(weights.initial[:, :, 0].shape, np.bool_)
        units = weights.architecture.units
        for layer, hidden in enumerate(weights.layers[1::2]):
            if not hidden.any():
                kept[layer, 0] = units.split  # a GRU keeps a share of it all the same
        return kept

    def _soft(self, sums: Array) -> Array:
        """The signals before they are made 0 or 1, of the sums under them."""
        soft: Array = sigmoid(sums)
        if self.model.memory.takes_actions:
            signals = len(self.ends.signal_names)
            own = sums[:, :signals].reshape(len(sums), self.model.memory.count, -1)
            powers = np.exp(own - own.max(axis=2, keepdims=True))
            soft[:, :signals] = (powers / powers.sum(axis=2, keepdims=True)).reshape(len(sums), -1)
        return soft

    def step(self, states: Array, ids: Ids, reads: Array) -> Outcome:
        """One step of each of N strings, from any state with any vectors read.

        Args:
            states: [N, D].
            ids: [N] what is read.
            reads: [N, reads, m] the vectors read from the memory before it.

        Raises:
            OutOfTime: there is no time left for it.
            StacktransError: the model's numbers overflow.
        """
        parts = []
        for first in range(0, max(len(ids), 1), AT_ONCE):
            self.deadline.check()
            at = slice(first, first + AT_ONCE)
            own, count = ids[at], len(ids[at])
            state = self.model.start(count, 1)
            state.units.transpose(2, 0, 1, 3)[:, self._kept] = states[at]
            state.read[:] = reads[at].reshape(count, -1)
            logits = self.model.advance(state, SoftInput(own, own, np.zeros(count)))
            parts.append(self.outcome(state, logits))
        return Outcome(*map(np.concatenate, zip(*parts, strict=True)))

    def outcome(self, state: State, logits: Array) -> Outcome:
        """The last step of the strings of a state, which gave logits [N, outputs].

        Raises:
            StacktransError: the model's numbers overflow.
        """
        if (most_probable_ids(logits) < 0).any():
            raise StacktransError(OVERFLOW)
        assert state.run is not None
        weights, hidden = self.model.weights, state.run.trace.hidden[:, -1]
        with np.errstate(over="ignore"):
            heads = hidden @ weights.heads[: weights.signals].T + weights.bias[: weights.signals]
            soft = self._soft(heads)
        return Outcome(
            state.signals.astype(np.int8),
            logits,
            self._pushed(hidden),
            state.units.transpose(2, 0, 1, 3)[:, self._kept],
            (np.minimum(soft, 1 - soft) > UNDECIDED).sum(axis=1),
        )

    def _pushed(self, hidden: Array) -> Array:
        """The vectors that would be pushed: [N, H] -> [N, pushes, m]."""
        weights, first = self.model.weights, self.model.weights.signals
        with np.errstate(all="ignore"):
            sums = hidden @ weights.heads[first:].T + weights.bias[first:]
            vectors: Array = np.tanh(sums) if weights.architecture.tanh_values else sigmoid(sums)
        return vectors.reshape(len(hidden), self.model.memory.pushes, len(self.empty))

    def effective(self, signals: Array, reads: Ids) -> Ids:
        """[N, signals] signals; `NOTHING` for the pop of a row that is empty.

        Args:
            signals: [N, signals] 0 or 1.
            reads: [N, reads] the numbers of the vectors that were read before them.
        """
        found = signals.astype(np.int64)
        rows = [end // 2 for end in self.ends.reads]
        for signal, end in self.ends.pops:
            if end // 2 in rows:
                found[reads[:, rows.index(end // 2)] == EMPTY, signal] = NOTHING
        return found


class RecordedSteps(NamedTuple):
    """What a network did in N steps, as numbers of vectors.

    Attributes:
        states: [N] before each.
        inputs: [N] the id read.
        reads: [N, reads] what was read from each end before it.
        signals: [N, signals] 0 or 1; `NOTHING` for the pop of a memory that was empty.
        outputs: [N] the outputs; `NOTHING` where none is asked for.
        pushed: [N, pushes]; `NOTHING` where nothing is.
        after: [N] the states after each.
    """

    states: Ids
    inputs: Ids
    reads: Ids
    signals: Ids
    outputs: Ids
    pushed: Ids
    after: Ids


class Recorder:
    """Runs strings through a network, and keeps each different step once.

    Args:
        network: what is run; after its deadline runs are broken off, and the steps that were met
            until then count.
        grid: see `Vectors`.

    Attributes:
        states: those that were met; the first is the initial one.
        pushed: of each ring, the vectors pushed; the first is what is read when it is empty.
        undecided: how many signals were undecided.
        signals: how many there were.
        strings: how many strings were run.
    """

    def __init__(self, network: Network, grid: float) -> None:
        self.network = network
        self.states = Vectors(network.start, grid)
        own = [Vectors(network.empty, grid) for _ in network.ends.names]
        self.pushed = [own[alphabet] for alphabet in network.ends.alphabets]
        self.undecided = self.signals = self.strings = 0
        self._met: dict[bytes, None] = {}

    def steps(self) -> RecordedSteps:
        """The different steps so far."""
        ends, signals = self.network.ends, self.network.model.weights.signals
        shapes = [(), (), (len(ends.reads),), (signals,), (), (len(ends.pushes),), ()]
        columns = zip(RecordedSteps._fields, shapes, strict=True)
        layout = np.dtype([(name, np.int64, shape) for name, shape in columns])
        table = np.frombuffer(b"".join(self._met), layout)
        return RecordedSteps(*(table[name] for name in RecordedSteps._fields))

    def run(self, sources: Sequence[Ids], scored: Sequence[Mask | None]) -> None:
        """Record the network's steps over some strings.

        Args:
            sources: ids of source symbols; of a stream, all that is read.
            scored: of each, which of its outputs matter; None for all.
        """
        count, ends, layout = len(sources), self.network.ends, self.network.layout
        self.strings += count
        states, ended = np.zeros(count, np.int64), np.zeros(count, np.bool_)
        reads = np.tile(self.network.empty, (count, len(ends.reads), 1))

        def observe(step: DecodingStep) -> None:
            self.network.deadline.check()
            items, outputs = step.items, most_probable_ids(step.logits)
            for row, (item, answer) in enumerate(zip(items, step.positions, strict=True)):
                own = scored[item]
                if answer < 0 or ended[item] or (own is not None and not own[answer]):
                    outputs[row] = NOTHING
            if not layout.feeds_back:  # otherwise the decoder stops at the end
                ended[items] |= outputs == layout.end
            steps = self._numbered(step, states[items], reads[items], outputs)
            states[items], reads[items] = steps.after, step.state.read.reshape(reads[items].shape)
            self._met.update(dict.fromkeys(row.tobytes() for row in np.column_stack(steps)))

        with contextlib.suppress(OutOfTime):
            if layout.consecutive:
                predict(self.network.model, sources, log_probs=False, observe=observe)
            else:
                decode(self.network.model, layout, sources, log_probs=False, observe=observe)

    def _numbered(
        self, step: DecodingStep, states: Ids, vectors: Array, outputs: Ids
    ) -> RecordedSteps:
        """A step of N strings, with its states and vectors by their numbers.

        Args:
            step: as the decoder shows it.
            states: [N] before it.
            vectors: [N, reads, m] read before it.
            outputs: [N] that count; `NOTHING` for others.
        """
        network, ends = self.network, self.network.ends
        done = network.outcome(step.state, step.logits)
        self.undecided += int(done.undecided.sum())
        self.signals += done.signals.size
        reads = np.zeros(vectors.shape[:2], np.int64)
        for place, end in enumerate(ends.reads):
            reads[:, place] = self.pushed[end // 2].add(vectors[:, place])
        pushed = np.full(done.pushed.shape[:2], NOTHING)
        for place, (signal, end) in enumerate(ends.pushes):
            rows = done.signals[:, signal] == 1
            pushed[rows, place] = self.pushed[end // 2].add(done.pushed[rows, place])
        inputs = np.where(step.ids < 0, network.nothing, step.ids)
        signals, after = network.effective(done.signals, reads), self.states.add(done.states)
        return RecordedSteps(states, inputs, reads, signals, outputs, pushed, after)
