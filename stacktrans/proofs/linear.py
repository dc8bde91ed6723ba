"""Linear expressions of the positive variables of symbolic proofs, and cases of their values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

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
