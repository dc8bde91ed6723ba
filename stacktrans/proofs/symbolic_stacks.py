"""Symbolic contents of stacks: runs of cells whose lengths are linear expressions of variables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from stacktrans.automata.rules import EMPTY

Substitution = Mapping[int, "LinearExpression"]
"""Values of variables, by their numbers; other variables keep theirs."""


class CaseSplit(Exception):
    """A comparison depends on the values of variables; the proof has to split cases.

    Args:
        cases: substitutions; all values of the variables are in exactly one case.
    """

    def __init__(self, *cases: Substitution) -> None:
        self.cases = cases


@dataclass(frozen=True)
class LinearExpression:
    """A linear expression: a constant, and variables with coefficients other than 0."""

    constant: int = 0
    terms: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, constant: int, coefficients: Mapping[int, int]) -> LinearExpression:
        """The expression with some coefficients, by the numbers of variables."""
        return cls(constant, tuple(sorted(term for term in coefficients.items() if term[1])))

    def __add__(self, other: LinearExpression | int) -> LinearExpression:
        if isinstance(other, int):
            return LinearExpression(self.constant + other, self.terms)
        coefficients = Counter(dict(self.terms))
        coefficients.update(dict(other.terms))
        return LinearExpression.of(self.constant + other.constant, coefficients)

    def __mul__(self, factor: int) -> LinearExpression:
        return LinearExpression.of(self.constant * factor, {of: n * factor for of, n in self.terms})

    def __sub__(self, other: LinearExpression | int) -> LinearExpression:
        return self + other * -1

    @property
    def at_ones(self) -> int:
        """The value where all variables are 1."""
        return self.constant + sum(coefficient for _, coefficient in self.terms)

    def substitute(self, values: Substitution) -> LinearExpression:
        """The expression with values for variables."""
        result = LinearExpression(self.constant)
        for number, coefficient in self.terms:
            result += values.get(number, variable(number)) * coefficient
        return result


def variable(number: int) -> LinearExpression:
    """A variable by itself."""
    return LinearExpression(0, ((number, 1),))


def at_least(value: LinearExpression, bound: int) -> bool:
    """Whether an expression is at least a bound for all variables; raises `CaseSplit`."""
    positive = [number for number, coefficient in value.terms if coefficient > 0]
    negative = [number for number, coefficient in value.terms if coefficient < 0]
    if not negative and value.at_ones >= bound:
        return True
    if not positive and value.at_ones < bound:
        return False
    one, *_ = positive or negative
    if not (positive and negative):
        raise CaseSplit({one: LinearExpression(1)}, {one: variable(one) + 1})
    other = negative[0]
    both = variable(one) + variable(other)
    raise CaseSplit({one: variable(other)}, {one: both}, {other: both})


def floor_divided(value: LinearExpression, divisor: int) -> LinearExpression:
    """An expression divided by a number, rounded down; raises `CaseSplit`."""
    for number, coefficient in value.terms:
        if coefficient % divisor:
            cases = ({number: variable(number) * divisor - rest} for rest in range(divisor))
            raise CaseSplit(*cases)
    terms = tuple((number, coefficient // divisor) for number, coefficient in value.terms)
    return LinearExpression(value.constant // divisor, terms)


class CellRun(NamedTuple):
    """A run of one or more cells with the same stack symbol."""

    stack_symbol: int
    length: LinearExpression


Runs = tuple[CellRun, ...]
"""The contents of a stack, the lowest run first; neighbors have different stack symbols."""


class SymbolicStack:
    """A symbolic stack: runs of stack symbols with symbolic lengths, in place of a `Row`.

    It is only used at its top. Its methods raise `CaseSplit`.

    Args:
        runs: the first contents.

    Attributes:
        before: the first contents.
        runs: the contents.
        reached: number of the topmost cells of the first contents that were read or popped, or
            would have been if there were as many.
    """

    def __init__(self, runs: Runs) -> None:
        self.before = self.runs = runs
        self.reached = self._height = 0

    def peek(self, side: int, depth: int) -> int:
        """The stack symbol at a depth below the top, from 0; `EMPTY` if there is none."""
        self.reached = max(self.reached, depth + 1 - self._height)
        for run in reversed(self.runs):
            if at_least(run.length, depth + 1):
                return run.stack_symbol
            depth -= run.length.constant  # only a constant is known to be less
        return EMPTY

    def take(self, side: int) -> int:
        """Pop the topmost cell; `EMPTY` if there is none."""
        self.reached = max(self.reached, 1 - self._height)
        if not self.runs:
            return EMPTY
        stack_symbol = self.runs[-1].stack_symbol
        self.runs = _lengthened(self.runs, LinearExpression(-1))
        self._height -= 1
        return stack_symbol

    def put(self, side: int, stack_symbol: int) -> None:
        """Push a cell."""
        if self.runs and self.runs[-1].stack_symbol == stack_symbol:
            self.runs = _lengthened(self.runs, LinearExpression(1))
        else:
            self.runs = (*self.runs, CellRun(stack_symbol, LinearExpression(1)))
        self._height += 1

    @property
    def growth(self) -> int | None:
        """The change in height if the operations on the stack are repeated.

        None if a repetition is not known to do the same: unless the contents are the first ones
        again, they may differ in the length of the topmost run alone, by a constant, and no cell
        under that run was reached.
        """
        if self.runs == self.before:
            return 0
        if not self.runs or not self.before:
            return None
        (*under, top), (*under_before, top_before) = self.runs, self.before
        change = top.length - top_before.length
        try:
            enough = at_least(top_before.length, self.reached)
        except CaseSplit:
            return None
        same = (under, top.stack_symbol) == (under_before, top_before.stack_symbol)
        return change.constant if same and enough and not change.terms else None

    def repeated(self, times: LinearExpression) -> Runs:
        """The contents after the operations on the stack are repeated so many times."""
        return _lengthened(self.before, times * self.growth) if self.growth else self.before


class IgnoredStack(SymbolicStack):
    """A stack that no rule depends on, whose contents are ignored."""

    def take(self, side: int) -> int:
        return EMPTY

    def put(self, side: int, stack_symbol: int) -> None:
        pass


def _lengthened(runs: Runs, by: LinearExpression) -> Runs:
    """Contents whose topmost run is longer by something, or shorter, down to nothing."""
    *under, top = runs
    length = top.length + by
    return (*under, CellRun(top.stack_symbol, length)) if at_least(length, 1) else (*under,)
