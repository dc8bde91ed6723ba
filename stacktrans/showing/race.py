"""A race of strategies, shown as it goes, and what to try where none has solved the task."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType

from stacktrans.common.visible import listed, shell_text
from stacktrans.settings.config import RunConfig
from stacktrans.settings.strategies import strategies
from stacktrans.showing.progress import ProgressDisplay
from stacktrans.showing.tables import GAP, Column, Table, remark
from stacktrans.training.race import Race
from stacktrans.training.records import Accuracy, Summary
from stacktrans.training.standings import RaceState, Standing

STRINGS = {
    "development": "development set",
    "longest": "its longest tenth",
    "test": "test lengths",
    "train": "training lengths",
}
"""The strings that runs are compared on, by their names in `Standing.best`."""
UNKNOWN = "–"
"""What stands for a number that was not measured."""

LONGER = 4
"""How many times as long a race may try."""
LEARNED = 0.9
"""A run that is right on so many strings of a kind has learned them."""


class RaceDisplay(ProgressDisplay):
    """Shows who takes part and how far each has come: a live table, or a line for each turn."""

    def __init__(self, console: Console, race: Race) -> None:
        self._race, self._shown = race, race.state.latest
        super().__init__(console, transient=True)

    def _open(self) -> None:
        state = self._race.state
        self._say(
            f"{len(state.standings)} strategies take turns, until one has solved the task or for "
            f"{state.budget:.0f} s; in {self._race.directory}"
        )
        for note in self._race.notes:
            self._say(note)
        self._say("accuracies are those of each run's best weights so far")

    def show(self) -> None:
        """Show how the runs stand after one more turn."""
        standings = self._race.state.latest
        if self.live:
            self._refresh()
        else:
            for name, standing in standings.items():
                if self._shown.get(name) != standing:
                    self._say(_line(name, standing))
        self._shown = standings

    def _now(self) -> RenderableType:
        state = self._race.state
        table = race_table({name: each.model_dump() for name, each in state.latest.items()})
        return Group(table, remark(f"{self._race.elapsed:.0f} of {state.budget:.0f} s"))

    def _close(self) -> None:
        # How a race has ended is in the summary.
        if self.live and self._race.stop_requested:
            self._print(self._now())


def _line(name: str, standing: Standing) -> str:
    state = _state(standing.model_dump())
    loss = "" if standing.loss is None else f"loss {standing.loss:.4f} nats/symbol"
    best = standing.best
    coarse = GAP.join(f"{STRINGS[part]} coarse {best[part]:.2f}" for part in _compared(best))
    accuracies = f"{coarse} fine {best['fine']:.2f}" if best else ""
    parts = (name, f"batch {standing.step}", loss, accuracies, state)
    return GAP.join(filter(None, parts))


def _compared(*best: Mapping[str, float]) -> list[str]:
    """The strings that some runs are compared on, those that count most last."""
    return [*dict.fromkeys(name for each in best for name in each if name in STRINGS)][::-1]


def _state(standing: Mapping[str, Any]) -> str:
    return str(standing["failed"] or standing["ended"] or "")


def race_table(standings: Mapping[str, Mapping[str, Any]]) -> Table:
    """How strategies stand, those with the best first."""
    names = _compared(*(each["best"] for each in standings.values()))
    table = Table(
        Column("strategy", left=True),
        Column("batches", drop=5),
        Column("seconds", drop=3),
        Column("nats/symbol", "last batches", drop=2),
        *(Column("coarse", STRINGS[name], drop=1 if name != names[-1] else None) for name in names),
        *(Column("fine", STRINGS[name], drop=4) for name in names[-1:]),
        Column("ended", left=True, fold=" "),
    )
    ranked = sorted(standings, key=lambda name: Standing(**standings[name]).merit, reverse=True)
    for name in ranked:
        each = standings[name]
        loss = UNKNOWN if each["loss"] is None else f"{each['loss']:.4f}"
        found = (each["best"].get(part) for part in ([*names, "fine"] if names else []))
        accuracies = (UNKNOWN if share is None else f"{share:.2f}" for share in found)
        table.add_row(name, each["step"], f"{each['seconds']:.0f}", loss, *accuracies, _state(each))
    return table


def contestants_table(configs: Mapping[str, RunConfig]) -> Table:
    """Who is raced: the idea of each, and its memory."""
    table = Table(
        Column("strategy", left=True),
        Column("memory", left=True),
        Column("idea", left=True, fold=" "),
    )
    for name, config in configs.items():
        table.add_row(name, config.model.memory.name, strategies()[name].idea)
    return table


def worth_a_try(
    state: RaceState,
    summary: Summary,
    config: RunConfig,
    others: Sequence[str],
    resuming: Sequence[str],
) -> list[str]:
    """How far a race has come, and what to try, a line each.

    Args:
        state: of the race.
        summary: of its best run, with the accuracies that are shown to the user.
        config: of this run.
        others: strategies for its task that were not raced.
        resuming: the words of the command that goes on with it.
    """
    parts, solved = ("train", "development", "test"), config.training.solved
    measured = {part: each for part in parts if (each := getattr(summary, part))}
    right = listed(
        f"{round(each.coarse * each.count):,} of {each.count:,} strings ({part})"
        for part, each in measured.items()
    )
    all_right = min((each.coarse for each in measured.values()), default=0.0) >= solved.accuracy
    said = f"not solved; {state.best} has come furthest"
    said += f": it is right on {right}" if right else ""
    said += f", but not yet in {solved.times} measurements in a row" if all_right else ""
    tips = [f"{said}. Worth a try:"]
    if state.can_go_on:
        budget = f"{max(1, round(LONGER * state.budget))}s"
        tips.append(f"  longer: {shell_text([*resuming, '--budget', budget])}")
    elif summary.outcome in ("max_steps", "time_limit"):
        tips.append(f"  a larger --{summary.outcome.replace('_', '-')}")
    if all_right:
        return tips
    if others:
        tips.append(f"  other strategies: --strategies {','.join(others)}")
    return [*tips, *_remedies(measured, config), "  other memories: stacktrans list memories"]


def _remedies(measured: Mapping[str, Accuracy], config: RunConfig) -> Iterator[str]:
    """What may help with the first of the measured strings that are not learned, if any are not."""
    missed = next((part for part, each in measured.items() if each.coarse < LEARNED), None)
    if missed is None:
        return
    shortest, longest = config.task.ranges.train
    if missed == "train":
        shorter = "shorter strings to begin with, or " if 1 < shortest < longest else ""
        yield f"  {shorter}a larger --hidden and --memory-size"
    elif missed == "test" and config.task.ranges.test.longest > longest:
        yield "  a wider range of training lengths: it does not generalise to longer strings"
    else:
        yield "  more strings to train on: it does not generalise to others"
