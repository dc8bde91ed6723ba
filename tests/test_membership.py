"""Recognition of a grammar's language, and the scores of labels."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import run
from pair_files import OPTIONS

from stacktrans.inference.scores import Floats, Scores
from stacktrans.showing.tables import csv_of
from stacktrans.tasks import TaskError, make_task
from stacktrans.tasks.lengths import Lengths, NoSuchLength

RULES: dict[str, Any] = {
    "root": "S",
    "rules": {
        "S": [{"probability": "1/2", "source": "a S:1 b"}, {"probability": "1/2", "source": "a b"}]
    },
}
TASK = """
name: anbn-member
generator: membership
parameters:
  characters: true
  labels: ["no", "yes"]
  root: S
  rules: {S: [{probability: 1/2, source: "a S:1 b"}, {probability: 1/2, source: "a b"}]}
lengths: {train: [1, 6], test: [7, 10]}
"""


def in_language(string: str) -> bool:
    half = len(string) // 2
    return half > 0 and string == "a" * half + "b" * half


def test_strings_have_the_label_of_their_kind() -> None:
    task = make_task("mine", "membership", {**RULES, "characters": True})
    pairs = task.sample(np.random.default_rng(1), Lengths(1, 12), 400, "uniform")
    strings = [task.source.join(task.source.decode(pair.source)) for pair in pairs]
    for string, pair in zip(strings, pairs, strict=True):
        assert 1 <= len(string) <= 12
        assert pair.target.tolist() == [in_language(string)]
        assert (pair.kind == "member") == in_language(string)
        assert task.answer([*string]) == [str(int(in_language(string)))]
    counts = {
        kind: sum(pair.kind == kind for pair in pairs) for kind in ("member", "edited", "random")
    }
    assert 170 <= counts["member"] <= 230
    assert 70 <= counts["edited"] <= 130
    edited = [each for each, pair in zip(strings, pairs, strict=True) if pair.kind == "edited"]
    assert any(abs(each.count("a") - each.count("b")) == 1 for each in edited)


def test_a_language_of_all_strings_has_none_outside() -> None:
    everything = {
        "S": [{"probability": "1/2", "source": "a S:1"}, {"probability": "1/2", "source": "a"}]
    }
    task = make_task("mine", "membership", {"root": "S", "rules": everything})
    with pytest.raises(NoSuchLength, match="string outside the language has a length of 1:3"):
        task.sample(np.random.default_rng(1), Lengths(1, 3), 20, "uniform")


@pytest.mark.parametrize("labels", [["1"], ["1", "1"], ["a b", "c"], "01", [0, 1]])
def test_labels_are_two_words(labels: Any) -> None:
    with pytest.raises(TaskError, match=r"labels is .*two words"):
        make_task("mine", "membership", {**RULES, "labels": labels})


def label_scores(
    right: Floats, positive: Floats, probability: Floats
) -> dict[str, float | None] | None:
    """The scores of labels, of which some are right, with the probability of each answer."""
    ones, log_probs = np.ones(len(right), np.int64), np.log(probability)
    return Scores(
        ones, right, ones, ones, ones, positive=positive, log_probs=log_probs
    ).label_scores


def test_label_scores_are_those_of_their_definitions() -> None:
    rng = np.random.default_rng(1)
    positive, probability = rng.random(60) < 0.4, rng.integers(5, size=60) / 4
    answered = probability > 0.5
    of_answers = np.where(answered, probability, 1 - probability).astype(np.float64)
    right, of_strings = (each.astype(np.float64) for each in (answered == positive, positive))
    scores = label_scores(right, of_strings, of_answers)
    assert scores
    inside, outside = probability[positive], probability[~positive]
    wins = [(1.0 if a > b else 0.5 if a == b else 0.0) for a in inside for b in outside]
    assert scores["auc"] == pytest.approx(sum(wins) / len(wins))
    assert scores["precision"] == pytest.approx(positive[probability > 0.5].mean())
    assert scores["recall"] == pytest.approx((probability > 0.5)[positive].mean())
    undefined = {"precision": None, "recall": None, "auc": None}
    assert label_scores(np.ones(0), np.ones(0), np.ones(0)) == undefined
    assert csv_of([undefined, {"auc": 1.0}]) == "precision,recall,auc\n,,\n,,1.0\n"


def test_strings_with_other_labels_have_no_share_in_label_scores() -> None:
    known = np.array([(1, 1, 0.9), (1, 0, 0.8), (0, 1, 0.3)])
    assert label_scores(*known.T) == {"precision": 1.0, "recall": 0.5, "auc": 1.0}
    assert label_scores(*np.array([*known, (0, np.nan, 0.6)]).T) == label_scores(*known.T)


def test_a_recognizer_is_measured_by_length_and_kind(tmp_path: Path) -> None:
    (tmp_path / "task.yaml").write_text(TASK)
    command = ("train", "--recipe", "joint", "--max-steps", "2", *OPTIONS)
    trained = run(*command, "--task", tmp_path / "task.yaml", "--out", tmp_path / "run")
    assert trained.returncode == 0, trained.stderr
    ended = run("eval", tmp_path / "run", "--lengths", "1:6", "--count", "60", "--json")
    (result,) = json.loads(ended.stdout)["results"]
    assert result["count"] == 60
    assert {"coarse", "auc", "recall"} <= result.keys()
    assert "auc" in result["by_length"][1]
    assert sum(each["count"] for each in result["by_kind"]) == 60
    assert {each["kind"] for each in result["by_kind"]} == {"member", "edited", "random"}
    table = run("eval", tmp_path / "run", "--lengths", "1:6", "--count", "60").stdout
    assert b"AUC" in table
    assert b"edited" in table
    answers = run("transduce", tmp_path / "run", "--probability", stdin=b"ab\nba\n").stdout
    for line in answers.decode().splitlines():
        label, probability = line.split("\t")
        assert label in {"no", "yes"}
        assert 0.5 <= float(probability) <= 1
