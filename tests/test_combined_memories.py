"""Several memories side by side in one model: their names, and what becomes of each."""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import SMALL, run
from kernel_cases import reads_of
from latch import Latch
from test_completion import offered

from stacktrans.common.errors import UsageError
from stacktrans.common.registry import MEMORIES
from stacktrans.memory import CellContents, MemorySnapshot, Queue, Stack
from stacktrans.memory.combined import CombinedMemory
from stacktrans.model.transducer import Transducer
from stacktrans.nn import StackLSTM
from stacktrans.settings.config import RunConfig
from stacktrans.settings.model_config import VectorMemoryConfig
from stacktrans.settings.resolve import resolve
from stacktrans.showing.training import mean_signals
from stacktrans.training.records import Record

REGISTERS = Path(__file__).parent.parent / "examples/registers/stacktrans_registers.py"


def configured(memory: object, *assignments: str, **task: object) -> RunConfig:
    given = {"model": {"memory": memory}, **({"task": task} if task else {})}
    return resolve(task="copy", settings=given, assignments=assignments)


def biases(config: RunConfig) -> dict[str, float]:
    """The initial biases of the signals, by name."""
    operation = Transducer(config.model, 5, 5).operation
    assert operation is not None
    return dict(zip(operation.signal_names, operation.signals.bias.tolist(), strict=True))


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("queue+stack", "queue+stack"),
        ("stack+queue", "stack+queue"),
        ("stack + stack+queue", "2*stack+queue"),
        ("stack+2*stack", "3*stack"),
        ("queue+stack+queue", "queue+stack+queue"),
        ("1*stack", "stack"),
        ("16*deque", "16*deque"),
    ],
)
def test_equivalent_names_are_normalized(written: str, name: str) -> None:
    assert MEMORIES.load(written).name == name
    assert configured(written).model.memory == VectorMemoryConfig(name=name)
    with_size = configured({"name": written, "size": 16, "values": "sigmoid"}).model.memory
    assert with_size == VectorMemoryConfig(name=name, size=16, values="sigmoid")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("queue+", "'queue.': expected names such as queue.stack"),
        ("+", "expected names such as"),
        ("*stack", "expected names such as"),
        ("stack*2", "expected names such as"),
        ("2*2*stack", "expected names such as"),
        ("0*stack", "'0.stack': expected 1 to 16 memories"),
        ("1000*stack", "expected 1 to 16 memories"),
        ("9" * 5000 + "*stack", "expected 1 to 16 memories"),
        ("9*stack+8*queue", "expected 1 to 16 memories"),
        ("stack+stak", "unknown memory 'stak'; did you mean 'stack'"),
        ("none+stack", "none can't be combined with others; stack, queue, deque can"),
        ("2*stack-rnn", "stack-rnn can't be combined with others"),
        ("2*tape", "stack, queue, deque can; memory.count=2 gives 2 of it"),
    ],
)
def test_wrong_names_of_memories_side_by_side_are_refused(name: str, message: str) -> None:
    with pytest.raises(UsageError, match=f"^settings: .*{message}"):
        configured(name)
    with pytest.raises(UsageError, match=message):
        StackLSTM(2, 3, memory=name)


def test_signals_and_pushes_are_named_after_their_memories() -> None:
    assert MEMORIES.load("queue+stack")().signal_names == (
        *("pop queue", "push queue"),
        *("pop stack", "push stack"),
    )
    made = MEMORIES.load("2*stack+deque")()
    assert made.signal_names == (
        *("pop stack 1", "push stack 1", "pop stack 2", "push stack 2"),
        *("pop top deque", "push top deque", "pop bottom deque", "push bottom deque"),
    )
    assert made.push_names == ("stack 1 top", "stack 2 top", "deque top", "deque bottom")
    assert (made.pushes, made.reads) == (4, 4)


def test_memories_side_by_side_do_what_each_does_alone() -> None:
    torch.manual_seed(1)
    signals, values = torch.rand(3, 12, 6), torch.randn(3, 12, 3, 4)
    together = reads_of(MEMORIES.load("queue+2*stack")(), signals, values)
    for place, memory in enumerate((Queue(), Stack(), Stack())):
        own = reads_of(memory, signals[..., 2 * place :][..., :2], values[:, :, place : place + 1])
        assert torch.equal(together[:, :, place : place + 1], own)


def test_biases_reach_all_of_a_kind_or_one() -> None:
    memory = "2*queue+deque"
    of_all = biases(configured(memory, "signal_bias={pop: -3, push: 0.5}"))
    assert {name.split()[0]: bias for name, bias in of_all.items()} == {"pop": -3, "push": 0.5}
    assert set(of_all.values()) == {-3, 0.5}
    single = "{push: 0, push queue: 1, push queue 2: 2, push top: 3, pop bottom deque: 4, pop: -1}"
    assert biases(configured(memory, f"signal_bias={single}")) == {
        "pop queue 1": -1,
        "push queue 1": 1,
        "pop queue 2": -1,
        "push queue 2": 2,
        "pop top deque": -1,
        "push top deque": 3,
        "pop bottom deque": 4,
        "push bottom deque": 0,
    }
    with pytest.raises(UsageError, match="unknown signal 'push queue 3'; did you mean"):
        configured(memory, "signal_bias={push queue 3: 1}")


