"""Processes that work for this one, and end with it."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any, Self


def cores() -> int:
    """How many processes this machine runs at the same time."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def one_process(of: int, deaf: bool = False) -> Any:
    """An executor of one process, one of so many, with its share of the machine's threads.

    One that is deaf is not interrupted by Ctrl-C, which is then for this process alone.
    """
    from joblib import cpu_count
    from joblib.externals.loky import ProcessPoolExecutor

    threads = os.environ.get("OMP_NUM_THREADS") or str(max(1, cpu_count() // of))
    environment = {"OMP_NUM_THREADS": threads}
    return ProcessPoolExecutor(
        1, initializer=_end_with, initargs=(os.getpid(), deaf), env=environment
    )


def _end_with(parent: int, deaf: bool) -> None:
    """Have this process end when the other is killed, so that another can take over at once."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    if deaf:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


class Pool:
    """Processes that each work on one thing at a time; with one, that is this process itself.

    Work that has a name is given to the process that has worked on that name before, if it is free:
    it may remember something.
    """

    def __init__(self, count: int) -> None:
        self._free = [one_process(count, deaf=True) for _ in range(count)] if count > 1 else [None]
        self._working: dict[Future[Any], tuple[str, Any]] = {}
        self._known: dict[str, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for executor in (*self._free, *(each for _, each in self._working.values())):
            if executor:
                executor.shutdown(kill_workers=True)

    @property
    def is_free(self) -> bool:
        """Whether a process has nothing to do."""
        return bool(self._free)

    @property
    def is_working(self) -> bool:
        """Whether a process has something to do."""
        return bool(self._working)

    def submit(self, names: Sequence[str], work: Callable[..., Any]) -> str:
        """Have a free process do `work(name)` for one of some names, and say for which."""
        known = ((name, self._known.get(name)) for name in names)
        both = ((name, executor) for name, executor in known if executor in self._free)
        fresh = [name for name in names if name not in self._known]
        name, executor = next(both, (fresh[0] if fresh else names[0], self._free[-1]))
        self._free.remove(executor)
        if executor:
            future = executor.submit(work, name)
        else:
            future = Future()
            future.set_result(work(name))
        self._working[future], self._known[name] = (name, executor), executor
        return name

    def finished(self) -> Iterator[tuple[str, Any]]:
        """Wait until something is done, and give the names and results of what is.

        Raises:
            BrokenProcessPool: a process was killed.
        """
        for future in wait(self._working, return_when=FIRST_COMPLETED).done:
            name, executor = self._working.pop(future)
            self._free.append(executor)
            yield name, future.result()
