"""Limits on answers: they follow from the training targets, and cut-off answers are reported."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import run
from own_machines import STACK, rule, when
from test_text import small_run, write

import stacktrans
from stacktrans.automata.machine import Machine
from stacktrans.automata.rules import CONSTANT, Family, Rule, SymbolTable, Term
from stacktrans.model import checkpoint_files
from stacktrans.model.transducer import Transducer
from stacktrans.settings.config import RunConfig
from stacktrans.settings.resolve import resolve
from stacktrans.tasks import make_task
from stacktrans.tasks.alphabets import Alphabet
from stacktrans.tasks.base import Task
from stacktrans.tasks.corpus import END
from stacktrans.tasks.layout import Layout, OutputBound, Pair
from stacktrans.tasks.lengths import NoSuchLaw, NoSuchLength

ROUTES = ("", "--json", "--beam 3", "--beam 3 --json")


def tripled(source: str) -> str:
    """The reverse of a string, each symbol three times."""
    return "".join(3 * symbol for symbol in reversed(source))


def tripling(directory: Path, *, endless: bool = False) -> Path:
    """A machine that answers `tripled`, of pairs in a file; if `endless`, it continues with a's."""
    path = directory / "pairs.tsv"
    sources = ("a", "b", "ab", "ba", "bba", "abab", "bbbba")
    path.write_text("".join(f"{each}\t{tripled(each)}\n" for each in sources))
    files = {"train": str(path), "dev": str(path), "test": str(path)}
    task: Any = {"name": "tripled", "generator": "pairs", "parameters": files}
    config = resolve(settings={"task": task, "model": {"memory": "stack"}})
    reading, target, stacked = [2, 3, 4], [5, 6], [1, 2, 3]
    top, symbols = Term(1, 0), Family("symbol", (0, 1, 2))
    after = [Term(CONSTANT, state) for state in range(3)]
    ending = Term(CONSTANT, 0 if endless else 2)
    rules: list[Rule] = [
        rule(when([0], None, None), (0, 0)),
        rule(when(reading, None, None), (0, 1), None, (Term(0, 1),)),
        rule(when([1, *target], [0], [0]), (0, 0), ending),
        rule(when([1, *target], stacked, [0]), (0, 0), top, after=after[1]),
        rule(when(target, stacked, [1]), (0, 0), top, after=after[2]),
        rule(when(target, stacked, [2]), (1, 0), top, after=after[0]),
    ]
    known = ("a", "b")
    machine = Machine(
        "tripled", (*known, "<unk>"), known, (False, False),
        SymbolTable((Family("begin"), Family("separator"), symbols, Family("symbol", (0, 1)))),
        SymbolTable((Family("symbol", (0, 1)), Family("end"))),
        (SymbolTable((Family("empty"), symbols)),),
        SymbolTable(tuple(Family(f"q{number}") for number in range(3))), STACK, None,
        Layout.joint(3, 2), tuple(rules),
    )  # fmt: skip
    checkpoint_files.save_machine(directory / "machine", config, machine, "")
    return directory / "machine"


def endless_network(directory: Path, config: RunConfig, symbol: int) -> Path:
    """A checkpoint whose output is always the same target symbol."""
    layout = config.make_task().layout
    model = Transducer(config.model, layout.inputs, layout.outputs)
    with torch.no_grad():
        for weight in model.parameters():
            weight.zero_()
        model.classifier.bias[symbol] = 10
    checkpoint_files.save(directory / "network", config, model.state_dict())
    return directory / "network"


def test_the_default_limit_grows_with_the_source_as_training_targets_do(tmp_path: Path) -> None:
    path, source = tripling(tmp_path), "abbab" * 6
    right = tripled(source)
    for route in ROUTES:
        done = run("transduce", path, *route.split(), stdin=f"{source}\n".encode())
        output = done.stdout.decode().rstrip("\n")
        found = json.loads(output)["output"] if "--json" in route else output
        assert (found, done.returncode, done.stderr) == (right, 0, b""), route
    model = stacktrans.load(path)
    assert model.transduce(source) == right
    assert model.trace(source).answer == right
    assert model.evaluate([(source, right)]).coarse == 1


