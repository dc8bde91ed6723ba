"""What may help where no strategy has solved a task."""

from collections.abc import Sequence

from stacktrans.common.visible import shell_text
from stacktrans.training.standings import RaceState

LONGER = 4
"""How many times as long a race may try."""
LEARNED = 0.9
"""A run that is right on so many strings of training lengths has learned them."""


def worth_a_try(state: RaceState, others: Sequence[str], resuming: Sequence[str]) -> list[str]:
    """How far a race has come, and what to try, a line each.

    Args:
        state: of the race.
        others: strategies for its task that were not raced.
        resuming: the words of the command that goes on with it.
    """
    best = state.standings[state.best]
    said = [
        f"not solved; {state.best} has come furthest: {best.test:.0%} of the longer strings are "
        f"right, {best.train:.0%} of those of training lengths. Worth a try:"
    ]
    if state.can_go_on:
        budget = f"{max(1, round(LONGER * state.budget))}s"
        said.append(f"  longer: {shell_text([*resuming, '--budget', budget])}")
    if others:
        said.append(f"  other strategies: --strategies {','.join(others)}")
    if best.train < LEARNED:
        said.append("  shorter strings to begin with, or a larger --hidden and --memory-size")
    else:
        said.append("  a wider range of training lengths, or more pairs: it does not generalise")
    return [*said, "  other memories: stacktrans list memories"]
