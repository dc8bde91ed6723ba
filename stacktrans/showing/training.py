"""Training as it goes, and how it ended."""

import math
import re
from collections import deque
from collections.abc import Iterator, Sequence

from rich.console import Console, Group, RenderableType
from rich.text import Text

from stacktrans.model.description import model_line
from stacktrans.settings.config import RunConfig
from stacktrans.showing.progress import ProgressDisplay
from stacktrans.showing.race import race_table
from stacktrans.showing.scores import accuracy_cells, perplexity_table
from stacktrans.showing.tables import GAP, Column, Table, remark
from stacktrans.training.records import (
    Accuracy,
    Record,
    Summary,
    decided_by,
    reported_on,
    started_from,
)

RECORDS_KEPT = 12
"""The records that a run's speed is measured over."""
_NUMBERED = re.compile(r"^(\S+) [0-9]+$")
"""An action of one of several stacks or lists."""
SCORES = ("coarse", "fine", "symbols")
Measured = tuple[str, str, Accuracy | None]
"""What was measured, over columns and in a line, and how good it is, if it was."""


class TrainingDisplay(ProgressDisplay):
    """Shows a run as it goes.

    In a terminal each measurement of accuracy is a row of a table, and a live line below shows the
    last batches; elsewhere there are plain lines.
    """

    def __init__(
        self,
        console: Console,
        config: RunConfig,
        parameters: int,
        directory: str,
        notes: Sequence[str] = (),
    ) -> None:
        self.config, self.notes = config, notes
        self.heading = f"{model_line(config)}; {parameters:,} parameters; in {directory}"
        self.records: deque[Record] = deque(maxlen=RECORDS_KEPT)
        self.printed = 0
        self._head: list[Text] = []
        super().__init__(console, transient=True)

    def _open(self) -> None:
        self._say(self.heading)
        for note in self.notes:
            self._say(note)
        self._say(f"stopping is decided by: {decided_by(self.config)}")
        self._say(f"accuracies are measured on: {reported_on(self.config)}")

    def show(self, record: Record) -> None:
        """Show one more record."""
        if self.live and not self._head and (head := self._new_head(record)):
            self._print(*head)
        self.records.append(record)
        if not self._is_due(record):
            self._refresh()
            return
        self.printed = record.step
        if self.live:
            self._print_row(record)
        else:
            self._say(self._line(record))

    def _is_due(self, record: Record) -> bool:
        """Whether a record has a line of its own."""
        every = self.config.training.measure.accuracy_every
        return bool(record.test or record.development) or record.step - self.printed >= every

    def _print_row(self, record: Record) -> None:
        """Write a row that stays, below new headings if it does not fit the last."""
        self._print(*self._new_head(record), *self._table(record).body(self.console.width))

    def _new_head(self, record: Record) -> list[Text]:
        """The headings of a record's row, if they differ from the last."""
        table, width = self._table(record), self.console.width
        head = [*table.head(width), *table.note(width)]
        new = head if head != self._head else []
        self._head = head
        return new

    def _now(self) -> RenderableType:
        """The last record, if it has no row that stays."""
        if not self.records or self.records[-1].step <= self.printed:
            return Text("")
        return Group(*self._table(self.records[-1]).body(self.console.width))

    def _close(self) -> None:
        if self.live and self.records and self.records[-1].step > self.printed:
            self._print_row(self.records[-1])

    def _speed(self, record: Record) -> str:
        """Batches a second over the last few records: the current speed."""
        first = next((other for other in self.records if other.step < record.step), None)
        steps = record.step - (first.step if first else 0)
        seconds = record.seconds - (first.seconds if first else 0.0)
        return f"{steps / seconds:.1f}" if seconds else ""

    def _quantities(self, record: Record) -> Iterator[tuple[Column, str, str]]:
        """The columns of a record's row, the cell in each, and how a plain line says it."""
        (first, _, shorter), (second, _, longer) = self._measured(record)
        yield Column("batch", least=7), str(record.step), "batch {}"
        yield Column("start", drop=4), str(record.attempt), "start {}" if record.attempt > 1 else ""
        yield Column("lengths", drop=1), str(record.lengths), "lengths {}"
        yield Column("nats/symbol", "loss"), f"{record.loss:.4f}", "loss {} nats/symbol"
        yield Column("perplexity", drop=2), f"{record.perplexity:.3f}", "perplexity {}"
        yield Column("batches/s", drop=5), self._speed(record), "{} batches/s"
        for name, cell in zip(SCORES, _accuracies(shorter), strict=True):
            yield Column(name, first, drop=6), cell, ""
        for name, cell in zip(SCORES, _accuracies(longer), strict=True):
            drop = 7 if name == "symbols" else None
            yield Column(name, second, drop=drop), cell, ""

    def _measured(self, record: Record) -> tuple[Measured, ...]:
        """The two accuracies of a record, the first of which can be left out of a narrow table."""
        if self.config.of_files:
            # What generalises is seen by the longest.
            longest = ("its longest tenth", "its longest tenth", record.longest)
            return longest, ("development set", "development", record.development)
        ranges, test = self.config.task.ranges, record.test
        name = "development" if self.config.training.examples else "train"
        first = (f"{name} {ranges.train}", name, record.train or record.development)
        return first, (f"validation {ranges.test}", "validation", test)

    def _line(self, record: Record) -> str:
        """A record in a plain line."""
        parts = [said.format(cell) for _, cell, said in self._quantities(record) if said and cell]
        for _, name, accuracy in self._measured(record):
            if accuracy:
                parts.append("{} coarse {} fine {} symbols {}".format(name, *_accuracies(accuracy)))
        if signals := mean_signals(record):
            parts.append(", ".join(f"{name} {mean:.2f}" for name, mean in signals.items()))
        return GAP.join(parts)

    def _table(self, record: Record) -> Table:
        """A record as the only row of a table."""
        columns, cells, _ = zip(*self._quantities(record), strict=True)
        signals = mean_signals(record)
        table = Table(*columns, *(Column(name, drop=3, least=4) for name in signals))
        table.add_row(*cells, *(f"{mean:.2f}" for mean in signals.values()))
        return table


