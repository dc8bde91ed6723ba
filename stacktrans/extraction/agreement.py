"""How far a machine agrees with its network: to how many strings both give the same answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from stacktrans.extraction.strings import Tried, drawn_strings
from stacktrans.inference.decoding import transduce
from stacktrans.machines.definition import Machine
from stacktrans.model.checkpoint import Checkpoint
from stacktrans.model.of_machine import MachineModel
from stacktrans.model.predictor import Predictor, Question
from stacktrans.model.rules_run import RulesRun, rules_of
from stacktrans.tasks.alphabets import Ids
from stacktrans.tasks.base import Lengths, NoSuchLength
from stacktrans.tasks.layouts import InStep, JointSequence, Stream

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
    checkpoint: Checkpoint, network: Predictor, machine: Machine, strings: Sequence[Tried]
) -> list[Tried]:
    """The strings to which machine and network give different answers, where they are scored."""
    expected = answers_of(checkpoint, network, strings)
    said = _by_rules(checkpoint, machine, strings)
    return [
        string
        for string, right, own in zip(strings, expected, said, strict=True)
        if not agree(own, right)
    ]


def agree(one: Ids | None, other: Ids | None) -> bool:
    """Whether two answers are the same, of which there may be none."""
    return one is not None and other is not None and np.array_equal(one, other)


def answers_of(
    checkpoint: Checkpoint, model: Predictor, strings: Sequence[Tried]
) -> list[Ids | None]:
    """What a model says to each string, where it is scored, and whether that is all of it.

    None where a machine has no rule.
    """
    layout = checkpoint.layout
    if isinstance(layout, Stream):
        questions = [Question(string.ids, string.scored) for string in strings]
        found = model.answers(questions, logs=False)
        return [None if said.lacking else said.symbols for said in found]
    sources = [string.ids for string in strings]
    answers = transduce(model, layout, sources, logs=False)
    return [
        None if said.lacking else _scored(string, np.array(said.target, np.int64), said.ended)
        for string, said in zip(strings, answers, strict=True)
    ]


def _scored(string: Tried, symbols: Ids, ended: bool) -> Ids:
    if string.scored is not None:
        symbols = symbols[string.scored[: len(symbols)]]
    return np.append(symbols, ended)


def _by_rules(
    checkpoint: Checkpoint, machine: Machine, strings: Sequence[Tried]
) -> list[Ids | None]:
    """The same of a machine; None where no rule fits."""
    layout = checkpoint.layout
    rules = rules_of(machine)
    if rules is None:
        return answers_of(checkpoint, MachineModel(checkpoint.config.model, machine), strings)
    run = RulesRun(machine, rules)
    if isinstance(layout, Stream):
        said = run.said([string.ids for string in strings])
        asked = [string.scored for string in strings]
        return [None if own is None else own[where] for own, where in zip(said, asked, strict=True)]
    found: list[Ids | None] = []
    if isinstance(layout, JointSequence):
        limits = [layout.longest_answer(len(string.ids), None) for string in strings]
        read = [layout.prefix(string.ids) for string in strings]
        for string, own, limit in zip(strings, run.said(read, limits), limits, strict=True):
            ended = own is not None and bool(len(own)) and own[-1] == layout.end
            kept = None if own is None else own[:-1] if ended else own[:limit]
            found.append(None if kept is None else _scored(string, layout.in_turn(kept), ended))
        return found
    assert isinstance(layout, InStep)
    said = run.said([layout.read(string.ids) for string in strings])
    for string, own in zip(strings, said, strict=True):
        found.append(None if own is None else _scored(string, *layout.answered(own)))
    return found


def check_lengths(checkpoint: Checkpoint, lengths: Lengths) -> None:
    """Raise `NoSuchLength` if the task has no string of some lengths."""
    if not drawn_strings(checkpoint, lengths, 1, SEED, "uniform"):
        raise NoSuchLength(f"the task has no strings of length {lengths}")
