"""Runs of a hard network: what it did at each step."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from stacktrans.common.errors import OVERFLOW
from stacktrans.decoding.decoder import Step, decode, outputs_of, predict
from stacktrans.decoding.model import Mixed
from stacktrans.extraction.network import UNLIMITED, Deadline, Network, Vectors
from stacktrans.kernels.arrays import Array
from stacktrans.model.arrays import State
from stacktrans.tasks.alphabets import Ids, Mask
from stacktrans.tasks.layout import BEGIN, SEPARATOR, TARGET, Layout

NOTHING = -1
"""Stands for what does not matter: a vector that is not pushed, an output that nobody asks for."""
EMPTY = 0
"""The number of the vector that is read from an empty memory."""


class Steps(NamedTuple):
    """What a network did in N steps, as numbers of vectors.

    Attributes:
        states: [N] before each.
        inputs: [N] the id read.
        reads: [N, reads] what was read from each end before it.
        signals: [N, signals] 0 or 1; 0 for the pop of a memory that was empty.
        outputs: [N] what was said; `NOTHING` where nobody asks.
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

    @property
    def table(self) -> Ids:
        """[N, columns] all of it."""
        parts = [part.reshape(len(self.states), -1) for part in self]
        return np.concatenate(parts, axis=1)


def parts_of(layout: Layout, inputs: int) -> Ids:
    """[inputs] which part of a string each id belongs to; sources, blanks and no input are one."""
    numbers = {BEGIN: 2, SEPARATOR: 3, TARGET: 4}
    sections, counts = zip(*layout.sections, strict=True)
    parts = np.ones(inputs, np.int64)
    parts[: layout.inputs] = np.repeat([numbers.get(each, 1) for each in sections], counts)
    return parts


class _Over(Exception):
    """There is no time left."""


@dataclass
class _Run:
    """B strings on their way through a network.

    Attributes:
        state: of the network and its memory.
        numbers: [B] of the states of the units.
        sizes: [B, rings] how many vectors each ring holds.
        signals: [B, signals] of the last step.
        steps: the last step of each, but for the outputs.
    """

    state: State
    numbers: Ids
    sizes: Ids
    signals: Array
    steps: Steps | None = None


class Recorder:
    """Runs strings through a network, as the decoder's model, and keeps each different step once.

    Args:
        network: what is run.
        grid: see `Vectors`.
        deadline: after which runs are broken off; the steps that were met until then count.

    Attributes:
        states: those that were met; the first is the initial one.
        kinds: of each ring, the vectors pushed; the first is what is read when it is empty.
        undecided: how many signals were undecided.
        signals: how many there were.
        strings: how many strings were run.
        parts: see `parts_of`.
    """

    failure: ClassVar[str] = OVERFLOW
    certain: ClassVar[bool] = False
    threads = 1

    def __init__(self, network: Network, grid: float, deadline: Deadline = UNLIMITED) -> None:
        self.network, self._deadline = network, deadline
        self.buffers = network.model.buffers
        self.states = Vectors(network.start, grid)
        ends = network.ends
        own = [Vectors(network.empty, grid) for _ in ends.names]
        self.kinds = [own[alphabet] for alphabet in ends.alphabets]
        self.undecided = self.signals = self.strings = 0
        self._met: dict[bytes, None] = {}
        self.parts = parts_of(network.layout, network.nothing + 1)

    def steps(self) -> Steps:
        """The different steps so far."""
        ends, signals = self.network.ends, self.network.model.weights.signals
        widths = np.array([1, 1, len(ends.reads), signals, 1, len(ends.pushes), 1])
        table = np.frombuffer(b"".join(self._met), np.int64).reshape(-1, int(widths.sum()))
        parts = np.split(table, np.cumsum(widths)[:-1], axis=1)
        flat = {0, 1, 4, 6}
        return Steps(*(part[:, 0] if place in flat else part for place, part in enumerate(parts)))

    def run(self, sources: Sequence[Ids], scored: Sequence[Mask | None]) -> None:
        """Record the network's steps over some strings.

        Args:
            sources: ids of source symbols; of a stream, all that is read.
            scored: of each, which of its outputs matter; None for all.
        """
        self.strings += len(sources)
        layout, ended = self.network.layout, np.zeros(len(sources), np.bool_)

        def observe(step: Step) -> None:
            outputs = outputs_of(step.logits)
            for row, (item, answer) in enumerate(zip(step.items, step.answers, strict=True)):
                own = scored[item]
                if answer < 0 or ended[item] or (own is not None and not own[answer]):
                    outputs[row] = NOTHING
            if not layout.consecutive:  # otherwise another sequence follows
                ended[step.items] |= outputs == layout.end
            table = step.state.steps._replace(outputs=outputs).table
            self._met.update(dict.fromkeys(row.tobytes() for row in table))

        with contextlib.suppress(_Over):
            if layout.consecutive:
                predict(self, sources, logs=False, observe=observe)
            else:
                decode(self, layout, sources, logs=False, observe=observe)

    def start(self, batch: int, steps: int = 0) -> _Run:
        """See `Model.start`."""
        sizes = np.zeros((batch, len(self.kinds)), np.int64)
        signals = np.zeros((batch, self.network.model.weights.signals))
        state = self.network.model.start(batch, steps)
        return _Run(state, np.zeros(batch, np.int64), sizes, signals)

    def select(self, state: _Run, items: Ids) -> _Run:
        """See `Model.select`."""
        own = self.network.model.select(state.state, items)
        return _Run(own, state.numbers[items], state.sizes[items], state.signals[items])

    def advance(self, state: _Run, ids: Ids | Mixed, asked: Mask | None = None) -> Array:
        """See `Model.advance`; of single steps."""
        if self._deadline.over:
            raise _Over
        symbols = ids.ids if isinstance(ids, Mixed) else ids[:, 0]
        symbols = np.where(symbols < 0, self.network.nothing, symbols)
        ends, count = self.network.ends, len(symbols)
        read = state.state.read.reshape(count, len(ends.reads), -1)
        reads = np.zeros(read.shape[:2], np.int64)
        for place, end in enumerate(ends.reads):
            reads[:, place] = self.kinds[end // 2].add(read[:, place])
        done = self.network.advance(state.state, symbols)
        self.undecided += done.undecided
        self.signals += done.signals.size
        signals, nothing = done.signals.astype(np.int64), np.full(count, NOTHING)
        pushed = np.full(done.pushed.shape[:2], NOTHING)
        for place, (signal, end) in enumerate(ends.pushes):
            rows = signals[:, signal] == 1
            pushed[rows, place] = self.kinds[end // 2].add(done.pushed[rows, place])
        self._resize(state.sizes, signals)
        before, state.numbers = state.numbers, self.states.add(done.states)
        state.signals = signals
        state.steps = Steps(before, symbols, reads, signals, nothing, pushed, state.numbers)
        return done.logits

    def _resize(self, sizes: Ids, signals: Ids) -> None:
        """Count what rings hold; the signal of a pop from a ring that was empty becomes 0."""
        ends, empty = self.network.ends, sizes == 0
        for signal, end in ends.pops:
            signals[empty[:, end // 2], signal] = 0
            sizes[:, end // 2] = np.maximum(sizes[:, end // 2] - signals[:, signal], 0)
        for signal, end in ends.pushes:
            sizes[:, end // 2] += signals[:, signal]
        for signal, taken, put in ends.moves:
            sizes[:, taken // 2] = np.maximum(sizes[:, taken // 2] - signals[:, signal], 0)
            sizes[:, put // 2] += signals[:, signal]
