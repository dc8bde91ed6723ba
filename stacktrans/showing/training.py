"""How records, scores and traces are shown in a terminal."""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.text import Text

from stacktrans.common.statistics import confidence_interval
from stacktrans.inference.evaluation import Scores
from stacktrans.inference.trace import Part, Step, Trace
from stacktrans.memory import make_memory
from stacktrans.model.description import model_line
from stacktrans.settings.config import RunConfig
from stacktrans.showing.pictures import Row, heat_map, rows_of, shade
from stacktrans.showing.progress import ProgressDisplay
from stacktrans.showing.tables import GAP, Column, Table, heading, remark
from stacktrans.tasks.base import UNKNOWN, Lengths
from stacktrans.training.records import Accuracy, Record, Summary, decided_by, reported_on

RECORDS_KEPT = 12
"""As many as a run's speed is told by."""
ROWS_PER_RANGE = 8


def accuracy_text(accuracy: Accuracy) -> str:
    """Coarse, fine and symbol accuracy in a line."""
    coarse, fine, symbols = _accuracies(accuracy)
    return f"coarse {coarse} fine {fine} symbols {symbols}"


def _accuracies(accuracy: Accuracy | None) -> list[str]:
    """Coarse, fine and symbol accuracy, each in a cell."""
    if accuracy is None:
        return ["", "", ""]
    return [f"{accuracy.coarse:.2f}", f"{accuracy.fine:.2f}", f"{accuracy.symbols:.3f}"]


def mean_signals(record: Record) -> dict[str, float]:
    """The mean of each signal; of several stacks or lists, of what is the same action."""
    by_action: dict[str, list[float]] = {}
    for name, mean in record.signals.items():
        by_action.setdefault(name.rstrip(" 0123456789"), []).append(mean)
    return {action: sum(means) / len(means) for action, means in by_action.items()}


class TrainingDisplay(ProgressDisplay):
    """Shows a run as it goes.

    In a terminal each measurement of accuracy is a row of a table, below which is a line that
    tells of the last batches; elsewhere there are plain lines.

    Args:
        console: where to show it.
        config: of the run.
        parameters: of the model.
        directory: where the run writes.
    """

    def __init__(
        self, console: Console, config: RunConfig, parameters: int, directory: str
    ) -> None:
        self.config = config
        self.heading = f"{model_line(config)}; {parameters:,} parameters; in {directory}"
        self.records: deque[Record] = deque(maxlen=RECORDS_KEPT)
        self.printed = 0
        self._head: list[Text] = []
        super().__init__(console, transient=True)

    def _open(self) -> None:
        self._say(self.heading)
        self._say(f"stops by: {decided_by(self.config)}")
        self._say(f"reported on: {reported_on(self.config)}")

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
        """Write a row that stays, below headings if those that there are do not fit it."""
        self._print(*self._new_head(record), *self._table(record).body(self.console.width))

    def _new_head(self, record: Record) -> list[Text]:
        """The headings of a record's row, if they are not those that there are."""
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

    def _speed(self, record: Record) -> float:
        # Over the last few records, so that it is the speed of now.
        recent = [other for other in self.records if other.step < record.step]
        if not recent:
            return record.step / max(record.seconds, 1e-9)
        first = recent[0]
        return (record.step - first.step) / max(record.seconds - first.seconds, 1e-9)

    def _line(self, record: Record) -> str:
        strengths = ", ".join(f"{name} {mean:.2f}" for name, mean in mean_signals(record).items())
        parts = [
            f"batch {record.step}",
            f"start {record.attempt}" if record.attempt > 1 else "",
            f"lengths {record.lengths}",
            f"loss {record.loss:.4f} nats/symbol",
            f"perplexity {record.perplexity:.3f}",
            f"{self._speed(record):.1f} batches/s",
            f"train {accuracy_text(record.train)}" if record.train else "",
            f"test {accuracy_text(record.test)}" if record.test else "",
            f"development {accuracy_text(record.development)}" if record.development else "",
            strengths,
        ]
        return GAP.join(part for part in parts if part)

    def _table(self, record: Record) -> Table:
        """A record as the only row of a table."""
        lengths = self.config.task.ranges
        first = "development" if self.config.training.examples else "train"
        signals = mean_signals(record)
        table = Table(
            Column("batch", least=7),
            Column("start", drop=4),
            Column("lengths", drop=1),
            Column("nats/symbol", "loss"),
            Column("perplexity", drop=2),
            Column("batches/s", drop=5),
            *(Column(name, f"{first} {lengths.train}", drop=6) for name in ("coarse", "fine")),
            Column("symbols", f"{first} {lengths.train}", drop=6),
            *(Column(name, f"test {lengths.test}") for name in ("coarse", "fine")),
            Column("symbols", f"test {lengths.test}", drop=7),
            *(Column(name, drop=3, least=4) for name in signals),
        )
        table.add_row(
            str(record.step),
            str(record.attempt),
            str(record.lengths),
            f"{record.loss:.4f}",
            f"{record.perplexity:.3f}",
            f"{self._speed(record):.1f}",
            *_accuracies(record.train or record.development),
            *_accuracies(record.test),
            *(f"{mean:.2f}" for mean in signals.values()),
        )
        return table


