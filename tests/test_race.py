"""Races of strategies: the order of time slices, the winner, and reproducibility."""

import json
import re
import shlex
import signal
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from command_line import run
from races import (
    CHANGES,
    EASY,
    NAMES,
    Progress,
    begun,
    candidates_of,
    carried_on,
    configs,
    progress_after,
    progress_of,
    request_of,
    train,
    weights,
)

import stacktrans
from stacktrans.common.errors import UsageError
from stacktrans.common.files import CANDIDATES
from stacktrans.model.transducer import Transducer
from stacktrans.training.attempt import Attempt
from stacktrans.training.race import Race
from stacktrans.training.race_state import Candidate, RaceState, read_race
from stacktrans.training.records import Accuracy
from stacktrans.training.requests import begin_race
from stacktrans.training.requests import resume as resumed_run
from stacktrans.training.rounding import Rounding
from stacktrans.training.scheduling import PROVISIONAL_COST, next_round
from stacktrans.training.sources import DataSource


def candidates(**accuracies: float) -> dict[str, Candidate]:
    return {name: Candidate(step=200, test=test, loss=1.0) for name, test in accuracies.items()}


def chosen(found: dict[str, Candidate], width: int, batch_symbols: int = 500) -> list[str]:
    return next_round(found, width, dict.fromkeys(found, batch_symbols))


def test_better_runs_get_more_time_slices() -> None:
    found = candidates(a=0.1, b=0.3, c=0.2, d=0.04, e=0.4)
    had = dict.fromkeys(found, 0)
    for _ in range(100):
        names = chosen(found, width=2)
        assert names[0] == "e"
        assert len(names) == 2
        for name in names:
            had[name] += 1
            found[name] = found[name].model_copy(update={"step": found[name].step + 200})
    assert had["e"] == 100
    # A half, a third, a quarter and a fifth, over their sum.
    assert [had[name] for name in "bcad"] == pytest.approx([39, 26, 19, 16], abs=1)


def test_provisional_runs_get_fewer_time_slices_than_others_as_good() -> None:
    found, had = candidates(a=0.4, b=0.3, c=0.3), Counter[str]()
    found["b"] = found["b"].model_copy(update={"provisional": True})
    for _ in range(100):
        name = chosen(found, width=2)[1]
        had[name] += 1
        found[name] = found[name].model_copy(update={"step": found[name].step + 200})
    # The ratio of their costs, with the ranks 2 and 3.
    assert had["b"] / had["c"] == pytest.approx(1 / PROVISIONAL_COST * 3 / 2, rel=0.1)


def test_candidates_get_their_first_time_slices_one_after_another() -> None:
    found = dict.fromkeys("abcd", Candidate())
    taken: list[list[str]] = []
    for _ in range(7):
        taken.append(chosen(found, width=2))
        for name in taken[-1]:
            test = 0.5 * (name == "b")
            found[name] = Candidate(step=found[name].step + 200, loss=1.0, test=test)
    assert taken == [[*"ab"], [*"ba"], [*"bc"], [*"bc"], [*"bd"], [*"bd"], [*"ba"]]


def test_one_time_slice_with_large_batches_is_enough_to_begin() -> None:
    found = {"a": Candidate(step=200, loss=1.0), "b": Candidate()}
    found["a"] = found["a"].model_copy(update={"stalled": 3})
    assert chosen(found, width=1, batch_symbols=900) == ["a"]
    assert chosen(found, width=1, batch_symbols=1000) == ["b"]


def test_a_model_that_failed_later_is_better_than_none() -> None:
    failed = Candidate(step=400, failed="not enough memory", best={"development": 0.9})
    state = RaceState(command=[], budget=1.0, candidates={"new": Candidate(), "old": failed})
    assert state.best == "old"


