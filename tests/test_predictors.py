"""What only runs a model: in Python, in compiled code and in torch, with the same outcome."""

import itertools
import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from latch import Latch
from shapes import shaped

from stacktrans.common.ragged import Ragged
from stacktrans.inference.decoding import Answer, transduce
from stacktrans.inference.evaluation import score
from stacktrans.kernels import answering, compiling, loading
from stacktrans.kernels.compiling import as_entry
from stacktrans.memory import HeldCells, HeldRows, Reading
from stacktrans.model import arrays
from stacktrans.model.arrays import ArrayModel, from_weights
from stacktrans.model.in_torch import TorchModel
from stacktrans.model.predictor import Marks, Predictor, Question
from stacktrans.model.shapes import weight_shapes
from stacktrans.model.transducer import Transducer
from stacktrans.model.weights import shapes_of
from stacktrans.settings.resolve import resolve
from stacktrans.tasks.alphabets import Ids
from stacktrans.tasks.layouts import JointSequence, Layout, Padded, Pair, SameLength, Steps, Stream

ACTIONS: dict[str, Any] = {"count": 2, "depth": 3}
MEMORIES: dict[str, dict[str, Any]] = {
    "stack": {},
    "queue": {},
    "deque": {},
    "queue+2*stack": {},
    "stack-rnn": ACTIONS,
    "list-rnn": ACTIONS | {"no_op": False, "capacity": 4},
    "none": {},
}
CONTROLLERS = ["lstm", "gru", "rnn", "sigmoid", "linear"]
LAYOUTS: dict[str, Layout] = {
    "joint": JointSequence(3, 4),
    "same length": SameLength(3, 4),
    "padded": Padded(3, 4, Steps(2, 1)),
    "stream": Stream(4, follow=0),
    "last": Stream(4, last=3),
    "endless": Stream(4),
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
    # In float64, since what such a model says depends on the last digit.
    return model.double().eval()


def sources(layout: Layout, count: int = 30) -> list[Ids]:
    rng = np.random.default_rng(5)
    return [rng.integers(3, size=rng.integers(1, 12)) for _ in range(count)]


def in_arrays(model: Transducer, hard: bool = False) -> ArrayModel:
    found = model.in_arrays()
    assert found
    return found.made_hard(hard)


def alike(found: list[Answer], expected: list[Answer]) -> None:
    for one, other in zip(found, expected, strict=True):
        assert (one.target, one.ended) == (other.target, other.ended)
        assert one.log_probability == pytest.approx(other.log_probability, abs=1e-8)


@pytest.fixture
def in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is compiled."""
    monkeypatch.setattr(compiling, "_numba", False)
    monkeypatch.setattr(loading, "_WORTH_LOADING", math.inf)


@pytest.fixture
def in_compiled_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """All is compiled, as if there were many steps."""
    monkeypatch.setattr(loading, "_WORTH_COMPILING", -1)
    loading.use_numba()


CASES = [
    pytest.param(memory, controller, name, id=f"{memory}-{controller}-{name}")
    for memory, controller, name in [
        *((memory, "lstm", "joint") for memory in MEMORIES),
        *(("stack", controller, "joint") for controller in CONTROLLERS),
        *(("deque", "gru", name) for name in LAYOUTS),
        *(("stack-rnn", "rnn", name) for name in LAYOUTS),
    ]
]


@pytest.mark.usefixtures("in_python")
@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize(("memory", "controller", "name"), CASES)
def test_python_says_what_torch_says(memory: str, controller: str, name: str, hard: bool) -> None:
    layout = LAYOUTS[name]
    model, given = drawn(memory, controller, layout), sources(layout)
    expected = transduce(TorchModel(model, hard), layout, given)
    alike(transduce(in_arrays(model, hard), layout, given), expected)
    assert len({tuple(answer.target) for answer in expected}) > 1


@pytest.mark.usefixtures("in_compiled_code")
@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("memory", MEMORIES)
def test_compiled_code_says_what_torch_says(memory: str, hard: bool) -> None:
    for name in ("joint", "stream", "same length"):
        layout = LAYOUTS[name]
        model, given = drawn(memory, "lstm", layout), sources(layout)
        expected = transduce(TorchModel(model, hard), layout, given)
        alike(transduce(in_arrays(model, hard), layout, given), expected)


def buffered_like_torch(memory: str, layout: Layout) -> None:
    model, given = drawn(memory, "lstm", layout, buffered=True), sources(layout)
    expected = transduce(TorchModel(model), layout, given)
    alike(transduce(in_arrays(model), layout, given), expected)


@pytest.mark.usefixtures("in_python")
@pytest.mark.parametrize("name", ["same length", "padded"])
@pytest.mark.parametrize("memory", MEMORIES)
def test_python_reads_from_buffers(memory: str, name: str) -> None:
    buffered_like_torch(memory, LAYOUTS[name])


@pytest.mark.parametrize("memory", ["none", "queue", "stack-rnn"])
def test_few_answers_are_not_compiled_even_with_numba(
    memory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    loading.use_numba()
    monkeypatch.setattr(loading, "_steps", Counter())
    monkeypatch.setattr(loading, "_has_code", lambda *_: False)
    monkeypatch.setattr(as_entry(answering.answer), "dispatcher", None)
    layout = LAYOUTS["joint"]
    model, given = drawn(memory, "lstm", layout), sources(layout)
    expected = transduce(TorchModel(model), layout, given)
    alike(transduce(in_arrays(model), layout, given), expected)


@pytest.mark.usefixtures("in_compiled_code")
@pytest.mark.parametrize("memory", ["stack", "none"])
def test_compiled_code_reads_from_buffers(memory: str) -> None:
    buffered_like_torch(memory, LAYOUTS["padded"])


@pytest.mark.parametrize("limit", [0, 1, 3])
@pytest.mark.parametrize("make", [in_arrays, TorchModel])
def test_answers_are_cut_off(make: Callable[[Transducer], Predictor], limit: int) -> None:
    layout = JointSequence(3, 4)
    model = drawn("stack", "lstm", layout)
    with torch.no_grad():
        model.classifier.bias[layout.end] = -100
    for answer in transduce(make(model), layout, sources(layout), limit):
        assert len(answer.target) == limit
        assert not answer.ended


@pytest.mark.parametrize("make", [in_arrays, TorchModel])
def test_what_is_asked_at_some_places_is_what_is_said_there(
    make: Callable[[Transducer], Predictor],
) -> None:
    model = make(drawn("queue", "lstm", LAYOUTS["stream"]))
    rng = np.random.default_rng(1)
    strings = [rng.integers(4, size=length) for length in (5, 0, 9, 1)]
    for logs in (False, True):
        everywhere = model.answers([Question(ids) for ids in strings], logs=logs)
        asked = [rng.random(len(ids)) < 0.5 for ids in strings]
        questions = [Question(ids, where) for ids, where in zip(strings, asked, strict=True)]
        for all_said, said, where in zip(
            everywhere, model.answers(questions, logs=logs), asked, strict=True
        ):
            assert said.symbols.tolist() == all_said.symbols[where].tolist()


@pytest.mark.parametrize("limit", [7, 200])
def test_room_is_made_as_answers_grow(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = LAYOUTS["stream"]
    model = drawn("deque", "lstm", layout)
    monkeypatch.setattr(arrays, "_ROOM", 2)
    given = [np.array([1, 2, 3]), np.array([2] * 13), np.array([3])]
    marks = Marks(0, 0)
    for ids in given:
        question = Question(ids, np.arange(len(ids)) == len(ids) - 1, limit)
        (found,) = in_arrays(model).answers([question], marks)
        (expected,) = TorchModel(model).answers([question], marks)
        assert found.symbols.tolist() == expected.symbols.tolist()


def test_a_string_that_is_too_long_is_not_kept_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    model = in_arrays(drawn("deque", "lstm", LAYOUTS["stream"]))
    rng = np.random.default_rng(1)
    questions = [Question(rng.integers(4, size=length)) for length in (5, 12, 1)]
    expected = model.answers(questions)
    monkeypatch.setattr(arrays, "STEPS_AT_ONCE", 4)
    for said, right in zip(model.answers(questions), expected, strict=True):
        assert said.symbols.tolist() == right.symbols.tolist()
        np.testing.assert_allclose(said.logs, right.logs, atol=1e-9)


@pytest.mark.parametrize("make", [in_arrays, TorchModel])
def test_numbers_that_overflow_are_told(make: Callable[[Transducer], Predictor]) -> None:
    layout = JointSequence(3, 4)
    model = drawn("stack", "lstm", layout)
    with torch.no_grad():
        model.classifier.weight.fill_(torch.nan)
    found = make(model).answers([Question(np.array([0, 1]), limit=5)], Marks(layout.first_target))
    assert found[0].symbols[-1] == -1
    assert np.isnan(found[0].logs[-1])
    pair = Pair(np.array([0]), np.array([0]))
    assert score(make(model), layout, [pair]).coarse_accuracy == 0


def test_ids_that_there_are_not_are_refused() -> None:
    model = in_arrays(drawn("stack", "lstm", LAYOUTS["stream"]))
    for wrong in (4, -1, 10**9):
        with pytest.raises(IndexError, match="expected 0 to 3"):
            model.answers([Question(np.array([0, wrong]))])
    with pytest.raises(IndexError, match="expected 0 to 2"):
        in_arrays(drawn("stack", "lstm", LAYOUTS["same length"], buffered=True)).written(
            [np.array([3])]
        )


def test_nothing_is_said_to_nobody() -> None:
    layout = LAYOUTS["joint"]
    assert in_arrays(drawn("stack", "lstm", layout)).answers([]) == []
    assert transduce(in_arrays(drawn("stack", "lstm", layout)), layout, []) == []


def test_groups_of_strings_are_small_and_hold_each_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "SIDE_BY_SIDE", 3)
    monkeypatch.setattr(arrays, "STEPS_AT_ONCE", 20)
    steps = np.array([50, 7, 7, 7, 5, 3, 3, 3, 1])
    groups = [steps[group].tolist() for group in arrays._side_by_side(steps)]
    assert [*itertools.chain(*groups)] == steps.tolist()
    for group in groups:
        assert len(group) <= 3
        assert len(group) == 1 or len(group) * max(group) <= 20


@pytest.mark.parametrize("buffered", [False, True])
@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("memory", MEMORIES)
def test_arrays_show_what_torch_shows(memory: str, hard: bool, buffered: bool) -> None:
    layout = LAYOUTS["same length"]
    model = drawn(memory, "lstm", layout, buffered)
    ids = np.array([0, 2, 1, 1, 0, 2, 2])
    # As lists, since what is shown of a step must outlive the next.
    followed = zip(
        [*in_arrays(model, hard).follow(ids)], [*TorchModel(model, hard).follow(ids)], strict=True
    )
    for step, (found, expected) in enumerate(followed):
        np.testing.assert_allclose(found.logits, expected.logits, atol=1e-4)
        np.testing.assert_allclose(found.signals, expected.signals, atol=1e-5)
        np.testing.assert_allclose(found.pushed, expected.pushed, atol=1e-5)
        same_reading(found.reading, expected.reading, step)


def same_reading(found: Reading, expected: Reading, step: int) -> None:
    assert found.held == pytest.approx(expected.held, abs=1e-4)
    for shown, right in ((found.parts, expected.parts), (found.cells, expected.cells)):
        assert [*shown] == [*right]
        for name, numbers in right.items():
            np.testing.assert_allclose(shown[name], numbers, atol=1e-4, err_msg=f"{name} {step}")
    assert ([*found.rows], [*found.lines]) == ([*expected.rows], [*expected.lines])
    for name, rows in expected.rows.items():
        assert held(found.rows[name]) == pytest.approx(held(rows), abs=1e-4)
    for name, line in expected.lines.items():
        pairs = zip(filled(found.lines[name]), filled(line), strict=True)
        assert all(one == pytest.approx(other, abs=1e-4) for one, other in pairs)


def held(rows: HeldRows) -> dict[tuple[int, int], float]:
    """The strengths, by the place of each row and the step that pushed it; not of empty rows."""
    pairs = zip(rows.origins.tolist(), rows.strengths.tolist(), strict=True)
    there = [(step, strength) for step, strength in pairs if strength > 1e-4]
    return {(place, step): strength for place, (step, strength) in enumerate(there)}


def filled(cells: HeldCells) -> list[list[float]]:
    """What is in the cells that are not empty, and then in the head."""
    values = [cell for cell in cells.values.tolist() if any(abs(x + 1) > 1e-4 for x in cell)]
    return [*values, [] if cells.head is None else cells.values[cells.head].tolist()]


def test_a_memory_that_arrays_cannot_show_is_shown_by_torch() -> None:
    class Shown(Latch):
        def reading(self, state: Any) -> Reading:
            return Reading(held=float(state.content.sum()))

    model = in_arrays(drawn("stack", "lstm", LAYOUTS["joint"]))
    assert model.shows_memory
    for memory, told in ((Latch(), True), (Shown(), False)):
        object.__setattr__(model, "memory", memory)
        assert model.shows_memory is told


@pytest.mark.parametrize("buffered", [False, True])
@pytest.mark.parametrize("controller", CONTROLLERS)
@pytest.mark.parametrize("memory", MEMORIES)
def test_shapes_are_known_without_torch(memory: str, controller: str, buffered: bool) -> None:
    layout = LAYOUTS["joint"]
    for more in (
        {},
        {"embedding_size": "one-hot", "biases": False, "output_size": None, "layers": 1},
        {"recurrent": False, "initial_state": "zero"},
    ):
        model = drawn(memory, controller, layout, buffered, **more)
        found = weight_shapes(model.config, layout.inputs, layout.outputs)
        assert found == shapes_of(model)
        weights = {name: weight.numpy() for name, weight in model.float().state_dict().items()}
        arrays_alone = from_weights(model.config, weights, model.inputs, hard=False)
        from_torch = model.in_arrays()
        assert arrays_alone
        assert from_torch
        for one, other in zip(arrays_alone.weights.layers, from_torch.weights.layers, strict=True):
            np.testing.assert_array_equal(one, other)
        for part in ("projected", "initial", "heads", "bias"):
            np.testing.assert_allclose(
                getattr(arrays_alone.weights, part), getattr(from_torch.weights, part), rtol=1e-5
            )


@pytest.mark.parametrize("hard", [False, True])
def test_no_steps_are_taken_after_all_answers_are_written(hard: bool) -> None:
    model = drawn("stack", "rnn", LAYOUTS["same length"], buffered=True)
    assert model.operation
    with torch.no_grad():
        model.operation.signals.bias[-1] = 50  # all steps write
        model.operation.signals.weight[-1] = 0
    found = in_arrays(model, hard)
    strings = sources(LAYOUTS["same length"])
    for said, right in zip(
        found.written(strings), TorchModel(model, hard).written(strings), strict=True
    ):
        assert said.symbols.tolist() == right.symbols.tolist()
        np.testing.assert_allclose(said.logs, right.logs, atol=1e-9)
    longest_first = Ragged.of(sorted(strings, key=len, reverse=True))
    run = found.unrolled(longest_first, wanted=longest_first.lengths + 1)
    assert run.taken == longest_first.lengths.max() + 1 < np.diff(run.starts).max()
    assert found.unrolled(longest_first).taken == np.diff(run.starts).max()
