"""Training on pairs in files, by the commands and in Python."""

import gzip
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from command_line import ENVIRONMENT, STACKTRANS, TRAIN, run
from pair_files import OPTIONS, config_of, lines_of, reversals, write
from small_runs import CPU, assert_same_run, ignore, records_of, stop_after

import stacktrans
from stacktrans.common.errors import UsageError
from stacktrans.common.files import CANDIDATES
from stacktrans.common.randomness import Purpose
from stacktrans.common.reading import read_content
from stacktrans.inference.scores import outnumbered_pairs
from stacktrans.model import checkpoint
from stacktrans.settings.layers import merged_settings
from stacktrans.settings.resolve import resolve
from stacktrans.settings.training_config import StopConfig
from stacktrans.tasks.layout import Pair
from stacktrans.tasks.lengths import Lengths, NoSuchLength
from stacktrans.tasks.pairs import task_from_files
from stacktrans.training.file_pairs import FilePairs
from stacktrans.training.interrupts import Interrupted
from stacktrans.training.race import DATA, Race
from stacktrans.training.race_state import read_race
from stacktrans.training.records import Accuracy, Record
from stacktrans.training.requests import TrainRequest, begin
from stacktrans.training.sources import Moment
from stacktrans.training.stopping import EarlyStopping
from stacktrans.training.trainer import Trainer

SMALL = {
    "model": {
        "memory": {"name": "stack", "size": 4},
        "controller": {"name": "lstm", "hidden_size": 8},
        "embedding_size": 4,
        "output_size": 8,
    },
    "training": {"measure": {"loss_every": 5, "accuracy_every": 10, "strings": 20}},
}


def trainer_of(train: Path, directory: Path, settings: Any = None, **parameters: Any) -> Trainer:
    directory.mkdir(exist_ok=True)
    config = config_of(train, **parameters)
    task = {"task": config.task.model_dump(mode="json")}
    run_config = resolve(settings=merged_settings(merged_settings(SMALL, task), settings or {}))
    return Trainer(run_config, directory, CPU, "stacktrans train")


def source_of(trainer: Trainer) -> FilePairs:
    assert isinstance(trainer.source, FilePairs)
    return trainer.source


@pytest.fixture
def train(tmp_path: Path) -> Path:
    return write(tmp_path / "train.tsv", reversals(200, 1))


def test_sources_that_differ_in_unknown_symbols_each_count(short: Path, tmp_path: Path) -> None:
    others = write(tmp_path / "others.tsv", "Ka\ta\nXa\tb\nYa\tc\n")
    (result,) = json.loads(run("eval", short, "--data", others, "--json").stdout)["results"]
    assert result["count"] == 3


def test_a_stack_learns_to_reverse_from_a_file(tmp_path: Path) -> None:
    path = write(tmp_path / "train.tsv", reversals(600, 1, 2, 7))
    test = write(tmp_path / "test.tsv", reversals(100, 2, 12, 14))
    done = run("train", "--data", path, "--test", test, "--memory", "stack",
               "--recipe", "default", "--set", "learning_rate=0.01", "--out", tmp_path / "run",
               "--json")  # fmt: skip
    summary = json.loads(done.stdout)
    assert summary["outcome"] == "solved"
    assert summary["test"]["coarse"] >= 0.98
    assert summary["test"]["count"] == 100
    assert summary["development"]["coarse"] == 1
    assert summary["decided_by"] == (
        f"accuracy on the development set, a tenth of {path}, drawn at random; "
        "rounding and pruning: the development set"
    )
    assert summary["reported_on"].startswith("the test set, which decides nothing")
    printed = done.stderr.decode()
    assert f"{path}: 60 of 600 pairs, at random (seed 1), are held out as" in printed
    assert "development coarse 1.00" in printed
    answered = run("transduce", tmp_path / "run", stdin=b"abcdabcdabcd\n")
    assert answered.stdout == b"dcbadcbadcba\n"


