"""The directory of a sweep, with the records of its runs and its tables."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from stacktrans.common.errors import StacktransError
from stacktrans.common.files import check_directory_path, real_path, write_atomically
from stacktrans.common.reading import read_bytes
from stacktrans.common.registry import plugin_files
from stacktrans.settings.candidates import title_of
from stacktrans.sweeps.cells import winner_key
from stacktrans.sweeps.plan import Plan, PlannedRun, distinct
from stacktrans.sweeps.records import RECORD, RunRecord, is_complete, parse_record, read_record
from stacktrans.sweeps.table import as_csv, as_json, markdown
from stacktrans.sweeps.work import Job

RESULTS = "results.jsonl"
TABLE = "results.md"
CSV = "results.csv"
JSON = "results.json"
RUNS = "runs"


class SweepStore:
    """The directory of a sweep, with the records of all finished and failed runs.

    Attributes:
        records: the records by the identities of their runs.

    Raises:
        UsageError: the directory can't be made.
        StacktransError: the directory has damaged records, or is not one of a sweep.
    """

    def __init__(self, directory: Path, plan: Plan) -> None:
        self.directory, self.plan = directory, plan
        self._planned = {run.identity for run in plan.runs}
        check_directory_path(directory)
        begun = (directory / RESULTS, *map(self.run_directory, plan.runs))
        if not any(path.exists() for path in begun):
            for path in (directory / name for name in (TABLE, CSV, JSON)):
                if path.exists():
                    raise StacktransError(
                        f"{path}: not written by a sweep; choose another directory"
                    )
        self.records: dict[str, RunRecord] = {}
        self._read()

    def _read(self) -> None:
        """Update the records: the last one of each run, but complete ones before incomplete ones.

        Raises `StacktransError` if a record lacks the number by which a winner is chosen.
        """
        choose, records = self.plan.file.choose, []
        for origin, record in self._stored_records():
            if choose and "error" not in record and record["identity"] in self._planned:
                try:
                    winner_key(choose, record)
                except (KeyError, TypeError) as error:
                    message = f"{origin}: damaged: a record of a run without {choose.by}; remove it"
                    raise StacktransError(message) from error
            records.append(record)
        merged: dict[str, RunRecord] = {}
        for record in [*records, *self.records.values()]:
            if self._complete(record) or not self._complete(merged.get(record["identity"])):
                merged[record["identity"]] = record
        self.records = merged

    def _stored_records(self) -> Iterator[tuple[str, RunRecord]]:
        """The origins and contents of records: those of an earlier sweep, then those of runs."""
        path, runs = self.directory / RESULTS, self.directory / RUNS
        lines = read_bytes(path).splitlines() if path.exists() else []
        for number, line in enumerate(lines, start=1):
            record = parse_record(line)
            if record is None:
                start = line[:60].decode(errors="backslashreplace")
                message = f"{path}:{number}: not a record of a run: {start}"
                if runs.is_dir():
                    message += f"; remove this line: records are also read from {runs}"
                raise StacktransError(message)
            yield f"{path}:{number}", record
        for run in self.plan.runs:
            if record := read_record(self.run_directory(run)):
                yield str(self.run_directory(run) / RECORD), record

    def run_directory(self, run: PlannedRun) -> Path:
        """The directory of a run."""
        return self.directory / RUNS / f"{title_of(run.configs)}-{run.identity}"

    def done(self, run: PlannedRun) -> bool:
        """Whether a run is finished and measured."""
        return self._complete(self.records.get(run.identity))

    def _complete(self, record: RunRecord | None) -> bool:
        return record is not None and is_complete(record, self.plan.file.measures)

    def missing(self, runs: Sequence[PlannedRun]) -> list[PlannedRun]:
        """The distinct runs that are not done; records of failed ones are dropped, to retry."""
        missing = distinct(run for run in runs if not self.done(run))
        for run in missing:
            self.records.pop(run.identity, None)
        return missing

    def job(self, run: PlannedRun, device: str) -> Job:
        """The job of a worker for a run."""
        directory, measures = real_path(self.run_directory(run)), self.plan.file.measures
        return Job(run, directory, measures, device, plugins=plugin_files())

    def write(self) -> None:
        """Write records and tables; records of runs that are no longer planned are kept."""
        self._read()
        numbers = as_json(self.plan, self.records)
        lines = numbers.pop("runs")  # which have a separate file
        lines += [each for identity, each in self.records.items() if identity not in self._planned]
        contents = {
            RESULTS: "".join(f"{json.dumps(line)}\n" for line in lines),
            TABLE: markdown(self.plan, self.records),
            CSV: as_csv(self.plan, self.records),
            JSON: json.dumps(numbers, indent=1) + "\n",
        }
        self.directory.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            write_atomically(self.directory / name, content)
