"""A partition of vectors or inputs into classes: splits, merges, and the images of classes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stacktrans.extraction.network import MAX_BATCH, NOTHING
from stacktrans.extraction.quantization import Codebook
from stacktrans.kernels import Array
from stacktrans.tasks.alphabets import Ids, Mask

MAX_EXAMPLES = 2000
"""The most members of a class whose nearest neighbors are found."""


class Classes:
    """A partition of vectors or inputs into classes.

    Attributes:
        label_of: [N] the class of each vector or input.
        vectors: the vectors; None for inputs.
        known: [N] whether there is evidence for the class of each.
        observed: [N] whether there ever was evidence for the class of each.
        count: the number of classes, including those that were merged into others.
        images: [N] the number of the vector or input that each becomes if symbols are shifted;
            `NOTHING` where that is unknown.
    """

    def __init__(self, label_of: Ids, vectors: Codebook | None) -> None:
        self.label_of, self.vectors = label_of, vectors
        self.known = np.ones(len(label_of), np.bool_)
        self.observed = np.zeros(len(label_of), np.bool_)
        self.count = int(label_of.max(initial=0)) + 1
        self.images = np.full(len(label_of), NOTHING)
        self._permanent_splits: list[dict[int, int]] = []

    def image_labels(self) -> Ids:
        """[N] the class of the image of each; `NOTHING` where any of this is unknown."""
        return np.where(self.known, self.of_known(self.images), NOTHING)

    def class_images(self) -> Ids:
        """[classes] the class of the images of most of its members; `NOTHING` if unknown."""
        return usual_partners(self.label_of, self.image_labels(), self.count)

    def adopt_images(self) -> bool:
        """Move images of unknown class to the classes that their originals suggest.

        Returns:
            whether any was moved.
        """
        originals = np.flatnonzero(self.known & (self.images != NOTHING))
        images = self.images[originals]
        labels = self.class_images()[self.label_of[originals]]
        adopted = ~self.known[images] & (labels != NOTHING)
        self.move(images[adopted], labels[adopted])
        return bool(adopted.any())

    def split_asymmetric(self) -> bool:
        """Split a class with images in different classes; return whether there was one."""
        images = self.image_labels()
        asymmetric = inconsistent(self.label_of, images)
        if asymmetric:
            own = self.label_of == asymmetric[0]
            members = np.flatnonzero(own & (images != NOTHING))
            others = np.flatnonzero(own & (images == NOTHING))
            known, guesses = self.known[others], np.full(len(others), NOTHING)
            self.split(members, images[members], others, guesses, permanent=True)
            self.known[others] = known
        return bool(asymmetric)

    @property
    def labels(self) -> list[int]:
        """The classes that have members."""
        labels: list[int] = np.unique(self.label_of).tolist()
        return labels

    def of_known(self, numbers: Ids) -> Ids:
        """The classes of vectors or inputs, by their numbers; `NOTHING` without evidence."""
        return np.where((numbers >= 0) & self.known[numbers], self.label_of[numbers], NOTHING)

    def split(self, numbers: Ids, values: Ids, others: Ids, guesses: Ids, permanent: bool) -> None:
        """Split a class by the values of its members.

        Args:
            numbers: members for which there is evidence.
            values: of these members, of which there are several.
            others: the other members.
            guesses: of their values; vectors whose guess no member confirms go with their nearest
                neighbors.
            permanent: whether the parts are never merged.
        """
        parent = int(self.label_of[numbers[0]])
        if self.vectors is None:
            numbers, values = np.append(numbers, others), np.append(values, guesses)
            others, guesses = others[:0], guesses[:0]
        different, counts = np.unique(values, return_counts=True)
        ranked = np.argsort(-counts, kind="stable")
        parts = np.empty(len(ranked), np.int64)
        parts[ranked] = np.append(parent, self.count + np.arange(len(ranked) - 1))
        self.count += len(ranked) - 1
        self.label_of[numbers] = parts[np.searchsorted(different, values)]
        indices, known = lookup(different, guesses)
        self.label_of[others[known]] = parts[indices[known]]
        if len(left := others[~known]) and self.vectors is not None:
            some = np.linspace(0, len(numbers) - 1, min(len(numbers), MAX_EXAMPLES))
            examples = numbers[some.astype(np.int64)]
            closest = nearest(self.vectors.projected(left), self.vectors.projected(examples))
            self.label_of[left] = self.label_of[examples[closest]]
        self.observed[numbers] = True
        self.known[others] = self.observed[others] & known
        for part_of in self._permanent_splits:
            if parent in part_of:
                part_of.update(dict.fromkeys(parts.tolist(), part_of[parent]))
        if permanent:
            self._permanent_splits.append({part: part for part in parts.tolist()})

    def move(self, numbers: Ids, labels: Ids) -> None:
        """Move vectors or inputs of unknown class to classes [n], which then count as known."""
        self.label_of[numbers] = labels
        self.known[numbers] = True

    def renumber(self, order: Sequence[int | None]) -> None:
        """Renumber classes by their positions in an order; those that it lacks become the first.

        None skips a number.
        """
        numbers = np.zeros(self.count, np.int64)
        for number, label in enumerate(order):
            if label is not None:
                numbers[label] = number
        self.label_of = numbers[self.label_of]

    def inherit_splits(self, one: int, other: int) -> None:
        """Let a class keep the permanent splits of another one, which was merged with it."""
        for part_of in self._permanent_splits:
            if other in part_of:
                part_of.setdefault(one, part_of[other])

    def separated_permanently(self, one: int, other: int) -> bool:
        """Whether two classes come from different parts of a permanent split."""
        pairs = ((part_of.get(one), part_of.get(other)) for part_of in self._permanent_splits)
        return any(None not in pair and pair[0] != pair[1] for pair in pairs)


def usual_partners(ones: Ids, others: Ids, size: int) -> Ids:
    """[size] the other with which each one is most often paired; `NOTHING` if with none.

    Args:
        ones: [N]; negative for none.
        others: [N]; negative for none.
        size: the number of ones.
    """
    pairs = np.stack([ones, others])
    pairs, counts = np.unique(pairs[:, (pairs >= 0).all(axis=0)], axis=1, return_counts=True)
    partners, (one, other) = np.full(size, NOTHING), pairs[:, np.argsort(counts, kind="stable")]
    partners[one] = other  # the last, which is the most frequent
    return partners


def inconsistent(groups: Ids, values: Ids) -> list[int]:
    """The groups with different values.

    Args:
        groups: [N] the group of each item.
        values: [N] the value of each item; `NOTHING` if unknown.
    """
    known, count = values != NOTHING, groups.max() + 1
    least, greatest = np.full(count, values.max(initial=0)), np.full(count, NOTHING)
    np.minimum.at(least, groups[known], values[known])
    np.maximum.at(greatest, groups[known], values[known])
    different: list[int] = np.flatnonzero(least < greatest).tolist()
    return different


def lookup(values: Ids, wanted: Ids) -> tuple[Ids, Mask]:
    """[n] the index of each wanted value among sorted values, and whether it is one of them."""
    indices = np.minimum(np.searchsorted(values, wanted), len(values) - 1)
    return indices, values[indices] == wanted


def nearest(ones: Array, others: Array) -> Ids:
    """[n] the index of the nearest of the vectors `others` [m, D] to each of `ones` [n, D]."""
    chunks = (ones[first : first + MAX_BATCH] for first in range(0, len(ones), MAX_BATCH))
    squares = (others * others).sum(axis=1)
    indices = (
        ((own * own).sum(axis=1)[:, None] + squares - 2 * own @ others.T).argmin(axis=1)
        for own in chunks
    )
    return np.concatenate([*indices])
