"""Sweeps: what they run and record, how they are resumed, and errors in a command."""

import dataclasses
import io
import json
import re
import shlex
import shutil
import sys
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pytest
from command_line import run
from matplotlib.figure import Figure
from rich.console import Console
from small_sweeps import MEASURES, RACED, records, sweep_file

import stacktrans
from stacktrans.settings import candidates, resolve
from stacktrans.settings.command import single_run_command
from stacktrans.settings.config import RunConfig
from stacktrans.settings.layers import SettingsLayer
from stacktrans.settings.resolve import strategies
from stacktrans.sweeps import plots
from stacktrans.sweeps.live import SweepDisplay
from stacktrans.sweeps.plan import PlannedRun, read_plan
from stacktrans.sweeps.store import SweepStore

pytestmark = pytest.mark.usefixtures("sweeps_here")

STACK = {"Stack": {"model": {"memory": "stack"}}}


def test_every_run_is_recorded_once(swept: Path) -> None:
    found = records(swept)
    expected = [(name, seed) for name in ("Stack", "Queue") for seed in (1, 2, 3)]
    assert [(record["condition"], record["axes"]["seed"]) for record in found] == expected
    assert len({record["identity"] for record in found}) == 6
    for record in found:
        assert record["measured"]["test"]["value"] == record["accuracy"]["test"]["fine"]
        assert set(record["measured"]["short"]["coarse"]) == {"1", "2", "3"}


def test_a_run_is_what_its_command_trains(swept: Path, tmp_path: Path) -> None:
    record = records(swept)[0]
    command = shlex.split(record["command"])
    assert command[:2] == ["stacktrans", "train"]
    assert run(*command[1:], "--out", tmp_path / "again").returncode == 0
    summary = json.loads((tmp_path / "again" / "summary.json").read_text())
    assert summary["test"] == record["accuracy"]["test"]
    (folder,) = (swept / "runs").glob(f"*{record['identity']}")
    weights = Path("best") / "model.safetensors"
    assert (tmp_path / "again" / weights).read_bytes() == (folder / weights).read_bytes()


@pytest.mark.parametrize(
    ("settings", "condition"),
    [
        ({"training": {"restart": None, "stop": None}},
         {"training": {"restart": {"after": 5}, "stop": {"solved": {}}}}),
        ({"training": {"restart": None}}, {}),
        ({}, {"training": {"restart": {"after": 5}}, "seed": "1e0"}),
    ],
)  # fmt: skip
def test_the_command_of_a_run_has_its_configuration(
    tmp_path: Path, settings: Any, condition: Any
) -> None:
    of_all = {"task": "copy", "model": {"memory": "queue"}, **settings}
    path = sweep_file(tmp_path, settings=of_all, conditions={"a": condition}, grid={"threads": [1]})
    (planned,) = read_plan(path).runs
    words = shlex.split(planned.command)
    shown = run(*words[1:], "--dry-run", "--json")
    assert shown.returncode == 0, shown.stderr.decode()
    assert RunConfig(**json.loads(shown.stdout)).identity() == planned.identity


@pytest.mark.parametrize("given", ["--set training.max_steps=50", "--set max_steps=50",
                                   "--max-steps 50", "--set seed=3"])  # fmt: skip
def test_the_command_of_a_winner_limits_its_steps(given: str) -> None:
    words = ["stacktrans", "train", "--task", "copy", "--memory", "stack", *given.split()]
    limited = single_run_command(words, "joint", 7)
    shown = run(*limited[1:], "--dry-run", "--json")
    assert json.loads(shown.stdout)["training"]["max_steps"] == 7
    assert single_run_command(words, "joint", None) == [*words, "--recipe", "joint"]


def test_finished_runs_are_not_repeated(swept: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in swept.glob("runs/*/*.json*")}
    done = run("sweep", swept.parent / "small.yaml", "--workers", "2", "--out", swept, "--json")
    assert b"6 runs, 6 of them done" in done.stderr
    assert {path: path.stat().st_mtime_ns for path in swept.glob("runs/*/*.json*")} == before
    assert json.loads(done.stdout)["runs"] == records(swept)


