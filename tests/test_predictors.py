"""Inference backends agree: Python, compiled code and torch."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from shapes import shaped

from stacktrans.decoding import decoder
from stacktrans.decoding.decoder import Answer, DecodingStep, decode, predict
from stacktrans.decoding.model import Numbers, Predictor
from stacktrans.inference.scores import score
from stacktrans.kernels.compiling import CompiledFunction
from stacktrans.memory import CellContents, MemorySnapshot, RowContents
from stacktrans.model.numpy_backend import NumpyModel, from_weights
from stacktrans.model.torch_backend import TorchModel
from stacktrans.model.transducer import Transducer
from stacktrans.model.weights import shapes_of, weight_shapes
from stacktrans.settings.resolve import resolve
from stacktrans.tasks.alphabets import FAILED, Ids
from stacktrans.tasks.layout import Layout, OutputBound, Pair

ACTIONS: dict[str, Any] = {"count": 2, "depth": 3}
MEMORIES: dict[str, dict[str, Any]] = {
    "stack": {},
    "queue": {},
    "deque": {},
    "queue+2*stack": {},
    "stack-rnn": ACTIONS,
    "list-rnn": ACTIONS | {"no_op": False, "capacity": 4},
    "superposed": {"count": 2},
    "tape": ACTIONS,
    "none": {},
}
CONTROLLERS = ["lstm", "gru", "rnn", "second-order", "sigmoid", "linear"]
LAYOUTS: dict[str, Layout] = {
    "joint": Layout.joint(3, 4),
    "same length": Layout.synchronous(3, 4),
    "padded": Layout.padded(3, 4, OutputBound(2, 1)),
    "stream": Layout.stream(4, follow=0),
    "last": Layout.stream(4, last=3),
    "endless": Layout.stream(4),
}


def drawn(
    memory: str, controller: str, layout: Layout, buffered: bool = False, **more: Any
) -> Transducer:
    """A model without training whose answers differ, since its weights are large."""
    size = {"hidden_size": 7, "size": 3, "layers": 2, "embedding_size": 4, "output_size": 5}
    own = MEMORIES[memory] | size | {"steps_per_symbol": 2, "output_skip": 1} | more
    shape = shaped(memory, controller, buffered, **own)
    config = resolve(task="copy", recipe="paper", settings={"model": shape}).model
    torch.manual_seed(3)
    model = Transducer(config, layout.inputs, layout.outputs)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(4)
        model.classifier.weight.mul_(3)
        if model.classifier.bias is not None:
            model.classifier.bias.zero_()
    # In float64, since the outputs of such a model depend on the last digit.
    return model.double().eval()


def sources(layout: Layout, count: int = 30) -> list[Ids]:
    rng = np.random.default_rng(5)
    return [rng.integers(3, size=rng.integers(1, 12)) for _ in range(count)]


def to_numpy(model: Transducer, hard: bool = False) -> NumpyModel:
    found = model.to_numpy()
    assert found
    return found.discretized(hard)


def assert_same_answers(found: Sequence[Answer], expected: Sequence[Answer]) -> None:
    for one, other in zip(found, expected, strict=True):
        assert (one.target, one.ended) == (other.target, other.ended)
        assert one.log_probability == pytest.approx(other.log_probability, abs=1e-8)


@pytest.fixture
def in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is compiled."""

    def call(entry: CompiledFunction, *arguments: Any) -> Any:
        with np.errstate(all="ignore"):
            return entry.function(*arguments)

    monkeypatch.setattr(CompiledFunction, "__call__", call)


@pytest.fixture
def in_compiled_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """All is compiled, as if there were many steps."""
    monkeypatch.setattr(CompiledFunction, "_always", True)


CASES = [
    *((memory, "lstm", "joint", hard) for memory in MEMORIES for hard in (False, True)),
    *(("stack", controller, "joint", False) for controller in CONTROLLERS[1:]),
    *(("deque", "gru", name, False) for name in LAYOUTS),
    *(("stack-rnn", "rnn", name, False) for name in LAYOUTS),
]


@pytest.mark.usefixtures("in_python")
@pytest.mark.parametrize(("memory", "controller", "name", "hard"), CASES)
def test_python_and_torch_give_the_same_answers(
    memory: str, controller: str, name: str, hard: bool
) -> None:
    layout = LAYOUTS[name]
    model, given = drawn(memory, controller, layout), sources(layout)
    expected = decode(TorchModel(model, hard), layout, given)
    assert_same_answers(decode(to_numpy(model, hard), layout, given), expected)
    assert len({tuple(answer.target) for answer in expected}) > 1


@pytest.mark.usefixtures("in_compiled_code")
@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("memory", MEMORIES)
def test_compiled_code_and_torch_give_the_same_answers(memory: str, hard: bool) -> None:
    for name in ("joint", "stream", "same length"):
        layout = LAYOUTS[name]
        model, given = drawn(memory, "lstm", layout), sources(layout)
        expected = decode(TorchModel(model, hard), layout, given)
        assert_same_answers(decode(to_numpy(model, hard), layout, given), expected)


