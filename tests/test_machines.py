"""Machines that are extracted from hard models answer as these do, on short and long strings."""

import itertools
import json
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from changed_checkpoints import reseal
from command_line import run
from own_machines import ONE, SAME, STACK, rearranging, rule, when

import stacktrans
from stacktrans.automata.execution import AutomatonModel
from stacktrans.automata.machine import Machine
from stacktrans.automata.machine_file import machine_from_json, machine_json, read_machine
from stacktrans.automata.rules import CONSTANT, Family, SymbolTable, Term
from stacktrans.automata.wording import actions, state_names
from stacktrans.common.errors import CheckpointError, StacktransError
from stacktrans.common.files import MACHINE
from stacktrans.decoding.decoder import decode
from stacktrans.extraction import learner, refinement
from stacktrans.extraction.learner import Extraction, Learner, without_needless_memories
from stacktrans.extraction.limits import CannotExtract, Deadline
from stacktrans.extraction.network import Network
from stacktrans.extraction.quantization import Codebook, QuantizedNetwork, coarsest_quantization
from stacktrans.extraction.queries import Query, answers_of, random_queries, same_answers
from stacktrans.extraction.symmetry import REPRESENTATIVES, symmetry_of
from stacktrans.memory import make_memory
from stacktrans.model import checkpoint, checkpoint_files
from stacktrans.model.description import machine_line
from stacktrans.model.transducer import Transducer
from stacktrans.proofs.proof import Bisimulation, Counterexample, prove
from stacktrans.settings.config import RunConfig
from stacktrans.settings.locations import shipped
from stacktrans.settings.resolve import resolve
from stacktrans.showing.machine_graph import svg
from stacktrans.tasks import make_task
from stacktrans.tasks.base import Task
from stacktrans.tasks.layout import Layout, Pair
from stacktrans.tasks.lengths import Lengths

LETTERS = 8


def zeros(config: RunConfig) -> tuple[dict[str, torch.Tensor], int]:
    """The weights of a model, all of them 0, and how many inputs it has."""
    layout = config.make_task().layout
    model = Transducer(config.model, layout.inputs, layout.outputs)
    weights = {name: torch.zeros_like(weight) for name, weight in model.state_dict().items()}
    return weights, layout.inputs


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
    folder = directory / "tasks"
    folder.mkdir()
    text = (shipped("tasks") / "reverse.yaml").read_text()
    text = text.replace("symbols: 128", f"symbols: {symbols}")
    (folder / "reverse.yaml").write_text(text)
    config = resolve(
        task=str(folder / "reverse.yaml"),
        recipe="default",
        settings={"model": {"memory": {"name": "stack", "size": symbols}}},
        assignments=[
            *("controller=linear", "embedding_size=one-hot", "output_size=null"),
            f"task.lengths={lengths}",
        ],
    )
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
    config = resolve(
        task="reverse",
        recipe="default",
        settings={"model": {"memory": {"name": "queue+stack", "size": symbols}}},
        assignments=[
            *("controller=linear", "embedding_size=one-hot", "output_size=null"),
            f"parameters.symbols={symbols}",
        ],
    )
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
    text = (shipped("tasks") / "copy.yaml").read_text()
    text = text.replace("symbols: 128", f"symbols: {symbols}")
    (directory / "copy.yaml").write_text(text)
    config = resolve(
        task=str(directory / "copy.yaml"),
        recipe="buffered",
        settings={"model": {"memory": {"name": "stack", "size": symbols + 1}}},
        assignments=["controller=linear", "embedding_size=one-hot", "output_size=null"],
    )
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


@pytest.fixture(scope="module")
def reverse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return reversing(tmp_path_factory.mktemp("reverse"))


@pytest.fixture(scope="module")
def extracted(reverse: Path) -> Extraction:
    return Learner(checkpoint.load(reverse, hard=True)).learn()


