"""A transducer that torch runs, behind the names of `Predictor`: on any device, any memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from stacktrans.common.grouping import STEPS_AT_ONCE, batches_of
from stacktrans.kernels.tensors import ARRAY_DTYPES
from stacktrans.memory import Memory
from stacktrans.model import definition
from stacktrans.model.definition import TransducerState
from stacktrans.model.predictor import (
    NO_MARKS,
    Marks,
    Numbers,
    Predictor,
    Question,
    Said,
    StepTaken,
    likeliest,
)
from stacktrans.model.transducer import Transducer
from stacktrans.settings.model_config import ModelConfig
from stacktrans.tasks.alphabets import Ids, Mask

STEPS_IN_A_PIECE = 2**13
"""Steps of all strings of a batch that are run at once: few enough to stay in a cache."""


def predictor_of(model: Transducer) -> Predictor:
    """What runs a model with weights as they are now: compiled code where there is some."""
    return model.in_arrays() or TorchModel(model, model.hard)


class TorchRun:
    """A run in torch, whose ids and outputs are arrays."""

    def __init__(self, model: Transducer, batch_size: int) -> None:
        self._run = definition.Run(model, batch_size)
        self._device = model.classifier.weight.device

    def hidden(self, ids: Ids) -> Numbers:
        """See `predictor.Run`."""
        return _array(self._run.step(torch.from_numpy(ids).to(self._device)).hidden)

    def choose(self, items: Ids) -> None:
        """See `predictor.Run`."""
        self._run.choose(torch.from_numpy(items).to(self._device))


@dataclass(frozen=True, eq=False)
class TorchModel:
    """A transducer that torch runs.

    Attributes:
        model: itself.
        hard: whether signals are made 0 or 1.
    """

    model: Transducer
    hard: bool = False

    @property
    def config(self) -> ModelConfig:
        """The shape of the model."""
        return self.model.config

    @property
    def memory(self) -> Memory[Any]:
        """Its memory."""
        return self.model.memory

    def made_hard(self, hard: bool) -> Self:
        """See `Predictor.made_hard`."""
        return type(self)(self.model, hard)

    def start(self, batch_size: int) -> TorchRun:
        """See `Predictor.start`."""
        return TorchRun(self.model, batch_size)

    @torch.no_grad()
    def read_out(self, hidden: Numbers) -> Numbers:
        """See `Predictor.read_out`."""
        device = self.model.classifier.weight.device
        return _array(self.model.read_out(torch.from_numpy(hidden).to(device)))

    def answers(
        self, questions: Sequence[Question], marks: Marks = NO_MARKS, logs: bool = True
    ) -> list[Said]:
        """See `Predictor.answers`; those of the same length are run side by side."""
        found: dict[int, Said] = {}
        steps = [len(each.ids) + each.limit + 1 for each in questions]
        for group in batches_of(steps, STEPS_AT_ONCE):
            for length in {len(questions[index].ids) for index in group}:
                same = [index for index in group if len(questions[index].ids) == length]
                said = self._answers([questions[index] for index in same], marks)
                found.update(zip(same, said, strict=True))
        return [found[index] for index in range(len(questions))]

    @torch.no_grad()
    def _answers(self, questions: list[Question], marks: Marks) -> list[Said]:
        """What is said to strings of one length."""
        with self.model.made_hard(self.hard):
            run = self.start(len(questions))
            asked = np.stack([each.where for each in questions])
            symbols, logs = self._after_given(
                run, np.stack([each.ids for each in questions]), asked
            )
            own = self._after_own(run, symbols, questions, marks)
        found = []
        for item, where in enumerate(asked):
            said = [(each.symbols[item], each.logs[item]) for each in own if each.counts[item]]
            found.append(
                Said(
                    np.array([*symbols[item, where], *(each for each, _ in said)], np.int64),
                    np.array([*logs[item, where], *(log for _, log in said)]),
                )
            )
        return found

    def _after_given(self, run: TorchRun, ids: Ids, asked: Mask) -> tuple[Ids, Numbers]:
        """What is said after ids [B, T] that are given, where it is asked."""
        symbols, logs = np.zeros(ids.shape, np.int64), np.zeros(ids.shape)
        size = max(1, STEPS_IN_A_PIECE // len(ids))
        for first in range(0, ids.shape[1], size):
            piece = slice(first, first + size)
            where = asked[:, piece]
            hidden = run.hidden(ids[:, piece])[where]
            symbols[:, piece][where], logs[:, piece][where] = likeliest(self.read_out(hidden))
        return symbols, logs

    def _after_own(
        self, run: TorchRun, symbols: Ids, questions: list[Question], marks: Marks
    ) -> list[_Step]:
        """What is said after what was said, step by step."""
        limits = np.array([each.limit for each in questions])
        chosen, running, steps = symbols[:, -1:].ravel(), limits >= 0, list[_Step]()
        while True:
            running = running & (len(steps) < limits) & ~np.isin(chosen, marks.ending)
            if not running.any():
                return steps
            read = np.where(running, chosen + marks.first_target, 0)
            chosen, logs = likeliest(self.read_out(run.hidden(read[:, None])[:, 0]))
            steps.append(_Step(chosen, logs, running))

    @torch.no_grad()
    def written(self, sources: Sequence[Ids], logs: bool = True) -> list[Said]:
        """See `Predictor.written`."""
        found: dict[int, Said] = {}
        steps = [self.config.steps_over(len(source)) for source in sources]
        for group in batches_of(steps, STEPS_AT_ONCE):
            said = self._written([sources[index] for index in group])
            found.update(zip(group, said, strict=True))
        return [found[index] for index in range(len(sources))]

    def _written(self, sources: list[Ids]) -> list[Said]:
        lengths, device = [*map(len, sources)], self.model.classifier.weight.device
        padded = np.zeros((len(sources), max(lengths)), np.int64)
        for row, source in zip(padded, sources, strict=True):
            row[: len(source)] = source
        inputs = torch.from_numpy(padded).to(device)
        if not inputs.numel():
            return [Said(padded[0], np.zeros(0)) for _ in sources]
        everything = torch.ones_like(inputs, dtype=torch.bool)
        with self.model.made_hard(self.hard):
            logits = self.model.logits(self.model.unroll(inputs, lengths), everything)
        symbols, shares = likeliest(_array(logits))
        rows = zip(
            symbols.reshape(padded.shape), shares.reshape(padded.shape), lengths, strict=True
        )
        return [Said(row[:length], logs[:length]) for row, logs, length in rows]

    @torch.no_grad()
    def follow(self, ids: Ids, contents: bool = True) -> Iterable[StepTaken]:
        """See `Predictor.follow`."""
        model = self.model
        inputs = torch.from_numpy(ids).unsqueeze(0).to(model.classifier.weight.device)
        with model.made_hard(self.hard):
            if self.config.buffers:
                done, states, _ = definition.unroll_buffered(model, inputs, [len(ids)])
                return [
                    self._taken(done.hidden[0, step], done.signals[0, step], state)
                    for step, state in enumerate(states)
                ]
            state, found = definition.initial(model, 1), []
            for step in range(len(ids)):
                done, state = definition.unroll(model, inputs[:, step : step + 1], state)
                found.append(self._taken(done.hidden[0, 0], done.signals[0, 0], state))
        return found

    def _taken(self, hidden: Tensor, signals: Tensor, state: TransducerState) -> StepTaken:
        operation = self.model.operation
        pushed = operation.pushed(hidden) if operation else hidden[:0]
        reading = self.memory.reading(state.memory)
        logits = _array(self.model.read_out(hidden))
        vectors = _array(pushed).reshape(self.memory.pushes, self.config.memory_size)
        return StepTaken(logits, _array(signals), vectors, reading)


class _Step(NamedTuple):
    """What was said at a step to B strings: symbols, their logarithms, and whether it counts."""

    symbols: Ids
    logs: Numbers
    counts: Mask


def _array(tensor: Tensor) -> Numbers:
    if tensor.dtype not in ARRAY_DTYPES:  # numpy has not all of them
        tensor = tensor.float()
    array: Numbers = tensor.detach().cpu().numpy()
    return array
