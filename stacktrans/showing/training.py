"""Live progress of runs, and their summaries."""

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby

from rich.console import Console, Group, RenderableType
from rich.text import Text

from stacktrans.common.errors import shown
from stacktrans.common.visible import counted, listed
from stacktrans.inference.perplexity import perplexity_of
from stacktrans.model.description import model_line
from stacktrans.settings.config import RunConfig
from stacktrans.showing.progress import ProgressDisplay
from stacktrans.showing.race import LEGEND, STRINGS, race_view
from stacktrans.showing.scores import (
    ACCURACIES,
    confidence_interval,
    perplexity_json,
    perplexity_table,
)
from stacktrans.showing.tables import GAP, Column, Table, remark, table_of
from stacktrans.training.race_state import Candidate
from stacktrans.training.records import LOSS, SOLUTIONS, Accuracy, Record, Summary

WITHOUT = {
    "memory": "its reads are zero",
    "pushes": "they are blocked",
    "pops": "they are blocked",
    "state": "that of the controller is reset at each step",
}
"""The meaning of the accuracies without parts of the model."""

MAX_LISTED = 10
"""The most pairs that contradict a model that are listed; all are in its summary.json."""
RECORDS_KEPT = 12
"""Number of records that the speed of a run is measured over."""
_NUMBERED = re.compile(r"^(\S+) [0-9]+([a-z] \S+)?$")
"""The action of one of several stacks or lists, or one of several transitions."""
SCORES = ("coarse", "fine", "symbols")
Measured = tuple[str, str, Accuracy | None]
"""Name of the measured strings over columns, their name in a line, and the accuracy on them."""


class TrainingDisplay(ProgressDisplay):
    """The progress display of a run.

    In a terminal, each measurement of accuracy is a row of a table, and a live line below shows the
    last batches; elsewhere, records are plain lines.
    """

    legends: Sequence[str] = (LOSS,)

    def __init__(
        self,
        console: Console,
        config: RunConfig,
        parameters: int,
        directory: str,
        notes: Sequence[str] = (),
    ) -> None:
        self.config = config
        self.records: deque[Record] = deque(maxlen=RECORDS_KEPT)
        self.printed, self.attempt = 0, 1
        self._head: list[Text] = []
        model = f"{model_line(config)}; {parameters:,} parameters; in {directory}"
        super().__init__(console, [model, *notes])

    def show(self, record: Record) -> None:
        """Show a record, below a line on its attempt if that is another than before."""
        if not self.records:
            for legend in self.legends:
                self._write(legend)
        if record.attempt != self.attempt:
            self.attempt = record.attempt
            self._print(Text(f"attempt {record.attempt}, with newly drawn weights"))
        is_due = self._is_due(record)
        if is_due:
            self.printed = record.step
        if self.live and (is_due or not self._head):
            headings, row, note = self._table(record).lines(self.console.width)
            head = [*note, *headings]
            if head != self._head:
                self._head = head
                self._print(*head)
            if is_due:
                self._print(*row)
        elif is_due:
            self._write(self._line(record))
        self.records.append(record)  # last, so that the live part is below the headings
        if not is_due:
            self._refresh()

    def _is_due(self, record: Record) -> bool:
        """Whether a record has a line of its own."""
        every = self.config.training.measure.accuracy_every
        return bool(record.test or record.development) or record.step - self.printed >= every

    def _now(self) -> RenderableType:
        """The row of the last record, unless it was printed permanently."""
        if not self.records or self.records[-1].step <= self.printed:
            return Text("")
        _, row, _ = self._table(self.records[-1]).lines(self.console.width)
        return Group(*row)

    def _speed(self, record: Record) -> str:
        """The present speed: batches a second over the last few records."""
        first = next((other for other in self.records if other.step < record.step), None)
        steps = record.step - (first.step if first else 0)
        seconds = record.seconds - (first.seconds if first else 0.0)
        return f"{steps / seconds:.1f}" if seconds else ""

    def _quantities(self, record: Record) -> Iterator[tuple[Column, str, str]]:
        """The columns of a record's row, their cells, and the format of these in a plain line."""
        yield Column("batch", least=7), str(record.step), "batch {}"
        yield Column("lengths", drop=1), str(record.lengths), "lengths {}"
        yield Column("loss"), f"{record.loss:.4f}", "loss {}"
        yield Column("perplexity", drop=2), f"{record.perplexity:.3f}", ""
        yield Column("batches/s", drop=5), self._speed(record), "{} batches/s"
        for index, (group, _, accuracy) in enumerate(self._measured(record)):
            for name, cell in zip(SCORES, _accuracies(accuracy), strict=True):
                drop = 7 if name == "symbols" else None
                yield Column(name, group, drop=drop if index else 6), cell, ""

    def _measured(self, record: Record) -> tuple[Measured, ...]:
        """The two accuracies of a record; the first can be left out of a narrow table."""
        if self.config.has_pair_files:
            # The longest strings show generalization.
            name = STRINGS["longest"]
            longest = (name, name, record.longest)
            return longest, ("development", "development", record.development)
        ranges, longer = self.config.task.ranges, STRINGS["test"]
        name = "development" if self.config.training.examples else "train"
        first = (f"{name} {ranges.train}", name, record.train or record.development)
        return first, (f"{longer} {ranges.test}", longer, record.test)

    def _line(self, record: Record) -> str:
        """A record as a plain line, without what is only in the table and in `metrics.jsonl`."""
        parts = [text.format(cell) for _, cell, text in self._quantities(record) if text and cell]
        for _, name, accuracy in self._measured(record):
            if accuracy:
                parts.append("{} coarse {} fine {}".format(name, *_accuracies(accuracy)))
        return GAP.join(parts)

    def _table(self, record: Record) -> Table:
        """A record as the only row of a table."""
        columns, cells, _ = zip(*self._quantities(record), strict=True)
        signals = mean_signals(record)
        row = [*cells, *(f"{mean:.2f}" for mean in signals.values())]
        return Table(*columns, *(Column(name, drop=3, least=4) for name in signals), rows=[row])


