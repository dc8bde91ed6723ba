"""Runs of a hard network: what it did at each step, with its own memory."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from stacktrans.common.errors import OVERFLOW
from stacktrans.decoding.decoder import Step, decode, outputs_of, predict
from stacktrans.decoding.model import Mixed
from stacktrans.extraction.network import UNLIMITED, Deadline, Network, Vectors
from stacktrans.kernels.compiling import Array
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
        states: [B, D] of the network.
        numbers: [B] of these.
        rings: of each string, what each ring holds, the bottom first: numbers of vectors, and the
            vectors.
        signals: [B, signals] of the last step.
        steps: the last step of each, but for the outputs.
    """

    states: Array
    numbers: Ids
    rings: list[list[deque[tuple[int, Array]]]]
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
        self._pops = [(signal, *divmod(end, 2)) for signal, end in ends.pops]
        self._pushes = [(signal, *divmod(end, 2)) for signal, end in ends.pushes]
        self._moves = [
            (signal, *divmod(taken, 2), *divmod(put, 2)) for signal, taken, put in ends.moves
        ]
        self._reads = [
            (end // 2, deep if end % 2 else -1 - deep, deep) for end, deep in ends.places
        ]
        self.parts = parts_of(network.layout, network.nothing + 1)

    def steps(self) -> Steps:
        """The different steps so far."""
        counts = [len(self._reads), self.network.model.weights.signals, len(self._pushes)]
        widths = np.array([1, 1, counts[0], counts[1], 1, counts[2], 1])
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
        signals = np.zeros((batch, self.network.model.weights.signals))
        rings: list[list[deque[tuple[int, Array]]]]
        rings = [[deque() for _ in self.kinds] for _ in range(batch)]
        states = np.repeat(self.network.start[None], batch, axis=0)
        return _Run(states, np.zeros(batch, np.int64), rings, signals)

    def select(self, state: _Run, items: Ids) -> _Run:
        """See `Model.select`; of an item that is there several times, what it holds is shared."""
        rings = [state.rings[item] for item in items.tolist()]
        return _Run(state.states[items], state.numbers[items], rings, state.signals[items])

    def advance(self, state: _Run, ids: Ids | Mixed, asked: Mask | None = None) -> Array:
        """See `Model.advance`; of single steps."""
        if self._deadline.over:
            raise _Over
        symbols = ids.ids if isinstance(ids, Mixed) else ids[:, 0]
        symbols = np.where(symbols < 0, self.network.nothing, symbols)
        read_numbers, reads = self._read(state.rings)
        done = self.network.step(state.states, symbols, reads)
        self.undecided += done.undecided
        self.signals += done.signals.size
        signals, nothing = done.signals.astype(np.int64), np.full(len(symbols), NOTHING)
        pushed = self._numbers_of(done.pushed, signals)
        for row, rings in enumerate(state.rings):
            self._operate(rings, signals[row], pushed[row], done.pushed[row])
        before, state.states, state.signals = state.numbers, done.states, signals
        state.numbers = self.states.add(done.states)
        state.steps = Steps(before, symbols, read_numbers, signals, nothing, pushed, state.numbers)
        return done.logits

    def _read(self, strings: Sequence[list[deque[tuple[int, Array]]]]) -> tuple[Ids, Array]:
        """What strings read: numbers [N, reads], and vectors [N, reads, m]."""
        empty = (EMPTY, self.network.empty)
        read = [
            [
                held[place] if len(held := string[ring]) > deep else empty
                for ring, place, deep in self._reads
            ]
            for string in strings
        ]
        numbers = np.array([[number for number, _ in row] for row in read], np.int64)
        vectors = np.array(
            [[vector for _, vector in row] for row in read], self.network.empty.dtype
        )
        shape = (len(strings), len(self._reads))
        return numbers.reshape(shape), vectors.reshape(*shape, self.network.size)

    def _numbers_of(self, pushed: Array, signals: Ids) -> Ids:
        """The numbers of vectors [N, pushes, m] that are pushed."""
        found = np.full(pushed.shape[:2], NOTHING)
        for place, (signal, ring, _) in enumerate(self._pushes):
            rows = signals[:, signal] == 1
            found[rows, place] = self.kinds[ring].add(pushed[rows, place])
        return found

    def _operate(
        self, string: list[deque[tuple[int, Array]]], signals: Ids, pushed: Ids, vectors: Array
    ) -> None:
        """Pop, push and move; the signal of a pop from a ring that was empty becomes 0."""
        empty = [not held for held in string]
        for signal, ring, side in self._pops:
            held = string[ring]
            if empty[ring]:
                signals[signal] = 0
            elif signals[signal] and held:
                held.popleft() if side else held.pop()
        for place, (signal, ring, side) in enumerate(self._pushes):
            if signals[signal]:
                held, entry = string[ring], (int(pushed[place]), vectors[place])
                held.appendleft(entry) if side else held.append(entry)
        for signal, ring, side, onto, other in self._moves:
            if signals[signal]:
                held, target = string[ring], string[onto]
                entry = (EMPTY, self.network.empty)
                if held:
                    entry = held.popleft() if side else held.pop()
                target.appendleft(entry) if other else target.append(entry)
