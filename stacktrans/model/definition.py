"""Steps and unrolling of a transducer in torch: the definition that compiled code is tested by."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self, cast

import torch
from torch import Tensor

from stacktrans.memory import Memory, MemoryState
from stacktrans.memory.buffers import filled, popped, read_weights
from stacktrans.model.controllers import NO_NOISE, Controller, Noise, Operation
from stacktrans.model.encoder_decoder import EncoderDecoder, EncoderDecoderState

if TYPE_CHECKING:
    from stacktrans.model.transducer import Transducer


class Unrolled(NamedTuple):
    """The outputs of a transducer over T steps.

    Attributes:
        hidden: [B, T, H] the controller's outputs.
        signals: [B, T, len(signal_names)].
        steps: the number of steps of each string; None if all take T.
    """

    hidden: Tensor
    signals: Tensor
    steps: list[int] | None = None


@dataclass(frozen=True, slots=True)
class TransducerState:
    """The state of a transducer after a step.

    Attributes:
        controller: the state of each layer; of an encoder-decoder, its `EncoderDecoderState`.
        memory: the state of the memory.
        reads: [B, reads * m] the vectors read.
    """

    controller: tuple[Any, ...]
    memory: MemoryState
    reads: Tensor

    @classmethod
    def initial(cls, controller: Controller, memory: Memory[Any], size: int, batch: int) -> Self:
        """The state before the first step, with an empty memory of vectors of size m."""
        like = controller.like
        reads = memory.initial_reads(batch, size, like).flatten(1)
        return cls(controller.initial(batch), memory.initial(batch, size, like), reads)

    def detach(self) -> Self:
        """The state without its gradient history."""
        return cast(Self, _map_tensors(self, Tensor.detach))

    def select(self, items: Tensor) -> Self:
        """The states of some strings, by their indices, which may repeat."""
        return cast(Self, _map_tensors(self, lambda tensor: tensor.index_select(0, items)))


def _map_tensors(state: Any, function: Callable[[Tensor], Tensor]) -> Any:
    """A copy of a state, or of a part of one, with a function applied to all of its tensors.

    States of plugins' memories may be nested tuples, lists, dictionaries and objects.
    """
    if isinstance(state, Tensor):
        return function(state)
    if isinstance(state, tuple):
        parts = [_map_tensors(part, function) for part in state]
        return type(state)(*parts) if hasattr(state, "_fields") else tuple(parts)
    if isinstance(state, list):
        return [_map_tensors(part, function) for part in state]
    if isinstance(state, dict):
        return {name: _map_tensors(part, function) for name, part in state.items()}
    other = copy.copy(state)
    for name in {*getattr(state, "__dataclass_fields__", ()), *getattr(state, "__dict__", ())}:
        object.__setattr__(other, name, _map_tensors(getattr(state, name), function))
    return other


def initial(model: "Transducer", batch_size: int) -> TransducerState:
    """The state of a model before the first step."""
    size = model.config.memory_size
    return TransducerState.initial(model.controller, model.memory, size, batch_size)


def step(
    controller: Controller,
    operation: Operation | None,
    projected: tuple[Tensor, ...],
    state: TransducerState,
    hard: bool = False,
    noise: Noise = NO_NOISE,
) -> tuple[Tensor, Tensor, TransducerState]:
    """Take one step: the controller's output [B, H], the signals, and the next state.

    `projected` is the part of each layer's sums that depends on x alone, [B, gates * H].
    """
    hidden, layers = controller.step(projected, state.reads, state.controller)
    if operation is None:
        return hidden, hidden[:, :0], replace(state, controller=layers)
    memory, reads, signals = operation(hidden, state.memory, hard, noise)
    return hidden, signals, TransducerState(layers, memory, reads)


def unroll(
    model: "Transducer",
    inputs: Tensor,
    state: TransducerState | None = None,
    noise: Noise = NO_NOISE,
) -> tuple[Unrolled, TransducerState]:
    """Run over ids [B, T]: the outputs of all steps, and the state after the last."""
    state = state or initial(model, inputs.shape[0])
    if isinstance(model.controller, EncoderDecoder):
        before = cast(EncoderDecoderState, state.controller)
        hidden, after = model.controller.advance(model.embed, inputs, before)
        return Unrolled(hidden, hidden[..., :0]), replace(state, controller=after)
    steps = []
    for projected in model.controller.project(lambda layer: model.sums(layer, inputs), noise):
        hidden, signals, state = step(
            model.controller, model.operation, projected, state, model.hard, noise
        )
        steps.append((hidden, signals))
    hidden, signals = (torch.stack(parts, dim=1) for parts in zip(*steps, strict=True))
    return Unrolled(hidden, signals), state


def unroll_buffered(
    model: "Transducer", inputs: Tensor, lengths: Sequence[int], noise: Noise = NO_NOISE
) -> Unrolled:
    """Run with buffers over ids [B, T], of which the first `lengths` are each string's input."""
    state = initial(model, inputs.shape[0])
    embedded = model.embed(inputs)
    buffer = filled(torch.tensor(lengths, device=inputs.device), inputs.shape[1])
    buffer = buffer.to(embedded.dtype)
    read = embedded.new_zeros(inputs.shape[0])
    steps = []
    for _ in range(model.config.steps_over(inputs.shape[1])):
        buffer = popped(buffer, read)
        x = torch.bmm(read_weights(buffer).unsqueeze(1), embedded)
        projected = tuple(layer.project(x)[:, 0] for layer in model.controller.all_layers)
        hidden, signals, state = step(
            model.controller, model.operation, projected, state, model.hard, noise
        )
        read = signals[:, -2]
        steps.append((hidden, signals))
    hidden, signals = (torch.stack(parts, dim=1) for parts in zip(*steps, strict=True))
    return Unrolled(hidden, signals, [model.config.steps_over(length) for length in lengths])
