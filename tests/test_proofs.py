"""Proofs that machines are right on all strings: none is ever wrong, and none is missed."""

import itertools
import json
import random
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import own_machines
import pytest
from command_line import run
from own_machines import QUEUE, STACK, first_wrong, mutant, rearranging, rule, sources, when
from shipped_tasks import task_of

from stacktrans.automata.execution import AutomatonModel
from stacktrans.automata.machine import Machine
from stacktrans.automata.rules import CONSTANT, Buffers, Family, SymbolTable, Term
from stacktrans.decoding.decoder import decode
from stacktrans.inference.trace import trace
from stacktrans.model.checkpoint import load
from stacktrans.model.checkpoint_files import save_machine
from stacktrans.proofs.abstractions import Restart
from stacktrans.proofs.product import Unproved
from stacktrans.proofs.proof import Bisimulation, Counterexample, Invariant, prove
from stacktrans.proofs.references import STACK as STACK_REFERENCE
from stacktrans.proofs.references import Reference, reference_of
from stacktrans.settings.locations import shipped
from stacktrans.settings.resolve import resolve
from stacktrans.settings.task_files import load_task
from stacktrans.tasks import make_task
from stacktrans.tasks.base import NotASource, Task

PARENTHESIS = load_task("parenthesis").parameters
NESTED = {
    "S": [{"probability": "1/2", "source": "S:1 T:2"}, {"probability": "1/2", "source": "T:1"}],
    "T": [
        {"probability": "1/4", "source": "( S:1 )"},
        {"probability": "1/4", "source": "( )"},
        {"probability": "1/4", "source": "[ S:1 ]"},
        {"probability": "1/4", "source": "[ ]"},
    ],
}


def made(generator: str, **parameters: object) -> Task:
    return make_task(generator, generator, parameters)


def translated(generator: str, **rules: Sequence[tuple[str, str]]) -> Task:
    """The task of a grammar with sources and targets of equally likely alternatives, root first."""
    listed = {
        name: [
            {"probability": f"1/{len(pairs)}", "source": one, "target": two} for one, two in pairs
        ]
        for name, pairs in rules.items()
    }
    return made(generator, root=next(iter(rules)), rules=listed)


TASKS = {
    "reverse": made("reverse", symbols=3),
    "copy": made("copy", symbols=3),
    "bigram-flip": made("bigram-flip", symbols=3),
    "reverse-string": made("reverse-string", symbols=2),
    "waiting-reversal": made("waiting-reversal", symbols=2),
    "waiting-reversal-deletion": made("waiting-reversal", symbols=4, deleted=2),
    "parity": made("parity"),
    "delayed-parity": made("delayed-parity"),
    "brackets": made("next-symbol", **PARENTHESIS),
    "nested-brackets": made("next-symbol", **{**PARENTHESIS, "rules": NESTED}),
    "copy by grammar": translated(
        "grammar", S=[("a S:1", "a S:1"), ("b S:1", "b S:1"), ("a", "a"), ("b", "b")]
    ),
    "reverse by grammar": translated(
        "grammar", S=[("a S:1", "S:1 a"), ("b S:1", "S:1 b"), ("a", "a"), ("b", "b")]
    ),
    "verb first": translated(
        "grammar",
        S=[("N:1 V:2", "V:2 N:1"), ("N:1 V:2 and S:3", "V:2 N:1 und S:3")],
        N=[("n", "n1"), ("m", "m1")],
        V=[("v", "v1"), ("w", "w1")],
    ),
    "ending": translated("grammar", S=[("a S:1", "a S:1"), ("b", "b !"), ("a", "c d")]),
    "beginning": translated("grammar", S=[("a S:1", "S:1 a"), ("b", "! b"), ("a", "c d")]),
    "words like marks": translated(
        "grammar",
        S=[
            *(("f S:1", "f S:1"), ("</s>", "x"), ("</s> c", "x y")),
            *(("b", "a <s>"), ("b d", "a e")),
        ],
    ),
    "same length": translated(
        "same-length-grammar",
        S=[("a S:1", "x S:1"), ("b T:1", "y T:1"), ("a", "x")],
        T=[("a T:1", "y T:1"), ("b S:1", "x S:1"), ("a", "y")],
    ),
}
Making = Callable[[Task], Machine]
MACHINES: dict[str, tuple[str, Making, int]] = {
    "stack": ("reverse", partial(rearranging, memories=STACK), 4),
    "stack read deep": ("reverse", own_machines.peeking, 4),
    "queue": ("copy", partial(rearranging, memories=QUEUE), 4),
    "deque": ("copy", own_machines.turned, 4),
    "marks": ("copy", own_machines.marking, 4),
    "stack and queue": ("reverse", own_machines.with_queue, 4),
    "two queues": ("bigram-flip", own_machines.flipping, 4),
    "waiting": ("waiting-reversal", own_machines.waiting, 8),
    "parity": ("parity", own_machines.odd, 8),
    "buffers": ("parity", own_machines.buffered_odd, 8),
    "brackets": ("brackets", own_machines.brackets, 6),
    "queue of a grammar": ("copy by grammar", partial(rearranging, memories=QUEUE), 4),
    "stack of a grammar": ("reverse by grammar", partial(rearranging, memories=STACK), 4),
}


