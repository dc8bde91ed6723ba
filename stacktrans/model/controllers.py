"""Controllers, which read the input and operate the memory.

At each step a controller sees the input embedding x_t and the vectors read from the memory at the
step before, r_{t-1} (grefenstette2015, section 3.3). `project` computes the part of its sums that
depends on x_t alone, for a whole sequence at once; `step` adds the rest.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from stacktrans.common.errors import StacktransError
from stacktrans.common.registry import CONTROLLERS
from stacktrans.memory import Memory, MemoryState
from stacktrans.model.units import GRU, LSTM, RNN, Linear, Sigmoid, Units
from stacktrans.model.weights import operation_maps
from stacktrans.settings.model_config import BUFFER_SIGNALS, InitializationConfig, ModelConfig

ControllerState = tuple[Tensor, ...]
GateNoise = Callable[[Tensor], Tensor]
"""Noise of training, applied to the part of the gates' sums that depends on x alone."""


def no_noise(sums: Tensor) -> Tensor:
    """The sums as they are."""
    return sums


class Layer(nn.Module, Units, ABC):
    """One layer of a controller: at each step it sums its inputs, and updates a state.

    Args:
        config: the shape of the model.
        embedding_size: size of x_t.
        below_size: size of the output of the layer under this one, or of the vectors read; may
            be 0.

    Attributes:
        hidden_size: number of units H.
        below_weight: [gates * H, size of what comes from below].
        hidden_weight: [gates * H, H].
        initial_state: [states, H].
    """

    below_weight: Tensor
    hidden_weight: Tensor
    initial_state: Tensor

    def __init__(self, config: ModelConfig, embedding_size: int, below_size: int) -> None:
        super().__init__()
        self.hidden_size = self.size_in(config, embedding_size, below_size)

    @classmethod
    def layer(cls) -> type["Layer"]:
        """Itself."""
        return cls

    def initial(self, batch_size: int) -> ControllerState:
        """The initial state, `states` tensors [B, H]."""
        return tuple(state.expand(batch_size, -1) for state in self.initial_state)

    @abstractmethod
    def project(self, inputs: Tensor) -> Tensor:
        """The part of the gates' sums that depends on x alone: [..., E] -> [..., gates * H]."""

    @abstractmethod
    def look_up(self, ids: Tensor) -> Tensor:
        """What `project` makes of one-hot vectors: their ids [...] -> [..., gates * H]."""

    @abstractmethod
    def step(self, projected: Tensor, below: Tensor, state: ControllerState) -> ControllerState:
        """The next state, `states` tensors [B, H]; the first is the output.

        `projected` is one step of `project`, [B, gates * H]; `below` is [B, below_size].
        """


class LinearLayer(Layer, Linear):
    """A layer without units."""

    def __init__(self, config: ModelConfig, embedding_size: int, below_size: int) -> None:
        super().__init__(config, embedding_size, below_size)
        size = self.hidden_size
        places = torch.zeros(size, size - embedding_size)
        # Not `eye`, for which torch loads its compiler on "meta".
        places[embedding_size:].fill_diagonal_(1)
        self.register_buffer("below_weight", places, persistent=False)
        self.register_buffer("hidden_weight", torch.zeros(size, size), persistent=False)
        self.register_buffer("initial_state", torch.zeros(1, size), persistent=False)

    def project(self, inputs: Tensor) -> Tensor:
        return nn.functional.pad(inputs, (0, self.hidden_size - inputs.shape[-1]))

    def look_up(self, ids: Tensor) -> Tensor:
        return nn.functional.one_hot(ids, self.hidden_size).to(self.below_weight.dtype)

    def step(self, projected: Tensor, below: Tensor, state: ControllerState) -> ControllerState:
        return (torch.addmm(projected, below, self.below_weight.t()),)


class RecurrentLayer(Layer):
    """One layer of recurrent units."""

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

    def look_up(self, ids: Tensor) -> Tensor:
        return nn.functional.embedding(ids, self.input_weight.t()) + self.bias

    def _sums(self, projected: Tensor, below: Tensor, hidden: Tensor) -> Tensor:
        """The gates' sums over all that a layer sees, [B, gates * H]."""
        weight = torch.cat([self.below_weight, self.hidden_weight], dim=1)
        return torch.addmm(projected, torch.cat([below, hidden], dim=1), weight.t())


class LSTMLayer(RecurrentLayer, LSTM):
    """A layer of long short-term memory."""

    def step(self, projected: Tensor, below: Tensor, state: ControllerState) -> ControllerState:
        hidden, cell = state
        sums, size = self._sums(projected, below, hidden), self.hidden_size
        admit, keep, show = torch.sigmoid(sums[:, : 3 * size]).split(size, dim=1)
        cell = keep * cell + admit * torch.tanh(sums[:, 3 * size :])
        return show * torch.tanh(cell), cell


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


class SimpleLayer(RecurrentLayer):
    """A layer of units that are a function of their sums."""

    nonlinearity: Callable[[Tensor], Tensor]

    def step(self, projected: Tensor, below: Tensor, state: ControllerState) -> ControllerState:
        return (self.nonlinearity(self._sums(projected, below, *state)),)


class RNNLayer(SimpleLayer, RNN):
    """A layer of simple recurrent units."""

    nonlinearity = staticmethod(torch.tanh)


