"""Subsequential transducers of synchronous rules with regular sources (Mohri 1997)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain, takewhile
from typing import NamedTuple

from stacktrans.grammar.rules import Nonterminal, Part, Rules, Template

MOST_STATES = 2_000
"""The most states of a transducer."""
LONGEST = 50
"""The most words and nonterminals that are expected of a source after a prefix of it."""


class Transducer(NamedTuple):
    """A subsequential transducer: deterministic, with outputs at each step and after the last.

    A state is named after a shortest prefix that leads to it. The first is the initial one.

    Attributes:
        steps: for each state, the outputs and the next state by the word that is read.
        endings: the last outputs of a source that ends in a state, by states in which one can.
    """

    steps: dict[str, dict[str, tuple[list[str], str]]]
    endings: dict[str, list[str]]


class _Item(NamedTuple):
    """What a derivation expects of a source, and what it adds to the target."""

    source: tuple[Part, ...]
    target: Template


def determinize(
    root: str, rules: Rules, *, reverse: bool = False, synchronous: bool = False
) -> Transducer | None:
    """Build the transducer of some rules, by a subset construction with delayed outputs.

    A state is a set of derivations that begin with the same words. At each step the words are
    written with which all their targets continue (Mohri 1997, "Finite-state transducers in language
    and speech processing").

    Args:
        root: the start symbol.
        rules: the alternatives of each nonterminal.
        reverse: whether targets are written from their last word to their first.
        synchronous: whether exactly one word is written at each step.

    Returns:
        The transducer; None if there is none with at most `MOST_STATES` states: sources are not
        regular, rules are recursive on the left, targets have another order, or a source has two.
    """
    start = frozenset(_expanded(_Item((Nonterminal(root),), (0,)), rules))
    states, pending = {start: "<s>"}, [start]
    transducer = Transducer({}, {})
    for items in pending:  # which grows
        endings = [[*map(str, item.target)] for item in items if not item.source]
        too_long = any(len(item.source) > LONGEST for item in items)
        if too_long or len(endings) > 1 or len(pending) > MOST_STATES:
            return None
        name = states[items]
        transducer.endings.update((name, ending) for ending in endings)
        transducer.steps[name] = steps = dict[str, tuple[list[str], str]]()
        for word, read in sorted(_read(items, rules).items()):
            outputs, after = _written(read, -1 if reverse else 1, 1 if synchronous else None)
            if synchronous and not outputs:
                return None
            if after not in states:
                states[after] = f"{name} {word}"
                pending.append(after)
            steps[word] = outputs, states[after]
    return transducer


def _expanded(item: _Item, rules: Rules) -> Iterator[_Item]:
    """All items that an item derives whose source begins with a word or is empty.

    The last item has too long a source if rules are recursive on the left.
    """
    pending = [item]
    while pending:
        source, target = item = pending.pop()
        if not source or isinstance(source[0], str) or len(source) > LONGEST:
            yield item
            if len(source) > LONGEST:
                return
            continue
        for each in rules[source[0].name]:
            parts = (
                (part if isinstance(part, str) else part + each.arity - 1,) if part else each.target
                for part in target
            )
            pending.append(_Item(each.source + source[1:], tuple(chain.from_iterable(parts))))


def _read(items: Iterable[_Item], rules: Rules) -> dict[str, set[_Item]]:
    """The items after each word that can come next."""
    after = defaultdict[str, set[_Item]](set)
    for (word, *source), target in (item for item in items if item.source):
        after[str(word)].update(_expanded(_Item(tuple(source), target), rules))
    return after


def _written(
    items: Iterable[_Item], direction: int, most: int | None
) -> tuple[list[str], frozenset[_Item]]:
    """The words with which all targets continue, and the items without them."""
    targets = [item.target[::direction] for item in items]
    places = zip(*targets, strict=False)
    common = takewhile(lambda parts: isinstance(parts[0], str) and len({*parts}) == 1, places)
    words = [str(parts[0]) for parts in common][:most]
    left = (target[len(words) :][::direction] for target in targets)
    return words, frozenset(map(_Item, (item.source for item in items), left))