class LanguageDisplay(TrainingDisplay):
    """The progress display of a run on a text, which shows perplexities and no losses."""

    legends = ()

    def _is_due(self, record: Record) -> bool:
        return True  # there are few, and an epoch may take minutes

    def _measured(self, record: Record) -> tuple[()]:
        return ()

    def _quantities(self, record: Record) -> Iterator[tuple[Column, str, str]]:
        training, validation = f"{record.perplexity:.1f}", ""
        if record.validation is not None:
            validation = f"{perplexity_of(record.validation):.1f}"
        yield Column("batch", least=7), str(record.step), "batch {}"
        yield Column("learning rate", drop=4), f"{record.learning_rate:g}", "learning rate {}"
        yield Column("training", "perplexity"), training, "training perplexity {}"
        yield Column("validation", "perplexity"), validation, "validation perplexity {}"
        yield Column("batches/s", drop=5), self._speed(record), "{} batches/s"


def _accuracies(accuracy: Accuracy | None) -> list[str]:
    """The cells of coarse, fine and symbol accuracy."""
    if accuracy is None:
        return ["", "", ""]
    return [f"{accuracy.coarse:.2f}", f"{accuracy.fine:.2f}", f"{accuracy.symbols:.3f}"]


def mean_signals(record: Record) -> dict[str, float]:
    """The mean of each signal, over several stacks or lists of each action; sums of transitions."""
    by_action: dict[str, list[float]] = {}
    for name, mean in record.signals.items():
        by_action.setdefault(_NUMBERED.sub(r"\1", name), []).append(mean)
    return {  # all transitions of an automaton are alternatives
        action: sum(means) / (len(means) if f"{action} 1" in record.signals else 1)
        for action, means in by_action.items()
    }


