"""The command line, through real processes, pipes and signals."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from small_runs import SETTINGS

from stacktrans import checkpoint
from stacktrans.config import resolve
from stacktrans.sequences import JointSequence
from stacktrans.transducer import Transducer

STACKTRANS = (sys.executable, "-m", "stacktrans")
ENVIRONMENT = {**os.environ, "COLUMNS": "200", "OMP_NUM_THREADS": "1"}
ENVIRONMENT.pop("NO_COLOR", None)
SMALL = [word for setting in (*SETTINGS, "accuracy_every=5") for word in ("--set", setting)]


def run(
    *arguments: str | Path, stdin: bytes | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[bytes]:
    done = subprocess.run(
        [*STACKTRANS, *map(str, arguments)],
        input=b"" if stdin is None else stdin,
        capture_output=True,
        env=ENVIRONMENT,
        cwd=cwd,
        check=False,
        timeout=240,
    )
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    return done


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of a model that has learned nothing, but gives various short answers."""
    config = resolve(
        task="copy",
        recipe="paper",
        options={"model": {"memory": "queue"}},
        assignments=["hidden_size=8", "memory_size=4", "embedding_size=4", "output_size=6"],
    )
    layout = JointSequence(128, 128)
    torch.manual_seed(36)
    transducer = Transducer(config.model, layout.inputs, layout.outputs)
    with torch.no_grad():
        # Larger weights, so that answers differ, and a likely end, so that they are short.
        for weight in transducer.parameters():
            weight.mul_(3)
        transducer.classifier.weight.mul_(10 / 3)
        transducer.classifier.bias[layout.end] = 6
    path = tmp_path_factory.mktemp("models") / "untrained"
    checkpoint.save(path, config, transducer.state_dict())
    return path


def test_help_of_everything() -> None:
    everything = run("--help").stdout.decode()
    for command in ("generate", "train", "eval", "transduce", "inspect"):
        assert command in everything
        text = run(command, "--help").stdout.decode()
        assert f"stacktrans {command} " in text, "an example"
    assert run("--version").stdout.decode().startswith("stacktrans 0.")


def test_help_does_not_wait_for_torch() -> None:
    code = "import sys; import stacktrans.cli; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_wrong_commands_end_with_2() -> None:
    for arguments in (["trian"], ["train", "--tsk", "copy"], ["eval"], ["generate"]):
        done = run(*arguments)
        assert done.returncode == 2, arguments
        assert done.stderr


# generate


def test_generate_writes_pairs() -> None:
    done = run("generate", "--task", "reverse", "--count", "5", "--lengths", "3:6", "--seed", "2")
    lines = done.stdout.decode().splitlines()
    assert len(lines) == 5
    for line in lines:
        source, target = line.split("\t")
        assert 3 <= len(source) <= 6
        assert target == source[::-1]
    again = run("generate", "--task", "reverse", "--count", "3", "--lengths", "3:6", "--seed", "2")
    assert again.stdout.decode().splitlines() == lines[:3]
    other = run("generate", "--task", "reverse", "--count", "5", "--lengths", "3:6", "--seed", "3")
    assert other.stdout != done.stdout


def test_generate_writes_json_lines_and_files(tmp_path: Path) -> None:
    out = tmp_path / "pairs.jsonl"
    options = ("generate", "--task", "svo-sov", "--count", "4", "--format", "jsonl")
    shown = run(*options)
    assert run(*options, "--out", out).stdout == b""
    assert out.read_bytes() == shown.stdout
    for line in shown.stdout.decode().splitlines():
        pair = json.loads(line)
        assert len(pair["source"].split()) >= 8
        assert pair["target"].split()[0].startswith("so")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--task", "copi"], "unknown task 'copi'; did you mean 'copy'?"),
        (["--task", "copy", "--lengths", "9:3"], "--lengths 9:3"),
        (["--task", "copy", "--lengths", "a:b"], "--lengths a:b"),
        (["--task", "bigram-flip", "--lengths", "3:3"], "3:3"),
        (["--task", "copy", "--count", "0"], "--count 0"),
        (["--task", "absent.yaml"], "absent.yaml: No such file"),
        (["--task", "copy", "--out", "/nowhere/at/all.tsv"], "/nowhere/at"),
    ],
)
def test_generate_refuses(arguments: list[str], message: str) -> None:
    done = run("generate", *arguments)
    assert done.returncode in (1, 2)
    assert message in done.stderr.decode()
    assert done.stdout == b""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a full device")
