"""Memories, controllers and generators of others: from plugin files and installed packages."""

import os
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest
from command_line import STACKTRANS, TRAIN, invoke

from stacktrans.common.errors import StacktransError, UsageError
from stacktrans.common.registry import MEMORIES, PLUGINS, Registry, plugin_files, use_plugins
from stacktrans.tasks import TaskError, make_task
from stacktrans.tasks.lengths import Lengths

REGISTERS = Path(__file__).parent.parent / "examples/registers/stacktrans_registers.py"
HOLLOW = "from stacktrans.memory.base import Memory\nclass Hollow(Memory):\n    name = 'hollow'\n"
NOTHING = "expected a memory, controller or generator with a name in it"
COPY = "from stacktrans.tasks.computed import Copy\n"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(code: str) -> str:
    """The error on a plugin file with some code."""
    Path("mine.py").write_text(code)
    result = invoke("list", "memories", "--plugin", "mine.py")
    assert (result.returncode, result.out) == (2, "")
    assert result.err.startswith("stacktrans: plugin mine.py")
    assert "Traceback" not in result.err
    (line,) = result.err.splitlines()
    return line


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("\ndef wrong(:\n", "mine.py:2: SyntaxError: invalid syntax"),
        ("import os\nimport not_there\n", "mine.py:2: ModuleNotFoundError: No module named"),
        ("def fail():\n    return 1 / 0\n\nfail()\n", "mine.py:2: ZeroDivisionError: division"),
        ("import torch\ntorch.zeros(2) @ torch.zeros(3)\n", "mine.py:2: RuntimeError: "),
        ("raise SystemExit('no')", "mine.py:1: SystemExit: no"),
        ("x = 1\n", NOTHING),
        (HOLLOW, "mine.py:2: memory Hollow lacks initial, push_names, reads, signal_names, step"),
        (f"{COPY}class Mine(Copy):\n    pass\n", NOTHING),
        (f"{COPY}class Mine(Copy):\n    name = 3\n", "mine.py:2: the name of Mine is 3"),
        (f"{COPY}class Mine(Copy):\n    name = 'a+b'\n", "the name of Mine is 'a+b'; expected a"),
        (
            f"{COPY}class Mine(Copy):\n    name = 'copy'\n",
            "generator copy: the name is taken by stacktrans",
        ),
        (f"{COPY}class A(Copy):\n    name = 'a'\nclass B(Copy):\n    name = 'a'\n", "mine.py:4: "),
    ],
)
def test_a_file_that_is_no_plugin_is_refused(code: str, message: str) -> None:
    assert message in refused(code)


@pytest.mark.parametrize(
    ("file", "message"), [("no.py", "no such file"), (".", "a Python file"), ("a.txt", "a Python")]
)
def test_a_plugin_must_be_a_python_file(file: str, message: str) -> None:
    Path("a.txt").touch()
    result = invoke("list", "--plugin", file)
    assert (result.returncode, result.out) == (2, "")
    assert message in result.err


def test_files_that_a_plugin_writes_are_flushed() -> None:
    writes = "log = open('log', 'w')\ndef note(text):\n    log.write(text)\nnote('written')\n"
    Path("mine.py").write_text(f"{writes}{COPY}class Mine(Copy):\n    name = 'mine'\n")
    words = [*STACKTRANS, "list", "generators", "--plugin", "mine.py"]
    assert subprocess.run(words, capture_output=True, check=False).returncode == 0
    assert Path("log").read_text() == "written"


def test_two_plugins_with_one_name_are_refused() -> None:
    for file in ("a.py", "b.py"):
        Path(file).write_text(f"{COPY}class Mine(Copy):\n    name = 'mine'\n")
    result = invoke("list", "--plugin", "a.py", "--plugin", "b.py")
    assert result.returncode == 2
    assert "plugin b.py:2: generator mine: the name is taken by plugin a.py" in result.err


def test_a_name_that_no_file_can_have_is_refused() -> None:
    with pytest.raises(UsageError, match="not the name of a file"):
        use_plugins("a\0b.py")


def test_a_generator_passes_parameters_on_to_its_base() -> None:
    init = "def __init__(self, turns=1, **options):\n        super().__init__(**options)"
    Path("mine.py").write_text(f"{COPY}class Mine(Copy):\n    name = 'mine'\n    {init}\n")
    use_plugins("mine.py")
    assert len(make_task("mine", "mine", {"turns": 2, "symbols": 5}).source) == 5
    with pytest.raises(TaskError, match="unknown parameter 'symbol'; did you mean 'symbols'"):
        make_task("mine", "mine", {"symbol": 5})


def test_a_plugin_named_twice_is_one() -> None:
    use_plugins(str(REGISTERS), os.path.relpath(REGISTERS))
    assert MEMORIES.names() == [*MEMORIES.builtin, "registers"]
    assert plugin_files() == [str(REGISTERS)]


