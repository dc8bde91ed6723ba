"""Compiled code on disk: whatever is wrong with it, functions give the right results."""

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from stacktrans.kernels.code import state_directory

PROGRAM = """
import sys, resource
import numpy as np
from stacktrans.kernels.compiling import CompiledFunction, compiled_entry

@compiled_entry(len)
def doubled(numbers):
    for i in range(numbers.shape[0]):
        numbers[i] *= 2

if len(sys.argv) > 1:
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
CompiledFunction.compile_from_now_on()
for kind in ("f8", "f4"):
    numbers = np.ones(3, kind)
    doubled(numbers)
    print(numbers.tolist())
"""
RESULT = "[2.0, 2.0, 2.0]\n" * 2
COMPILES = "compiling for this machine, once"
PROBLEM = "can't use the compiled code"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("program") / "program.py"
    path.write_text(PROGRAM)
    return path


def said(program: Path, root: Path, *arguments: str) -> str:
    """Run a program with a function; what it says on stderr."""
    done = subprocess.run(
        [sys.executable, program, *arguments],
        env={**os.environ, "NUMBA_CACHE_DIR": str(root), "TMPDIR": str(program.parent)},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == RESULT
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") <= 2
    return done.stderr


def kept(root: Path, suffix: str) -> list[Path]:
    return sorted(root.rglob(f"*{suffix}"))


def test_code_is_kept(program: Path, tmp_path: Path) -> None:
    root = tmp_path / "code"
    assert said(program, root).count(COMPILES) == 1
    assert said(program, root) == ""
    assert len(kept(root, ".nbc")) == 2
    for path in root.rglob("*"):
        if path.is_dir() and path.parent != root.parent:
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


@pytest.fixture(scope="module")
def whole(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with compiled code."""
    root = tmp_path_factory.mktemp("whole")
    assert COMPILES in said(program, root)
    return root


@pytest.mark.parametrize(
    ("suffix", "damage"),
    [
        *((".nbc", damage) for damage in DAMAGES),
        *((".nbi", damage) for damage in (empty, cut, noise, a_flipped_bit, a_pipe)),
        *(("SHA256SUMS", damage) for damage in (empty, noise, a_directory, a_pipe, missing)),
    ],
)
def test_damaged_code_is_compiled_again_and_mended(
    damage: Callable[[Path], None], suffix: str, program: Path, whole: Path, tmp_path: Path
) -> None:
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    damage(kept(tmp_path, suffix)[0])
    warned = said(program, tmp_path)
    # What is found in an index may still be right, and without sums there is no code.
    if (suffix, damage) not in {(".nbi", a_flipped_bit), ("SHA256SUMS", missing)}:
        assert PROBLEM in warned
    said(program, tmp_path)
    assert said(program, tmp_path) == ""


def test_a_full_disk_is_no_hindrance(program: Path, tmp_path: Path) -> None:
    assert PROBLEM in said(program, tmp_path, "1000")
    assert not kept(tmp_path, ".nbc")
    assert COMPILES in said(program, tmp_path)
    assert said(program, tmp_path) == ""


@pytest.mark.skipif(os.getuid() == 0, reason="root can write everywhere")
def test_a_directory_that_can_not_be_written_to(program: Path, tmp_path: Path) -> None:
    said(program, tmp_path)
    (directory,) = tmp_path.glob("*/*")
    directory.chmod(0o500)
    said(program, tmp_path)


@pytest.mark.parametrize("root", ["/proc/nowhere", "/dev/null"])
def test_no_place_for_code_is_no_hindrance(program: Path, root: str) -> None:
    said(program, Path(root))


def test_a_file_in_the_place_of_a_directory(program: Path, tmp_path: Path) -> None:
    said(program, tmp_path)
    (state,) = tmp_path.iterdir()
    (directory,) = state.iterdir()
    directory.rename(tmp_path / "elsewhere")
    directory.touch()
    assert PROBLEM in said(program, tmp_path)


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