def summary_table(summary: Summary, config: RunConfig, directory: str) -> RenderableType:
    """How a run ended."""
    table = Table(
        Column("strings", left=True),
        "lengths",
        Column("count", drop=1),
        "coarse",
        "fine",
        "symbols",
    )
    for name, lengths, accuracy in (
        ("train", config.task.ranges.train, summary.train),
        ("development", config.task.ranges.train, summary.development),
        ("test", config.task.ranges.test, summary.test),
    ):
        if accuracy:
            table.add_row(
                name,
                str(lengths),
                str(accuracy.count),
                f"{accuracy.coarse:.3f}",
                f"{accuracy.fine:.3f}",
                f"{accuracy.symbols:.4f}",
            )
    return Group(*ending(summary), table, remark(f"saved in {directory}"))


def ending(summary: Summary) -> Iterator[Text]:
    """What ended a run, and when; by which strings, and which others it is reported on."""
    starts = f", {summary.attempts} starts" if summary.attempts > 1 else ""
    yield remark(
        f"{summary.outcome}: {summary.rule}, after {summary.steps} batches"
        f"{starts}, {summary.seconds:.0f} seconds"
    )
    yield remark(f"stopped by: {summary.decided_by}")
    yield remark(f"reported on: {summary.reported_on}")


def _interval(accuracy: float, count: int) -> str:
    low, high = confidence_interval(accuracy, count)
    return f"{accuracy:.3f} [{low:.3f}, {high:.3f}]"


def scores_tables(results: Sequence[tuple[Lengths, Scores]], hard: bool = False) -> Iterator[Table]:
    """Accuracy of each range of lengths, then by length within those that have several.

    Args:
        results: of each range.
        hard: whether the model was run hard, and where that makes a difference is shown.
    """
    ranges = Table(
        "lengths",
        Column("strings", drop=1),
        "coarse [95%]",
        Column("fine [95%]", drop=2),
        Column("symbols", drop=3),
        *(("hard ≠ soft",) if hard else ()),
    )
    lengths = Table("length", Column("strings", drop=1), "coarse", "fine", "symbols")
    for bounds, scores in results:
        ranges.add_row(
            str(bounds),
            str(scores.count),
            _interval(scores.coarse_accuracy, scores.count),
            _interval(scores.fine_accuracy, scores.count),
            f"{scores.symbol_accuracy:.4f}",
            *((f"{scores.differing_share:.4f}",) if hard else ()),
        )
        parts = list(_spread(bounds, scores))
        for part, within in parts if len(parts) > 1 else ():
            lengths.add_row(
                str(part),
                str(within.count),
                f"{within.coarse_accuracy:.3f}",
                f"{within.fine_accuracy:.3f}",
                f"{within.symbol_accuracy:.4f}",
            )
    yield ranges
    if lengths.rows:
        yield lengths


