"""The transducer: embeddings, a controller, a memory that it operates, and a read-out.

grefenstette2015, section 3.3:

    (h_t, o'_t) = RNN([x_t ; r_{t-1}], h_{t-1})
    d_t = sigmoid(W_d o'_t + b_d)      u_t = sigmoid(W_u o'_t + b_u)
    v_t = tanh(W_v o'_t + b_v)         o_t = tanh(W_o o'_t + b_o)
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from stacktrans.common.errors import StacktransError, UsageError
from stacktrans.common.registry import CONTROLLERS
from stacktrans.memory import Memory, MemoryState, make_memory
from stacktrans.memory.buffers import filled, popped, read_weights, writing_steps, written_weights
from stacktrans.model.controllers import Controller, Disturbance, Layer, draw_weights, undisturbed
from stacktrans.model.embeddings import Learned, OneHot
from stacktrans.model.states import Carried, CarriedByDefinition, Run, TransducerState, Unrolled
from stacktrans.settings.config import BUFFER_SIGNALS, ModelConfig, StartConfig

if TYPE_CHECKING:
    from stacktrans.kernels.autograd import Kind

SYMBOLS_AT_ONCE = 256
"""Symbols of an answer that are read from the output buffer at once."""


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
        self.signal_names = (*memory.signal_names, *(BUFFER_SIGNALS if config.buffers else ()))
        self.squash = torch.sigmoid if config.value_nonlinearity == "sigmoid" else torch.tanh
        self.signals = nn.Linear(hidden_size, len(self.signal_names), config.controller.biases)
        self.value_size = config.memory_size
        pushed = memory.pushes * config.memory_size
        self.values = nn.Linear(hidden_size, pushed, config.controller.biases) if pushed else None

    def start_as(self, start: StartConfig) -> None:
        """Scale the weights, and set the biases of the signals."""
        with torch.no_grad():
            self.signals.weight.mul_(start.scale.signals)
            if self.values is not None:
                self.values.weight.mul_(start.scale.values)
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

    Attributes:
        memory: what is operated.
        operation: None for a model with neither signals nor buffers.
        hard: whether signals are made 0 or 1, as `Memory.hard` does; there are no gradients then.
    """

    def __init__(self, config: ModelConfig, inputs: int, outputs: int) -> None:
        super().__init__()
        start = config.start
        self.config = config
        self.kernel = config.kernel
        self.hard = False
        self._kinds: dict[Any, Kind | None] = {}
        one_hot = config.embedding_size == "one-hot"
        embedded = inputs if one_hot else int(config.embedding_size)
        self.embedding = OneHot(inputs) if one_hot else Learned(inputs, embedded)
        self.memory = memory = make_memory(config)
        self.read_size = memory.reads * config.memory_size
        layer: type[Layer] = CONTROLLERS.load(config.controller.name)
        size = layer.size_in(config, embedded, self.read_size)
        operated = memory.signal_names or config.buffers
        self.operation = Operation(memory, size, config) if operated else None
        self.controller = Controller(config, embedded, self.read_size, start)
        shown = config.output_size if memory.reads else None
        self.output = (
            nn.Sequential(nn.Linear(size, shown, config.controller.biases), nn.Tanh())
            if shown
            else nn.Identity()
        )
        self.classifier = nn.Linear(shown or size, outputs, config.controller.biases)
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
        if not self.config.buffers and (self.hard or not torch.is_grad_enabled()):
            return self.start(inputs.shape[0]).step(inputs)
        if kind := self._kind():
            from stacktrans.model import fused

            return fused.unroll(self, kind, inputs, lengths, disturb)
        if self.config.buffers:
            return self.unroll_buffered_by_definition(inputs, lengths)[0]
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
        self.memory.check_carries()
        if kind := self._kind():
            from stacktrans.model import fused

            return fused.piece(self, kind, inputs, state, disturb)
        return self._piece_by_definition(inputs, state, disturb)

    def _refuse_buffers(self) -> None:
        if self.config.buffers:
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

    def steps_over(self, length: int) -> int:
        """How many steps are taken over an input of `length` symbols."""
        buffers = self.config.buffers
        return buffers.steps_per_symbol * length + buffers.extra_steps if buffers else length

    def start(self, batch_size: int) -> "Run":
        """A run over `batch_size` sequences that goes on from call to call, without gradients.

        Raises:
            UsageError: the model has buffers.
        """
        self._refuse_buffers()
        if kind := self._kind():
            from stacktrans.model import fused

            return fused.FusedRun(self, kind, batch_size)
        return StepByStep(self, batch_size)

    def is_fused(self) -> bool:
        """Whether compiled code is what runs this model.

        Raises:
            UsageError: it is asked for and there is none.
        """
        return self._kind() is not None

    def _kind(self) -> "Kind | None":
        weight = self.classifier.weight
        key = (self.memory, self.kernel, self.hard, weight.device, weight.dtype)
        if key not in self._kinds:
            self._kinds[key] = kind_of(self.config, self.memory, weight, self.kernel, self.hard)
        return self._kinds[key]

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
            strengths = strengths * (
                torch.arange(strengths.shape[1], device=strengths.device) < last
            )
        return torch.relu(strengths.cumsum(dim=1) - skipped)

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


def kind_of(
    config: ModelConfig, memory: Memory[Any], weight: Tensor, kernel: str, hard: bool = False
) -> "Kind | None":
    """What compiled code is to run for a model; None if torch is to run it.

    Args:
        config: the shape of the model.
        memory: its memory.
        weight: one of its weights.
        kernel: what is asked for, as `ModelConfig.kernel`.
        hard: whether signals are made 0 or 1.

    Raises:
        UsageError: compiled code is asked for and there is none.
    """
    if kernel == "torch":
        return None
    from stacktrans.model import fused

    kind = fused.kind_of(config, memory, weight, hard)
    if kind is None and kernel == "fused":
        raise UsageError(
            f"kernel: there is no fused one for {weight.dtype} on {weight.device.type} "
            f"with memory {config.memory.name} and controller {config.controller.name}; "
            "expected auto or torch"
        )
    return kind


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
