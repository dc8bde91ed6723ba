"""Live progress of runs and races, summaries of runs, and advice after an unsolved race."""

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict

from rich.console import Console, Group, RenderableType
from rich.text import Text

from stacktrans.common.errors import shown
from stacktrans.common.visible import counted, listed, shell_text
from stacktrans.inference.perplexity import perplexity_of
from stacktrans.kernels import code_cache
from stacktrans.model.description import model_line
from stacktrans.settings.config import RunConfig
from stacktrans.settings.resolve import strategies
from stacktrans.showing.progress import ProgressDisplay
from stacktrans.showing.scores import ACCURACIES, perplexity_json, perplexity_table
from stacktrans.showing.tables import GAP, Column, Table, remark, table_of
from stacktrans.training.race import Race
from stacktrans.training.race_state import Candidate, RaceState
from stacktrans.training.records import SOLUTIONS, Accuracy, Record, Summary
from stacktrans.training.wording import started_from

STRINGS = {
    "development": "development",
    "longest": "development, longest",
    "test": "test lengths",
    "train": "training",
}
"""The strings that runs are compared on, by their keys in `Candidate.best`."""
WITHOUT = {
    "memory": "its reads are zero",
    "pushes": "they are blocked",
    "pops": "they are blocked",
    "state": "the state of the controller is reset at each step",
}
"""The meaning of the accuracies without parts of the model."""
UNKNOWN = "–"
"""Placeholder of a number that was not measured."""

LONGER = 4
"""Factor on the budget in advice to race for longer."""
LEARNED = 0.9
"""Share of strings that a run must answer right to have learned them."""

LISTED = 10
"""The most pairs that contradict a model that are listed; all are in its summary.json."""
RECORDS_KEPT = 12
"""Number of records that the speed of a run is measured over."""
_NUMBERED = re.compile(r"^(\S+) [0-9]+([a-z] \S+)?$")
"""The action of one of several stacks or lists, or one of several transitions."""
SCORES = ("coarse", "fine", "symbols")
Measured = tuple[str, str, Accuracy | None]
"""Name of the measured strings over columns, their name in a line, and the accuracy on them."""


class RaceDisplay(ProgressDisplay):
    """The candidates of a race and their progress: a live table, or a line for each time slice."""

    def __init__(self, console: Console, race: Race) -> None:
        self._race, self._shown = race, race.state.latest
        super().__init__(console, transient=True)

    def _open(self) -> None:
        state = self._race.state
        self._write(
            f"{len(state.candidates)} strategies race in time slices, until one solves the task, "
            f"for at most {state.budget:.0f} seconds; in {self._race.directory}"
        )
        for note in self._race.notes:
            self._write(note)
        self._write("accuracies are those of each run's best weights so far")
        if code_cache.is_empty():
            code_cache.announce()

    def show(self) -> None:
        """Show the progress of the runs."""
        candidates = self._race.state.latest
        if self.live:
            self._refresh()
        else:
            for name, candidate in candidates.items():
                if self._shown.get(name) != candidate:
                    self._write(_line(name, candidate))
        self._shown = candidates

    def _now(self) -> RenderableType:
        state = self._race.state
        view = race_view(state.latest, self._race.at_work)
        return Group(view, remark(f"{self._race.elapsed:.0f} of {state.budget:.0f} seconds"))

    def _close(self) -> None:
        # The end of a race is shown in the summary.
        if self.live and self._race.stop_requested:
            self._print(self._now())


def _line(name: str, candidate: Candidate) -> str:
    loss = "" if candidate.loss is None else f"loss {candidate.loss:.4f} nats/symbol"
    best = candidate.best
    coarse = GAP.join(f"{STRINGS[part]} coarse {best[part]:.2f}" for part in _compared(best))
    accuracies = f"{coarse} fine {best['fine']:.2f}" if best else ""
    parts = (name, f"batch {candidate.step}", loss, accuracies, _state(candidate))
    return GAP.join(filter(None, parts))


def _compared(*best: Mapping[str, float]) -> list[str]:
    """The strings that runs are compared on, in ascending order of importance."""
    return [*dict.fromkeys(name for merit in best for name in merit if name in STRINGS)][::-1]


