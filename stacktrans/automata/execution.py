"""Runs of automata with memories: configurations step by step, and batches for the decoder."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from stacktrans.automata.rules import EMPTY, START, Buffers
from stacktrans.common.ends import Ends
from stacktrans.decoding.model import Numbers, SoftInput
from stacktrans.tasks.alphabets import FAILED, NO_OUTPUT, Ids, Mask
from stacktrans.tasks.layout import Layout

UNLIKELY = -1e9
"""The logit of outputs that a machine does not write."""


class Transition(NamedTuple):
    """A transition of a machine: memory operations, output and next state.

    Attributes:
        signals: those of the rule that applies.
        output: the output; `NO_OUTPUT` if the rule has none.
        pops: the ends from which a cell is popped, in this order.
        pushes: after that, the ends to which a cell is pushed, each with its stack symbol.
        moves: after that, the ends from which a cell is taken, each with the end it is put on.
        next_state: the state after it.
        rule: the number of the rule that applies, from 1; 0 before the first step, and for an
            automaton without rules.
    """

    signals: tuple[int, ...] = ()
    output: int = NO_OUTPUT
    pops: tuple[int, ...] = ()
    pushes: tuple[tuple[int, int], ...] = ()
    moves: tuple[tuple[int, int], ...] = ()
    next_state: int = START
    rule: int = 0

    def apply(self, contents: Sequence[Any], pushed: int | None = None) -> None:
        """Change the contents of memories, `Row`s or the like.

        Args:
            contents: of each memory.
            pushed: pushed in the place of stack symbols.
        """
        for end in self.pops:
            contents[end // 2].take(end % 2)
        for end, stack_symbol in self.pushes:
            contents[end // 2].put(end % 2, stack_symbol if pushed is None else pushed)
        for taken, put in self.moves:
            contents[put // 2].put(put % 2, contents[taken // 2].take(taken % 2))


class Automaton(Protocol):
    """An automaton with memories that runs step by step: a machine, or a quantized network.

    `Machine` documents its members.
    """

    @property
    def memories(self) -> Ends: ...

    @property
    def layout(self) -> Layout: ...

    @property
    def buffers(self) -> Buffers | None: ...

    @property
    def relevant_positions(self) -> Sequence[tuple[int, int] | None]: ...

    def transitions(self, observations: Sequence[tuple[int, ...]]) -> list[Transition | None]: ...


class Row(deque[int]):
    """The contents of a memory as stack symbols, bottom first; its sides are `TOP` and `BOTTOM`."""

    def peek(self, side: int, depth: int) -> int:
        """The stack symbol at a depth below a side, from 0; `EMPTY` if there is none."""
        return self[depth if side else -1 - depth] if len(self) > depth else EMPTY

    def take(self, side: int) -> int:
        """Remove and return the stack symbol at a side; `EMPTY` if there is none."""
        if not self:
            return EMPTY
        return self.popleft() if side else self.pop()

    def put(self, side: int, stack_symbol: int) -> None:
        """Add a stack symbol at a side."""
        self.appendleft(stack_symbol) if side else self.append(stack_symbol)


class Configuration:
    """A configuration of a machine, its state and the contents of its memories, step by step.

    Args:
        machine: the machine.
        contents: of each memory, a `Row` or the like; None for empty ones.
        state: the state that it begins in.

    Attributes:
        contents: of each memory.
        state: the state after the last step.
        last: the last transition.
        observation: that of the last step.
        stuck: whether no rule applied in some step; from then on none does.
    """

    def __init__(
        self, machine: Automaton, contents: Sequence[Any] | None = None, state: int = START
    ) -> None:
        self._machine, self.state, self.stuck = machine, state, False
        self.contents: Sequence[Any] = (
            [Row() for _ in machine.memories.names] if contents is None else contents
        )
        self.last = Transition(next_state=state)
        self.observation: tuple[int, ...] = ()
        # The row, the side and the depth of each read.
        self._reads = [
            position and (self.contents[position[0] // 2], position[0] % 2, position[1])
            for position in machine.relevant_positions
        ]

    def copy(self) -> Configuration:
        """A copy, which can be advanced independently."""
        other = Configuration(self._machine, [*map(Row, self.contents)], self.state)
        other.last, other.observation, other.stuck = self.last, self.observation, self.stuck
        return other

    def peek(self, end: int, depth: int) -> int:
        """The stack symbol at a depth below an end, from 0; `EMPTY` if there is none."""
        stack_symbol: int = self.contents[end // 2].peek(end % 2, depth)
        return stack_symbol

    def step(self, symbol: int) -> int:
        """The output for an input; `NO_OUTPUT` if there is none, `FAILED` if no rule applies."""
        (transition,) = self._machine.transitions([self.observe(symbol)])
        return self.follow(transition)

    def observe(self, symbol: int) -> tuple[int, ...]:
        """All that the step at an input depends on; `EMPTY` for reads that are not relevant."""
        read = [place[0].peek(place[1], place[2]) if place else EMPTY for place in self._reads]
        self.observation = symbol, *read, self.state
        return self.observation

    def follow(self, transition: Transition | None) -> int:
        """Make a step, and return its output; `FAILED` without a transition, and from then on."""
        if self.stuck or transition is None:
            self.stuck = True
            return FAILED
        transition.apply(self.contents)
        self.last, self.state = transition, transition.next_state
        return transition.output


@dataclass
class Configurations:
    """The configurations of a machine over B strings.

    Attributes:
        model: the machine.
        items: the configuration of each string.
        origins: for each memory of the first string, the step, from 0, that pushed each of its
            cells; empty unless steps are recorded, as by `MachineModel`.
        steps: the number of recorded steps.
    """

    model: AutomatonModel
    items: list[Configuration]
    origins: list[Row]
    steps: int = 0

    @property
    def signals(self) -> Numbers:
        """[B, signals] of the last step, 0 before the first; NaN where no rule applied."""
        return self.model.signals_of(self.items)


class AutomatonModel:
    """A machine as a model for the decoder, which gives each output the probability 1.

    Args:
        machine: the machine.
    """

    machine: Automaton
    failure: ClassVar[str] = "the machine has no rule, or no output, for what it reads here"
    is_deterministic: ClassVar[bool] = True
    threads = 1

    def __init__(self, machine: Automaton) -> None:
        self.machine, self.buffers, self.outputs = machine, machine.buffers, machine.layout.outputs

    def start(self, batch: int, steps: int = 0) -> Configurations:
        """See `Model.start`."""
        configurations = [Configuration(self.machine) for _ in range(batch)]
        return Configurations(self, configurations, [Row() for _ in self.machine.memories.names])

    def signals_of(self, items: Sequence[Configuration]) -> Numbers:
        """The signals of `Configurations`."""
        signals = np.zeros((len(items), len(self.machine.memories.signal_names)))
        for row, configuration in zip(signals, items, strict=True):
            row[:] = np.nan if configuration.stuck else configuration.last.signals or 0
        return signals

    def advance(
        self, state: Configurations, ids: Ids | SoftInput, requested: Mask | None = None
    ) -> Numbers:
        """See `Model.advance`; logits are NaN if no rule applies, -inf where there is no output."""
        if isinstance(ids, SoftInput):
            no_input = self.machine.layout.inputs  # the id after the last
            ids = np.where(ids.ids < 0, no_input, ids.ids)[:, None]
        if ids.min(initial=0) < 0:
            raise IndexError(f"an id is {ids.min()}; expected 0 or more")
        outputs = np.empty(ids.shape, np.int64)
        for column, symbols in enumerate(ids.T.tolist()):
            observations = [*map(Configuration.observe, state.items, symbols)]
            transitions = self.machine.transitions(observations)
            outputs[:, column] = [*map(Configuration.follow, state.items, transitions)]
        chosen = outputs.ravel() if requested is None else outputs[requested]
        logits = np.full((len(chosen), self.machine.layout.outputs), UNLIKELY)
        logits[np.arange(len(chosen)), np.maximum(chosen, 0)] = 0
        logits[chosen == NO_OUTPUT] = -np.inf
        logits[chosen == FAILED] = np.nan
        return logits

    def select(self, state: Configurations, items: Ids) -> Configurations:
        """See `Model.select`."""
        configurations = [state.items[item].copy() for item in items.tolist()]
        return replace(state, items=configurations)
