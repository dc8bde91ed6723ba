"""The most probable answers of models that are small enough to compare them with all answers."""

import itertools
import json
import math
from pathlib import Path

import pytest
import torch
from command_line import run
from small_runs import small_run

import stacktrans
from stacktrans import Model, UsageError
from stacktrans.model import checkpoint_files
from stacktrans.model.transducer import Transducer

LIMIT = 3
"""The maximum length of an answer in these tests."""
ANSWERS = 1 + 3 + 9 + 27
"""The number of answers up to this length, over three symbols."""


def tiny(path: Path, seed: int, *changes: str) -> Path:
    """A checkpoint of a model that has learned nothing, and whose answers differ."""
    config = small_run(*changes)
    layout = config.make_task().layout
    torch.manual_seed(seed)
    model = Transducer(config.model, layout.inputs, layout.outputs)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(3)
        model.classifier.bias[layout.end] += 1  # so that some answers end
    checkpoint_files.save(path, config, model.state_dict())
    return path


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny(tmp_path_factory.mktemp("models") / "one", seed=1)


@pytest.fixture(scope="module")
def model(path: Path) -> Model:
    return stacktrans.load(path)


def sources_of(model: Model, length: int) -> list[str]:
    """All sources of a length."""
    symbols = model.config.make_task().source.symbols
    return ["".join(each) for each in itertools.product(symbols, repeat=length)]


def probabilities(model: Model, source: str, target: str) -> torch.Tensor:
    """The probabilities of all outputs at each step of a target and after it, by definition."""
    task = model.config.make_task()
    layout = task.layout
    assert layout.first_target is not None
    prompt = layout.prompt(task.source.encode(list(source)))
    fed_back = task.target.encode(list(target)) + layout.first_target
    with torch.no_grad():
        logits = model.network(torch.tensor([[*prompt, *fed_back]]))[0, len(prompt) - 1 :]
    return torch.softmax(logits.double(), dim=-1)


def every_answer(models: list[Model], source: str) -> dict[str, float]:
    """The log-probabilities of all answers, the most probable first.

    Those of several models are averaged at each step. An answer as long as the limit has an end if
    that is the most probable output.
    """
    task, found = models[0].config.make_task(), {}
    end = task.layout.end
    assert end is not None
    for length in range(LIMIT + 1):
        for symbols in itertools.product(task.target.symbols, repeat=length):
            target = "".join(symbols)
            mean = torch.stack([probabilities(model, source, target) for model in models]).mean(0)
            ended = length < LIMIT or mean[-1].argmax() == end
            outputs = [*task.target.encode(symbols).tolist(), end]
            factors = [float(row[output]) for row, output in zip(mean, outputs, strict=True)]
            found[target] = math.log(math.prod(factors if ended else factors[:-1]))
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def test_the_best_answers_are_the_most_probable_of_all(path: Path, model: Model) -> None:
    sources = sources_of(model, 2)
    answers = model.answers(sources, beam=ANSWERS, max_length=LIMIT)
    found = [each.hypotheses or [] for each in answers]
    for source, hypotheses in zip(sources, found, strict=True):
        expected = every_answer([model], source)
        assert [each.text for each in hypotheses] == [*expected]
        scores = [each.log_probability for each in hypotheses]
        assert scores == pytest.approx([*expected.values()], abs=1e-5)
    lines = "".join(f"{source}\n" for source in ["", *sources]).encode()
    options = ("--n-best", "3", "--beam", str(ANSWERS), "--max-length", str(LIMIT))
    printed = run("transduce", path, *options, stdin=lines).stdout.decode().splitlines()
    rows = [line.split("\t") for line in printed]
    assert [row[:3] for row in rows] == [
        [source, str(rank), each.text]
        for source, hypotheses in zip(sources, found, strict=True)
        for rank, each in enumerate(hypotheses[:3], start=1)
    ]
    best = [each.log_probability for hypotheses in found for each in hypotheses[:3]]
    assert [float(row[3]) for row in rows] == pytest.approx(best, abs=1e-5)
    objects = run("transduce", path, *options, "--json", stdin=lines).stdout.splitlines()
    texts = [[each["output"] for each in json.loads(line)["hypotheses"]] for line in objects[1:]]
    assert texts == [[each.text for each in hypotheses[:3]] for hypotheses in found]


def test_oracle_accuracy_counts_targets_among_the_best_answers(
    path: Path, model: Model, tmp_path: Path
) -> None:
    pairs = []
    for source, rank in (("!#", 1), ("#!", 2), ("!!", 3), ("##", 5), ("!##", 8)):
        (answer,) = model.answers(source, beam=8)
        pairs.append((source, (answer.hypotheses or [])[rank - 1].text))
    found = model.evaluate(pairs, n_best=4, beam=8)
    assert [each.rank for each in found.predictions] == [1, 2, 3, None, None]
    assert (found.coarse, found.oracle) == (1 / 5, 3 / 5)
    assert model.evaluate(pairs, beam=8).oracle is None
    data = tmp_path / "data.tsv"
    data.write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    evaluated = run("eval", path, "--data", data, "--n-best", "4", "--beam", "8", "--json")
    assert json.loads(evaluated.stdout)["results"][0]["oracle"] == 3 / 5
    assert b"0.600" in run("eval", path, "--data", data, "--n-best", "4", "--beam", "8").stdout


@pytest.mark.parametrize("beam", [1, 4])
def test_predictions_have_the_log_probabilities_of_answers(model: Model, beam: int) -> None:
    sources = sources_of(model, 3)
    expected = model.answers(sources, beam=beam)
    pairs = [
        (answer.source, f"{answer.text}!" if index % 2 else answer.text)
        for index, answer in enumerate(expected)
    ]
    found = model.evaluate([*pairs, ("x", "x")], beam=beam).predictions
    assert {each.right for each in found[:-1]} == {True, False}
    logs = [each.log_probability for each in found]
    assert logs.pop() is None
    assert logs == pytest.approx([math.log(answer.probability) for answer in expected], abs=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--n-best 3 --beam 2", "--beam 2: expected at least 3, for --n-best 3"),
        ("--n-best 0", "--n-best 0: expected a number of at least 1"),
        ("--n-best 5000", "a beam of 5000: expected at most 4096"),
    ],
)
@pytest.mark.parametrize("command", ["transduce", "eval"])
def test_wrong_numbers_of_answers_are_refused(
    path: Path, command: str, options: str, message: str
) -> None:
    done = run(command, path, *options.split(), stdin=b"!\n")
    assert (done.returncode, done.stdout) == (2, b"")
    assert message in done.stderr.decode()


def test_a_beam_narrower_than_the_answers_is_refused(model: Model) -> None:
    with pytest.raises(UsageError, match=r"^beam 2: expected at least 3, for n_best 3"):
        model.evaluate(n_best=3, beam=2)
