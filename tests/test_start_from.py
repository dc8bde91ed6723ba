"""Runs that start from a trained model: what they have from it, and what of it is their own."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from changed_checkpoints import change_config
from command_line import run
from pair_files import lines_of, reversals, write
from small_runs import CPU, assert_same_run, ignore, stop_after
from soft_models import SOFT
from test_text import write as write_text
from torch import Tensor

import stacktrans
from stacktrans.common.errors import CheckpointError, UsageError
from stacktrans.model import checkpoint
from stacktrans.model.transducer import Transducer
from stacktrans.settings.config import RunConfig, SymbolTransferConfig
from stacktrans.settings.resolve import resolve
from stacktrans.training.interrupts import Interrupted
from stacktrans.training.requests import TrainRequest
from stacktrans.training.trainer import Trainer

SMALL: dict[str, Any] = {
    "hidden_size": 8, "memory.size": 4, "embedding_size": 4, "output_size": 8,
    "measure.strings": 20, "accuracy_every": 10, "loss_every": 5,
}  # fmt: skip


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on pairs with the symbols a, b, c and d."""
    folder = tmp_path_factory.mktemp("old")
    data = write(folder / "old.tsv", reversals(60, 1))
    settings = {**SMALL, "seed": 7, "restart.after": 1000, "learning_rate": 0.01}
    stacktrans.train(
        data=data,
        memory="stack",
        recipe="default",
        settings=settings,
        out=folder / "run",
        max_steps=2,
    )
    return folder / "run"


@pytest.fixture
def new(tmp_path: Path) -> Path:
    """Pairs with the symbols c, d, e and f."""
    text = reversals(80, 2).translate(str.maketrans("ab", "ef"))
    return write(tmp_path / "new.tsv", text)


def config_from(name: Path | str, data: Path | None = None, *changes: str) -> RunConfig:
    (found,) = TrainRequest(from_=name, data=data, assignments=changes).configs.values()
    return found


def begun(config: RunConfig, directory: Path = Path()) -> Trainer:
    directory.mkdir(parents=True, exist_ok=True)
    return Trainer(config, directory, CPU, "stacktrans train")


def weights_of(model: Transducer) -> dict[str, Tensor]:
    return {name: weight.clone() for name, weight in model.state_dict().items()}


def ids_of(config: RunConfig) -> tuple[dict[str, int], dict[str, int]]:
    """The rows of embeddings, and of outputs, of a model of pairs, written out."""
    known = config.task.parameters["known"]
    source, target = known["source"], known["target"]
    read = {"<s>": 0, "|||": 1, "<unk>": 2 + len(source)}
    read |= {f"source {symbol}": 2 + place for place, symbol in enumerate(source)}
    read |= {f"target {symbol}": 3 + len(source) + place for place, symbol in enumerate(target)}
    return read, {"</s>": len(target), **{symbol: place for place, symbol in enumerate(target)}}


def test_symbols_keep_their_weights_and_new_ones_are_drawn(old: Path, new: Path) -> None:
    config = config_from(old, new)
    trained = checkpoint.load(old, CPU)
    theirs, ours = ids_of(trained.config), ids_of(config)
    trainer = begun(config)
    before, given = weights_of(trained.model), weights_of(trainer.state.attempt.model)
    drawn = weights_of(begun(config.model_copy(update={"start_from": None})).state.attempt.model)
    by_symbol = {"embedding.weight": 0, "classifier.weight": 1, "classifier.bias": 1}
    for name, which in by_symbol.items():
        kept = {*ours[which]} & {*theirs[which]}
        assert {*ours[which]} - kept
        assert not {*theirs[which]} - kept
        for symbol, place in ours[which].items():
            expected = before[name][theirs[which][symbol]] if symbol in kept else drawn[name][place]
            assert torch.equal(given[name][place], expected), (name, symbol)
    for name in given.keys() - by_symbol.keys():
        assert torch.equal(given[name], before[name]), name
    found = trainer.config.start_from
    assert found
    assert found.source_symbols == found.target_symbols
    assert found.source_symbols == SymbolTransferConfig(carried_over=4, new=2, dropped=0)
    assert trainer.source.notes[0].endswith("symbols: 4 carried over, 2 new, 0 dropped")
    average = weights_of(trainer.state.attempt.average)
    assert all(torch.equal(average[name], given[name]) for name in given)


