"""Parts of machines: rules and their terms, families of symbols, symbol tables, and buffers.

A rule depends on an observation, whose components are the input (component 0), the stack symbol
that is read at each end of a memory (the next components), and the state (the last). The entries
of a component, and outputs, come in families: a family has an entry for each of some symbols, or a
single entry without a symbol. So one rule can cover all symbols: it pushes the stack symbol of the
symbol that is read.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from stacktrans.tasks.alphabets import Ids

EMPTY = 0
"""The stack symbol that is read from an empty memory; in an extraction, also the number and the
class of the vector that is read from one."""
START = 0
"""The state before the first step."""
CONSTANT = -1
"""The component of terms that do not depend on the observation."""


class Family(NamedTuple):
    """A family of inputs, outputs, stack symbols or states that differ only in their symbol.

    Attributes:
        name: the common name of its entries.
        symbols: the index of each entry's symbol; None for a single entry without a symbol.
    """

    name: str
    symbols: tuple[int, ...] | None = None


@dataclass(frozen=True)
class SymbolTable:
    """A numbering of inputs, outputs, states or stack symbols, family by family."""

    families: tuple[Family, ...]

    @property
    def size(self) -> int:
        """The number of entries."""
        return len(self.entries)

    @functools.cached_property
    def entries(self) -> list[tuple[int, int | None]]:
        """The family and the symbol of each entry."""
        return [
            (number, symbol)
            for number, family in enumerate(self.families)
            for symbol in (family.symbols if family.symbols is not None else (None,))
        ]

    @functools.cached_property
    def members(self) -> list[list[int]]:
        """The entries of each family."""
        members: list[list[int]] = [[] for _ in self.families]
        for number, (family, _) in enumerate(self.entries):
            members[family].append(number)
        return members

    @functools.cached_property
    def family_of(self) -> Ids:
        """[entries] the family of each entry."""
        return np.array([family for family, _ in self.entries])

    @functools.cached_property
    def symbol_of(self) -> Ids:
        """[entries] the symbol of each entry; -1 without one."""
        return np.array([-1 if symbol is None else symbol for _, symbol in self.entries])

    @functools.cached_property
    def numbers(self) -> dict[tuple[int, int | None], int]:
        """The number of each entry, by its family and its symbol."""
        return {entry: number for number, entry in enumerate(self.entries)}


class Term(NamedTuple):
    """A term of a rule: an entry of a symbol table as a function of an observation.

    Attributes:
        component: the component of the observation whose symbol the entry has; `CONSTANT` if the
            entry does not depend on the observation.
        entry: the number of the entry's family; if it is constant, the number of the entry.
    """

    component: int
    entry: int


class Rule(NamedTuple):
    """A rule: the transition for a set of observations.

    Attributes:
        when: for each component, the entries that it may be; None for any.
        equal: pairs of components, each with whether their symbols have to be the same.
        signals: of the memories and buffers, 0 or 1.
        output: the output; None where no output is scored.
        pushed: the stack symbol of each push; None where nothing is pushed.
        next_state: the state after it.
    """

    when: tuple[frozenset[int] | None, ...]
    equal: tuple[tuple[int, int, bool], ...]
    signals: tuple[int, ...]
    output: Term | None
    pushed: tuple[Term | None, ...]
    next_state: Term

    def applies(self, observation: tuple[int, ...], symbols: list[int | None]) -> bool:
        """Whether it applies to an observation, given the symbols of its components."""
        for entries, entry in zip(self.when, observation, strict=True):
            if entries is not None and entry not in entries:
                return False
        return all(
            (symbols[one] is not None and symbols[one] == symbols[other]) == same
            for one, other, same in self.equal
        )


class Buffers(NamedTuple):
    """The input buffer and the output buffer of a machine.

    Attributes:
        steps_per_symbol: steps for each symbol of the input.
        extra_steps: further steps.
        output_skip: the number of first outputs that are dropped.
    """

    steps_per_symbol: int
    extra_steps: int
    output_skip: int


def ranges(numbers: Iterable[int]) -> list[list[int]]:
    """Ranges of consecutive numbers, both ends included."""
    result: list[list[int]] = []
    for number in numbers:
        if result and result[-1][1] == number - 1:
            result[-1][1] = number
        else:
            result.append([number, number])
    return result
