"""Experiments: what a network would do in a step if something else stood in one of its places.

What a step depends on are places: the symbol (place 0), the vectors that are read (the next
places), and the state (the last). All are told apart by numbers. Where steps contradict one
another, experiments find what makes the difference.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stacktrans.extraction.alike import Alike
from stacktrans.extraction.classes import Classes, nearest
from stacktrans.extraction.network import Deadline, Outcome
from stacktrans.extraction.runs import NOTHING, Recorder
from stacktrans.kernels.arrays import Array
from stacktrans.tasks.alphabets import Ids

PAIRS = 64
"""How many pairs of steps that contradict one another are experimented with."""
EMPTY_CLASS = 0
"""The class of what is read when a ring is empty."""


class Conflict(NamedTuple):
    """Steps that are alike, but not in what is done.

    Attributes:
        rows: [n] their numbers.
        values: [n] what is done.
        column: which of the things done.
        name: what tells it from other conflicts.
    """

    rows: Ids
    values: Ids
    column: int
    name: tuple[int, ...]

    def ranked(self, generator: np.random.Generator) -> tuple[Ids, Ids]:
        """Its steps in random order by their values, and the rank of each among those of its value.

        Returns:
            [n] places in the conflict, and [n] ranks, from 0.
        """
        order = generator.permutation(len(self.rows))
        order = order[np.argsort(self.values[order], kind="stable")]
        _, starts = np.unique(self.values[order], return_index=True)
        sizes = np.diff([*starts, len(order)])
        return order, np.arange(len(order)) - np.repeat(starts, sizes)


class Cause(NamedTuple):
    """What makes the difference in a conflict.

    Attributes:
        place: where it stands.
        share: the share of pairs of steps in which it does.
        contexts: [n, places] steps in which other things there change what is done.
    """

    place: int
    share: float
    contexts: Ids


class Experiments:
    """Experiments with the steps of a network.

    Args:
        recorder: of the steps.
        alike: which of them are alike.
        generator: draws those that are experimented with.
        deadline: after which there are no more.
    """

    def __init__(
        self, recorder: Recorder, alike: Alike, generator: np.random.Generator, deadline: Deadline
    ) -> None:
        self._recorder, self._network = recorder, recorder.network
        self._alike, self._generator, self._deadline = alike, generator, deadline

    def causes(self, found: Conflict) -> list[Cause]:
        """What makes the difference, the commonest cause first.

        It is looked for in pairs of steps. If nothing does alone, one thing after another is
        exchanged.
        """
        contents = self._alike.contents
        ones, others = self._pairs(found)
        wanted = found.values[others]
        of_one, of_other = contents[found.rows[ones]], contents[found.rows[others]]
        order = [*range(contents.shape[1])]
        single = [_exchanged(of_one, of_other, [place]) for place in order]
        causes = self._flips([of_one] * len(single), single, wanted, found.column)
        if not causes:
            path = [of_one, *(_exchanged(of_one, of_other, order[: n + 1]) for n in order)]
            causes = self._flips(path[:-1], path[1:], wanted, found.column)
        return sorted(causes, key=lambda cause: -cause.share - 0.05 * (cause.place == 0))

    def _flips(self, before: list[Ids], after: list[Ids], wanted: Ids, column: int) -> list[Cause]:
        """Causes among exchanges in each place, [n, places] before and after it."""
        values = self.tried(np.concatenate(after), column).reshape(-1, len(wanted))
        found = []
        for place, (steps, others, own) in enumerate(zip(before, after, values, strict=True)):
            changed = (steps[:, place] != others[:, place]) & (own == wanted)
            if changed.any():
                found.append(Cause(place, float(changed.mean()), steps[changed]))
        return found

    def _pairs(self, found: Conflict) -> tuple[Ids, Ids]:
        """Pairs of steps with different values, as places in the conflict; of each value some."""
        order, rank = found.ranked(self._generator)
        mixed = order[np.argsort(rank, kind="stable")][: 2 * PAIRS]
        ones = mixed[:PAIRS]
        others = [mixed[found.values[mixed] != found.values[one]] for one in ones]
        return ones, np.array([self._generator.choice(own) for own in others])

    def tried(self, contents: Ids, column: int) -> Ids:
        """[n] what would be done where [n, places] stand there; `NOTHING` where nothing is."""
        done = self._done(contents)
        if column <= self._alike.output:
            return self._direct(done, contents, column)
        push = column - self._alike.output - 1
        classes, _ = self._alike.results[push]
        if push == len(self._alike.push_rings):
            return self._sifted(classes, done.states, np.full(len(contents), NOTHING))
        origins = self._alike.parts[contents[:, 0]]
        found = self._sifted(classes, done.pushed[:, push], origins, EMPTY_CLASS + 1)
        found[done.signals[:, self._alike.ends.pushes[push][0]] == 0] = NOTHING
        return found

    def _done(
        self, contents: Ids, place: int | None = None, vectors: Array | None = None
    ) -> Outcome:
        """What would be done where [n, places] stand there, and in one place, vectors [n, D].

        Raises:
            OutOfTime: there is no time left for it.
        """
        recorder, rings, empty = self._recorder, self._alike.read_rings, self._network.empty
        read = np.zeros((len(contents), len(rings), len(empty)), empty.dtype)
        for at, ring in enumerate(rings, start=1):
            other = at == place and vectors is not None
            read[:, at - 1] = vectors if other else recorder.kinds[ring].of(contents[:, at])
        states = recorder.states.of(contents[:, -1])
        if place == contents.shape[1] - 1 and vectors is not None:
            states = vectors
        return self._network.step(states, contents[:, 0], read, self._deadline.check)

    def _direct(self, done: Outcome, contents: Ids, column: int) -> Ids:
        """[n] a signal that is given, or the output; `NOTHING` where it does not matter."""
        if column == self._alike.output:
            return done.outputs
        found: Ids = done.signals[:, column].astype(np.int64)
        found[self._alike.popped_empty(column, contents)] = NOTHING
        return found

    def _sifted(self, classes: Classes, vectors: Array, origins: Ids, root: int = 0) -> Ids:
        """[n] the classes of vectors [n, D]: what each makes the network do where it was tried.

        Those that were pushed elsewhere than what was parted, by their origins [n], are apart.
        """
        found = np.full(len(vectors), root)
        for split in classes.splits:
            here, tried = found == split.own, split.experiment
            if tried.origins is not None:
                away = here & ~np.isin(origins, tried.origins)
                found[away] = split.apart
                here &= ~away
            rows = np.flatnonzero(here)
            if not len(rows):
                continue
            known = np.zeros(len(rows), np.bool_)
            if tried.column != NOTHING:
                contents = np.repeat(tried.context[None], len(rows), axis=0)
                done = self._done(contents, tried.place, vectors[rows])
                values = self._direct(done, contents, tried.column)
                at = np.minimum(np.searchsorted(split.values, values), len(split.values) - 1)
                known = split.values[at] == values
                found[rows[known]] = split.classes[at[known]]
            if len(left := rows[~known]):
                assert classes.vectors is not None
                examples = classes.vectors.of(split.examples)
                found[left] = split.parts[nearest(vectors[left], examples)]
        return classes.now(found)


def _exchanged(contents: Ids, others: Ids, places: list[int]) -> Ids:
    """[n, places] the same with other things in some places."""
    found = contents.copy()
    found[:, places] = others[:, places]
    return found