def test_only_a_sweep_with_something_to_do_has_a_live_table(
    swept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    console = Console(file=terminal)
    store = SweepStore(swept, read_plan(swept.parent / "small.yaml"))
    assert SweepDisplay(console, store, store.plan.runs).live is None
    store.records.clear()
    assert SweepDisplay(console, store, store.plan.runs).live


def test_records_suffice_without_the_folders_of_runs(swept: Path, tmp_path: Path) -> None:
    (tmp_path / "results.jsonl").write_bytes((swept / "results.jsonl").read_bytes())
    done = run("sweep", swept.parent / "small.yaml", "--out", tmp_path)
    assert b"6 runs, 6 of them done" in done.stderr
    assert (tmp_path / "results.jsonl").read_bytes() == (swept / "results.jsonl").read_bytes()


def test_another_measure_is_taken_of_finished_runs(swept: Path, tmp_path: Path) -> None:
    more: dict[str, Any] = {"long": {"of": "symbols"}, "score": {"of": "positions", "each": True}}
    measures = MEASURES | {name: {**more[name], "lengths": [8, 9], "count": 5} for name in more}
    path = sweep_file(tmp_path, measures=measures)
    out = shutil.copytree(swept, tmp_path / "out")
    trained = {file: file.stat().st_mtime_ns for file in out.glob("runs/*/summary.json")}
    assert run("sweep", path, "--only", "Queue", "--out", out, "--workers", "1").returncode == 0
    assert {file: file.stat().st_mtime_ns for file in trained} == trained
    found = [record["measured"] for record in records(out)]
    assert [measured.keys() > MEASURES.keys() for measured in found] == [False] * 3 + [True] * 3
    (folder,) = (out / "runs").glob(f"*{records(out)[-1]['identity']}")
    scores = stacktrans.load(folder).evaluate(lengths=(8, 9), each=True, count=5, beam=1)
    expected = mean(each.position_matches / each.symbols for each in scores.predictions)
    assert 0 < expected < 1
    assert found[-1]["score"]["value"] == pytest.approx(expected)


def test_a_race_is_the_same_with_more_strategies_of_one_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = sweep_file(tmp_path, conditions=RACED, grid={"seed": [1]})
    (both,) = read_plan(path).runs
    identity = both.identity
    assert {"joint", "buffered"} <= both.configs.keys()
    with monkeypatch.context() as patched:
        patched.setattr(candidates, "__version__", "99")
        assert read_plan(path).runs[0].identity != identity
    known = dict(strategies())
    known["more"] = known["joint"].model_copy(
        update={"settings": {"training": {"noise": {"gates": 1}}}}
    )
    for module in (candidates, resolve):
        monkeypatch.setattr(module, "strategies", lambda: known)
    monkeypatch.setattr(
        resolve, "strategy_layer", lambda name: SettingsLayer("", known[name].settings)
    )
    (more,) = read_plan(path).runs
    assert more.configs.keys() == {*both.configs, "more"}
    assert more.identity == identity
    sweep_file(tmp_path, conditions=RACED, grid={"seed": [1], "hidden_size": [7]})
    (wider,) = read_plan(path).runs
    assert wider.identity != identity
    sweep_file(tmp_path, conditions={"Stack": STACK["Stack"]}, grid={"seed": [1]})
    (alone,) = read_plan(path).runs
    assert alone.configs.keys() == {"default"}
    assert alone.identity == alone.config.identity()


def test_a_dry_run_runs_nothing(tmp_path: Path) -> None:
    done = run("sweep", sweep_file(tmp_path), "--dry-run", "--out", tmp_path / "out")
    assert done.returncode == 0
    lines = done.stdout.decode().splitlines()
    assert len(lines) == 6
    assert lines[4].startswith("to do\tQueue, seed 2\tstacktrans train ")
    assert done.stderr == b"stacktrans: 6 runs to do, 0 done\n"
    assert not (tmp_path / "out").exists()


def test_a_run_of_two_conditions_counts_once(tmp_path: Path) -> None:
    stack = {"model": {"memory": "stack"}, "training": {"learning_rate": 1e38, "restart": None}}
    path = sweep_file(tmp_path, conditions={"Stack": stack, "Again": stack}, grid={"seed": [1]})
    listed = run("sweep", path, "--dry-run", "--out", tmp_path / "out")
    assert listed.stderr == b"stacktrans: 1 run to do, 0 done\n"
    shown = run("sweep", path, "--out", tmp_path / "out").stderr.decode()
    assert "1 run, 0 of them done, in " in shown
    assert "[1/1] " in shown
    assert "1 of 1 run failed; " in shown


def test_a_dry_run_estimates_the_time_that_is_left(swept: Path, tmp_path: Path) -> None:
    _, *done = (swept / "results.jsonl").read_text().splitlines(True)
    out = tmp_path / "out"
    out.mkdir()
    slow = [json.dumps(json.loads(line) | {"seconds": 900.0}) + "\n" for line in done]
    (out / "results.jsonl").write_text("".join(slow))
    path = sweep_file(tmp_path)
    shown = run("sweep", path, "--dry-run", "--out", out).stderr.decode()
    left = "1 run to do, 5 done; about 15 minutes of training left, at the speed of these"
    assert shown == f"stacktrans: {left}\n"


def test_a_failing_run_is_recorded_and_the_others_continue(tmp_path: Path) -> None:
    path = sweep_file(
        tmp_path,
        conditions={
            "Exploding": {
                "model": {"memory": "stack"},
                "training": {"learning_rate": 1e38, "restart": None},
            },
            "Queue": {"model": {"memory": "queue"}},
        },
        grid={"seed": [1, 2]},
    )
    out = tmp_path / "out"
    done = run("sweep", path, "--workers", "2", "--out", out)
    assert done.returncode == 1
    assert b"2 of 4 runs failed; Exploding, seed 1: " in done.stderr
    assert ["error" in record for record in records(out)] == [True, True, False, False]
    assert "Exploding, seed 2: " in (out / "results.md").read_text()


def test_a_run_that_failed_is_tried_again(tmp_path: Path) -> None:
    path, out = sweep_file(tmp_path, conditions=STACK, grid={"seed": [1]}), tmp_path / "out"
    plan = read_plan(path)
    directory = SweepStore(out, plan).run_directory(plan.runs[0])
    directory.parent.mkdir(parents=True)
    directory.touch()  # a file, where the run needs a directory
    command = ("sweep", path, "--workers", "1", "--out", out)
    assert run(*command).returncode == 1
    assert ["error" in record for record in records(out)] == [True]
    directory.unlink()
    assert run(*command).returncode == 0
    assert ["error" in record for record in records(out)] == [False]


def test_a_cluster_that_is_not_there_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stacktrans.sweeps.execution.CONNECTION_SECONDS", 0.5)
    # A device that this machine lacks may be one of the cluster's.
    away = ("--cluster", "tcp://127.0.0.1:1", "--device", "xpu")
    done = run("sweep", sweep_file(tmp_path), *away, "--out", tmp_path / "out")
    assert done.returncode == 1
    assert b"cluster tcp://127.0.0.1:1: " in done.stderr


def test_a_cluster_needs_dask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    away = ("--cluster", "tcp://127.0.0.1:1")
    done = run("sweep", sweep_file(tmp_path), *away, "--out", tmp_path / "out")
    assert done.returncode == 2
    assert b"a cluster needs Dask: pip install distributed" in done.stderr


def test_a_profile_can_leave_an_axis_out(tmp_path: Path) -> None:
    grid = {"learning_rate": [0.1, 0.01], "seed": [1, 2]}
    small = {"grid": {"learning_rate": None}}
    path = sweep_file(tmp_path, grid=grid, profiles={"small": small})
    assert len(read_plan(path).runs) == 8
    runs = read_plan(path, "small").runs
    assert [run.name for run in runs[:2]] == ["Stack, seed 1", "Stack, seed 2"]
    assert len(runs) == 4


def test_a_wrong_file_runs_nothing(tmp_path: Path) -> None:
    path = sweep_file(tmp_path, conditions={"A": {"model": {"memory": "stak"}}})
    done = run("sweep", path, "--out", tmp_path / "out")
    assert (done.returncode, done.stdout) == (2, b"")
    assert "small.yaml:38: unknown memory 'stak'" in done.stderr.decode()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--profile", "smal"), "unknown profile 'smal'; did you mean 'small'?"),
        (("--only", "Deque"), "no run named 'Deque'; one is 'Stack, seed 1'"),
        (("--dry-run", "--out", "{file}/below"), "small.yaml is not a directory"),
        (("--workers", "0"), "--workers 0: expected a number of at least 1"),
        (("--workers", "1", "--cluster", "tcp://127.0.0.1:1"), "--workers: cannot be used"),
    ],
)
def test_wrong_options_are_named(tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    path = sweep_file(tmp_path, profiles={"small": {"grid": {"seed": [1]}}})
    options = tuple(option.format(file=path) for option in options)
    done = run("sweep", path, "--out", tmp_path / "out", *options)
    assert (done.returncode, done.stdout) == (2, b"")
    assert message in done.stderr.decode()


@pytest.mark.parametrize(
    "line",
    [
        b"{}",
        b"[1]",
        b'{"identity": "a", "measured": [1]}',
        b"\xff\xfe",
        b'{"identity": "a"}',
        pytest.param(b"[" * 100_000, id="nested"),
    ],
)
def test_damaged_records_are_named_and_kept(tmp_path: Path, line: bytes) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "results.jsonl").write_bytes(line + b"\n")
    done = run("sweep", sweep_file(tmp_path), "--out", out)
    assert done.returncode == 1
    assert b"results.jsonl:1: not a record of a run: " in done.stderr
    assert b"remove" not in done.stderr  # since it may be of something else
    assert (out / "results.jsonl").read_bytes() == line + b"\n"