def test_a_run_is_named_after_its_file_and_keeps_nothing_of_it(tmp_path: Path) -> None:
    text = lines_of([("xyzzyxyzzyx" + "x" * size, "quux") for size in range(1, 30)])
    (tmp_path / "my pairs.train.tsv.gz").write_bytes(gzip.compress(text.encode()))
    arguments = ["--data", "my pairs.train.tsv.gz", "--memory", "none", "--max-steps", "2"]
    assert run(*TRAIN, *arguments, *OPTIONS[4:6], cwd=tmp_path).returncode == 0
    directory = tmp_path / "checkpoints" / "my-pairs-none-1"
    for file in directory.rglob("*"):
        if file.is_file():
            assert b"xyzzy" not in file.read_bytes(), file
    config = yaml.safe_load((directory / "config.yaml").read_text())
    assert config["task"]["lengths"] == {"train": [12, 38], "test": [39, 40]}
    assert config["task"]["parameters"]["known"]["source"] == "xyz"


@pytest.mark.parametrize(
    ("path", "name"),
    [("finnish/plurals.tsv", "plurals"), ("finnish/train.tsv.gz", "finnish"), ("-", "pairs")],
)
def test_a_file_whose_name_says_nothing_is_named_after_its_folder(path: str, name: str) -> None:
    settings = task_from_files(None, path, {})
    assert settings
    assert settings["name"] == name


def test_pairs_come_through_a_pipe(tmp_path: Path, train: Path) -> None:
    arguments = ["--memory", "stack", "--max-steps", "20", *OPTIONS]
    text = train.read_bytes()
    done = run(*TRAIN, "--data", "-", *arguments, "--out", tmp_path / "piped", stdin=text)
    assert done.returncode == 0, done.stderr
    assert b"standard input: 20 of 200 pairs, the longest, are held out" in done.stderr
    run(*TRAIN, "--data", train, *arguments, "--out", tmp_path / "read")
    assert_same_run(tmp_path / "piped", tmp_path / "read")
    again = ["train", "--resume", str(tmp_path / "piped"), "--max-steps", "25"]
    assert run(*again, stdin=text).returncode == 0
    other = run(*again, stdin=text + b"a\ta\n")
    assert other.stderr.decode() == (
        "stacktrans: standard input: the training pairs have changed since training began\n"
    )


