"""A machine behind the names of a model that is only run."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np

from stacktrans.common.ends import Ends
from stacktrans.machines.definition import (
    EMPTY,
    JOINT,
    PADDED,
    SAME_LENGTH,
    STREAM,
    Buffers,
    Machine,
    Reads,
)
from stacktrans.machines.running import NoRule, Stepper, Tables, answer_after, written
from stacktrans.memory import HeldCells, HeldRows, Memory, Reading, make_memory
from stacktrans.memory.actions import EMPTY as EMPTY_CELL
from stacktrans.model.predictor import NO_MARKS, Marks, Numbers, Question, Said, StepTaken
from stacktrans.settings.model_config import ModelConfig
from stacktrans.tasks.alphabets import NOT_KNOWN, Ids
from stacktrans.tasks.layouts import JointSequence, Layout, Padded, Stream

UNLIKELY = -1e9
"""The logit of what a machine does not say."""


def buffers_of(config: ModelConfig) -> Buffers | None:
    """The buffers of a machine that is made of such a model."""
    own = config.buffers
    if own is None:
        return None
    return Buffers(own.steps_per_symbol, own.extra_steps, own.output_skip)


def memories_of(memory: Memory[Any], signal_names: tuple[str, ...]) -> Ends | None:
    """The memories of a machine that is made of such a model; None if there is no such machine.

    Args:
        memory: of the model.
        signal_names: of the model, those of buffers included.
    """
    if memory.ends is None or memory.capacity or not memory.compiled():
        return None
    return memory.ends._replace(signal_names=signal_names)


def reads_of(layout: Layout) -> Reads:
    """How a machine for such a layout reads sources and says answers."""
    if isinstance(layout, JointSequence):
        return Reads(
            JOINT,
            layout.first_source,
            layout.first_target,
            (layout.begin,),
            (layout.separator,),
            layout.end,
            backwards=layout.backwards,
        )
    if isinstance(layout, Padded):
        given = layout.given.each, layout.given.further
        blank = (layout.blank,)
        return Reads(PADDED, 0, -1, (), blank, layout.end, given, layout.backwards)
    if isinstance(layout, Stream):
        end = -1 if layout.follow is None else layout.follow
        return Reads(STREAM, 0, 0, (), (), end)
    return Reads(SAME_LENGTH, 0, -1, (), (), -1)


@dataclass(frozen=True)
class MachineModel:
    """A machine that answers, is measured and followed as a model is.

    What it says has the probability 1.

    Attributes:
        config: the shape of the model that it was extracted from.
        machine: itself.
    """

    config: ModelConfig
    machine: Machine

    @property
    def memory(self) -> Memory[Any]:
        """The memory of the model."""
        return make_memory(self.config)

    @property
    def hard(self) -> bool:
        """It is hard: signals are 0 or 1."""
        return True

    def made_hard(self, hard: bool) -> Self:
        """Itself."""
        return self

    def start(self, batch_size: int) -> MachineRun:
        """A run over B strings; of a machine without buffers."""
        return MachineRun(self.machine, batch_size)

    def read_out(self, hidden: Numbers) -> Numbers:
        """Logits [..., outputs]: what a run gives as hidden already."""
        return hidden

    def answers(
        self, questions: Sequence[Question], marks: Marks = NO_MARKS, logs: bool = True
    ) -> list[Said]:
        """See `Predictor.answers`; nothing is said where no rule fits."""
        tables = Tables(self.machine)

        def said(question: Question) -> list[int]:
            stepper = Stepper(tables)
            ids = question.ids
            outputs = np.fromiter(stepper.run(ids.tolist()), np.int64, len(ids))
            symbols: list[int] = outputs[question.where].tolist()
            if question.limit >= 0 and symbols:
                symbols += answer_after(
                    stepper, symbols[-1], question.limit, marks.first_target, marks.ending
                )
            return symbols

        return [_said(partial(said, question)) for question in questions]

    def written(self, sources: Sequence[Ids], logs: bool = True) -> list[Said]:
        """See `Predictor.written`; nothing is said where no rule fits."""
        tables = Tables(self.machine)
        return [_said(partial(written, Stepper(tables), source.tolist())) for source in sources]

    def follow(self, ids: Ids, contents: bool = True) -> Iterator[StepTaken]:
        """See `Predictor.follow`; what is pushed is a kind, by its number; raises `NoRule`."""
        machine, memories = self.machine, self.machine.memories
        stepper, origins = Stepper(Tables(machine)), [deque[int]() for _ in machine.kinds]
        symbols, place, count = ids.tolist(), 0, 0
        skip = machine.buffers.output_skip if machine.buffers else 0
        for step in range(machine.steps_over(len(symbols))):
            given = symbols[place] if place < len(symbols) else machine.nothing
            try:
                (said,) = stepper.run([given])
            except NoRule:
                if place >= len(symbols) and count >= len(symbols) + skip:
                    return  # the answer is complete, and what follows does not matter
                raise
            reads, writes = stepper.signals[-2:] if machine.buffers else (1, 0)
            place, count = place + reads, count + writes
            for signal, end in memories.pops:
                if stepper.signals[signal] and origins[end // 2]:
                    origins[end // 2].popleft() if end % 2 else origins[end // 2].pop()
            pushed = np.zeros((len(memories.pushes), 1))
            for push, (signal, end) in enumerate(memories.pushes):
                if stepper.signals[signal]:
                    own = origins[end // 2]
                    own.appendleft(step) if end % 2 else own.append(step)
                    pushed[push] = stepper.held[end // 2][0 if end % 2 else -1]
            reading = (
                self._cells(stepper)
                if self.memory.takes_actions
                else self._reading(origins, step + 1)
            )
            yield StepTaken(_logits(machine, [said])[0], self._signals(stepper), pushed, reading)

    def _signals(self, stepper: Stepper) -> Numbers:
        """The signals of a step; where none of the actions of a stack is taken, its last is."""
        signals = np.array(stepper.signals, np.float64)
        if self.memory.takes_actions:
            of_memory = signals[: len(signals) - 2 * bool(self.machine.buffers)]
            own = of_memory.reshape(self.memory.pushes, -1)  # a view
            own[own.sum(axis=1) == 0, -1] = 1
        return signals

    def _cells(self, stepper: Stepper) -> Reading:
        """What stacks or lists with actions hold: kinds, by their numbers."""
        names, places = self.memory.push_names, self.machine.memories.places
        depth, rings = len(places) // len(names), len(self.machine.kinds) // len(names)
        cells, lines = {}, {}
        for number, name in enumerate(names):
            read = (
                stepper.kind_at(end, deep)
                for end, deep in places[number * depth : (number + 1) * depth]
            )
            cells[name] = _as_cells(read)
            held, *right = stepper.held[number * rings : (number + 1) * rings]
            rest = [kind for ring in right for kind in reversed(ring)]
            head = len(held) - 1 if right and held else None
            lines[name] = HeldCells(_as_cells([*held, *rest]), head)
        return Reading(cells=cells, lines=lines)

    def _reading(self, origins: Sequence[deque[int]], steps: int) -> Reading:
        """What the memories hold after some steps, by the steps at which it was pushed."""
        parts = {}
        for end, name in zip(self.machine.memories.reads, self.memory.push_names, strict=True):
            row = np.zeros(steps)
            if own := origins[end // 2]:
                row[own[0 if end % 2 else -1]] = 1
            parts[name] = row
        rows = {
            name: HeldRows(np.array(own, np.int64), np.ones(len(own)))
            for name, own in zip(self.machine.memories.names, origins, strict=True)
        }
        return Reading(float(sum(map(len, origins))), parts, rows=rows)


def _as_cells(kinds: Iterable[int]) -> Numbers:
    """[n, 1] kinds as cells; what is empty holds -1."""
    numbers = np.array([*kinds], np.float64).reshape(-1, 1)
    return np.where(numbers == EMPTY, EMPTY_CELL, numbers)


class MachineRun:
    """A run of a machine over B strings, from call to call."""

    def __init__(self, machine: Machine, batch_size: int) -> None:
        self._machine = machine
        tables = Tables(machine)
        self._steppers = [Stepper(tables) for _ in range(batch_size)]

    def hidden(self, ids: Ids) -> Numbers:
        """The logits of what is said over the next T steps, [B, T, outputs], with ids [B, T]."""
        rows = zip(self._steppers, ids.tolist(), strict=True)
        return np.array([_logits(self._machine, [*stepper.run(row)]) for stepper, row in rows])

    def choose(self, items: Ids) -> None:
        """Go on with other strings, each from where one of these is, by their indices."""
        self._steppers = [self._steppers[item].copy() for item in items.tolist()]


def _said(answer: Callable[[], list[int]]) -> Said:
    """An answer, with `NOT_KNOWN` where the machine has no output; none where no rule fits."""
    try:
        said = np.array(answer(), np.int64)
    except NoRule as error:
        return Said(np.empty(0, np.int64), np.empty(0), str(error))
    return Said(np.where(said < 0, NOT_KNOWN, said), np.zeros(len(said)))


def _logits(machine: Machine, said: Sequence[int]) -> Numbers:
    """[n, outputs] logits that make what is said certain."""
    found = np.full((len(said), machine.outputs.size), UNLIKELY)
    found[np.arange(len(said)), np.maximum(said, 0)] = 0
    return found
