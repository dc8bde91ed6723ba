"""How far a machine agrees with its network: to how many strings both give the same answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from stacktrans.extraction.strings import Tried
from stacktrans.inference.decoding import transduce
from stacktrans.machines.definition import Machine
from stacktrans.machines.running import NoRule
from stacktrans.model.checkpoint import Checkpoint
from stacktrans.model.of_machine import MachineModel
from stacktrans.model.predictor import Predictor, Question
from stacktrans.tasks.layouts import Ids, Stream

NO_ANSWER = np.array([-3])
"""What is said where no rule fits: nothing that a model says."""


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
    model = MachineModel(checkpoint.config.model, machine)
    expected = _answers(checkpoint, network, strings)
    found = []
    for string, right in zip(strings, expected, strict=True):
        try:
            (said,) = _answers(checkpoint, model, [string])
        except NoRule:
            said = NO_ANSWER
        if not np.array_equal(said, right):
            found.append(string)
    return found


def _answers(checkpoint: Checkpoint, model: Predictor, strings: Sequence[Tried]) -> list[Ids]:
    """What a model says to each string, where it is scored, and whether that is all of it."""
    layout = checkpoint.layout
    if isinstance(layout, Stream):
        questions = [Question(string.ids, string.scored) for string in strings]
        return [said.symbols for said in model.answers(questions, logs=False)]
    sources = [string.ids for string in strings]
    found = []
    for string, said in zip(strings, transduce(model, layout, sources, logs=False), strict=True):
        symbols = np.array(said.target, np.int64)
        if string.scored is not None:
            symbols = symbols[string.scored[: len(symbols)]]
        found.append(np.append(symbols, said.ended))
    return found
