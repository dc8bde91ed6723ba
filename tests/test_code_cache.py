"""Compiled code on disk: whatever is wrong with it, functions give the right results."""

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from stacktrans.common.files import SUMS
from stacktrans.kernels.code_cache import CodeDirectory, state_directory

PROGRAM = """
import os, resource, sys
import numpy as np
from stacktrans.kernels import code_cache
from stacktrans.kernels.compiling import CompiledFunction

def doubled(numbers):
    for i in range(numbers.shape[0]):
        numbers[i] *= 2

limit, *roots = sys.argv[1:]
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit),) * 2)
CompiledFunction.always_compile()
for root in roots:
    print("root", root, file=sys.stderr, flush=True)
    os.environ["NUMBA_CACHE_DIR"] = root
    code_cache.cache_directory.cache_clear()
    code_cache.announce.cache_clear()
    compiled = CompiledFunction(doubled, len)
    for dtype in ("f8", "f4"):
        numbers = np.ones(3, dtype)
        compiled(numbers)
        print(numbers.tolist())
"""
RESULT = "[2.0, 2.0, 2.0]\n" * 2
COMPILES = "compiling for this processor, once"
PROBLEM = "can't use the compiled code"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("program") / "program.py"
    path.write_text(PROGRAM)
    return path


def messages_of(program: Path, *roots: Path, limit: str = "") -> list[str]:
    """Call a function with its code under one root after another: what stderr has of each.

    Args:
        program: the program, which is run once.
        roots: folders of compiled code.
        limit: how many bytes a file may have, if that is limited.
    """
    done = subprocess.run(
        [sys.executable, program, limit, *roots],
        env={**os.environ, "TMPDIR": str(program.parent)},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == RESULT * len(roots)
    assert "Traceback" not in done.stderr
    messages = [part.partition("\n")[2] for part in done.stderr.split("root ")[1:]]
    assert len(messages) == len(roots)
    assert all(text.count("\n") <= 2 for text in messages)
    return messages


def kept(root: Path, suffix: str) -> list[Path]:
    return sorted(root.rglob(f"*{suffix}"))


def test_code_is_kept(program: Path, tmp_path: Path) -> None:
    root = tmp_path / "code"
    (first,), (second,) = (messages_of(program, root) for _ in range(2))
    assert first.count(COMPILES) == 1
    assert second == ""
    assert len(kept(root, ".nbc")) == 2
    for path in root.rglob("*"):
        if path.is_dir():
            assert not path.stat().st_mode & 0o022


def empty(path: Path) -> None:
    os.truncate(path, 0)


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def noise(path: Path) -> None:
    path.write_bytes(random.Random(1).randbytes(10_000))


def a_flipped_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(bytes(content))


def a_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "file").touch()


