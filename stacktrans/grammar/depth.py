"""Derivations of at most a given depth, counted and drawn (hao2018, section 4).

The depth of a derivation is that of its tree, words included: a word has depth 1, and a
rule one more than the deepest of its parts. All derivations are equally likely, whatever
their rules' probabilities; a string that has several is the likelier for it.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from stacktrans.grammar.rules import Alternative, GrammarError, Nonterminal, Part, Rules

Counts = Mapping[int, int]
"""How many derivations there are of each source length."""
Bounds = tuple[int, int]
"""The least and the greatest source length."""
Level = Mapping[str, Bounds]
"""The bounds of nonterminals' derivations of one depth; those that have none are missing."""
Shape = tuple[int, tuple[str, ...]]
"""All that counts of some parts: how many words there are, and the nonterminals in order."""

DEEPEST = 10_000
"""The greatest depth that can be asked for."""
MOST_PRODUCTS = 5_000_000
"""The most products of counts that are made for one table, which takes seconds."""
MOST_RULES = 1_000_000
"""The most rules, each at every depth where it is made use of, that are looked at for one table."""
MOST_WORDS = 1_000_000
"""How far the greatest source length is followed."""


class DepthTable:
    """Counts of a grammar's derivations by depth and source length.

    Args:
        root: the nonterminal that derives sentences.
        rules: the alternatives of each nonterminal.
    """

    def __init__(self, root: str, rules: Rules) -> None:
        self._root, self._rules = root, rules
        # Hundreds of rules often differ by a word alone.
        self._shapes = {
            name: Counter(_shape(each.source) for each in alternatives)
            for name, alternatives in rules.items()
        }
        self._levels: dict[int, list[Level]] = {}
        self._limits: dict[tuple[int, int], int | None] = {}
        self._counted: dict[int | None, _Counted] = {}

    def bounds(self, depth: int) -> Bounds | None:
        """The least and the greatest source length of derivations no deeper; None if none is.

        Raises:
            GrammarError: such a depth can't be asked for.
        """
        return self._levels_to(depth)[-1].get(self._root)

    def _levels_to(self, depth: int) -> list[Level]:
        """For each depth up to one, from 0, the bounds of what derivations so deep are made of."""
        if depth not in self._levels:
            if not 1 <= depth <= DEEPEST:
                raise GrammarError(f"a depth of {depth}; expected one from 1 to {DEEPEST}")
            levels: list[Level] = [{}]
            for names in reversed(self._needed(depth)):
                found = {name: _bounds(self._shapes[name], levels) for name in names}
                levels.append({name: both for name, both in found.items() if both})
            self._levels[depth] = levels
        return self._levels[depth]

    def _needed(self, depth: int) -> list[set[str]]:
        """For each depth, from the greatest down to 1, the nonterminals that are made use of."""
        needed, names, count = [], {self._root}, 0
        for _ in range(depth):
            needed.append(names)
            names = _parts_of(names, self._shapes)
            count += sum(len(self._shapes[name]) for name in names)
            if count > MOST_RULES:
                raise GrammarError(
                    f"derivations of depth {depth} are too many to count; expected less depth"
                )
        return needed

    def counts(self, depth: int, longest: int) -> Counts:
        """How many derivations no deeper than `depth` there are of each source length.

        Args:
            depth: at least 1.
            longest: the longest length of interest; those of others may be missing.

        Raises:
            GrammarError: such a depth can't be asked for, or there is too much to count.
        """
        if self.bounds(depth) is None:
            return {}
        return self._up_to(depth, longest).counts(self._root, depth)

    def draw(
        self, generator: np.random.Generator, depth: int, length: int, longest: int
    ) -> tuple[list[str], list[str]]:
        """Source and target of one of the derivations of a source length, all equally likely.

        Args:
            generator: where the randomness comes from.
            depth: as for `counts`.
            length: of the source; `counts` has it.
            longest: as for `counts`.
        """
        return self._up_to(depth, longest).draw(generator, self._root, depth, length)

    def _up_to(self, depth: int, longest: int) -> "_Counted":
        """Counts of all lengths where there are not too many, or else of those of interest."""
        if (depth, longest) not in self._limits:
            self._limits[depth, longest] = self._limit(depth, longest)
        limit = self._limits[depth, longest]
        if limit not in self._counted:
            self._counted[limit] = _Counted(self._rules, self._shapes, limit)
        return self._counted[limit]

    def _limit(self, depth: int, longest: int) -> int | None:
        if self._products(depth, None) <= MOST_PRODUCTS:
            return None
        if self._products(depth, longest) > MOST_PRODUCTS:
            _, most = self.bounds(depth) or (0, 0)
            raise GrammarError(
                f"derivations of depth {depth} have up to {_written(most)} source words, too many "
                f"to count them; expected lengths up to {self._countable(depth)}, or less depth"
            )
        return longest

    def _countable(self, depth: int) -> int:
        """A length up to which derivations can be counted, a power of two."""
        longest = 1
        while self._products(depth, 2 * longest) <= MOST_PRODUCTS:
            longest *= 2
        return longest

    def _products(self, depth: int, limit: int | None) -> int:
        """How many products of counts are made, or more than `MOST_PRODUCTS`."""
        made, levels = 0, self._levels_to(depth)
        for names, below in zip(levels[1:], levels, strict=False):
            for name in names:
                for shape in self._shapes[name]:
                    made += _products(shape, below, limit)
                    if made > MOST_PRODUCTS:
                        return made
        return made