def test_a_damaged_record_is_restored_without_a_new_run(swept: Path, tmp_path: Path) -> None:
    path, out = sweep_file(tmp_path), tmp_path / "out"
    shutil.copytree(swept, out)
    before = (out / "results.jsonl").read_bytes()
    first, second, *others = before.splitlines(keepends=True)
    (out / "results.jsonl").write_bytes(b"".join([first, second[:100], b"\n", *others]))
    done = run("sweep", path, "--workers", "1", "--out", out)
    hint = f"; remove this line: records are also read from {out / 'runs'}\n"
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"results.jsonl:2: not a record of a run: " in done.stderr
    assert done.stderr.decode().endswith(hint)
    for rest in ([first, *others], []):
        (out / "results.jsonl").write_bytes(b"".join(rest))
        done = run("sweep", path, "--workers", "1", "--out", out)
        assert b"6 runs, 6 of them done" in done.stderr
        assert (out / "results.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("name", "accuracy"),
    [
        ("results.jsonl", {}),
        ("results.jsonl", {"development": None}),
        ("results.jsonl", {"test": None}),
        ("record.json", {"test": None}),
    ],
)
def test_records_without_the_accuracy_that_chooses_a_winner_are_named(
    swept: Path, tmp_path: Path, name: str, accuracy: dict[str, Any]
) -> None:
    path = sweep_file(tmp_path, choose={"by": "test accuracy", "among": ["seed"]})
    (record, *_) = map(json.loads, (swept / "results.jsonl").read_text().splitlines())
    folder = next((swept / "runs").glob(f"*{record['identity']}")).name
    place = tmp_path / "out" if name == "results.jsonl" else tmp_path / "out" / "runs" / folder
    place.mkdir(parents=True)
    forged = {**record, "accuracy": accuracy}
    forged = {key: value for key, value in forged.items() if key not in ("condition", "axes")}
    (place / name).write_text(json.dumps(forged) + "\n")
    done = run("sweep", path, "--workers", "1", "--out", tmp_path / "out", "--dry-run")
    assert (done.returncode, done.stdout) == (1, b"")
    assert re.search(
        rf"{name}.*: damaged: .* without test accuracy; remove it", done.stderr.decode()
    )
    (place / name).unlink()
    again = run("sweep", path, "--workers", "1", "--out", tmp_path / "out", "--dry-run")
    assert again.returncode == 0