def _spread(bounds: Lengths, scores: Scores) -> Iterator[tuple[Lengths, Scores]]:
    width = -(-(bounds.longest - bounds.shortest + 1) // ROWS_PER_RANGE)
    for start in range(bounds.shortest, bounds.longest + 1, width):
        part = Lengths(start, min(start + width - 1, bounds.longest))
        within = scores.of_lengths(*part)
        if within.count:
            yield part, within


def shaded(strength: float) -> str:
    """A strength as a number and a cell that is the darker the stronger it is."""
    return f"{strength:.2f} {shade(strength) * 2}".rstrip()


def _parts(parts: Sequence[Part]) -> str:
    return GAP.join(f"{part.symbol}@{part.step} {part.weight:.2f}" for part in parts)


def _said(step: Step) -> str:
    """The symbol that is said at a step, with a mark before it where it is not scored."""
    if step.output is None or step.scored:
        return step.output or ""
    return f"{UNKNOWN} {step.output}"


def _probability(step: Step) -> str:
    return "" if step.probability is None else f"{step.probability:.3f}"


def action_view(trace: Trace, config: RunConfig) -> RenderableType:
    """A model's way through a stream, a row a step: joulin2015, table 3.

    For each stack or list there is the most probable action with its probability, and what the
    cell at the top or head then holds.
    """
    names = list(trace.steps[0].tops)
    table = Table(
        "step",
        Column("symbol", left=True),
        Column("next", left=True, drop=1),
        Column("prediction", left=True),
        Column("prob.", drop=len(names) + 2),
        # From the last one on, but for the first.
        *(
            Column(name, drop=len(names) + 1 - place if place else None)
            for place, name in enumerate(names)
        ),
    )
    following = [*(step.input for step in trace.steps[1:]), ""]
    for step, symbol in zip(trace.steps, following, strict=True):
        table.add_row(
            str(step.step),
            step.input,
            symbol,
            _said(step),
            _probability(step),
            *(_action(step, name) for name in names),
        )
    return Group(heading(model_line(config)), table, remark(verdict(trace)))


def _action(step: Step, name: str) -> str:
    own = step.by_stack()[name]
    best = max(own, key=own.__getitem__)
    # The name of a signal ends with the number of its stack if there are several.
    action = best.removesuffix(f" {name.split()[1]}")
    return f"{action} {own[best]:.2f} {_numbers(step.tops[name][0])}"


def _numbers(cell: Sequence[float]) -> str:
    return " ".join(f"{number:5.2f}" for number in cell)


def trace_view(trace: Trace, config: RunConfig) -> RenderableType:
    """A model's way through a string, a row a step."""
    first = trace.steps[0]
    if make_memory(config.model).takes_actions:
        return action_view(trace, config)
    table = Table(*_trace_columns(first))
    for step in trace.steps:
        table.add_row(*_cells(step))
    return Group(heading(model_line(config)), table, remark(verdict(trace)))


def _trace_columns(first: Step) -> Iterator[Column]:
    yield Column("step")
    yield from (Column(name, left=True) for name in ("input", "output"))
    yield Column("prob.", drop=2)
    yield from (Column(name, drop=5) for name in first.signals)
    if first.input_read is not None:
        yield Column("left", drop=1)
        yield Column("read input", left=True, fold=GAP, drop=4)
    yield from (Column(f"read {end}", left=True, fold=GAP, drop=3) for end in first.reads)
    yield from (Column(name, drop=1) for name in first.tops)
    if first.written is not None:
        yield Column("held", drop=1)
        yield Column("write answer", left=True, fold=GAP, drop=4)


def _cells(step: Step) -> Iterator[str]:
    yield from (str(step.step), step.input, _said(step), _probability(step))
    yield from map(shaded, step.signals.values())
    if step.input_read is not None:
        yield from (f"{step.input_left:.2f}", _parts(step.input_read))
    yield from map(_parts, step.reads.values())
    yield from (_numbers(cells[0]) for cells in step.tops.values())
    if step.written is not None:
        yield from (f"{step.output_held:.2f}", _parts(step.written))


def picture_rows(trace: Trace, config: RunConfig) -> list[Row]:
    """The rows of a picture of a model's way through a string."""
    return rows_of(trace, -1.0 if config.model.value_nonlinearity == "tanh" else 0.0)


def heat_map_view(trace: Trace, config: RunConfig, width: int) -> RenderableType:
    """The picture in characters, and the answer."""
    pictured = heat_map(picture_rows(trace, config), width)
    return Group(heading(model_line(config)), *pictured, remark(verdict(trace)))


def verdict(trace: Trace) -> str:
    """The answer, and whether it is right."""
    if not trace.ended:
        judgement = "cut off: the model did not end it"
        if trace.expected is not None:
            judgement += f"; right is {trace.expected}"
    elif trace.why_not is not None:
        judgement = f"the task gives no answer: {trace.why_not}"
    elif trace.correct:
        judgement = "right"
    else:
        judgement = f"wrong; right is {trace.expected}"
    return f"answer: {trace.marked}  ({judgement})"


def scores_json(
    results: Sequence[tuple[Lengths, Scores]], hard: bool = False
) -> list[dict[str, Any]]:
    """The numbers of `scores_tables`, one entry a range."""
    return [
        {
            "lengths": list(bounds),
            **_scores_entry(scores),
            **({"differing": scores.differing_share} if hard else {}),
            "by_length": _by_length(scores),
        }
        for bounds, scores in results
    ]


def _scores_entry(scores: Scores) -> dict[str, Any]:
    coarse, fine, count = scores.coarse_accuracy, scores.fine_accuracy, scores.count
    return {
        "count": count,
        "coarse": coarse,
        "coarse_interval": confidence_interval(coarse, count),
        "fine": fine,
        "fine_interval": confidence_interval(fine, count),
        "symbols": scores.symbol_accuracy,
    }


def _by_length(scores: Scores) -> list[dict[str, Any]]:
    return [
        {"length": length, **_scores_entry(scores.of_lengths(length, length))}
        for length in sorted(set(scores.lengths.tolist()))
    ]
