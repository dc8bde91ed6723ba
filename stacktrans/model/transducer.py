"""The transducer: embeddings, a controller, a memory that it operates, and a read-out.

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
from stacktrans.kernels.autograd import Carried as CarriedCompiled
from stacktrans.kernels.autograd import as_array, can_run, fused_sequence
from stacktrans.kernels.batches import Architecture, ModelWeights
from stacktrans.memory import Memory, make_memory
from stacktrans.memory.buffers import writing_steps, written_weights
from stacktrans.model import definition
from stacktrans.model.controllers import Controller, GateNoise, Layer, Operation, no_noise
from stacktrans.model.definition import TransducerState, Unrolled
from stacktrans.model.numpy_backend import NumpyModel, architecture_of, from_weights
from stacktrans.model.weights import linear_maps
from stacktrans.settings.model_config import ModelConfig

SYMBOLS_AT_ONCE = 256
"""Symbols of an answer that are read from the output buffer at once."""
Carried = CarriedCompiled | TransducerState
"""What B sequences carry from one piece to the next."""


class Transducer(nn.Module):
    """Reads a sequence of ids and predicts, at each step, what should come next.

    Without a memory the read-out sees the controller's output itself: the
    published parameter counts of the baselines leave no room for o_t.

    Args:
        config: the shape of the model.
        inputs: number of input ids.
        outputs: number of output ids.

    Attributes:
        embedding: learned vectors of ids; None where x_t are one-hot vectors.
        operation: None for a model with neither signals nor buffers.
        hard: whether signals are made 0 or 1, as by `Memory.discretise`; without gradients.
    """

    def __init__(self, config: ModelConfig, inputs: int, outputs: int) -> None:
        super().__init__()
        initial = config.initialization
        self.config, self.inputs = config, inputs
        self.kernel = config.kernel
        self.hard, self.sharpness = False, 1.0
        self._architectures: dict[Any, Architecture | None] = {}
        maps, biases = linear_maps(config, inputs, outputs), config.controller.biases
        shown, embedding = maps.get("output.0"), maps.get("embedding")
        self.embedding = nn.Embedding(*embedding) if embedding else None
        self.memory = memory = make_memory(config)
        self.read_size = memory.reads * config.memory_size
        size, _ = shown or maps["classifier"]
        operated = memory.signal_names or config.buffers
        self.operation = Operation(memory, size, config) if operated else None
        self.controller = Controller(config, (embedding or (inputs, inputs))[1], self.read_size)
        self.output = (
            nn.Sequential(nn.Linear(*shown, biases), nn.Tanh()) if shown else nn.Identity()
        )
        self.classifier = nn.Linear(*maps["classifier"], biases)
        if initial.weights == "normal":
            # What is linear in the controller's output, as the rows of a single matrix.
            parts = (self.operation, self.output if shown else self.classifier)
            heads = [
                head
                for part in parts
                if part is not None
                for head in part.modules()
                if isinstance(head, nn.Linear)
            ]
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

    @contextmanager
    def hard_signals(self, hard: bool = True) -> Iterator[None]:
        """Round signals to 0 or 1 within a `with` block, or leave them continuous."""
        before, self.hard = self.hard, hard
        try:
            yield
        finally:
            self.hard = before

    def sharpen(self, factor: float) -> None:
        """Make the signals nearer to 0 or 1, by a factor, for good; 1 / factor takes it back."""
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
        return layer.look_up(ids) if self.embedding is None else layer.project(self.embedding(ids))

    def unroll(
        self, inputs: Tensor, lengths: Sequence[int] | None = None, noise: GateNoise = no_noise
    ) -> Unrolled:
        """Run over whole sequences, in compiled code where there is some.

        Args:
            inputs: [B, T] ids.
            lengths: how many steps of each item matter; all T unless given. The outputs of
                the others are undefined, and have no gradient.
            noise: applied to the gates' sums over the inputs; only with gradients.

        Raises:
            ValueError: the lengths are not those of B items of up to T.
        """
        count, longest = inputs.shape
        lengths = [longest] * count if lengths is None else lengths
        if len(lengths) != count or not all(0 <= length <= longest for length in lengths):
            raise ValueError(f"lengths of {count} items, 0 to {longest} each, are not {lengths}")
        if architecture := self.architecture():
            return _unroll_compiled(self, architecture, inputs, lengths, noise)[0]
        if self.config.buffers:
            return definition.unroll_buffered(self, inputs, lengths)
        return definition.unroll(self, inputs, noise=noise)[0]

    def unroll_piece(
        self, inputs: Tensor, state: Carried | None = None, noise: GateNoise = no_noise
    ) -> tuple[Unrolled, Carried]:
        """Run over a piece of sequences, in compiled code where there is some.

        Gradients go back to the start of the piece, and no further. Carried states are constants.

        Args:
            inputs: [B, T] ids.
            state: carried from the piece before; None for the first.
            noise: applied to the gates' sums over the inputs.

        Raises:
            UsageError: the model has buffers, or a memory that can't be carried.
        """
        if self.config.buffers:
            raise UsageError("a buffered model can't be run piece by piece")
        self.memory.check_carries()
        if not (architecture := self.architecture()):
            assert not isinstance(state, CarriedCompiled)
            unrolled, after = definition.unroll(self, inputs, state, noise)
            return unrolled, replace(after.detach(), memory=self.memory.carried(after.memory))
        assert not isinstance(state, TransducerState)
        count, steps = inputs.shape
        return _unroll_compiled(self, architecture, inputs, [steps] * count, noise, state)

    @torch.no_grad()
    def to_numpy(self) -> NumpyModel | None:
        """Itself with weights as they are now, to be run without torch; None if torch is to run it.

        Raises:
            UsageError: compiled code is asked for and there is none.
        """
        if not self.architecture():
            return None
        weights = {name: as_array(weight) for name, weight in self.state_dict().items()}
        return from_weights(self.config, weights, self.inputs, self.hard, torch.get_num_threads())

    def architecture(self) -> Architecture | None:
        """What compiled code has to run; None if the model is run in torch.

        Raises:
            UsageError: compiled code is asked for and there is none.
        """
        weight = self.classifier.weight
        key = (self.memory, self.kernel, self.hard, weight.device, weight.dtype)
        if key not in self._architectures:
            found = compiled_architecture(self.config, self.memory, weight, self.kernel, self.hard)
            self._architectures[key] = found
        return self._architectures[key]

    def logits(self, unrolled: Unrolled, mask: Tensor) -> Tensor:
        """Logits [n, outputs] of the n symbols of the target that a mask [B, T] marks."""
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
        """[B, steps] the sum of the strengths written up to each step, less what is skipped.

        An item writes nothing after its last step.
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
    noise: GateNoise,
    before: CarriedCompiled | None = None,
) -> tuple[Unrolled, CarriedCompiled]:
    """See `Transducer.unroll` and `Transducer.unroll_piece`."""
    longest_first = sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True)
    steps = [model.config.steps_over(length) for length in lengths]
    ids = inputs.flatten()[_places(longest_first, lengths, inputs.shape[1])]
    if architecture.buffered:
        # After the last input nothing is read.
        rows = functional.pad(model.embed(torch.arange(model.inputs)), (0, 0, 0, 1))
        projected = [layer.project(rows) for layer in model.controller.all_layers]
    else:
        projected, ids = _projected(model, ids, noise)
    done, carried = fused_sequence(
        _weights(model, architecture, projected, len(lengths)),
        [lengths[row] for row in longest_first],
        [steps[row] for row in longest_first],
        ids,
        before,
    )
    longest = model.config.steps_over(inputs.shape[1])
    places = _places(longest_first, steps, longest)

    def placed(numbers: Tensor) -> Tensor:
        shape = (len(steps), longest, numbers.shape[1])
        if len(numbers) == len(steps) * longest:  # each already stands where it belongs
            return numbers.view(shape)
        empty = numbers.new_zeros(len(steps) * longest, numbers.shape[1])
        return empty.index_copy(0, places, numbers).view(shape)

    taken = steps if architecture.buffered else None
    return Unrolled(placed(done.hidden), placed(done.signals), taken), carried


