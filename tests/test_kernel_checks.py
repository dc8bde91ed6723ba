"""Compiled code refuses arguments that would make it read or write out of bounds."""

from typing import Any

import numpy as np
import pytest
import torch
from kernel_cases import Case, Shape, fused_alone
from shapes import shaped
from torch import Tensor

from stacktrans.decoding.decoder import predict
from stacktrans.decoding.model import Numbers
from stacktrans.kernels.autograd import fused_sequence
from stacktrans.memory import ActionStack
from stacktrans.model.numpy_backend import NumpyState
from stacktrans.model.transducer import Transducer
from stacktrans.settings.resolve import resolve
from stacktrans.tasks.alphabets import Ids

SYMBOLS = 3
ACTIONS: dict[str, Any] = {"count": 2, "depth": 3, "capacity": 2}


def transducer(memory: str = "stack", *, buffered: bool = False, **more: Any) -> Transducer:
    usual = {"controller": "lstm", "hidden_size": 4, "size": 2}
    model = shaped(memory, buffered=buffered, **{**usual, **more})
    torch.manual_seed(1)
    config = resolve(task="xor", recipe="paper", settings={"model": model}).model
    return Transducer(config, SYMBOLS, SYMBOLS)


def advance(model: Transducer, batch: int, ids: Ids) -> Numbers:
    """The logits of a model's first steps over a batch of strings."""
    found = model.to_numpy()
    assert found
    return found.advance(found.start(batch), ids)


@pytest.mark.parametrize("unknown", [SYMBOLS, 10**9, -1])
@pytest.mark.parametrize("length", [2, 300])
def test_unknown_ids_are_refused(unknown: int, length: int) -> None:
    inputs = torch.zeros(2, length, dtype=torch.int64)
    inputs[1, -1] = unknown
    for model in (transducer(), transducer(buffered=True)):
        with pytest.raises(IndexError):
            model.unroll(inputs)
    with pytest.raises(IndexError, match=f"expected 0 to {SYMBOLS - 1}$"):
        advance(transducer(), 2, inputs.numpy())


@pytest.mark.parametrize("unknown", [SYMBOLS + 1, 10**9])
def test_unknown_ids_in_a_buffer_are_refused(unknown: int) -> None:
    model = transducer(buffered=True).to_numpy()
    assert model
    with pytest.raises(IndexError):
        predict(model, [np.array([0, unknown])])


@pytest.mark.parametrize("batch", [1, 3])
def test_inputs_of_another_batch_size_are_refused(batch: int) -> None:
    with pytest.raises(ValueError, match="strings for a run over 2"):
        advance(transducer(), 2, np.zeros((batch, 4), np.int64))


@pytest.mark.parametrize("kernel", ["fused", "torch"])
@pytest.mark.parametrize("buffered", [False, True])
@pytest.mark.parametrize("lengths", [[5, 2], [-1, 3], [3], [3, 3, 3], []])
def test_lengths_that_do_not_match_the_inputs_are_refused(
    kernel: str, buffered: bool, lengths: list[int]
) -> None:
    model = transducer(kernel=kernel, buffered=buffered)
    with pytest.raises(ValueError, match="lengths of 2 items, 0 to 3 each"):
        model.unroll(torch.zeros(2, 3, dtype=torch.int64), lengths)


def test_contents_of_another_batch_are_refused() -> None:
    model = transducer("stack-rnn", **ACTIONS)
    ids = torch.zeros(3, 4, dtype=torch.int64)
    _, carried = model.unroll_segment(ids[:1])
    with pytest.raises(ValueError, match="expected the shape"):
        model.unroll_segment(ids, carried)


def test_contents_of_another_memory_are_refused() -> None:
    ids = torch.zeros(3, 4, dtype=torch.int64)
    _, carried = transducer("stack-rnn", **ACTIONS).unroll_segment(ids)
    for other in (transducer("list-rnn", **ACTIONS), transducer("none")):
        with pytest.raises(ValueError, match=r"expected the shape|another memory"):
            other.unroll_segment(ids, carried)


SHAPE = Shape(3, 4, 5, 2)


