"""Tasks that rearrange a string of meaningless symbols (grefenstette2015, section 4.1)."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from stacktrans.tasks.alphabets import PRINTABLE, Ids, meaningless_symbols
from stacktrans.tasks.base import LengthLaw, Lengths, NotASource, Task, drawn_strings
from stacktrans.tasks.layouts import Pair


class Rearrangement(Task):
    """The target holds the source's symbols in another order.

    Args:
        symbols: how many different symbols there are: printable characters as long as these
            suffice, or else words s1, s2, ... separated by spaces.
    """

    multiple_of: ClassVar[int] = 1

    def __init__(self, symbols: int = 128) -> None:
        self.source = self.target = meaningless_symbols(symbols, PRINTABLE)

    @abstractmethod
    def rearrange(self, source: Ids) -> Ids:
        """The target of a source whose length is a multiple of `multiple_of`."""

    def sample(
        self, generator: np.random.Generator, lengths: Lengths, count: int, law: LengthLaw
    ) -> list[Pair]:
        size = len(self.source)
        sources = drawn_strings(generator, size, lengths, count, law, self.multiple_of)
        return [Pair(source, self.rearrange(source)) for source in sources]

    def answer(self, source: Sequence[str]) -> list[str | None]:
        ids = self.source.encode(source)
        if len(ids) % self.multiple_of:
            raise NotASource(
                f"the source has {len(ids)} symbols; expected a multiple of {self.multiple_of}"
            )
        return [*self.target.decode(self.rearrange(ids))]


class Copy(Rearrangement):
    """abc -> abc"""

    def rearrange(self, source: Ids) -> Ids:
        return source


class Reverse(Rearrangement):
    """abc -> cba"""

    def rearrange(self, source: Ids) -> Ids:
        return source[::-1]


class BigramFlip(Rearrangement):
    """abcd -> badc; lengths are even"""

    multiple_of = 2

    def rearrange(self, source: Ids) -> Ids:
        return source.reshape(-1, 2)[:, ::-1].reshape(-1)
