"""Compiled code against the definition in torch: outputs, and gradients by name."""

import copy
import itertools
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from kernel_cases import (
    ACTION_MEMORIES,
    KINDS,
    MEMORY_CASES,
    NAMES,
    PAIRS,
    SEVERAL,
    TOLERANCE,
    Case,
    Named,
    Shape,
    after_pieces,
    check,
    compare,
    compare_with_gradients,
    defined_alone,
    fused_alone,
    gradients,
    memory_of,
    poison_fresh_memory,
    run_in_pieces,
    signatures,
)
from latch import Latch
from torch import Tensor

from stacktrans.common.randomness import Purpose
from stacktrans.common.randomness import generator as random_generator
from stacktrans.kernels import Array, code_cache, unroll
from stacktrans.kernels.compiling import CompiledFunction, compiled, compiled_entry
from stacktrans.kernels.elementwise import exp, sigmoid, tanh
from stacktrans.memory import Memory
from stacktrans.memory.actions.cells import Cells, CellsBackward
from stacktrans.memory.strengths import kernel
from stacktrans.model import definition
from stacktrans.model.numpy_backend import NumpyState
from stacktrans.model.transducer import Transducer
from stacktrans.settings.resolve import resolve
from stacktrans.tasks import make_task
from stacktrans.tasks.encoding import encode_batch, steps_of
from stacktrans.tasks.layout import Layout
from stacktrans.tasks.lengths import Lengths

WITH_NONE = [*NAMES, *SEVERAL, "none"]
# Few sizes are multiples of one another or of the width of a vector register.
SHAPES = [Shape(1, 1, 1, 1), Shape(3, 7, 5, 3), Shape(10, 30, 33, 17), Shape(13, 20, 40, 36)]


@pytest.mark.parametrize("shape", SHAPES[2:])  # test_no_fresh_memory_is_read has the others
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("controller", "memory"), PAIRS)
def test_equals_the_definition(
    controller: str, memory: str, dtype: torch.dtype, shape: Shape
) -> None:
    check(Case.drawn(controller, memory, shape, dtype))


@pytest.mark.parametrize(
    ("controller", "memory"),
    [*((name, "deque") for name in KINDS), ("gru", "lists"), ("gru", "none")],
)
def test_several_layers_equal_the_definition(controller: str, memory: str) -> None:
    check(Case.drawn(controller, memory, Shape(4, 9, 11, 6), torch.float64, layers=3))


@pytest.mark.parametrize("memory", WITH_NONE)
def test_long_strings_equal_the_definition(memory: str) -> None:
    case = Case.drawn("gru", memory, Shape(2, 150, 24, 8), torch.float32)
    # The less of what is read comes back, the less rounding errors grow.
    check(case.changed(below0=0.5 * case.tensors["below0"]))


@pytest.mark.parametrize("batch", [1, 2, 11, 12, 13, 24, 25, 32, 37])
def test_batches_of_all_sizes_equal_the_definition(batch: int) -> None:
    check(Case.drawn("lstm", "stack", Shape(batch, 5, 20, 4), torch.float32))


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize(
    ("memory", "lengths_given"), [*((name, True) for name in [*NAMES, *SEVERAL]), ("deque", False)]
)
def test_a_padded_batch_equals_the_definition(memory: str, lengths_given: bool) -> None:
    config = resolve(
        task="copy",
        settings={"model": {"memory": memory}},
        assignments=[
            *("layers=2", "kernel=fused", "hidden_size=9", "memory.size=5"),
            *("embedding_size=3", "output_size=7"),
        ],
    )
    task = make_task(config.task.name, config.task.generator, config.task.parameters)
    layout = Layout.joint(len(task.source), len(task.target))
    pairs = [
        pair
        for length in (12, 1, 7, 7, 12, 4, 2, 5, 9)
        for pair in task.sample(
            random_generator(1, Purpose.TRAINING, length),
            Lengths(length, length),
            1,
            config.task.law_of(Lengths(length, length)),
        )
    ]
    batch = encode_batch(layout, [[pair] for pair in pairs])
    inputs, mask = torch.from_numpy(batch.inputs), torch.from_numpy(batch.mask)
    torch.manual_seed(3)
    model = Transducer(config.model, layout.inputs, layout.outputs)
    exact = copy.deepcopy(model).double()
    hidden, signals, _ = model.unroll(inputs, batch.lengths if lengths_given else None)
    expected, expected_signals, _ = definition.unroll(exact, inputs)[0]
    compare_with_gradients(
        {"logits": model.read_out(hidden[mask]), "signals": signals[mask]},
        dict(model.named_parameters()),
        {"logits": exact.read_out(expected[mask]), "signals": expected_signals[mask]},
        dict(exact.named_parameters()),
    )
    with torch.no_grad():
        for row, pair in enumerate(pairs):
            steps = steps_of(layout, pair)
            alone = model.unroll(inputs[row : row + 1, :steps]).hidden[0]
            assert torch.equal(alone, hidden[row, :steps])


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("batch", [1, 9])
@pytest.mark.parametrize(
    ("controller", "memory"), [*((name, "deque") for name in KINDS), ("gru", "lists")]
)
def test_two_threads_compute_what_the_definition_does(
    controller: str, memory: str, batch: int
) -> None:
    check(Case.drawn(controller, memory, Shape(batch, 20, 12, 4), torch.float64, layers=2))


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("memory", [*NAMES, *SEVERAL])
def test_a_memory_alone_with_two_threads_equals_the_definition(memory: str) -> None:
    check_memory(memory, *program(memory, "any", Shape(9, 20, 0, 3)), torch.float64)