@pytest.fixture(scope="module")
def saved(reverse: Path, extracted: Extraction, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("machines") / "machine"
    checkpoint_files.save_machine(path, checkpoint.load(reverse).config, extracted.machine, "")
    return path


def test_a_saved_machine_is_listed(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("checkpoints").mkdir()
    Path("checkpoints/mine").symlink_to(saved)
    entries = json.loads(run("list", "checkpoints", "--json").stdout)
    machines = {entry["name"]: entry["machine"] for entry in entries}
    assert [name for name, machine in machines.items() if machine] == ["checkpoints/mine"]
    shown = run("list", "checkpoints").stdout.decode().splitlines()
    (line,) = [line for line in shown if line.startswith("checkpoints/mine ")]
    assert "machine  " in line


def test_equivalent_symbols_share_rules(extracted: Extraction) -> None:
    assert extracted.counterexample is None
    assert len(extracted.machine.rules) <= 4
    assert extracted.machine.states.size == 1
    sentences = [rule.sentence for rule in extracted.machine.rule_descriptions]
    assert "reading a symbol: push it" in sentences


def test_rules_say_nothing_of_a_memory_that_was_never_empty(
    machine_of: Callable[[str], Path],
) -> None:
    machine = read_machine(machine_of("reverse-stack") / MACHINE)  # which pushes first
    sentences = [rule.sentence for rule in machine.rule_descriptions]
    assert (
        "reading ||| or a written symbol, stack has a symbol: pop, write what is read" in sentences
    )
    assert not any("empty" in rule for rule in sentences)


def test_a_machine_answers_as_its_model(reverse: Path, extracted: Extraction) -> None:
    model = checkpoint.load(reverse, hard=True)
    drawn = random.Random(1)
    sources = [
        *(list(each) for n in range(1, 6) for each in itertools.product(range(2), repeat=n)),
        *([drawn.randrange(LETTERS) for _ in range(length)] for length in (50, 99, 200)),
    ]
    expected = decode(model.predictor, model.layout, [np.array(each) for each in sources])
    for source, right in zip(sources, expected, strict=True):
        assert extracted.machine.run(source).target == right.target == source[::-1]


def test_a_machine_that_was_extracted_is_proved(reverse: Path, extracted: Extraction) -> None:
    proof = prove(extracted.machine, checkpoint.load(reverse).task)
    assert isinstance(proof, Bisimulation)
    assert [len(symbols) for symbols in proof.symbol_classes] == [LETTERS]


def test_second_order_units_are_a_finite_automaton(tmp_path: Path) -> None:
    model = checkpoint.load(counting_ones(tmp_path))
    extraction = Learner(model).learn()
    assert extraction.machine.states.size == 2
    assert all(each.agreeing == each.strings for each in extraction.agreement)
    for source in itertools.product(range(2), repeat=9):
        assert extraction.machine.run([*source]).target == [sum(source) % 2]


def test_states_that_remember_a_symbol_share_rules(tmp_path: Path) -> None:
    extraction = Learner(checkpoint.load(remembering_the_last(tmp_path))).learn()
    machine = extraction.machine
    assert extraction.counterexample is None
    assert machine.states.size == 11
    sentences = [rule.sentence for rule in machine.rule_descriptions]
    assert len(sentences) <= 5
    assert "reading a symbol: go to q_x where x is it" in sentences
    assert any("reading |||: write that of the state" in each for each in sentences)
    assert machine.run([3, 9, 5]).target == [5]
    assert svg(machine).count("<circle") == 2  # q0 and q_x
    assert '"q_x"' in machine.to_dot()
    assert machine_from_json(json.loads(machine_json(machine))).rules == machine.rules


def test_a_symbol_that_goes_wrong_is_found(tmp_path: Path) -> None:
    found = Learner(checkpoint.load(reversing(tmp_path, wrong=3), hard=True)).learn()
    assert found.counterexample is None
    # It says what the model says, and not what the task asks for.
    assert found.machine.run([0, 3, 5]).target == [5, 4, 0]
    model = checkpoint.load(tmp_path / "model")
    assert prove(found.machine, model.task) == Counterexample((3,))


def test_a_few_of_many_interchangeable_symbols_are_enough(tmp_path: Path) -> None:
    found, lines = checkpoint.load(reversing(tmp_path, symbols=30, wrong=3), hard=True), list[str]()
    extraction = Learner(found, log=lines.append).learn()
    assert lines[0] == '!, ", # and & stand for 28 interchangeable symbols'
    assert extraction.counterexample is None
    assert extraction.machine.run([7, 3, 29, 0]).target == [0, 29, 4, 7]
    assert len(extraction.machine.rules) <= 5


def test_only_equally_treated_symbols_stand_for_one_another(tmp_path: Path) -> None:
    found = checkpoint.load(reversing(tmp_path, symbols=20, wrong=3), hard=True)
    symmetry = symmetry_of(found, found.predictor.discretized())
    (symbols,) = symmetry.classes
    assert {3, 4}.isdisjoint(symbols.tolist())
    assert len(symbols) == 18
    queries = [Query(np.array(each), None) for each in ([3, 4, 0], [19, 3], [3, 19])]
    reduced = [query.ids.tolist() for query in symmetry.reduced(queries)]
    assert {*reduced[0], *reduced[1]} <= {3, 4, *symbols[:REPRESENTATIVES].tolist()}
    assert reduced[0] == [3, 4, 0]
    assert symmetry.completed(symbols[:REPRESENTATIVES].tolist()) == symbols.tolist()
    assert symmetry.completed([3, 0]) == [0, 3]


def test_the_shifts_of_a_string_are_its_orbit(tmp_path: Path) -> None:
    found = checkpoint.load(reversing(tmp_path, symbols=20, wrong=3), hard=True)
    symmetry = symmetry_of(found, found.predictor.discretized())
    (symbols,) = symmetry.classes
    first, second, third, fourth = symbols[:REPRESENTATIVES].tolist()
    orbit = symmetry.orbits([Query(np.array([first, 3, second]), None)])
    expected = [
        *([first, 3, second], [second, 3, third]),
        *([third, 3, fourth], [fourth, 3, first]),
    ]
    assert [query.ids.tolist() for query in orbit] == expected
    assert [query.ids.tolist() for query in symmetry.orbits(orbit)] == expected


def test_strings_of_few_symbols_that_are_no_sources_are_not_learned_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if only strings of distinct symbols had an answer."""
    found = checkpoint.load(reversing(tmp_path, symbols=20), hard=True)
    answer = type(found.task).exact_pair

    def distinct(task: Task, source: Sequence[str]) -> Pair | None:
        return answer(task, source) if len({*source}) == len(source) else None

    monkeypatch.setattr(type(found.task), "exact_pair", distinct)
    assert Learner(found).learn().counterexample is None


def test_a_rare_combination_of_symbols_is_found(tmp_path: Path) -> None:
    """One of 900 pairs of neighbors, in strings of some ten symbols."""
    lengths = "{train: [1, 8], test: [9, 16]}"
    path = reversing(tmp_path, symbols=30, skipped=(20, 10), lengths=lengths)
    found = Learner(checkpoint.load(path, hard=True)).learn()
    assert found.machine.run([7, 20, 10, 9]).target == [9, 20, 7]
    assert found.machine.run([7, 10, 20, 9]).target == [9, 20, 10, 7]


def test_a_machine_can_be_right_where_its_model_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learner, "TEST_STRINGS", 50)
    # So that the rare combination is not found at once.
    monkeypatch.setattr(learner, "COVERING_SYMBOLS", 0)
    lengths = "{train: [1, 8], test: [9, 16]}"
    path = reversing(tmp_path, symbols=50, skipped=(40, 30), lengths=lengths)
    done = run("extract", path, "--strings", "3000", "--lengths", "10:20")
    assert done.stdout.endswith(b" (the machine is right)\n")


def test_symbols_that_decide_only_together_are_distinguished(tmp_path: Path) -> None:
    """An exclusive or of two memories' contents is predicted by neither of them."""
    found = Learner(checkpoint.load(comparing_ends(tmp_path), hard=True)).learn()
    assert all(each.agreeing == each.strings for each in found.agreement)
    strings = ("0", "1", "00", "01", "0110", "101011")
    answers = [found.machine.run([*map(int, string)]).target for string in strings]
    assert answers == [[int(string[0] != string[-1])] for string in strings]


def test_pushes_that_are_never_read_have_stack_symbols(tmp_path: Path) -> None:
    found = Learner(checkpoint.load(delaying(tmp_path), hard=True)).learn()
    assert found.counterexample is None
    assert found.machine.run([0, 1, 1]).target == [0, 1, 1]


@pytest.mark.parametrize(
    ("strength", "shut"), [(0.4, ["push queue"]), (30, [])], ids=["needless", "needed"]
)
def test_a_memory_is_shut_if_that_changes_no_answer(
    tmp_path: Path, strength: float, shut: list[str]
) -> None:
    found = checkpoint.load(reversing_beside(tmp_path, strength), hard=True)
    strings = [Query(np.array(each), None) for each in ([0, 1], [2, 2, 1, 0], [7, 3, 5, 5, 6])]
    ends = Network(found, Deadline(60)).ends
    simpler = without_needless_memories(found, ends, same_answers(found, strings))
    biases = simpler.weights["operation.signals.bias"]
    assert [
        name for name, bias in zip(found.signal_names, biases, strict=True) if bias < -20
    ] == shut
    assert Learner(found).learn().counterexample is None


def test_a_quantized_network_has_fewer_vectors_and_the_same_answers(tmp_path: Path) -> None:
    found = checkpoint.load(reversing_beside(tmp_path, strength=0.4), hard=True)
    network = Network(found, Deadline(60))
    queries, others = (random_queries(found, Lengths(1, 12), 100, seed) for seed in (1, 2))
    exact, coarse = (
        QuantizedNetwork(network, (0, 0, 0)),
        coarsest_quantization(network, same_answers(found, queries)),
    )
    answers = answers_of(found.layout, found.predictor.discretized(), others)
    assert answers_of(found.layout, AutomatonModel(exact), others) == answers
    assert answers_of(found.layout, AutomatonModel(coarse), others) == answers
    assert len(coarse.pushed[-1]) <= 2 * LETTERS < len(exact.pushed[-1])


def test_extraction_reports_undecided_signals(tmp_path: Path) -> None:
    done = run("extract", reversing(tmp_path, push=0.5))
    assert done.returncode == 0
    assert b"signals are far from 0 and 1" in done.stderr


def test_a_machine_with_too_many_stack_symbols_is_refused(
    reverse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refinement, "MAX_STACK_SYMBOLS", 3)
    with pytest.raises(CannotExtract, match="strings require more than 3 stack symbols"):
        Learner(checkpoint.load(reverse, hard=True)).learn()


def test_a_machine_is_a_checkpoint(saved: Path) -> None:
    assert run("transduce", saved, stdin=b'!"#\n').stdout == b'#"!\n'
    entry = json.loads(run("transduce", saved, "--json", stdin=b'!"#\n').stdout)
    assert (entry["output"], entry["probability"]) == ('#"!', 1.0)
    measured = json.loads(run("eval", saved, "--count", "20", "--json").stdout)
    assert [each["coarse"] for each in measured["results"]] == [1.0, 1.0]
    followed = json.loads(run("inspect", saved, '!"', "--json").stdout)
    assert followed["correct"]
    assert followed["steps"][3]["reads"]["top"][0]["symbol"] == "!"


@pytest.mark.parametrize("width", ["2", "9"])
def test_a_beam_finds_the_only_answer(saved: Path, width: str) -> None:
    found = json.loads(run("transduce", saved, "--beam", width, "--json", stdin=b'!"\n').stdout)
    assert found["output"] == '"!'
    assert len(found["hypotheses"]) == 1


def test_a_source_without_a_rule_has_no_answer_and_others_have(saved: Path, tmp_path: Path) -> None:
    loaded = checkpoint.load(saved)
    machine = loaded.machine
    assert machine is not None
    first = machine.layout.first_source
    rules = [
        rule._replace(when=tuple(each and each - {first} for each in rule.when))
        if rule.when[0] and first in rule.when[0]
        else rule
        for rule in machine.rules
    ]
    lost = tmp_path / "lost"
    checkpoint_files.save_machine(lost, loaded.config, replace(machine, rules=tuple(rules)), "")
    lines = b"#$\n!#\n$%\n"
    done = run("transduce", lost, "--json", stdin=lines)
    entries = [json.loads(line) for line in done.stdout.splitlines()]
    assert [entry["output"] for entry in entries] == ["$#", None, "%$"]
    assert "no rule" in entries[1]["error"]
    assert "standard input:2: the machine has no rule" in done.stderr.decode()
    assert (done.returncode, run("transduce", lost, stdin=lines).returncode) == (1, 1)
    own = run("eval", lost, "--data", "-", "--json", stdin=b"#$\t$#\n!#\t#!\n$%\t%$\n")
    assert json.loads(own.stdout)["results"][0]["coarse"] == pytest.approx(2 / 3)
    with pytest.raises(StacktransError, match="source 2: the machine has no rule"):
        stacktrans.load(lost).transduce(["#$", "!#"])
    shown = run("inspect", lost, "!#").stdout.decode()
    assert shown.endswith("no answer: no rule applies at step 2: reading !, stack is empty\n")


def test_nothing_slow_is_imported_to_answer(saved: Path) -> None:
    code = (
        "import sys; from stacktrans.cli import app; import atexit;"
        "atexit.register(lambda: print(sorted({'torch', 'numba'} & sys.modules.keys())));"
        f"app(['transduce', {str(saved)!r}])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input=b'!"\n', capture_output=True, check=False
    )
    assert done.stdout.decode().splitlines() == ['"!', "[]"]


def test_unknown_symbols_are_named(saved: Path) -> None:
    done = run("transduce", saved, stdin="!é\n!\n".encode())
    assert done.returncode == 1
    assert done.stdout == b"\n!\n"
    assert "symbol 2 is 'é'" in done.stderr.decode()


def test_a_machine_is_read_as_it_was_written(saved: Path, extracted: Extraction) -> None:
    machine = read_machine(saved / MACHINE)
    assert machine == extracted.machine
    assert machine_json(machine) == (saved / MACHINE).read_text()


def test_damage_is_found(saved: Path, tmp_path: Path) -> None:
    (tmp_path / MACHINE).write_text("other")
    reseal(tmp_path)
    shutil.copy(saved / MACHINE, tmp_path)
    done = run("transduce", tmp_path, stdin=b"!\n")
    assert done.returncode == 1
    assert b"damaged: its checksum" in done.stderr


def changed(content: str, old: str, new: str) -> str:
    """The content of a machine's file with a change; buffers also need "nothing" as an input."""
    content = content.replace(old, new, 1)
    if "buffers" in old:
        symbols = '["written symbol", [[0, 7]]]'
        assert symbols in content
        content = content.replace(symbols, f'{symbols}, ["nothing", null]', 1)
    return content


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"signals": [', '"signals": [7, '),
        ('"pops": [[0, 0]]', '"pops": [[0]]'),
        ('"reads": [0]', '"reads": 0'),
        ('"output": [', '"output": [0, '),
        ('"first_source": 2', '"first_source": Infinity'),
        ('"first_source": 2', '"first_source": 1e400'),
        ('"signals": [0', '"signals": [-1'),
        ('"signals": [0', '"signals": [true'),
        ('"end": 8', '"end": [8]'),
        ('"kind": "pairs"', '"kind": "other"'),
        ('"inputs": 18', '"inputs": 19'),
        ('"outputs": 9', '"outputs": 1000000'),
        ('"padding": [1, 0]', '"padding": [1]'),
        (
            '"buffers": null',
            '"buffers": {"steps_per_symbol": 1000000000000000, "extra_steps": 0, "output_skip": 0}',
        ),
        (
            '"buffers": null',
            '"buffers": {"steps_per_symbol": 1, "extra_steps": -1, "output_skip": 0}',
        ),
        ("[[0, 7]]", "[[0, 6], [0, 0]]"),
        ("[[0, 7]]", "[[0, 7]" + ", [0, 7]" * 200_000 + "]"),
        ('"stack_symbols": [', '"stack_symbols": [[["empty", []]]], "other": ['),
        ('"rules": [', '"rules": [0, '),
        ('"states": [', '"states": 3, "other": ['),
        ("{", "["),
    ],
)
def test_damaged_machines_are_refused(saved: Path, tmp_path: Path, old: str, new: str) -> None:
    (tmp_path / MACHINE).write_text(changed((saved / MACHINE).read_text(), old, new))
    reseal(tmp_path)
    done = run("transduce", tmp_path, stdin=b"!\n")
    assert done.returncode == 1
    assert f"{tmp_path / MACHINE}: not a machine: " in done.err


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('"signals": [0', '"signals": [2', "rule 1: signals: 2; expected 0 or 1"),
        ('"signals": [0', '"signals": [0, 0', "rule 1: signals: 3 entries; expected 2"),
        ('"when": [', '"when": [[[0, 9999]], ', "rule 1: when: 4 entries; expected 3"),
        ('"states": [', '"states": [["q", []]], "other": [', "states: no entries; expected"),
        ('"outputs": 9', '"outputs": 10', "outputs: 9 entries; expected 10"),
        ('"next_state"', '"next"', "rule 1: 'next_state' is missing"),
    ],
)
def test_errors_name_what_is_wrong_with_a_machine(
    saved: Path, tmp_path: Path, old: str, new: str, problem: str
) -> None:
    (tmp_path / MACHINE).write_text(changed((saved / MACHINE).read_text(), old, new))
    reseal(tmp_path)
    done = run("transduce", tmp_path, stdin=b"!\n")
    assert done.returncode == 1
    assert f"{tmp_path / MACHINE}: not a machine: {problem}" in done.err


