"""Grammars as automata: subsequential transducers (Mohri 1997), and bracket languages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain, takewhile
from typing import NamedTuple

from stacktrans.grammar import Grammar
from stacktrans.grammar.rules import Nonterminal, Part, Rules, Template

MAX_STATES = 2_000
"""The most states of a transducer."""
MAX_ITEMS = 10_000
"""The most derivations that are distinguished after a prefix of a source."""
LONGEST_ITEM = 50
"""The most words and nonterminals that are expected of a source after a prefix of it."""


class Transducer(NamedTuple):
    """A subsequential transducer: deterministic, with outputs at each step and after the last.

    A state is named after a shortest prefix that leads to it. The first is the initial one.

    Attributes:
        transitions: for each state, the outputs and the next state by the word that is read.
        final_outputs: the last outputs of a source that ends in a state, by final states.
    """

    transitions: dict[str, dict[str, tuple[list[str], str]]]
    final_outputs: dict[str, list[str]]


class _NoTransducer(Exception):
    """A grammar without a transducer, or with one of too many states or derivations."""


class _Item(NamedTuple):
    """What a derivation expects of a source, and what it adds to the target."""

    source: tuple[Part, ...]
    target: Template


def determinize(
    grammar: Grammar, *, reverse: bool = False, synchronous: bool = False
) -> Transducer | None:
    """Build the transducer of a grammar, by a subset construction with delayed outputs.

    A state is a set of derivations that begin with the same words. At each step the words are
    written with which all their targets continue (Mohri 1997, "Finite-state transducers in language
    and speech processing").

    Args:
        grammar: the grammar.
        reverse: whether targets are written from their last word to their first.
        synchronous: whether exactly one word is written at each step.

    Returns:
        The transducer; None if there is none with at most `MAX_STATES` states: sources are not
        regular, rules are recursive on the left, targets have another order, or a source has two.
    """
    try:
        return _subset_construction(grammar, -1 if reverse else 1, synchronous)
    except _NoTransducer:
        return None


def _subset_construction(grammar: Grammar, direction: int, synchronous: bool) -> Transducer:
    """The transducer of a grammar, which writes in a direction, 1 or -1; raises `_NoTransducer`."""
    rules = grammar.rules
    start = frozenset(_expanded(_Item((Nonterminal(grammar.root),), (0,)), rules))
    states, pending = {start: "<s>"}, [start]
    transducer = Transducer({}, {})
    for items in pending:  # which grows
        endings = [[*map(str, item.target)] for item in items if not item.source]
        if len(endings) > 1 or len(pending) > MAX_STATES:
            raise _NoTransducer
        name = states[items]
        transducer.final_outputs.update((name, ending) for ending in endings)
        transducer.transitions[name] = transitions = dict[str, tuple[list[str], str]]()
        for word, read in sorted(_read(items, rules).items()):
            outputs, after = _written(read, direction, 1 if synchronous else None)
            if synchronous and not outputs:
                raise _NoTransducer
            if after not in states:
                states[after] = f"{name} {word}"
                pending.append(after)
            transitions[word] = outputs, states[after]
    return transducer


def _expanded(item: _Item, rules: Rules) -> Iterator[_Item]:
    """All items that an item derives whose source begins with a word or is empty.

    Raises:
        _NoTransducer: there are too many, or their sources too long, as in recursion on the left.
    """
    pending, count = [item], 0
    while pending:
        source, target = item = pending.pop()
        if len(source) > LONGEST_ITEM or count > MAX_ITEMS:
            raise _NoTransducer
        if not source or isinstance(source[0], str):
            count += 1
            yield item
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
        if len(after[str(word)]) > MAX_ITEMS:
            raise _NoTransducer
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


def bracketing(grammar: Grammar) -> tuple[dict[str, str], bool] | None:
    """Recognize a grammar whose sources are a Dyck language: concatenated and nested brackets.

    The rules must have the form S -> S T | T S | T, perhaps without one of the first two, and
    T -> ( X ) | ( ) for each pair, where X is always S or always T. Other grammars of the same
    language are not recognized.

    Returns:
        The closing bracket of each opening one, and whether a pair may contain several pairs side
        by side, and not one at most; None if the rules have another form.
    """
    rules, whole = grammar.rules, Nonterminal(grammar.root)
    row = {each.source for each in rules[grammar.root]}
    pair = next((side[0] for side in row if len(side) == 1), whole)
    if not isinstance(pair, Nonterminal) or pair == whole:
        return None
    longer = row - {(pair,)}
    if not longer or not longer <= {(whole, pair), (pair, whole)}:
        return None
    return _pairs({each.source for each in rules[pair.name]}, whole, pair)


def _pairs(
    sides: set[tuple[Part, ...]], whole: Nonterminal, pair: Nonterminal
) -> tuple[dict[str, str], bool] | None:
    """The brackets of the alternatives T -> ( X ) | ( ); None if they have another form."""
    closing = {side[0]: side[1] for side in sides if len(side) == 2}
    inner = next((side[1] for side in sides if len(side) == 3), None)
    nested = {(first, inner, last) for first, last in closing.items()}
    if inner not in (whole, pair) or sides != {*closing.items()} | nested:
        return None
    opening, closed = {*closing}, {*closing.values()}
    if opening & closed or any(isinstance(each, Nonterminal) for each in opening | closed):
        return None
    return {str(first): str(last) for first, last in closing.items()}, inner == whole
