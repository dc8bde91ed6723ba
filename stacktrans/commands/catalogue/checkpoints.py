"""Trained models, listed: by what is written beside their weights, which are not read."""

from pathlib import Path
from typing import Any

from stacktrans.commands.catalogue.entries import Entry, Listing
from stacktrans.common.errors import StacktransError, UsageError
from stacktrans.common.names import CONFIG
from stacktrans.common.reading import MOST_BYTES, parsed_json, read_bytes
from stacktrans.settings import packaged
from stacktrans.settings.layers import read_layer
from stacktrans.tasks.base import Lengths

EVALUATION = "evaluation.json"
"""What `eval` measured of a shipped model."""
SUMMARY = "summary.json"
"""How a run ended."""


def checkpoints() -> Listing:
    """Every checkpoint: its task, its model, and how often it is right."""
    entries, problems = [], []
    for name, path in sorted(packaged.checkpoints().items()):
        try:
            entries.append(_entry(name, path))
        except StacktransError as error:
            problems.append(str(error))
    return Listing(entries, problems)


def _entry(name: str, path: Path) -> Entry:
    settings = read_layer((packaged.weights_of(path) or path) / CONFIG).settings
    known = {
        "task": _at(settings, "task", "name"),
        "controller": _name(_at(settings, "model", "controller")),
        "memory": _name(_at(settings, "model", "memory")),
    }
    evaluation, summary = _read(path / EVALUATION), _read(path / SUMMARY)
    measured = _evaluated(evaluation) or _summarised(summary, _at(settings, "task", "lengths"))
    return Entry(
        name,
        str(_at(settings, "task", "description") or ""),
        columns={
            **{column: str(fact or "") for column, fact in known.items()},
            "measured": measured or "nothing yet",
        },
        facts={
            **known,
            "recipe": _at(settings, "recipe"),
            "seed": _at(settings, "seed"),
            "path": str(path),
            "results": _at(evaluation, "results"),
            "summary": summary,
        },
    )


def _name(part: Any) -> Any:
    """The name of a part of a model, of which an older format said nothing else."""
    return part.get("name") if isinstance(part, dict) else part


def _read(path: Path) -> Any:
    """What a file of JSON holds; None if there is none."""
    if not path.exists():
        return None
    try:
        return parsed_json(read_bytes(path, MOST_BYTES))
    except ValueError as error:
        raise UsageError(f"{path}: not readable as JSON ({error})") from error


def _at(value: Any, *keys: str | int) -> Any:
    """What stands at a place in what was read; None if there is no such place."""
    for key in keys:
        try:
            value = value[key]
        except (TypeError, LookupError):
            return None
    return value


def _evaluated(evaluation: Any) -> str | None:
    return _accuracy(_at(evaluation, "results", 0), _at(evaluation, "results", 0, "lengths"))


def _summarised(summary: Any, lengths: Any) -> str | None:
    perplexity = _at(summary, "texts", "test", "perplexity")
    if isinstance(perplexity, int | float):
        return f"test perplexity {perplexity:.2f}"
    return _accuracy(_at(summary, "test"), _at(lengths, "test"))


def _accuracy(measured: Any, lengths: Any) -> str | None:
    coarse, pair = _at(measured, "coarse"), (_at(lengths, 0), _at(lengths, 1))
    if not isinstance(coarse, int | float) or not all(isinstance(length, int) for length in pair):
        return None
    return f"coarse {coarse:.3f} on {Lengths(*pair)}"
