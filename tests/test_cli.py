"""The command line: generate, eval and inspect, and what all commands do with their streams."""

import errno
import json
import os
import re
from pathlib import Path

import pytest
import torch
from command_line import run, shell
from pair_files import OPTIONS

from stacktrans.commands import options


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
    ("arguments", "code", "message"),
    [
        (["--task", "copi"], 2, "'copi'; did you mean 'copy'? (see stacktrans list tasks)\n"),
        (["--task", "quux"], 2, "unknown task 'quux' (see stacktrans list tasks)\n"),
        (["--task", "copy", "--format", "xml"], 2, "stacktrans: --format: 'xml' is not one of"),
        (["--task", "copy", "--seed", "-1"], 2, "--seed: expected a number of at least 0; see"),
        ([], 2, "stacktrans: missing option '--task'; see "),
        (["--task", "copy", "--lengths", "9:3"], 2, "--lengths 9:3"),
        (["--task", "copy", "--lengths", "a:b"], 2, "--lengths a:b"),
        (["--task", "bigram-flip", "--lengths", "3"], 1, "lengths 3: none"),
        (["--task", "copy", "--count", "0"], 2, "--count 0"),
        (["--task", "copy", "--depth", "3"], 2, "depth: only for tasks with a grammar"),
        (["--task", "absent.yaml"], 2, "absent.yaml: No such file"),
        (["--task", "copy", "--out", "/nowhere/at/all.tsv"], 2, "all.tsv: no folder /nowhere/at"),
    ],
)
def test_generate_refuses(arguments: list[str], code: int, message: str) -> None:
    done = run("generate", *arguments)
    assert done.returncode == code
    assert message in done.stderr.decode()
    assert done.stdout == b""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a full device")
def test_what_was_printed_is_kept_if_another_file_is_full() -> None:
    command = ("eval", "copy-queue", "--count", "2", "--csv", "--predictions", "/dev/full")
    done = run(*command)
    assert done.returncode == 1
    assert done.stdout.startswith(b"checkpoint,")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a full device")
@pytest.mark.parametrize("command", ["--help", "--version", "generate --task copy --count 2000"])
def test_output_to_a_full_disk_is_an_error(command: str, tmp_path: Path) -> None:
    done = shell(f"stacktrans {command} >/dev/full", tmp_path)
    complaint = b"stacktrans: standard output: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, complaint)


@pytest.fixture(scope="module")
def compiled(model: Path) -> Path:
    """The model, once its code is in the cache, so that no command reports that it compiles."""
    assert shell(f"stacktrans verify {model}", model.parent).returncode == 1
    return model


def test_a_closed_pipe_keeps_the_exit_code_of_a_failed_verification(
    compiled: Path, tmp_path: Path
) -> None:
    done = shell(f"stacktrans verify {compiled} --json | true; exit ${{PIPESTATUS[0]}}", tmp_path)
    assert (done.returncode, done.stderr) == (1, b"")


def test_standard_output_that_is_a_file_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "all.tsv").write_text("ab\tab\n")
    command = "stacktrans generate --task copy --count 1 --out /dev/stdout >> all.tsv"
    done = shell(command, tmp_path)
    assert done.returncode == 2
    assert b"/dev/stdout: open already; expected the name of a file" in done.stderr
    assert (tmp_path / "all.tsv").read_text() == "ab\tab\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a full device")
@pytest.mark.parametrize("wrong", ["train --nothing", "list nothing"])
def test_a_wrong_command_exits_with_2_when_stderr_is_full(wrong: str, tmp_path: Path) -> None:
    assert shell(f"stacktrans {wrong} 2>/dev/full", tmp_path).returncode == 2


@pytest.mark.parametrize(
    ("command", "reader"),
    [
        ("--help", "true"),
        ("generate --task copy --count 20000", "head -n 1"),
        ("inspect {model} abc", "true"),
        ("transduce {model} lines", "true"),
    ],
)
def test_a_closed_pipe_ends_quietly(
    compiled: Path, tmp_path: Path, command: str, reader: str
) -> None:
    (tmp_path / "lines").write_text("abc\n" * 2000)
    words = f"stacktrans {command.format(model=compiled)} | {reader}; exit ${{PIPESTATUS[0]}}"
    done = shell(words, tmp_path)
    assert (done.returncode, done.stderr) == (0, b"")