@pytest.mark.parametrize("memory", ["deque", ActionStack(2, 3, no_op=True)], ids=["deque", "stack"])
@pytest.mark.parametrize(
    "name", ["projected0", "below0", "hidden0", "below1", "signal_weight", "signal_bias"]
)
def test_weights_of_other_sizes_are_refused(memory: Any, name: str) -> None:
    case = Case.drawn("lstm", memory, SHAPE, torch.float32, layers=2)
    whole = case.tensors[name]
    cut = whole[:-1] if name in {"hidden0", "signal_weight"} else whole[..., :-1]
    case = case.changed(**{name: cut})
    for run in (case.fused, lambda: running(case)):
        with pytest.raises(ValueError, match=r"expected the shape|cannot reshape"):
            run()


def running(case: Case) -> None:
    weights = case.run_weights()
    NumpyState.initial(weights, SHAPE.batch, 2).advance(np.zeros((SHAPE.batch, 2), np.int64))


@pytest.mark.parametrize("shape", [(4, 2), (6, 2), (5, 3)])
def test_noise_of_another_shape_is_refused(shape: tuple[int, int]) -> None:
    case = Case.drawn("lstm", "stack", SHAPE, torch.float32)
    inputs, noise = torch.zeros(5, dtype=torch.int64), torch.zeros(shape)
    lengths = [3, 2] + [0] * (SHAPE.batch - 2)
    with pytest.raises(ValueError, match=r"noise: expected the shape \(5, 2\)"):
        fused_sequence(case.weights, lengths, lengths, inputs, noise=noise)


@pytest.mark.parametrize(
    ("signals", "values"), [((2, 3, 1), (2, 3, 4)), ((2, 4, 2), (2, 3, 4)), ((1, 3, 2), (2, 3, 4))]
)
def test_signals_and_values_of_other_shapes_are_refused(
    signals: tuple[int, ...], values: tuple[int, ...]
) -> None:
    with pytest.raises(ValueError, match="signals: expected the shape"):
        fused_alone("stack", torch.rand(signals), torch.rand(values))
    with pytest.raises(ValueError, match="values: 3 numbers for 2 vectors"):
        fused_alone("deque", torch.rand(2, 3, 4), torch.rand(2, 3, 3))


@pytest.mark.parametrize("memory", ["queue", "stack-rnn", "list-rnn"])
@pytest.mark.parametrize("buffered", [False, True])
def test_an_empty_batch_is_accepted(memory: str, buffered: bool) -> None:
    model = transducer(memory, buffered=buffered, **(ACTIONS if memory.endswith("rnn") else {}))
    nothing = torch.zeros(0, 5, dtype=torch.int64)
    unrolled = model.unroll(nothing)
    assert unrolled.hidden.shape == (0, model.config.steps_over(5), 4)
    unrolled.hidden.sum().backward()


@pytest.mark.parametrize("sizes", [(0, 5), (2, 0)])
def test_second_order_units_accept_no_strings_and_no_steps(sizes: tuple[int, int]) -> None:
    model = transducer(controller="second-order")
    unrolled = model.unroll(torch.zeros(sizes, dtype=torch.int64))
    assert unrolled.hidden.shape == (*sizes, 4)
    unrolled.hidden.sum().backward()


@pytest.mark.parametrize("memory", ["deque", "stack-rnn"])
@pytest.mark.parametrize("name", ["signals", "embedding"])
def test_weights_that_are_nan_give_nan_outputs(memory: str, name: str) -> None:
    """As after a step that was far too long."""
    model = transducer(memory, buffered=True, embedding_size=2, steps_per_symbol=2)
    assert model.operation
    assert model.embedding
    weight = {"signals": model.operation.signals, "embedding": model.embedding}[name].weight
    assert isinstance(weight, Tensor)
    with torch.no_grad():
        weight.fill_(torch.nan)
    unrolled = model.unroll(torch.zeros(5, 7, dtype=torch.int64), [7, 7, 6, 0, 1])
    assert unrolled.signals[0].isnan().all()
    assert unrolled.hidden[0, 1:].isnan().all()
    unrolled.hidden[0].sum().backward()
    assert weight.grad is not None
    assert weight.grad.isnan().any()