def test_records_of_other_runs_are_kept(swept: Path, tmp_path: Path) -> None:
    before = (swept / "results.jsonl").read_text().splitlines()
    (tmp_path / "results.jsonl").write_text("\n".join(before))
    path = sweep_file(tmp_path, grid={"seed": [1, 4]})
    done = run("sweep", path, "--only", "Queue, seed 4", "--workers", "1", "--out", tmp_path)
    assert done.returncode == 0, done.stderr.decode()
    after = (tmp_path / "results.jsonl").read_text().splitlines()
    assert len(after) == 7
    assert set(before) < set(after)
    found = re.search("3 of 4 runs, (.+?) of training", (tmp_path / "results.md").read_text())
    assert found
    assert re.fullmatch(r"\d+ (second|minute)s?", found[1])


def test_files_that_are_no_sweeps_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "results.csv").write_text("mine")
    (tmp_path / "runs").mkdir()
    done = run("sweep", sweep_file(tmp_path), "--out", tmp_path)
    assert done.returncode == 1
    assert b"results.csv: not written by a sweep; choose another directory" in done.stderr
    assert (tmp_path / "results.csv").read_text() == "mine"


def test_a_run_that_was_trained_further_is_an_error(swept: Path, tmp_path: Path) -> None:
    out = shutil.copytree(swept, tmp_path / "out")
    (folder,) = (out / "runs").glob(f"*{records(out)[0]['identity']}")
    assert run("train", "--resume", folder, "--max-steps", "11").returncode == 0
    path = sweep_file(tmp_path, measures={"m": {"of": "fine"}})
    done = run("sweep", path, "--only", "Stack, seed 1", "--workers", "1", "--out", out)
    assert done.returncode == 1
    assert b"config.yaml: differs from the planned configuration; remove " in done.stderr