def test_a_full_disk_is_told() -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*STACKTRANS, "generate", "--task", "copy", "--count", "2000"],
            stdout=full,
            stderr=subprocess.PIPE,
            env=ENVIRONMENT,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.decode().strip() == "stacktrans: standard output: No space left on device"


@pytest.mark.parametrize("reader", [["head", "-n", "1"], ["true"]])
def test_a_closed_pipe_ends_quietly(model: Path, reader: list[str]) -> None:
    for arguments in (
        ["generate", "--task", "copy", "--count", "20000"],
        ["transduce", str(model), str(model / "config.yaml"), *[str(model / "config.yaml")] * 9],
    ):
        writer = subprocess.Popen(
            [*STACKTRANS, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=ENVIRONMENT,
        )
        subprocess.run(reader, stdin=writer.stdout, stdout=subprocess.DEVNULL, check=True)
        assert writer.stdout is not None
        assert writer.stderr is not None
        writer.stdout.close()
        errors = writer.stderr.read().decode()
        writer.stderr.close()
        writer.wait(timeout=60)
        assert "Broken pipe" not in errors
        assert "Traceback" not in errors


# train, and what it leaves behind


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("runs") / "run"
    done = run(
        "train", "--task", "copy", "--memory", "queue", "--max-steps", "20", "--out", directory,
        *SMALL,
    )  # fmt: skip
    assert done.returncode == 0
    assert "max_steps" in done.stdout.decode()
    progress = done.stderr.decode()
    assert re.search(
        r"batch 20 .*loss \d.*perplexity .*batches/s .*pop 0\.\d\d, push 0\.", progress
    )
    return directory


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
    assert summary["command"].startswith("stacktrans train --task copy")


def test_train_repeats_a_configuration(trained: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    done = run("train", "--config", trained / "config.yaml", "--out", again, "--json")
    summary = json.loads(done.stdout)
    assert summary["steps"] == 20
    weights = [(run / "last" / "model.safetensors").read_bytes() for run in (trained, again)]
    assert weights[0] == weights[1]
    assert (again / "config.yaml").read_text() == (trained / "config.yaml").read_text()


def test_train_chooses_a_free_directory(tmp_path: Path) -> None:
    for expected in ("copy-stack-4", "copy-stack-4-2"):
        done = run(
            "train", "--task", "copy", "--memory", "stack", "--seed", "4", "--max-steps", "1",
            *SMALL, cwd=tmp_path,
        )  # fmt: skip
        assert done.returncode == 0
        assert (tmp_path / "checkpoints" / expected / "summary.json").is_file()


def test_train_does_not_write_over_a_run(trained: Path) -> None:
    before = (trained / "metrics.jsonl").read_bytes()
    done = run("train", "--task", "copy", "--memory", "queue", "--out", trained, *SMALL)
    assert done.returncode == 2
    assert f"--out {trained}: something is there" in done.stderr.decode()
    assert (trained / "metrics.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--task", "copy"], "no memory given"),
        (["--memory", "queue"], "no task given"),
        (["--task", "copy", "--memory", "quue"], "did you mean 'queue'"),
        (["--task", "copy", "--memory", "queue", "--hidden", "0"], "hidden_size"),
        (["--task", "copy", "--memory", "queue", "--set", "lr=1"], "--set lr=1"),
        (["--task", "copy", "--memory", "queue", "--time-limit", "soon"], "--time-limit soon"),
        (["--task", "copy", "--memory", "queue", "--device", "abacus"], "--device abacus"),
        (["--config", "absent.yaml"], "absent.yaml"),
        (["--resume", "absent"], "absent: no run to resume here"),
        (["--resume", "absent", "--task", "copy"], "only its budgets"),
        (
            ["--task", "bigram-flip", "--memory", "queue", "--set", "task.lengths.test=[9, 9]"],
            "9:9",
        ),
    ],
)
def test_train_refuses_and_leaves_nothing(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    done = run("train", *arguments, cwd=tmp_path)
    assert done.returncode in (1, 2)
    assert message in done.stderr.decode()
    assert list(tmp_path.iterdir()) == []


def start(*arguments: str | Path, cwd: Path | None = None) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*STACKTRANS, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
        cwd=cwd,
    )