def test_a_plugin_that_changed_since_it_was_loaded_is_refused() -> None:
    Path("mine.py").write_text(REGISTERS.read_text())
    use_plugins("mine.py")
    use_plugins("mine.py")
    Path("mine.py").write_text(REGISTERS.read_text().replace("= 4", "= 5"))
    with pytest.raises(UsageError, match=r"plugin mine\.py: changed since it was loaded"):
        use_plugins("mine.py")


def test_the_environment_names_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "registers" not in MEMORIES
    monkeypatch.setenv(PLUGINS, str(REGISTERS))
    assert "registers" in MEMORIES
    assert MEMORIES.origin("registers") == f"plugin {REGISTERS}"


def test_an_unknown_name_without_a_near_one_points_to_plugins() -> None:
    for name, hint in (("registers", True), ("quue", False)):
        result = invoke(*TRAIN, "--task", "copy", "--memory", name)
        assert result.returncode == 2
        assert f"unknown memory '{name}'" in result.err
        assert ("to use your own, load its plugin file" in result.err) == hint


def test_an_error_in_a_plugin_is_reported_with_its_line() -> None:
    code = REGISTERS.read_text().replace("write, read = ", "write, read, _ = ")
    Path("mine.py").write_text(code)
    line = 1 + code[: code.index("write, read, _ = ")].count("\n")
    arguments = ["--task", "copy", "--memory", "registers", "--max-steps", "1", "--out", "run"]
    result = invoke(*TRAIN, "--plugin", "mine.py", *arguments)
    assert result.returncode == 1
    complaint = f"mine.py:{line}: ValueError: not enough values to unpack"
    assert complaint in result.err
    assert "Traceback" not in result.err


def test_reads_of_other_sizes_are_refused() -> None:
    Path("mine.py").write_text(REGISTERS.read_text().replace("    reads = 1", "    reads = 2"))
    arguments = ["--task", "copy", "--memory", "registers", "--max-steps", "1", "--out", "run"]
    result = invoke(*TRAIN, "--plugin", "mine.py", *arguments)
    assert result.returncode == 1
    assert "memory registers: read (10, 1, 32); expected (10, 2, 32)" in result.err


@pytest.fixture
def registry(place: Path, monkeypatch: pytest.MonkeyPatch) -> Registry:
    """A registry whose memories include those of entry points, most of them broken."""
    points = {
        "registers": "installed_registers:Registers",
        "hollow": "installed_hollow:Hollow",
        "absent": "not_installed:Registers",
        "no-memory": "installed_registers:RegisterState",
        "no-class": "installed_registers:Missing",
        "other": "installed_registers:Registers",
    }
    (place / "installed_registers.py").write_text(REGISTERS.read_text())
    (place / "installed_hollow.py").write_text(HOLLOW)
    monkeypatch.syspath_prepend(place)
    found = [EntryPoint(name, value, "of.others") for name, value in points.items()]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: found)
    return Registry("memory", "of.others", MEMORIES.base, MEMORIES.builtin)


def test_installed_packages_have_memories(registry: Registry) -> None:
    assert registry.installed() == [*MEMORIES.builtin, *registry.names()[len(MEMORIES.builtin) :]]
    assert "installed_registers" not in sys.modules
    assert registry.load("registers").name == "registers"
    assert registry.origin("registers") == "installed_registers:Registers"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("hollow", "memory hollow: memory Hollow lacks initial"),
        ("absent", "memory absent: ModuleNotFoundError: No module named 'not_installed'"),
        (
            "no-memory",
            "installed_registers:RegisterState does not extend stacktrans.memory.base:Memory",
        ),
        ("no-class", "memory no-class: AttributeError: "),
        ("other", "memory other: the name of installed_registers:Registers is registers"),
    ],
)
def test_installed_packages_that_are_broken_are_named(
    registry: Registry, name: str, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        registry.load(name)


def test_a_plugin_in_the_environment_cannot_take_the_name_of_an_installed_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    point = EntryPoint("registers", "installed_registers:Registers", MEMORIES.group)
    monkeypatch.setattr(MEMORIES, "_entry_points", {"registers": point})
    monkeypatch.setenv(PLUGINS, str(REGISTERS))
    with pytest.raises(UsageError, match="memory registers: the name is taken by installed_reg"):
        MEMORIES.names()


def test_installed_packages_cannot_take_the_names_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    point = EntryPoint("stack", "mine:Stack", "of.others")
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [point])
    registry = Registry("memory", "of.others", MEMORIES.base, MEMORIES.builtin)
    with pytest.raises(
        UsageError, match="mine:Stack: memory stack: the name is taken by stacktrans"
    ):
        registry.installed()
    assert registry.load("stack").name == "stack"


def test_an_error_in_a_layer_on_the_meta_device_is_reported_with_its_line() -> None:
    layer = "from stacktrans.model.controllers import LinearLayer\nclass Mine(LinearLayer):\n"
    fails = "    def __init__(self, *sizes):\n        torch.zeros(2) @ torch.zeros(3)\n"
    Path("mine.py").write_text(f"import torch\n{layer}    name = 'mine'\n{fails}")
    options = ("--plugin", "mine.py", "--task", "copy", "--memory", "queue", "--recipe", "default")
    done = invoke(*TRAIN, *options, "--controller", "mine", "--max-steps", "1", "--out", "run")
    assert done.returncode == 1
    assert "mine.py:6: RuntimeError: " in done.err


