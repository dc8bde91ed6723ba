"""The candidates of a race for each task, and the requests behind them."""

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import run
from races import begun, candidates_of, configs, request_of

from stacktrans.settings.candidates import not_raced
from stacktrans.settings.resolve import resolve, strategies
from stacktrans.training import race
from stacktrans.training.race_state import read_race
from stacktrans.training.requests import begin_race


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--budget", "0s"], "--budget 0s: expected a time of more than 0s"),
        (["--budget", "-5s"], "--budget -5s: expected a time of more than 0s"),
        (["--budget", "soon"], "--budget soon: expected a time of more than 0s"),
        (["--budget", "9" * 400], "--budget 999"),
        (["--workers", "0"], "--workers 0: expected a number of at least 1"),
        (["--workers", "-1"], "--workers -1: expected a number of at least 1"),
        (["--strategies", ","], "--strategies ,: expected names"),
        (["--strategies", "jiont"], "unknown strategy 'jiont'; did you mean 'joint'"),
        (["--strategies", "no-memory", "--memory", "stack"], "its memory is none, not stack"),
        (["--strategies", "joint", "--recipe", "default"], "strategies: only for the recipe auto"),
        (["--budget", "1m", "--recipe", "joint"], "budget: only for the recipe auto"),
        (["--task", "xor", "--strategies", "joint"], "not for a task of this kind (synchronous)"),
        (["--recipe", "auot"], "did you mean 'auto'"),
        (["--set", "learning_rate=-1"], "learning_rate"),
        (["--hidden", "0"], "--hidden: expected a whole number from 1"),
    ],
)
def test_strategies_that_cannot_be_raced_are_refused(
    tmp_path: Path, options: list[str], message: str
) -> None:
    done = run("train", "--task", "copy", *options, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr.decode()
    assert list(tmp_path.iterdir()) == []


def test_a_budget_is_refused_when_a_single_run_is_resumed(trained: Path) -> None:
    done = run("train", "--resume", trained, "--budget", "1m")
    assert done.returncode == 2
    assert "budget and workers apply only to a race; " in done.stderr.decode()


@pytest.mark.parametrize(("limit", "budget", "least"), [(60, 20, 20), (20, 60, 20), (None, 20, 20)])
def test_a_single_strategy_is_limited_by_the_smaller_of_budget_and_time_limit(
    limit: int | None, budget: float, least: float
) -> None:
    limits = [] if limit is None else [f"time_limit={limit}"]
    found = candidates_of(names=["joint"], budget=budget, task="copy", assignments=limits)
    assert found["joint"].training.time_limit == least


def test_a_time_limit_is_the_budget_of_a_race_unless_one_is_given(tmp_path: Path) -> None:
    limited = configs("time_limit=70")
    for name, given, budget in (("a", None, 70), ("b", 20, 20)):
        begin_race(limited, request_of(tmp_path / name, given))
        assert read_race(tmp_path / name).budget == budget
    begin_race(configs(), request_of(tmp_path / "c", None))
    assert read_race(tmp_path / "c").budget == race.BUDGET


def test_the_steps_of_a_race_cannot_be_changed(tmp_path: Path) -> None:
    begun(tmp_path / "run")
    done = run("train", "--resume", tmp_path / "run", "--max-steps", "9")
    assert done.returncode == 2
    assert "--max-steps: does not apply to a race, which has a budget" in done.stderr.decode()


def test_a_dry_run_shows_the_strategies(tmp_path: Path) -> None:
    shown = run("train", "--task", "copy", "--dry-run", cwd=tmp_path)
    assert shown.returncode == 0
    known = {
        name: each
        for name, each in strategies().items()
        if "pairs" in each.kinds and each.only_with in (None, "varying length")
    }
    assert len(known) > 3
    for name, each in known.items():
        assert name in shown.stdout.decode()
        assert each.idea in shown.stdout.decode()
    assert f"--recipe {next(iter(known))} --dry-run" in shown.stderr.decode()
    as_json = run("train", "--task", "copy", "--dry-run", "--json", cwd=tmp_path)
    assert json.loads(as_json.stdout).keys() == known.keys()
    assert list(tmp_path.iterdir()) == []


def test_every_strategy_is_a_recipe_for_its_tasks() -> None:
    examples = {"pairs": "copy", "synchronous": "xor", "stream": "anbn", "text": "text"}
    for name, strategy in strategies().items():
        for kind in strategy.kinds:
            config = resolve(name, task=examples[kind])
            assert config.recipe == name
            assert config.model.memory.name == strategy.memory


@pytest.mark.parametrize(
    ("columns", "form", "first"),
    [
        ("source,target", "{0}\t{0}s", "feedforward"),
        ("source,features,target", "{0}\tPL\t{0}s", "all-lengths"),
    ],
)
def test_strategies_are_ordered_for_sources_with_features(
    columns: str, form: str, first: str, tmp_path: Path
) -> None:
    data = tmp_path / "words.tsv"
    data.write_text("".join(f"{form.format(word)}\n" for word in ("cat", "dog", "owl", "emu")))
    parameters = {"train": str(data), "columns": columns}
    task = {"name": "words", "generator": "pairs", "parameters": parameters}
    names = [*candidates_of(settings={"task": task})]
    assert names[0] == first
    only_with_features = {"attention"} if "features" in columns else set()
    few = candidates_of(task="copy", assignments=["parameters.symbols=10"])
    assert set(names) == few.keys() | only_with_features


@pytest.mark.parametrize(("task", "buffered"), [("even-pairs", False), ("reverse-string", True)])
def test_only_answers_of_varying_length_are_written_to_a_buffer(task: str, buffered: bool) -> None:
    configs = candidates_of(task=task).values()
    assert any(config.model.buffers for config in configs) == buffered


@pytest.mark.parametrize("symbols", [64, 65])
def test_the_second_order_strategy_is_raced_only_for_few_symbols(symbols: int) -> None:
    configs = candidates_of(task="copy", assignments=[f"parameters.symbols={symbols}"])
    assert ("second-order" in configs) is (symbols == 64)


@pytest.mark.parametrize(
    ("form", "fixed"), [("{0}\t{1}", True), ("{0}\t{0}", False), ("abc\t{1}", False)]
)
def test_finite_automata_are_raced_first_for_answers_of_fixed_length(
    form: str, fixed: bool, tmp_path: Path
) -> None:
    data, words = tmp_path / "words.tsv", ("a", "ab", "abc", "abcd", "abcde")
    data.write_text("".join(f"{form.format(word, word[-1])}\n" for word in words))
    task = {"name": "words", "generator": "pairs", "parameters": {"train": str(data)}}
    if form.startswith("abc"):  # equal sources are not held out without files of their own
        task["parameters"] |= {"dev": str(data), "test": str(data)}  # type: ignore[operator]
    names = [*candidates_of(settings={"task": task})]
    assert (names[0] == "finite-state") is ("finite-state" in names) is fixed


@pytest.mark.parametrize(("task", "fixed"), [("modular-arithmetic", True), ("copy", False)])
def test_answers_of_fixed_length_are_found_in_a_sample(task: str, fixed: bool) -> None:
    assert ("finite-state" in candidates_of(task=task)) is fixed


@pytest.mark.parametrize("memory", ["queue", "2*stack", "stack-rnn", "nondeterministic"])
def test_a_requested_memory_is_raced(memory: str) -> None:
    found = candidates_of(task="copy", settings={"model": {"memory": memory}})
    assert {"joint", "buffered"} <= found.keys()
    assert "no-memory" not in found
    assert {each.model.memory.name for each in found.values()} == {memory}


def test_models_without_memory_are_raced_only_if_named() -> None:
    settings = {"model": {"memory": "none"}}
    found = candidates_of(task="copy", settings=settings)
    assert {"joint", "no-memory"} <= found.keys()
    assert not [name for name in found if "feedforward" in name]
    named = candidates_of(task="copy", names=["feedforward"], settings=settings)
    assert named.keys() == {"feedforward"}
    with_cells = {"model": {"memory": "none", "controller": {"name": "lstm", "recurrent": False}}}
    assert "joint" in candidates_of(task="copy", settings=with_cells)


def test_strategies_that_do_not_fit_the_options_are_not_raced() -> None:
    buffered = candidates_of(task="copy", settings={"model": {"buffers": {}}})
    assert "buffered" in buffered
    assert all(each.model.buffers for each in buffered.values())
    assert "joint" not in buffered


def test_strategies_that_come_to_the_same_are_raced_once() -> None:
    model = {"memory": "stack", "buffers": None}
    settings = {"model": model, "training": {"noise": {"gates": 0}, "learning_rate": 0.01}}
    found = candidates_of(task="copy", names=["joint", "buffered"], settings=settings)
    assert found.keys() == {"joint"}


def test_a_text_is_trained_without_a_race(tmp_path: Path) -> None:
    for name in ("train", "valid", "test"):
        (tmp_path / f"{name}.txt").write_text("a b c\n" * 9)
    parameters = {name: str(tmp_path / f"{name}.txt") for name in ("train", "valid", "test")}
    assert candidates_of(task="text", settings={"task": {"parameters": parameters}}).keys() == {
        "language"
    }


@pytest.mark.parametrize("place", ["settings", "assignments", "config"])
def test_a_recipe_that_is_named_anywhere_is_not_raced(tmp_path: Path, place: str) -> None:
    (tmp_path / "mine.yaml").write_text("recipe: wide\n")
    places: dict[str, Any] = {
        "settings": {"recipe": "wide"},
        "assignments": ["recipe=wide"],
        "config": str(tmp_path / "mine.yaml"),
    }
    asked: Any = {place: places[place]}
    assert candidates_of(task="copy", **asked) == {"wide": resolve("wide", task="copy")}


def test_a_budget_is_the_time_limit_of_a_run_without_a_race() -> None:
    (found,) = candidates_of(task="copy", names=["joint"], budget=90).values()
    assert found.training.time_limit == 90


def test_other_strategies_are_suggested_for_the_given_memory() -> None:
    task = resolve(task="copy", settings={"model": {"memory": "queue"}}).task
    assert {"no-memory", "joint"} <= {*not_raced(task, {"wide"}, None)}
    fitting = not_raced(task, {"wide"}, "queue")
    assert "joint" in fitting
    assert not {"no-memory", "wide"} & {*fitting}
