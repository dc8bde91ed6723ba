"""Comparing models: the runs, the table in its forms, and what is wrong with a command."""

import csv
import io
import json
import re
import shlex
from pathlib import Path

import pytest
from command_line import run
from small_sweeps import work_here

SMALL = (
    *("--task", "reverse", "--set", "parameters.symbols=3", "--set", "measure.strings=20"),
    *("--max-steps", "5", "--seeds", "2"),
)
pytestmark = pytest.mark.usefixtures("sweeps_here")
MODELS = ("stack,hidden_size=8", "none,gru,hidden_size=9")


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a comparison."""
    out = tmp_path_factory.mktemp("compared") / "out"
    ranges = ("--lengths", "1:3", "--lengths", "4:6", "--count", "20")
    with pytest.MonkeyPatch.context() as patched:
        work_here(patched)
        done = run("compare", *MODELS, *SMALL, *ranges, "--workers", "1", "--out", out, "--json")
    assert done.returncode == 0, done.stderr
    (out / "shown.json").write_bytes(done.stdout)
    return out


def test_each_model_is_trained_with_each_seed_and_measured(compared: Path) -> None:
    entries = json.loads((compared / "shown.json").read_text())
    assert [entry["model"] for entry in entries] == [*MODELS]
    lines = (compared / "results.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    assert [(record["condition"], record["axes"]["seed"]) for record in records] == [
        (model, seed) for model in MODELS for seed in (1, 2)
    ]
    for entry in entries:
        of_model = [record for record in records if record["condition"] == entry["model"]]
        assert entry["runs"] == 2
        assert {record["parameters"] for record in of_model} == {entry["parameters"]}
        for name in ("1:3", "4:6"):
            values = [record["measured"][name]["value"] for record in of_model]
            assert entry[name] == pytest.approx(sum(values) / 2)
            assert f"{name}_low" not in entry, "an interval needs three runs"
    assert "hidden_size=9" in records[-1]["command"]
    assert "gru" in records[-1]["command"]


def test_the_written_file_is_a_sweep_whose_runs_are_done(compared: Path) -> None:
    path = compared / f"{compared.name}.yaml"
    first, second, *_ = path.read_text().splitlines()
    assert first.endswith("which replaces it: edit a copy.")
    words = shlex.split(second.partition("stacktrans ")[2].replace("COPY", str(path)))
    done = run(*words, "--dry-run")
    assert [line.split("\t")[0] for line in done.stdout.decode().splitlines()] == ["done"] * 4


def test_finished_runs_are_shown_in_other_forms(compared: Path) -> None:
    again = ("compare", *MODELS, *SMALL, "--lengths", "1:3", "--lengths", "4:6", "--count", "20")
    entries = json.loads((compared / "shown.json").read_text())
    comma_separated = run(*again, "--out", compared, "--csv")
    rows = [*csv.DictReader(io.StringIO(comma_separated.stdout.decode()))]
    assert [float(row["4:6"]) for row in rows] == [entry["4:6"] for entry in entries]
    latex = run(*again, "--out", compared, "--latex").stdout.decode()
    assert r"\toprule" in latex
    assert r"hidden\_size=9" in latex
    table = run(*again, "--out", compared).stdout.decode()
    assert f"{entries[0]['1:3']:.3f}" in table
    assert "more in" in table


def test_strings_of_one_length_are_named_by_it_and_not_plotted(compared: Path) -> None:
    single = ("--lengths", "3", "--count", "20", "--workers", "1", "--plot")
    done = run("compare", *MODELS, *SMALL, *single, "--out", compared)
    *_, last, _ = done.stderr.decode().splitlines()
    assert re.fullmatch(r"\[4/4\] .*, seed [12]: batch limit, 3 [01]\.[0-9]{3}", last)
    assert done.stdout.split()[0] == b"3"
    assert b"no plot of 3 by length: the strings have one length\n" in done.stderr
    assert not [*compared.glob("*by-length*")]


def test_models_of_equal_size_differ_by_less_than_a_unit(tmp_path: Path) -> None:
    sized = ("--equal-size", "--seeds", "1", "--workers", "1", "--out", tmp_path / "out", "--json")
    done = run("compare", "stack,hidden_size=20", "none,gru", "queue,rnn", *SMALL, *sized)
    assert done.returncode == 0, done.stderr
    entries = json.loads(done.stdout)
    assert all("test" in entry and "test_low" not in entry for entry in entries)  # of one run
    first, *others = [entry["parameters"] for entry in entries]
    for parameters in others:
        # A unit of a GRU with inputs of 64 has about 400 weights.
        assert abs(parameters - first) < 300


def test_a_comparison_is_named_by_the_name_of_its_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    task = "name: short-copy\ndescription: abc -> abc\ngenerator: copy\n"
    Path("mine.yaml").write_text(f"{task}lengths: {{train: [1, 3], test: [4, 6]}}\n")
    settings = ("--max-steps", "1", "--seeds", "1", "--workers", "1")
    few = ("--set", "measure.strings=20", "--count", "20")
    done = run("compare", "stack", "--task", "mine.yaml", *settings, *few)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "sweeps/compare-short-copy/compare-short-copy.yaml").is_file()


def test_pairs_are_measured_on_their_own_test_set(tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.tsv"
    drawn = ("--count", "100", "--lengths", "2:9", "--format", "tsv")
    made = run("generate", "--task", "reverse", *drawn)
    pairs.write_bytes(made.stdout)
    (tmp_path / "test.tsv").write_text("abba\tabba\n")
    settings = ("--max-steps", "3", "--seeds", "1", "--workers", "1", "--out", tmp_path / "out")
    files = ("--data", pairs, "--test", tmp_path / "test.tsv")
    done = run("compare", "stack", "queue", *files, *settings, "--json")
    assert done.returncode == 0, done.stderr
    for entry in json.loads(done.stdout):
        assert 0 <= entry["train"] <= 1
        assert entry["test"] in (0, 1)
    for record in (tmp_path / "out" / "results.jsonl").read_text().splitlines():
        assert json.loads(record)["accuracy"]["test"]["count"] == 1


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("stack",), "--task or --data"),
        (("stak", "--task", "copy"), ": MODEL stak: unknown memory 'stak'"),
        (("stack,lstn", "--task", "copy"), ": MODEL stack,lstn: unknown controller 'lstn'"),
        (("stack,hiden=3", "--task", "copy"), ": setting hiden=3: "),
        (("stack,hidden_size=x", "--task", "copy"), ": setting hidden_size=x: "),
        (("stack", "--task", "copy", "--max-steps", "-1"), ": --max-steps: "),
        (("stack", "--task", "copy", "--recipe", "defalt"), ": --recipe: "),
        (("stack", "stack", "--task", "copy"), "'stack' is given twice"),
        (("stack", "none,linear", "--task", "copy", "--equal-size"), "controller linear"),
        (("stack", "queue", "--task", "copy", "--equal-size", "--recipe", "auto"), "not for races"),
        (("stack", "none,hidden_size=9", "--task", "copy", "--equal-size"), "none,hidden_size=9"),
        (("stack", "--task", "copy", "--seeds", "0"), "--seeds"),
        (("stack", "--task", "copy", "--lengths", "9:1"), "--lengths 9:1"),
        (("stack", "--task", "copy", "--csv", "--json"), "--csv"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused(
    arguments: tuple[str, ...], named: str, tmp_path: Path
) -> None:
    done = run("compare", *arguments, "--out", tmp_path / "out")
    assert done.returncode == 2
    assert named in done.stderr.decode()
    assert not (tmp_path / "out").exists()


def test_pairs_from_standard_input_are_refused() -> None:
    done = run("compare", "stack", "queue", "--data", "-", stdin=b"a\tb\n")
    assert done.returncode == 2
    assert b"--data -: expected a file, which each run can read by itself" in done.stderr
