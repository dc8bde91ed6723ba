"""How records, scores and traces are shown in a terminal."""

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from stacktrans.config import RunConfig
from stacktrans.evaluation import Scores
from stacktrans.picture import Row, heat_map, rows_of, shade
from stacktrans.progress import ProgressDisplay
from stacktrans.records import Accuracy, Record, Summary
from stacktrans.statistics import confidence_interval
from stacktrans.tables import plain_table
from stacktrans.tasks.base import Lengths
from stacktrans.trace import Part, Step, Trace

RECORDS_SHOWN = 12
ROWS_PER_RANGE = 8


def model_line(config: RunConfig) -> str:
    """The shape of a model in a line."""
    model = config.model
    layers = f"{model.layers} layers of " if model.layers > 1 else ""
    controller = f"{layers}{model.controller.upper()} {model.hidden_size}"
    if model.controller == "linear":
        controller = "linear controller"
    memory = model.memory if model.memory == "none" else f"{model.memory} of {model.memory_size}"
    if model.memory_count > 1:
        memory = f"{model.memory_count} {memory}"
    embeddings = f"embeddings {model.embedding_size}"
    if model.embedding_size == "one-hot":
        embeddings = "one-hot inputs"
    buffers = ", buffers" if model.buffered else ""
    return f"{config.task.name}: {controller}, memory {memory}, {embeddings}{buffers}"


def accuracy_text(accuracy: Accuracy | None) -> str:
    """Coarse and fine accuracy in a cell."""
    if accuracy is None:
        return ""
    return f"{accuracy.coarse:.2f} {accuracy.fine:.2f} {accuracy.symbols:.3f}"


def mean_signals(record: Record) -> dict[str, float]:
    """The mean of each signal; of several stacks or lists, of what is the same action."""
    by_action: dict[str, list[float]] = {}
    for name, mean in record.signals.items():
        by_action.setdefault(name.rstrip(" 0123456789"), []).append(mean)
    return {action: sum(means) / len(means) for action, means in by_action.items()}


