"""Compiled code for memories with actions against the definition in torch."""

import copy
from typing import Any

import pytest
import torch
from kernel_cases import (
    ACTION_MEMORIES,
    NAMES,
    Case,
    Named,
    Shape,
    check,
    compare,
    compare_with_gradients,
    gradients,
    poison_fresh_memory,
    run_in_pieces,
)
from shapes import shaped

from stacktrans.common.errors import UsageError
from stacktrans.kernels.units import UNITS
from stacktrans.memory import ActionStack
from stacktrans.memory.actions.cells import Cells
from stacktrans.model.transducer import Transducer
from stacktrans.settings.resolve import resolve

MANY, LARGE = Shape(1, 150, 8, 40), Shape(2, 4, 8, 2100)
"""Shapes with rows of many cells, and with cells of many numbers."""


@pytest.mark.parametrize(
    ("memory", "shape"),
    [
        *((name, MANY) for name in ("action stacks", "superposed stacks", "tape", "list")),
        *((name, LARGE) for name in ("action stacks", "short stacks", "short tapes", "lists")),
    ],
)
def test_rows_of_many_numbers_equal_the_definition(memory: str, shape: Shape) -> None:
    case = Case.drawn("sigmoid", memory, shape, torch.float64)
    check(case.changed(below0=0.1 * case.tensors["below0"]))


STACKS = [
    name
    for name, memory in ACTION_MEMORIES.items()
    if isinstance(memory, ActionStack) and not memory.capacity
]


@pytest.mark.parametrize("name", STACKS)
def test_running_stacks_keeps_no_empty_cells(name: str) -> None:
    memory = ACTION_MEMORIES[name]
    case = Case.drawn("rnn", memory, Shape(2, 4000, 9, 3), torch.float32)
    # The bias favors popping, so that what is pushed soon disappears.
    signals = len(memory.signal_names)
    bias = torch.zeros(memory.count, len(memory.actions))
    bias[:, 1] = 2
    case = case.changed(signal_weight=torch.zeros(signals, 9), signal_bias=bias.flatten())
    _, running = run_in_pieces(case, [10] * 400)
    store = running.store
    assert isinstance(store, Cells)
    assert store.used.max() < 100
    assert store.room < 300


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
    other.config = other.config.model_copy(update={"kernel": "torch"})
    return other


MEMORIES = ["stack-rnn", "list-rnn", "superposed", "tape"]
OTHER_UNITS = sorted(UNITS.keys() - {"lstm"})


@pytest.mark.parametrize(
    ("controller", "memory", "buffered"),
    [
        *(("lstm", memory, buffered) for memory in MEMORIES for buffered in (False, True)),
        *((name, "list-rnn", False) for name in OTHER_UNITS),
        *((name, "list-rnn", True) for name in OTHER_UNITS if not UNITS[name].second_order),
    ],
)
def test_items_of_different_lengths_equal_the_definition(
    controller: str, memory: str, buffered: bool
) -> None:
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
@pytest.mark.parametrize(
    "memory", ["stack-rnn", "list-rnn", "superposed", "tape", "stack", "deque"]
)
def test_hard_signals_equal_the_definition(memory: str, buffered: bool) -> None:
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


CARRIED = pytest.mark.parametrize("memory", [*MEMORIES, "none"])
CARRIED_BY_UNITS = pytest.mark.parametrize(
    ("controller", "memory"),
    [
        *(("lstm", memory) for memory in [*MEMORIES, "none"]),
        *((name, "list-rnn") for name in OTHER_UNITS),
    ],
)


@CARRIED_BY_UNITS
def test_carried_pieces_equal_the_whole(controller: str, memory: str) -> None:
    model = transducer(memory, controller, kernel="fused")
    whole = model.unroll(INPUTS)
    for sizes in ([7, 7, 7], [1] * 21, [20, 1]):
        state, pieces = None, []
        for piece in INPUTS.split(sizes, dim=1):
            done, state = model.unroll_segment(piece, state)
            pieces.append(done)
        for name, expected in (("hidden", whole.hidden), ("signals", whole.signals)):
            together = torch.cat([getattr(piece, name) for piece in pieces], dim=1)
            torch.testing.assert_close(together, expected, rtol=0, atol=1e-12)


@CARRIED_BY_UNITS
def test_gradients_of_carried_pieces_equal_the_definition(controller: str, memory: str) -> None:
    model = transducer(memory, controller, kernel="fused", initial_state="learned", capacity=None)
    defined = by_definition(model)
    state, exact = None, None
    for piece in INPUTS.split([6, 9, 1, 5], dim=1):
        found, state = model.unroll_segment(piece, state)
        expected, exact = defined.unroll_segment(piece, exact)
        compare_with_gradients(
            {"hidden": found.hidden, "signals": found.signals},
            dict(model.named_parameters()),
            {"hidden": expected.hidden, "signals": expected.signals},
            dict(defined.named_parameters()),
        )


@CARRIED
@pytest.mark.parametrize("kernel", ["fused", "torch"])
def test_a_carried_state_is_not_changed(kernel: str, memory: str) -> None:
    model = transducer(memory, kernel=kernel)
    _, state = model.unroll_segment(INPUTS[:, :10])
    once, again = (model.unroll_segment(INPUTS[:, 10:], state)[0] for _ in range(2))
    assert torch.equal(once.hidden, again.hidden)


@CARRIED
def test_no_fresh_memory_is_read_in_carried_pieces(
    memory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = transducer(memory, kernel="fused")

    def run() -> Named:
        state, out = None, Named()
        for number, piece in enumerate(INPUTS.split(4, dim=1)):
            done, state = model.unroll_segment(piece, state)
            out |= {f"hidden {number}": done.hidden}
        return out | gradients(out, dict(model.named_parameters()))

    expected = run()
    poison_fresh_memory(monkeypatch)
    compare(run(), expected, 1e-14)


@pytest.mark.parametrize("kernel", ["fused", "torch"])
@pytest.mark.parametrize("more", [{"memory": "stack"}, {"memory": "stack-rnn", "buffered": True}])
def test_memories_that_cannot_be_run_piece_by_piece_are_refused(
    kernel: str, more: dict[str, Any]
) -> None:
    more = more | ({"count": 1, "capacity": None} if more["memory"] in NAMES else {})
    with pytest.raises(UsageError, match=r"segments? of a stream"):
        transducer(kernel=kernel, **more).unroll_segment(INPUTS)