def test_eval_prints_tables_and_the_same_numbers_as_json(model: Path) -> None:
    options = ("eval", model, "--lengths", "1:3", "--lengths", "5:5", "--count", "40")
    tables = run(*options).stdout.decode()
    assert "1:3" in tables
    assert re.search(r"^ *5 ", tables, re.MULTILINE)
    results = json.loads(run(*options, "--json").stdout)["results"]
    assert [entry["lengths"] for entry in results] == [[1, 3], [5, 5]]
    for entry in results:
        assert entry["count"] == 40
        assert 0 <= entry["coarse"] <= entry["fine"] <= 1
        low, high = entry["fine_interval"]
        assert low <= entry["fine"] <= high
        assert f"{entry['fine']:.3f} [{low:.3f}, {high:.3f}]" in tables
        assert sum(part["count"] for part in entry["by_length"]) == 40


def test_eval_refuses_each_length_of_data(model: Path) -> None:
    done = run("eval", model, "--each", "--data", "pairs.tsv")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"--each: cannot be used with --data" in done.stderr


def test_eval_reads_data(model: Path, tmp_path: Path) -> None:
    sources = [b"abc", b"de", b"fghij"]
    answers = run("transduce", model, stdin=b"\n".join(sources) + b"\n").stdout.splitlines()
    ended = [
        json.loads(line)["ended"]
        for line in run("transduce", model, "--json", stdin=b"\n".join(sources)).stdout.splitlines()
    ]
    right = [b"%s\t%s" % pair for pair in zip(sources, answers, strict=True)]
    path = tmp_path / "pairs.tsv"
    path.write_bytes(b"\n".join([*right, b"abd\tzzzzzz", b""]))
    (result,) = json.loads(run("eval", model, "--data", path, "--json").stdout)["results"]
    assert result["lengths"] == [2, 5]
    assert result["count"] == 4
    assert result["coarse"] == sum(ended) / 4
    # An empty source counts as a source, and a byte order mark is not part of one.
    path.write_bytes(b"\xef\xbb\xbf" + b"\n".join([*right, b"abd\tzzzzzz", b"\tzzzzzz"]))
    (result,) = json.loads(run("eval", model, "--data", path, "--json").stdout)["results"]
    assert (result["lengths"], result["count"]) == ([0, 5], 5)
    assert result["coarse"] == sum(ended) / 5


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"abc\tabc\nabc\n", "pairs.tsv:2: expected source, a tab, target; found 'abc'"),
        ("abc\tabc\na€c\tabc\ta\n".encode(), "pairs.tsv:2: expected source, a tab, target;"),
        (b"abc\tabc\n\xff\xfe\tabc\n", "pairs.tsv:2: byte 1 is 0xff"),
        (b"\n", "pairs.tsv: contains no pairs"),
    ],
)
def test_eval_names_what_is_wrong_with_data(
    model: Path, tmp_path: Path, content: bytes, message: str
) -> None:
    (tmp_path / "pairs.tsv").write_bytes(content)
    done = run("eval", model, "--data", "pairs.tsv", cwd=tmp_path)
    assert done.returncode == 1
    assert message in done.stderr.decode()


