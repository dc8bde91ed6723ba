"""What may help where no strategy has solved a task."""

from collections.abc import Iterator, Mapping, Sequence

from stacktrans.common.visible import shell_text
from stacktrans.common.wording import listed
from stacktrans.settings.config import RunConfig
from stacktrans.training.records import Accuracy, Summary
from stacktrans.training.standings import RaceState

LONGER = 4
"""How many times as long a race may try."""
LEARNED = 0.9
"""A run that is right on so many strings of a kind has learned them."""


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
