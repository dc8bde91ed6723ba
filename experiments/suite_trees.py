"""Tasks of the suite whose sources are trees: brackets, nested comments and formulas."""

import string
from collections.abc import Iterator
from typing import Literal

import numpy as np

from stacktrans.tasks.alphabets import LETTERS, Alphabet, meaningless_symbols
from stacktrans.tasks.base import NotASource
from stacktrans.tasks.computed import Computed, Symbols, drawn_from, expect

Steps = np.typing.NDArray[np.int64]
YES, NO = "1", "0"
BINARY = Alphabet(NO + YES, words=False)


def drawn_word(generator: np.random.Generator, ups: int) -> Steps:
    """Steps of a path that first goes below 0 with its last step, all paths equally likely.

    There are `ups` steps of 1 and one more of -1. Of the rotations of such a sequence exactly one
    is such a path: the one that begins after the first minimum (the cycle lemma). Without its last
    step it is a Dyck word; with it, it is a formula in prefix notation, 1 for an operator and -1
    for an operand.
    """
    steps = np.repeat([1, -1], [ups, ups + 1])
    generator.shuffle(steps)
    return np.roll(steps, -int(np.cumsum(steps).argmin()) - 1)


def drawn_prefix(generator: np.random.Generator, length: int) -> Steps:
    """Steps of 1 and -1 of a path that never goes below 0, all paths equally likely.

    Take a random path that ends at 0 or 1, and turn each step to a new minimum into a step of 1.
    The turned steps can be recognized as the last ones that leave their heights upwards, so this is
    a bijection.
    """
    steps = np.repeat([1, -1], [(length + 1) // 2, length // 2])
    generator.shuffle(steps)
    heights = np.cumsum(steps)
    lowest = np.minimum.accumulate(np.minimum(heights, 0))
    return np.where(lowest < np.concatenate([[0], lowest[:-1]]), 1, steps)


class Brackets(Computed):
    """Strings of brackets.

    Args:
        kinds: how many kinds of brackets there are: the first of ( ), [ ], { } and < >, or, for
            more than four, words (1 )1 (2 )2 ...
    """

    def __init__(self, kinds: int = 2) -> None:
        if not 1 <= kinds <= 10_000:
            raise ValueError(f"kinds is {kinds}; expected a number from 1 to 10000")
        numbers = range(1, kinds + 1)
        self.words = kinds > len("([{<")
        self.openers = [f"({n}" for n in numbers] if self.words else [*"([{<"[:kinds]]
        self.closers = [f"){n}" for n in numbers] if self.words else [*")]}>"[:kinds]]
        self.closer = dict(zip(self.openers, self.closers, strict=True))
        self.brackets = Alphabet([*self.openers, *self.closers], words=self.words)

    def written(self, generator: np.random.Generator, steps: Steps) -> list[str]:
        """Write a path as brackets, each pair of a random kind."""
        openers = iter(drawn_from(generator, self.openers, len(steps)))
        pending: list[str] = []
        found = []
        for step in steps.tolist():
            if step > 0:
                found.append(next(openers))
                pending.append(self.closer[found[-1]])
            else:
                found.append(pending.pop())
        return found

    def pending(self, source: Symbols) -> Iterator[tuple[str, list[str]]]:
        """Each bracket, and the closing brackets that are due after it, the next one last.

        Raises `NotASource` at a closing bracket that does not match the last open one.
        """
        due: list[str] = []
        for bracket in source:
            if bracket in self.closer:
                due.append(self.closer[bracket])
            else:
                expect(bool(due) and due.pop() == bracket, "brackets that match")
            yield bracket, due


class BracketsCompleted(Brackets):
    """([]([ -> ])): the brackets that are missing at the end"""

    name = "brackets-completed"

    def __init__(self, kinds: int = 2) -> None:
        super().__init__(kinds)
        self.source = self.brackets
        self.target = Alphabet(self.closers, words=self.words)

    def draw(self, generator: np.random.Generator, length: int) -> Symbols:
        return self.written(generator, drawn_prefix(generator, length))

    def solve(self, source: Symbols) -> Symbols:
        return [*self.pending(source)][-1][1][::-1] if source else []


class Paired(Brackets):
    """Brackets each of which has a partner; lengths are even."""

    def has_length(self, length: int) -> bool:
        return length % 2 == 0

    def draw(self, generator: np.random.Generator, length: int) -> Symbols:
        return self.written(generator, drawn_word(generator, length // 2)[:-1])

    def depths(self, source: Symbols) -> list[int]:
        """The nesting depth of each bracket, its own pair counted."""
        found, due = [], 0
        for bracket, pending in self.pending(source):
            due = len(pending)
            found.append(due + (bracket not in self.closer))
        expect(due == 0, "brackets that are all closed")
        return found


class BracketsNamed(Paired):
    """([.. -> ([]): each dot stands for a closing bracket, whose kind has to be found"""

    name = "brackets-named"

    def __init__(self, kinds: int = 2) -> None:
        super().__init__(kinds)
        self.source = Alphabet([*self.openers, "."], words=self.words)
        self.target = self.brackets

    def draw(self, generator: np.random.Generator, length: int) -> Symbols:
        drawn = super().draw(generator, length)
        return [bracket if bracket in self.closer else "." for bracket in drawn]

    def solve(self, source: Symbols) -> Symbols:
        due: list[str] = []
        found = []
        for bracket in source:
            if bracket in self.closer:
                due.append(self.closer[bracket])
            else:
                expect(bool(due), "brackets that match")
            found.append(bracket if bracket in self.closer else due.pop())
        expect(not due, "brackets that are all closed")
        return found


class DepthsLabelled(Paired):
    """(()()) -> 100001: the nesting depth of each bracket modulo 2, its own pair counted

    Args:
        kinds: how many kinds of brackets there are.
        modulus: the modulus of the depths.
    """

    name = "depths-labelled"

    def __init__(self, kinds: int = 2, modulus: int = 2) -> None:
        super().__init__(kinds)
        if not 2 <= modulus <= 10:
            raise ValueError(f"modulus is {modulus}; expected a number from 2 to 10")
        self.source = self.brackets
        self.target = Alphabet(string.digits[:modulus], words=False)
        self.modulus = modulus

    def solve(self, source: Symbols) -> Symbols:
        return [str(depth % self.modulus) for depth in self.depths(source)]


class BracketsChecked(Paired):
    """([]) -> 1, ([)) -> 0: whether all brackets match; at most one is of a wrong kind

    Args:
        kinds: how many kinds of brackets there are, at least 2.
    """

    name = "brackets-checked"

    def __init__(self, kinds: int = 2) -> None:
        super().__init__(kinds)
        if kinds < 2:
            raise ValueError(f"kinds is {kinds}; expected at least 2")
        self.source, self.target = self.brackets, BINARY

    def draw(self, generator: np.random.Generator, length: int) -> Symbols:
        drawn = [*super().draw(generator, length)]
        if generator.random() < 0.5:
            place = generator.integers(length)
            same = self.openers if drawn[place] in self.closer else self.closers
            others = [bracket for bracket in same if bracket != drawn[place]]
            drawn[place] = others[generator.integers(len(others))]
        return drawn

    def solve(self, source: Symbols) -> Symbols:
        try:
            self.depths(source)
        except NotASource:
            return NO
        return YES


class CommentsRemoved(Computed):
    """ab{c{d}e}f -> abf: comments, which may be nested, are left out

    Args:
        symbols: how many different letters there are.
    """

    name = "comments-removed"

    def __init__(self, symbols: int = 26) -> None:
        self.target = meaningless_symbols(symbols, LETTERS)
        self.source = meaningless_symbols(symbols, LETTERS, "{}")

    def draw(self, generator: np.random.Generator, length: int) -> Symbols:
        # With more brackets than this, little is left of a long source.
        pairs = int(generator.integers(length // 4, endpoint=True))
        drawn = drawn_from(generator, self.target.symbols, length)
        places = np.sort(generator.choice(length, size=2 * pairs, replace=False))
        for place, step in zip(places, drawn_word(generator, pairs)[:-1], strict=True):
            drawn[place] = "{" if step > 0 else "}"
        return drawn

    def solve(self, source: Symbols) -> Symbols:
        kept, depth = [], 0
        for symbol in source:
            if symbol in ("{", "}"):
                depth += 1 if symbol == "{" else -1
                expect(depth >= 0, "comments that begin before they end")
            elif not depth:
                kept.append(symbol)
        expect(depth == 0, "comments that end")
        return kept


Formula = str | tuple["Formula", "Formula", "Formula"]
"""An operand; or an operator and the formulas to its left and right."""
Notation = Literal["prefix", "postfix", "infix", "left", "right"]
LENGTHS = {"prefix": 2, "postfix": 2, "infix": 4, "left": 2, "right": 2}
"""The number of symbols that an operation adds in each notation.

Infix notation has parentheses around every operation; left and right have none. In left, the left
operand of an operator is everything before it; in right, the right operand is everything after it.
"""


def drawn_formula(
    generator: np.random.Generator, operators: Symbols, operands: Symbols, operations: int
) -> Formula:
    """Draw a formula with a number of operations; all such formulas are equally likely."""
    symbols = zip(
        drawn_word(generator, operations).tolist(),
        drawn_from(generator, operators, 2 * operations + 1),
        drawn_from(generator, operands, 2 * operations + 1),
        strict=True,
    )
    prefix = [operator if step > 0 else operand for step, operator, operand in symbols]
    return parsed(prefix, "prefix", operators)


def parsed(source: Symbols, notation: Notation, operators: Symbols) -> Formula:
    """The formula that is written in a notation; raises `NotASource` if there is none."""
    if notation == "infix":
        found = _of_nested(source, operators)
    elif notation in ("left", "right"):
        found = _of_chain(source, operators, notation == "left")
    else:
        found = _of_polish(source, operators, notation == "prefix")
    expect(len(found) == 1, f"a formula in {notation} notation")
    return found[0]


def _of_polish(source: Symbols, operators: Symbols, prefix: bool) -> list[Formula]:
    """The formulas that a source consists of; none if an operator lacks an operand."""
    found: list[Formula] = []
    for symbol in source[::-1] if prefix else source:
        if symbol not in operators:
            found.append(symbol)
        elif len(found) < 2:
            return []
        else:
            last, before = found.pop(), found.pop()
            found.append((symbol, last, before) if prefix else (symbol, before, last))
    return found


def _of_chain(source: Symbols, operators: Symbols, left: bool) -> list[Formula]:
    if [symbol in operators for symbol in source] != [n % 2 == 1 for n in range(len(source))]:
        return []
    found: list[Formula] = []
    for symbol in source if left else source[::-1]:
        found.append(symbol)
        if len(found) == 3:
            before, operator, last = found
            found = [(operator, before, last) if left else (operator, last, before)]
    return found


def _of_nested(source: Symbols, operators: Symbols) -> list[Formula]:
    """The formulas that a source with parentheses consists of; none if it is malformed."""
    within: list[list[Formula]] = [[]]
    for symbol in source:
        if symbol == "(":
            within.append([])
        elif symbol != ")":
            within[-1].append(symbol)
        elif len(within) < 2 or not _is_operation(within[-1], operators):
            return []
        else:
            first, operator, second = within.pop()
            within[-1].append((operator, first, second))
    return within[0] if len(within) == 1 and {*within[0]}.isdisjoint(operators) else []


def _is_operation(parts: list[Formula], operators: Symbols) -> bool:
    return [isinstance(part, str) and part in operators for part in parts] == [False, True, False]


def written(formula: Formula, notation: Notation) -> list[str]:
    """A formula in a notation."""
    pending, found = [formula], []
    while pending:
        part = pending.pop()
        if isinstance(part, str):
            found.append(part)
            continue
        operator, left, right = part
        orders: dict[str, list[Formula]] = {
            "prefix": [operator, left, right],
            "postfix": [left, right, operator],
            "infix": ["(", left, operator, right, ")"],
        }
        pending += orders.get(notation, [left, operator, right])[::-1]
    return found


def value(formula: Formula) -> bool:
    """The value of a formula with the operators & (and), | (or) and ^ (exclusive or)."""
    found: list[bool] = []
    for symbol in written(formula, "postfix"):
        if symbol in (YES, NO):
            found.append(symbol == YES)
        else:
            second, first = found.pop(), found.pop()
            results = {"&": first and second, "|": first or second, "^": first != second}
            found.append(results[symbol])
    return found[0]


class OfFormula(Computed):
    """Sources are formulas with operators of two operands.

    Args:
        notation: how they are written.
        operators: the operators.
        operands: the alphabet of the operands.
    """

    def __init__(self, notation: Notation, operators: Symbols, operands: Alphabet) -> None:
        if notation not in LENGTHS:
            expected = ", ".join(LENGTHS)
            raise ValueError(f"notation is {notation!r}; expected one of {expected}")
        if not operators or not {*operators} <= {*string.punctuation} - {*"()"}:
            raise ValueError(f"operators is {operators!r}; expected signs, such as +*")
        parentheses = ["(", ")"] if notation == "infix" else []
        symbols = [*operands.symbols, *operators, *parentheses]
        self.source = Alphabet(symbols, words=operands.words)
        self.notation: Notation = notation
        self.operators, self.operands = operators, operands.symbols

    def has_length(self, length: int) -> bool:
        return length % LENGTHS[self.notation] == 1

    def draw(self, generator: np.random.Generator, length: int) -> Symbols:
        if self.notation in ("left", "right"):
            drawn = drawn_from(generator, self.operands, length)
            drawn[1::2] = drawn_from(generator, self.operators, length // 2)
            return drawn
        operations = length // LENGTHS[self.notation]
        formula = drawn_formula(generator, self.operators, self.operands, operations)
        return written(formula, self.notation)

    def formula(self, source: Symbols) -> Formula:
        """The formula that a source represents."""
        return parsed(source, self.notation, self.operators)


class Notated(OfFormula):
    """((a+b)*c) -> ab+c*: a formula in another notation

    Args:
        notation: the notation of the source: prefix; postfix; infix, with parentheses around every
            operation; left or right, without any, all operators left- or right-associative.
        answer: the notation of the answer: prefix, postfix or infix.
        symbols: how many different operands there are.
        operators: the operators.
    """

    name = "notated"

    def __init__(
        self, notation: Notation, answer: Notation, symbols: int = 26, operators: str = "+*"
    ) -> None:
        super().__init__(notation, operators, meaningless_symbols(symbols, LETTERS))
        if answer not in ("prefix", "postfix", "infix"):
            raise ValueError(f"answer is {answer!r}; expected prefix, postfix or infix")
        self.to: Notation = answer
        parentheses = ["(", ")"] if answer == "infix" else []
        self.target = Alphabet([*self.operands, *operators, *parentheses], words=self.source.words)

    def solve(self, source: Symbols) -> Symbols:
        return written(self.formula(source), self.to)


class Evaluated(OfFormula):
    """((1&0)|1) -> 1: the value of a formula

    Args:
        notation: prefix; postfix; infix, with parentheses around every operation; left or right,
            without any, all operators left- or right-associative.
        operators: some of & (and), | (or) and ^ (exclusive or).
    """

    name = "evaluated"

    def __init__(self, notation: Notation, operators: str = "&|") -> None:
        if not {*operators} <= {*"&|^"}:
            raise ValueError(f"operators is {operators!r}; expected some of & | ^")
        super().__init__(notation, operators, BINARY)
        self.target = BINARY

    def solve(self, source: Symbols) -> Symbols:
        return YES if value(self.formula(source)) else NO