def test_pictures_name_all_states_and_rules(extracted: Extraction) -> None:
    machine = extracted.machine
    assert svg(machine).count("<circle") == machine.states.size
    assert machine.to_dot().count("->") >= 2
    for number in range(1, len(machine.rules) + 1):
        assert f">{number}</text>" in svg(machine)


LETTER_STATES = replace(
    rearranging(make_task("reverse", "reverse", {"symbols": 10}), STACK),
    states=SymbolTable(
        (Family("q0"), Family("q_x", tuple(range(10))), Family("q_x'2", tuple(range(10))))
    ),
)


@pytest.mark.parametrize(
    ("states", "words"),
    [
        (None, "any"),
        ([0], "q0"),
        ([1, 2], 'q_! or q_"'),
        (range(1, 11), "any q_x"),
        (range(2, 11), "any q_x but q_!"),
        ([0, *range(11, 21)], "q0 or any q_x'2"),
        (range(1, 21), "any but q0"),
        ([11, 12], "q_!'2 or q_\"'2"),
    ],
)
def test_states_are_listed_in_few_words(states: Sequence[int] | None, words: str) -> None:
    assert state_names(LETTER_STATES, None if states is None else frozenset(states)) == words


@pytest.mark.parametrize(
    ("states", "after", "words"),
    [
        (range(1, 11), Term(0, 1), "go to q_x where x is it"),
        (range(1, 11), Term(1, 2), "go to q_x'2 where x is what is read"),
        (range(1, 11), Term(2, 2), "go to q_x'2 where x is that of the state"),
        (range(1, 11), Term(2, 1), "nothing"),  # it stays in the same state
        ([0], Term(CONSTANT, 0), "nothing"),
        ([0], Term(CONSTANT, 1), "go to q_!"),
    ],
)
def test_actions_name_the_next_state(states: Sequence[int], after: Term, words: str) -> None:
    changed = rule(when(None, None, states), (0, 0), after=after)
    assert actions(LETTER_STATES, changed) == words


