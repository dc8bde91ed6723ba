"""Models that read sources, and write targets, from the last symbol to the first.

Such a model, with the weights of another, answers a reversed string with the reversed answer.
"""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from command_line import run
from small_runs import ignore, small_run, trainer_of

from stacktrans.common.errors import UsageError
from stacktrans.common.randomness import Purpose, generator
from stacktrans.decoding.beam import search
from stacktrans.extraction.learner import Extraction, Learner
from stacktrans.inference.predictions import predictions
from stacktrans.inference.scores import score
from stacktrans.inference.trace import trace
from stacktrans.inference.transduction import transduce_strings
from stacktrans.model.checkpoint import Checkpoint, load
from stacktrans.model.checkpoint_files import save, save_machine
from stacktrans.settings.resolve import resolve
from stacktrans.tasks.encoding import encode
from stacktrans.tasks.layout import Layout, Pair
from stacktrans.tasks.lengths import Lengths

BACKWARDS = "backwards=true"
SOURCES = ("!", "!#", '#!"', '!"##', '""!#!"')


def turned(directory: Path, forwards: Checkpoint) -> Checkpoint:
    """The same weights in a model that works backwards."""
    config = forwards.config
    model = config.model.model_copy(update={"backwards": True})
    weights = {name: torch.from_numpy(each) for name, each in forwards.weights.items()}
    save(directory, config.model_copy(update={"model": model}), weights)
    return load(directory)


@pytest.fixture(scope="module", params=["joint", "buffered"])
def drawn(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Checkpoint, Checkpoint]:
    """A model that has learned nothing, and the same model backwards."""
    folder = tmp_path_factory.mktemp("drawn")
    buffers = ["buffers={steps_per_symbol: 2}"] if request.param == "buffered" else []
    trainer = trainer_of(small_run("max_steps=1", *buffers), folder / "forwards")
    trainer.run(ignore)
    forwards = load(folder / "forwards")
    return forwards, turned(folder / "backwards", forwards)


