"""Traces of shipped models, and traces made by hand."""

from pathlib import Path

from stacktrans.inference.trace import StoredRow, Trace, TraceStep, trace
from stacktrans.model import checkpoint
from stacktrans.settings.resolve import resolve

CHECKPOINTS = Path(__file__).parent.parent / "checkpoints"
CONFIG = resolve(task="copy", settings={"model": {"memory": "stack"}})
COPYING = checkpoint.Checkpoint(Path(), CONFIG, CONFIG.make_task(), CONFIG.make_task().layout, {})
"""A model without weights, for traces that were made by hand."""


def followed(name: str, source: str) -> Trace:
    loaded = checkpoint.load(CHECKPOINTS / name)
    return trace(loaded, loaded.task.source.split(source))


def never_popped(count: int) -> Trace:
    """A trace in which each symbol is pushed, and none is popped."""
    symbols = "abcdefghijklmnopqrstuvwxyz" * 4
    steps = [
        TraceStep(
            step=number,
            input=symbols[number - 1],
            output=None,
            probability=None,
            likely={},
            signals={"pop": 0.0, "push": 1.0},
            pushed={},
            reads={"top": []},
            total_strength=float(number),
            tops={},
            contents={"stack": [StoredRow(symbols[at], at + 1, 1.0) for at in range(number)]},
        )
        for number in range(1, count + 1)
    ]
    return Trace("copy", "a", "b", "b", True, None, None, None, None, steps)