def known_by(config: RunConfig) -> dict[str, Any]:
    known: dict[str, Any] = config.task.parameters["known"]
    return {column: known[column] for column in ("source", "target", "features") if column in known}


def test_symbols_stay_known_over_several_runs(old: Path, new: Path, tmp_path: Path) -> None:
    """Even those that the run's own files lack, although every command reads these files again."""
    third = write(tmp_path / "third.tsv", reversals(60, 3).translate(str.maketrans("abcd", "ghab")))
    one, two = tmp_path / "one", tmp_path / "two"
    stacktrans.train(from_=old, data=new, settings={"max_steps": 3}, out=one)
    found = stacktrans.train(from_=one, data=third, settings={"max_steps": 3}, out=two)
    assert known_by(found.config) == {"source": "abcdefgh", "target": "abcdefgh"}
    assert found.summary.notes[0].endswith("symbols: 6 carried over, 2 new, 0 dropped")
    begins = begun(config_from(one, third)).state.attempt.model.state_dict()
    before = checkpoint.load(one, CPU).model.state_dict()
    assert torch.equal(begins["embedding.weight"][2:8], before["embedding.weight"][2:8])
    trace = json.loads(run("inspect", two, "cdg?", "--json").stdout)
    assert [step["input"] for step in trace["steps"]][1:5] == [*"cdg", "<unk>"]
    assert run("eval", two).returncode == 0
    longer = run("train", "--resume", two, "--max-steps", "6")
    assert longer.returncode == 0, longer.stderr.decode()
    assert stacktrans.load(two).config.task == found.config.task
    third.write_text(third.read_text() + "gh\thg\n")
    changed = run("eval", two)
    assert changed.returncode == 2
    assert (
        "third.tsv: the training pairs have changed since training began" in changed.stderr.decode()
    )


def test_a_task_file_of_pairs_keeps_known_symbols(old: Path, new: Path, tmp_path: Path) -> None:
    task = {"name": "mine", "generator": "pairs", "parameters": {"train": new.name}}
    file = write(tmp_path / "mine.yaml", yaml.safe_dump(task))
    asked: list[str | Path] = ["train", "--from", old, "--task", file, "--dry-run"]
    found = yaml.safe_load(run(*asked).stdout)
    assert found["task"]["parameters"]["known"]["source"] == "abcdef"
    assert found["start_from"]["source_symbols"] == {"carried_over": 4, "new": 2, "dropped": 0}
    started = {"start_from": found["start_from"], "model": found["model"]}
    by_hand = write(tmp_path / "by-hand.yaml", yaml.safe_dump(started))
    restart = ("--set", "restart=null", "--dry-run")
    done = run("train", "--config", by_hand, "--task", file, "--recipe", "joint", *restart)
    assert done.returncode == 0, done.stderr.decode()
    found = yaml.safe_load(run(*asked, "--set", "task.parameters.known=null").stdout)
    assert found["task"]["parameters"]["known"]["source"] == "cdef"
    assert found["start_from"]["source_symbols"] == {"carried_over": 2, "new": 2, "dropped": 2}


def test_known_symbols_stay_if_the_new_files_can_contain_them(tmp_path: Path) -> None:
    rows = [(f"ab de {each} c", "V", f"de {each}") for each in "fghijklmnopqrst"]
    lines = lines_of([(source, target, feature) for source, feature, target in rows])
    first = write(tmp_path / "first.tsv", lines)
    small = {"hidden_size": 8, "embedding_size": 4}
    stacktrans.train(
        data=first, columns="source,target,features", symbols="words", memory="none",
        recipe="default", out=tmp_path / "run", settings=small, max_steps=1,
    )  # fmt: skip
    plain = write(tmp_path / "plain.tsv", lines_of([("x" * n, "y" * n) for n in range(1, 30)]))
    asked: list[str | Path] = ["train", "--from", tmp_path / "run", "--data", plain, "--dry-run"]
    asked += ["--columns", "source,target"]
    found = yaml.safe_load(run(*asked).stdout)
    assert {"ab", "c", "de"} < {*found["task"]["parameters"]["known"]["source"].split()}
    # The files have no features.
    assert found["start_from"]["source_symbols"]["dropped"] == 1
    found = yaml.safe_load(run(*asked, "--symbols", "characters").stdout)
    known = found["task"]["parameters"]["known"]
    assert known["source"][0] == "c"
    assert found["start_from"]["source_symbols"]["dropped"] == 3
    assert found["start_from"]["target_symbols"]["dropped"] == 1


