"""The command train: what it makes, refuses and repeats, and how signals end it."""

import fcntl
import json
import os
import shutil
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from command_line import SMALL, TRAIN, hint_after, run, start, wait_for
from small_runs import CPU, assert_same_run, records_of

from stacktrans.common import files
from stacktrans.training.attempt import Attempt
from stacktrans.training.run_directory import create_run_directory
from stacktrans.training.trainer import Trainer


def test_the_help_says_that_a_time_limit_is_the_run_s_total() -> None:
    text = " ".join(run("train", "--help").stdout.decode().replace("│", " ").split())
    assert "Time before --resume is included" in text


def test_train_leaves_a_run(trained: Path) -> None:
    assert sorted(path.name for path in trained.iterdir()) == [
        "best",
        "config.yaml",
        "last",
        "metrics.jsonl",
        "summary.json",
    ]
    summary = json.loads((trained / "summary.json").read_text())
    assert summary["steps"] == 20
    assert summary["command"].startswith("stacktrans train --recipe default --task copy")
    assert summary["model"] == "copy: LSTM 8, memory queue of 4, embeddings 4"


def test_train_repeats_a_configuration(trained: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    done = run("train", "--config", trained / "config.yaml", "--out", again, "--json")
    summary = json.loads(done.stdout)
    assert summary["steps"] == 20
    assert_same_run(trained, again)
    assert (again / "config.yaml").read_text() == (trained / "config.yaml").read_text()
    other = ("--config", trained / "config.yaml", "--seed", "2", "--max-steps", "5")
    assert run("train", *other, "--out", tmp_path / "other").returncode == 0
    assert records_of(tmp_path / "other")[0]["loss"] != records_of(trained)[0]["loss"]


def test_train_chooses_a_free_directory(tmp_path: Path) -> None:
    (tmp_path / "checkpoints" / "copy-stack-4").mkdir(parents=True)
    done = run(
        *TRAIN, "--task", "copy", "--memory", "stack", "--seed", "4", "--max-steps", "1",
        *SMALL, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0
    assert (tmp_path / "checkpoints" / "copy-stack-4-2" / "summary.json").is_file()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--task", "copy", "--recipe", "default"], 2, "no memory given"),
        (
            ["--task", "copy", "--set", "memory=5"],
            2,
            "expected a name such as queue+stack (given: 5)",
        ),
        (["--task", "copy", "--recipe", ""], 2, "unknown recipe ''"),
        (["--task", "copy", "--config", ""], 2, "--config: expected the name of a file"),
        (["--task", ""], 2, "unknown task ''"),
        (["--task", "copy", "--recipe", "nope"], 2, "stacktrans: --recipe: unknown recipe 'nope'"),
        (["--memory", "queue"], 2, "no task given; expected a task (a name such as copy"),
        (
            ["--task", "copy", "--memory", "quue"],
            2,
            "stacktrans: --memory: unknown memory 'quue'; did you mean 'queue'?\n",
        ),
        (
            ["--task", "copy", "--memory", "queue", "--hidden", "0"],
            2,
            "--hidden: expected a whole number from 1",
        ),
        (
            ["--task", "copy", "--controller", "lsmt", "--memory", "queue", "--hidden", "9"],
            2,
            "--controller: unknown controller 'lsmt'; did you mean 'lstm'?\n",
        ),
        (["--task", "copy", "--memory", "queue", "--set", "lr=1"], 2, "setting lr=1"),
        (["--task", "copy", "--memory", "queue", "--time-limit", "soon"], 2, "--time-limit soon"),
        (
            ["--task", "copy", "--memory", "queue", "--time-limit", "1h30"],
            2,
            "--time-limit 1h30: exp",
        ),
        (
            ["--task", "copy", "--memory", "queue", "--device", "abacus"],
            2,
            "abacus: expected auto, cpu",
        ),
        (["--config", "absent.yaml"], 2, "absent.yaml"),
        (["--task", "copy", "--memory", "queue", "--out", "."], 2, ".: already exists"),
        (["--task", "copy", "--recipe", "joint", "--out", "."], 2, ".: already exists"),
        (["--task", "copy", "--recipe", "joint", "--out", "something/x"], 2, "not a directory"),
        (["--text", "absent", "--memory", "none"], 2, "absent: expected a directory"),
        (["--resume", "absent"], 1, "absent: no run to resume here"),
        (["--resume", "absent", "--task", "copy"], 2, "only --max-steps, --time-limit"),
        (
            ["--task", "bigram-flip", "--memory", "queue", "--set", "task.lengths.test=[9, 9]"],
            1,
            "lengths 9: none",
        ),
    ],
)
def test_train_and_a_dry_run_refuse_the_same_and_leave_nothing(
    tmp_path: Path, arguments: list[str], code: int, message: str
) -> None:
    (tmp_path / "something").touch()
    done, rehearsed = (
        run("train", *arguments, *more, cwd=tmp_path) for more in ([], ["--dry-run"])
    )
    assert done.returncode == code
    assert message in done.stderr.decode()
    assert rehearsed == done
    assert [path.name for path in tmp_path.iterdir()] == ["something"]


@pytest.mark.parametrize(
    ("accepted", "rounding"),
    [("soft", "lossless"), ("discrete", "discrete"), ("machine", "machine")],
)
def test_rounding_depends_on_the_solutions_that_are_accepted(accepted: str, rounding: str) -> None:
    options = ("--task", "copy", "--memory", "queue", "--accept", accepted)
    done = run(*TRAIN, *options, "--dry-run", "--json")
    assert json.loads(done.stdout)["training"]["rounding"] == rounding