def answer_of(task: Task, reference: Reference, source: Sequence[int]) -> list[int | None] | None:
    """The answer of a reference automaton; None if it does not accept the source."""
    state, held, outputs = reference.start, list[Hashable](), list[int | None]()
    place = -1 if reference.memory == STACK_REFERENCE else 0

    def top() -> Hashable | None:
        return held[place] if held else None

    for symbol in source:
        steps = [each for each in reference.steps(state, top()) if each.symbol == symbol]
        if not steps:
            return None
        (step,) = steps
        if step.pops:
            held.pop(place)
        held.extend(step.pushed)
        state = step.next_state
        outputs.append(step.output)
    if not reference.accepts(state, top()):
        return None
    if task.same_length:
        return outputs
    outputs = []
    while (step := reference.answer(state, top())).output != -1:
        if step.pops:
            held.pop(place)
        outputs.append(step.output)
        state = step.next_state
    return outputs


@pytest.mark.parametrize("name", TASKS)
def test_a_task_and_its_reference_automaton_agree(name: str) -> None:
    task, right = TASKS[name], 0
    reference = reference_of(task)
    assert reference is not None
    symbols = range(len(task.source))
    by_length = (itertools.product(symbols, repeat=length) for length in itertools.count(1))
    for source in itertools.islice(itertools.chain.from_iterable(by_length), 2500):
        answered = answer_of(task, reference, source)
        try:
            answer = task.answer(task.source.decode(source))
        except NotASource:
            assert answered is None or name == "waiting-reversal-deletion"
            continue
        ids = [None if each is None else int(task.target.encode([each])[0]) for each in answer]
        assert answered == ids
        right += 1
    assert right >= 14


def test_a_grammar_of_too_many_derivations_has_no_reference_automaton() -> None:
    chain = {f"A{n}": [(f"A{n + 1}:1 {x}", f"A{n + 1}:1 {x}") for x in "xy"] for n in range(40)}
    task = translated("grammar", S=[("A0:1", "A0:1")], **chain, A40=[("w", "w")])
    assert reference_of(task) is None


@pytest.mark.parametrize("name", ["reverse", "copy", "reversal", "parenthesis", "xor"])
def test_shipped_tasks_have_reference_automata(name: str) -> None:
    assert reference_of(task_of(name)) is not None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("( S:1 )", "( T:1 )"),  # one pair may hold several, the other only one
        ("( S:1 )", "( S:1 ]"),
        ("( )", "("),
        ("( )", "( ( )"),
        ("S:1 T:2", "S:1 S:2"),
        ("S:1 T:2", "( T:2"),
    ],
)
def test_grammars_not_of_brackets_have_no_reference_automaton(old: str, new: str) -> None:
    rules = {
        name: [{**each, "source": new} if each["source"] == old else each for each in listed]
        for name, listed in NESTED.items()
    }
    predict = {"predict": [")"], "rules": rules}
    assert reference_of(made("next-symbol", **{**PARENTHESIS, **predict})) is None


