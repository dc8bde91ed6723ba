"""What is assumed of a memory that does not go with the task's own.

Each kind says what is known of the contents of such a memory, which is any hashable thing, and how
a step changes it; if the memory does not do what is assumed of it, there is an error.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from stacktrans.common.ends import TOP
from stacktrans.machines.definition import EMPTY

UNKNOWN = -2
"""The kind that is read where it can be any that was ever pushed, or none."""
FEW = 3
"""The most cells of a memory all of which are known."""
Pushes = Sequence[tuple[int, int]]
"""Ends, `TOP` or `BOTTOM`, and the kinds that are pushed there."""


class NotAsAssumed(Exception):
    """A memory does not do what is assumed of it; the message says what it does."""


class Contents(ABC):
    """What is known of the contents of a memory."""

    exact = True
    start: Any

    @abstractmethod
    def read(self, held: Any, end: int, depth: int = 0) -> int:
        """The kind that is read at an end, or so deep under it; raises `NotAsAssumed`."""

    @abstractmethod
    def stepped(self, held: Any, popped: Sequence[int], pushed: Pushes) -> Any:
        """What is held after a step that pops at some ends, and then pushes.

        Raises:
            NotAsAssumed: as its name says.
        """


class AllKnown(Contents):
    """It never holds more than a few cells."""

    start: tuple[int, ...] = ()

    def read(self, held: tuple[int, ...], end: int, depth: int = 0) -> int:
        return held[-1 - depth if end == TOP else depth] if len(held) > depth else EMPTY

    def stepped(
        self, held: tuple[int, ...], popped: Sequence[int], pushed: Pushes
    ) -> tuple[int, ...]:
        for end in popped:
            held = held[:-1] if end == TOP else held[1:]
        for end, kind in pushed:
            held = (*held, kind) if end == TOP else (kind, *held)
        if len(held) > FEW:
            raise NotAsAssumed(f"holds more than {FEW} cells")
        return held


class EndsKnown(Contents):
    """Nothing is popped from it, but what something is pushed in the place of.

    Args:
        reads: the ends that are read.
    """

    start: tuple[int, int] = (EMPTY, EMPTY)

    def __init__(self, reads: Sequence[int]) -> None:
        self._reads = reads

    def read(self, held: tuple[int, int], end: int, depth: int = 0) -> int:
        return _outermost(held, end, depth)

    def stepped(self, held: tuple[int, int], popped: Sequence[int], pushed: Pushes) -> Any:
        _check(pushed)
        ends = [end for end, _ in pushed]
        for end in popped if held != self.start else ():
            # What is at the other end is not known then, since both may have been the same cell.
            if ends != [end] or [*self._reads] != [end] or len(popped) > 1:
                raise NotAsAssumed("is popped")
        for end, kind in pushed:
            other = kind if held == self.start else held[1 - end]
            held = (kind, other) if end == TOP else (other, kind)
        return held


class Anything(Contents):
    """Where something was popped, anything can be read that was ever pushed, or nothing."""

    exact = False
    start: tuple[int, int] = (EMPTY, EMPTY)

    def read(self, held: tuple[int, int], end: int, depth: int = 0) -> int:
        return _outermost(held, end, depth)

    def stepped(self, held: tuple[int, int], popped: Sequence[int], pushed: Pushes) -> Any:
        _check(pushed)
        if popped and EMPTY not in held:
            held = (UNKNOWN, UNKNOWN)
        for end, kind in pushed:
            other = kind if EMPTY in held else held[1 - end]
            held = (kind, other) if end == TOP else (other, kind)
        return held


def _outermost(held: tuple[int, int], end: int, depth: int) -> int:
    """What is at an end, where no more is known; raises `NotAsAssumed`."""
    if depth:
        raise NotAsAssumed("is read below its ends")
    return held[end]


def _check(pushed: Pushes) -> None:
    """Raise `NotAsAssumed` if something is pushed that is read like nothing."""
    if any(kind == EMPTY for _, kind in pushed):
        raise NotAsAssumed("holds cells that cannot be told from none")
