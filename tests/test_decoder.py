"""The decoder: answers from outputs, and batches of strings against each string alone."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from own_machines import STACK, buffered_odd, rule, when
from test_predictors import LAYOUTS, drawn, to_numpy
from test_proofs import TASKS

from stacktrans.automata.execution import AutomatonModel
from stacktrans.automata.machine import Machine
from stacktrans.automata.rules import CONSTANT, Buffers, Family, SymbolTable, Term
from stacktrans.common.ragged import Ragged
from stacktrans.decoding import decoder
from stacktrans.decoding.decoder import Answer, DecodingStep, decode, predict
from stacktrans.decoding.model import Predictor
from stacktrans.decoding.output_buffers import NO_POSITION
from stacktrans.model.torch_backend import TorchModel
from stacktrans.model.transducer import Transducer
from stacktrans.tasks.alphabets import NO_OUTPUT, Ids
from stacktrans.tasks.layout import Layout, OutputBound

Making = Callable[[Transducer], Predictor]
MAKINGS = [pytest.param(to_numpy, id="arrays"), pytest.param(TorchModel, id="torch")]
JOINT, BACKWARDS = Layout.joint(3, 3), Layout.joint(3, 3, backwards=True)
PADDED = Layout.padded(3, 3, OutputBound(1, 2))
LIMIT = 9
"""The maximum length of answers, since some untrained models never end one."""


@pytest.mark.parametrize(
    ("layout", "outputs", "limit", "answer", "ended"),
    [
        (JOINT, [3], 5, [], True),
        (JOINT, [1, 2, 3], 5, [1, 2], True),
        (JOINT, [1, 2, 3], 2, [1, 2], True),  # the limit is on symbols, and the end is none
        (JOINT, [1, 2, 0], 2, [1, 2], False),
        (JOINT, [1], 0, [], False),
        (JOINT, [3], 0, [], True),
        (JOINT, [], None, [], False),
        (BACKWARDS, [0, 1, 2, 3], 5, [2, 1, 0], True),
        (BACKWARDS, [0, 1, 2], 2, [1, 0], False),
        (PADDED, [1, 0, 3, 1], None, [1, 0], True),
        (PADDED, [1, 3, 0, 3], None, [1], True),
        (PADDED, [1, 0], None, [1, 0], False),
        (Layout.synchronous(3, 3), [0, 2, 1], None, [0, 2, 1], True),
        (Layout.synchronous(3, 3), [], None, [], True),
        (Layout.stream(3, follow=0), [1, 2, 0], 5, [1, 2], True),
        (Layout.stream(3, follow=0), [1, 2], 1, [1], False),
        (Layout.stream(3, last=2), [1, 1, 2], 5, [1, 1, 2], True),
        (Layout.stream(3, last=2), [1, 1, 2], 2, [1, 1], False),
        (Layout.stream(3, last=2), [2], 1, [2], True),
        (Layout.stream(3, last=2), [], 5, [], False),
        (Layout.stream(3), [1, 1, 2], 2, [1, 1], True),
    ],
)
def test_outputs_become_an_answer(
    layout: Layout, outputs: list[int], limit: int | None, answer: list[int], ended: bool
) -> None:
    rows = Ragged.of([np.array(outputs, np.int64)])
    targets, found = layout.decode(rows, None if limit is None else np.array([limit]))
    assert (targets[0].tolist(), found.tolist()) == (answer, [ended])


def test_a_batch_of_outputs_becomes_answers() -> None:
    rows = Ragged.of([np.array(row, np.int64) for row in ([1, 3], [], [0, 1, 2], [3])])
    for layout, answers in ((JOINT, [[1], [], [0, 1], []]), (BACKWARDS, [[1], [], [1, 0], []])):
        targets, ended = layout.decode(rows, np.array([5, 5, 2, 0]))
        assert [each.tolist() for each in targets] == answers
        assert ended.tolist() == [True, False, False, True]


def sources_of(layout: Layout, count: int = 25) -> list[Ids]:
    """Sources of many lengths, of which two begin an answer with the same symbol."""
    rng = np.random.default_rng(8)
    return [rng.integers(3, size=length) for length in rng.integers(1, 25, size=count)]


def same(found: Sequence[Answer], expected: Sequence[Answer]) -> None:
    assert [(each.target, each.ended, each.failed) for each in found] == [
        (each.target, each.ended, each.failed) for each in expected
    ]
    assert [each.log_probability for each in found] == pytest.approx(
        [each.log_probability for each in expected], abs=1e-8, nan_ok=True
    )


@pytest.mark.parametrize("make", MAKINGS)
@pytest.mark.parametrize(
    ("memory", "name", "buffered"),
    [
        *(("deque", name, False) for name in LAYOUTS),
        *((memory, "joint", False) for memory in ("list-rnn", "none")),
        *((memory, "padded", True) for memory in ("deque", "list-rnn", "none")),
    ],
)
def test_a_batch_gives_the_same_answers_as_each_string_alone(
    name: str, buffered: bool, memory: str, make: Making, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = LAYOUTS[name]
    model, sources = make(drawn(memory, "lstm", layout, buffered)), sources_of(layout)
    alone = [decode(model, layout, [source], LIMIT)[0] for source in sources]
    same(decode(model, layout, sources, LIMIT), alone)
    monkeypatch.setattr(decoder, "STEPS_AT_ONCE", 200)
    monkeypatch.setattr(decoder, "STEPS_PER_CHUNK", 30)
    same(decode(model, layout, sources, LIMIT), alone)
    monkeypatch.setattr(decoder, "FEW_OUTPUTS", model.outputs // 2)
    assert decoder.steps_at_once(model, 200) <= 100
    same(decode(model, layout, sources, LIMIT), alone)


@pytest.mark.parametrize("make", MAKINGS)
@pytest.mark.parametrize("name", ["joint", "last", "endless"])
def test_an_answer_is_as_probable_as_its_symbols(name: str, make: Making) -> None:
    layout = LAYOUTS[name]
    assert layout.first_target is not None
    model = drawn("stack", "gru", layout)
    for source, answer in zip(
        sources_of(layout), decode(make(model), layout, sources_of(layout), LIMIT), strict=True
    ):
        prompt, written = layout.prompt(source), np.array(answer.target, np.int64)
        read = np.concatenate([prompt, written + layout.first_target])
        with torch.no_grad():
            logits = model(torch.from_numpy(read[None]))[0, len(prompt) - 1 :]
        logs = torch.log_softmax(logits, dim=-1).numpy()
        total = logs[np.arange(len(written)), written].sum()
        # An answer of the maximum length has ended if the end is the most probable next output.
        ends = layout.end is not None and answer.ended
        if ends:
            assert logs[-1].argmax() == layout.end
            total += logs[-1, layout.end]
        assert logs[: len(written)].argmax(axis=1).tolist() == answer.target
        assert answer.log_probability == pytest.approx(total, abs=1e-8)


@pytest.mark.parametrize("make", MAKINGS)
@pytest.mark.parametrize("name", ["same length", "padded"])
@pytest.mark.parametrize(
    ("memory", "more"),
    [
        ("stack", {}),
        ("queue", {"steps_per_symbol": 1, "output_skip": 0}),
        ("deque", {"extra_steps": 3, "output_skip": 2}),
        ("none", {"steps_per_symbol": 3, "extra_steps": 0}),
    ],
)
def test_buffers_are_those_of_the_definition(
    memory: str, more: dict[str, int], name: str, make: Making
) -> None:
    layout = LAYOUTS[name]
    model = drawn(memory, "lstm", layout, buffered=True, **more)
    sources = sources_of(layout, 12)
    strings, answers = [*map(layout.prompt, sources)], decode(make(model), layout, sources)
    found = predict(make(model), strings)
    assert found.log_probs
    for string, symbols, logs, answer in zip(
        strings, found.symbols, found.log_probs, answers, strict=True
    ):
        with torch.no_grad():
            expected = torch.log_softmax(model(torch.from_numpy(string[None]))[0], dim=-1)
        best, right = expected.max(dim=-1)
        assert symbols.tolist() == right.tolist()
        assert logs == pytest.approx(best.numpy(), abs=1e-8)
        scored = len(answer.target) + (layout.end is not None and answer.ended)
        assert answer.log_probability == pytest.approx(logs[:scored].sum(), abs=1e-8)


class Observed:
    """The steps that an observer sees of each string: what is read, and parts of answers."""

    def __init__(self) -> None:
        self.read: dict[int, list[int]] = {}
        self.answers: dict[int, list[int]] = {}
        self.outputs: dict[int, list[int]] = {}

    def __call__(self, step: DecodingStep) -> None:
        assert len({*step.items.tolist()}) == len(step.items)
        assert len(step.items) == len(step.ids) == len(step.logits) == len(step.positions)
        assert len(step.state.signals) == len(step.items)
        for item, read, logits, answer in zip(
            step.items.tolist(),
            step.ids.tolist(),
            step.logits,
            step.positions.tolist(),
            strict=True,
        ):
            self.read.setdefault(item, []).append(read)
            self.outputs.setdefault(item, []).append(int(logits.argmax()))
            self.answers.setdefault(item, []).append(answer)


@pytest.mark.parametrize("make", MAKINGS)
@pytest.mark.parametrize("name", LAYOUTS)
def test_every_step_is_observed_once(name: str, make: Making) -> None:
    layout = LAYOUTS[name]
    model, sources, seen = make(drawn("stack", "gru", layout)), sources_of(layout), Observed()
    answers = decode(model, layout, sources, LIMIT, observe=seen)
    same(answers, decode(model, layout, sources, LIMIT))
    for item, (source, answer) in enumerate(zip(sources, answers, strict=True)):
        prompt = layout.prompt(source).tolist()
        if layout.first_target is None:
            assert seen.read[item] == prompt
            assert seen.answers[item] == [*range(len(prompt))]
            continue
        written = [symbol + layout.first_target for symbol in answer.target]
        last = bool(layout.last) and answer.ended  # after which nothing is read
        whole = [*prompt, *written[: len(written) - last]]
        assert seen.read[item] == whole
        parts = [NO_POSITION] * (len(prompt) - 1) + [*range(len(whole) - len(prompt) + 1)]
        assert seen.answers[item] == parts
        assert seen.outputs[item][len(prompt) - 1 :][: len(written)] == answer.target


@pytest.mark.parametrize("make", MAKINGS)
def test_every_step_of_buffers_is_observed_once(make: Making) -> None:
    model = drawn("stack", "rnn", LAYOUTS["padded"], buffered=True)
    strings, seen = sources_of(LAYOUTS["padded"], 9), Observed()
    found = predict(make(model), strings, observe=seen)
    expected = predict(make(model), strings)
    assert found.symbols.values.tolist() == expected.symbols.values.tolist()
    for item, string in enumerate(strings):
        assert len(seen.read[item]) == model.config.steps_over(len(string))
        assert seen.read[item][0] == string[0]
        parts = [part for part in seen.answers[item] if part != NO_POSITION]
        assert parts == sorted(parts)
        assert all(part < len(string) for part in parts)


def odd_one_out() -> Machine:
    """Copies a's with a stack; where it reads b it has no rule, and after c no output."""
    symbols = Family("symbol", (0, 1, 2))
    stack_symbols, one, same = (
        SymbolTable((Family("empty"), Family("mark"))),
        SymbolTable((Family("q"),)),
        (None,),
    )
    rules = (
        rule(when([0], None, None), (0, 0)),
        rule(when([2], None, None), (0, 1), None, (Term(CONSTANT, 1),)),
        rule(when([4], None, None), (0, 0), None, same),
        rule(when([1, 5], [1], None), (1, 0), Term(CONSTANT, 0)),
        rule(when([1], [0], None), (0, 0)),  # says nothing to c alone
        rule(when([5], [0], None), (0, 0), Term(CONSTANT, 3)),
    )
    return Machine(
        "own", ("a", "b", "c"), ("a", "b", "c"), (False, False),
        SymbolTable((Family("begin"), Family("separator"), symbols, symbols)),
        SymbolTable((symbols, Family("end"))), (stack_symbols,), one, STACK, None,
        Layout.joint(3, 3), rules,
    )  # fmt: skip


