"""Stacks that hold runs of equal stack symbols, whose lengths are linear expressions."""

from __future__ import annotations

from typing import NamedTuple

from stacktrans.automata.rules import EMPTY
from stacktrans.proofs.linear import CaseSplit, LinearExpression, at_least


class CellRun(NamedTuple):
    """A run of one or more cells with the same stack symbol."""

    stack_symbol: int
    length: LinearExpression


Runs = tuple[CellRun, ...]
"""The contents of a stack, the lowest run first; neighbours have different stack symbols."""


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
        """The stack symbol so deep under the top, from 0; `EMPTY` if there is none."""
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
