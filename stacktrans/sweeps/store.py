"""What a sweep keeps: a folder for each run, the records of all in one file, and its tables."""

import contextlib
import json
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from stacktrans.common.errors import StacktransError, UsageError
from stacktrans.common.files import check_directory_path, write_atomically
from stacktrans.common.processes import KILLED, Pool, cores
from stacktrans.common.reading import read_bytes
from stacktrans.common.registry import plugin_files
from stacktrans.sweeps.plan import Plan, PlannedRun
from stacktrans.sweeps.table import as_csv, as_json, markdown, merit
from stacktrans.sweeps.work import (
    RECORD,
    RUNNING,
    Job,
    Record,
    failure,
    is_complete,
    parsed_record,
    read_record,
    work,
)

RESULTS = "results.jsonl"
TABLE = "results.md"
CSV = "results.csv"
JSON = "results.json"
RUNS = "runs"


class SweepStore:
    """The directory of a sweep.

    Attributes:
        records: of all runs that were finished here or that failed, by identity.

    Raises:
        UsageError: the directory can't be made.
        StacktransError: the directory has records that can't be read, or is not one of a sweep.
    """

    def __init__(self, directory: Path, plan: Plan) -> None:
        self.directory, self.plan = directory, plan
        self._own = {run.identity for run in plan.runs}
        check_directory_path(directory)
        if not any((directory / name).exists() for name in (RESULTS, RUNS)):
            for path in (directory / name for name in (TABLE, CSV, JSON)):
                if path.exists():
                    raise StacktransError(f"{path}: not of a sweep; choose another directory")
        self.records: dict[str, Record] = {}
        self._read()

    def _read(self) -> None:
        """Take up what is recorded of each run last, but nothing in place of a complete record.

        Raises `StacktransError` if one of this sweep's runs lacks what a winner is chosen by.
        """
        choose, found = self.plan.file.choose, []
        for place, record in self._found():
            if choose and "error" not in record and record["identity"] in self._own:
                try:
                    merit(choose, record)
                except (KeyError, TypeError) as error:
                    message = f"{place}: damaged: a record of a run without {choose.by}; remove it"
                    raise StacktransError(message) from error
            found.append(record)
        united: dict[str, Record] = {}
        for record in [*found, *self.records.values()]:
            if self._complete(record) or not self._complete(united.get(record["identity"])):
                united[record["identity"]] = record
        self.records = united

    def _found(self) -> Iterator[tuple[str, Record]]:
        """The records of an earlier sweep, then those in the folders of runs, and their places."""
        path, runs = self.directory / RESULTS, self.directory / RUNS
        lines = read_bytes(path).splitlines() if path.exists() else []
        for number, line in enumerate(lines, start=1):
            record = parsed_record(line)
            if record is None:
                start = line[:60].decode(errors="backslashreplace")
                message = f"{path}:{number}: not a record of a run: {start}"
                if runs.is_dir():
                    message += f"; remove this line: records are also read from {runs}"
                raise StacktransError(message)
            yield f"{path}:{number}", record
        for run in self.plan.runs:
            if found := read_record(self.folder(run)):
                yield str(self.folder(run) / RECORD), found

    def folder(self, run: PlannedRun) -> Path:
        """The directory of a run."""
        return self.directory / RUNS / run.directory

    def done(self, run: PlannedRun) -> bool:
        """Whether a run is finished and measured."""
        return self._complete(self.records.get(run.identity))

    def _complete(self, record: Record | None) -> bool:
        return record is not None and is_complete(record, self.plan.file.measures)

    def missing(self, runs: Sequence[PlannedRun]) -> list[PlannedRun]:
        """Those of some runs that are not done, once each; failed ones will be tried again."""
        left = {run.identity: run for run in runs if not self.done(run)}
        for identity in left:
            self.records.pop(identity, None)
        return list(left.values())

    def job(self, run: PlannedRun, device: str) -> Job:
        """What a worker needs for a run."""
        folder, measures = self.folder(run).resolve(), self.plan.file.measures
        return Job(run, folder, measures, device, plugins=plugin_files())

    def write(self) -> None:
        """Write records and tables; records of runs that the file does not ask for are kept."""
        self._read()
        numbers = as_json(self.plan, self.records)
        lines = numbers.pop("runs")  # which are in a file of their own
        lines += [each for identity, each in self.records.items() if identity not in self._own]
        contents = {
            RESULTS: "".join(f"{json.dumps(line)}\n" for line in lines),
            TABLE: markdown(self.plan, self.records),
            CSV: as_csv(self.plan, self.records),
            JSON: json.dumps(numbers, indent=1) + "\n",
        }
        self.directory.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            write_atomically(self.directory / name, content)


CONNECTION_SECONDS = 10


def carry_out(
    store: SweepStore,
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
    done = _on_a_cluster(jobs, cluster) if cluster else on_this_machine(jobs, workers)
    try:
        for job, record in done:
            store.records[job.run.identity] = record
            show(job.run, record)
    finally:
        store.write()


def on_this_machine(jobs: Sequence[Job], workers: int | None) -> Iterator[tuple[Job, Record]]:
    """Work on jobs in processes of this machine, and give their records as they come.

    A job whose process is killed is tried once more, in another process.
    """
    for job in jobs:  # a process that was killed has left it
        _note_not_running(job)
    left, begun = deque(jobs), dict[str, Job]()
    with Pool(min(workers or cores(), len(jobs)), cancelled=lambda: False) as pool:
        while left or pool.at_work:
            while left and pool.is_free:
                job = left.popleft()
                begun[job.run.identity] = job
                pool.submit({job.run.identity: partial(_work, job)})
            for identity, record in pool.finished():
                job = begun[identity]
                if record == KILLED:
                    _note_not_running(job)
                    record = failure(job, KILLED)
                if record is None:  # or another sweep works on it
                    left.append(replace(job, wait=True))
                else:
                    yield job, record


def _work(job: Job, _: Callable[[], bool]) -> Record | None:
    return work(job)


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
