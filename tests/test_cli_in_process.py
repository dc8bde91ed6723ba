"""The command line: pairs on standard input, changes of settings, and dry runs."""

import json
from pathlib import Path

import pytest
from command_line import SMALL, TRAIN, Ended, invoke
from pydantic import BaseModel, model_serializer
from small_runs import SETTINGS
from test_text import write as write_text

from stacktrans.settings.config import RunConfig
from stacktrans.settings.resolve import resolve


def scores(result: Ended) -> object:
    assert result.returncode == 0, result.err
    (found,) = json.loads(result.out)["results"]
    return found


@pytest.mark.parametrize("form", ["tsv", "jsonl"])
def test_eval_reads_pairs_from_stdin_as_from_a_file(model: Path, tmp_path: Path, form: str) -> None:
    pairs = invoke("generate", "--task", "copy", "--lengths", "1:4", "--format", form).out
    # An empty line and a byte order mark are no pairs, and a symbol may look like JSON.
    content = b"\xef\xbb\xbf\n" + (b"{ab\t{ab\n" if form == "tsv" else b"") + pairs.encode()
    path = tmp_path / f"pairs.{form}"
    path.write_bytes(content)
    of_file = scores(invoke("eval", model, "--data", path, "--json"))
    assert scores(invoke("eval", model, "--data", "-", "--json", stdin=content)) == of_file
    # What a file's name does not tell, its content does, as where a shell passes a pipe.
    unnamed = tmp_path / "pairs"
    unnamed.write_bytes(content)
    assert scores(invoke("eval", model, "--data", unnamed, "--json")) == of_file


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"abc\tabc\nabc\n", "standard input:2: expected source, a tab, target; found 'abc'"),
        (b'{"source": "a", "target": "b"}\na\tb\n', "standard input:2: expected a JSON object"),
        (b"", "standard input: contains no pairs"),
    ],
)
def test_eval_names_what_is_wrong_with_stdin(model: Path, content: bytes, message: str) -> None:
    result = invoke("eval", model, "--data", "-", stdin=content)
    assert (result.returncode, result.out) == (1, "")
    assert message in result.err


def test_eval_names_lengths_that_stdin_lacks(model: Path) -> None:
    result = invoke("eval", model, "--data", "-", "--lengths", "9:9", stdin=b"ab\tab\n")
    assert (result.returncode, result.out) == (2, "")
    assert "standard input: no source has a length of 9" in result.err


def test_generate_changes_settings_of_the_task() -> None:
    options = ("generate", "--task", "copy", "--count", "30")
    changed = invoke(*options, "--set", "parameters.symbols=1000", "--set", "lengths.train=[2, 3]")
    sources = [line.split("\t")[0].split(" ") for line in changed.out.splitlines()]
    assert {len(source) for source in sources} == {2, 3}
    assert max(int(symbol[1:]) for source in sources for symbol in source) > 500
    as_in_train = invoke(
        *options, "--set", "task.parameters={symbols: 1000}", "--set", "task.lengths.train=[2, 3]"
    )
    assert as_in_train.out == changed.out
    normal = ("--set", "length_law={mean: 3, deviation: 0.1}", "--set", "lengths.train=[1, 9]")
    lines = invoke(*options, *normal).out.splitlines()
    assert {len(line.split("\t")[0]) for line in lines} <= {2, 3}


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("parameters.symbols=0", "setting parameters.symbols=0: task copy: parameters: symbols is"),
        ("parameters.letters=3", "setting parameters.letters=3: task copy: unknown parameter"),
        ("task.lenghts.train=[1, 2]", "unknown setting 'lenghts.train'; did you mean"),
        ("lenghts.train=[1, 2]", "unknown setting 'lenghts.train'; did you mean 'lengths.train'?"),
        ("parameter.symbols=3", "did you mean 'parameters.symbols'?"),
        ("task=reverse", "unknown setting 'task'"),
        ("learning_rate=1", "unknown setting 'learning_rate'"),
        ("lengths.train=[5, 2]", "setting lengths.train=[5, 2]: lengths.train: "),
        ("lengths.train", "setting lengths.train: expected key=value"),
        ("=3", "setting =3: expected key=value"),
        ("lengths=[", "setting lengths=[: the value is not readable as YAML"),
        ("generator=copi", "setting generator=copi: task copy: unknown generator 'copi'"),
    ],
)
def test_generate_refuses_changes(assignment: str, message: str) -> None:
    result = invoke("generate", "--task", "copy", "--set", assignment)
    assert (result.returncode, result.out) == (2, "")
    assert message in result.err


