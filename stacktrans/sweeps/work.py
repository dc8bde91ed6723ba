"""Carry out one run of a sweep: train or race, measure, and write its record."""

import contextlib
import json
import math
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stacktrans.common.errors import StacktransError
from stacktrans.common.files import CONFIG, is_race, try_lock, write_atomically
from stacktrans.common.reading import json_lines, parse_json, read_bytes
from stacktrans.common.registry import plugin_files, use_plugins
from stacktrans.settings.resolve import resolve
from stacktrans.sweeps.plan import PlannedRun
from stacktrans.sweeps.records import (
    RECORD,
    RunRecord,
    is_complete,
    read_record,
    undamaged,
    value_of,
)
from stacktrans.sweeps.sweep_file import Measure
from stacktrans.tasks.lengths import Lengths
from stacktrans.training.records import METRICS, SUMMARY, Accuracy

if TYPE_CHECKING:
    from stacktrans.model.checkpoint import Checkpoint

LOCK = ".lock"
RUNNING = "running"
"""A file in a run's directory while a worker is busy with it."""


@dataclass(frozen=True)
class Job:
    """A run for a worker, which needs access to the directory and the plugin files.

    Attributes:
        run: the run.
        directory: the directory of the run.
        measures: what is measured, by name.
        device: the device of the run.
        wait: whether to wait for another sweep that works on the run, instead of giving up.
        plugins: paths of plugin files.
    """

    run: PlannedRun
    directory: Path
    measures: Mapping[str, Measure]
    device: str = "auto"
    wait: bool = False
    plugins: Sequence[str] = ()


def work(job: Job) -> RunRecord | None:
    """Train and measure, resuming the work of an earlier worker.

    Returns:
        The record, with an `error` if the run failed; None if another sweep works on it.
    """
    try:
        use_plugins(*{*job.plugins}.difference(plugin_files()))
        job.directory.mkdir(parents=True, exist_ok=True)
        with (job.directory / LOCK).open("wb") as stream:
            is_locked = try_lock(stream, seconds=math.inf if job.wait else 0)
            return _work_alone(job) if is_locked else None
    except (OSError, StacktransError) as error:  # of its directory, or of a plugin
        return failure(job, str(error))


def _work_alone(job: Job) -> RunRecord:
    """Carry out a job whose directory is locked."""
    earlier = read_record(job.directory)
    if earlier and is_complete(earlier, job.measures):
        return earlier
    running = job.directory / RUNNING
    running.touch()
    try:
        return _record(job, earlier or {})
    except Exception as error:  # of any kind: the other runs continue
        with contextlib.suppress(OSError):  # of a directory that was removed
            text = traceback.format_exc().encode("utf-8", "backslashreplace")
            (job.directory / "error.txt").write_bytes(text)
        return failure(job, str(error) or type(error).__name__)
    finally:
        running.unlink(missing_ok=True)


def failure(job: Job, reason: str) -> RunRecord:
    """The record of a failed run, with what was measured before."""
    identity, command, seed = job.run.identity, job.run.command, job.run.config.seed
    earlier = read_record(job.directory) or {}
    return {**earlier, "identity": identity, "error": reason, "command": command, "seed": seed}


def _record(job: Job, earlier: RunRecord) -> RunRecord:
    """Train and measure; values of an earlier record with the same measures are kept."""
    path = job.directory / CONFIG
    begun = resolve(config=str(path)) if path.exists() else job.run.config
    planned = job.run.configs.get(begun.recipe, job.run.config)
    # Tasks are not compared: that of a text now has a vocabulary.
    sections = ("model", "training", "seed")
    if any(getattr(begun, section) != getattr(planned, section) for section in sections):
        raise StacktransError(
            f"{path}: differs from the planned configuration; remove {job.directory} to train again"
        )
    if not (job.directory / SUMMARY).exists():
        _train(job)
    with undamaged(job.directory / SUMMARY) as path:
        summary = parse_json(read_bytes(path))
        texts = {part: text["perplexity"] for part, text in summary["texts"].items()}
    with undamaged(job.directory / METRICS) as path:
        perplexities = [record["perplexity"] for record in json_lines(path)]
    record = {
        "identity": job.run.identity,
        "outcome": summary["outcome"],
        "seconds": summary["seconds"],
        "batches": summary["steps"],
        "attempts": summary["attempts"],
        "parameters": summary["parameters"],
        "perplexity": min(perplexities, default=None),
        "accuracy": {part: summary[part] for part in ("train", "development", "test")},
        **({"perplexities": texts} if texts else {}),
        "measured": {
            name: _measured(job, measure, summary)
            if value_of(earlier, name, measure) is None
            else earlier["measured"][name]
            for name, measure in job.measures.items()
        },
        "command": job.run.command,
        **_race_fields(job.directory, summary),
        **{key: summary[key] for key in ("version", "torch", "seed")},
    }
    write_atomically(job.directory / RECORD, json.dumps(record) + "\n")
    return record


