"""A transducer's steps in compiled code."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from stacktrans.common.registry import CONTROLLERS
from stacktrans.kernels.autograd import Kind, LayerWeights, fused_piece, fused_sequence
from stacktrans.kernels.cells import CELLS
from stacktrans.kernels.running import Running
from stacktrans.kernels.stores import Carried
from stacktrans.kernels.tensors import can_run
from stacktrans.memory import Memory
from stacktrans.model.controllers import Disturbance, Layer, undisturbed
from stacktrans.model.embeddings import Embedding
from stacktrans.model.states import Unrolled
from stacktrans.settings.config import ModelConfig

if TYPE_CHECKING:
    from stacktrans.model.transducer import Transducer


def kind_of(config: ModelConfig, memory: Memory[Any], weight: Tensor, hard: bool) -> Kind | None:
    """What compiled code has to run for a model; None if there is none for it.

    Args:
        config: the shape of the model.
        memory: its memory.
        weight: one of its weights.
        hard: as `Kind` has it.
    """
    # What is inherited may not be what the class itself does.
    units = vars(CONTROLLERS.load(config.controller.name)).get("cell")
    steps = memory.compiled() if units and can_run(weight) else None
    if steps is None:
        return None
    return Kind(
        CELLS[units],
        steps,
        config.buffers is not None,
        config.value_nonlinearity == "tanh",
        config.units.state_gradient,
        hard,
    )


def unroll(
    model: "Transducer", kind: Kind, inputs: Tensor, lengths: Sequence[int], disturb: Disturbance
) -> Unrolled:
    """All steps from the start, with gradients; see `Transducer.unroll`.

    Args:
        model: what is run.
        kind: the same for compiled code.
        inputs: [B, T] ids.
        lengths: how many of them are the input of each item.
        disturb: what is done to the sums of a layer, [M, gates * H].
    """
    longest_first = sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True)
    steps = [model.steps_over(length) for length in lengths]
    layers, embedding = model.controller.all_layers, model.embedding
    ids = inputs.flatten()[_places(longest_first, lengths, inputs.shape[1])]
    if kind.buffered:
        # After the last input nothing is read.
        rows = functional.pad(embedding(torch.arange(embedding.num_embeddings)), (0, 0, 0, 1))
        projected = [layer.project(rows) for layer in layers]
    else:
        projected, ids = _projected(layers, ids, embedding, disturb)
    done = fused_sequence(
        kind,
        [lengths[row] for row in longest_first],
        [steps[row] for row in longest_first],
        ids,
        projected,
        _weights(layers),
        *_heads(model),
    )
    longest = model.steps_over(inputs.shape[1])
    places = _places(longest_first, steps, longest)

    def placed(numbers: Tensor) -> Tensor:
        shape = (len(steps), longest, numbers.shape[1])
        if len(numbers) == len(steps) * longest:  # each already stands where it belongs
            return numbers.view(shape)
        empty = numbers.new_zeros(len(steps) * longest, numbers.shape[1])
        return empty.index_copy(0, places, numbers).view(shape)

    taken = steps if kind.buffered else None
    return Unrolled(placed(done.hidden), placed(done.signals), taken)


def _places(rows: Sequence[int], lengths: Sequence[int], longest: int) -> Tensor:
    """Where the steps of some rows of a [B, longest] table stand, one row after the other."""
    taken = np.array([lengths[row] for row in rows], dtype=np.int64)
    starts = np.array(rows, dtype=np.int64) * longest - (taken.cumsum() - taken)
    return torch.from_numpy(np.repeat(starts, taken) + np.arange(taken.sum()))


def piece(
    model: "Transducer", kind: Kind, inputs: Tensor, state: Any, disturb: Disturbance
) -> tuple[Unrolled, Carried]:
    """T steps that go on from a state, with gradients; see `Transducer.unroll_piece`."""
    assert state is None or isinstance(state, Carried)
    layers = model.controller.all_layers
    projected, ids = _projected(layers, inputs.flatten(), model.embedding, disturb)
    done, carried = fused_piece(
        kind, ids.view(inputs.shape), projected, _weights(layers), state, *_heads(model)
    )
    hidden, signals = (part.unflatten(0, inputs.shape) for part in done[:2])
    return Unrolled(hidden, signals), carried


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


class FusedRun:
    """Steps that go on from call to call, without gradients; see `Run`."""

    @torch.no_grad()
    def __init__(self, model: "Transducer", kind: Kind, batch_size: int) -> None:
        layers, embedding = model.controller.all_layers, model.embedding
        ids = torch.arange(embedding.num_embeddings)
        # Once for each id and not for each step: there are far fewer of them.
        sums = [embedding.sums(layer, ids) for layer in layers]
        self._running = Running(kind, batch_size, sums, _weights(layers), *_heads(model))

    @torch.no_grad()
    def step(self, inputs: Tensor) -> Unrolled:
        """The next T steps: ids [B, T]."""
        done = self._running.step(inputs)
        return Unrolled(done.hidden, done.signals)


def _weights(layers: Sequence[Layer]) -> list[LayerWeights]:
    return [
        LayerWeights(layer.below_weight, layer.hidden_weight, tuple(layer.initial_state))
        for layer in layers
    ]


def _heads(model: "Transducer") -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Weight and bias of the signals, weight and bias of the values."""
    operation = model.operation
    like = model.classifier.weight.new_zeros(0, model.controller.hidden_size)
    signals, values = (operation.signals, operation.values) if operation else (None, None)
    return (*_of_head(signals, like), *_of_head(values, like))


def _of_head(head: nn.Linear | None, nothing: Tensor) -> tuple[Tensor, Tensor]:
    if head is None:
        return nothing, nothing[:, 0]
    bias = head.weight.new_zeros(len(head.weight)) if head.bias is None else head.bias
    return head.weight, bias
