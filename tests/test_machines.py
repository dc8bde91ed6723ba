"""Machines that are extracted from hard models answer as these do, on short and long strings."""

import itertools
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from command_line import run
from networks_by_hand import (
    LETTERS,
    comparing_ends,
    counting_ones,
    delaying,
    remembering_the_last,
    reversing,
    reversing_beside,
)
from own_machines import STACK, counting, rearranging, rule, when

from stacktrans.automata.execution import AutomatonModel
from stacktrans.automata.machine_file import machine_from_json, machine_json, read_machine
from stacktrans.automata.rules import CONSTANT, Family, SymbolTable, Term
from stacktrans.automata.wording import actions, state_names
from stacktrans.common.files import MACHINE
from stacktrans.decoding.decoder import decode
from stacktrans.extraction import learner, refinement
from stacktrans.extraction.learner import Extraction, Learner, without_needless_memories
from stacktrans.extraction.limits import CannotExtract, Deadline
from stacktrans.extraction.network import Network
from stacktrans.extraction.quantization import Codebook, QuantizedNetwork, coarsest_quantization
from stacktrans.extraction.queries import Query, answers_of, random_queries, same_answers
from stacktrans.extraction.symmetry import REPRESENTATIVES, symmetry_of
from stacktrans.model import checkpoint
from stacktrans.proofs.proof import Bisimulation, Counterexample, prove
from stacktrans.showing.machine_graph import svg
from stacktrans.tasks import make_task
from stacktrans.tasks.base import Task
from stacktrans.tasks.layout import Pair
from stacktrans.tasks.lengths import Lengths


@pytest.fixture(scope="module")
def reverse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return reversing(tmp_path_factory.mktemp("reverse"))


@pytest.fixture(scope="module")
def extracted(reverse: Path) -> Extraction:
    return Learner(checkpoint.load(reverse, hard=True)).learn()


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
