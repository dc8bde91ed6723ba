"""The command line: what eval writes and shows of a model's answers, and of several models."""

import csv
import json
import math
from pathlib import Path

import pytest
from command_line import run
from soft_models import SOFT
from test_answer_limit import tripling

import stacktrans

PAIRS = "abc\tcba\nhello\tolleh\nab\tbb\n\nabcdef\tfedcb\nx\tx\n"
ANSWERS = ["cba", "olleh", "ba", "fedcba", "x"]
RIGHT = ["right", "right", "wrong", "wrong", "right"]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Pairs of reversal, two of them wrong."""
    path = tmp_path / "pairs.tsv"
    path.write_text(PAIRS, encoding="utf-8")
    return path


def rows_and_logs(path: Path) -> tuple[list[str], list[float]]:
    """The lines of a file of predictions, and their last column, the log probability of answers."""
    rows = [line.rsplit("\t", 1) for line in path.read_text("utf-8").splitlines()]
    return [row for row, _ in rows], [float(log) for _, log in rows]


def test_predictions_are_written_as_tsv(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.tsv"
    done = run("eval", "reverse-stack", "--data", data, "--predictions", out)
    assert done.returncode == 0
    assert b"coarse" in done.stdout
    pairs = [line for line in PAIRS.splitlines() if line]
    expected = zip(pairs, ANSWERS, RIGHT, strict=True)
    written, logs = rows_and_logs(out)
    assert written == ["\t".join(fields) for fields in expected]
    lines = "".join(f"{pair.split()[0]}\n" for pair in pairs).encode()
    answered = run("transduce", "reverse-stack", "--json", stdin=lines).stdout.splitlines()
    probabilities = [json.loads(line)["probability"] for line in answered]
    assert [math.exp(log) for log in logs] == pytest.approx(probabilities, abs=1e-6)
    searched = tmp_path / "searched.tsv"
    run("eval", "reverse-stack", "--data", data, "--predictions", searched, "--beam", "3")
    assert rows_and_logs(searched)[0] == written
    assert rows_and_logs(searched)[1] == pytest.approx(logs, abs=1e-5)


def test_derivations_are_drawn_up_to_a_depth() -> None:
    options = ("--depth", "6", "--count", "50", "--json")
    (found,) = json.loads(run("eval", "parenthesis-stack", *options).stdout)["results"]
    # hao2018 trains on lengths of 2 to 20 for this depth.
    assert (found["lengths"], found["count"]) == ([2, 20], 50)
    measured = stacktrans.load("parenthesis-stack").evaluate(depth=6, count=50)
    assert (measured.lengths, measured.count) == ((2, 20), 50)
    assert (measured.coarse, measured.fine) == (found["coarse"], found["fine"])


def test_predictions_are_written_as_json_lines(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    run("eval", "reverse-stack", "--data", data, "--predictions", out)
    found = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert [entry["answer"] for entry in found] == ANSWERS
    assert [entry["right"] for entry in found] == [right == "right" for right in RIGHT]
    assert -0.1 < found[2].pop("log_probability") < 0
    assert found[2] == {"source": "ab", "target": "bb", "answer": "ba", "right": False}


def test_predictions_are_printed_and_tables_beside_them(data: Path) -> None:
    done = run("eval", "reverse-stack", "--data", data, "--predictions", "-")
    assert [line.split("\t")[2] for line in done.stdout.decode().splitlines()] == ANSWERS
    assert "error rate" in done.stderr.decode()


def test_predictions_are_those_of_transduce(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.tsv"
    options = ("--lengths", "1:3", "--lengths", "6:7", "--count", "20")
    done = run("eval", model, *options, "--predictions", out, "--json")
    lines = [line.split("\t") for line in out.read_text("utf-8").splitlines()]
    assert len(lines) == 40
    assert [len(source) <= 3 for source, *_ in lines] == [True] * 20 + [False] * 20
    sources = "".join(f"{source}\n" for source, *_ in lines)
    answers = run("transduce", model, stdin=sources.encode()).stdout.decode()
    assert [answer for _, _, answer, *_ in lines] == answers.split("\n")[:-1]
    plain = json.loads(run("eval", model, *options, "--json").stdout)["results"]
    for result, before in zip(json.loads(done.stdout)["results"], plain, strict=True):
        assert result.pop("symbol_error_rate") > 0.5
        for part in result["by_length"]:
            assert part.pop("symbol_error_rate") > 0
        assert result == before


def test_predictions_are_written_whole_or_not_at_all(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.tsv"
    out.write_text("before", encoding="utf-8")
    data.write_text("abc\tcba\nab€\n", encoding="utf-8")
    done = run("eval", "reverse-stack", "--data", data, "--predictions", out)
    assert done.returncode == 1
    assert f"{data}:2: expected source, a tab, target; found 'ab€'" in done.stderr.decode()
    assert out.read_text("utf-8") == "before"
    assert {path.name for path in tmp_path.iterdir()} == {"out.tsv", "pairs.tsv"}
    for place, message in (("absent/out.tsv", "no folder"), (".", "expected a file")):
        done = run("eval", "reverse-stack", "--predictions", place, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, b"")
        assert message in done.stderr.decode()


UNKNOWN = {  # of each model, pairs and its answers, which are empty for unknown symbols
    "reverse-stack": ("abc\tcba\nab€\t€ba\nabc\tcb€\n€\t\n\t€\n", ["cba", "", "", "", ""]),
    "anbn": ("aaab\tbb\naxb\tb\naab\tq\n", ["bb", "", ""]),
    "memorization": ("12=\t21\n1?=\t?1\n21=\t12\n", ["21", "", "12"]),
    "reversal-stack": ("01##\t##10\n0x##\t##x0\n01##\t##1y\n", ["··10", "", ""]),
    "parenthesis-stack": ("()(\t)()\n(x(\t)()\n((\t(x\n", [")·)", "", ""]),
    "xor-buffered": ("0110\t0100\n01x0\t0111\nq\tq\n", ["0100", "", ""]),
}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        *((name, ()) for name in UNKNOWN),
        *((name, ("--hard",)) for name in ("reverse-stack", "xor-buffered")),
        *((name, ("--beam", "2")) for name in ("reverse-stack", "anbn")),
    ],
)
def test_pairs_with_unknown_symbols_are_wrong_and_the_others_are_measured(
    name: str, options: tuple[str, ...], tmp_path: Path
) -> None:
    text, answers = UNKNOWN[name]
    data, out = tmp_path / "data.tsv", tmp_path / "out.tsv"
    data.write_text(text, encoding="utf-8")
    shown = ["--predictions", str(out), "--errors", "9", "--json"]
    done = run("eval", name, "--data", data, *options, *shown)
    assert done.returncode == 0
    lines, found = text.splitlines(), json.loads(done.stdout)
    answered = [line.split("\t") for line in out.read_text("utf-8").splitlines()]
    assert ["\t".join(fields[:2]) for fields in answered] == lines
    assert [fields[2] for fields in answered] == answers
    assert [fields[3] == "right" for fields in answered] == [answer != "" for answer in answers]
    assert [fields[4] != "" for fields in answered] == [answer != "" for answer in answers]
    (result,) = found["results"]
    wrong = answers.count("")
    assert result["count"] == len(lines)
    assert result["coarse"] == result["fine"] == (len(lines) - wrong) / len(lines)
    assert result["symbols"] < 1
    assert result["unknown"] == sum(each.get("unknown", 0) for each in result["by_length"]) == wrong
    assert [each["answer"] for each in found["errors"]] == [""] * wrong
    note = f"symbols that are not in the alphabet in {wrong} of {len(lines)} strings"
    assert note in done.stderr.decode()
    known = tmp_path / "known.tsv"
    known.write_text(f"{lines[0]}\n", encoding="utf-8")
    done = run("eval", name, "--data", known, *options, "--json")
    assert done.stderr == b""
    assert "unknown" not in json.loads(done.stdout)["results"][0]


def test_models_of_pairs_read_unknown_symbols_but_cannot_output_them(tmp_path: Path) -> None:
    path, data = tripling(tmp_path), tmp_path / "data.tsv"
    data.write_text("ab\tbbbaaa\nba\tzzz\nxa\taaa\n", encoding="utf-8")
    done = run("eval", path, "--data", data, "--errors", "9", "--json")
    found = json.loads(done.stdout)
    assert [each["answer"] for each in found["errors"]] == ["aaabbb", ""]
    assert found["results"][0]["coarse"] == 1 / 3
    assert found["results"][0]["unknown"] == 1
    assert b"symbols that are not in the alphabet in 1 of 3 strings" in done.stderr


def test_unknown_symbols_that_are_read_are_counted_at_the_end(tmp_path: Path) -> None:
    path = tripling(tmp_path)
    done = run("transduce", path, stdin="ab\nxa\nayéb\n".encode())
    assert len(done.stdout.splitlines()) == 3
    note = "standard input: read 3 symbols as unknown, the first 'x' in line 2"
    assert done.stderr.decode().splitlines()[-1] == f"stacktrans: {note}"
    assert run("transduce", path, stdin=b"ab\n").stderr == b""


def test_errors_are_shown_with_their_first_wrong_symbol(data: Path) -> None:
    shown = run("eval", "reverse-stack", "--data", data, "--errors", "1").stdout.decode()
    lines = [line.split() for line in shown.splitlines()]
    assert ["source", "target", "answer", "first", "wrong", "edits", "count"] in lines
    assert ["ab", "bb", "ba", "2", "b→a", "1"] in lines
    assert not any(line[:1] == ["abcdef"] for line in lines)
    assert shown.splitlines()[-2:] == [
        "wrong answers: 2 of 5; 1 shown",
        "count: the wrong answers with the same edits",
    ]
    done = json.loads(
        run("eval", "reverse-stack", "--data", data, "--errors", "5", "--json").stdout
    )
    substituted, inserted = [{"target": "b", "answer": "a"}], [{"answer": "a"}]
    assert done["errors"] == [
        {"source": "ab", "target": "bb", "answer": "ba", "first_wrong": 2}
        | {"edits": substituted, "count": 1},
        {"source": "abcdef", "target": "fedcb", "answer": "fedcba", "first_wrong": 6}
        | {"edits": inserted, "count": 1},
    ]
    (result,) = done["results"]
    assert result["symbol_error_rate"] == 2 / (3 + 5 + 2 + 5 + 1)


def test_errors_in_long_strings_are_shown_with_their_surroundings(tmp_path: Path) -> None:
    source = "a" * 30 + "b" * 30
    path = tmp_path / "long.tsv"
    path.write_text(f"{source}\t{'b' * 30 + 'x' + 'a' * 29}\n", encoding="utf-8")
    shown = run("eval", "reverse-stack", "--data", path, "--errors", "1").stdout.decode()
    row = [line.split() for line in shown.splitlines() if line.startswith("a")]
    target = f"...{'b' * 20}x{'a' * 19}..."
    assert row == [
        ["a" * 30 + "b" * 10 + "...", target, target.replace("x", "a"), "31", "x→a", "1"]
    ]


def test_several_models_are_shown_in_one_table(data: Path) -> None:
    names = [str(SOFT / name) for name in ("reverse-stack", "copy-queue", "copy-queue")]
    alone = [json.loads(run("eval", name, "--data", data, "--json").stdout) for name in names]
    content = data.read_bytes()
    done = run("eval", *names, "--data", "-", "--json", stdin=content)
    assert json.loads(done.stdout) == alone
    shown = run("eval", *names, "--data", "-", stdin=content).stdout.decode().splitlines()
    head, *rows = [line.split() for line in shown]
    assert head[:2] == ["checkpoint", "lengths"]
    assert [row[0] for row in rows] == names
    # The queue copies every source except x, so its answers need 2 + 4 + 1 + 5 + 1 edits.
    assert [row[-1] for row in rows] == ["0.1250", "0.8125", "0.8125"]


def test_a_table_is_printed_as_csv(data: Path) -> None:
    bounds = ("--lengths", "1:3", "--lengths", "5:6")
    options = ("eval", "reverse-stack", "copy-queue", "--data", data, *bounds, "--hard")
    found = json.loads(run(*options, "--json").stdout)
    rows = [*csv.DictReader(run(*options, "--csv").stdout.decode().splitlines())]
    assert [row["checkpoint"] for row in rows] == ["reverse-stack"] * 2 + ["copy-queue"] * 2
    for row, result in zip(rows, [*found[0]["results"], *found[1]["results"]], strict=True):
        assert [int(row["shortest"]), int(row["longest"])] == result["lengths"]
        for name in ("count", "coarse", "fine", "symbols", "symbol_error_rate", "differing"):
            assert float(row[name]) == result[name]
        assert [float(row["fine_low"]), float(row["fine_high"])] == result["fine_interval"]


def test_each_length_has_a_row_of_csv() -> None:
    options = ("eval", "reverse-stack", "--each", "--lengths", "3:5", "--count", "4", "--csv")
    rows = [*csv.DictReader(run(*options).stdout.decode().splitlines())]
    assert [(row["shortest"], row["longest"], row["count"]) for row in rows] == [
        *(("3", "5", "12"), ("3", "3", "4"), ("4", "4", "4"), ("5", "5", "4"))
    ]
    assert "length" not in rows[0]


def test_strings_of_each_length_are_drawn_independently(tmp_path: Path) -> None:
    out = tmp_path / "p.tsv"
    run("eval", "reverse-stack", "--each", "--lengths", "8:9", "--count", "1", "--predictions", out)
    first, second = (line.split("\t")[0] for line in out.read_text().splitlines())
    assert not second.startswith(first)


def test_a_count_is_of_each_range(data: Path) -> None:
    bounds = ("--lengths", "1:3", "--lengths", "5:6")
    found = json.loads(run("eval", "reverse-stack", "--data", data, *bounds, "--count", "1",
                           "--json").stdout)  # fmt: skip
    assert [(each["lengths"], each["count"]) for each in found["results"]] == [
        ([1, 3], 1), ([5, 6], 1),
    ]  # fmt: skip


def test_a_count_of_sorted_pairs_is_a_sample(tmp_path: Path) -> None:
    data = tmp_path / "sorted.tsv"
    data.write_text("".join(f"{'a' * n}\t{'a' * n}\n" for n in range(1, 101)))
    options = ("eval", "reverse-stack", "--data", data, "--count", "20", "--json")
    found = json.loads(run(*options).stdout)["results"]
    assert found == json.loads(run(*options).stdout)["results"]
    assert found != json.loads(run(*options, "--seed", "2").stdout)["results"]
    assert found[0]["lengths"][1] > 50


def test_a_sample_has_all_targets_of_its_sources(tmp_path: Path) -> None:
    data = tmp_path / "targets.tsv"
    sources = [f"{first}{second}" for first in "abcdef" for second in "abcdef"]
    lines = [f"{source}\t{target}" for target in "xy" for source in sources]
    data.write_text(
        "".join(f"{line}\n" for line in [*lines, *(f"{s}\t{s[::-1]}" for s in sources)])
    )
    options = ("eval", "reverse-stack", "--data", data, "--count", "9", "--json")
    (found,) = json.loads(run(*options).stdout)["results"]
    assert found["coarse"] == 1.0
    assert found["count"] <= 9


def test_a_table_is_printed_as_latex(data: Path) -> None:
    done = run("eval", "reverse-stack", "--data", data, "--latex", "--hard")
    assert done.stdout.decode().splitlines() == [
        r"\begin{tabular}{lrrrrrrr}",
        r"\toprule",
        r"checkpoint & lengths & count & coarse [95\%] & fine [95\%] & symbols & error rate & "
        r"hard $\neq$ soft \\",
        r"\midrule",
        r"reverse-stack & 1:6 & 5 & 0.600 [0.231, 0.882] & 0.833 [0.403, 0.974] & 0.9048 & 0.1250 "
        r"& 0.0000 \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


def test_names_are_escaped_in_latex(model: Path, tmp_path: Path) -> None:
    (tmp_path / "[50%_&]").symlink_to(model)
    done = run("eval", "[50%_&]", "--count", "2", "--latex", cwd=tmp_path)
    assert r"{}[50\%\_\&] & " in done.stdout.decode()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--json", "--csv"], "--json: cannot be used with --csv"),
        (["--csv", "--latex"], "--csv: cannot be used with --latex"),
        (["--predictions", "-", "--json"], "--predictions -: cannot be used with --json"),
        (["--errors", "3", "--latex"], "--errors: cannot be used with --latex"),
        (["copy-queue", "--predictions", "a"], "--predictions: expected one checkpoint, not 2"),
        (["--errors", "0"], "--errors 0: expected a number of at least 1"),
        (["--beam", "0"], "--beam 0: expected a number of at least 1"),
        (["--beam", "9999"], "a beam of 9999: expected at most 4096"),
        (["copy-queue", "absent"], "absent: no such checkpoint"),
    ],
)
def test_contradictory_options_are_refused(
    options: list[str], message: str, tmp_path: Path
) -> None:
    done = run("eval", "reverse-stack", *options, "--count", "2", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, b"")
    assert message in done.stderr.decode()
    assert not [*tmp_path.iterdir()]


def test_control_characters_do_not_reach_a_table(tmp_path: Path) -> None:
    path = tmp_path / "odd.jsonl"
    path.write_text('{"source": "a\\u001b[2J", "target": "b"}\n', encoding="utf-8")
    done = run("eval", "copy-queue", "--data", path, "--errors", "1")
    assert done.returncode == 0
    assert rb"a\x1b[2J" in done.stdout
    assert b"\x1b" not in done.stdout + done.stderr