def _state(candidate: Candidate, at_work: bool = False) -> str:
    return candidate.failed or candidate.ended or ("training" if at_work else "")


def race_view(candidates: Mapping[str, Candidate], at_work: Sequence[str] = ()) -> RenderableType:
    """A table of the progress of the candidates that have begun, the best first."""
    begun = {
        name: candidate
        for name, candidate in candidates.items()
        if name in at_work or candidate != Candidate()
    }
    waiting = len(candidates) - len(begun)
    more = [remark(f"{counted(waiting, 'strategy has', 'strategies have')} not begun")]
    return Group(_race_table(begun, at_work), *(more if waiting else []))


def _race_table(candidates: Mapping[str, Candidate], at_work: Sequence[str]) -> Table:
    names = _compared(*(candidate.best for candidate in candidates.values()))
    table = Table(
        Column("strategy", left=True),
        Column("batches", drop=5),
        Column("seconds", drop=3),
        Column("nats/symbol", "last batches", drop=2),
        *(Column("coarse", STRINGS[name], drop=1 if name != names[-1] else None) for name in names),
        *(Column("fine", STRINGS[name], drop=4) for name in names[-1:]),
        Column("state", left=True, fold=" "),
    )
    ranked = sorted(candidates.items(), key=lambda item: item[1].merit, reverse=True)
    for name, candidate in ranked:
        loss = UNKNOWN if candidate.loss is None else f"{candidate.loss:.4f}"
        shares = (candidate.best.get(part) for part in ([*names, "fine"] if names else []))
        accuracies = (UNKNOWN if share is None else f"{share:.2f}" for share in shares)
        state = _state(candidate, name in at_work)
        cells = f"{candidate.seconds:.0f}", loss, *accuracies, state
        table.add_row(name, candidate.step, *cells)
    return table


def candidates_table(configs: Mapping[str, RunConfig]) -> Table:
    """A table of the candidates of a race: the memory and the idea of each."""
    table = Table(
        Column("strategy", left=True),
        Column("memory", left=True),
        Column("idea", left=True, fold=" "),
    )
    for name, config in configs.items():
        table.add_row(name, config.model.memory.name, strategies()[name].idea)
    return table


def advice(
    state: RaceState,
    summary: Summary,
    config: RunConfig,
    others: Sequence[str],
    resume_command: Sequence[str],
) -> list[str]:
    """Lines on how far an unsolved race has come, and on what to try next.

    Args:
        state: state of the race.
        summary: summary of its best run, with the accuracies that are shown to the user.
        config: configuration of this run.
        others: strategies for its task that were not raced.
        resume_command: words of the command that resumes the race.
    """
    parts, solved = ("train", "development", "test"), config.training.solved
    measured = {part: accuracy for part in parts if (accuracy := getattr(summary, part))}
    right = listed(
        f"{round(accuracy.coarse * accuracy.count):,} of {accuracy.count:,} strings ({part})"
        for part, accuracy in measured.items()
    )
    least = min((accuracy.coarse for accuracy in measured.values()), default=0.0)
    all_right = least >= solved.accuracy
    result = f"not solved; {state.best} has come furthest"
    result += f": it is right on {right}" if right else ""
    hard_right = summary.hard is not None and summary.hard.coarse >= solved.accuracy
    soft = all_right and summary.hard is not None and not hard_right
    if soft:
        result += ", but only with signals between 0 and 1"
    elif all_right and summary.outcome in SOLUTIONS:
        result += ", but the race had no time to make sure of it"
    elif all_right:
        result += f", but not yet in {solved.times} measurements in a row"
    tips = [f"{result}. Worth a try:"]
    if hard_right and not all_right:
        tips.append("  the discrete model, which solves the task on test strings: --hard")
    if state.can_continue:
        budget = f"{max(1, round(LONGER * state.budget))}s"
        tips.append(f"  longer: {shell_text([*resume_command, '--budget', budget])}")
    elif summary.outcome in ("max_steps", "time_limit"):
        tips.append(f"  a larger --{summary.outcome.replace('_', '-')}")
    if all_right and not soft:
        return tips
    if others:
        tips.append(f"  other strategies: --strategies {','.join(others)}")
    return [*tips, *_remedies(measured, config), "  other memories: stacktrans list memories"]


