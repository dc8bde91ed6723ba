"""How far a machine agrees with its network: to how many strings both give the same answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from stacktrans.decoding.decoder import decode, predict
from stacktrans.decoding.model import Model
from stacktrans.extraction.strings import Tried, drawn_strings
from stacktrans.machines.definition import Machine
from stacktrans.machines.running import Runner
from stacktrans.model.checkpoint import Checkpoint
from stacktrans.tasks.alphabets import Ids
from stacktrans.tasks.base import Lengths, NoSuchLength

SEED = 1 << 20
"""Random seeds of these strings, which nothing was learned from, begin here."""


class Agreement(NamedTuple):
    """How far a machine agrees with its network on some strings.

    Attributes:
        what: which strings.
        strings: how many.
        agreeing: to how many of them they give the same answer.
    """

    what: str
    strings: int
    agreeing: int


def differing(
    checkpoint: Checkpoint, network: Model, machine: Machine, strings: Sequence[Tried]
) -> list[Tried]:
    """The strings to which machine and network give different answers, where they are scored."""
    expected = answers_of(checkpoint, network, strings)
    found = answers_of(checkpoint, Runner(machine), strings)
    return [
        string
        for string, right, own in zip(strings, expected, found, strict=True)
        if not agree(own, right)
    ]


def agree(one: Ids | None, other: Ids | None) -> bool:
    """Whether two answers are the same, of which there may be none."""
    return one is not None and other is not None and np.array_equal(one, other)


def answers_of(checkpoint: Checkpoint, model: Model, strings: Sequence[Tried]) -> list[Ids | None]:
    """A model's answer to each string, where it is scored, and whether that is all of it.

    None where a machine has no rule.
    """
    layout, ids = checkpoint.layout, [string.ids for string in strings]
    if layout.consecutive:
        asked = [string.where for string in strings]
        found = predict(model, ids, asked, logs=False).symbols
        return [None if -1 in symbols else symbols for symbols in found]
    answers = decode(model, layout, ids, logs=False)
    return [
        None if answer.failed else _scored(string, np.array(answer.target, np.int64), answer.ended)
        for string, answer in zip(strings, answers, strict=True)
    ]


def _scored(string: Tried, symbols: Ids, ended: bool) -> Ids:
    if string.scored is not None:
        symbols = symbols[string.scored[: len(symbols)]]
    return np.append(symbols, ended)


def check_lengths(checkpoint: Checkpoint, lengths: Lengths) -> None:
    """Raise `NoSuchLength` if the task has no string of some lengths."""
    if not drawn_strings(checkpoint, lengths, 1, SEED, "uniform"):
        raise NoSuchLength(f"the task has no strings of length {lengths}")