@pytest.mark.parametrize("log_probs", [False, True])
def test_a_string_for_which_a_machine_has_no_rule_does_not_spoil_others(log_probs: bool) -> None:
    machine = odd_one_out()
    runner, layout = AutomatonModel(machine), machine.layout
    sources = [[0] * 1000, [0, 1, 0], [0], [2, 2, 0], [1], [0] * 5]
    answers = decode(runner, layout, [*map(np.array, sources)], log_probs=log_probs)
    assert [answer.failed for answer in answers] == [False, True, False, False, True, False]
    for source, answer in zip(sources, answers, strict=True):
        if not answer.failed:
            assert answer == Answer([0] * source.count(0), 0.0, True)
        same([answer], [machine.run(source)])


def test_a_machine_without_an_output_has_no_answer() -> None:
    machine = odd_one_out()
    assert machine.run([2]).failed
    answers = decode(AutomatonModel(machine), machine.layout, [*map(np.array, ([2], [0]))])
    assert [answer.failed for answer in answers] == [True, False]
    # Of synchronous outputs some may not matter.
    symbols = predict(
        AutomatonModel(machine), [np.array([0, 1, 5]), np.array([0, 2, 1])], log_probs=False
    ).symbols
    assert [each.tolist() for each in symbols] == [[NO_OUTPUT, NO_OUTPUT, 3], [NO_OUTPUT] * 2 + [0]]


def test_steps_of_a_machine_after_its_answer_are_ignored() -> None:
    task = TASKS["parity"]
    # There are no rules for the three further steps, which shorter strings take beside others.
    machine: Any = buffered_odd(task)
    runner = AutomatonModel(Machine(**{**vars(machine), "buffers": Buffers(2, 3, 0)}))
    sources = [np.array(each) for each in ([1], [1, 1], [0, 1, 0, 0, 1, 0, 1])]
    for observe in (None, lambda step: None):
        answers = decode(runner, machine.layout, sources, observe=observe)
        assert [answer.target for answer in answers] == [[1], [1, 0], [0, 1, 1, 1, 0, 0, 1]]
        assert [answer.log_probability for answer in answers] == [0, 0, 0]
