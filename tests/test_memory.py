"""Memories against the papers' equations, lists and deques, and finite differences."""

from collections import deque
from collections.abc import Callable, Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_cases import NAMES, STRENGTH_MEMORIES, reads_of
from literal import LITERAL
from torch import Tensor

from stacktrans.memory.strengths.definition import StrengthMemory


def random_program(
    memory: StrengthMemory, batch: int, steps: int, seed: int, size: int = 3
) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    signals = torch.rand(
        batch, steps, len(memory.signal_names), generator=generator, dtype=torch.float64
    )
    values = torch.randn(batch, steps, memory.reads, size, generator=generator, dtype=torch.float64)
    return signals, values


def literal_run(name: str, signals: Tensor, values: Tensor) -> Tensor:
    structure = LITERAL[name]()
    return torch.stack([structure.step(s, v) for s, v in zip(signals, values, strict=True)])


@pytest.mark.parametrize(
    ("name", "expected"), [("stack", [0.8, 1.5, 2.8]), ("queue", [0.8, 1.3, 2.7])]
)
def test_the_worked_example_of_the_paper(name: str, expected: list[float]) -> None:
    signals = torch.tensor([[[0, 0.8], [0.1, 0.5], [0.9, 0.9]]], dtype=torch.float64)
    values = torch.tensor([[[[1.0]], [[2.0]], [[3.0]]]], dtype=torch.float64)
    reads = reads_of(STRENGTH_MEMORIES[name](), signals, values).flatten()
    assert reads.tolist() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(5))
def test_equals_the_literal_equations_with_gradients(name: str, seed: int) -> None:
    memory = STRENGTH_MEMORIES[name]()
    signals, values = random_program(memory, 1, 24, seed)
    results = []
    runners: list[Callable[[Tensor, Tensor], Tensor]] = [
        lambda s, v: reads_of(memory, s, v)[0],
        lambda s, v: literal_run(name, s[0], v[0]),
    ]
    for runner in runners:
        s, v = signals.clone().requires_grad_(), values.clone().requires_grad_()
        reads = runner(s, v)
        weighting = torch.arange(reads.numel(), dtype=torch.float64).reshape(reads.shape).sin()
        results.append((reads, *torch.autograd.grad((reads * weighting).sum(), (s, v))))
    for what, ours, literal in zip(("reads", "signals", "values"), *results, strict=True):
        torch.testing.assert_close(ours, literal, rtol=1e-10, atol=1e-12, msg=f"{name} {what}")


@pytest.mark.parametrize("name", NAMES)
def test_strengths_equal_the_literal_ones(name: str) -> None:
    memory = STRENGTH_MEMORIES[name]()
    signals, values = random_program(memory, 1, 20, seed=9)
    state = memory.initial(1, 3, signals)
    literal = LITERAL[name]()
    for step in range(20):
        state, _ = memory.step(state, signals[:, step], values[:, step])
        literal.step(signals[0, step], values[0, step])
        expected = torch.stack(literal.strengths)
        torch.testing.assert_close(state.strengths[0], expected, rtol=0, atol=1e-12)
        torch.testing.assert_close(state.values[0], torch.stack(literal.values))


@pytest.mark.parametrize("name", NAMES)
def test_gradients_equal_finite_differences(name: str) -> None:
    memory = STRENGTH_MEMORIES[name]()
    signals, values = random_program(memory, 2, 7, seed=4, size=2)
    # Away from 0 and 1, and in this program from the kinks of max and min.
    signals = 0.1 + 0.8 * signals
    assert torch.autograd.gradcheck(
        lambda s, v: reads_of(memory, s, v),
        (signals.requires_grad_(), values.requires_grad_()),
        eps=1e-7,
        atol=1e-5,
    )


