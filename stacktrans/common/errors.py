"""Exceptions with exit codes, argument checks, and values and unknown names in error messages."""

import difflib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError

OVERFLOW = "the model's numbers overflow: its weights are too large"
LONGEST_SHOWN = 100
"""The maximum length of a value in a message, in characters."""
MAX_LISTED, MAX_COMPARED = 12, 1000
"""The maximum numbers of known names that are listed, and compared with an unknown one."""
LISTS = {
    "task": "tasks",
    "generator": "generators",
    "memory": "memories",
    "controller": "controllers",
    "recipe": "recipes and stacktrans list strategies",
    "strategy": "strategies",
    "setting": "settings",
}
"""For each kind of name, the argument of `stacktrans list` that shows it."""


class StacktransError(Exception):
    """The work failed, for one or more reasons; the command ends with exit code 1."""

    exit_code = 1

    def __init__(self, *problems: str) -> None:
        super().__init__(*problems)
        self.problems = problems

    def __str__(self) -> str:
        return "\n".join(self.problems)


class UsageError(StacktransError):
    """The request was wrong; the command ends with exit code 2."""

    exit_code = 2


class CheckpointError(StacktransError):
    """A checkpoint can't be read or written."""


class NoSuchCheckpoint(CheckpointError, UsageError):
    """A name is that of no checkpoint."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory was exhausted."""
    words = ("allocate memory", "out of memory")  # torch's, on a processor and on a GPU
    return isinstance(error, MemoryError) or any(each in str(error) for each in words)


_PLAIN = {
    "Value error, ": "",
    "Input should be greater than or equal to": "expected a number of at least",
    "Input should be a valid integer, unable to parse string as an integer": "expected an integer",
    "Input should be a valid number, unable to parse string as a number": "expected a number",
    "Input should be a valid boolean, unable to interpret input": "expected true or false",
    "Input should be a valid boolean": "expected true or false",
    "Input should be": "expected",
    "'str' instances are not allowed as a Sequence value": "expected a list of strings",
}
"""Phrases of pydantic, and those that replace them; the longer ones come first."""


def plain_words(message: str) -> str:
    """A message of pydantic in the style of other error messages."""
    for words, plain in _PLAIN.items():
        message = message.replace(words, plain)
    return message


def first_problem(error: "ValidationError", *prefix: str | int) -> str:
    """The first problem that pydantic found, with the path of its key, below some prefix."""
    first = error.errors()[0]
    path = ".".join(map(str, (*prefix, *first["loc"])))
    message = plain_words(first["msg"])
    return f"{path}: {message}" if path else message


def check_positive(**given: int | None) -> None:
    """Raise `UsageError` for an option or argument, given by name, that is less than 1."""
    for name, value in given.items():
        if value is not None and value < 1:
            raise UsageError(f"{name} {value}: expected a number of at least 1")


def check_parameter(valid: bool, name: str, value: object, expected: str) -> None:
    """Raise `ValueError` for a wrong value of a parameter."""
    if not valid:
        raise ValueError(f"{name} is {shown(value)}; expected {expected}")


def clipped(text: str, most: int = LONGEST_SHOWN) -> str:
    """A text, cut off after `most` characters."""
    return text if len(text) <= most else f"{text[:most]}..."


def shown(value: object) -> str:
    """The `repr` of a value, cut off if it is long."""
    try:
        return repr(clipped(value)) if isinstance(value, str) else clipped(repr(value))
    except ValueError:  # a number with thousands of digits
        return "a huge number"


def abridged(names: Sequence[str]) -> Sequence[str]:
    """Names, with an ellipsis in the middle of a long list."""
    return names if len(names) <= MAX_LISTED else [*names[:3], "...", *names[-8:]]


def unknown_name(kind: str, name: str, known: Iterable[str]) -> str:
    """A message for an unknown name of a kind such as "memory".

    It suggests the nearest known name, or lists the known ones, and refers to `stacktrans list` for
    more of them than fit in a message.
    """
    known, name = sorted(known), clipped(name)
    if not known:
        return f"unknown {kind} '{name}' (none is available)"
    suggestion, message = did_you_mean(name, known), f"unknown {kind} '{name}'"
    if len(known) > MAX_LISTED and kind in LISTS:
        return f"{message}{suggestion} (see stacktrans list {LISTS[kind]})"
    return message + (suggestion or f" (available: {', '.join(abridged(known))})")


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """A suggestion of the nearest known name, to be added to a message; empty if none is near."""
    nearest = difflib.get_close_matches(name, known[:MAX_COMPARED], n=1)
    return f"; did you mean '{nearest[0]}'?" if nearest else ""