def test_an_interrupted_run_is_saved_and_prints_how_to_resume(tmp_path: Path) -> None:
    out = tmp_path / "a run"
    process = start(*TRAIN, "--task", "copy", "--memory", "stack", "--out", out, *SMALL)
    wait_for(out / "metrics.jsonl")
    hint = hint_after(process, signal.SIGINT)
    assert hint.endswith(f"resume with: stacktrans train --resume '{out}'")
    step = Trainer.resume(out, [], CPU).state.step
    done = run("train", "--resume", out, "--max-steps", str(step + 7), "--json")
    assert json.loads(done.stdout)["steps"] == step + 7


@pytest.mark.parametrize(
    ("signals", "code", "step"),
    [([signal.SIGTERM], 143, 1), ([signal.SIGINT, signal.SIGINT], 130, 0)],
)
def test_a_run_ends_after_its_batch_or_at_the_second_signal_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, signals: list[int], code: int, step: int
) -> None:
    train_on_batch = Attempt.train_on_batch

    def interrupted(attempt: Attempt) -> None:
        for number in signals:
            os.kill(os.getpid(), number)
        train_on_batch(attempt)

    monkeypatch.setattr(Attempt, "train_on_batch", interrupted)
    words = (*TRAIN, "--task", "copy", "--memory", "stack", *SMALL)
    assert run(*words, "--out", tmp_path / "run").returncode == code
    assert Trainer.resume(tmp_path / "run", [], CPU).state.step == step


def test_eval_takes_the_task_s_ranges(trained: Path) -> None:
    results = json.loads(run("eval", trained, "--count", "10", "--json").stdout)["results"]
    assert [entry["lengths"] for entry in results] == [[1, 5], [6, 8]]


def test_wrong_budgets_do_not_harm_a_run(trained: Path) -> None:
    before = (trained / "last" / "config.yaml").read_text()
    done = run("train", "--resume", trained, "--max-steps", "-5")
    assert done.returncode == 2
    assert "--max-steps: expected a whole number" in done.stderr.decode()
    assert (trained / "last" / "config.yaml").read_text() == before


def test_a_run_that_is_given_more_steps_equals_one_that_had_them_at_once(
    trained: Path, tmp_path: Path
) -> None:
    shutil.copytree(trained, tmp_path / "run")
    done = run("train", "--resume", tmp_path / "run", "--max-steps", "22")
    assert done.returncode == 0
    config = (tmp_path / "run" / "config.yaml").read_text()
    assert config == (trained / "config.yaml").read_text().replace("steps: 20", "steps: 22")
    again = ("--config", tmp_path / "run" / "config.yaml", "--out", tmp_path / "again")
    assert run("train", *again).returncode == 0
    assert_same_run(tmp_path / "again", tmp_path / "run")


def test_a_run_in_progress_cannot_be_resumed_by_another_process(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "END_SECONDS", 0)
    shutil.copytree(trained, tmp_path / "run")
    with open(tmp_path / "run" / "metrics.jsonl", "rb") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        done = run("train", "--resume", tmp_path / "run", "--max-steps", "21")
    assert done.returncode == 1
    assert f"{tmp_path / 'run'}: another process is training here" in done.stderr.decode()


def test_runs_started_together_get_different_directories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        assert len({*pool.map(lambda _: create_run_directory(None, "copy-stack-1"), range(8))}) == 8


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "read_rate=.inf"], "finite"),
        (["--set", "gate_bias.forgot=1"], "did you mean 'forget'"),
        (["--set", "signal_bias.pusch=1"], "did you mean 'push'"),
        (["--set", "hidden_size=99999999"], "hidden_size"),
        (["--set", "lengths.test=[1, 1000000000]"], "longest <= 1000000"),
        (["--set", "task.name=x/../../y"], "name"),
        (["--set", "max_steps=!!int ten"], "not readable as YAML"),
        (["--set", "parameters.symbols='12'"], "symbols is '12'"),
        (["--set", "parameters.foo=3"], "unknown parameter 'foo'"),
        (["--set", "format=2"], "format: expected 3"),
        (["--set", "model.memory=[queue]"], "memory"),
        (["--device", "meta"], "device meta"),
    ],
)
def test_train_refuses_invalid_settings(tmp_path: Path, arguments: list[str], message: str) -> None:
    done = run(*TRAIN, "--task", "copy", "--memory", "queue", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr.decode()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: !!int ten\n", "invalid.yaml:1: !!int cannot be used in settings"),
        ("seed: 1\nseed: 2\n", "invalid.yaml:2: 'seed' appears twice"),
        ("recipes: {paper: {by_memory: 5}}\n", "by_memory: expected settings"),
        ("\nrecipes: {default: {}}\n", "invalid.yaml:2: recipes.default: expected only paper"),
        ('format: "7"\n', "format"),
    ],
)
def test_train_refuses_invalid_files(tmp_path: Path, text: str, message: str) -> None:
    options = ["--task", "copy", "--config", "invalid.yaml"]
    if "recipes:" in text:
        text += (Path(__file__).parent.parent / "tasks" / "copy.yaml").read_text()
        options = ["--task", "invalid.yaml", "--recipe", "paper"]
    (tmp_path / "invalid.yaml").write_text(text)
    done = run("train", *options, "--memory", "queue", "--max-steps", "1", cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr.decode()
    assert [path.name for path in tmp_path.iterdir()] == ["invalid.yaml"]
