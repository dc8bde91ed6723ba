"""The ranking of weights and runs: within a run, and in a race and its table."""

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pair_files import reversals, write
from races import begun, candidates_of, carried_on, request_of
from rich.console import Console
from small_runs import ignore, trainer_of

from stacktrans.model.transducer import Transducer
from stacktrans.settings.config import RunConfig
from stacktrans.showing.race import race_view
from stacktrans.training.file_pairs import FilePairs
from stacktrans.training.race import Race
from stacktrans.training.race_state import Candidate
from stacktrans.training.records import Accuracy, Record, ranking_measures
from stacktrans.training.requests import begin_race
from stacktrans.training.sources import Moment

SMALL = (
    "hidden_size=8", "embedding_size=4", "output_size=8", "measure.strings=20", "loss_every=10",
    "accuracy_every=10", "restart=null", "rounding=null",
)  # fmt: skip
Script = dict[tuple[str, int], tuple[float, float]]
"""Coarse accuracy on the development set and on its longest tenth, by strategy and batch."""


def accuracy(coarse: float, fine: float = 0.5) -> Accuracy:
    return Accuracy(coarse, fine, 20, 0.5)


@pytest.mark.parametrize("names", [("development", "longest"), ("test", "train")])
def test_the_first_quantity_that_differs_decides(names: tuple[str, str]) -> None:
    def measures_of(*values: float) -> list[float]:
        first, second, fine, discreteness, likelihood = values
        measured: Any = {names[0]: accuracy(first, fine), names[1]: accuracy(second)}
        record = Record(1, 1, 0.0, -likelihood, 2.0, 0.1, None, {}, **measured)
        return [*ranking_measures(replace(record, discreteness=discreteness)).values()]

    usual = [0.5] * 5
    for place in range(5):  # regardless of the less important quantities
        better = [*usual[:place], 0.6, *[0.0] * (4 - place)]
        assert measures_of(*better) > measures_of(*usual), place
    assert ranking_measures(Record(1, 1, 0.0, 1.0, 2.0, 0.1, None, {})) == {}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write(tmp_path / "pairs.tsv", reversals(200, 1))


def configs(data: Path, *changes: str, names: Any = ("patient", "wide")) -> dict[str, RunConfig]:
    task = {"name": "pairs", "generator": "pairs", "parameters": {"train": str(data)}}
    return candidates_of(names=names, settings={"task": task}, assignments=[*SMALL, *changes])


def scripted(monkeypatch: pytest.MonkeyPatch, script: Script) -> None:
    """Have runs find these accuracies; between measurements, those of the last."""

    def found(files: FilePairs, moment: Moment) -> tuple[Accuracy, Accuracy]:
        at = max(
            step for name, step in script if name == files.config.recipe and step <= moment.step
        )
        development, longest = script[files.config.recipe, at]
        return accuracy(development), accuracy(longest)

    def measure(files: FilePairs, _: Transducer, moment: Moment, record: Record) -> None:
        record.development, record.test = found(files, moment)
        record.train, record.longest = record.development, record.test

    monkeypatch.setattr(FilePairs, "measure", measure)
    monkeypatch.setattr(FilePairs, "accuracies", lambda files, _, __, moment: found(files, moment))


