"""Machines as Python programs and as finite-state transducers answer as the machines do."""

import ast
import itertools
import json
import random
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import own_machines
import pytest
from changed_checkpoints import reseal
from command_line import STACKTRANS, run
from own_machines import QUEUE, STACK, answers_of, mutant, rearranging, rule, when
from test_answer_limit import tripling
from test_stream_machines import moving

import stacktrans
from stacktrans.automata.fst import EPSILON, NotFinite, to_fst
from stacktrans.automata.machine import Machine
from stacktrans.automata.machine_file import machine_json
from stacktrans.automata.rules import CONSTANT, Buffers, Family, SymbolTable, Term
from stacktrans.common.errors import StacktransError
from stacktrans.common.files import CONFIG, MACHINE
from stacktrans.model import checkpoint, checkpoint_files
from stacktrans.settings.resolve import resolve
from stacktrans.settings.task_files import load_task
from stacktrans.tasks import make_task
from stacktrans.tasks.layout import Layout, OutputBound

REVERSE = make_task("reverse", "reverse", {"symbols": 2})
FLIP = make_task("bigram-flip", "bigram-flip", {"symbols": 2})
WAITING = make_task("waiting", "waiting-reversal", {"symbols": 2})
PARITY = make_task("parity", "parity", {})
BITS = Family("symbol", (0, 1))
STATES = SymbolTable((Family("even"), Family("odd")))
CELLS = SymbolTable((Family("empty"), BITS))
MUTANTS = 16
LINES = "10\r\n\n0\n1é0\n0\t1\nAB\n".encode() + b"0\xff\n\x00\n111"
"""Lines with and without answers; the last has no end."""
DOCS = Path(__file__).parent.parent / "docs"
MESSAGES = (
    "the machine has no rule, or no output, for what it reads here",
    "the machine did not end its answer, which is cut off",
)


def automaton(
    layout: Layout,
    inputs: Sequence[Family],
    outputs: Sequence[Family],
    rules: Sequence[tuple[Sequence[int], int, int | None, int]],
    buffers: Buffers | None = None,
) -> Machine:
    """A machine that does not use its stack, by inputs, a state, an output and the next state."""
    names = (*STACK.signal_names, *(["input read", "output write"] if buffers else []))
    return Machine(
        "own", ("0", "1"), ("0", "1"), (False, False), SymbolTable(tuple(inputs)),
        SymbolTable(tuple(outputs)), (CELLS,), STATES, STACK._replace(signal_names=names), buffers,
        layout,
        tuple(
            rule(
                when(symbols, None, [state]),
                (0, 0, 1, 1) if buffers else (0, 0),
                None if output is None else Term(CONSTANT, output),
                after=Term(CONSTANT, after),
            )
            for symbols, state, output, after in rules
        ),
    )  # fmt: skip


def parity(layout: Layout) -> Machine:
    """The parity of the ones read; each output of a stream is read back."""
    rules = [([0], 0, 0, 0), ([1], 0, 1, 1), ([0], 1, 1, 1), ([1], 1, 0, 0)]
    return automaton(layout, [BITS], [BITS], rules)


def last_parity(backwards: bool = False, labels: bool = False) -> Machine:
    """Answers whether the number of ones is odd, by one symbol."""
    begin, separator, zero, one, *written = range(6)
    return automaton(
        Layout.joint(2, 2, backwards=backwards, labels=labels),
        [Family("begin"), Family("separator"), BITS, BITS],
        [BITS, *([] if labels else [Family("end")])],
        [
            ([begin, zero], 0, None, 0),
            ([one], 0, None, 1),
            ([zero], 1, None, 1),
            ([one], 1, None, 0),
            ([separator], 0, 0, 0),
            ([separator], 1, 1, 0),
            (written, 0, None if labels else 2, 0),
        ],
    )


def delayed(backwards: bool = False) -> Machine:
    """Swaps 0 and 1, in buffers of padded strings; writes each symbol a step late."""
    zero, one, blank, nothing = range(4)
    return automaton(
        Layout.padded(2, 2, OutputBound(1, 1), backwards),
        [BITS, Family("blank"), Family("nothing")],
        [BITS, Family("end")],
        [
            *(([zero], state, 1 - state, 0) for state in (0, 1)),
            *(([one], state, 1 - state, 1) for state in (0, 1)),
            *(([blank], state, 1 - state, state) for state in (0, 1)),
            *(([nothing], state, 2, state) for state in (0, 1)),
        ],
        Buffers(1, 1, 1),
    )


