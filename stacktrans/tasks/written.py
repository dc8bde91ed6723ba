"""Pairs of files with what stands in their lines, whether a model knows its symbols or not."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

from stacktrans.common.ragged import Ragged
from stacktrans.tasks.layouts import Pair
from stacktrans.tasks.symbols import Writing


@dataclass(frozen=True)
class Column:
    """What stands in a column of n lines.

    Attributes:
        strings: [n] the numbers of the symbols of each.
        symbols: what each number stands for.
        writing: how symbols are written.
        name: of the column.
    """

    strings: Ragged
    symbols: Sequence[str]
    writing: Writing
    name: str

    def __getitem__(self, index: int) -> str:
        symbols = [self.symbols[number] for number in self.strings[index]]
        return self.writing.joined(self.name, symbols)


class PairSequence(Sequence[Pair]):
    """Pairs that are put together when they are asked for."""

    @abstractmethod
    def pair(self, index: int) -> Pair:
        """The pair of an index from 0."""

    @overload
    def __getitem__(self, index: int) -> Pair: ...

    @overload
    def __getitem__(self, index: slice) -> list[Pair]: ...

    def __getitem__(self, index: int | slice) -> Pair | list[Pair]:
        places = range(len(self))[index]
        return [*map(self.pair, places)] if isinstance(places, range) else self.pair(places)


class WrittenPairs(PairSequence):
    """Pairs as ids and as they are written, which takes longer to look up.

    Args:
        pairs: as ids alone, n of them.
        columns: what stands in the columns of their lines.
    """

    def __init__(self, pairs: Sequence[Pair], columns: Sequence[Column]) -> None:
        self.pairs, self.columns = pairs, columns

    def __len__(self) -> int:
        return len(self.pairs)

    def pair(self, index: int) -> Pair:
        written = tuple(column[index] for column in self.columns)
        return self.pairs[index]._replace(written=written)
