"""What signals do with memories, as a machine says it: rings that are pushed to and popped.

A ring is a row of things with two ends: the n-th, from 0, has the ends 2 n, its top, and 2 n + 1,
its bottom. A stack, queue or deque is one. A list with a head is two, both of which are used at
their tops: the head and what is left of it, and what is right of it. To move the head is to carry
what is on one over to the other.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from stacktrans.kernels.kernel import Kernel
from stacktrans.memory.actions.cells import UNLIMITED, Actions
from stacktrans.memory.actions.steps import ActionKernel
from stacktrans.memory.base import Memory
from stacktrans.memory.strengths.steps import StrengthKernel

Pairs = list[tuple[int, int]]


class Operations(NamedTuple):
    """What signals do.

    Attributes:
        names: of each ring.
        pops: signals, each with the end that it pops.
        pushes: signals, each with the end that it pushes a vector of its own to.
        moves: signals, each with the end that it takes from, and the end that it puts this on.
        reads: ends that are read, each with how deep under the end, from 0.
        idle: signals that do nothing.
        alphabets: of each ring, the first ring that holds the same things.
        signals: how many there are.
        actions: how many of them exclude one another; 0 if all are independent.
    """

    names: tuple[str, ...]
    pops: Pairs
    pushes: Pairs
    moves: list[tuple[int, int, int]]
    reads: Pairs
    idle: list[int]
    alphabets: list[int]
    signals: int
    actions: int

    @property
    def rings(self) -> int:
        """How many there are."""
        return len(self.names)


def operations_of(memory: Memory[Any], kernel: Kernel) -> Operations | None:
    """Those of a memory with its compiled code; None if they are not those of rings."""
    if isinstance(kernel, StrengthKernel):
        return _of_strengths(memory, kernel)
    if isinstance(kernel, ActionKernel) and kernel.actions.capacity == UNLIMITED:
        own = kernel.actions
        return _of_lists(own) if own.lists else _of_stacks(own)
    return None


def _of_strengths(memory: Memory[Any], kernel: StrengthKernel) -> Operations:
    ends, rings = kernel.ends, kernel.rings if len(kernel.ends.reads) else 0
    return Operations(
        tuple(getattr(memory, "labels", (memory.name,) * rings)),
        [(signal, end) for signal, end in ends.pops.tolist()],
        [(signal, end) for signal, end in ends.pushes.tolist()],
        [],
        [(end, 0) for end in ends.reads.tolist()],
        [],
        [*range(rings)],
        kernel.signals,
        0,
    )


def _firsts(actions: Actions) -> range:
    """The first signal of each stack or list."""
    return range(0, actions.number * actions.each, actions.each)


def _numbered(name: str, actions: Actions) -> list[str]:
    if actions.number == 1:
        return [name]
    return [f"{name} {number}" for number in range(1, actions.number + 1)]


def _idle(actions: Actions) -> list[int]:
    return [first + actions.each - 1 for first in _firsts(actions)] if actions.no_op else []


def _of_stacks(actions: Actions) -> Operations:
    """Signals of each: push, pop, and doing nothing (joulin2015, section 3.1)."""
    firsts = _firsts(actions)
    return Operations(
        tuple(_numbered("stack", actions)),
        [(first + 1, 2 * number) for number, first in enumerate(firsts)],
        [(first, 2 * number) for number, first in enumerate(firsts)],
        [],
        [(2 * number, deep) for number in range(actions.number) for deep in range(actions.depth)],
        _idle(actions),
        [*range(actions.number)],
        actions.number * actions.each,
        actions.each,
    )


def _of_lists(actions: Actions) -> Operations:
    """Signals of each: insert, left, right, and doing nothing (joulin2015, section 3.2)."""
    moves, reads, names = [], [], []
    for number, (first, name) in enumerate(
        zip(_firsts(actions), _numbered("list", actions), strict=True)
    ):
        left, right = 4 * number, 4 * number + 2
        moves += [(first + 1, left, right), (first + 2, right, left)]
        beside = (
            (left, deep // 2 + 1) if deep % 2 == 0 else (right, deep // 2)
            for deep in range(actions.depth - 1)
        )
        reads += [(left, 0), *beside]
        names += [name, f"{name} right of its head"]
    return Operations(
        tuple(names),
        [],
        [(first, 4 * number) for number, first in enumerate(_firsts(actions))],
        moves,
        reads,
        _idle(actions),
        [number - number % 2 for number in range(2 * actions.number)],
        actions.number * actions.each,
        actions.each,
    )
