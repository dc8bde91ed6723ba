"""The README's commands run, and print what the README says."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import command_line
import pytest
import yaml
from command_line import ENVIRONMENT, Ended
from typer.testing import CliRunner

from stacktrans.cli import app
from stacktrans.settings.resolve import resolve
from stacktrans.sweeps.plan import read_plan

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()


def examples() -> list[tuple[str, str]]:
    """Commands of the console blocks with what is printed after them."""
    found = []
    for block in re.findall(r"```console\n(.*?)```", README, re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, printed = part.partition("\n")
            found.append((command, printed))
    return found


def run(command: str, folder: Path) -> Ended:
    """Run a command, in a shell and processes of its own only where it takes them."""
    words = shlex.split(command)
    if words[:2] != ["stacktrans", "sweep"] and not {"|", ">"} & {*words}:
        return command_line.run(*words[1:], cwd=folder)
    command = command.replace("stacktrans ", f"{shlex.quote(sys.executable)} -m stacktrans ", 1)
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, cwd=folder, env=ENVIRONMENT, check=False
    )
    return Ended(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the examples are run, in order, with the checkpoints beside them."""
    path = tmp_path_factory.mktemp("readme")
    shutil.copytree(ROOT / "checkpoints", path / "checkpoints")
    (path / "mytext").mkdir()
    for part in ("train", "valid", "test"):
        (path / "mytext" / f"{part}.txt").write_text("the old man sees the sea .\n" * 9)
    content = yaml.safe_load(sweep_example())
    for condition in content["conditions"].values():
        condition["training"] = {"max_steps": 2, "validation_count": 4}
    (path / "mine.yaml").write_text(yaml.safe_dump(content))
    return path


def sweep_example() -> str:
    (block,) = re.findall(r"```yaml\n(title: .*?)```", README, re.DOTALL)
    return str(block)


def test_the_sweep_of_the_readme(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(sweep_example())
    assert len(read_plan(tmp_path / "mine.yaml").runs) == 12
    assert len(read_plan(tmp_path / "mine.yaml", "small").runs) == 4


def test_there_are_examples() -> None:
    assert len(examples()) > 6


MADE_BY = {
    "pairs.tsv": "stacktrans generate --task reverse --count 20 --out pairs.tsv",
    "checkpoints/text-stack-rnn-1": (
        "stacktrans train --text mytext --memory stack-rnn --max-steps 2"
    ),
}
"""What examples read that other examples write."""


@pytest.mark.parametrize(("command", "printed"), examples(), ids=lambda text: text[:60])
def test_examples(folder: Path, command: str, printed: str) -> None:
    if "stacktrans train " in command:
        # What is shown here is that the command is right, not that training works.
        command += " --max-steps 2 --set validation_count=4"
    for path, maker in MADE_BY.items():
        # Examples are spread over processes, and the one that makes it may be in another.
        if path in command and "--out" not in command and not (folder / path).exists():
            assert run(maker, folder).returncode == 0
    done = run(command, folder)
    assert done.returncode == 0, done.stderr
    if printed:
        shown = [line.rstrip() for line in done.stdout.decode().splitlines()]
        assert shown == [line.rstrip() for line in printed.splitlines()]


def test_the_task_of_the_readme(tmp_path: Path) -> None:
    (block,) = re.findall(r"```yaml\n(name: tiny.*?)```", README, re.DOTALL)
    (tmp_path / "tiny.yaml").write_text(block)
    done = run("stacktrans generate --task tiny.yaml --count 3 --seed 1", tmp_path)
    assert done.returncode == 0, done.stderr
    for line in done.stdout.decode().splitlines():
        source, target = line.split("\t")
        assert source.split()[0].upper() == target.split()[1]
    done = run("stacktrans train --task tiny.yaml --memory queue --max-steps 2", tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_pattern_of_the_readme(tmp_path: Path) -> None:
    (block,) = re.findall(r"```yaml\n(name: mine\n.*?)```", README, re.DOTALL)
    (tmp_path / "mine.yaml").write_text(block)
    command = ["generate", "--task", str(tmp_path / "mine.yaml"), "--count", "5"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0
    for line in result.output.splitlines():
        whole = line.replace("\t", "")
        n, m = (whole.count(symbol) for symbol in "ab")
        assert whole == "a" * n + "b" * m + "c" * (2 * n + m)
    config = resolve(task=command[2], settings={"model": {"memory": "stack-rnn"}})
    assert config.task.length_law == "uniform"


def file_tree() -> dict[str, str]:
    """What the architecture page says of each folder and file, by its path."""
    (block,) = re.findall(r"```\n(stacktrans/\n.*?)```", ARCHITECTURE, re.DOTALL)
    tree: dict[str, str] = {}
    folder = ""
    for line in block.splitlines():
        name, _, meaning = line.strip().partition(" ")
        folder = folder if line.startswith(" ") else name
        tree[folder if name == folder else folder + name] = meaning.strip()
    return tree


def test_every_file_is_in_the_file_tree() -> None:
    package = {
        f"stacktrans/{path.name}{'/' if path.is_dir() else ''}"
        for path in (ROOT / "stacktrans").iterdir()
        if not path.name.startswith("__") and (path.is_dir() or path.suffix == ".py")
    }
    tree = file_tree()
    assert package <= tree.keys()
    for path, meaning in tree.items():
        assert (ROOT / path).exists(), path
        assert meaning or path == "stacktrans/"


def test_the_results_are_those_recorded() -> None:
    results = ROOT / "experiments" / "results"
    for title, pattern in {
        "What the default recipe achieves": "*default*/results.md",
        "Texts": "documentation/results.md",
    }.items():
        recorded = {
            line for path in results.glob(pattern) for line in path.read_text().splitlines()
        }
        section = README.split(f"## {title}\n")[1].split("\n## ")[0]
        rows = [line for line in section.splitlines() if line.startswith("|")]
        assert len(rows) > 3
        assert set(rows) <= recorded