class LanguageDisplay(TrainingDisplay):
    """Shows a run on a text as it goes."""

    def _is_due(self, record: Record) -> bool:
        return True  # there are few, and an epoch may take minutes

    def _measured(self, record: Record) -> tuple[()]:
        return ()

    def _quantities(self, record: Record) -> Iterator[tuple[Column, str, str]]:
        training, validation = f"{record.perplexity:.1f}", ""
        if record.validation is not None:
            validation = f"{math.exp(min(record.validation, 700.0)):.1f}"
        yield Column("batch", least=7), str(record.step), "batch {}"
        yield Column("learning rate", drop=4), f"{record.learning_rate:g}", "learning rate {}"
        yield Column("training", "perplexity"), training, "training perplexity {}"
        yield Column("validation", "perplexity"), validation, "validation perplexity {}"
        yield Column("batches/s", drop=5), self._speed(record), "{} batches/s"


def _accuracies(accuracy: Accuracy | None) -> list[str]:
    """Coarse, fine and symbol accuracy, each in a cell."""
    if accuracy is None:
        return ["", "", ""]
    return [f"{accuracy.coarse:.2f}", f"{accuracy.fine:.2f}", f"{accuracy.symbols:.3f}"]


def mean_signals(record: Record) -> dict[str, float]:
    """The mean of each signal; of several stacks or lists, of the same action."""
    by_action: dict[str, list[float]] = {}
    for name, mean in record.signals.items():
        by_action.setdefault(_NUMBERED.sub(r"\1", name), []).append(mean)
    return {action: sum(means) / len(means) for action, means in by_action.items()}


def summary_view(summary: Summary, config: RunConfig, directory: str) -> RenderableType:
    """How a run ended, and its accuracy, or the perplexities of its texts."""
    starts = f", {summary.attempts} starts" if summary.attempts > 1 else ""
    ended = f"{summary.outcome}: {summary.rule}, after {summary.steps} batches{starts}"
    return Group(
        *([race_table(summary.race["strategies"])] if summary.race else []),
        remark(f"{ended}, {summary.seconds:.0f} seconds{_of_race(summary)}"),
        *([remark(started_from(config.start_from))] if config.start_from else []),
        remark(f"stopping was decided by: {summary.decided_by}"),
        remark(f"accuracies are measured on: {summary.reported_on}"),
        _accuracy_table(summary, config)
        if config.task.lengths
        else perplexity_table(summary.texts),
        *([remark(f"hard: {summary.hard_use}")] if summary.hard_use else []),
        *([remark(f"alone: {summary.command}")] if summary.race else []),
        remark(f"saved in {directory}"),
    )


def _of_race(summary: Summary) -> str:
    return f"; the race took {summary.race['seconds']:.0f}" if summary.race else ""


def _accuracy_table(summary: Summary, config: RunConfig) -> Table:
    table = Table(Column("strings", left=True), "lengths", Column("count", drop=1), *SCORES)
    ranges = config.task.ranges
    own = "" if config.of_files else str(ranges.train)  # of files the development set has its own
    rows = {
        "train": (str(ranges.train), summary.train),
        "development": (own, summary.development),
        "test": (str(ranges.test), summary.test),
        "test, hard": (str(ranges.test), summary.hard),
    } | {
        f"test without {part}": (str(ranges.test), accuracy)
        for part, accuracy in summary.without.items()
    }
    for name, (lengths, accuracy) in rows.items():
        if accuracy:
            scores = accuracy_cells(accuracy.coarse, accuracy.fine, accuracy.symbols)
            table.add_row(name, lengths, accuracy.count, *scores)
    return table