def buffered_like_torch(memory: str, layout: Layout) -> None:
    model, given = drawn(memory, "lstm", layout, buffered=True), sources(layout)
    expected = decode(TorchModel(model), layout, given)
    assert_same_answers(decode(to_numpy(model), layout, given), expected)


@pytest.mark.usefixtures("in_python")
@pytest.mark.parametrize(
    ("memory", "name"),
    [
        *((memory, "padded") for memory in MEMORIES),
        *((memory, "same length") for memory in ("deque", "stack-rnn", "none")),
    ],
)
def test_python_reads_from_buffers(memory: str, name: str) -> None:
    buffered_like_torch(memory, LAYOUTS[name])


@pytest.mark.usefixtures("in_compiled_code")
@pytest.mark.parametrize("memory", ["stack", "none"])
def test_compiled_code_reads_from_buffers(memory: str) -> None:
    buffered_like_torch(memory, LAYOUTS["padded"])


@pytest.mark.parametrize("limit", [0, 1, 3])
@pytest.mark.parametrize("make", [to_numpy, TorchModel])
def test_answers_are_cut_off(make: Callable[[Transducer], Predictor], limit: int) -> None:
    layout = Layout.joint(3, 4)
    model = drawn("stack", "lstm", layout)
    with torch.no_grad():
        model.classifier.bias[layout.end] = -100
    for answer in decode(make(model), layout, sources(layout), limit):
        assert len(answer.target) == limit
        assert not answer.ended


@pytest.mark.parametrize("make", [to_numpy, TorchModel])
@pytest.mark.parametrize("buffered", [False, True])
def test_selected_outputs_equal_those_of_the_whole_batch(
    make: Callable[[Transducer], Predictor], buffered: bool
) -> None:
    model = make(drawn("queue", "lstm", LAYOUTS["same length"], buffered))
    rng = np.random.default_rng(1)
    strings = [rng.integers(3, size=length) for length in (5, 9, 1)]
    asked = [rng.random(len(ids)) < 0.5 for ids in strings]
    for log_probs in (False, True):
        every, some = (
            predict(model, strings, log_probs=log_probs),
            predict(model, strings, asked, log_probs),
        )
        for whole, own, where in zip(every.symbols, some.symbols, asked, strict=True):
            assert own.tolist() == whole[where].tolist()
        assert (some.log_probs is not None) is log_probs
        if every.log_probs and some.log_probs:
            for shares, own_shares, where in zip(
                every.log_probs, some.log_probs, asked, strict=True
            ):
                assert own_shares == pytest.approx(shares[where], abs=1e-9)