def wait_for(path: Path, size: int = 1) -> None:
    for _ in range(1200):
        if path.exists() and path.stat().st_size >= size:
            return
        time.sleep(0.05)
    raise AssertionError(f"{path} was not written")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupting_train_saves_and_says_how_to_go_on(tmp_path: Path, number: int) -> None:
    out = tmp_path / "a run"
    process = start("train", "--task", "copy", "--memory", "stack", "--out", out, *SMALL)
    wait_for(out / "metrics.jsonl")
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert "Traceback" not in errors.decode()
    hint = errors.decode().splitlines()[-1]
    assert hint.endswith(f"go on with: stacktrans train --resume '{out}'")
    step = checkpoint.load_training(out / "last")["progress"]["step"]
    done = run("train", "--resume", out, "--max-steps", str(step + 7), "--json")
    assert json.loads(done.stdout)["steps"] == step + 7


def test_a_second_interrupt_ends_at_once(tmp_path: Path) -> None:
    out = tmp_path / "run"
    # One batch takes long here.
    process = start(
        "train", "--task", "copy", "--memory", "deque", "--out", out,
        "--set", "task.lengths.train=[3000, 3000]", "--set", "batch_size=40",
    )  # fmt: skip
    wait_for(out / "last" / "training.pt")
    time.sleep(0.5)
    for _ in range(2):
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in errors.decode()
    assert checkpoint.load_training(out / "last")["progress"]["step"] == 0


def test_a_disk_that_fills_up_while_training_is_told(tmp_path: Path) -> None:
    out = tmp_path / "run"
    limited = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000));"
        "from stacktrans.cli import main; main()"
    )
    done = subprocess.run(
        [
            *(sys.executable, "-c", limited),
            *("train", "--task", "copy", "--memory", "stack", "--out", str(out), *SMALL),
        ],
        capture_output=True,
        env=ENVIRONMENT,
        check=False,
    )
    assert done.returncode == 1
    message = done.stderr.decode()
    assert "Traceback" not in message
    assert "can't write the checkpoint" in message or "File too large" in message


# eval


def test_eval_prints_tables_and_the_same_numbers_as_json(model: Path) -> None:
    options = ("eval", model, "--lengths", "1:3", "--lengths", "5:5", "--count", "40")
    tables = run(*options).stdout.decode()
    assert "1:3" in tables
    assert "5:5" in tables
    results = json.loads(run(*options, "--json").stdout)["results"]
    assert [entry["lengths"] for entry in results] == [[1, 3], [5, 5]]
    for entry in results:
        assert entry["count"] == 40
        assert 0 <= entry["coarse"] <= entry["fine"] <= 1
        low, high = entry["fine_interval"]
        assert low <= entry["fine"] <= high
        assert f"{entry['fine']:.3f} [{low:.3f}, {high:.3f}]" in tables
        assert sum(part["count"] for part in entry["by_length"]) == 40


def test_eval_takes_the_task_s_ranges(trained: Path) -> None:
    results = json.loads(run("eval", trained, "--count", "10", "--json").stdout)["results"]
    assert [entry["lengths"] for entry in results] == [[1, 5], [6, 8]]


