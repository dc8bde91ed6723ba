"""What the commands take: options that several share, and reading their values."""

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stacktrans.commands import completion
from stacktrans.common.errors import UsageError

if TYPE_CHECKING:
    from stacktrans.settings.layers import Layer
    from stacktrans.tasks.base import Lengths

TaskOption = Annotated[
    str,
    typer.Option(
        help="A task: copy, reverse, parenthesis, ... (see stacktrans list tasks), or a YAML file "
        "of your own.",
        autocompletion=completion.tasks,
    ),
]
DepthOption = Annotated[
    int | None,
    typer.Option(
        help="For a task with a grammar: derivations no deeper than this, all equally likely."
    ),
]
CheckpointArgument = Annotated[
    str,
    typer.Argument(
        metavar="CHECKPOINT",
        help="The directory of a checkpoint or a run, or a name from stacktrans list checkpoints.",
        autocompletion=completion.checkpoints,
    ),
]
DeviceOption = Annotated[str, typer.Option(help="Where to compute: auto, cpu, cuda, cuda:1, ...")]
HardOption = Annotated[
    bool,
    typer.Option(
        "--hard",
        help="Use the memory as a discrete one: strengths are rounded to 0 or 1, and only the most "
        "probable action is taken.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


class PairFormat(StrEnum):
    """How pairs are written."""

    tsv = "tsv"
    jsonl = "jsonl"


def either(names: Iterable[str]) -> str:
    """Names in a sentence, with "or" before the last."""
    *others, last = names
    return f"{', '.join(others)} or {last}"


def parse_lengths(text: str) -> "Lengths":
    """The range that A:B, or A alone, stands for; raises `UsageError` if it is not one."""
    from stacktrans.tasks.base import checked_lengths

    match = re.fullmatch(r"([0-9]+)(?::([0-9]+))?", text)
    if match is None:
        raise UsageError(f"--lengths {text}: expected SHORTEST:LONGEST, such as 65:128")
    return checked_lengths(int(match[1]), int(match[2] or match[1]), f"--lengths {text}")


def parse_numbers(option: str, text: str) -> list[int]:
    """Numbers separated by commas; raises `UsageError` if they are not."""
    if not re.fullmatch(r"[0-9]+(,[0-9]+)*", text):
        raise UsageError(f"{option} {text}: expected numbers such as 1,6")
    return [int(number) for number in text.split(",")]


def parse_seconds(text: str) -> float:
    """The seconds in a time such as 90s or 1h30m; raises `UsageError` if it is not one."""
    match = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s?)?", text)
    seconds = (
        sum(
            float(part) * unit
            for part, unit in zip(match.groups(), (3600, 60, 1), strict=True)
            if part
        )
        if match
        else 0.0
    )
    if seconds <= 0:
        raise UsageError(f"--time-limit {text}: expected a time such as 90s, 5m or 1h30m")
    return seconds


def given(option: str, path: str, value: Any) -> "list[Layer]":
    """The setting that an option stands for; nothing if the option was not given.

    Args:
        option: its name, for messages.
        path: of the setting, such as `model.memory`.
        value: what was given.
    """
    from stacktrans.settings.layers import Layer, nested

    return [] if value is None else [Layer(option, nested(path, value))]
