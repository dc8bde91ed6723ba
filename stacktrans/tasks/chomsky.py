"""Tasks of the benchmark Neural Networks and the Chomsky Hierarchy (deletang2023).

Symbols are numbers, as in its data: digits, then operators, brackets and marks. A 2 ends answers
that vary in length. Sources that are too short for the task's structure have the answers that the
benchmark gives them.
"""

import math
import operator
import re

import numpy as np
from numpy.random import Generator

from stacktrans.tasks.alphabets import DIGITS, Alphabet, Ids, meaningless_symbols
from stacktrans.tasks.computed import Computed, Reverse, Symbols, Transformation, drawn_from, expect

MODULUS = 5
_RESIDUES, _BITS = "01234", "01"
_OPERATIONS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "~": operator.mul}
_PRECEDENCE = {"(": 0, ")": 1, "+": 1, "-": 1, "*": 2, "~": 3}
"""A sign is the operator ~, which multiplies -1 by its operand."""


def number_alphabet(count: int) -> Alphabet:
    """An alphabet of the numbers from 0: characters if all are digits, words otherwise."""
    return Alphabet([*map(str, range(count))], words=count > 10)


class DigitStrings(Transformation):
    """A function of uniform random strings of digits.

    Args:
        symbols: how many different digits there are; letters follow, and then words s1, s2, ...
    """

    def __init__(self, symbols: int = 2) -> None:
        self.source = self.target = meaningless_symbols(symbols, DIGITS)


class ReverseString(DigitStrings, Reverse):
    """0100 -> 0010"""


class DuplicateString(DigitStrings):
    """010 -> 010010"""

    def transform(self, source: Ids) -> Ids:
        return np.tile(source, 2)


class OddsFirst(DigitStrings):
    """01001 -> 10001: every other symbol, beginning with the second, then the rest"""

    def transform(self, source: Ids) -> Ids:
        return np.concatenate([source[1::2], source[::2]])


class BucketSort(DigitStrings):
    """30410 -> 00134: the symbols in the order of the alphabet"""

    def transform(self, source: Ids) -> Ids:
        return np.sort(source)


class EvenPairs(Transformation):
    """0100 -> 0: whether the number of unequal neighbors is odd"""

    def __init__(self) -> None:
        self.source = self.target = number_alphabet(2)

    def transform(self, source: Ids) -> Ids:
        differ: Ids = (source[:1] != source[-1:]).astype(np.int64)
        return differ


class CycleNavigation(Transformation):
    """0120 -> 4: the position after steps of -1, 0 and 1 on a circle of five positions"""

    first_step, steps, positions = -1, 3, 5

    def __init__(self) -> None:
        self.source, self.target = number_alphabet(self.steps), number_alphabet(self.positions)

    def transform(self, source: Ids) -> Ids:
        position: Ids = (source + self.first_step).sum(keepdims=True) % self.positions
        return position


class ParityCheck(CycleNavigation):
    """0111 -> 1: whether the number of ones is odd"""

    first_step, steps, positions = 0, 2, 2


