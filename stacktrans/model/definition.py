"""A transducer step by step in torch, on any device: what compiled code is compared with."""

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self, cast

import torch
from torch import Tensor

from stacktrans.memory import Memory, MemoryState
from stacktrans.memory.buffers import filled, popped, read_weights
from stacktrans.model.controllers import Controller, ControllerState, GateNoise, Operation, no_noise

if TYPE_CHECKING:
    from stacktrans.model.transducer import Transducer


class Unrolled(NamedTuple):
    """The outputs of a transducer over T steps.

    Attributes:
        hidden: [B, T, H] the controller's outputs.
        signals: [B, T, len(signal_names)] strengths of each signal.
        steps: how many of the T each item took; None for all.
    """

    hidden: Tensor
    signals: Tensor
    steps: list[int] | None = None


@dataclass(frozen=True, slots=True)
class TransducerState:
    """The states of every layer and of the memory, and the vectors read last, [B, reads * m]."""

    controller: tuple[ControllerState, ...]
    memory: MemoryState
    reads: Tensor

    @classmethod
    def initial(cls, controller: Controller, memory: Memory[Any], size: int, batch: int) -> Self:
        """The state before the first step, with an empty memory of vectors of some size."""
        like = controller.all_layers[0].initial_state
        reads = memory.initial_reads(batch, size, like).flatten(1)
        return cls(controller.initial(batch), memory.initial(batch, size, like), reads)

    def detach(self) -> Self:
        """The same without its past, through which no gradient goes back."""
        return cast(Self, _changed(self, Tensor.detach))

    def chosen(self, items: Tensor) -> Self:
        """Those of some of the strings, by their indices; one may be there several times."""
        return cast(Self, _changed(self, lambda tensor: tensor.index_select(0, items)))


def _changed(held: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """A state, or a part of one, whatever its memory keeps it in, with all tensors changed."""
    if isinstance(held, Tensor):
        return change(held)
    if isinstance(held, tuple):
        parts = [_changed(part, change) for part in held]
        return type(held)(*parts) if hasattr(held, "_fields") else tuple(parts)
    if isinstance(held, list):
        return [_changed(part, change) for part in held]
    if isinstance(held, dict):
        return {name: _changed(part, change) for name, part in held.items()}
    other = copy.copy(held)
    names: Iterable[str] = getattr(held, "__dataclass_fields__", getattr(held, "__dict__", ()))
    for name in names:
        object.__setattr__(other, name, _changed(getattr(held, name), change))
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
) -> tuple[Tensor, Tensor, TransducerState]:
    """One step: the controller's output [B, H], the signals, and the next state.

    `projected` are the sums that depend on x alone: of every layer, [B, gates * H].
    """
    hidden, layers = controller.step(projected, state.reads, state.controller)
    if operation is None:
        return hidden, hidden[:, :0], replace(state, controller=layers)
    memory, reads, signals = operation(hidden, state.memory, hard)
    return hidden, signals, TransducerState(layers, memory, reads)


def unroll(
    model: "Transducer",
    inputs: Tensor,
    state: TransducerState | None = None,
    noise: GateNoise = no_noise,
) -> tuple[Unrolled, TransducerState]:
    """The outcome of all steps over ids [B, T], and the state after the last; without buffers."""
    state = state or initial(model, inputs.shape[0])
    done = []
    for projected in model.controller.project(lambda layer: model.sums(layer, inputs), noise):
        hidden, signals, state = step(
            model.controller, model.operation, projected, state, model.hard
        )
        done.append((hidden, signals))
    hidden, signals = (torch.stack(parts, dim=1) for parts in zip(*done, strict=True))
    return Unrolled(hidden, signals), state


def unroll_buffered(model: "Transducer", inputs: Tensor, lengths: Sequence[int]) -> Unrolled:
    """The outcome of all steps over ids [B, T], of which only `lengths` are each item's input."""
    state = initial(model, inputs.shape[0])
    embedded = model.embed(inputs)
    buffer = filled(torch.tensor(lengths, device=inputs.device), inputs.shape[1])
    buffer = buffer.to(embedded.dtype)
    read = embedded.new_zeros(inputs.shape[0])
    done = []
    for _ in range(model.config.steps_over(inputs.shape[1])):
        buffer = popped(buffer, read)
        weights = read_weights(buffer)
        seen = torch.bmm(weights.unsqueeze(1), embedded)
        projected = tuple(layer.project(seen)[:, 0] for layer in model.controller.all_layers)
        hidden, signals, state = step(
            model.controller, model.operation, projected, state, model.hard
        )
        read = signals[:, -2]
        done.append((hidden, signals))
    hidden, signals = (torch.stack(parts, dim=1) for parts in zip(*done, strict=True))
    return Unrolled(hidden, signals, [model.config.steps_over(length) for length in lengths])