def _parts_of(names: Iterable[str], shapes: Mapping[str, Iterable[Shape]]) -> set[str]:
    """The nonterminals that stand in the rules of some others."""
    return {part for name in names for _, parts in shapes[name] for part in parts}


def _written(most: int) -> str:
    return f"{most} or more" if most == MOST_WORDS else str(most)


def _shape(parts: Sequence[Part]) -> Shape:
    names = tuple(part.name for part in parts if isinstance(part, Nonterminal))
    return len(parts) - len(names), names


def _bounds(shapes: Iterable[Shape], levels: Sequence[Level]) -> Bounds | None:
    """The bounds of a nonterminal with rules of some shapes, above some levels."""
    below = levels[-1]
    found = [
        [words + sum(below[name][end] for name in names) for end in (0, 1)]
        for words, names in shapes
        if len(levels) > 1 and all(name in below for name in names)
    ]
    if not found:
        return None
    least, most = min(least for least, _ in found), max(most for _, most in found)
    return min(least, MOST_WORDS), min(most, MOST_WORDS)


def _products(shape: Shape, below: Level, limit: int | None) -> int:
    """How many products there are in counting a shape, at least 1."""
    made, rest = 1, 1
    for name in reversed(shape[1]):
        if name not in below:
            return made
        least, most = below[name]
        own = max(0, (most if limit is None else min(most, limit)) - least + 1)
        if rest == 1:
            made += own // 8  # which takes no time to multiply
        else:
            made += own * rest if limit is None else min(own * rest, limit * limit // 2)
        rest = own + rest - 1 if limit is None else min(own + rest - 1, limit)
    return made


@dataclass
class _Frame:
    """A rule of a derivation that is being drawn.

    Attributes:
        alternative: the rule.
        depth: of its parts at most.
        left: source words that are still to come of it.
        place: of the part that is next.
        targets: of the nonterminals before that.
    """

    alternative: Alternative
    depth: int
    left: int
    place: int = 0
    targets: list[list[str]] = field(default_factory=list)


class _Counted:
    """Counts by nonterminal and depth.

    Args:
        rules: the alternatives of each nonterminal.
        shapes: of these, and how many have each.
        limit: longer sources are not counted; None for no limit.
    """

    def __init__(
        self, rules: Rules, shapes: Mapping[str, Mapping[Shape, int]], limit: int | None
    ) -> None:
        self._rules, self._shapes, self._limit = rules, shapes, limit
        self._of_nonterminals: dict[tuple[str, int], Counts] = {}
        self._of_shapes: dict[tuple[Shape, int], Counts] = {}

    def counts(self, nonterminal: str, depth: int) -> Counts:
        """How many derivations of each source length are no deeper than `depth`."""
        if (nonterminal, depth) not in self._of_nonterminals:
            # From the lowest up, so that no depth is too great for Python's own stack.
            for lower, names in reversed([*self._needed(nonterminal, depth)]):
                for name in names:
                    self._of_nonterminals[name, lower] = self._summed(name, lower)
        return self._of_nonterminals[nonterminal, depth]

    def _needed(self, nonterminal: str, depth: int) -> Iterator[tuple[int, set[str]]]:
        """The nonterminals whose counts have to be known, by depth from the greatest."""
        names = {nonterminal}
        for lower in range(depth, 0, -1):
            names = {name for name in names if (name, lower) not in self._of_nonterminals}
            yield lower, names
            names = _parts_of(names, self._shapes)

    def _summed(self, nonterminal: str, depth: int) -> Counts:
        total: dict[int, int] = defaultdict(int)
        for shape, times in self._shapes[nonterminal].items():
            for length, count in self._of_shape(shape, depth - 1).items():
                total[length] += times * count
        return total

    def _of_shape(self, shape: Shape, depth: int) -> Counts:
        """How many ways there are for some parts, by the length of their source."""
        if depth < 1:
            return {}
        words, names = shape
        rest: Counts = {words: 1} if self._counts(words) else {}
        for start in reversed(range(len(names))):
            key = ((words, names[start:]), depth)
            if key not in self._of_shapes:
                own = self.counts(names[start], depth)
                self._of_shapes[key] = self._convolved(own, rest)
            rest = self._of_shapes[key]
        return rest

    def _convolved(self, first: Counts, second: Counts) -> Counts:
        total: dict[int, int] = defaultdict(int)
        listed = sorted(second.items())
        for length, count in first.items():
            for more, others in listed:
                if not self._counts(length + more):
                    break
                total[length + more] += count * others
        return total

    def _counts(self, length: int) -> bool:
        return self._limit is None or length <= self._limit

    def draw(
        self, generator: np.random.Generator, nonterminal: str, depth: int, length: int
    ) -> tuple[list[str], list[str]]:
        """Source and target of one of the derivations of a source length, all equally likely."""
        source: list[str] = []
        frames = [self._begun(generator, nonterminal, depth, length)]
        while True:
            frame = frames[-1]
            parts = frame.alternative.source
            if frame.place == len(parts):
                target = _filled(frame.alternative, frame.targets)
                frames.pop()
                if not frames:
                    return source, target
                frames[-1].targets.append(target)
                continue
            part = parts[frame.place]
            frame.place += 1
            if isinstance(part, Nonterminal):
                size = self._drawn_size(generator, part.name, frame)
                frames.append(self._begun(generator, part.name, frame.depth, size))
            else:
                size = 1
                source.append(part)
            frame.left -= size

    def _begun(
        self, generator: np.random.Generator, nonterminal: str, depth: int, length: int
    ) -> _Frame:
        """One of a nonterminal's rules, for a derivation of a source length."""
        listed = self._rules[nonterminal]
        ways = [self._of_shape(_shape(each.source), depth - 1).get(length, 0) for each in listed]
        return _Frame(listed[_chosen(generator, ways)], depth - 1, length)

    def _drawn_size(self, generator: np.random.Generator, name: str, frame: _Frame) -> int:
        """How many of the words that are left to a rule are of its next nonterminal."""
        after = _shape(frame.alternative.source[frame.place :])
        rest = self._of_shape(after, frame.depth)
        if len(rest) == 1:
            generator.random()  # as much as a choice takes
            return frame.left - next(iter(rest))
        own = sorted(self.counts(name, frame.depth).items())
        ways = [count * rest.get(frame.left - size, 0) for size, count in own]
        return own[_chosen(generator, ways)][0]


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
