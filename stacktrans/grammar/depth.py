"""Derivations of at most a given depth, counted and drawn (hao2018, section 4).

The depth of a derivation is that of its tree, words included: a word has depth 1, and a
rule one more than the deepest of its parts. All derivations are equally likely, whatever
their rules' probabilities; a string that has several is the likelier for it.
"""

import functools
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from stacktrans.grammar.rules import Alternative, Nonterminal, Part, Rules

Counts = Mapping[int, int]
"""How many derivations there are of each source length."""


class DepthTable:
    """Counts of a grammar's derivations by depth and source length.

    Args:
        rules: the alternatives of each nonterminal.
    """

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._of_parts = functools.cache(self._count_parts)

    def counts(self, nonterminal: str, depth: int) -> Counts:
        """How many derivations of each source length are no deeper than `depth`."""
        # From the lowest up, so that no depth is too great for Python's own stack.
        for lower in range(1, depth):
            self._of_nonterminal(nonterminal, lower)
        return self._of_nonterminal(nonterminal, depth)

    @functools.cache  # noqa: B019 - lives as long as the grammar does
    def _of_nonterminal(self, nonterminal: str, depth: int) -> Counts:
        total: dict[int, int] = defaultdict(int)
        for alternative in self._rules[nonterminal]:
            for length, count in self._of_parts(alternative.source, depth - 1).items():
                total[length] += count
        return total

    def _count_parts(self, parts: tuple[Part, ...], depth: int) -> Counts:
        if depth < 1:
            return {}
        if not parts:
            return {0: 1}
        total: dict[int, int] = defaultdict(int)
        rest = self._of_parts(parts[1:], depth)
        for length, count in self._of_part(parts[0], depth).items():
            for more, others in rest.items():
                total[length + more] += count * others
        return total

    def _of_part(self, part: Part, depth: int) -> Counts:
        return self._of_nonterminal(part.name, depth) if isinstance(part, Nonterminal) else {1: 1}

    def draw(
        self, generator: np.random.Generator, nonterminal: str, depth: int, length: int
    ) -> tuple[list[str], list[str]]:
        """Source and target of one of the derivations of a source length, all equally likely."""
        listed = self._rules[nonterminal]
        ways = [self._of_parts(each.source, depth - 1).get(length, 0) for each in listed]
        alternative = listed[_chosen(generator, ways)]
        source, children = self._drawn_parts(generator, alternative.source, depth - 1, length)
        return source, _filled(alternative, children)

    def _drawn_parts(
        self, generator: np.random.Generator, parts: tuple[Part, ...], depth: int, length: int
    ) -> tuple[list[str], list[list[str]]]:
        """The source of some parts, and the target of each nonterminal among them."""
        source: list[str] = []
        targets: list[list[str]] = []
        for place, part in enumerate(parts):
            if not isinstance(part, Nonterminal):
                source.append(part)
                length -= 1
                continue
            rest = self._of_parts(parts[place + 1 :], depth)
            own = sorted(self._of_nonterminal(part.name, depth).items())
            ways = [count * rest.get(length - size, 0) for size, count in own]
            size = own[_chosen(generator, ways)][0]
            words, target = self.draw(generator, part.name, depth, size)
            source += words
            targets.append(target)
            length -= size
        return source, targets


def _filled(alternative: Alternative, children: Sequence[list[str]]) -> list[str]:
    words: list[str] = []
    for part in alternative.target:
        words += children[part] if isinstance(part, int) else [part]
    return words


def _chosen(generator: np.random.Generator, ways: Sequence[int]) -> int:
    """An index, as likely as its share of the ways, which may be more than any float holds."""
    total = sum(ways)
    shares = np.array([way / total for way in ways])
    return int(generator.choice(len(ways), p=shares / shares.sum()))
