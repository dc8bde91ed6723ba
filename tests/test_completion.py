"""Completion of words in shells."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import ENVIRONMENT, STACKTRANS
from typer.testing import CliRunner

from stacktrans.cli import app
from stacktrans.commands.completion import PROGRAM
from stacktrans.commands.listing import KINDS
from stacktrans.common.files import MACHINE
from stacktrans.common.registry import CONTROLLERS, MEMORIES
from stacktrans.settings.config import RunConfig
from stacktrans.settings.locations import shipped
from stacktrans.settings.resolve import resolve
from stacktrans.settings.schema import setting_path

TASKS = sorted(path.stem for path in shipped("tasks").glob("*.yaml"))
CHECKPOINTS = sorted(path.name for path in shipped("checkpoints").glob("*/"))


def asked(line: str) -> dict[str, str]:
    """The environment in which bash asks to complete the last word of a line."""
    number = str(len(line.split(" ")) - 1)
    return {"_STACKTRANS_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": number}


def offered(line: str) -> list[str]:
    result = CliRunner().invoke(app, [], env=asked(line), prog_name=PROGRAM)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout.split()


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_names_are_completed() -> None:
    assert "transduce" in offered("stacktrans ")
    assert offered("stacktrans train --task ") == TASKS
    reversals = ["reversal", "reversal-deletion", "reverse", "reverse-string"]
    assert offered("stacktrans generate --task rev") == reversals
    assert offered("stacktrans train --memory ") == sorted(MEMORIES.builtin)
    assert offered("stacktrans train --controller ") == sorted(CONTROLLERS.builtin)
    known = {"joint", "buffered", "feedforward"}
    assert {"auto", "default", "paper", *known} <= set(offered("stacktrans train --recipe "))
    assert known <= set(offered("stacktrans train --strategies "))
    assert "default" not in offered("stacktrans train --strategies ")
    assert offered("stacktrans list ") == sorted(KINDS)
    assert offered("stacktrans transduce --h") == ["--hard", "--help"]
    for command in ("eval", "transduce", "inspect"):
        assert offered(f"stacktrans {command} ") == CHECKPOINTS
    assert offered("stacktrans train --task absent") == []


def test_tasks_and_runs_of_the_user_are_completed(place: Path) -> None:
    (place / "tasks").mkdir()
    (place / "tasks" / "mine.yaml").write_text("no: [task")
    (place / "tasks" / "two words.yaml").touch()
    assert offered("stacktrans train --task mi") == ["mine", "missing-duplicate-string"]
    assert "two" not in offered("stacktrans train --task ")
    for run in ("checkpoints/copy-run", "elsewhere/copy-other"):
        for part in ("best", "last"):
            (place / run / part).mkdir(parents=True)
            (place / run / part / "model.safetensors").touch()
    (place / "checkpoints" / "copy-nothing").mkdir()
    (place / "checkpoints" / "copy-machine").mkdir()
    (place / "checkpoints" / "copy-machine" / MACHINE).touch()
    own = ["checkpoints/copy-machine", "checkpoints/copy-run"]
    assert offered("stacktrans eval ") == sorted([*CHECKPOINTS, *own])
    in_folder = ["checkpoints/copy-deque", *own, "checkpoints/copy-queue"]
    assert offered("stacktrans eval checkpoints/copy") == sorted(in_folder)
    assert offered("stacktrans eval elsewhere/") == ["elsewhere/copy-other"]
    assert offered("stacktrans eval ./elsewhere/c") == ["./elsewhere/copy-other"]
    absolute = str(place / "elsewhere" / "copy-other")
    assert offered(f"stacktrans eval {absolute[:-3]}") == [absolute]
    assert offered("stacktrans train --resume ") == ["checkpoints/copy-run"]


def leaves(settings: object, prefix: str = "") -> list[str]:
    if not isinstance(settings, dict) or not settings:
        return [prefix.removesuffix(".") + "="]
    return [leaf for key in settings for leaf in leaves(settings[key], f"{prefix}{key}.")]


def test_settings_of_runs_are_completed() -> None:
    found = offered("stacktrans train --task copy --set ")
    config = resolve(task="copy", settings={"model": {"memory": "stack"}}).model_dump()
    known = {section: config[section] for section in ("seed", "threads", "workers", "training")}
    assert {*leaves(known), "model.controller.layers=", "model.initialization.weights="} <= set(
        found
    )
    assert {"training.data.stream.steps=", "training.curriculum.share="} <= set(found)
    assert {"task.parameters.symbols=", "task.lengths.train=", "task.length_law="} <= set(found)
    sections = ("model", "training")
    given = {path.removesuffix("=") for path in found if path.startswith(sections)}
    assert {path.split(".")[1] for path in given} == {
        *RunConfig.model_fields["model"].annotation.model_fields,  # type: ignore[union-attr]
        *RunConfig.model_fields["training"].annotation.model_fields,  # type: ignore[union-attr]
    }


def test_settings_are_completed_without_their_section() -> None:
    for begun in ("hid", "learning_", "parameters.", "stream.", "l"):
        found = offered(f"stacktrans train --task copy --set {begun}")
        assert found
        for word in found:
            setting_path(word.partition("=")[0], RunConfig, word)
    assert not any("length_law" in word for word in found)  # which runs and tasks have


@pytest.mark.parametrize(
    ("command", "begun", "key"),
    [
        ("train", "hid", "hidden_size="),
        ("train", "controller.hid", "controller.hidden_size="),
        ("generate", "parameters.sy", "parameters.symbols="),
    ],
)
def test_no_shell_puts_a_space_after_a_setting(command: str, begun: str, key: str) -> None:
    words = offered(f"stacktrans {command} --task copy --set {begun}")
    # Of several words, a shell inserts the common prefix, with no space after it.
    assert len(words) > 1
    assert key in words
    assert all(word.startswith(key) for word in words)


def test_settings_of_tasks_are_completed(place: Path) -> None:
    found = offered("stacktrans generate --task copy --set ")
    assert {"parameters.symbols=", "lengths.train=", "lengths.test=", "length_law="} <= set(found)
    assert not any(key.startswith("model") for key in found)
    (place / "mine.yaml").write_text("parameters: {pattern: a^n b^n}\nlengths: 3\n")
    found = offered("stacktrans generate --task mine.yaml --set ")
    assert found == ["lengths=", "parameters.pattern="]


@pytest.mark.parametrize("content", [b"a: [", b"\xff\xfe", b"- list", b"lengths: {1: 2", b""])
def test_invalid_files_offer_nothing(place: Path, content: bytes) -> None:
    (place / "mine.yaml").write_bytes(content)
    assert offered("stacktrans generate --task mine.yaml --set ") == []
    assert offered("stacktrans sweep mine.yaml --profile ") == []
    assert offered("stacktrans train --task mine.yaml --set task.parameters.") == []


def test_profiles_of_sweeps_are_completed(place: Path) -> None:
    (place / "mine.yaml").write_text("profiles: {small: {}, '2': {}, 'not this': {}}\n")
    assert offered("stacktrans sweep mine.yaml --profile ") == ["2", "small"]
    assert offered("stacktrans sweep --profile ") == []


def test_a_shell_has_its_answer_without_torch_or_numpy() -> None:
    code = (
        "import sys\n"
        "from stacktrans.cli import main\n"
        "try:\n    main()\n"
        "finally:\n    print('loaded', *{'torch', 'numpy'} & sys.modules.keys(), file=sys.stderr)"
    )
    for line in ("stacktrans eval rev", "stacktrans generate --task copy --set par"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**ENVIRONMENT, **asked(line)},
            capture_output=True,
            check=False,
        )
        assert (done.returncode, done.stderr.decode().strip()) == (0, "loaded")
        assert done.stdout.decode().split()[0] in ("reversal-stack", "parameters.symbols=")


def test_help_of_completions_is_one_line() -> None:
    result = subprocess.run(
        [*STACKTRANS],
        env={
            **ENVIRONMENT,
            "_STACKTRANS_COMPLETE": "complete_fish",
            "_TYPER_COMPLETE_FISH_ACTION": "get-args",
            "_TYPER_COMPLETE_ARGS": "stacktrans eval --ha",
            "COLUMNS": "40",
        },
        capture_output=True,
        check=False,
    )
    (line,) = result.stdout.decode().splitlines()
    assert line.startswith("--hard\tMake the memory discrete")


def test_completion_is_installed_where_a_shell_looks(place: Path) -> None:
    (place / ".bashrc").write_text("# mine\n")
    command = [*STACKTRANS, "--install-completion"]
    environment = {**os.environ, **ENVIRONMENT, "HOME": str(place)}
    script = f"{' '.join(command)}; exit $?"
    done = subprocess.run(
        ["bash", "--norc", "-c", script], env=environment, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (place / ".bashrc").read_text().startswith("# mine\n")
    assert "_STACKTRANS_COMPLETE" in (place / ".bash_completions" / "stacktrans.sh").read_text()
    (place / ".bashrc").write_bytes(b"# \xff\n")
    done = subprocess.run(
        ["bash", "--norc", "-c", script], env=environment, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.startswith(b"stacktrans: completion can't be installed: ")
    assert b"Traceback" not in done.stderr
    assert (place / ".bashrc").read_bytes() == b"# \xff\n"
