"""Counts and uniform sampling of a grammar's derivations up to a depth, by source length.

Sampling is that of hao2018, section 4. The depth of a derivation is that of its tree, words
included: a word has depth 1, and a rule one more than its deepest part. All derivations are equally
likely, whatever the probabilities of their rules; an ambiguous string has the probability of all
its derivations.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.random import Generator

from stacktrans.common.reading import DEEPEST_DERIVATION
from stacktrans.grammar.inside import target_of
from stacktrans.grammar.rules import Alternative, GrammarError, Nonterminal, Part, Rules, Sentence

Counts = Mapping[int, int]
"""The number of derivations of each source length."""
Bounds = tuple[int, int]
"""The least and the greatest source length."""
Level = Mapping[str, Bounds]
"""The bounds of nonterminals up to a depth; those without derivations are missing."""
Shape = tuple[int, tuple[str, ...]]
"""A right-hand side up to the spelling of words: their number, and the nonterminals in order."""
Shapes = Mapping[str, Mapping[Shape, int]]
"""The number of a nonterminal's alternatives of each shape, which are often hundreds."""

MAX_PRODUCTS = 5_000_000
"""The maximum number of products of counts for a table, which take seconds."""
MAX_RULES = 1_000_000
"""The maximum number of pairs of a rule and a depth for a table."""
MAX_WORDS = 1_000_000
"""The bound on source lengths above which they count as equal."""


class Derivations:
    """The derivations of a grammar up to a depth, counted by source length, for uniform sampling.

    Args:
        root: the start symbol.
        rules: the alternatives of each nonterminal.
        depth: the depth.

    Attributes:
        bounds: the least and greatest source length; None without derivations.

    Raises:
        GrammarError: the depth is out of range, or there are too many rules to count.
    """

    def __init__(self, root: str, rules: Rules, depth: int) -> None:
        if not 1 <= depth <= DEEPEST_DERIVATION:
            raise GrammarError(f"a depth of {depth}; expected one from 1 to {DEEPEST_DERIVATION}")
        self._root, self._rules, self._depth = root, rules, depth
        self._shapes: Shapes = {
            name: Counter(_shape(each.source) for each in alternatives)
            for name, alternatives in rules.items()
        }
        self._needed = self._needed_nonterminals()
        self._levels: list[Level] = [{}, {}]  # of each depth, from 0
        for names in self._needed[1:]:
            bounds = {name: _bounds(self._shapes[name], self._levels[-1]) for name in names}
            self._levels.append({name: both for name, both in bounds.items() if both})
        self.bounds = self._levels[-1].get(root)
        self._limit = -1
        self._of_nonterminals: dict[tuple[str, int], Counts] = {}
        self._of_shapes: dict[tuple[Shape, int], Counts] = {}

    def _needed_nonterminals(self) -> list[set[str]]:
        """The nonterminals that derivations need at each depth, from 1 on."""
        needed, count = [{self._root}], 0
        for _ in range(self._depth - 1):
            shapes = [shape for name in needed[-1] for shape in self._shapes[name]]
            needed.append({part for _, parts in shapes for part in parts})
            count += sum(len(self._shapes[name]) for name in needed[-1])
            if count > MAX_RULES:
                raise GrammarError(
                    f"derivations of depth {self._depth} are too many to count; expected less depth"
                )
        return needed[::-1]

    def counts(self, longest: int) -> Counts:
        """The number of derivations by source length, at least of lengths up to `longest`.

        All are counted at once if that takes few products. Raises `GrammarError` if there are too
        many to count.
        """
        _, most = self.bounds or (0, 0)
        if self._limit < min(longest, most):
            limits = [n for n in (most, longest) if self._products(n) <= MAX_PRODUCTS]
            if not limits:
                raise self._too_many(most)
            self._count_up_to(limits[0])
        return self._of_nonterminals[self._root, self._depth]

    def _products(self, limit: int) -> int:
        """The products of counts up to a limit; a number above `MAX_PRODUCTS` may be too low."""
        products = 0
        for names, below in zip(self._levels[1:], self._levels, strict=False):
            for name in names:
                for shape in self._shapes[name]:
                    products += _products(shape, below, limit)
                    if products > MAX_PRODUCTS:
                        return products
        return products

    def _too_many(self, most: int) -> GrammarError:
        countable = 1
        while self._products(2 * countable) <= MAX_PRODUCTS:
            countable *= 2
        return GrammarError(
            f"derivations of depth {self._depth} have up to {most}"
            f"{' or more' * (most == MAX_WORDS)} source words, too many to count them; expected "
            f"lengths up to {countable}, or less depth"
        )

    def _count_up_to(self, limit: int) -> None:
        """Count the derivations of each nonterminal by depth and source length, up to a limit."""
        self._limit, self._of_nonterminals, self._of_shapes = limit, {}, {}
        for depth, names in enumerate(self._needed, start=1):
            for name in names:
                total: dict[int, int] = defaultdict(int)
                for shape, times in self._shapes[name].items():
                    for length, count in self._of_shape(shape, depth - 1).items():
                        total[length] += times * count
                self._of_nonterminals[name, depth] = total

    def _of_shape(self, shape: Shape, depth: int) -> Counts:
        """The number of derivations of a right-hand side by source length, up to a depth."""
        if depth < 1:
            return {}
        words, names = shape
        rest: Counts = {words: 1} if words <= self._limit else {}
        for start in reversed(range(len(names))):
            key = ((words, names[start:]), depth)
            if key not in self._of_shapes:
                counts = self._of_nonterminals[names[start], depth]
                self._of_shapes[key] = self._convolved(counts, rest)
            rest = self._of_shapes[key]
        return rest

    def _convolved(self, first: Counts, second: Counts) -> Counts:
        total: dict[int, int] = defaultdict(int)
        others_by_length = sorted(second.items())
        for length, count in first.items():
            for more, others in others_by_length:
                if length + more > self._limit:
                    break
                total[length + more] += count * others
        return total

    def sample(self, rng: Generator, length: int) -> Sentence:
        """Draw a uniform derivation of a source length; returns source and target.

        Raises `GrammarError` if there is none, or if `counts` does.
        """
        if not self.counts(length).get(length):
            raise GrammarError(f"no derivation of depth {self._depth} has {length} source words")
        rule = self._draw_rule(rng, self._root, self._depth, length)
        source, derivation = [], [rule]
        # Rules with the index of the next part, the depth of parts, and the remaining words.
        pending = [(rule, 0, self._depth - 1, length)]
        while pending:
            rule, index, depth, words = pending.pop()
            for part in rule.source[index:]:
                index += 1
                if isinstance(part, Nonterminal):
                    rest = _shape(rule.source[index:])
                    size = self._draw_size(rng, part.name, rest, depth, words)
                    inner = self._draw_rule(rng, part.name, depth, size)
                    derivation.append(inner)
                    pending += [(rule, index, depth, words - size), (inner, 0, depth - 1, size)]
                    break
                source.append(part)
                words -= 1
        return source, target_of(derivation)

    def _draw_rule(self, rng: Generator, name: str, depth: int, length: int) -> Alternative:
        rules = self._rules[name]
        counts = [self._of_shape(_shape(rule.source), depth - 1).get(length, 0) for rule in rules]
        return rules[_draw_index(rng, counts)]

    def _draw_size(self, rng: Generator, name: str, after: Shape, depth: int, words: int) -> int:
        """Draw how many of the remaining words of a rule its next nonterminal derives."""
        rest = self._of_shape(after, depth)
        if len(rest) == 1:
            rng.random()  # as much as a draw takes
            return words - next(iter(rest))
        sizes = sorted(self._of_nonterminals[name, depth].items())
        counts = [count * rest.get(words - size, 0) for size, count in sizes]
        return sizes[_draw_index(rng, counts)][0]


