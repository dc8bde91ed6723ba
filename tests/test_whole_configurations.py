"""Whole configurations: the configuration that a run writes is complete."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from changed_checkpoints import reseal
from small_runs import CPU
from soft_models import SOFT

from stacktrans.common.errors import UsageError
from stacktrans.model import checkpoint
from stacktrans.settings import locations
from stacktrans.settings.layers import merged_settings
from stacktrans.settings.resolve import resolve

DATA = Path(__file__).parent / "data" / "configurations"
RESULTS = Path(__file__).parent.parent / "experiments" / "results"


@pytest.fixture
def other_recipes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recipes unlike those that the models were trained with."""
    folder = tmp_path / "recipes"
    shutil.copytree(locations.recipes(), folder)
    recipe = yaml.safe_load((folder / "default.yaml").read_text())
    recipe = merged_settings(recipe, {"model": {"memory": {"depth": 1, "values": "sigmoid"}}})
    recipe["by_memory"] = {"queue": {"model": {"initialization": {"gate_bias": {"forget": 7}}}}}
    (folder / "default.yaml").write_text(yaml.safe_dump(recipe))
    shutil.rmtree(folder / "joulin2015")
    monkeypatch.setattr(locations, "recipes", lambda: folder)


@pytest.mark.usefixtures("other_recipes")
def test_a_file_of_settings_takes_the_recipe_of_today(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("task: copy\nmodel: {memory: queue}\n")
    assert resolve(config=str(path)).model.initialization.gate_bias == {"forget": 7}


def leaves(settings: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The paths of all settings, those with parts included."""
    within = settings.items() if isinstance(settings, dict) else ()
    return [
        place for key, value in within for place in [(*path, key), *leaves(value, (*path, key))]
    ]


FREE = {("model", "initialization", "gate_bias"), ("model", "initialization", "signal_bias")}
"""Settings whose parts are named by those who write them."""


def test_a_whole_configuration_that_lacks_a_setting_is_refused_with_its_name(
    tmp_path: Path,
) -> None:
    text = (DATA / "copy-queue.yaml").read_text()
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
        # Messages about the task, or about a whole section, need name only the last key.
        name = ".".join(place) if len(place) > 1 and place[0] != "task" else place[-1]
        with pytest.raises(UsageError) as caught:
            resolve(config=str(path))
        assert "config.yaml:" in str(caught.value)
        # If a section is invalid without the setting, the message may name only the section.
        assert name in str(caught.value) or ".".join(place[:-1]) in str(caught.value)


def test_a_checkpoint_that_lacks_a_setting_is_refused_with_its_name(tmp_path: Path) -> None:
    copied = tmp_path / "copied"
    shutil.copytree(SOFT / "copy-queue", copied)
    path = copied / "config.yaml"
    path.write_text(path.read_text().replace("    symbols: 128\n", "    {}\n"))
    reseal(copied)
    with pytest.raises(UsageError, match=r"config.yaml:\d+: task.parameters.symbols is missing"):
        checkpoint.load(copied, CPU)


def test_defaults_of_a_generator_are_written_out(tmp_path: Path) -> None:
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
        ("true", r"format: expected 3 \(given: True\)"),
        ("'3'", r"format: expected 3 \(given: '3'\)"),
    ],
)
def test_unknown_formats_are_refused(tmp_path: Path, written: str, message: str) -> None:
    path = tmp_path / "config.yaml"
    text = (DATA / "copy-queue.yaml").read_text()
    path.write_text(text.replace("format: 3", f"format: {written}"))
    with pytest.raises(UsageError, match=f"config.yaml:1: {message}"):
        resolve(config=str(path))


def test_a_whole_configuration_takes_no_other_recipe() -> None:
    path = str(DATA / "copy-queue.yaml")
    assert resolve(config=path, recipe="default") == resolve(config=path)
    with pytest.raises(UsageError, match=r"recipe paper: .*copy-queue.yaml is a whole conf"):
        resolve(config=path, recipe="paper")


def test_a_whole_configuration_can_be_given_another_task() -> None:
    path = str(DATA / "copy-queue.yaml")
    config, other = resolve(config=path), resolve(config=path, task="addition")
    assert (other.model, other.training) == (config.model, config.training)
    assert other.task.name == "addition"
    assert other.task.ranges.train == (1, 19)


@pytest.mark.usefixtures("other_recipes")
@pytest.mark.parametrize("name", ["copy-queue", "addition"])
def test_a_whole_configuration_is_the_same_whatever_the_recipes_say(name: str) -> None:
    path = DATA / f"{name}.yaml"
    assert resolve(config=str(path)).to_yaml() == path.read_text()


def test_options_change_a_whole_configuration_alone() -> None:
    path = str(DATA / "addition.yaml")
    config, changed = resolve(config=path), resolve(config=path, assignments=["max_steps=7"])
    assert changed.training == config.training.model_copy(update={"max_steps": 7})
    assert (changed.model, changed.task) == (config.model, config.task)