def summary_view(summary: Summary, config: RunConfig, directory: str) -> RenderableType:
    """The outcome of a run, and its accuracies, or the perplexities of its texts."""
    attempts = f" and {summary.attempts} attempts" if summary.attempts > 1 else ""
    raced = summary.race["strategies"].items() if summary.race else ()
    candidates = {name: Candidate(**progress) for name, progress in raced}
    race = f"; the race took {_seconds(summary.race['seconds'])}" if summary.race else ""
    pruned = summary.model not in ("", model_line(config))
    batches, hard_use = counted(summary.steps, "batch", "batches"), _hard_use(summary)
    solved = "solved: " if summary.outcome in SOLUTIONS else ""
    ended = f"{solved}{summary.rule}; {batches}{attempts}"
    return Group(
        *([race_view(candidates), remark(LEGEND)] if candidates else []),
        remark(f"{ended} in {_seconds(summary.seconds)}{race}"),
        *map(remark, f"stopping and best weights: {summary.decided_by}".split("; ")),
        remark(f"measured on {summary.reported_on}"),
        _accuracy_table(summary, config)
        if config.task.lengths
        else perplexity_table(perplexity_json(summary.texts)),
        *map(remark, _legend(summary.without)),
        *([remark(f"with hard signals: {hard_use}")] if hard_use else []),
        *map(remark, _contradictions(summary.contradictions)),
        *([remark("to train this run alone:", summary.command)] if summary.race else []),
        *([remark(f"pruned to the memories that it needs: {summary.model}")] if pruned else []),
        remark(f"saved in {directory}"),
    )


def _seconds(seconds: float) -> str:
    return counted(round(seconds), "second")


def _hard_use(summary: Summary) -> str | None:
    """The effect of hard signals on a model that is not always wrong, in words.

    Differences may be due to chance.
    """
    soft, hard = summary.test, summary.hard
    if soft is None or hard is None or soft.coarse == hard.coarse == 0:
        return None
    if hard.coarse == 1:
        return "right"
    low, high = confidence_interval(soft.coarse, soft.count)
    both = f"{hard.coarse:.3f} compared with {soft.coarse:.3f}"
    if low <= hard.coarse <= high:
        return f"about as good as soft, {both}"
    if hard.coarse > high:
        return f"better than soft, {both}"
    return f"worse than soft, {both}; it needs signals between 0 and 1"


def _legend(parts: Iterable[str]) -> Iterator[str]:
    """Lines on the accuracies without some parts of the model."""
    for meaning, each in groupby(parts, WITHOUT.__getitem__):
        yield f"without {listed(each, 'or')}: {meaning}"


def _contradictions(pairs: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """Lines on the pairs that contradict a model."""
    if pairs:
        many = counted(len(pairs), "pair in the files has", "pairs in the files have")
        first = f"; the first {MAX_LISTED}" if len(pairs) > MAX_LISTED else ""
        yield f"{many} another target than the model's answer{first}:"
    for pair in pairs[:MAX_LISTED]:
        source, target, answer = (shown(pair[name]) for name in ("source", "target", "answer"))
        yield f"  {pair['line']}: {source}: expected {target}; the model answers {answer}"


def _accuracy_table(summary: Summary, config: RunConfig) -> Table:
    train, test = config.task.ranges.train, config.task.ranges.test
    # In files, those of a development set are others.
    development = "" if config.has_pair_files else train
    rows = [
        ("train", train, summary.train),
        ("development", development, summary.development),
        ("test", test, summary.test),
        ("test, hard", test, summary.hard),
        *((f"test, {name}", test, each) for name, each in summary.baselines.items()),
        *((f"test without {part}", test, each) for part, each in summary.without.items()),
    ]
    entries = [
        {"strings": name, "lengths": lengths, **asdict(accuracy)}
        for name, lengths, accuracy in rows
        if accuracy
    ]
    columns = Column("strings", left=True), Column("lengths"), Column("count", drop=1)
    return table_of(entries, *columns, *ACCURACIES)
