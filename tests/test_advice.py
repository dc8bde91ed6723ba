"""Advice after a race that solved nothing: it agrees with the accuracies in the summary."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import run
from pair_files import OPTIONS, lines_of, write
from races import STRATEGIES
from test_narrow import ACCURACY, CONFIG, SUMMARY
from test_race import candidates

from stacktrans.settings.config import RunConfig, TaskLengths
from stacktrans.showing.race import advice
from stacktrans.tasks.lengths import Lengths
from stacktrans.training.race_state import RaceState

SHORTER, LARGER = "shorter strings", "a larger --hidden"
LONGER_STRINGS, MORE = "a wider range of training lengths", "more strings to train on"
EVERY = {SHORTER, LARGER, LONGER_STRINGS, MORE, "other strategies:", "other memories:"}
OTHERS = {"other strategies:", "other memories:"}


def of_lengths(train: tuple[int, int], test: tuple[int, int]) -> RunConfig:
    lengths = TaskLengths(train=Lengths(*train), test=Lengths(*test))
    return CONFIG.model_copy(update={"task": CONFIG.task.model_copy(update={"lengths": lengths})})


def advice_on(config: RunConfig, shares: dict[str, float], can_continue: bool = True) -> list[str]:
    state = RaceState(command=["train"], budget=60, candidates=candidates(joint=0.5))
    if not can_continue:
        ended = state.candidates["joint"].model_copy(update={"ended": "max_steps"})
        state.candidates["joint"] = ended
    measured: dict[str, Any] = {"train": None, "development": None, "test": None}
    measured |= {part: replace(ACCURACY, coarse=each, count=200) for part, each in shares.items()}
    summary = replace(SUMMARY, outcome="budget" if can_continue else "max_steps", **measured)
    return advice(state, summary, config, ["wide"], Path("x"))


@pytest.mark.parametrize(
    ("shares", "lengths", "expected"),
    [
        ({"train": 0.0, "test": 0.0}, ((2, 9), (10, 20)), {SHORTER, LARGER}),
        ({"train": 0.0, "test": 0.0}, ((1, 9), (10, 20)), {LARGER}),
        ({"train": 0.1, "test": 0.1}, ((9, 9), (9, 9)), {LARGER}),
        ({"train": 0.95, "test": 0.2}, ((1, 9), (10, 20)), {LONGER_STRINGS}),
        ({"train": 1.0, "development": 0.3, "test": 0.1}, ((1, 9), (9, 20)), {MORE}),
        ({"train": 1.0, "development": 1.0, "test": 0.8}, ((1, 9), (9, 20)), {LONGER_STRINGS}),
        ({"train": 1.0, "development": 1.0, "test": 0.8}, ((1, 9), (9, 9)), {LONGER_STRINGS}),
        ({"train": 1.0, "development": 1.0, "test": 0.8}, ((9, 9), (9, 9)), {MORE}),
        ({"train": 1.0, "development": 1.0, "test": 0.8}, ((1, 20), (3, 9)), {MORE}),
        ({"train": 0.99, "development": 0.98, "test": 0.95}, ((1, 9), (9, 20)), set()),
        ({}, ((1, 9), (9, 20)), set()),
    ],
)
def test_advice_follows_from_what_is_right_and_what_is_not(
    shares: dict[str, float], lengths: tuple[tuple[int, int], ...], expected: set[str]
) -> None:
    text = "\n".join(advice_on(of_lengths(*lengths), shares))
    assert {each for each in EVERY if each in text} == expected | OTHERS
    counts = [f"{round(200 * share)} of 200 strings ({part})" for part, share in shares.items()]
    assert all(each in text for each in counts)
    assert "%" not in text
    assert "longer: stacktrans train --resume x --budget 4m" in text


@pytest.mark.parametrize("shares", [{"train": 1.0, "test": 1.0},
                                    {"train": 1.0, "development": 1.0, "test": 1.0}])  # fmt: skip
def test_a_model_that_is_right_is_advised_only_more_time(shares: dict[str, float]) -> None:
    _, right, but, *others = advice_on(of_lengths((1, 9), (10, 20)), shares)
    assert right.endswith("200 of 200 strings (test)")
    assert but == "  but the race had no time to make sure of it"
    assert others == ["worth a try:", "  longer: stacktrans train --resume x --budget 4m"]
    _, _, but, *_, last = advice_on(of_lengths((1, 9), (10, 20)), shares, can_continue=False)
    assert but == "  but not yet in 2 measurements in a row"
    assert last == "  a larger --max-steps"


def test_a_model_that_is_right_when_hard_is_advised_first() -> None:
    shares = {"train": 1.0, "test": 0.9, "hard": 1.0}
    _, right, _, tip, *_ = advice_on(of_lengths((1, 9), (10, 20)), shares)
    assert "180 of 200 strings (test)" in right
    command = "stacktrans eval x --hard"
    assert tip == f"  the discrete model, which solves the task on test strings: {command}"
    soft = {"train": 0.9, "test": 1.0, "hard": 1.0}
    assert "discrete" not in "".join(advice_on(of_lengths((1, 9), (10, 20)), soft))


def test_texts_have_no_accuracy() -> None:
    text = CONFIG.model_copy(update={"task": CONFIG.task.model_copy(update={"lengths": None})})
    first, second, *others = advice_on(text, {})
    assert (first, second) == ("not solved; joint has come furthest", "worth a try:")
    assert [line.split(":")[0].strip() for line in others] == [
        "longer", "other strategies", "--strategies wide", "other memories",
    ]  # fmt: skip


def test_pairs_of_equal_length_are_not_called_longest(tmp_path: Path) -> None:
    rows = [(f"{one}{two}{three}", "x") for one in "abcd" for two in "abcd" for three in "abcd"]
    data = write(tmp_path / "pairs.tsv", lines_of(rows))
    options = (*STRATEGIES, *OPTIONS, "--max-steps", "2")
    done = run("train", "--data", data, *options, "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr.decode()
    both = done.stdout.decode() + done.stderr.decode()
    assert "not solved" in both
    assert "development set" in both
    assert "development, longest" not in both
    assert "longer strings" not in both