@pytest.mark.parametrize(
    "rules",
    [
        [("a S:1 b", "x S:1 y"), ("a b", "x y")],  # sources that are not regular
        [("S:1 b", "S:1 y"), ("a", "x")],  # recursion on the left
        [("S:1 S:2", "S:1 S:2"), ("a", "x")],
        [("a S:1", "x S:1"), ("a S:1", "y S:1"), ("a", "x")],  # two targets
        [("a S:1", "x S:1 x"), ("b S:1", "y S:1 y"), ("b", "y")],  # targets in both orders
    ],
)
def test_grammars_that_have_no_reference_automaton(rules: list[tuple[str, str]]) -> None:
    assert reference_of(translated("grammar", S=rules)) is None


@pytest.mark.parametrize("name", MACHINES)
def test_a_right_machine_is_proved(name: str) -> None:
    task, making, _ = MACHINES[name]
    assert isinstance(prove(making(TASKS[task]), TASKS[task]), Bisimulation)


def proof_of(machine: Machine, task: Task) -> Bisimulation:
    proof = prove(machine, task)
    assert isinstance(proof, Bisimulation)
    return proof


def counterexample_to(machine: Machine, task: Task) -> tuple[int, ...]:
    counterexample = prove(machine, task)
    assert isinstance(counterexample, Counterexample)
    return counterexample.source


def test_a_proof_has_an_invariant_of_each_memory() -> None:
    copy, reverse = TASKS["copy"], TASKS["reverse"]
    assert proof_of(own_machines.turned(copy), copy).invariants == (Invariant.REVERSED,)
    both = proof_of(own_machines.with_queue(reverse), reverse).invariants
    assert both == (Invariant.ALIGNED, Invariant.ARBITRARY)


@pytest.mark.parametrize("name", MACHINES)
def test_no_mutant_is_proved_that_answers_wrongly(name: str) -> None:
    generator, making, longest = MACHINES[name]
    task, drawn = TASKS[generator], random.Random(1)
    machine, strings = making(task), [*sources(task, longest)]
    proved = refuted = 0
    for _ in range(50):
        other = mutant(machine, drawn)
        wrong = first_wrong(other, task, strings)
        try:
            verdict = prove(other, task)
        except Unproved:
            continue
        if isinstance(verdict, Counterexample):
            assert first_wrong(other, task, [verdict.source])
            # It is the shortest of all.
            length = len(verdict.source)
            assert length == len(wrong) if wrong else length > longest
            refuted += 1
        else:
            assert wrong is None, other.rules
            proved += 1
    assert proved > 6
    assert refuted > 6
    assert proved + refuted > 43


def test_two_symbols_represent_all_equivalent_ones() -> None:
    task = made("reverse", symbols=128)
    proof = proof_of(rearranging(task, STACK), task)
    assert [len(symbols) for symbols in proof.symbol_classes] == [128]
    assert proof.situations < 50


@pytest.mark.parametrize("symbol", [0, 77])
def test_a_single_wrong_symbol_of_128_disproves_a_machine(symbol: int) -> None:
    task = made("reverse", symbols=128)
    machine = rearranging(task, STACK)
    start, push, *others = machine.rules
    only = push._replace(when=(frozenset([2 + symbol]), None, None), signals=(0, 0))
    wrong = replace(machine, rules=(start, only, push, *others))
    assert counterexample_to(wrong, task) == (symbol,)


def test_errors_at_a_great_depth_are_found() -> None:
    task = made("reverse", symbols=2)
    wrong = counterexample_to(own_machines.wrong_when_deep(task, 12), task)
    assert len(wrong) == 12
    assert first_wrong(own_machines.wrong_when_deep(task, 12), task, [wrong])
    # A machine that only changes to an equivalent state after so many symbols is never wrong.
    deep = own_machines.wrong_when_deep(task, 12)
    kept = [own for own in deep.rules if own.output is None or own.output.component != -1]
    end = deep.rules[-1]
    assert proof_of(replace(deep, rules=(*kept, end)), task)


