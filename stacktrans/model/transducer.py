"""The transducer as a torch module: its layers, and unrolling by compiled code or in torch.

grefenstette2015, section 3.3:

    (h_t, o'_t) = RNN([x_t ; r_{t-1}], h_{t-1})
    d_t = sigmoid(W_d o'_t + b_d)      u_t = sigmoid(W_u o'_t + b_u)
    v_t = tanh(W_v o'_t + b_v)         o_t = tanh(W_o o'_t + b_o)
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from stacktrans.common.errors import UsageError
from stacktrans.common.registry import CONTROLLERS, plugin_error
from stacktrans.kernels.autograd import CarriedCompiled, as_array, can_run, fused_sequence
from stacktrans.kernels.batches import Architecture, ModelWeights
from stacktrans.memory import Memory, make_memory
from stacktrans.memory.buffers import writing_steps, written_weights
from stacktrans.model import definition
from stacktrans.model.controllers import NO_NOISE, Controller, Layer, Noise, Operation
from stacktrans.model.definition import TransducerState, Unrolled
from stacktrans.model.encoder_decoder import EncoderDecoder
from stacktrans.model.numpy_backend import NumpyModel, architecture_of, from_weights
from stacktrans.model.weights import linear_sizes
from stacktrans.settings.model_config import ModelConfig

SYMBOLS_AT_ONCE = 256
"""The most symbols of an answer that are read from the output buffer at once."""
Carried = CarriedCompiled | TransducerState
"""The state of B sequences that is carried from one segment to the next."""


class Transducer(nn.Module):
    """A recurrent network with a memory that predicts an output at each step of a sequence of ids.

    Without a memory, logits are a map of the controller's output instead of o_t, as the published
    parameter counts of the baselines require.

    Args:
        config: of the model.
        inputs: number of input ids.
        outputs: number of output ids.

    Attributes:
        embedding: learned vectors of ids; None where x_t are one-hot vectors.
        operation: None for a model with neither signals nor buffers.
        hard: whether signals are rounded by `Memory.discretize`. They have no gradients then, and
            the backward pass of compiled code raises `ValueError`.
        sharpness: the factor by which `sharpen` has multiplied the signals' weights.
    """

    def __init__(self, config: ModelConfig, inputs: int, outputs: int) -> None:
        super().__init__()
        initial = config.initialization
        self.config, self.inputs = config, inputs
        self.hard, self.sharpness = False, 1.0
        maps, biases = linear_sizes(config, inputs, outputs), config.controller.biases
        output_sizes, embedding_sizes = maps.get("output.0"), maps.get("embedding")
        self.embedding = nn.Embedding(*embedding_sizes) if embedding_sizes else None
        self.memory = memory = make_memory(config)
        size, _ = output_sizes or maps["classifier"]
        _, embedding_size = embedding_sizes or (inputs, inputs)
        has_signals = memory.signal_names or config.buffers
        self.operation = Operation(memory, size, config) if has_signals else None
        if config.encoder_decoder:
            layer = CONTROLLERS.load(config.controller.name).torch_layer()
            self.controller: Controller = layer(config, embedding_size)
        else:
            self.controller = Controller(config, embedding_size, memory.reads * config.memory_size)
        self.output: nn.Module = nn.Identity()
        if output_sizes:
            self.output = nn.Sequential(nn.Linear(*output_sizes, biases), nn.Tanh())
        self.classifier = nn.Linear(*maps["classifier"], biases)
        if initial.weights == "normal":
            # All linear maps of the controller's output are drawn as rows of one matrix.
            parts = filter(None, (self.operation, self.output if output_sizes else self.classifier))
            modules = nn.ModuleList(parts).modules()
            heads = [module for module in modules if isinstance(module, nn.Linear)]
            rows = sum(len(head.weight) for head in heads)
            for head in heads:
                nn.init.normal_(head.weight, std=rows**-0.5)
                if head.bias is not None:
                    nn.init.zeros_(head.bias)
        if self.operation:
            self.operation.initialize(initial)

    @property
    def signal_names(self) -> tuple[str, ...]:
        """Names of the signals."""
        return self.operation.signal_names if self.operation else ()

    @property
    def parameter_count(self) -> int:
        """Number of parameters."""
        return sum(weight.numel() for weight in self.parameters())

    @contextmanager
    def hard_signals(self, hard: bool = True) -> Iterator[None]:
        """Round signals to 0 or 1 within a `with` block, or leave them continuous."""
        before, self.hard = self.hard, hard
        try:
            yield
        finally:
            self.hard = before

    def sharpen(self, factor: float) -> None:
        """Multiply the weights of the signals by a factor, which moves signals towards 0 or 1."""
        if self.operation:
            self.operation.sharpen(factor)
            self.sharpness *= factor

    def embed(self, ids: Tensor) -> Tensor:
        """The vectors x of ids: [...] -> [..., E]."""
        if self.embedding is None:
            return functional.one_hot(ids, self.inputs).to(self.classifier.weight.dtype)
        return cast(Tensor, self.embedding(ids))

    def sums(self, layer: Layer, ids: Tensor) -> Tensor:
        """The part of a layer's sums that depends on x alone: ids [...] -> [..., gates * H]."""
        if self.embedding is None:
            return layer.project_ids(ids)
        return layer.project(self.embedding(ids))

    def unroll(
        self, inputs: Tensor, lengths: Sequence[int] | None = None, noise: Noise = NO_NOISE
    ) -> Unrolled:
        """Run over whole sequences, in compiled code if there is any.

        Args:
            inputs: [B, T] ids.
            lengths: the number of steps of each string; T by default. The outputs of later steps
                are undefined and have no gradient.
            noise: added to the pre-activations of gates and signals.

        Raises:
            ValueError: there are not B lengths from 0 to T.
        """
        count, longest = inputs.shape
        lengths = [longest] * count if lengths is None else lengths
        if len(lengths) != count or not all(0 <= length <= longest for length in lengths):
            raise ValueError(f"lengths of {count} items, 0 to {longest} each, are not {lengths}")
        if architecture := self.architecture():
            return _unroll_compiled(self, architecture, inputs, lengths, noise)[0]
        if self.config.buffers:
            return definition.unroll_buffered(self, inputs, lengths, noise)
        if isinstance(self.controller, EncoderDecoder):
            hidden = self.controller(self.embed, inputs)
            return Unrolled(hidden, hidden[..., :0])
        return definition.unroll(self, inputs, noise=noise)[0]

    def unroll_segment(
        self, inputs: Tensor, state: Carried | None = None, noise: Noise = NO_NOISE
    ) -> tuple[Unrolled, Carried]:
        """Run over a segment of long sequences (truncated backpropagation through time).

        Gradients stop at the beginning of the segment: carried states are constants.

        Args:
            inputs: [B, T] ids.
            state: carried from the segment before; None for the first.
            noise: added to the pre-activations of gates and signals.

        Raises:
            UsageError: the model has buffers, or a memory whose state can't be carried.
        """
        if self.config.buffers:
            raise UsageError("a buffered model can't be trained on segments of a stream")
        self.memory.check_can_carry()
        if not (architecture := self.architecture()):
            assert not isinstance(state, CarriedCompiled)
            unrolled, after = definition.unroll(self, inputs, state, noise)
            after = after.detach()
            return unrolled, replace(after, memory=self.memory.carried(after.memory))
        assert not isinstance(state, TransducerState)
        count, steps = inputs.shape
        return _unroll_compiled(self, architecture, inputs, [steps] * count, noise, state)

    @torch.no_grad()
    def to_numpy(self) -> NumpyModel | None:
        """The model with its current weights in the numpy backend; None if torch has to run it.

        Raises:
            UsageError: the configuration requires compiled code and there is none.
        """
        if not self.architecture():
            return None
        weights = {name: as_array(weight) for name, weight in self.state_dict().items()}
        return from_weights(self.config, weights, self.inputs, self.hard, torch.get_num_threads())

    def architecture(self) -> Architecture | None:
        """The architecture for compiled code, as in `compiled_architecture`."""
        return compiled_architecture(self.config, self.memory, self.classifier.weight, self.hard)

    def logits(self, unrolled: Unrolled, mask: Tensor) -> Tensor:
        """Logits [n, outputs] of the n target symbols selected by a mask [B, T]."""
        if not self.config.buffers:
            return self.read_out(unrolled.hidden[mask])
        cumulative = self.written(unrolled)
        parts = []
        for first in range(0, mask.shape[1], SYMBOLS_AT_ONCE):
            part = mask[:, first : first + SYMBOLS_AT_ONCE]
            steps = writing_steps(cumulative, first, part.shape[1])
            weights = written_weights(cumulative[:, steps], first, part.shape[1])
            parts.append(torch.bmm(weights, self.read_out(unrolled.hidden[:, steps])))
        return torch.cat(parts, dim=1)[mask]

    def written(self, unrolled: Unrolled) -> Tensor:
        """The cumulative strength written to the output buffer, less what is skipped: [B, steps].

        Strings write nothing after their last step.
        """
        strengths = unrolled.signals[..., -1]
        skipped = self.config.buffers.output_skip if self.config.buffers else 0
        if unrolled.steps is not None:
            last = torch.tensor(unrolled.steps, device=strengths.device).unsqueeze(1)
            steps = torch.arange(strengths.shape[1], device=strengths.device)
            strengths = strengths * (steps < last)
        return torch.relu(strengths.cumsum(dim=1) - skipped)

    def read_out(self, hidden: Tensor) -> Tensor:
        """Logits [..., outputs] from the controller's outputs [..., H]."""
        return cast(Tensor, self.classifier(self.output(hidden)))

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits [B, T, outputs] for ids [B, T]."""
        everything = torch.ones_like(inputs, dtype=torch.bool)
        return self.logits(self.unroll(inputs), everything).view(*inputs.shape, -1)


def _unroll_compiled(
    model: Transducer,
    architecture: Architecture,
    inputs: Tensor,
    lengths: Sequence[int],
    noise: Noise,
    before: CarriedCompiled | None = None,
) -> tuple[Unrolled, CarriedCompiled]:
    """Run compiled code over ids [B, T], the longest string first."""
    longest_first = sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True)
    steps = [model.config.steps_over(length) for length in lengths]
    ids = inputs.flatten()[_step_indices(longest_first, lengths, inputs.shape[1])]
    if architecture.buffered:
        # After the last input nothing is read.
        embeddings = functional.pad(model.embed(torch.arange(model.inputs)), (0, 0, 0, 1))
        projected = [layer.project(embeddings) for layer in model.controller.all_layers]
    else:
        projected, ids = _projected(model, ids, noise)
    weights, added = _weights(model, architecture, projected, len(lengths)), None
    if noise.signals:
        added = noise.on_signals(weights.bias.new_zeros(sum(steps), architecture.signals))
    descending = sorted(lengths, reverse=True), sorted(steps, reverse=True)
    hidden, signals, carried = fused_sequence(weights, *descending, ids, before, added)
    longest = model.config.steps_over(inputs.shape[1])
    indices = _step_indices(longest_first, steps, longest)

    def padded(flat: Tensor) -> Tensor:
        shape = (len(steps), longest, flat.shape[1])
        if len(flat) == len(steps) * longest:  # without padding, steps are in order already
            return flat.view(shape)
        zeros = flat.new_zeros(len(steps) * longest, flat.shape[1])
        return zeros.index_copy(0, indices, flat).view(shape)

    taken = steps if architecture.buffered else None
    return Unrolled(padded(hidden), padded(signals), taken), carried


def _projected(model: Transducer, ids: Tensor, noise: Noise) -> tuple[list[Tensor], Tensor]:
    """The projected inputs of each layer, and the row of them that each of the steps [N] reads.

    They are computed for all ids or for all steps, whichever are fewer.
    """
    all_ids, steps = torch.arange(model.inputs), torch.arange(len(ids))
    layers, by_step = model.controller.all_layers, 0 < len(ids) <= model.inputs
    projected = [model.sums(layer, ids if by_step else all_ids) for layer in layers]
    if not noise.gates:
        return projected, steps if by_step else ids
    if not by_step:
        projected = [functional.embedding(ids, sums) for sums in projected]
    return [noise.on_gates(*each) for each in zip(layers, projected, strict=True)], steps


def _weights(
    model: Transducer, architecture: Architecture, projected: Sequence[Tensor], batch: int
) -> ModelWeights[Tensor]:
    """The weights of a model for compiled code, with the initial state of each string."""
    layers = model.controller.all_layers
    no_outputs = model.classifier.weight.new_zeros(0, model.controller.hidden_size)

    def head(linear: nn.Linear | None) -> tuple[Tensor, Tensor]:
        weight = linear.weight if linear else no_outputs
        bias = linear.bias if linear else None
        return weight, weight.new_zeros(len(weight)) if bias is None else bias

    recurrences = [layer.recurrence(each) for layer, each in zip(layers, projected, strict=True)]
    sums, hidden = zip(*recurrences, strict=True)
    below = [layer.below_weight for layer in layers]
    operation = model.operation
    signals, signal_bias = head(operation.signals if operation else None)
    values, value_bias = head(operation.values if operation else None)
    return ModelWeights(
        architecture,
        torch.cat(sums, dim=1) if sums[1:] else sums[0],
        torch.stack([torch.stack(layer.initial(batch)) for layer in layers]),
        torch.cat([signals, values]),
        torch.cat([signal_bias, value_bias]),
        [weight for pair in zip(below, hidden, strict=True) for weight in pair],
    )


def _step_indices(rows: Sequence[int], lengths: Sequence[int], longest: int) -> Tensor:
    """The flat indices in a [B, longest] table of the steps of some rows, row by row."""
    counts = np.array([lengths[row] for row in rows], dtype=np.int64)
    starts = np.array(rows, dtype=np.int64) * longest - (counts.cumsum() - counts)
    return torch.from_numpy(np.repeat(starts, counts) + np.arange(counts.sum()))


def compiled_architecture(
    config: ModelConfig, memory: Memory[Any], weight: Tensor, hard: bool = False
) -> Architecture | None:
    """The architecture of a model for compiled code; None if torch has to run it.

    `weight` is any of its weights, for their type and device.

    Raises:
        UsageError: the configuration requires compiled code and there is none.
    """
    if config.kernel == "torch":
        return None
    architecture = architecture_of(config, memory, hard) if can_run(weight) else None
    if architecture is None and config.kernel == "fused":
        buffers = " and buffers" if config.buffers else ""
        raise UsageError(
            f"model.kernel fused: there is no compiled code for memory {config.memory.name} with "
            f"controller {config.controller.name}{buffers} in "
            f"{str(weight.dtype).removeprefix('torch.')} on {weight.device.type}; expected auto or "
            "torch"
        )
    return architecture


class _WithoutDrawing(TorchFunctionMode):
    """Skips drawing initial weights, for which torch would load its compiler on "meta"."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if getattr(func, "__module__", None) == nn.init.__name__:
            return (kwargs or {}).get("tensor", *args[:1])
        return func(*args, **(kwargs or {}))


def meta_transducer(config: ModelConfig, inputs: int, outputs: int) -> Transducer:
    """A transducer on torch's device "meta", whose tensors have shapes but no numbers.

    Raises:
        UsageError: it is so large that its numbers can't be counted.
    """
    try:
        with torch.device("meta"), _WithoutDrawing():
            return Transducer(config, inputs, outputs)
    except RuntimeError as error:  # torch counts bytes in 64 bits
        if plugin_error(error):
            raise
        raise UsageError("model: too large: no computer could store its weights") from error
