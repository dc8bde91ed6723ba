"""Traces of machines: the rule that applies at each step, and the stack symbols in the memory."""

import json
import operator
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from command_line import run
from own_machines import STACK, rearranging, rule, turned, when
from test_exported_machines import delayed

import stacktrans
from stacktrans.automata.machine import Machine
from stacktrans.automata.rules import CONSTANT, Family, Rule, SymbolTable, Term
from stacktrans.inference.trace import trace
from stacktrans.model.checkpoint import Checkpoint, load
from stacktrans.model.checkpoint_files import save_machine
from stacktrans.settings.resolve import resolve
from stacktrans.showing.step_screen import screen


def reversing(directory: Path, states: int = 1, last: Rule | None = None) -> Path:
    """A machine that reverses, with a stack; from `|||` on it is in the last of its states.

    Its last rule, which ends answers, can be replaced.
    """
    settings: Any = {"model": {"memory": "stack"}, "task": {"parameters": {"symbols": 3}}}
    config = resolve(task="reverse", settings=settings)
    machine = rearranging(config.make_task(), STACK)
    families = tuple(Family(f"q{number}") for number in range(states))
    rules = [
        rule._replace(next_state=Term(CONSTANT, states - 1)) if rule.output else rule
        for rule in (*machine.rules[:3], last or machine.rules[3])
    ]
    machine = replace(machine, task="reverse", states=SymbolTable(families), rules=tuple(rules))
    save_machine(directory / "machine", config, machine, "")
    return directory / "machine"


WHEN_AND_ACTION = [
    ("reading <s>", "nothing"),
    ("reading a symbol", "push it"),
    ("reading ||| or a symbol, stack has anything", "pop, write what is read"),
    ("reading ||| or a symbol, stack is empty", "write </s>"),
]


def test_each_step_has_its_rule(tmp_path: Path) -> None:
    model = stacktrans.load(reversing(tmp_path))
    rules = [step.rule for step in model.trace('!"').steps]
    assert [rule.number for rule in rules if rule] == [1, 2, 2, 3, 3, 4]
    worded = [(rule.when, rule.action) for rule in rules if rule]
    assert worded == [WHEN_AND_ACTION[number] for number in (0, 1, 1, 2, 2, 3)]
    assert {step.state for step in model.trace('!"').steps} == {None}


def test_a_heat_map_shows_no_vectors_of_a_machine(tmp_path: Path) -> None:
    done = run("inspect", reversing(tmp_path), '!"', "--heatmap")
    assert done.returncode == 0
    assert "strengths push" in done.out
    assert "read top !@2" in done.out
    assert "pushed" not in done.out


def test_a_machine_has_no_soft_signals_to_compare(tmp_path: Path) -> None:
    measured = run("eval", reversing(tmp_path), "--count", "5", "--lengths", "3:4", "--hard")
    assert measured.returncode == 0
    assert "hard" not in measured.out


def test_a_machine_introduces_itself_as_one(tmp_path: Path) -> None:
    path = reversing(tmp_path, states=2)
    line = "reverse: machine with 2 states, stack of 3 symbols, 4 rules"
    for command in (("inspect", path, "!"), ("inspect", path, "!", "--contents")):
        assert run(*command).stdout.decode().splitlines()[0] == line
    few = ("--longest", "9", "--count", "10", "--exhaustive", "10")
    for name, options in (("eval", ("--count", "5")), ("verify", few)):
        assert run(name, path, *options).stdout.decode().splitlines()[0] == line
    assert repr(stacktrans.load(path)) == f"Model({line})"
    both = run("verify", path, path, *few).stdout.decode().splitlines()
    assert both[:2] == [line, line]


def test_networks_have_no_rules() -> None:
    shown = run("inspect", "reverse-stack", "ab", "--json")
    steps = json.loads(shown.stdout)["steps"]
    assert {(step["rule"], step["state"]) for step in steps} == {(None, None)}
    assert b"rule" not in run("inspect", "reverse-stack", "ab").stdout


