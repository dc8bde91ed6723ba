"""Which words can come next (Earley's parser, of a grammar's source side)."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from stacktrans.grammar.rules import Nonterminal, Part, Rules

Item = tuple[str, tuple[Part, ...], int]
"""A nonterminal that is being derived, the parts of it still to come, and where it began."""


def following(root: str, rules: Rules, words: Iterable[str]) -> Iterator[frozenset[str]]:
    """The words that can follow each beginning of a string, none of them first.

    Args:
        root: the nonterminal that derives sentences.
        rules: the alternatives of each nonterminal, none of them empty.
        words: the string, of which no more is read than what is told needs.

    Yields:
        One set more than there are words; empty after the first that can't stand where it does.
    """
    waiting: list[dict[str, set[Item]]] = []
    items: set[Item] = {(root, each.source, 0) for each in rules[root]}
    coming = iter(words)
    while True:
        waiting.append(defaultdict(set))
        _close(items, rules, waiting)
        scanned = [item for item in items if item[1] and isinstance(item[1][0], str)]
        yield frozenset(part for _, (part, *_), _ in scanned if isinstance(part, str))
        word = next(coming, None)
        if word is None:
            return
        items = {(name, parts[1:], start) for name, parts, start in scanned if parts[0] == word}


def _close(items: set[Item], rules: Rules, waiting: list[dict[str, set[Item]]]) -> None:
    """Add what follows from the items that end at the last position."""
    here = len(waiting) - 1
    pending = list(items)
    while pending:
        name, parts, start = pending.pop()
        found: set[Item] = set()
        if not parts:
            found = {(other, rest[1:], begin) for other, rest, begin in waiting[start][name]}
        elif isinstance(parts[0], Nonterminal):
            waiting[here][parts[0].name].add((name, parts, start))
            found = {(parts[0].name, each.source, here) for each in rules[parts[0].name]}
        pending += found - items
        items |= found
