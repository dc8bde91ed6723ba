"""Configurations say everything; what older ones leave out is what it was in their time."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from changed_checkpoints import reseal
from soft_models import SOFT

from stacktrans.common.errors import UsageError
from stacktrans.common.randomness import Purpose, generator
from stacktrans.inference.decoding import transduce
from stacktrans.inference.evaluation import score
from stacktrans.model import checkpoint
from stacktrans.settings import packaged
from stacktrans.settings.layers import overlaid
from stacktrans.settings.resolve import resolve
from stacktrans.sweeps.plan import read_plan
from stacktrans.tasks.layouts import Pair
from stacktrans.training.trainer import Trainer

CPU = torch.device("cpu")
DATA = Path(__file__).parent / "data"
RESULTS = Path(__file__).parent.parent / "experiments" / "results"
NAMES = sorted(path.stem for path in (DATA / "format-1").glob("*.yaml"))


@pytest.fixture
def other_recipes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recipes unlike those that the models were trained with."""
    folder = tmp_path / "recipes"
    shutil.copytree(packaged.recipes(), folder)
    recipe = yaml.safe_load((folder / "default.yaml").read_text())
    recipe = overlaid(recipe, {"model": {"memory": {"depth": 1, "values": "sigmoid"}}})
    recipe["by_memory"] = {"queue": {"model": {"start": {"gate_bias": {"forget": 7}}}}}
    (folder / "default.yaml").write_text(yaml.safe_dump(recipe))
    shutil.rmtree(folder / "joulin2015")
    monkeypatch.setattr(packaged, "recipes", lambda: folder)


def strings(loaded: checkpoint.Checkpoint) -> list[Pair]:
    task = loaded.config.task
    law = task.law_of(task.ranges.train)
    return loaded.task.sample(generator(5, Purpose.EVALUATION), task.ranges.train, 4, law)


def answers(path: Path) -> tuple[list[Any], list[float]]:
    loaded = checkpoint.load(path, CPU)
    found = transduce(loaded.predictor, loaded.layout, [pair.source for pair in strings(loaded)])
    return [answer.target for answer in found], [answer.log_probability for answer in found]


def accuracy(path: Path) -> float:
    loaded = checkpoint.load(path, CPU)
    return score(loaded.predictor, loaded.layout, strings(loaded)).symbol_accuracy


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.usefixtures("other_recipes")
def test_a_model_answers_the_same_whatever_the_recipes_say_today(name: str, tmp_path: Path) -> None:
    whole = SOFT / name
    older = tmp_path / name
    older.mkdir()
    shutil.copy(whole / "model.safetensors", older)
    shutil.copy(DATA / "format-1" / f"{name}.yaml", older / "config.yaml")
    assert checkpoint.read_config(older) == checkpoint.read_config(whole)
    (targets, chances), (wholes, whole_chances) = answers(older), answers(whole)
    assert targets == wholes
    # Compiled code and plain Python, which take turns as work grows, round differently.
    assert chances == pytest.approx(whole_chances, rel=1e-5, abs=1e-6)
    assert accuracy(older) == 1


@pytest.mark.parametrize("name", ["copy-queue", "addition"])
@pytest.mark.usefixtures("other_recipes")
def test_what_the_first_format_left_out_is_what_it_was_then(name: str) -> None:
    completed = resolve(config=str(DATA / "format-1" / f"{name}.yaml"))
    assert resolve(config=str(DATA / "format-2" / f"{name}.yaml")) == completed
    assert completed.to_yaml() == (DATA / "format-3" / f"{name}.yaml").read_text()
    assert resolve(config=str(DATA / "format-3" / f"{name}.yaml")) == completed


def test_a_configuration_of_the_first_format_is_changed_by_options_alone() -> None:
    path = str(DATA / "format-1" / "addition.yaml")
    config, changed = (
        resolve(config=path),
        resolve(config=path, assignments=["training.max_steps=7"]),
    )
    assert changed.training == config.training.model_copy(update={"max_steps": 7})
    assert (changed.model, changed.task) == (config.model, config.task)


