"""The table of a memory's pops, pushes, moves and reads by end, also of several side by side.

A memory consists of rows of cells. Row n, from 0, has two ends: 2 n is its top and 2 n + 1 its
bottom, so that the other end of a row is `end ^ 1`. A stack, queue or deque is one row. A list with
a head is two rows, which are used at their tops: one has the head and the cells to its left, the
other the cells to its right. Moving the head moves a cell from one row to the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

T = TypeVar("T")

TOP, BOTTOM = 0, 1
"""The ends of the first row; `end % 2` is one of them."""


class Ends(NamedTuple):
    """The operations of a step: all pops, then all pushes and moves, then all reads.

    Attributes:
        names: names of the rows.
        pops: pairs of a signal and the end that it pops; those of a row are consecutive.
        pushes: pairs of a signal and the end that it pushes its vector to.
        reads: the ends that are read.
        signal_names: names of all signals, those without an operation included.
        depths: the depth of each read below its end, from 0; empty if all are 0.
        moves: triples of a signal, the end that it moves a cell from, and the end that it moves the
            cell to.
    """

    names: tuple[str, ...]
    pops: tuple[tuple[int, int], ...]
    pushes: tuple[tuple[int, int], ...]
    reads: tuple[int, ...]
    signal_names: tuple[str, ...]
    depths: tuple[int, ...] = ()
    moves: tuple[tuple[int, int, int], ...] = ()

    @property
    def read_positions(self) -> list[tuple[int, int]]:
        """The end and the depth of each read."""
        return [*zip(self.reads, self.depths or (0,) * len(self.reads), strict=True)]

    def active(
        self, signals: Sequence[int], pushed: Iterable[T | None]
    ) -> tuple[tuple[int, ...], tuple[tuple[int, T], ...], tuple[tuple[int, int], ...]]:
        """The pops, pushes and moves of a step with discrete signals.

        Args:
            signals: each 0 or 1.
            pushed: for each of `pushes`, what is pushed; None for nothing.

        Returns:
            The ends that are popped; the ends that are pushed to, each with what is pushed; and the
            ends that a cell is taken from, each with the end that it is put on.
        """
        pushes = zip(self.pushes, pushed, strict=True)
        return (
            tuple(end for signal, end in self.pops if signals[signal]),
            tuple((end, x) for (signal, end), x in pushes if signals[signal] and x is not None),
            tuple((taken, put) for signal, taken, put in self.moves if signals[signal]),
        )

    @property
    def alphabets(self) -> list[int]:
        """The stack alphabet of each row, by the number of the first row that has the same one.

        Rows that cells move between have the same alphabet.
        """
        first = [*range(len(self.names))]
        for _, source, target in self.moves * len(self.moves):  # which may form chains
            first[source // 2] = first[target // 2] = min(first[source // 2], first[target // 2])
        return first

    def rows_behind(self, ends: Iterable[int]) -> frozenset[int]:
        """The rows of some ends, and those that cells move from to one of them."""
        rows = {end // 2 for end in ends}
        for _ in self.moves:
            rows |= {taken // 2 for _, taken, put in self.moves if put // 2 in rows}
        return frozenset(rows)


def side_by_side(
    parts: Sequence[Ends], names: Sequence[str], signal_names: tuple[str, ...]
) -> Ends:
    """The ends of several memories, whose rows, signals and reads are numbered consecutively.

    Args:
        parts: the ends of each memory.
        names: the name of each memory, which replaces the name of its first row, also where the
            names of its other rows begin with that.
        signal_names: names of all signals.
    """
    rows: tuple[str, ...] = ()
    pops: tuple[tuple[int, int], ...] = ()
    pushes: tuple[tuple[int, int], ...] = ()
    reads: tuple[int, ...] = ()
    moves: tuple[tuple[int, int, int], ...] = ()
    signals = 0
    for part, name in zip(parts, names, strict=True):
        ends = 2 * len(rows)
        pops += tuple((signal + signals, end + ends) for signal, end in part.pops)
        pushes += tuple((signal + signals, end + ends) for signal, end in part.pushes)
        moves += tuple((signal + signals, one + ends, to + ends) for signal, one, to in part.moves)
        reads += tuple(end + ends for end in part.reads)
        rows += tuple(f"{name}{row.removeprefix(part.names[0])}" for row in part.names)
        signals += len(part.signal_names)
    depths = tuple(depth for part in parts for _, depth in part.read_positions)
    return Ends(rows, pops, pushes, reads, signal_names, depths if any(depths) else (), moves)
