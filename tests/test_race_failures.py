"""Races in which runs fail, processes are killed, and files are damaged."""

import json
import os
import re
import shutil
import signal
from pathlib import Path

import pytest
from command_line import SMALL, hint_after, run, start, wait_for
from races import NAMES, Progress, begun, carried_on, progress_after, progress_of, train
from test_full_disk import full_at

import stacktrans
from stacktrans.common import files
from stacktrans.common.errors import CheckpointError, StacktransError
from stacktrans.common.files import CANDIDATES, RACE
from stacktrans.common.processes import Pool
from stacktrans.training import scheduling
from stacktrans.training.attempt import Attempt
from stacktrans.training.race import Race
from stacktrans.training.race_state import read_race
from stacktrans.training.requests import resume as taken_up


def test_a_race_in_which_every_run_fails_reports_each_reason(tmp_path: Path) -> None:
    broken = ["--set", "learning_rate=1e30", "--set", "training.restart=null"]
    done = train(*broken, "--set", "training.gradient_clip=null", out=tmp_path / "run")
    assert done.returncode == 1
    printed = done.stderr.decode()
    assert "every strategy failed" in printed
    assert all(
        f"\n{name}: the loss is not a finite number after batch" in printed for name in NAMES
    )
    again = run("train", "--resume", tmp_path / "run")
    assert again.returncode == 1
    assert "every strategy failed" in again.stderr.decode()


@pytest.mark.usefixtures("short_time_slices")
def test_a_race_in_which_every_run_failed_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(attempt: Attempt) -> None:
        raise MemoryError

    started = begun(tmp_path / "run")
    with monkeypatch.context() as lacking:
        lacking.setattr(Attempt, "train_on_batch", fail)
        with pytest.raises(StacktransError, match="every strategy failed"):
            carried_on(started, 4)
    again = taken_up(tmp_path / "run", "cpu", [], None, 1)
    assert isinstance(again, Race)
    found = carried_on(again, read_race(again.directory).rounds + 1)
    assert any(candidate.step for candidate in found.state.candidates.values())


@pytest.mark.usefixtures("short_time_slices")
def test_strategies_that_lacked_memory_are_tried_again_when_a_race_is_resumed(
    tmp_path: Path,
) -> None:
    carried_on(begun(tmp_path / "run"), 1)
    path = tmp_path / "run" / RACE
    state = json.loads(path.read_text())
    for name, reason in (("wide", "its process was killed"), ("buffered", "the loss is nan")):
        state["candidates"][name]["failed"] = reason
    path.write_text(json.dumps(state))
    again = taken_up(tmp_path / "run", "cpu", workers=1)
    assert isinstance(again, Race)
    found = carried_on(again, state["rounds"] + 3)
    assert found.state.candidates["wide"].step > state["candidates"]["wide"]["step"]
    assert found.state.candidates["buffered"].failed == "the loss is nan"


@pytest.mark.usefixtures("short_time_slices")
def test_a_time_slice_ahead_of_its_round_that_lacked_memory_is_tried_again(tmp_path: Path) -> None:
    carried_on(begun(tmp_path / "run"), 1)
    path = tmp_path / "run" / RACE
    state = json.loads(path.read_text())
    for name, before in state["candidates"].items():
        state["pending"][name] = [before | {"failed": "not enough memory"}]
    path.write_text(json.dumps(state))
    again = taken_up(tmp_path / "run", "cpu", workers=1)
    assert isinstance(again, Race)
    found = carried_on(again, state["rounds"] + 1)
    assert not any(candidate.failed for candidate in found.state.candidates.values())