@pytest.mark.parametrize(
    ("first", "second", "best"),
    [(0.996, 0.997, "first"), (0.98, 0.997, "second"), (0.996, 1.0, "second")],
)
def test_of_candidates_that_are_about_as_good_the_first_is_the_best(
    first: float, second: float, best: str
) -> None:
    def candidate(share: float, loss: float) -> Candidate:
        return Candidate(step=200, best={"development": share, "log_likelihood": -loss})

    candidates = {"first": candidate(first, 0.2), "second": candidate(second, 0.1)}
    assert RaceState(command=[], budget=1.0, candidates=candidates).best == best


def test_a_run_gets_fewer_time_slices_the_longer_it_stalls() -> None:
    found = {name: Candidate(step=400, loss=1.0, test=0.2, stalled=3) for name in "ab"}
    assert chosen(found, width=1) == ["a"]
    found["a"] = found["a"].model_copy(update={"stalled": 7})
    assert chosen(found, width=1) == ["b"]
    found["b"] = found["b"].model_copy(update={"stalled": 4})
    assert chosen(found, width=1) == ["a"]


def test_a_stalled_leader_gets_no_more_time_slices_than_others() -> None:
    found = candidates(a=0.1, b=0.3, c=0.2)
    assert chosen(found, width=2)[0] == "b"
    for number in range(3):
        assert chosen(found, width=1) == ["b"], number
        had = Candidate(step=found["b"].step + 200, test=0.3, loss=1.0)
        found["b"] = had.after(found["b"])
    # In the first it has reached 0.3, and no more since.
    assert found["b"].stalled == 2
    found["b"] = Candidate(step=1000, test=0.28, train=0.4, loss=1.0).after(found["b"])
    assert found["b"].furthest == (0.3, 0.0)
    assert chosen(found, width=2) == ["c", "a"]
    found["b"] = Candidate(step=1200, test=0.3, train=0.1, loss=1.0).after(found["b"])
    assert chosen(found, width=2)[0] == "b"


def test_before_any_is_right_on_longer_strings_the_order_of_strategies_counts() -> None:
    found = {name: Candidate(step=400, loss=1.0) for name in "abc"}
    # It memorizes.
    found["c"] = Candidate(step=400, train=0.9, loss=0.1)
    found["d"] = Candidate()
    assert chosen(found, width=2) == ["a", "d"]
    # A few strings may be right by chance.
    found["c"] = Candidate(step=400, train=0.9, test=0.04, loss=0.1)
    assert chosen(found, width=2) == ["a", "d"]
    found["c"] = Candidate(step=400, train=0.9, test=0.06, loss=0.1)
    assert chosen(found, width=2) == ["c", "d"]


def test_once_all_have_begun_training_lengths_count_as_much() -> None:
    found = {name: Candidate(step=200, loss=1.0) for name in "abcd"}
    found["c"] = Candidate(step=200, train=0.2, loss=1.0)
    had = dict.fromkeys(found, 0)
    for _ in range(100):
        for name in chosen(found, width=2):
            had[name] += 1
            found[name] = found[name].model_copy(update={"step": found[name].step + 200})
    # The two candidates in first place get equally many time slices.
    assert had["a"] == pytest.approx(had["c"], abs=1)
    assert had["b"] + had["d"] < had["a"] < 100
    found["d"] = Candidate(step=2000, train=0.1, test=0.06, loss=1.0)
    assert chosen(found, width=2)[0] == "d"


def test_failed_and_finished_runs_get_no_time_slice() -> None:
    found = candidates(a=0.1, b=0.2, c=0.3)
    found["b"] = Candidate(step=200, failed="no room")
    found["c"] = Candidate(step=200, ended="max_steps")
    assert chosen(found, width=2) == ["a"]


@pytest.mark.parametrize("task", ["reverse", "xor", "anbn"])
def test_every_strategy_for_a_task_can_be_raced(tmp_path: Path, task: str) -> None:
    short = ["--max-steps", "2", "--set", "measure.strings=4", "--workers", "1"]
    if task != "anbn":
        short += ["--set", "lengths={train: [2, 6], test: [7, 9]}"]
    done = run("train", "--task", task, *short, "--out", tmp_path / "run", "--json")
    assert done.returncode == 0, done.stderr.decode()
    had = {
        name: (each["step"], each["failed"])
        for name, each in json.loads(done.stdout)["race"]["strategies"].items()
    }
    assert had == dict.fromkeys(candidates_of(task=task), (2, None))


