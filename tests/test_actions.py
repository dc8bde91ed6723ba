"""Memories with actions against their equations (joulin2015, section 3; deletang2023)."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_cases import reads_of
from literal import LITERAL_ACTIONS, empty_cells
from torch import Tensor

from stacktrans.memory import ActionList, ActionStack, SuperposedStack, Tape
from stacktrans.memory.actions.definition import ActionMemory

ACTION_MEMORIES: dict[str, type[ActionMemory[Any]]] = {
    memory.name: memory for memory in (ActionStack, ActionList, SuperposedStack, Tape)
}
SIZE = 2
DOWN, AROUND = [0, 1, 2, 3, 4], [0, -1, 1, -2, 2]
READ = {"stack-rnn": DOWN, "list-rnn": AROUND, "superposed": DOWN, "tape": AROUND}


def literal_run(memory: ActionMemory[Any], signals: Tensor, values: Tensor) -> Tensor:
    """What one stack or list of a memory has read after each step: [T, depth, m]."""
    cells, reads = empty_cells(SIZE, memory.empty), []
    for step, (signal, value) in enumerate(zip(signals, values, strict=True)):
        actions = dict(zip(memory.actions, signal, strict=True))
        cells = LITERAL_ACTIONS[memory.name](cells, step, actions, value)
        reads.append(torch.stack([cells[i] for i in READ[memory.name][: memory.depth]]))
    return torch.stack(reads)


def run(memory: ActionMemory[Any], sums: Tensor, values: Tensor) -> Tensor:
    """Reads [B, T, count, depth, m] of sums [B, T, S] and values [B, T, count, m]."""
    reads = reads_of(memory, probabilities(memory, sums), values)
    shaped: Tensor = reads.unflatten(2, (memory.count, memory.depth))
    return shaped


def program(memory: ActionMemory[Any], batch: int, steps: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    sums = torch.randn(
        batch * steps, len(memory.signal_names), generator=generator, dtype=torch.float64
    )
    values = torch.rand(batch, steps, memory.count, SIZE, generator=generator, dtype=torch.float64)
    return 2 * sums.view(batch, steps, -1), values


def literal_signals(memory: ActionMemory[Any], sums: Tensor) -> Tensor:
    """The signals [B, T, count, S] of sums [B, T, count * S]."""
    by_memory = sums.unflatten(2, (memory.count, -1))
    if memory.name != "tape":
        return torch.softmax(by_memory, dim=3)
    write, moves = by_memory[..., :1], by_memory[..., 1:]
    return torch.cat([torch.sigmoid(write), torch.softmax(moves, dim=3)], dim=3)


def probabilities(memory: ActionMemory[Any], sums: Tensor) -> Tensor:
    return memory.signals(sums.flatten(0, 1)).view(sums.shape)


SHAPES = ((1, 1, False), (1, 5, True), (3, 2, True), (3, 5, False))
"""Counts, depths, and whether there is a no-op."""
CASES = [(name, *shape) for name in sorted(ACTION_MEMORIES) for shape in SHAPES]


@pytest.mark.parametrize(("name", "count", "depth", "no_op"), CASES)
def test_equals_the_printed_equations_with_gradients(
    name: str, count: int, depth: int, no_op: bool
) -> None:
    memory = ACTION_MEMORIES[name](count, depth, no_op)
    sums, values = (part.requires_grad_() for part in program(memory, 2, 9))
    reads = run(memory, sums, values)
    # Signals are computed from sums, so that they add up to 1; otherwise, even empty cells would
    # have gradients.
    by_memory = literal_signals(memory, sums)
    expected = torch.stack(
        [
            torch.stack(
                [
                    literal_run(memory, by_memory[item, :, which], values[item, :, which])
                    for which in range(count)
                ],
                dim=1,
            )
            for item in range(2)
        ]
    )
    torch.testing.assert_close(reads, expected, rtol=0, atol=1e-12)
    weights = torch.randn(reads.shape, dtype=torch.float64)
    found, right = (
        torch.autograd.grad((weights * part).sum(), (sums, values)) for part in (reads, expected)
    )
    torch.testing.assert_close(found, right, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", sorted(ACTION_MEMORIES))
def test_gradients_are_those_of_finite_differences(name: str) -> None:
    memory = ACTION_MEMORIES[name](2, 2, True)
    sums, values = (part.requires_grad_() for part in program(memory, 1, 4))
    assert torch.autograd.gradcheck(lambda *parts: run(memory, *parts), (sums, values))


@pytest.mark.parametrize("name", sorted(ACTION_MEMORIES))
def test_reads_without_gradients_equal_those_with_gradients(name: str) -> None:
    memory = ACTION_MEMORIES[name](2, 3, True)
    sums, values = program(memory, 2, 40)
    with torch.no_grad():
        left_out = run(memory, sums, values)
    whole = run(memory, sums.requires_grad_(), values).detach()
    torch.testing.assert_close(left_out, whole, rtol=0, atol=1e-12)


@torch.no_grad()
def test_memory_does_not_grow_with_steps_that_leave_nothing() -> None:
    memory = ActionStack(1, 2, False)
    state = memory.initial(1, 1, torch.zeros(()))
    push, pop = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])
    for _ in range(50):
        for signal in (push, push, pop, pop):
            state, _ = memory.step(state, signal, torch.ones(1, 1, 1))
    assert memory.nearest_cells(state).shape[2] <= 1


def test_capacity_loses_what_is_furthest_away() -> None:
    memory = ActionStack(1, 1, False, capacity=2)
    state = memory.initial(1, 1, torch.zeros((), dtype=torch.float64))
    push = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    reads = []
    for number in range(4):
        value = torch.full((1, 1, 1), float(number), dtype=torch.float64)
        state, _ = memory.step(state, push, value)
    for _ in range(3):
        reads.append(
            float(memory.nearest_cells(state)[0, 0, 0, 0]) if state.cells.shape[2] else -1.0
        )
        state, _ = memory.step(state, push.flip(1), value)
    assert reads == [3, 2, -1]


def certain(memory: ActionMemory[Any], action: str) -> Tensor:
    return torch.tensor([[float(name == action) for name in memory.actions]], dtype=torch.float64)


@settings(max_examples=50)
@given(actions=st.lists(st.sampled_from(["push", "pop", "no-op"]), max_size=30))
def test_certain_actions_are_those_of_a_stack(actions: list[str]) -> None:
    memory, expected = ActionStack(1, 1, True), list[float]()
    state = memory.initial(1, 1, torch.zeros((), dtype=torch.float64))
    for number, action in enumerate(actions):
        value = torch.full((1, 1, 1), float(number), dtype=torch.float64)
        state, read = memory.step(state, certain(memory, action), value)
        if action == "push":
            expected.append(number)
        elif action == "pop" and expected:
            expected.pop()
        assert float(read) == (expected[-1] if expected else -1)


@settings(max_examples=50)
@given(actions=st.lists(st.sampled_from(["insert", "left", "right", "no-op"]), max_size=30))
def test_certain_actions_are_those_of_a_list_that_loses_nothing(actions: list[str]) -> None:
    memory = ActionList(1, 3, True)
    left, head, right = list[float](), -1.0, list[float]()  # nearest last
    state = memory.initial(1, 1, torch.zeros((), dtype=torch.float64))
    for number, action in enumerate(actions):
        value = torch.full((1, 1, 1), float(number), dtype=torch.float64)
        state, read = memory.step(state, certain(memory, action), value)
        if action == "insert":
            left, head = [*left, head], float(number)
        elif action == "left":
            right, head = [*right, head], left.pop() if left else -1.0
        elif action == "right":
            left, head = [*left, head], right.pop() if right else -1.0
        beside = [side[-1] if side else -1.0 for side in (left, right)]
        assert read.flatten().tolist() == [head, *beside]


@settings(max_examples=50)
@given(steps=st.lists(st.tuples(st.booleans(), st.sampled_from(["left", "right", "stay"]))))
def test_certain_signals_are_those_of_the_tape_of_a_turing_machine(
    steps: list[tuple[bool, str]],
) -> None:
    memory, cells, head = Tape(1, 3, True), dict[int, float](), 0
    state = memory.initial(1, 1, torch.zeros((), dtype=torch.float64))
    for number, (write, move) in enumerate(steps, start=1):
        value = torch.full((1, 1, 1), float(number), dtype=torch.float64)
        signals = certain(memory, move)
        signals[0, 0] = write
        state, read = memory.step(state, signals, value)
        if write:
            cells[head] = number
        head += {"left": -1, "right": 1, "stay": 0}[move]
        assert read.flatten().tolist() == [cells.get(head + i, 0) for i in (0, -1, 1)]


@pytest.mark.parametrize("name", sorted(ACTION_MEMORIES))
def test_hard_signals_take_the_most_probable_action_of_each(name: str) -> None:
    memory = ACTION_MEMORIES[name](3, 1, True)
    sums, _ = program(memory, 1, 5)
    hard = memory.discretize(probabilities(memory, sums)[0]).view(5, 3, -1)
    strengths = int(name == "tape")
    of_strengths, of_actions = sums.view(5, 3, -1).tensor_split([strengths], dim=2)
    assert torch.equal(hard[..., :strengths], (of_strengths > 0).double())
    actions = hard[..., strengths:]
    assert torch.equal(actions.argmax(dim=2), of_actions.argmax(dim=2))
    assert actions.sum() == 15
    assert set(actions.unique().tolist()) == {0, 1}


def test_signals_are_named_by_action_and_number() -> None:
    assert ActionStack(1, 2, False).signal_names == ("push", "pop")
    assert Tape(1, 1, True).signal_names == ("write", "left", "right", "stay")
    assert ActionList(2, 2, True).signal_names == (
        *("insert 1", "left 1", "right 1", "no-op 1"),
        *("insert 2", "left 2", "right 2", "no-op 2"),
    )