@pytest.mark.parametrize(
    "options",
    [
        ("--task", "copy", "--recipe", "joint", "--set", "training.curriculum=null"),
        ("--task", "reversal", "--memory", "stack", "--recipe", "paper", "--seed", "5"),
        ("--task", "gender", "--memory", "none", "--recipe", "default", "--time-limit", "90s"),
        ("--task", "anbn", "--memory", "stack-rnn", "--recipe", "paper", "--workers", "2"),
        ("--text", "mytext", "--memory", "list-rnn", "--set", "learning_rate=0.0000001"),
    ],
)
def test_the_output_of_a_dry_run_is_a_valid_configuration_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_text(Path("mytext"))
    before = sorted(tmp_path.rglob("*"))
    printed = invoke("train", *options, "--dry-run")
    assert (printed.returncode, printed.err) == (0, "")
    as_json = json.loads(invoke("train", *options, "--dry-run", "--json").out)
    assert sorted(tmp_path.rglob("*")) == before
    Path("mine.yaml").write_text(printed.out)
    assert resolve(config="mine.yaml") == RunConfig.model_validate(as_json)
    assert resolve(config="mine.yaml").to_yaml() == printed.out
    assert invoke("train", "--config", "mine.yaml", "--dry-run").out == printed.out


def test_a_dry_run_prints_the_configuration_that_a_run_has(trained: Path, tmp_path: Path) -> None:
    options = (*TRAIN, "--task", "copy", "--memory", "queue", "--max-steps", "20", *SMALL)
    out = tmp_path / "run"
    printed = invoke(*options, "--out", out, "--dry-run").out
    assert not out.exists()
    assert (trained / "config.yaml").read_text() == printed
    # A dry run of --resume prints the configuration that the run would have.
    further = invoke("train", "--resume", trained, "--max-steps", "29", "--dry-run").out
    assert further == printed.replace("max_steps: 20\n", "max_steps: 29\n")
    assert (trained / "config.yaml").read_text() == printed


def test_a_vocabulary_of_a_thousand_goes_through_every_command(tmp_path: Path) -> None:
    run, sources = tmp_path / "run", tmp_path / "sources.txt"
    small = [word for setting in SETTINGS[1:] for word in ("--set", setting)]
    many = ("--set", "task.parameters.symbols=1000", "--max-steps", "1")
    trained = invoke(*TRAIN, "--task", "copy", "--memory", "queue", *many, *small, "--out", run)
    assert trained.returncode == 0
    scores(invoke("eval", run, "--count", "5", "--lengths", "2:3", "--json"))
    sources.write_text("s1000 s7\ns7 s1001\n")
    answered = invoke("transduce", run, sources)
    assert answered.returncode == 1
    assert f"{sources}:2: symbol 2 is 's1001'" in answered.err
    answer_symbols = answered.out.splitlines()[0].split(" ")
    assert all(symbol[0] == "s" and 1 <= int(symbol[1:]) <= 1000 for symbol in answer_symbols)
    followed = json.loads(invoke("inspect", run, "s1000 s7", "--json").out)
    assert [step["input"] for step in followed["steps"][1:3]] == ["s1000", "s7"]


def test_an_interrupt_while_settings_are_written_ends_quietly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(BaseModel):
        @model_serializer
        def interrupt(self) -> str:
            raise KeyboardInterrupt

    monkeypatch.setattr(RunConfig, "to_yaml", lambda self: Interrupted().model_dump())
    result = invoke(*TRAIN, "--task", "copy", "--memory", "queue", "--out", tmp_path / "run")
    assert result.returncode == 130
