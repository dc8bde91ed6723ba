"""Strategies that take turns: who is next, who wins, and that it comes out the same every time."""

import json
import os
import re
import shlex
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_line import SMALL, hint_after, run, start, wait_for
from test_full_disk import full_at

import stacktrans
from stacktrans.api.runs import begin_race, taken_up
from stacktrans.common.errors import CheckpointError, UsageError
from stacktrans.common.processes import Pool
from stacktrans.model import checkpoint
from stacktrans.settings import strategies
from stacktrans.settings.config import RunConfig
from stacktrans.settings.contest import contestants
from stacktrans.settings.resolve import resolve
from stacktrans.training import race
from stacktrans.training.race import Race, next_round
from stacktrans.training.standings import FOLDER, RACE, Standing, read_race
from stacktrans.training.start import Start

NAMES = ("patient", "wide", "buffered")
CHANGES = SMALL[1::2]
EASY = (
    "solved.accuracy=0.05",
    "solved.times=1",
    "learning_rate=0.02",
    "training.settle=null",
    "training.rounding=null",
)
"""Settings with which a task is solved soon."""


def standings(**merits: float) -> dict[str, Standing]:
    return {name: Standing(step=200, test=merit, loss=1.0) for name, merit in merits.items()}


def test_better_runs_have_more_turns() -> None:
    found = standings(a=0.1, b=0.3, c=0.2, d=0.05, e=0.4)
    had = dict.fromkeys(found, 0)
    for _ in range(100):
        names = next_round(found, width=2)
        assert names[0] == "e"
        assert len(names) == 2
        for name in names:
            had[name] += 1
            found[name] = found[name].model_copy(update={"step": found[name].step + 200})
    assert had["e"] == 100
    # A half, a third, a quarter and a fifth, over their sum.
    assert [had[name] for name in "bcad"] == pytest.approx([39, 26, 19, 16], abs=1)


def test_one_after_another_has_the_first_turn() -> None:
    found = dict.fromkeys("abcd", Standing())
    taken: list[list[str]] = []
    for _ in range(4):
        taken.append(next_round(found, width=2))
        had = {name: Standing(step=200, loss=1.0, test=0.5 * (name == "b")) for name in taken[-1]}
        found |= had
    assert taken == [["a", "b"], ["b", "c"], ["b", "d"], ["b", "a"]]


def test_the_best_has_no_more_turns_than_others_once_it_has_stalled() -> None:
    found = standings(a=0.1, b=0.3, c=0.2)
    assert next_round(found, width=2)[0] == "b"
    for turn in range(3):
        assert next_round(found, width=1) == ["b"], turn
        had = Standing(step=found["b"].step + 200, test=0.3, loss=1.0)
        found["b"] = had.after(found["b"])
    # In the first it has come to 0.3, and no further since.
    assert found["b"].stalled == 2
    found["b"] = Standing(step=1000, test=0.28, train=0.4, loss=1.0).after(found["b"])
    assert found["b"].furthest == (0.3, 0.0)
    assert next_round(found, width=2) == ["c", "a"]
    found["b"] = Standing(step=1200, test=0.3, train=0.1, loss=1.0).after(found["b"])
    assert next_round(found, width=2)[0] == "b"


def test_before_any_is_right_on_longer_strings_the_order_of_strategies_counts() -> None:
    found = {name: Standing(step=200, loss=1.0) for name in "abc"}
    # It memorises.
    found["c"] = Standing(step=200, train=0.9, fine=0.8, loss=0.1)
    found["d"] = Standing()
    assert next_round(found, width=2) == ["a", "d"]
    found["c"] = Standing(step=400, train=0.9, test=0.01, fine=0.8, loss=0.1)
    assert next_round(found, width=2) == ["c", "d"]


def test_once_all_have_begun_training_lengths_count_as_much() -> None:
    found = {name: Standing(step=200, loss=1.0) for name in "abcd"}
    found["c"] = Standing(step=200, train=0.2, loss=1.0)
    had = dict.fromkeys(found, 0)
    for _ in range(100):
        for name in next_round(found, width=2):
            had[name] += 1
            found[name] = found[name].model_copy(update={"step": found[name].step + 200})
    # Of two first places one has half of all turns, and as many as the other.
    assert had["a"] == pytest.approx(had["c"], abs=1)
    assert had["b"] + had["d"] < had["a"] < 100
    found["d"] = Standing(step=2000, train=0.1, test=0.01, loss=1.0)
    assert next_round(found, width=2)[0] == "d"