def test_reading_pairs_from_a_terminal_is_announced(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal, own = os.openpty()
    os.write(terminal, b"ab\tba\n\x04")
    with open(own) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert read_content("-") == b"ab\tba\n"
    os.close(terminal)
    assert "waiting for pairs or lines from the terminal" in capsys.readouterr().err


RACE = ["--strategies", "joint,wide", *OPTIONS]


def test_pairs_from_a_pipe_reach_all_processes_of_a_race(tmp_path: Path, train: Path) -> None:
    words = ["train", "--max-steps", "20", *RACE]
    run(*words, "--workers", "1", "--data", train, "--out", tmp_path / "read")
    command = shlex.join([*STACKTRANS, *words, "--workers", "2", "--out", str(tmp_path / "piped")])
    bash = ["bash", "-c", f"{command} --data <(cat {shlex.quote(str(train))})"]
    done = subprocess.run(bash, env=ENVIRONMENT, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert read_race(tmp_path / "piped").winner is None
    assert_same_run(tmp_path / "piped", tmp_path / "read")


def test_a_race_over_piped_pairs_resumes_without_the_pipe(tmp_path: Path, train: Path) -> None:
    words = ["train", "--data", "-", "--budget", "1s", "--out", str(tmp_path / "run")]
    begun_with = run(*words, *RACE, "--workers", "1", stdin=train.read_bytes())
    assert begun_with.returncode == 0
    printed = begun_with.stderr.decode()
    assert printed.count("standard input: columns source,target") == 1
    assert printed.index("standard input: columns") < printed.index("parameters; in")
    before = read_race(tmp_path / "run").seconds
    more = ("--budget", f"{before + 0.2}s", "--workers", "1")
    again = run("train", "--resume", tmp_path / "run", *more)
    assert again.returncode == 0, again.stderr.decode()
    assert read_race(tmp_path / "run").seconds > before


def test_processes_of_a_race_share_pairs_that_were_read_once(tmp_path: Path, train: Path) -> None:
    out = tmp_path / "run"
    request = TrainRequest(
        data=train, strategies=["joint", "wide"], assignments=OPTIONS[1::2], budget=1, out=out
    )
    race = begin(request)
    assert isinstance(race, Race)
    content = train.read_bytes()
    train.unlink()
    with race.opened():
        race.run(lambda: None)
    assert not any(each.failed for each in race.state.candidates.values())
    for changed, message in ((None, "No such file"), (content + b"a\ta\n", "have changed")):
        if changed:
            train.write_bytes(changed)
        again = run("train", "--resume", out)
        assert (again.returncode, message in again.stderr.decode()) == (2, True)
    train.write_bytes(content)
    (array,) = (out / CANDIDATES / DATA).glob("train-sizes.npy")
    array.write_bytes(array.read_bytes()[:-8])
    longer = f"{read_race(out).seconds + 9}s"
    again = run("train", "--resume", out, "--budget", longer, "--workers", "1")
    assert (again.returncode, ".data: damaged" in again.stderr.decode()) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dev", "a.tsv"], "--dev a.tsv: needs --data"),
        (["--symbols", "words"], "--symbols words: needs --data"),
        (["--data", "a.tsv", "--task", "copy"], "--data a.tsv: cannot be used with task copy"),
        (["--data", "absent.tsv"], "absent.tsv: No such file or directory"),
        (["--data", "a.tsv", "--symbols", "x"], "stacktrans: --symbols is 'x'; expected"),
        (["--data", "a.tsv", "--columns", "1,2"], "stacktrans: --columns is '1,2'; expected"),
        (["--data", "a.tsv", "--set", "data.stream.steps=3"], "training.data"),
    ],
)
def test_options_that_do_not_fit_are_named(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    write(tmp_path / "a.tsv", reversals(30, 1))
    done = run("train", *arguments, "--memory", "stack", cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr.decode()
    assert not (tmp_path / "checkpoints").exists()


def test_a_killed_run_resumes_only_with_the_same_files(tmp_path: Path, train: Path) -> None:
    budget = {"training": {"max_steps": 40}}
    trainer_of(train, tmp_path / "whole", budget).run(ignore)
    cut = trainer_of(train, tmp_path / "cut", budget)
    stop_after(cut, 23)
    with pytest.raises(Interrupted):
        cut.run(ignore)
    text = train.read_text()
    write(train, text + "abc\tcba\n")
    with pytest.raises(UsageError, match=r"train\.tsv: the training pairs have changed"):
        Trainer.resume(tmp_path / "cut", [], CPU)
    train.unlink()
    with pytest.raises(UsageError, match=r"train\.tsv: No such file"):
        Trainer.resume(tmp_path / "cut", [], CPU)
    write(train, text)
    Trainer.resume(tmp_path / "cut", [], CPU).run(ignore)
    assert_same_run(tmp_path / "whole", tmp_path / "cut")


def test_a_file_that_is_not_found_by_its_relative_path_is_named(
    tmp_path: Path, train: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(train.parent)
    command = ("train", "--data", train.name, "--recipe", "joint", "--max-steps", "2", *OPTIONS)
    assert run(*command, "--out", tmp_path / "run").returncode == 0
    monkeypatch.chdir(tmp_path / "run")
    done = run("eval", tmp_path / "run")
    assert done.returncode == 2
    where = "its path is relative to the directory in which training began"
    assert f"{train.name}: not found; {where}" in done.stderr.decode()


def test_nothing_but_the_summary_reads_the_test_set(tmp_path: Path, train: Path) -> None:
    one = write(tmp_path / "one.tsv", reversals(30, 3, 9, 12))
    other = write(tmp_path / "other.tsv", reversals(30, 4, 9, 12))
    budget = {"training": {"max_steps": 20}}
    first = trainer_of(train, tmp_path / "a", budget, test=str(one)).run(ignore)
    second = trainer_of(train, tmp_path / "b", budget, test=str(other)).run(ignore)
    assert_same_run(tmp_path / "a", tmp_path / "b")
    assert first.test
    assert second.test
    assert (first.test.count, first.development) == (30, second.development)


def test_the_longest_development_pairs_are_measured_separately(tmp_path: Path) -> None:
    train = write(tmp_path / "train.tsv", lines_of([("a" * size, "a") for size in range(1, 101)]))
    dev = write(tmp_path / "dev.tsv", lines_of([("a" * size, "a") for size in range(20, 0, -1)]))
    trainer = trainer_of(train, tmp_path / "run", dev=str(dev))
    source, attempt = source_of(trainer), trainer.state.attempt

    def counts(share: float) -> tuple[int | None, ...]:
        record = attempt.record(1, 0.0) if attempt.losses.count else None
        attempt.losses.add(1.0)
        record = record or attempt.record(1, 0.0)
        source.measure(attempt.model, Moment(1, 0, share), record)
        parts = (record.train, record.test, record.development)
        return tuple(part.count if part else None for part in parts)

    attempt.train_on_batch()
    assert counts(1.0) == (18, 2, 20)
    assert counts(0.1) == (10, 10, 20)  # up to 10 of 1:90
    assert counts(0.5) == (20, None, 20)


def test_a_larger_development_set_is_measured_in_part(tmp_path: Path, train: Path) -> None:
    dev = write(tmp_path / "dev.tsv", reversals(100, 2))
    first, again = (
        source_of(trainer_of(train, tmp_path / name, dev=str(dev))) for name in ("a", "b")
    )
    assert len(first.development) == 20
    one, other = ([pair.source.tolist() for pair in each.development] for each in (first, again))
    assert one == other


def test_batches_are_drawn_within_the_lengths_of_the_moment(tmp_path: Path, train: Path) -> None:
    source = source_of(trainer_of(train, tmp_path / "run"))
    moment = Moment(1, 5, 0.2)
    batch = source.strings(Purpose.TRAINING, moment, Lengths(1, 3), 50)
    assert {pair.length for pair in batch} == {1, 2, 3}
    again = source.strings(Purpose.TRAINING, moment, Lengths(1, 3), 50)
    assert [pair.source.tolist() for pair in batch] == [pair.source.tolist() for pair in again]
    with pytest.raises(NoSuchLength):
        source.strings(Purpose.TRAINING, moment, Lengths(50, 60), 1)


def test_the_unknown_symbol_is_trained(tmp_path: Path) -> None:
    rare = lines_of([("ab" * 10 + chr(0x100 + index), "a") for index in range(40)])
    source = source_of(trainer_of(write(tmp_path / "a.tsv", rare), tmp_path / "run"))
    pairs = source.strings(Purpose.TRAINING, Moment(1, 1), source.ranges.train, 1000)
    unknown = source.task.source.symbols.index("<unk>")
    ends = [int(pair.source[-1]) for pair in pairs]
    assert 0.1 < ends.count(unknown) / 1000 < 0.3  # a fifth, of symbols that come once
    begins = [int(pair.source[0]) for pair in pairs]
    assert begins.count(unknown) <= 5


def accuracy(coarse: float, fine: float) -> Record:
    found = Accuracy(coarse, fine, 10, 0.5)
    return Record(1, 1, 0.0, 1.0, 2.0, 0.1, None, {}, development=found)


def judged(rule: EarlyStopping, *accuracies: tuple[float, float]) -> list[str | None]:
    found = []
    for each in accuracies:
        record = accuracy(*each)
        assert rule.ranking_key(record)
        found.append(rule.judge(record, None))  # type: ignore[arg-type]
    return found


def test_an_attempt_ends_when_the_development_set_is_right_or_no_better(train: Path) -> None:
    config = config_of(train)

    def rule(stop: dict[str, Any] | None) -> EarlyStopping:
        changes = {"stop": stop and StopConfig.model_validate(stop)}
        training = config.training.model_copy(update=changes)
        return EarlyStopping(config.model_copy(update={"training": training}))

    solved = rule({"solved": {"times": 2}})
    assert judged(solved, (1, 1), (0.9, 0.99), (1, 1), (1, 1)) == [None, None, None, "solved"]
    patient = rule({"development": {"patience": 2}})
    assert judged(patient, (0.2, 0.5), (0.2, 0.6), (0.2, 0.6), (0.1, 0.9)) == [
        None, None, None, "development",
    ]  # fmt: skip
    usual = rule({"solved": {}})
    assert judged(usual, *[(0.5, 0.5)] * 51) == [None] * 50 + ["development"]
    assert judged(rule(None), *[(1, 1)] * 99) == [None] * 99
    assert usual.ranking_key(Record(1, 1, 0.0, 1.0, 2.0, 0.1, None, {})) == []


def test_a_few_development_pairs_may_contradict_a_discrete_solution(train: Path) -> None:
    config = config_of(train)
    training = config.training.model_copy(update={"rounding": "discrete"})
    discrete = config.model_copy(update={"training": training})
    same = [(0.97, 0.98)] * 5
    assert judged(EarlyStopping(discrete), (0.97, 0.98), *same) == [None] * 5 + ["exceptions"]
    # Wrong pairs disturb the weights, so that some others are wrong now and then.
    disturbed = [(0.96, 0.97), (0.965, 0.97)] * 10
    assert judged(EarlyStopping(discrete), (0.97, 0.98), *disturbed)[-2:] == [None, "exceptions"]
    # A model that learns exceptions one by one, a worse one, and one that may be soft.
    assert judged(EarlyStopping(discrete), *same, (0.98, 0.99), *same[1:]) == [None] * 10
    assert judged(EarlyStopping(discrete), *[(0.94, 0.99)] * 20) == [None] * 20
    assert judged(EarlyStopping(config), *[(0.97, 0.98)] * 20) == [None] * 20


@pytest.mark.parametrize("stop", [None, {"solved": {"times": 30}}])
def test_a_development_set_without_errors_has_no_exceptions(
    train: Path, stop: dict[str, Any] | None
) -> None:
    changes = {"rounding": "discrete", "stop": stop and StopConfig.model_validate(stop)}
    config = config_of(train)
    training = config.training.model_copy(update=changes)
    rule = EarlyStopping(config.model_copy(update={"training": training}))
    assert judged(rule, *[(1.0, 1.0)] * 29) == [None] * 29


def test_wrong_pairs_are_listed_with_their_lines(tmp_path: Path) -> None:
    lines, wrong = [*dict.fromkeys(reversals(900, 1, 2, 7).splitlines())][:600], range(30, 600, 50)
    for index in wrong:
        source, target = lines[index].split("\t")
        lines[index] = f"{source}\t{target}{target[-1]}"
    path = write(tmp_path / "train.tsv", "".join(f"{line}\n" for line in lines))
    done = run("train", "--data", path, "--memory", "stack", "--recipe", "default", "--accept",
               "discrete", "--set", "learning_rate=0.01", "--out", tmp_path / "run")  # fmt: skip
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["outcome"] == "exceptions"
    expected = [
        {"line": f"{path}:{index + 1}", "source": source, "target": target, "answer": target[:-1]}
        for index in wrong
        for source, target in [lines[index].split("\t")]
    ]
    found = summary["contradictions"]
    assert all(each in expected for each in found)
    assert len(found) >= 0.9 * len(expected)  # a short one may be learned by heart
    shown = done.stdout.decode()
    assert (
        f"{len(found)} pairs in the files have another target than the model's answer; "
        "the first 10:\n" in shown
    )
    assert f"{found[0]['line']}: '" in shown


def test_a_source_contradicts_a_model_once_and_only_if_no_target_is_the_answer(
    tmp_path: Path,
) -> None:
    lines = "a\tyes\nb\tyes\na\tno\nc\tno\nb\tyes\n"  # any answer to a is right
    path, dev = write(tmp_path / "train.tsv", lines), write(tmp_path / "dev.tsv", "b\tno\n")
    files = {"dev": str(dev), "test": str(write(tmp_path / "test.tsv", "u\tyes\nv\tno\n"))}
    trainer = trainer_of(
        path, tmp_path / "run", {"training": {"max_steps": 2}}, labels=True, **files
    )
    trainer.run(ignore)
    found = source_of(trainer).contradictions(checkpoint.load(tmp_path / "run", CPU))
    assert {each["source"] for each in found} <= {"c", "u", "v"}
    assert len([each for each in found if each["source"] in "uv"]) == 1  # as both are unknown
    path = write(tmp_path / "train.tsv", reversals(40, 1) + "aba\taba\naba\tbbb\naba\tccc\n")
    trainer = trainer_of(path, tmp_path / "run", {"training": {"max_steps": 2}})
    trainer.run(ignore)
    found = source_of(trainer).contradictions(checkpoint.load(tmp_path / "run", CPU))
    of_source = [each for each in found if each["source"] == "aba"]
    assert len(of_source) == 1
    assert of_source[0]["answer"] not in ("aba", "bbb", "ccc")


def test_a_target_contradicts_an_answer_that_its_source_has_much_more_often() -> None:
    def pair_of(target: int) -> Pair:
        return Pair(np.array([1, 2]), np.array([target]))

    pairs = [*[pair_of(0)] * 6, *[pair_of(1)] * 3, *[pair_of(2)] * 2]
    for answer, outnumbered in (
        (0, [False] * 9 + [True] * 2),
        (1, [False] * 11),
        (3, [False] * 11),
    ):
        fine = np.array([float(pair.target[0] == answer) for pair in pairs])
        assert outnumbered_pairs(pairs, fine).tolist() == outnumbered


def test_the_best_weights_on_the_development_set_are_kept(tmp_path: Path, train: Path) -> None:
    settings = {"training": {"stop": {"development": {"patience": 2}}, "learning_rate": 1e-30}}
    summary = trainer_of(train, tmp_path / "run", settings).run(ignore)
    assert (summary.outcome, summary.steps) == ("development", 30)
    assert summary.rule == "the accuracy on the development set stopped improving"
    records = records_of(tmp_path / "run")
    assert [bool(record["development"]) for record in records] == 3 * [False, True]
    # Of weights that are as good, the most discrete.
    measured = [record for record in records if record["development"]]
    assert summary.best_step == max(measured, key=lambda each: each["discreteness"])["step"]


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of five batches."""
    folder = tmp_path_factory.mktemp("short")
    train = write(folder / "train.tsv", reversals(200, 1))
    trainer_of(train, folder / "run", {"training": {"max_steps": 5}}).run(ignore)
    return folder / "run"


def test_models_of_pairs_in_files_are_measured_on_the_held_out_pairs(short: Path) -> None:
    found = json.loads(run("eval", short, "--json").stdout)["results"]
    assert [(each["strings"], each["count"]) for each in found] == [
        ("development", 20), ("test", 20),
    ]  # fmt: skip
    longer = run("eval", short, "--lengths", "8:9", "--json")
    assert [each["strings"] for each in json.loads(longer.stdout)["results"]][-1] == "test"
    none = run("eval", short, "--lengths", "50:60")
    assert (none.returncode, none.stdout) == (2, b"")
    assert "held-out pairs: no source has a length of 50:60" in none.stderr.decode()
    assert run("eval", short, "--each").returncode == 2


def test_models_of_pairs_in_files_are_measured_on_other_pairs(short: Path, tmp_path: Path) -> None:
    text = b"abcx\txcba\n" * 3
    packed = tmp_path / "own.tsv.gz"
    packed.write_bytes(gzip.compress(text))
    for data in ("-", packed):
        own = run("eval", short, "--data", data, "--json", stdin=text)
        assert json.loads(own.stdout)["results"][0]["count"] == 3
    unknown = "ab<unk>d\tz\nxéd\tdéx\n".encode()
    assert run("eval", short, "--data", "-", "--predictions", tmp_path / "p.tsv",
               stdin=unknown).returncode == 0  # fmt: skip
    written = (tmp_path / "p.tsv").read_text(encoding="utf-8").splitlines()
    assert [line.split("\t")[:2] for line in written] == [["ab<unk>d", "z"], ["xéd", "déx"]]


def test_models_of_pairs_and_of_other_tasks_are_in_one_table(short: Path) -> None:
    models = str(short), "reverse-stack"
    both = run("eval", *models, "--count", "5", "--csv")
    rows = [line.split(",") for line in both.stdout.decode().splitlines()]
    assert {len(row) for row in rows} == {len(rows[0])}
    sets = [row[rows[0].index("strings")] for row in rows[1:] if row[0] in models]
    assert sets == ["development", "test", "", ""]


def test_a_pair_in_two_ranges_is_written_once(short: Path, tmp_path: Path) -> None:
    found = []
    for lengths in (["1:9"], ["1:6", "4:9"]):
        ranges = [word for each in lengths for word in ("--lengths", each)]
        run("eval", short, *ranges, "--predictions", tmp_path / "p.tsv")
        lines = (tmp_path / "p.tsv").read_text().splitlines()
        found.append(sorted(line.rpartition("\t")[0] for line in lines))
    assert found[0] == found[1]


def test_models_of_pairs_in_files_are_inspected(short: Path) -> None:
    sample = json.loads(run("inspect", short, "--json", "--seed", "1").stdout)
    assert {*sample["source"]} <= {*"abcd"}
    traced = json.loads(run("inspect", short, "xa", "--json").stdout)
    assert [step["input"] for step in traced["steps"]][:4] == ["<s>", "<unk>", "a", "|||"]
    refused = run("inspect", short, "a\tb").err
    assert refused == "stacktrans: expected source; found 2 columns\n"


def test_a_model_answers_without_its_files(tmp_path: Path, train: Path) -> None:
    trainer_of(train, tmp_path / "run", {"training": {"max_steps": 5}}).run(ignore)
    train.unlink()
    gone = run("eval", tmp_path / "run")
    assert gone.returncode == 2
    assert "train.tsv: No such file" in gone.stderr.decode()
    done = run("transduce", tmp_path / "run", "--max-length", "5", stdin=b"ab\n")
    assert done.returncode == 0


def test_lines_with_features_are_transduced(tmp_path: Path) -> None:
    rows = [("ab" * size, "F;G", "b" * size) for size in range(1, 30)]
    path = write(tmp_path / "a.tsv", lines_of(rows))
    config = {"training": {"max_steps": 3}}
    trainer_of(path, tmp_path / "run", config, columns="source,features,target").run(ignore)
    done = run("transduce", tmp_path / "run", "--json", stdin=b"abab\tF;H\n\nab\n")
    first, second, third = map(json.loads, done.stdout.splitlines())
    assert done.returncode == 1
    assert first["output"] is not None
    assert second["output"] == ""
    wrong = "expected source, a tab, features; found 1 column"
    assert third["error"] == wrong
    inspected = run("inspect", tmp_path / "run", "ab").err
    assert f"{wrong}; in a shell, a tab is written as in $'source\\tfeatures'" in inspected
    assert run("eval", tmp_path / "run", "--data", path).returncode == 0
    answered = stacktrans.load(tmp_path / "run").transduce("abab\tF")
    assert isinstance(answered, str)
    traced = json.loads(run("inspect", tmp_path / "run", "ab\tG;F", "--json").stdout)
    assert [step["input"] for step in traced["steps"]][:6] == ["<s>", "G", "F", "a", "b", "|||"]


@pytest.mark.parametrize("buffered", [False, True])
def test_lines_of_ten_thousand_symbols_are_trained_on(tmp_path: Path, buffered: bool) -> None:
    rows = [("ab" * size, "b" * size) for size in (3, 4, 5000, 5001, 5002)]
    path = write(tmp_path / "a.tsv", lines_of(rows))
    more = {"training": {"max_steps": 1, "batch_size": 2}}
    settings = merged_settings(more, {"model": {"buffers": {}}}) if buffered else more
    summary = trainer_of(path, tmp_path / "run", settings).run(ignore)
    assert summary.test
    assert summary.test.count == 1


def test_python_trains_on_files(tmp_path: Path, train: Path) -> None:
    dev = write(tmp_path / "dev.tsv", reversals(30, 2))
    settings = {"hidden_size": 8, "memory.size": 4, "measure.strings": 20, "accuracy_every": 10}
    given: dict[str, Any] = {"memory": "stack", "max_steps": 10, "settings": settings}
    given["recipe"] = "default"
    done = stacktrans.train(
        data=train, dev=dev, symbols="characters", out=tmp_path / "run", **given
    )
    assert done.summary.development
    assert done.summary.development.count == 20
    assert any("held out as the test set" in note for note in done.summary.notes)
    evaluation = done.model.evaluate()
    assert (evaluation.count, evaluation.lengths) == (20, done.config.task.ranges.test)
    with pytest.raises(UsageError, match=r"dev .*: needs data"):
        stacktrans.train("copy", dev=dev, **given)
    with pytest.raises(UsageError, match=r"data .*: cannot be used with task copy"):
        stacktrans.train("copy", data=train, **given)


@pytest.mark.usefixtures("sweeps_here")
def test_a_sweep_knows_pairs_in_files(tmp_path: Path, train: Path) -> None:
    write(tmp_path / "mine.yaml", "name: mine\ngenerator: pairs\nparameters: {train: train.tsv}\n")
    (tmp_path / "work").mkdir()
    file = {
        "title": "pairs",
        "settings": merged_settings(SMALL, {"training": {"max_steps": 10}}),
        "grid": {"task": ["../mine.yaml"], "seed": [1, 2]},
        "conditions": {"stack": {}},
        "measures": {
            "test": {"of": "coarse", "strings": "test"},
            "chosen": {"of": "fine", "strings": "development"},
            "long": {"of": "fine", "lengths": [8, 8], "count": 9},
        },
    }
    path = write(tmp_path / "sweep.yaml", yaml.safe_dump(file))
    arguments = ("sweep", path, "--workers", "1", "--out", tmp_path / "sweep")
    done = run(*arguments, cwd=tmp_path / "work")
    assert done.returncode == 0, done.stderr.decode()
    records = [*map(json.loads, (tmp_path / "sweep" / "results.jsonl").read_text().splitlines())]
    assert len(records) == 2
    assert all(record["accuracy"]["test"]["count"] == 20 for record in records)
    assert b"2 of them done" in run(*arguments, cwd=tmp_path / "work").stderr
    write(train, train.read_text() + "abc\tcba\n")
    listed = run(*arguments, "--dry-run", cwd=tmp_path / "work").stdout.decode()
    assert listed.count("to do") == 2


def test_speculative_attempts_train_on_files(tmp_path: Path, train: Path) -> None:
    settings = {
        "training": {
            "restart": {"after": 10, "loss": 1e-9},
            "max_steps": 25,
            "stop": {"solved": {}},
        }
    }
    trainer_of(train, tmp_path / "one", settings).run(ignore)
    trainer_of(train, tmp_path / "two", merged_settings(settings, {"workers": 2})).run(ignore)
    assert_same_run(tmp_path / "one", tmp_path / "two")