@pytest.mark.parametrize("controller", KINDS)
def test_outputs_do_not_depend_on_the_other_strings_of_a_batch(controller: str) -> None:
    case = Case.drawn(controller, "deque", Shape(13, 40, 33, 7), torch.float32, layers=2)
    together = case.fused()
    for item in (0, 5, 12):
        own = {
            f"projected{layer}": projected[item : item + 1]
            for layer, projected in enumerate(case.projected)
        }
        for name, part in case.changed(**own).fused().items():
            assert torch.equal(part[0], together[name][item]), name


@pytest.mark.parametrize(("controller", "memory"), [pair for pair in PAIRS if "none" not in pair])
def test_gradients_equal_finite_differences(controller: str, memory: str) -> None:
    case = Case.drawn(controller, memory, Shape(2, 5, 3, 2), torch.float64, layers=2)

    def run(*tensors: Tensor) -> tuple[Tensor, ...]:
        given = dict(zip(case.tensors, tensors, strict=True))
        return tuple(Case(controller, memory, 2, given).fused().values())

    assert torch.autograd.gradcheck(run, tuple(case.tensors.values()), fast_mode=True)


@pytest.mark.parametrize("name", ["hidden", "signals"])
@pytest.mark.parametrize("memory", ["deque", "action stacks", "lists"])
def test_gradients_of_one_output_equal_those_of_the_definition(memory: str, name: str) -> None:
    case = Case.drawn("gru", memory, Shape(3, 7, 5, 3), torch.float64)
    compare_with_gradients(
        {name: case.fused()[name]}, case.tensors, {name: case.defined()[name]}, case.tensors
    )


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("memory", MEMORY_CASES)
def test_signals_of_exactly_0_and_1_equal_the_definition(memory: str, dtype: torch.dtype) -> None:
    case = Case.drawn("lstm", memory, Shape(3, 30, 6, 4), dtype)
    case = case.changed(signal_weight=1e7 * case.tensors["signal_weight"])
    assert case.fused()["signals"].unique().tolist() == [0, 1]
    check(case)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("memory", [*NAMES, *ACTION_MEMORIES])
def test_hard_signals_equal_the_definition(memory: str, dtype: torch.dtype) -> None:
    case = Case.drawn("lstm", memory, Shape(3, 30, 9, 4), dtype, layers=2)
    pieces = [11, 1, 1, 1, 16]
    found = run_in_pieces(case, pieces, hard=True)[0]
    assert found["signals"].unique().tolist() == [0, 1]
    expected = after_pieces(case.in_double().defined(hard=True), pieces)
    compare(found, expected, TOLERANCE[dtype])


