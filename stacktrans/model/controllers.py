"""Controllers in torch: recurrent and linear layers, and the maps to signals and pushed vectors.

The input of a controller at each step is [x_t ; r_{t-1}]: the embedding of a symbol, and the
vectors read from the memory at the step before (grefenstette2015, section 3.3). `project` computes
the part of its sums that depends on x_t alone, for a whole sequence at once; `step` adds the rest.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from stacktrans.common.errors import StacktransError
from stacktrans.common.registry import CONTROLLERS
from stacktrans.memory import Memory, MemoryState
from stacktrans.model.units import GRU, LSTM, RNN, Linear, SecondOrder, Sigmoid, Units
from stacktrans.model.weights import operation_sizes, signal_names
from stacktrans.settings.model_config import InitializationConfig, ModelConfig

ControllerState = tuple[Tensor, ...]


@dataclass(frozen=True)
class Noise:
    """Normal noise in a batch of training.

    Attributes:
        gates: standard deviation of the noise added to the part of the gates' pre-activations that
            depends on x alone.
        signals: standard deviation of the noise added to the pre-activations of signals.
        generator: of random numbers on the CPU; None for that of torch.
    """

    gates: float = 0.0
    signals: float = 0.0
    generator: torch.Generator | None = None

    def on_gates(self, layer: "Layer", sums: Tensor) -> Tensor:
        """`Layer.project` with noise on the pre-activations of gates."""
        gates = len(layer.gates) * layer.hidden_size
        noisy = self._noisy(sums[..., :gates], self.gates)
        # A second-order layer also has weights in it, on its state.
        return noisy if gates == sums.shape[-1] else torch.cat([noisy, sums[..., gates:]], dim=-1)

    def on_signals(self, sums: Tensor) -> Tensor:
        """Pre-activations of signals with noise."""
        return self._noisy(sums, self.signals)

    def _noisy(self, sums: Tensor, deviation: float) -> Tensor:
        if not deviation:
            return sums
        # Drawn on the CPU, so that it is the same on every accelerator.
        noise = torch.randn(sums.shape, generator=self.generator, dtype=sums.dtype)
        return sums + deviation * noise.to(sums.device)


NO_NOISE = Noise()


class Layer(nn.Module, Units, ABC):
    """One layer of a controller, which updates its state at each step.

    Args:
        config: of the model.
        embedding_size: size of x_t.
        below_size: size of the output of the layer below, or of the vectors read; may be 0.

    Attributes:
        hidden_size: number of units H.
        below_weight: [gates * H, below_size].
        hidden_weight: [gates * H, H].
        initial_state: [states, H].
    """

    below_weight: Tensor
    hidden_weight: Tensor
    initial_state: Tensor

    def __init__(self, config: ModelConfig, embedding_size: int, below_size: int) -> None:
        super().__init__()
        self.hidden_size = self.hidden_size_for(config, embedding_size, below_size)

    @classmethod
    def torch_layer(cls) -> type["Layer"]:
        """The class itself; see `Units.torch_layer`."""
        return cls

    def initial(self, batch_size: int) -> ControllerState:
        """The initial state, `states` tensors [B, H]."""
        return tuple(state.expand(batch_size, -1) for state in self.initial_state)

    @abstractmethod
    def project(self, inputs: Tensor) -> Tensor:
        """The part of the gates' pre-activations that depends on x alone.

        [..., E] -> [..., gates * H].
        """

    @abstractmethod
    def project_ids(self, ids: Tensor) -> Tensor:
        """`project` of one-hot vectors, by their ids: [...] -> [..., gates * H]."""

    def recurrence(self, projected: Tensor) -> tuple[Tensor, Tensor]:
        """The sums in `projected`, n rows of `project`, and the weights on the hidden state.

        They are [n, gates * H] and [1, gates * H, H]; of second-order units, the latter are
        [n, gates * H, H].
        """
        return projected, self.hidden_weight.unsqueeze(0)

    @abstractmethod
    def step(self, projected: Tensor, below: Tensor, state: ControllerState) -> ControllerState:
        """The next state, `states` tensors [B, H], the first of which is the output.

        `projected` is one step of `project`, [B, gates * H]; `below` is [B, below_size].
        """


class LinearLayer(Layer, Linear):
    """A layer without units, whose output is its input."""

    def __init__(self, config: ModelConfig, embedding_size: int, below_size: int) -> None:
        super().__init__(config, embedding_size, below_size)
        size = self.hidden_size
        below_weight = torch.zeros(size, size - embedding_size)
        # Not `eye`, for which torch loads its compiler on "meta".
        below_weight[embedding_size:].fill_diagonal_(1)
        self.register_buffer("below_weight", below_weight, persistent=False)
        self.register_buffer("hidden_weight", torch.zeros(size, size), persistent=False)
        self.register_buffer("initial_state", torch.zeros(1, size), persistent=False)

    def project(self, inputs: Tensor) -> Tensor:
        return nn.functional.pad(inputs, (0, self.hidden_size - inputs.shape[-1]))

    def project_ids(self, ids: Tensor) -> Tensor:
        return nn.functional.one_hot(ids, self.hidden_size).to(self.below_weight.dtype)

    def step(self, projected: Tensor, below: Tensor, state: ControllerState) -> ControllerState:
        return (torch.addmm(projected, below, self.below_weight.t()),)


class RecurrentLayer(Layer):
    """A layer of recurrent units with gates."""

    input_weight: nn.Parameter
    bias: Tensor

    def __init__(self, config: ModelConfig, embedding_size: int, below_size: int) -> None:
        super().__init__(config, embedding_size, below_size)
        initial, units, hidden_size = config.initialization, config.units, self.hidden_size
        rows = len(self.gates) * hidden_size
        zeros = {"hidden_weight": torch.zeros(rows, hidden_size), "bias": torch.zeros(rows)}
        for name, shape in self.shapes(config, embedding_size, below_size).items():
            self.register_parameter(name, nn.Parameter(torch.zeros(shape)))
            zeros.pop(name, None)
        for name, constant in zeros.items():
            self.register_buffer(name, constant, persistent=False)
        self.initial_state.requires_grad_(units.initial_state == "learned")
        weights = (self.input_weight, self.below_weight, self.hidden_weight)
        learned_weights = [weight for weight in weights if isinstance(weight, nn.Parameter)]
        if initial.weights == "normal":
            for weight in learned_weights:
                nn.init.normal_(weight, std=rows**-0.5)
        else:
            for drawn in (*learned_weights, self.bias):
                nn.init.uniform_(drawn, -(hidden_size**-0.5), hidden_size**-0.5)
        if not units.biases:
            nn.init.zeros_(self.bias)
            return
        with torch.no_grad():
            for name, bias in zip(self.gates, self.bias.split(hidden_size), strict=True):
                bias.add_(initial.gate_bias.get(name, 0.0))

    def project(self, inputs: Tensor) -> Tensor:
        return nn.functional.linear(inputs, self.input_weight, self.bias)

    def project_ids(self, ids: Tensor) -> Tensor:
        return nn.functional.embedding(ids, self.input_weight.t()) + self.bias

    def _sums(self, projected: Tensor, below: Tensor, hidden: Tensor) -> Tensor:
        """The gates' pre-activations from all inputs of a layer, [B, gates * H]."""
        weight = torch.cat([self.below_weight, self.hidden_weight], dim=1)
        return torch.addmm(projected, torch.cat([below, hidden], dim=1), weight.t())


