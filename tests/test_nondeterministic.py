"""The nondeterministic stack: against its runs one by one, on long strings, and in commands."""

import json
from pathlib import Path

import pytest
import torch
from command_line import SMALL, TRAIN, run
from literal import Run, literal_read, literal_runs
from torch import Tensor

from stacktrans.memory import NondeterministicStack
from stacktrans.memory.nondeterministic import Spans

SIZE = 3
CASES = [(2, 2, 5, None), (1, 3, 5, None), (3, 1, 4, None), (2, 2, 5, 1), (1, 3, 5, 3)]


def program(memory: NondeterministicStack, batch: int, steps: int) -> tuple[Tensor, Tensor]:
    """Sums [B, T, signals] and values [B, T, 1, m]."""
    generator = torch.Generator().manual_seed(1)
    sums, values = (
        torch.randn(batch, steps, *size, generator=generator, dtype=torch.float64)
        for size in ((len(memory.signal_names),), (1, SIZE))
    )
    return 2 * sums, values


def run_memory(
    memory: NondeterministicStack, sums: Tensor, values: Tensor, hard: bool = False
) -> tuple[Spans, Tensor]:
    """The state after all steps, and the reads of each, [B, T, Q * S, m]."""
    state, reads = memory.initial(len(sums), values.shape[-1], values), []
    for step in range(sums.shape[1]):
        signals = memory.signals(sums[:, step])
        signals = memory.discretize(signals) if hard else signals
        state, read = memory.step(state, signals, values[:, step])
        reads.append(read)
    return state, torch.stack(reads, dim=1)


def literal_reads(memory: NondeterministicStack, sums: Tensor, values: Tensor) -> Tensor:
    """The reads of a string, [T, Q * S, m], from all of its runs and their unnormalized weights."""
    states, symbols = memory.states, memory.symbols
    both = [states, symbols, states, symbols]
    vectors = torch.cat([torch.zeros_like(values[:1, 0]), values[:, 0]])
    vectors = torch.cat([torch.ones_like(vectors[:, :1]), vectors[:, 1:]], dim=1)
    runs, reads = [Run(torch.ones((), dtype=torch.float64), 0, ((0, 0),))], []
    for step, of_step in enumerate(torch.exp(sums), start=1):
        names = [name.split()[0] for name in memory.signal_names]
        transitions = [
            torch.stack([of_step[at] for at, own in enumerate(names) if own == name]).view(shape)
            for name, shape in (("push", both), ("replace", both), ("pop", both[:3]))
        ]
        runs = [after for before in runs for after in literal_runs(before, step, transitions)]
        oldest = step - memory.window + 1 if memory.window else 0
        runs = [each for each in runs if each.stack[-1][1] >= oldest]
        reads.append(literal_read(runs, states, symbols, vectors))
    return torch.stack(reads)