def test_a_recipe_changes_memories_side_by_side_only_by_their_full_name(tmp_path: Path) -> None:
    usual = configured("stack").model.initialization
    assert configured("queue+stack").training.curriculum is None
    assert configured("2*queue").model.initialization.signal_bias == {"pop": -1, "push": 0}
    assert usual.gate_bias != configured("2*stack").model.initialization.gate_bias
    path = tmp_path / "mine.yaml"
    path.write_text(
        "{name: mine, generator: copy, lengths: {train: [1, 2], test: [3, 4]}, "
        "recipes: {paper: {by_memory: {2*stack+queue: {training: {batch_size: 7}}}}}}"
    )
    for memory, size in (("stack+stack+queue", 7), ("2*stack", 10), ("stack", 10)):
        settings = {"model": {"memory": memory}}
        run_of = resolve(task=str(path), recipe="paper", settings=settings)
        assert run_of.training.batch_size == size


DEFAULT = ("--recipe", "default", "--max-steps", "10")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with two queues and a stack, as it is after a few batches."""
    place = tmp_path_factory.mktemp("several")
    words = ["--task", "copy", "--memory", "queue+queue+stack", *DEFAULT, *SMALL]
    done = run("train", *words, cwd=place)
    assert done.returncode == 0, done.stderr
    directory = place / "checkpoints" / "copy-2xqueue+stack-1"
    record = json.loads((directory / "metrics.jsonl").read_text().splitlines()[0])
    assert {"pop queue 1", "push queue 2", "push stack"} <= record["signals"].keys()
    return directory


def test_the_display_shows_the_signals_of_each() -> None:
    signals = {
        "pop stack 1": 0.1,
        "pop stack 2": 0.2,
        "push 1": 0.3,
        "push 2": 0.5,
        "push top": 1.0,
        "replace 1a 1b": 0.1,
        "replace 1a 2b": 0.2,
    }
    record = Record(1, 1, 0.0, 1.0, 2.7, 0.1, None, signals)
    shown = {"pop stack 1": 0.1, "pop stack 2": 0.2, "push": 0.4, "push top": 1.0}
    shown["replace"] = 0.3
    assert mean_signals(record) == pytest.approx(shown)


def test_a_model_with_several_is_evaluated_and_answers(model: Path) -> None:
    for options in ([], ["--hard"]):
        assert run("eval", model, "--count", "5", *options).returncode == 0
        assert run("transduce", model, *options, stdin=b'!"\n').stdout.count(b"\n") == 1
    card = (model / "best" / "README.md").read_text()
    assert card.startswith("# copy, memory 2\\*queue+stack\n")


def test_traces_show_each_memory(model: Path, tmp_path: Path) -> None:
    table = run("inspect", model, '!"').stdout.decode()
    for column in ("pop queue 1", "push queue 2", "push stack", "read queue 1 front"):
        assert column in table.splitlines()[1]
    steps = json.loads(run("inspect", model, '!"', "--json").stdout)["steps"]
    assert [*steps[0]["reads"]] == ["queue 1 front", "queue 2 front", "stack top"]
    assert [*steps[0]["pushed"]] == ["queue 1 back", "queue 2 back", "stack top"]
    assert list(steps[0]["signals"]) == [
        *("pop queue 1", "push queue 1", "pop queue 2", "push queue 2", "pop stack", "push stack")
    ]
    assert b"read stack top" in run("inspect", model, '!"', "--heatmap").stdout
    assert run("inspect", model, '!"', "--plot", tmp_path / "it.svg").returncode == 0


def test_the_cells_of_each_are_shown() -> None:
    class Shelf(Latch):
        def snapshot(self, state: Any) -> MemorySnapshot:
            return MemorySnapshot(cells={"shelf": CellContents(state.content[0])})

    class Both(CombinedMemory):
        part_names = ("queue", "stack")
        parts = (Shelf(), Stack())

    memory, like = Both(), torch.ones(1, 2)
    assert [*memory.snapshot(memory.initial(1, 2, like)).cells] == ["queue shelf"]


def test_completion_offers_memories_after_a_plus() -> None:
    assert offered("stacktrans train --memory queue+") == [
        *("queue+deque", "queue+queue", "queue+stack")
    ]


def test_a_memory_of_a_plugin_can_be_combined_with_others(tmp_path: Path) -> None:
    words = ["--task", "copy", "--memory", "registers+stack", *DEFAULT, *SMALL]
    run_with: list[str | Path] = [*words, "--plugin", REGISTERS, "--out", tmp_path / "run"]
    refused = run("train", *run_with, "--set", "kernel=fused")
    assert refused.returncode == 2
    assert b"there is no compiled code for memory registers+stack with" in refused.stderr
    assert run("train", *run_with).returncode == 0
    traced = run("inspect", tmp_path / "run", '!"', "--plugin", REGISTERS, "--json")
    step = json.loads(traced.stdout)["steps"][0]
    assert list(step["signals"])[-3:] == ["read 4 registers", "pop stack", "push stack"]
    assert next(iter(step["tops"])) == "registers register 1"
    assert list(step["reads"]) == ["stack top"]


def test_a_module_with_several_can_be_pickled() -> None:
    layer, steps = StackLSTM(3, 4, memory="2*queue", memory_size=2), torch.randn(5, 2, 3)
    again = pickle.loads(pickle.dumps(layer))
    assert torch.equal(again(steps)[0], layer(steps)[0])
