"""Derivations of at most a given depth, counted and drawn (hao2018, section 4).

The depth of a derivation is that of its tree, words included: a word has depth 1, and a
rule one more than the deepest of its parts. All derivations are equally likely, whatever
their rules' probabilities; a string that has several is the likelier for it.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from stacktrans.common.reading import DEEPEST
from stacktrans.grammar.inside import target_of
from stacktrans.grammar.rules import Alternative, GrammarError, Nonterminal, Part, Rules

Counts = Mapping[int, int]
"""How many derivations there are of each source length."""
Bounds = tuple[int, int]
"""The least and the greatest source length."""
Level = Mapping[str, Bounds]
"""The bounds of nonterminals' derivations of one depth; those that have none are missing."""
Shape = tuple[int, tuple[str, ...]]
"""All that matters of some parts: how many words there are, and the nonterminals in order."""
Shapes = Mapping[str, Mapping[Shape, int]]
"""How many of a nonterminal's rules have each shape; hundreds often differ by a word alone."""

MOST_PRODUCTS = 5_000_000
"""The most products of counts that are made for one table, which takes seconds."""
MOST_RULES = 1_000_000
"""The most rules, each at every depth where it is used, that are looked at for one table."""
MOST_WORDS = 1_000_000
"""How far the greatest source length is followed."""


class DepthTable:
    """A grammar's derivations by depth and source length.

    Args:
        root: the nonterminal that derives sentences.
        rules: the alternatives of each nonterminal.
    """

    def __init__(self, root: str, rules: Rules) -> None:
        self._root, self._rules = root, rules
        self._shapes: Shapes = {
            name: Counter(_shape(each.source) for each in alternatives)
            for name, alternatives in rules.items()
        }
        self._levels: dict[int, list[Level]] = {}
        self._tables: dict[int, _CountTable] = {}

    def bounds(self, depth: int) -> Bounds | None:
        """The least and greatest source length of derivations no deeper; raises `GrammarError`."""
        return self._levels_to(depth)[-1].get(self._root)

    def counts(self, depth: int, longest: int) -> Counts:
        """How many derivations no deeper have each length up to one; raises `GrammarError`."""
        return self._table(depth, longest).of_nonterminals[self._root, depth]

    def sample(
        self, generator: np.random.Generator, depth: int, length: int, longest: int
    ) -> tuple[list[str], list[str]]:
        """Source and target of one of the derivations no deeper, all equally likely, of a length.

        Raises `GrammarError` if there is none, or if there are too many to count.
        """
        if not self.counts(depth, longest).get(length):
            raise GrammarError(f"no derivation of depth {depth} has {length} source words")
        return self._table(depth, longest).draw(generator, self._root, depth, length)

    def _levels_to(self, depth: int) -> list[Level]:
        """For each depth up to one, from 0, the bounds of what derivations so deep are made of."""
        if depth not in self._levels:
            if not 1 <= depth <= DEEPEST:
                raise GrammarError(f"a depth of {depth}; expected one from 1 to {DEEPEST}")
            levels: list[Level] = [{}, {}]
            for names in self._needed(depth)[1:]:
                found = {name: _bounds(self._shapes[name], levels[-1]) for name in names}
                levels.append({name: both for name, both in found.items() if both})
            self._levels[depth] = levels
        return self._levels[depth]

    def _needed(self, depth: int) -> list[set[str]]:
        """For each depth from 1 up, the nonterminals that derivations use there."""
        needed, count = [{self._root}], 0
        for _ in range(depth - 1):
            shapes = [shape for name in needed[-1] for shape in self._shapes[name]]
            needed.append({part for _, parts in shapes for part in parts})
            count += sum(len(self._shapes[name]) for name in needed[-1])
            if count > MOST_RULES:
                raise GrammarError(
                    f"derivations of depth {depth} are too many to count; expected less depth"
                )
        return needed[::-1]

    def _table(self, depth: int, longest: int) -> "_CountTable":
        """Counts of all lengths if there are not too many, or else of those up to `longest`."""
        _, most = self.bounds(depth) or (0, 0)
        if depth not in self._tables or self._tables[depth].limit < min(longest, most):
            few = [n for n in (most, longest) if self._products(depth, n) <= MOST_PRODUCTS]
            if not few:
                raise self._too_many(depth, most)
            self._tables[depth] = _CountTable(
                self._rules, self._shapes, self._needed(depth), limit=few[0]
            )
        return self._tables[depth]

    def _too_many(self, depth: int, most: int) -> GrammarError:
        countable = 1
        while self._products(depth, 2 * countable) <= MOST_PRODUCTS:
            countable *= 2
        return GrammarError(
            f"derivations of depth {depth} have up to {most}{' or more' * (most == MOST_WORDS)} "
            f"source words, too many to count them; expected lengths up to {countable}, or less "
            "depth"
        )

    def _products(self, depth: int, limit: int) -> int:
        """How many products of counts are made, or more than `MOST_PRODUCTS`."""
        made, levels = 0, self._levels_to(depth)
        for names, below in zip(levels[1:], levels, strict=False):
            for name in names:
                for shape in self._shapes[name]:
                    made += _products(shape, below, limit)
                    if made > MOST_PRODUCTS:
                        return made
        return made


