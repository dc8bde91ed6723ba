"""What can go wrong in a way that a user should read about, and how it is said."""

import difflib
from collections.abc import Iterable


class StacktransError(Exception):
    """The work failed; the command ends with exit code 1.

    Args:
        problems: what is wrong, each to be said in a line of its own.
    """

    exit_code = 1

    def __init__(self, *problems: str) -> None:
        super().__init__(*problems)
        self.problems = problems

    def __str__(self) -> str:
        return "\n".join(self.problems)


class UsageError(StacktransError):
    """The request itself was wrong; the command ends with exit code 2."""

    exit_code = 2


class CheckpointError(StacktransError):
    """A checkpoint can't be read or written; the message says what is wrong with it."""


def unknown_name(kind: str, name: str, known: Iterable[str]) -> str:
    """A message for a name that does not exist, offering the nearest that does.

    Args:
        kind: what the name should have been, such as "memory".
        name: what was given.
        known: the names that exist.
    """
    known = sorted(known)
    if not known:
        return f"unknown {kind} '{name}' (there is none)"
    nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"; did you mean '{nearest[0]}'?" if nearest else ""
    return f"unknown {kind} '{name}'{hint} (there is: {', '.join(known)})"
