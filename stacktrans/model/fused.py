"""A transducer's steps in compiled code."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from stacktrans.kernels.actions import UNLIMITED, Actions
from stacktrans.kernels.carrying import Carried
from stacktrans.kernels.cells import CELLS
from stacktrans.kernels.ends import ENDS
from stacktrans.kernels.fused import (
    Kind,
    LayerWeights,
    SequenceOutput,
    fused_piece,
    fused_sequence,
)
from stacktrans.kernels.running import Running
from stacktrans.kernels.tensors import can_run
from stacktrans.memory import ActionList, ActionMemory, make_memory
from stacktrans.model.controllers import Controller, Disturbance, Layer, undisturbed
from stacktrans.model.embeddings import Embedding
from stacktrans.settings.config import ModelConfig


def kind_of(config: ModelConfig, hard: bool = False) -> Kind:
    """What compiled code has to run for a model; `hard` as `Kind` has it."""
    memory = make_memory(config)
    return Kind(
        config.controller,
        actions_of(memory) if isinstance(memory, ActionMemory) else config.memory,
        config.buffered,
        config.value_nonlinearity == "tanh",
        config.state_gradient,
        hard,
    )


def actions_of(memory: ActionMemory[Any]) -> Actions:
    """A memory with actions as compiled code knows it."""
    return Actions(
        int(isinstance(memory, ActionList)),
        memory.count,
        memory.depth,
        len(memory.actions),
        int(memory.no_op),
        memory.capacity or UNLIMITED,
    )


def fits(config: ModelConfig, weight: Tensor) -> bool:
    """Whether there is compiled code for a model with weights such as this one."""
    known = config.memory in ENDS or isinstance(make_memory(config), ActionMemory)
    return known and config.controller in CELLS and can_run(weight)


def sequence(
    kind: Kind,
    controller: Controller,
    lengths: Sequence[int],
    steps: Sequence[int],
    inputs: Tensor,
    embedding: Embedding,
    heads: Sequence[Tensor],
    disturb: Disturbance,
) -> SequenceOutput:
    """All steps from the start, with gradients.

    Args:
        kind: what is run.
        controller: what operates it.
        lengths: how many inputs each item has, M together; the longest first.
        steps: how many steps each item takes; without buffers, as many.
        inputs: [M] ids, those of an item one after the other.
        embedding: of the ids.
        heads: weight and bias of the signals, weight and bias of the values.
        disturb: what is done to the sums of a layer, [M, gates * H].
    """
    layers = _layers(controller)
    if kind.buffered:
        # After the last input nothing is read.
        rows = functional.pad(embedding(torch.arange(embedding.num_embeddings)), (0, 0, 0, 1))
        projected, ids = [layer.project(rows) for layer in layers], inputs
    else:
        projected, ids = _projected(layers, inputs, embedding, disturb)
    return fused_sequence(kind, lengths, steps, ids, projected, _weights(layers), *heads)


def piece(
    kind: Kind,
    controller: Controller,
    inputs: Tensor,
    embedding: Embedding,
    heads: Sequence[Tensor],
    disturb: Disturbance,
    state: Carried | None,
) -> tuple[SequenceOutput, Carried]:
    """T steps that go on from a state, with gradients; see `fused_piece`.

    Args:
        kind: what is run.
        controller: what operates it.
        inputs: [B, T] ids.
        embedding: of the ids.
        heads: weight and bias of the signals, weight and bias of the values.
        disturb: what is done to the sums of a layer, [B * T, gates * H].
        state: what the strings carry; None for strings that begin.
    """
    layers = _layers(controller)
    projected, ids = _projected(layers, inputs.flatten(), embedding, disturb)
    ids = ids.view(inputs.shape)
    return fused_piece(kind, ids, projected, _weights(layers), state, *heads)


def _projected(
    layers: Sequence[Layer], inputs: Tensor, embedding: Embedding, disturb: Disturbance
) -> tuple[list[Tensor], Tensor]:
    """For each layer the sums over some inputs, and for each step which of them are its own.

    They are computed for every id or for every step, whichever are fewer.
    """
    each = torch.arange(len(inputs))
    by_step = len(inputs) <= embedding.num_embeddings
    rows = inputs if by_step else torch.arange(embedding.num_embeddings)
    projected = [embedding.sums(layer, rows) for layer in layers]
    if disturb is undisturbed:
        return projected, each if by_step else inputs
    if not by_step:
        projected = [functional.embedding(inputs, sums) for sums in projected]
    return [disturb(sums) for sums in projected], each


class Run:
    """Steps that go on from call to call, without gradients.

    Args:
        kind: what is run.
        controller: what operates it.
        batch_size: number of strings B.
        embedding: of the ids.
        heads: weight and bias of the signals, weight and bias of the values.
    """

    @torch.no_grad()
    def __init__(
        self,
        kind: Kind,
        controller: Controller,
        batch_size: int,
        embedding: Embedding,
        heads: Sequence[Tensor],
    ) -> None:
        layers, ids = _layers(controller), torch.arange(embedding.num_embeddings)
        self._running = Running(
            kind,
            batch_size,
            # Once for each id and not for each step: there are far fewer of them.
            [embedding.sums(layer, ids) for layer in layers],
            _weights(layers),
            *heads,
        )

    @torch.no_grad()
    def step(self, inputs: Tensor) -> SequenceOutput:
        """The next T steps: ids [B, T]."""
        return self._running.step(inputs)


def _layers(controller: Controller) -> list[Layer]:
    return [layer for layer in controller.layers if isinstance(layer, Layer)]


def _weights(layers: Sequence[Layer]) -> list[LayerWeights]:
    return [
        LayerWeights(layer.below_weight, layer.hidden_weight, tuple(layer.initial_state))
        for layer in layers
    ]
