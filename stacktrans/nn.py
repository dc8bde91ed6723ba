"""`StackLSTM`, a torch module like nn.LSTM with a memory, for models of your own."""

from typing import Any

import torch
from torch import Tensor, nn

from stacktrans.common.errors import UsageError, check_positive
from stacktrans.common.registry import MEMORIES
from stacktrans.memory import Memory
from stacktrans.model.controllers import Controller, Operation
from stacktrans.model.definition import TransducerState, step
from stacktrans.settings.layers import validated
from stacktrans.settings.model_config import ModelConfig

__all__ = ["StackLSTM"]

_POP_BIAS = -1.0
"""The initial bias of every pop: models learn to use a memory that keeps what is pushed
(grefenstette2015, section 4)."""


class StackLSTM(nn.Module):
    """An LSTM with a memory (grefenstette2015, section 3.3) and the interface of nn.LSTM.

    The inputs of the lowest layer are x_t and the vectors read at the step before; those of a
    higher layer are x_t and the output of the layer below. The output of the highest layer
    determines all pops and pushes.

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
        signal_names: the names of its signals.

    Raises:
        UsageError: the memory is unknown or has no pushes, or a size is out of range.
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
        check_positive(input_size=input_size, hidden_size=hidden_size)
        check_positive(num_layers=num_layers, memory_size=memory_size)
        self.memory: Memory[Any] = memory if isinstance(memory, Memory) else MEMORIES.load(memory)()
        if not self.memory.pushes:
            name = self.memory.name
            raise UsageError(f"memory {name}: nothing is pushed to it; torch.nn.LSTM needs none")
        self.signal_names = tuple(self.memory.signal_names)
        self.input_size, self.memory_size, self.batch_first = input_size, memory_size, batch_first
        config = validated(
            ModelConfig,
            {
                "memory": {"name": "stack", "size": memory_size},  # of which the size alone is used
                "controller": {"name": "lstm", "hidden_size": hidden_size, "layers": num_layers},
                "initialization": {"signal_bias": {"pop": _POP_BIAS}},
            },
            [],
        )
        read_size = self.memory.reads * memory_size
        self.controller = Controller(config, input_size, read_size)
        self.operation = Operation(self.memory, hidden_size, config)
        self.operation.initialize(config.initialization)

    def initial(self, batch_size: int) -> TransducerState:
        """The state before the first step: learned states of all layers, and an empty memory."""
        return TransducerState.initial(self.controller, self.memory, self.memory_size, batch_size)

    def forward(
        self, inputs: Tensor, state: TransducerState | None = None
    ) -> tuple[Tensor, TransducerState]:
        """Outputs of the highest layer at every step, and the state after the last.

        Args:
            inputs: T steps of B sequences, [T, B, E]; [B, T, E] with `batch_first`; or [T, E] for
                a single sequence.
            state: returned by an earlier call; None begins a new sequence.

        Returns:
            Outputs of the shape of `inputs`, with H in place of E, and the state.

        Raises:
            UsageError: the inputs have another shape.
        """
        if inputs.dim() not in (2, 3) or inputs.shape[-1] != self.input_size:
            dimensions = "[B, T, E]" if self.batch_first else "[T, B, E]"
            raise UsageError(
                f"inputs of shape {[*inputs.shape]}: expected {dimensions} or [T, E] with "
                f"E = {self.input_size}"
            )
        single, time_first = inputs.dim() == 2, not self.batch_first
        steps = inputs.unsqueeze(0) if single else inputs.transpose(0, 1) if time_first else inputs
        state = state or self.initial(len(steps))
        outputs = []
        for sums in self.controller.project(lambda layer: layer.project(steps)):
            output, _, state = step(self.controller, self.operation, sums, state)
            outputs.append(output)
        if single:
            return torch.cat(outputs), state
        return torch.stack(outputs, dim=0 if time_first else 1), state
