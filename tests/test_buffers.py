"""Buffers against the literal equations, and buffered models against each of their items."""

from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from command_line import invoke
from kernel_cases import compare
from literal import LiteralBuffers
from shapes import shaped
from torch import Tensor

from stacktrans.common.errors import UsageError
from stacktrans.common.files import CONFIG
from stacktrans.memory.buffers import (
    buffer_penalty,
    filled,
    popped,
    read_weights,
    writing_steps,
    written_weights,
)
from stacktrans.model import checkpoint_files
from stacktrans.model.definition import Unrolled
from stacktrans.model.transducer import Transducer
from stacktrans.settings.model_config import ModelConfig
from stacktrans.settings.resolve import resolve

SYMBOLS = 3


def small(**settings: Any) -> ModelConfig:
    usual = {
        "memory": "stack",
        "controller": "linear",
        "buffered": True,
        "extra_steps": 1,
        "output_skip": 0,
    }
    model = shaped(**{**usual, "hidden_size": 4, **settings})
    return resolve(task="xor", recipe="paper", settings={"model": model}).model


def model_of(**settings: Any) -> Transducer:
    torch.manual_seed(1)
    return Transducer(small(**settings), SYMBOLS, SYMBOLS).double()


@pytest.mark.parametrize("kind", ["any", "zeros", "ones"])
def test_buffers_equal_the_equations(kind: str) -> None:
    torch.manual_seed(2)
    steps, count = 9, 5
    strengths = {
        "any": torch.rand(2, steps),
        "zeros": torch.zeros(2, steps),
        "ones": torch.ones(2, steps),
    }
    reads, writes = strengths[kind].double()
    vectors, outputs = torch.randn(count, 2).double(), torch.randn(steps, 2).double()
    literal = LiteralBuffers(list(vectors))
    buffer = filled(torch.tensor([count]), count).double()
    amount = torch.zeros((), dtype=torch.float64)
    for step in range(steps):
        buffer = popped(buffer, amount.unsqueeze(0))
        torch.testing.assert_close(
            (read_weights(buffer) @ vectors)[0], literal.read(amount), rtol=0, atol=1e-12
        )
        literal.write(outputs[step], writes[step])
        amount = reads[step]
    weights = written_weights(writes.cumsum(0).unsqueeze(0), 0, count)
    expected = torch.stack(literal.answer(count))
    torch.testing.assert_close((weights @ outputs)[0], expected, rtol=0, atol=1e-12)


def test_a_model_reads_and_writes_as_the_equations_say() -> None:
    model = model_of(controller="linear", memory="none", size=2)
    ids = torch.tensor([[2, 0, 1, 1, 2]])
    assert model.operation is not None
    literal = LiteralBuffers(list(torch.eye(SYMBOLS).double()[ids[0]]))
    amount = torch.zeros((), dtype=torch.float64)
    for _ in range(2 * 5 + 1):
        seen = literal.read(amount)
        amount, write = torch.sigmoid(model.operation.signals(seen))
        literal.write(model.classifier(seen), write)
    torch.testing.assert_close(model(ids)[0], torch.stack(literal.answer(5)), rtol=0, atol=1e-12)


COMBINATIONS = [
    (controller, memory, nonlinearity, embedding, buffered)
    for controller, memory in (
        *(("linear", name) for name in ("none", "stack", "queue", "deque", "queue+stack")),
        *((name, "deque") for name in ("lstm", "gru", "rnn")),
        ("lstm", "none"),
    )
    for nonlinearity, embedding, buffered in (
        ("tanh", "one-hot", True),
        ("sigmoid", 5, True),
        ("sigmoid", "one-hot", False),
    )
]


@pytest.mark.parametrize(
    ("controller", "memory", "nonlinearity", "embedding", "buffered"), COMBINATIONS
)
def test_compiled_code_agrees_on_every_output_and_gradient(
    controller: str, memory: str, nonlinearity: str, embedding: str | int, buffered: bool
) -> None:
    model = model_of(
        controller=controller,
        memory=memory,
        values=nonlinearity,
        embedding_size=embedding,
        buffered=buffered,
        layers=1 if controller == "linear" else 2,
    )
    ids, lengths = torch.randint(SYMBOLS, (4, 9)), [9, 4, 7, 1]
    kernels: tuple[Literal["fused", "torch"], ...] = ("fused", "torch")
    fused, defined = (outputs_and_gradients(model, kernel, ids, lengths) for kernel in kernels)
    compare(fused, defined, 1e-10)


@pytest.mark.parametrize("share", [0.0, 0.3])
@pytest.mark.parametrize("controller", ["linear", "lstm", "gru", "rnn"])
def test_compiled_code_agrees_with_less_gradient_through_the_state(
    controller: str, share: float
) -> None:
    model = model_of(
        controller=controller, state_gradient=share, layers=1 if controller == "linear" else 2
    )
    ids, lengths = torch.randint(SYMBOLS, (3, 9)), [9, 4, 7]
    compare(
        outputs_and_gradients(model, "fused", ids, lengths),
        outputs_and_gradients(model, "torch", ids, lengths),
        1e-10,
    )


