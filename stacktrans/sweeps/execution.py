"""Carrying out the runs of a sweep, in processes of this machine or on a Dask cluster."""

import contextlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from stacktrans.common.errors import StacktransError, UsageError
from stacktrans.common.processes import KILLED, Pool, cores
from stacktrans.sweeps.plan import PlannedRun
from stacktrans.sweeps.records import RunRecord, is_complete, read_record
from stacktrans.sweeps.store import SweepStore
from stacktrans.sweeps.work import RUNNING, Job, failure, work

CONNECTION_SECONDS = 10


def carry_out(
    store: SweepStore,
    runs: Sequence[PlannedRun],
    show: Callable[[PlannedRun, RunRecord], None],
    *,
    workers: int | None,
    cluster: str | None,
    device: str,
) -> None:
    """Carry out the missing runs, and write the results of all.

    Args:
        store: the directory of the sweep.
        runs: the requested runs.
        show: called with each run that ends, and its record.
        workers: number of parallel runs on this machine; None for its number of cores.
        cluster: address of a Dask scheduler, whose workers are used instead.
        device: the device of each run.

    Raises:
        UsageError: Dask is not installed.
        StacktransError: the cluster can't be reached.
    """
    jobs = [store.job(run, device) for run in store.missing(runs)]
    done = on_this_computer(jobs, workers) if cluster is None else on_a_cluster(jobs, cluster)
    try:
        for job, record in done:
            store.records[job.run.identity] = record
            show(job.run, record)
    finally:
        store.write()


def on_this_computer(jobs: Sequence[Job], workers: int | None) -> Iterator[tuple[Job, RunRecord]]:
    """Carry out jobs in processes of this machine; yields their records in order of completion.

    A job whose process is killed is retried once, in another process.
    """
    for job in jobs:  # a killed process leaves its mark
        _remove_running_mark(job)
    pending, jobs_by_run = deque(jobs), {job.run.identity: job for job in jobs}
    with Pool(min(workers or cores(), len(jobs)), cancelled=lambda: False) as pool:
        while pending or pool.at_work:
            while pending and pool.is_free:
                job = pending.popleft()
                pool.submit({job.run.identity: partial(_work, job)})
            for identity, record in pool.finished():
                job = jobs_by_run[identity]
                if record == KILLED:
                    _remove_running_mark(job)
                    record = failure(job, KILLED)
                if record is None:  # another sweep works on it
                    pending.append(replace(job, wait=True))
                else:
                    yield job, record


def _work(job: Job, _: Callable[[], bool]) -> RunRecord | None:
    return work(job)


def _remove_running_mark(job: Job) -> None:
    with contextlib.suppress(OSError):  # which is reported when the job begins
        (job.directory / RUNNING).unlink(missing_ok=True)


def on_a_cluster(jobs: Sequence[Job], address: str) -> Iterator[tuple[Job, RunRecord]]:
    """Carry out jobs on a Dask cluster; yields their records in order of completion.

    Its scheduler passes the jobs of lost workers to others, which resume from the last checkpoint.
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
        waiting = {client.submit(work, replace(job, wait=True), retries=1): job for job in jobs}
        for future in distributed.as_completed(list(waiting)):
            job = waiting.pop(future)
            try:
                record = future.result()
            except Exception as error:  # of the cluster: `work` records errors of runs
                record = read_record(job.directory)
                if not (record and is_complete(record, job.measures)):
                    record = failure(job, f"lost by the cluster: {error}")
            yield job, record
