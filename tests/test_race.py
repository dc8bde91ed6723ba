"""Strategies that take turns: who is next, who wins, and that it comes out the same every time."""

import json
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest
from command_line import SMALL, run

from stacktrans.api.runs import after, begin_race, race_in
from stacktrans.common.errors import UsageError
from stacktrans.settings import strategies
from stacktrans.settings.config import RunConfig
from stacktrans.settings.resolve import contestants, resolve
from stacktrans.training import race
from stacktrans.training.race import Race, next_round
from stacktrans.training.turns import Standing

NAMES = ("queue", "stack", "buffered-stack")
CHANGES = SMALL[1::2]


def standings(**merits: float) -> dict[str, Standing]:
    return {name: Standing(step=200, fine=merit, loss=1.0) for name, merit in merits.items()}


def test_better_runs_have_more_turns() -> None:
    found = standings(a=0.1, b=0.3, c=0.2, d=0.05, e=0.4)
    rounds = [next_round(number, found, 0) for number in range(5)]
    assert rounds == [
        ["e", "b", "c", "a", "d"],
        ["e"],
        ["e", "b", "c"],
        ["e"],
        ["e", "b", "c", "a", "d"],
    ]


def test_what_can_t_go_on_has_no_turn() -> None:
    found = standings(a=0.1, b=0.2, c=0.3)
    found["b"] = Standing(step=200, failed="no room")
    found["c"] = Standing(step=200, ended="max_steps", fine=0.9)
    assert next_round(4, found, 0) == ["a"]


def test_a_run_that_has_taken_off_is_alone_for_a_while() -> None:
    found = standings(a=0.1, b=0.2) | {"c": Standing(step=400, test=0.6, fine=0.7, loss=0.1)}
    assert next_round(4, found, 0) == ["c"]
    assert next_round(4, found, race.PATIENCE) == ["c", "b", "a"]


def configs(*changes: str) -> dict[str, RunConfig]:
    return contestants(NAMES, task="copy", assignments=[*CHANGES, *changes])


def raced(directory: Path, workers: int = 1, *changes: str, rounds: int = 3) -> Race:
    """A race of so many rounds."""
    found = begin_race(configs(*changes), directory, "cpu", workers, ["train"])

    def show(shown: Race) -> None:
        if shown.rounds == rounds:
            shown.stop_requested = signal.SIGINT

    found.run(60, show)
    return found


def weights(directory: Path) -> bytes:
    place = directory / "best" if (directory / "best").exists() else directory / "last"
    return (place / "model.safetensors").read_bytes()


def told(found: Race) -> list[tuple[str, int, float | None, float]]:
    return [(name, each.step, each.loss, each.fine) for name, each in found.standings.items()]


@pytest.fixture
def short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(race, "TURN", 10)


@pytest.mark.usefixtures("short_turns")
def test_processes_change_nothing_but_the_time(tmp_path: Path) -> None:
    alone, together = raced(tmp_path / "1"), raced(tmp_path / "2", 2)
    assert told(alone) == told(together)
    for name in NAMES:
        assert weights(alone.place(name)) == weights(together.place(name))


@pytest.mark.usefixtures("short_turns")
def test_a_race_that_is_stopped_and_resumed_comes_to_the_same(tmp_path: Path) -> None:
    whole = raced(tmp_path / "whole", rounds=4)
    raced(tmp_path / "parts", rounds=1)
    resumed = race_in(tmp_path / "parts", "cpu", 1)
    assert resumed
    resumed.run(60, lambda shown: setattr(shown, "stop_requested", shown.rounds == 4))
    assert told(whole) == told(resumed)


@pytest.mark.usefixtures("short_turns")
def test_the_winner_alone_is_the_same_model(tmp_path: Path) -> None:
    easy = ("solved.accuracy=0.05", "solved.times=1", "learning_rate=0.02", "training.settle=null")
    found = begin_race(configs(*easy), tmp_path / "race", "cpu", 1, ["train", "--task", "copy"])
    best = found.run(60, lambda _: None)
    assert found.winner == best
    trainer = after(found, best, "cpu")
    summary = trainer.run(lambda _: None)
    assert summary.outcome == "solved"
    assert summary.command == f"train --task copy --recipe {best}"
    assert not (tmp_path / "race" / race.FOLDER).exists()
    words = [word for each in (*CHANGES, *easy) for word in ("--set", each)]
    done = run("train", "--task", "copy", "--recipe", best, *words, "--out", tmp_path / "alone")
    assert done.returncode == 0, done.stderr.decode()
    assert weights(tmp_path / "race") == weights(tmp_path / "alone")


def test_a_race_without_a_winner_ends_with_the_best_model(tmp_path: Path) -> None:
    names = ",".join(NAMES)
    options = ["--strategies", names, "--budget", "4s", "--workers", "1"]
    done = run("train", "--task", "copy", *SMALL, *options, "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr.decode()
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["outcome"] == "max_steps"
    assert summary["race"].keys() == set(NAMES)
    said = done.stdout.decode()
    assert all(name in said for name in NAMES)
    assert f"--max-steps {summary['steps']}" in summary["command"]
    answered = run("transduce", tmp_path / "run", stdin=b"!\n")
    assert answered.returncode == 0


def test_every_strategy_is_a_recipe_for_its_tasks() -> None:
    examples = {"pairs": "copy", "in step": "xor", "stream": "anbn", "text": "text"}
    for name, strategy in strategies.strategies().items():
        for kind in strategy.kinds:
            config = resolve(name, task=examples[kind])
            assert config.recipe == name
            assert config.model.memory.name == strategy.memory


def test_a_memory_restricts_the_race() -> None:
    memory = {"model": {"memory": "queue"}}
    found = contestants(task="copy", settings=memory)
    assert found
    assert {each.model.memory.name for each in found.values()} == {"queue"}


@pytest.mark.parametrize(
    ("names", "memory", "message"),
    [
        (["quueue"], None, "unknown strategy 'quueue'; did you mean 'queue'"),
        (["queue"], "stack", "strategy queue: its memory is queue, not stack"),
    ],
)
def test_strategies_that_can_t_be_raced(names: list[str], memory: str | None, message: str) -> None:
    settings: Mapping[str, object] = {"model": {"memory": memory}} if memory else {}
    with pytest.raises(UsageError, match=message):
        contestants(names, task="copy", settings=dict(settings))