def stack_jacobians(signals: Tensor) -> tuple[Tensor, Tensor]:
    """ds_t/dd and ds_t/du of the last step over all steps, by the paper's appendix A.

    Row i of each holds the derivatives of strength i after the last step by the
    push, and the pop, of every step: the appendix' one-step derivatives, chained.
    """
    steps = len(signals)
    by_push = torch.zeros(0, steps, dtype=torch.float64)
    by_pop = torch.zeros(0, steps, dtype=torch.float64)
    strengths: list[float] = []
    for t, (pop, push) in enumerate(signals.tolist()):
        n = len(strengths)
        one_step = torch.zeros(n, n, dtype=torch.float64)
        direct = torch.zeros(n, dtype=torch.float64)
        after = []
        for i in range(n):
            left = pop - sum(strengths[i + 1 :])
            remaining = max(0.0, strengths[i] - max(0.0, left))
            after.append(remaining)
            if remaining > 0 and left > 0:
                one_step[i, i:] = 1
                direct[i] = -1
            elif remaining > 0:
                one_step[i, i] = 1
        by_push = torch.cat([one_step @ by_push, torch.zeros(1, steps, dtype=torch.float64)])
        by_pop = torch.cat([one_step @ by_pop, torch.zeros(1, steps, dtype=torch.float64)])
        by_push[n, t] = 1
        by_pop[:n, t] += direct
        strengths = [*after, push]
    return by_push, by_pop


