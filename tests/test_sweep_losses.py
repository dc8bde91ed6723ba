"""Killing a sweep, its workers or its runs, or stopping it, loses nothing that was done."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import ENVIRONMENT, hint_after, run, start, wait_for
from small_sweeps import RACED, records, settings, sweep_file, without_seconds

from stacktrans.settings.resolve import strategies
from stacktrans.sweeps.execution import on_a_cluster, on_this_computer
from stacktrans.sweeps.plan import read_plan
from stacktrans.sweeps.records import parse_record, read_record
from stacktrans.sweeps.store import SweepStore
from stacktrans.sweeps.work import failure, work


@pytest.mark.usefixtures("sweeps_here")
def test_a_run_of_a_sweep_may_be_a_race_and_be_killed(tmp_path: Path) -> None:
    changes = settings("accuracy_every=10", "max_steps=20") | {"workers": 2}
    del changes["task"]
    # A task for which there are few strategies.
    grid = {"task": ["xor"], "seed": [1]}
    path = sweep_file(tmp_path, conditions=RACED, grid=grid, settings=changes)
    options = ("sweep", path, "--workers", "1", "--out")
    done = run(*options, tmp_path / "whole")
    assert done.returncode == 0, done.stderr.decode()
    (record,) = records(tmp_path / "whole")
    assert "--recipe" not in record["command"]
    assert record["strategy"] in strategies()
    assert record["won"] is False
    (folder,) = (tmp_path / "whole" / "runs").iterdir()
    assert folder.name.startswith("xor-stack-1-")
    assert not (folder / "race").exists()

    alone = shlex.split(record["alone"])
    assert alone[-4:] == ["--recipe", record["strategy"], "--max-steps", str(record["batches"])]
    assert run(*alone[1:], "--out", tmp_path / "alone").returncode == 0
    summary = json.loads((tmp_path / "alone" / "summary.json").read_text())
    assert summary["test"] == record["accuracy"]["test"]

    with start(*options, tmp_path / "killed") as process:
        wait_until(process, tmp_path / "killed", "runs/*/race/*/last/training.pt")
        process.kill()
    done = run(*options, tmp_path / "killed")
    assert done.returncode == 0, done.stderr.decode()
    assert without_seconds(tmp_path / "killed") == without_seconds(tmp_path / "whole")


def wait_until(
    process: subprocess.Popen[bytes], out: Path, files: str = "runs/*/running", count: int = 1
) -> None:
    """Wait until a sweep has so many such files, or ends."""
    while process.poll() is None and len([*out.glob(files)]) < count:
        time.sleep(0.02)


@pytest.mark.usefixtures("sweeps_here")
def test_a_sweep_that_is_killed_twice_loses_nothing(swept: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    options = ("sweep", swept.parent / "small.yaml", "--workers", "2", "--out", out)
    finished: dict[Path, int] = {}
    for moment in range(2):
        with start(*options) as process:
            # The workers of the first process may still finish their two runs.
            wait_until(process, out, "runs/*/record.json", count=3 * moment + 1)
            assert process.poll() is None
            process.kill()
        assert {path: path.stat().st_mtime_ns for path in finished} == finished
        finished = {path: path.stat().st_mtime_ns for path in out.glob("runs/*/record.json")}
        assert finished
    done = run(*options)
    assert done.returncode == 0, done.stderr.decode()
    assert {path: path.stat().st_mtime_ns for path in finished} == finished
    assert without_seconds(out) == without_seconds(swept)
    for metrics in out.glob("runs/*/metrics.jsonl"):
        steps = [json.loads(line)["step"] for line in metrics.read_text().splitlines()]
        assert steps == sorted(set(steps))


def test_an_interrupted_sweep_prints_how_to_resume(swept: Path, tmp_path: Path) -> None:
    process = start("sweep", swept.parent / "small.yaml", "--workers", "2", "--out", tmp_path)
    wait_until(process, tmp_path)
    hint = hint_after(process, signal.SIGTERM)
    assert "stopped; the same command continues from here" in hint


def test_two_sweeps_in_one_directory_share_the_work(swept: Path, tmp_path: Path) -> None:
    options = ("sweep", swept.parent / "small.yaml", "--workers", "1", "--out", tmp_path / "out")
    both = [start(*options) for _ in range(2)]
    for process in both:
        errors = process.communicate(timeout=240)[1]
        assert process.returncode == 0, errors.decode()
    assert without_seconds(tmp_path / "out") == without_seconds(swept)


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A Dask scheduler and two workers on loopback, of which a test kills the first."""
    folder = tmp_path_factory.mktemp("cluster")
    place = folder / "scheduler.json"
    dask = (sys.executable, "-m", "distributed.cli.dask_scheduler")
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": ENVIRONMENT}
    loopback = ("--host", "127.0.0.1", "--port", "0", "--no-dashboard")
    processes = [subprocess.Popen([*dask, *loopback, "--scheduler-file", str(place)], **quiet)]  # type: ignore[call-overload]
    wait_for(place)
    worker = (sys.executable, "-m", "distributed.cli.dask_worker", "--nthreads", "1", "--no-nanny")
    for number in range(2):
        directory = ("--local-directory", str(folder / f"worker-{number}"))
        words = [*worker, "--no-dashboard", "--scheduler-file", str(place), *directory]
        processes.append(subprocess.Popen(words, **quiet))  # type: ignore[call-overload]
    try:
        yield json.loads(place.read_text())["address"], processes[1:]
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_a_cluster_that_loses_a_worker_gives_the_same_table(
    swept: Path, tmp_path: Path, cluster: tuple[str, list[subprocess.Popen[bytes]]]
) -> None:
    address, workers = cluster
    out = tmp_path / "out"
    process = start("sweep", swept.parent / "small.yaml", "--cluster", address, "--out", out)
    wait_until(process, out, count=2)
    workers[0].kill()
    errors = process.communicate(timeout=240)[1]
    assert process.returncode == 0, errors.decode()
    assert without_seconds(out) == without_seconds(swept)
    assert len({record["identity"] for record in records(out)}) == 6


