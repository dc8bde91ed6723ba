"""Gradients where a max or a min of the equations has equal arguments: one rule for all.

Saturated signals make such ties all the time: a push of exactly 1 fills what a read takes.
"""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from kernel_cases import (
    NAMES,
    SEVERAL,
    TOLERANCE,
    Named,
    compare,
    defined_alone,
    fused_alone,
    gradients,
    memory_of,
)
from literal import LITERAL
from torch import Tensor

from stacktrans.kernels import Array

BATCH, SIZE = 60, 2
Runner = Callable[[str, Tensor, Tensor], Tensor]
Draw = Callable[[np.random.Generator, int, int], Array]


def by_the_equations(memory: str, signals: Tensor, values: Tensor) -> Tensor:
    literal = LITERAL[memory]()
    pushed = values.unflatten(2, (-1, SIZE))
    reads = [
        literal.step(signals[:, step].t().unsqueeze(-1), pushed[:, step].transpose(0, 1))
        for step in range(signals.shape[1])
    ]
    return torch.stack([read.transpose(0, 1).flatten(1) for read in reads], dim=1)


def outcome(runner: Runner, memory: str, signals: Tensor, values: Tensor) -> Named:
    """What is read, and the gradients by signals and values."""
    given = {"signals": signals.clone().requires_grad_(), "values": values.clone().requires_grad_()}
    reads = {"reads": runner(memory, *given.values())}
    return {**reads, **gradients(reads, given)}


def drawn(memory: str, steps: int, draw: Draw) -> tuple[Tensor, Tensor]:
    """Signals and values in float64."""
    store, rng = memory_of(memory), np.random.default_rng(steps)
    signals = [
        draw(rng, BATCH, steps) if name.startswith("pop") else pushes(draw)(rng, BATCH, steps)
        for name in store.signal_names
    ]
    values = rng.integers(-8, 9, (BATCH, steps, store.pushes * SIZE)) / 8
    return torch.tensor(np.stack(signals, axis=2)), torch.tensor(values)


def pushes(draw: Draw) -> Draw:
    """How pushes are drawn where pops are drawn in a given way."""
    if draw in (EXACT["pushes of 1"], ROUNDED["pushes of 1, any pops"]):
        return lambda _, batch, steps: np.ones((batch, steps))
    return draw


EXACT: dict[str, Draw] = {
    "quarters": lambda rng, batch, steps: rng.integers(0, 5, (batch, steps)) / 4,
    "halves": lambda rng, batch, steps: rng.integers(0, 3, (batch, steps)) / 2,
    "zero or one": lambda rng, batch, steps: rng.integers(0, 2, (batch, steps)) / 1,
    "pushes of 1": lambda rng, batch, steps: rng.integers(0, 4097, (batch, steps)) / 4096,
}
"""Strengths of which all sums are exact, in float32 too."""

ROUNDED: dict[str, Draw] = {
    "tenths": lambda rng, batch, steps: rng.integers(0, 11, (batch, steps)) / 10,
    "thirds": lambda rng, batch, steps: rng.integers(0, 4, (batch, steps)) / 3,
    "pushes of 1, any pops": lambda rng, batch, steps: rng.random((batch, steps)),
}
"""Strengths of which sums tie or not as they are rounded."""


@pytest.mark.parametrize("kind", EXACT)
@pytest.mark.parametrize("memory", NAMES)
def test_definition_and_compiled_code_follow_the_equations(memory: str, kind: str) -> None:
    for steps in (3, 7):
        signals, values = drawn(memory, steps, EXACT[kind])
        expected = outcome(by_the_equations, memory, signals, values)
        for dtype, tolerance in TOLERANCE.items():
            for runner in (defined_alone, fused_alone):
                found = outcome(runner, memory, signals.to(dtype), values.to(dtype))
                compare(found, expected, tolerance)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("kind", ROUNDED)
@pytest.mark.parametrize("memory", [*NAMES, *SEVERAL])
def test_definition_and_compiled_code_round_equally(
    memory: str, kind: str, dtype: torch.dtype
) -> None:
    for steps in (5, 30):
        signals, values = (part.to(dtype) for part in drawn(memory, steps, ROUNDED[kind]))
        found = outcome(fused_alone, memory, signals, values)
        compare(found, outcome(defined_alone, memory, signals, values), TOLERANCE[dtype])
