"""The Chomsky normal form of a synchronous grammar's source side."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from graphlib import TopologicalSorter

from stacktrans.grammar.rules import (
    MOST_PARTS,
    Alternative,
    GrammarError,
    Nonterminal,
    Part,
    Rules,
    Template,
    unit_links,
)


@dataclass(frozen=True, slots=True)
class Production:
    """A production of the normal form.

    Attributes:
        log_probability: natural logarithm.
        target: its target; None if it only continues a longer rule, whose target has it.
        arity: how many phrases the target takes.
    """

    log_probability: float
    target: Template | None
    arity: int


@dataclass(frozen=True, slots=True)
class Lexical(Production):
    """A production of one source word."""

    word: str


@dataclass(frozen=True, slots=True)
class Binary(Production):
    """A production of two symbols."""

    left: int
    right: int


class NormalForm:
    """The Chomsky normal form of a grammar's source side.

    A symbol is a number. It derives a nonterminal of the grammar, a word inside a longer
    rule, or the rest of a rule after its first parts; rules that end alike share the
    symbols of their ends.

    Attributes:
        root: the symbol of the grammar's root.
        lexical: each symbol's productions of a word.
        binary: each symbol's productions of two symbols.
    """

    def __init__(self, root: str, rules: Rules) -> None:
        self.lexical: list[list[Lexical]] = []
        self.binary: list[list[Binary]] = []
        # What is left of a rule from some place on: its first part, and the number of the rest.
        self._ends: dict[tuple[Part, int], int] = {}
        self._symbols: dict[int, int] = {}
        symbols = {name: self._new_symbol(self._end(Nonterminal(name))) for name in rules}
        for name, alternatives in _without_units(rules).items():
            for alternative in alternatives:
                self._add(symbols[name], alternative)
        self.root = symbols[root]

    def __len__(self) -> int:
        return len(self._symbols)

    def _end(self, part: Part, rest: int = -1) -> int:
        """The number of what is left of a rule, the same for all that end alike."""
        return self._ends.setdefault((part, rest), len(self._ends))

    def _new_symbol(self, end: int) -> int:
        self._symbols[end] = len(self._symbols)
        self.lexical.append([])
        self.binary.append([])
        return self._symbols[end]

    def _add(self, symbol: int, alternative: Alternative) -> None:
        parts = alternative.source
        if not alternative.probability:
            raise GrammarError("unit productions one after another have a probability of nearly 0")
        log_probability = math.log(alternative.probability)
        target: Template | None = alternative.target
        arity = alternative.arity
        ends = [-1]
        for part in reversed(parts):
            ends.append(self._end(part, ends[-1]))
        ends.reverse()
        for place, first in enumerate(parts):
            if place + 1 == len(parts):
                # A single part is a word: nonterminals alone were unit productions.
                self.lexical[symbol].append(Lexical(log_probability, target, arity, str(first)))
                return
            left, known = self._single(first), ends[place + 1] in self._symbols
            right = self._symbols[ends[place + 1]] if known else self._new_symbol(ends[place + 1])
            self.binary[symbol].append(Binary(log_probability, target, arity, left, right))
            if known:
                return
            # The rest is derived with certainty, and has no target of its own.
            symbol, log_probability, target, arity = right, 0.0, None, 0

    def _single(self, part: Part) -> int:
        """The symbol that derives exactly this part."""
        end = self._end(part)
        if end not in self._symbols:
            symbol = self._new_symbol(end)
            self.lexical[symbol].append(Lexical(0.0, None, 0, str(part)))
        return self._symbols[end]


def _without_units(rules: Rules) -> dict[str, list[Alternative]]:
    """The rules with each unit production replaced by what its nonterminal derives next."""
    replaced: dict[str, list[Alternative]] = {}
    size = 0
    for name in TopologicalSorter(unit_links(rules)).static_order():
        replaced[name] = []
        for alternative in rules[name]:
            unit = alternative.unit
            for inner in [None] if unit is None else replaced[unit]:
                replaced[name].append(_composed(alternative, inner) if inner else alternative)
                size += 1 + len(replaced[name][-1].target)
                if size > MOST_PARTS:
                    raise GrammarError.of(
                        name,
                        "unit productions that lead to one another stand for too many rules; "
                        "expected fewer",
                    )
    return replaced


def _composed(unit: Alternative, inner: Alternative) -> Alternative:
    """A unit production and the next one as one alternative."""
    place = unit.target.index(0)
    return replace(
        inner,
        probability=unit.probability * inner.probability,
        target=unit.target[:place] + inner.target + unit.target[place + 1 :],
    )


def target_of(derivation: Sequence[Production | Alternative]) -> list[str]:
    """The target of a leftmost derivation: the rules in the order in which it uses them."""
    phrases: list[list[str]] = []
    # Backwards, a rule comes after all of its phrases, and the first is on top.
    for rule in reversed(derivation):
        if rule.target is None:
            continue
        children = [phrases.pop() for _ in range(rule.arity)]
        phrase: list[str] = []
        for item in rule.target:
            phrase += children[item] if isinstance(item, int) else [item]
        phrases.append(phrase)
    return phrases.pop()
