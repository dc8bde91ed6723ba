"""Types of controller units (LSTM, GRU, RNN): gates and shapes of weights, known without torch.

The layers, which compute with them in torch, are in `stacktrans.model.controllers`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from stacktrans.settings.model_config import ModelConfig


class Units:
    """A type of units: the gates of a layer, its state, and the shapes of its weights.

    Attributes:
        gates: names of the blocks of H rows in the weights.
        keep_gate: the gate that keeps the state, if one does.
        states: how many vectors [H] the state is made of; the first is the output.
        has_units: whether a layer has units of its own; one without passes its input on.
    """

    gates: ClassVar[tuple[str, ...]] = ("candidate",)
    keep_gate: ClassVar[str | None] = None
    states: ClassVar[int] = 1
    has_units: ClassVar[bool] = True

    @classmethod
    def torch_layer(cls) -> Any:
        """The torch module of a layer, such as `LSTMLayer` for `LSTM`; imports torch."""
        controllers = importlib.import_module("stacktrans.model.controllers")
        return getattr(controllers, f"{cls.__name__}Layer")

    @classmethod
    def hidden_size_for(cls, config: ModelConfig, embedding_size: int, below_size: int) -> int:
        """The number of units H of a layer, by the sizes of x_t and of its input from below."""
        return config.units.hidden_size if cls.has_units else embedding_size + below_size

    @classmethod
    def shapes(
        cls, config: ModelConfig, embedding_size: int, below_size: int
    ) -> dict[str, tuple[int, ...]]:
        """The shapes of the learned weights of a layer with units, by their names."""
        units, size = config.units, cls.hidden_size_for(config, embedding_size, below_size)
        rows = len(cls.gates) * size
        shapes: dict[str, tuple[int, ...]] = {
            "input_weight": (rows, embedding_size),
            "below_weight": (rows, below_size),
            "hidden_weight": (rows, size),
            "bias": (rows,),
            "initial_state": (cls.states, size),
        }
        absent = {"hidden_weight": not units.recurrent, "bias": not units.biases}
        return {name: shape for name, shape in shapes.items() if not absent.get(name)}


class LSTM(Units):
    """Long short-term memory."""

    gates = ("input", "forget", "output", "candidate")
    keep_gate = "forget"
    states = 2


class GRU(Units):
    """Gated recurrent unit, whose update gate is the share of the state that is kept."""

    gates = ("reset", "update", "candidate")
    keep_gate = "update"


class RNN(Units):
    """Simple recurrent units with tanh."""


class SecondOrder(Units):
    """Second-order recurrent units with tanh, where each symbol has its own recurrent weights.

    h_t = tanh(W_x h_{t-1} + V x_t + U r_{t-1} + b) with (W_x)_{ij} = sum_k W_{ijk} x_{t,k}, so that
    a symbol and a state determine the next state, as in a finite automaton (giles1992, where it
    is a sigmoid).
    """

    @classmethod
    def shapes(
        cls, config: ModelConfig, embedding_size: int, below_size: int
    ) -> dict[str, tuple[int, ...]]:
        shapes = super().shapes(config, embedding_size, below_size)
        if hidden_weight := shapes.get("hidden_weight"):
            shapes["hidden_weight"] = (*hidden_weight, embedding_size)
        return shapes


class Sigmoid(Units):
    """Simple recurrent units with a sigmoid (joulin2015, section 2)."""


class Linear(Units):
    """No units: the output of a linear controller is its input, [x_t ; r_{t-1}].

    Only the maps to signals, values and outputs are learned (hao2018, section 3.1).
    """

    gates = ("sum",)
    has_units = False


class EncoderDecoderUnits(Units):
    """An encoder and a decoder, which operate no memory, instead of layers of units."""

    gates = ()

    @classmethod
    def torch_layer(cls) -> Any:
        return getattr(importlib.import_module("stacktrans.model.encoder_decoder"), cls.__name__)

    @classmethod
    def hidden_size_for(cls, config: ModelConfig, embedding_size: int, below_size: int) -> int:
        return config.encoder_decoder.hidden_size if config.encoder_decoder else 0


class Attention(EncoderDecoderUnits):
    """LSTMs as encoder and decoder, with attention (luong2015); operates no memory."""


class Transformer(EncoderDecoderUnits):
    """A transformer (vaswani2017); operates no memory."""