class LSTMLayer(RecurrentLayer, LSTM):
    """A layer of long short-term memory."""

    def step(self, projected: Tensor, below: Tensor, state: ControllerState) -> ControllerState:
        hidden, cell = state
        sums, size = self._sums(projected, below, hidden), self.hidden_size
        gates = torch.sigmoid(sums[:, : 3 * size])
        input_gate, forget_gate, output_gate = gates.split(size, dim=1)
        cell = forget_gate * cell + input_gate * torch.tanh(sums[:, 3 * size :])
        return output_gate * torch.tanh(cell), cell


class GRULayer(RecurrentLayer, GRU):
    """A layer of gated recurrent units."""

    def step(self, projected: Tensor, below: Tensor, state: ControllerState) -> ControllerState:
        (hidden,) = state
        outer = torch.addmm(projected, below, self.below_weight.t())
        inner = hidden @ self.hidden_weight.t()
        size = self.hidden_size
        gates = torch.sigmoid(outer[:, : 2 * size] + inner[:, : 2 * size])
        reset, update = gates.split(size, dim=1)
        candidate = torch.tanh(outer[:, 2 * size :] + reset * inner[:, 2 * size :])
        return (candidate + update * (hidden - candidate),)


class RNNLayer(RecurrentLayer, RNN):
    """A layer of simple recurrent units (Elman) with tanh, or another function of their sums."""

    nonlinearity: Callable[[Tensor], Tensor] = staticmethod(torch.tanh)

    def step(self, projected: Tensor, below: Tensor, state: ControllerState) -> ControllerState:
        return (self.nonlinearity(self._sums(projected, below, *state)),)