def test_an_error_in_a_generator_s_constructor_is_reported_with_its_line() -> None:
    init = "def __init__(self):\n        super().__init__(1 + 'a')"
    Path("mine.py").write_text(f"{COPY}class Mine(Copy):\n    name = 'mine'\n    {init}\n")
    use_plugins("mine.py")
    with pytest.raises(TaskError, match=r"mine.py:5: TypeError: unsupported operand"):
        make_task("mine", "mine", {})


CONSTANT = """
from stacktrans.tasks.alphabets import Alphabet
from stacktrans.tasks.computed import Computed
class Constant(Computed):
    name = "constant"
    def __init__(self):
        self.source = self.target = Alphabet("ab", words=False)
    def draw(self, rng, length):
        return ["a"] * length
    def solve(self, source):
        return ["b"]
"""
"""A plugin with a generator whose answer is always the same."""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("self.target = ", "", "generator constant does not set target to an Alphabet"),
        (
            '["b"]',
            '["x"]',
            "generator Constant drew a wrong pair: symbol 1 is 'x', which is not in",
        ),
        (
            '"constant"',
            '"constant"\n    same_length = True',
            "a source of 3 symbols has a target of 1",
        ),
    ],
)
def test_faults_of_a_generator_are_errors_that_name_them(old: str, new: str, message: str) -> None:
    Path("mine.py").write_text(CONSTANT.replace(old, new))
    task = "task={name: mine, generator: constant, lengths: {train: [3, 3], test: [4, 4]}}"
    options = ("--plugin", "mine.py", "--memory", "stack", "--max-steps", "1", "--out", "run")
    done = invoke(*TRAIN, *options, "--set", task)
    assert done.returncode in (1, 2)
    assert message in done.err


@pytest.mark.parametrize(("change", "ids"), [("- 1", "-1 to 1"), ("+ 9", "9 to 11")])
def test_ids_of_a_transformation_have_to_be_in_the_alphabet(change: str, ids: str) -> None:
    shifted = f"def transform(self, source):\n        return source {change}"
    Path("mine.py").write_text(f"{COPY}class Shifted(Copy):\n    name = 'shifted'\n    {shifted}\n")
    use_plugins("mine.py")
    task = make_task("mine", "shifted", {"symbols": 3})
    message = f"generator Shifted drew a wrong pair: ids {ids}; expected 0 to 2"
    with pytest.raises(StacktransError, match=message):
        task.sample(np.random.default_rng(1), Lengths(20, 20), 1, "uniform")
    with pytest.raises(StacktransError, match="drew a wrong pair"):
        task.answer(task.source.symbols)


@pytest.mark.parametrize("wrong", ["None", "'ab'", "source * 1.0", "source > 2", "source[None]"])
def test_a_transformation_has_to_return_ids(wrong: str) -> None:
    mine = f"def transform(self, source):\n        return {wrong}"
    Path("mine.py").write_text(f"{COPY}class Mine(Copy):\n    name = 'mine'\n    {mine}\n")
    use_plugins("mine.py")
    with pytest.raises(StacktransError, match=r"Mine drew a wrong pair: .*; expected an array of"):
        make_task("mine", "mine", {"symbols": 3}).answer(["!", '"'])


def test_a_transformation_in_place_leaves_its_source_as_it_is() -> None:
    mine = "def transform(self, source):\n        source.sort()\n        return source"
    Path("mine.py").write_text(f"{COPY}class Mine(Copy):\n    name = 'mine'\n    {mine}\n")
    use_plugins("mine.py")
    task = make_task("mine", "mine", {"symbols": 9})
    (pair,) = task.sample(np.random.default_rng(1), Lengths(20, 20), 1, "uniform")
    assert pair.source.tolist() != sorted(pair.source.tolist()) == pair.target.tolist()


def test_parameters_that_all_memories_have_are_refused() -> None:
    Path("mine.py").write_text(REGISTERS.read_text().replace("registers: int", "size: int"))
    done = invoke(*TRAIN, "--plugin", "mine.py", "--task", "copy", "--memory", "registers")
    assert done.returncode == 2
    lines = Path("mine.py").read_text().splitlines()
    line = 1 + lines.index("class Registers(Memory[RegisterState]):")
    message = "memory Registers: size is a setting of all memories; expected another name"
    assert f"mine.py:{line}: {message}" in done.err


def test_parameters_of_a_memory_s_constructor_are_its_settings() -> None:
    options = ("--plugin", str(REGISTERS), "--task", "copy", "--memory", "registers", "--dry-run")
    for change, complaint in (("memory.registers=5", "registers: 5"), ("seed=1", "registers: 4")):
        assert complaint in invoke(*TRAIN, *options, "--set", change).out
    wrong = invoke(*TRAIN, *options, "--set", "memory.registers=many")
    assert wrong.returncode == 2
    assert "model.memory.registers: " in wrong.err
