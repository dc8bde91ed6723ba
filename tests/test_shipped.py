"""The shipped models do what their descriptions promise."""

import json
import re
import shlex
import tomllib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import safetensors
import yaml
from small_runs import CPU

import stacktrans
from stacktrans import __version__
from stacktrans.automata.machine_file import read_machine
from stacktrans.common.errors import CheckpointError
from stacktrans.common.files import MACHINE
from stacktrans.common.randomness import Purpose, generator
from stacktrans.decoding.decoder import decode
from stacktrans.inference.scores import score
from stacktrans.inference.trace import trace
from stacktrans.model import checkpoint, checkpoint_files
from stacktrans.proofs.proof import Proof, prove
from stacktrans.settings.locations import shipped
from stacktrans.tasks.lengths import DepthLimit, Lengths

JOINT = ["copy-deque", "copy-queue", "reverse-stack"]
SAME_LENGTH = ["parenthesis-stack", "reversal-stack", "xor-buffered"]
STREAMS = ["addition", "anbn", "anbncn", "memorization"]
NAMES = [*JOINT, *SAME_LENGTH, *STREAMS]


ROOT = Path(__file__).parent.parent


def test_the_license_and_how_to_cite_are_with_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert project["project"]["license"] == citation["license"] == "Apache-2.0"
    assert "Apache License" in (ROOT / project["project"]["license-files"][0]).read_text()
    assert [author["name"] for author in citation["authors"]] == ["The stacktrans authors"]
    assert project["project"]["authors"] == citation["authors"]
    assert (citation["cff-version"], citation["version"]) == ("1.2.0", __version__)
    included = project["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert {"/LICENSE", "/CITATION.cff"} <= set(included)
    packed = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert {f"checkpoints/{name}" for name in NAMES} | {"CITATION.cff"} <= packed.keys()


def test_the_folder_has_the_shipped_models() -> None:
    assert {path.name for path in shipped("checkpoints").iterdir()} == {*NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_shipped_models_are_small_and_tell_where_they_come_from(name: str) -> None:
    directory = shipped("checkpoints") / name
    assert sum(path.stat().st_size for path in directory.iterdir()) < 1_000_000
    summary = json.loads((directory / "summary.json").read_text())
    assert summary["command"].startswith("stacktrans train ")
    assert summary["outcome"] == "solved"
    assert summary["hard"]["coarse"] == 1
    with safetensors.safe_open(directory / "model.safetensors", "pt") as file:
        metadata = file.metadata()
    assert metadata["configuration"] == checkpoint_files.read_config(directory).identity()
    assert json.loads(metadata["accuracy"])["test"]["coarse"] == 1


@pytest.mark.parametrize("name", NAMES)
def test_shipped_models_have_cards_whose_example_is_true(name: str) -> None:
    card = (shipped("checkpoints") / name / "README.md").read_text()
    example = re.search(
        r"^\$ (?:echo|printf \S+) (.*) \| stacktrans transduce (.*)\n(.*)", card, re.M
    )
    assert example
    (source,), place, printed = shlex.split(example[1]), example[2], example[3]
    assert place == f"checkpoints/{name}"
    loaded = checkpoint.load(name, CPU)
    ids = loaded.task.source.encode(loaded.task.source.split(source))
    (answer,) = decode(loaded.predictor, loaded.layout, [ids])
    assert loaded.task.target.join(loaded.task.target.decode(answer.target)) == printed
    summary = json.loads((shipped("checkpoints") / name / "summary.json").read_text())
    for fact in (summary["command"], f"torch {summary['torch']}", "Apache-2.0", "1.0000"):
        assert fact in card


@pytest.mark.parametrize("name", JOINT)
def test_shipped_models_are_right_far_beyond_their_training(name: str) -> None:
    loaded = checkpoint.load(name, CPU)
    strings = generator(11, Purpose.EVALUATION)
    pairs = loaded.task.sample(strings, Lengths(65, 128), 300, "task")
    assert score(loaded.predictor, loaded.layout, pairs).coarse_accuracy == 1


@pytest.mark.parametrize("name", SAME_LENGTH)
def test_models_of_same_length_tasks_are_right_on_longer_strings(name: str) -> None:
    loaded = checkpoint.load(name, CPU)
    lengths = loaded.config.task.ranges
    assert lengths.test.shortest > lengths.train.longest
    pairs = loaded.task.sample(
        generator(11, Purpose.EVALUATION),
        lengths.test,
        300,
        loaded.config.task.law_of(lengths.test),
    )
    assert score(loaded.predictor, loaded.layout, pairs).coarse_accuracy == 1


def test_brackets_are_closed_at_depths_far_beyond_those_trained_on() -> None:
    loaded = checkpoint.load("parenthesis-stack", CPU)
    law = DepthLimit(24)
    strings = generator(11, Purpose.EVALUATION)
    pairs = loaded.task.sample(strings, loaded.task.lengths_within(law), 200, law)
    assert score(loaded.predictor, loaded.layout, pairs).coarse_accuracy == 1


@pytest.mark.parametrize("name", STREAMS)
def test_models_of_streams_are_right_at_every_length_to_fifty(name: str) -> None:
    loaded = checkpoint.load(name, CPU)
    shortest = 1 if name != "anbncn" else 2
    pairs = [
        pair
        for size in range(shortest, 51)
        for pair in loaded.task.sample(
            generator(11, Purpose.EVALUATION, size), Lengths(size, size), 8, "uniform"
        )
    ]
    assert score(loaded.predictor, loaded.layout, pairs).coarse_accuracy > 0.99
    loaded.model.hard = True
    assert score(loaded.predictor, loaded.layout, pairs).coarse_accuracy == 1


@pytest.mark.parametrize("name", NAMES)
def test_hard_models_are_right_on_strings_of_ten_thousand_symbols(name: str) -> None:
    model = stacktrans.load(name, hard=True)
    assert model.evaluate(lengths=(10_000, 10_000), count=2).coarse == 1


@pytest.mark.parametrize("hard", [False, True])
def test_the_adder_adds(hard: bool) -> None:
    loaded = checkpoint.load("addition", CPU)
    loaded.model.hard = hard
    numbers = [(5, 1), (0, 7), (1, 0), (1, 2**40 - 1), (123456789, 987654321), (3**150, 7**90)]
    sources = [loaded.task.source.encode(list(f"{one:b}+{two:b}=")) for one, two in numbers]
    answers = decode(loaded.predictor, loaded.layout, sources)
    sums = ["".join(loaded.task.target.decode(answer.target)) for answer in answers]
    assert [int(digits[:-1][::-1], 2) for digits in sums] == [sum(pair) for pair in numbers]
    assert sums[0] == "011."


def test_the_reversal_pushes_while_it_reads_and_pops_while_it_writes() -> None:
    loaded = checkpoint.load("reversal-stack", CPU)
    source = "0110100110"
    followed = trace(loaded, [*source, *"#" * len(source)])
    assert followed.correct
    reading, writing = followed.steps[: len(source)], followed.steps[len(source) :]
    assert all(step.signals == {"pop": 0, "push": 1} for step in reading)
    assert all(step.signals == {"pop": 1, "push": 0} for step in writing)


def test_the_buffered_xor_drops_the_first_of_what_it_writes() -> None:
    followed = trace(checkpoint.load("xor-buffered", CPU), list("110100111"))
    assert followed.correct
    for step in followed.steps:
        assert step.signals["output write"] == step.signals["input read"] == 1
    lefts = [step.input_left for step in followed.steps]
    assert lefts == [*range(9, -1, -1), *[0] * 9]
    assert not followed.steps[0].written
    # Each symbol of the answer was written by the step after the one that read its input.
    for number, step in enumerate(followed.steps[1:10], start=1):
        assert step.written
        assert step.written[0].step == number
    assert (followed.steps[-1].output_strength or 0) > 9


@pytest.mark.parametrize("name", ["copy-queue", "reverse-stack", *SAME_LENGTH])
def test_machines_of_shipped_models_have_one_state_and_few_rules(
    name: str, machine_of: Callable[[str], Path]
) -> None:
    machine = read_machine(machine_of(name) / MACHINE)
    assert machine.states.size == 1
    assert len(machine.rules) <= 6


@pytest.mark.parametrize("name", sorted({*NAMES} - {"addition", "memorization"}))
def test_all_but_two_shipped_models_have_proved_machines(
    name: str, machine_of: Callable[[str], Path]
) -> None:
    loaded = checkpoint.load(machine_of(name), CPU)
    machine = read_machine(machine_of(name) / MACHINE)
    assert isinstance(prove(machine, loaded.task), Proof)


@pytest.mark.parametrize("name", JOINT)
def test_shipped_models_transduce_what_people_type(name: str) -> None:
    loaded = checkpoint.load(name, CPU)
    source = "Hello,stack!"
    (answer,) = decode(loaded.predictor, loaded.layout, [loaded.task.source.encode(list(source))])
    expected = source[::-1] if name == "reverse-stack" else source
    assert loaded.task.target.join(loaded.task.target.decode(answer.target)) == expected
    assert answer.ended
    assert answer.log_probability > np.log(0.5)


def test_a_shipped_model_is_found_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("reverse-stack", "checkpoints/reverse-stack"):
        assert checkpoint_files.locate(name).name == "reverse-stack"


def test_a_run_of_the_name_is_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "checkpoints" / "copy-queue-1").mkdir(parents=True)
    with pytest.raises(CheckpointError, match=r"did you mean checkpoints/copy-queue-1\?"):
        checkpoint_files.locate("copy-queue-1")
