"""The machine backend: extracted machines as predictors with snapshots of their memories."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self

import numpy as np

from stacktrans.automata.execution import AutomatonModel, Configuration, Configurations
from stacktrans.automata.machine import Machine
from stacktrans.automata.rules import EMPTY
from stacktrans.decoding.model import Numbers, SoftInput
from stacktrans.memory import CellContents, MemorySnapshot, RowContents, make_memory
from stacktrans.settings.model_config import ModelConfig
from stacktrans.tasks.alphabets import Ids, Mask


class MachineModel(AutomatonModel):
    """A machine as a `Predictor`, which answers, is scored and traced like a model.

    Args:
        config: the architecture of the model that the machine was extracted from.
        machine: the machine.
    """

    machine: Machine
    hard = True

    def __init__(self, config: ModelConfig, machine: Machine) -> None:
        super().__init__(machine)
        self.config, self.memory = config, make_memory(config)

    def discretized(self, hard: bool = True) -> Self:
        """The model itself, as a machine is discrete."""
        return self

    def advance(
        self, state: Configurations, ids: Ids | SoftInput, requested: Mask | None = None
    ) -> Numbers:
        """See `Model.advance`."""
        logits = super().advance(state, ids, requested)
        if not state.items[0].stuck:  # the origins of the first string's cells follow
            state.items[0].last.apply(state.origins, state.steps)
        state.steps += 1
        return logits

    def signals_of(self, items: Sequence[Configuration]) -> Numbers:
        """The signals of `Configurations`; without an action, the last is taken."""
        signals = super().signals_of(items)
        if self.memory.takes_actions:
            count = signals.shape[1] - 2 * bool(self.buffers)
            actions = signals[:, :count].reshape(len(items), self.memory.pushes, -1)
            actions[..., -1] += actions.sum(axis=2) == 0
            signals[:, :count] = actions.reshape(len(items), count)
        return signals

    def pushed_vectors(self, state: Configurations) -> Numbers:
        """See `Predictor.pushed_vectors`; a vector is the number of a stack symbol."""
        pushed = {} if state.items[0].stuck else dict(state.items[0].last.pushes)
        stack_symbols = [pushed.get(end, EMPTY) for _, end in self.machine.memories.pushes]
        return np.array(stack_symbols, np.float64).reshape(-1, 1)

    def snapshot(self, state: Configurations) -> MemorySnapshot:
        """See `Predictor.snapshot`."""
        return self._cells(state.items[0]) if self.memory.takes_actions else self._rows(state)

    def _rows(self, state: Configurations) -> MemorySnapshot:
        """The stack symbols in stacks, queues and deques with strengths."""
        configuration, names = state.items[0], self.machine.stack_symbol_names
        memories, read_weights, read_symbols = self.machine.memories, {}, {}
        for end, name in zip(memories.reads, self.memory.read_names, strict=True):
            weights = np.zeros(state.steps)
            if origins := state.origins[end // 2]:
                weights[origins[0 if end % 2 else -1]] = 1
            read_weights[name] = weights
            read_symbols[name] = names[end // 2][configuration.peek(end, 0)]
        rows = {}
        columns = zip(memories.names, state.origins, names, configuration.contents, strict=True)
        for name, origins, own_names, stack_symbols in columns:
            symbols = [*map(own_names.__getitem__, stack_symbols)]
            rows[name] = RowContents(np.array(origins, np.int64), np.ones(len(origins)), symbols)
        strength = float(sum(map(len, state.origins)))
        return MemorySnapshot(strength, read_weights, stack_symbols=read_symbols, rows=rows)

    def _cells(self, configuration: Configuration) -> MemorySnapshot:
        """The numbers of stack symbols in stacks or lists with actions."""
        names, positions = self.memory.push_names, self.machine.memories.read_positions
        reads, rows = len(positions) // len(names), len(configuration.contents) // len(names)
        read_cells, cells = {}, {}
        for number, name in enumerate(names):
            read = positions[number * reads : (number + 1) * reads]
            read_cells[name] = self._as_cells(configuration.peek(*position) for position in read)
            # A list has a row up to its head, and one for the cells to the right of it.
            first, *right = configuration.contents[number * rows : (number + 1) * rows]
            left = [*first] or [EMPTY] * len(right)  # the head of an empty row is an empty cell
            row = left + [stack_symbol for row in right for stack_symbol in reversed(row)]
            own_names = self.machine.stack_symbol_names[number * rows]
            symbols = [*map(own_names.__getitem__, row)]
            head = len(left) - 1 if right else None
            cells[name] = CellContents(self._as_cells(row), head, symbols)
        return MemorySnapshot(read_cells=read_cells, cells=cells)

    def _as_cells(self, stack_symbols: Iterable[int]) -> Numbers:
        """The numbers of stack symbols as cells [n, 1]."""
        numbers = np.array([*stack_symbols], np.float64).reshape(-1, 1)
        return np.where(numbers == EMPTY, self.memory.empty, numbers)