def test_a_damaged_run_is_named(swept: Path, tmp_path: Path) -> None:
    out = shutil.copytree(swept, tmp_path / "out")
    (folder,) = (out / "runs").glob(f"*{records(out)[0]['identity']}")
    for name in ("results.jsonl", f"runs/{folder.name}/record.json"):
        (out / name).unlink()
    (folder / "summary.json").write_text('{"outcome": "sol')
    done = run("sweep", sweep_file(tmp_path), "--workers", "1", "--out", out)
    assert done.returncode == 1
    assert re.search(rb"summary\.json: damaged \(.*\); remove ", done.stderr)


def test_names_of_measures_become_safe_file_names_of_plots(tmp_path: Path) -> None:
    measures = {
        name: {"of": "coarse", "lengths": [1, 3], "each": True, "count": 1}
        for name in ("loss", "m/x", "m x", "../../escaped", "a $^$ b")
    }
    conditions = {"_hidden $x$": {"model": {"memory": "stack"}}}
    path = sweep_file(tmp_path, measures=measures, conditions=conditions, grid={})
    out = tmp_path / "deep" / "out"
    done = run("sweep", path, "--workers", "1", "--out", out, "--plot")
    assert done.returncode == 0, done.stderr.decode()
    pictures = sorted(tmp_path.glob("**/*.svg"))
    assert [picture.parent for picture in pictures] == [out] * 6
    assert [picture.name for picture in pictures][-2:] == [
        "copy-m-x-by-length-2.svg",
        "copy-m-x-by-length.svg",
    ]


@pytest.mark.parametrize(("figure", "middle"), [("median", 0.2), ("mean", 0.4)])
def test_a_curve_by_length_is_a_figure_of_the_runs_within_their_range(
    figure: str, middle: float, swept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = read_plan(swept.parent / "small.yaml")
    changed = plan.file.model_copy(update={"figure": figure})
    store = SweepStore(swept, dataclasses.replace(plan, file=changed))
    first, *_ = store.plan.runs
    runs = [run for run in store.plan.runs if run.condition == first.condition]
    shares = dict(zip((run.identity for run in runs), (0.1, 0.2, 0.9), strict=True))

    def by_length(_: SweepStore, run: PlannedRun, __: str) -> dict[int, float]:
        share = shares.get(run.identity)
        return {} if share is None else {4: share, 5: share}

    monkeypatch.setattr(plots, "_by_length", by_length)
    axis = Figure().subplots()
    plots._lengths(axis, store, store.plan.runs, "test")
    (line,) = axis.lines  # none of conditions without data
    assert line.get_ydata() == pytest.approx([middle, middle])
    assert figure in axis.get_ylabel()
    assert line.get_label() == f" {first.condition}"
    (band,) = [each for each in axis.collections if "FillBetween" in type(each).__name__]
    heights = np.array(band.get_paths()[0].vertices)[:, 1]
    assert (heights.min(), heights.max()) == pytest.approx((0.1, 0.9))


def test_curves_that_coincide_are_both_visible(
    swept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SweepStore(swept, read_plan(swept.parent / "small.yaml"))
    monkeypatch.setattr(plots, "_by_length", lambda *_: {4: 0.5, 5: 0.5})
    axis = Figure().subplots()
    plots._lengths(axis, store, store.plan.runs, "test")
    first, second = axis.lines
    assert first.get_linestyle() != second.get_linestyle()


def test_names_are_not_read_as_markup(tmp_path: Path) -> None:
    conditions = {"ratio 1:100:1 [red]x[/red]": {"model": {"memory": "stack"}}}
    path = sweep_file(tmp_path, conditions=conditions, grid={})
    done = run("sweep", path, "--workers", "1", "--out", tmp_path / "out")
    assert b"ratio 1:100:1 [red]x[/red]" in done.stdout
    assert b"ratio 1:100:1 [red]x[/red]" in done.stderr
