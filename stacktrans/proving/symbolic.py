"""Stacks of which it is not known how much they hold: runs of one kind, as long as unknowns are.

A length is a sum of unknowns, each of which is any number from 1 on. What depends on the values is
asked of all of them at once. If the answer is not the same for all, the values are split into
cases, in each of which the unknowns are sums of others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from stacktrans.machines.definition import EMPTY

Case = Mapping[int, "Sum"]
"""What some unknowns are; others stay what they are."""


class Undecided(Exception):
    """What was asked depends on the values.

    Args:
        cases: each value of the unknowns is in exactly one.
    """

    def __init__(self, *cases: Case) -> None:
        self.cases = cases
        super().__init__()


@dataclass(frozen=True)
class Sum:
    """A constant, and unknowns by their numbers, in order, each with how often it comes, but 0."""

    constant: int = 0
    parts: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, constant: int, times: Mapping[int, int]) -> Sum:
        """The sum of a constant and of unknowns, each so many times."""
        return cls(constant, tuple(sorted((each, n) for each, n in times.items() if n)))

    def __add__(self, other: Sum | int) -> Sum:
        if isinstance(other, int):
            return Sum(self.constant + other, self.parts)
        times = dict(self.parts)
        for each, n in other.parts:
            times[each] = times.get(each, 0) + n
        return Sum.of(self.constant + other.constant, times)

    def __mul__(self, factor: int) -> Sum:
        return Sum.of(self.constant * factor, {each: n * factor for each, n in self.parts})

    def __sub__(self, other: Sum | int) -> Sum:
        return self + other * -1

    @property
    def fixed(self) -> int | None:
        """The number that it is, whatever the unknowns are; None if it depends on them."""
        return None if self.parts else self.constant

    @property
    def first(self) -> int:
        """The number that it is where all unknowns are 1."""
        return self.constant + sum(n for _, n in self.parts)

    def put(self, case: Case) -> Sum:
        """The same in a case."""
        found = Sum(self.constant)
        for each, n in self.parts:
            found += case.get(each, unknown(each)) * n
        return found


def unknown(number: int) -> Sum:
    """An unknown alone."""
    return Sum(0, ((number, 1),))


def at_least(value: Sum, bound: int) -> bool:
    """Whether it is as great as that, whatever the unknowns are; raises `Undecided`."""
    more = [each for each, n in value.parts if n > 0]
    less = [each for each, n in value.parts if n < 0]
    if not less and value.first >= bound:
        return True
    if not more and value.first < bound:
        return False
    one, *_ = more or less
    if not (more and less):
        raise Undecided({one: Sum(1)}, {one: unknown(one) + 1})
    other = less[0]
    both = unknown(one) + unknown(other)
    raise Undecided({one: unknown(other)}, {one: both}, {other: both})


def least(one: Sum, other: Sum) -> Sum:
    """The lesser of two; raises `Undecided`."""
    return one if at_least(other - one, 0) else other


def divided(value: Sum, by: int) -> Sum:
    """The greatest whole number that is no more than a share of it; raises `Undecided`."""
    for each, n in value.parts:
        if n % by:
            raise Undecided(*({each: unknown(each) * by - rest} for rest in range(by)))
    return Sum(value.constant // by, tuple((each, n // by) for each, n in value.parts))


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
