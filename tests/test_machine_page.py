"""The page of a machine: it runs any string as Python does, in a browser."""

import itertools
import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import NEEDS_CHROMIUM, Browser, browser
from command_line import run
from own_machines import SAME, STACK, mutant, rearranging, rule, when
from test_machine_traces import moving, reversing
from test_page import HOSTILE, data_of
from test_page_in_browser import COUNT, NOW, WORDS
from test_proofs import MACHINES, TASKS
from test_stream_machines import moving as moving_anyhow

from stacktrans.automata.execution import AutomatonModel
from stacktrans.automata.machine import Machine
from stacktrans.automata.machine_file import machine_json
from stacktrans.automata.rules import CONSTANT, Buffers, Family, SymbolTable, Term
from stacktrans.common.ends import Ends
from stacktrans.decoding.decoder import DecodingStep, decode
from stacktrans.inference.trace import Trace, trace
from stacktrans.model.checkpoint import Checkpoint, load
from stacktrans.model.checkpoint_files import save_machine
from stacktrans.settings.resolve import resolve
from stacktrans.showing.page import PageModel, page_of
from stacktrans.showing.traces import verdict
from stacktrans.tasks import make_task
from stacktrans.tasks.alphabets import Alphabet
from stacktrans.tasks.layout import Layout, OutputBound

pytestmark = NEEDS_CHROMIUM
RUNS = """(machine, sources) => sources.map((source) => {
  const own = machineOf(machine);
  const run = answerOf(own, source, [1, 1]);
  const steps = run.steps.map(({ observation, transition }, at) => [
    observation[0],
    transition && transition.rule,
    transition && transition.nextState,
    rowsAfter(own, run.steps.slice(0, at + 1)).map((row) => row.map((cell) => cell.stackSymbol)),
  ]);
  return [run.failed ? null : run.answer, run.ended, steps];
})"""
STEPS = """(text) => { type(text); return traced(DATA.models[0], MACHINES[0], text).steps; }"""
WORDED = "(observation) => describeObservation(DATA.models[0], observation)"
VERDICT = "document.querySelector('.verdict').textContent"
APPLIED = "[...document.querySelectorAll('.rules .applied')].map((rule) => rule.textContent)"
TROUBLE = "document.getElementById('trouble').textContent"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


def called(chromium: Browser, function: str, *arguments: Any) -> Any:
    return chromium.value(f"({function})({', '.join(map(json.dumps, arguments))})")


def save_page(path: Path, source: str, to: Path) -> Checkpoint:
    """Write the page of a machine, and load it."""
    loaded = load(path)
    shown = PageModel("it", trace(loaded, loaded.task.source.split(source)), loaded)
    to.write_text(page_of([shown]), encoding="utf-8")
    return loaded


def steps_of(machine: Checkpoint, steps: Trace) -> Any:
    """The steps that Python writes into a page, as for a network, which no page can run."""
    shown = PageModel("it", steps, replace(machine, machine=None))
    return data_of(page_of([shown]))["models"][0]["steps"]


def in_python(machine: Machine, source: Sequence[int]) -> list[Any]:
    """The answer of a machine, whether it ended it, and its steps until it is stuck."""
    steps: list[list[Any]] = []

    def observe(step: DecodingStep) -> None:
        configuration, read = step.state.items[0], int(step.ids[0])
        if not (steps and steps[-1][1] is None):
            contents = [[*row] for row in configuration.contents]
            input_id = machine.layout.inputs if read < 0 else read
            transition = None if configuration.stuck else configuration.last
            after = transition and [transition.rule, transition.next_state]
            steps.append([input_id, *(after or [None, None]), contents])

    ids = [np.array(source, np.int64)]
    answer = decode(AutomatonModel(machine), machine.layout, ids, None, False, observe)[0]
    return [
        None if answer.failed else [max(each, -1) for each in answer.target],
        answer.ended,
        steps,
    ]


def with_layouts(machine: Machine) -> list[Machine]:
    """A machine, also one that reads backwards, or with other buffers, where that is possible."""
    backwards = replace(machine.layout, backwards=True)
    others = [replace(machine, layout=backwards)] if machine.layout.feeds_back else []
    if machine.buffers:
        others += [
            replace(machine, buffers=Buffers(*own)) for own in ((1, 2, 1), (2, 0, 1), (3, 1, 0))
        ]
    return [machine, *others]


