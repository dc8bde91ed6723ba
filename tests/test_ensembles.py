"""Ensembles: several models as one, whose probabilities are the means of theirs."""

import json
from pathlib import Path

import pytest
from command_line import run
from test_n_best import ANSWERS, LIMIT, every_answer, sources_of, tiny

import stacktrans
from stacktrans import CheckpointError, Model, UsageError


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("models")
    shapes = (["hidden_size=8"], ["hidden_size=6", "model.kernel=torch"])
    return [tiny(folder / str(seed), seed, *shape) for seed, shape in enumerate(shapes)]


@pytest.fixture(scope="module")
def models(paths: list[Path]) -> list[Model]:
    return [*map(stacktrans.load, paths)]


def test_probabilities_are_the_means_of_those_of_the_models(
    models: list[Model], paths: list[Path]
) -> None:
    together = stacktrans.ensemble(models)
    sources = sources_of(models[0], 2)
    answers = together.answers(sources, beam=ANSWERS, max_length=LIMIT)
    found = [each.hypotheses or [] for each in answers]
    for source, hypotheses in zip(sources, found, strict=True):
        expected = every_answer(models, source)
        assert [each.text for each in hypotheses] == [*expected]
        scores = [each.log_probability for each in hypotheses]
        assert scores == pytest.approx([*expected.values()], abs=1e-5)
    options = ("--n-best", str(ANSWERS), "--max-length", str(LIMIT))
    lines = "".join(f"{source}\n" for source in sources).encode()
    printed = run("transduce", *paths, "--ensemble", *options, stdin=lines).stdout.decode()
    assert [line.split("\t")[2] for line in printed.splitlines()] == [
        each.text for hypotheses in found for each in hypotheses
    ]
    assert together.parameters == sum(model.parameters for model in models)
    assert repr(together).startswith("Model(reverse: ensemble of 2 models; ")


def test_an_ensemble_is_measured_like_a_model(models: list[Model], paths: list[Path]) -> None:
    options = ("--lengths", "1:4", "--count", "50", "--ensemble", "--predictions", "-")
    rows = [line.split("\t") for line in run("eval", *paths, *options).stdout.decode().splitlines()]
    together = stacktrans.ensemble(models)
    assert [row[2] for row in rows] == together.transduce([row[0] for row in rows])
    evaluated = run("eval", *paths, *options[:-2], "--json")
    result = json.loads(evaluated.stdout)
    assert result["checkpoint"] == f"{paths[0]} + {paths[1]}"
    measured = together.evaluate(lengths=(1, 4), count=50)
    assert result["results"][0]["symbols"] == measured.symbols
    table = json.loads(run("eval", *paths, *options[:-3], "--json").stdout)
    assert [each["checkpoint"] for each in table] == [*map(str, paths)]


def test_held_out_pairs_that_another_model_may_be_trained_on_are_reported(tmp_path: Path) -> None:
    settings = ("--recipe", "feedforward", "--max-steps", "1", "--set", "memory.size=4")
    lines = [f"{number:b}\t{number:b}\n" for number in range(8, 40)]
    for name in ("a.tsv", "b.tsv"):
        (tmp_path / name).write_text("".join(lines), encoding="utf-8")
    (tmp_path / "c.tsv").write_text("".join(reversed(lines)), encoding="utf-8")
    options = {
        "one": ["a.tsv"], "seed": ["b.tsv", "--seed", "2"], "other": ["c.tsv"],
        "dev": ["a.tsv", "--dev", "c.tsv"], "same": ["b.tsv", "--dev", "c.tsv", "--seed", "2"],
    }  # fmt: skip
    for name, files in options.items():
        done = run("train", "--data", *files, *settings, "--out", name, cwd=tmp_path)
        assert done.returncode == 0
    reported = "may have been trained on pairs of the development"
    for names, what in {
        "one seed": f"seed: {reported} set of one, which are measured",
        "one other": f"other: {reported} and test sets of one, which are measured",
        "dev same": "",
    }.items():
        done = run("eval", *names.split(), "--ensemble", cwd=tmp_path)
        assert done.err.removeprefix("stacktrans: ").strip() == what
    assert run("eval", "one", "seed", "--ensemble", "--data", "a.tsv", cwd=tmp_path).err == ""


def test_an_ensemble_of_one_model_twice_equals_the_model() -> None:
    for name in ("anbncn", "reversal-stack"):
        model = stacktrans.load(name)
        twice = stacktrans.ensemble([model, model])
        one, two = (each.evaluate(count=20, beam=1) for each in (model, twice))
        assert one.predictions == two.predictions
        expected, found = (
            [each.log_probability for each in evaluation.predictions] for evaluation in (one, two)
        )
        assert found == pytest.approx(expected, abs=1e-3)


def test_what_an_ensemble_lacks_is_refused(models: list[Model]) -> None:
    together = stacktrans.ensemble(models)
    with pytest.raises(UsageError, match="an ensemble has no trace"):
        together.trace("!#")
    with pytest.raises(CheckpointError, match="an ensemble has several networks"):
        _ = together.network
    with pytest.raises(UsageError, match="an ensemble has no parts that can be left out"):
        together.without("memory")
    with pytest.raises(UsageError, match="an ensemble needs at least one model"):
        stacktrans.ensemble([])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("eval copy-queue reversal-stack --ensemble", "the source symbols are"),
        ("eval xor-buffered xor-buffered --ensemble", "a model with buffers cannot be part"),
        ("eval reversal-stack xor-buffered --ensemble", "a model with buffers cannot be part"),
        ("eval copy-queue {other} --ensemble", "the layout is not that of"),
        ("eval copy-queue copy-queue --ensemble --without memory", "cannot be used with --without"),
        ("transduce copy-queue reversal-stack --ensemble", "the source symbols are"),
    ],
)
def test_models_that_do_not_fit_together_are_refused(
    arguments: str, message: str, tmp_path: Path
) -> None:
    other = tiny(tmp_path / "backwards", 1, "task.parameters.symbols=128", "model.backwards=true")
    done = run(*arguments.format(other=other).split(), stdin=b"abc\n")
    assert (done.returncode, done.stdout) == (2, b"")
    assert message in done.stderr.decode()
