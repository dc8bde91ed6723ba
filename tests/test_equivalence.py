"""Two models compared: proofs that machines are equivalent, and the shortest differences."""

import itertools
import json
import random
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import own_machines
import pytest
from command_line import run
from own_machines import QUEUE, STACK, mutant, rearranging, rule, when
from shipped_tasks import task_of

import stacktrans
from stacktrans.automata.machine import Machine
from stacktrans.automata.machine_file import check_symbols
from stacktrans.automata.rules import CONSTANT, Family, Rule, SymbolTable, Term
from stacktrans.common.ends import Ends
from stacktrans.inference.verification import VerifyRequest, verify, with_task
from stacktrans.model.checkpoint import load
from stacktrans.model.checkpoint_files import save, save_machine
from stacktrans.proofs.equivalence import Equivalence, prove_equivalent
from stacktrans.proofs.product import Unproved
from stacktrans.proofs.proof import Counterexample, Invariant
from stacktrans.proofs.renaming import bisimilar, distinct_symbols
from stacktrans.settings.locations import shipped
from stacktrans.settings.resolve import resolve
from stacktrans.tasks import make_task
from stacktrans.tasks.base import Task, check_alphabets
from stacktrans.tasks.computed import Copy, Parity, Reverse
from stacktrans.tasks.layout import Layout

THREE = {"symbols": 3}
COPY, REVERSE = make_task("copy", "copy", THREE), make_task("reverse", "reverse", THREE)
PARITY = make_task("parity", "parity", {})


class UnknownCopy(Copy):
    """Copying without a reference automaton, so that machines can only be compared directly."""


class UnknownReverse(Reverse):
    """Reversal without a reference automaton."""


class UnknownParity(Parity):
    """Parity without a reference automaton."""


UNKNOWN: dict[type[Task], type[Task]] = {
    Copy: UnknownCopy,
    Reverse: UnknownReverse,
    Parity: UnknownParity,
}


def unknown(task: Task) -> Task:
    other: Task = object.__new__(UNKNOWN[type(task)])
    vars(other).update(vars(task))
    return other


def written(machine: Machine, strings: Sequence[Sequence[int]]) -> list[object]:
    """What a machine writes for each of some strings, and whether it ends; None if it fails."""
    answers = own_machines.answers_of(machine, strings)
    return [None if answer.failed else (answer.target, answer.ended) for answer in answers]


