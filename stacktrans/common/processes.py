"""Processes that work for this one, and end with it."""

import os
import signal
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import resource_tracker
from typing import Any, Self

MOST_DEATHS = 2
"""Work whose process was killed as often as this has failed."""
KILLED = "its process was killed"
_POLL_SECONDS = 0.1

Work = Callable[..., Any]
"""What a process does: it is called with its arguments and a function that says whether it is not
wanted any more, and may ask that now and then to leave off."""


def cores() -> int:
    """How many processes this machine runs at the same time."""
    from joblib import cpu_count

    return int(cpu_count())


class Process:
    """A process, one of so many, with its share of the machine's threads.

    Ctrl-C is blocked in it from its start, since what it imports could not handle that; that and
    SIGTERM are for this process alone, which tells the other what is not wanted any more.
    """

    def __init__(self, of: int) -> None:
        from joblib.externals.loky.backend import get_context
        from joblib.externals.loky.process_executor import ProcessPoolExecutor

        # One that has grown by hundreds of megabytes is replaced, and reads again what it has left.
        warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning)
        threads = os.environ.get("OMP_NUM_THREADS") or str(max(1, cores() // of))
        self._unwanted = get_context().Event()
        self._executor = ProcessPoolExecutor(
            1,
            initializer=_end_with,
            initargs=(os.getpid(), self._unwanted),
            env={"OMP_NUM_THREADS": threads},
        )
        resource_tracker.ensure_running()  # which would unblock the signal
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            self._executor.submit(int)  # starts the process
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    def submit(self, work: Work, *arguments: Any) -> Future[Any]:
        """Have it do something; raises `BrokenProcessPool` if it was killed."""
        done: Future[Any] = self._executor.submit(_work_here, work, *arguments)
        return done

    def leave_off(self) -> None:
        """Tell it that its work is not wanted any more."""
        self._unwanted.set()

    def close(self) -> None:
        """Kill it."""
        self._executor.shutdown(kill_workers=True)


_unwanted: Any = None
"""The event that asks this `Process` to stop."""


def _end_with(parent: int, unwanted: Any) -> None:
    """Have this process end when the other is killed, so that another can take over at once."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    global _unwanted
    _unwanted = unwanted
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _work_here(work: Work, *arguments: Any) -> Any:
    return work(*arguments, _unwanted.is_set)


class Here:
    """This process in the place of a `Process`: what is submitted is done at once."""

    def __init__(self, unwanted: Callable[[], bool]) -> None:
        self._unwanted = unwanted

    def submit(self, work: Work, *arguments: Any) -> Future[Any]:
        """Do something."""
        done = Future[Any]()
        done.set_result(work(*arguments, self._unwanted))
        return done

    def leave_off(self) -> None:
        """Nothing is being done."""

    def close(self) -> None:
        """Nothing is to be killed."""


class Pool:
    """Processes that each work on one thing at a time.

    Work that has a name is given to the process that has worked on that name before, if it is free:
    it may remember something. If the process is killed meanwhile, another does it again.

    Args:
        count: of processes.
        unwanted: whether work is not wanted any more, which it can ask, too.
        here: whether it is this process itself that works.
    """

    def __init__(self, count: int, unwanted: Callable[[], bool], here: bool = False) -> None:
        self._unwanted = unwanted
        self._new: Callable[[], Process | Here]
        self._new = partial(Here, unwanted) if here else partial(Process, count)
        self._free = [self._new() for _ in range(count)]
        self._working: dict[Future[Any], tuple[str, Process | Here, Work]] = {}
        self._known: dict[str, Process | Here] = {}
        self._deaths = Counter[str]()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in (*self._free, *(process for _, process, _ in self._working.values())):
            process.close()

    @property
    def is_free(self) -> bool:
        """Whether a process has nothing to do."""
        return bool(self._free)

    @property
    def at_work(self) -> list[str]:
        """The names of what is worked on."""
        return [name for name, *_ in self._working.values()]

    def submit(self, works: Mapping[str, Work]) -> None:
        """Have a free process do one of several works, by their names."""
        known = {name: self._known[name] for name in works if name in self._known}
        both = ((name, process) for name, process in known.items() if process in self._free)
        first = next((name for name in works if name not in known), next(iter(works)))
        name, process = next(both, (first, self._free[-1]))
        self._free.remove(process)
        try:
            future = process.submit(works[name])
        except BrokenProcessPool:  # it was killed while it had nothing to do
            process = self._new()
            future = process.submit(works[name])
        self._working[future], self._known[name] = (name, process, works[name]), process

    def finished(self) -> Iterator[tuple[str, Any]]:
        """Wait until something is done, and give the names and results of what is.

        The result is `KILLED` where several processes were killed.
        """
        done: set[Future[Any]] = set()
        while self._working and not done:
            if self._unwanted():
                for _, process, _ in self._working.values():
                    process.leave_off()
            done = wait(self._working, _POLL_SECONDS, FIRST_COMPLETED).done
        for future in done:
            name, process, work = self._working.pop(future)
            killed = isinstance(future.exception(), BrokenProcessPool)
            self._free.append(self._new() if killed else process)
            self._deaths[name] = self._deaths[name] + 1 if killed else 0
            if 0 < self._deaths[name] < MOST_DEATHS:
                self.submit({name: work})
            else:
                yield name, KILLED if killed else future.result()
