"""Stacks of which it is not known how much they hold: runs of one kind, as long as unknowns are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stacktrans.machines.definition import EMPTY
from stacktrans.proving.sums import Case, Sum, Undecided, at_least


class Run(NamedTuple):
    """So many cells of a kind, 1 or more."""

    kind: int
    times: Sum


Runs = tuple[Run, ...]
"""What a stack holds, the lowest first; neighbours are of different kinds."""


class Stack:
    """A stack that is worked on.

    Its methods raise `Undecided` where what they find depends on unknowns.

    Args:
        held: what it holds at first.

    Attributes:
        held: what it holds.
        reached: how many of the topmost cells that it held at first were looked at or popped, or
            would have been if there were as many.
    """

    def __init__(self, held: Runs) -> None:
        self.held, self.reached, self._higher = held, 0, 0

    def read(self, depth: int) -> int:
        """The kind so deep under the top, from 0; `EMPTY` if there is none."""
        self.reached = max(self.reached, depth + 1 - self._higher)
        for run in reversed(self.held):
            if at_least(run.times, depth + 1):
                return run.kind
            assert run.times.fixed is not None  # nothing else is less than a number
            depth -= run.times.fixed
        return EMPTY

    def pop(self) -> int:
        """Take what is on top; `EMPTY` if there is nothing."""
        self.reached = max(self.reached, 1 - self._higher)
        if not self.held:
            return EMPTY
        *others, top = self.held
        rest = [Run(top.kind, top.times - 1)] if at_least(top.times, 2) else []
        self.held = (*others, *rest)
        self._higher -= 1
        return top.kind

    def push(self, kind: int) -> None:
        """Put something on top."""
        *others, top = self.held or (Run(kind, Sum()),)
        if top.kind == kind:
            self.held = (*others, Run(kind, top.times + 1))
        else:
            self.held = (*self.held, Run(kind, Sum(1)))
        self._higher += 1

    def grown(self, before: Runs) -> int | None:
        """By how much it is higher each time that what was done to it since then is done again.

        None if it cannot be done again, or not with the same effect: what is on top has to be of
        one kind as far as it matters, unless the stack holds just what it held.
        """
        if self.held == before:
            return 0
        if not self.held or not before or len(self.held) != len(before):
            return None
        *under, top = self.held
        *under_before, top_before = before
        change = (top.times - top_before.times).fixed
        same = under == under_before and top.kind == top_before.kind
        try:
            enough = at_least(top_before.times, self.reached)
        except Undecided:
            return None
        return change if same and enough else None


def changed(held: Runs, by: Sum) -> Runs:
    """What a stack holds after its topmost run has become longer, or shorter; down to nothing."""
    *others, top = held
    times = top.times + by
    return (*others, *([Run(top.kind, times)] if at_least(times, 1) else []))


def put(stacks: Sequence[Runs], case: Case) -> tuple[Runs, ...]:
    """The contents of stacks in a case."""
    return tuple(tuple(Run(kind, times.put(case)) for kind, times in held) for held in stacks)
