"""The command line: transduce, with files, pipes and signals."""

import gzip
import json
import math
import os
import signal
from pathlib import Path

import pytest
from command_line import run, start


def test_transduce_answers_line_by_line_in_order(model: Path, tmp_path: Path) -> None:
    lines = [b"abc", b"a", b"hello world".replace(b" ", b"-"), b"abc"]
    piped = run("transduce", model, stdin=b"\n".join(lines) + b"\n").stdout.splitlines()
    assert len(piped) == 4
    assert piped[0] == piped[3]
    alone = [run("transduce", model, stdin=line).stdout.rstrip(b"\n") for line in lines]
    assert piped == alone
    path = tmp_path / "lines.txt"
    path.write_bytes(b"\xef\xbb\xbf" + b"\r\n".join(lines))
    assert run("transduce", model, path).stdout.splitlines() == piped
    assert run("transduce", model, path, path).stdout.splitlines() == piped * 2


def test_transduce_names_bad_lines_and_continues(model: Path) -> None:
    done = run("transduce", model, stdin="abc\nab€\n\nabc\n\n".encode())
    answers = done.stdout.decode().split("\n")
    assert len(answers) == 6
    assert answers[0] == answers[3] != ""
    assert answers[1] == answers[2] == answers[4] == ""
    assert done.returncode == 1
    errors = [line for line in done.stderr.decode().splitlines() if "cut off" not in line]
    assert errors == ["stacktrans: standard input:2: symbol 3 is '€', which is not in the alphabet"]


def test_n_best_gives_one_answer_if_outputs_are_not_fed_back() -> None:
    done = run("transduce", "xor-buffered", "--n-best", "3", stdin=b"01\n10\n")
    assert len(done.stdout.splitlines()) == 2
    assert done.stderr.decode() == (
        "stacktrans: --n-best 3: outputs are not fed back, so each line has a single answer\n"
    )