@pytest.mark.usefixtures("short_time_slices")
def test_processes_leave_the_same_weights(tmp_path: Path) -> None:
    together, alone = (
        carried_on(begun(tmp_path / str(workers), workers, "training.max_steps=30"), 100)
        for workers in (2, 1)
    )
    assert progress_of(alone) == progress_of(together)
    for name in NAMES:
        assert weights(alone.directory_of(name)) == weights(together.directory_of(name))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Progress:
    """The progress of a race that was not stopped in four rounds of short time slices."""
    return progress_after(tmp_path_factory.mktemp("races") / "whole", 4)


@pytest.mark.usefixtures("short_time_slices")
@pytest.mark.parametrize("rounds", [0, 1])
def test_a_stopped_race_resumes_to_the_same_result(
    whole: Progress, tmp_path: Path, rounds: int
) -> None:
    stopped = carried_on(begun(tmp_path / "parts"), rounds)
    assert any(each.step for each in stopped.state.candidates.values()) is (rounds > 0)
    resumed = resumed_run(tmp_path / "parts", "cpu", workers=1)
    assert isinstance(resumed, Race)
    assert whole == progress_of(carried_on(resumed, 4))


@pytest.mark.usefixtures("short_time_slices")
@pytest.mark.parametrize("batches", [15, 34])
def test_a_race_stopped_within_a_time_slice_resumes_to_the_same_result(
    whole: Progress, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batches: int
) -> None:
    found, on_batch, left = begun(tmp_path / "parts"), Attempt.train_on_batch, batches

    def interrupted(attempt: Attempt) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            found.stop_requested = signal.SIGINT
        on_batch(attempt)

    monkeypatch.setattr(Attempt, "train_on_batch", interrupted)
    with found.opened():
        found.run(lambda: None)
    assert left == 0
    resumed = resumed_run(tmp_path / "parts", "cpu", workers=1)
    assert isinstance(resumed, Race)
    assert whole == progress_of(carried_on(resumed, 4))


@pytest.mark.usefixtures("short_time_slices")
def test_the_winner_alone_is_the_same_model(tmp_path: Path) -> None:
    directory = tmp_path / "race"
    request = replace(request_of(directory), candidate_command=["train", "--task", "copy"])
    found = begin_race(configs(*EASY), request)
    with found.opened():
        found.run(lambda: None)
        best = found.state.winner
        summary = found.best_run().run(lambda _: None)
        found.close()
    assert best
    assert summary.outcome == "solved"
    assert summary.command == f"train --task copy --recipe {best}"
    assert not (directory / CANDIDATES).exists()
    words = [word for each in (*CHANGES, *EASY) for word in ("--set", each)]
    done = run("train", "--task", "copy", "--recipe", best, *words, "--out", tmp_path / "alone")
    assert done.returncode == 0, done.stderr.decode()
    assert weights(directory) == weights(tmp_path / "alone")
    card = (directory / "best" / "README.md").read_text()
    assert f"Strategy: {best}" in card


@pytest.fixture
def soft_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """All strings are answered right, but with hard signals only by the second attempt of a run."""
    right = Accuracy(1.0, 1.0, 10, 1.0)
    monkeypatch.setattr(DataSource, "accuracies", lambda *_: (right, right))
    monkeypatch.setattr(DataSource, "generalization", lambda *_: 1.0)

    def measured(self: Rounding, _: Transducer) -> tuple[float, float]:
        return 1.0, float(self.attempt.moment.attempt == 2)

    monkeypatch.setattr(Rounding, "_measured", measured)


RESTARTING = ("restart={after: 1000}", "accuracy_loss=null", "training.settle=null")