PROGRAMS: dict[str, Callable[[tuple[int, ...], np.random.Generator], Array]] = {
    "any": lambda shape, rng: rng.random(shape),
    "quarters": lambda shape, rng: rng.integers(0, 5, shape) / 4,
    "zero or one": lambda shape, rng: rng.integers(0, 2, shape).astype(float),
    "small": lambda shape, rng: rng.integers(0, 3, shape) / 16,
    "pops only": lambda shape, rng: rng.random(shape) * (np.arange(shape[-1]) % 2 == 0),
    "pushes only": lambda shape, rng: rng.random(shape) * (np.arange(shape[-1]) % 2 == 1),
    "deep": lambda shape, rng: (
        rng.integers(0, 5, shape) / 4 * np.where(np.arange(shape[-1]) % 2, 1, 0.5)
    ),
}


def program(memory: str, kind: str, shape: Shape) -> tuple[Tensor, Tensor]:
    """Signals and values that float32 holds exactly."""
    rng = np.random.default_rng(5)
    store = memory_of(memory)
    signals = PROGRAMS[kind]((shape.batch, shape.steps, len(store.signal_names)), rng)
    values = rng.standard_normal((shape.batch, shape.steps, store.pushes * shape.size))
    return torch.tensor(signals, dtype=torch.float32), torch.tensor(values, dtype=torch.float32)


def check_memory(memory: str, signals: Tensor, values: Tensor, *dtypes: torch.dtype) -> None:
    def given(dtype: torch.dtype) -> Named:
        return {
            "signals": signals.to(dtype).clone().requires_grad_(),
            "values": values.to(dtype).clone().requires_grad_(),
        }

    exact = given(torch.float64)
    expected = {"reads": defined_alone(memory, **exact)}
    expected_gradients = gradients(expected, exact)
    for dtype in dtypes:
        inputs = given(dtype)
        found = {"reads": fused_alone(memory, **inputs)}
        compare(found, expected, TOLERANCE[dtype])
        compare(gradients(found, inputs), expected_gradients, TOLERANCE[dtype])


@pytest.mark.parametrize(
    ("memory", "kind"),
    [*itertools.product(NAMES, PROGRAMS), *itertools.product(SEVERAL, ("any", "quarters"))],
)
def test_a_memory_alone_equals_the_definition(memory: str, kind: str) -> None:
    for shape in [Shape(1, 1, 0, 1), Shape(3, 2, 0, 2), Shape(20, 40, 0, 3), Shape(2, 150, 0, 5)]:
        check_memory(memory, *program(memory, kind, shape), *TOLERANCE)


@pytest.mark.parametrize("memory", [*NAMES, *SEVERAL])
def test_gradients_of_a_memory_alone_equal_finite_differences(memory: str) -> None:
    signals, values = program(memory, "any", Shape(3, 9, 0, 2))
    assert torch.autograd.gradcheck(
        lambda s, v: fused_alone(memory, s, v),
        (signals.double().requires_grad_(), values.double().requires_grad_()),
    )


