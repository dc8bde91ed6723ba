"""Compiling in several processes: each thing once, and whatever becomes of the others."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numba
import pytest
import torch
from kernel_cases import Case, Shape, signatures
from latch import Latch

from stacktrans.common.processes import cores
from stacktrans.kernels import caching, sequences, together
from stacktrans.kernels.caching import CodeCache
from stacktrans.kernels.drive import backward, forward
from stacktrans.kernels.locking import PlaceLock
from stacktrans.kernels.together import Job, compile_together
from stacktrans.memory import Memory

SHARES = """
import sys
import numpy as np
from sharing import twice
from stacktrans.kernels.loading import use_numba
from stacktrans.kernels.together import Job, compile_together
use_numba()
compile_together([Job.of(twice, (np.ones(2, np.dtype(kind)),)) for kind in ("f4", "f8")])
numbers = np.ones(2)
twice(numbers)
print(*numbers)
"""
SHARED = """
import os, time
from pathlib import Path
from stacktrans.kernels.caching import CodeCache
from stacktrans.kernels.compiling import compiled_entry

@compiled_entry
def twice(numbers):
    for i in range(numbers.shape[0]):
        numbers[i] *= 2

save = CodeCache.save_overload

def noted_and_saved(cache, signature, compiled):
    made = Path("made")
    with made.open("a") as stream:
        print(os.getpid(), *signature, file=stream)
    ends = time.monotonic() + float(os.environ["WAIT_FOR_ANOTHER"])
    while len({line.split()[0] for line in made.open()}) < 2 and time.monotonic() < ends:
        time.sleep(0.05)
    save(cache, signature, compiled)

CodeCache.save_overload = noted_and_saved
"""
"""Something to compile; every process notes what it has compiled, and waits for another to."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with something to compile and a program that does."""
    (tmp_path / "sharing.py").write_text(SHARED)
    (tmp_path / "program.py").write_text(SHARES)
    return tmp_path


