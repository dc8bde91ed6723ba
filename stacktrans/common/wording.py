"""Words that sentences are made of."""

from collections.abc import Iterable


def listed(names: Iterable[str], last: str = "and") -> str:
    """Names in a row: "a", "a and b", "a, b and c"; with another word before the last, if given."""
    *others, final = [*names] or [""]
    return f"{', '.join(others)} {last} {final}" if others else final


def counted(count: int, one: str, several: str = "") -> str:
    """A number of things: "1 rule", "1,200 rules"; `several` is what they are called, if not so."""
    return f"{count:,} {one if count == 1 else several or f'{one}s'}"
