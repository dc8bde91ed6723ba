"""Carrying out a sweep."""

from collections.abc import Callable, Sequence

from stacktrans.sweeps.engine import on_a_cluster, on_this_machine
from stacktrans.sweeps.plan import PlannedRun
from stacktrans.sweeps.store import Store
from stacktrans.sweeps.work import Record


def carry_out(
    store: Store,
    runs: Sequence[PlannedRun],
    show: Callable[[PlannedRun, Record], None],
    *,
    workers: int | None,
    cluster: str | None,
    device: str,
) -> None:
    """Have the runs that are missing done, and write down what came of all.

    Args:
        store: where it is kept.
        runs: those that are asked for.
        show: told of each run that ends.
        workers: runs side by side on this machine; None for as many as it has cores.
        cluster: address of a Dask scheduler, whose workers are taken instead.
        device: where runs compute.

    Raises:
        UsageError: Dask is not installed.
        ClusterError: the cluster can't be reached.
    """
    by_identity = {run.identity: run for run in runs}
    jobs = [store.job(run, device) for run in store.missing(runs)]
    done = on_a_cluster(jobs, cluster) if cluster else on_this_machine(jobs, workers or -1)
    try:
        for job, record in done:
            store.records[job.identity] = record
            show(by_identity[job.identity], record)
    finally:
        store.write()
