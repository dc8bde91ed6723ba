"""Live progress of a race, the table of its candidates, and advice after an unsolved one."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

from rich.console import Console, Group, RenderableType

from stacktrans.common.registry import plugin_options
from stacktrans.common.visible import counted, listed, shell_text, short_time
from stacktrans.kernels import code_cache
from stacktrans.settings.command import resume_command
from stacktrans.settings.config import RunConfig
from stacktrans.settings.resolve import strategies
from stacktrans.showing.progress import ProgressDisplay
from stacktrans.showing.tables import GAP, Column, Table, remark
from stacktrans.training.race_state import Candidate, RaceState
from stacktrans.training.records import LOSS, METRICS, Accuracy, Summary
from stacktrans.training.wording import briefly

if TYPE_CHECKING:
    from stacktrans.training.race import Race

STRINGS = {
    "development": "development",
    "longest": "development, longest tenth",
    "test": "test lengths",
    "train": "training",
}
"""The strings that runs are compared on, by their keys in `Candidate.best`."""
UNKNOWN = "–"
"""Placeholder of a number that was not measured."""
LEGEND = f"{LOSS}; accuracies are those of each run's best weights"
"""The meaning of the numbers of a race."""
LONGER = 4
"""Factor on the budget in advice to race for longer."""
LEARNED = 0.9
"""Share of strings that a run must answer right to have learned them."""


class LoadingDisplay(ProgressDisplay):
    """The first row of a race, while torch is loaded, which takes most of a second."""

    def __init__(self, console: Console, names: Iterable[str]) -> None:
        self._candidates = dict.fromkeys(names, Candidate())
        super().__init__(console, [])

    def __enter__(self) -> Self:
        super().__enter__()
        self._refresh()
        return self

    def _now(self) -> RenderableType:
        return race_view(self._candidates, [*self._candidates][:1])


class RaceDisplay(ProgressDisplay):
    """The candidates of a race and their progress: a live table, or a line for each time slice."""

    def __init__(self, console: Console, race: "Race") -> None:
        self._race, self._shown = race, race.state.latest
        self._compiled = code_cache.count()
        announced = (
            f"{len(race.state.candidates)} strategies race in time slices, until one has an "
            f"accepted solution, for at most {race.state.budget:.0f} seconds; in {race.directory}"
        )
        super().__init__(console, [announced, *race.notes])
        if not self.live:
            self._first_lines += [f"{LEGEND} so far"]

    def show(self) -> None:
        """Show the progress of the runs, and announce it if one of their processes compiles."""
        if code_cache.count() > self._compiled:
            code_cache.announce()
        candidates = self._race.state.latest
        if self.live:
            self._refresh()
        else:
            for name, candidate in candidates.items():
                if self._shown.get(name) != candidate:
                    self._write(_line(name, candidate))
        self._shown = candidates

    def _now(self) -> RenderableType:
        race, latest = self._race, self._race.state.latest
        latest |= {name: _progress(latest[name], race.directory_of(name)) for name in race.at_work}
        time = remark(f"{race.elapsed:.0f} of {race.state.budget:.0f} seconds")
        return Group(race_view(latest, race.at_work), remark(f"{LEGEND} so far"), time)

    def __exit__(self, *error: object) -> None:
        # The end of a race is shown in the summary.
        if self.live and self._race.stop_requested:
            self._print(self._now())
        super().__exit__(*error)


def _progress(candidate: Candidate, directory: Path) -> Candidate:
    """The progress of a candidate within its time slice, by the last of its records."""
    with suppress(OSError, ValueError):  # there is no record yet
        *_, record = (directory / METRICS).read_bytes().split(b"\n")[:-1]
        now = {name: json.loads(record)[name] for name in ("step", "seconds", "loss")}
        if now["step"] > candidate.step:
            return candidate.model_copy(update=now)
    return candidate


def _line(name: str, candidate: Candidate) -> str:
    loss = "" if candidate.loss is None else f"loss {candidate.loss:.4f}"
    best = candidate.best
    coarse = GAP.join(f"{STRINGS[part]} coarse {best[part]:.2f}" for part in _compared(best))
    accuracies = f"{coarse} fine {best['fine']:.2f}" if best else ""
    parts = (name, f"batch {candidate.step}", loss, accuracies, _end(candidate))
    return GAP.join(filter(None, parts))


def _end(candidate: Candidate) -> str:
    """Why a candidate ended, in words; empty if it may continue."""
    if candidate.provisional and (candidate.solved or candidate.has_fallback):
        return "solved (provisional)"
    if candidate.has_fallback:
        return briefly("no_machine")
    return candidate.failed or (briefly(candidate.ended) if candidate.ended else "")


def _compared(*best: Mapping[str, float]) -> list[str]:
    """The strings that runs are compared on, in ascending order of importance."""
    return [*dict.fromkeys(name for measures in best for name in measures if name in STRINGS)][::-1]


def race_view(
    candidates: Mapping[str, Candidate], at_work: Sequence[str] | None = None
) -> RenderableType:
    """A table of the progress of the candidates that have begun, the best first.

    Args:
        candidates: all candidates.
        at_work: those that are being trained; None after the race.
    """
    begun = {
        name: candidate
        for name, candidate in candidates.items()
        if name in (at_work or ()) or candidate.step or candidate.failed
    }
    waiting = len(candidates) - len(begun)
    more = [remark(f"{counted(waiting, 'strategy has', 'strategies have')} not begun")]
    return Group(_race_table(begun, at_work), *(more if waiting else []))


def _race_table(candidates: Mapping[str, Candidate], at_work: Sequence[str] | None) -> Table:
    names = _compared(*(candidate.best for candidate in candidates.values()))
    columns = (
        Column("strategy", left=True),
        Column("batches", drop=5),
        Column("seconds", drop=3),
        Column("loss", "last batches", drop=2),
        *(Column("coarse", STRINGS[name], drop=1 if name != names[-1] else None) for name in names),
        *(Column("fine", STRINGS[name], drop=4) for name in names[-1:]),
        Column("state", left=True, fold=" "),
    )
    ranked = sorted(candidates.items(), key=lambda item: item[1].ranking_key, reverse=True)
    rows = []
    for name, candidate in ranked:
        loss = UNKNOWN if candidate.loss is None else f"{candidate.loss:.4f}"
        shares = (candidate.best.get(part) for part in ([*names, "fine"] if names else []))
        accuracies = (UNKNOWN if share is None else f"{share:.2f}" for share in shares)
        activity = "stopped" if at_work is None else "waiting"
        if name in (at_work or ()):  # it may have to load and compile code
            activity = "training" if candidate.step else "starting"
        state = _end(candidate) or activity
        rows.append([name, candidate.step, f"{candidate.seconds:.0f}", loss, *accuracies, state])
    return Table(*columns, rows=rows)


def candidates_table(configs: Mapping[str, RunConfig]) -> Table:
    """A table of the candidates of a race: the memory and the idea of each."""
    known = strategies()
    return Table(
        Column("strategy", left=True),
        Column("memory", left=True),
        Column("idea", left=True, fold=" "),
        rows=[
            (name, config.model.memory.name, known[name].idea if name in known else "")
            for name, config in configs.items()
        ],
    )


def advice(
    state: RaceState, summary: Summary, config: RunConfig, others: Sequence[str], directory: Path
) -> list[str]:
    """Lines on how far an unsolved race has come, and on what to try next.

    Args:
        state: state of the race.
        summary: summary of its best run, with the accuracies that are shown to the user.
        config: configuration of this run.
        others: strategies for its task that were not raced.
        directory: of the race.
    """
    parts, solved = ("train", "development", "test"), config.training.solved
    measured = {part: accuracy for part in parts if (accuracy := getattr(summary, part))}
    right = listed(f"{_share(each)} strings ({part})" for part, each in measured.items())
    least = min((accuracy.coarse for accuracy in measured.values()), default=0.0)
    all_right = least >= solved.accuracy
    tips = [f"not solved; {state.best} has come furthest"]
    if right:
        tips.append(f"  it is right on {right}")
    hard_right = summary.hard is not None and summary.hard.coarse >= solved.accuracy
    soft = all_right and summary.hard is not None and not hard_right
    if soft and summary.hard:
        tips.append(f"  but with hard signals on only {_share(summary.hard)} (test)")
    elif all_right and summary.outcome == "budget":
        tips.append("  but the race had no time to make sure of it")
    elif all_right:
        tips.append(f"  but not yet in {solved.times} measurements in a row")
    suggestions = []
    if hard_right and summary.test and summary.test.coarse < solved.accuracy:
        command = shell_text(["stacktrans", "eval", str(directory), "--hard", *plugin_options()])
        what = "the discrete model, which solves the task on test strings"
        suggestions.append(f"  {what}: {command}")
    if state.can_continue:
        budget = short_time(max(1, round(LONGER * state.budget)))
        command = shell_text([*resume_command(directory), "--budget", budget])
        suggestions.append(f"  longer: {command}")
    elif summary.outcome in ("max_steps", "time_limit"):
        suggestions.append(f"  a larger --{summary.outcome.replace('_', '-')}")
    if soft or not all_right:
        if others:
            suggestions += ["  other strategies:", f"    --strategies {','.join(others)}"]
        suggestions += [*_remedies(measured, config), "  other memories: stacktrans list memories"]
    return [*tips, "worth a try:", *suggestions] if suggestions else tips


def _share(accuracy: Accuracy) -> str:
    """The number of strings that are right, out of all."""
    return f"{round(accuracy.coarse * accuracy.count):,} of {accuracy.count:,}"


def _remedies(measured: Mapping[str, Accuracy], config: RunConfig) -> Iterator[str]:
    """Advice for the first of the measured strings that are not learned, if there are any."""
    missed = next((part for part, score in measured.items() if score.coarse < LEARNED), None)
    if missed is None:
        return
    (shortest, longest), test = config.task.ranges.train, config.task.ranges.test
    # Of the longest pairs of a file, some may be as long as the longest that are trained on.
    longer = test.longest > longest or test.shortest >= longest > shortest
    if missed == "train":
        shorter = "shorter strings to begin with, or " if 1 < shortest < longest else ""
        yield f"  {shorter}a larger --hidden and --memory-size"
    elif missed == "test" and longer:
        yield "  a wider range of training lengths: it does not generalize to longer strings"
    else:
        yield "  more strings to train on: it does not generalize to others"