def test_a_run_from_a_checkpoint_learns_faster_than_a_new_one(tmp_path: Path) -> None:
    """The checkpoint can reverse all symbols except two, which the run has to learn."""
    rng = np.random.default_rng(1)
    strings = ["".join(rng.choice([*"abcdefαβ"], size=rng.integers(2, 13))) for _ in range(400)]
    data = write(tmp_path / "greek.tsv", lines_of([(each, each[::-1]) for each in strings]))
    settings = {"measure.accuracy_every": 20, "learning_rate": 0.005, "averaging": 0}
    asked: Any = {"data": data, "settings": settings, "max_steps": 40}
    found = stacktrans.train(from_=SOFT / "reverse-stack", out=tmp_path / "from", **asked)
    assert found.summary.outcome == "solved"
    assert found.summary.steps == 40
    assert found.model.transduce(["αcβ", "βfedcbaα"]) == ["βcα", "αabcdefβ"]
    note = "symbols: 128 carried over, 2 new, 0 dropped"
    assert found.summary.notes[0].endswith(note)
    assert found._repr_html_().count(note) == 1
    other = stacktrans.train(memory="stack", recipe="default", out=tmp_path / "new", **asked)
    assert other.summary.development
    assert other.summary.development.coarse < 0.2


@pytest.mark.parametrize("name", ["copy-queue", "reverse-stack"])
def test_first_updates_do_not_unlearn_a_checkpoint(name: str, tmp_path: Path) -> None:
    """With a curriculum, or without: the learning rate of the beginning would be too high."""
    settings = {"measure.strings": 30, "lengths.test": [65, 70]}
    found = stacktrans.train(from_=name, settings=settings, max_steps=3, out=tmp_path / "run")
    assert found.summary.test
    assert found.summary.test.coarse >= 0.9


def test_a_run_from_a_checkpoint_resumes_bit_for_bit_without_it(
    old: Path, new: Path, tmp_path: Path
) -> None:
    gone = tmp_path / "gone"
    shutil.copytree(old, gone)
    config = config_from(gone, new, "max_steps=30")
    begun(config, tmp_path / "whole").run(ignore)
    interrupted = begun(config, tmp_path / "interrupted")
    stop_after(interrupted, 13)
    with pytest.raises(Interrupted):
        interrupted.run(ignore)
    shutil.rmtree(gone)
    Trainer.resume(tmp_path / "interrupted", [], CPU).run(ignore)
    assert_same_run(tmp_path / "whole", tmp_path / "interrupted")
    one, other = (
        json.loads((tmp_path / each / "summary.json").read_text()) | {"seconds": 0}
        for each in ("whole", "interrupted")
    )
    assert one == other
    assert one["start_from"]["checkpoint"] == str(gone)


def test_the_initial_weights_are_saved_first(old: Path, new: Path, tmp_path: Path) -> None:
    trainer = begun(config_from(old, new), tmp_path / "run")
    given = weights_of(trainer.state.attempt.model)
    with trainer.state.opened(trainer.directory):
        pass
    taken_up = Trainer.resume(tmp_path / "run", [], CPU).state.attempt
    assert taken_up.step == 0
    for found in (taken_up.model, taken_up.average):
        assert all(torch.equal(given[name], weight) for name, weight in weights_of(found).items())


