"""Tasks whose sources are drawn one by one, and whose answers are computed from them."""

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from stacktrans.tasks.base import LengthLaw, Lengths, NoSuchLaw, NoSuchLength, NotASource, Task
from stacktrans.tasks.layouts import Pair

Symbols = Sequence[str]


class Computed(Task):
    """A source of a length is drawn, and its answer is computed from it.

    Lengths are spread uniformly over those that there are.
    """

    def has_length(self, length: int) -> bool:
        """Whether there are sources of a length."""
        return True

    @abstractmethod
    def draw(self, generator: np.random.Generator, length: int) -> Symbols:
        """A source of a length that there is."""

    @abstractmethod
    def solve(self, source: Symbols) -> Symbols:
        """The answer to a source of known symbols; raises `NotASource` where there is none."""

    def sample(
        self, generator: np.random.Generator, lengths: Lengths, count: int, law: LengthLaw
    ) -> list[Pair]:
        if law not in ("uniform", "task"):
            raise NoSuchLaw("expected lengths that are spread uniformly")
        possible = [*filter(self.has_length, range(lengths.shortest, lengths.longest + 1))]
        if not possible:
            raise NoSuchLength(f"no source has a length in {lengths}")
        drawn = generator.choice(possible, size=count).tolist()
        return [self._pair_of(self.draw(generator, length)) for length in drawn]

    def _pair_of(self, source: Symbols) -> Pair:
        return Pair(self.source.encode(source), self.target.encode(self.solve(source)))

    def answer(self, source: Symbols) -> list[str | None]:
        self.source.encode(source)
        return [*self.solve(source)]


def expect(right: bool, expected: str) -> None:
    """Raise `NotASource` if a source is not as expected."""
    if not right:
        raise NotASource(f"expected {expected}")


def drawn_from(generator: np.random.Generator, symbols: Symbols, length: int) -> list[str]:
    """A string of symbols, all equally likely."""
    return [symbols[index] for index in generator.integers(len(symbols), size=length)]