def _shape(parts: Sequence[Part]) -> Shape:
    names = tuple(part.name for part in parts if isinstance(part, Nonterminal))
    return len(parts) - len(names), names


def _bounds(shapes: Iterable[Shape], below: Level) -> Bounds | None:
    """The bounds of a nonterminal whose alternatives have these shapes, one above a level."""
    bounds = [
        [words + sum(below[name][end] for name in names) for end in (0, 1)]
        for words, names in shapes
        if all(name in below for name in names)
    ]
    if not bounds:
        return None
    least, most = min(least for least, _ in bounds), max(most for _, most in bounds)
    return min(least, MAX_WORDS), min(most, MAX_WORDS)


def _products(shape: Shape, below: Level, limit: int) -> int:
    """The number of products that a shape takes, at least 1."""
    products, rest = 1, 1
    for name in reversed(shape[1]):
        if name not in below:
            return products
        least, most = below[name]
        lengths = max(0, min(most, limit) - least + 1)
        # Multiplying by 1 takes almost no time.
        products += lengths // 8 if rest == 1 else min(lengths * rest, limit * limit // 2)
        rest = min(lengths + rest - 1, limit)
    return products


def _draw_index(rng: Generator, counts: Sequence[int]) -> int:
    """Draw an index in proportion to counts, which may exceed the range of floats."""
    total = sum(counts)
    shares = np.array([count / total for count in counts])
    return int(rng.choice(len(counts), p=shares / shares.sum()))