def test_eval_reads_data(model: Path, tmp_path: Path) -> None:
    sources = [b"abc", b"de", b"fghij"]
    answers = run("transduce", model, stdin=b"\n".join(sources) + b"\n").stdout.splitlines()
    ended = [
        json.loads(line)["ended"]
        for line in run("transduce", model, "--json", stdin=b"\n".join(sources)).stdout.splitlines()
    ]
    right = [b"%s\t%s" % pair for pair in zip(sources, answers, strict=True)]
    path = tmp_path / "pairs.tsv"
    path.write_bytes(b"\n".join([*right, b"abc\tzzzzzz", b""]))
    (result,) = json.loads(run("eval", model, "--data", path, "--json").stdout)["results"]
    assert result["lengths"] == [2, 5]
    assert result["count"] == 4
    assert result["coarse"] == sum(ended) / 4


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"abc\tabc\nabc\n", "pairs.tsv:2: expected source, a tab, target; found 'abc'"),
        ("abc\tabc\na€c\tabc\n".encode(), "pairs.tsv:2: symbol 2 is '€'"),
        (b"abc\tabc\n\xff\xfe\tabc\n", "pairs.tsv:2: byte 1 is 0xff"),
        (b"\n", "pairs.tsv: holds no pairs"),
    ],
)
def test_eval_names_what_is_wrong_with_data(
    model: Path, tmp_path: Path, content: bytes, message: str
) -> None:
    (tmp_path / "pairs.tsv").write_bytes(content)
    done = run("eval", model, "--data", "pairs.tsv", cwd=tmp_path)
    assert done.returncode == 1
    assert message in done.stderr.decode()


def test_eval_names_a_missing_file_or_checkpoint(model: Path) -> None:
    done = run("eval", model, "--data", "absent.tsv")
    assert (done.returncode, b"absent.tsv: No such file" in done.stderr) == (2, True)
    done = run("eval", "checkpoints/absent")
    assert (done.returncode, b"no such checkpoint" in done.stderr) == (1, True)


# transduce


def test_transduce_answers_line_by_line_in_order(model: Path, tmp_path: Path) -> None:
    lines = [b"abc", b"a", b"hello world".replace(b" ", b"-"), b"abc"]
    piped = run("transduce", model, stdin=b"\n".join(lines) + b"\n").stdout.splitlines()
    assert len(piped) == 4
    assert piped[0] == piped[3]
    alone = [run("transduce", model, stdin=line).stdout.rstrip(b"\n") for line in lines]
    assert piped == alone
    path = tmp_path / "lines.txt"
    path.write_bytes(b"\r\n".join(lines))
    assert run("transduce", model, path).stdout.splitlines() == piped
    assert run("transduce", model, path, path).stdout.splitlines() == piped * 2


def test_transduce_names_bad_lines_and_goes_on(model: Path) -> None:
    done = run("transduce", model, stdin="abc\nab€\n\nabc\n\n".encode())
    answers = done.stdout.decode().split("\n")
    assert len(answers) == 6
    assert answers[0] == answers[3] != ""
    assert answers[1] == answers[2] == answers[4] == ""
    assert done.returncode == 1
    errors = [line for line in done.stderr.decode().splitlines() if "cut off" not in line]
    assert errors == [
        "stacktrans: standard input:2: symbol 3 is '€', which the model does not know"
    ]


def test_transduce_reads_binary_input_without_harm(model: Path) -> None:
    noise = bytes(range(256)) * 3
    done = run("transduce", model, stdin=noise + b"\nabc\n")
    assert done.returncode == 1
    lines = done.stdout.decode().split("\n")
    assert len(lines) == noise.count(b"\n") + 3
    assert lines[-2] == run("transduce", model, stdin=b"abc").stdout.decode().rstrip("\n")
    assert "is not UTF-8" in done.stderr.decode()


def test_transduce_says_as_json_what_it_did(model: Path) -> None:
    done = run("transduce", model, "--json", "--max-length", "4", stdin="abc\n€\n\n".encode())
    first, second, third = map(json.loads, done.stdout.decode().splitlines())
    assert first["source"] == "abc"
    assert 0 < first["probability"] <= 1
    assert len(first["output"]) <= 4
    assert isinstance(first["ended"], bool)
    assert second["output"] is None
    assert "'€'" in second["error"]
    assert (third["output"], third["probability"]) == ("", None)