def test_a_queue_is_not_taken_for_empty_where_a_cell_comes_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task, restarts = TASKS["copy"], list[Restart]()
    monkeypatch.setattr(Restart, "__init__", lambda self: restarts.append(self))
    assert proof_of(own_machines.marked_late(task, copied=True), task)
    assert restarts
    wrong = own_machines.marked_late(task, copied=False)
    assert first_wrong(wrong, task, [[1] * 14])
    with pytest.raises(Unproved):
        prove(wrong, task)


def test_a_reason_is_given_if_there_is_no_proof() -> None:
    machine = rearranging(TASKS["reverse"], STACK)
    with pytest.raises(Unproved, match="the task has no reference automaton"):
        prove(machine, task_of("svo-sov"))
    with pytest.raises(Unproved, match="alphabets or layout differ from those of the task"):
        prove(machine, made("reverse", symbols=4))


def saved(directory: Path, machine: Machine, task: str | None = None) -> Path:
    """A checkpoint of a machine that reverses three symbols, or solves the task of a file."""
    reverse = (shipped("tasks") / "reverse.yaml").read_text().replace("symbols: 128", "symbols: 3")
    (directory / "reverse.yaml").write_text(task or reverse)
    stack: Any = {"model": {"memory": "stack"}}
    config = resolve(task=str(directory / "reverse.yaml"), recipe="feedforward", settings=stack)
    save_machine(directory / "machine", config, replace(machine, task="reverse"), "")
    return directory / "machine"


def test_a_machine_for_a_grammar_of_the_user_is_proved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = """
        name: reverse
        generator: grammar
        parameters:
          characters: true
          root: S
          rules:
            S:
              - {probability: 1/3, source: "a S:1", target: "S:1 a"}
              - {probability: 1/3, source: "b S:1", target: "S:1 b"}
              - {probability: 1/6, source: "a"}
              - {probability: 1/6, source: "b"}
        lengths: {train: [1, 5], test: [6, 10]}
    """
    monkeypatch.setattr("stacktrans.grammar.inside.MAX_CELLS", 200)  # at most so many words
    reversing = replace(rearranging(TASKS["reverse by grammar"], STACK), words=(False, False))
    machine = saved(tmp_path, reversing, task)
    output = run("verify", machine, "--exhaustive", "4", "--count", "10").stdout.decode()
    assert "proved: right on all strings of the task, whatever their length" in output
    assert "stack: aligned with the reference's memory" in output


def test_steps_after_a_complete_answer_need_no_rules() -> None:
    task = TASKS["parity"]
    machine = replace(own_machines.buffered_odd(task), buffers=Buffers(2, 3, 0))
    # There are no rules for the three further steps.
    assert proof_of(machine, task)
    every = [*sources(task, 5)]
    answers = decode(
        AutomatonModel(machine), machine.layout, [*map(np.array, every)], log_probs=False
    )
    for source, answer in zip(every, answers, strict=True):
        right = [int(symbol or 0) for symbol in task.answer(task.source.decode(source))]
        assert answer.target == machine.run(source).target == right
        assert not answer.failed


def test_a_trace_of_a_buffered_machine_ends_where_it_has_no_rule(tmp_path: Path) -> None:
    buffers: Any = {"steps_per_symbol": 2, "extra_steps": 3}
    settings = {"model": {"memory": "stack", "buffers": buffers}}
    config = resolve(task="xor", recipe="default", settings=settings)
    machine = replace(own_machines.buffered_odd(task_of("xor")), buffers=Buffers(2, 3, 0))
    save_machine(tmp_path / "machine", config, replace(machine, task="xor"), "")
    followed = trace(load(tmp_path / "machine"), ["1", "0"])
    assert (followed.answer, followed.correct, len(followed.steps)) == ("11", True, 4)


def test_copies_of_a_symbol_are_not_taken_for_one() -> None:
    task = make_task("reverse", "reverse", {"symbols": 3})
    machine = rearranging(task, STACK)
    twice = Family("symbol", (0, 1, 2, 0, 1, 2))
    begin, push, pop, end = machine.rules
    machine = replace(
        machine, inputs=SymbolTable((Family("begin"), Family("separator"), twice)),
        # After symbol 0 was written, symbol 1 is written for a 0 on top of the stack.
        rules=(begin, push, rule(when([5], [1], None), (1, 0), Term(CONSTANT, 1)), pop, end),
    )  # fmt: skip
    assert machine.run([0, 0]).target != [0, 0]
    assert counterexample_to(machine, task) == (0, 0)


