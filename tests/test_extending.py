"""The tutorial on plugins: its memory, as a file and as a package, its controller and generator."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from command_line import SMALL, TRAIN, run, shell
from torch.autograd import gradcheck

from stacktrans.common import registry
from stacktrans.common.registry import CONTROLLERS, MEMORIES, use_plugins
from stacktrans.kernels.units import UNITS
from stacktrans.memory import Stack
from stacktrans.model.controllers import LSTMLayer
from stacktrans.model.transducer import Transducer
from stacktrans.settings.resolve import resolve
from stacktrans.tasks import make_task

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "extending.md").read_text()
FILES = dict(re.findall(r'^```\w+ title="(.*?)"\n(.*?)^```$', PAGE, re.DOTALL | re.MULTILINE))
PACKAGE = ROOT / "examples" / "registers"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files of the page."""
    monkeypatch.chdir(tmp_path)
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)
    return tmp_path


def test_the_package_is_the_tutorial_s() -> None:
    assert (PACKAGE / "stacktrans_registers.py").read_text() == FILES["stacktrans_registers.py"]
    entry = 'registers = "stacktrans_registers:Registers"'
    points = f'[project.entry-points."stacktrans.memories"]\n{entry}\n'
    assert points in (PACKAGE / "pyproject.toml").read_text()
    assert points in PAGE


def test_an_installed_package_is_known_everywhere(place: Path) -> None:
    site = place / "site"
    copied = place / "registers"
    copied.mkdir()
    for file in ("pyproject.toml", "stacktrans_registers.py"):
        (copied / file).write_text((PACKAGE / file).read_text())
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--no-index", "--target", str(site), str(copied)], check=True)
    path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
    (place / "stacktrans_registers.py").unlink()
    text = FILES["registers.yaml"].replace("plugins: [stacktrans_registers.py]\n", "")
    text = text.replace("[1, 2]", "[1]").replace("{of: coarse}", "{of: coarse, count: 4}")
    short = "settings:\n  training: {max_steps: 2, measure: {strings: 4}}\n"
    (place / "registers.yaml").write_text(text.replace("settings:\n", short))
    options = shlex.join([*SMALL, "--max-steps", "2"])
    for command in (
        f"stacktrans train --task copy --memory registers --out run {options}",
        "stacktrans transduce run --max-length 5 <<< '!!'",
        "stacktrans sweep registers.yaml --only registers --workers 1",
    ):
        done = shell(command, place, PYTHONPATH=path)
        assert done.returncode == 0, (command, done.stderr.decode())
    known = shell("stacktrans list memories --json", place, PYTHONPATH=path).stdout
    (own,) = [entry for entry in json.loads(known) if entry["name"] == "registers"]
    assert own["origin"] == "package stacktrans-registers"
    without = run("eval", "run")
    assert without.returncode == 2
    assert (
        "memory registers is from package stacktrans-registers, which is not installed"
        in without.err
    )


def test_a_missing_plugin_of_a_checkpoint_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    train = [*TRAIN, "--task", "copy", "--out", "run", "--max-steps", "2", *SMALL]
    plugins = ["--plugin", "mgu.py", "--plugin", "stacktrans_registers.py"]
    done = run(*train, "--memory", "registers", "--controller", "mgu", *plugins)
    assert done.returncode == 0, done.stderr.decode()
    # As in another process, which has loaded neither.
    monkeypatch.setattr(registry, "_plugins", {})
    monkeypatch.delenv(registry.PLUGINS)
    without = run("eval", "run", "--count", "2")
    assert without.returncode == 2
    assert "registers is from plugin stacktrans_registers.py, which is not loaded" in without.err
    with_one = run("eval", "run", "--count", "2", "--plugin", "stacktrans_registers.py")
    assert with_one.returncode == 2
    assert "controller mgu is from plugin mgu.py, which is not loaded" in with_one.err


def test_a_controller_s_faulty_state_is_named(tmp_path: Path) -> None:
    step = "return ((1 - forget) * hidden + forget * candidate,)"
    faulty = FILES["mgu.py"].replace(step, "return (1 - forget) * hidden + forget * candidate")
    assert step not in faulty
    (tmp_path / "faulty.py").write_text(faulty)
    options = ("--task", "copy", "--memory", "queue", "--controller", "mgu", "--max-steps", "2")
    done = run(*TRAIN, *options, "--plugin", tmp_path / "faulty.py", "--out", "run", *SMALL)
    assert done.returncode == 1
    assert "MGULayer.step: the first part of the state is (8,); expected (10, 8)" in done.err


def test_a_plugin_s_controller_has_no_parts_that_can_be_left_out() -> None:
    options = ("--task", "copy", "--memory", "queue", "--controller", "mgu", "--max-steps", "2")
    plugin = ("--plugin", "mgu.py")
    done = run(*TRAIN, *options, *plugin, "--out", "run", *SMALL)
    assert done.returncode == 0, done.err
    refused = run("eval", "run", *plugin, "--without", "memory")
    assert refused.returncode == 2
    assert "a model with controller mgu has no parts that can be left out" in refused.err


def test_processes_that_are_started_know_plugins() -> None:
    use_plugins("stacktrans_registers.py")
    code = "from stacktrans.common.registry import MEMORIES; print(MEMORIES.load('registers').name)"
    assert subprocess.check_output([sys.executable, "-c", code]) == b"registers\n"


def test_registers_are_written_and_read() -> None:
    use_plugins("stacktrans_registers.py")
    memory = MEMORIES.load("registers")(2)
    values = torch.tensor([1, 4, 3], dtype=torch.float64).view(3, 1, 1, 1)
    state, reads = memory.initial(1, 1, values), []
    for signals, value in zip(([1, 0, 1, 0], [0, 0.5, 0, 1], [0, 0, 1, 0]), values, strict=True):
        state, read = memory.step(state, torch.tensor([signals], dtype=torch.float64), value)
        reads.append(float(read))
    assert reads == [1, 2, 1]
    assert state.contents.flatten().tolist() == [1, 2]
    sums = torch.randn(2, 3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    vectors = torch.randn(2, 3, 1, 2, dtype=torch.float64)

    def run_memory(sums: torch.Tensor, vectors: torch.Tensor) -> torch.Tensor:
        held, read = memory.initial(2, 2, vectors), vectors
        for step in range(3):
            held, read = memory.step(held, memory.signals(sums[:, step]), vectors[:, step])
        return read

    assert gradcheck(run_memory, (sums.requires_grad_(), vectors.requires_grad_()))


def test_subclasses_do_not_inherit_compiled_code() -> None:
    class Forgetful(Stack):
        name = "forgetful"

    class Peephole(LSTMLayer):
        name = "peephole"

    assert Stack().is_compiled
    assert not Forgetful().is_compiled
    settings = {"model": {"memory": "stack"}}
    model = Transducer(resolve(task="copy", settings=settings).model, 9, 9)
    assert model.architecture() is not None
    model.memory = Forgetful()
    assert model.architecture() is None
    assert "peephole" not in UNITS


def test_the_tutorial_s_controller_and_generator() -> None:
    use_plugins("mgu.py", "sorted.py")
    settings = {"model": {"memory": "none", "controller": {"name": "mgu", "hidden_size": 5}}}
    layer = CONTROLLERS.load("mgu")(resolve(task="copy", settings=settings).model, 3, 2)
    (hidden,) = layer.step(layer.project(torch.zeros(1, 3)), torch.zeros(1, 2), layer.initial(1))
    assert hidden.shape == (1, 5)
    assert make_task("mine", "sorted", {"symbols": 9}).answer(list('#"!')) == list('!"#')
