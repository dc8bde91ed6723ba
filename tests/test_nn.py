"""Torch modules with a memory, for use in other models."""

from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from torch import Tensor

import stacktrans
from stacktrans.common.errors import UsageError
from stacktrans.memory import Deque, Memory, MemoryState, NoMemory, Stack
from stacktrans.model import definition
from stacktrans.model.transducer import Transducer
from stacktrans.nn import StackLSTM
from stacktrans.settings.resolve import resolve

MEMORIES = [
    "stack",
    "queue",
    "deque",
    "queue+stack",
    "stack-rnn",
    "list-rnn",
    "superposed",
    "tape",
    "nondeterministic",
]


def inputs_of(*sizes: int, seed: int = 1) -> Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("memory", MEMORIES)
def test_stack_lstm_equals_the_controller_and_memory_of_a_transducer(
    memory: str, layers: int
) -> None:
    config = resolve(
        task="copy",
        recipe="paper",
        settings={"model": {"memory": memory}},
        assignments=[
            *("hidden_size=6", "memory.size=3", "embedding_size=5", f"layers={layers}"),
            *(("memory.depth=1", "no_op=false") if memory.endswith("rnn") else ()),
        ],
    ).model
    torch.manual_seed(1)
    whole = Transducer(config, 9, 9).double()
    assert whole.operation is not None
    assert whole.operation.memory is not None
    module = StackLSTM(5, 6, layers, memory=whole.operation.memory, memory_size=3).double()
    own = {
        name: weight for name, weight in whole.state_dict().items() if name in module.state_dict()
    }
    module.load_state_dict(own)
    ids = torch.tensor([[1, 4, 2, 8, 0, 3], [5, 5, 1, 0, 2, 7]])
    unrolled, state = definition.unroll(whole, ids)
    hidden, own_state = module(whole.embed(ids).transpose(0, 1))
    assert torch.equal(hidden.transpose(0, 1), unrolled.hidden)
    assert torch.equal(own_state.reads, state.reads)


def test_stack_lstm_has_the_interface_of_torch_lstm() -> None:
    layer = stacktrans.nn.StackLSTM(32, 64, memory="stack", memory_size=32).double()
    steps = inputs_of(7, 3, 32)
    output, state = layer(steps)
    assert output.shape == (7, 3, 64)
    first, between = layer(steps[:4])
    second, after = layer(steps[4:], between)
    assert torch.allclose(torch.cat([first, second]), output)
    assert torch.allclose(after.reads, state.reads)
    alone, _ = layer(steps[:, 1])
    assert torch.allclose(alone, output[:, 1])
    turned = StackLSTM(32, 64, memory_size=32, batch_first=True).double()
    turned.load_state_dict(layer.state_dict())
    assert torch.equal(turned(steps.transpose(0, 1))[0], output.transpose(0, 1))


@pytest.mark.parametrize("memory", MEMORIES)
def test_stack_lstm_runs_in_half_precision(memory: str) -> None:
    layer, steps = StackLSTM(3, 4, memory=memory, memory_size=2), inputs_of(5, 2, 3).float()
    expected, _ = layer(steps)
    output, _ = layer.bfloat16()(steps.bfloat16())
    output.sum().backward()
    assert output.dtype == torch.bfloat16
    torch.testing.assert_close(output.float(), expected, rtol=0, atol=0.1)


def test_stack_lstm_gradients_equal_finite_differences() -> None:
    layer = StackLSTM(2, 3, memory=Deque(), memory_size=2).double()
    steps = inputs_of(4, 2, 2).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: layer(x)[0], (steps,))


def test_stack_lstm_learns_to_copy() -> None:
    torch.manual_seed(1)
    layer = StackLSTM(4, 16, memory=Stack(), memory_size=8)
    head = torch.nn.Linear(16, 4)
    optimizer = torch.optim.Adam([*layer.parameters(), *head.parameters()], 0.01)
    symbols = torch.randint(4, (6, 32))
    steps = torch.nn.functional.one_hot(torch.cat([symbols, symbols]), 4).float()
    losses = []
    for _ in range(60):
        logits = head(layer(steps)[0][6:])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), symbols.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.5 * losses[0]


@dataclass
class Delay(Memory[MemoryState]):
    """A user-defined, unhashable memory from which the vector just pushed is read."""

    name: ClassVar[str] = "delay"
    push_names: ClassVar[tuple[str, ...]] = ("delay",)
    reads: ClassVar[int] = 1
    signal_names: tuple[str, ...] = ("keep",)

    def initial(self, batch_size: int, value_size: int, like: Tensor) -> MemoryState:
        return MemoryState()

    def step(
        self, state: MemoryState, signals: Tensor, values: Tensor
    ) -> tuple[MemoryState, Tensor]:
        return state, signals.unsqueeze(2) * values


def test_a_memory_may_be_of_any_class_but_needs_signals() -> None:
    config = resolve(task="copy", settings={"model": {"memory": "stack"}}).model
    model = Transducer(config, 9, 9)
    model.memory = Delay()
    assert model.architecture() is None
    outputs, _ = StackLSTM(3, 4, memory=Delay(), memory_size=2)(torch.randn(5, 2, 3))
    assert outputs.shape == (5, 2, 4)
    with pytest.raises(UsageError, match="memory delay: pushes vectors; expected signal_names"):
        StackLSTM(3, 4, memory=Delay(signal_names=()), memory_size=2)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(UsageError, match="did you mean 'stack'"):
        StackLSTM(2, 3, memory="stak")
    for nothing in ("none", NoMemory()):
        with pytest.raises(UsageError, match="memory none: nothing is pushed to it"):
            StackLSTM(2, 3, memory=nothing)
    with pytest.raises(UsageError, match="memory_size 0"):
        StackLSTM(2, 3, memory_size=0)
    with pytest.raises(UsageError, match=r"controller.layers: expected .* to 64 \(given: 65\)"):
        StackLSTM(2, 3, num_layers=65)


@pytest.mark.parametrize("shape", [(2, 3, 5), (3,), (1, 2, 3, 4)])
def test_inputs_of_other_shapes_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(UsageError, match=r"expected \[T, B, E\] or \[T, E\] with E = 4"):
        StackLSTM(4, 6)(torch.zeros(shape))


@pytest.mark.parametrize("memory", MEMORIES)
def test_a_detached_state_stops_gradients(memory: str) -> None:
    """As for truncated backpropagation through time."""
    layer, state = StackLSTM(3, 4, memory=memory, memory_size=2), None
    for steps in torch.randn(3, 5, 2, 3).unbind(0):
        outputs, after = layer(steps, state)
        outputs.sum().backward()
        state = after.detach()
        assert torch.equal(state.reads, after.reads)
        assert torch.equal(layer(steps, state)[0], layer(steps, after)[0])
