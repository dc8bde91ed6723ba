"""Processes that work for this one, and end with it."""

import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import resource_tracker
from typing import Any, Self

MOST_DEATHS = 2
"""Work whose process was killed as often as this has failed."""
KILLED = "its process was killed"
_POLL_SECONDS = 0.1


def cores() -> int:
    """How many processes this machine runs at the same time."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def one_process(of: int, unwanted: Any = None) -> Any:
    """An executor of one process, one of so many, with its share of the machine's threads.

    Ctrl-C is blocked in it from its start, since what it imports could not handle that; it is for
    this process alone, and so is SIGTERM if there is an event `unwanted`, which tells it that its
    work is not wanted any more.
    """
    from joblib import cpu_count
    from joblib.externals.loky.process_executor import ProcessPoolExecutor

    # One that has grown by hundreds of megabytes is replaced, and what it has left is read again.
    warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning)
    threads = os.environ.get("OMP_NUM_THREADS") or str(max(1, cpu_count() // of))
    environment = {"OMP_NUM_THREADS": threads}
    executor = ProcessPoolExecutor(
        1, initializer=_end_with, initargs=(os.getpid(), unwanted), env=environment
    )
    resource_tracker.ensure_running()  # which would unblock the signal
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        executor.submit(int)  # starts the process
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    return executor


def _end_with(parent: int, unwanted: Any) -> None:
    """Have this process end when the other is killed, so that another can take over at once."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    if unwanted:
        global _unwanted
        _unwanted = unwanted
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


_unwanted: Any = None
"""The event by which a process of a `Pool` is told to leave its work."""


def _work_here(work: Callable[..., Any], name: str) -> Any:
    return work(name, _unwanted.is_set)


class Pool:
    """Processes that each work on one thing at a time; with one, that is this process itself.

    Work that has a name is given to the process that has worked on that name before, if it is free:
    it may remember something.

    Args:
        count: of processes.
        unwanted: whether work is not wanted any more. Work can ask this, too, and then leaves off.
    """

    def __init__(self, count: int, unwanted: Callable[[], bool]) -> None:
        self._count, self._unwanted = count, unwanted
        if count > 1:
            from joblib.externals.loky.backend import get_context

            self._event = get_context().Event()
        self._free = [self._new() for _ in range(count)]
        self._working: dict[Future[Any], tuple[str, Any]] = {}
        self._known: dict[str, Any] = {}

    def _new(self) -> Any:
        return one_process(self._count, self._event) if self._count > 1 else None

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
    def at_work(self) -> list[str]:
        """The names of what is worked on."""
        return [name for name, _ in self._working.values()]

    def submit(self, names: Sequence[str], work: Callable[..., Any]) -> str:
        """Have a free process do `work(name, unwanted)` for one of some names, and say which."""
        known = ((name, self._known.get(name)) for name in names)
        both = ((name, executor) for name, executor in known if executor in self._free)
        fresh = [name for name in names if name not in self._known]
        name, executor = next(both, (fresh[0] if fresh else names[0], self._free[-1]))
        self._free.remove(executor)
        if executor:
            try:
                future = executor.submit(_work_here, work, name)
            except BrokenProcessPool:  # it was killed while it had nothing to do
                executor = self._new()
                future = executor.submit(_work_here, work, name)
        else:
            future = Future()
            future.set_result(work(name, self._unwanted))
        self._working[future], self._known[name] = (name, executor), executor
        return name

    def finished(self) -> Iterator[tuple[str, Any]]:
        """Wait until something is done, and give the names and results of what is.

        The result is `KILLED` where the process was; another takes its place.
        """
        done: set[Future[Any]] = set()
        while self._working and not done:
            if self._count > 1 and self._unwanted():
                self._event.set()
            done = wait(self._working, _POLL_SECONDS, FIRST_COMPLETED).done
        for future in done:
            name, executor = self._working.pop(future)
            if isinstance(future.exception(), BrokenProcessPool):
                self._free.append(self._new())
                yield name, KILLED
            else:
                self._free.append(executor)
                yield name, future.result()
