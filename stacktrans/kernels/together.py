"""Compiling several entries in half the time: another process does a part of it.

Each of the two begins at another end, and leaves to the other what that has begun. What a process
has compiled is read from disk by all others, be they of the same command or not.
"""

import contextlib
import importlib
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from stacktrans.common.processes import cores
from stacktrans.kernels.compiling import Entry, as_entry
from stacktrans.kernels.jit import has_code_for, types_of
from stacktrans.kernels.loading import use_numba
from stacktrans.kernels.places import cache_directory

_HELP = "from stacktrans.kernels.together import help_out\nhelp_out()"


class Job(NamedTuple):
    """What is to be compiled.

    Attributes:
        module: of the entry.
        name: of the entry.
        arguments: that it is called with.
    """

    module: str
    name: str
    arguments: tuple[Any, ...]

    @classmethod
    def of(cls, function: Callable[..., Any], arguments: tuple[Any, ...]) -> "Job":
        """For an entry that is called with some arguments."""
        return cls(function.__module__, function.__name__, arguments)

    @property
    def is_done(self) -> bool:
        """Whether there is code for it, in this process or on disk."""
        return has_code_for(self._entry, types_of(self.arguments))

    @property
    def is_left_to_others(self) -> bool:
        """Whether another process is at it."""
        code = self._entry.dispatcher
        return bool(code._cache.is_left_to_others(types_of(self.arguments), code.targetctx))

    def do(self) -> None:
        """Compile, or read what was compiled; what others are compiling is waited for."""
        self._entry.compile_for(types_of(self.arguments))

    @property
    def _entry(self) -> Entry:
        return as_entry(getattr(importlib.import_module(self.module), self.name))


def compile_together(jobs: Sequence[Job]) -> None:
    """Have all compiled, with the help of another process where there is a core for it."""
    missing = [job for job in jobs if not job.is_done]
    with _helper(missing[::-1]) if len(missing) > 1 else contextlib.nullcontext():
        for job in _begun(missing):
            job.do()


def _begun(jobs: Sequence[Job]) -> list[Job]:
    """Do what no other process has begun; gives back the others."""
    others = []
    for job in jobs:
        if job.is_left_to_others:
            others.append(job)
        else:
            job.do()
    return others


@contextlib.contextmanager
def _helper(jobs: list[Job]) -> Iterator[None]:
    """Another process at the same jobs; if there can be none, or it fails, nothing is lost."""
    directory = cache_directory()
    # Processes of a race share the cores already, and what they compile.
    alone = multiprocessing.parent_process() is None
    if directory is None or not sys.executable or not alone or cores() < 2:
        yield
        return
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "NUMBA_CACHE_DIR": str(directory.parent),
    }
    command, nothing = [sys.executable, "-P", "-c", _HELP], subprocess.DEVNULL
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": nothing, "stderr": nothing}
    try:
        work = pickle.dumps(jobs)
        process = subprocess.Popen(command, env=environment, **pipes)
    except (OSError, pickle.PicklingError, AttributeError, TypeError):
        yield
        return
    with process:
        assert process.stdin
        with contextlib.suppress(OSError):
            process.stdin.write(work)
            process.stdin.flush()
        yield
        # When it is told nothing more, it ends, whatever it is at.
        with contextlib.suppress(OSError):
            process.stdin.close()


def help_out() -> None:
    """Do the jobs that come on stdin, but for those that other processes are at."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    jobs: list[Job] = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_end_with_input, daemon=True).start()
    use_numba()
    _begun([job for job in jobs if not job.is_done])


def _end_with_input() -> None:
    """End when nobody can tell this process anything any more."""
    sys.stdin.buffer.read()
    os._exit(0)
