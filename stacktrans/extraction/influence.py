"""Experiments: what a network would do in a step if something else stood in one of its places.

What a step depends on are places: the symbol (place 0), the vectors that are read (the next places),
and the state (the last). All are told apart by numbers.
"""

from __future__ import annotations

import numpy as np

from stacktrans.extraction.runs import EMPTY, NOTHING, Recorder, Steps
from stacktrans.kernels.compiling import Array
from stacktrans.tasks.layouts import Ids, Mask

COMPARED = 1500
"""With how many vectors one is compared to see which of them it is nearest to."""


class Told:
    """What is done in steps, in one respect: a signal, the output, a vector pushed, the next state.

    Args:
        column: which of them; see `Influence.columns`.
        numbers: [n] of the vectors that steps lead to, or signals or outputs themselves.
        values: [n] what each counts as.
    """

    def __init__(self, column: int, numbers: Ids, values: Ids) -> None:
        self.column = column
        _, first = np.unique(numbers, return_index=True)
        some = first[np.linspace(0, len(first) - 1, min(len(first), COMPARED)).astype(np.int64)]
        self.numbers, self.values = numbers[some], values[some]


class Influence:
    """Experiments with the steps of a network.

    Args:
        recorder: of the steps.
        steps: themselves.

    Attributes:
        contents: [N, places] what stands in each place.
    """

    def __init__(self, recorder: Recorder, steps: Steps) -> None:
        self._recorder, self._network = recorder, recorder.network
        operations = self._network.operations
        self._rings = [end // 2 for end, _ in operations.reads]
        self._tops = {ring: place for place, ring in reversed([*enumerate(self._rings, start=1)])}
        self._pops = {signal: self._tops.get(end // 2) for signal, end in operations.pops}
        self._push_rings = [end // 2 for _, end in operations.pushes]
        self._push_signals = [signal for signal, _ in operations.pushes]
        self._signals = steps.signals.shape[1]
        self.contents = np.column_stack([steps.inputs, steps.reads, steps.states])

    @property
    def places(self) -> int:
        """How many there are."""
        return int(self.contents.shape[1])

    def popped_empty(self, signal: int, contents: Ids) -> Mask:
        """[n] where a signal would pop, in [n, places], from what shows that it is empty."""
        place = self._pops.get(signal)
        if place is None:
            return np.zeros(len(contents), np.bool_)
        empty: Mask = contents[:, place] == EMPTY
        return empty

    def values(self, contents: Ids, told: Told) -> Ids:
        """[n] what would be done where [n, places] stand there; `NOTHING` where nothing is."""
        recorder, column = self._recorder, told.column
        reads = [
            recorder.kinds[ring].of(contents[:, place])
            for place, ring in enumerate(self._rings, start=1)
        ]
        size = self._network.size
        vectors = np.stack(reads, axis=1) if reads else np.zeros((len(contents), 0, size))
        done = self._network.step(recorder.states.of(contents[:, -1]), contents[:, 0], vectors)
        if column < self._signals:
            found = done.signals[:, column].astype(np.int64)
            found[self.popped_empty(column, contents)] = NOTHING
            return found
        if column == self._signals:
            return done.outputs
        push = column - self._signals - 1
        if push == len(self._push_rings):
            return _nearest(done.states, recorder.states.of(told.numbers), told.values)
        ring = self._push_rings[push]
        found = _nearest(done.pushed[:, push], recorder.kinds[ring].of(told.numbers), told.values)
        found[done.signals[:, self._push_signals[push]] == 0] = NOTHING
        return found


def _nearest(vectors: Array, known: Array, values: Ids) -> Ids:
    """The value of the known vector, of [n, D], that each is nearest to."""
    return values[distances(vectors, known).argmin(axis=1)]


def distances(ones: Array, others: Array) -> Array:
    """[n, m] the squares of distances of vectors [n, D] from others [m, D]."""
    squares = (ones * ones).sum(axis=1)[:, None] + (others * others).sum(axis=1)
    found: Array = squares - 2 * ones @ others.T
    return found