def machines() -> Iterator[Machine]:
    """Machines of all memories and layouts, and mutants of them, many of which get stuck."""
    layouts = [
        Layout.synchronous(3, 3),
        Layout.padded(2, 2, OutputBound(2, 1)),
        Layout.padded(2, 2, OutputBound(1, 0), backwards=True),
        *(Layout.stream(3, follow, last) for follow, last in ((0, None), (None, 1), (None, None))),
    ]
    lists = [replace(moving_anyhow(), layout=layout) for layout in layouts]
    drawn = random.Random(3)
    for own in [*(making(TASKS[task]) for task, making, _ in MACHINES.values()), *lists]:
        for machine in with_layouts(own):
            yield machine
            yield from (mutant(mutant(machine, drawn), drawn) for _ in range(4))


def test_machines_run_as_in_python(chromium: Browser, tmp_path: Path) -> None:
    """On all short strings and some longer ones: the same answers by the same rules."""
    save_page(reversing(tmp_path), '!"', tmp_path / "it.html")
    chromium.open(tmp_path / "it.html")
    drawn, kinds = random.Random(1), set()
    for machine in machines():
        symbols = range(machine.layout.blank or len(machine.source))
        short = [[*each] for length in (1, 2) for each in itertools.product(symbols, repeat=length)]
        sources = [*short, *(drawn.choices(symbols, k=length) for length in range(3, 12))]
        sent = json.loads(machine_json(machine))
        for source, found in zip(sources, called(chromium, RUNS, sent, sources), strict=True):
            answer, ended, steps = in_python(machine, source)
            assert found[0] == answer
            if answer is not None:
                assert found[1] == ended
                steps = [step for step in steps if step[1] is not None]
            # The last symbol of an answer that ends with it is not read, but shown.
            assert found[2][: len(steps)] == steps
            assert len(found[2]) <= len(steps) + bool(machine.layout.last)
            kinds.add((machine.layout.kind, answer is None, ended))
    assert len(kinds) >= 8


@pytest.mark.parametrize(
    ("name", "first", "symbols"),
    [
        ("reverse-stack", "a", "abc"),
        ("parenthesis-stack", "(", "()[]"),
        ("xor-buffered", "0", "01"),
        ("anbn", "aab", "ab"),
    ],
)
def test_pages_of_shipped_models_show_the_traces_of_python(
    chromium: Browser,
    tmp_path: Path,
    machine_of: Callable[[str], Path],
    name: str,
    first: str,
    symbols: str,
) -> None:
    model = save_page(machine_of(name), first, tmp_path / "it.html")
    chromium.open(tmp_path / "it.html")
    drawn = random.Random(2)
    compared = 0
    for length in range(1, 9):
        for text in sorted({"".join(drawn.choices(symbols, k=length)) for _ in range(6)}):
            found = called(chromium, STEPS, text)
            chromium.press("End")
            shown = chromium.value(VERDICT)
            expected = trace(model, [*text])
            assert [{**step, "scored": True} for step in steps_of(model, expected)] == found
            if expected.failure:
                assert shown == verdict(expected)
            else:
                answer = f"answer: {expected.answer}" if expected.answer else "empty answer"
                assert shown.split("  (")[0] == answer
                assert ("cut off" in shown) == (not expected.ended)
            compared += 1
    assert compared > 10
    assert chromium.complaints() == []


@pytest.mark.parametrize(
    ("name", "source", "words"),
    [("reverse-stack", "a", "reading written "), ("xor-buffered", "1", "reading no input")],
)
def test_observations_are_in_the_words_of_python(
    chromium: Browser,
    tmp_path: Path,
    machine_of: Callable[[str], Path],
    name: str,
    source: str,
    words: str,
) -> None:
    machine = save_page(machine_of(name), source, tmp_path / "it.html").machine
    assert machine
    chromium.open(tmp_path / "it.html")
    drawn, seen = random.Random(4), ""
    for _ in range(100):
        observation = [drawn.randrange(table.size) for table in machine.components]
        found = called(chromium, WORDED, observation)
        assert found == machine.describe_observation(tuple(observation))
        seen += found
    assert words in seen


