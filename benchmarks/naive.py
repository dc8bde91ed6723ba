"""A naive transducer: equations 1 to 11 of grefenstette2015, written directly in torch.

Every step processes all rows: V grows by `torch.cat`, sums of strengths are recomputed by
`cumsum`, and the controller is an `nn.LSTMCell`.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from stacktrans.model.controllers import LSTMLayer
from stacktrans.model.transducer import Transducer

Step = Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]
"""Maps strengths [B, rows], V [B, rows, m], signals [B, S] and values [B, ends * m] to new
strengths, new V and reads."""


def above(strengths: Tensor) -> Tensor:
    """For each row, the sum of the strengths of the rows above it."""
    return strengths.flip(1).cumsum(1).flip(1) - strengths


def below(strengths: Tensor) -> Tensor:
    """For each row, the sum of the strengths of the rows below it."""
    return strengths.cumsum(1) - strengths


def popped(strengths: Tensor, before: Tensor, amount: Tensor) -> Tensor:
    """The strengths after a pop; `before` are the sums of the strengths popped before each row."""
    return torch.relu(strengths - torch.relu(amount - before))


def read(strengths: Tensor, before: Tensor, rows: Tensor) -> Tensor:
    """The vector read; `before` are the sums of the strengths read before each row."""
    weights = torch.minimum(strengths, torch.relu(1 - before))
    return (weights.unsqueeze(2) * rows).sum(1)


def stack_step(
    strengths: Tensor, rows: Tensor, signals: Tensor, values: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    pop, push = signals.split(1, dim=1)
    strengths = torch.cat([popped(strengths, above(strengths), pop), push], dim=1)
    rows = torch.cat([rows, values.unsqueeze(1)], dim=1)
    return strengths, rows, read(strengths, above(strengths), rows)


def queue_step(
    strengths: Tensor, rows: Tensor, signals: Tensor, values: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    pop, push = signals.split(1, dim=1)
    strengths = torch.cat([popped(strengths, below(strengths), pop), push], dim=1)
    rows = torch.cat([rows, values.unsqueeze(1)], dim=1)
    return strengths, rows, read(strengths, below(strengths), rows)


def deque_step(
    strengths: Tensor, rows: Tensor, signals: Tensor, values: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    pop_top, push_top, pop_bottom, push_bottom = signals.split(1, dim=1)
    strengths = popped(strengths, above(strengths), pop_top)
    strengths = popped(strengths, below(strengths), pop_bottom)
    strengths = torch.cat([push_bottom, strengths, push_top], dim=1)
    top, bottom = values.unsqueeze(1).chunk(2, dim=2)
    rows = torch.cat([bottom, rows, top], dim=1)
    reads = [read(strengths, before(strengths), rows) for before in (above, below)]
    return strengths, rows, torch.cat(reads, dim=1)


STEPS: dict[str, Step] = {"stack": stack_step, "queue": queue_step, "deque": deque_step}


class NaiveTransducer(nn.Module):
    """Embedding, controller and memory with the weights of a transducer with one LSTM layer."""

    def __init__(self, model: Transducer) -> None:
        super().__init__()
        (layer,) = model.controller.layers
        if not isinstance(layer, LSTMLayer):
            raise TypeError(f"the naive loop is for lstm, and this is {type(layer).__name__}")
        assert model.embedding
        self.embedding = model.embedding
        self.operation = model.operation
        self.memory_size = model.config.memory_size
        self.read_size = model.read_size
        self.step = STEPS.get(model.config.memory.name)
        self.initial_state = layer.initial_state
        self.cell = nn.LSTMCell(
            layer.input_weight.shape[1] + layer.below_weight.shape[1], layer.hidden_size
        )
        # torch orders the gates differently.
        admit, keep, show, candidate = torch.arange(4 * layer.hidden_size).chunk(4)
        order = torch.cat([admit, keep, candidate, show])
        with torch.no_grad():
            weight = torch.cat([layer.input_weight, layer.below_weight], dim=1)
            self.cell.weight_ih.copy_(weight[order])
            self.cell.weight_hh.copy_(layer.hidden_weight[order])
            self.cell.bias_ih.copy_(layer.bias[order])
            self.cell.bias_hh.zero_()

    def forward(self, inputs: Tensor) -> Tensor:
        """The controller's outputs [B, T, H] for ids [B, T]."""
        batch = inputs.shape[0]
        hidden, memory = (state.expand(batch, -1) for state in self.initial_state)
        reads = hidden.new_zeros(batch, self.read_size)
        strengths, rows = hidden.new_zeros(batch, 0), hidden.new_zeros(batch, 0, self.memory_size)
        outputs = []
        for embedded in self.embedding(inputs).unbind(dim=1):
            hidden, memory = self.cell(torch.cat([embedded, reads], dim=1), (hidden, memory))
            outputs.append(hidden)
            if self.operation and self.operation.values and self.step:
                signals = torch.sigmoid(self.operation.signals(hidden))
                values = torch.tanh(self.operation.values(hidden))
                strengths, rows, reads = self.step(strengths, rows, signals, values)
        return torch.stack(outputs, dim=1)
