"""Cases for the compiled code, the torch definition of what it computes, and comparing the two."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import pytest
import torch
from alone import fused_memory
from torch import Tensor
from torch.nn import functional

from stacktrans.common.registry import CONTROLLERS, MEMORIES
from stacktrans.kernels import Array
from stacktrans.kernels.autograd import as_array, fused_sequence
from stacktrans.kernels.batches import Architecture, ModelWeights
from stacktrans.kernels.compiling import CompiledFunction
from stacktrans.kernels.units import UNITS
from stacktrans.memory import (
    ActionList,
    ActionStack,
    Deque,
    Memory,
    Queue,
    Stack,
    SuperposedStack,
    Tape,
)
from stacktrans.memory.actions.definition import ActionMemory
from stacktrans.memory.strengths.definition import StrengthMemory
from stacktrans.model.controllers import RecurrentLayer
from stacktrans.model.numpy_backend import NumpyState
from stacktrans.settings.model_config import RecurrentConfig
from stacktrans.settings.resolve import resolve

Named = dict[str, Tensor]

RECURRENT: dict[str, type[RecurrentLayer]] = {
    name: CONTROLLERS.load(name).torch_layer()
    for name in ("gru", "lstm", "rnn", "second-order", "sigmoid")
}
STRENGTH_MEMORIES: dict[str, type[StrengthMemory]] = {
    memory.name: memory for memory in (Deque, Queue, Stack)
}
KINDS = sorted(RECURRENT)
NAMES = sorted(STRENGTH_MEMORIES)
SEVERAL = ["queue+stack", "2*stack+deque"]
"""Memories side by side."""
ACTION_MEMORIES: dict[str, ActionMemory[Any]] = {
    "action stack": ActionStack(1, 2, no_op=False),
    "action stacks": ActionStack(3, 5, no_op=True),
    "short stacks": ActionStack(2, 1, no_op=True, capacity=1),
    "deep reads": ActionStack(1, 6, no_op=False, capacity=3),
    "superposed stacks": SuperposedStack(2, 1, no_op=True),
    "tape": Tape(1, 1, no_op=True),
    "short tapes": Tape(2, 4, no_op=False, capacity=3),
    "list": ActionList(1, 1, no_op=False),
    "lists": ActionList(3, 4, no_op=True),
    "short lists": ActionList(2, 5, no_op=True, capacity=2),
}
MEMORY_CASES = [*NAMES, *SEVERAL, *ACTION_MEMORIES]
PAIRS = [
    *(("gru", memory) for memory in [*MEMORY_CASES, "none"]),
    *((name, memory) for name in KINDS if name != "gru" for memory in ("deque", "lists")),
    ("lstm", "none"),
]
"""Every memory with a controller, and every controller with memories of both types."""
MODEL = resolve(task="copy", recipe="paper", settings={"model": {"memory": "none"}}).model
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-11}
"""The largest error of each dtype against the float64 definition, relative to the maximum."""


class Shape(NamedTuple):
    """B, T, H and m."""

    batch: int
    steps: int
    hidden: int
    size: int


@dataclass(frozen=True)
class Case:
    """A controller, a memory, and all tensors that are needed to run them, by name.

    Attributes:
        controller: its name.
        memory: its name, "none", or a memory object.
        layers: the number of layers of the controller.
        tensors: for each layer `projected0`, `below0`, `initial0_0`, ... and, unless it is in
            `projected0`, `hidden0`; and the weights and biases of signals and values.
    """

    controller: str
    memory: str | Memory[Any]
    layers: int
    tensors: Named

    @classmethod
    def drawn(
        cls,
        controller: str,
        memory: str | Memory[Any],
        shape: Shape,
        dtype: torch.dtype,
        layers: int = 1,
    ) -> Self:
        """A case with numbers that float32 holds exactly.

        Gradients are discontinuous where strengths add up to 1 or to a pop. With this seed, the
        sums stay far enough from these points that float32 and float64 are on the same side.
        """
        generator = torch.Generator().manual_seed(1)

        def normal(*size: int) -> Tensor:
            return torch.randn(*size, generator=generator).to(dtype)

        # As small as weights are at the start of training: with larger ones the recurrence is
        # chaotic, and two correct computations in float32 diverge completely.
        def weight(*size: int) -> Tensor:
            drawn = torch.rand(*size, generator=generator) * 2 - 1
            return drawn.mul(shape.hidden**-0.5).to(dtype)

        recurrent = RECURRENT[controller]
        store = memory_of(memory)
        pushes, reads, signals = store.pushes, store.reads, len(store.signal_names)
        rows = len(recurrent.gates) * shape.hidden
        tensors: Named = {}
        for layer in range(layers):
            projected = 0.5 * normal(shape.batch, shape.steps, rows)
            tensors[f"below{layer}"] = weight(rows, shape.hidden if layer else reads * shape.size)
            if controller == "second-order":
                hidden = weight(shape.batch, shape.steps, rows * shape.hidden)
                projected = torch.cat([projected, hidden], dim=2)
            else:
                tensors[f"hidden{layer}"] = weight(rows, shape.hidden)
            tensors[f"projected{layer}"] = projected
            for state in range(recurrent.states):
                tensors[f"initial{layer}_{state}"] = normal(shape.hidden)
        tensors["signal_weight"] = 4 * weight(signals, shape.hidden)
        tensors["signal_bias"] = normal(signals)
        tensors["value_weight"] = weight(pushes * shape.size, shape.hidden)
        tensors["value_bias"] = normal(pushes * shape.size)
        return cls(controller, memory, layers, tensors).changed()

    def changed(self, **tensors: Tensor) -> Self:
        """The case with these tensors replaced; all of its tensors are new leaves."""
        merged = {
            name: tensor.detach().requires_grad_()
            for name, tensor in (self.tensors | tensors).items()
        }
        return type(self)(self.controller, self.memory, self.layers, merged)

    def in_double(self) -> Self:
        """The same numbers in float64."""
        return self.changed(**{name: tensor.double() for name, tensor in self.tensors.items()})

    @property
    def projected(self) -> list[Tensor]:
        """The sums over the input, of each layer."""
        return [self.tensors[f"projected{layer}"] for layer in range(self.layers)]

    @property
    def weights(self) -> ModelWeights[Tensor]:
        """All that compiled code is given."""
        signal_weight, signal_bias, value_weight, value_bias = self.heads
        shape = (len(self.projected[0]), signal_weight.shape[1])
        states = [[part.expand(shape) for part in self._initial(n)] for n in range(self.layers)]
        sums, layers = list[Tensor](), list[Tensor]()
        for number, projected in enumerate(self.projected):
            own, hidden = self._layer(number).recurrence(projected.flatten(0, 1))
            sums.append(own)
            layers += self.tensors[f"below{number}"], hidden
        return ModelWeights(
            self.architecture(),
            torch.cat(sums, dim=1),
            torch.stack([torch.stack(parts) for parts in states]),
            torch.cat([signal_weight, value_weight]),
            torch.cat([signal_bias, value_bias]),
            layers,
        )

    @property
    def heads(self) -> list[Tensor]:
        """Weight and bias of the signals, weight and bias of the values."""
        names = ("signal_weight", "signal_bias", "value_weight", "value_bias")
        return [self.tensors[name] for name in names]

    def _initial(self, layer: int) -> tuple[Tensor, ...]:
        states = range(RECURRENT[self.controller].states)
        return tuple(self.tensors[f"initial{layer}_{state}"] for state in states)

    def architecture(self, hard: bool = False) -> Architecture:
        """What compiled code is to run."""
        return Architecture(UNITS[self.controller], memory_of(self.memory), hard=hard)

    def run_weights(self, hard: bool = False) -> ModelWeights[Array]:
        """The same as arrays, to be run without gradients."""
        given = self.weights
        tensors = given.projected, given.initial[:, :, :1], given.heads, given.bias, *given.layers
        sums, initial, heads, bias, *layers = map(as_array, tensors)
        return ModelWeights(self.architecture(hard), sums, initial, heads, bias, layers)

    def fused(self) -> Named:
        """The outputs of compiled code."""
        batch, steps, _ = self.projected[0].shape
        hidden, signals, _ = fused_sequence(
            self.weights, [steps] * batch, [steps] * batch, torch.arange(batch * steps)
        )
        outputs = {"hidden": hidden, "signals": signals}
        return {name: part.unflatten(0, (batch, steps)) for name, part in outputs.items()}

    def defined(self, hard: bool = False) -> Named:
        """The outputs of the definition in torch, computed step by step."""
        signal_weight, signal_bias, value_weight, value_bias = self.heads
        layers = [self._layer(layer) for layer in range(self.layers)]
        batch, steps, _ = self.projected[0].shape
        states = [
            tuple(state.expand(batch, -1) for state in self._initial(layer))
            for layer in range(self.layers)
        ]
        memory = memory_of(self.memory)
        size = len(value_bias) // max(memory.pushes, 1)
        held = memory.initial(batch, size, value_bias)
        read = memory.initial_reads(batch, size, value_bias).flatten(1)
        out: list[tuple[Tensor, ...]] = []
        for step in range(steps):
            below = read
            for index, layer in enumerate(layers):
                states[index] = layer.step(self.projected[index][:, step], below, states[index])
                below = states[index][0]
            signals = functional.linear(below, signal_weight, signal_bias)
            values = torch.tanh(functional.linear(below, value_weight, value_bias))
            signals = memory.signals(signals)
            signals = memory.discretize(signals) if hard else signals
            held, reads = memory.step(held, signals, values.view(batch, memory.pushes, size))
            read = reads.flatten(1)
            out.append((below, signals, read))
        names = ("hidden", "signals", "reads")
        return {
            name: torch.stack(parts, dim=1)
            for name, parts in zip(names, zip(*out, strict=True), strict=True)
        }

    def _layer(self, index: int) -> RecurrentLayer:
        """The definition of a layer, with the tensors themselves for weights."""
        size = self.tensors["signal_weight"].shape[1]
        units = RecurrentConfig(name=self.controller, hidden_size=size)
        config = MODEL.model_copy(update={"controller": units})
        layer = RECURRENT[self.controller](config, 1, 1)
        for name in ("below", "hidden"):
            if (tensor := self.tensors.get(f"{name}{index}")) is not None:
                delattr(layer, f"{name}_weight")
                setattr(layer, f"{name}_weight", tensor)
        return layer


def memory_of(memory: str | Memory[Any]) -> Memory[Any]:
    """The memory of a case."""
    if isinstance(memory, Memory):
        return memory
    made: Memory[Any] = ACTION_MEMORIES.get(memory) or MEMORIES.load(memory)()
    return made


def fused_alone(memory: str, signals: Tensor, values: Tensor) -> Tensor:
    """What compiled code reads from a memory alone, given its signals and what is pushed."""
    return fused_memory(memory_of(memory), signals, values)


def defined_alone(memory: str, signals: Tensor, values: Tensor) -> Tensor:
    """The definition of `fused_alone`."""
    own = memory_of(memory)
    return reads_of(own, signals, values.unflatten(2, (own.pushes, -1))).flatten(2)


def reads_of(memory: Memory[Any], signals: Tensor, values: Tensor) -> Tensor:
    """What a memory reads at each step by its definition, [B, T, reads, m].

    Args:
        memory: the memory.
        signals: [B, T, signals].
        values: [B, T, pushes, m].
    """
    state, reads = memory.initial(len(signals), values.shape[3], values), []
    for step in range(signals.shape[1]):
        state, read = memory.step(state, signals[:, step], values[:, step])
        reads.append(read)
    return torch.stack(reads, dim=1)


def signatures(entry: Any, memory: type) -> list[Any]:
    """The types for which an entry of compiled code was compiled with a kind of memory."""
    return [
        types
        for code in entry.code.values()
        for types in code.signatures
        if memory in [getattr(each, "instance_class", None) for each in types]
    ]


def run_in_pieces(case: Case, pieces: list[int], hard: bool = False) -> tuple[Named, NumpyState]:
    """The outputs of a run in several calls of these numbers of steps, and its last state.

    Signals and reads are only those at the end of each piece; see `after_pieces`.
    """
    batch, steps, _ = case.projected[0].shape
    CompiledFunction.always_compile()
    weights = case.run_weights(hard)
    state = NumpyState.initial(weights, batch, 0)
    inputs = np.arange(batch * steps).reshape(batch, steps)
    hidden, signals, reads = [], [], []
    for part in np.split(inputs, np.cumsum(pieces)[:-1], axis=1):
        hidden.append(np.array(state.advance(part)))
        signals.append(np.array(state.signals))
        reads.append(np.array(state.read))
    found = {
        "hidden": torch.from_numpy(np.concatenate(hidden, axis=1)),
        "signals": torch.from_numpy(np.stack(signals, axis=1)),
        "reads": torch.from_numpy(np.stack(reads, axis=1)),
    }
    return found, state


def after_pieces(whole: Named, pieces: list[int]) -> Named:
    """The part of the outputs of a run in one call that `run_in_pieces` returns."""
    ends = np.cumsum(pieces) - 1
    return {name: part if name == "hidden" else part[:, ends] for name, part in whole.items()}


def gradients(outputs: Named, inputs: Named) -> Named:
    """The gradients of a randomly weighted sum of all outputs, by input."""
    generator = torch.Generator().manual_seed(1)
    total = sum(
        (part * torch.randn(part.shape, generator=generator).to(part.dtype)).sum()
        for part in outputs.values()
    )
    assert isinstance(total, Tensor)
    found = torch.autograd.grad(total, list(inputs.values()), materialize_grads=True)
    return dict(zip(inputs, found, strict=True))


@torch.no_grad()
def compare(actual: Named, expected: Named, tolerance: float) -> None:
    """Fail with the name of what differs by more than `tolerance` of its largest number."""
    assert actual.keys() == expected.keys()
    for name, right in expected.items():
        assert actual[name].shape == right.shape, name
        if right.numel():
            largest = right.abs().max().clamp(min=1e-12)
            error = ((actual[name].to(right.dtype) - right).abs().max() / largest).item()
            assert error <= tolerance, (name, error)


def check(case: Case) -> None:
    """Compare outputs and gradients of compiled code with those of the definition in float64."""
    exact = case.in_double()
    compare_with_gradients(case.fused(), case.tensors, exact.defined(), exact.tensors)


def compare_with_gradients(
    actual: Named, inputs: Named, expected: Named, expected_inputs: Named
) -> None:
    """Compare outputs by name, and then their gradients by the name of the input.

    Outputs that only the definition has are ignored.
    """
    expected = {name: expected[name] for name in actual}
    tolerance = TOLERANCE[next(iter(actual.values())).dtype]
    compare(actual, expected, tolerance)
    compare(gradients(actual, inputs), gradients(expected, expected_inputs), tolerance)


def poison_fresh_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fill newly allocated arrays with NaN, or with an invalid index if they hold integers."""

    def poisoned_array(make: Callable[..., Array]) -> Callable[..., Array]:
        def poisoned(*args: Any, **options: Any) -> Array:
            array = make(*args, **options)
            array[...] = np.nan if array.dtype.kind == "f" else -(2**30)
            return array

        return poisoned

    def poisoned_tensor(make: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def poisoned(*args: Any, **options: Any) -> Tensor:
            return make(*args, **options).fill_(torch.nan)

        return poisoned

    for name in ("empty", "empty_like"):
        monkeypatch.setattr(np, name, poisoned_array(getattr(np, name)))
        monkeypatch.setattr(torch, name, poisoned_tensor(getattr(torch, name)))
    monkeypatch.setattr(Tensor, "new_empty", poisoned_tensor(Tensor.new_empty))