@pytest.mark.parametrize("seed", range(4))
def test_stack_strength_gradients_equal_the_appendix(seed: int) -> None:
    memory = STRENGTH_MEMORIES["stack"]()
    signals, values = random_program(memory, 1, 12, seed)

    def last_strengths(inner: Tensor) -> Tensor:
        state = memory.initial(1, 3, inner)
        for step in range(inner.shape[0]):
            state, _ = memory.step(state, inner[step : step + 1], values[:, step])
        return state.strengths[0]

    jacobian = torch.autograd.functional.jacobian(last_strengths, signals[0])
    by_push, by_pop = stack_jacobians(signals[0])
    torch.testing.assert_close(jacobian[:, :, 1], by_push, rtol=0, atol=1e-12)
    torch.testing.assert_close(jacobian[:, :, 0], by_pop, rtol=0, atol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_stack_read_gradients_equal_the_appendix(seed: int) -> None:
    memory = STRENGTH_MEMORIES["stack"]()
    generator = torch.Generator().manual_seed(seed)
    n = 7
    strengths = 0.6 * torch.rand(n, generator=generator, dtype=torch.float64)
    values = torch.randn(n, 1, generator=generator, dtype=torch.float64)

    def read(inner: Tensor) -> Tensor:
        state = memory.initial(1, 1, inner)
        for row in range(n):
            signals = torch.stack([torch.zeros((), dtype=torch.float64), inner[row]])
            state, result = memory.step(state, signals.unsqueeze(0), values[row].view(1, 1, 1))
        return result.squeeze()

    jacobian = torch.autograd.functional.jacobian(read, strengths)
    expected = torch.zeros(n, dtype=torch.float64)
    for changed in range(n):
        for i in range(n):
            above = float(strengths[i + 1 :].sum())
            if i == changed and strengths[i] <= max(0.0, 1 - above):
                expected[changed] += float(values[i])
            elif i < changed and strengths[i] > max(0.0, 1 - above) and above <= 1:
                expected[changed] -= float(values[i])
    torch.testing.assert_close(jacobian, expected, rtol=0, atol=1e-12)


PROGRAM = st.lists(
    st.tuples(st.booleans(), st.booleans(), st.booleans(), st.booleans()), min_size=1, max_size=40
)


@settings(max_examples=200)
@given(PROGRAM)
def test_a_discrete_stack_equals_a_list(program: list[tuple[bool, bool, bool, bool]]) -> None:
    held: list[float] = []
    expected = []
    for number, (pop, push, _, _) in enumerate(program, start=1):
        if pop and held:
            held.pop()
        if push:
            held.append(float(number))
        expected.append(held[-1] if held else 0.0)
    assert whole_run("stack", [step[:2] for step in program]) == [[read] for read in expected]


@settings(max_examples=200)
@given(PROGRAM)
def test_a_discrete_queue_equals_a_deque(program: list[tuple[bool, bool, bool, bool]]) -> None:
    held: deque[float] = deque()
    expected = []
    for number, (pop, push, _, _) in enumerate(program, start=1):
        if pop and held:
            held.popleft()
        if push:
            held.append(float(number))
        expected.append(held[0] if held else 0.0)
    assert whole_run("queue", [step[:2] for step in program]) == [[read] for read in expected]


@settings(max_examples=200)
@given(PROGRAM)
def test_a_discrete_deque_equals_pythons(program: list[tuple[bool, bool, bool, bool]]) -> None:
    held: deque[float] = deque()
    expected = []
    for number, (pop_top, push_top, pop_bottom, push_bottom) in enumerate(program, start=1):
        if pop_top and held:
            held.pop()
        if pop_bottom and held:
            held.popleft()
        if push_top:
            held.append(float(number))
        if push_bottom:
            held.appendleft(-float(number))
        expected.append([held[-1], held[0]] if held else [0.0, 0.0])
    assert whole_run("deque", program) == expected


def whole_run(name: str, program: Sequence[tuple[bool, ...]]) -> list[list[float]]:
    """Reads of a memory under signals of exactly 0 and 1; step n pushes n (and -n below)."""
    memory = STRENGTH_MEMORIES[name]()
    signals = torch.tensor([program], dtype=torch.float32)
    numbers = torch.arange(1.0, len(program) + 1)
    ends = [numbers, -numbers][: memory.reads]
    values = torch.stack(ends, dim=1).unsqueeze(-1).unsqueeze(0)
    reads: list[list[float]] = reads_of(memory, signals, values)[0, :, :, 0].tolist()
    return reads


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_equals_its_items(name: str) -> None:
    memory = STRENGTH_MEMORIES[name]()
    signals, values = random_program(memory, 5, 15, seed=2)
    together = reads_of(memory, signals, values)
    for item in range(5):
        alone = reads_of(memory, signals[item : item + 1], values[item : item + 1])
        torch.testing.assert_close(together[item : item + 1], alone, rtol=0, atol=1e-15)


@pytest.mark.parametrize("name", NAMES)
def test_without_gradients_the_reads_are_the_same(name: str) -> None:
    memory = STRENGTH_MEMORIES[name]()
    # Longer than the first room for rows, so that it has to grow.
    signals, values = random_program(memory, 3, 150, seed=7)
    with torch.no_grad():
        reads = reads_of(memory, signals, values)
    torch.testing.assert_close(reads, reads_of(memory, signals, values), rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", NAMES)
def test_a_state_can_be_stepped_from_twice(name: str) -> None:
    memory = STRENGTH_MEMORIES[name]()
    signals, values = random_program(memory, 2, 6, seed=3)
    with torch.no_grad():
        start = memory.initial(2, 3, signals)
        for step in range(4):
            start, _ = memory.step(start, signals[:, step], values[:, step])
        first, read = memory.step(start, signals[:, 4], values[:, 4])
        memory.step(start, signals[:, 5], values[:, 5])
        again, read_again = memory.step(start, signals[:, 4], values[:, 4])
    assert torch.equal(read, read_again)
    assert torch.equal(first.values, again.values)


@pytest.mark.parametrize("name", NAMES)
def test_reads_have_the_dtype_of_the_values(name: str) -> None:
    memory = STRENGTH_MEMORIES[name]()
    signals, values = random_program(memory, 1, 3, seed=0)
    assert reads_of(memory, signals.float(), values.float()).dtype == torch.float32


@pytest.mark.parametrize("name", NAMES)
def test_rows_know_the_step_that_pushed_them(name: str) -> None:
    memory = STRENGTH_MEMORIES[name]()
    steps = 5
    numbers = torch.arange(float(steps)).view(1, steps, 1, 1).expand(1, steps, memory.reads, 1)
    state = memory.initial(1, 1, numbers)
    for step in range(steps):
        signals = torch.full((1, len(memory.signal_names)), 0.5)
        state, _ = memory.step(state, signals, numbers[:, step])
    assert state.values.flatten().tolist() == memory.row_origins(steps)