def remembering() -> Machine:
    """Writes the symbol before each; its states remember it."""
    return replace(
        parity(Layout.synchronous(2, 2)),
        states=SymbolTable((Family("q0"), Family("q_x", (0, 1)))),
        rules=(
            rule(when(None, None, [0]), (0, 0), Term(CONSTANT, 0), after=Term(0, 1)),
            rule(when(None, None, [1, 2]), (0, 0), Term(2, 0), after=Term(0, 1)),
        ),
    )


def only_zeros() -> Machine:
    """Has no rule after a 1, for which it has no state."""
    rules = (
        rule(when([0], None, None), (0, 0), Term(CONSTANT, 0), after=Term(0, 0)),
        rule(when([1], None, None), (0, 0), Term(CONSTANT, 1), after=Term(0, 0)),
        rule(when(None, None, None), (0, 0), None),
    )
    states = SymbolTable((Family("q_x", (0,)),))
    return replace(parity(Layout.synchronous(2, 2)), states=states, rules=rules)


FINITE: dict[str, Callable[[], Machine]] = {
    "states that remember a symbol": remembering,
    "one state that remembers a symbol": only_zeros,
    "synchronous": partial(parity, Layout.synchronous(2, 2)),
    "stream that begins with 0": partial(parity, Layout.stream(2, follow=0)),
    "stream that ends with 1": partial(parity, Layout.stream(2, last=1)),
    "pairs": last_parity,
    "backwards": partial(last_parity, backwards=True),
    "labels": partial(last_parity, labels=True),
    "buffers": partial(own_machines.buffered_odd, PARITY),
    "padded buffers": delayed,
    "padded buffers, backwards": partial(delayed, backwards=True),
}
MACHINES: dict[str, Callable[[], Machine]] = FINITE | {
    "stream without an end": partial(parity, Layout.stream(2)),
    "stack": partial(rearranging, REVERSE, STACK),
    "stack read deep": partial(own_machines.peeking, REVERSE),
    "queue": partial(rearranging, REVERSE, QUEUE),
    "deque": partial(own_machines.turned, REVERSE),
    "marks": partial(own_machines.marking, REVERSE),
    "stack and queue": partial(own_machines.with_queue, REVERSE),
    "two queues": partial(own_machines.flipping, FLIP),
    "waiting": partial(own_machines.waiting, WAITING),
    "many stack symbols": partial(own_machines.wrong_when_deep, REVERSE, 3),
    "brackets": partial(own_machines.brackets, load_task("parenthesis").make()),
    "list": moving,
}


def mutants(machine: Machine, count: int) -> Iterator[Machine]:
    """A machine, and others of which one to three rules are changed."""
    yield machine
    for seed in range(count):
        drawn, changed = random.Random(seed), machine
        for _ in range(1 + seed % 3):
            changed = mutant(changed, drawn)
        yield changed


def sources(machine: Machine) -> Iterator[tuple[int, ...]]:
    """All short sources, and some longer ones; the empty one if it has a label."""
    symbols = range(len(machine.source))
    for size in range(0 if machine.layout.labels else 1, 6 if len(symbols) == 2 else 4):
        yield from itertools.product(symbols, repeat=size)
    drawn = random.Random(0)
    for size in range(6, 30, 4):
        yield tuple(drawn.choices(symbols, k=size))


def expected(machine: Machine) -> Iterator[tuple[Sequence[int], str, str | None]]:
    """Sources, each with the answer of a machine as text and a message."""
    strings = [*sources(machine)]
    for source, answer in zip(strings, answers_of(machine, strings), strict=True):
        if answer.failed:
            yield source, "", MESSAGES[0]
        else:
            written = ["·" if each < 0 else machine.target[each] for each in answer.target]
            yield source, "".join(written), None if answer.ended else MESSAGES[1]
    if not machine.layout.labels:
        yield (), "", None


def program(machine: Machine) -> Callable[[str], tuple[str, str | None]]:
    """The function of a machine's Python program that answers a line."""
    namespace: dict[str, Any] = {"__name__": "program"}
    exec(machine.to_python(), namespace)
    answer_line: Callable[[str], tuple[str, str | None]] = namespace["answer_line"]
    return answer_line


@pytest.mark.parametrize("name", MACHINES)
def test_a_program_answers_as_its_machine(name: str) -> None:
    messages = set()
    for machine in mutants(MACHINES[name](), MUTANTS):
        answer_line = program(machine)
        for source, text, message in expected(machine):
            line = "".join(machine.source[each] for each in source)
            assert answer_line(line) == (text, message)
            messages.add(message)
    assert None in messages