def test_transduce_refuses_compressed_files(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "lines.gz"
    path.write_bytes(gzip.compress(b"abc\n"))
    done = run("transduce", model, path)
    assert (done.returncode, done.stdout) == (2, b"")
    assert f"{path}: compressed; expected lines of text" in done.stderr.decode()


def test_transduce_reads_binary_input_without_harm(model: Path) -> None:
    noise = bytes(range(256)) * 3
    done = run("transduce", model, stdin=noise + b"\nabc\n")
    assert done.returncode == 1
    lines = done.stdout.decode().split("\n")
    assert len(lines) == noise.count(b"\n") + 3
    assert lines[-2] == run("transduce", model, stdin=b"abc").stdout.decode().rstrip("\n")
    assert "is not UTF-8" in done.stderr.decode()


def test_transduce_prints_answers_as_json(model: Path) -> None:
    done = run("transduce", model, "--json", "--max-length", "4", stdin="abc\n€\n\n".encode())
    first, second, third = map(json.loads, done.stdout.decode().splitlines())
    assert first["source"] == "abc"
    assert 0 < first["probability"] <= 1
    assert len(first["output"]) <= 4
    assert isinstance(first["ended"], bool)
    assert second["output"] is None
    assert "'€'" in second["error"]
    assert (third["output"], third["probability"]) == ("", None)


def test_transduce_prints_hypotheses_of_a_beam_as_json(model: Path) -> None:
    lines = "abc\n€\n\nab\n".encode()
    greedy = run("transduce", model, "--json", stdin=lines).stdout.decode().splitlines()
    for width in (1, 3):
        done = run("transduce", model, "--json", "--beam", str(width), stdin=lines)
        found = [json.loads(line) for line in done.stdout.decode().splitlines()]
        assert [line["line"] for line in found] == [1, 2, 3, 4]
        assert "'€'" in found[1]["error"]
        assert found[2] == json.loads(greedy[2])
        for line in (found[0], found[3]):
            hypotheses = line["hypotheses"]
            assert len(hypotheses) == width
            assert hypotheses[0]["output"] == line["output"]
            assert hypotheses[0]["ended"] == line["ended"]
            assert math.exp(hypotheses[0]["log_probability"]) == line["probability"]
            scores = [each["log_probability"] for each in hypotheses]
            assert scores == sorted(scores, reverse=True)
            assert len({each["output"] for each in hypotheses}) == width
            if width == 1:
                del line["hypotheses"]
                assert line == json.loads(greedy[line["line"] - 1])


def test_transduce_prints_the_best_that_a_beam_found(model: Path) -> None:
    lines = b"abc\n\na\nabcabc\n"
    done = run("transduce", model, "--beam", "4", "--json", stdin=lines)
    best = [json.loads(line)["output"] for line in done.stdout.decode().splitlines()]
    printed = run("transduce", model, "--beam", "4", stdin=lines).stdout.decode()
    assert printed.split("\n") == [*best, ""]


@pytest.mark.parametrize(
    ("width", "message"),
    [
        ("0", "--beam 0: expected a number of at least 1"),
        ("5000", "a beam of 5000: expected at most 4096"),
    ],
)
def test_transduce_refuses_a_beam_of_nothing_or_too_much(
    model: Path, width: str, message: str
) -> None:
    done = run("transduce", model, "--beam", width, stdin=b"abc\n")
    assert (done.returncode, done.stdout) == (2, b"")
    assert message in done.stderr.decode()


@pytest.mark.parametrize("beam", [[], ["--beam", "3"]], ids=["greedy", "beam"])
def test_transduce_answers_while_the_pipe_stays_open(model: Path, beam: list[str]) -> None:
    process = start("transduce", model, *beam, stdin=True)
    assert process.stdin is not None
    assert process.stdout is not None
    for _ in range(2):
        process.stdin.write(b"abc\n")
        process.stdin.flush()
        assert process.stdout.readline().endswith(b"\n")
    rest, _ = process.communicate(timeout=60)
    assert (process.returncode, rest) == (0, b"")


def test_transduce_takes_a_very_long_line(model: Path) -> None:
    line = b"ab" * 10_000
    done = run("transduce", model, "--max-length", "50", stdin=line + b"\nabc\n")
    assert done.returncode == 0
    first, second = done.stdout.splitlines(keepends=True)
    assert len(first.decode().rstrip("\n")) <= 50
    assert second == run("transduce", model, "--max-length", "50", stdin=b"abc\n").stdout


def test_transduce_names_missing_files(model: Path, tmp_path: Path) -> None:
    done = run("transduce", model, "absent.txt")
    assert (done.returncode, done.stdout) == (2, b"")
    assert "absent.txt: No such file" in done.stderr.decode()
    done = run("transduce", model, tmp_path)
    assert done.returncode == 2
    assert "a directory" in done.stderr.decode()


def test_transduce_ends_with_130_when_interrupted(model: Path) -> None:
    process = start("transduce", model, stdin=True)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"abc\n")
    process.stdin.flush()
    assert process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors.replace(b"\n", b"")) == (130, b"")


def test_transduce_reads_pipes_and_dashes(model: Path) -> None:
    plain = run("transduce", model, stdin=b"abc\n").stdout
    reading, writing = os.pipe()
    os.write(writing, b"abc\n")
    os.close(writing)
    assert run("transduce", model, f"/dev/fd/{reading}").stdout == plain
    os.close(reading)
    assert run("transduce", model, "-", stdin=b"abc\n").stdout == plain


def test_workers_change_nothing_but_the_time(model: Path, tmp_path: Path) -> None:
    letters = ["abc", "b", "zzyx", "#"] * 200
    lines = [each * (number % 5) for number, each in enumerate(letters)]
    (tmp_path / "lines").write_text("".join(f"{line}\n" for line in lines))
    alone = run("transduce", model, tmp_path / "lines").stdout
    assert run("transduce", model, tmp_path / "lines", "--workers", "2").stdout == alone
    wrong = run("transduce", model, tmp_path / "lines", "--workers", "0")
    assert wrong.returncode == 2
    assert b"--workers" in wrong.stderr