QUICK = ("--exhaustive", "100", "--count", "50", "--longest", "200")


def test_verify_prints_what_is_proved(tmp_path: Path) -> None:
    path = saved(tmp_path, rearranging(TASKS["reverse"], STACK))
    done = run("verify", path, *QUICK)
    assert done.returncode == 0
    printed = done.stdout.decode().splitlines()
    assert "proved: right on all strings of the task, whatever their length" in printed
    assert "stack: aligned with the reference's memory: a symbol for a symbol" in printed
    held = json.loads(run("verify", path, *QUICK, "--json").stdout)
    assert held["right"]
    assert held["proof"]["proved"]
    assert held["proof"]["memories"]["stack"]["cells"] == [[["a symbol"], ["a symbol"]]]


def test_verify_quotes_symbols_that_are_no_letters(tmp_path: Path) -> None:
    task = (shipped("tasks") / "reverse.yaml").read_text().replace("symbols: 128", "symbols: 2")
    path = saved(tmp_path, rearranging(made("reverse", symbols=2), STACK), task)
    printed = run("verify", path, *QUICK).out
    assert """: '!' for '!' and '"' for '"'\n""" in printed


def test_verify_shows_what_disproves_a_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stacktrans.proofs.proof.MAX_TRIED", 100)  # shorter ones are all right
    machine = rearranging(TASKS["reverse"], STACK)
    # There is no rule for one symbol more than the longest random string has.
    path = saved(tmp_path, _counting(machine, 129))
    done = run("verify", path, "--exhaustive", "3", "--count", "20", "--longest", "1", "--json")
    assert done.returncode == 1
    held = json.loads(done.stdout)
    assert len(held["counterexample"]["source"]) == 129
    assert held["proof"] is None
    assert held["stages"][-1]["strings"] == "counterexample to a proof"


def _counting(machine: Machine, most: int) -> Machine:
    """A machine that has a state for each number of symbols that it has read, as far as `most`."""
    states = SymbolTable(tuple(Family(f"state {number}") for number in range(1, most + 1)))
    start, push, *others = machine.rules
    counted = [
        push._replace(
            when=(*push.when[:-1], frozenset([number])),
            next_state=push.next_state._replace(entry=number + 1),
        )
        for number in range(most - 1)
    ]
    return replace(machine, states=states, rules=(start, *counted, *others))


def test_steps_after_those_that_are_counted_are_not_taken_for_the_last() -> None:
    task = made("waiting-reversal", symbols=2, deleted=1)
    waits = 13
    states = SymbolTable(tuple(Family(f"q{number}") for number in range(waits + 1)))
    to = partial(Term, CONSTANT)
    own = own_machines.waiting(task)
    symbols = Family("symbol", (0, 1, 2))
    machine = replace(
        own, states=states, inputs=SymbolTable((symbols, Family("nothing"))),
        memories=STACK._replace(signal_names=("pop", "push", "input read", "output write")),
        buffers=Buffers(1, 20, 0),
        rules=(
            rule(when([0], None, [0]), (0, 1, 1, 1), to(0), (Term(0, 1),), to(0)),
            rule(when([1], None, [0]), (0, 0, 1, 1), to(0), (None,), to(0)),
            rule(when([2], [1], [0]), (1, 0, 1, 1), Term(1, 0), (None,), to(0)),
            rule(when([2], [0], [0]), (0, 0, 1, 0), None, (None,), to(1)),
            rule(when([2], None, [1]), (0, 0, 1, 1), to(0), (None,), to(1)),
            *(
                rule(when([3], None, [number]), (0, 0, 0, 0), None, (None,), to(number + 1))
                for number in range(1, waits)
            ),
        ),
    )  # fmt: skip
    with pytest.raises(Unproved):
        prove(machine, task)
