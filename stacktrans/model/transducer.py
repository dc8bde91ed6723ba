"""The transducer: embeddings, a controller, a memory that it operates, and a read-out.

grefenstette2015, section 3.3:

    (h_t, o'_t) = RNN([x_t ; r_{t-1}], h_{t-1})
    d_t = sigmoid(W_d o'_t + b_d)      u_t = sigmoid(W_u o'_t + b_u)
    v_t = tanh(W_v o'_t + b_v)         o_t = tanh(W_o o'_t + b_o)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from stacktrans.common.errors import StacktransError, UsageError
from stacktrans.common.registry import CONTROLLERS
from stacktrans.memory import Memory, MemoryState, make_memory
from stacktrans.memory.buffers import (
    filled,
    popped,
    read_weights,
    writing_steps,
    written_weights,
)
from stacktrans.model.controllers import (
    Controller,
    ControllerState,
    Disturbance,
    Layer,
    draw_weights,
    undisturbed,
)
from stacktrans.model.embeddings import Learned, OneHot
from stacktrans.settings.config import BUFFER_SIGNALS, ModelConfig, StartConfig

if TYPE_CHECKING:
    from stacktrans.kernels.fused import Kind

SYMBOLS_AT_ONCE = 256
"""Symbols of an answer that are read from the output buffer at once."""


@dataclass(frozen=True, slots=True)
class TransducerState:
    """Everything that a transducer carries from one step to the next.

    Attributes:
        controller: the state of every layer.
        memory: what the memory holds.
        reads: [B, reads * m] the vectors read at the step before; [B, 0] without a memory.
    """

    controller: tuple[ControllerState, ...]
    memory: MemoryState
    reads: Tensor


class Unrolled(NamedTuple):
    """What came of running a transducer over T steps.

    Attributes:
        hidden: [B, T, H] the controller's outputs.
        signals: [B, T, len(signal_names)] strengths of each signal.
        steps: how many of the T each item took; None for all.
    """

    hidden: Tensor
    signals: Tensor
    steps: list[int] | None = None


class Run(Protocol):
    """A transducer at work on B sequences, a piece at a time, without gradients."""

    def step(self, inputs: Tensor) -> Unrolled:
        """The next T steps: ids [B, T]."""


class Carried(Protocol):
    """What B sequences carry from one piece to the next, as constants."""

    def restarted(self, items: Tensor) -> Self:
        """The same, but some of them, [B] bool, begin anew."""


class Operation(nn.Module):
    """How a controller operates a memory and buffers: the signals and values of each step.

    Args:
        memory: the memory operated.
        hidden_size: size of the controller's output.
        config: the shape of the model.

    Attributes:
        signal_names: of the memory's signals, and then of those of the buffers.
        squash: what values go through.
        values: what makes the values; None where nothing is pushed.
    """

    def __init__(self, memory: Memory[Any], hidden_size: int, config: ModelConfig) -> None:
        super().__init__()
        self.memory = memory
        self.signal_names = (
            *memory.signal_names,
            *(BUFFER_SIGNALS if config.buffered else ()),
        )
        self.squash = torch.sigmoid if config.value_nonlinearity == "sigmoid" else torch.tanh
        self.signals = nn.Linear(hidden_size, len(self.signal_names), config.biases)
        self.value_size = config.memory_size
        pushed = memory.pushes * config.memory_size
        self.values = nn.Linear(hidden_size, pushed, config.biases) if pushed else None

    def start_as(self, start: StartConfig) -> None:
        """Scale the weights, and set the biases of the signals."""
        with torch.no_grad():
            self.signals.weight.mul_(start.signal_scale)
            if self.values is not None:
                self.values.weight.mul_(start.value_scale)
            for index, name in enumerate(
                self.signal_names if self.signals.bias is not None else ()
            ):
                bias = start.signal_bias.get(name, start.signal_bias.get(name.split()[0], 0.0))
                self.signals.bias[index] = bias

    def forward(
        self, hidden: Tensor, state: MemoryState, hard: bool = False
    ) -> tuple[MemoryState, Tensor, Tensor]:
        """One step: [B, H] -> the next memory, the reads [B, reads * m], the signals.

        With `hard`, the signals are made 0 or 1 before they are used.

        Raises:
            StacktransError: the memory reads other vectors than it says.
        """
        signals = self._signals(self.signals(hidden), hard)
        own = signals[:, : len(self.memory.signal_names)]
        state, reads = self.memory.step(state, own, self.pushed(hidden))
        expected = (len(hidden), self.memory.reads, self.value_size)
        if reads.shape != expected:
            what = f"memory {self.memory.name}: read {tuple(reads.shape)}"
            raise StacktransError(f"{what}; expected {expected}")
        return state, reads.flatten(1), signals

    def pushed(self, hidden: Tensor) -> Tensor:
        """The vectors that are pushed: [..., H] -> [..., pushes, m]."""
        if self.values is None:
            return hidden.new_zeros(*hidden.shape[:-1], 0, self.value_size)
        vectors: Tensor = self.squash(self.values(hidden))
        by_push: Tensor = vectors.unflatten(-1, (self.memory.pushes, -1))
        return by_push

    def _signals(self, sums: Tensor, hard: bool) -> Tensor:
        """The signals of the memory, and then those of the buffers, from their sums."""
        own = len(self.memory.signal_names)
        of_buffers = torch.sigmoid(sums[:, own:])
        signals = self.memory.signals(sums[:, :own])
        if hard:
            signals, of_buffers = self.memory.hard(signals), of_buffers.round()
        return torch.cat([signals, of_buffers], dim=1) if of_buffers.shape[1] else signals


class Transducer(nn.Module):
    """Reads a sequence of ids and says, at each step, what should come next.

    Without a memory the read-out sees the controller's output itself: the
    published parameter counts of the baselines leave no room for o_t.

    Args:
        config: the shape of the model.
        inputs: number of input ids.
        outputs: number of output ids.
        attempt: which of the configuration's starts, from 1.

    Attributes:
        memory: what is operated.
        operation: None for a model with neither signals nor buffers.
        hard: whether signals are made 0 or 1, as `Memory.hard` does; there are no gradients then.
    """

    def __init__(self, config: ModelConfig, inputs: int, outputs: int, attempt: int = 1) -> None:
        super().__init__()
        start = config.start_of(attempt)
        self.config = config
        self.kernel = config.kernel
        self.hard = False
        one_hot = config.embedding_size == "one-hot"
        embedded = inputs if one_hot else int(config.embedding_size)
        self.embedding = OneHot(inputs) if one_hot else Learned(inputs, embedded)
        self.memory = memory = make_memory(config)
        self.read_size = memory.reads * config.memory_size
        layer: type[Layer] = CONTROLLERS.load(config.controller)
        size = layer.size_in(config, embedded, self.read_size)
        operated = memory.signal_names or config.buffered
        self.operation = Operation(memory, size, config) if operated else None
        self.controller = Controller(config, embedded, self.read_size, start)
        shown = config.output_size if memory.reads else None
        self.output = (
            nn.Sequential(nn.Linear(size, shown, config.biases), nn.Tanh())
            if shown
            else nn.Identity()
        )
        self.classifier = nn.Linear(shown or size, outputs, config.biases)
        if start.weights == "normal":
            self._draw_heads()
        if self.operation:
            self.operation.start_as(start)

    def _draw_heads(self) -> None:
        """Draw what is linear in the controller's output as the rows of a single matrix."""
        outputs = self.output[0] if isinstance(self.output, nn.Sequential) else self.classifier
        operations = [self.operation.signals, self.operation.values] if self.operation else []
        heads = [head for head in (*operations, outputs) if isinstance(head, nn.Linear)]
        rows = sum(len(head.weight) for head in heads)
        draw_weights("normal", [head.weight for head in heads], torch.zeros(rows), 0)
        for head in heads:
            if head.bias is not None:
                nn.init.zeros_(head.bias)

    @property
    def signal_names(self) -> tuple[str, ...]:
        """Names of the signals."""
        return self.operation.signal_names if self.operation else ()

    def initial(self, batch_size: int) -> TransducerState:
        """The state before the first step; memory and reads are those of an empty one."""
        weight = self.classifier.weight
        size = self.config.memory_size
        state = self.memory.initial(batch_size, size, weight)
        reads = self.memory.initial_reads(batch_size, size, weight).flatten(1)
        return TransducerState(self.controller.initial(batch_size), state, reads)

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

        Raises:
            ValueError: the lengths are not those of B items of up to T.
        """
        count, longest = inputs.shape
        lengths = [longest] * count if lengths is None else lengths
        if len(lengths) != count or not all(0 <= length <= longest for length in lengths):
            raise ValueError(f"lengths of {count} items, 0 to {longest} each, are not {lengths}")
        if self.config.buffered:
            if self.is_fused():
                return self._unroll_fused(inputs, lengths, disturb)
            return self.unroll_buffered_by_definition(inputs, lengths)[0]
        if self.hard or not torch.is_grad_enabled():
            return self.start(inputs.shape[0]).step(inputs)
        if self.is_fused():
            return self._unroll_fused(inputs, lengths, disturb)
        return self.unroll_by_definition(inputs, disturb=disturb)[0]

    def unroll_piece(
        self, inputs: Tensor, state: Carried | None = None, disturb: Disturbance = undisturbed
    ) -> tuple[Unrolled, Carried]:
        """Run over a piece of sequences, in compiled code where there is some.

        Gradients go back to the start of the piece, and no further.

        Args:
            inputs: [B, T] ids.
            state: what the piece before gave back; None for the first.
            disturb: what is done to the gates' sums over the inputs.

        Returns:
            What came of it, and what is carried to the next piece.

        Raises:
            UsageError: the model has buffers, or a memory that can't be carried.
        """
        self._refuse_buffers()
        if not self.is_fused():
            return self._piece_by_definition(inputs, state, disturb)
        from stacktrans.kernels.carrying import Carried as CarriedByKernel
        from stacktrans.model import fused

        assert state is None or isinstance(state, CarriedByKernel)
        done, carried = fused.piece(
            self._kind(),
            self.controller,
            inputs,
            self.embedding,
            self._heads(),
            disturb,
            state,
        )
        hidden, signals = (part.unflatten(0, inputs.shape) for part in done[:2])
        return Unrolled(hidden, signals), carried

    def _refuse_buffers(self) -> None:
        if self.config.buffered:
            raise UsageError("a buffered model can't go on from piece to piece")

    def _piece_by_definition(
        self, inputs: Tensor, state: Carried | None, disturb: Disturbance
    ) -> tuple[Unrolled, Carried]:
        assert state is None or isinstance(state, CarriedByDefinition)
        before = self._going_on(state.state, state.new) if state else None
        unrolled, after = self.unroll_by_definition(inputs, before, disturb)
        none = torch.zeros(len(inputs), dtype=torch.bool, device=inputs.device)
        with torch.no_grad():
            return unrolled, CarriedByDefinition(self._going_on(after, none), none)

    def _going_on(self, state: TransducerState, new: Tensor) -> TransducerState:
        """A state as constants, and the initial one of sequences, [B], that begin anew."""
        first = self.initial(len(new))

        def chosen(begun: Tensor, other: Tensor) -> Tensor:
            return torch.where(new.unsqueeze(1), begun, other.detach())

        return TransducerState(
            tuple(
                tuple(map(chosen, begun, other))
                for begun, other in zip(first.controller, state.controller, strict=True)
            ),
            self.memory.carried(state.memory, new),
            chosen(first.reads, state.reads),
        )

    def _unroll_fused(
        self,
        inputs: Tensor,
        lengths: Sequence[int],
        disturb: Disturbance,
    ) -> Unrolled:
        from stacktrans.model import fused

        longest_first = sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True)
        steps = [self.steps_over(length) for length in lengths]
        done = fused.sequence(
            self._kind(),
            self.controller,
            [lengths[row] for row in longest_first],
            [steps[row] for row in longest_first],
            inputs.flatten()[_places(longest_first, lengths, inputs.shape[1])],
            self.embedding,
            self._heads(),
            disturb,
        )
        longest = self.steps_over(inputs.shape[1])
        places = _places(longest_first, steps, longest)

        def placed(numbers: Tensor) -> Tensor:
            shape = (len(steps), longest, numbers.shape[1])
            if len(numbers) == len(steps) * longest:  # each already stands where it belongs
                return numbers.view(shape)
            empty = numbers.new_zeros(len(steps) * longest, numbers.shape[1])
            return empty.index_copy(0, places, numbers).view(shape)

        taken = steps if self.config.buffered else None
        return Unrolled(placed(done.hidden), placed(done.signals), taken)

    def steps_over(self, length: int) -> int:
        """How many steps are taken over an input of `length` symbols."""
        config = self.config
        return config.steps_per_symbol * length + config.extra_steps if config.buffered else length

    def start(self, batch_size: int) -> "Run":
        """A run over `batch_size` sequences that goes on from call to call, without gradients.

        Raises:
            UsageError: the model has buffers.
        """
        self._refuse_buffers()
        kind = FusedRun if self.is_fused() else StepByStep
        return kind(self, batch_size)

    def is_fused(self) -> bool:
        """Whether compiled code is what runs this model.

        Raises:
            UsageError: it is asked for and there is none.
        """
        asked = self.config.model_copy(update={"kernel": self.kernel})
        return has_kernel(asked, self.classifier.weight)

    def _kind(self) -> "Kind":
        from stacktrans.model.fused import kind_of

        return kind_of(self.config, self.hard)

    def _heads(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        nothing = self.classifier.weight.new_zeros(0, self.controller.hidden_size)
        if self.operation is None:
            return nothing, nothing[:, 0], nothing, nothing[:, 0]
        signals, values = self.operation.signals, self.operation.values
        if values is None:
            return signals.weight, _bias_of(signals), nothing, nothing[:, 0]
        return signals.weight, _bias_of(signals), values.weight, _bias_of(values)

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
        done: list[tuple[Tensor, Tensor]] = []
        for projected in self.controller.project(
            lambda layer: self.embedding.sums(layer, inputs), disturb
        ):
            *step, state = self._step(projected, state)
            done.append((step[0], step[1]))
        hidden, signals = (torch.stack(parts, dim=1) for parts in zip(*done, strict=True))
        return Unrolled(hidden, signals), state

    def unroll_buffered_by_definition(
        self, inputs: Tensor, lengths: Sequence[int]
    ) -> tuple[Unrolled, list[TransducerState], Tensor]:
        """Run a buffered model step by step in torch, on any device.

        Args:
            inputs: [B, T] ids.
            lengths: how many of the ids are the input of each item.

        Returns:
            What came of it; the state after each step; and how much of each input symbol was
            read at each step, [B, steps, T].
        """
        state = self.initial(inputs.shape[0])
        embedded = self.embedding(inputs)
        buffer = filled(torch.tensor(lengths, device=inputs.device), inputs.shape[1])
        buffer = buffer.to(embedded.dtype)
        read = embedded.new_zeros(inputs.shape[0])
        done: list[tuple[Tensor, Tensor, Tensor]] = []
        states: list[TransducerState] = []
        for _ in range(self.steps_over(inputs.shape[1])):
            buffer = popped(buffer, read)
            weights = read_weights(buffer)
            seen = torch.bmm(weights.unsqueeze(1), embedded)
            hidden, signals, state = self._step(self._projected(seen), state)
            read = signals[:, -2]
            done.append((hidden, signals, weights))
            states.append(state)
        hidden, signals, weights = (torch.stack(parts, dim=1) for parts in zip(*done, strict=True))
        steps = [self.steps_over(length) for length in lengths]
        return Unrolled(hidden, signals, steps), states, weights

    def _projected(self, seen: Tensor) -> tuple[Tensor, ...]:
        """Every layer's sums over what is seen of the input at one step, [B, 1, E]."""
        return self.controller.project(lambda layer: layer.project(seen))[0]

    def _step(
        self, projected: tuple[Tensor, ...], state: TransducerState
    ) -> tuple[Tensor, Tensor, TransducerState]:
        """One step: the controller's output [B, H], the signals, and the next state."""
        memory, reads = state.memory, state.reads
        hidden, controller = self.controller.step(projected, reads, state.controller)
        signals = hidden[:, :0]
        if self.operation is not None:
            memory, reads, signals = self.operation(hidden, memory, self.hard)
        return hidden, signals, TransducerState(controller, memory, reads)

    def logits(self, unrolled: Unrolled, mask: Tensor) -> Tensor:
        """What is said of each symbol of the target.

        Args:
            unrolled: what came of running the model.
            mask: [B, T] which symbols are asked for, n in all.

        Returns:
            [n, outputs].
        """
        if not self.config.buffered:
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
        if unrolled.steps is not None:
            last = torch.tensor(unrolled.steps, device=strengths.device).unsqueeze(1)
            strengths = strengths * (
                torch.arange(strengths.shape[1], device=strengths.device) < last
            )
        return torch.relu(strengths.cumsum(dim=1) - self.config.output_skip)

    def read_out(self, hidden: Tensor) -> Tensor:
        """Logits [..., outputs] from the controller's outputs [..., H]."""
        return cast(Tensor, self.classifier(self.output(hidden)))

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits [B, T, outputs] for ids [B, T]."""
        everything = torch.ones_like(inputs, dtype=torch.bool)
        return self.logits(self.unroll(inputs), everything).view(*inputs.shape, -1)

    def inner_parameters(self) -> int:
        """Weights and biases without embeddings and softmax, as grefenstette2015 counts them."""
        outside = ("embedding.", "classifier.")
        return sum(
            weight.numel()
            for name, weight in self.named_parameters()
            if not name.startswith(outside) and not name.endswith("initial_state")
        )


def has_kernel(config: ModelConfig, weight: Tensor) -> bool:
    """Whether compiled code is what runs a model with weights such as this one.

    Raises:
        UsageError: it is asked for and there is none.
    """
    if config.kernel == "torch":
        return False
    from stacktrans.model import fused

    fits = fused.fits(config, weight)
    if config.kernel == "fused" and not fits:
        raise UsageError(
            f"kernel: there is no fused one for {weight.dtype} on {weight.device.type} "
            f"with memory {config.memory}; expected auto or torch"
        )
    return fits


Shapes = dict[str, tuple[int, ...]]
"""Of tensors, by their names."""


class _WithoutDrawing(TorchFunctionMode):
    """Leaves weights as they are made: to draw those without numbers, torch loads its compiler."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if getattr(func, "__module__", None) == nn.init.__name__:
            return (kwargs or {}).get("tensor", *args[:1])
        return func(*args, **(kwargs or {}))


