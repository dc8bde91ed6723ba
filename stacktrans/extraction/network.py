"""Discrete networks as transition functions of state, input and what is read from memories."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from stacktrans.automata.rules import EMPTY
from stacktrans.common.ends import Ends
from stacktrans.common.errors import OVERFLOW, StacktransError
from stacktrans.decoding.decoder import log_softmax, most_probable_ids
from stacktrans.decoding.model import SoftInput
from stacktrans.extraction.limits import CannotExtract, Deadline
from stacktrans.kernels import Array
from stacktrans.kernels.elementwise import sigmoid
from stacktrans.model.checkpoint import Checkpoint
from stacktrans.model.numpy_backend import NumpyModel, NumpyState
from stacktrans.tasks.alphabets import Ids

NOTHING = -1
"""In place of irrelevant values: vectors that are not pushed, outputs that are not scored."""
MAX_BATCH = 4096
"""The most steps in a batch."""
UNDECIDED = 0.1
"""The distance from 0 and from 1 of undecided signals."""


class StepResults(NamedTuple):
    """The results of N steps of a network: signals, outputs and next states.

    Attributes:
        signals: [N, signals] 0 or 1.
        outputs: [N] the most probable ones.
        pushed: [N, pushes, m] the vectors that are pushed if the signals are 1.
        states: [N, D] after the steps.
        undecided: [N] the number of signals that were far from 0 and from 1 before rounding.
    """

    signals: Array
    outputs: Ids
    pushed: Array
    states: Array
    undecided: Ids


def in_compiled_code(checkpoint: Checkpoint) -> Checkpoint:
    """The same model on the CPU, in compiled code if there is any for it."""
    model = checkpoint.config.model.model_copy(update={"kernel": "auto"})
    config = checkpoint.config.model_copy(update={"model": model})
    return replace(checkpoint, config=config, weights=checkpoint.current_weights, device="cpu")


class Network:
    """A discrete network as a transition function of state, input and reads.

    A state is all that the next step depends on except the memory: nothing for units without
    recurrent weights, and only the cells for such an LSTM.

    Args:
        checkpoint: of the model.
        deadline: after which no more steps are taken; also an attribute.

    Attributes:
        model: the discrete model.
        layout: of its task.
        ends: of its memory.
        buffers: None without.
        empty: [m] the vector that is read from an empty memory.
        start: [D] the state before the first step.

    Raises:
        CannotExtract: its memory has no discrete contents, or it reads texts.
    """

    def __init__(self, checkpoint: Checkpoint, deadline: Deadline) -> None:
        self.deadline, predictor = deadline, checkpoint.predictor
        if checkpoint.machine:
            raise CannotExtract(f"{checkpoint.path}: it is a machine already; expected a network")
        if not isinstance(predictor, NumpyModel):
            raise CannotExtract(
                f"no machine can be extracted from this model: {checkpoint.description}"
            )
        if checkpoint.layout.kind == "text":
            raise CannotExtract("the model reads a text; expected pairs of strings, or a stream")
        attributes = checkpoint.machine_attributes
        ends: Ends | None = attributes["memories"]
        if ends is None:
            name = checkpoint.config.model.memory.name
            expected = "expected stacks, queues, deques and lists, without a capacity"
            raise CannotExtract(f"memory {name} cannot be part of a machine; {expected}")
        self.ends, self.buffers, self.layout = ends, attributes["buffers"], checkpoint.layout
        self.model = replace(predictor.discretized(), threads=1)
        self.start = self.model.weights.initial[:, :, 0][self._kept]
        empty = self.model.memory.empty
        self.empty = np.full(self.model.weights.sizes.columns, empty, self.start.dtype)

    @functools.cached_property
    def _kept(self) -> Array:
        """[L, states, H] mask of the numbers in the states that the next step depends on."""
        weights = self.model.weights
        kept = np.ones(weights.initial[:, :, 0].shape, np.bool_)
        units = weights.architecture.units
        for layer, hidden in enumerate(weights.layers[1::2]):
            if not hidden.any():
                kept[layer, 0] = units.split  # a GRU keeps a share of it anyway
        return kept

    def projection(self, alphabet: int) -> Callable[[Array], Array]:
        """The projection of vectors [..., m] of an alphabet by the lowest layer, to [..., P]."""
        below, size = self.model.weights.layers[0].T, len(self.empty)
        parts = [
            below[size * index : size * (index + 1)]
            for index, end in enumerate(self.ends.reads)
            if self.ends.alphabets[end // 2] == alphabet
        ]
        weights = np.concatenate([np.zeros((size, 0), below.dtype), *parts], axis=1)
        return lambda vectors: vectors @ weights

    def _soft(self, sums: Array) -> Array:
        """The signals before rounding, from their pre-activations."""
        soft: Array = sigmoid(sums)
        if self.model.memory.takes_actions:
            signals = len(self.model.memory.signal_names)
            actions = sums[:, :signals].reshape(len(sums), self.model.memory.count, -1)
            soft[:, :signals] = np.exp(log_softmax(actions)).reshape(len(sums), -1)
        return soft

    def step(self, states: Array, ids: Ids, reads: Array) -> StepResults:
        """A step of N strings, from any states with any vectors read.

        Args:
            states: [N, D].
            ids: [N] of inputs.
            reads: [N, reads, m] the vectors that were read from the memory.

        Raises:
            OutOfTime: there is no time left for it.
            StacktransError: the model's numbers overflow.
        """
        parts, buffers = [], self.model.buffers
        for first in range(0, max(len(ids), 1), MAX_BATCH):
            self.deadline.check()
            batch = slice(first, first + MAX_BATCH)
            inputs, count = ids[batch], len(ids[batch])
            read = SoftInput(inputs, inputs, np.zeros(count)) if buffers else inputs[:, None]
            state = self.model.start(count, 1)
            state.units.transpose(2, 0, 1, 3)[:, self._kept] = states[batch]
            state.read[:] = reads[batch].reshape(count, -1)
            outputs = most_probable_ids(self.model.advance(state, read))
            if (outputs < 0).any():
                raise StacktransError(OVERFLOW)
            parts.append(self._results(state, outputs))
        return StepResults(*map(np.concatenate, zip(*parts, strict=True)))

    def _results(self, state: NumpyState, outputs: Ids) -> StepResults:
        assert state.run is not None
        weights, count = self.model.weights, self.model.weights.architecture.signals
        with np.errstate(over="ignore"):
            soft = self._soft(state.run.heads[:, :count] + weights.bias[:count])
        return StepResults(
            state.signals.astype(np.int8),
            outputs,
            state.run.values.copy(),
            state.units.transpose(2, 0, 1, 3)[:, self._kept],
            (np.minimum(soft, 1 - soft) > UNDECIDED).sum(axis=1),
        )

    def without_empty_pops(self, signals: Array, reads: Ids) -> Ids:
        """[N, signals] signals; `NOTHING` for the pop of an empty memory.

        Args:
            signals: [N, signals] 0 or 1.
            reads: [N, reads] the numbers of the vectors that were read.
        """
        kept = signals.astype(np.int64)
        memories = [end // 2 for end in self.ends.reads]
        for signal, end in self.ends.pops:
            if end // 2 in memories:
                kept[reads[:, memories.index(end // 2)] == EMPTY, signal] = NOTHING
        return kept
