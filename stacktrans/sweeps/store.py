"""What a sweep keeps: a folder for each run, and the records of all in one file."""

import json
from collections.abc import Sequence
from pathlib import Path

from stacktrans.errors import StacktransError
from stacktrans.files import write_atomically
from stacktrans.sweeps.plan import Plan, PlannedRun
from stacktrans.sweeps.report import as_csv, as_json, markdown, run_json
from stacktrans.sweeps.work import Job, Record, is_complete, read_record

RESULTS = "results.jsonl"
TABLE = "results.md"
RUNS = "runs"


class SweepError(StacktransError):
    """A sweep's directory can't be used."""


class Store:
    """The directory of a sweep.

    Args:
        directory: where it is.
        plan: what is swept.

    Attributes:
        records: of the runs that were ever finished here or that failed, by identity.
    """

    def __init__(self, directory: Path, plan: Plan) -> None:
        self.directory = directory
        self.plan = plan
        self.records: dict[str, Record] = {**self._written(), **self._in_folders()}

    def _written(self) -> dict[str, Record]:
        """The records of an earlier sweep."""
        path = self.directory / RESULTS
        if not path.exists():
            return {}
        records = {}
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            try:
                record = json.loads(line)
                records[record["identity"]] = record
            except (ValueError, TypeError, KeyError) as error:
                raise SweepError(f"{path}:{number}: no record of a run: {line[:60]}") from error
        return records

    def _in_folders(self) -> dict[str, Record]:
        found = {run.identity: read_record(self.folder(run)) for run in self.plan.runs}
        return {identity: record for identity, record in found.items() if record}

    def folder(self, run: PlannedRun) -> Path:
        """Where a run is."""
        return self.directory / RUNS / run.directory

    def done(self, run: PlannedRun) -> bool:
        """Whether a run is finished and measured."""
        record = self.records.get(run.identity)
        return record is not None and is_complete(record, self.plan.file.measures)

    def missing(self, runs: Sequence[PlannedRun]) -> list[PlannedRun]:
        """Those of some runs that are not done, once each; what failed will be tried again."""
        left = {run.identity: run for run in runs if not self.done(run)}
        for identity in left:
            self.records.pop(identity, None)
        return list(left.values())

    def job(self, run: PlannedRun, device: str) -> Job:
        """What a worker needs for a run."""
        folder = self.folder(run).resolve()
        measures = self.plan.file.measures
        return Job(run.identity, run.config, folder, run.command, measures, device)

    def write(self) -> Sequence[Path]:
        """Write records and tables; those of another sweep that goes on here are kept.

        Returns:
            What was written.
        """
        self.records = {**self._written(), **self.records, **self._in_folders()}
        lines = [
            json.dumps(run_json(run, self.records[run.identity]))
            for run in self.plan.runs
            if run.identity in self.records
        ]
        contents = {
            RESULTS: "".join(f"{line}\n" for line in lines),
            TABLE: markdown(self.plan, self.records),
            "results.csv": as_csv(self.plan, self.records),
            "results.json": json.dumps(self._json(), indent=1) + "\n",
        }
        self.directory.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            write_atomically(self.directory / name, content)
        return [self.directory / name for name in contents]

    def _json(self) -> dict[str, object]:
        found = as_json(self.plan, self.records)
        del found["runs"]  # they are in a file of their own
        return found