def weight_shapes(config: ModelConfig, inputs: int, outputs: int) -> Shapes:
    """The shapes of what a transducer saves as its state; arguments are those of `Transducer`."""
    weights = without_numbers(config, inputs, outputs).state_dict()
    return {name: tuple(weight.shape) for name, weight in weights.items()}


def without_numbers(config: ModelConfig, inputs: int, outputs: int) -> Transducer:
    """A transducer whose tensors have shapes alone: nothing is held, however large it is.

    Arguments are those of `Transducer`.

    Raises:
        UsageError: it is so large that its numbers can't be counted.
    """
    try:
        with torch.device("meta"), _WithoutDrawing():
            return Transducer(config, inputs, outputs)
    except RuntimeError as error:  # torch counts bytes in 64 bits
        raise UsageError("model: its sizes multiply to more than any machine holds") from error


def _bias_of(head: nn.Linear) -> Tensor:
    return head.weight.new_zeros(len(head.weight)) if head.bias is None else head.bias


def _places(rows: Sequence[int], lengths: Sequence[int], longest: int) -> Tensor:
    """Where the steps of some rows of a [B, longest] table stand, one row after the other."""
    taken = np.array([lengths[row] for row in rows], dtype=np.int64)
    starts = np.array(rows, dtype=np.int64) * longest - (taken.cumsum() - taken)
    return torch.from_numpy(np.repeat(starts, taken) + np.arange(taken.sum()))


@dataclass(frozen=True, slots=True, eq=False)
class CarriedByDefinition:
    """What is carried in torch; see `Carried`.

    Attributes:
        state: after the last step.
        new: [B] which of the sequences begin anew.
    """

    state: TransducerState
    new: Tensor

    def restarted(self, items: Tensor) -> "CarriedByDefinition":
        """The same, but some of them, [B] bool, begin anew."""
        return replace(self, new=self.new | items)


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
        from stacktrans.model import fused

        heads = model._heads()
        self._run = fused.Run(model._kind(), model.controller, batch_size, model.embedding, heads)

    @torch.no_grad()
    def step(self, inputs: Tensor) -> Unrolled:
        """The next T steps: ids [B, T]."""
        done = self._run.step(inputs)
        return Unrolled(done.hidden, done.signals)
