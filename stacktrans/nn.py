"""Torch modules with a memory, for anyone's model."""

import copy
import dataclasses
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from stacktrans.common.errors import UsageError, check_positive
from stacktrans.common.registry import MEMORIES
from stacktrans.memory import Memory
from stacktrans.model.controllers import ControllerState, LSTMLayer
from stacktrans.settings.config import StartConfig

__all__ = ["StackLSTM", "StackState"]

_USUAL = StartConfig()
_POP_BIAS = -1.0
"""Where the bias of every pop starts: a memory that keeps what is pushed is learned to be used
(grefenstette2015, section 4)."""


class StackState(NamedTuple):
    """The state carried from one call to the next.

    Attributes:
        layers: of each layer the output and the cells, each [B, H].
        memory: the state of the memory.
        reads: [B, reads * m] the vectors read last.
    """

    layers: tuple[ControllerState, ...]
    memory: Any
    reads: Tensor

    def detach(self) -> "StackState":
        """The same without its past, through which no gradient goes back."""
        alike: StackState = _detached(self)
        return alike


class StackLSTM(nn.Module):
    """An LSTM that operates a memory (grefenstette2015, section 3.3), called as nn.LSTM is.

    The lowest layer sees the input and what was read at the step before; every other one sees the
    input and the output of the layer under it. The output of the highest decides what is pushed
    and popped.

    Args:
        input_size: size E of the inputs.
        hidden_size: number of units H of each layer.
        num_layers: number of layers.
        memory: "stack", "queue", "deque", or a memory itself, such as `stacktrans.memory.Stack()`.
        memory_size: size m of a pushed vector.
        batch_first: whether inputs are [B, T, E] and outputs [B, T, H]; [T, B, ...] otherwise.

    Attributes:
        memory: the memory.
        signal_names: of its signals, in their order.

    Raises:
        UsageError: the memory is unknown, or a size is under 1.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        memory: str | Memory[Any] = "stack",
        memory_size: int = 32,
        batch_first: bool = False,
    ) -> None:
        super().__init__()
        sizes = {
            "input_size": input_size,
            "hidden_size": hidden_size,
            "num_layers": num_layers,
            "memory_size": memory_size,
        }
        for name, size in sizes.items():
            check_positive(name, size)
        self.memory = _memory_of(memory)
        self.signal_names = tuple(self.memory.signal_names)
        self.memory_size, self.batch_first = memory_size, batch_first
        read = self.memory.reads * memory_size
        self.layers = nn.ModuleList(
            LSTMLayer(input_size, hidden_size if depth else read, hidden_size, _USUAL)
            for depth in range(num_layers)
        )
        self.signals = nn.Linear(hidden_size, len(self.signal_names))
        self.values = nn.Linear(hidden_size, self.memory.pushes * memory_size)
        with torch.no_grad():
            pops = [name.startswith("pop") for name in self.signal_names]
            self.signals.bias.copy_(_POP_BIAS * torch.tensor(pops))

    def initial(self, batch_size: int) -> StackState:
        """The state before the first step: the learned one of each layer, and an empty memory."""
        like, size = self.signals.weight, self.memory_size
        return StackState(
            tuple(layer.initial(batch_size) for layer in self._layers()),
            self.memory.initial(batch_size, size, like),
            self.memory.initial_reads(batch_size, size, like).flatten(1),
        )

    def forward(self, inputs: Tensor, state: StackState | None = None) -> tuple[Tensor, StackState]:
        """Outputs of the highest layer at every step, and the state after the last.

        Args:
            inputs: [T, B, E], [B, T, E] with `batch_first`, or [T, E] for a single sequence.
            state: returned by an earlier call; None begins a new sequence.

        Outputs have H in the place of E.
        """
        single = inputs.dim() == 2
        steps = inputs.unsqueeze(1) if single else inputs
        if self.batch_first and not single:
            steps = steps.transpose(0, 1)
        state = self.initial(steps.shape[1]) if state is None else state
        projected = [layer.project(steps).unbind(0) for layer in self._layers()]
        outputs = []
        for sums in zip(*projected, strict=True):
            output, state = self._step(sums, state)
            outputs.append(output)
        said = torch.stack(outputs)
        if single:
            return said.squeeze(1), state
        return said.transpose(0, 1) if self.batch_first else said, state

    def _step(self, sums: tuple[Tensor, ...], state: StackState) -> tuple[Tensor, StackState]:
        below, following = state.reads, []
        for layer, own, before in zip(self._layers(), sums, state.layers, strict=True):
            following.append(layer.step(own, below, before))
            below = following[-1][0]
        signals = self.memory.signals(self.signals(below))
        values = torch.tanh(self.values(below)).unflatten(1, (self.memory.pushes, -1))
        memory, reads = self.memory.step(state.memory, signals, values)
        return below, StackState(tuple(following), memory, reads.flatten(1))

    def _layers(self) -> list[LSTMLayer]:
        return [layer for layer in self.layers if isinstance(layer, LSTMLayer)]


def _detached(held: Any) -> Any:
    """A state, or a part of one, whatever its memory keeps it in."""
    if isinstance(held, Tensor):
        return held.detach()
    if isinstance(held, tuple):
        parts = [_detached(part) for part in held]
        return type(held)(*parts) if hasattr(held, "_fields") else tuple(parts)
    if dataclasses.is_dataclass(held) and not isinstance(held, type):
        named = {
            each.name: _detached(getattr(held, each.name)) for each in dataclasses.fields(held)
        }
        return dataclasses.replace(held, **named)
    if hasattr(held, "__dict__"):
        other = copy.copy(held)
        vars(other).update({name: _detached(part) for name, part in vars(held).items()})
        return other
    return held


def _memory_of(memory: str | Memory[Any]) -> Memory[Any]:
    if isinstance(memory, Memory):
        return memory
    made: Memory[Any] = MEMORIES.load(memory)()
    if not made.pushes:
        raise UsageError(f"memory {memory}: nothing is pushed to it; torch.nn.LSTM needs none")
    return made