def test_ties_are_broken_by_the_longest_strings(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ((_, config),) = configs(data, "max_steps=40", names=["wide"]).items()
    script = [(0.5, 0.9), (0.8, 0.2), (0.8, 0.4), (0.8, 0.3)]
    scripted(monkeypatch, {("wide", 10 * n + 10): each for n, each in enumerate(script)})
    summary = trainer_of(config, tmp_path / "run").run(ignore)
    assert summary.best_step == 30


def raced(directory: Path, found: dict[str, RunConfig], workers: int = 1) -> Race:
    race = begin_race(found, request_of(directory, workers=workers))
    with race.opened():
        race.run(lambda: None)
    return race


@pytest.mark.usefixtures("short_time_slices")
def test_at_the_end_the_weights_that_each_run_has_saved_are_compared(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last measurement of the worse run is better than that of the other."""
    script = {
        ("patient", 10): (0.9, 0.914), ("patient", 20): (0.9, 0.9),
        ("wide", 10): (0.9, 0.968), ("wide", 20): (0.1, 0.1),
    }  # fmt: skip
    scripted(monkeypatch, script)
    race = raced(tmp_path / "run", configs(data, "max_steps=20"))
    assert [each.step for each in race.state.candidates.values()] == [20, 20]
    assert race.state.winner is None
    assert race.state.best == "wide"
    assert race.state.candidates["wide"].best["longest"] == 0.968
    summary = race.best_run().run(ignore)
    assert summary.best_step == 10
    assert summary.command.endswith("--recipe wide --max-steps 20")


@pytest.mark.usefixtures("short_time_slices")
@pytest.mark.parametrize("better", ["patient", "wide"])
def test_of_two_solving_runs_in_a_round_the_better_wins(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, better: str
) -> None:
    scripted(monkeypatch, {(name, 10): (1.0, 0.8 + 0.1 * (name == better)) for name in
                           ("patient", "wide")})  # fmt: skip
    race = raced(tmp_path / "run", configs(data, "solved.times=1"))
    assert {name: each.ended for name, each in race.state.candidates.items()} == {
        "patient": "solved", "wide": "solved",
    }  # fmt: skip
    assert race.state.winner == better


@pytest.mark.usefixtures("short_time_slices")
def test_a_run_that_is_right_on_all_strings_does_not_wait_for_the_next(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(monkeypatch, {(name, 10): (1.0, 1.0) for name in ("patient", "wide")})
    race = raced(tmp_path / "run", configs(data, "solved.times=1"))
    assert race.state.winner == "patient"
    assert race.state.candidates["wide"].step == 0


@pytest.mark.usefixtures("short_time_slices")
def test_a_run_that_solves_the_task_in_a_round_that_is_cut_off_has_won(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(monkeypatch, {("patient", 10): (1.0, 1.0), ("wide", 10): (0.5, 0.5)})
    found = configs(data, "solved.times=1")
    race = begin_race(found, request_of(tmp_path / "run"))

    def show() -> None:  # after the first time slice, the time is over
        if race.state.pending:
            race.state.budget = 1e-9

    with race.opened():
        race.run(show)
    assert race.state.candidates["wide"].step < 10
    assert (race.state.winner, race.best_run().race_ended_by) == ("patient", None)


@pytest.mark.usefixtures("short_time_slices")
@pytest.mark.parametrize(
    ("labels", "without_state", "winner", "best"),
    [
        (True, (1.0, 1.0), "feedforward", "feedforward"),
        (True, (0.997, 0.98), None, "feedforward"),
        (True, (0.98, 0.98), "patient", "patient"),
        (False, (0.997, 0.98), "patient", "patient"),
    ],
)
def test_an_lstm_that_labels_strings_wins_only_if_no_other_is_about_as_good_in_time(
    labels: bool,
    without_state: tuple[float, float],
    winner: str | None,
    best: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scripted(monkeypatch, {("patient", 10): (1.0, 1.0), ("feedforward", 10): without_state})
    lines = reversals(200, 1).splitlines()
    if labels:
        lines = [f"{line.split()[0]}\t{'yes' if line < 'c' else 'no'}" for line in lines]
    data = write(tmp_path / "pairs.tsv", "\n".join(lines) + "\n")
    found = configs(data, "solved.times=1", "max_steps=20", names=("patient", "feedforward"))
    race = raced(tmp_path / "run", found)
    assert (race.state.winner, race.state.best) == (winner, best)


@pytest.mark.usefixtures("short_time_slices")
def test_a_race_of_drawn_strings_knows_what_was_kept(tmp_path: Path) -> None:
    race = carried_on(begun(tmp_path / "run"), 2)
    for name, candidate in race.state.candidates.items():
        if candidate.step:
            assert [*candidate.best] == ["test", "train", "fine", "discreteness", "log_likelihood"]
        else:
            assert (name, candidate.best, candidate.test) == (name, {}, None)


def test_of_about_equal_candidates_one_without_a_state_is_the_best() -> None:
    best = {"development": 0.996, "longest": 0.99, "fine": 1.0, "discreteness": 1.0}
    stateless = Candidate(stateless=True, best=best)
    assert stateless.ranking_key > Candidate(best=best | {"development": 0.999}).ranking_key
    assert stateless.ranking_key < Candidate(best=best | {"longest": 1.0}).ranking_key
    assert stateless.ranking_key < Candidate(best=dict.fromkeys(best, 1.0)).ranking_key


def table_of(**candidates: Candidate) -> list[list[str]]:
    file = io.StringIO()
    console = Console(file=file, width=200, color_system=None)
    console.print(race_view(candidates))
    return [line.split() for line in file.getvalue().splitlines()]


def test_the_table_of_a_race_is_sorted_by_accuracy_and_has_dashes_for_missing_numbers() -> None:
    best = {"development": 0.95, "longest": 0.8, "fine": 0.97, "discreteness": 1.0}
    group, heading, *rows = table_of(
        never=Candidate(),
        failed=Candidate(failed="no room"),
        worse=Candidate(step=600, loss=0.25, train=1.0, test=1.0, best=best),
        better=Candidate(step=200, loss=0.5, train=0.0, test=0.0, best=best | {"longest": 0.9}),
        waiting=Candidate(provisional=True),
        labels=Candidate(step=9, ended="solved", provisional=True, best=dict.fromkeys(best, 1.0)),
    )
    assert " ".join(group) == "last batches development, longest tenth development"
    assert heading[4:7] == ["coarse", "coarse", "fine"]
    assert rows == [
        ["labels", "9", "0", "–", "1.00", "1.00", "1.00", "solved", "(provisional)"],
        ["better", "200", "0", "0.5000", "0.90", "0.95", "0.97", "stopped"],
        ["worse", "600", "0", "0.2500", "0.80", "0.95", "0.97", "stopped"],
        ["failed", "0", "0", "–", "–", "–", "–", "no", "room"],
        ["2", "strategies", "have", "not", "begun"],
    ]
