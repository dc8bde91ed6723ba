"""Configurations: layers, files, options, and messages on wrong ones."""

import inspect
from pathlib import Path

import pytest
import yaml

from stacktrans.commands.catalogue import settings
from stacktrans.common.registry import CONTROLLERS, MEMORIES, REGISTRIES
from stacktrans.model.encoder_decoder import EncoderDecoder
from stacktrans.settings.config import RunConfig
from stacktrans.settings.locations import recipe_names, recipes, shipped
from stacktrans.settings.model_config import (
    ENCODER_DECODERS,
    ActionMemoryConfig,
    BuffersConfig,
    ControllerConfig,
    MemoryConfig,
    RecurrentConfig,
    ScaleConfig,
    VectorMemoryConfig,
)
from stacktrans.settings.resolve import requested_seed, resolve
from stacktrans.settings.schema import setting_path
from stacktrans.settings.task_files import find_task
from stacktrans.settings.training_config import (
    ClipConfig,
    ConvergedConfig,
    DevelopmentConfig,
    MeasureConfig,
    StopConfig,
)
from stacktrans.tasks.lengths import Lengths, NormalLengths

QUEUE = {"model": {"memory": "queue"}}
SHIPPED = sorted(path.stem for path in shipped("tasks").glob("*.yaml"))


def copy_queue(**changes: object) -> RunConfig:
    return resolve(task="copy", settings=QUEUE, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("task", SHIPPED)
def test_every_recipe_fits_every_task(task: str) -> None:
    for recipe in recipe_names():
        config = resolve(task=task, recipe=recipe, settings=QUEUE)
        named = config.recipe, config.task.name, config.model.memory.name
        assert named == (recipe, task, "queue")


# By the general recipe, by those of two papers, and for a text.
@pytest.mark.parametrize("task", ["copy", "xor", "anbn", "text"])
def test_every_memory_fits_the_default_recipes(task: str) -> None:
    for memory in MEMORIES.builtin:
        config = resolve(task=task, recipe="default", settings={"model": {"memory": memory}})
        assert (config.task.name, config.model.memory.name) == (task, memory)


def test_the_baseline_has_no_memory_unless_one_is_given() -> None:
    assert resolve(task="copy", recipe="lstm").model.memory.name == "none"
    assert copy_queue(recipe="lstm").model.memory == VectorMemoryConfig(name="queue", size=256)


def test_the_paper_s_recipe_is_the_paper_s() -> None:
    config = copy_queue(recipe="paper")
    assert config.model.controller == RecurrentConfig(name="lstm", hidden_size=256)
    assert config.model.memory == VectorMemoryConfig(name="queue", size=256)
    assert config.model.embedding_size == 64
    initialization = config.model.initialization
    assert initialization.signal_bias == {"pop": -1, "push": 0}
    assert initialization.scale == ScaleConfig(signals=1, values=1, reads=1)
    training = config.training
    assert (training.optimizer, training.batch_size) == ("rmsprop", 10)
    assert training.gradient_clip == ClipConfig(norm=1)
    assert training.measure == MeasureConfig(loss_every=100, accuracy_every=1000, strings=1000)
    assert training.stop == StopConfig(converged=ConvergedConfig(patience=50))


def test_a_written_configuration_is_read_back_unchanged(tmp_path: Path) -> None:
    config = copy_queue(assignments=["learning_rate=0.003", "seed=7", "task.lengths.train=[3, 9]"])
    path = tmp_path / "config.yaml"
    path.write_text(config.to_yaml())
    assert resolve(config=str(path)) == config


def test_layers_lie_over_one_another_in_order(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "task: copy\nseed: 3\nmodel: {memory: stack, controller: {hidden_size: 20}}\n"
        "training: {batch_size: 4}\n"
    )
    config = resolve(
        config=str(path),
        settings={"model": {"controller": {"hidden_size": 30}}, "seed": 5},
        assignments=["memory.size=7", "batch_size=6"],
    )
    assert config.model.memory == VectorMemoryConfig(name="stack", size=7)
    assert config.model.controller == RecurrentConfig(name="lstm", hidden_size=30)
    assert config.seed == 5
    assert config.training.batch_size == 6


def test_published_settings_of_a_task_override_its_paper_s_recipe(tmp_path: Path) -> None:
    task = yaml.safe_load(find_task("copy").read_text())
    task["recipes"] = {
        "paper": {
            "training": {"batch_size": 3},
            "by_memory": {"queue": {"model": {"initialization": {"signal_bias": {"push": 0.25}}}}},
        }
    }
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(task))
    config = resolve(task=str(path), recipe="paper", settings=QUEUE)
    assert config.training.batch_size == 3
    assert config.model.initialization.signal_bias["push"] == 0.25
    stack = {"model": {"memory": "stack"}}
    other = resolve(task=str(path), recipe="paper", settings=stack)
    assert other.model.initialization.signal_bias["push"] == 0
    assert resolve(task=str(path), settings=QUEUE).training.batch_size == 10


