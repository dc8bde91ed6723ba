"""The command line: train, through real processes, pipes and signals."""

import json
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from command_line import (
    ENVIRONMENT,
    SMALL,
    STACKTRANS,
    TRAIN,
    hint_after,
    run,
    shell,
    start,
    wait_for,
)
from small_runs import assert_same_run, records_of

from stacktrans.training.trainer import Trainer

CPU = torch.device("cpu")


def test_help_of_everything() -> None:
    everything = run("--help").stdout.decode()
    for command in ("generate", "train", "eval", "transduce", "inspect", "list"):
        assert command in everything
        text = run(command, "--help").stdout.decode()
        assert f"stacktrans {command} " in text, "an example"
    assert run("--version").stdout.decode().startswith("stacktrans 0.")


def test_the_help_says_that_a_time_limit_is_the_run_s_total() -> None:
    text = " ".join(run("train", "--help").stdout.decode().replace("│", " ").split())
    assert "Time before --resume is included" in text


def test_wrong_commands_end_with_2() -> None:
    for arguments in (["trian"], ["train", "--tsk", "copy"], ["eval"], ["generate"]):
        done = run(*arguments)
        assert done.returncode == 2, arguments
        assert done.stderr


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
    other = ("--config", trained / "config.yaml", "--seed", "2", "--out", tmp_path / "other")
    assert run("train", *other).returncode == 0
    assert records_of(tmp_path / "other") != records_of(trained)


def test_train_chooses_a_free_directory(tmp_path: Path) -> None:
    for expected in ("copy-stack-4", "copy-stack-4-2"):
        done = run(
            *TRAIN, "--task", "copy", "--memory", "stack", "--seed", "4", "--max-steps", "1",
            *SMALL, cwd=tmp_path,
        )  # fmt: skip
        assert done.returncode == 0
        assert (tmp_path / "checkpoints" / expected / "summary.json").is_file()


