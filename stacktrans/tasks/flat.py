"""Many strings of symbols in two arrays, so that a million of them are no burden."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from stacktrans.common.ragged import starts_of

Codes = npt.NDArray[Any]
"""Whole numbers, in no more bytes each than they need."""
Numbers = npt.NDArray[np.int64]
Chosen = npt.NDArray[np.bool_]
AT_ONCE = 1 << 16
"""Strings that are split into symbols at once."""


@dataclass(frozen=True)
class Flat:
    """n strings of numbers, one after another.

    Attributes:
        codes: [N] those of all strings.
        bounds: [n + 1] where each string begins, and where the last ends.
    """

    codes: Codes
    bounds: Numbers

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def __getitem__(self, index: int) -> Numbers:
        return self.codes[self.bounds[index] : self.bounds[index + 1]].astype(np.int64)

    @property
    def lengths(self) -> Numbers:
        """[n] numbers in each string."""
        return np.diff(self.bounds)

    def contents(self) -> Iterator[bytes]:
        """What is in each string, as bytes."""
        content, size = self.codes.tobytes(), self.codes.itemsize
        return (content[begin:end] for begin, end in pairwise((self.bounds * size).tolist()))

    def within(self, chosen: Chosen) -> "Flat":
        """The chosen strings, [n], in their order."""
        lengths = self.lengths
        return Flat(self.codes[np.repeat(chosen, lengths)], starts_of(lengths[chosen]))

    def renumbered(self, numbers: Codes) -> "Flat":
        """The same with a number for each code."""
        small, codes = _small(numbers), self.codes
        found = np.empty(len(codes), dtype=small.dtype)
        for start in range(0, len(codes), AT_ONCE):
            found[start : start + AT_ONCE] = small[codes[start : start + AT_ONCE]]
        return Flat(found, self.bounds)

    def __add__(self, others: "Flat") -> "Flat":
        """Each string with another one after it."""
        lengths, further = self.lengths, others.lengths
        owners = [np.repeat(np.arange(len(each)), each) for each in (lengths, further)]
        order = np.argsort(np.concatenate(owners), kind="stable")
        codes = np.concatenate([self.codes, others.codes])[order]
        return Flat(codes, starts_of(lengths + further))

    @classmethod
    def of(cls, strings: Sequence[Iterable[str]], numbers: "Numbering") -> "Flat":
        """Written strings, each symbol by its number."""
        lengths = np.empty(len(strings), dtype=np.int64)
        parts = []
        for start in range(0, len(strings), AT_ONCE):
            split = [numbers.split(string) for string in strings[start : start + AT_ONCE]]
            lengths[start : start + len(split)] = [*map(len, split)]
            found = map(numbers.known.__getitem__, chain.from_iterable(split))
            parts.append(_small(np.fromiter(found, dtype=np.int32)))
        codes = np.concatenate(parts) if parts else np.empty(0, dtype=np.int32)
        return cls(codes, starts_of(lengths))


def keys(columns: Sequence[Flat]) -> Numbers:
    """[n] a number for what is in n rows of some columns, the same only where all of it is."""
    rows = zip(*(column.contents() for column in columns), strict=True)
    return np.fromiter(map(hash, rows), dtype=np.int64)


class Numbering:
    """Numbers for symbols, in the order in which they come.

    Args:
        split: a written string's symbols.
    """

    def __init__(self, split: Callable[..., Sequence[str]]) -> None:
        self.split = split
        self.known: defaultdict[str, int] = defaultdict()
        self.known.default_factory = self.known.__len__

    def used(self, strings: Flat) -> list[str]:
        """The symbols in some strings, sorted."""
        found = np.zeros(len(self.known), dtype=np.bool_)
        found[strings.codes] = True
        return sorted(symbol for symbol, used in zip(self.known, found, strict=True) if used)

    def as_ids(self, ids: Mapping[str, int], unknown: int) -> Codes:
        """[m] the id of each symbol, or that of an unknown one."""
        return np.array([ids.get(symbol, unknown) for symbol in self.known], dtype=np.int32)


def _small(numbers: Codes) -> Codes:
    """The same numbers in as few bytes each as they need."""
    if not len(numbers):
        return numbers
    low, high = numbers.min(), numbers.max()
    for kind in (np.uint8, np.int8, np.uint16, np.int16):
        if np.iinfo(kind).min <= low <= high <= np.iinfo(kind).max:
            return numbers.astype(kind)
    return numbers.astype(np.int32)