def a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def a_link_to_itself(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


def endless(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def missing(path: Path) -> None:
    path.unlink()


DAMAGES = [
    empty, cut, noise, a_flipped_bit, a_directory, a_pipe, a_link_to_itself, endless, missing,
]  # fmt: skip


DAMAGED: list[tuple[str, Callable[[Path], None]]] = [
    *((".nbc", damage) for damage in DAMAGES),
    *((".nbi", damage) for damage in (empty, cut, noise, a_flipped_bit, a_pipe)),
    *((SUMS, damage) for damage in (empty, noise, a_directory, a_pipe, missing)),
]


@pytest.fixture(scope="module")
def after_damage(program: Path, tmp_path_factory: pytest.TempPathFactory) -> list[list[str]]:
    """The messages on each damaged copy of compiled code when it is used three times."""
    root = tmp_path_factory.mktemp("damaged")
    assert COMPILES in messages_of(program, root / "whole")[0]
    roots = [root / str(number) for number in range(len(DAMAGED))]
    for copy, (suffix, damage) in zip(roots, DAMAGED, strict=True):
        shutil.copytree(root / "whole", copy)
        damage(kept(copy, suffix)[0])
    return [messages_of(program, *roots) for _ in range(3)]


@pytest.mark.parametrize(("suffix", "damage"), DAMAGED)
def test_damaged_code_is_compiled_again_and_mended(
    suffix: str, damage: Callable[[Path], None], after_damage: list[list[str]]
) -> None:
    first, _, third = (messages[DAMAGED.index((suffix, damage))] for messages in after_damage)
    # An index with a flipped bit may still be valid; code without checksums counts as missing.
    if (suffix, damage) not in {(".nbi", a_flipped_bit), (SUMS, missing)}:
        assert PROBLEM in first
    assert third == ""


@pytest.fixture
def code_directory(tmp_path: Path) -> CodeDirectory:
    """A directory with code that nothing is wrong with."""
    directory = CodeDirectory(tmp_path / "doubled")
    (tmp_path / "doubled").mkdir()
    (tmp_path / "doubled" / "code.nbc").write_bytes(random.Random(1).randbytes(500))
    directory.write_checksums()
    assert CodeDirectory(tmp_path / "doubled").has_code
    return directory


def test_a_flipped_bit_is_noticed_before_code_is_loaded(code_directory: CodeDirectory) -> None:
    path = code_directory.path
    assert path
    content, sums = (path / "code.nbc").read_bytes(), (path / SUMS).read_bytes()
    for bit in range(0, 8 * len(content), 97):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        path.mkdir(exist_ok=True)
        (path / "code.nbc").write_bytes(flipped)
        (path / SUMS).write_bytes(sums)
        assert not CodeDirectory(path).has_code
        assert not path.exists()


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that modules are imported from, which are forgotten afterwards."""
    known = set(sys.modules)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in set(sys.modules) - known:
        del sys.modules[name]


def test_code_is_kept_by_function_types_and_sources(modules: Path) -> None:
    for name in ("one", "other"):
        (modules / f"{name}.py").write_text("class Cells: pass\ndef run(cells): pass\n")
    one, other = (__import__(name) for name in ("one", "other"))
    paths = [
        CodeDirectory.of(function, types).path
        for function in (one.run, other.run)
        for types in ((one.Cells,), (other.Cells,), (one.Cells, other.Cells))
    ]
    assert len({*paths}) == 6
    assert CodeDirectory.of(one.run, (one.Cells,)).path == paths[0]
    # What a function calls may be in the files of the types it is called with.
    with (modules / "other.py").open("a") as file:
        file.write("\n")
    again = CodeDirectory.of(one.run, (one.Cells,)), CodeDirectory.of(one.run, (other.Cells,))
    assert [each.path == path for each, path in zip(again, paths, strict=False)] == [True, False]


def test_processes_that_compile_at_once_do_not_disturb_each_other(
    program: Path, tmp_path: Path
) -> None:
    with ThreadPoolExecutor(3) as pool:
        [*pool.map(lambda _: messages_of(program, tmp_path), range(3))]
    assert messages_of(program, tmp_path, tmp_path)[1] == ""


def test_code_runs_on_a_full_disk(program: Path, tmp_path: Path) -> None:
    assert PROBLEM in messages_of(program, tmp_path, limit="1000")[0]
    assert not kept(tmp_path, ".nbc")
    assert COMPILES in messages_of(program, tmp_path)[0]


@pytest.mark.skipif(os.getuid() == 0, reason="root can write everywhere")
def test_code_runs_in_a_read_only_directory(program: Path, tmp_path: Path) -> None:
    messages_of(program, tmp_path)
    (directory,) = tmp_path.glob("*/*")
    directory.chmod(0o500)
    messages_of(program, tmp_path)


def test_code_runs_without_a_directory_to_keep_it(program: Path) -> None:
    messages_of(program, Path("/proc/nowhere"), Path("/dev/null"))


def test_a_file_instead_of_a_code_directory_is_reported(program: Path, tmp_path: Path) -> None:
    messages_of(program, tmp_path)
    (state,) = tmp_path.iterdir()
    (directory,) = state.iterdir()
    directory.rename(tmp_path / "elsewhere")
    directory.touch()
    assert PROBLEM in messages_of(program, tmp_path)[0]


def test_only_the_states_used_last_are_kept(tmp_path: Path) -> None:
    other = tmp_path / "something-else"
    other.mkdir()
    states = [f"{number:016x}" for number in range(9)]
    for age, state in enumerate(states):
        directory = state_directory(tmp_path, state)
        (directory / "code").touch()
        os.utime(directory, (1000 + age, 1000 + age))
    # Used again, the oldest that is left is the latest.
    oldest = min(tmp_path.glob("0*"), key=lambda path: path.stat().st_mtime)
    state_directory(tmp_path, oldest.name)
    newest = state_directory(tmp_path, "f" * 16)
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {other.name, newest.name, oldest.name, *states[-3:]}
