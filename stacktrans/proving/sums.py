"""Whole numbers that are not known: sums of unknowns, each of which is any number from 1 on.

What depends on the values is asked of all of them at once. If the answer is not the same for all,
the values are split into cases, in each of which the unknowns are sums of others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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
