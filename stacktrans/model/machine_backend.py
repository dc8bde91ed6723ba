"""A machine in the place of a model with weights."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import numpy as np

from stacktrans.automata.machine import Configuration, Configurations, Machine, Runner
from stacktrans.automata.rules import EMPTY, Buffers
from stacktrans.common.ends import Ends
from stacktrans.decoding.model import Numbers, SoftInput
from stacktrans.memory import CellContents, Memory, MemorySnapshot, RowContents, make_memory
from stacktrans.memory.actions import EMPTY as EMPTY_CELL
from stacktrans.settings.model_config import ModelConfig
from stacktrans.tasks.alphabets import Ids, Mask


def buffers_of(config: ModelConfig) -> Buffers | None:
    """The buffers of a machine that is made of such a model."""
    return Buffers(**config.buffers.model_dump()) if config.buffers else None


def memories_of(memory: Memory[Any], signal_names: tuple[str, ...]) -> Ends | None:
    """The memories of a machine that is made of such a model; None if there is no such machine.

    Args:
        memory: of the model.
        signal_names: of the model, those of buffers included.
    """
    if memory.ends is None or memory.capacity:
        return None
    return memory.ends._replace(signal_names=signal_names)


class MachineModel(Runner):
    """A machine that answers, is measured and followed as a model is.

    Args:
        config: the shape of the model that it was extracted from.
        machine: itself.
    """

    hard = True

    def __init__(self, config: ModelConfig, machine: Machine) -> None:
        super().__init__(machine)
        self.config, self.memory = config, make_memory(config)

    def discretised(self, hard: bool = True) -> Self:
        """Itself."""
        return self

    def advance(
        self, state: Configurations, ids: Ids | SoftInput, requested: Mask | None = None
    ) -> Numbers:
        """See `Model.advance`."""
        logits = super().advance(state, ids, requested)
        self._track(state)
        if self.memory.takes_actions:  # where none is taken, the last is
            count = state.signals.shape[1] - 2 * bool(self.buffers)
            actions = state.signals[:, :count].reshape(len(state.signals), self.memory.pushes, -1)
            actions[..., -1] += actions.sum(axis=2) == 0
            state.signals[:, :count] = actions.reshape(len(state.signals), count)
        return logits

    def _track(self, state: Configurations) -> None:
        """Note at which steps was pushed what the memories of the first string hold."""
        if not state.of[0].stuck:
            state.of[0].last.apply(state.origins, state.steps)
            state.steps += 1

    def pushed_vectors(self, state: Configurations) -> Numbers:
        """See `Predictor.pushed_vectors`; vectors are stack symbols, by their numbers."""
        pushed = dict(state.of[0].last.pushes)
        stack_symbols = [pushed.get(end, EMPTY) for _, end in self.machine.memories.pushes]
        return np.array(stack_symbols, np.float64).reshape(-1, 1)

    def snapshot(self, state: Configurations, contents: bool = True) -> MemorySnapshot:
        """See `Predictor.snapshot`."""
        if self.memory.takes_actions:
            return self._cells(state.of[0])
        parts, origins = {}, state.origins
        ends = self.machine.memories.reads
        for end, name in zip(ends, self.memory.push_names, strict=True):
            row = np.zeros(state.steps)
            if own := origins[end // 2]:
                row[own[0 if end % 2 else -1]] = 1
            parts[name] = row
        rows = {
            name: RowContents(np.array(own, np.int64), np.ones(len(own)))
            for name, own in zip(self.machine.memories.names, origins, strict=True)
        }
        return MemorySnapshot(float(sum(map(len, origins))), parts, rows=rows)

    def _cells(self, configuration: Configuration) -> MemorySnapshot:
        """What stacks or lists with actions hold: stack symbols, by their numbers."""
        names, positions = self.memory.push_names, self.machine.memories.read_positions
        depth, rings = len(positions) // len(names), len(self.machine.stack_symbols) // len(names)
        read_cells, cells = {}, {}
        for number, name in enumerate(names):
            read = (
                configuration.peek(end, deep)
                for end, deep in positions[number * depth : (number + 1) * depth]
            )
            read_cells[name] = _as_cells(read)
            held, *right = configuration.contents[number * rings : (number + 1) * rings]
            rest = [stack_symbol for ring in right for stack_symbol in reversed(ring)]
            head = len(held) - 1 if right and held else None
            cells[name] = CellContents(_as_cells([*held, *rest]), head)
        return MemorySnapshot(read_cells=read_cells, cells=cells)


def _as_cells(stack_symbols: Iterable[int]) -> Numbers:
    """[n, 1] stack symbols as cells; what is empty holds -1."""
    numbers = np.array([*stack_symbols], np.float64).reshape(-1, 1)
    return np.where(numbers == EMPTY, EMPTY_CELL, numbers)