def _projected(model: Transducer, ids: Tensor, noise: GateNoise) -> tuple[list[Tensor], Tensor]:
    """For each layer the sums over some inputs, and for each id [N] the index of its own.

    They are computed for every id or for every step, whichever are fewer.
    """
    every, each = torch.arange(model.inputs), torch.arange(len(ids))
    by_step = len(ids) <= model.inputs
    projected = [
        model.sums(layer, ids if by_step else every) for layer in model.controller.all_layers
    ]
    if noise is no_noise:
        return projected, each if by_step else ids
    if not by_step:
        projected = [functional.embedding(ids, sums) for sums in projected]
    return [noise(sums) for sums in projected], each


def _weights(
    model: Transducer, architecture: Architecture, projected: Sequence[Tensor], batch: int
) -> ModelWeights[Tensor]:
    layers = model.controller.all_layers
    nothing = model.classifier.weight.new_zeros(0, model.controller.hidden_size)

    def head(made: nn.Linear | None) -> tuple[Tensor, Tensor]:
        weight = made.weight if made else nothing
        bias = made.bias if made else None
        return weight, weight.new_zeros(len(weight)) if bias is None else bias

    operation = model.operation
    signals, signal_bias = head(operation.signals if operation else None)
    values, value_bias = head(operation.values if operation else None)
    return ModelWeights(
        architecture,
        torch.cat([*projected], dim=1) if projected[1:] else projected[0],
        torch.stack([torch.stack(layer.initial(batch)) for layer in layers]),
        torch.cat([signals, values]),
        torch.cat([signal_bias, value_bias]),
        [weight for layer in layers for weight in (layer.below_weight, layer.hidden_weight)],
        len(signals),
    )