def lines_of(shown: bytes) -> list[str]:
    """The lines of a table, with single spaces between cells."""
    return [" ".join(line.split()) for line in shown.decode().splitlines()]


def test_rules_are_numbered_and_worded_as_extract_prints_them(
    machine_of: Callable[[str], Path],
) -> None:
    path = machine_of("parenthesis-stack")
    extracted = lines_of(run("extract", path).stdout)
    steps = json.loads(run("inspect", path, "([])[]", "--json").stdout)["steps"]
    applied = [step["rule"]["number"] for step in steps]
    assert len({*applied}) > 2
    for options, place in (([], 4), (["--contents"], 3)):
        lines = lines_of(run("inspect", path, "([])[]", *options).stdout)
        assert lines[1].split()[place] == "rule"
        assert [int(line.replace("· ", "").split()[place]) for line in lines[2:8]] == applied
        below = lines[lines.index("rule when action") + 1 : -1]
        assert below == [extracted[1 + number] for number in sorted({*applied})]
    card = (path / "README.md").read_text()
    for step in steps:
        row = "| {number} | {when} | {action} |".format(**step["rule"])
        assert row.replace("[", r"\[").replace("]", r"\]") in card


def test_contents_are_stack_symbols(tmp_path: Path) -> None:
    settings: Any = {"model": {"memory": "deque"}, "task": {"parameters": {"symbols": 3}}}
    config = resolve(task="copy", settings=settings)
    task = config.make_task()
    model, copying = Checkpoint(Path(), config, task, task.layout, {}, hard=True), turned(task)
    in_order = operator.itemgetter(0, 2, 1, 3)  # that of a deque's signals
    rules = tuple(each._replace(signals=in_order(each.signals)) for each in copying.rules)
    machine = replace(copying, **model.machine_attributes, rules=rules)
    save_machine(tmp_path / "machine", config, machine, "")
    steps = trace(load(tmp_path / "machine"), [*'!"']).steps
    held = [[(row.symbol, row.step) for row in step.contents["deque"]] for step in steps]
    pushed = [("!", 2), ('"', 3)]  # at the bottom
    assert held == [[], pushed[:1], pushed[::-1], pushed[1:], [], []]
    for step, rows in zip(steps, held, strict=True):
        for end, read in (("top", rows[-1:]), ("bottom", rows[:1])):
            assert [(part.symbol, part.step) for part in step.reads[end]] == read


def moving() -> Checkpoint:
    """A list, in which a and c insert themselves, and b moves left; the answer is empty."""
    settings: Any = {"model": {"memory": {"name": "list-rnn", "count": 1, "depth": 1}}}
    config = resolve(task="anbncn", settings=settings)
    task = config.make_task()
    symbols = Family("symbol", (0, 1, 2))
    model = Checkpoint(Path(), config, task, task.layout, {}, hard=True)
    stack_symbols = (SymbolTable((Family("empty"), symbols)),) * 2
    parts = dict(model.machine_attributes, stack_symbols=stack_symbols)
    inputs, states = SymbolTable((symbols,)), SymbolTable((Family("q0"),))
    same = Term(CONSTANT, 0)
    rules = [
        Rule((frozenset(read), None, None), (), signals, same, (pushed,), same)
        for read, signals, pushed in (([0, 2], (1, 0, 0, 0), Term(0, 1)), ([1], (0, 1, 0, 0), None))
    ]
    machine = Machine(**parts, inputs=inputs, outputs=inputs, states=states, rules=tuple(rules))
    return replace(model, machine=machine)


