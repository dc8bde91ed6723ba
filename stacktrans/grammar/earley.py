"""The words that can follow a prefix of a sentence, by Earley's algorithm."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from stacktrans.grammar.rules import Nonterminal, Part, Rules

Item = tuple[str, tuple[Part, ...], int]
"""An Earley item: a nonterminal, the remaining parts of an alternative, and its start position."""


def next_words(root: str, rules: Rules, words: Iterable[str]) -> Iterator[frozenset[str]]:
    """The words that can follow each prefix of a string, by Earley's algorithm.

    Args:
        root: the start symbol.
        rules: the alternatives of each nonterminal, none of them empty.
        words: the string, which is read lazily.

    Yields:
        A set for each prefix, from the empty one on; empty sets after the first impossible word.
    """
    waiting: list[dict[str, set[Item]]] = []
    items: set[Item] = {(root, each.source, 0) for each in rules[root]}
    remaining = iter(words)
    while True:
        waiting.append(defaultdict(set))
        _close(items, rules, waiting)
        scanned = [item for item in items if item[1] and isinstance(item[1][0], str)]
        yield frozenset(part for _, (part, *_), _ in scanned if isinstance(part, str))
        word = next(remaining, None)
        if word is None:
            return
        items = {(name, parts[1:], start) for name, parts, start in scanned if parts[0] == word}


def _close(items: set[Item], rules: Rules, waiting: list[dict[str, set[Item]]]) -> None:
    """Complete the items that end at the last position, by prediction and completion."""
    here = len(waiting) - 1
    pending = list(items)
    while pending:
        name, parts, start = pending.pop()
        added: set[Item] = set()
        if not parts:  # completion
            added = {(other, rest[1:], begin) for other, rest, begin in waiting[start][name]}
        elif isinstance(parts[0], Nonterminal):  # prediction
            waiting[here][parts[0].name].add((name, parts, start))
            added = {(parts[0].name, each.source, here) for each in rules[parts[0].name]}
        pending += added - items
        items |= added
