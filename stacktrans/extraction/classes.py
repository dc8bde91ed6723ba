"""Classes of vectors or symbols that count as alike, until they are parted."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from stacktrans.extraction.influence import distances
from stacktrans.extraction.runs import NOTHING
from stacktrans.extraction.vectors import Vectors
from stacktrans.tasks.layouts import Ids, Mask

REMEMBERED = 2000
"""How many vectors without evidence are compared with."""


@dataclass
class Classes:
    """The classes of some vectors or symbols.

    Attributes:
        of: [N] the class of each.
        sure: [N] whether there is evidence for it.
        met: [N] whether there ever was.
        count: how many classes there are.
        vectors: themselves; None for symbols.
    """

    of: Ids
    vectors: Vectors | None
    sure: Mask = field(init=False)
    met: Mask = field(init=False)
    count: int = field(init=False)

    def __post_init__(self) -> None:
        self.sure = np.ones(len(self.of), np.bool_)
        self._parted: list[dict[int, int]] = []
        self.met = np.zeros(len(self.of), np.bool_)
        self.count = int(self.of.max(initial=0)) + 1

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
        self, numbers: Ids, values: Ids, others: Ids, likely: Ids, lasting: bool = False
    ) -> bool:
        """Part a class by the values of its members; whether that parts it.

        Args:
            numbers: members for which there is evidence.
            values: theirs.
            others: the other members.
            likely: what their values may be; of vectors, those that none of the first has do not
                count.
            lasting: whether what is parted is kept apart.
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
        found = np.minimum(np.searchsorted(different, likely), len(different) - 1)
        known = different[found] == likely
        self.of[others[known]] = fresh[found[known]]
        if len(left := others[~known]) and self.vectors is not None:
            some = np.linspace(0, len(numbers) - 1, min(len(numbers), REMEMBERED)).astype(np.int64)
            vectors = self.vectors.of(left), self.vectors.of(numbers[some])
            self.of[left] = classes[some][distances(*vectors).argmin(axis=1)]
        self.met[numbers] = True
        self.sure[others] = self.met[others] & known
        self.count += len(ranked) - 1
        for parted in self._parted:
            if own in parted:
                parted.update(dict.fromkeys(fresh.tolist(), parted[own]))
        if lasting:
            self._parted.append({each: each for each in fresh.tolist()})
        return True

    def kept_apart(self, one: int, other: int) -> bool:
        """Whether two classes have been parted for good."""
        return any(
            one in parted and other in parted and parted[one] != parted[other]
            for parted in self._parted
        )
