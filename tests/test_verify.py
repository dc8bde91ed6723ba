"""Models beside the exact answers of their tasks."""

import itertools
import json
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from command_line import run
from shipped_tasks import task_of

from stacktrans.inference.transduction import transduce_strings
from stacktrans.inference.verification import (
    ALL,
    LONG,
    RANDOM,
    VerifyRequest,
    _all_pairs,
    verify,
    with_task,
)
from stacktrans.model.checkpoint import Checkpoint, load
from stacktrans.model.checkpoint_files import save
from stacktrans.settings.task_files import load_task
from stacktrans.tasks.lengths import Lengths

QUICK = VerifyRequest(exhaustive=200, count=300, longest=300, seed=1)
ONE_BATCH = ("--recipe", "feedforward", "--max-steps", "1", "--set", "memory.size=4")
"""Options of a run on pairs in files that learns nothing."""


def damaged(name: str, weight: str, row: int, amount: float) -> Checkpoint:
    """A shipped model with one of its numbers changed."""
    model = load(name)
    weights = {key: each.copy() for key, each in model.weights.items()}
    weights[weight][row] += amount
    return replace(model, weights=weights)


def answers(model: Checkpoint, *sources: str) -> list[str | None]:
    return [line.output for line in transduce_strings(model, sources)]


def test_a_right_model_is_tried_in_three_ways() -> None:
    found = verify(load("reverse-stack"), QUICK)
    assert found.counterexample is None
    assert [(stage.strings, stage.wrong) for stage in found.stages] == [
        (ALL, 0),
        (RANDOM, 0),
        (LONG, 0),
    ]
    every, drawn, long = found.stages
    assert (every.lengths, every.count) == (Lengths(1, 1), 128)
    assert drawn.count == 300
    assert drawn.lengths is not None
    assert 8 <= drawn.lengths.shortest < 20 < 100 < drawn.lengths.longest <= 128
    assert long.lengths is not None
    assert 128 < long.lengths.shortest < 250 < long.lengths.longest <= 300
    assert found.count == every.count + drawn.count + long.count


def test_all_sources_of_a_synchronous_task_are_tried() -> None:
    every, *_ = verify(load("reversal-stack"), QUICK).stages
    # Of all strings of up to 4 symbols out of 3: 0#, 1#, and four of 4.
    assert (every.lengths, every.count, every.wrong) == (Lengths(1, 2), 6, 0)


@pytest.mark.parametrize(
    ("name", "task", "lengths", "shortest"),
    [
        ("copy-queue", "copy", "[8, 64]", 1),
        ("parenthesis-stack", "parenthesis", "[1, 20]", 2),
        ("anbncn", "anbncn", "[4, 20]", 2),
    ],
)
def test_no_string_is_longer_than_requested(
    name: str, task: str, lengths: str, shortest: int
) -> None:
    model = with_task(load(name), load_task(task, [f"lengths.train={lengths}"]))
    for longest in (shortest, 3):
        found = verify(model, replace(QUICK, longest=longest))
        tried = [stage.lengths for stage in found.stages if stage.lengths]
        assert found.right
        assert all(each.longest <= longest for each in tried)


@pytest.mark.parametrize("name", ["reversal", "reversal-deletion", "agreement"])
def test_unpredictable_symbols_do_not_count(name: str) -> None:
    task = task_of(name)
    for pair in itertools.islice(_all_pairs(task, QUICK, task.source.symbols), 100):
        source = task.source.decode(pair.source)
        drawn = task.pair(pair.source, pair.target).scored
        for place, symbol in enumerate(task.answer(source)):
            scored = pair.scored is None or pair.scored[place]
            assert scored == (symbol is not None and (drawn is None or drawn[place]))


def test_a_planted_defect_is_found_and_made_short() -> None:
    task = load("reverse-stack").task
    symbol = "k"
    # Among many alternatives: what stands for k is written a little too rarely.
    (index,) = task.target.encode([symbol])
    model = damaged("reverse-stack", "classifier.bias", int(index), -9.0)
    found = verify(model, QUICK).counterexample
    assert found is not None
    assert symbol in found.source
    assert answers(model, found.source) != [found.target]
    rests = [found.source[:at] + found.source[at + 1 :] for at in range(len(found.source))]
    for rest in filter(None, rests):
        assert answers(model, rest) == [rest[::-1]]