def test_what_can_t_go_on_has_no_turn() -> None:
    found = standings(a=0.1, b=0.2, c=0.3)
    found["b"] = Standing(step=200, failed="no room")
    found["c"] = Standing(step=200, ended="max_steps", fine=0.9)
    assert next_round(found, width=2) == ["a"]


def configs(*changes: str) -> dict[str, RunConfig]:
    return contestants(names=NAMES, task="copy", assignments=[*CHANGES, *changes])


def begun(directory: Path, workers: int = 1, *changes: str, budget: float = 60) -> Race:
    return begin_race(configs(*changes), directory, "cpu", ["train"], budget, workers)


def carried_on(found: Race, rounds: int) -> Race:
    """A race after so many rounds, or a few more where several processes work."""

    def show() -> None:
        if found.state.rounds >= rounds:
            found.stop_requested = signal.SIGINT

    with found.opened():
        found.run(show)
    return found


def weights(directory: Path) -> bytes:
    place = directory / "best" if (directory / "best").exists() else directory / "last"
    content = (place / "model.safetensors").read_bytes()
    # Without the header, which tells of the configuration.
    return content[8 + int.from_bytes(content[:8], "little") :]


def told(found: Race) -> list[tuple[str, int, float | None, float]]:
    return [(name, each.step, each.loss, each.fine) for name, each in found.state.standings.items()]


@pytest.fixture
def short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(race, "TURN", 10)


@pytest.mark.usefixtures("short_turns")
def test_processes_change_nothing_but_the_time(tmp_path: Path) -> None:
    together = carried_on(begun(tmp_path / "together", 3), 5)
    alone = carried_on(begun(tmp_path / "alone"), together.state.rounds)
    assert told(alone) == told(together)


@pytest.mark.usefixtures("short_turns")
def test_processes_leave_the_same_weights(tmp_path: Path) -> None:
    together, alone = (
        carried_on(begun(tmp_path / str(workers), workers, "training.max_steps=30"), 100)
        for workers in (3, 1)
    )
    assert told(alone) == told(together)
    for name in NAMES:
        assert weights(alone.place(name)) == weights(together.place(name))


@pytest.mark.usefixtures("short_turns")
def test_a_race_that_is_stopped_and_resumed_comes_to_the_same(tmp_path: Path) -> None:
    whole = carried_on(begun(tmp_path / "whole"), 4)
    carried_on(begun(tmp_path / "parts"), 1)
    resumed = taken_up(tmp_path / "parts", "cpu", workers=1)
    assert isinstance(resumed, Race)
    assert told(whole) == told(carried_on(resumed, 4))


@pytest.mark.usefixtures("short_turns")
def test_a_race_that_is_stopped_in_its_first_round_comes_to_the_same(tmp_path: Path) -> None:
    whole = carried_on(begun(tmp_path / "whole"), 2)
    found = begun(tmp_path / "parts")
    stopped = carried_on(found, 0)
    assert {each.step for each in stopped.state.standings.values()} == {0}
    resumed = taken_up(tmp_path / "parts", "cpu", workers=1)
    assert isinstance(resumed, Race)
    assert told(whole) == told(carried_on(resumed, 2))


@pytest.mark.usefixtures("short_turns")
@pytest.mark.parametrize("batches", [15, 34])
def test_a_race_that_is_stopped_within_a_turn_comes_to_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batches: int
) -> None:
    whole = carried_on(begun(tmp_path / "whole"), 4)
    found, on_batch, left = begun(tmp_path / "parts"), Start.train_on_batch, batches

    def interrupted(start: Start) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            found.stop_requested = signal.SIGINT
        on_batch(start)

    monkeypatch.setattr(Start, "train_on_batch", interrupted)
    with found.opened():
        found.run(lambda: None)
    assert left == 0
    resumed = taken_up(tmp_path / "parts", "cpu", workers=1)
    assert isinstance(resumed, Race)
    assert told(whole) == told(carried_on(resumed, 4))


