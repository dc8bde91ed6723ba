"""Networks whose weights are set by hand, so that they solve a task exactly when hard."""

from pathlib import Path

import torch

from stacktrans.memory import make_memory
from stacktrans.model import checkpoint_files
from stacktrans.model.transducer import Transducer
from stacktrans.settings.config import RunConfig
from stacktrans.settings.resolve import resolve

LETTERS = 8


def zeros(config: RunConfig) -> tuple[dict[str, torch.Tensor], int]:
    """The weights of a model, all of them 0, and how many inputs it has."""
    layout = config.make_task().layout
    model = Transducer(config.model, layout.inputs, layout.outputs)
    weights = {name: torch.zeros_like(weight) for name, weight in model.state_dict().items()}
    return weights, layout.inputs


def one_hot(
    task: str, symbols: int, memory: str, size: int, *assignments: str, recipe: str = "default"
) -> RunConfig:
    """A linear controller that sees symbols as one-hot vectors."""
    return resolve(
        task=task,
        recipe=recipe,
        settings={"model": {"memory": {"name": memory, "size": size}}},
        assignments=[
            *("controller=linear", "embedding_size=one-hot", "output_size=null"),
            *(f"parameters.symbols={symbols}", *assignments),
        ],
    )


def reversing(
    directory: Path,
    symbols: int = LETTERS,
    wrong: int | None = None,
    push: float = 20,
    skipped: tuple[int, int] | None = None,
    lengths: str = "{train: [8, 64], test: [65, 128]}",
) -> Path:
    """A checkpoint, made by hand, that reverses when hard.

    The linear controller sees the symbol and the vector read, both one-hot. Instead of the symbol
    `wrong`, it writes the next one. Of the two neighbors `skipped`, it does not push the second.
    """
    config = one_hot("reverse", symbols, "stack", symbols, f"task.lengths={lengths}")
    weights, _ = zeros(config)
    source, target = slice(2, 2 + symbols), slice(2 + symbols, 2 + 2 * symbols)
    signals, values = weights["operation.signals.weight"], weights["operation.values.weight"]
    pop, pushing = signals
    pushing[source] = 20 + push
    if skipped:
        top, symbol = skipped
        pushing[[2 + symbol, 2 + 2 * symbols + top]] -= 0.75 * push
    weights["operation.signals.bias"][:] = -20
    pop[1], pop[target] = 40, 40
    values[:, source] = 20 * torch.eye(symbols)
    output_weights = weights["classifier.weight"]
    read = torch.eye(symbols)
    if wrong is not None:
        read[:, wrong] = torch.roll(read[:, wrong], 1)
    output_weights[:symbols, 2 + 2 * symbols :] = 20 * read
    weights["classifier.bias"][symbols] = 10
    path = directory / "model"
    checkpoint_files.save(path, config, weights)
    return path


def reversing_beside(directory: Path, strength: float, symbols: int = LETTERS) -> Path:
    """Like `reversing`, with a queue in addition to the stack; symbols are pushed to both.

    The greater `strength`, the more the front of the queue affects what is pushed to the stack.
    """
    config = one_hot("reverse", symbols, "queue+stack", symbols)
    weights, inputs = zeros(config)
    source, target = slice(2, 2 + symbols), slice(2 + symbols, 2 + 2 * symbols)
    front = slice(inputs, inputs + symbols)
    top = slice(inputs + symbols, inputs + 2 * symbols)
    names = make_memory(config.model).signal_names
    signals = weights["operation.signals.weight"]
    weights["operation.signals.bias"][:] = -20
    for pushing in ("push queue", "push stack"):
        signals[names.index(pushing), source] = 40
    signals[names.index("pop stack"), 1] = signals[names.index("pop stack"), target] = 40
    for values in weights["operation.values.weight"].unflatten(0, (2, symbols)):
        values[:, source] = 20 * torch.eye(symbols)
    weights["operation.values.weight"][symbols:, front] = strength * torch.eye(symbols)
    weights["classifier.weight"][:symbols, top] = 20 * torch.eye(symbols)
    weights["classifier.bias"][symbols] = 10
    path = directory / "model"
    checkpoint_files.save(path, config, weights)
    return path


