"""Machines of streams, and of stacks and lists with actions."""

import contextlib
import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from command_line import run
from own_machines import counting

from stacktrans.automata.execution import AutomatonModel, Configuration
from stacktrans.automata.machine import Machine
from stacktrans.automata.machine_file import read_machine
from stacktrans.automata.rules import CONSTANT, Family, Rule, SymbolTable, Term
from stacktrans.automata.wording import component_names
from stacktrans.commands.terminal import print_out
from stacktrans.common.ends import Ends
from stacktrans.common.files import MACHINE
from stacktrans.decoding.decoder import predict
from stacktrans.extraction import limits
from stacktrans.extraction.learner import Learner
from stacktrans.extraction.limits import CannotExtract, Deadline
from stacktrans.extraction.network import Network
from stacktrans.extraction.quantization import QuantizedNetwork
from stacktrans.extraction.queries import Query, random_queries
from stacktrans.model import checkpoint, checkpoint_files
from stacktrans.model.checkpoint import Checkpoint
from stacktrans.model.transducer import Transducer
from stacktrans.settings.resolve import resolve
from stacktrans.showing.machines import rules_table
from stacktrans.tasks.layout import Layout
from stacktrans.tasks.lengths import Lengths


def untrained(directory: Path, memory: str, seed: int = 0, **own: object) -> Checkpoint:
    """A hard model of a stream with random weights, which uses its memory in all ways."""
    config = resolve(
        task="anbncn",
        recipe="default",
        settings={"model": {"memory": {"name": memory, "size": 2, **own}}},
        assignments=["controller=lstm"],
    )
    layout = config.make_task().layout
    torch.manual_seed(seed)
    model = Transducer(config.model, layout.inputs, layout.outputs)
    weights = {name: 3 * torch.randn_like(each) for name, each in model.state_dict().items()}
    path = directory / f"model-{seed}"
    checkpoint_files.save(path, config, weights)
    return checkpoint.load(path, hard=True)


@pytest.mark.parametrize(
    ("memory", "values"),
    # Through a sigmoid, vectors would be so near to the empty cells of a superposed stack, at 0,
    # that they have the same numbers.
    [("stack-rnn", "sigmoid"), ("list-rnn", "sigmoid"), ("superposed", "tanh")],
)
def test_a_network_that_is_quantized_without_a_radius_has_the_same_outputs(
    memory: str, values: str, tmp_path: Path
) -> None:
    taken = []
    for seed in range(4):
        loaded = untrained(tmp_path, memory, seed, count=3, depth=4, values=values)
        network = Network(loaded, Deadline(60))
        strings = [each.ids[:25] for each in random_queries(loaded, Lengths(1, 19), 6, 1)]
        quantized = QuantizedNetwork(network, [0.0] * (1 + len(set(network.ends.alphabets))))
        own, expected = (
            predict(model, strings, log_probs=False).symbols
            for model in (AutomatonModel(quantized), network.model)
        )
        assert [*map(list, own)] == [*map(list, expected)]
        quantized.record([Query(ids, np.ones(len(ids), np.bool_)) for ids in strings])
        taken.append((quantized.steps().signals == 1).any(axis=0))
    assert np.mean(np.any(taken, axis=0)) > 0.7  # most actions are


@pytest.mark.parametrize(("memory", "capacity"), [("stack-rnn", 3), ("tape", None)])
def test_a_memory_that_forgets_is_refused(
    memory: str, capacity: int | None, tmp_path: Path
) -> None:
    with pytest.raises(CannotExtract, match=f"memory {memory} cannot be .*, without a capacity"):
        Learner(untrained(tmp_path, memory, capacity=capacity))


def test_the_machine_of_a_stream_has_few_rules(machine_of: Callable[[str], Path]) -> None:
    machine = read_machine(machine_of("anbncn") / MACHINE)
    assert machine.states.size == 1
    sentences = [rule.sentence for rule in machine.rule_descriptions]
    assert len(sentences) <= 6
    assert any(each.startswith("reading a: push it on") for each in sentences)


def test_a_machine_of_a_stream_is_a_checkpoint(machine_of: Callable[[str], Path]) -> None:
    saved = machine_of("anbncn")
    assert read_machine(saved / MACHINE).memories.depths
    assert run("transduce", saved, stdin=b"aaab\nab\n").stdout == b"bbccc\nc\n"
    options = ("--lengths", "1:60", "--count", "200", "--json")
    measured = json.loads(run("eval", saved, *options).stdout)
    assert measured["results"][0]["coarse"] == 1.0
    followed = json.loads(run("inspect", saved, "aab", "--json").stdout)
    assert followed["correct"]
    assert run("verify", saved, "--count", "50", "--exhaustive", "50").returncode == 0