@pytest.fixture
def soft(tmp_path: Path) -> str:
    """A model whose strengths are not quite 0 or 1, which adds up on long strings."""
    model = load("reversal-stack")
    model.model.sharpen(0.4 / model.sharpness)
    save(tmp_path / "soft", model.config, model.model.state_dict())
    return str(tmp_path / "soft")


def test_errors_on_long_strings_only_are_found(soft: str) -> None:
    found = verify(load(soft), replace(QUICK, longest=200))
    assert [stage.wrong > 0 for stage in found.stages] == [False, False, True]
    assert found.counterexample is not None
    shown = json.loads(run("inspect", soft, found.counterexample.source, "--json").stdout)
    assert shown["correct"] is False


def test_strengths_are_discrete_when_hard(soft: str) -> None:
    quick = ("--exhaustive", "200", "--count", "300", "--longest", "200")
    assert run("verify", soft, *quick, "--hard").returncode == 0
    for options in ([], ["--hard"]):
        steps = json.loads(run("inspect", soft, "0110####", *options, "--json").stdout)["steps"]
        strengths = {strength for step in steps for strength in step["signals"].values()}
        assert (strengths == {0, 1}) == bool(options)


@pytest.mark.parametrize("name", ["reverse-stack", "copy-deque", "parenthesis-stack"])
def test_a_random_model_is_wrong_on_very_short_strings(name: str) -> None:
    model = load(name)
    drawn = np.random.default_rng(1)
    weights = {key: drawn.normal(size=each.shape) for key, each in model.weights.items()}
    weights = {key: each.astype(np.float32) for key, each in weights.items()}
    found = verify(replace(model, weights=weights), QUICK)
    assert len(found.stages) == 1
    assert found.counterexample is not None
    assert len(found.counterexample.source) <= 2
    wrong = replace(model, weights=weights)
    assert answers(wrong, found.counterexample.source) == [found.counterexample.answer]
    assert found.counterexample.answer != found.counterexample.target


def test_the_same_seed_tries_the_same_strings() -> None:
    options = ("--exhaustive", "10", "--count", "50", "--longest", "150", "--json")
    one, same, other = (
        json.loads(run("verify", "reverse-stack", *options, "--seed", seed).stdout)
        for seed in ("5", "5", "6")
    )
    assert one == same
    assert one["right"] is True
    assert one["counterexample"] is None
    assert [each["lengths"] for each in one["stages"]] != [
        each["lengths"] for each in other["stages"]
    ]


def test_the_command_shows_what_is_wrong_and_how_to_look_at_it(soft: str) -> None:
    quick = ("--exhaustive", "200", "--count", "300", "--longest", "200")
    done = run("verify", soft, *quick)
    assert done.returncode == 1
    lines = done.stdout.decode().splitlines()
    (look,) = [
        line.removeprefix("to see its steps: ")
        for line in lines
        if line.startswith("to see its steps: ")
    ]
    (source,) = [line.split()[1] for line in lines if line.startswith("source")]
    assert shlex.split(look) == ["stacktrans", "inspect", soft, "--", source]
    answer = run(*shlex.split(look)[1:]).stdout.decode().splitlines()[-1]
    assert "(wrong; the target is " in answer
    few = ("--exhaustive", "200", "--count", "50", "--longest", "150")
    right = run("verify", "parenthesis-stack", *few)
    assert right.returncode == 0
    assert right.stdout.decode().splitlines()[-1].startswith("right on all ")


def test_errors_on_another_task_are_shown_without_an_inspect_command() -> None:
    done = run("verify", "copy-queue", "reverse", "--count", "10", "--longest", "100")
    assert done.returncode == 1
    assert done.out.splitlines()[1:] == [
        "on the task reverse",
        "strings                                 lengths  tried  wrong",
        "all strings, until an answer was wrong      1:2    250    121",
        "answered wrongly, at symbol 1: a string of 2 symbols",
        'source  !"',
        'target  "!',
        'answer  !"',
    ]


