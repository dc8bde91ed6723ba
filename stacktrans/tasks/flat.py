"""Many strings of symbols in two arrays, so that a million of them are no burden."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from stacktrans.common.ragged import Ragged, starts_of

Codes = npt.NDArray[Any]
"""Whole numbers, in no more bytes each than they need."""
Numbers = npt.NDArray[np.int64]
Chosen = npt.NDArray[np.bool_]
AT_ONCE = 1 << 16
"""Strings that are split into symbols at once."""


class Numbering:
    """Numbers for symbols, in the order in which they come.

    Args:
        split: a written string's symbols.
    """

    def __init__(self, split: Callable[..., Sequence[str]]) -> None:
        self.split = split
        self.known: defaultdict[str, int] = defaultdict()
        self.known.default_factory = self.known.__len__

    def used(self, strings: Ragged) -> list[str]:
        """The symbols in some strings, sorted."""
        found = np.zeros(len(self.known), dtype=np.bool_)
        found[strings.values] = True
        return sorted(symbol for symbol, used in zip(self.known, found, strict=True) if used)

    def as_ids(self, ids: Mapping[str, int], unknown: int) -> Codes:
        """[m] the id of each symbol, or that of an unknown one."""
        return np.array([ids.get(symbol, unknown) for symbol in self.known], dtype=np.int32)


def numbered(strings: Sequence[Iterable[str]], numbers: Numbering) -> Ragged:
    """Written strings, each symbol by its number."""
    lengths = np.empty(len(strings), dtype=np.int64)
    parts = []
    for start in range(0, len(strings), AT_ONCE):
        split = [numbers.split(string) for string in strings[start : start + AT_ONCE]]
        lengths[start : start + len(split)] = [*map(len, split)]
        found = map(numbers.known.__getitem__, chain.from_iterable(split))
        parts.append(_small(np.fromiter(found, dtype=np.int32)))
    return Ragged(np.concatenate(parts) if parts else np.empty(0, np.int32), starts_of(lengths))


def renumbered(strings: Ragged, numbers: Codes) -> Ragged:
    """The same strings with another number for each."""
    small, codes = _small(numbers), strings.values
    found = np.empty(len(codes), dtype=small.dtype)
    for start in range(0, len(codes), AT_ONCE):
        found[start : start + AT_ONCE] = small[codes[start : start + AT_ONCE]]
    return Ragged(found, strings.starts)


def keys(columns: Sequence[Ragged]) -> Numbers:
    """[n] a number for what is in n rows of some columns, the same only where all of it is."""
    rows = zip(*map(_contents, columns), strict=True)
    return np.fromiter(map(hash, rows), dtype=np.int64)


def _contents(strings: Ragged) -> Iterator[bytes]:
    """What is in each string, as bytes."""
    content, size = strings.values.tobytes(), strings.values.itemsize
    return (content[begin:end] for begin, end in pairwise((strings.starts * size).tolist()))


def _small(numbers: Codes) -> Codes:
    """The same numbers in as few bytes each as they need."""
    if not len(numbers):
        return numbers
    low, high = numbers.min(), numbers.max()
    for kind in (np.uint8, np.int8, np.uint16, np.int16):
        if np.iinfo(kind).min <= low <= high <= np.iinfo(kind).max:
            return numbers.astype(kind)
    return numbers.astype(np.int32)
