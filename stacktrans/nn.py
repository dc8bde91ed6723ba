"""Torch modules with a memory, for anyone's model."""

from typing import Any

import torch
from torch import Tensor, nn

from stacktrans.common.errors import UsageError, check_positive
from stacktrans.common.registry import MEMORIES
from stacktrans.memory import Memory
from stacktrans.model.controllers import Controller, Operation
from stacktrans.model.definition import TransducerState, step
from stacktrans.settings.model_config import ModelConfig

__all__ = ["StackLSTM"]

_POP_BIAS = -1.0
"""Where the bias of every pop starts: a memory that keeps what is pushed is learned to be used
(grefenstette2015, section 4)."""


class StackLSTM(nn.Module):
    """An LSTM that operates a memory (grefenstette2015, section 3.3), called as nn.LSTM is.

    The lowest layer sees the input and what was read at the step before; every other one sees the
    input and the output of the layer under it. The output of the highest decides what is pushed
    and popped.

    Args:
        input_size: size E of the inputs.
        hidden_size: number of units H of each layer.
        num_layers: number of layers.
        memory: "stack", "queue", "deque", several as in "queue+stack", or a memory itself, such as
            `stacktrans.memory.Stack()`.
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
        check_positive(
            input_size=input_size,
            hidden_size=hidden_size,
            num_layers=num_layers,
            memory_size=memory_size,
        )
        self.memory = _memory_of(memory)
        self.signal_names = tuple(self.memory.signal_names)
        self.memory_size, self.batch_first = memory_size, batch_first
        config = ModelConfig.model_validate(
            {
                "memory": {"name": "stack", "size": memory_size},  # of which the size alone is used
                "controller": {"name": "lstm", "hidden_size": hidden_size, "layers": num_layers},
                "initialization": {"signal_bias": {"pop": _POP_BIAS}},
            }
        )
        read_size = self.memory.reads * memory_size
        self.controller = Controller(config, input_size, read_size)
        self.operation = Operation(self.memory, hidden_size, config)
        self.operation.initialize(config.initialization)

    def initial(self, batch_size: int) -> TransducerState:
        """The state before the first step: the learned one of each layer, and an empty memory."""
        return TransducerState.initial(self.controller, self.memory, self.memory_size, batch_size)

    def forward(
        self, inputs: Tensor, state: TransducerState | None = None
    ) -> tuple[Tensor, TransducerState]:
        """Outputs of the highest layer at every step, and the state after the last.

        Args:
            inputs: [T, B, E], [B, T, E] with `batch_first`, or [T, E] for a single sequence.
            state: returned by an earlier call; None begins a new sequence.

        Outputs have H in the place of E.
        """
        single, turned = inputs.dim() == 2, not self.batch_first
        steps = inputs.unsqueeze(0) if single else inputs.transpose(0, 1) if turned else inputs
        state = state or self.initial(len(steps))
        outputs = []
        for sums in self.controller.project(lambda layer: layer.project(steps)):
            output, _, state = step(self.controller, self.operation, sums, state)
            outputs.append(output)
        if single:
            return torch.cat(outputs), state
        return torch.stack(outputs, dim=0 if turned else 1), state


def _memory_of(memory: str | Memory[Any]) -> Memory[Any]:
    if isinstance(memory, Memory):
        return memory
    made: Memory[Any] = MEMORIES.load(memory)()
    if not made.pushes:
        raise UsageError(f"memory {memory}: nothing is pushed to it; torch.nn.LSTM needs none")
    return made