def counting() -> Machine:
    """Writes a symbol for each one that it has read, and has no rule for the second symbol."""
    symbols = Family("symbol", (0, 1))
    inputs = SymbolTable((Family("begin"), Family("separator"), symbols, symbols))
    stack_symbols = SymbolTable((Family("empty"), Family("mark 1")))
    return Machine(
        'count', ('a', 'b'), ('a', 'b'), (False, False), inputs,
        SymbolTable((symbols, Family('end'))), (stack_symbols,), ONE, STACK, None,
        Layout.joint(2, 2),
        (
            rule(when([2], None, None), (0, 1), None, (Term(CONSTANT, 1),)),
            rule(when([0], None, None), (0, 0)),
            rule(when(None, [0], None), (0, 0), Term(CONSTANT, 2)),
            rule(when([1, 4], None, None), (1, 0), SAME),
        ),
    )  # fmt: skip


def test_a_machine_refuses_ids_that_do_not_exist() -> None:
    with pytest.raises(IndexError, match="an id is -1; expected 0 or more"):
        AutomatonModel(counting()).advance(AutomatonModel(counting()).start(1), np.array([[-1]]))


def test_torch_and_compiled_kernels_lead_to_the_same_machine() -> None:
    compiled = checkpoint.load("xor-buffered", hard=True)
    model = compiled.config.model.model_copy(update={"kernel": "torch"})
    of_torch = replace(compiled, config=compiled.config.model_copy(update={"model": model}))
    assert Learner(of_torch).learn().machine == Learner(compiled).learn().machine