Making = Callable[[Task], Machine]
PAIRS: dict[str, tuple[Task, Making, Making]] = {
    "queue and deque": (COPY, partial(rearranging, memories=QUEUE), own_machines.turned),
    "queue and queue with marks": (
        COPY,
        partial(rearranging, memories=QUEUE),
        own_machines.marking,
    ),
    "stack and stack read deep": (
        REVERSE,
        partial(rearranging, memories=STACK),
        own_machines.peeking,
    ),
    "stack and needless queue": (
        REVERSE,
        partial(rearranging, memories=STACK),
        own_machines.with_queue,
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_machines_of_different_memories_are_proved_equivalent(name: str) -> None:
    task, one, other = PAIRS[name]
    machines = one(task), other(task)
    for first, second in (machines, machines[::-1]):
        assert isinstance(prove_equivalent(first, second, task), Equivalence)
        assert isinstance(prove_equivalent(first, second, unknown(task)), Equivalence)


def test_memories_ends_and_stack_symbols_are_renamed() -> None:
    # What a deque holds is read at its top, where it is pushed at its bottom.
    queue, deque = rearranging(COPY, QUEUE), own_machines.turned(COPY)
    begin, push, pop, end = deque.rules
    end = end._replace(when=(end.when[0], frozenset([0]), None, None))
    deque = replace(deque, rules=(begin, push, pop, end))
    assert bisimilar(queue, deque)
    assert bisimilar(deque, queue)
    assert prove_equivalent(queue, deque, COPY) == Equivalence("renaming")
    empty, symbols = queue.stack_symbols[0].families
    table = SymbolTable((empty, symbols._replace(symbols=(2, 0, 1))))
    renamed = replace(queue, stack_symbols=(table,))
    assert bisimilar(queue, renamed)
    assert renamed.run([0, 1, 2]).target == [0, 1, 2]
    assert not bisimilar(queue, replace(deque, rules=(begin, push, pop)))


def test_machines_with_many_memories_are_compared_without_trying_all_pairings() -> None:
    tops, count = range(0, 16, 2), 8  # which correspond in 8! * 2 ** 8 ways
    stacks = Ends(
        tuple(f"stack {number}" for number in range(count)),
        (),
        tuple(enumerate(tops)),
        tuple(tops),
        tuple(f"push {number}" for number in range(count)),
    )
    stack = rearranging(COPY, STACK)
    empty, pushed = when(None, *[[0]] * count, None), (Term(0, 1),) * count
    first, second = (rule(empty, (push,) * count, None, pushed) for push in (0, 1))
    several = replace(stack, memories=stacks, stack_symbols=stack.stack_symbols * count)
    one, other = (replace(several, rules=(each,)) for each in (first, second))
    assert bisimilar(one, one)
    assert not bisimilar(one, other)


def test_a_stack_is_not_taken_for_a_queue() -> None:
    queue, stack = rearranging(COPY, QUEUE), rearranging(COPY, STACK)
    assert not bisimilar(queue, stack)
    assert prove_equivalent(queue, stack, COPY) == Counterexample((0, 1))
    assert prove_equivalent(queue, stack, unknown(COPY)) == Counterexample((0, 1))


def test_a_machine_with_buffers_is_compared_by_the_task() -> None:
    direct, buffered = own_machines.odd(PARITY), own_machines.buffered_odd(PARITY)
    assert prove_equivalent(direct, buffered, PARITY) == Equivalence("task")
    assert prove_equivalent(buffered, buffered, unknown(PARITY)) == Equivalence("renaming")
    with pytest.raises(Unproved, match="machines with buffers"):
        prove_equivalent(direct, buffered, unknown(PARITY))


def test_the_memories_of_both_machines_are_described() -> None:
    queue, deque = rearranging(COPY, QUEUE), own_machines.turned(COPY)
    proof = prove_equivalent(queue, deque, unknown(COPY))
    assert isinstance(proof, Equivalence)
    assert proof.method == "product"
    assert proof.memories == {
        "queue": Invariant.ALIGNED,
        "deque of the other machine": Invariant.REVERSED,
    }


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("known", [True, False])
def test_no_mutant_is_proved_equivalent_that_answers_differently(name: str, known: bool) -> None:
    task, one, other = PAIRS[name]
    machine, drawn, compared = one(task), random.Random(1), task if known else unknown(task)
    strings = [s for n in range(1, 5) for s in itertools.product(range(3), repeat=n)]
    answers = written(machine, strings)
    proved = refuted = 0
    for _ in range(40):
        changed = mutant(other(task), drawn)
        pairs = zip(strings, answers, written(changed, strings), strict=True)
        different = next((source for source, one, other in pairs if one != other), None)
        try:
            verdict = prove_equivalent(machine, changed, compared)
        except Unproved:
            continue
        if isinstance(verdict, Equivalence):
            assert different is None, changed.rules
            proved += 1
        else:
            assert written(machine, [verdict.source]) != written(changed, [verdict.source])
            refuted += 1
            # It is the shortest of all.
            assert len(verdict.source) == len(different) if different else len(verdict.source) > 4
    assert proved > 4
    assert refuted > 4
    assert proved + refuted > 30


def test_two_symbols_represent_all_that_neither_machine_distinguishes() -> None:
    task = make_task("reverse", "reverse", {"symbols": 128})
    one, other = rearranging(task, STACK), own_machines.peeking(task)
    assert len(distinct_symbols(one, other)) == 2
    assert isinstance(prove_equivalent(one, other, unknown(task)), Equivalence)
    start, push, *others = other.rules
    only = push._replace(when=(frozenset([2 + 77]), *push.when[1:]), signals=(0, 0))
    wrong = replace(other, rules=(start, only, push, *others))
    assert task.source.symbols[77] in distinct_symbols(one, wrong)
    for compared in (task, unknown(task)):
        assert prove_equivalent(one, wrong, compared) == Counterexample((77,))


def saved(path: Path, machine: Machine, memory: str) -> Path:
    """A checkpoint of a machine that reverses or copies three symbols."""
    name = path.stem.split("-")[0]
    task = path.parent / f"{name}.yaml"
    text = (shipped("tasks") / f"{name}.yaml").read_text()
    task.write_text(text.replace("symbols: 128", "symbols: 3"))
    settings: Any = {"model": {"memory": memory}}
    config = resolve(task=str(task), recipe="feedforward", settings=settings)
    save_machine(path, config, replace(machine, task=name), "")
    return path


QUICK = ("--exhaustive", "400", "--count", "50", "--longest", "200")


def test_verify_proves_two_machines_equivalent(tmp_path: Path) -> None:
    queue = saved(tmp_path / "copy-queue", rearranging(COPY, QUEUE), "queue")
    marks = saved(tmp_path / "copy-marks", own_machines.marking(COPY), "queue")
    done = run("verify", queue, marks, *QUICK)
    assert done.returncode == 0
    assert "proved: the same answers to all strings of the task, whatever their length" in (
        done.stdout.decode().splitlines()
    )
    held = json.loads(run("verify", queue, queue, *QUICK, "--json").stdout)
    assert held["right"]
    assert (held["other"], held["other_answer"]) == (str(queue), None)
    assert held["proof"]["equivalence"]["method"] == "renaming"
    assert {stage["wrong"] for stage in held["stages"]} == {0}


def test_verify_shows_the_shortest_difference_and_both_answers(tmp_path: Path) -> None:
    queue = saved(tmp_path / "copy-queue", rearranging(COPY, QUEUE), "queue")
    stack = saved(tmp_path / "reverse-stack", rearranging(COPY, STACK), "stack")
    done = run("verify", queue, stack, *QUICK)
    assert done.returncode == 1
    lines = done.stdout.decode().splitlines()
    assert "different answers to a string of 2 symbols, and no shorter one" in lines
    (source,) = [line.split()[1] for line in lines if line.startswith("source")]
    looks = [
        line.removeprefix("to see its steps: ")
        for line in lines
        if line.startswith("to see its steps: ")
    ]
    answers = {line.split()[0]: line.split()[1] for line in lines if line.startswith(str(tmp_path))}
    assert answers == {str(queue): source, str(stack): source[::-1]}
    for look, path in zip(looks, (queue, stack), strict=True):
        shown = run(*shlex.split(look)[1:]).stdout.decode().splitlines()[-1]
        assert answers[str(path)] in shown
    held = json.loads(run("verify", queue, stack, *QUICK, "--json").stdout)
    assert not held["right"]
    assert held["shortest"]
    assert held["counterexample"]["answer"] == held["other_answer"][::-1] == source


def test_verify_takes_another_task(tmp_path: Path) -> None:
    stack = saved(tmp_path / "copy-stack", rearranging(COPY, STACK), "stack")
    saved(tmp_path / "reverse", rearranging(REVERSE, STACK), "stack")
    assert run("verify", stack, *QUICK).returncode == 1
    done = run("verify", stack, tmp_path / "reverse.yaml", *QUICK)
    assert done.returncode == 0
    assert b"proved: right on all strings of the task" in done.stdout
    assert done.stdout.startswith(b"copy: machine with 1 state")
    assert b"\non the task reverse\n" in done.stdout


def test_verify_takes_a_name_of_both_for_the_task_and_says_so(
    machine_of: Callable[[str], Path],
) -> None:
    done = run("verify", machine_of("anbn"), "anbn", *QUICK)
    assert done.returncode == 0
    assert b"\non the task anbn; checkpoints/anbn is a model\n" in done.stdout


@pytest.mark.parametrize("other", ["xor-buffered", "xor"])
def test_models_of_different_alphabets_are_refused(other: str) -> None:
    done = run("verify", "reversal-stack", other)
    assert (done.returncode, done.stdout) == (2, b"")
    assert "the source symbols are 0 1; expected 0 1 #" in done.stderr.decode()


def test_another_task_that_scores_only_some_symbols_is_refused() -> None:
    reversal, task = load("reversal-stack"), make_task("copy", "copy", THREE)
    task.source, task.target = reversal.task.source, reversal.task.target
    with pytest.raises(stacktrans.UsageError, match="copy-queue: expected a model with an output"):
        with_task(replace(load("copy-queue"), task=task), reversal.config.task)


def test_large_alphabets_are_compared_where_they_differ() -> None:
    one, other = (make_task("copy", "copy", {"symbols": number}) for number in (150, 151))
    with pytest.raises(stacktrans.UsageError, match=r"symbols are … .; expected …$"):
        check_alphabets(one, other, "other")


def test_a_name_of_neither_a_checkpoint_nor_a_task_is_refused() -> None:
    done = run("verify", "reversal-stack", "nothing")
    assert done.returncode == 2
    assert "nothing: no such checkpoint or task; see stacktrans list" in done.stderr.decode()
    near = run("inspect", "revers-stack", "abc").stderr.decode()
    assert "revers-stack: no such checkpoint; did you mean 'reverse-stack'?" in near


def test_networks_are_compared_on_strings_alone(tmp_path: Path) -> None:
    model = stacktrans.load("copy-queue")
    request: dict[str, Any] = {"exhaustive": 200, "count": 50, "longest": 150}
    result = model.verify(stacktrans.load("copy-deque"), **request)
    assert result.right
    assert result.verdict is None
    assert [stage.strings for stage in result.stages] == [
        "all strings",
        "strings over the first symbols",
        "random strings",
        "long strings",
    ]
    with pytest.raises(stacktrans.UsageError, match="expected a model that load returned"):
        model.verify("copy-deque")
    one, weights = load("reversal-stack"), {}
    weights = {name: weight.copy() for name, weight in one.weights.items()}
    weights["classifier.bias"][0] += 50.0
    save(tmp_path / "damaged", one.config, replace(one, weights=weights).model.state_dict())
    different = verify(one, VerifyRequest(200, 50, 50, 1), load(tmp_path / "damaged"))
    assert different.shortest
    assert different.counterexample
    assert different.other
    assert len(different.counterexample.pair.source) == 2
    assert different.counterexample.answer != different.other.answer


def test_answers_that_are_scored_in_part_have_an_output_for_each_input() -> None:
    reversal, other = load("reversal-stack"), load("copy-queue")
    task = make_task("copy", "copy", THREE)
    task.source, task.target = reversal.task.source, reversal.task.target
    with pytest.raises(stacktrans.UsageError, match="expected a model with an output for each"):
        verify(reversal, VerifyRequest(10, 10, 10, 1), replace(other, task=task))


def test_unscored_outputs_are_not_compared() -> None:
    task = task_of("reversal")
    machine = own_machines.waiting(task)
    first, second = machine.rules
    written = replace(machine, rules=(first._replace(output=second.output), second))
    assert isinstance(prove_equivalent(machine, written, task), Equivalence)


NO_MEMORY = Ends((), (), (), (), ())


def translating(rules: Sequence[Rule]) -> Machine:
    """A machine from the source a to answers over x and y, which has no memory."""
    source, target = Family("symbol", (0,)), Family("symbol", (1, 2))
    families = (Family("begin"), Family("separator"), source, target._replace(name="written"))
    return Machine(
        "own", ("a",), ("x", "y"), (False, False), SymbolTable(families),
        SymbolTable((target, Family("end"))), (), own_machines.ONE, NO_MEMORY, None,
        Layout.joint(1, 2), tuple(rules),
    )  # fmt: skip


def test_machines_that_differ_once_something_is_written_are_not_bisimilar() -> None:
    x, y, end = (Term(CONSTANT, number) for number in range(3))
    reading = [rule(when([0, 2], None), (), None, ()), rule(when([1], None), (), x, ())]
    one = translating([*reading, rule(when([3, 4], None), (), end, ())])
    other = translating(
        [*reading, rule(when([3], None), (), y, ()), rule(when([4], None), (), end, ())]
    )
    assert one.run([0], 9).target == [0]
    assert other.run([0], 9).target == [0, 1]
    assert not bisimilar(one, other)
    assert bisimilar(other, other)


def test_tables_whose_entries_have_other_symbols_are_refused() -> None:
    machine = rearranging(COPY, QUEUE)
    swapped = SymbolTable((Family("symbol", (0, 2, 1)), Family("end")))
    check_symbols(machine)
    with pytest.raises(ValueError, match=r"outputs: the entry of .* has another symbol"):
        check_symbols(replace(machine, outputs=swapped))


def labeling(task: Task, label: int, of_empty: int) -> Machine:
    """A machine that labels all strings alike, except perhaps the empty one."""
    size, series = len(task.source), Family("symbol", (*range(len(task.source)),))
    labels = Family("label", (size, size + 1))
    inputs = SymbolTable((Family("begin"), Family("separator"), series, labels))
    first, others = Term(CONSTANT, 0), Term(CONSTANT, 1)
    return Machine(
        "own", task.source.symbols, task.target.symbols, (False, False), inputs,
        SymbolTable((labels,)), (SymbolTable((Family("empty"),)),),
        SymbolTable((Family("nothing read"), Family("some read"))), STACK, None, task.layout,
        (
            rule(when([0], None, None), (0, 0), after=first),
            rule(when(range(2, 2 + size), None, None), (0, 0), after=others),
            rule(when([1], None, [0]), (0, 0), Term(CONSTANT, of_empty), after=first),
            rule(when(None, None, None), (0, 0), Term(CONSTANT, label), after=others),
        ),
    )  # fmt: skip


def test_recognizers_that_differ_on_the_empty_string_alone_are_not_equivalent() -> None:
    rules = {"S": [{"source": "a S:1"}, {"source": "b"}]}
    given = {"characters": True, "labels": ["no", "yes"], "root": "S", "rules": rules}
    task = make_task("mine", "membership", given)
    one, other, third = (labeling(task, 0, of_empty) for of_empty in (0, 1, 0))
    assert isinstance(prove_equivalent(one, third, task), Equivalence)
    different = prove_equivalent(one, other, task)
    assert isinstance(different, Counterexample)
    assert different.source == ()
