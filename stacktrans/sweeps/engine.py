"""Carrying out a sweep: by processes on this machine, or by workers of a Dask cluster."""

import functools
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from stacktrans.common.errors import StacktransError, UsageError
from stacktrans.sweeps.plan import PlannedRun
from stacktrans.sweeps.store import Store
from stacktrans.sweeps.work import RUNNING, Job, Record, failure, read_record, work

MOST_DEATHS = 2
"""A run that was at work when processes ended without a word, as often as this, is tried alone."""
CONNECTION_SECONDS = 10


class ClusterError(StacktransError):
    """The cluster can't be reached."""


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
        store: where they are kept.
        runs: those that are asked for.
        show: called with each run that ends.
        workers: runs side by side on this machine; None for as many as it has cores.
        cluster: address of a Dask scheduler, whose workers are used instead.
        device: where runs compute.

    Raises:
        UsageError: Dask is not installed.
        ClusterError: the cluster can't be reached.
    """
    by_identity = {run.identity: run for run in runs}
    jobs = [store.job(run, device) for run in store.missing(runs)]
    done = _on_a_cluster(jobs, cluster) if cluster else on_this_machine(jobs, workers or -1)
    try:
        for job, record in done:
            store.records[job.identity] = record
            show(by_identity[job.identity], record)
    finally:
        store.write()


def on_this_machine(jobs: Sequence[Job], workers: int) -> Iterator[tuple[Job, Record]]:
    """Work on jobs in processes of this machine, and give their records as they come."""
    deaths: Counter[str] = Counter()
    while jobs:
        left = {job.identity: job for job in jobs}
        for job in jobs:  # a process that was killed has left it
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

    When one process dies, all others end, so only a job without others beside it can be told from
    those that it takes with it.
    """
    try:
        # With one worker it would be this process.
        ((_, record),) = _in_processes([replace(job, wait=True)], workers=2)
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
    # Everything is written, so that they need not take a second to tidy up.
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


def _on_a_cluster(jobs: Sequence[Job], address: str) -> Iterator[tuple[Job, Record]]:
    """Work on jobs with the workers of a Dask cluster, and give their records as they come.

    Its scheduler gives the jobs of workers that are lost to others, which resume from the last
    checkpoint.
    """
    try:
        import distributed
    except ImportError as error:
        raise UsageError("--cluster needs Dask: pip install 'stacktrans[cluster]'") from error
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
            except Exception as error:  # of the cluster: `work` records the run's own
                record = read_record(job.directory) or failure(job, f"lost by the cluster: {error}")
            yield job, record