class TrainingDisplay(ProgressDisplay):
    """Shows a run as it goes: a live table in a terminal, plain lines elsewhere.

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
        self.records: list[Record] = []
        self.printed = 0
        super().__init__(console, a_second=4)

    def _opening(self) -> str:
        return self.heading

    def show(self, record: Record) -> None:
        """Show one more record."""
        self.records.append(record)
        if self.live:
            self.live.refresh()
        elif self._is_due(record):
            self.printed = record.step
            self._say(self._line(record))

    def _is_due(self, record: Record) -> bool:
        """Whether a record has a line of its own where there is no live table."""
        every = self.config.training.accuracy_every
        return bool(record.test or record.development) or record.step - self.printed >= every

    def _speed(self, record: Record) -> float:
        # Over the last few records, so that it is the speed of now.
        recent = [other for other in self.records[-RECORDS_SHOWN:] if other.step < record.step]
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
            f"loss {record.loss:.4f}",
            f"perplexity {record.perplexity:.3f}",
            f"{self._speed(record):.1f} batches/s",
            f"train {accuracy_text(record.train)}" if record.train else "",
            f"test {accuracy_text(record.test)}" if record.test else "",
            f"development {accuracy_text(record.development)}" if record.development else "",
            strengths,
        ]
        return "  ".join(part for part in parts if part)

    def _table(self) -> RenderableType:
        train, test = self.config.task.ranges.train, self.config.task.ranges.test
        table = plain_table(
            "batch",
            "start",
            "lengths",
            "loss",
            "perplexity",
            "batches/s",
            f"development {train}" if self.config.training.examples else f"train {train}",
            f"test {test}",
            *(mean_signals(self.records[-1]) if self.records else ()),
        )
        for record in self.records[-RECORDS_SHOWN:]:
            table.add_row(
                str(record.step),
                str(record.attempt),
                str(record.lengths),
                f"{record.loss:.4f}",
                f"{record.perplexity:.3f}",
                f"{self._speed(record):.1f}",
                accuracy_text(record.train or record.development),
                accuracy_text(record.test),
                *(f"{mean:.2f}" for mean in mean_signals(record).values()),
            )
        return Group(Text(self.heading, style="bold"), table)


def summary_table(summary: Summary, config: RunConfig, directory: str) -> RenderableType:
    """How a run ended."""
    table = plain_table("lengths", "strings", "coarse", "fine", "symbols")
    for lengths, accuracy in (
        (config.task.ranges.train, summary.train),
        (config.task.ranges.test, summary.test),
    ):
        if accuracy:
            table.add_row(
                str(lengths),
                str(accuracy.count),
                f"{accuracy.coarse:.3f}",
                f"{accuracy.fine:.3f}",
                f"{accuracy.symbols:.4f}",
            )
    return Group(Text(ending(summary)), table, Text(f"saved in {directory}"))


def ending(summary: Summary) -> str:
    """What ended a run, and when."""
    starts = f", {summary.attempts} starts" if summary.attempts > 1 else ""
    return (
        f"{summary.outcome}: {summary.rule}, after {summary.steps} batches"
        f"{starts}, {summary.seconds:.0f} s"
    )


def _interval(accuracy: float, count: int) -> str:
    low, high = confidence_interval(accuracy, count)
    return f"{accuracy:.3f} [{low:.3f}, {high:.3f}]"


def scores_tables(results: Sequence[tuple[Lengths, Scores]], hard: bool = False) -> Iterator[Table]:
    """Accuracy of each range of lengths, then by length within the ranges.

    Args:
        results: of each range.
        hard: whether the model was run hard, and where that makes a difference is shown.
    """
    columns = ("lengths", "strings", "coarse [95%]", "fine [95%]", "symbols")
    ranges = plain_table(*columns, *(("hard ≠ soft",) if hard else ()))
    lengths = plain_table("length", "strings", "coarse", "fine", "symbols")
    for bounds, scores in results:
        ranges.add_row(
            str(bounds),
            str(scores.count),
            _interval(scores.coarse_accuracy, scores.count),
            _interval(scores.fine_accuracy, scores.count),
            f"{scores.symbol_accuracy:.4f}",
            *((f"{scores.differing_share:.4f}",) if hard else ()),
        )
        for part, within in _spread(bounds, scores):
            lengths.add_row(
                str(part),
                str(within.count),
                f"{within.coarse_accuracy:.3f}",
                f"{within.fine_accuracy:.3f}",
                f"{within.symbol_accuracy:.4f}",
            )
        lengths.add_section()
    yield ranges
    yield lengths


def _spread(bounds: Lengths, scores: Scores) -> Iterator[tuple[Lengths, Scores]]:
    width = -(-(bounds.longest - bounds.shortest + 1) // ROWS_PER_RANGE)
    for start in range(bounds.shortest, bounds.longest + 1, width):
        part = Lengths(start, min(start + width - 1, bounds.longest))
        within = scores.of_lengths(*part)
        if within.count:
            yield part, within


def shaded(strength: float) -> Text:
    """A strength as a number and a cell that is the darker the stronger it is."""
    return Text(f"{strength:.2f} {shade(strength) * 2}")


def _parts(parts: Sequence[Part]) -> str:
    return "  ".join(f"{part.symbol}@{part.step} {part.weight:.2f}" for part in parts)


def _cells(step: Step) -> list[Text]:
    cells = [
        Text(str(step.step)),
        Text(step.input),
        Text(step.output or ""),
        Text("" if step.probability is None else f"{step.probability:.3f}"),
    ]
    cells += [shaded(strength) for strength in step.signals.values()]
    if step.input_read is not None:
        cells += [Text(f"{step.input_left:.2f}"), Text(_parts(step.input_read))]
    cells += [Text(_parts(parts)) for parts in step.reads.values()]
    if step.written is not None:
        cells += [Text(f"{step.output_held:.2f}"), Text(_parts(step.written))]
    return cells


def action_view(trace: Trace, config: RunConfig) -> RenderableType:
    """A model's way through a stream, a row a step: joulin2015, table 3.

    For each stack or list there is the most probable action with its probability, and what the
    cell at the top or head then holds.
    """
    names = list(trace.steps[0].tops)
    table = plain_table("step", "symbol", "next", "prediction", "prob.", *names)
    for column in table.columns[1:4]:
        column.justify = "left"
    following = [*(step.input for step in trace.steps[1:]), ""]
    for step, symbol in zip(trace.steps, following, strict=True):
        table.add_row(
            str(step.step),
            Text(step.input),
            Text(symbol),
            Text(step.output or ""),
            "" if step.probability is None else f"{step.probability:.3f}",
            *(_action(step, name) for name in names),
        )
    return Group(Text(model_line(config), style="bold"), table, Text(verdict(trace)))


def _action(step: Step, name: str) -> str:
    own = step.by_stack()[name]
    best = max(own, key=own.__getitem__)
    top = " ".join(f"{number:5.2f}" for number in step.tops[name][0])
    # The name of a signal ends with the number of its stack if there are several.
    action = best.removesuffix(f" {name.split()[1]}")
    return f"{action} {own[best]:.2f} {top}"


def trace_view(trace: Trace, config: RunConfig) -> RenderableType:
    """A model's way through a string, a row a step."""
    first = trace.steps[0]
    if first.tops:
        return action_view(trace, config)
    table = plain_table("step", "input", "output", "prob.", *first.signals)
    for column in table.columns[1:3]:
        column.justify = "left"
    if first.input_read is not None:
        table.add_column("left", justify="right")
        table.add_column("read input", justify="left", overflow="fold")
    for end in first.reads:
        table.add_column(f"read {end}", justify="left", overflow="fold")
    if first.written is not None:
        table.add_column("held", justify="right")
        table.add_column("write answer", justify="left", overflow="fold")
    for step in trace.steps:
        table.add_row(*_cells(step))
    return Group(Text(model_line(config), style="bold"), table, Text(verdict(trace)))


def picture_rows(trace: Trace, config: RunConfig) -> list[Row]:
    """The rows of a picture of a model's way through a string."""
    return rows_of(trace, -1.0 if config.model.value_nonlinearity == "tanh" else 0.0)


def heat_map_view(trace: Trace, config: RunConfig, width: int) -> RenderableType:
    """The picture in characters, and the answer."""
    heading = Text(model_line(config), style="bold")
    return Group(heading, *heat_map(picture_rows(trace, config), width), Text(verdict(trace)))


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
    return f"answer: {trace.answer}  ({judgement})"


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
