"""Models whose numbers overflow: reported, and never written as values that JSON lacks."""

import json
from pathlib import Path

import pytest
import torch
from command_line import invoke

from stacktrans.common.randomness import Purpose, generator
from stacktrans.inference.scores import score
from stacktrans.inference.transduction import AnsweredLine, AnswerOptions, transduce_lines
from stacktrans.model.checkpoint import load
from stacktrans.model.checkpoint_files import save
from stacktrans.settings.locations import shipped
from stacktrans.tasks.lengths import Lengths

SOURCES = {
    "reverse-stack": "hello",
    "parenthesis-stack": "(()",
    "xor-buffered": "1101",
    "anbncn": "aab",
}


@pytest.fixture(scope="module", params=SOURCES)
def immense(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shipped model with the largest weights."""
    copy = tmp_path_factory.mktemp("models") / str(request.param)
    there = load(shipped("checkpoints") / copy.name, torch.device("cpu"))
    weights = {name: tensor.sign() * 3e38 for name, tensor in there.model.state_dict().items()}
    save(copy, there.config, weights)
    return copy


def test_overflow_is_an_error(immense: Path, tmp_path: Path) -> None:
    source = SOURCES[immense.name]
    done = invoke("inspect", str(immense), source, "--json")
    assert (done.returncode, "numbers overflow" in done.err) == (1, True)
    model = load(immense, torch.device("cpu"))
    (tmp_path / "line").write_text(source + "\n")
    for as_json in (False, True):
        with (tmp_path / "line").open("rb") as stream:
            (line,) = transduce_lines(model, stream.fileno(), AnswerOptions(full=as_json))
        assert isinstance(line, AnsweredLine)
        assert "numbers overflow" in (line.error or "")
        json.dumps(line.as_json(), allow_nan=False)


def test_overflowing_answers_are_wrong(immense: Path) -> None:
    model = load(immense, torch.device("cpu"))
    law = model.config.task.law_of(Lengths(8, 12))
    pairs = model.task.sample(generator(1, Purpose.EVALUATION), Lengths(8, 12), 5, law)
    assert score(model.predictor, model.layout, pairs).symbol_accuracy < 0.1
