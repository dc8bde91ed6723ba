"""The Chomsky normal form of a synchronous grammar's source side."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from graphlib import TopologicalSorter

from stacktrans.grammar.rules import Alternative, Nonterminal, Part, Rules, Template, unit_links


@dataclass(frozen=True, slots=True)
class Lexical:
    """A production of one source word.

    Attributes:
        log_probability: natural logarithm.
        template: its target; None if the word belongs to the template of a longer rule.
        arity: how many phrases the template takes.
        word: the source word.
    """

    log_probability: float
    template: Template | None
    arity: int
    word: str


@dataclass(frozen=True, slots=True)
class Binary:
    """A production of two symbols.

    Attributes:
        log_probability: natural logarithm.
        template: its target; None if it only goes on with a longer rule.
        arity: how many phrases the template takes.
        left: the first symbol.
        right: the second symbol.
    """

    log_probability: float
    template: Template | None
    arity: int
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
        source_words: the words that some symbol produces.
    """

    def __init__(self, root: str, rules: Rules) -> None:
        self.lexical: list[list[Lexical]] = []
        self.binary: list[list[Binary]] = []
        self._symbols: dict[tuple[Part, ...], int] = {}
        symbols = {name: self._new_symbol((Nonterminal(name),)) for name in rules}
        for name, alternatives in _without_units(rules).items():
            for alternative in alternatives:
                self._add(symbols[name], alternative)
        self.root = symbols[root]
        self.source_words = frozenset(
            production.word for productions in self.lexical for production in productions
        )

    def __len__(self) -> int:
        return len(self._symbols)

    def _new_symbol(self, parts: tuple[Part, ...]) -> int:
        self._symbols[parts] = len(self._symbols)
        self.lexical.append([])
        self.binary.append([])
        return self._symbols[parts]

    def _add(self, symbol: int, alternative: Alternative) -> None:
        arity = sum(isinstance(part, Nonterminal) for part in alternative.source)
        log_probability = math.log(alternative.probability)
        self._produce(symbol, log_probability, alternative.target, arity, alternative.source)

    def _produce(
        self,
        symbol: int,
        log_probability: float,
        template: Template | None,
        arity: int,
        parts: tuple[Part, ...],
    ) -> None:
        first, rest = parts[0], parts[1:]
        if rest:
            left, right = self._symbol_of((first,)), self._symbol_of(rest)
            self.binary[symbol].append(Binary(log_probability, template, arity, left, right))
        else:
            # A single part is a word: nonterminals alone were unit productions.
            self.lexical[symbol].append(Lexical(log_probability, template, arity, str(first)))

    def _symbol_of(self, parts: tuple[Part, ...]) -> int:
        """The symbol that derives exactly these parts, which it does with certainty."""
        if parts not in self._symbols:
            self._produce(self._new_symbol(parts), 0.0, None, 0, parts)
        return self._symbols[parts]


def _without_units(rules: Rules) -> dict[str, list[Alternative]]:
    """The rules with each unit production replaced by what its nonterminal derives next."""
    replaced: dict[str, list[Alternative]] = {}
    for name in TopologicalSorter(unit_links(rules)).static_order():
        replaced[name] = []
        for alternative in rules[name]:
            if alternative.unit is None:
                replaced[name].append(alternative)
            else:
                replaced[name] += [
                    _composed(alternative, inner) for inner in replaced[alternative.unit]
                ]
    return replaced


def _composed(unit: Alternative, inner: Alternative) -> Alternative:
    """A unit production and the next one as one alternative."""
    place = unit.target.index(0)
    return replace(
        inner,
        probability=unit.probability * inner.probability,
        target=unit.target[:place] + inner.target + unit.target[place + 1 :],
    )


Derivation = Sequence[Lexical | Binary]
"""A leftmost derivation: the productions in the order in which it uses them."""


def target_of(derivation: Derivation) -> list[str]:
    """The target that a derivation yields."""
    phrases: list[Sequence[str | int]] = []
    # Backwards, a production comes after all of its phrases, and the first is on top.
    for production in reversed(derivation):
        template = production.template
        if template is None:
            continue
        if not production.arity:
            phrases.append(template)
            continue
        children = [phrases.pop() for _ in range(production.arity)]
        phrase: list[str | int] = []
        for item in template:
            if isinstance(item, int):
                phrase += children[item]
            else:
                phrase.append(item)
        phrases.append(phrase)
    return [str(word) for word in phrases.pop()]