def test_sweeps_on_one_cluster_have_runs_of_their_own(
    swept: Path, tmp_path: Path, cluster: tuple[str, list[subprocess.Popen[bytes]]]
) -> None:
    plan = read_plan(swept.parent / "small.yaml")
    stores = [SweepStore(tmp_path / name, plan) for name in ("one", "other")]
    sweeps = [on_a_cluster([store.job(plan.runs[0], "cpu")], cluster[0]) for store in stores]
    for sweep, store in zip(sweeps, stores, strict=True):
        next(sweep)  # without its end, so that the scheduler keeps the result
        assert read_record(store.run_directory(plan.runs[0]))


def test_only_the_run_that_kills_its_process_fails(swept: Path, tmp_path: Path) -> None:
    plan = read_plan(swept.parent / "small.yaml")
    store = SweepStore(tmp_path / "out", plan)
    jobs = [store.job(planned, "cpu") for planned in plan.runs[:3]]
    jobs[1] = replace(jobs[1], measures=Deadly())  # type: ignore[arg-type]
    done = {job.run.identity: record for job, record in on_this_computer(jobs, workers=2)}
    errors = [done[job.run.identity].get("error") for job in jobs]
    assert errors == [None, "its process was killed", None]


def test_a_run_that_fails_later_keeps_its_measures(swept: Path) -> None:
    plan = read_plan(swept.parent / "small.yaml")
    job = SweepStore(swept, plan).job(plan.runs[0], "cpu")
    record = work(job)
    assert record
    failed = failure(job, "its process was killed")
    assert failed == {**record, "error": "its process was killed"}
    assert parse_record(json.dumps(failed)) == failed
    assert parse_record(json.dumps({**failed, "measured": 5})) is None
    assert parse_record(json.dumps({**failed, "seconds": None})) is None


class Deadly:
    """Measures that are the end of the process that takes them."""

    def items(self) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)