@pytest.mark.usefixtures("short_time_slices")
def test_a_run_that_fails_does_not_end_the_race(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_batch = Attempt.train_on_batch

    def large(attempt: Attempt) -> None:
        if attempt.source.config.recipe == "patient":
            raise MemoryError
        on_batch(attempt)

    monkeypatch.setattr(Attempt, "train_on_batch", large)
    found = carried_on(begun(tmp_path / "run"), 2)
    assert found.state.candidates["patient"].failed == "not enough memory"
    assert found.state.candidates["wide"].step >= 10


@pytest.fixture(scope="module")
def two_rounds(tmp_path_factory: pytest.TempPathFactory) -> Progress:
    """The progress of a race that was not stopped in two rounds of short time slices."""
    return progress_after(tmp_path_factory.mktemp("races") / "whole", 2)


def workers_of(process: int) -> list[int]:
    """The processes that work for another."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [
        int(child)
        for child in children
        if b"popen_loky" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
@pytest.mark.usefixtures("short_time_slices")
# A thread of the library may stumble when its process is killed at the moment of its last result.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_time_slice_whose_process_is_killed_is_repeated(tmp_path: Path) -> None:
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
    assert progress_of(found) == progress_of(
        carried_on(begun(tmp_path / "whole"), found.state.rounds)
    )


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
def test_a_process_that_is_killed_while_it_has_nothing_to_do_is_replaced() -> None:
    with Pool(2, lambda: False) as pool:
        for name in ("a", "b"):
            pool.submit({name: lambda _, text=name: text * 2})
            found: list[tuple[str, object]] = []
            while not found:  # work that was given to a process already killed is given again
                found = [*pool.finished()]
            assert found == [(name, name * 2)]
            for process in workers_of(os.getpid()):
                os.kill(process, signal.SIGKILL)


RACE_OF_TWO = ("train", "--task", "copy", *SMALL, "--strategies", "patient,wide", "--workers", "2")


def test_processes_can_be_closed_as_soon_as_they_have_work() -> None:
    """No thread fails: pytest reports it as an error."""
    for _ in range(5):
        with Pool(1, lambda: False) as pool:
            pool.submit({"work": bool})


def test_an_interrupted_race_is_saved_and_prints_how_to_resume(tmp_path: Path) -> None:
    out = tmp_path / "a run"
    process = start(*RACE_OF_TWO, "--out", out)
    wait_for(out / CANDIDATES / "patient" / "last" / "training.pt")
    hint = hint_after(process, signal.SIGINT)
    assert hint.endswith(f"resume with: stacktrans train --resume '{out}'")
    budget = f"{read_race(out).seconds + 0.5:.1f}s"
    done = run("train", "--resume", out, "--budget", budget, "--workers", "1", "--json")
    assert done.returncode == 0, done.stderr.decode()
    assert json.loads(done.stdout)["outcome"] in ("budget", "solved")


def test_a_killed_race_can_be_resumed_at_once(tmp_path: Path) -> None:
    out = tmp_path / "run"
    process = start(*RACE_OF_TWO, "--out", out)
    wait_for(out / CANDIDATES / "wide" / "last" / "training.pt")
    process.kill()
    process.communicate(timeout=60)
    budget = f"{read_race(out).seconds + 0.5:.1f}s"
    done = run("train", "--resume", out, "--budget", budget, "--workers", "1", "--json")
    assert done.returncode == 0, done.stderr.decode()
    strategies = json.loads(done.stdout)["race"]["strategies"]
    assert [each["failed"] for each in strategies.values()] == [None, None]


def test_two_processes_do_not_race_in_one_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "END_SECONDS", 0)
    found = begun(tmp_path / "run")
    with found.opened():
        done = run("train", "--resume", tmp_path / "run")
    assert done.returncode == 1
    assert f"{tmp_path / 'run'}: another process is training here" in done.stderr.decode()


def test_a_race_that_has_no_model_yet_is_named_with_how_to_resume_it(tmp_path: Path) -> None:
    out = tmp_path / "a race"
    begun(out)
    complaint = f"{out}: an unfinished race of strategies; resume it with: "
    message = f"stacktrans: {complaint}stacktrans train --resume '{out}'\n"
    for command in ("eval", "transduce", "inspect", "verify", "extract", "train --from"):
        done = run(*command.split(), out)
        assert (done.returncode, done.stdout, done.stderr) == (1, b"", message.encode()), command
    with pytest.raises(CheckpointError, match=re.escape(complaint)):
        stacktrans.load(out)


@pytest.mark.usefixtures("short_time_slices")
@pytest.mark.parametrize(("workers", "instead"), [(1, True), (2, False)])
def test_a_race_whose_directory_is_moved_ends_and_names_the_race(
    tmp_path: Path, two_rounds: Progress, workers: int, instead: bool
) -> None:
    place, moved = tmp_path / "run", tmp_path / "moved"
    found = begun(place, workers)

    def move() -> None:
        if place.exists() and not moved.exists():
            place.rename(moved)
            if instead:
                place.mkdir()

    with pytest.raises(StacktransError) as told_of, found.opened():
        found.run(move)
    resume = f"stacktrans train --resume {moved}"
    assert str(told_of.value).startswith(
        f"{place}: the run's directory was moved; resume it with: "
    )
    assert str(told_of.value).endswith(f": {resume}")
    if workers == 1:  # another process may be writing at that very moment
        assert not place.exists() or not any(place.iterdir())
    resumed = taken_up(moved, "cpu", workers=1)
    assert isinstance(resumed, Race)
    assert progress_of(carried_on(resumed, 2)) == two_rounds


@pytest.mark.usefixtures("short_time_slices")
def test_a_race_ended_by_a_full_disk_can_be_resumed(
    tmp_path: Path, two_rounds: Progress, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = begun(tmp_path / "run")
    monkeypatch.setattr(files, "write_flushed", full_at("training.pt", after=4))
    with found.opened(), pytest.raises(CheckpointError, match="No space left on device"):
        found.run(lambda: None)
    monkeypatch.undo()
    monkeypatch.setattr(scheduling, "TIME_SLICE", 10)
    resumed = taken_up(tmp_path / "run", "cpu", workers=1)
    assert isinstance(resumed, Race)
    assert progress_of(carried_on(resumed, 2)) == two_rounds


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "race.json: damaged (Invalid JSON"),
        ("[]", "race.json: damaged ("),
        ('{"candidates": {"../up": {}}}', "race.json: damaged ("),
        ("WINNER", "race.json: damaged (winner: other)"),
        ("STEP", "race.json: damaged (candidates.patient.step: "),
        ("LOSS", "race.json: damaged (candidates.patient.loss: "),
    ],
)
def test_a_damaged_race_file_is_an_error(tmp_path: Path, content: str, message: str) -> None:
    begun(tmp_path / "run")
    path = tmp_path / "run" / RACE
    state = json.loads(path.read_text())
    if content == "WINNER":
        state["winner"] = "other"
    elif content == "STEP":
        state["candidates"]["patient"]["step"] = -1
    elif content == "LOSS":
        state["candidates"]["patient"]["loss"] = float("nan")
    path.write_text(json.dumps(state) if content.isalpha() else content)
    done = run("train", "--resume", tmp_path / "run")
    assert done.returncode == 1
    assert message in done.stderr.decode()


@pytest.mark.usefixtures("short_time_slices")
@pytest.mark.parametrize("missing", ["config.yaml", "last"])
def test_a_run_that_is_missing_is_named(tmp_path: Path, missing: str) -> None:
    found = carried_on(begun(tmp_path / "run"), 1)
    path = found.directory_of("wide") / missing
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    done = run("train", "--resume", tmp_path / "run")
    assert done.returncode == 1
    assert f"{path}: missing; the race cannot continue without it" in done.stderr.decode()


@pytest.mark.usefixtures("short_time_slices")
def test_damage_to_a_run_ends_the_race_and_is_named(tmp_path: Path) -> None:
    found = carried_on(begun(tmp_path / "run"), 1)
    path = found.directory_of("wide") / "last" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-9])
    done = run("train", "--resume", tmp_path / "run", "--workers", "1")
    assert done.returncode == 1
    assert str(path) in done.stderr.decode()


def test_leftovers_of_a_race_that_did_not_begin_are_ignored(tmp_path: Path) -> None:
    found = begun(tmp_path / "run")
    (found.directory / CANDIDATES).rename(found.directory / f".{CANDIDATES}.new")
    (found.directory / f".{RACE}.123").touch()
    done = train("--max-steps", "1", out=tmp_path / "run")
    assert done.returncode == 0, done.stderr.decode()
