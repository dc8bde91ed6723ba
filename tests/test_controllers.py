"""Controllers against torch's own cells, and against the published parameter counts."""

from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from kernel_cases import RECURRENT
from shapes import shaped
from torch import Tensor, nn

from stacktrans.common.errors import UsageError
from stacktrans.model import definition
from stacktrans.model.controllers import Controller, Layer, LSTMLayer, Noise, RecurrentLayer
from stacktrans.model.transducer import Transducer
from stacktrans.settings.model_config import BuffersConfig, ModelConfig
from stacktrans.settings.resolve import resolve

EMBEDDING, READ, BATCH = 4, 3, 2


def filled_cell(layer: RecurrentLayer, cell: nn.RNNCellBase, order: list[int]) -> None:
    """Give torch's cell the layer's weights; `order` is torch's order of our gates."""
    size = layer.hidden_size
    rows = torch.cat([torch.arange(gate * size, (gate + 1) * size) for gate in order])
    with torch.no_grad():
        cell.weight_ih.copy_(torch.cat([layer.input_weight, layer.below_weight], dim=1)[rows])
        cell.weight_hh.copy_(layer.hidden_weight[rows])
        cell.bias_ih.copy_(layer.bias[rows])
        cell.bias_hh.zero_()


@pytest.mark.parametrize(
    ("kind", "cell", "order"),
    [("lstm", nn.LSTMCell, [0, 1, 3, 2]), ("gru", nn.GRUCell, [0, 1, 2]), ("rnn", nn.RNNCell, [0])],
)
def test_layers_equal_torch_cells(kind: str, cell: type[nn.RNNCellBase], order: list[int]) -> None:
    torch.manual_seed(0)
    layer = RECURRENT[kind](small(kind, "none"), EMBEDDING, READ).double()
    other = cell(EMBEDDING + READ, layer.hidden_size).double()  # type: ignore[call-arg]
    filled_cell(layer, other, order)
    inputs = torch.randn(BATCH, 6, EMBEDDING, dtype=torch.float64)
    reads = torch.randn(BATCH, 6, READ, dtype=torch.float64)
    state = layer.initial(BATCH)
    theirs = state if len(state) > 1 else state[0]
    for step, projected in enumerate(layer.project(inputs).unbind(dim=1)):
        state = layer.step(projected, reads[:, step], state)
        theirs = other(torch.cat([inputs[:, step], reads[:, step]], dim=1), theirs)
        hidden = theirs[0] if isinstance(theirs, tuple) else theirs
        torch.testing.assert_close(state[0], hidden, rtol=0, atol=1e-12)


def test_second_order_units_follow_their_equation() -> None:
    torch.manual_seed(0)
    layer = RECURRENT["second-order"](small("second-order", "stack"), EMBEDDING, READ).double()
    weights = {name: weight.detach().numpy() for name, weight in layer.named_parameters()}
    x, r = torch.randn(3, EMBEDDING).double(), torch.randn(3, READ).double()
    state, expected = layer.initial(1), weights["initial_state"][0]
    for step in range(3):
        state = layer.step(layer.project(x[step : step + 1]), r[step : step + 1], state)
        expected = np.tanh(
            np.einsum("ijk,j,k->i", weights["hidden_weight"], expected, x[step].numpy())
            + weights["input_weight"] @ x[step].numpy()
            + weights["below_weight"] @ r[step].numpy()
            + weights["bias"]
        )
        np.testing.assert_allclose(state[0][0].detach().numpy(), expected, rtol=0, atol=1e-12)


@dataclass(frozen=True)
class ConstantNoise(Noise):
    """Noise that adds the standard deviation itself instead of drawing."""

    def on_gates(self, layer: Layer, sums: Tensor) -> Tensor:
        gates = len(layer.gates) * layer.hidden_size
        return torch.cat([sums[..., :gates] + self.gates, sums[..., gates:]], dim=-1)

    def on_signals(self, sums: Tensor) -> Tensor:
        return sums + self.signals


@dataclass(frozen=True)
class GivenNoise(Noise):
    """Rows are added to the signals of one step after the other."""

    signals: float = 1.0
    rows: list[Tensor] = field(default_factory=list)

    def on_signals(self, sums: Tensor) -> Tensor:
        added = torch.stack([self.rows.pop(0) for _ in sums])
        return sums + added


