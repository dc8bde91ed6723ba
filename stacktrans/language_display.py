"""How training on a text and perplexities are shown in a terminal."""

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from stacktrans.display import RECORDS_SHOWN, TrainingDisplay, ending, mean_signals
from stacktrans.language import Perplexity
from stacktrans.records import Record, Summary
from stacktrans.tables import plain_table


class LanguageDisplay(TrainingDisplay):
    """Shows a run on a text as it goes: a live table in a terminal, plain lines elsewhere."""

    def _is_due(self, record: Record) -> bool:
        return True  # there are few, and an epoch may take minutes

    def _line(self, record: Record) -> str:
        strengths = ", ".join(f"{name} {mean:.2f}" for name, mean in mean_signals(record).items())
        parts = [
            f"batch {record.step}",
            f"learning rate {record.learning_rate:g}",
            f"perplexity {record.perplexity:.1f}",
            f"validation {_validation(record)}" if record.validation is not None else "",
            f"{self._speed(record):.1f} batches/s",
            strengths,
        ]
        return "  ".join(part for part in parts if part)

    def _table(self) -> RenderableType:
        table = plain_table(
            "batch",
            "learning rate",
            "perplexity",
            "validation",
            "batches/s",
            *(mean_signals(self.records[-1]) if self.records else ()),
        )
        for record in self.records[-RECORDS_SHOWN:]:
            table.add_row(
                str(record.step),
                f"{record.learning_rate:g}",
                f"{record.perplexity:.1f}",
                _validation(record),
                f"{self._speed(record):.1f}",
                *(f"{mean:.2f}" for mean in mean_signals(record).values()),
            )
        return Group(Text(self.heading, style="bold"), table)


def _validation(record: Record) -> str:
    """The perplexity of the validation text, where it was measured."""
    return "" if record.validation is None else f"{math.exp(min(record.validation, 700.0)):.1f}"


def perplexity_table(texts: Mapping[str, Perplexity]) -> Table:
    """The perplexity of some texts, by their names."""
    table = plain_table("text", "symbols", "unknown", "perplexity", "nats a symbol")
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
    ended, saved = Text(ending(summary)), Text(f"saved in {directory}")
    return Group(ended, perplexity_table(summary.texts), saved)
