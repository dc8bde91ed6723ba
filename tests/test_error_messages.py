"""Error messages on wrong settings name them as they are written, and no classes."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_line import invoke

from stacktrans.cli import app
from stacktrans.common.errors import UsageError
from stacktrans.settings.config import RunConfig
from stacktrans.settings.layers import SettingsLayer, merged_settings, nested, validated
from stacktrans.settings.resolve import resolve
from stacktrans.settings.task_files import load_task

COMMANDS = app.registered_commands
LAWS = "uniform, task, {mean: ..., deviation: ...}, {depth: ...} or {train: ..., test: ...}"
TASK = {
    "name": "t",
    "generator": "copy",
    "parameters": {"symbols": 3},
    "lengths": {"train": [1, 5], "test": [6, 8]},
}


def task_of(tmp_path: Path, **changes: Any) -> Any:
    path = tmp_path / "task.yaml"
    path.write_text(yaml.safe_dump({**TASK, **changes}, sort_keys=False))
    return load_task(str(path))


def test_lengths_are_uniform_if_a_file_does_not_say(tmp_path: Path) -> None:
    task = task_of(tmp_path)
    assert task.length_law == "uniform"
    assert task == task_of(tmp_path, length_law="uniform")
    command = ["generate", "--task", str(tmp_path / "task.yaml"), "--count", "2"]
    result = invoke(*command)
    assert (result.returncode, len(result.out.splitlines())) == (0, 2)


@pytest.mark.parametrize(
    ("law", "message"),
    [
        ("unifrom", f"length_law: expected {LAWS} (given: 'unifrom')"),
        (5, f"length_law: expected {LAWS} (given: 5)"),
        ({}, f"length_law: expected {LAWS} (given: {{}})"),
        ({"mean": 5}, "length_law.deviation is missing"),
        ({"mean": "x", "deviation": 1}, "length_law.mean: expected a number from 0 to"),
        ({"depht": 3}, f"length_law: expected {LAWS} (given: {{'depht': 3}})"),
        ({"train": "task"}, "length_law.test is missing"),
        ({"train": "task", "test": "all"}, "length_law.test: expected uniform, task, {mean: ..."),
    ],
)
def test_an_unknown_length_law_is_refused_with_the_known_ones(
    law: Any, message: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError) as caught:
        task_of(tmp_path, length_law=law)
    (problem,) = caught.value.problems
    assert problem.startswith(f"{tmp_path / 'task.yaml'}:")
    assert message in problem


VALUES = ["x", -3, 2.5, [1], {"x": 1}, {}, None, True, [1, 2, 3], {"depth": "x"}, {"train": 3}]
PATHS = [
    *("task.lengths", "task.lengths.train", "task.length_law", "task.recipes", "task.parameters"),
    *("model.embedding_size", "model.output_size", "model.initialization"),
    *("model.initialization.gate_bias", "model.initialization.same_symbols"),
    *("training.curriculum", "training.data.examples", "training.data.stream"),
    *("training.rounding", "training.length_law", "training.stop", "training.learning_rate"),
    *("model", "training", "task", "seed"),
]


@pytest.mark.parametrize("path", PATHS)
def test_no_message_names_a_class(path: str) -> None:
    base = resolve(task="copy", settings={"model": {"memory": "queue"}}).model_dump()
    without = merged_settings(base, nested(path, None))
    problems: list[str] = []
    for value in VALUES:
        settings = merged_settings(without, nested(path, value))
        try:
            validated(RunConfig, settings, [SettingsLayer("here", settings)])
        except UsageError as error:
            problems += error.problems
    assert problems
    for problem in problems:
        complaint = problem.split("(given:")[0]
        assert not re.search(r"[a-z][A-Z]|instance|dictionary|literal|\[str", complaint), problem


def test_expected_structures_are_shown_as_they_are_written() -> None:
    def complaint(path: str, value: Any) -> str:
        settings = merged_settings({"model": {"memory": "queue"}}, nested(path, value))
        with pytest.raises(UsageError) as caught:
            resolve(task="copy", settings=settings)
        return str(caught.value)

    assert "embedding_size: expected a whole number from 1 to 65536 or one-hot" in complaint(
        "model.embedding_size", "onehot"
    )
    assert "lengths.train: expected [shortest, longest] (given: [1])" in complaint(
        "task.lengths.train", [1]
    )
    assert "expected {share: ..., growth: ..., loss: ...} (given: 0.5)" in complaint(
        "training.curriculum", 0.5
    )


@pytest.mark.parametrize("name", [each.callback.__name__ for each in COMMANDS])  # type: ignore[union-attr]
def test_each_example_of_the_help_has_a_line_of_its_own(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = invoke(name, "--help").out.splitlines()
    example = re.compile(r"(echo .*)?stacktrans [a-z]+( |$)")
    (function,) = (each.callback for each in COMMANDS if each.callback.__name__ == name)  # type: ignore[union-attr]
    written = [line.strip() for line in (function.__doc__ or "").splitlines()]
    found = [line.strip() for line in lines if example.match(line.strip())]
    assert found == [line for line in written if example.match(line)]
    assert len(found) > 2


@pytest.mark.parametrize("command", [[], *([each.callback.__name__] for each in COMMANDS)])  # type: ignore[union-attr]
def test_help_shows_no_types_of_python_and_no_doubled_brackets(command: list[str]) -> None:
    text = invoke(*command, "--help").out
    assert not re.findall(r"<[\w\[\]]+>|[{}]|\[\[", text.replace("<unk>", ""))