class SecondOrderLayer(RecurrentLayer, SecondOrder):
    """A layer of second-order recurrent units.

    `project` gives H sums and then the H rows of W_x, [..., H + H * H].

    Attributes:
        hidden_weight: [H, H, E].
    """

    def project(self, inputs: Tensor) -> Tensor:
        rows = nn.functional.linear(inputs, self._rows)
        return torch.cat([super().project(inputs), rows], dim=-1)

    def project_ids(self, ids: Tensor) -> Tensor:
        rows = nn.functional.embedding(ids, self._rows.t())
        return torch.cat([super().project_ids(ids), rows], dim=-1)

    @property
    def _rows(self) -> Tensor:
        """The weights of all entries of W_x, [H * H, E]."""
        return self.hidden_weight.flatten(0, 1)

    def recurrence(self, projected: Tensor) -> tuple[Tensor, Tensor]:
        size = self.hidden_size
        return projected[:, :size], projected[:, size:].unflatten(1, (size, size))

    def step(self, projected: Tensor, below: Tensor, state: ControllerState) -> ControllerState:
        (hidden,), (sums, matrices) = state, self.recurrence(projected)
        outer = torch.addmm(sums, below, self.below_weight.t())
        return (torch.tanh(torch.baddbmm(outer[..., None], matrices, hidden[..., None])[..., 0]),)


class SigmoidLayer(RNNLayer, Sigmoid):
    """A layer of simple recurrent units with a sigmoid."""

    nonlinearity = staticmethod(torch.sigmoid)


class Controller(nn.Module):
    """A stack of layers of one type.

    The inputs of the lowest layer are x_t and the vectors read, `read_size` numbers in all; those
    of a higher one are x_t and the output of the layer below.

    Attributes:
        hidden_size: size H of its output.
    """

    def __init__(self, config: ModelConfig, embedding_size: int, read_size: int) -> None:
        super().__init__()
        layer_type: type[Layer] = CONTROLLERS.load(config.controller.name).torch_layer()
        self.layers = nn.ModuleList()
        below = read_size
        for _ in range(config.units.layers):
            layer = layer_type(config, embedding_size, below)
            self.layers.append(layer)
            below = layer.hidden_size
        self.hidden_size = below
        with torch.no_grad():
            for weight in self.weights_on_reads:
                weight.mul_(config.initialization.scale.reads)
        self.state_gradient = config.units.state_gradient

    @property
    def all_layers(self) -> list[Layer]:
        """The layers, the lowest first."""
        return [layer for layer in self.layers if isinstance(layer, Layer)]

    @property
    def weights_on_reads(self) -> list[nn.Parameter]:
        """The learned weights on the vectors read; none without units."""
        weights = (layer.below_weight for layer in self.all_layers[:1])
        return [weight for weight in weights if isinstance(weight, nn.Parameter)]

    @property
    def like(self) -> Tensor:
        """A tensor of the type and on the device of all others."""
        return self.all_layers[0].initial_state

    def initial(self, batch_size: int) -> tuple[Any, ...]:
        """The initial state of every layer."""
        return tuple(layer.initial(batch_size) for layer in self.all_layers)

    def project(
        self, sums: Callable[[Layer], Tensor], noise: Noise = NO_NOISE
    ) -> list[tuple[Tensor, ...]]:
        """For each of T steps, each layer's projected inputs, [B, gates * H].

        `sums` gives those of a layer over all steps, [B, T, gates * H].
        """
        layers = [noise.on_gates(layer, sums(layer)).unbind(dim=1) for layer in self.all_layers]
        return list(zip(*layers, strict=True))

    def step(
        self, projected: tuple[Tensor, ...], reads: Tensor, state: tuple[ControllerState, ...]
    ) -> tuple[Tensor, tuple[ControllerState, ...]]:
        """The output of the highest layer, [B, H], and the next state of every layer.

        `projected` is one step of `project`; `reads` was read before it, [B, read_size]. Raises
        `StacktransError` if a layer's output has another shape.
        """
        below, share = reads, self.state_gradient
        next_state: list[ControllerState] = []
        for layer, sums, previous in zip(self.all_layers, projected, state, strict=True):
            if share != 1:  # only this share of the gradient goes back through the state
                previous = tuple(part + (share - 1) * (part - part.detach()) for part in previous)
            next_state.append(layer.step(sums, below, previous))
            below, expected = next_state[-1][0], (len(reads), layer.hidden_size)
            if below.shape != expected:
                what = f"{type(layer).__name__}.step: the first part of the state is"
                raise StacktransError(f"{what} {tuple(below.shape)}; expected {expected}")
        return below, tuple(next_state)


