"""Labels of strings: files that have them, and recognizers that learn them."""

import json
import random
from pathlib import Path

import numpy as np
import pytest
from command_line import run
from pair_files import OPTIONS, as_written, learned, lines_of, write

from stacktrans.common.errors import StacktransError, UsageError
from stacktrans.inference.baselines import baseline_scores
from stacktrans.tasks.encoding import encode
from stacktrans.tasks.layout import Layout, Pair
from stacktrans.tasks.pair_files import DEV, TEST, TRAIN
from stacktrans.tasks.written_pairs import read_pairs

JOINT = ("train", "--recipe", "joint")
STRINGS = [format(number, "b") for number in range(1, 30)]


def labeled(labels: tuple[str, str], strings: list[str] = STRINGS) -> str:
    return "".join(f"{each}\t{labels[each.count('1') % 2]}\n" for each in strings)


@pytest.mark.parametrize(
    ("labels", "positive"),
    [(("0", "1"), "1"), (("yes", "no"), "yes"), (("bad", "good"), "good"), (("+", "-"), "+")],
)
def test_two_labels_are_detected_and_reported(
    tmp_path: Path, labels: tuple[str, str], positive: str
) -> None:
    task = learned(write(tmp_path / "a.tsv", labeled(labels)))
    assert sorted(task.target.symbols) == sorted(labels)
    assert task.positive is not None
    assert task.target.symbols[task.positive] == positive
    first = sorted(labels)[0]
    assert any(f"two labels: '{first}' (" in note for note in task.data.notes)


@pytest.mark.parametrize(
    "content",
    [
        labeled(("0", "1")).replace("1\t0", "1\t2", 1),  # three labels
        labeled(("a b", "c")),  # not a word
        labeled(("0", "1"), STRINGS[:7]),  # too few strings to say
    ],
)
def test_other_targets_are_not_taken_for_labels(tmp_path: Path, content: str) -> None:
    path = write(tmp_path / "a.tsv", content)
    assert learned(path, dev=path, test=path).positive is None


def test_a_label_ends_an_answer_and_is_not_read() -> None:
    layout = Layout.joint(2, 2, labels=True)
    pair = Pair(np.array([1, 0]), np.array([1]))
    inputs, targets, scored = (rows[0] for rows in encode(layout, [[pair]]))
    assert inputs.tolist() == [0, 3, 2, 1]
    assert targets[scored].tolist() == [1]
    assert scored.tolist() == [False, False, False, True]
    assert layout.outputs == 2  # and no end