@pytest.mark.parametrize(("states", "symbols", "steps", "window"), CASES)
def test_reads_are_those_of_all_runs(
    states: int, symbols: int, steps: int, window: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = NondeterministicStack(states, symbols, window)
    sums, values = program(memory, 2, steps)
    expected = torch.stack([*map(literal_reads, [memory] * 2, sums, values)])
    for block in (1, 2, 16):
        monkeypatch.setattr("stacktrans.memory.nondeterministic.BLOCK", block)
        _, reads = run_memory(memory, sums, values)
        torch.testing.assert_close(reads, expected, rtol=0, atol=1e-12)
        torch.testing.assert_close(reads[..., 0].sum(dim=2), torch.ones(2, steps).double())


def test_gradients_are_those_of_all_runs() -> None:
    memory = NondeterministicStack(2, 2)
    sums, values = (part.requires_grad_() for part in program(memory, 1, 3))
    weights = torch.randn(1, 3, 4, SIZE, dtype=torch.float64)
    found, expected = (
        torch.autograd.grad((weights * reads).sum(), (sums, values))
        for reads in (
            run_memory(memory, sums, values)[1],
            literal_reads(memory, sums[0], values[0]).unsqueeze(0),
        )
    )
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("window", [None, 2])
def test_gradients_are_those_of_finite_differences(window: int | None) -> None:
    memory = NondeterministicStack(2, 2, window)
    sums, values = (part.requires_grad_() for part in program(memory, 2, 4))
    assert torch.autograd.gradcheck(lambda *parts: run_memory(memory, *parts)[1], (sums, values))


def test_a_batch_is_its_strings() -> None:
    memory = NondeterministicStack()
    sums, values = program(memory, 3, 12)
    _, together = run_memory(memory, sums, values)
    for item in range(3):
        _, alone = run_memory(memory, sums[item : item + 1], values[item : item + 1])
        torch.testing.assert_close(together[item : item + 1], alone, rtol=0, atol=1e-12)


def test_a_window_of_all_steps_changes_nothing() -> None:
    sums, values = program(NondeterministicStack(), 1, 12)
    _, expected = run_memory(NondeterministicStack(), sums, values)
    _, reads = run_memory(NondeterministicStack(window=13), sums, values)
    assert torch.equal(reads, expected)


@pytest.mark.parametrize("scale", [1, 5, 30, 60])
def test_nothing_overflows_on_long_strings(scale: float) -> None:
    memory = NondeterministicStack(window=20)
    sums, values = (part.float() for part in program(memory, 1, 300))
    sums.requires_grad_()
    _, reads = run_memory(memory, scale * sums, values)
    reads.sum().backward()
    assert reads.isfinite().all()
    assert sums.grad is not None
    assert sums.grad.isfinite().all()
    _, precise = run_memory(memory, scale * sums.detach().double(), values.double())
    torch.testing.assert_close(reads.double(), precise, rtol=0, atol=1e-3)


def certain(memory: NondeterministicStack, *transitions: str) -> Tensor:
    """Sums [1, T, signals] by which the most probable transitions are the given ones."""
    names = memory.signal_names
    return torch.stack([torch.eye(len(names))[names.index(name)] for name in transitions])[None]


def test_hard_signals_are_one_run() -> None:
    memory = NondeterministicStack(2, 3)
    sums = certain(
        memory, *("push 1a 1b", "push 1b 2c", "replace 2c 2b", "pop 2b 1", "pop 1b 2", "push 1a 1a")
    )
    values = torch.arange(6.0).view(1, 6, 1, 1) + torch.tensor([0.0, 1.0])
    state, reads = run_memory(memory, sums, values, hard=True)
    expected = torch.zeros(6, 6, 2)  # 1a, 1b, 1c, 2a, 2b, 2c
    for step, (at, number) in enumerate([(1, 1), (5, 2), (4, 2), (1, 1), (3, 0)]):
        expected[step, at] = torch.tensor([1.0, number])
    assert torch.equal(reads[0], expected)  # there is no run left, since none is in state 1
    assert not state.spans.any()


def test_snapshots_are_the_shares_of_each_step() -> None:
    for window in (None, 4):
        memory = NondeterministicStack(2, 2, window)
        sums, values = program(memory, 1, 6)
        state, reads = run_memory(memory, sums, values)
        shares = memory.snapshot(state).read_weights
        assert [*shares] == ["1a", "1b", "2a", "2b"]
        by_step = torch.stack([torch.as_tensor(share) for share in shares.values()])
        expected = reads[0, -1, :, 1:]  # the bottom has zeros there
        torch.testing.assert_close(by_step @ values[0, :, 0, 1:], expected, rtol=0, atol=1e-12)


SHORT = (*SMALL, "--max-steps", "4", "--set", "memory.states=1")


def test_every_command_knows_nondeterministic_stacks(tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = run(*TRAIN, "--task", "reverse", "--memory", "nondeterministic", *SHORT, "--out", out)
    assert done.returncode == 0, done.stderr.decode()
    measured = run("eval", out, "--count", "5", "--without", "memory", "--hard", "--json")
    names = [each["checkpoint"] for each in json.loads(measured.stdout)]
    assert names == [str(out), f"{out} without memory"]
    transduce = ("transduce", out, "--max-length", "5")
    answer = run(*transduce, stdin=b'!"\n').stdout
    assert answer == run(*transduce, "--beam", "1", stdin=b'!"\n').stdout
    assert "read 1c" in run("inspect", out, '!"#').stdout.decode()
    for step in json.loads(run("inspect", out, '!"#', "--json").stdout)["steps"]:
        assert sum(step["signals"].values()) == pytest.approx(1)
        assert 0 < sum(each["weight"] for part in step["reads"].values() for each in part) < 1
    refused = run("extract", out, "--out", tmp_path / "machine")
    assert refused.returncode == 1
    assert b"no machine can be extracted from this model" in refused.stderr


def test_streams_need_a_window(tmp_path: Path) -> None:
    stream = ("train", "--task", "anbn", "--memory", "nondeterministic", "--recipe", "paper")
    small = ("--max-steps", "2", "--set", "hidden_size=5", "--set", "measure.strings=5")
    refused = run(*stream, *small, "--out", tmp_path / "run")
    assert refused.returncode == 2
    assert b"one segment of a stream to the next; expected memory.window" in refused.stderr
    done = run(*stream, *small, "--set", "memory.window=6", "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr.decode()