@pytest.fixture(scope="module")
def reverse(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    """A shipped model, made to work backwards: it is still right, as reversal is symmetric."""
    return turned(tmp_path_factory.mktemp("reverse") / "model", load("reverse-stack"))


@pytest.fixture(scope="module")
def extracted(reverse: Checkpoint) -> Extraction:
    return Learner(reverse).learn()


def answers(model: Checkpoint, *sources: str) -> list[str | None]:
    return [line.output for line in transduce_strings(model, sources)]


def test_source_and_answer_are_reversed() -> None:
    layout = Layout.joint(5, 3, backwards=True)
    pair = Pair(np.array([1, 2, 4]), np.array([0, 2]))
    inputs, targets, scored = (rows[0] for rows in encode(layout, [[pair]]))
    assert inputs.tolist() == [0, 6, 4, 3, 1, 9, 7]
    assert targets[scored].tolist() == [2, 0, layout.end]
    assert layout.prompt(np.array([1, 2, 4])).tolist() == [0, 6, 4, 3, 1]


def test_the_answer_to_a_reversed_string_is_reversed(drawn: tuple[Checkpoint, Checkpoint]) -> None:
    forwards, backwards = drawn
    answered = answers(forwards, *SOURCES)
    assert len({*answered}) > 1
    turned_around = answers(backwards, *(source[::-1] for source in SOURCES))
    assert turned_around == [answer and answer[::-1] for answer in answered]


def test_a_reversed_model_is_traced_like_any_other(drawn: tuple[Checkpoint, Checkpoint]) -> None:
    forwards, backwards = drawn
    one, other = trace(forwards, [*SOURCES[3]]), trace(backwards, [*SOURCES[3][::-1]])
    assert [step.input for step in one.steps] == [step.input for step in other.steps]
    assert [step.output for step in one.steps] == [step.output for step in other.steps]
    assert [step.written for step in one.steps] == [step.written for step in other.steps]
    assert one.answer == other.answer[::-1]


def test_beam_search_answers_are_reversed(drawn: tuple[Checkpoint, Checkpoint]) -> None:
    sources = [*map(drawn[0].task.source.encode, SOURCES)]
    one, other = (
        search(model.predictor, model.layout, asked, width=4, best=3)
        for model, asked in zip(drawn, (sources, [each[::-1] for each in sources]), strict=True)
    )
    for row, turned_row in zip(one, other, strict=True):
        assert [each.target[::-1] for each in row] == [each.target for each in turned_row]
        assert [each.log_probability for each in row] == pytest.approx(
            [each.log_probability for each in turned_row]
        )


def before_error(answer: str, target: str) -> int:
    """The number of symbols of an answer before its first error."""
    pairs = enumerate(zip(answer, target, strict=False))
    shorter = min(len(answer), len(target))
    return next((place for place, (own, right) in pairs if own != right), shorter)


def test_fine_accuracy_is_the_share_before_the_first_error(
    drawn: tuple[Checkpoint, Checkpoint],
) -> None:
    forwards, backwards = drawn
    pairs = forwards.task.sample(generator(1, Purpose.SAMPLE), Lengths(1, 6), 60, "uniform")
    turned_around = [Pair(pair.source[::-1], pair.target[::-1]) for pair in pairs]
    for model, asked in ((forwards, pairs), (backwards, turned_around)):
        scores = score(model.predictor, model.layout, asked)
        found = predictions(model, asked)
        assert scores.fine.tolist() == pytest.approx([each.fine for each in found])
        for each in found:
            right = bool(each.ended) and each.answer == each.target
            before = before_error(each.answer, each.target)
            assert each.first_wrong == (None if right else before + 1)
            in_order = slice(None, None, -1 if model is backwards else 1)
            before = before_error(each.answer[in_order], each.target[in_order])
            assert each.fine == (1 if right else before / (len(each.target) + 1))
    assert score(forwards.predictor, forwards.layout, pairs).fine.tolist() == (
        score(backwards.predictor, backwards.layout, turned_around).fine.tolist()
    )


def test_a_trace_reads_the_last_symbol_first(reverse: Checkpoint) -> None:
    followed = trace(reverse, [*"abc"])
    assert (followed.answer, followed.correct) == ("cba", True)
    assert [step.input for step in followed.steps] == ["<s>", *"cba", "|||", *"abc"]
    assert [step.output for step in followed.steps[4:]] == [*"abc", "</s>"]


def test_the_extracted_machine_reads_backwards(
    reverse: Checkpoint, extracted: Extraction, tmp_path: Path
) -> None:
    assert extracted.machine.layout.backwards
    assert extracted.counterexample is None
    save_machine(tmp_path / "machine", reverse.config, extracted.machine, "")
    answered = run("transduce", tmp_path / "machine", stdin=b"abc\nxyzzy\n").stdout.decode()
    assert answered == "cba\nyzzyx\n"
    measured = json.loads(run("eval", tmp_path / "machine", "--count", "50", "--json").stdout)
    assert {each["coarse"] for each in measured["results"]} == {1.0}
    found = run("verify", tmp_path / "machine", "--count", "20", "--longest", "200")
    assert found.returncode == 0
    assert "no proof: machines that read sources backwards are not supported" in (
        found.stdout.decode()
    )
    shown = json.loads(run("inspect", tmp_path / "machine", "--json", "ab").stdout)
    assert shown["answer"] == "ba"


def test_a_backwards_model_learns(tmp_path: Path) -> None:
    config = small_run(BACKWARDS, "max_steps=60")
    trainer = trainer_of(config, tmp_path / "run")
    losses: list[float] = []
    trainer.run(lambda record: losses.append(record.loss))
    assert losses[-1] < losses[0]
    assert load(tmp_path / "run").config.model.backwards


@pytest.mark.parametrize(
    ("task", "memory", "message"),
    [
        ("xor", "stack", "=true: task xor has no targets after its sources"),
        ("anbn", "stack-rnn", "=true: task anbn has no targets after its sources"),
    ],
)
def test_reversed_direction_needs_a_joint_layout(task: str, memory: str, message: str) -> None:
    settings = {"model": {"memory": memory}}
    with pytest.raises(UsageError, match=message):
        resolve(task=task, settings=settings, assignments=[BACKWARDS])
