"""The record of a run of a sweep: its schema, and what it has been measured by."""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field

from stacktrans.common.errors import StacktransError, UsageError
from stacktrans.common.reading import MAX_BYTES, parse_json, read_bytes
from stacktrans.sweeps.sweep_file import Measure

RECORD = "record.json"
RunRecord = dict[str, Any]


def read_record(directory: Path) -> RunRecord | None:
    """The record in a run's directory; None if there is none, or it is damaged."""
    try:
        return parse_record(read_bytes(directory / RECORD, MAX_BYTES))
    except UsageError:
        return None


def parse_record(content: str | bytes) -> RunRecord | None:
    """The record of a finished or failed run; None if the content is no such record."""
    try:
        record: RunRecord = parse_json(content)
        failed = isinstance(record, dict) and "error" in record and not record.get("measured")
        (_Identified if failed else _Finished).model_validate(record)
    except ValueError:
        return None
    return record


class _Measured(BaseModel, strict=True):
    """A value of a measure in a record."""

    value: float
    measure: dict[str, Any] = {}
    coarse: dict[Annotated[str, Field(pattern=r"^[0-9]{1,18}$")], float] = {}


class _Identified(BaseModel, strict=True):
    """The fields of all records, and the reason why a run failed, if it did."""

    identity: str
    command: str
    seed: int
    error: str = ""


class _Finished(_Identified):
    """The schema of a record of a run that was finished, though measuring it may have failed."""

    outcome: str
    seconds: float
    batches: float
    attempts: int
    parameters: int
    perplexity: float | None
    accuracy: dict[str, dict[str, float | None] | None]
    version: str
    torch: str
    measured: dict[str, _Measured]
    perplexities: dict[str, float] = {}
    strategy: str | None = None
    won: bool | None = None
    alone: str | None = None


def is_complete(record: RunRecord, measures: Mapping[str, Measure]) -> bool:
    """Whether a run is finished, and all requested measures were taken."""
    return "error" not in record and is_measured(record, measures)


def is_measured(record: RunRecord, measures: Mapping[str, Measure]) -> bool:
    """Whether all requested measures of a run were taken, even if another one failed."""
    return all(value_of(record, name, measure) is not None for name, measure in measures.items())


def value_of(record: RunRecord, name: str, measure: Measure) -> float | None:
    """The value of a measure in a record; None if the record has none, or of another definition."""
    entry = record.get("measured", {}).get(name, {})
    return entry["value"] if entry.get("measure") == measure.model_dump(mode="json") else None


@contextlib.contextmanager
def undamaged(path: Path) -> Iterator[Path]:
    """Raise `StacktransError` if reading a file of a run fails, or the file lacks a field."""
    try:
        yield path
    except (ValueError, KeyError, TypeError) as error:
        raise StacktransError(f"{path}: damaged ({error}); remove {path.parent}") from error