@pytest.mark.parametrize("task", SHIPPED)
def test_shipped_tasks_have_only_published_training_settings(task: str) -> None:
    task_file = yaml.safe_load(find_task(task).read_text())
    assert {"paper"} >= task_file.get("recipes", {}).keys()
    known = {"name", "description", "generator", "parameters", "paper", "lengths", "length_law"}
    assert known | {"recipes"} >= task_file.keys()


def test_shipped_recipes_depend_on_no_generator_but_text() -> None:
    files = [yaml.safe_load(path.read_text()) for path in recipes().rglob("*.yaml")]
    assert files
    assert {name for file in files for name in file.get("by_generator", ())} == {"text"}


def test_a_recipe_can_depend_on_the_generator(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("{name: mine, generator: text, paper: joulin2015, parameters: {train: a.txt}}")
    training = resolve(task=str(path), settings={"model": {"memory": "none"}}).training
    assert training.data is not None
    assert training.data.stream is not None
    assert (training.data.stream.sequences, training.data.stream.epochs) == (None, 10)
    assert (training.stop, training.curriculum, training.rounding) == (None, None, None)
    path.write_text("{name: mine, generator: text, parameters: {train: a.txt}}")
    plain = resolve(task=str(path), recipe="default", settings={"model": {"memory": "none"}})
    assert plain.training.rounding is None
    pattern = resolve(task="anbn", settings={"model": {"memory": "none"}}).training
    assert pattern.data is None


def test_an_option_changes_part_of_a_task() -> None:
    config = copy_queue(
        assignments=["lengths.train=[2, 5]", "parameters.symbols=4", "signal_bias.pop=-2"]
    )
    assert config.task.ranges.train == (2, 5)
    assert config.task.ranges.test == (65, 128)
    assert config.task.parameters == {"symbols": 4}
    assert config.model.initialization.signal_bias == {"pop": -2, "push": 2}


def test_whole_numbers_may_have_exponents() -> None:
    found = copy_queue(
        assignments=["max_steps=1e3", "learning_rate=1e-3", "seed=2E1", "batch_size=1e2"]
    )
    assert (found.training.max_steps, found.training.learning_rate, found.seed) == (1000, 0.001, 20)
    assert found.training.batch_size == 100
    assert {requested_seed({"seed": written}) for written in ("1e1", 10, "10", 10.0)} == {10}
    assert {requested_seed({"seed": written}) for written in (None, True, "x", -1)} == {1}


def test_the_generator_of_a_task_can_be_changed() -> None:
    found = copy_queue(assignments=["task.generator=reverse"])
    assert (found.task.name, found.task.generator) == ("copy", "reverse")


def test_a_file_can_change_a_task_that_an_option_names(tmp_path: Path) -> None:
    path = tmp_path / "short.yaml"
    path.write_text("task: {lengths: {train: [1, 2], test: [3, 4]}}\n")
    found = resolve(config=str(path), task="copy", settings=QUEUE)
    assert found.task.name == "copy"
    assert found.task.ranges.train == (1, 2)


def test_a_paper_s_recipe_is_that_of_the_task_s_paper() -> None:
    config = resolve(task="xor", recipe="paper", settings={"model": {"memory": "stack"}})
    model, training = config.model, config.training
    assert model.controller == ControllerConfig(name="linear")
    assert model.memory == VectorMemoryConfig(name="stack", size=6, values="sigmoid")
    assert (model.embedding_size, model.output_size) == ("one-hot", None)
    assert model.initialization.weights == "normal"
    assert model.initialization.signal_bias == {
        "pop": -1,
        "push": 0,
        "input read": 1,
        "output write": 1,
    }
    assert (training.optimizer, training.learning_rate) == ("adam", 0.01)
    assert training.weight_decay == 0.01
    assert training.stop == StopConfig(development=DevelopmentConfig(patience=5))
    assert training.gradient_clip is None
    assert training.examples is not None
    sizes = training.examples
    assert (sizes.train, sizes.development, sizes.test, sizes.epochs) == (800, 100, 1000, 100)


def test_a_recipe_can_change_the_task_and_options_override_it(tmp_path: Path) -> None:
    stack = {"model": {"memory": "stack"}}
    config = resolve(task="reversal", recipe="paper", settings=stack)
    assert config.task.ranges.test == (1, 24)
    assert config.task.law_of(config.task.ranges.test) == NormalLengths(20, 4)
    assert config.task.law_of(Lengths(3, 4)) == "uniform"
    changed = resolve(
        task="reversal",
        recipe="paper",
        settings=stack,
        assignments=["task.lengths.test=[3, 4]", "task.length_law=uniform"],
    )
    assert changed.task.ranges.test == (3, 4)
    path = tmp_path / "config.yaml"
    path.write_text(changed.to_yaml())
    assert resolve(config=str(path)) == changed


def test_a_recipe_can_depend_on_controller_and_memory(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "name: mine\ngenerator: copy\nlengths: {train: [1, 2], test: [3, 4]}\n"
        "length_law: uniform\nrecipes:\n  paper:\n    by_controller:\n      gru:\n"
        "        model: {controller: {hidden_size: 7}}\n        by_memory:\n          queue:\n"
        "            model: {memory: {size: 3}}\n"
    )
    sizes = {}
    for controller in ("gru", "lstm"):
        for memory in ("queue", "stack"):
            model = {"controller": controller, "memory": memory}
            config = resolve(task=str(path), recipe="paper", settings={"model": model}).model
            assert isinstance(config.controller, RecurrentConfig)
            sizes[controller, memory] = (config.controller.hidden_size, config.memory_size)
    assert sizes == {
        ("gru", "queue"): (7, 3),
        ("gru", "stack"): (7, 256),
        ("lstm", "queue"): (256, 256),
        ("lstm", "stack"): (256, 256),
    }


def test_every_name_has_its_class() -> None:
    for registry in REGISTRIES:
        for name in registry.builtin:
            found = registry.load(name)
            if name in ENCODER_DECODERS:
                assert issubclass(found.torch_layer(), EncoderDecoder)
                continue
            assert registry.has_base(found.torch_layer() if registry is CONTROLLERS else found)
    assert all(MEMORIES.load(name).name == name for name in MEMORIES.builtin)


def test_settings_of_a_memory_are_the_parameters_of_its_class() -> None:
    for name in MEMORIES.builtin:
        made = inspect.signature(MEMORIES.load(name)).parameters.values()
        defaults = {each.name: each.default for each in made}
        assert MemoryConfig.read(name).arguments == defaults


def test_a_memory_is_chosen_by_its_name_or_with_its_settings() -> None:
    named = copy_queue(assignments=["memory=stack-rnn", "memory.count=3"])
    whole = copy_queue(assignments=["memory={name: stack-rnn, count: 3}"])
    assert named == whole
    assert isinstance(named.model.memory, ActionMemoryConfig)
    assert named.model.memory.count == 3


def test_settings_of_another_memory_in_a_file_are_ignored(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    count = "memory={name: stack-rnn, count: 3, size: 5}"
    path.write_text(copy_queue(assignments=[count]).to_yaml())
    changed = resolve(config=str(path), settings={"model": {"memory": "queue"}})
    assert changed.model.memory == VectorMemoryConfig(name="queue", size=5)
    linear = resolve(config=str(path), assignments=["controller=linear"])
    assert linear.model.controller == ControllerConfig(name="linear")


def test_a_recipe_configures_buffers_but_does_not_add_them() -> None:
    stack = {"model": {"memory": "stack"}}
    plain = resolve(task="xor", recipe="paper", settings=stack)
    assert plain.model.buffers is None
    buffered = resolve(task="xor", recipe="paper", settings=stack, assignments=["buffers={}"])
    assert buffered.model.buffers == BuffersConfig(steps_per_symbol=2, output_skip=1)


def test_one_alternative_replaces_another() -> None:
    config = copy_queue(assignments=["stop={converged: {patience: 3}}"])
    assert config.training.stop == StopConfig(converged=ConvergedConfig(patience=3))


def test_settings_without_effect_on_results_are_not_part_of_the_identity() -> None:
    config = copy_queue()
    assert config.model_copy(update={"version": "99", "workers": 7}).identity() == config.identity()
    for change in (
        "seed=2",
        "threads=2",
        "batch_size=11",
        "memory.size=5",
        "lengths.test=[9, 9]",
        "source_loss=0.1",
        "initialization.same_symbols=true",
    ):
        assert copy_queue(assignments=[change]).identity() != config.identity()


def test_at_most_sixty_settings_are_listed() -> None:
    listed = list(settings())
    assert len(listed) <= 60
    paths = [entry.name for entry in listed]
    assert len(set(paths)) == len(paths)
    for path in paths:
        assert setting_path(path, RunConfig, "") == path