def _race_fields(directory: Path, summary: Mapping[str, Any]) -> RunRecord:
    """The fields of a record on the race that a run comes from; empty if there was none."""
    with undamaged(directory / SUMMARY):
        race, alone = summary.get("race"), summary["command"]
        if not race:
            return {}
        strategy, won = resolve(config=str(directory / CONFIG)).recipe, race["winner"] is not None
        # The race, and the training of its winner afterwards.
        after = summary["seconds"] - race["strategies"][strategy]["seconds"]
        seconds = round(race["seconds"] + max(0.0, after), 1)
    return {"seconds": seconds, "strategy": strategy, "won": won, "alone": alone}


def _train(job: Job) -> None:
    """Train, or race strategies in as many processes as requested and keep only the best run."""
    from stacktrans.model.devices import find_device
    from stacktrans.training.race import Race, begin
    from stacktrans.training.run_directory import has_last
    from stacktrans.training.trainer import Trainer

    directory, run, device = job.directory, job.run, find_device(job.device)
    if has_last(directory) and not is_race(directory):
        Trainer.resume(directory, [], device).run(lambda _: None)
        return
    if len(run.configs) == 1:
        Trainer(run.config, directory, device, run.command).run(lambda _: None)
        return
    configs = None if is_race(directory) else begin(directory, run.configs, run.words)
    race = Race(directory, job.device, max(each.workers for each in run.configs.values()), configs)
    with race.opened():
        race.run(lambda: None)
        race.best_run().run(lambda _: None)
        race.close(keep=False)


def _measured(job: Job, measure: Measure, summary: Mapping[str, Any]) -> dict[str, Any]:
    from stacktrans.inference.evaluation import EvalRequest, scores_of_range
    from stacktrans.model.checkpoint import load

    definition = measure.model_dump(mode="json")
    if measure.strings:
        sets = summary["texts"] if measure.of == "perplexity" else summary
        return {"measure": definition, "value": sets[measure.strings][measure.of]}
    of_machine = measure.of == "machine"
    loaded = load(job.directory, job.device, measure.hard or of_machine)
    lengths, law = measure.range_of(loaded.config.task, loaded.task)
    if of_machine:
        return {"measure": definition, "value": _has_a_machine(loaded, measure.count, lengths)}
    beam = 1 if measure.of == "positions" else None  # for answers that do not depend on the target
    request = EvalRequest(count=measure.count, seed=measure.seed, each=measure.each, beam=beam)
    scores = scores_of_range(loaded, lengths, law, request)
    by_length = {
        str(length): round(within.coarse_accuracy, 6)
        for length, within in scores.by_length().items()
    }
    if measure.of == "lengths":
        value = sum(share == 1 for share in by_length.values()) / len(by_length)
    elif measure.of == "positions":
        value = scores.positional_accuracy
    else:
        value = float(getattr(Accuracy.of(scores), measure.of))
    return {"measure": definition, "value": value, "coarse": by_length}


def _has_a_machine(checkpoint: "Checkpoint", count: int, lengths: Lengths) -> float:
    """1 if a machine that answers all drawn strings as the model does can be extracted, else 0."""
    from stacktrans.extraction.learner import Learner, compare
    from stacktrans.extraction.limits import CannotExtract

    try:
        extraction = compare(checkpoint, Learner(checkpoint).learn(), count, lengths)
    except CannotExtract:
        return 0.0
    drawn = extraction.agreement[-1]
    return float(drawn.agreeing == drawn.strings)