def transduced(fst: str, source: Sequence[str]) -> str | None:
    """What a transducer writes for a source, on its only path; None if it has none."""
    arcs: dict[tuple[str, str], list[tuple[str, str]]] = {}
    final = set()
    for line in fst.splitlines():
        state, *rest = line.split("\t")
        if rest:
            arcs.setdefault((state, rest[1]), []).append((rest[0], rest[2]))
        else:
            final.add(state)
    assert all(len(each) == 1 for each in arcs.values())  # deterministic
    paths, results = [(fst.split("\t")[0].strip(), tuple(source), "")], []
    for state, left, written in paths:
        if not left and state in final:
            results.append(written)
        for label in {EPSILON, *left[:1]}:
            for target, output in arcs.get((state, label), []):
                more = "" if output == EPSILON else output
                paths.append((target, left[label != EPSILON :], written + more))
    assert len(results) <= 1
    return results[0] if results else None


@pytest.mark.parametrize("name", FINITE)
def test_a_transducer_answers_as_its_machine(name: str) -> None:
    finite = 0
    for number, machine in enumerate(mutants(FINITE[name](), MUTANTS)):
        try:
            fst, inputs, outputs = to_fst(machine)
        except NotFinite:
            assert number
            continue
        finite += 1
        order = -1 if machine.layout.backwards else 1
        for source, text, message in expected(machine):
            symbols = [machine.source[each] for each in source[::order]]
            written = transduced(fst, symbols)
            assert (written and written[::order]) == (None if message else text) or (
                message == MESSAGES[1] and len(written or "") > len(text)
            )
        assert inputs.splitlines()[:2] == ["<eps>\t0", "0\t1"]
        assert {line.split("\t")[3] for line in fst.splitlines() if "\t" in line} <= {
            line.split("\t")[0] for line in outputs.splitlines()
        }
    assert finite > MUTANTS / 4


def test_a_machine_that_needs_its_memory_has_no_transducer() -> None:
    for name in MACHINES.keys() - FINITE.keys():
        with pytest.raises(NotFinite, match="not a finite-state transducer"):
            to_fst(MACHINES[name]())


def test_a_memory_that_is_never_popped_is_finite() -> None:
    """Only the last of all symbols that are pushed is read: each answer is the one before it."""
    symbols = SymbolTable((BITS,))
    machine = replace(
        parity(Layout.synchronous(2, 2)),
        states=own_machines.ONE,
        rules=(
            rule(when(None, [0], None), (0, 1), Term(CONSTANT, 0), (Term(0, 1),)),
            rule(when(None, None, None), (0, 1), Term(1, 0), (Term(0, 1),)),
        ),
    )
    assert machine.inputs == symbols
    fst = to_fst(machine)[0]
    assert [transduced(fst, each) for each in ("1", "10", "1011", "0110")] == [
        "0", "01", "0101", "0011",
    ]  # fmt: skip


def test_labels_have_no_spaces() -> None:
    machine = parity(Layout.synchronous(2, 2))
    fst, inputs, _ = to_fst(replace(machine, source=(" ", EPSILON)))
    assert inputs == "<eps>\t0\n<U+0020>\t1\n<U+003C>eps>\t2\n"
    assert transduced(fst, ["<U+003C>eps>", "<U+0020>"]) == "11"


def test_labels_are_distinct() -> None:
    machine = parity(Layout.synchronous(2, 2))
    outputs = to_fst(replace(machine, target=("·", "1")))[2]
    assert outputs == "<eps>\t0\n<U+00B7>\t1\n1\t2\n·\t3\n"
    repeated = (EPSILON, "<U+003C>eps>")
    with pytest.raises(NotFinite, match=r"of its sources share the label <U\+003C>eps>"):
        to_fst(replace(machine, source=repeated))
    with pytest.raises(NotFinite, match=r"of its targets share the label <U\+003C>eps>"):
        to_fst(replace(machine, target=repeated))