def test_a_vector_equal_to_that_of_an_empty_memory_gets_its_own_number_if_reserved() -> None:
    empty = np.zeros(2)
    for reserved, number in ((True, 1), (False, 0)):
        codebook = Codebook(empty, lambda vectors: vectors, 0.0, reserved)
        assert codebook.add(empty, None) == number
        assert np.array_equal(codebook.of(np.array([number])), [empty])


def test_a_missing_rule_of_a_machine_is_reported() -> None:
    machine = counting()
    assert machine.run([0] * 1000).target == [0] * 1000
    assert machine.run([0, 1, 0]).failed
    assert "no rule" in AutomatonModel(machine).failure


def test_an_answer_without_end_is_cut_off() -> None:
    answer = counting().run([0] * 10, limit=4)
    assert (answer.target, answer.ended) == ([0] * 4, False)


def test_a_machine_is_printed_as_json(saved: Path) -> None:
    (printed,) = json.loads(run("extract", saved, "--json").stdout).values()
    assert printed == json.loads((saved / MACHINE).read_text())


def test_a_machine_cannot_be_trained(saved: Path) -> None:
    with pytest.raises(CheckpointError, match="no weights"):
        checkpoint.load(saved).model  # noqa: B018
    trained = run("train", "--task", "reverse", "--from", saved)
    assert f"{saved}: a machine has no weights" in trained.stderr.decode()
    again = run("extract", saved, "--strings", "5")
    assert f"{saved}: it is a machine already; expected a network" in again.stderr.decode()