@pytest.mark.usefixtures("short_time_slices", "brief_rounding", "soft_first")
@pytest.mark.parametrize("lacking", [[False], [True, False]])
def test_a_race_ends_with_a_discrete_solution_that_lacks_no_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lacking: list[bool]
) -> None:
    left = iter(lacking)
    monkeypatch.setattr("stacktrans.training.trainer.lacks_machine", lambda *_: next(left))
    race = carried_on(begun(tmp_path / "race", 1, *RESTARTING), 100)
    winner = race.state.winner
    assert winner
    assert not race.state.candidates[winner].has_fallback
    summary = race.best_run().run(lambda _: None)
    assert (summary.outcome, summary.attempts) == ("solved", 2)
    assert [*left] == []


@pytest.mark.usefixtures("short_time_slices", "brief_rounding", "soft_first")
def test_a_race_stopped_while_a_solution_is_tested_resumes_to_the_same_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Rounding, "_measured", lambda *_: (1.0, 1.0))
    monkeypatch.setattr("stacktrans.training.trainer.lacks_machine", lambda *_: False)
    # The solution is found in the last batch of a time slice.
    whole, found = (
        begun(tmp_path / name, 1, *RESTARTING, "accuracy_every=10") for name in ("whole", "parts")
    )
    carried_on(whole, 100)

    def stop(*_: object) -> bool:
        found.stop_requested = signal.SIGINT
        return False

    with monkeypatch.context() as stopping, found.opened():
        stopping.setattr("stacktrans.training.trainer.lacks_machine", stop)
        found.run(lambda: None)
    assert found.stop_requested
    assert not found.state.winner
    resumed = resumed_run(tmp_path / "parts", "cpu", workers=1)
    assert isinstance(resumed, Race)
    carried_on(resumed, 100)
    assert progress_of(resumed) == progress_of(whole)
    assert (resumed.state.rounds, resumed.state.winner) == (whole.state.rounds, whole.state.winner)


@pytest.mark.usefixtures("short_time_slices", "brief_rounding", "soft_first")
def test_a_race_without_a_machine_ends_with_a_solution_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stacktrans.training.trainer.lacks_machine", lambda *_: True)
    race = carried_on(begun(tmp_path / "race", 1, *RESTARTING), 100)
    winner = race.state.winner
    assert winner
    assert race.state.candidates[winner].has_fallback
    assert race.best_run().run(lambda _: None).outcome == "no_machine"


@pytest.mark.usefixtures("short_time_slices", "brief_rounding", "soft_first")
def test_a_race_may_accept_a_soft_solution(tmp_path: Path) -> None:
    race = begun(tmp_path / "race", 1, *RESTARTING, "training.rounding=lossless")
    found = carried_on(race, 100)
    assert found.state.winner
    summary = found.best_run().run(lambda _: None)
    assert (summary.outcome, summary.attempts) == ("solved", 1)


@pytest.mark.usefixtures("short_time_slices", "brief_rounding", "soft_first")
def test_a_race_without_a_discrete_solution_keeps_a_soft_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Rounding, "_measured", lambda *_: (1.0, 0.0))
    found = carried_on(begun(tmp_path / "race", 1, *RESTARTING), 3)
    assert not found.state.winner
    summary = found.best_run().run(lambda _: None)
    assert (summary.outcome, summary.attempts > 1) == ("budget", True)
    assert summary.test
    assert summary.test.coarse == 1


def test_no_strategy_is_suggested_that_does_not_fit_the_memory(tmp_path: Path) -> None:
    done = train("--max-steps", "1", "--set", "model.memory=queue", out=tmp_path / "run")
    (others,) = re.findall(r"other strategies:\n    --strategies (\S+)", done.stderr.decode())
    assert "joint" in others.split(",")
    assert "no-memory" not in others.split(",")


