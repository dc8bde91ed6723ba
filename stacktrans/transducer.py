"""The transducer: embeddings, a controller, a memory that it operates, and a read-out.

grefenstette2015, section 3.3:

    (h_t, o'_t) = RNN([x_t ; r_{t-1}], h_{t-1})
    d_t = sigmoid(W_d o'_t + b_d)      u_t = sigmoid(W_u o'_t + b_u)
    v_t = tanh(W_v o'_t + b_v)         o_t = tanh(W_o o'_t + b_o)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, cast

import torch
from torch import Tensor, nn

from stacktrans.config import ModelConfig, StartConfig
from stacktrans.controllers import Controller, ControllerState, Disturbance, undisturbed
from stacktrans.errors import UsageError
from stacktrans.memory import MEMORIES, Memory, MemoryState


@dataclass(frozen=True, slots=True)
class TransducerState:
    """Everything that a transducer carries from one step to the next.

    Attributes:
        controller: the state of every layer.
        memory: what the memory holds; None without a memory.
        reads: [B, ends * m] the vectors read at the step before; [B, 0] without a memory.
    """

    controller: tuple[ControllerState, ...]
    memory: MemoryState | None
    reads: Tensor


class Unrolled(NamedTuple):
    """What came of running a transducer over T steps.

    Attributes:
        hidden: [B, T, H] the controller's outputs.
        signals: [B, T, len(signal_names)] push and pop strengths; [B, T, 0] without a memory.
    """

    hidden: Tensor
    signals: Tensor


class Run(Protocol):
    """A transducer at work on B sequences, a piece at a time, without gradients."""

    def step(self, inputs: Tensor) -> Unrolled:
        """The next T steps: ids [B, T]."""


class Operation(nn.Module):
    """How a controller operates a memory: the signals and values of each step.

    Args:
        memory: the memory operated.
        hidden_size: size of the controller's output.
        value_size: size m of a pushed vector.
        start: how the weights start.
    """

    def __init__(
        self, memory: Memory, hidden_size: int, value_size: int, start: StartConfig
    ) -> None:
        super().__init__()
        self.memory = memory
        self.value_size = value_size
        self.signals = nn.Linear(hidden_size, len(memory.signal_names))
        self.values = nn.Linear(hidden_size, len(memory.ends) * value_size)
        with torch.no_grad():
            self.signals.weight.mul_(start.signal_scale)
            self.values.weight.mul_(start.value_scale)
            for index, name in enumerate(memory.signal_names):
                bias = start.signal_bias.get(name, start.signal_bias.get(name.split()[0], 0.0))
                self.signals.bias[index] = bias

    @property
    def read_size(self) -> int:
        """Size of all the vectors read at a step together."""
        return len(self.memory.ends) * self.value_size

    def forward(self, hidden: Tensor, state: MemoryState) -> tuple[MemoryState, Tensor, Tensor]:
        """One step: [B, H] -> the next memory, the reads [B, ends * m], the signals."""
        signals = torch.sigmoid(self.signals(hidden))
        values = torch.tanh(self.values(hidden))
        state, reads = self.memory.step(
            state, signals, values.unflatten(1, (len(self.memory.ends), -1))
        )
        return state, reads.flatten(1), signals


class Transducer(nn.Module):
    """Reads a sequence of ids and says, at each step, what should come next.

    Without a memory the read-out sees the controller's output itself: the
    published parameter counts of the baselines leave no room for o_t.

    Args:
        config: the shape of the model.
        inputs: number of input ids.
        outputs: number of output ids.
        attempt: which of the configuration's starts, from 1.
    """

    def __init__(self, config: ModelConfig, inputs: int, outputs: int, attempt: int = 1) -> None:
        super().__init__()
        start = config.start_of(attempt)
        self.memory = config.memory
        self.kernel = config.kernel
        self.embedding = nn.Embedding(inputs, config.embedding_size)
        self.operation = (
            None
            if config.memory == "none"
            else Operation(MEMORIES[config.memory](), config.hidden_size, config.memory_size, start)
        )
        self.controller = Controller(
            config.controller,
            config.embedding_size,
            self.operation.read_size if self.operation else 0,
            config.hidden_size,
            config.layers,
            start.read_scale,
            start.gate_bias,
        )
        self.output = (
            nn.Sequential(nn.Linear(config.hidden_size, config.output_size), nn.Tanh())
            if self.operation
            else nn.Identity()
        )
        self.classifier = nn.Linear(
            config.output_size if self.operation else config.hidden_size, outputs
        )

    def initial(self, batch_size: int) -> TransducerState:
        """The state before the first step; memory and reads are zero and not learned."""
        weight = self.classifier.weight
        if self.operation is None:
            return TransducerState(
                self.controller.initial(batch_size), None, weight.new_zeros(batch_size, 0)
            )
        memory = self.operation.memory.initial(
            batch_size, self.operation.value_size, dtype=weight.dtype, device=weight.device
        )
        reads = weight.new_zeros(batch_size, self.operation.read_size)
        return TransducerState(self.controller.initial(batch_size), memory, reads)

    def unroll(
        self,
        inputs: Tensor,
        lengths: Sequence[int] | None = None,
        disturb: Disturbance = undisturbed,
    ) -> Unrolled:
        """Run over whole sequences, in compiled code where there is some.

        Args:
            inputs: [B, T] ids.
            lengths: how many steps of each item matter; all T unless given. What comes of
                the others may be anything, and has no gradient.
            disturb: what is done to the gates' sums over the inputs; only with gradients.
        """
        if torch.is_grad_enabled() and self.is_fused():
            lengths = lengths or [inputs.shape[1]] * inputs.shape[0]
            return self._unroll_fused(inputs, lengths, disturb)
        if torch.is_grad_enabled():
            return self.unroll_by_definition(inputs, disturb=disturb)[0]
        return self.start(inputs.shape[0]).step(inputs)

    def _unroll_fused(
        self, inputs: Tensor, lengths: Sequence[int], disturb: Disturbance
    ) -> Unrolled:
        from stacktrans.kernels import transducing

        longest_first = sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True)
        steps = inputs.shape[1]
        places = torch.cat(
            [torch.arange(row * steps, row * steps + lengths[row]) for row in longest_first]
        )
        done = transducing.sequence(
            self.memory,
            self.controller,
            [lengths[row] for row in longest_first],
            inputs.flatten()[places],
            self.embedding.weight,
            self._heads(),
            disturb,
        )

        def placed(numbers: Tensor) -> Tensor:
            if len(numbers) == inputs.numel():  # each already stands where it belongs
                return numbers.view(*inputs.shape, -1)
            empty = numbers.new_zeros(inputs.numel(), numbers.shape[1])
            return empty.index_copy(0, places, numbers).view(*inputs.shape, -1)

        return Unrolled(placed(done.hidden), placed(done.signals))

    def start(self, batch_size: int) -> "Run":
        """A run over `batch_size` sequences that goes on from call to call, without gradients."""
        return FusedRun(self, batch_size) if self.is_fused() else StepByStep(self, batch_size)

    def is_fused(self) -> bool:
        """Whether compiled code is what runs this model.

        Raises:
            UsageError: it is asked for and there is none.
        """
        if self.kernel == "torch":
            return False
        from stacktrans.kernels import transducing

        fits = transducing.fits(self.memory, self.controller, self.classifier.weight)
        if self.kernel == "fused" and not fits:
            weight = self.classifier.weight
            raise UsageError(
                f"kernel: there is no fused one for {weight.dtype} on {weight.device.type} "
                f"with memory {self.memory}; expected auto or torch"
            )
        return fits

    def _heads(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        if self.operation is None:
            nothing = self.classifier.weight.new_zeros(0, self.controller.hidden_size)
            return nothing, nothing[:, 0], nothing, nothing[:, 0]
        signals, values = self.operation.signals, self.operation.values
        return signals.weight, signals.bias, values.weight, values.bias

    def unroll_by_definition(
        self,
        inputs: Tensor,
        state: TransducerState | None = None,
        disturb: Disturbance = undisturbed,
    ) -> tuple[Unrolled, TransducerState]:
        """Run step by step in torch, on any device, and show the state after the last step.

        Args:
            inputs: [B, T] ids.
            state: where to go on; the initial state unless given.
            disturb: what is done to the gates' sums over the inputs.
        """
        state = state or self.initial(inputs.shape[0])
        controller, memory, reads = state.controller, state.memory, state.reads
        outputs: list[Tensor] = []
        operations: list[Tensor] = []
        for projected in self.controller.project(self.embedding(inputs), disturb):
            hidden, controller = self.controller.step(projected, reads, controller)
            outputs.append(hidden)
            if self.operation is not None and memory is not None:
                memory, reads, signals = self.operation(hidden, memory)
                operations.append(signals)
        hidden = torch.stack(outputs, dim=1)
        signals = torch.stack(operations, dim=1) if operations else hidden[..., :0]
        return Unrolled(hidden, signals), TransducerState(controller, memory, reads)

    def read_out(self, hidden: Tensor) -> Tensor:
        """Logits [..., outputs] from the controller's outputs [..., H]."""
        return cast(Tensor, self.classifier(self.output(hidden)))

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits [B, T, outputs] for ids [B, T]."""
        return self.read_out(self.unroll(inputs).hidden)

    def inner_parameters(self) -> int:
        """Weights and biases without embeddings and softmax, as grefenstette2015 counts them."""
        outside = ("embedding.", "classifier.")
        return sum(
            weight.numel()
            for name, weight in self.named_parameters()
            if not name.startswith(outside) and not name.endswith("initial_state")
        )


class StepByStep:
    """A run in torch; see `Run`."""

    def __init__(self, model: Transducer, batch_size: int) -> None:
        self._model = model
        self._state = model.initial(batch_size)

    @torch.no_grad()
    def step(self, inputs: Tensor) -> Unrolled:
        """The next T steps: ids [B, T]."""
        unrolled, self._state = self._model.unroll_by_definition(inputs, self._state)
        return unrolled


class FusedRun:
    """A run in compiled code; see `Run`."""

    def __init__(self, model: Transducer, batch_size: int) -> None:
        from stacktrans.kernels import transducing

        embedded = model.embedding.weight
        heads = model._heads()
        self._run = transducing.Run(model.memory, model.controller, batch_size, embedded, heads)

    @torch.no_grad()
    def step(self, inputs: Tensor) -> Unrolled:
        """The next T steps: ids [B, T]."""
        done = self._run.step(inputs)
        return Unrolled(done.hidden, done.signals)