def _places(rows: Sequence[int], lengths: Sequence[int], longest: int) -> Tensor:
    """Where the steps of some rows of a [B, longest] table stand, one row after the other."""
    taken = np.array([lengths[row] for row in rows], dtype=np.int64)
    starts = np.array(rows, dtype=np.int64) * longest - (taken.cumsum() - taken)
    return torch.from_numpy(np.repeat(starts, taken) + np.arange(taken.sum()))


def compiled_architecture(
    config: ModelConfig, memory: Memory[Any], weight: Tensor, kernel: str, hard: bool = False
) -> Architecture | None:
    """What compiled code has to run for a model; None if torch is to run it.

    `weight` is one of its weights, for their type and device.

    Raises:
        UsageError: compiled code is asked for and there is none.
    """
    if kernel == "torch":
        return None
    architecture = architecture_of(config, memory, hard) if can_run(weight) else None
    if architecture is None and kernel == "fused":
        raise UsageError(
            f"kernel: no fused one for {weight.dtype} on {weight.device.type} "
            f"with memory {config.memory.name} and controller {config.controller.name}; "
            "expected auto or torch"
        )
    return architecture


class _WithoutDrawing(TorchFunctionMode):
    """Leaves weights as they are made: to draw those on "meta", torch loads its compiler."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if getattr(func, "__module__", None) == nn.init.__name__:
            return (kwargs or {}).get("tensor", *args[:1])
        return func(*args, **(kwargs or {}))


def meta_transducer(config: ModelConfig, inputs: int, outputs: int) -> Transducer:
    """A transducer whose tensors have shapes alone, on torch's device "meta".

    Raises:
        UsageError: it is so large that its numbers can't be counted.
    """
    try:
        with torch.device("meta"), _WithoutDrawing():
            return Transducer(config, inputs, outputs)
    except RuntimeError as error:  # torch counts bytes in 64 bits
        raise UsageError("model: its sizes multiply to more than any machine holds") from error
