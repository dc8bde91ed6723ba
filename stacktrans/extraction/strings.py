"""Strings that a network is run on: all short ones over a few symbols, and those that are drawn."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from stacktrans.common.errors import StacktransError
from stacktrans.common.randomness import Purpose, generator
from stacktrans.model.checkpoint import Checkpoint
from stacktrans.tasks.base import Lengths, NoSuchLength
from stacktrans.tasks.layouts import Ids

FEW = 3
"""The most different symbols in short strings of a task with many."""
MOST_SHORT = 1500
"""How many short strings there are at most, and so up to which length."""
MOST_TRIED = 20_000
"""How many strings are looked at to find short ones that the task has."""


class Short(NamedTuple):
    """All strings of a task up to a length, over its first symbols.

    Attributes:
        sources: themselves.
        symbols: how many symbols they are made of.
        longest: their greatest length.
    """

    sources: list[Ids]
    symbols: int
    longest: int


def short_strings(checkpoint: Checkpoint, most: int = MOST_SHORT) -> Short:
    """All short strings that the task has an answer for, up to a number."""
    task = checkpoint.task
    symbols = min(len(task.source), FEW) if len(task.source) > 4 else len(task.source)
    found: list[Ids] = []
    tried, longest = 0, 0
    for length in itertools.count(1):
        tried += symbols**length
        if tried > MOST_TRIED:
            break
        own = [ids for ids in _all(symbols, length) if _is_source(checkpoint, ids)]
        if len(found) + len(own) > most:
            break
        found += own
        longest = length
    return Short(found, symbols, longest)


def _all(symbols: int, length: int) -> Iterator[Ids]:
    return (np.array(ids) for ids in itertools.product(range(symbols), repeat=length))


def _is_source(checkpoint: Checkpoint, ids: Ids) -> bool:
    try:
        checkpoint.task.answer(checkpoint.task.source.decode(ids))
    except StacktransError:
        return False
    return True


def drawn_strings(checkpoint: Checkpoint, lengths: Lengths, count: int, seed: int) -> list[Ids]:
    """Strings of the task of some lengths, drawn as when it is measured; none if it has none."""
    law = checkpoint.config.task.law_of(lengths)
    try:
        pairs = checkpoint.task.sample(generator(seed, Purpose.SAMPLE), lengths, count, law)
    except NoSuchLength:
        return []
    return [pair.source for pair in pairs]