def test_a_model_of_pairs_in_files_is_tested_on_the_held_out_pairs(tmp_path: Path) -> None:
    data = tmp_path / "pairs.tsv"
    pairs = [f"{number:b}" for number in range(1, 40)]
    data.write_text("".join(f"{each}\t{each[::-1]}\n" for each in pairs), encoding="utf-8")
    out = tmp_path / "run"
    assert run("train", "--data", data, *ONE_BATCH, "--out", out).returncode == 0
    done = run("verify", out, "--json")
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert found["stages"][0]["strings"] == "development set"
    assert found["counterexample"]["source"] in pairs
    assert found["counterexample"]["target"] == found["counterexample"]["source"][::-1]


def test_training_pairs_are_tested_after_the_held_out_ones(tmp_path: Path) -> None:
    data, out = tmp_path / "pairs.tsv", tmp_path / "run"
    data.write_text("".join(f"{number:b}\tb\n" for number in range(1, 40)), encoding="utf-8")
    assert run("train", "--data", data, *ONE_BATCH, "--out", out).returncode == 0
    found = verify(load(out), QUICK, load(out))
    assert [(stage.strings, stage.count, stage.wrong) for stage in found.stages] == [
        ("development set", 3, 0),
        ("test set", 3, 0),
        ("training set", 33, 0),
    ]


def test_a_source_with_several_targets_is_one_string_without_its_features(tmp_path: Path) -> None:
    header, files = "source\tfeatures\ttarget\n", []
    both = "ab\tN;PL\tyes\nab\tN;PL\tno\n"
    # Unknown symbols have the same answer, so that one of them is wrong.
    unknown = "x\tN;PL\tyes\ny\tN;PL\tno\n" + both.replace("ab", "z")
    contents = {"train": both + "bab\tN\tyes\n", "dev": both, "test": unknown}
    for name, content in contents.items():
        path = tmp_path / f"{name}.tsv"
        path.write_text(header + content, encoding="utf-8")
        files += ["--data" if name == "train" else f"--{name}", str(path)]
    out = tmp_path / "run"
    labels = ["--set", "task.parameters.labels=true"]  # any answer to ab is right
    assert run("train", *files, *ONE_BATCH, *labels, "--out", out).returncode == 0
    found = json.loads(run("verify", out, "--json").stdout)
    counts = [(stage["count"], stage["wrong"]) for stage in found["stages"]]
    assert counts == [(1, 0), (3, 1)]
    measured = json.loads(run("eval", out, "--json").stdout)["results"]
    assert counts == [(each["count"], each["count"] * (1 - each["coarse"])) for each in measured]
    assert ": a string of 1 symbol\n" in run("verify", out).out


def test_a_model_of_pairs_in_files_is_tried_on_a_task_with_their_symbols(tmp_path: Path) -> None:
    data, out = tmp_path / "pairs.tsv", tmp_path / "run"
    pairs = run("generate", "--task", "even-pairs", "--count", "60", "--lengths", "1:9").stdout
    data.write_bytes(pairs)
    assert run("train", "--data", data, *ONE_BATCH, "--out", out).returncode == 0
    found = json.loads(run("verify", out, "even-pairs", "--exhaustive", "10", "--json").stdout)
    assert (found["task"], found["stages"][0]["count"]) == ("even-pairs", 6)
    assert found["stages"][0]["finished"] is True
    refused = run("verify", out, "copy", "--exhaustive", "10")
    assert "task copy: the source symbols are" in refused.err
    assert "expected 0 1 <unk>" in refused.err


def test_a_model_is_not_right_because_nothing_was_tested() -> None:
    done = run("verify", "checkpoints/copy-queue", "--exhaustive", "100", "--longest", "5")
    assert (done.returncode, done.stdout) == (2, b"")
    assert "nothing to test: no string of at most 5 symbols" in done.err


def test_an_empty_name_of_a_second_model_is_refused() -> None:
    done = run("verify", "checkpoints/xor-buffered", "")
    assert (done.returncode, done.out) == (2, "")
    assert "the name of a checkpoint is empty" in done.err


@pytest.mark.parametrize("option", ["--exhaustive", "--count", "--longest"])
def test_numbers_of_strings_are_positive(option: str) -> None:
    done = run("verify", "reverse-stack", option, "0")
    assert (done.returncode, done.stdout) == (2, b"")
    assert option in done.stderr.decode()