@pytest.mark.parametrize("command", [("eval", "--count", "1"), ("inspect", "abc")])
def test_the_folder_of_a_picture_is_checked_first(
    model: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    place = tmp_path / "nowhere" / "picture.svg"
    done = run(command[0], model, *command[1:], "--plot", place)
    assert (done.returncode, done.stdout) == (2, b"")
    assert f"{place}: no folder {place.parent}" in done.stderr.decode()


def test_eval_names_a_missing_file_or_checkpoint(model: Path) -> None:
    done = run("eval", model, "--data", "absent.tsv")
    assert (done.returncode, b"absent.tsv: No such file" in done.stderr) == (2, True)
    done = run("eval", "checkpoints/absent")
    assert (done.returncode, b"no such checkpoint" in done.stderr) == (2, True)


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
    first = json.loads(run("inspect", model, "--json", "--seed", "1").stdout)
    assert 8 <= len(first["source"]) <= 16
    second = json.loads(run("inspect", model, "--json", "--seed", "2").stdout)
    assert first["source"] != second["source"]
    long = json.loads(run("inspect", model, "--json", "--lengths", "30:30").stdout)
    assert len(long["source"]) == 30


def test_inspect_shows_a_sample_of_a_task_without_very_short_strings(tmp_path: Path) -> None:
    (tmp_path / "task.yaml").write_text(
        "name: mine\ngenerator: grammar\nlengths: {train: [1, 9], test: [10, 20]}\n"
        "parameters: {root: S, rules: {S: [{source: a b c d e, target: a},"
        " {source: a b c d e S:1, target: S:1}]}}\n"
    )
    small = ("--recipe", "default", "--memory", "stack", "--max-steps", "1", *OPTIONS)
    done = run("train", "--task", tmp_path / "task.yaml", *small, "--out", tmp_path / "run")
    assert done.returncode == 0, done.err
    shown = json.loads(run("inspect", tmp_path / "run", "--json", "--seed", "1").stdout)
    assert shown["source"] == "a b c d e"
    refused = run("inspect", tmp_path / "run", "--lengths", "1:2")
    assert refused.returncode == 1
    assert "has a length of 1:2" in refused.err


def test_inspect_names_standard_input_that_it_can_not_read(tmp_path: Path) -> None:
    done = shell("stacktrans inspect reverse-stack 0> written", tmp_path)
    assert (done.returncode, done.stderr) == (
        1,
        b"stacktrans: standard input: Bad file descriptor\n",
    )


def test_inspect_says_that_standard_input_is_empty(model: Path) -> None:
    done = run("inspect", model)
    assert (done.returncode, done.stdout) == (0, b"")
    assert b"standard input has no lines to show the steps over" in done.stderr


def test_inspect_shows_each_line_of_standard_input(model: Path) -> None:
    alone = [run("inspect", model, word).stdout for word in ("ab", "")]
    done = run("inspect", model, stdin=b"ab\r\n\n\xff\na b\nab")
    assert done.returncode == 1
    assert done.stdout == alone[0] + alone[1] + alone[0]
    first, second = done.stderr.decode().splitlines()
    assert first == "stacktrans: standard input:3: byte 1 is 0xff, which is not UTF-8"
    assert "standard input:4: symbol 2 is ' '" in second


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("inspect reverse-stack abc --seed 5", "STRING: cannot be used with --seed"),
        ("inspect reverse-stack abc --lengths 30", "STRING: cannot be used with --lengths"),
        ("inspect reverse-stack --stacks 1", "--stacks: for a model with several stacks"),
        ("extract anbncn --lengths 5:6", "--lengths needs --strings"),
        ("eval copy-queue --dat x", "no such option: --dat; did you mean '--data'? See"),
        ("extract anbncn --svg rules.png", "rules.png: expected a file that ends in .svg"),
        ("transduce reversal-stack --max-length 2", "--max-length: there is an output for each"),
        (
            "verify reversal-stack --longest 2000000",
            "a string of 2000000 symbols; expected at most",
        ),
    ],
)
def test_options_without_effect_are_refused(arguments: str, message: str) -> None:
    done = run(*arguments.split(), stdin=b"01##\n01##\n")
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode().count(message) == 1


@pytest.mark.parametrize("error", [MemoryError(), torch.OutOfMemoryError("CUDA out of memory.")])
def test_a_lack_of_memory_is_reported(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(options, "load_model", fail)
    done = run("inspect", "reverse-stack", "abc")
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.startswith(b"stacktrans: not enough memory")


def test_an_error_of_the_system_is_not_blamed_on_the_output(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(options, "load_model", fail)
    done = run("inspect", "reverse-stack", "abc")
    assert (done.returncode, done.stderr) == (1, b"stacktrans: Too many open files\n")


def test_out_follows_links_and_keeps_modes(tmp_path: Path) -> None:
    (tmp_path / "real.tsv").write_text("old")
    (tmp_path / "real.tsv").chmod(0o600)
    (tmp_path / "link.tsv").symlink_to("real.tsv")
    assert run("generate", "--task", "copy", "--out", "link.tsv", cwd=tmp_path).returncode == 0
    assert (tmp_path / "link.tsv").is_symlink()
    assert len((tmp_path / "real.tsv").read_text().splitlines()) == 10
    assert (tmp_path / "real.tsv").stat().st_mode & 0o777 == 0o600


def test_out_writes_to_a_pipe_as_it_is(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    assert run("generate", "--task", "copy", "--out", pipe).returncode == 0
    assert len(os.read(reading, 1 << 16).splitlines()) == 10
    os.close(reading)
    assert pipe.is_fifo()


def test_a_path_is_not_taken_for_the_shipped_model_of_that_name(tmp_path: Path) -> None:
    (tmp_path / "runs" / "copy-queue").mkdir(parents=True)
    for name, code in (("runs/copy-queue", 1), ("elsewhere/copy-queue", 2)):
        done = run("transduce", name, stdin=b"abc\n", cwd=tmp_path)
        assert (done.returncode, done.stdout) == (code, b"")
    assert run("transduce", "copy-queue", stdin=b"abc\n", cwd=tmp_path).stdout == b"abc\n"


@pytest.mark.parametrize(("name", "code"), [(".", 0), ("/", 1), ("", 2)])
def test_the_working_directory_is_a_checkpoint_only_if_named(
    model: Path, name: str, code: int
) -> None:
    assert run("inspect", name, "abc", cwd=model).returncode == code


def test_everything_is_utf_8_in_every_locale(model: Path, tmp_path: Path) -> None:
    plain = run("inspect", model, "abÀ").stdout
    odd = shell(f"stacktrans inspect {model} abÀ", tmp_path, PYTHONIOENCODING="ascii")
    assert odd.stdout == plain
