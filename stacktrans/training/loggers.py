"""Loggers: listeners that write the records of a run for spreadsheets (CSV) or for TensorBoard."""

import contextlib
import csv
import importlib.util
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from stacktrans.common.errors import StacktransError, UsageError
from stacktrans.common.reading import parse_json
from stacktrans.tasks.lengths import Lengths
from stacktrans.training.records import METRICS, STRING_SETS, Accuracy, Record

Row = dict[str, Any]


def check_tensorboard() -> None:
    """Raise `UsageError` if TensorBoard is not installed, before any work is done."""
    if importlib.util.find_spec("tensorboard") is None:
        raise UsageError("--log-to tensorboard needs tensorboard: pip install tensorboard")


@contextlib.contextmanager
def logger(log_format: str, directory: Path) -> Iterator[Callable[[Record], None]]:
    """A listener that writes all records of a run in one of `FORMATS`, in the run's directory.

    Records from before the run was resumed, or won a race, are included: all are read from its
    `metrics.jsonl`, to which a record is written before a listener is called with it.
    """
    position = 0
    with FORMATS[log_format](directory) as write:

        def catch_up(_: Record | None = None) -> None:
            nonlocal position
            with (directory / METRICS).open("rb") as stream:
                stream.seek(position)
                for line in stream:
                    try:
                        write(row_of(parse_json(line)))
                    except OSError as error:
                        where = f"--log-to {log_format}: {directory}"
                        raise StacktransError(f"{where}: {error.strerror}") from error
                position = stream.tell()

        yield catch_up
        catch_up()


def row_of(record: Mapping[str, Any]) -> Row:
    """A record of `metrics.jsonl` as columns, such as `test/coarse`; None where it has no value."""
    parts = {name: [field.name for field in fields(Accuracy)] for name in STRING_SETS}
    parts["lengths"] = [*Lengths._fields]
    row: Row = {}
    for name, value in record.items():
        if names := parts.get(name):
            value = value or dict.fromkeys(names)
        if isinstance(value, list):
            value = dict(zip(names or [], value, strict=True))
        if isinstance(value, dict):
            row |= {f"{name}/{part}": number for part, number in value.items()}
        else:
            row[name] = value
    return row


@contextlib.contextmanager
def _csv_writer(directory: Path) -> Iterator[Callable[[Row], None]]:
    with (directory / "metrics.csv").open("w", newline="", encoding="utf-8") as stream:
        # Signals of memories that are left out are missing.
        writer: csv.DictWriter[str] = csv.DictWriter(stream, [], extrasaction="ignore")

        def write(row: Row) -> None:
            if not writer.fieldnames:
                writer.fieldnames = [*row]
                writer.writeheader()
            writer.writerow(row)
            stream.flush()

        yield write


@contextlib.contextmanager
def _tensorboard_writer(directory: Path) -> Iterator[Callable[[Row], None]]:
    from torch.utils.tensorboard import SummaryWriter

    # Events of an earlier logger are written again, and no longer count.
    with SummaryWriter(str(directory / "tensorboard"), purge_step=0) as writer:

        def write(row: Row) -> None:
            for name, value in row.items():
                if value is not None and name != "step":
                    writer.add_scalar(name, value, row["step"])

        yield write


FORMATS = {"csv": _csv_writer, "tensorboard": _tensorboard_writer}