@pytest.mark.parametrize("memory", ["stack", "deque", "superposed", "2*queue+stack"])
@pytest.mark.parametrize("buffers", [None, BuffersConfig(steps_per_symbol=2)])
def test_each_step_has_its_own_noise(memory: str, buffers: BuffersConfig | None) -> None:
    """Compiled, items that differ in length, against each alone in torch."""
    config = small("lstm", memory).model_copy(update={"buffers": buffers})
    torch.manual_seed(0)
    model = Transducer(config, 5, outputs=4).double()
    defined = Transducer(config.model_copy(update={"kernel": "torch"}), 5, outputs=4).double()
    defined.load_state_dict(model.state_dict())
    lengths = [4, 9, 6]
    ids = torch.randint(5, (3, 9))
    steps = [config.steps_over(length) for length in lengths]
    noises = [torch.randn(count, len(model.signal_names)).double() for count in steps]
    # The longest item comes first.
    rows = [row for item in (1, 2, 0) for row in noises[item]]
    together = model.unroll(ids, lengths, GivenNoise(rows=rows))
    assert model.architecture()
    for item, (length, count) in enumerate(zip(lengths, steps, strict=True)):
        noise = GivenNoise(rows=[*noises[item]])
        alone = defined.unroll(ids[item : item + 1, :length], [length], noise)
        torch.testing.assert_close(together.signals[item, :count], alone.signals[0])
        torch.testing.assert_close(together.hidden[item, :count], alone.hidden[0])


def test_noise_on_gates_is_not_added_to_recurrent_weights() -> None:
    layer = Controller(small("second-order", "none"), EMBEDDING, READ).all_layers[0]
    projected = layer.project(torch.randn(4, EMBEDDING))
    noisy = Noise(gates=1.0).on_gates(layer, projected)
    sums, weights = layer.recurrence(projected)
    noisy_sums, noisy_weights = layer.recurrence(noisy)
    assert torch.equal(noisy_weights, weights)
    assert not torch.isclose(noisy_sums, sums).any()


@pytest.mark.parametrize("embedding_size", [3, "one-hot"])
@pytest.mark.parametrize("noise", [Noise(), ConstantNoise(0.5, 0.7)])
@pytest.mark.parametrize("inputs", [5, 100])
def test_compiled_second_order_units_have_the_gradients_of_the_definition(
    embedding_size: int | str, noise: Noise, inputs: int
) -> None:
    """Of strings with more symbols than there are steps, and with symbols that repeat."""
    config = small("second-order", "stack", layers=2)
    config = config.model_copy(update={"embedding_size": embedding_size})
    torch.manual_seed(0)
    model = Transducer(config, inputs, outputs=4).double()
    defined = Transducer(config.model_copy(update={"kernel": "torch"}), inputs, outputs=4).double()
    defined.load_state_dict(model.state_dict())
    ids, lengths = torch.randint(inputs, (4, 9)), [9, 3, 7, 9]
    gradients = []
    for each in (model, defined):
        unrolled = each.unroll(ids, lengths, noise)
        mask = torch.arange(9) < torch.tensor(lengths).unsqueeze(1)
        total = each.logits(unrolled, mask).square().sum()
        gradients.append(torch.autograd.grad(total, [*each.parameters()]))
    assert model.architecture()
    for found, expected in zip(*gradients, strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-11)


def test_higher_layers_see_the_embedding_and_the_layer_below() -> None:
    config = small("lstm", "stack", layers=3)
    controller = Controller(config, EMBEDDING, READ)
    sizes = [
        (layer.input_weight.shape[1], layer.below_weight.shape[1])
        for layer in controller.layers
        if isinstance(layer, LSTMLayer)
    ]
    hidden = 6
    assert sizes == [(EMBEDDING, READ), (EMBEDDING, hidden), (EMBEDDING, hidden)]


@pytest.mark.parametrize("kind", sorted(RECURRENT))
@pytest.mark.parametrize("memory", ["stack", "deque", "none"])
def test_the_initial_state_is_learned(kind: str, memory: str) -> None:
    model = Transducer(small(kind, memory), inputs=9, outputs=7)
    model(torch.tensor([[0, 3, 4, 1, 5]])).logsumexp(dim=-1).sum().backward()
    for name, weight in model.named_parameters():
        assert weight.grad is not None, name
    for layer in model.controller.layers:
        assert isinstance(layer, RecurrentLayer)
        assert layer.initial_state.grad is not None
        assert layer.initial_state.grad.abs().max() > 0


@pytest.mark.parametrize("kernel", ["fused", "torch"])
def test_the_gradient_through_the_state_shrinks_from_step_to_step(kernel: str) -> None:
    def gradients(share: float) -> list[float]:
        """Norms of the last output's gradients by each step's embedding, the last step first."""
        torch.manual_seed(0)
        config = small("rnn", "none")
        units = config.controller.model_copy(update={"state_gradient": share})
        config = config.model_copy(update={"controller": units, "kernel": kernel})
        model = Transducer(config, inputs=4, outputs=3).double()
        model(torch.tensor([[0, 1, 2, 3]]))[0, -1].sum().backward()
        grad = model.get_parameter("embedding.weight").grad
        assert grad is not None
        return [float(row.norm()) for row in grad.flip(0)]

    whole, part, none = gradients(1), gradients(0.5), gradients(0)
    assert part == pytest.approx([size * 0.5**back for back, size in enumerate(whole)])
    assert none == pytest.approx([whole[0], 0, 0, 0])