@pytest.mark.usefixtures("short_time_slices")
def test_a_race_without_a_winner_keeps_the_best_model_and_can_be_resumed(tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = train("--budget", "1s", out=out)
    assert done.returncode == 0, done.stderr.decode()
    summary = json.loads((out / "summary.json").read_text())
    assert summary["outcome"] == "budget"
    assert summary["race"]["winner"] is None
    assert summary["race"]["strategies"].keys() == set(NAMES)
    printed, advice = done.stdout.decode(), done.stderr.decode()
    begun = [name for name, each in summary["race"]["strategies"].items() if each["step"]]
    assert all(name in printed for name in begun)
    assert f"--max-steps {summary['steps']}" in summary["command"]
    assert f"longer: stacktrans train --resume {out} --budget 4s" in advice
    (others,) = re.findall(r"other strategies:\n    --strategies (\S+)", advice)
    assert "no-memory" in others.split(",")
    assert not set(NAMES) & set(others.split(","))
    assert run("transduce", out, stdin=b"!\n").returncode == 0

    before = read_race(out)
    budget = f"{before.seconds + 1:.2f}s"
    again = run("train", "--resume", out, "--budget", budget, "--workers", "1", "--json")
    assert again.returncode == 0, again.stderr.decode()
    after = read_race(out)
    assert after.seconds >= before.seconds + 0.99
    assert all(after.candidates[name].step >= before.candidates[name].step for name in NAMES)
    assert after.candidates != before.candidates
    longer = json.loads(again.stdout)
    assert longer["steps"] == after.candidates[after.best].step
    shorter = run("train", "--resume", out, "--budget", "0.5s")
    assert shorter.returncode == 2
    assert "the race has already taken" in shorter.stderr.decode()


def test_a_race_too_short_for_a_time_slice_ends_with_a_model(tmp_path: Path) -> None:
    done = train("--budget", "0.001s", out=tmp_path / "run")
    assert done.returncode == 0, done.stderr.decode()
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["steps"] >= 1
    assert run("transduce", tmp_path / "run", stdin=b"!\n").returncode == 0


def test_a_race_whose_runs_all_end_keeps_only_the_best(tmp_path: Path) -> None:
    done = train("--max-steps", "10", out=tmp_path / "run")
    assert done.returncode == 0, done.stderr.decode()
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert (summary["outcome"], summary["steps"]) == ("max_steps", 10)
    assert {each["step"] for each in summary["race"]["strategies"].values()} == {10}
    assert not (tmp_path / "run" / CANDIDATES).exists()
    assert "longer:" not in done.stderr.decode()
    assert run("transduce", tmp_path / "run", stdin=b"!\n").stdout


@pytest.mark.usefixtures("short_time_slices")
def test_a_race_in_python_is_as_one_of_the_command(tmp_path: Path) -> None:
    settings = {each.partition("=")[0]: yaml.safe_load(each.partition("=")[2]) for each in CHANGES}
    found = stacktrans.train(
        "copy", strategies=NAMES, budget=0.5, workers=1, settings=settings, out=tmp_path / "run"
    )
    assert found.summary.outcome == "budget"
    assert found.summary.race
    assert found.summary.race["strategies"].keys() == set(NAMES)
    assert found.config.recipe in NAMES
    words = shlex.split(found.summary.command)
    assert words[:4] == ["stacktrans", "train", "--task", "copy"]
    alone = run(*words[1:], "--out", tmp_path / "alone")
    assert alone.returncode == 0, alone.stderr.decode()
    assert weights(tmp_path / "run") == weights(tmp_path / "alone")
    budget = found.summary.race["seconds"] + 0.5
    longer = stacktrans.resume(tmp_path / "run", budget=budget, workers=1)
    assert longer.summary.race
    assert longer.summary.race["seconds"] >= budget
    for wrong in (0, -1, float("nan"), float("inf")):
        with pytest.raises(UsageError, match="budget"):
            stacktrans.train("copy", budget=wrong, out=tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_a_race_shows_the_runs_in_training_before_a_time_slice_has_ended(tmp_path: Path) -> None:
    found, shown = begun(tmp_path / "race", 2), list[list[str]]()

    def show() -> None:
        shown.append([*found.at_work])
        found.stop_requested = signal.SIGINT

    with found.opened():
        found.run(show)
        assert len(shown[0]) == 2
        assert not any(candidate.step for candidate in found.state.candidates.values())