@pytest.mark.usefixtures("other_recipes")
def test_a_file_of_settings_takes_the_recipe_of_today(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("task: copy\nmodel: {memory: queue}\n")
    assert resolve(config=str(path)).model.start.gate_bias == {"forget": 7}


def leaves(settings: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The paths of all settings, those with parts included."""
    within = settings.items() if isinstance(settings, dict) else ()
    return [
        place for key, value in within for place in [(*path, key), *leaves(value, (*path, key))]
    ]


FREE = {("model", "start", "gate_bias"), ("model", "start", "signal_bias")}
"""Settings whose parts are named by those who write them."""


@pytest.mark.parametrize("written", ["format-2", "format-3"])
def test_a_whole_configuration_that_lacks_a_setting_is_refused_with_its_name(
    written: str, tmp_path: Path
) -> None:
    text = (DATA / written / "copy-queue.yaml").read_text()
    path = tmp_path / "config.yaml"
    for place in leaves(yaml.safe_load(text)):
        if place in (("format",), ("task", "recipes")) or place[:-1] in FREE:
            continue
        settings = yaml.safe_load(text)
        section = settings
        for key in place[:-1]:
            section = section[key]
        del section[place[-1]]
        path.write_text(yaml.safe_dump(settings))
        # Of a task, a model or training there is more to say than that it is missing.
        name = ".".join(place) if len(place) > 1 and place[0] != "task" else place[-1]
        with pytest.raises(UsageError) as caught:
            resolve(config=str(path))
        assert "config.yaml:" in str(caught.value)
        # Of a block that is nothing without a setting there is more to say, too.
        assert name in str(caught.value) or ".".join(place[:-1]) in str(caught.value)


def test_a_checkpoint_that_lacks_a_setting_is_refused_with_its_name(tmp_path: Path) -> None:
    copied = tmp_path / "copied"
    shutil.copytree(SOFT / "copy-queue", copied)
    path = copied / "config.yaml"
    path.write_text(path.read_text().replace("    symbols: 128\n", "    {}\n"))
    reseal(copied)
    with pytest.raises(UsageError, match=r"config.yaml:\d+: task.parameters.symbols is missing"):
        checkpoint.load(copied, CPU)


def test_a_run_that_can_not_be_said_any_more_does_not_go_on(tmp_path: Path) -> None:
    last = tmp_path / "run" / "last"
    last.mkdir(parents=True)
    shutil.copy(SOFT / "copy-queue" / "model.safetensors", last)
    torch.save({}, last / "training.pt")
    text = (DATA / "format-2" / "copy-queue.yaml").read_text()
    (last / "config.yaml").write_text(text.replace("smoothing: 0.9\n", "smoothing: 0.8\n"))
    reseal(last)
    checkpoint.load(last, CPU)
    line = 1 + text.splitlines().index("  smoothing: 0.9")
    said = rf"config.yaml:{line}: training.smoothing: 0.8: of an older version"
    with pytest.raises(UsageError, match=said):
        Trainer.resume(tmp_path / "run", [], CPU)


def test_what_stands_in_the_code_of_a_generator_is_said(tmp_path: Path) -> None:
    task = tmp_path / "mine.yaml"
    task.write_text(
        "name: mine\ngenerator: memorization\nlengths: {train: [1, 3], test: [4, 5]}\n"
        "length_law: uniform\n"
    )
    config = resolve(task=str(task), settings={"model": {"memory": "stack"}})
    assert config.task.parameters == {"symbols": 2}


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("0", "format: expected a number from 1 to 3"),
        ("-1", "format: expected a number from 1 to 3"),
        ("true", "format: expected a number from 1 to 3"),
        ("'2'", "format: expected a number from 1 to 3"),
        ("4", "format 4 is newer"),
    ],
)
def test_formats_that_there_are_not_are_refused(tmp_path: Path, written: str, message: str) -> None:
    path = tmp_path / "config.yaml"
    text = (DATA / "format-3" / "copy-queue.yaml").read_text()
    path.write_text(text.replace("format: 3", f"format: {written}"))
    with pytest.raises(UsageError, match=f"config.yaml:1: {message}"):
        resolve(config=str(path))


def test_a_whole_configuration_takes_no_other_recipe() -> None:
    path = str(DATA / "format-2" / "copy-queue.yaml")
    assert resolve(config=path, recipe="default") == resolve(config=path)
    with pytest.raises(UsageError, match=r"recipe paper: .*copy-queue.yaml is a whole conf"):
        resolve(config=path, recipe="paper")


def test_a_whole_configuration_can_be_given_another_task() -> None:
    path = str(DATA / "format-2" / "copy-queue.yaml")
    config, other = resolve(config=path), resolve(config=path, task="addition")
    assert (other.model, other.training) == (config.model, config.training)
    assert other.task.name == "addition"
    assert other.task.ranges.train == (1, 19)


def recorded(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize(
    ("sweep", "profile"), [("joulin2015", "small"), ("grefenstette2015", "small")]
)
def test_recorded_runs_of_sweeps_are_known_by_their_configurations(
    sweep: str, profile: str
) -> None:
    records = recorded(RESULTS / f"{sweep}-{profile}" / "results.jsonl")
    versions = {record["identity"]: record["version"] for record in records}
    runs = read_plan(RESULTS.parent / f"{sweep}.yaml", profile).runs
    assert {run.identity for run in runs} == versions.keys()