def comparing_ends(directory: Path) -> Path:
    """A checkpoint for even-pairs, made by hand: 1 if the first symbol is not the last.

    The queue keeps the first symbol in front, and the stack the last one alone; bits are pushed as
    -1 and 1. At the separator, one unit is 1 if both bits are 0, and another if both are 1.
    """
    config = resolve(
        task="even-pairs",
        recipe="default",
        settings={"model": {"memory": {"name": "queue+stack", "size": 2}}},
        assignments=[
            "controller={name: rnn, hidden_size: 6, recurrent: false}",
            *("embedding_size=one-hot", "output_size=null"),
            "task.lengths={train: [1, 10], test: [11, 20]}",
        ],
    )
    weights, _ = zeros(config)
    inputs = weights["controller.layers.0.input_weight"]
    bias = weights["controller.layers.0.bias"]
    for unit, ids in enumerate(([2], [3], [4, 5], [1])):  # 0, 1, any output, the separator
        inputs[unit, ids], bias[unit] = 40, -20
    for unit, sign in ((4, -1), (5, 1)):
        weights["controller.layers.0.below_weight"][unit, [0, 2]] = 20.0 * sign
        inputs[unit, 1], bias[unit] = 40, -60
    signals = weights["operation.signals.weight"]
    signals[1:, :2], weights["operation.signals.bias"][:] = 20, 20
    weights["operation.signals.bias"][0] = -20
    weights["operation.values.weight"][[0, 2], 1] = 20
    weights["operation.values.weight"][[0, 2], 0] = -20
    weights["classifier.weight"][0, 4:] = 20
    weights["classifier.bias"][0] = 20
    weights["classifier.weight"][2, 2] = 100
    path = directory / "model"
    checkpoint_files.save(path, config, weights)
    return path


def delaying(directory: Path, symbols: int = 2) -> Path:
    """A buffered checkpoint, made by hand, that pushes what it reads and writes it a step later.

    What it pushes at the end, which is no symbol, is never read where it matters.
    """
    config = one_hot("copy", symbols, "stack", symbols + 1, recipe="buffered")
    weights, inputs = zeros(config)
    weights["operation.signals.bias"][:] = torch.tensor([-20, 20, 20, 20])
    weights["operation.values.weight"][:, : symbols + 1] = 20 * torch.eye(symbols + 1)
    read = slice(inputs, inputs + symbols)
    weights["classifier.weight"][:symbols, read] = 20 * torch.eye(symbols)
    weights["classifier.bias"][symbols] = 10
    path = directory / "model"
    checkpoint_files.save(path, config, weights)
    return path


def counting_ones(directory: Path) -> Path:
    """A checkpoint without a memory for parity-check, whose second-order units count by hand.

    The symbol 1 changes the sign of the first unit; the second is 1 when the answer is due.
    """
    config = resolve(
        task="parity-check",
        recipe="default",
        assignments=[
            *("controller=second-order", "memory=none", "embedding_size=one-hot", "hidden_size=2"),
            *("lengths.train=[1, 10]", "lengths.test=[11, 20]"),
        ],
    )
    weights, inputs = zeros(config)
    layer = {name.rpartition(".")[2]: weight for name, weight in weights.items()}
    layer["hidden_weight"][0, 0] = torch.tensor([20.0] * 3 + [-20.0] + [20.0] * (inputs - 4))
    layer["initial_state"][0, 0] = -1
    layer["input_weight"][1, 1] = 40
    weights["controller.layers.0.bias"][1] = -20
    weights["classifier.weight"][:] = torch.tensor([[-5.0, 10.0], [5.0, 10.0], [0.0, -10.0]])
    path = directory / "model"
    checkpoint_files.save(path, config, weights)
    return path


LAST_SYMBOL = """\
name: last-symbol
description: the last symbol
generator: grammar
parameters:
  root: S
  rules:
    S:
      - {probability: 1/10, each: {k: [1, 10]}, source: "a{k}", target: "a{k}"}
      - {probability: 9/10, each: {k: [1, 10]}, source: "a{k} S:1", target: "S:1"}
lengths: {train: [1, 10], test: [11, 20]}
"""


def remembering_the_last(directory: Path) -> Path:
    """A checkpoint without a memory, made by hand, whose unit k is 1 after the symbol k, else -1.

    The units stay as they are at the separator. At written symbols, all become -1.
    """
    (directory / "last-symbol.yaml").write_text(LAST_SYMBOL)
    config = resolve(
        task=str(directory / "last-symbol.yaml"),
        recipe="default",
        assignments=[
            *("controller={name: rnn, hidden_size: 10}", "memory=none"),
            *("embedding_size=one-hot", "output_size=null"),
        ],
    )
    weights, _ = zeros(config)
    weights["controller.layers.0.hidden_weight"][:] = 20 * torch.eye(10)
    inputs = weights["controller.layers.0.input_weight"]
    inputs[:, 2:12], inputs[:, 12:22] = 80 * torch.eye(10) - 40, -40
    weights["classifier.weight"][:10] = 20 * torch.eye(10)
    path = directory / "model"
    checkpoint_files.save(path, config, weights)
    return path