def run_program(folder: Path, **environment: str) -> str:
    """Run it; what it says on stderr."""
    done = subprocess.run(
        [sys.executable, "program.py"],
        cwd=folder,
        env={
            **os.environ,
            "NUMBA_CACHE_DIR": str(folder / "code"),
            "TMPDIR": str(folder),
            "WAIT_FOR_ANOTHER": "0",
            **environment,
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "2.0 2.0\n"
    return done.stderr


def made(folder: Path) -> tuple[int, int]:
    """How many processes have compiled something, and how much they have together."""
    lines = (folder / "made").read_text().splitlines()
    return len({line.split()[0] for line in lines}), len(lines)


@pytest.mark.skipif(cores() < 2, reason="there is no core for another process")
def test_another_process_does_a_part(folder: Path) -> None:
    said = run_program(folder, WAIT_FOR_ANOTHER="300")
    assert said.count("compiling for this machine") == 1
    assert made(folder) == (2, 2)
    assert [path.suffix for path in (folder / "code").rglob("*.*")] == [".nbc", ".nbc"]
    # Nothing is compiled again.
    assert run_program(folder) == ""
    assert made(folder) == (2, 2)


def test_two_commands_at_once_compile_nothing_twice(folder: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(run_program, folder, WAIT_FOR_ANOTHER="1") for _ in range(2)]
        assert [each.exception() for each in both] == [None, None]
    assert made(folder)[1] == 2


@pytest.mark.parametrize(
    "broken",
    [
        # A program that finds the package by itself, which one that it starts does not.
        "sys.executable = '/bin/false'",
        "sys.executable = '/nowhere'",
        "sys.executable = None",
        "os.environ['NUMBA_CACHE_DIR'] = '/dev/null'",
    ],
)
def test_what_another_process_can_not_do_is_done_here(folder: Path, broken: str) -> None:
    (folder / "program.py").write_text(f"import os, sys\n{broken}\n{SHARES}")
    assert "compiling for this machine" in run_program(folder)
    assert made(folder) == (1, 2)


def doubled(number: float) -> float:
    return 2 * number


def compiled(directory: Path) -> list[float]:
    """Whether this process was the one that compiled, and what came of it."""
    dispatcher: Any = numba.njit(doubled)
    made: list[Any] = []

    class Noted(CodeCache):
        def save_overload(self, signature: Any, compiled: Any) -> None:
            made.append(signature)
            super().save_overload(signature, compiled)

    dispatcher._cache = Noted(doubled, directory, lambda: None)
    result = dispatcher(4.0)
    return [len(made), result]


def place_of_doubled(directory: Path) -> Path:
    assert compiled(directory) == [1, 8]
    (place,) = directory.iterdir()
    return place


def test_who_comes_later_waits_and_reads(tmp_path: Path) -> None:
    place = place_of_doubled(tmp_path)
    content = place.read_bytes()
    place.unlink()
    lock = PlaceLock(place)
    lock.wait(0)
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(compiled, tmp_path)
        with pytest.raises(TimeoutError):
            other.result(timeout=0.5)
        place.write_bytes(content)
        lock.release()
        assert other.result(timeout=300) == [0, 8]
    assert [*tmp_path.iterdir()] == [place]


def test_nobody_waits_for_who_has_ended_or_was_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = place_of_doubled(tmp_path)
    place.unlink()
    code = (
        "import sys\nfrom pathlib import Path\nfrom stacktrans.kernels.locking import PlaceLock\n"
        "lock = PlaceLock(Path(sys.argv[1]))\nlock.wait(0)\nprint(flush=True)\nsys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(place)]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as other:
        assert other.stdout
        other.stdout.readline()
        assert PlaceLock(place).is_taken
        monkeypatch.setattr(caching, "_PATIENCE", 0.2)
        assert compiled(tmp_path) == [1, 8]
        place.unlink()
        other.send_signal(signal.SIGKILL)
        other.wait()
    assert not PlaceLock(place).is_taken
    monkeypatch.setattr(caching, "_PATIENCE", 1000)
    assert compiled(tmp_path) == [1, 8]


@pytest.mark.parametrize("hinder", ["folder", "pipe", "read-only"])
def test_where_there_is_no_lock_nobody_waits(tmp_path: Path, hinder: str) -> None:
    place = place_of_doubled(tmp_path)
    place.unlink()
    lock = place.with_suffix(".lock")
    if hinder == "folder":
        lock.mkdir()
    elif hinder == "pipe":
        os.mkfifo(lock)
    else:
        lock.touch(mode=0o400)
    assert compiled(tmp_path) == [1, 8]
    assert place.is_file()


def test_what_fails_to_compile_is_left_to_others(tmp_path: Path) -> None:
    cache = CodeCache(doubled, tmp_path, lambda: None)
    dispatcher: Any = numba.njit(doubled)
    context = dispatcher.targetctx
    types = (numba.float64,)
    assert cache.load_overload(types, context) is None
    others = CodeCache(doubled, tmp_path, lambda: None)
    assert others.is_left_to_others(types, context)
    cache.give_up()
    assert not others.is_left_to_others(types, context)
    assert not others.has(types, context)


@pytest.fixture
def at_first(monkeypatch: pytest.MonkeyPatch) -> list[list[Job]]:
    """Nothing was compiled yet; what is compiled together."""
    asked: list[list[Job]] = []

    def noted(jobs: list[Job]) -> None:
        asked.append(jobs)
        compile_together(jobs)

    monkeypatch.setattr(sequences, "_compiled", set())
    monkeypatch.setattr(together, "compile_together", noted)
    return asked


@pytest.mark.parametrize(
    "memory", ["none", "stack", "2*stack+queue", "stack-rnn", Latch()], ids=str
)
def test_what_is_compiled_at_first_is_what_is_called(
    memory: str | Memory[Any], at_first: list[list[Job]]
) -> None:
    case = Case.drawn("gru", memory, Shape(3, 4, 5, 3), torch.float32, layers=2)
    done = case.fused()
    (jobs,) = at_first
    assert [job.name for job in jobs] == ["backward", "forward"]
    kinds = [type(job.arguments[1]) for job in jobs]
    torch.stack([part.sum() for part in done.values()]).sum().backward()
    for entry, kind in zip((backward, forward), kinds, strict=True):
        single = [each for each in signatures(entry, kind) if "float64" not in str(each[1])]
        assert len(single) == 1, entry
    case.fused()
    assert len(at_first) == 1


def test_without_gradients_nothing_is_compiled_for_them(at_first: list[list[Job]]) -> None:
    with torch.no_grad():
        Case.drawn("lstm", "queue", Shape(3, 4, 5, 3), torch.float32).fused()
    assert not at_first