def _remedies(measured: Mapping[str, Accuracy], config: RunConfig) -> Iterator[str]:
    """Advice for the first of the measured strings that are not learned, if there are any."""
    missed = next((part for part, score in measured.items() if score.coarse < LEARNED), None)
    if missed is None:
        return
    shortest, longest = config.task.ranges.train
    if missed == "train":
        shorter = "shorter strings to begin with, or " if 1 < shortest < longest else ""
        yield f"  {shorter}a larger --hidden and --memory-size"
    elif missed == "test" and config.task.ranges.test.longest > longest:
        yield "  a wider range of training lengths: it does not generalize to longer strings"
    else:
        yield "  more strings to train on: it does not generalize to others"


class TrainingDisplay(ProgressDisplay):
    """The progress display of a run.

    In a terminal, each measurement of accuracy is a row of a table, and a live line below shows the
    last batches; elsewhere, records are plain lines.
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
        self._write(self.heading)
        for note in self.notes:
            self._write(note)

    def show(self, record: Record) -> None:
        """Show a record."""
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
            self._write(self._line(record))

    def _is_due(self, record: Record) -> bool:
        """Whether a record has a line of its own."""
        every = self.config.training.measure.accuracy_every
        return bool(record.test or record.development) or record.step - self.printed >= every

    def _print_row(self, record: Record) -> None:
        """Print a row permanently, below new headings if it does not fit the last."""
        self._print(*self._new_head(record), *self._row(record))

    def _row(self, record: Record) -> list[Text]:
        """A record's row, without headings."""
        return self._table(record).lines(self.console.width)[1]

    def _new_head(self, record: Record) -> list[Text]:
        """The headings of a record's row, if they differ from the last."""
        headings, _, note = self._table(record).lines(self.console.width)
        head = [*note, *headings]
        new = head if head != self._head else []
        self._head = head
        return new

    def _now(self) -> RenderableType:
        """The row of the last record, unless it was printed permanently."""
        if not self.records or self.records[-1].step <= self.printed:
            return Text("")
        return Group(*self._row(self.records[-1]))

    def _close(self) -> None:
        if self.live and self.records and self.records[-1].step > self.printed:
            self._print_row(self.records[-1])

    def _speed(self, record: Record) -> str:
        """The present speed: batches a second over the last few records."""
        first = next((other for other in self.records if other.step < record.step), None)
        steps = record.step - (first.step if first else 0)
        seconds = record.seconds - (first.seconds if first else 0.0)
        return f"{steps / seconds:.1f}" if seconds else ""

    def _quantities(self, record: Record) -> Iterator[tuple[Column, str, str]]:
        """The columns of a record's row, their cells, and the format of these in a plain line."""
        yield Column("batch", least=7), str(record.step), "batch {}"
        yield (
            Column("attempt", drop=4),
            str(record.attempt),
            "attempt {}" if record.attempt > 1 else "",
        )
        yield Column("lengths", drop=1), str(record.lengths), "lengths {}"
        yield Column("nats/symbol", "loss"), f"{record.loss:.4f}", "loss {} nats/symbol"
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
        ranges, test = self.config.task.ranges, record.test
        name = "development" if self.config.training.examples else "train"
        first = (f"{name} {ranges.train}", name, record.train or record.development)
        return first, (f"validation {ranges.test}", "validation", test)

    def _line(self, record: Record) -> str:
        """A record as a plain line, without what is only in the table and in `metrics.jsonl`."""
        parts = [text.format(cell) for _, cell, text in self._quantities(record) if text and cell]
        for _, name, accuracy in self._measured(record):
            if accuracy:
                parts.append("{} coarse {} fine {} symbols {}".format(name, *_accuracies(accuracy)))
        return GAP.join(parts)

    def _table(self, record: Record) -> Table:
        """A record as the only row of a table."""
        columns, cells, _ = zip(*self._quantities(record), strict=True)
        signals = mean_signals(record)
        table = Table(*columns, *(Column(name, drop=3, least=4) for name in signals))
        table.add_row(*cells, *(f"{mean:.2f}" for mean in signals.values()))
        return table