def test_cells_of_lists_are_stack_symbols() -> None:
    model = moving()
    steps = trace(model, [*"bacbbb"]).steps
    lines = [step.lines["list 1"] for step in steps]
    assert [line.stack_symbols for line in lines] == [
        ["empty"], ["a"], ["a", "c"], ["a", "c"], ["empty", "a", "c"], ["empty", "empty", "a", "c"]
    ]  # fmt: skip
    assert [line.head for line in lines] == [0, 0, 1, 0, 0, 0]
    assert lines[4].filled == [0, 1, 1]
    shown = [line.strip() for line in screen(trace(model, [*"ac"]), 1, 60, 30)]
    at = shown.index("list 1, left to right")
    assert [line.split()[0] for line in shown[at + 1 : at + 3]] == ["a", "[c]"]


def test_memories_are_left_out_of_traces_unless_they_are_requested(tmp_path: Path) -> None:
    for model, source in ((load(reversing(tmp_path)), "!"), (moving(), "a")):
        whole, rest = (trace(model, [source], contents).steps for contents in (True, False))
        assert any(step.contents or step.lines for step in whole)
        assert rest == [replace(step, contents={}, lines={}) for step in whole]


def test_screens_show_the_rule(tmp_path: Path) -> None:
    model = load(reversing(tmp_path, states=2))
    whole = trace(model, [*'!"'])
    assert [step.state for step in whole.steps] == [*["q0"] * 3, *["q1"] * 3]
    shown = [line.strip() for line in screen(whole, 3, 60, 40)]
    at = shown.index("rule 3: reading ||| or a symbol, stack has anything: pop,")
    assert shown[at + 1 : at + 3] == ["write what is read, go to q1", "state: q1"]
    assert shown[at + 4 : at + 6] == ["stack, the top first", "!@2 1.00 ████████████████████"]


def test_a_machine_without_a_rule_is_shown_until_it_is_stuck(tmp_path: Path) -> None:
    # An answer can only end right after the symbol !.
    path = reversing(tmp_path, last=rule(when([5], [0], None), (0, 0), Term(CONSTANT, 3)))
    assert lines_of(run("inspect", path, "!#").stdout)[-1] == "answer: #! (right)"
    done = run("inspect", path, '"#!', "--contents")
    assert done.returncode == 0
    lines = lines_of(done.stdout)
    assert lines[9] == '8 " none 0.00 0.00 │'
    assert lines[-1] == 'no answer: no rule applies at step 8: reading ", stack is empty'
    stuck = trace(load(path), [*'"#!'])
    assert (stuck.answer, stuck.ended, stuck.correct) == ('!#"', False, False)
    assert stuck.steps[-1].rule is None
    assert [step.stuck for step in stuck.steps][-2:] == [None, 'reading ", stack is empty']


def test_a_machine_is_shown_until_a_rule_has_no_output(tmp_path: Path) -> None:
    path = reversing(tmp_path, last=rule(when(None, [0], None), (0, 0)))
    done = run("inspect", path, "!")
    assert done.returncode == 0
    assert lines_of(done.stdout)[-1] == (
        "no answer: rule 4 has no output, but the answer needs one, at step 4"
    )
    stopped = trace(load(path), ["!"])
    assert (stopped.answer, stopped.ended, len(stopped.steps)) == ("!", False, 4)


def test_a_buffered_machine_is_shown_until_a_rule_has_no_output(tmp_path: Path) -> None:
    """All of its output is shown, including the symbols before the missing one."""
    settings: Any = {
        "model": {"memory": "stack", "buffers": {"extra_steps": 1, "output_skip": 1}},
        "task": {"parameters": {"symbols": 2}},
    }
    config = resolve(task="reverse", settings=settings)
    bits, task = delayed(), config.make_task()
    rules = [bits.rules[0], bits.rules[1]._replace(output=None), *bits.rules[2:]]
    machine = replace(
        bits, task="reverse", source=task.source.symbols, target=task.target.symbols,
        rules=tuple(rules),
    )  # fmt: skip
    save_machine(tmp_path / "machine", config, machine, "")
    stopped = trace(load(tmp_path / "machine"), [*'!""!'])
    assert stopped.failure == "rule 2 has no output, but the answer needs one, at step 4"
    assert [share.symbol for step in stopped.steps for share in step.written or ()] == [*'"!·']
