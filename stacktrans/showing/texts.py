"""How training on a text and perplexities are shown in a terminal."""

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rich.console import Group, RenderableType

from stacktrans.inference.perplexity import Perplexity
from stacktrans.showing.tables import GAP, Column, Table, remark
from stacktrans.showing.training import TrainingDisplay, ending, mean_signals
from stacktrans.training.records import Record, Summary


class LanguageDisplay(TrainingDisplay):
    """Shows a run on a text as it goes."""

    def _is_due(self, record: Record) -> bool:
        return True  # there are few, and an epoch may take minutes

    def _line(self, record: Record) -> str:
        strengths = ", ".join(f"{name} {mean:.2f}" for name, mean in mean_signals(record).items())
        parts = [
            f"batch {record.step}",
            f"learning rate {record.learning_rate:g}",
            f"training perplexity {record.perplexity:.1f}",
            f"validation perplexity {_validation(record)}" if _validation(record) else "",
            f"{self._speed(record):.1f} batches/s",
            strengths,
        ]
        return GAP.join(part for part in parts if part)

    def _table(self, record: Record) -> Table:
        signals = mean_signals(record)
        table = Table(
            Column("batch", least=7),
            Column("learning rate", drop=2),
            Column("training", "perplexity"),
            Column("validation", "perplexity"),
            Column("batches/s", drop=3),
            *(Column(name, drop=1, least=4) for name in signals),
        )
        table.add_row(
            str(record.step),
            f"{record.learning_rate:g}",
            f"{record.perplexity:.1f}",
            _validation(record),
            f"{self._speed(record):.1f}",
            *(f"{mean:.2f}" for mean in signals.values()),
        )
        return table


def _validation(record: Record) -> str:
    """The perplexity of the validation text, where it was measured."""
    return "" if record.validation is None else f"{math.exp(min(record.validation, 700.0)):.1f}"


def perplexity_table(texts: Mapping[str, Perplexity]) -> Table:
    """The perplexity of some texts, by their names."""
    table = Table(
        "text",
        Column("symbols", drop=2),
        Column("unknown", drop=1),
        "perplexity",
        Column("nats/symbol", drop=3),
    )
    for name, found in texts.items():
        table.add_row(
            name,
            str(found.symbols),
            str(found.unknown),
            f"{found.perplexity:.2f}",
            f"{found.nats:.4f}",
        )
    return table


def perplexity_json(texts: Mapping[str, Perplexity]) -> list[dict[str, Any]]:
    """The numbers of `perplexity_table`, one entry a text."""
    return [{"text": name, **asdict(found)} for name, found in texts.items()]


def language_summary(summary: Summary, directory: str) -> RenderableType:
    """How a run on a text ended."""
    saved = remark(f"saved in {directory}")
    return Group(*ending(summary), perplexity_table(summary.texts), saved)
