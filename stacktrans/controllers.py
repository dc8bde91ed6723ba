"""Recurrent controllers: what reads the input and operates the memory.

A controller sees, at each step, the input embedding x_t and the vectors read
from the memory at the step before, r_{t-1} (grefenstette2015, section 3.3).
The part of its sums that depends on x_t alone is computed for the whole
sequence at once by `project`; `step` adds the rest.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import ClassVar

import torch
from torch import Tensor, nn

ControllerState = tuple[Tensor, ...]


Disturbance = Callable[[Tensor], Tensor]
"""What is done, in training, to the part of the gates' sums that depends on x alone."""


def undisturbed(sums: Tensor) -> Tensor:
    """The sums as they are."""
    return sums


class RecurrentLayer(nn.Module, ABC):
    """One layer of recurrent units.

    Args:
        embedding_size: size of x_t.
        below_size: size of what comes from below at each step (the output of
            the layer under this one, or the vectors read); may be 0.
        hidden_size: number of units H.
        gate_bias: added to the initial bias of each gate, by name.
    """

    gates: ClassVar[tuple[str, ...]]
    states: ClassVar[int]

    def __init__(
        self,
        embedding_size: int,
        below_size: int,
        hidden_size: int,
        gate_bias: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        rows = len(self.gates) * hidden_size
        self.input_weight = nn.Parameter(torch.empty(rows, embedding_size))
        self.below_weight = nn.Parameter(torch.empty(rows, below_size))
        self.hidden_weight = nn.Parameter(torch.empty(rows, hidden_size))
        self.bias = nn.Parameter(torch.empty(rows))
        self.initial_state = nn.Parameter(torch.empty(self.states, hidden_size))
        bound = hidden_size**-0.5
        for weight in (self.input_weight, self.below_weight, self.hidden_weight, self.bias):
            nn.init.uniform_(weight, -bound, bound)
        nn.init.zeros_(self.initial_state)
        with torch.no_grad():
            for name, bias in zip(self.gates, self.bias.split(hidden_size), strict=True):
                bias.add_(gate_bias.get(name, 0.0))

    def initial(self, batch_size: int) -> ControllerState:
        """The learned initial state, `states` tensors [B, H]."""
        return tuple(state.expand(batch_size, -1) for state in self.initial_state)

    def project(self, inputs: Tensor) -> Tensor:
        """The part of the gates' sums that depends on x alone: [B, T, E] -> [B, T, gates * H]."""
        return nn.functional.linear(inputs, self.input_weight, self.bias)

    @abstractmethod
    def step(self, projected: Tensor, below: Tensor, state: ControllerState) -> ControllerState:
        """The next state; its first tensor is the output.

        Args:
            projected: [B, gates * H], one step of `project`.
            below: [B, below_size].
            state: `states` tensors [B, H].
        """


class LSTMLayer(RecurrentLayer):
    """Long short-term memory."""

    gates = ("input", "forget", "output", "candidate")
    states = 2

    def step(self, projected: Tensor, below: Tensor, state: ControllerState) -> ControllerState:
        hidden, cell = state
        weight = torch.cat([self.below_weight, self.hidden_weight], dim=1)
        sums = torch.addmm(projected, torch.cat([below, hidden], dim=1), weight.t())
        size = self.hidden_size
        admit, keep, show = torch.sigmoid(sums[:, : 3 * size]).split(size, dim=1)
        cell = keep * cell + admit * torch.tanh(sums[:, 3 * size :])
        return show * torch.tanh(cell), cell


class GRULayer(RecurrentLayer):
    """Gated recurrent unit; its update gate keeps."""

    gates = ("reset", "update", "candidate")
    states = 1

    def step(self, projected: Tensor, below: Tensor, state: ControllerState) -> ControllerState:
        (hidden,) = state
        outer = torch.addmm(projected, below, self.below_weight.t())
        inner = hidden @ self.hidden_weight.t()
        size = self.hidden_size
        reset, update = torch.sigmoid(outer[:, : 2 * size] + inner[:, : 2 * size]).split(
            size, dim=1
        )
        candidate = torch.tanh(outer[:, 2 * size :] + reset * inner[:, 2 * size :])
        return (candidate + update * (hidden - candidate),)


class RNNLayer(RecurrentLayer):
    """Simple recurrent units with tanh."""

    gates = ("candidate",)
    states = 1

    def step(self, projected: Tensor, below: Tensor, state: ControllerState) -> ControllerState:
        (hidden,) = state
        weight = torch.cat([self.below_weight, self.hidden_weight], dim=1)
        sums = torch.addmm(projected, torch.cat([below, hidden], dim=1), weight.t())
        return (torch.tanh(sums),)


CONTROLLERS: dict[str, type[RecurrentLayer]] = {
    "lstm": LSTMLayer,
    "gru": GRULayer,
    "rnn": RNNLayer,
}


class Controller(nn.Module):
    """A pile of recurrent layers of one kind.

    The lowest layer sees x_t and the vectors read; every higher one sees x_t
    and the output of the layer under it.

    Args:
        kind: a name in `CONTROLLERS`.
        embedding_size: size of x_t.
        read_size: size of all vectors read together; 0 without a memory.
        hidden_size: units in each layer.
        layers: number of layers.
        read_scale: factor on the initial weights of the vectors read.
        gate_bias: added to the initial bias of each gate, by name.
    """

    def __init__(
        self,
        kind: str,
        embedding_size: int,
        read_size: int,
        hidden_size: int,
        layers: int,
        read_scale: float = 1.0,
        gate_bias: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        layer = CONTROLLERS[kind]
        self.layers = nn.ModuleList(
            layer(embedding_size, hidden_size if depth else read_size, hidden_size, gate_bias)
            for depth in range(layers)
        )
        with torch.no_grad():
            self._layers()[0].below_weight.mul_(read_scale)

    def _layers(self) -> list[RecurrentLayer]:
        return [layer for layer in self.layers if isinstance(layer, RecurrentLayer)]

    def initial(self, batch_size: int) -> tuple[ControllerState, ...]:
        """The learned initial state of every layer."""
        return tuple(layer.initial(batch_size) for layer in self._layers())

    def project(
        self, inputs: Tensor, disturb: Disturbance = undisturbed
    ) -> list[tuple[Tensor, ...]]:
        """For every step, the part of every layer's sums that depends on x alone.

        Args:
            inputs: [B, T, E].
            disturb: what is done to the sums of a layer, [B, T, gates * H].

        Returns:
            T tuples of one tensor [B, gates * H] a layer.
        """
        layers = [disturb(layer.project(inputs)).unbind(dim=1) for layer in self._layers()]
        return list(zip(*layers, strict=True))

    def step(
        self, projected: tuple[Tensor, ...], reads: Tensor, state: tuple[ControllerState, ...]
    ) -> tuple[Tensor, tuple[ControllerState, ...]]:
        """One step of every layer.

        Args:
            projected: one step of `project`.
            reads: [B, read_size] the vectors read at the step before.
            state: the state of every layer.

        Returns:
            The output of the highest layer, [B, H], and the next state.
        """
        below = reads
        following: list[ControllerState] = []
        for layer, sums, layer_state in zip(self._layers(), projected, state, strict=True):
            layer_state = layer.step(sums, below, layer_state)
            following.append(layer_state)
            below = layer_state[0]
        return below, tuple(following)
