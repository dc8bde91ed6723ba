"""What makes the difference where steps contradict one another: found by experiments."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stacktrans.extraction.alike import Alike
from stacktrans.extraction.classes import Classes
from stacktrans.extraction.grouping import exchanged
from stacktrans.extraction.influence import Influence, nearest
from stacktrans.extraction.runs import NOTHING
from stacktrans.kernels.compiling import Array
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


class Causes:
    """Looks for what makes the difference in conflicts.

    Args:
        alike: which steps are alike.
        influence: experiments with them.
        generator: draws those that are experimented with.
    """

    def __init__(self, alike: Alike, influence: Influence, generator: np.random.Generator) -> None:
        self._alike, self._influence, self._generator = alike, influence, generator

    def found(self, found: Conflict) -> list[Cause]:
        """What makes the difference, the commonest cause first.

        It is looked for in pairs of steps. If nothing does alone, one thing after another is
        exchanged.
        """
        contents = self._influence.contents
        ones, others = self._pairs(found)
        wanted = found.values[others]
        of_one, of_other = contents[found.rows[ones]], contents[found.rows[others]]
        single = [exchanged(of_one, of_other, [place]) for place in range(contents.shape[1])]
        causes = self._flips([of_one] * len(single), single, wanted, found.column)
        if not causes:
            order = [*range(contents.shape[1])]
            path = [of_one, *(exchanged(of_one, of_other, order[: n + 1]) for n in order)]
            causes = self._flips(path[:-1], path[1:], wanted, found.column)
        return sorted(causes, key=lambda cause: -cause.share - 0.05 * (cause.place == 0))

    def _flips(self, before: list[Ids], after: list[Ids], wanted: Ids, column: int) -> list[Cause]:
        """Causes among exchanges in each place, [n, places] before and after it."""
        count = len(wanted)
        values = self.tried(np.concatenate(after), column).reshape(-1, count)
        found = []
        for place, (steps, others, own) in enumerate(zip(before, after, values, strict=True)):
            changed = (steps[:, place] != others[:, place]) & (own == wanted)
            if changed.any():
                found.append(Cause(place, float(changed.mean()), steps[changed]))
        return found

    def _pairs(self, found: Conflict) -> tuple[Ids, Ids]:
        """Pairs of steps with different values, as places in the conflict; of each value some."""
        order = self._generator.permutation(len(found.rows))
        values = found.values[order]
        sorting = np.argsort(values, kind="stable")
        _, starts = np.unique(values[sorting], return_index=True)
        sizes = np.diff([*starts, len(values)])
        rank = np.arange(len(values)) - np.repeat(starts, sizes)
        mixed = order[sorting[np.argsort(rank, kind="stable")]][: 2 * PAIRS]
        ones = mixed[:PAIRS]
        others = [mixed[found.values[mixed] != found.values[one]] for one in ones]
        return ones, np.array([self._generator.choice(own) for own in others])

    def tried(self, contents: Ids, column: int) -> Ids:
        """[n] what would be done where [n, places] stand there; `NOTHING` where nothing is."""
        done = self._influence.done(contents)
        if column <= self._alike.output:
            return self._influence.direct(done, contents, column)
        push = column - self._alike.output - 1
        classes, _ = self._alike.results[push]
        if push == len(self._alike.push_rings):
            return self._sifted(classes, done.states, np.full(len(contents), NOTHING))
        origins = self._alike.parts[contents[:, 0]]
        found = self._sifted(classes, done.pushed[:, push], origins, EMPTY_CLASS + 1)
        found[done.signals[:, self._alike.ends.pushes[push][0]] == 0] = NOTHING
        return found

    def _sifted(self, classes: Classes, vectors: Array, origins: Ids, root: int = 0) -> Ids:
        """[n] the classes of vectors [n, D]: what each makes the network do where it was tried.

        Those that were pushed elsewhere than what was parted, by their origins [n], are apart.
        """
        found = np.full(len(vectors), root)
        for split in classes.splits:
            here = found == split.own
            if split.origins is not None:
                away = here & ~np.isin(origins, split.origins)
                found[away] = split.apart
                here &= ~away
            rows = np.flatnonzero(here)
            if not len(rows):
                continue
            known = np.zeros(len(rows), np.bool_)
            if split.column != NOTHING:
                contents = np.repeat(split.context[None], len(rows), axis=0)
                done = self._influence.done(contents, split.place, vectors[rows])
                values = self._influence.direct(done, contents, split.column)
                at = np.minimum(np.searchsorted(split.values, values), len(split.values) - 1)
                known = split.values[at] == values
                found[rows[known]] = split.classes[at[known]]
            if len(left := rows[~known]):
                assert classes.vectors is not None
                examples = classes.vectors.of(split.examples)
                found[left] = split.parts[nearest(vectors[left], examples)]
        return classes.now(found)
