"""Patterns such as a^n b^m c^(n+m): runs of symbols, and how often each comes."""

import math
import re
from collections.abc import Mapping
from typing import NamedTuple

from stacktrans.common.errors import shown

_BLOCK = re.compile(r"(\S)(?:\^(?:([a-z0-9]+)|\(([a-z0-9+]+)\)))?")
LONGEST_RUN = 100
"""The longest that a run is written, in characters."""


class Block(NamedTuple):
    """A run of one symbol.

    Attributes:
        symbol: a single character.
        terms: what its length is the sum of: each a product of numbers and counts.
        introduces: the count that is met here for the first time; None if there is none.
    """

    symbol: str
    terms: tuple[tuple[int | str, ...], ...]
    introduces: str | None

    def times(self, counts: Mapping[str, int]) -> int:
        """How long the run is."""
        return sum(
            math.prod(counts[factor] if isinstance(factor, str) else factor for factor in term)
            for term in self.terms
        )


def blocks_of(pattern: str) -> list[Block]:
    """The runs of a pattern.

    Each is a symbol, or one with how often it comes: `a^n`, `a^2n`, `a^(n+m)`, `a^nm`. A count
    that is met for the first time stands alone. Raises `ValueError` that says what is wrong.
    """
    if not isinstance(pattern, str) or not pattern.split():
        raise ValueError(f"pattern is {shown(pattern)}; expected one like 'a^n b^n'")
    blocks: list[Block] = []
    known: set[str] = set()
    for written in pattern.split():
        block = _block(pattern, written, known)
        if block.symbol in {earlier.symbol for earlier in blocks}:
            raise ValueError(f"pattern '{pattern}': '{block.symbol}' has two runs")
        blocks.append(block)
        known |= {block.introduces} if block.introduces else set()
    if not known:
        raise ValueError(f"pattern '{pattern}': there is nothing to count")
    return blocks


def _block(pattern: str, written: str, known: set[str]) -> Block:
    found = _BLOCK.fullmatch(written)
    if not found or len(written) > LONGEST_RUN:
        raise ValueError(
            f"pattern {shown(pattern)}: can't read {shown(written)}; expected one like 'a^n' "
            f"of at most {LONGEST_RUN} characters"
        )
    symbol, alone, together = found.groups()
    terms = tuple(
        tuple(
            int(factor) if factor.isdigit() else factor for factor in re.findall(r"\d+|[a-z]", term)
        )
        for term in (alone or together or "1").split("+")
    )
    if any(factor == 0 for term in terms for factor in term):
        raise ValueError(f"pattern '{pattern}': '{written}' has 0 as a number; expected 1 or more")
    new = {factor for term in terms for factor in term if isinstance(factor, str)} - known
    if new and terms != ((*new,),):
        raise ValueError(
            f"pattern '{pattern}': '{written}' counts {', '.join(sorted(new))} for the first time; "
            "such a count stands alone"
        )
    return Block(symbol, terms, next(iter(new), None))