class SigmoidLayer(SimpleLayer, Sigmoid):
    """A layer of simple recurrent units with a sigmoid."""

    nonlinearity = staticmethod(torch.sigmoid)


class Controller(nn.Module):
    """Layers of one kind on top of one another.

    The lowest layer sees x_t and the vectors read; every higher one sees x_t and the output of the
    layer under it. `read_size` is that of all vectors read together, 0 without a memory.

    Attributes:
        hidden_size: size H of its output.
    """

    def __init__(self, config: ModelConfig, embedding_size: int, read_size: int) -> None:
        super().__init__()
        kind: type[Layer] = CONTROLLERS.load(config.controller.name).layer()
        self.layers = nn.ModuleList()
        below = read_size
        for _ in range(config.units.layers):
            layer = kind(config, embedding_size, below)
            self.layers.append(layer)
            below = layer.hidden_size
        self.hidden_size = below
        with torch.no_grad():
            for weight in self.read_weights:
                weight.mul_(config.initialization.scale.reads)
        self.state_gradient = config.units.state_gradient

    @property
    def all_layers(self) -> list[Layer]:
        """The layers, the lowest first."""
        return [layer for layer in self.layers if isinstance(layer, Layer)]

    @property
    def read_weights(self) -> list[nn.Parameter]:
        """The weights on the vectors read; none in a linear controller, which passes them on."""
        weight = self.all_layers[0].below_weight
        return [weight] if isinstance(weight, nn.Parameter) else []

    def initial(self, batch_size: int) -> tuple[ControllerState, ...]:
        """The initial state of every layer."""
        return tuple(layer.initial(batch_size) for layer in self.all_layers)

    def project(
        self, sums: Callable[[Layer], Tensor], noise: GateNoise = no_noise
    ) -> list[tuple[Tensor, ...]]:
        """For each of T steps, the part of every layer's sums that depends on x, [B, gates * H].

        `sums` gives those of a layer over all steps, [B, T, gates * H].
        """
        layers = [noise(sums(layer)).unbind(dim=1) for layer in self.all_layers]
        return list(zip(*layers, strict=True))

    def step(
        self, projected: tuple[Tensor, ...], reads: Tensor, state: tuple[ControllerState, ...]
    ) -> tuple[Tensor, tuple[ControllerState, ...]]:
        """The output of the highest layer, [B, H], and the next state of every layer.

        `projected` is one step of `project`; `reads` was read before it, [B, read_size].
        """
        below = reads
        following: list[ControllerState] = []
        for layer, sums, before in zip(self.all_layers, projected, state, strict=True):
            share = self.state_gradient
            if share != 1:  # only this share of the gradient goes back through the state
                before = tuple(part + (share - 1) * (part - part.detach()) for part in before)
            following.append(layer.step(sums, below, before))
            below = following[-1][0]
        return below, tuple(following)


class Operation(nn.Module):
    """How a controller operates a memory and buffers: the signals and values of each step.

    Attributes:
        signal_names: of the memory's signals, and then of those of the buffers.
        signals: the linear map to the signals.
        values: the linear map to the vectors pushed; None where nothing is pushed.
    """

    def __init__(self, memory: Memory[Any], hidden_size: int, config: ModelConfig) -> None:
        super().__init__()
        self.memory = memory
        self.signal_names = (*memory.signal_names, *(BUFFER_SIGNALS if config.buffers else ()))
        self.squash = torch.sigmoid if config.value_nonlinearity == "sigmoid" else torch.tanh
        maps, biases = operation_maps(memory, hidden_size, config), config.controller.biases
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
        """Multiply what the signals are functions of: the more, the nearer to 0 or 1 they are."""
        for weight in self.signals.parameters():
            weight.mul_(factor)

    def forward(
        self, hidden: Tensor, state: MemoryState, hard: bool = False
    ) -> tuple[MemoryState, Tensor, Tensor]:
        """One step: [B, H] -> the next memory, the reads [B, reads * m], the signals.

        With `hard`, the signals are made 0 or 1 before they are used.

        Raises:
            StacktransError: the memory's reads have another shape than it declares.
        """
        sums, own = self.signals(hidden), len(self.memory.signal_names)
        signals, of_buffers = self.memory.signals(sums[:, :own]), torch.sigmoid(sums[:, own:])
        if hard:
            signals, of_buffers = self.memory.discretise(signals), of_buffers.round()
        state, reads = self.memory.step(state, signals, self.pushed(hidden))
        expected = (len(hidden), self.memory.reads, self.value_size)
        if reads.shape != expected:
            what = f"memory {self.memory.name}: read {tuple(reads.shape)}"
            raise StacktransError(f"{what}; expected {expected}")
        return state, reads.flatten(1), torch.cat([signals, of_buffers], dim=1)

    def pushed(self, hidden: Tensor) -> Tensor:
        """The vectors that are pushed: [..., H] -> [..., pushes, m]."""
        if self.values is None:
            return hidden.new_zeros(*hidden.shape[:-1], 0, self.value_size)
        vectors: Tensor = self.squash(self.values(hidden))
        by_push: Tensor = vectors.unflatten(-1, (self.memory.pushes, -1))
        return by_push