@pytest.fixture(scope="module")
def xor(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The machine in the documentation of the file format, as a checkpoint."""
    text = (DOCS / "machines.md").read_text(encoding="utf-8")
    found = re.search(
        r'^```json title="two-states.json"\n(.*?)^```$', text, re.DOTALL | re.MULTILINE
    )
    assert found
    path = tmp_path_factory.mktemp("machines") / "xor"
    path.mkdir()
    shutil.copy(DOCS.parent / "checkpoints" / "xor-buffered" / CONFIG, path)
    (path / MACHINE).write_text(found[1], encoding="utf-8")
    reseal(path)
    return path


def test_a_machine_that_is_written_by_hand_is_a_checkpoint(xor: Path) -> None:
    done = run("transduce", xor, stdin=b"0110\n1\n111\n")
    assert (done.returncode, done.stdout) == (0, b"0100\n1\n101\n")
    assert b"proved: right on all strings" in run("verify", xor, "--count", "10").stdout


def test_the_documented_format_names_all_keys(xor: Path) -> None:
    section = (DOCS / "machines.md").read_text(encoding="utf-8").split("## The file format")[1]
    section = section.split("```")[0]
    parts = json.loads((xor / MACHINE).read_text())
    keys = [*parts, *parts["layout"], *parts["buffers"], *parts["memories"], *parts["rules"][0]]
    assert [key for key in keys if f"`{key}`" not in section] == []
    machine = checkpoint.load(xor).machine
    assert machine is not None
    written = json.loads(machine_json(machine))
    for rule_in_words in written["rules"]:
        rule_in_words.pop("rule")
    assert written == parts


def test_files_of_a_machine_are_written(xor: Path, tmp_path: Path) -> None:
    messages = []
    for command in ("--python=xor.py --fst=xor.fst", "--dot=xor.dot --svg=xor.svg"):
        done = run("extract", xor, *command.split(), cwd=tmp_path)
        assert (done.returncode, done.stdout) == (0, b"")
        messages += done.stderr.decode().splitlines()
    names = {"xor.py", "xor.fst", "xor.fst.isyms", "xor.fst.osyms", "xor.dot", "xor.svg"}
    assert {path.name for path in tmp_path.iterdir()} == names
    assert transduced((tmp_path / "xor.fst").read_text(), "0110") == "0100"
    assert {*messages} == {f"stacktrans: saved in {name}" for name in names}


def test_files_are_written_even_if_standard_output_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "xor.py"
    shell = shlex.join([*STACKTRANS, "extract", "xor-buffered", "--python", str(path)])
    subprocess.run(["bash", "-c", f"{shell} | head -c 0"], capture_output=True, check=True)
    assert path.exists()


def test_a_program_in_a_pipe_answers_as_transduce(xor: Path, tmp_path: Path) -> None:
    path = tmp_path / "xor.py"
    assert run("extract", xor, "--python", path).returncode == 0
    done = subprocess.run(
        [sys.executable, "-I", "-S", path], input=LINES, capture_output=True, check=False
    )
    right = run("transduce", xor, "--all", stdin=LINES)
    assert (done.stdout, done.returncode) == (right.stdout, right.returncode)
    messages, own = (each.stderr.decode().splitlines() for each in (right, done))
    numbers = [[line.split(":")[-2] for line in lines] for lines in (messages, own)]
    assert numbers[0] == numbers[1] == ["4", "5", "6", "7", "8"]
    assert own[0] == "standard input:4: symbol 2 is 'é', which the machine does not know"
    assert own[3] == "standard input:7: byte 2 is 0xff, which is not UTF-8"


def test_a_program_ends_quietly_with_its_reader(xor: Path, tmp_path: Path) -> None:
    run("extract", xor, "--python", tmp_path / "xor.py")
    shell = f"{sys.executable} {tmp_path / 'xor.py'} | head -n 1"
    done = subprocess.run(
        ["bash", "-c", shell], input=b"01\n" * 99_999, capture_output=True, check=True
    )
    assert (done.stdout, done.stderr) == (b"01\n", b"")


def test_states_of_a_program_have_distinct_names() -> None:
    states = SymbolTable((Family("x"), Family("x"), Family("x (1)")))
    rules = (
        rule(when([0], None, [0, 1]), (0, 0), Term(CONSTANT, 0), after=Term(CONSTANT, 1)),
        rule(when([1], None, [0, 1]), (0, 0), Term(CONSTANT, 1), after=Term(CONSTANT, 2)),
        rule(when([0], None, [2]), (0, 0), Term(CONSTANT, 1), after=Term(CONSTANT, 2)),
        rule(when([1], None, [2]), (0, 0), Term(CONSTANT, 0), after=Term(CONSTANT, 1)),
    )
    machine = replace(parity(Layout.synchronous(2, 2)), states=states, rules=rules)
    assert program(machine)("0111") == ("0101", None)


@pytest.mark.parametrize("name", MACHINES)
def test_a_program_is_plain_python(name: str) -> None:
    machine = replace(MACHINES[name](), task="a\nb")
    text = machine.to_python()
    assert machine.to_python() == text
    imported = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import)]
    assert [alias.name for node in imported for alias in node.names] == ["sys"]
    assert "ImportFrom" not in ast.dump(ast.parse(text))
    assert text.startswith("# A machine for the task a\\nb,")
    for each in machine.rule_descriptions:
        assert f"# {each.number}. {each.sentence}\n" in text


def test_programs_pass_a_linter(tmp_path: Path) -> None:
    pytest.importorskip("ruff")
    for number, machine in enumerate(MACHINES.values()):
        (tmp_path / f"program{number}.py").write_text(machine().to_python(), encoding="utf-8")
    ruff = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", str(tmp_path)]
    checked = subprocess.run(ruff, capture_output=True, check=False)
    assert checked.returncode == 0, checked.stdout.decode()


def test_words_are_separated_by_ascii_spaces(tmp_path: Path) -> None:
    config = resolve(
        task="reverse",
        recipe="default",
        settings={"model": {"memory": {"name": "stack", "size": 4}}},
        assignments=["parameters.symbols=200"],
    )
    task = config.make_task()
    machine = rearranging(task, STACK)
    machine = replace(machine, task="reverse", words=(True, True), layout=task.layout)
    checkpoint_files.save_machine(tmp_path / "machine", config, machine, "")
    lines = [" s1 s2", "s1\ts200\x0bs7", "", "  ", "s1\u00a0s2", "s201", "s3 " * 40]
    answer_line = program(machine)
    done = run("transduce", tmp_path / "machine", stdin="\n".join(lines).encode())
    assert [answer_line(line)[0] for line in lines] == done.stdout.decode().splitlines()
    assert [number for number, line in enumerate(lines) if answer_line(line)[1]] == [4, 5]


@pytest.mark.parametrize("endless", [False, True])
def test_a_program_for_pairs_in_files_answers_as_transduce(endless: bool, tmp_path: Path) -> None:
    path = tripling(tmp_path, endless=endless)
    machine = stacktrans.load(path).machine
    assert machine is not None
    answer_line, lines = program(machine), ["ab", "xb", "a\tb", "", "<unk>", "abbab" * 20]
    done = run("transduce", path, stdin="\n".join(lines).encode())
    answers = [answer_line(line) for line in lines]
    assert [text for text, _ in answers] == done.stdout.decode().splitlines()
    *reported, note = done.stderr.decode().splitlines()
    assert "read 6 symbols as unknown, the first 'x' in line 2" in note
    messages = [message.split(":", 2)[2] for message in reported]
    numbers = [number for number, (_, message) in enumerate(answers, start=1) if message]
    assert numbers == [int(message.split(":")[0]) for message in messages]
    assert f"3: {answers[2][1]}" in messages
    assert answers[0][1] == (MESSAGES[1] if endless else None)


def test_machines_that_read_features_are_not_exported() -> None:
    machine = parity(Layout.synchronous(2, 2))
    machine = replace(machine, source=("0", "0"))
    with pytest.raises(StacktransError, match="features"):
        machine.to_python()
    with pytest.raises(NotFinite, match="features"):
        to_fst(machine)


def test_a_machine_with_a_memory_is_written_except_as_a_transducer(tmp_path: Path) -> None:
    command = "extract parenthesis-stack --python rules.py --fst rules.fst --out machine"
    done = run(*command.split(), cwd=tmp_path)
    assert done.returncode == 1
    assert b"parenthesis: not a finite-state transducer: it needs a memory" in done.stderr
    assert b"push it" in done.stdout
    assert {path.name for path in tmp_path.iterdir()} == {"machine", "rules.py"}


def test_a_machine_that_saves_steps_for_later_symbols_has_no_transducer() -> None:
    to = partial(Term, CONSTANT)
    states = SymbolTable(tuple(map(Family, ("first", "later", "waiting", "still"))))
    machine = replace(
        own_machines.buffered_odd(make_task("parity", "parity", {})), states=states,
        rules=(
            rule(when([0, 1], None, [0]), (0, 0, 1, 0), None, (None,), to(1)),
            rule(when([1], None, [1]), (0, 0, 1, 1), to(1), (None,), to(1)),
            rule(when([0], None, [1]), (0, 0, 0, 0), None, (None,), to(2)),
            rule(when([0], None, [2]), (0, 0, 0, 0), None, (None,), to(3)),
            rule(when([0], None, [3]), (0, 0, 1, 1), to(1), (None,), to(1)),
            rule(when([2], None, [1]), (0, 0, 0, 1), to(1), (None,), to(1)),
        ),
    )  # fmt: skip
    answers = ["".join(map(str, machine.run(each, 9).target)) for each in ([0, 0], [0, 0, 1])]
    assert answers == ["10", "111"]  # the steps of a symbol that takes few can be used later
    with pytest.raises(NotFinite, match="steps that are left over"):
        to_fst(machine)