def test_the_configuration_repeats_the_run(old: Path, new: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(old, source)
    arguments: list[str | Path] = [
        "--data",
        new,
        "--max-steps",
        "5",
        "--out",
        tmp_path / "one",
        "--json",
    ]
    done = run("train", "--from", source, *arguments)
    summary = json.loads(done.stdout)
    assert summary["command"].startswith(f"stacktrans train --from {source} --data {new}")
    assert summary["start_from"]["checkpoint"] == str(source)
    assert "4 carried over, 2 new, 0 dropped" in done.stderr.decode()
    assert "4 carried over, 2 new, 0 dropped" in (tmp_path / "one/best/README.md").read_text()
    again: list[str | Path] = [
        "train",
        "--config",
        tmp_path / "one" / "config.yaml",
        "--out",
        tmp_path / "two",
    ]
    assert run(*again).returncode == 0
    assert_same_run(tmp_path / "one", tmp_path / "two")
    (one, two) = ((tmp_path / each / "config.yaml").read_text() for each in ("one", "two"))
    assert one == two
    assert stacktrans.load(tmp_path / "two").transduce(["cd"]) == stacktrans.load(
        tmp_path / "one"
    ).transduce(["cd"])
    shutil.rmtree(source)
    shutil.copytree(tmp_path / "two", source)
    other = run(*again[:-1], tmp_path / "three")
    assert other.returncode == 2
    assert f"{source}: its weights are not those that the run started" in other.stderr.decode()
    assert not (tmp_path / "three").exists()


def test_settings_are_those_of_the_checkpoint_under_those_given(old: Path, new: Path) -> None:
    config = config_from(old, new, "batch_size=3")
    assert config.recipe == "default"
    assert config.seed == 7
    assert (config.training.learning_rate, config.training.batch_size) == (0.01, 3)
    assert config.training.restart is None
    assert config.training.max_steps == 2
    assert config.task.name == "new"
    same = config_from(old)
    assert same.task.name == "old"
    assert same.task.parameters == checkpoint.load(old, CPU).config.task.parameters
    assert config.identity() != resolve(config=str(old / "config.yaml")).identity()


def test_a_recipe_does_not_change_the_model_of_a_checkpoint(old: Path, new: Path) -> None:
    done = run("train", "--from", old, "--data", new, "--recipe", "default", "--dry-run")
    config = yaml.safe_load(done.stdout)
    assert config["recipe"] == "default"
    assert config["model"] == yaml.safe_load((old / "config.yaml").read_text())["model"]
    assert config["training"]["learning_rate"] == 0.002
    assert config["training"]["max_steps"] == 40000
    assert config["training"]["restart"] is None
    assert config["start_from"]["source_symbols"] == {"carried_over": 4, "new": 2, "dropped": 0}


def test_columns_and_symbols_are_those_of_the_checkpoint_unless_given(tmp_path: Path) -> None:
    rows = [(f"{one} {two}", f"{two} {one}") for one in "abcde" for two in "fgh"]
    first = write(tmp_path / "first.tsv", lines_of([(target, source) for source, target in rows]))
    run(
        "train", "--data", first, "--columns", "target,source", "--memory", "none", "--recipe",
        "default", "--max-steps", "1", "--set", "hidden_size=8", "--out", tmp_path / "run",
    )  # fmt: skip
    # By itself each of these would seem to be a string of characters.
    second = write(tmp_path / "second.tsv", lines_of([(f"a{n}", f"f{n}") for n in range(30)]))
    asked: list[str | Path] = ["train", "--from", tmp_path / "run", "--data", second, "--dry-run"]
    parameters = yaml.safe_load(run(*asked).stdout)["task"]["parameters"]
    assert (parameters["columns"], parameters["symbols"]) == ("target,source", "words")
    given = run(*asked, "--columns", "source,target", "--symbols", "characters")
    parameters = yaml.safe_load(given.stdout)["task"]["parameters"]
    assert (parameters["columns"], parameters["symbols"]) == ("source,target", "characters")


def test_a_stream_can_be_trained_further_with_a_new_symbol(
    tmp_path: Path, brief_streams: None
) -> None:
    stream = {"stream": {"sequences": 6, "steps": 10, "epochs": 2, "attempts": 2}}
    small = {
        "hidden_size": 5, "memory.count": 2, "lengths.train": [1, 4], "lengths.test": [5, 6],
        "measure.strings": 6, "batch_size": 2, "rounding": None, "training.data": stream,
    }  # fmt: skip
    place = tmp_path / "one"
    stacktrans.train("anbn", memory="stack-rnn", recipe="paper", settings=small, out=place)
    found = stacktrans.train("anbncn", from_=place, settings=small | {
        "training.data.stream.attempts": 1}, out=tmp_path / "two")  # fmt: skip
    assert found.summary.outcome == "attempts"
    assert found.summary.attempts == 1
    assert found.summary.notes[0].endswith("symbols: 2 carried over, 1 new, 0 dropped")
    assert found.config.training.stream
    assert found.config.training.stream.attempts == 1
    assert found.config.task.parameters["pattern"] == "a^n b^n c^n"


def test_further_training_on_a_text_keeps_its_vocabulary(tmp_path: Path) -> None:
    first = write_text(tmp_path / "first")
    second = write_text(tmp_path / "second")
    (second / "train.txt").write_text("the owl sees a heron .\na gray heron sees the sea .\n" * 9)
    small = ["hidden_size=8", "memory.count=2", "batch_size=3", "stream.steps=7"]
    words = [word for each in [*small, "stream.epochs=1"] for word in ("--set", each)]
    done = run("train", "--text", first, "--memory", "stack-rnn", "--recipe", "default",
               "--out", tmp_path / "one", *words)  # fmt: skip
    assert done.returncode == 0, done.stderr
    done = run("train", "--text", second, "--from", tmp_path / "one", "--out", tmp_path / "two")
    assert done.returncode == 0, done.stderr
    assert "symbols: 20 carried over, 1 new, 0 dropped" in done.stderr.decode()
    # What is known may be more than a vocabulary would have.
    limit = ("--set", "task.parameters.vocabulary=6")
    done = run(
        "train", "--text", first, "--from", tmp_path / "two", "--out", tmp_path / "3", *limit
    )
    assert done.returncode == 0, done.stderr
    assert "symbols: 21 carried over, 0 new, 0 dropped" in done.stderr.decode()
    assert run("train", "--resume", tmp_path / "3").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--recipe", "auto"], "recipe auto: a run that starts from a checkpoint is not raced"),
        (["--strategies", "joint"], "strategies: a run that starts from a checkpoint is not raced"),
        (["--budget", "5m"], "budget: a run that starts from a checkpoint is not raced"),
        (["--memory", "auto"], "memory auto: a run that starts from a checkpoint is not raced"),
        (["--memory", "queue"], 'model.memory.name: "queue", but "stack" in OLD'),
        (["--hidden", "9"], "model.controller.hidden_size: 9, but 8 in OLD"),
        (["--buffered", "--set", "noise.gates=0"], "model.buffers: {}, but null in OLD"),
        (["--set", "biases=false"], "model.controller.biases: false, but true in OLD"),
        (["--set", "restart.after=9"], "training.restart: expected null: a run that starts from"),
        (["--set", "recipe=paper"], "is a whole configuration, which takes nothing from"),
        (["--resume", "OLD"], "--resume continues a run as it is"),
        (
            ["--task", "xor"],
            "task xor: is of the kind 'synchronous'; the model in OLD is for tasks of",
        ),
    ],
)
def test_options_that_do_not_fit_a_checkpoint_are_refused(
    old: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    given = [each.replace("OLD", str(old)) for each in arguments]
    done = run("train", "--from", old, *given, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert message.replace("OLD", str(old)) in done.stderr.decode()
    assert list(tmp_path.iterdir()) == []


def test_a_path_that_is_no_checkpoint_is_an_error(old: Path, tmp_path: Path) -> None:
    copy = tmp_path / "run"

    def complaint(code: int = 1) -> str:
        done = run("train", "--from", copy, "--out", tmp_path / "out")
        assert done.returncode == code
        assert not (tmp_path / "out").exists()
        return done.stderr.decode()

    assert f"{copy}: no such checkpoint; shipped are" in complaint(2)
    copy.mkdir()
    assert f"{copy}: not a stacktrans checkpoint; expected a directory with" in complaint()
    assert "config.yaml and model.safetensors or machine.json" in complaint()
    shutil.copytree(old, copy, dirs_exist_ok=True)
    weights = copy / "best" / "model.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[:-9])
    assert "truncated or not a safetensors file" in complaint()
    weights.write_bytes(content[:-9] + bytes(9))
    assert "model.safetensors: damaged: its checksum is not the one in SHA256SUMS" in complaint()
    weights.write_bytes(content)
    change_config(copy / "best", "format: 3", "format: 4")
    assert "format 4; this stacktrans reads format 3" in complaint()


def test_initial_weights_are_refused_in_python_as_by_the_command(old: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="recipe auto: a run that starts from a checkpoint"):
        stacktrans.train(from_=old, recipe="auto", out=tmp_path / "run")
    with pytest.raises(CheckpointError, match="no such checkpoint"):
        stacktrans.train(from_=tmp_path / "absent", out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
