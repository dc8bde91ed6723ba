"""Edits that turn targets into wrong answers: by symbols, position and feature, and in groups."""

import json
from pathlib import Path

import numpy as np
import pytest
from command_line import run

from stacktrans.decoding.decoder import Answer
from stacktrans.inference.edits import Edit, edits_of
from stacktrans.inference.predictions import compared
from stacktrans.inference.scores import Scores
from stacktrans.showing.wrong_answers import confusions_json
from stacktrans.tasks.alphabets import Alphabet
from stacktrans.tasks.lengths import Lengths
from stacktrans.tasks.pairs import Pairs
from stacktrans.tasks.written_pairs import pairs_of_strings

# The model reverses. All targets except the first are wrong, the second and the fourth in the
# same way. The last source has a space, which the model does not know, so it gives no answer.
PAIRS = "abc\tcba\nabd\tdbx\nabcdef\tfedcb\nacb\tbcx\nabe\txeba\na b\tb-a\n"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.tsv"
    path.write_text(PAIRS, encoding="utf-8")
    return path


def test_edits_turn_a_target_into_an_answer_and_know_their_third() -> None:
    found = edits_of(Alphabet("kitensg", words=False), [0, 1, 2, 2, 3, 4], [5, 1, 2, 2, 1, 4, 6])
    assert [*found] == [
        Edit("k", "s", "substitutions", "start"),
        Edit("e", "i", "substitutions", "end"),
        Edit("", "g", "insertions", "end"),
    ]


def test_edits_of_wrong_answers_are_counted(data: Path) -> None:
    done = run("eval", "reverse-stack", "--data", data, "--confusions", "--json").stdout
    found = json.loads(done)["confusions"]
    nowhere = {"start": 0, "middle": 0, "end": 0}
    assert found == {
        "substitutions": {**nowhere, "count": 2, "end": 2}
        | {"symbols": [{"target": "x", "answer": "a", **nowhere, "count": 2, "end": 2}]},
        "insertions": {**nowhere, "count": 1, "end": 1}
        | {"symbols": [{"answer": "a", **nowhere, "count": 1, "end": 1}]},
        "deletions": {**nowhere, "count": 1, "start": 1}
        | {"symbols": [{"target": "x", **nowhere, "count": 1, "start": 1}]},
    }
    shown = run("eval", "reverse-stack", "--data", data, "--confusions").stdout.decode()
    rows = [line.split() for line in shown.splitlines()]
    assert ["substitutions", "2", "0", "0", "2"] in rows
    assert ["x", "a", "2", "0", "0", "2"] in rows


def test_the_most_frequent_errors_come_first_and_each_group_has_an_example(data: Path) -> None:
    found = json.loads(
        run("eval", "reverse-stack", "--data", data, "--errors", "3", "--json").stdout
    )
    assert [(each["target"], each["count"]) for each in found["errors"]] == [
        ("dbx", 2), ("fedcb", 1), ("xeba", 1),
    ]  # fmt: skip
    assert found["errors"][0]["edits"] == [{"target": "x", "answer": "a"}]
    shown = run("eval", "reverse-stack", "--data", data, "--errors", "9").stdout.decode()
    first, second = (shown.index(target) for target in ("bcx", "fedcb"))
    assert first < second
    assert all(edit in shown for edit in ("∅→a", "x→∅"))
    data.write_text("ab\tab\n")
    one = run("eval", "reverse-stack", "--data", data, "--errors", "9").stdout.decode()
    assert "\nwrong answers: 1 of 1\n" in one


def test_errors_are_counted_by_feature() -> None:
    symbols = {"source": "ab", "target": "ab", "features": "N;V"}
    known = {**symbols, "steps": [2, 20], "fixed_length": False, "digests": {}}
    task = Pairs(train="x.tsv", columns="source,target,features", known=known)
    pairs = pairs_of_strings([("a", "aa", "N"), ("b", "bb", "N;V"), ("b", "ba", "V")], task)
    answers = [[0, 0], [0], [1]]
    predictions = np.empty(3, np.object_)
    predictions[:] = [
        compared(task, task.layout, pair, [Answer(answer, 0.0, True)])
        for pair, answer in zip(pairs, answers, strict=True)
    ]
    zeros = np.zeros(3, np.int64)
    scores = Scores(zeros, np.zeros(3), zeros, zeros, zeros, predictions)
    assert confusions_json([(Lengths(1, 1), scores)], task)["features"] == [
        {"feature": "V", "count": 2, "coarse": 0, "edits": 3, "symbol_error_rate": 3 / 4},
        {"feature": "N", "count": 2, "coarse": 1 / 2, "edits": 2, "symbol_error_rate": 2 / 4},
    ]