@pytest.mark.usefixtures("short_turns")
def test_the_winner_alone_is_the_same_model(tmp_path: Path) -> None:
    directory = tmp_path / "race"
    found = begin_race(configs(*EASY), directory, "cpu", ["train", "--task", "copy"], 60, 1)
    with found.opened():
        found.run(lambda: None)
        best = found.state.winner
        summary = found.best_run().run(lambda _: None)
        found.close()
    assert best
    assert summary.outcome == "solved"
    assert summary.command == f"train --task copy --recipe {best}"
    assert not (directory / FOLDER).exists()
    words = [word for each in (*CHANGES, *EASY) for word in ("--set", each)]
    done = run("train", "--task", "copy", "--recipe", best, *words, "--out", tmp_path / "alone")
    assert done.returncode == 0, done.stderr.decode()
    assert weights(directory) == weights(tmp_path / "alone")
    card = (directory / "best" / "README.md").read_text()
    assert f"Strategy: {best}" in card


STRATEGIES = ("--strategies", ",".join(NAMES), "--workers", "1")


def train(*options: str | Path, out: Path) -> Any:
    return run("train", "--task", "copy", *SMALL, *STRATEGIES, *options, "--out", out)


def test_a_race_without_a_winner_ends_with_the_best_model_and_goes_on(tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = train("--budget", "3s", out=out)
    assert done.returncode == 0, done.stderr.decode()
    summary = json.loads((out / "summary.json").read_text())
    assert summary["outcome"] == "budget"
    assert summary["race"]["winner"] is None
    assert summary["race"]["strategies"].keys() == set(NAMES)
    said, advice = done.stdout.decode(), done.stderr.decode()
    assert all(name in said for name in NAMES)
    assert f"--max-steps {summary['steps']}" in summary["command"]
    assert f"longer: stacktrans train --resume {out} --budget 12s" in advice
    (others,) = re.findall(r"other strategies: --strategies (\S+)", advice)
    assert "no-memory" in others.split(",")
    assert not set(NAMES) & set(others.split(","))
    assert run("transduce", out, stdin=b"!\n").returncode == 0

    before = read_race(out)
    again = run("train", "--resume", out, "--budget", "5s", "--workers", "1", "--json")
    assert again.returncode == 0, again.stderr.decode()
    after = read_race(out)
    assert before.seconds < 5 <= after.seconds < 30
    assert all(after.standings[name].step >= before.standings[name].step for name in NAMES)
    assert after.standings != before.standings
    longer = json.loads(again.stdout)
    assert longer["steps"] == after.standings[after.best].step
    shorter = run("train", "--resume", out, "--budget", "1s")
    assert shorter.returncode == 2
    assert "the race has already had" in shorter.stderr.decode()


def test_a_race_that_was_cut_off_can_be_repeated_alone(tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = train("--budget", "2s", "--no-buffered", out=out)
    assert done.returncode == 0, done.stderr.decode()
    command = json.loads((out / "summary.json").read_text())["command"]
    alone = run(*shlex.split(command)[1:], "--out", tmp_path / "alone")
    assert alone.returncode == 0, alone.stderr.decode()
    assert weights(out) == weights(tmp_path / "alone")


def test_a_race_too_short_for_a_turn_ends_with_a_model(tmp_path: Path) -> None:
    done = train("--budget", "0.001s", out=tmp_path / "run")
    assert done.returncode == 0, done.stderr.decode()
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["steps"] >= 1
    assert run("transduce", tmp_path / "run", stdin=b"!\n").returncode == 0


def test_a_race_whose_runs_all_end_keeps_but_the_best(tmp_path: Path) -> None:
    done = train("--max-steps", "10", out=tmp_path / "run")
    assert done.returncode == 0, done.stderr.decode()
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert (summary["outcome"], summary["steps"]) == ("max_steps", 10)
    assert {each["step"] for each in summary["race"]["strategies"].values()} == {10}
    assert not (tmp_path / "run" / FOLDER).exists()
    assert "longer:" not in done.stderr.decode()


def test_a_race_in_which_every_run_fails_says_why(tmp_path: Path) -> None:
    broken = ["--set", "learning_rate=1e30", "--set", "training.restart=null"]
    done = train(*broken, "--set", "training.gradient_clip=null", out=tmp_path / "run")
    assert done.returncode == 1
    said = done.stderr.decode()
    assert "no strategy could be trained" in said
    assert all(f"\n{name}: the loss is not a finite number after batch" in said for name in NAMES)
    again = run("train", "--resume", tmp_path / "run")
    assert again.returncode == 1
    assert "no strategy could be trained" in again.stderr.decode()


@pytest.mark.usefixtures("short_turns")
def test_a_run_that_fails_does_not_end_the_race(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_batch = Start.train_on_batch

    def large(start: Start) -> None:
        if start.source.config.recipe == "patient":
            raise MemoryError
        on_batch(start)

    monkeypatch.setattr(Start, "train_on_batch", large)
    found = carried_on(begun(tmp_path / "run"), 2)
    assert found.state.standings["patient"].failed == "not enough memory"
    assert found.state.standings["wide"].step >= 10


def workers_of(process: int) -> list[int]:
    """The processes that work for another."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [
        int(child)
        for child in children
        if b"popen_loky" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
@pytest.mark.usefixtures("short_turns")
# A thread of the library may stumble when its process is killed at the moment of its last result.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_turn_whose_process_is_killed_is_done_again(tmp_path: Path) -> None:
    found, killed = begun(tmp_path / "killed", 2), list[int]()

    def show() -> None:
        if not killed:
            killed.extend(workers_of(os.getpid()))
            for process in killed:
                os.kill(process, signal.SIGKILL)
        if found.state.rounds >= 2:
            found.stop_requested = signal.SIGINT

    with found.opened():
        found.run(show)
    assert len(killed) == 2
    assert told(found) == told(carried_on(begun(tmp_path / "whole"), found.state.rounds))


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
def test_a_process_that_is_killed_while_it_has_nothing_to_do_is_replaced() -> None:
    with Pool(2, lambda: False) as pool:
        for name in ("a", "b"):
            pool.submit([name], lambda said, _: said * 2)
            assert list(pool.finished()) == [(name, name * 2)]
            for process in workers_of(os.getpid()):
                os.kill(process, signal.SIGKILL)
            time.sleep(1)  # until it is known


RACE_OF_TWO = ("train", "--task", "copy", *SMALL, "--strategies", "patient,wide", "--workers", "2")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupting_a_race_saves_and_says_how_to_go_on(tmp_path: Path, number: int) -> None:
    out = tmp_path / "a run"
    process = start(*RACE_OF_TWO, "--out", out)
    wait_for(out / FOLDER / "patient" / "last" / "training.pt")
    assert hint_after(process, number).endswith(f"resume with: stacktrans train --resume '{out}'")
    budget = f"{read_race(out).seconds + 2:.1f}s"
    done = run("train", "--resume", out, "--budget", budget, "--workers", "1", "--json")
    assert done.returncode == 0, done.stderr.decode()
    assert json.loads(done.stdout)["outcome"] in ("budget", "solved")


def test_a_race_that_is_killed_goes_on_at_once(tmp_path: Path) -> None:
    out = tmp_path / "run"
    process = start(*RACE_OF_TWO, "--out", out)
    wait_for(out / FOLDER / "wide" / "last" / "training.pt")
    process.kill()
    process.communicate(timeout=60)
    done = run("train", "--resume", out, "--budget", "5s", "--workers", "1", "--json")
    assert done.returncode == 0, done.stderr.decode()
    strategies = json.loads(done.stdout)["race"]["strategies"]
    assert [each["failed"] for each in strategies.values()] == [None, None]


def test_two_processes_do_not_race_in_one_directory(tmp_path: Path) -> None:
    found = begun(tmp_path / "run")
    with found.opened():
        done = run("train", "--resume", tmp_path / "run")
    assert done.returncode == 1
    assert f"{tmp_path / 'run'}: another process is training here" in done.stderr.decode()


@pytest.mark.usefixtures("short_turns")
def test_a_full_disk_ends_a_race_which_goes_on_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = carried_on(begun(tmp_path / "whole"), 2)
    found = begun(tmp_path / "run")
    monkeypatch.setattr(checkpoint, "write_flushed", full_at("training.pt", after=4))
    with found.opened(), pytest.raises(CheckpointError, match="No space left on device"):
        found.run(lambda: None)
    monkeypatch.undo()
    monkeypatch.setattr(race, "TURN", 10)
    resumed = taken_up(tmp_path / "run", "cpu", workers=1)
    assert isinstance(resumed, Race)
    assert told(carried_on(resumed, 2)) == told(whole)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "race.json: damaged (Invalid JSON"),
        ("[]", "race.json: damaged ("),
        ('{"standings": {"../up": {}}}', "race.json: damaged ("),
        ("WINNER", "race.json: damaged (winner: other)"),
        ("STEP", "race.json: damaged (standings.patient.step: "),
        ("LOSS", "race.json: damaged (standings.patient.loss: "),
    ],
)
def test_a_damaged_race_is_told(tmp_path: Path, content: str, message: str) -> None:
    begun(tmp_path / "run")
    path = tmp_path / "run" / RACE
    state = json.loads(path.read_text())
    if content == "WINNER":
        state["winner"] = "other"
    elif content == "STEP":
        state["standings"]["patient"]["step"] = -1
    elif content == "LOSS":
        state["standings"]["patient"]["loss"] = float("nan")
    path.write_text(json.dumps(state) if content.isalpha() else content)
    done = run("train", "--resume", tmp_path / "run")
    assert done.returncode == 1
    assert message in done.stderr.decode()


@pytest.mark.usefixtures("short_turns")
@pytest.mark.parametrize("missing", ["config.yaml", "last"])
def test_a_run_that_is_missing_is_named(tmp_path: Path, missing: str) -> None:
    found = carried_on(begun(tmp_path / "run"), 1)
    path = found.place("wide") / missing
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    done = run("train", "--resume", tmp_path / "run")
    assert done.returncode == 1
    assert f"{path}: missing; the race can't go on without it" in done.stderr.decode()


@pytest.mark.usefixtures("short_turns")
def test_what_is_damaged_of_a_run_ends_the_race_and_is_named(tmp_path: Path) -> None:
    found = carried_on(begun(tmp_path / "run"), 1)
    path = found.place("wide") / "last" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-9])
    done = run("train", "--resume", tmp_path / "run", "--workers", "1")
    assert done.returncode == 1
    assert str(path) in done.stderr.decode()


def test_what_a_race_wrote_before_it_began_is_no_obstacle(tmp_path: Path) -> None:
    found = begun(tmp_path / "run")
    (found.directory / FOLDER).rename(found.directory / f".{FOLDER}.new")
    done = train("--max-steps", "1", out=tmp_path / "run")
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--budget", "0s"], "--budget 0s: expected a time such as"),
        (["--budget", "-5s"], "--budget -5s: expected a time such as"),
        (["--budget", "soon"], "--budget soon: expected a time such as"),
        (["--budget", "9" * 400], "--budget 999"),
        (["--workers", "0"], "--workers: workers: Input should be greater"),
        (["--workers", "-1"], "--workers: workers: Input should be greater"),
        (["--strategies", ","], "--strategies ,: expected names"),
        (["--strategies", "jiont"], "unknown strategy 'jiont'; did you mean 'joint'"),
        (["--strategies", "no-memory", "--memory", "stack"], "its memory is none, not stack"),
        (["--strategies", "joint", "--recipe", "default"], "strategies: only for the recipe auto"),
        (["--budget", "1m", "--recipe", "joint"], "budget: only for the recipe auto"),
        (["--task", "xor", "--strategies", "joint"], "not for a task of this kind (in step)"),
        (["--recipe", "auot"], "did you mean 'auto'"),
        (["--set", "learning_rate=-1"], "learning_rate"),
        (["--hidden", "0"], "--hidden: model.controller.hidden_size"),
    ],
)
def test_what_can_t_be_raced_is_refused(tmp_path: Path, options: list[str], message: str) -> None:
    done = run("train", "--task", "copy", *options, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr.decode()
    assert list(tmp_path.iterdir()) == []


def test_a_single_run_has_no_budget_to_resume_by(trained: Path) -> None:
    done = run("train", "--resume", trained, "--budget", "1m")
    assert done.returncode == 2
    assert "no race that could go on" in done.stderr.decode()


def test_a_time_limit_is_the_budget_of_a_race_unless_one_is_given(tmp_path: Path) -> None:
    limited = configs("time_limit=70")
    for name, given, budget in (("a", None, 70), ("b", 20, 20)):
        begin_race(limited, tmp_path / name, "cpu", ["train"], given, 1)
        assert read_race(tmp_path / name).budget == budget
    begin_race(configs(), tmp_path / "c", "cpu", ["train"], None, 1)
    assert read_race(tmp_path / "c").budget == race.BUDGET


def test_a_race_goes_on_by_its_budget_alone(tmp_path: Path) -> None:
    begun(tmp_path / "run")
    done = run("train", "--resume", tmp_path / "run", "--max-steps", "9")
    assert done.returncode == 2
    assert "--max-steps: a race goes on by its budget" in done.stderr.decode()


def test_what_would_be_raced_is_shown(tmp_path: Path) -> None:
    shown = run("train", "--task", "copy", "--dry-run", cwd=tmp_path)
    assert shown.returncode == 0
    known = {name: each for name, each in strategies.strategies().items() if "pairs" in each.kinds}
    assert len(known) > 3
    for name, each in known.items():
        assert name in shown.stdout.decode()
        assert each.idea in shown.stdout.decode()
    assert f"--recipe {next(iter(known))} --dry-run" in shown.stderr.decode()
    as_json = run("train", "--task", "copy", "--dry-run", "--json", cwd=tmp_path)
    assert json.loads(as_json.stdout).keys() == known.keys()
    assert list(tmp_path.iterdir()) == []


def test_a_race_in_python_is_as_one_of_the_command(tmp_path: Path) -> None:
    settings = {each.partition("=")[0]: yaml.safe_load(each.partition("=")[2]) for each in CHANGES}
    found = stacktrans.train(
        "copy", strategies=NAMES, budget=3, workers=1, settings=settings, out=tmp_path / "run"
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
    longer = stacktrans.resume(tmp_path / "run", budget=4, workers=1)
    assert longer.summary.race
    assert longer.summary.race["seconds"] >= 4
    for wrong in (0, -1, float("nan"), float("inf")):
        with pytest.raises(UsageError, match="budget"):
            stacktrans.train("copy", budget=wrong, out=tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_every_strategy_is_a_recipe_for_its_tasks() -> None:
    examples = {"pairs": "copy", "in step": "xor", "stream": "anbn", "text": "text"}
    for name, strategy in strategies.strategies().items():
        for kind in strategy.kinds:
            config = resolve(name, task=examples[kind])
            assert config.recipe == name
            assert config.model.memory.name == strategy.memory


@pytest.mark.parametrize("memory", ["queue", "2*stack", "stack-rnn"])
def test_the_memory_that_is_asked_for_is_raced(memory: str) -> None:
    found = contestants(task="copy", settings={"model": {"memory": memory}})
    assert {"joint", "buffered"} <= found.keys()
    assert "no-memory" not in found
    assert {each.model.memory.name for each in found.values()} == {memory}


def test_what_can_remember_nothing_is_not_raced_unless_named() -> None:
    settings = {"model": {"memory": "none"}}
    found = contestants(task="copy", settings=settings)
    assert {"joint", "no-memory"} <= found.keys()
    assert not [name for name in found if "feedforward" in name]
    assert contestants(task="copy", names=["feedforward"], settings=settings)
    with_cells = {"model": {"memory": "none", "controller": {"name": "lstm", "recurrent": False}}}
    assert "joint" in contestants(task="copy", settings=with_cells)


def test_what_does_not_fit_what_is_asked_for_is_not_raced() -> None:
    buffered = contestants(task="copy", settings={"model": {"buffers": {}}})
    assert "buffered" in buffered
    assert all(each.model.buffers for each in buffered.values())
    assert "joint" not in buffered


def test_strategies_that_come_to_the_same_are_raced_once() -> None:
    model = {"memory": "stack", "buffers": None}
    settings = {"model": model, "training": {"gate_noise": 0, "learning_rate": 0.01}}
    found = contestants(task="copy", names=["joint", "buffered"], settings=settings)
    assert found.keys() == {"joint"}


def test_a_text_is_trained_without_a_race(tmp_path: Path) -> None:
    for name in ("train", "valid", "test"):
        (tmp_path / f"{name}.txt").write_text("a b c\n" * 9)
    parameters = {name: str(tmp_path / f"{name}.txt") for name in ("train", "valid", "test")}
    assert contestants(task="text", settings={"task": {"parameters": parameters}}).keys() == {
        "language"
    }


@pytest.mark.parametrize("place", ["settings", "assignments", "config"])
def test_a_recipe_that_is_named_anywhere_is_not_raced(tmp_path: Path, place: str) -> None:
    (tmp_path / "mine.yaml").write_text("recipe: wide\n")
    places: dict[str, Any] = {
        "settings": {"recipe": "wide"},
        "assignments": ["recipe=wide"],
        "config": str(tmp_path / "mine.yaml"),
    }
    asked: Any = {place: places[place]}
    assert contestants(task="copy", **asked) == {"wide": resolve("wide", task="copy")}


def test_a_budget_is_the_time_limit_of_a_run_without_a_race() -> None:
    (found,) = contestants(task="copy", names=["joint"], budget=90).values()
    assert found.training.time_limit == 90