@pytest.mark.parametrize("limit", [7, 200])
def test_answers_can_be_longer_than_expected(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = LAYOUTS["stream"]
    model = drawn("deque", "lstm", layout)
    monkeypatch.setattr(decoder, "EXPECTED_SYMBOLS", 2)
    given = [np.array([1, 2, 3]), np.array([2] * 13), np.array([3])]
    expected = decode(TorchModel(model), layout, given, limit)
    assert_same_answers(decode(to_numpy(model), layout, given, limit), expected)
    assert max(len(answer.target) for answer in expected) == limit


def test_outputs_of_long_strings_are_the_same_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    model = to_numpy(drawn("deque", "lstm", LAYOUTS["stream"]))
    rng = np.random.default_rng(1)
    strings = [rng.integers(4, size=length) for length in (5, 12, 1)]
    whole = predict(model, strings)
    monkeypatch.setattr(decoder, "STEPS_AT_ONCE", 4)
    monkeypatch.setattr(decoder, "STEPS_PER_CHUNK", 4)
    parts = predict(model, strings)
    assert parts.symbols.values.tolist() == whole.symbols.values.tolist()
    assert parts.log_probs
    assert whole.log_probs
    assert parts.log_probs.values == pytest.approx(whole.log_probs.values, abs=1e-9)


@pytest.mark.parametrize("make", [to_numpy, TorchModel])
def test_numbers_that_overflow_are_an_error(make: Callable[[Transducer], Predictor]) -> None:
    layout = Layout.joint(3, 4)
    model = drawn("stack", "lstm", layout)
    with torch.no_grad():
        model.classifier.weight.fill_(torch.nan)
    (found,) = decode(make(model), layout, [np.array([0, 1])], limit=5)
    assert found.failed
    outputs = predict(make(model), [np.array([0, 1])])
    assert outputs.symbols.values.tolist() == [FAILED, FAILED]
    assert outputs.log_probs
    assert np.isnan(outputs.log_probs.values).all()
    pair = Pair(np.array([0]), np.array([0]))
    assert score(make(model), layout, [pair]).coarse_accuracy == 0


@pytest.mark.parametrize(("name", "buffered"), [("joint", False), ("same length", True)])
def test_an_empty_list_of_sources_has_no_answers(name: str, buffered: bool) -> None:
    layout = LAYOUTS[name]
    model = drawn("stack", "lstm", layout, buffered)
    for made in (to_numpy(model), TorchModel(model)):
        assert len(decode(made, layout, [])) == 0
        assert len(predict(made, []).symbols) == 0


def observed(model: Predictor, ids: Ids) -> list[tuple[Numbers, Numbers, Numbers, MemorySnapshot]]:
    """Logits, signals, what is pushed, and what the memory holds, at each step over a string."""
    found = []

    def observe(step: DecodingStep) -> None:
        logits, signals, pushed = (
            step.logits[0],
            step.state.signals[0],
            model.pushed_vectors(step.state),
        )
        copies = np.array(logits), np.array(signals), np.array(pushed)
        found.append((*copies, model.snapshot(step.state)))

    predict(model, [ids], observe=observe)
    return found


@pytest.mark.parametrize("buffered", [False, True])
@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.usefixtures("in_python")
def test_arrays_show_what_torch_shows(memory: str, hard: bool, buffered: bool) -> None:
    layout = LAYOUTS["same length"]
    model = drawn(memory, "lstm", layout, buffered)
    ids = np.array([0, 2, 1, 1, 0, 2, 2])
    found, expected = observed(to_numpy(model, hard), ids), observed(TorchModel(model, hard), ids)
    assert len(found) == model.config.steps_over(len(ids))
    for step, (one, other) in enumerate(zip(found, expected, strict=True)):
        for numbers, right in zip(one[:3], other[:3], strict=True):
            np.testing.assert_allclose(numbers, right, atol=1e-5)
        same_snapshot(one[3], other[3], step)


def same_snapshot(found: MemorySnapshot, expected: MemorySnapshot, step: int) -> None:
    assert found.total_strength == pytest.approx(expected.total_strength, abs=1e-4)
    for shown, right in (
        (found.read_weights, expected.read_weights),
        (found.read_cells, expected.read_cells),
    ):
        assert [*shown] == [*right]
        for name, numbers in right.items():
            np.testing.assert_allclose(shown[name], numbers, atol=1e-4, err_msg=f"{name} {step}")
    assert ([*found.rows], [*found.cells]) == ([*expected.rows], [*expected.cells])
    for name, rows in expected.rows.items():
        assert held(found.rows[name]) == pytest.approx(held(rows), abs=1e-4)
    for name, line in expected.cells.items():
        pairs = zip(filled(found.cells[name]), filled(line), strict=True)
        assert all(one == pytest.approx(other, abs=1e-4) for one, other in pairs)


def held(rows: RowContents) -> dict[tuple[int, int], float]:
    """The strengths, by the place of each row and the step that pushed it; not of empty rows."""
    pairs = zip(rows.origins.tolist(), rows.strengths.tolist(), strict=True)
    there = [(step, strength) for step, strength in pairs if strength > 1e-4]
    return {(place, step): strength for place, (step, strength) in enumerate(there)}


def filled(cells: CellContents) -> list[list[float]]:
    """What is in the cells that are not empty, and then in the head."""
    values = [cell for cell in cells.values.tolist() if any(abs(x + 1) > 1e-4 for x in cell)]
    return [*values, [] if cells.head is None else cells.values[cells.head].tolist()]


@pytest.mark.parametrize("buffered", [False, True])
@pytest.mark.parametrize(
    ("memory", "controller"),
    [*((each, "lstm") for each in MEMORIES), *(("stack", each) for each in CONTROLLERS[1:])],
)
@pytest.mark.usefixtures("in_python")
def test_shapes_are_known_without_torch(memory: str, controller: str, buffered: bool) -> None:
    layout, second_order = LAYOUTS["joint"], controller == "second-order"
    given = sources(layout, 1)
    for more in (
        {},
        {"embedding_size": "one-hot", "biases": False, "output_size": None, "layers": 1},
        {"recurrent": second_order, "initial_state": "zero"},
    ):
        model = drawn(memory, controller, layout, buffered, **more)
        found = weight_shapes(model.config, layout.inputs, layout.outputs)
        assert found == shapes_of(model)
        weights = {name: weight.numpy() for name, weight in model.state_dict().items()}
        arrays_alone = from_weights(model.config, weights, model.inputs, hard=False)
        assert (arrays_alone is None) is (second_order and buffered)
        if arrays_alone:
            expected = decode(TorchModel(model), layout, given, limit=3)
            assert_same_answers(decode(arrays_alone, layout, given, limit=3), expected)


@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.usefixtures("in_python")
def test_no_steps_are_taken_after_all_answers_are_written(
    hard: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = drawn("stack", "rnn", LAYOUTS["same length"], buffered=True)
    assert model.operation
    with torch.no_grad():
        model.operation.signals.bias[-1] = 50  # all steps write
        model.operation.signals.weight[-1] = 0
    strings, steps = sources(LAYOUTS["same length"]), list[int]()
    advance = NumpyModel.advance

    def counted(self: NumpyModel, *arguments: Any) -> Numbers:
        steps.append(1)
        return advance(self, *arguments)

    monkeypatch.setattr(NumpyModel, "advance", counted)
    layout = LAYOUTS["same length"]
    assert_same_answers(
        decode(to_numpy(model, hard), layout, strings),
        decode(TorchModel(model, hard), layout, strings),
    )
    longest = max(map(len, strings))
    assert len(steps) == longest + 1 < model.config.steps_over(longest)  # the first is skipped
