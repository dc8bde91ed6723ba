"""Baselines for pairs in files: what copies, nearest sources and frequent targets would score."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import run

from stacktrans.inference import baselines
from stacktrans.inference.baselines import baseline_scores
from stacktrans.showing.scores import flat_entries
from stacktrans.tasks.pair_files import PairFiles
from stacktrans.tasks.pairs import Pairs
from stacktrans.tasks.sets import read_sets
from stacktrans.tasks.written_pairs import pairs_of_strings

TRAINING = "abab\tba\ncc\tcc\nabcc\tab\naaaa\tba\n"
# The sources abab and abcc are equally near to abac: the first counts.
TESTED = [("cc", "cc"), ("abac", "ba"), ("abc", "ab")]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "train.tsv").write_text(TRAINING)
    (tmp_path / "test.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in TESTED))
    return tmp_path


def test_baselines_answer_from_the_source_and_the_training_pairs(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train, test = (str(files / f"{name}.tsv") for name in ("train", "test"))
    sets = read_sets(PairFiles(train, test, test, None, "characters", split=0))
    task = Pairs(train, test, test, known=dict(sets.known))
    found = baseline_scores(task, sets.sets[0], pairs_of_strings(TESTED, task))
    answers = {
        name: [each.answer for each in np.array(scores.predictions)]
        for name, scores in found.items()
    }
    assert answers == {
        "copied source": ["cc", "abac", "abc"],
        "nearest source": ["cc", "ba", "ab"],
        "most frequent target": ["ba", "ba", "ba"],
    }
    copied = found["copied source"]
    assert [copied.coarse_accuracy, copied.symbol_error_rate] == [1 / 3, (0 + 2 + 1) / 6]
    # The right symbols of each target with its end, place by place, of 9 in all.
    assert copied.symbol_accuracy == (3 + 0 + 2) / 9
    monkeypatch.setattr(baselines, "MAX_SYMBOLS", 14 * 2)
    assert (
        baseline_scores(task, sets.sets[0], pairs_of_strings(TESTED, task))["copied source"].count
        == 2
    )


def test_train_and_eval_show_baselines_while_the_files_are_there(files: Path) -> None:
    few = ["--set", "hidden_size=8", "--set", "embedding_size=4", "--max-steps", "2"]
    done = run("train", "--data", "train.tsv", "--dev", "test.tsv", "--test", "test.tsv",
               "--recipe", "default", "--memory", "none", *few, "--out", "run",
               cwd=files)  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.decode().splitlines()]
    assert ["test,", "nearest", "source", "2:4", "3", "1.000", "1.000", "1.0000"] in rows
    summary = json.loads((files / "run" / "summary.json").read_text())["baselines"]
    evaluated = [
        run("eval", "run", *data, "--json", cwd=files) for data in ([], ["--data", "test.tsv"])
    ]
    for each in evaluated:
        (*_, result) = json.loads(each.stdout)["results"]
        assert result["symbol_error_rate"] > 0, "beside the error rates of baselines"
        for name, measures in result["baselines"].items():
            assert measures["coarse"] == summary[name]["coarse"]
            assert measures["symbols"] == summary[name]["symbols"]
    shown = run(
        "eval", "run", "--data", "test.tsv", "--without", "state", cwd=files
    ).stdout.decode()
    assert [shown.count(name) for name in summary] == [1, 1, 1]
    (files / "train.tsv").write_text("a\tb\n")
    (result,) = json.loads(run("eval", "run", "--data", "test.tsv", "--json", cwd=files).stdout)[
        "results"
    ]
    assert "baselines" not in result


def test_baselines_of_several_models_are_told_apart() -> None:
    def measured(name: str, development: int) -> dict[str, Any]:
        counts = {"development": development, "test": 9}
        results = [
            {"strings": name, "lengths": [1, 3], "baselines": {"copied source": {"count": count}}}
            for name, count in counts.items()
        ]
        return {"checkpoint": name, "results": results}

    rows = flat_entries([measured("a", 5), measured("b", 7), measured("c", 5)])
    shown = [(row["checkpoint"], row["strings"], row["count"]) for row in rows if "count" in row]
    assert shown == [
        ("copied source (a, c)", "development", 5),
        ("copied source (b)", "development", 7),
        ("copied source", "test", 9),
    ]