def test_the_limit_follows_the_longest_targets() -> None:
    thrice = {"root": "S", "rules": {"S": [
        {"probability": "1/2", "source": "a S:1", "target": "x x x S:1"},
        {"probability": "1/2", "source": "a", "target": "x x x"},
    ]}}  # fmt: skip
    layout = make_task("thrice", "grammar", thrice).layout
    for length in (1, 30, 1000):
        assert 6 * length <= layout.limit(length, None) <= 6 * length + 20
    assert layout.limit(30, 5) == 5
    assert Layout.joint(3, 3, lambda: OutputBound(1, 4)).limit(10, None) == 2 * 13 + 20


@pytest.mark.parametrize("error", [NoSuchLength, NoSuchLaw])
def test_a_task_without_strings_of_the_usual_lengths_has_a_limit(error: type[Exception]) -> None:
    class Unusual(Task):
        source = target = Alphabet("ab", words=False)

        def sample(self, *_: Any) -> list[Pair]:
            raise error("none")

        def answer(self, source: Sequence[str]) -> list[str | None]:
            return [*source]

    layout = Unusual().layout
    assert layout.limit(70, None) == 2 * (2 * 70 + 19) + 20


NETWORKS: dict[str, tuple[str, Any, int]] = {  # task, model, and the symbol that is repeated
    "joint": ("copy", {"memory": "queue"}, 0),
    "padded": ("copy", {"memory": "queue", "buffers": {}}, 0),
    "stream": ("anbn", {"memory": "stack-rnn"}, 1),
}
CASES = {  # a source, and how many symbols of its answer there are
    "joint": ("!!!", 26),
    "padded": ("!!!", 4),
    "stream": ("aab", 29),
    "machine": ("aba", 38),
}


@pytest.fixture(scope="module")
def endless(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Models that end no answer."""
    found = {"machine": tripling(tmp_path_factory.mktemp("machine"), endless=True)}
    for kind, (task, model, symbol) in NETWORKS.items():
        config = resolve(task=task, recipe="default", settings={"model": model})
        found[kind] = endless_network(tmp_path_factory.mktemp(kind), config, symbol)
    return found


@pytest.mark.parametrize(
    ("kind", "route"),
    [
        *(("joint", route) for route in ROUTES),
        *((kind, route) for kind in ("padded", "stream", "machine") for route in ROUTES[::3]),
    ],
)
def test_answers_that_are_cut_off_are_reported_and_fail(
    endless: dict[str, Path], kind: str, route: str
) -> None:
    source, longest = CASES[kind]
    options = route.split()
    done = run("transduce", endless[kind], *options, stdin=f"{source}\n{source}\n".encode())
    lines = done.stdout.decode().splitlines()
    found = [json.loads(line)["output"] for line in lines] if "--json" in route else lines
    assert [len(each) for each in found] == [longest, longest]
    cut_off = "the answer did not end, and is cut off (see --max-length)"
    assert done.stderr.decode().splitlines() == [
        f"stacktrans: standard input:{number}: {cut_off}" for number in (1, 2)
    ]
    assert done.returncode == 1
    options += ["--max-length", "3"]
    wanted = run("transduce", endless[kind], *options, stdin=f"{source}\n".encode())
    assert cut_off in wanted.stderr.decode()
    assert wanted.returncode == 0


@pytest.mark.parametrize("most", [2**63 - 1, 10**20])
def test_a_limit_may_be_any_number(most: int) -> None:
    done = run("transduce", "reverse-stack", "--max-length", str(most), stdin=b"hello\n")
    assert (done.returncode, done.stdout) == (0, b"olleh\n")


def test_the_continuation_of_a_text_may_be_cut_off(tmp_path: Path) -> None:
    config = small_run(write(tmp_path))
    assert config.make_task().target.symbols == (END, "<unk>")
    path = endless_network(tmp_path, config, symbol=1)
    done = run("transduce", path, stdin=b"word\n")
    assert done.stdout.split() == [b"<unk>"] * 21
    assert b"cut off" in done.stderr
    assert done.returncode == 0


def test_python_tells_which_answers_are_cut_off(endless: dict[str, Path]) -> None:
    for kind, (source, longest) in CASES.items():
        (answer,) = stacktrans.load(endless[kind]).answers(source)
        assert (len(answer.text), answer.ended) == (longest, False)