class Operation(nn.Module):
    """The maps from a controller's output to the signals and values that operate a memory.

    Attributes:
        signal_names: of the memory's signals, then of those of the buffers.
        signals: the linear map to the signals.
        values: the linear map to the vectors pushed; None if nothing is pushed.
    """

    def __init__(self, memory: Memory[Any], hidden_size: int, config: ModelConfig) -> None:
        super().__init__()
        self.memory = memory
        self.signal_names = signal_names(memory, config)
        self.squash = torch.sigmoid if config.value_nonlinearity == "sigmoid" else torch.tanh
        maps, biases = operation_sizes(memory, hidden_size, config), config.controller.biases
        pushed = maps.get("operation.values")
        self.signals = nn.Linear(*maps["operation.signals"], biases)
        self.value_size = config.memory_size
        self.values = nn.Linear(*pushed, biases) if pushed else None

    def initialize(self, initial: InitializationConfig) -> None:
        """Scale the weights, and set the biases of the signals."""
        with torch.no_grad():
            self.signals.weight.mul_(initial.scale.signals)
            if self.values is not None:
                self.values.weight.mul_(initial.scale.values)
            if self.signals.bias is None:
                return
            biases = [initial.bias_of(name) for name in self.signal_names]
            self.signals.bias.copy_(torch.tensor(biases, dtype=torch.float64))

    @torch.no_grad()
    def sharpen(self, factor: float) -> None:
        """Multiply the signals' pre-activations, which moves signals towards 0 or 1."""
        for weight in self.signals.parameters():
            weight.mul_(factor)

    def forward(
        self, hidden: Tensor, state: MemoryState, hard: bool = False, noise: Noise = NO_NOISE
    ) -> tuple[MemoryState, Tensor, Tensor]:
        """Operate the memory for one step, by the controller's output [B, H].

        Args:
            hidden: [B, H].
            state: the memory before the step.
            hard: whether the signals are rounded to 0 or 1 before they are used.
            noise: added to the pre-activations of signals.

        Returns:
            The memory after the step, the vectors read [B, reads * m], and the signals.

        Raises:
            StacktransError: the vectors read have another shape than the memory declares.
        """
        sums, count = noise.on_signals(self.signals(hidden)), len(self.memory.signal_names)
        signals, of_buffers = self.memory.signals(sums[:, :count]), torch.sigmoid(sums[:, count:])
        if hard:
            signals, of_buffers = self.memory.discretize(signals), of_buffers.round()
        state, reads = self.memory.step(state, signals, self.pushed(hidden))
        expected = (len(hidden), self.memory.reads, self.value_size)
        if reads.shape != expected:
            what = f"memory {self.memory.name}: read {tuple(reads.shape)}"
            raise StacktransError(f"{what}; expected {expected}")
        signals = torch.cat([signals.to(hidden.dtype), of_buffers], dim=1)
        return state, reads.flatten(1), signals

    def pushed(self, hidden: Tensor) -> Tensor:
        """The vectors to push: [..., H] -> [..., pushes, m]."""
        if self.values is None:
            return hidden.new_zeros(*hidden.shape[:-1], 0, self.value_size)
        by_push: Tensor = self.squash(self.values(hidden)).unflatten(-1, (self.memory.pushes, -1))
        return by_push