class MissingDuplicateString(Computed):
    """0120113 -> 1: the symbol at 2 in a string and its copy; a 3 fills up odd lengths"""

    source, target = number_alphabet(4), number_alphabet(2)

    def draw(self, rng: Generator, length: int) -> Symbols:
        if length == 1:
            return "1"
        drawn = drawn_from(rng, _BITS, length // 2) * 2
        drawn[rng.integers(len(drawn))] = "2"
        return [*drawn, *"3" * (length % 2)]

    def solve(self, source: Symbols) -> Symbols:
        text, half = "".join(source), len(source) // 2
        if text == "1":
            return text
        twice, filler = text[: 2 * half], text[2 * half :]
        missing = (twice * 2)[twice.find("2") + half :][:1]
        whole = twice.replace("2", missing)
        right = twice.count("2") == 1 and {*whole} <= {*_BITS} and whole[:half] == whole[half:]
        expect(right and filler in ("", "3"), "a string and its copy, with 2 for one symbol")
        return missing


class StackManipulation(Computed):
    """0110422 -> 1102: a stack, popped by 2 and pushed to by 3 and 4, at the end from its top"""

    source, target = number_alphabet(5), number_alphabet(3)

    def draw(self, rng: Generator, length: int) -> Symbols:
        height = int(rng.integers(1, max(length, 2)))
        return drawn_from(rng, _BITS, height) + drawn_from(rng, "234", length - height)

    def solve(self, source: Symbols) -> Symbols:
        text = "".join(source)
        expect(bool(re.fullmatch("[01]+[234]*", text)), "a stack of 0 and 1, then actions 2, 3, 4")
        stack: list[str] = []
        for symbol in text:
            if symbol == "2":
                del stack[-1:]
            else:
                stack.append({"3": "0", "4": "1"}.get(symbol, symbol))
        return [*stack[::-1], "2"]


def drawn_number(rng: Generator, digits: int) -> list[str]:
    """The binary digits of a uniform random number that is not 0."""
    drawn = drawn_from(rng, _BITS, digits)
    return drawn if "1" in drawn else drawn_number(rng, digits)


class BinaryAddition(Computed):
    """11201 -> 1012: the sum of binary numbers with a 2 between them, least digits first"""

    source = target = number_alphabet(3)

    def draw(self, rng: Generator, length: int) -> Symbols:
        if length < 3:
            return drawn_from(rng, _BITS, length)
        first = int(rng.integers(1, length - 1))
        return [*drawn_number(rng, first), "2", *drawn_number(rng, length - 1 - first)]

    def solve(self, source: Symbols) -> Symbols:
        parts = "".join(source).split("2")
        right = all(parts) and (len(parts) == 2 or len(source) in (1, 2))
        expect(right, "two binary numbers with 2 between them")
        result = self.calculate([int(part[::-1], 2) for part in parts], len(source))
        return [*result[::-1], "2"]

    def calculate(self, numbers: list[int], length: int) -> str:
        """The binary digits, greatest first, of the result for the numbers in a source."""
        return f"{sum(numbers):b}"


class BinaryMultiplication(BinaryAddition):
    """11201 -> 0112: the product of binary numbers with a 2 between them, least digits first"""

    def calculate(self, numbers: list[int], length: int) -> str:
        return f"{math.prod(numbers):b}" if len(numbers) == 2 else "0" * (length - 1)


class ComputeSqrt(Computed):
    """100101 -> 110: the integer square root of a binary number, greatest digits first"""

    source = target = number_alphabet(2)

    def draw(self, rng: Generator, length: int) -> Symbols:
        return drawn_number(rng, length)

    def solve(self, source: Symbols) -> Symbols:
        expect(len(source) > 0, "a binary number")
        return f"{math.isqrt(int(''.join(source), 2)):0{(len(source) + 1) // 2}b}"


def evaluate(expression: str) -> int:
    """The value modulo 5 of an expression such as -2*(3-1), by Dijkstra's shunting-yard algorithm.

    Raises `NotASource` for other strings.
    """
    values, operators, complete = list[int](), ["("], False
    for symbol in f"{expression})":
        right = bool(operators) and symbol in ("+-*)" if complete else f"{_RESIDUES}-(")
        expect(right, "an expression")
        if symbol in _RESIDUES:
            values.append(int(symbol))
            complete = True
        elif not complete:
            operators.append("(" if symbol == "(" else "~")
            values += [-1] * (symbol == "-")
        else:
            while _PRECEDENCE[operators[-1]] >= _PRECEDENCE[symbol]:
                second, first = values.pop(), values.pop()
                values.append(_OPERATIONS[operators.pop()](first, second) % MODULUS)
            if symbol == ")":
                operators.pop()
            else:
                operators.append(symbol)
                complete = False
    expect(not operators, "an expression")
    return values[0]


def bracketed_expression(rng: Generator, length: int, operators: str) -> str:
    """Draw an expression of a length, with brackets around each operation."""
    if length < 5:
        digit = "-" * (length % 2 == 0) + drawn_from(rng, _RESIDUES, 1)[0]
        return f"({digit})" if length > 2 else digit
    left = int(rng.integers(1, length - 3))
    operands = [bracketed_expression(rng, n, operators) for n in (left, length - 3 - left)]
    return f"({drawn_from(rng, operators, 1)[0].join(operands)})"


class ModularArithmetic(Computed):
    """25371 -> 0: the value modulo 5 of an expression without brackets, here 2+3*1

    Attributes:
        notation: the character that each source symbol stands for.
    """

    notation = "01234+-*"

    def __init__(self) -> None:
        self.source, self.target = number_alphabet(len(self.notation)), number_alphabet(MODULUS)

    def has_length(self, length: int) -> bool:
        return length % 2 == 1

    def draw(self, rng: Generator, length: int) -> Symbols:
        return [str(self.notation.index(symbol)) for symbol in self.draw_expression(rng, length)]

    def solve(self, source: Symbols) -> Symbols:
        return str(self.solution("".join(self.notation[int(symbol)] for symbol in source)))

    def draw_expression(self, rng: Generator, length: int) -> Symbols:
        """Draw a source of a length that exists, as characters of `notation`."""
        drawn = drawn_from(rng, _RESIDUES, length)
        drawn[1::2] = drawn_from(rng, "+-*", length // 2)
        return drawn

    def solution(self, expression: str) -> int:
        """The answer to a source in characters of `notation`; raises `NotASource`."""
        return evaluate(expression)


class ModularArithmeticBrackets(ModularArithmetic):
    """863749 -> 3: the value modulo 5 of an expression with brackets, here (-3*4)"""

    notation = "01234+-*()"

    def has_length(self, length: int) -> bool:
        return True

    def draw_expression(self, rng: Generator, length: int) -> Symbols:
        return bracketed_expression(rng, length, "+-*")


class SolveEquation(ModularArithmeticBrackets):
    """7 9 5 3 8 10 4 -> 1: x modulo 5 in an equation, here (x+3)=4"""

    notation = "01234+-()x="

    def draw_expression(self, rng: Generator, length: int) -> Symbols:
        if length < 3:
            return "0" * length
        left = bracketed_expression(rng, length - 2, "+-")
        places = [place for place, symbol in enumerate(left) if symbol in _RESIDUES]
        unknown = places[rng.integers(len(places))]
        return f"{left[:unknown]}x{left[unknown + 1 :]}={evaluate(left)}"

    def solution(self, expression: str) -> int:
        if expression in ("0", "00"):
            return 0
        left, _, right = expression.partition("=")
        expect(left.count("x") == 1 and right in {*_RESIDUES}, "one x before = and one digit after")
        values = [evaluate(left.replace("x", digit)) for digit in _RESIDUES]
        return values.index(int(right))