def test_an_empty_string_can_have_a_label(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", labeled(("no", "yes")) + "\tno\n")
    task = learned(path, dev=path, test=path)
    assert task.data.sets[TRAIN].lengths.shortest == 0
    ended = run(*JOINT, "--data", path, *OPTIONS, "--max-steps", "2", "--out", tmp_path / "run")
    assert ended.returncode == 0, ended.stderr
    answers = run("transduce", tmp_path / "run", stdin=b"\n11\n").stdout.split(b"\n")[:-1]
    assert len(answers) == 2
    assert set(answers) <= {b"no", b"yes"}
    for result in json.loads(run("eval", tmp_path / "run", "--json").stdout)["results"]:
        for measures in result["baselines"].values():
            assert measures.keys() <= result.keys(), "none of single symbols"


@pytest.mark.parametrize(("target", "size"), [("", "0 symbols"), ("yes no", "2 symbols")])
def test_a_label_is_one_symbol_in_every_set(tmp_path: Path, target: str, size: str) -> None:
    path = write(tmp_path / "a.tsv", labeled(("no", "yes")))
    other = write(tmp_path / "b.tsv", f"11\tno\n11\t{target}\n")
    with pytest.raises(StacktransError, match=rf"b\.tsv:2: a target of {size}; expected a label"):
        learned(path, dev=other)
    task = learned(path)
    with pytest.raises(StacktransError, match=rf"b\.tsv:2: a target of {size}; expected a label"):
        read_pairs(other, task)


def test_two_targets_are_no_labels_of_a_model_with_others(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", labeled(("no", "yes")))
    options = ("--data", path, "--dry-run", "--json")
    done = run("train", "--from", "checkpoints/reverse-stack", *options)
    assert done.returncode == 0, done.stderr
    config = json.loads(done.stdout)
    assert not config["task"]["parameters"]["labels"]


def test_a_model_that_answers_with_labels_has_no_others(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", labeled(("no", "yes")))
    assert run(*JOINT, "--data", path, *OPTIONS, "--max-steps", "2", "--out", tmp_path / "run")
    other = write(tmp_path / "b.tsv", labeled(("0", "1")))
    options = ("train", "--from", tmp_path / "run", "--dry-run", "--data")
    assert run(*options, path).returncode == 0
    done = run(*options, other)
    assert done.returncode == 2
    assert "labels: ['0', '1', 'no', 'yes']; expected two" in done.err


def test_no_baseline_for_labels_copies_the_source(tmp_path: Path) -> None:
    task = learned(write(tmp_path / "a.tsv", labeled(("0", "1"))))
    train, development, _ = task.data.sets
    found = baseline_scores(task, train, [*development])
    assert [*found] == ["nearest source", "most frequent target"]


@pytest.mark.parametrize("split", range(5))
def test_a_share_of_each_label_is_held_out(tmp_path: Path, split: int) -> None:
    strings = [(f"{n:b}", "no" if n % 25 else "yes") for n in range(1, 101)]
    path = write(tmp_path / "a.tsv", lines_of(strings))
    task = learned(path, test=path, split=split)
    assert [label for _, label in as_written(task, DEV)].count("yes") == 1
    assert not [note for note in task.data.notes if "labeled" in note]


def test_a_label_of_long_strings_alone_is_not_held_out_entirely(tmp_path: Path) -> None:
    strings = [("a" * size, "yes" if size > 18 else "no") for size in range(1, 21)]
    task = learned(write(tmp_path / "a.tsv", lines_of(strings)))
    assert task.target.symbols == ("no", "yes")
    assert as_written(task, TEST) == [("a" * 18, "no"), ("a" * 20, "yes")]
    assert any("the longest, but for one with each label, are" in note for note in task.data.notes)


def test_the_only_string_with_a_label_is_not_held_out_if_it_has_another(tmp_path: Path) -> None:
    strings = [*(("a" * size, "no") for size in range(1, 21)), ("a" * 20, "yes")]
    task = learned(write(tmp_path / "a.tsv", lines_of(strings)), labels=True)
    assert [string for string, label in as_written(task, TRAIN) if label == "yes"] == ["a" * 20]


@pytest.mark.parametrize("count", [3, 4])
def test_each_label_needs_a_string_to_train_on(tmp_path: Path, count: int) -> None:
    strings = [("a" * size, "yes" if size == 1 else "no") for size in range(1, 1 + count)]
    path = write(tmp_path / "a.tsv", lines_of(strings))
    if count == 3:
        with pytest.raises(UsageError, match=r"too few distinct sources .* expected at least 4"):
            learned(path, labels=True)
    else:
        assert {label for _, label in as_written(learned(path, labels=True), TRAIN)} == {
            "no",
            "yes",
        }


def test_a_set_that_lacks_a_label_is_reported(tmp_path: Path) -> None:
    # The only string with a label is one to train on.
    content = lines_of([("a" * size, "yes" if size == 3 else "no") for size in range(1, 21)])
    notes = learned(write(tmp_path / "a.tsv", content)).data.notes
    about = "has no string labeled 'yes': accuracy on it says nothing about such strings"
    assert [note for note in notes if "labeled" in note] == [
        f"the development set {about}",
        f"the test set {about}",
    ]


def test_labels_are_read_from_a_file_beside_the_strings(tmp_path: Path) -> None:
    strings, labels = (tmp_path / name for name in ("main.tok", "labels.txt"))
    strings.write_text("".join(f"{' '.join(each)}\n" for each in ["", *STRINGS]))
    labels.write_text("".join(f"{each.count('1') % 2}\n" for each in ["", *STRINGS]))
    task = learned(strings, dev=strings, test=strings)
    assert len(task.data.sets[TRAIN]) == 1 + len(STRINGS)
    assert task.positive == 1
    shown = run(*JOINT, "--data", tmp_path, "--dry-run")
    assert f"name: {tmp_path.name}".encode() in shown.stdout
    labels.write_text("1\n")
    with pytest.raises(UsageError, match=f"labels.txt: 1 label for {1 + len(STRINGS)} strings"):
        learned(strings)
    strings.write_text("0\t1\n")
    with pytest.raises(StacktransError, match=r"main\.tok:1: "):
        read_pairs(tmp_path, task)


def test_a_race_for_labels_begins_with_a_strategy_of_its_own(tmp_path: Path) -> None:
    def raced(content: str) -> list[str]:
        path = write(tmp_path / "a.tsv", content)
        ended = run("train", "--data", path, "--dev", path, "--test", path, "--dry-run", "--json")
        return [*json.loads(ended.stdout)]

    automaton, own, *others = raced(labeled(("0", "1")))
    assert (automaton, own) == ("finite-state", "predicting-feedforward")
    assert raced(labeled(("a b", "c d"))) == [automaton, *others]


def test_the_empty_string_may_be_the_only_one_to_begin_with(tmp_path: Path) -> None:
    drawn = random.Random(1)
    halves = ["".join(drawn.choices("abcdefgh", k=drawn.randint(1, 5))) for _ in range(250)]
    others = ["".join(drawn.choices("abcdefgh", k=len(half))) for half in halves]
    lines = [("", "yes"), *((half + half[::-1], "yes") for half in halves)]
    pairs = zip(halves, others, strict=True)
    lines += [(half + other, "no") for half, other in pairs if other != half[::-1]]
    path = write(tmp_path / "a.tsv", lines_of(lines))
    # Its letters are permuted, so that a single string is enough to begin with.
    words = ("train", "--recipe", "predicting-feedforward", "--max-steps", "2", *OPTIONS)
    more = ("--set", "curriculum.share=0.1", "--out", tmp_path / "run")
    done = run(*words, "--data", path, *more)
    assert done.returncode == 0, done.err
