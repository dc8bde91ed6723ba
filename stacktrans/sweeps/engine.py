"""Carrying out a sweep: by processes on this machine, or by workers of a Dask cluster."""

import contextlib
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from typing import Any

from joblib import cpu_count

from stacktrans.common.errors import StacktransError, UsageError
from stacktrans.common.processes import KILLED, MOST_DEATHS, one_process
from stacktrans.sweeps.plan import PlannedRun
from stacktrans.sweeps.store import Store
from stacktrans.sweeps.work import RUNNING, Job, Record, failure, read_record, work

CONNECTION_SECONDS = 10


def carry_out(
    store: Store,
    runs: Sequence[PlannedRun],
    show: Callable[[PlannedRun, Record], None],
    *,
    workers: int | None,
    cluster: str | None,
    device: str,
) -> None:
    """Have the missing ones of some runs done, and write down the results of all.

    Args:
        show: called with each run that ends.
        workers: runs side by side on this machine; None for as many as it has cores.
        cluster: address of a Dask scheduler, whose workers are used instead.

    Raises:
        UsageError: Dask is not installed.
        StacktransError: the cluster can't be reached.
    """
    jobs = [store.job(run, device) for run in store.missing(runs)]
    done = (
        _on_a_cluster(jobs, cluster) if cluster else on_this_machine(jobs, workers or cpu_count())
    )
    try:
        for job, record in done:
            store.records[job.run.identity] = record
            show(job.run, record)
    finally:
        store.write()


def on_this_machine(jobs: Sequence[Job], workers: int) -> Iterator[tuple[Job, Record]]:
    """Work on jobs in processes of this machine, and give their records as they come.

    A job whose process is killed is tried once more, in another process.
    """
    for job in jobs:  # a process that was killed has left it
        _note_not_running(job)
    left, deaths = deque(jobs), Counter[str]()
    # One executor for each process, since a process that dies breaks its executor.
    free = [one_process(workers) for _ in range(min(workers, len(jobs)))]
    at_work: dict[Future[Record | None], tuple[Job, Any]] = {}
    try:
        while left or at_work:
            while left and free:
                job, executor = left.popleft(), free.pop()
                at_work[executor.submit(work, job)] = job, executor
            for future in wait(at_work, return_when=FIRST_COMPLETED).done:
                job, executor = at_work.pop(future)
                try:
                    record = future.result()
                except BrokenProcessPool:
                    _note_not_running(job)
                    deaths[job.run.identity] += 1
                    killed = deaths[job.run.identity] == MOST_DEATHS
                    record = failure(job, KILLED) if killed else None
                    executor = one_process(workers)
                free.append(executor)
                if record is None:  # or another sweep works on it
                    left.append(replace(job, wait=True))
                else:
                    yield job, record
    finally:
        for executor in (*free, *(executor for _, executor in at_work.values())):
            executor.shutdown(kill_workers=True)


def _note_not_running(job: Job) -> None:
    with contextlib.suppress(OSError):  # which will be said when it is worked on
        (job.directory / RUNNING).unlink(missing_ok=True)


def _on_a_cluster(jobs: Sequence[Job], address: str) -> Iterator[tuple[Job, Record]]:
    """Work on jobs with the workers of a Dask cluster, and give their records as they come.

    Its scheduler gives the jobs of workers that are lost to others, which resume from the last
    checkpoint.
    """
    try:
        import distributed
    except ImportError as error:
        raise UsageError("a cluster needs Dask: pip install distributed") from error
    try:
        client = distributed.Client(address, timeout=CONNECTION_SECONDS)
    except (OSError, ValueError) as error:
        raise StacktransError(f"cluster {address}: can't be reached ({error})") from error
    with client:
        waiting = {
            client.submit(work, replace(job, wait=True), key=job.run.identity, retries=1): job
            for job in jobs
        }
        for future in distributed.as_completed(list(waiting)):
            job = waiting.pop(future)
            try:
                record = future.result()
            except Exception as error:  # of the cluster: `work` records the run's own
                record = read_record(job.directory) or failure(job, f"lost by the cluster: {error}")
            yield job, record