def test_train_does_not_write_over_a_run(trained: Path) -> None:
    before = (trained / "metrics.jsonl").read_bytes()
    done = run(*TRAIN, "--task", "copy", "--memory", "queue", "--out", trained, *SMALL)
    assert done.returncode == 2
    assert f"{trained}: already exists" in done.stderr.decode()
    assert (trained / "metrics.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--task", "copy", "--recipe", "default"], "no memory given"),
        (["--task", "copy", "--recipe", "nope"], "stacktrans: --recipe: unknown recipe 'nope'"),
        (["--memory", "queue"], "no task given; expected --task with a name, such as copy"),
        (
            ["--task", "copy", "--memory", "quue"],
            "stacktrans: --memory: unknown memory 'quue'; did you mean 'queue'?\n",
        ),
        (
            ["--task", "copy", "--memory", "queue", "--hidden", "0"],
            "--hidden: expected a whole number from 1",
        ),
        (
            ["--task", "copy", "--controller", "lsmt", "--memory", "queue", "--hidden", "9"],
            "--controller: unknown controller 'lsmt'; did you mean 'lstm'?\n",
        ),
        (["--task", "copy", "--memory", "queue", "--set", "lr=1"], "setting lr=1"),
        (["--task", "copy", "--memory", "queue", "--time-limit", "soon"], "--time-limit soon"),
        (["--task", "copy", "--memory", "queue", "--time-limit", "1h30"], "--time-limit 1h30: exp"),
        (
            ["--task", "copy", "--memory", "queue", "--device", "abacus"],
            "abacus: expected auto, cpu",
        ),
        (["--config", "absent.yaml"], "absent.yaml"),
        (["--task", "copy", "--memory", "queue", "--out", "."], ".: already exists"),
        (["--task", "copy", "--recipe", "joint", "--out", "."], ".: already exists"),
        (["--text", "absent", "--memory", "none"], "absent: expected a directory"),
        (["--resume", "absent"], "absent: no run to resume here"),
        (["--resume", "absent", "--task", "copy"], "only --max-steps, --time-limit"),
        (
            ["--task", "bigram-flip", "--memory", "queue", "--set", "task.lengths.test=[9, 9]"],
            "9:9",
        ),
    ],
)
def test_train_and_a_dry_run_refuse_the_same_and_leave_nothing(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    (tmp_path / "something").touch()
    done, rehearsed = (
        run("train", *arguments, *more, cwd=tmp_path) for more in ([], ["--dry-run"])
    )
    assert done.returncode in (1, 2)
    assert message in done.stderr.decode()
    assert rehearsed == done
    assert [path.name for path in tmp_path.iterdir()] == ["something"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_is_saved_and_prints_how_to_resume(tmp_path: Path, number: int) -> None:
    out = tmp_path / "a run"
    process = start(*TRAIN, "--task", "copy", "--memory", "stack", "--out", out, *SMALL)
    wait_for(out / "metrics.jsonl")
    assert hint_after(process, number).endswith(f"resume with: stacktrans train --resume '{out}'")
    step = Trainer.resume(out, [], CPU).state.step
    done = run("train", "--resume", out, "--max-steps", str(step + 7), "--json")
    assert json.loads(done.stdout)["steps"] == step + 7


def test_a_second_interrupt_ends_at_once(tmp_path: Path) -> None:
    out = tmp_path / "run"
    # One batch takes long here.
    process = start(
        *TRAIN, "--task", "copy", "--memory", "deque", "--out", out,
        "--set", "task.lengths.train=[5000, 5000]", "--set", "kernel=torch",
    )  # fmt: skip
    wait_for(out / "last" / "training.pt")
    time.sleep(0.5)
    for _ in range(2):
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in errors.decode()
    assert Trainer.resume(out, [], CPU).state.step == 0


def test_eval_takes_the_task_s_ranges(trained: Path) -> None:
    results = json.loads(run("eval", trained, "--count", "10", "--json").stdout)["results"]
    assert [entry["lengths"] for entry in results] == [[1, 5], [6, 8]]


def test_a_terminal_gets_a_live_table(tmp_path: Path) -> None:
    if shutil.which("script") is None:
        pytest.skip("needs script(1)")
    words = [*STACKTRANS, *TRAIN, "--task", "copy", "--memory", "queue", "--out", "run", *SMALL]
    command = shlex.join([*words, "--max-steps", "10"])
    done = subprocess.run(
        ["script", "-qec", command, "/dev/null"],
        capture_output=True,
        env={**ENVIRONMENT, "TERM": "xterm"},
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0
    assert "perplexity" in done.stdout.decode()


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


def test_a_run_in_progress_cannot_be_resumed_by_another_process(tmp_path: Path) -> None:
    out = tmp_path / "run"
    process = start(*TRAIN, "--task", "copy", "--memory", "stack", "--out", out, *SMALL)
    wait_for(out / "metrics.jsonl")
    beside = run("train", "--resume", out)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert beside.returncode == 1
    assert f"{out}: another process is training here" in beside.stderr.decode()
    assert process.returncode == 130, errors.decode()


def test_runs_started_together_get_different_directories(tmp_path: Path) -> None:
    arguments = [*TRAIN, "--task", "copy", "--memory", "stack", "--max-steps", "2", *SMALL]
    together = [start(*arguments, cwd=tmp_path) for _ in range(2)]
    for process in together:
        process.communicate(timeout=120)
        assert process.returncode == 0
    assert len(list(tmp_path.glob("checkpoints/*/summary.json"))) == 2


def test_readers_may_leave_early(model: Path, tmp_path: Path) -> None:
    done = shell(f"stacktrans inspect {model} abc | true; echo ${{PIPESTATUS[0]}}", tmp_path)
    assert done.stdout == b"0\n"
    done = shell(
        "stacktrans train --recipe default --task copy --memory stack --max-steps 20 --out run "
        f"{shlex.join(SMALL)} 2>&1 >/dev/null | true; echo ${{PIPESTATUS[0]}}",
        tmp_path,
    )
    assert done.stdout == b"0\n"
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["steps"] == 20


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "read_rate=.inf"], "finite"),
        (["--set", "gate_bias.forgot=1"], "did you mean 'forget'"),
        (["--set", "signal_bias.pusch=1"], "did you mean 'push'"),
        (["--set", "layers=99999999999"], "layers"),
        (["--set", "threads=100000"], "threads"),
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
def test_train_refuses_odd_settings(tmp_path: Path, arguments: list[str], message: str) -> None:
    done = run(*TRAIN, "--task", "copy", "--memory", "queue", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr.decode()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: !!int ten\n", "odd.yaml:1: !!int cannot be used in settings"),
        ("seed: 1\nseed: 2\n", "odd.yaml:2: 'seed' appears twice"),
        ("recipes: {paper: {by_memory: 5}}\n", "by_memory: expected settings"),
        ("\nrecipes: {default: {}}\n", "odd.yaml:2: recipes.default: expected only paper"),
        ('format: "7"\n', "format"),
    ],
)
def test_train_refuses_odd_files(tmp_path: Path, text: str, message: str) -> None:
    options = ["--task", "copy", "--config", "odd.yaml"]
    if "recipes:" in text:
        text += (Path(__file__).parent.parent / "tasks" / "copy.yaml").read_text()
        options = ["--task", "odd.yaml", "--recipe", "paper"]
    (tmp_path / "odd.yaml").write_text(text)
    done = run("train", *options, "--memory", "queue", "--max-steps", "1", cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr.decode()
    assert [path.name for path in tmp_path.iterdir()] == ["odd.yaml"]


def test_a_disk_that_fills_up_while_training_is_an_error(tmp_path: Path) -> None:
    out = tmp_path / "run"
    limited = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000));"
        "from stacktrans.cli import main; main()"
    )
    done = subprocess.run(
        [
            *(sys.executable, "-c", limited),
            *(*TRAIN, "--task", "copy", "--memory", "stack", "--out", str(out), *SMALL),
        ],
        capture_output=True,
        env=ENVIRONMENT,
        check=False,
    )
    assert done.returncode == 1
    message = done.stderr.decode()
    assert "Traceback" not in message
    assert "can't write the checkpoint" in message or "File too large" in message
