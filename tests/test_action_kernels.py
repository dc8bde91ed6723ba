"""Compiled code for memories with actions against the definition in torch."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from kernel_cases import (
    KINDS,
    NAMES,
    TOLERANCE,
    Case,
    Named,
    Shape,
    after_pieces,
    check,
    compare,
    compare_with_gradients,
    gradients,
    poison_fresh_memory,
    run_in_pieces,
    signatures,
)
from shapes import shaped
from torch import Tensor

from stacktrans.common.errors import UsageError
from stacktrans.common.registry import CONTROLLERS
from stacktrans.kernels import unroll
from stacktrans.memory import ActionList, ActionMemory, ActionStack
from stacktrans.memory.actions.cells import Cells, CellsBackward
from stacktrans.model.transducer import Transducer
from stacktrans.settings.resolve import resolve

MEMORIES: dict[str, ActionMemory[Any]] = {
    "stack": ActionStack(1, 2, no_op=False),
    "stacks": ActionStack(3, 5, no_op=True),
    "short stacks": ActionStack(2, 1, no_op=True, capacity=1),
    "deep reads": ActionStack(1, 6, no_op=False, capacity=3),
    "list": ActionList(1, 1, no_op=False),
    "lists": ActionList(3, 4, no_op=True),
    "short lists": ActionList(2, 5, no_op=True, capacity=2),
}
# No size a multiple of another or of a vector register but by accident.
SHAPES = [Shape(1, 1, 1, 1), Shape(3, 7, 5, 3), Shape(10, 63, 33, 1), Shape(5, 20, 40, 17)]
ALL = pytest.mark.parametrize("memory", MEMORIES.values(), ids=MEMORIES)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", TOLERANCE)
@ALL
@pytest.mark.parametrize("controller", KINDS)
def test_equals_the_definition(
    controller: str, memory: ActionMemory[Any], dtype: torch.dtype, shape: Shape
) -> None:
    check(Case.drawn(controller, memory, shape, dtype))


@ALL
@pytest.mark.parametrize("controller", KINDS)
def test_layers(controller: str, memory: ActionMemory[Any]) -> None:
    check(Case.drawn(controller, memory, Shape(4, 9, 11, 6), torch.float64, layers=3))


@ALL
def test_long(memory: ActionMemory[Any]) -> None:
    case = Case.drawn("sigmoid", memory, Shape(2, 300, 24, 2), torch.float32)
    # The less of what is read comes back, the less rounding errors grow.
    check(case.changed(below0=0.5 * case.tensors["below0"]))


@pytest.mark.parametrize("shape", [Shape(1, 150, 8, 40), Shape(2, 4, 8, 2100)])
@ALL
def test_rows_of_many_numbers(memory: ActionMemory[Any], shape: Shape) -> None:
    case = Case.drawn("sigmoid", memory, shape, torch.float64)
    check(case.changed(below0=0.1 * case.tensors["below0"]))


@ALL
def test_gradients_equal_finite_differences(memory: ActionMemory[Any]) -> None:
    case = Case.drawn("gru", memory, Shape(2, 5, 3, 2), torch.float64, layers=2)

    def run(*tensors: Tensor) -> tuple[Tensor, ...]:
        given = dict(zip(case.tensors, tensors, strict=True))
        return tuple(Case("gru", memory, 2, given).fused().values())

    assert torch.autograd.gradcheck(run, tuple(case.tensors.values()))


@pytest.mark.parametrize("name", ["hidden", "signals", "reads"])
@ALL
def test_gradients_of_one_output_alone(memory: ActionMemory[Any], name: str) -> None:
    case = Case.drawn("gru", memory, Shape(3, 7, 5, 3), torch.float64)
    compare_with_gradients(
        {name: case.fused()[name]}, case.tensors, {name: case.defined()[name]}, case.tensors
    )


@pytest.mark.parametrize("dtype", TOLERANCE)
@ALL
def test_actions_that_are_certain(memory: ActionMemory[Any], dtype: torch.dtype) -> None:
    case = Case.drawn("lstm", memory, Shape(3, 30, 6, 4), dtype)
    case = case.changed(signal_weight=1e7 * case.tensors["signal_weight"])
    assert case.fused()["signals"].unique().tolist() == [0, 1]
    check(case)


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("batch", [1, 9])
@ALL
def test_two_threads(memory: ActionMemory[Any], batch: int) -> None:
    check(Case.drawn("gru", memory, Shape(batch, 20, 12, 4), torch.float64, layers=2))


@ALL
def test_running_equals_the_definition(
    memory: ActionMemory[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # So that room runs out, and cells move, several times.
    monkeypatch.setattr("stacktrans.kernels.kernel._LEAST_ROOM", 2)
    case = Case.drawn("lstm", memory, Shape(3, 30, 9, 4), torch.float64, layers=2)
    expected = case.fused()
    for pieces in ([1] * 30, [30], [7, 1, 22], [29, 1]):
        compare(run_in_pieces(case, pieces)[0], after_pieces(expected, pieces), 1e-12)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("memory", [*MEMORIES.values(), *NAMES], ids=[*MEMORIES, *NAMES])
def test_hard_signals(memory: str | ActionMemory[Any], dtype: torch.dtype) -> None:
    case = Case.drawn("lstm", memory, Shape(3, 30, 9, 4), dtype, layers=2)
    pieces = [11, 1, 1, 1, 16]
    found = run_in_pieces(case, pieces, hard=True)[0]
    assert found["signals"].unique().tolist() == [0, 1]
    expected = after_pieces(case.in_double().defined(hard=True), pieces)
    compare(found, expected, TOLERANCE[dtype])


@ALL
def test_running_keeps_no_empty_cells(memory: ActionMemory[Any]) -> None:
    case = Case.drawn("rnn", memory, Shape(2, 4000, 9, 3), torch.float32)
    # What is pushed goes away again, twice as probably.
    signals = len(memory.signal_names)
    bias = torch.zeros(memory.count, len(memory.actions))
    bias[:, 1] = 2
    case = case.changed(signal_weight=torch.zeros(signals, 9), signal_bias=bias.flatten())
    _, running = run_in_pieces(case, [10] * 400)
    store = running.store
    assert isinstance(store, Cells)
    if isinstance(memory, ActionStack):
        assert store.used.max() < 100
        assert store.room < 300


@ALL
def test_no_fresh_memory_is_read(
    memory: ActionMemory[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = [
        *(Case.drawn("gru", memory, shape, torch.float64, 2) for shape in SHAPES[:2]),
        *(Case.drawn("lstm", memory, shape, torch.float32) for shape in SHAPES[:2]),
    ]
    for case in cases:
        check(case)  # compiles, which is to go on undisturbed
    poison_fresh_memory(monkeypatch)
    for case in cases:
        check(case)
        for result in run_in_pieces(case, [1] * case.projected[0].shape[1])[0].values():
            assert not result.isnan().any()


@pytest.mark.parametrize("name", ["projected0", "hidden0", "value_bias", "signal_bias"])
@pytest.mark.parametrize("memory", ["stack", "list"])
def test_nan_shows(memory: str, name: str) -> None:
    case = Case.drawn("lstm", MEMORIES[memory], Shape(2, 5, 8, 4), torch.float32)
    with torch.no_grad():
        case.tensors[name].view(-1)[0] = torch.nan
    outputs = case.fused()
    assert outputs["reads"].isnan().any()
    assert run_in_pieces(case, [5])[0]["reads"].isnan().any()
    assert gradients(outputs, case.tensors)["below0"].isnan().any()


def test_backward_twice() -> None:
    case = Case.drawn("lstm", MEMORIES["lists"], Shape(2, 5, 8, 4), torch.float32)
    total = case.fused()["hidden"].sum()
    (first,) = torch.autograd.grad(total, case.tensors["below0"], retain_graph=True)
    (second,) = torch.autograd.grad(total, case.tensors["below0"])
    assert torch.equal(first, second)


@pytest.mark.parametrize("memory", ["stacks", "lists"])
def test_no_steps(memory: str) -> None:
    case = Case.drawn("lstm", MEMORIES[memory], Shape(2, 0, 8, 4), torch.float32)
    outputs = case.fused()
    assert outputs["reads"].shape[1] == 0
    assert gradients(outputs, case.tensors)["below0"].eq(0).all()


def test_compiles_once_for_each_type() -> None:
    for memory in MEMORIES.values():
        for shape in [*SHAPES[:2], Shape(10, 2, 64, 32), Shape(1, 2, 32, 1)]:
            for dtype in TOLERANCE:
                case = Case.drawn("lstm", memory, shape, dtype)
                gradients(case.fused(), case.tensors)
                run_in_pieces(case, [1] * shape.steps)
    model = transducer("list-rnn")
    state = model.unroll_piece(INPUTS[:, :3])[1]
    model.unroll_piece(INPUTS, state)[0].hidden.sum().backward()
    for entry, kind in ((unroll.forward, Cells), (unroll.backward, CellsBackward)):
        assert len(signatures(entry, kind)) == len(TOLERANCE)


INPUTS = torch.randint(9, (4, 21), generator=torch.Generator().manual_seed(5))


def transducer(memory: str, controller: str = "lstm", **more: Any) -> Transducer:
    """A model in float64."""
    shape = {
        "memory": memory,
        "controller": controller,
        "layers": 1 if controller == "linear" else 2,
        "hidden_size": 9,
        "embedding_size": 5,
        "size": 3,
        "output_size": 7,
        "values": "sigmoid",
        **({} if memory == "none" else {"count": 2, "depth": 3, "capacity": 12}),
    }
    torch.manual_seed(2)
    settings = {"model": shaped(**{**shape, **more})}
    return Transducer(resolve(task="reversal", settings=settings).model, 9, 6).double()


def by_definition(model: Transducer) -> Transducer:
    """The same model, run in torch."""
    other = copy.deepcopy(model)
    other.kernel = "torch"
    return other


@pytest.mark.parametrize("buffered", [False, True])
@pytest.mark.parametrize("memory", ["stack-rnn", "list-rnn"])
@pytest.mark.parametrize("controller", sorted(CONTROLLERS.builtin))
def test_items_of_different_lengths(controller: str, memory: str, buffered: bool) -> None:
    model = transducer(memory, controller, buffered=buffered, steps_per_symbol=2, kernel="fused")
    defined = by_definition(model)
    lengths = [3, 21, 1, 17]
    found, expected = (one.unroll(INPUTS, lengths) for one in (model, defined))
    asked = torch.zeros(found.hidden.shape[:2], dtype=torch.bool)
    for row, length in enumerate(lengths):
        asked[row, : model.config.steps_over(length)] = True
    compare_with_gradients(
        {"hidden": found.hidden[asked], "signals": found.signals[asked]},
        dict(model.named_parameters()),
        {"hidden": expected.hidden[asked], "signals": expected.signals[asked]},
        dict(defined.named_parameters()),
    )


@pytest.mark.parametrize("buffered", [False, True])
@pytest.mark.parametrize("memory", ["stack-rnn", "list-rnn", "stack", "deque"])
def test_hard_signals_of_a_model(memory: str, buffered: bool) -> None:
    more = {"count": 1, "capacity": None} if memory in NAMES else {}
    model = transducer(memory, "gru", buffered=buffered, kernel="fused", **more)
    model.hard = True
    with torch.no_grad():
        found, expected = (one.unroll(INPUTS) for one in (model, by_definition(model)))
    assert found.signals.unique().tolist() == [0, 1]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_hard_signals_have_no_gradients() -> None:
    model = transducer("stack-rnn", buffered=True)
    model.hard = True
    with pytest.raises(ValueError, match="no gradients"):
        model.unroll(INPUTS).hidden.sum().backward()


CARRIED = pytest.mark.parametrize("memory", ["stack-rnn", "list-rnn", "none"])


@CARRIED
@pytest.mark.parametrize("controller", sorted(CONTROLLERS.builtin))
def test_carried_pieces_are_the_whole(controller: str, memory: str) -> None:
    model = transducer(memory, controller, kernel="fused")
    whole = model.unroll(INPUTS)
    for sizes in ([7, 7, 7], [1] * 21, [20, 1]):
        state, pieces = None, []
        for piece in INPUTS.split(sizes, dim=1):
            done, state = model.unroll_piece(piece, state)
            pieces.append(done)
        for name, expected in (("hidden", whole.hidden), ("signals", whole.signals)):
            together = torch.cat([getattr(piece, name) for piece in pieces], dim=1)
            torch.testing.assert_close(together, expected, rtol=0, atol=1e-12)


@CARRIED
@pytest.mark.parametrize("controller", sorted(CONTROLLERS.builtin))
def test_gradients_of_carried_pieces(controller: str, memory: str) -> None:
    model = transducer(memory, controller, kernel="fused", initial_state="learned", capacity=None)
    defined = by_definition(model)
    state, exact = None, None
    for piece in INPUTS.split([6, 9, 1, 5], dim=1):
        found, state = model.unroll_piece(piece, state)
        expected, exact = defined.unroll_piece(piece, exact)
        compare_with_gradients(
            {"hidden": found.hidden, "signals": found.signals},
            dict(model.named_parameters()),
            {"hidden": expected.hidden, "signals": expected.signals},
            dict(defined.named_parameters()),
        )


@CARRIED
@pytest.mark.parametrize("kernel", ["fused", "torch"])
def test_a_state_that_is_carried_on_stays_as_it_is(kernel: str, memory: str) -> None:
    model = transducer(memory, kernel=kernel)
    _, state = model.unroll_piece(INPUTS[:, :10])
    once, again = (model.unroll_piece(INPUTS[:, 10:], state)[0] for _ in range(2))
    assert torch.equal(once.hidden, again.hidden)


@CARRIED
def test_no_fresh_memory_is_read_in_carried_pieces(
    memory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = transducer(memory, kernel="fused")

    def run() -> Named:
        state, out = None, Named()
        for number, piece in enumerate(INPUTS.split(4, dim=1)):
            done, state = model.unroll_piece(piece, state)
            out |= {f"hidden {number}": done.hidden}
        return out | gradients(out, dict(model.named_parameters()))

    expected = run()
    poison_fresh_memory(monkeypatch)
    compare(run(), expected, 1e-14)


@pytest.mark.parametrize("kernel", ["fused", "torch"])
@pytest.mark.parametrize("more", [{"memory": "stack"}, {"memory": "stack-rnn", "buffered": True}])
def test_what_cannot_be_carried_is_told(kernel: str, more: dict[str, Any]) -> None:
    more = more | ({"count": 1, "capacity": None} if more["memory"] in NAMES else {})
    with pytest.raises(UsageError, match="piece by piece"):
        transducer(kernel=kernel, **more).unroll_piece(INPUTS)