def outputs_and_gradients(
    model: Transducer, kernel: Literal["fused", "torch"], ids: Tensor, lengths: list[int]
) -> dict[str, Tensor]:
    model.config = model.config.model_copy(update={"kernel": kernel})
    model.zero_grad()
    unrolled = model.unroll(ids, lengths)
    logits = model.logits(unrolled, torch.arange(ids.shape[1]) < torch.tensor(lengths).unsqueeze(1))
    taken = torch.tensor([model.config.steps_over(length) for length in lengths]).unsqueeze(1)
    signals = unrolled.signals[torch.arange(unrolled.signals.shape[1]) < taken]
    total = sum(
        (part * torch.arange(part.numel()).view(part.shape).sin()).sum()
        for part in (logits, signals)
    )
    assert isinstance(total, Tensor)
    total.backward()
    gradients = {
        name: torch.zeros_like(weight) if weight.grad is None else weight.grad.clone()
        for name, weight in model.named_parameters()
    }
    return {"logits": logits.detach(), "signals": signals.detach(), **gradients}


@pytest.mark.parametrize("kernel", ["fused", "torch"])
def test_a_batch_equals_its_items(kernel: Literal["fused", "torch"]) -> None:
    model = model_of(controller="lstm")
    model.config = model.config.model_copy(update={"kernel": kernel})
    ids, lengths = torch.randint(SYMBOLS, (3, 8)), [3, 8, 5]
    everything = torch.ones_like(ids, dtype=torch.bool)
    together = model.logits(model.unroll(ids, lengths), everything).view(3, 8, SYMBOLS)
    for row, length in enumerate(lengths):
        alone = model(ids[row : row + 1, :length])[0]
        torch.testing.assert_close(together[row, :length], alone, rtol=0, atol=1e-12)


def test_a_model_that_reads_and_writes_with_strength_one_is_synchronous() -> None:
    model = model_of(controller="lstm", steps_per_symbol=1, extra_steps=0)
    same = Transducer(small(controller="lstm", buffered=False), SYMBOLS, SYMBOLS).double()
    assert model.operation is not None
    with torch.no_grad():
        weights = model.state_dict()
        model.operation.signals.weight[-2:] = 0
        model.operation.signals.bias[-2:] = 1000
    shared = {name: weights[name][: len(mine)] for name, mine in same.state_dict().items()}
    same.load_state_dict(shared)
    ids = torch.randint(SYMBOLS, (2, 12))
    torch.testing.assert_close(model(ids), same(ids), rtol=0, atol=1e-12)


def test_long_answers_are_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(3)
    model = model_of(controller="linear")
    ids = torch.randint(SYMBOLS, (2, 30))
    whole = model(ids)
    monkeypatch.setattr("stacktrans.model.transducer.SYMBOLS_AT_ONCE", 4)
    torch.testing.assert_close(model(ids), whole, rtol=0, atol=1e-12)
    cumulative = torch.tensor([[0.5, 1.0, 1.5, 2.5, 4.0], [0.1, 0.2, 0.3, 2.2, 3.0]])
    assert writing_steps(cumulative, 1, 1) == slice(1, 4)


def test_the_penalty_is_least_at_zero_and_one() -> None:
    assert buffer_penalty(torch.tensor([0.0, 1.0])).item() == pytest.approx(1 / (1 + 1.625**12))
    assert buffer_penalty(torch.tensor([0.5])).item() == 1
    assert buffer_penalty(torch.zeros(0)).item() == 0


def test_strengths_after_an_item_s_last_step_do_not_count() -> None:
    model = model_of()
    unrolled = Unrolled(torch.zeros(2, 3, 1), torch.ones(2, 3, 4), [3, 1])
    assert model.written(unrolled).tolist() == [[1, 2, 3], [1, 1, 1]]


def test_first_outputs_can_be_skipped() -> None:
    model = model_of(output_skip=1)
    unrolled = Unrolled(torch.zeros(1, 4, 1), torch.tensor([[0.5, 1.0, 1.0, 0.5]]).unsqueeze(2))
    weights = written_weights(model.written(unrolled), 0, 2)
    assert weights.tolist() == [[[0, 0.5, 0.5, 0], [0, 0, 0.5, 0.5]]]


def test_noise_on_gates_and_buffers_do_not_go_together() -> None:
    with pytest.raises(UsageError, match=r"noise\.gates: not for a buffered model"):
        resolve(
            task="xor",
            settings={"model": {"memory": "stack", "buffers": {}}},
            assignments=["noise.gates=0.1"],
        )


@pytest.mark.parametrize("command", ["transduce", "eval", "inspect"])
def test_a_buffered_model_for_anbncn_is_refused(command: str, tmp_path: Path) -> None:
    given = {"model": {"memory": "stack-rnn"}}
    usual = resolve(task="anbncn", settings=given, assignments=["noise.gates=0"])
    config = usual.model_copy(update={"model": small()})
    layout = usual.make_task().layout
    model = Transducer(config.model, layout.inputs, layout.outputs)
    checkpoint_files.save(tmp_path, config, model.state_dict())
    more = ["ab"] if command == "inspect" else []
    done = invoke(command, str(tmp_path), *more, stdin=b"ab\n")
    assert done.returncode == 2
    lines = (tmp_path / CONFIG).read_text().splitlines()
    line = 2 + lines.index("  buffers:")
    assert f"config.yaml:{line}: task anbncn is not for a buffered model" in done.err
