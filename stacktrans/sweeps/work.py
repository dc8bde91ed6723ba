"""What a worker does: one run, from its configuration to its record."""

import json
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from stacktrans.config import RunConfig
from stacktrans.errors import UsageError
from stacktrans.sweeps.file import Measure

LOCK = ".lock"
RECORD = "record.json"
RUNNING = "running"
"""In a run's directory while it is being worked on."""

Record = dict[str, Any]


@dataclass(frozen=True)
class Job:
    """All that a worker needs, wherever it is.

    Attributes:
        identity: of the run.
        config: of the run.
        directory: of the run, which all workers can reach.
        command: that repeats it by hand.
        measures: what is measured of it.
        device: where it is computed.
        wait: wait for another sweep that works on it, instead of leaving it.
    """

    identity: str
    config: RunConfig
    directory: Path
    command: str
    measures: Mapping[str, Measure]
    device: str = "auto"
    wait: bool = False


def work(job: Job) -> Record | None:
    """Train and measure, from where an earlier worker left off.

    Returns:
        The record; with an `error` if the run failed, and None if another sweep is at it.
    """
    job.directory.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(job.directory / LOCK, timeout=-1 if job.wait else 0):
            return _worked(job)
    except Timeout:
        return None


def _worked(job: Job) -> Record:
    found = read_record(job.directory)
    if found and is_complete(found, job.measures):
        return found
    running = job.directory / RUNNING
    running.touch()
    try:
        record = _record(job)
    except Exception as error:  # whatever it is, the other runs go on
        (job.directory / "error.txt").write_text(traceback.format_exc())
        reason = str(error) or type(error).__name__
        return failure(job, reason)
    finally:
        running.unlink(missing_ok=True)
    return record


def failure(job: Job, reason: str) -> Record:
    """The record of a run that failed."""
    seed = job.config.seed
    return {"identity": job.identity, "error": reason, "command": job.command, "seed": seed}


def read_record(directory: Path) -> Record | None:
    """The record in a run's directory; None if it has none yet."""
    try:
        record: Record = json.loads((directory / RECORD).read_text())
    except (OSError, ValueError):
        return None
    return record


def is_complete(record: Record, measures: Mapping[str, Measure]) -> bool:
    """Whether a run is finished and all was measured that is asked for."""
    found = record.get("measured", {})
    return "error" not in record and all(
        found.get(name, {}).get("measure") == measure.model_dump(mode="json")
        for name, measure in measures.items()
    )


def _record(job: Job) -> Record:
    from stacktrans.files import write_atomically
    from stacktrans.records import SUMMARY

    if not (job.directory / SUMMARY).exists():
        _train(job)
    summary = json.loads((job.directory / SUMMARY).read_text())
    record = {
        "identity": job.identity,
        "outcome": summary["outcome"],
        "seconds": summary["seconds"],
        "batches": summary["steps"],
        "starts": summary["attempts"],
        "parameters": summary["parameters"],
        "perplexity": _least_perplexity(job.directory),
        "accuracy": {part: summary[part] for part in ("train", "development", "test")},
        **_perplexities(summary),
        "measured": {
            name: _measured(job, measure, summary) for name, measure in job.measures.items()
        },
        "command": job.command,
        **{key: summary[key] for key in ("version", "torch", "seed")},
    }
    write_atomically(job.directory / RECORD, json.dumps(record) + "\n")
    return record


def _train(job: Job) -> None:
    from stacktrans.checkpoint import last_of
    from stacktrans.errors import StacktransError
    from stacktrans.options import find_device
    from stacktrans.trainers import trainer_for

    device, kind = find_device(job.device), trainer_for(job.config)
    try:
        last_of(job.directory)
    except StacktransError:
        trainer = kind(job.config, job.directory, device, job.command)
    else:
        trainer = kind.resume(job.directory, [], device)
    trainer.run(lambda _: None)


def _least_perplexity(directory: Path) -> float | None:
    """Of the training batches between two records."""
    from stacktrans.records import METRICS

    lines = (directory / METRICS).read_text().splitlines()
    return min((json.loads(line)["perplexity"] for line in lines), default=None)


def _perplexities(summary: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Of a run that learns a text, what came of its parts."""
    texts = {part: found["perplexity"] for part, found in summary["texts"].items()}
    return {"perplexities": texts} if texts else {}


def _measured(job: Job, measure: Measure, summary: Mapping[str, Any]) -> dict[str, Any]:
    asked = measure.model_dump(mode="json")
    if measure.strings:
        place = summary["texts"] if measure.of == "perplexity" else summary
        found = place.get(measure.strings)
        if found is None:
            raise UsageError(f"there is no {measure.of} on {measure.strings} of this task")
        return {"measure": asked, "value": found[measure.of]}
    scores = _scores(job, measure)
    by_length = {
        str(length): round(scores.of_lengths(length, length).coarse_accuracy, 6)
        for length in sorted(set(scores.lengths.tolist()))
    }
    return {"measure": asked, "value": _value(scores, measure.of, by_length), "coarse": by_length}


def _value(scores: Any, of: str, by_length: Mapping[str, float]) -> float:
    if of == "lengths":
        return sum(share == 1 for share in by_length.values()) / len(by_length)
    values = {
        "coarse": scores.coarse_accuracy,
        "fine": scores.fine_accuracy,
        "symbols": scores.symbol_accuracy,
    }
    return float(values[of])


def _scores(job: Job, measure: Measure) -> Any:
    from stacktrans.checkpoint import load
    from stacktrans.measuring import ranges, scores_of_each, scores_of_range
    from stacktrans.options import find_device

    loaded = load(job.directory, find_device(job.device))
    loaded.model.hard = measure.hard
    config = loaded.config.task
    bounds = [measure.lengths] if measure.lengths else []
    ((range_, law),) = ranges(config, loaded.task, bounds, [config.ranges.test], measure.depth)
    scores_of = scores_of_each if measure.each else scores_of_range
    return scores_of(loaded, range_, law, measure.count, measure.seed)
