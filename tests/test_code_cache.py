"""Compiled code on disk: whatever is wrong with it, functions give the right results."""

import errno
import os
import pickle
import random
import shutil
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numba
import pytest

from stacktrans.kernels import caching
from stacktrans.kernels.caching import CodeCache
from stacktrans.kernels.places import state_directory


def doubled(number: float) -> float:
    return 2 * number


def tripled(number: float) -> float:
    return 3 * number


def compiled_anew(function: Callable[[float], float], directory: Path | None) -> list[float]:
    """Whether a new process would have to compile a function, and what it is of 4."""
    missed: list[float] = []
    dispatcher: Any = numba.njit(function)
    dispatcher._cache = CodeCache(function, directory, lambda: missed.append(1))
    result = dispatcher(4.0)
    return [len(missed), result]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file with the code of `doubled`."""
    directory = tmp_path_factory.mktemp("code")
    assert compiled_anew(doubled, directory) == [1, 8]
    assert compiled_anew(doubled, directory) == [0, 8]
    (file,) = directory.iterdir()
    return file


def test_code_is_kept_by_function_and_types(whole: Path, tmp_path: Path) -> None:
    shutil.copy(whole, tmp_path)
    assert compiled_anew(tripled, tmp_path) == [1, 12]
    dispatcher: Any = numba.njit(doubled)
    dispatcher._cache = CodeCache(doubled, tmp_path, lambda: None)
    assert dispatcher(4) == 8
    assert len(list(tmp_path.iterdir())) == 3
    assert compiled_anew(doubled, tmp_path) == [0, 8]
    assert compiled_anew(tripled, tmp_path) == [0, 12]


def empty(path: Path) -> None:
    os.truncate(path, 0)


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def too_short_for_a_checksum(path: Path) -> None:
    os.truncate(path, 5)


def longer(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"more")


def noise(path: Path) -> None:
    path.write_bytes(random.Random(1).randbytes(10_000))


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


def of_another_function(path: Path) -> None:
    other = path.parent / "other"
    compiled_anew(tripled, other)
    (file,) = other.iterdir()
    shutil.move(file, path)
    other.rmdir()


DAMAGES = [
    empty, cut, too_short_for_a_checksum, longer, noise, a_directory, a_pipe, a_link_to_itself,
    endless, missing, of_another_function,
]  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_code_is_compiled_again_and_mended(
    damage: Callable[[Path], None], whole: Path, tmp_path: Path
) -> None:
    shutil.copy(whole, tmp_path)
    damage(tmp_path / whole.name)
    assert compiled_anew(doubled, tmp_path) == [1, 8]
    assert compiled_anew(doubled, tmp_path) == [0, 8]
    assert [file.name for file in tmp_path.iterdir()] == [whole.name]


def test_a_flipped_bit_is_noticed_before_anything_is_made_of_it(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("damaged code was read")

    monkeypatch.setattr(pickle, "loads", refuse)
    content = whole.read_bytes()
    draw = random.Random(2)
    damaged = tmp_path / "damaged"
    for _ in range(300):
        at = draw.randrange(len(content))
        flipped = content[at] ^ 1 << draw.randrange(8)
        damaged.write_bytes(content[:at] + bytes([flipped]) + content[at + 1 :])
        assert caching._content(damaged, "") is None


@pytest.mark.parametrize("name", ["mkstemp", "replace"])
def test_a_full_disk_is_no_hindrance(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile if name == "mkstemp" else os, name, full)
    assert compiled_anew(doubled, tmp_path) == [1, 8]
    assert list(tmp_path.iterdir()) == []


def test_no_place_for_code_is_no_hindrance(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for directory in (None, Path("/proc/nowhere"), tmp_path / "file" / "below"):
        assert compiled_anew(doubled, directory) == [1, 8]


def test_what_is_read_while_others_write_is_whole(whole: Path, tmp_path: Path) -> None:
    content, file = whole.read_bytes(), tmp_path / whole.name

    def write(_: int) -> None:
        for _ in range(20):
            caching._put(file, content)

    with ThreadPoolExecutor(4) as pool:
        writers = pool.map(write, range(4))
        seen = {file.read_bytes() if file.exists() else content for _ in range(100)}
        list(writers)
    assert seen == {content}
    assert [file.name for file in tmp_path.iterdir()] == [whole.name]


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
