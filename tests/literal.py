"""The papers' equations, written out literally and slowly, as oracles."""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor


def _over(number: Tensor) -> Tensor:
    """max(0, x) with the derivative of the left argument at a tie."""
    return torch.where(number > 0, number, torch.zeros_like(number))


def _least(left: Tensor, right: Tensor) -> Tensor:
    """min(a, b) with the derivative of the left argument at a tie."""
    return torch.where(left <= right, left, right)


def _total(strengths: Sequence[Tensor]) -> Tensor:
    return sum(strengths, start=torch.zeros((), dtype=torch.float64))


def _weighted(weights: Sequence[Tensor], values: Sequence[Tensor]) -> Tensor:
    pairs = zip(weights, values, strict=True)
    return torch.stack([weight * value for weight, value in pairs]).sum(dim=0)


def _popped_from_top(s: list[Tensor], amount: Tensor) -> list[Tensor]:
    return [_over(s[i] - _over(amount - _total(s[i + 1 :]))) for i in range(len(s))]


def _popped_from_front(s: list[Tensor], amount: Tensor) -> list[Tensor]:
    return [_over(s[i] - _over(amount - _total(s[:i]))) for i in range(len(s))]


def _top_weights(s: list[Tensor]) -> list[Tensor]:
    return [_least(s[i], _over(1 - _total(s[i + 1 :]))) for i in range(len(s))]


def _front_weights(s: list[Tensor]) -> list[Tensor]:
    return [_least(s[i], _over(1 - _total(s[:i]))) for i in range(len(s))]


class Literal(ABC):
    """A structure that keeps every vector and strength."""

    def __init__(self) -> None:
        self.values: list[Tensor] = []
        self.strengths: list[Tensor] = []

    @abstractmethod
    def step(self, signals: Tensor, values: Tensor) -> Tensor:
        """One step: signals [S], values [ends, m] -> reads [ends, m]."""


class LiteralStack(Literal):
    """grefenstette2015, equations 1 to 3; row 0 is the bottom."""

    def step(self, signals: Tensor, values: Tensor) -> Tensor:
        pop, push = signals
        self.strengths = [*_popped_from_top(self.strengths, pop), push]
        self.values = [*self.values, values[0]]
        return _weighted(_top_weights(self.strengths), self.values).unsqueeze(0)


class LiteralQueue(Literal):
    """grefenstette2015, equations 1, 4 and 5; row 0 is the front."""

    def step(self, signals: Tensor, values: Tensor) -> Tensor:
        pop, push = signals
        self.strengths = [*_popped_from_front(self.strengths, pop), push]
        self.values = [*self.values, values[0]]
        return _weighted(_front_weights(self.strengths), self.values).unsqueeze(0)


class LiteralDeque(Literal):
    """grefenstette2015, equations 6 to 11; row 0 is the bottom."""

    def step(self, signals: Tensor, values: Tensor) -> Tensor:
        pop_top, push_top, pop_bottom, push_bottom = signals
        after_top = _popped_from_top(self.strengths, pop_top)
        self.strengths = [push_bottom, *_popped_from_front(after_top, pop_bottom), push_top]
        self.values = [values[1], *self.values, values[0]]
        top, bottom = _top_weights(self.strengths), _front_weights(self.strengths)
        return torch.stack([_weighted(top, self.values), _weighted(bottom, self.values)])


LITERAL: dict[str, type[Literal]] = {
    "stack": LiteralStack,
    "queue": LiteralQueue,
    "deque": LiteralDeque,
}


Cells = defaultdict[int, Tensor]
"""Cells of a stack or list by their index, 0 at the top or head; all others are empty."""


def empty_cells(size: int, number: float) -> Cells:
    """A stack or list whose cells of some size all hold a number."""
    return defaultdict(lambda: torch.full((size,), number, dtype=torch.float64))


def literal_stack(cells: Cells, steps: int, actions: dict[str, Tensor], value: Tensor) -> Cells:
    """joulin2015, section 3.1: a stack after a step, the number `steps` from 0."""
    after = defaultdict(cells.default_factory)
    push, pop, stay = actions["push"], actions["pop"], actions.get("no-op", torch.zeros(()))
    after[0] = push * value + pop * cells[1] + stay * cells[0]
    for i in range(1, steps + 2):
        after[i] = push * cells[i - 1] + pop * cells[i + 1] + stay * cells[i]
    return after


