"""Columns of strings encoded by numbers, and hashes by which lines are compared."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, compress, pairwise
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from stacktrans.common.ragged import Ragged, row_starts
from stacktrans.tasks.alphabets import Ids, Mask
from stacktrans.tasks.columns import Tokenizer

BLOCK = 1 << 16
"""Strings, or symbols, that are processed in one block, which bounds the memory needed."""


@dataclass(frozen=True)
class SymbolColumn:
    """The strings of a column, encoded by numbers in the order of first appearance.

    Attributes:
        name: the column.
        tokenizer: tokenization of its fields.
        strings: [n] the numbers of each string's symbols.
        symbols: the symbol of each number.
    """

    name: str
    tokenizer: Tokenizer
    strings: Ragged
    symbols: Sequence[str]

    @classmethod
    def of(cls, texts: Sequence[str], name: str, tokenizer: Tokenizer) -> Self:
        """Encode the fields of a column."""
        split, numbers = tokenizer.splitter(name), defaultdict[str, int]()
        numbers.default_factory = numbers.__len__
        lengths, blocks = [], [np.empty(0, np.uint8)]
        for start in range(0, len(texts), BLOCK):
            strings = [*map(split, texts[start : start + BLOCK])]
            lengths += [*map(len, strings)]
            codes = map(numbers.__getitem__, chain.from_iterable(strings))
            blocks.append(_in_fewest_bytes(np.fromiter(codes, dtype=np.int32)))
        return cls(name, tokenizer, Ragged(np.concatenate(blocks), row_starts(lengths)), [*numbers])

    def __getitem__(self, index: int) -> str:
        symbols = [self.symbols[number] for number in self.strings[index]]
        return self.tokenizer.joined(self.name, symbols)

    def select(self, mask: Mask) -> "SymbolColumn":
        """The lines at which a mask [n] is true."""
        return replace(self, strings=self.strings.compress(mask))

    def used(self) -> list[str]:
        """The symbols that occur in the strings."""
        counts = np.bincount(self.strings.values, minlength=len(self.symbols))
        return [*compress(self.symbols, counts)]

    def as_ids(self, ids: Ids) -> Ragged:
        """The strings as ids of an alphabet, by the id of each of the column's symbols."""
        small, codes = _in_fewest_bytes(ids), self.strings.values
        blocks = (small[codes[at : at + BLOCK]] for at in range(0, len(codes), BLOCK))
        return Ragged(np.concatenate([small[:0], *blocks]), self.strings.starts)


def _in_fewest_bytes(numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same numbers in the smallest integer type that has all of them."""
    low, high = numbers.min(initial=0), numbers.max(initial=0)
    types = [np.iinfo(each) for each in (np.uint8, np.int8, np.uint16, np.int16, np.int32)]
    fitting = (each.dtype for each in types if each.min <= low and high <= each.max)
    return numbers.astype(next(fitting))


def hashes_of(columns: Iterable[SymbolColumn]) -> Ids:
    """[n] hashes of the strings of each line in some columns."""
    rows = zip(*(_contents(column.strings) for column in columns), strict=True)
    return np.fromiter(map(hash, rows), dtype=np.int64)


def _contents(strings: Ragged) -> Iterator[bytes]:
    """The numbers of each string as bytes."""
    content, size = strings.values.tobytes(), strings.values.itemsize
    return (content[begin:end] for begin, end in pairwise((strings.starts * size).tolist()))