def test_a_machine_is_compared_with_the_requested_number_of_strings() -> None:
    more = ("--strings", "20", "--lengths", "100:200", "--workers", "2")
    done = run("extract", "xor-buffered", *more, "--json")
    found = json.loads(done.stdout)["agreement"][-1]
    assert found == {"what": "random of length 100:200, uniformly", "strings": 20, "agreeing": 20}


@pytest.mark.parametrize("seconds", [0, 150, 2000, 8000])
def test_extraction_ends_soon_after_its_time_limit(
    seconds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = itertools.count()  # a clock that advances whenever it is read
    monkeypatch.setattr(limits, "time", SimpleNamespace(monotonic=lambda: next(asked)))
    with contextlib.suppress(CannotExtract):
        Learner(checkpoint.load("parenthesis-stack", hard=True), time_limit=seconds).learn()
    assert next(asked) < seconds + 50


def test_extraction_reports_a_lack_of_time() -> None:
    done = run("extract", "parenthesis-stack", "--time-limit", "0.001s")
    assert done.returncode == 1
    assert done.stderr.endswith(b"no machine found within 0.001 s\n")


def moving() -> Machine:
    """A list: a inserts, b moves left, c moves right; the output is the symbol at the head."""
    symbols, state = Family("symbol", (0, 1, 2)), SymbolTable((Family("q0"),))
    stack_symbols = SymbolTable((Family("empty"), symbols))
    same = Term(CONSTANT, 0)
    output = Term(1, 0)
    rules = [
        Rule(
            (frozenset([symbol]), None, None, None),
            (),
            tuple(int(signal == symbol) for signal in range(3)),
            output,
            (Term(0, 1) if symbol == 0 else None,),
            same,
        )
        for symbol in range(3)
    ]
    memories = Ends(
        ("list", "list right of its head"), (), ((0, 0),), (0, 2), ("insert", "left", "right"),
        (0, 0), ((1, 0, 2), (2, 2, 0)),
    )  # fmt: skip
    return Machine(
        "moving", ("a", "b", "c"), ("a", "b", "c"), (False, False),
        SymbolTable((symbols,)), SymbolTable((symbols,)), (stack_symbols,) * 2, state,
        memories, None, Layout.synchronous(3, 3), tuple(rules),
    )  # fmt: skip


def test_heads_of_lists_move() -> None:
    machine = moving()
    configuration = Configuration(machine)
    held = []
    for symbol in (0, 0, 1, 1, 1, 2, 2, 2):
        configuration.step(symbol)
        held.append([list(each) for each in configuration.contents])
    assert held[1] == [[1, 1], []]
    assert held[2] == [[1], [1]]
    assert held[4] == [[], [1, 1, 0]]  # beyond the last is what is empty
    assert held[7] == [[0, 1, 1], []]
    assert "reading b: move left, write" in machine.rule_descriptions[1].sentence


def test_rows_between_which_cells_move_have_one_alphabet() -> None:
    chain = Ends(("a", "b", "c", "d"), (), (), (), ("0", "1"), moves=((0, 2, 4), (1, 0, 2)))
    assert chain.alphabets == [0, 0, 0, 3]


def test_a_list_is_named_if_there_are_other_memories() -> None:
    own = moving()
    after_a_stack = Ends(
        ("stack", "list", "list right of its head"), ((0, 0),), ((1, 0), (2, 2)), (0, 2, 2, 4, 4),
        ("pop", "push", "insert", "left", "right"), (1, 0, 2, 0, 1), ((3, 2, 4), (4, 4, 2)),
    )  # fmt: skip
    machine = replace(own, memories=after_a_stack, stack_symbols=own.stack_symbols[:1] * 3)
    assert component_names(machine)[1:-1] == [
        "stack under its top",
        "list",
        "list 2 left of its head",
        "list right of its head",
        "list 2 right of its head",
    ]
    for signals, done in (((0, 0, 0, 1, 0), "left"), ((0, 0, 0, 0, 1), "right")):
        rule = Rule((None,) * 7, (), signals, None, (None, None), Term(CONSTANT, 0))
        (worded,) = replace(machine, rules=(rule,)).rule_descriptions
        assert worded.sentence == f"always: move {done} in list"


def test_the_state_has_a_column_of_its_own_if_there_are_several(
    capsys: pytest.CaptureFixture[str],
) -> None:
    machine = counting()
    rule = machine.rules[0]._replace(when=(frozenset([2]), None, frozenset([1])))
    two = SymbolTable((Family("q0"), Family("q1")))
    several = Machine(**{**vars(machine), "states": two, "rules": (rule, *machine.rules[1:])})
    print_out(rules_table(several))
    shown = capsys.readouterr().out
    assert "state" in shown.splitlines()[0]
    assert "q1" in shown
    assert several.rule_descriptions[0].sentence == "in q1, reading a: push mark 1, go to q0"