def small(controller: str, memory: str, layers: int = 1) -> ModelConfig:
    return resolve(
        task="copy",
        settings={
            "model": shaped(
                memory,
                controller,
                layers=layers,
                hidden_size=6,
                size=4,
                embedding_size=3,
                output_size=5,
            )
        },
    ).model


PUBLISHED = [
    ("none", 1, 256, 3.3e5),
    ("none", 1, 512, 1.2e6),
    ("none", 2, 256, 9.1e5),
    ("none", 2, 512, 3.4e6),
    ("none", 4, 256, 2.1e6),
    ("none", 4, 512, 7.8e6),
    ("none", 8, 256, 4.5e6),
    ("none", 8, 512, 1.7e7),
    ("stack", 1, 256, 6.7e5),
    ("stack", 1, 512, 1.9e6),
    ("queue", 1, 256, 6.7e5),
    ("queue", 1, 512, 1.9e6),
    ("deque", 1, 256, 1.0e6),
    ("deque", 1, 512, 2.5e6),
]


@pytest.mark.parametrize(("memory", "layers", "hidden", "published"), PUBLISHED)
def test_parameter_counts_are_the_published_ones(
    memory: str, layers: int, hidden: int, published: float
) -> None:
    config = resolve(
        task="copy",
        recipe="paper",
        settings={"model": shaped(memory, layers=layers, hidden_size=hidden)},
    ).model
    with torch.device("meta"):
        model = Transducer(config, inputs=258, outputs=129)
    count = sum(
        weight.numel()
        for name, weight in model.named_parameters()
        # Embeddings and softmax are not counted; nor is the initial state.
        if not name.startswith(("embedding.", "classifier.")) and not name.endswith("initial_state")
    )
    # Two digits are published, some rounded and some cut off.
    unit = 10 ** (len(str(int(published))) - 2)
    assert published - unit / 2 <= count < published + unit


@pytest.mark.parametrize("memory", ["stack", "queue", "deque"])
def test_initial_biases_of_signals_are_the_paper_s(memory: str) -> None:
    config = resolve(task="copy", recipe="paper", settings={"model": {"memory": memory}}).model
    operation = Transducer(config, inputs=4, outputs=3).operation
    assert operation is not None
    biases = operation.signals.bias.tolist()
    for name, bias in zip(operation.signal_names, biases, strict=True):
        assert bias == (-1 if name.startswith("pop") else 0)


@pytest.mark.parametrize("memory", ["stack", "queue", "deque", "none"])
def test_a_sequence_in_pieces_is_the_sequence(memory: str) -> None:
    torch.manual_seed(1)
    model = Transducer(small("gru", memory, layers=2), inputs=9, outputs=7).double()
    inputs = torch.randint(9, (3, 12))
    whole, _ = definition.unroll(model, inputs)
    first, state = definition.unroll(model, inputs[:, :5])
    second, _ = definition.unroll(model, inputs[:, 5:], state)
    torch.testing.assert_close(torch.cat([first.hidden, second.hidden], dim=1), whole.hidden)
    torch.testing.assert_close(torch.cat([first.signals, second.signals], dim=1), whole.signals)


def test_a_requested_kernel_that_does_not_exist_is_refused() -> None:
    model = Transducer(small("lstm", "stack"), inputs=9, outputs=7).to(torch.bfloat16)
    assert model.architecture() is None
    model.config = model.config.model_copy(update={"kernel": "fused"})
    with pytest.raises(UsageError, match=r"memory stack with controller lstm in bfloat16 on cpu"):
        model.unroll(torch.zeros(1, 2, dtype=torch.int64))


def test_reads_reach_the_output_one_step_later() -> None:
    torch.manual_seed(3)
    model = Transducer(small("lstm", "stack"), inputs=9, outputs=7)
    assert model.operation is not None
    assert model.operation.values is not None
    inputs = torch.tensor([[2, 3, 4, 5]])
    before = model(inputs)
    with torch.no_grad():
        model.operation.values.weight.mul_(3)
    after = model(inputs)
    assert torch.equal(before[:, 0], after[:, 0])
    assert not torch.equal(before[:, 1], after[:, 1])


@pytest.mark.parametrize("controller", ["lstm", "sigmoid", "linear"])
def test_one_hot_inputs_are_looked_up(controller: str) -> None:
    config = small(controller, "stack").model_copy(update={"embedding_size": "one-hot"})
    model = Transducer(config, inputs=5, outputs=3)
    ids = torch.tensor([[4, 0, 2], [1, 1, 3]])
    for layer in model.controller.layers:
        assert isinstance(layer, Layer)
        assert torch.equal(model.sums(layer, ids), layer.project(torch.eye(5)[ids]))
    assert not [name for name in model.state_dict() if name.startswith("embedding")]