def test_extract_shows_the_rules_of_a_machine(saved: Path) -> None:
    machine = checkpoint.load(saved).machine
    assert machine
    title, _, *rules = run("extract", saved).stdout.decode().splitlines()
    assert title == machine_line(machine)
    for line, described in zip(rules, machine.rule_descriptions, strict=True):
        assert all(words in line for words in (str(described.number), described.action))


def test_a_machine_for_another_task_is_refused(saved: Path, tmp_path: Path) -> None:
    for path in saved.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    config = tmp_path / "config.yaml"
    config.write_text(config.read_text().replace(f"symbols: {LETTERS}", "symbols: 5"))
    reseal(tmp_path)
    done = run("eval", tmp_path)
    assert done.returncode == 1
    assert b"source is (" in done.stderr


BUFFERS = '{"steps_per_symbol": 1, "extra_steps": 0, "output_skip": 0}'


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"task": "reverse"', '"task": "copy"', "task is 'copy', but config.yaml requires"),
        ('"words": [false, false]', '"words": [false, true]', "words.1 is True, but"),
        ('"backwards": false', '"backwards": true', "layout.backwards is True, but"),
        ('"end": 8', '"end": 3', "layout.end is 3, but config.yaml requires 8"),
        ('"end": 8', '"end": 1000000', "layout.end is 1000000, but"),
        ('"first_source": 2', '"first_source": -9', "layout.first_source is -9, but"),
        ('"first_target": 10', '"first_target": 99', "layout.first_target is 99, but"),
        ('"before": [0]', '"before": [99]', "layout.before.0 is 99, but"),
        ('"last": []', '"last": [1]', "layout.last is (1,), but"),
        ('"blank": null', '"blank": 1', "layout.blank is 1, but"),
        ('"padding": [1, 0]', '"padding": [3, 0]', "layout.padding.each is 3, but"),
        (
            '"padding": [1, 0]',
            '"padding": [10000000000000, 0]',
            "layout.padding.each is 10000000000000, but config.yaml requires 1",
        ),
        ('"source": ["!", "\\""', '"source": ["\\"", "!"', "source.0 is '\"', but"),
        ('"target": ["!", "\\""', '"target": ["\\"", "!"', "target.0 is '\"', but"),
        ('"names": ["stack"]', '"names": ["queue"]', "memories.names.0 is 'queue', but"),
        ('"reads": [0]', '"reads": [1]', "memories.reads.0 is 1, but config.yaml requires 0"),
        ('"buffers": null', f'"buffers": {BUFFERS}', "buffers is Buffers("),
    ],
)
def test_a_machine_that_contradicts_its_configuration_is_refused(
    saved: Path, tmp_path: Path, old: str, new: str, message: str
) -> None:
    contradict(saved, tmp_path, old, new)
    with pytest.raises(CheckpointError, match=re.escape(f"{MACHINE}: {message}")):
        stacktrans.load(tmp_path)


def contradict(saved: Path, directory: Path, old: str, new: str) -> None:
    """Copy a machine with its configuration, and change a part of the machine."""
    content = (saved / MACHINE).read_text()
    assert content.count(old) == 1
    shutil.copy(saved / "config.yaml", directory)
    (directory / MACHINE).write_text(changed(content, old, new))
    reseal(directory)


def test_every_command_refuses_a_machine_that_contradicts_its_configuration(
    saved: Path, tmp_path: Path
) -> None:
    contradict(saved, tmp_path, '"end": 8', '"end": 3')
    message = f"{tmp_path / MACHINE}: layout.end is 3, but config.yaml requires 8"
    commands = ("transduce", "transduce --json", "transduce --beam 2", "eval", "inspect", "verify")
    for command in (*commands, "extract"):
        name, *options = command.split()
        done = run(name, tmp_path, *options, stdin=b"!\n")
        assert (done.returncode, done.stdout) == (1, b""), command
        assert message in done.err, command
