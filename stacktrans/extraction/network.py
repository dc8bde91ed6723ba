"""Discrete networks as transition functions, and the recorder that collects their steps."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from stacktrans.common.errors import OVERFLOW, StacktransError
from stacktrans.decoding.decoder import DecodingStep, decode, most_probable_ids, predict
from stacktrans.decoding.model import SoftInput
from stacktrans.extraction.limits import CannotExtract, Deadline, OutOfTime
from stacktrans.kernels import Array
from stacktrans.kernels.elementwise import sigmoid
from stacktrans.model.checkpoint import Checkpoint
from stacktrans.model.machine_backend import memories_of
from stacktrans.model.numpy_backend import NumpyModel, NumpyState
from stacktrans.tasks.alphabets import Ids, Mask

NOTHING = -1
"""In place of irrelevant values: vectors that are not pushed, outputs that are not scored."""
EMPTY = 0
"""The number, and the class, of the vector that is read from an empty memory."""
AT_ONCE = 4096
"""The most steps in a batch."""
UNDECIDED = 0.1
"""The distance from 0 and from 1 of undecided signals."""


class Vectors:
    """Numbered vectors, equal up to rounding to a grid, in the order of their first occurrence.

    Args:
        first: [D] the vector of number 0.
        grid: the spacing of the grid.
    """

    def __init__(self, first: Array, grid: float) -> None:
        self._scale = 1 / grid
        self._numbers: dict[bytes, int] = {}
        self._vectors: list[Array] = []
        self._table = first[:0]
        self.add(first[None])

    def __len__(self) -> int:
        return len(self._vectors)

    def add(self, vectors: Array) -> Ids:
        """Add vectors [N, D] that are new; return the numbers of all."""
        rounded = np.rint(vectors * self._scale).astype(np.int32)
        numbers = np.empty(len(vectors), np.int64)
        for index, row in enumerate(rounded):
            number = self._numbers.setdefault(row.tobytes(), len(self._vectors))
            if number == len(self._vectors):
                self._vectors.append(vectors[index])
            numbers[index] = number
        return numbers

    def of(self, numbers: Ids) -> Array:
        """The vectors [..., D] of numbers [...]."""
        if len(self._table) < len(self._vectors):
            self._table = np.stack(self._vectors)
        vectors: Array = self._table[numbers]
        return vectors


class Outcome(NamedTuple):
    """The outcomes of N steps of a network: signals, outputs and next states.

    Attributes:
        signals: [N, signals] 0 or 1.
        logits: [N, outputs].
        pushed: [N, pushes, m] the vectors that are pushed if the signals are 1.
        states: [N, D] after the steps.
        undecided: [N] the number of signals that were far from 0 and from 1 before rounding.
    """

    signals: Array
    logits: Array
    pushed: Array
    states: Array
    undecided: Ids


class Network:
    """A discrete network as a transition function of state, input and reads.

    A state has all that the next step depends on but for the memory: nothing of units without
    recurrence, and only the cells of such an LSTM.

    Args:
        checkpoint: of the model.
        deadline: after which no more steps are taken.

    Attributes:
        deadline: see above.
        model: the discrete model.
        layout: of its task.
        ends: of its memory.
        no_input: the id that buffered models read after the last input.
        empty: [m] the vector that is read from an empty memory.
        start: [D] the state before the first step.

    Raises:
        CannotExtract: its memory has no discrete contents, or it reads texts.
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
        self.model = replace(predictor.discretized(), threads=1)
        self.no_input = len(self.model.weights.projected) - 1
        self.start = self.model.weights.initial[:, :, 0][self._kept]
        empty = self.model.weights.architecture.memory.nothing
        self.empty = np.full(self.model.weights.sizes.columns, empty, self.start.dtype)

    @functools.cached_property
    def _kept(self) -> Array:
        """[L, states, H] the numbers of all states that the next step depends on."""
        weights = self.model.weights
        kept = np.ones(weights.initial[:, :, 0].shape, np.bool_)
        units = weights.architecture.units
        for layer, hidden in enumerate(weights.layers[1::2]):
            if not hidden.any():
                kept[layer, 0] = units.split  # a GRU keeps a share of it all the same
        return kept

    def _soft(self, sums: Array) -> Array:
        """The signals before rounding, from their pre-activations."""
        soft: Array = sigmoid(sums)
        if self.model.memory.takes_actions:
            signals = len(self.ends.signal_names)
            actions = sums[:, :signals].reshape(len(sums), self.model.memory.count, -1)
            powers = np.exp(actions - actions.max(axis=2, keepdims=True))
            soft[:, :signals] = (powers / powers.sum(axis=2, keepdims=True)).reshape(len(sums), -1)
        return soft

    def step(self, states: Array, ids: Ids, reads: Array) -> Outcome:
        """A step of N strings, from any states with any vectors read.

        Args:
            states: [N, D].
            ids: [N] of inputs.
            reads: [N, reads, m] the vectors that were read from the memory.

        Raises:
            OutOfTime: there is no time left for it.
            StacktransError: the model's numbers overflow.
        """
        parts = []
        for first in range(0, max(len(ids), 1), AT_ONCE):
            self.deadline.check()
            batch = slice(first, first + AT_ONCE)
            inputs, count = ids[batch], len(ids[batch])
            state = self.model.start(count, 1)
            state.units.transpose(2, 0, 1, 3)[:, self._kept] = states[batch]
            state.read[:] = reads[batch].reshape(count, -1)
            logits = self.model.advance(state, SoftInput(inputs, inputs, np.zeros(count)))
            parts.append(self.outcome(state, logits))
        return Outcome(*map(np.concatenate, zip(*parts, strict=True)))

    def outcome(self, state: NumpyState, logits: Array) -> Outcome:
        """The outcome of the last step of N strings, which gave logits [N, outputs].

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
        """The vectors of pushes, [N, pushes, m], from the outputs of the controller [N, H]."""
        weights, first = self.model.weights, self.model.weights.signals
        with np.errstate(all="ignore"):
            sums = hidden @ weights.heads[first:].T + weights.bias[first:]
            vectors: Array = np.tanh(sums) if weights.architecture.tanh_values else sigmoid(sums)
        return vectors.reshape(len(hidden), self.model.memory.pushes, len(self.empty))

    def effective(self, signals: Array, reads: Ids) -> Ids:
        """[N, signals] signals; `NOTHING` for the pop of an empty memory.

        Args:
            signals: [N, signals] 0 or 1.
            reads: [N, reads] the numbers of the vectors that were read.
        """
        effective = signals.astype(np.int64)
        memories = [end // 2 for end in self.ends.reads]
        for signal, end in self.ends.pops:
            if end // 2 in memories:
                effective[reads[:, memories.index(end // 2)] == EMPTY, signal] = NOTHING
        return effective


class RecordedSteps(NamedTuple):
    """The N different recorded steps of a network, with vectors by number.

    Attributes:
        states: [N] before each.
        inputs: [N] ids.
        reads: [N, reads] the vector that was read from each end.
        signals: [N, signals] 0 or 1; `NOTHING` for the pop of an empty memory.
        outputs: [N]; `NOTHING` where they are not scored.
        pushed: [N, pushes]; `NOTHING` where nothing is pushed.
        next_states: [N] after each.
    """

    states: Ids
    inputs: Ids
    reads: Ids
    signals: Ids
    outputs: Ids
    pushed: Ids
    next_states: Ids


class Recorder:
    """A recorder of the different steps of a network.

    Args:
        network: the network; runs end at its deadline, and the steps until then are recorded.
        grid: see `Vectors`.

    Attributes:
        states: of the steps; the first is the initial one.
        pushed: of each memory, the vectors pushed; the first is read when it is empty.
        undecided: the number of undecided signals.
        signals: the number of signals.
        strings: the number of strings.
    """

    def __init__(self, network: Network, grid: float) -> None:
        self.network = network
        self.states = Vectors(network.start, grid)
        vectors = [Vectors(network.empty, grid) for _ in network.ends.names]
        self.pushed = [vectors[alphabet] for alphabet in network.ends.alphabets]
        self.undecided = self.signals = self.strings = 0
        self._steps: dict[bytes, None] = {}

    def steps(self) -> RecordedSteps:
        """The different steps so far, in the order of their first occurrence."""
        ends, signals = self.network.ends, self.network.model.weights.signals
        shapes = [(), (), (len(ends.reads),), (signals,), (), (len(ends.pushes),), ()]
        columns = zip(RecordedSteps._fields, shapes, strict=True)
        layout = np.dtype([(name, np.int64, shape) for name, shape in columns])
        table = np.frombuffer(b"".join(self._steps), layout)
        return RecordedSteps(*(table[name] for name in RecordedSteps._fields))

    def run(self, sources: Sequence[Ids], scored: Sequence[Mask | None]) -> None:
        """Record the network's steps over some strings.

        Args:
            sources: ids of source symbols; of a stream, all that is read.
            scored: of each, which of its outputs are scored; None for all.
        """
        count, ends, layout = len(sources), self.network.ends, self.network.layout
        self.strings += count
        states, ended = np.zeros(count, np.int64), np.zeros(count, np.bool_)
        reads = np.tile(self.network.empty, (count, len(ends.reads), 1))

        def observe(step: DecodingStep) -> None:
            self.network.deadline.check()
            items, outputs = step.items, most_probable_ids(step.logits)
            for row, (item, position) in enumerate(zip(items, step.positions, strict=True)):
                mask = scored[item]
                if position < 0 or ended[item] or (mask is not None and not mask[position]):
                    outputs[row] = NOTHING
            if not layout.feeds_back:  # otherwise the decoder stops at the end
                ended[items] |= outputs == layout.end
            steps = self._numbered(step, states[items], reads[items], outputs)
            states[items] = steps.next_states
            reads[items] = step.state.read.reshape(reads[items].shape)
            self._steps.update(dict.fromkeys(row.tobytes() for row in np.column_stack(steps)))

        with contextlib.suppress(OutOfTime):
            if layout.consecutive:
                predict(self.network.model, sources, log_probs=False, observe=observe)
            else:
                decode(self.network.model, layout, sources, log_probs=False, observe=observe)

    def _numbered(
        self, step: DecodingStep, states: Ids, vectors: Array, outputs: Ids
    ) -> RecordedSteps:
        """A step of N strings, with numbers of states and vectors.

        Args:
            step: as the decoder shows it.
            states: [N] before it.
            vectors: [N, reads, m] read before it.
            outputs: [N]; `NOTHING` where they are not scored.
        """
        network, ends = self.network, self.network.ends
        outcome = network.outcome(step.state, step.logits)
        self.undecided += int(outcome.undecided.sum())
        self.signals += outcome.signals.size
        reads = np.zeros(vectors.shape[:2], np.int64)
        for index, end in enumerate(ends.reads):
            reads[:, index] = self.pushed[end // 2].add(vectors[:, index])
        pushed = np.full(outcome.pushed.shape[:2], NOTHING)
        for index, (signal, end) in enumerate(ends.pushes):
            rows = outcome.signals[:, signal] == 1
            pushed[rows, index] = self.pushed[end // 2].add(outcome.pushed[rows, index])
        inputs = np.where(step.ids < 0, network.no_input, step.ids)
        signals = network.effective(outcome.signals, reads)
        next_states = self.states.add(outcome.states)
        return RecordedSteps(states, inputs, reads, signals, outputs, pushed, next_states)