def _shape(parts: Sequence[Part]) -> Shape:
    names = tuple(part.name for part in parts if isinstance(part, Nonterminal))
    return len(parts) - len(names), names


def _bounds(shapes: Iterable[Shape], below: Level) -> Bounds | None:
    """The bounds of a nonterminal with rules of some shapes, above a level."""
    found = [
        [words + sum(below[name][end] for name in names) for end in (0, 1)]
        for words, names in shapes
        if all(name in below for name in names)
    ]
    if not found:
        return None
    least, most = min(least for least, _ in found), max(most for _, most in found)
    return min(least, MOST_WORDS), min(most, MOST_WORDS)


def _products(shape: Shape, below: Level, limit: int) -> int:
    """How many products there are in counting a shape, at least 1."""
    made, rest = 1, 1
    for name in reversed(shape[1]):
        if name not in below:
            return made
        least, most = below[name]
        own = max(0, min(most, limit) - least + 1)
        # To multiply by 1 takes no time.
        made += own // 8 if rest == 1 else min(own * rest, limit * limit // 2)
        rest = min(own + rest - 1, limit)
    return made


class _CountTable:
    """Counts of derivations no deeper, by the nonterminals needed at each depth, up to a length."""

    def __init__(
        self, rules: Rules, shapes: Shapes, needed: Sequence[Iterable[str]], limit: int
    ) -> None:
        self._rules, self.limit = rules, limit
        self.of_nonterminals: dict[tuple[str, int], Counts] = {}
        self._of_shapes: dict[tuple[Shape, int], Counts] = {}
        for depth, names in enumerate(needed, start=1):
            for name in names:
                total: dict[int, int] = defaultdict(int)
                for shape, times in shapes[name].items():
                    for length, count in self._of_shape(shape, depth - 1).items():
                        total[length] += times * count
                self.of_nonterminals[name, depth] = total

    def _of_shape(self, shape: Shape, depth: int) -> Counts:
        """How many ways there are for some parts, by the length of their source."""
        if depth < 1:
            return {}
        words, names = shape
        rest: Counts = {words: 1} if words <= self.limit else {}
        for start in reversed(range(len(names))):
            key = ((words, names[start:]), depth)
            if key not in self._of_shapes:
                own = self.of_nonterminals[names[start], depth]
                self._of_shapes[key] = self._convolved(own, rest)
            rest = self._of_shapes[key]
        return rest

    def _convolved(self, first: Counts, second: Counts) -> Counts:
        total: dict[int, int] = defaultdict(int)
        listed = sorted(second.items())
        for length, count in first.items():
            for more, others in listed:
                if length + more > self.limit:
                    break
                total[length + more] += count * others
        return total

    def draw(
        self, generator: np.random.Generator, name: str, depth: int, length: int
    ) -> tuple[list[str], list[str]]:
        """Source and target of one of the derivations of a source length, all equally likely."""
        rule = self._drawn_rule(generator, name, depth, length)
        source, derivation = [], [rule]
        # Rules with the part that is next, how deep parts may be, and how many words are to come.
        pending = [(rule, 0, depth - 1, length)]
        while pending:
            rule, place, depth, left = pending.pop()
            for part in rule.source[place:]:
                place += 1
                if isinstance(part, Nonterminal):
                    rest = _shape(rule.source[place:])
                    size = self._drawn_size(generator, part.name, rest, depth, left)
                    inner = self._drawn_rule(generator, part.name, depth, size)
                    derivation.append(inner)
                    pending += [(rule, place, depth, left - size), (inner, 0, depth - 1, size)]
                    break
                source.append(part)
                left -= 1
        return source, target_of(derivation)

    def _drawn_rule(
        self, generator: np.random.Generator, name: str, depth: int, length: int
    ) -> Alternative:
        listed = self._rules[name]
        ways = [self._of_shape(_shape(each.source), depth - 1).get(length, 0) for each in listed]
        return listed[_chosen(generator, ways)]

    def _drawn_size(
        self, generator: np.random.Generator, name: str, after: Shape, depth: int, left: int
    ) -> int:
        """How many of the words that are left to a rule are of its next nonterminal."""
        rest = self._of_shape(after, depth)
        if len(rest) == 1:
            generator.random()  # as much as a choice takes
            return left - next(iter(rest))
        own = sorted(self.of_nonterminals[name, depth].items())
        ways = [count * rest.get(left - size, 0) for size, count in own]
        return own[_chosen(generator, ways)][0]


def _chosen(generator: np.random.Generator, ways: Sequence[int]) -> int:
    """An index, as likely as its share of the ways, which may be more than any float holds."""
    total = sum(ways)
    shares = np.array([way / total for way in ways])
    return int(generator.choice(len(ways), p=shares / shares.sum()))