class LanguageDisplay(TrainingDisplay):
    """The progress display of a run on a text."""

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
    attempts = f", {summary.attempts} attempts" if summary.attempts > 1 else ""
    raced = summary.race["strategies"].items() if summary.race else ()
    candidates = {name: Candidate(**progress) for name, progress in raced}
    race = f"; the race took {_seconds(summary.race['seconds'])}" if summary.race else ""
    # A race may have no time left to make sure of a solution.
    certain = summary.outcome in SOLUTIONS and (not summary.race or summary.race["winner"])
    pruned = summary.model not in ("", model_line(config))
    batches, hard_use = counted(summary.steps, "batch", "batches"), _hard_use(summary)
    ended = f"{'solved: ' if certain else ''}{summary.rule}, after {batches}{attempts}"
    return Group(
        *([race_view(candidates)] if candidates else []),
        remark(f"{ended}, {_seconds(summary.seconds)}{race}"),
        *([remark(started_from(config.start_from))] if config.start_from else []),
        remark(f"stopping rule and best weights: {summary.decided_by}"),
        remark(f"accuracies are measured on: {summary.reported_on}"),
        _accuracy_table(summary, config)
        if config.task.lengths
        else perplexity_table(perplexity_json(summary.texts)),
        *([remark(_legend(summary.without))] if summary.without else []),
        *([remark(f"with hard signals: {hard_use}")] if hard_use else []),
        *map(remark, _contradictions(summary.contradictions)),
        *([remark("to train this run alone:", summary.command)] if summary.race else []),
        *([remark(f"pruned to {summary.model}")] if pruned else []),
        remark(f"saved in {directory}"),
    )


def _seconds(seconds: float) -> str:
    return counted(round(seconds), "second")


def _hard_use(summary: Summary) -> str | None:
    """The effect of hard signals on a model that solves any strings, in words."""
    if summary.hard is None or summary.test is None or summary.test.coarse == 0:
        return None
    if summary.hard.coarse == 1:
        return "right"
    soft, hard = (f"{each.coarse:.3f}" for each in (summary.test, summary.hard))
    if summary.hard.coarse == summary.test.coarse:
        return f"as good as soft, {hard}"
    if summary.hard.coarse > summary.test.coarse:
        return f"better than soft, {hard} instead of {soft}"
    return f"worse than soft, {hard} instead of {soft}; it needs signals between 0 and 1"


def _legend(parts: Iterable[str]) -> str:
    """A line on the accuracies without some parts of the model."""
    return "; ".join(f"without {part}: {WITHOUT[part]}" for part in parts)


def _contradictions(pairs: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """Lines on the pairs that contradict a model."""
    if pairs:
        many = counted(len(pairs), "pair in the files has", "pairs in the files have")
        yield f"{many} another target than the model's answer" + (
            f", the first {LISTED} of them:" if len(pairs) > LISTED else ":"
        )
    for pair in pairs[:LISTED]:
        source, target, answer = (shown(pair[name]) for name in ("source", "target", "answer"))
        yield f"  {pair['line']}: {source}: expected {target}; the model answers {answer}"


def _accuracy_table(summary: Summary, config: RunConfig) -> Table:
    ranges = config.task.ranges
    development = (
        "" if config.has_pair_files else str(ranges.train)
    )  # whose lengths differ for files
    rows = {
        "train": (str(ranges.train), summary.train),
        "development": (development, summary.development),
        "test": (str(ranges.test), summary.test),
        "test, hard": (str(ranges.test), summary.hard),
    }
    further = [(f"test, {name}", each) for name, each in summary.baselines.items()]
    further += [(f"test without {part}", each) for part, each in summary.without.items()]
    rows |= {name: (str(ranges.test), accuracy) for name, accuracy in further}
    entries = [
        {"strings": name, "lengths": lengths, **asdict(accuracy)}
        for name, (lengths, accuracy) in rows.items()
        if accuracy
    ]
    columns = Column("strings", left=True), Column("lengths"), Column("count", drop=1)
    return table_of(entries, *columns, *ACCURACIES)