@pytest.mark.parametrize(("controller", "memory"), PAIRS)
def test_pieces_equal_the_whole(
    controller: str, memory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So that room runs out, and rows or cells move, several times.
    monkeypatch.setattr("stacktrans.kernels.kernel._LEAST_ROOM", 2)
    case = Case.drawn(controller, memory, Shape(3, 30, 9, 4), torch.float64, layers=2)
    expected = case.defined()
    for pieces in ([1] * 30, [30], [7, 1, 22], [29, 1]):
        compare(run_in_pieces(case, pieces)[0], after_pieces(expected, pieces), 1e-11)


def test_pieces_keep_only_what_can_be_read() -> None:
    case = Case.drawn("lstm", "stack", Shape(1, 4000, 9, 4), torch.float32)
    case = case.changed(
        signal_weight=torch.zeros(2, 9),
        signal_bias=torch.tensor([2.0, 0.0]),  # pops more than it pushes
    )
    _, state = run_in_pieces(case, [10] * 400)
    store = state.store
    assert isinstance(store, kernel.Rows)
    assert store.values.shape[1] < 200


@pytest.mark.parametrize(("controller", "memory"), PAIRS)
def test_no_fresh_memory_is_read(
    controller: str, memory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = [
        *(Case.drawn(controller, memory, shape, torch.float64, 2) for shape in SHAPES[:2]),
        *(Case.drawn(controller, memory, shape, torch.float32) for shape in SHAPES[:2]),
    ]
    for case in cases:
        check(case)  # compiles, which is to go on undisturbed
    poison_fresh_memory(monkeypatch)
    assert np.isnan(np.empty(2)).all()
    for case in cases:
        check(case)
        for result in run_in_pieces(case, [1] * case.projected[0].shape[1])[0].values():
            assert not result.isnan().any()


@pytest.mark.parametrize("name", ["projected0", "hidden0", "value_bias", "signal_bias"])
@pytest.mark.parametrize("memory", ["stack", "action stack", "list"])
def test_nan_propagates_to_outputs_and_gradients(memory: str, name: str) -> None:
    case = Case.drawn("lstm", memory, Shape(2, 5, 8, 4), torch.float32)
    with torch.no_grad():
        case.tensors[name].view(-1)[0] = torch.nan
    outputs = case.fused()
    assert outputs["hidden"].isnan().any()
    assert run_in_pieces(case, [5])[0]["reads"].isnan().any()
    assert gradients(outputs, case.tensors)["below0"].isnan().any()


@pytest.mark.parametrize("memory", ["deque", "lists"])
def test_gradients_can_be_computed_twice(memory: str) -> None:
    case = Case.drawn("lstm", memory, Shape(2, 5, 8, 4), torch.float32)
    total = case.fused()["hidden"].sum()
    (first,) = torch.autograd.grad(total, case.tensors["below0"], retain_graph=True)
    (second,) = torch.autograd.grad(total, case.tensors["below0"])
    assert torch.equal(first, second)


def test_noncontiguous_tensors_and_initial_states_of_strings_are_accepted() -> None:
    case = Case.drawn("lstm", "stack", Shape(3, 5, 8, 4), torch.float64)
    case = case.changed(
        initial0_0=torch.linspace(-1, 1, 24, dtype=torch.float64).reshape(3, 8),
        projected0=case.tensors["projected0"].transpose(0, 1).contiguous().transpose(0, 1),
        below0=case.tensors["below0"].t().contiguous().t(),
    )
    assert not case.tensors["projected0"].is_contiguous()
    check(case)


@pytest.mark.parametrize("memory", ["stack", "action stacks", "lists"])
def test_strings_without_steps_are_accepted(memory: str) -> None:
    case = Case.drawn("lstm", memory, Shape(2, 0, 8, 4), torch.float32)
    outputs = case.fused()
    assert outputs["signals"].shape == (2, 0, len(memory_of(memory).signal_names))
    assert gradients(outputs, case.tensors)["below0"].eq(0).all()


def test_code_is_compiled_once_for_each_type() -> None:
    for shape in [*SHAPES[:2], Shape(10, 2, 64, 32), Shape(1, 2, 32, 32)]:
        for controller, memory in PAIRS:
            for dtype in TOLERANCE:
                case = Case.drawn(controller, memory, shape, dtype)
                gradients(case.fused(), case.tensors)
                run_in_pieces(case, [1] * shape.steps)
    for entry, types in (
        (unroll.forward, (kernel.Rows, Cells)),
        (unroll.backward, (kernel.RowsBackward, CellsBackward)),
    ):
        for each in types:
            assert len(signatures(entry, each)) == len(TOLERANCE)


def test_backward_steps_are_compiled_only_for_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unroll.backward, "code", {})
    case = Case.drawn("gru", "stack", Shape(3, 4, 5, 3), torch.float32)
    with torch.no_grad():
        case.fused()
    assert not unroll.backward.code
    gradients(case.fused(), case.tensors)
    assert unroll.backward.code


@compiled_entry(lambda *_: 10**9)
def sigmoids_and_tanhs(x: Array, sigmoids: Array, tanhs: Array) -> None:
    for i in range(x.shape[0]):
        sigmoids[i] = sigmoid(x[i])
    for i in range(x.shape[0]):
        tanhs[i] = tanh(x[i])


@compiled_entry(lambda *_: 10**9)
def exponentials(x: Array, out: Array) -> None:
    for i in range(x.shape[0]):
        out[i] = exp(x[i])


def test_exp_is_exact_to_single_precision() -> None:
    x = np.concatenate([np.linspace(-87, 88, 400_001), -np.logspace(-37, 1, 99_999)])
    x = x.astype(np.float32)
    found = np.empty_like(x)
    CompiledFunction.always_compile()
    exponentials(x, found)
    assert np.abs(found / np.exp(x.astype(np.float64)) - 1).max() < 2e-7
    x = np.array([np.nan, np.inf, -np.inf, 0, -200], dtype=np.float32)
    found = np.empty_like(x)
    exponentials(x, found)
    np.testing.assert_allclose(found, [np.nan, np.inf, 0, 1, 0], rtol=0, atol=1e-37)


def test_sigmoid_and_tanh_are_exact_to_single_precision() -> None:
    small = np.logspace(-37, 2, 200_001)
    x = np.concatenate([np.linspace(-100, 100, 400_001), small, -small]).astype(np.float32)
    sigmoids, tanhs = np.empty_like(x), np.empty_like(x)
    CompiledFunction.always_compile()
    sigmoids_and_tanhs(x, sigmoids, tanhs)
    exact = 1 / (1 + np.exp(-x.astype(np.float64)))
    normal = exact > np.finfo(np.float32).tiny
    assert np.abs(sigmoids[normal] / exact[normal] - 1).max() < 2e-7
    assert np.abs(sigmoids[~normal] - exact[~normal]).max() < 1e-38
    exact = np.tanh(x.astype(np.float64))
    assert np.abs(tanhs[exact != 0] / exact[exact != 0] - 1).max() < 2e-7
    x = np.array([np.nan, np.inf, -np.inf, 0, 200, -200], dtype=np.float32)
    sigmoids, tanhs = np.empty_like(x), np.empty_like(x)
    sigmoids_and_tanhs(x, sigmoids, tanhs)
    np.testing.assert_array_equal(sigmoids, np.array([np.nan, 1, 0, 0.5, 1, 0], np.float32))
    np.testing.assert_array_equal(tanhs, np.array([np.nan, 1, -1, 0, 1, -1], np.float32))


def test_compiled_code_is_not_read_from_where_others_can_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    own = code_cache._without_home()
    assert own == code_cache._without_home()
    assert own.stat().st_mode & 0o777 == 0o700
    own.chmod(0o777)
    assert code_cache._without_home() != own
    own.rmdir()
    own.symlink_to(tmp_path)
    assert code_cache._without_home() != own


def test_a_memory_can_define_its_own_compiled_steps() -> None:
    case = Case.drawn("lstm", Latch(), Shape(3, 7, 5, 3), torch.float64, layers=2)
    check(case)
    for hard in (False, True):
        expected = after_pieces(case.defined(hard), [3, 1, 3])
        compare(run_in_pieces(case, [3, 1, 3], hard)[0], expected, 1e-12)


@pytest.mark.parametrize("memory", [*WITH_NONE, Latch()], ids=str)
def test_selected_strings_continue(memory: str | Memory[Any]) -> None:
    case = Case.drawn("lstm", memory, Shape(3, 8, 5, 3), torch.float64, layers=2)
    CompiledFunction.always_compile()
    before, after = np.split(np.arange(24).reshape(3, 8), [5], axis=1)
    for chosen in ([2, 0, 0, 1], [1, 0, 1]):
        items, weights = np.array(chosen), case.run_weights()
        state, whole = NumpyState.initial(weights, 3, 8), NumpyState.initial(weights, len(items), 8)
        state.advance(before)
        whole.advance(before[items])
        state = state.select(items)
        for step in after[items].T[:, :, None]:
            found, expected = state.advance(step), whole.advance(step)
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
            np.testing.assert_allclose(state.signals, whole.signals, rtol=0, atol=1e-12)
            np.testing.assert_allclose(state.read, whole.read, rtol=0, atol=1e-12)


@compiled
def _doubled(number: Any) -> Any:
    return 2 * number


@compiled_entry(lambda numbers: 10**9)
def _double_all(numbers: Array) -> None:
    for i in range(numbers.shape[0]):
        numbers[i] = _doubled(numbers[i])


def test_functions_that_are_declared_after_a_compilation_are_compiled() -> None:
    before, numbers = np.ones(3), np.arange(3.0)
    _double_all(before)

    @compiled
    def halved(number: Any) -> Any:
        return number / 2

    @compiled_entry(lambda numbers: 10**9)
    def halve_all(numbers: Array) -> None:
        for i in range(numbers.shape[0]):
            numbers[i] = halved(numbers[i])

    halve_all(numbers)
    assert halve_all.code
    assert (before.tolist(), numbers.tolist()) == ([2, 2, 2], [0, 0.5, 1])