def literal_list(cells: Cells, steps: int, actions: dict[str, Tensor], value: Tensor) -> Cells:
    """joulin2015, section 3.2: a list after a step."""
    after = defaultdict(cells.default_factory)
    insert, left, right = actions["insert"], actions["left"], actions["right"]
    stay = actions.get("no-op", torch.zeros(()))
    for i in range(-steps - 1, steps + 2):
        inserted = value if i == 0 else cells[i + 1] if i < 0 else cells[i]
        after[i] = right * cells[i + 1] + left * cells[i - 1] + insert * inserted + stay * cells[i]
    return after


def literal_tape(cells: Cells, steps: int, signals: dict[str, Tensor], value: Tensor) -> Cells:
    """deletang2023, with a strength of writing, an endless tape, and without jumps."""
    written, after = cells.copy(), defaultdict(cells.default_factory)
    write, left, right = signals["write"], signals["left"], signals["right"]
    stay = signals.get("stay", torch.zeros(()))
    written[0] = (1 - write) * cells[0] + write * value
    for i in range(-steps - 1, steps + 2):
        after[i] = left * written[i - 1] + stay * written[i] + right * written[i + 1]
    return after


LITERAL_ACTIONS = {
    "stack-rnn": literal_stack,
    "list-rnn": literal_list,
    "superposed": literal_stack,
    "tape": literal_tape,
}


class LiteralBuffers:
    """hao2018, section 3.2: an input buffer of strengths 1, and an output buffer, both queues.

    Args:
        inputs: what the input buffer holds at first.
    """

    def __init__(self, inputs: Sequence[Tensor]) -> None:
        self.inputs = inputs
        self.left = [torch.ones((), dtype=torch.float64) for _ in inputs]
        self.outputs: list[Tensor] = []
        self.written: list[Tensor] = []

    def read(self, amount: Tensor) -> Tensor:
        """Pop with the strength given at the step before, then read with strength 1."""
        self.left = _popped_from_front(self.left, amount)
        return _weighted(_front_weights(self.left), self.inputs)

    def write(self, output: Tensor, strength: Tensor) -> None:
        self.outputs.append(output)
        self.written.append(strength)

    def answer(self, count: int) -> list[Tensor]:
        """Read and pop with strength 1, again and again."""
        found = []
        for _ in range(count):
            found.append(_weighted(_front_weights(self.written), self.outputs))
            self.written = _popped_from_front(self.written, torch.ones((), dtype=torch.float64))
        return found


class Run(NamedTuple):
    """A run of a pushdown automaton.

    Attributes:
        weight: the product of the weights of its transitions.
        state: its state, from 0.
        stack: symbol of each element, from 0, and the step of its push, 0 for the bottom, which is
            the first element.
    """

    weight: Tensor
    state: int
    stack: tuple[tuple[int, int], ...]


def literal_runs(run: Run, step: int, transitions: Sequence[Tensor]) -> Iterator[Run]:
    """All runs that continue a run by one transition at a step (dusell2023).

    The weights of transitions are those of push and replace, [Q, S, Q, S], and of pop, [Q, S, Q].
    """
    *below, (top, pushed_at) = run.stack
    push, replace, pop = (weights[run.state, top] * run.weight for weights in transitions)
    for state in range(len(pop)):
        for symbol in range(push.shape[1]):
            yield Run(push[state, symbol], state, (*run.stack, (symbol, step)))
            yield Run(replace[state, symbol], state, (*below, (symbol, pushed_at)))
        if below:
            yield Run(pop[state], state, (*below,))


def literal_read(runs: Sequence[Run], states: int, symbols: int, vectors: Tensor) -> Tensor:
    """The mean vector on top for each state and symbol, times their probability (dusell2023).

    Vectors are [T + 1, m], by the step of their push; those read are [Q * S, m].
    """
    total = _total([run.weight for run in runs])
    reads = [torch.zeros_like(vectors[0])] * (states * symbols)
    for run in runs:
        top, pushed_at = run.stack[-1]
        at = run.state * symbols + top
        reads[at] = reads[at] + run.weight / total * vectors[pushed_at]
    return torch.stack(reads)
