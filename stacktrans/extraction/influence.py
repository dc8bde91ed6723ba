"""Experiments: what a network would do in a step if something else stood in one of its places.

What a step depends on are places: the symbol (place 0), the vectors that are read (the next
places), and the state (the last). All are told apart by numbers.
"""

from __future__ import annotations

import numpy as np

from stacktrans.extraction.deadline import UNLIMITED, Deadline
from stacktrans.extraction.network import AT_ONCE, Outcome
from stacktrans.extraction.runs import EMPTY, NOTHING, Recorder, Steps
from stacktrans.kernels.compiling import Array
from stacktrans.tasks.alphabets import Ids, Mask


class Influence:
    """Experiments with the steps of a network.

    Args:
        recorder: of the steps.
        steps: themselves.
        deadline: after which there are no more.

    Attributes:
        contents: [N, places] what stands in each place.
    """

    def __init__(self, recorder: Recorder, steps: Steps, deadline: Deadline = UNLIMITED) -> None:
        self._recorder, self._network, self._deadline = recorder, recorder.network, deadline
        ends = self._network.ends
        self._rings = [end // 2 for end in ends.reads]
        self._tops = {ring: place for place, ring in reversed([*enumerate(self._rings, start=1)])}
        self._pops = {signal: self._tops.get(end // 2) for signal, end in ends.pops}
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

    def done(
        self, contents: Ids, place: int | None = None, vectors: Array | None = None
    ) -> Outcome:
        """What would be done where [n, places] stand there, and in one place, vectors [n, D].

        Raises:
            OutOfTime: there is no time left for it.
        """
        recorder, size = self._recorder, self._network.size
        read = np.zeros((len(contents), len(self._rings), size), self._network.empty.dtype)
        for at, ring in enumerate(self._rings, start=1):
            other = at == place and vectors is not None
            read[:, at - 1] = vectors if other else recorder.kinds[ring].of(contents[:, at])
        states = recorder.states.of(contents[:, -1])
        if place == self.places - 1 and vectors is not None:
            states = vectors
        return self._network.step(states, contents[:, 0], read, self._deadline.check)

    def direct(self, done: Outcome, contents: Ids, column: int) -> Ids:
        """[n] a signal that is given, or the output; `NOTHING` where it does not matter."""
        if column == self._signals:
            return done.outputs
        found: Ids = done.signals[:, column].astype(np.int64)
        found[self.popped_empty(column, contents)] = NOTHING
        return found


def distances(ones: Array, others: Array) -> Array:
    """[n, m] the squares of distances of vectors [n, D] from others [m, D]."""
    squares = (ones * ones).sum(axis=1)[:, None] + (others * others).sum(axis=1)
    found: Array = squares - 2 * ones @ others.T
    return found


def nearest(ones: Array, others: Array) -> Ids:
    """[n] which of the vectors [m, D] is nearest to each of some [n, D]."""
    parts = [
        distances(ones[first : first + AT_ONCE], others).argmin(axis=1)
        for first in range(0, len(ones), AT_ONCE)
    ]
    return np.concatenate(parts)