def test_cells_of_lists_are_those_of_python(chromium: Browser, tmp_path: Path) -> None:
    model = moving()
    shown = PageModel("it", trace(model, ["a"]), model)
    (tmp_path / "it.html").write_text(page_of([shown]), encoding="utf-8")
    chromium.open(tmp_path / "it.html")
    for text in ("b", "acb", "acbbb", "bbacacbbca", "cabbbbac"):
        assert called(chromium, STEPS, text) == steps_of(model, trace(model, [*text]))
    heads = "[...document.querySelectorAll('.cell.head')].map((cell) => cell.dataset.symbol)"
    enter(chromium, "acb")
    found = []
    for _ in range(3):
        found += chromium.value(heads)
        chromium.value("go(state.place + 1)")
    assert found == ["a", "c", "a"]


@pytest.fixture
def reverse(chromium: Browser, tmp_path: Path) -> Browser:
    """A browser with the page of a machine that reverses."""
    save_page(reversing(tmp_path, states=2), '!"', tmp_path / "it.html")
    chromium.open(tmp_path / "it.html")
    return chromium


def enter(chromium: Browser, text: str) -> None:
    """Replace what is in the text field, as if it was pasted."""
    chromium.value("document.getElementById('string').select()")
    chromium.call("Input.insertText", text=text)


def test_the_rule_that_applies_is_marked(reverse: Browser) -> None:
    assert reverse.value("document.querySelectorAll('.rules li').length") == 4
    push = "reading a symbolpush it, go to q0"
    pop = "reading ||| or a symbol, stack has anythingpop, write what is read, go to q1"
    applied = []
    for _ in range(6):
        (rule,) = reverse.value(APPLIED)
        applied.append(rule)
        reverse.press("ArrowRight")
    assert applied[1:5] == [push, push, pop, pop]
    assert reverse.value("document.querySelectorAll('[aria-current] .when').length") == 1
    reverse.press("Home")
    reverse.press("ArrowRight")
    words = "Step 2 of 6. Reads !. Rule 2: reading a symbol: push it, go to q0. State q0. "
    assert reverse.value(WORDS) == f"{words}Stack: from the top !."


def test_a_string_that_is_typed_is_run(reverse: Browser) -> None:
    assert reverse.value("document.getElementById('string').value") == '!"'
    reverse.press("End")
    assert reverse.value(VERDICT) == 'answer: "!  (right)'
    enter(reverse, '!"#')
    assert reverse.value(COUNT) == "1 / 8"
    reverse.value("document.activeElement.blur()")
    reverse.press("End")
    assert reverse.value(VERDICT) == 'answer: #"!'
    assert reverse.value(NOW) == [["!", "</s>"]]
    assert reverse.complaints() == []


def test_keys_in_the_text_field_do_not_step(reverse: Browser) -> None:
    reverse.value("document.getElementById('string').focus()")
    for key in ("ArrowRight", "End", "ArrowLeft"):
        reverse.press(key)
        assert reverse.value(COUNT) == "1 / 6"
    reverse.press("Enter")
    assert reverse.value("document.getElementById('play').textContent") == "Pause"
    reverse.press("ArrowRight")
    assert reverse.value(COUNT) == "2 / 6"


def test_a_string_that_cannot_be_read_is_an_error(reverse: Browser) -> None:
    enter(reverse, "!a")
    assert reverse.value(TROUBLE) == "symbol 2 is ‘a’, which the machine does not know"
    assert reverse.value(COUNT) == "1 / 6"  # of the string before
    enter(reverse, "")
    assert (reverse.value(TROUBLE), reverse.value(COUNT)) == ("", "1 / 2")


def test_a_machine_without_a_rule_is_stuck(chromium: Browser, tmp_path: Path) -> None:
    # An answer can only end after the first of the symbols.
    last = rule(when([5], [0], None), (0, 0), Term(CONSTANT, 3))
    save_page(reversing(tmp_path, states=2, last=last), "!", tmp_path / "it.html")
    chromium.open(tmp_path / "it.html")
    enter(chromium, '"')
    chromium.value("document.activeElement.blur()")
    chromium.press("End")
    stuck = 'no answer: no rule applies at step 4: reading ", stack is empty'
    assert chromium.value(VERDICT) == stuck
    assert chromium.value(APPLIED) == []
    assert chromium.value(WORDS) == 'Step 4 of 4. Reads ". No rule applies. State q1. Stack: empty.'