def test_transduce_answers_while_the_pipe_stays_open(model: Path) -> None:
    process = subprocess.Popen(
        [*STACKTRANS, "transduce", str(model)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=ENVIRONMENT,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    for _ in range(2):
        process.stdin.write(b"abc\n")
        process.stdin.flush()
        assert process.stdout.readline().endswith(b"\n")
    process.stdin.close()
    assert process.wait(timeout=60) == 0
    process.stdout.close()


def test_transduce_takes_a_very_long_line(model: Path) -> None:
    line = b"ab" * 10_000
    done = run("transduce", model, "--max-length", "50", stdin=line + b"\nabc\n")
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 2


def test_transduce_names_missing_files(model: Path, tmp_path: Path) -> None:
    done = run("transduce", model, "absent.txt")
    assert (done.returncode, done.stdout) == (2, b"")
    assert "absent.txt: no such file" in done.stderr.decode()
    done = run("transduce", model, tmp_path)
    assert done.returncode == 2
    assert "a directory" in done.stderr.decode()


def test_transduce_ends_with_130_when_interrupted(model: Path) -> None:
    process = start("transduce", model)
    time.sleep(0.2)
    # stdin is inherited and empty or open; either way the process ends by itself or by this.
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode in (0, 130, -signal.SIGINT)
    assert b"Traceback" not in errors or process.returncode == -signal.SIGINT


# inspect


def test_inspect_shows_every_step(model: Path) -> None:
    text = run("inspect", model, "abc").stdout.decode()
    assert "LSTM 8, memory queue of 4" in text
    for column in ("step", "input", "output", "pop", "push", "read front"):
        assert column in text
    assert "|||" in text
    assert "answer: " in text
    entry = json.loads(run("inspect", model, "abc", "--json").stdout)
    steps = entry["steps"]
    assert [step["input"] for step in steps[:5]] == ["<s>", "a", "b", "c", "|||"]
    assert [step["output"] is None for step in steps[:5]] == [True] * 4 + [False]
    assert entry["expected"] == "abc"
    assert entry["correct"] == (entry["answer"] == "abc" and entry["ended"])
    for step in steps:
        assert set(step["signals"]) == {"pop", "push"}
        (parts,) = step["reads"].values()
        assert sum(part["weight"] for part in parts) <= 1 + 1e-5
        for part in parts:
            assert part["symbol"] == steps[part["step"] - 1]["input"]
        number = step["step"]
        assert re.search(rf"^\s*{number} .* {step['signals']['pop']:.2f} ", text, re.MULTILINE)


def test_inspect_shows_a_sample(model: Path) -> None:
    first = json.loads(run("inspect", model, "--json").stdout)
    assert 8 <= len(first["source"]) <= 16
    second = json.loads(run("inspect", model, "--json", "--seed", "2").stdout)
    assert first["source"] != second["source"]
    long = json.loads(run("inspect", model, "--json", "--lengths", "30:30").stdout)
    assert len(long["source"]) == 30


def test_inspect_names_an_unknown_symbol(model: Path) -> None:
    done = run("inspect", model, "a b")
    assert done.returncode == 1
    assert "symbol 2 is ' '" in done.stderr.decode()


def test_damaged_checkpoints_are_told(model: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(model, broken)
    os.truncate(broken / "model.safetensors", 900)
    for command in ("eval", "transduce", "inspect"):
        done = run(command, broken)
        assert done.returncode == 1, command
        assert "model.safetensors: truncated" in done.stderr.decode()


def test_a_terminal_gets_a_live_table(tmp_path: Path) -> None:
    if shutil.which("script") is None:
        pytest.skip("needs script(1)")
    words = [*STACKTRANS, "train", "--task", "copy", "--memory", "queue", "--out", "run", *SMALL]
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


def test_a_home_that_can_not_be_written_to_is_no_hindrance(model: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [*STACKTRANS, "transduce", str(model)],
        input=b"abc\n",
        capture_output=True,
        env={
            **{key: value for key, value in ENVIRONMENT.items() if key != "XDG_CACHE_HOME"},
            "HOME": "/proc/nowhere",
            "TMPDIR": str(tmp_path),
        },
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout == run("transduce", model, stdin=b"abc\n").stdout


# what people and systems do to a tool


def shell(command: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[bytes]:
    done = subprocess.run(
        ["bash", "-c", command.replace("stacktrans", shlex.join(STACKTRANS), 1)],
        capture_output=True,
        env={**ENVIRONMENT, **environment},
        cwd=cwd,
        check=False,
        timeout=240,
    )
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    return done


def test_out_follows_links_and_keeps_modes(tmp_path: Path) -> None:
    (tmp_path / "real.tsv").write_text("old")
    (tmp_path / "real.tsv").chmod(0o600)
    (tmp_path / "link.tsv").symlink_to("real.tsv")
    assert run("generate", "--task", "copy", "--out", "link.tsv", cwd=tmp_path).returncode == 0
    assert (tmp_path / "link.tsv").is_symlink()
    assert len((tmp_path / "real.tsv").read_text().splitlines()) == 10
    assert (tmp_path / "real.tsv").stat().st_mode & 0o777 == 0o600


def test_out_writes_to_a_pipe_as_it_is(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    done = shell("stacktrans generate --task copy --out pipe & cat pipe; wait", tmp_path)
    assert len(done.stdout.splitlines()) == 10
    assert (tmp_path / "pipe").is_fifo()


def test_wrong_budgets_do_not_harm_a_run(trained: Path) -> None:
    before = (trained / "last" / "config.yaml").read_text()
    done = run("train", "--resume", trained, "--max-steps", "-5")
    assert done.returncode == 2
    assert "training.max_steps" in done.stderr.decode()
    assert (trained / "last" / "config.yaml").read_text() == before


def test_runs_that_start_together_get_directories_of_their_own(tmp_path: Path) -> None:
    arguments = ["train", "--task", "copy", "--memory", "stack", "--max-steps", "2", *SMALL]
    together = [start(*arguments, cwd=tmp_path) for _ in range(2)]
    for process in together:
        process.communicate(timeout=120)
        assert process.returncode == 0
    assert len(list(tmp_path.glob("checkpoints/*/summary.json"))) == 2


def test_a_shipped_model_does_not_stand_in_for_one_of_one_s_own(tmp_path: Path) -> None:
    (tmp_path / "runs" / "copy-queue").mkdir(parents=True)
    for name in ("runs/copy-queue", "elsewhere/copy-queue"):
        done = run("transduce", name, stdin=b"abc\n", cwd=tmp_path)
        assert (done.returncode, done.stdout) == (1, b"")
    assert run("transduce", "copy-queue", stdin=b"abc\n", cwd=tmp_path).stdout == b"abc\n"


@pytest.mark.parametrize("name", [".", "/", ""])
def test_odd_names_of_checkpoints(model: Path, name: str) -> None:
    done = run("inspect", name, "abc", cwd=model)
    assert done.returncode == (0 if name in {".", ""} else 1)


def test_readers_may_leave_early(model: Path, tmp_path: Path) -> None:
    done = shell(f"stacktrans inspect {model} abc | true; echo ${{PIPESTATUS[0]}}", tmp_path)
    assert done.stdout == b"0\n"
    done = shell(
        "stacktrans train --task copy --memory stack --max-steps 20 --out run "
        f"{shlex.join(SMALL)} 2>&1 >/dev/null | true; echo ${{PIPESTATUS[0]}}",
        tmp_path,
    )
    assert done.stdout == b"0\n"
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["steps"] == 20


def test_closed_streams(model: Path, tmp_path: Path) -> None:
    assert shell(f"stacktrans transduce {model} <&-", tmp_path).returncode == 0
    assert shell(f"stacktrans inspect {model} abc >&-", tmp_path).returncode == 0
    done = shell(f"printf '€\\n' | stacktrans transduce {model} 2>&-", tmp_path)
    assert (done.returncode, done.stdout) == (1, b"\n")


def test_everything_is_utf_8_in_every_locale(model: Path, tmp_path: Path) -> None:
    plain = run("inspect", model, "abÀ").stdout
    odd = shell(f"stacktrans inspect {model} abÀ", tmp_path, PYTHONIOENCODING="ascii")
    assert odd.stdout == plain


def test_transduce_reads_pipes_and_dashes(model: Path, tmp_path: Path) -> None:
    plain = run("transduce", model, stdin=b"abc\n").stdout
    done = shell(f"stacktrans transduce {model} <(echo abc)", tmp_path)
    assert done.stdout == plain
    assert run("transduce", model, "-", stdin=b"abc\n").stdout == plain


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "learning_rate=.inf"], "finite"),
        (["--set", "gate_bias.forgot=1"], "did you mean 'forget'"),
        (["--set", "signal_bias.pusch=1"], "did you mean 'push'"),
        (["--set", "layers=99999999999"], "layers"),
        (["--set", "threads=100000"], "threads"),
        (["--set", "hidden_size=99999999"], "hidden_size"),
        (["--set", "lengths.test=[1, 1000000000]"], "no range"),
        (["--set", "task.name=x/../../y"], "name"),
        (["--set", "max_steps=2020-99-99"], "not readable as YAML"),
        (["--set", "parameters.symbols='12'"], "symbols is '12'"),
        (["--set", "parameters.foo=3"], "unknown parameter 'foo'"),
        (["--set", "format=2"], "format 2 is newer"),
        (["--set", "model.memory=[queue]"], "memory"),
        (["--device", "meta"], "--device meta"),
    ],
)
def test_train_refuses_odd_settings(tmp_path: Path, arguments: list[str], message: str) -> None:
    done = run("train", "--task", "copy", "--memory", "queue", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr.decode()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 2020-13-45\n", "not readable as YAML"),
        ("seed: 1\nseed: 2\n", "odd.yaml:2: 'seed' is there twice"),
        ("recipes: {default: {by_memory: 5}}\n", "by_memory: expected settings"),
        ("recipes: {defautl: {}}\n", "did you mean 'default'"),
        ('format: "7"\n', "format"),
    ],
)
def test_train_refuses_odd_files(tmp_path: Path, text: str, message: str) -> None:
    options = ["--task", "copy", "--config", "odd.yaml"]
    if text.startswith("recipes:"):
        text += (Path(__file__).parent.parent / "tasks" / "copy.yaml").read_text()
        options = ["--task", "odd.yaml"]
    (tmp_path / "odd.yaml").write_text(text)
    done = run("train", *options, "--memory", "queue", "--max-steps", "1", cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr.decode()
    assert [path.name for path in tmp_path.iterdir()] == ["odd.yaml"]


@pytest.mark.parametrize(
    "line", ['{"source": 5, "target": null}', "[" * 20_000, '{"source": "a"}', "abc\tabc"]
)
def test_eval_refuses_odd_json(model: Path, tmp_path: Path, line: str) -> None:
    (tmp_path / "odd.jsonl").write_text(line + "\n")
    done = run("eval", model, "--data", "odd.jsonl", cwd=tmp_path)
    assert done.returncode == 1
    assert "odd.jsonl:1: expected a JSON object" in done.stderr.decode()


def test_a_damaged_training_state_is_told(trained: Path, tmp_path: Path) -> None:
    for key, value in (("command", None), ("progress", {"steps": 1}), ("optimizer", {})):
        copy = tmp_path / key
        shutil.copytree(trained, copy)
        state = torch.load(copy / "last" / "training.pt", weights_only=True)
        if value is None:
            del state[key]
        else:
            state[key] = value
        torch.save(state, copy / "last" / "training.pt")
        done = run("train", "--resume", copy)
        assert done.returncode == 1
        assert "training.pt: damaged" in done.stderr.decode()
