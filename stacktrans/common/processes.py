"""A pool of worker processes, which can be cancelled and end with the process that started them."""

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

MAX_DEATHS = 2
"""Work fails when its process was killed this many times."""
KILLED = "its process was killed"
_POLL_SECONDS = 0.1

Work = Callable[..., Any]
"""A function that a process calls with arguments, and with a function that returns whether the work
is cancelled, which it may call from time to time in order to stop early."""


def cores() -> int:
    """The number of processor cores that are available."""
    from joblib import cpu_count

    return int(cpu_count())


class Process:
    """A worker process with a share of the machine's threads.

    It starts with its first work. It ignores Ctrl-C, from its start since imports could not handle
    it, and SIGTERM; the process that started it handles them, and cancels its work.

    Args:
        count: number of processes that share the threads.
    """

    def __init__(self, count: int) -> None:
        from joblib.externals.loky.backend import get_context
        from joblib.externals.loky.process_executor import ProcessPoolExecutor

        # loky replaces a process that has grown by hundreds of megabytes since its first work, with
        # this warning.
        warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning)
        threads = os.environ.get("OMP_NUM_THREADS") or str(max(1, cores() // count))
        self._cancelled = get_context().Event()
        self._executor = ProcessPoolExecutor(
            1,
            initializer=_end_with,
            initargs=(os.getpid(), self._cancelled),
            env={"OMP_NUM_THREADS": threads},
        )
        self._submitted: Future[Any] | None = None

    def submit(self, work: Work, *arguments: Any) -> Future[Any]:
        """Start work in the process; raises `BrokenProcessPool` if it was killed."""
        resource_tracker.ensure_running()  # now, since it would unblock the signal
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            self._submitted = self._executor.submit(_run_here, work, *arguments)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        return self._submitted

    def cancel(self) -> None:
        """Cancel the work of the process."""
        self._cancelled.set()

    def close(self) -> None:
        """Kill the process."""
        # A thread of loky fails if it finds work in its queue after it was told to shut down.
        last, ends = self._submitted, time.monotonic() + _POLL_SECONDS
        while last and not (last.running() or last.done() or time.monotonic() > ends):
            time.sleep(_POLL_SECONDS / 100)
        self._executor.shutdown(kill_workers=True)


_cancelled: Any = None
"""The event that cancels the work of this process, if it is a worker."""


def is_worker() -> bool:
    """Whether this process is a worker."""
    return _cancelled is not None


def _end_with(parent: int, cancelled: Any) -> None:
    """Make this process end soon after its parent."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    global _cancelled
    _cancelled = cancelled
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _run_here(work: Work, *arguments: Any) -> Any:
    return work(*arguments, _cancelled.is_set)


class ThisProcess:
    """This process with the interface of a `Process`; it does its work when it is submitted."""

    def __init__(self, cancelled: Callable[[], bool]) -> None:
        self._cancelled = cancelled

    def submit(self, work: Work, *arguments: Any) -> Future[Any]:
        """Do the work, and return its result in a finished future."""
        future = Future[Any]()
        future.set_result(work(*arguments, self._cancelled))
        return future

    def cancel(self) -> None:
        """Do nothing, since no work is running."""

    def close(self) -> None:
        """Do nothing, since there is no other process."""


class Pool:
    """A pool of processes, each of which does one job at a time.

    Work with a name is given to the process that has worked under that name before, if it is free,
    since the process may have cached something. Work of a process that was killed is repeated.

    Args:
        count: number of processes.
        cancelled: whether all work is cancelled; work can call it, too.
        in_process: whether this process does the work.
    """

    def __init__(self, count: int, cancelled: Callable[[], bool], in_process: bool = False) -> None:
        self._cancelled = cancelled
        self._new: Callable[[], Process | ThisProcess]
        self._new = partial(ThisProcess, cancelled) if in_process else partial(Process, count)
        self._free = [self._new() for _ in range(count)]
        self._running: dict[Future[Any], tuple[str, Process | ThisProcess, Work]] = {}
        self._last_process: dict[str, Process | ThisProcess] = {}
        self._deaths = Counter[str]()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in (*self._free, *(process for _, process, _ in self._running.values())):
            process.close()

    @property
    def is_free(self) -> bool:
        """Whether a process is free."""
        return bool(self._free)

    @property
    def at_work(self) -> list[str]:
        """The names of running work."""
        return [name for name, *_ in self._running.values()]

    def submit(self, jobs: Mapping[str, Work]) -> None:
        """Submit one of several jobs, given by name, to a free process."""
        last = {name: self._last_process[name] for name in jobs if name in self._last_process}
        cached = ((name, process) for name, process in last.items() if process in self._free)
        first = next((name for name in jobs if name not in last), next(iter(jobs)))
        name, process = next(cached, (first, self._free[-1]))
        self._free.remove(process)
        try:
            future = process.submit(jobs[name])
        except BrokenProcessPool:  # it was killed while it was free
            process = self._new()
            future = process.submit(jobs[name])
        self._running[future], self._last_process[name] = (name, process, jobs[name]), process

    def finished(self, waiting: Callable[[], None] = lambda: None) -> Iterator[tuple[str, Any]]:
        """Wait until some work is finished, and yield its names and results.

        The result is `KILLED` if the processes that did the work were killed repeatedly. `waiting`
        is called again and again meanwhile.
        """
        done: set[Future[Any]] = set()
        while self._running and not done:
            if self._cancelled():
                for _, process, _ in self._running.values():
                    process.cancel()
            waiting()
            done = wait(self._running, _POLL_SECONDS, FIRST_COMPLETED).done
        for future in done:
            name, process, work = self._running.pop(future)
            killed = isinstance(future.exception(), BrokenProcessPool)
            self._free.append(self._new() if killed else process)
            self._deaths[name] = self._deaths[name] + 1 if killed else 0
            if 0 < self._deaths[name] < MAX_DEATHS:
                self.submit({name: work})
            else:
                yield name, KILLED if killed else future.result()
