"""The torch backend: transducers as predictors in torch; and the choice of a model's backend."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from stacktrans.common.errors import OVERFLOW
from stacktrans.decoding.model import Numbers, Predictor, SoftInput
from stacktrans.kernels.autograd import ARRAY_DTYPES
from stacktrans.memory import Memory, MemorySnapshot
from stacktrans.model import definition
from stacktrans.model.definition import TransducerState
from stacktrans.model.encoder_decoder import EncoderDecoderState
from stacktrans.model.transducer import Transducer
from stacktrans.settings.model_config import BuffersConfig, ModelConfig
from stacktrans.tasks.alphabets import Ids, Mask


def predictor_of(model: Transducer) -> Predictor:
    """A predictor with the current weights of a model: compiled if possible, else in torch."""
    return model.to_numpy() or TorchModel(model, model.hard)


@dataclass
class TorchState:
    """The state of a transducer after some steps of B strings.

    Attributes:
        inner: the states of controller and memory.
        signals: [B, signals] of the last step.
        hidden: [B, H] the controller's outputs at the last step.
    """

    inner: TransducerState
    signals: Numbers
    hidden: Tensor


@dataclass(frozen=True, eq=False)
class TorchModel:
    """A transducer that torch runs step by step.

    Attributes:
        model: the torch module.
        hard: whether signals are rounded to 0 or 1.
    """

    model: Transducer
    hard: bool = False
    failure: ClassVar[str] = OVERFLOW
    is_deterministic: ClassVar[bool] = False
    threads = 1

    @property
    def config(self) -> ModelConfig:
        """See `Predictor.config`."""
        return self.model.config

    @property
    def memory(self) -> Memory[Any]:
        """See `Predictor.memory`."""
        return self.model.memory

    @property
    def outputs(self) -> int:
        """See `Model.outputs`."""
        return len(self.model.classifier.weight)

    @property
    def buffers(self) -> BuffersConfig | None:
        """See `Model.buffers`."""
        return self.config.buffers

    def discretized(self, hard: bool = True) -> Self:
        """See `Predictor.discretized`."""
        return type(self)(self.model, hard)

    @contextmanager
    def _running(self) -> Iterator[None]:
        self.model.eval()
        with torch.no_grad(), self.model.hard_signals(self.hard):
            yield

    def _tensor(self, array: Numbers | Ids) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.model.classifier.weight.device)

    def start(self, batch: int, steps: int = 0) -> TorchState:
        """See `Model.start`."""
        weight, signals = self.model.classifier.weight, len(self.model.signal_names)
        with self._running():
            zeros = weight.new_zeros(batch, signals)
            return TorchState(definition.initial(self.model, batch), as_numbers(zeros), zeros)

    def advance(
        self, state: TorchState, ids: Ids | SoftInput, requested: Mask | None = None
    ) -> Numbers:
        """See `Model.advance`."""
        with self._running():
            if isinstance(ids, SoftInput):
                hidden = self._advance_soft(state, ids)
            else:
                steps, state.inner = definition.unroll(self.model, self._tensor(ids), state.inner)
                state.signals, state.hidden = as_numbers(steps.signals[:, -1]), steps.hidden[:, -1]
                hidden = steps.hidden.flatten(0, 1)
                if requested is not None:
                    hidden = hidden[self._tensor(requested.ravel())]
            return as_numbers(self.model.read_out(hidden))

    def _advance_soft(self, state: TorchState, inputs: SoftInput) -> Tensor:
        model, share = self.model, self._tensor(inputs.next_share).unsqueeze(1)
        first, second = map(self._read_vectors, (inputs.ids, inputs.next_ids))
        mean = first + share.to(first.dtype) * (second - first)
        projected = tuple(layer.project(mean) for layer in model.controller.all_layers)
        hidden, signals, state.inner = definition.step(
            model.controller, model.operation, projected, state.inner, model.hard
        )
        state.signals, state.hidden = as_numbers(signals), hidden
        return hidden

    def _read_vectors(self, ids: Ids) -> Tensor:
        """The vectors x of ids [B], zeros after the last input: [B, E]."""
        known = (ids >= 0) & (ids < self.model.inputs)
        vectors = self.model.embed(self._tensor(np.where(known, ids, 0)))
        return vectors * self._tensor(known).unsqueeze(1)

    def select(self, state: TorchState, items: Ids) -> TorchState:
        """See `Model.select`."""
        indices = self._tensor(items)
        return TorchState(state.inner.select(indices), state.signals[items], state.hidden[indices])

    def pushed_vectors(self, state: TorchState) -> Numbers:
        """See `Predictor.pushed_vectors`."""
        operation, hidden = self.model.operation, state.hidden[0]
        with self._running():
            pushed = operation.pushed(hidden) if operation else hidden[:0]
        return as_numbers(pushed).reshape(self.memory.pushes, self.config.memory_size)

    def snapshot(self, state: TorchState) -> MemorySnapshot:
        """See `Predictor.snapshot`."""
        if isinstance(state.inner.controller, EncoderDecoderState):
            return state.inner.controller.snapshot()
        return self.memory.snapshot(state.inner.memory)


def as_numbers(tensor: Tensor) -> Numbers:
    """The numbers of a tensor as an array, in single or double precision."""
    if tensor.dtype not in ARRAY_DTYPES:  # such as bfloat16, which numpy lacks
        tensor = tensor.float()
    array: Numbers = tensor.detach().cpu().numpy()
    return array
