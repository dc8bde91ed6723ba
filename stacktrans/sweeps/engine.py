"""Running jobs side by side: processes on this machine, or workers of a Dask cluster."""

import functools
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from stacktrans.common.errors import StacktransError, UsageError
from stacktrans.sweeps.work import RUNNING, Job, Record, failure, read_record, work

MOST_DEATHS = 2
"""A run that was at work when processes ended without a word, as often as this, is tried alone."""
CONNECTION_SECONDS = 10


class ClusterError(StacktransError):
    """The cluster can't be reached."""


def on_this_machine(jobs: Sequence[Job], workers: int) -> Iterator[tuple[Job, Record]]:
    """Work on jobs in processes of this machine, and give their records as they come."""
    deaths: Counter[str] = Counter()
    while jobs:
        left = {job.identity: job for job in jobs}
        for job in jobs:  # what a process left that was killed
            (job.directory / RUNNING).unlink(missing_ok=True)
        try:
            for job, record in _in_processes(jobs, workers):
                del left[job.identity]
                if record is not None:
                    yield job, record
                else:
                    left[job.identity] = replace(job, wait=True)
        except _Died:
            at_work = [job for job in left.values() if (job.directory / RUNNING).exists()]
            deaths.update(job.identity for job in at_work)
            for job in at_work:
                if deaths[job.identity] >= MOST_DEATHS:
                    yield job, _alone(left.pop(job.identity))
        jobs = list(left.values())


def _alone(job: Job) -> Record:
    """The record of a job that was at work when processes died: was it its own that did?

    With one process all others end, so only a job that has none beside it can be told from those
    that it takes with it.
    """
    waiting = replace(job, wait=True)
    try:
        ((_, record),) = _in_processes([waiting], workers=2)  # one would be this process
    except _Died:
        record = None
    return record or failure(job, "its process was killed")


class _Died(Exception):
    """A process has ended without a word."""


def _in_processes(jobs: Sequence[Job], workers: int) -> Iterator[tuple[Job, Record | None]]:
    from joblib import Parallel, delayed
    from joblib.externals.loky import get_reusable_executor
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    parallel = Parallel(
        n_jobs=workers, backend="loky", return_as="generator_unordered", batch_size=1
    )
    try:
        yield from parallel(delayed(_job_and_record)(job, os.getpid()) for job in jobs)
    except TerminatedWorkerError as error:
        raise _Died from error
    # All is written: nothing is lost if they don't take a second to tidy up.
    get_reusable_executor(reuse=True).shutdown(kill_workers=True)


def _job_and_record(job: Job, sweep: int) -> tuple[Job, Record | None]:
    if os.getpid() != sweep:  # with one worker it is the same process
        _end_with(sweep)
    return job, work(job)


@functools.cache
def _end_with(parent: int) -> None:
    """Have this process end when the sweep is killed, so that another can take over at once."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def on_a_cluster(jobs: Sequence[Job], address: str) -> Iterator[tuple[Job, Record]]:
    """Work on jobs with the workers of a Dask cluster, and give their records as they come.

    Its scheduler gives the jobs of workers that are lost to others, which go on from the last
    checkpoint.

    Raises:
        UsageError: Dask is not installed.
        ClusterError: the cluster can't be reached.
    """
    distributed = _distributed()
    try:
        client = distributed.Client(address, timeout=CONNECTION_SECONDS)
    except (OSError, ValueError) as error:
        raise ClusterError(f"--cluster {address}: can't be reached ({error})") from error
    with client:
        waiting = {
            client.submit(work, replace(job, wait=True), key=job.identity, retries=1): job
            for job in jobs
        }
        for future in distributed.as_completed(list(waiting)):
            job = waiting.pop(future)
            try:
                record = future.result()
            except Exception as error:  # of the cluster: work itself records what goes wrong
                record = read_record(job.directory) or failure(job, f"lost by the cluster: {error}")
            yield job, record


def _distributed() -> Any:
    try:
        import distributed
    except ImportError as error:
        raise UsageError("--cluster needs Dask: pip install 'stacktrans[cluster]'") from error
    return distributed