def test_a_machine_without_memory_is_stuck_in_a_state(chromium: Browser, tmp_path: Path) -> None:
    settings: Any = {"model": {"memory": "none"}, "task": {"parameters": {"symbols": 3}}}
    config = resolve(task="reverse", settings=settings)
    machine = replace(
        rearranging(config.make_task(), STACK),
        task="reverse",
        stack_symbols=(),
        states=SymbolTable((Family("q0"), Family("q1"))),
        memories=Ends((), (), (), (), ()),
        rules=(
            rule(when([0], None), (), None, ()),
            rule(when([2, 3, 4], [0]), (), None, (), Term(CONSTANT, 1)),
            rule(when([1], None), (), Term(CONSTANT, 3), ()),
        ),
    )
    save_machine(tmp_path / "machine", config, machine, "")
    save_page(tmp_path / "machine", "!", tmp_path / "it.html")
    chromium.open(tmp_path / "it.html")
    enter(chromium, '!"')
    chromium.value("document.activeElement.blur()")
    chromium.press("End")
    assert chromium.value(VERDICT) == 'no answer: no rule applies at step 3: in q1, reading "'


def test_an_answer_without_an_end_is_cut_off(chromium: Browser, tmp_path: Path) -> None:
    model = save_page(
        reversing(tmp_path, last=rule(when(None, [0], None), (0, 0), SAME)),
        "!",
        tmp_path / "it.html",
    )
    chromium.open(tmp_path / "it.html")
    enter(chromium, "!#")
    chromium.value("document.activeElement.blur()")
    chromium.press("End")
    expected = trace(model, [*"!#"])
    assert not expected.ended
    cut = f"answer: {expected.answer}  (cut off: it did not end)"
    assert chromium.value(VERDICT) == cut
    assert chromium.value(COUNT) == f"{len(expected.steps)} / {len(expected.steps)}"


def test_machines_are_run_side_by_side_but_not_beside_a_network(
    chromium: Browser, tmp_path: Path
) -> None:
    path, it = reversing(tmp_path), tmp_path / "it.html"
    assert run("inspect", path, '!"', "--html", it, "--beside", path).returncode == 0
    chromium.open(it)
    enter(chromium, '!"#')
    assert chromium.value(COUNT) == "1 / 8"
    assert len(chromium.value(APPLIED)) == 2
    assert run("inspect", path, '!"', "--html", it, "--beside", "reverse-stack").returncode == 0
    chromium.open(it)
    assert chromium.value("document.getElementById('typed').offsetHeight") == 0
    chromium.press("ArrowRight")
    assert chromium.value(APPLIED) == ["reading a symbolpush it"]
    assert chromium.complaints() == []


def test_symbols_are_not_interpreted_as_markup(chromium: Browser, tmp_path: Path) -> None:
    model = load(reversing(tmp_path))
    symbols = [symbol.replace(" ", "\xa0") for symbol in HOSTILE]
    task = make_task("reverse", "reverse", {"symbols": len(symbols)})
    task.source = task.target = Alphabet(symbols, words=True)
    machine = replace(rearranging(task, STACK), words=(True, True))
    model = replace(model, task=task, layout=task.layout, machine=machine)
    shown = PageModel(HOSTILE[0], trace(model, symbols[:1]), model)
    (tmp_path / "it.html").write_text(page_of([shown]), encoding="utf-8")
    chromium.open(tmp_path / "it.html")
    enter(chromium, " ".join(symbols))
    visible = [symbol.replace("\xa0", "\\xa0").replace("\u2028", "\\u2028") for symbol in symbols]
    columns = "[...document.querySelectorAll('tr:first-child td')].map((cell) => cell.textContent)"
    assert chromium.value(columns)[1:6] == visible
    chromium.value("document.activeElement.blur()")
    chromium.press("End")
    assert chromium.value(VERDICT) == f"answer: {' '.join(visible[::-1])}"
    assert chromium.value("[window.hacked, document.images.length]") == [None, 0]
    assert chromium.value("document.scripts.length") == 2
    assert len(chromium.requests()) == 1
    assert chromium.complaints() == []


@pytest.mark.parametrize("width", [360, 1400])
def test_a_page_of_rules_is_as_wide_as_its_window(
    chromium: Browser, tmp_path: Path, machine_of: Callable[[str], Path], width: int
) -> None:
    save_page(machine_of("xor-buffered"), "0110" * 20, tmp_path / "it.html")
    chromium.open(tmp_path / "it.html", width, prefers_reduced_motion="reduce")
    for key in ("Home", "End", "ArrowLeft"):
        chromium.press(key)
        assert chromium.value("document.documentElement.scrollWidth") <= width
