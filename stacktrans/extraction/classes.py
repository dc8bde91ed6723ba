"""Classes of vectors or symbols that count as equivalent, until they are split.

At the end are functions of values of steps, [N], in groups of equivalent steps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stacktrans.extraction.network import AT_ONCE, Vectors
from stacktrans.extraction.runs import NOTHING
from stacktrans.kernels.arrays import Array
from stacktrans.tasks.alphabets import Ids

REMEMBERED = 2000
"""How many vectors without evidence are compared with."""
FEW_SYMBOLS = 8
"""Up to how many symbols of a part of a string are apart from the beginning."""


class Experiment(NamedTuple):
    """What was tried to split a class.

    Attributes:
        column: what is done that tells its parts apart; `NOTHING` if only neighbours do.
        place: where members were tried, in
        context: [places] this step.
        origins: where in strings those were pushed that it tells something of; None if of all.
    """

    column: int
    place: int
    context: Ids
    origins: Ids | None = None


NO_EXPERIMENT = Experiment(NOTHING, NOTHING, np.zeros(0, np.int64))


class Split(NamedTuple):
    """How a class was split.

    Attributes:
        own: the class.
        experiment: what was tried.
        values: what was done with those of each of
        classes: its parts.
        examples: [n] some members, and
        parts: [n] their parts.
        apart: the class of members of other origins, if there are any.
    """

    own: int
    experiment: Experiment
    values: Ids
    classes: Ids
    examples: Ids
    parts: Ids
    apart: int


class Classes:
    """The classes of some vectors or symbols.

    Args:
        of: [N] the class of each.
        vectors: themselves; None for symbols.

    Attributes:
        of: [N] the class of each.
        vectors: themselves; None for symbols.
        sure: [N] whether there is evidence for it.
        met: [N] whether there ever was.
        count: how many classes there are.
        splits: how classes were split, in order.
        joined: of classes that became part of another, that one.
    """

    def __init__(self, of: Ids, vectors: Vectors | None) -> None:
        self.of, self.vectors = of, vectors
        self.sure, self.met = np.ones(len(of), np.bool_), np.zeros(len(of), np.bool_)
        self.count = int(of.max(initial=0)) + 1
        self.splits: list[Split] = []
        self.joined: dict[int, int] = {}
        self._parted: list[dict[int, int]] = []

    @property
    def there(self) -> list[int]:
        """The classes that anything is of."""
        found: list[int] = np.unique(self.of).tolist()
        return found

    def known(self, numbers: Ids) -> Ids:
        """The classes of some that there is evidence for; `NOTHING` for others."""
        return np.where((numbers >= 0) & self.sure[numbers], self.of[numbers], NOTHING)

    def told(self, numbers: Ids, values: Ids) -> float:
        """How well vectors, [n], tell values, [n]: the mean share that the nearest other tells."""
        assert self.vectors is not None
        apart = distances(vectors := self.vectors.of(numbers), vectors)
        np.fill_diagonal(apart, np.inf)
        right = values[apart.argmin(axis=1)] == values
        return float(np.mean([right[values == each].mean() for each in np.unique(values)]))

    def part(
        self,
        numbers: Ids,
        values: Ids,
        others: Ids,
        likely: Ids,
        experiment: Experiment = NO_EXPERIMENT,
        lasting: bool = False,
        apart: Ids | None = None,
    ) -> bool:
        """Part a class by the values of its members; whether that parts it.

        Args:
            numbers: members for which there is evidence.
            values: theirs.
            others: the other members.
            likely: what their values may be; of vectors, those that none of the first has do not
                count.
            experiment: what told values.
            lasting: whether what is parted is kept apart.
            apart: members of which the values tell nothing: they become a class of their own.
        """
        own = int(self.of[numbers[0]])
        if self.vectors is None:
            numbers, values = np.append(numbers, others), np.append(values, likely)
            others, likely = others[:0], likely[:0]
        different, counts = np.unique(values, return_counts=True)
        if len(different) < 2:
            return False
        ranked = np.argsort(-counts, kind="stable")
        fresh = np.empty(len(ranked), np.int64)
        fresh[ranked] = np.concatenate([[own], self.count + np.arange(len(ranked) - 1)])
        classes = fresh[np.searchsorted(different, values)]
        self.of[numbers] = classes
        some = np.linspace(0, len(numbers) - 1, min(len(numbers), REMEMBERED)).astype(np.int64)
        away = NOTHING if apart is None else self.count + len(ranked) - 1
        self.splits.append(
            Split(own, experiment, different, fresh, numbers[some], classes[some], away)
        )
        found = np.minimum(np.searchsorted(different, likely), len(different) - 1)
        known = different[found] == likely
        self.of[others[known]] = fresh[found[known]]
        if len(left := others[~known]) and self.vectors is not None:
            vectors = self.vectors.of(left), self.vectors.of(numbers[some])
            self.of[left] = classes[some][nearest(*vectors)]
        self.met[numbers] = True
        self.sure[others] = self.met[others] & known
        self.count += len(ranked) - 1
        if apart is not None:
            self.of[apart], self.count = away, self.count + 1
            self.sure[apart] &= self.met[apart]
            fresh = np.append(fresh, away)
        for parted in self._parted:
            if own in parted:
                parted.update(dict.fromkeys(fresh.tolist(), parted[own]))
        if lasting:
            self._parted.append({each: each for each in fresh.tolist()})
        return True

    def value_of(self, own: int, column: int) -> int:
        """What is done with members of a class by which it was parted last; `NOTHING` if it is new.

        Args:
            own: the class.
            column: which of the things done.
        """
        for split in reversed(self.splits):
            if split.experiment.column == column != NOTHING and own in split.classes:
                return int(split.values[split.classes == own][0])
        return NOTHING

    def join(self, one: int, other: int) -> None:
        """Make two classes one."""
        self.of[self.of == other] = one
        self.joined[other] = one

    def now(self, classes: Ids) -> Ids:
        """[n] what classes have become by joining them."""
        found = classes.copy()
        for each in np.unique(classes).tolist():
            other = each
            while other in self.joined:
                other = self.joined[other]
            found[classes == each] = other
        return found

    def kept_apart(self, one: int, other: int) -> bool:
        """Whether two classes have been parted for good."""
        return any(
            one in parted and other in parted and parted[one] != parted[other]
            for parted in self._parted
        )


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


def few_apart(parts: Ids) -> Ids:
    """Classes of symbols by their parts of strings; those of a part with few are apart at once."""
    sizes = np.bincount(parts)[parts]
    alone = parts.max() + 1 + np.arange(len(parts))
    classes: Ids = np.unique(np.where(sizes <= FEW_SYMBOLS, alone, parts), return_inverse=True)[1]
    return classes.reshape(-1)


def usual_values(numbers: Ids, values: Ids) -> Ids:
    """The value that each different number, in order, has most often."""
    pairs, counts = np.unique(np.column_stack([numbers, values]), axis=0, return_counts=True)
    order = np.lexsort([-counts, pairs[:, 0]])
    _, first = np.unique(pairs[order, 0], return_index=True)
    usual: Ids = pairs[order][first, 1]
    return usual


def bounds(values: Ids, groups: Ids, count: int) -> tuple[Ids, Ids]:
    """The least and the greatest value of each group; `NOTHING` does not count."""
    known = values != NOTHING
    first = np.full(count, np.iinfo(np.int64).max)
    last = np.full(count, NOTHING)
    np.minimum.at(first, groups[known], values[known])
    np.maximum.at(last, groups[known], values[known])
    return first, last


def divided(values: Ids, groups: Ids, count: int, tolerance: float = 0.0, few: float = 0.0) -> Ids:
    """The groups that have different values, but for a share of steps, and a few more."""
    first, last = bounds(values, groups, count)
    found = np.flatnonzero((last != NOTHING) & (first != last))
    if not tolerance or not len(found):
        return found
    most, total = counted(values, groups, count)
    return found[total[found] - most[found] > tolerance * total[found] + few]


def counted(values: Ids, groups: Ids, count: int) -> tuple[Ids, Ids]:
    """How many steps of each group have its commonest value, and how many any."""
    known = values != NOTHING
    room = int(values.max(initial=0)) + 1
    pairs, counts = np.unique(groups[known] * room + values[known], return_counts=True)
    most, total = np.zeros((2, count), np.int64)
    np.maximum.at(most, pairs // room, counts)
    np.add.at(total, pairs // room, counts)
    return most, total


def deviating(values: Ids, groups: Ids, count: int) -> int:
    """How many steps do otherwise than most of their group."""
    most, total = counted(values, groups, count)
    return int((total - most).sum())
