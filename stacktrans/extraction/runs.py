"""Runs of a hard network: what it did at each step, with its own memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from stacktrans.extraction.network import UNLIMITED, Deadline, Network, Vectors
from stacktrans.kernels.compiling import Array
from stacktrans.tasks.alphabets import Ids
from stacktrans.tasks.layouts import InStep, JointSequence, Layout, Padded, Stream

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
    """[inputs] which part of what is read each id belongs to: where it stands, others do not."""
    parts = np.ones(inputs, np.int64)
    if isinstance(layout, JointSequence):
        parts[[layout.begin, layout.separator]] = 2, 3
        parts[layout.first_target : layout.inputs] = 4
    return parts


@dataclass
class _String:
    """A string on its way through a network.

    Attributes:
        index: which of several.
        given: [n] ids of what is read before it says anything that it reads itself; all of a
            stream.
        limit: how many symbols it may say.
        scored: of each symbol said, whether it matters; None where all do.
        rings: what each ring holds, the bottom first: numbers of vectors, and the vectors.
        said: what it has said.
        written: how much has been written to the output buffer.
        place: how much has been read of the input buffer.
    """

    index: int
    given: list[int]
    limit: int
    scored: Sequence[bool] | None
    rings: list[deque[tuple[int, Array]]]
    said: list[int] = field(default_factory=list)
    written: int = 0
    place: int = 0
    ended: bool = False


class Recorder:
    """Runs strings through a network and keeps each different step once.

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

    def __init__(self, network: Network, grid: float, deadline: Deadline = UNLIMITED) -> None:
        self.network, self._deadline = network, deadline
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

    def run(
        self, sources: Sequence[Ids], scored: Sequence[Sequence[bool] | None] | None = None
    ) -> list[list[int]]:
        """What the network says to each of some sources, its end included, if there is one.

        Args:
            sources: ids of source symbols.
            scored: of each symbol said to each of them, whether it matters; None where all do.
                In streams, sources are all that is read, and it is told of every step.
        """
        network = self.network
        self.strings += len(sources)
        all_scored = scored or [None] * len(sources)
        strings = [
            self._begun(index, source, own)
            for index, (source, own) in enumerate(zip(sources, all_scored, strict=True))
        ]
        active = [string for string in strings if self._goes_on(string, 0)]
        states = np.repeat(network.start[None], len(active), axis=0)
        numbers = np.zeros(len(active), np.int64)
        step = 0
        while active and not self._deadline.over:
            ids = np.array([self._input(string, step) for string in active])
            read_numbers, reads = self._read(active)
            done = network.step(states, ids, reads)
            self.undecided += done.undecided
            self.signals += done.signals.size
            signals, outputs = done.signals.astype(np.int64), np.full(len(active), NOTHING)
            pushed = self._numbers_of(done.pushed, signals)
            for row, string in enumerate(active):
                self._operate(string, signals[row], pushed[row], done.pushed[row])
                outputs[row] = self._say(string, step, signals[row], int(done.outputs[row]))
            after = self.states.add(done.states)
            found = Steps(numbers, ids, read_numbers, signals, outputs, pushed, after)
            self._met.update(dict.fromkeys(row.tobytes() for row in found.table))
            step += 1
            staying = [row for row, each in enumerate(active) if self._goes_on(each, step)]
            active = [active[row] for row in staying]
            states, numbers = done.states[staying], after[staying]
        return [string.said for string in strings]

    def _begun(self, index: int, source: Ids, scored: Sequence[bool] | None) -> _String:
        layout = self.network.layout
        rings: list[deque[tuple[int, Array]]] = [deque() for _ in self.kinds]
        if isinstance(layout, JointSequence):
            limit = layout.longest_answer(len(source), None)
            return _String(index, layout.prefix(source).tolist(), limit, scored, rings)
        if isinstance(layout, Stream):
            return _String(index, source.tolist(), len(source), scored, rings)
        assert isinstance(layout, InStep)
        given = layout.read(source).tolist()
        return _String(index, given, len(given), scored, rings)

    def _goes_on(self, string: _String, step: int) -> bool:
        """Whether there is a step, by its number."""
        if isinstance(self.network.layout, JointSequence):
            return not string.ended
        return step < self.network.model.config.steps_over(len(string.given))

    def _input(self, string: _String, step: int) -> int:
        """The id that is read."""
        layout, given = self.network.layout, string.given
        if isinstance(layout, JointSequence):
            own = len(given) <= step
            return layout.first_target + string.said[-1] if own else given[step]
        if not self.network.model.config.buffers:
            return given[step]
        return given[string.place] if string.place < len(given) else self.network.nothing

    def _read(self, strings: Sequence[_String]) -> tuple[Ids, Array]:
        """What strings read: numbers [N, reads], and vectors [N, reads, m]."""
        empty = (EMPTY, self.network.empty)
        read = [
            [
                held[place] if len(held := string.rings[ring]) > deep else empty
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

    def _operate(self, string: _String, signals: Ids, pushed: Ids, vectors: Array) -> None:
        """Pop, push and move; the signal of a pop from a ring that was empty becomes 0."""
        empty = [not held for held in string.rings]
        for signal, ring, side in self._pops:
            held = string.rings[ring]
            if empty[ring]:
                signals[signal] = 0
            elif signals[signal] and held:
                held.popleft() if side else held.pop()
        for place, (signal, ring, side) in enumerate(self._pushes):
            if signals[signal]:
                held, entry = string.rings[ring], (int(pushed[place]), vectors[place])
                held.appendleft(entry) if side else held.append(entry)
        for signal, ring, side, onto, other in self._moves:
            if signals[signal]:
                held, target = string.rings[ring], string.rings[onto]
                entry = (EMPTY, self.network.empty)
                if held:
                    entry = held.popleft() if side else held.pop()
                target.appendleft(entry) if other else target.append(entry)

    def _say(self, string: _String, step: int, signals: Ids, output: int) -> int:
        """Have a string say an output if it is asked; gives it back if it matters."""
        layout, buffers = self.network.layout, self.network.model.config.buffers
        if isinstance(layout, JointSequence):
            if step < len(string.given) - 1:
                return NOTHING
            string.said.append(output)
            string.ended = output == layout.end or len(string.said) > string.limit
            return output
        if isinstance(layout, Stream):
            string.said.append(output)
            return output if string.scored is None or string.scored[step] else NOTHING
        if buffers:
            string.place += int(signals[-2])
            string.written += int(signals[-1])
            asked = signals[-1] and string.written > buffers.output_skip
            if not asked or len(string.said) == string.limit:
                return NOTHING
        string.said.append(output)
        matters = not string.ended and (not string.scored or string.scored[len(string.said) - 1])
        string.ended |= isinstance(layout, Padded) and output == layout.end
        return output if matters else NOTHING
