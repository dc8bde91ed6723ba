"""What the signals of memories do: the table that each memory declares of itself, once.

A memory is made of rows of cells with two ends each: the n-th row, from 0, has the ends 2 n, its
top, and 2 n + 1, its bottom, so that the other end is `end ^ 1`. A stack, queue or deque is one
row. A list with a head is two, both of which are used at their tops: the head and what is left of
it, and what is right of it. To move the head is to move a cell from one row to the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

TOP, BOTTOM = 0, 1
"""The ends of the first row; `end % 2` is one of them."""


class Ends(NamedTuple):
    """What a step does at the ends of rows: all pops, then all pushes and moves, then all reads.

    Attributes:
        names: of the rows.
        pops: signals, each with the end that it pops; those of a row stand together.
        pushes: signals, each with the end that it pushes a vector of its own to.
        reads: the ends that are read.
        signal_names: of all signals, those that do nothing included.
        depths: how deep under its end each read is, from 0; empty for 0 everywhere.
        moves: signals, each with the end that it takes a cell from, and the end that it puts it on.
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
        """The end of each read, and its depth under the end."""
        return [*zip(self.reads, self.depths or (0,) * len(self.reads), strict=True)]

    @property
    def alphabets(self) -> list[int]:
        """For each row, the first of the rows that cells move between, which hold the same."""
        found = [*range(len(self.names))]
        for _, taken, put in self.moves:
            found[taken // 2] = found[put // 2] = min(found[taken // 2], found[put // 2])
        return found

    def after(self, rows: int, signals: int) -> Ends:
        """The same table where other memories, with so many rows and signals, come before it."""
        first = 2 * rows
        return self._replace(
            pops=tuple((signal + signals, end + first) for signal, end in self.pops),
            pushes=tuple((signal + signals, end + first) for signal, end in self.pushes),
            reads=tuple(end + first for end in self.reads),
            moves=tuple((s + signals, taken + first, put + first) for s, taken, put in self.moves),
        )


def side_by_side(
    parts: Sequence[Ends], names: Sequence[str], signal_names: tuple[str, ...]
) -> Ends:
    """The ends of several memories, whose rows, signals and reads are numbered one after another.

    Args:
        parts: the ends of each.
        names: of each, in place of that of its first row.
        signal_names: of all signals.
    """
    rows: list[str] = []
    placed: list[Ends] = []
    signals = 0
    for part, name in zip(parts, names, strict=True):
        placed.append(part.after(len(rows), signals))
        rows += [f"{name}{row.removeprefix(part.names[0])}" for row in part.names]
        signals += len(part.signal_names)
    depths = tuple(depth for part in parts for _, depth in part.read_positions)
    return Ends(
        tuple(rows),
        pops=tuple(pop for part in placed for pop in part.pops),
        pushes=tuple(push for part in placed for push in part.pushes),
        reads=tuple(end for part in placed for end in part.reads),
        signal_names=signal_names,
        depths=depths if any(depths) else (),
        moves=tuple(move for part in placed for move in part.moves),
    )
