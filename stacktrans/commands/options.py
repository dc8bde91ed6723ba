"""Shared options of commands, help texts, parsers of their values, and model loading."""

import copy
import gc
import inspect
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

import typer

from stacktrans.commands import completion
from stacktrans.common.errors import StacktransError, UsageError, check_positive, clipped
from stacktrans.common.visible import one_line

if TYPE_CHECKING:
    from stacktrans.model.checkpoint import Checkpoint
    from stacktrans.tasks.lengths import Lengths


def _from_zero(number: int | None) -> int | None:
    """A number that an option takes; an error of Typer if it is negative."""
    if number is not None and number < 0:
        raise typer.BadParameter("expected a number of at least 0")
    return number


TASK = typer.Option(
    help="The task: copy, reverse, parenthesis, ... (see stacktrans list tasks), or a YAML file "
    "of your own.",
    autocompletion=completion.tasks,
)
Depth = Annotated[
    int | None,
    typer.Option(
        help="For a task with a grammar: derivations of at most this depth, all equally likely."
    ),
]
CheckpointName = Annotated[
    str,
    typer.Argument(
        metavar="CHECKPOINT",
        help="The directory of a checkpoint or run, or a name from stacktrans list checkpoints.",
        autocompletion=completion.checkpoints,
    ),
]
Device = Annotated[
    str,
    typer.Option(
        help="The device: auto, cpu, cuda, cuda:1, ... Auto is a GPU if there is one, but the CPU "
        "for trained models with compiled code."
    ),
]
Hard = Annotated[
    bool,
    typer.Option(
        "--hard",
        help="Make the memory discrete: round strengths to 0 or 1, and take only the most probable "
        "action.",
    ),
]
Beam = Annotated[
    int | None,
    typer.Option(
        metavar="K",
        help="Search for the most probable answers with a beam of K hypotheses. Default: greedy.",
    ),
]
Workers = Annotated[int, typer.Option(help="The number of processor cores to use.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
SEED = typer.Option(callback=_from_zero)  # with min=0, Typer's help would have [x>=0]
Seed = Annotated[int, SEED]
Directory = Annotated[Path | None, typer.Option(metavar="DIR")]
File = Annotated[Path | None, typer.Option(metavar="FILE")]
Time = Annotated[str | None, typer.Option(metavar="TIME")]
LengthRange = Annotated[str | None, typer.Option(metavar="A:B")]
Assignments = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", autocompletion=completion.settings_of_a_run),
]
OtherCheckpoint = Annotated[
    str | None, typer.Option(metavar="CHECKPOINT", autocompletion=completion.checkpoints)
]

METAVARS = {bool: "", int: "N"}
"""Metavars of options that have none of their own, by the types of their values; others: NAME."""
_SECTION = re.compile(r"^(?:Args|Attributes):\n((?: .*\n|\n)+)", re.MULTILINE)
_ITEM = re.compile(r"^ {4}(\w+): (.*(?:\n {5}.*)*)", re.MULTILINE)


def items(documented: object) -> dict[str, str]:
    """The descriptions in the sections Args and Attributes of a docstring, by name."""
    sections = _SECTION.findall(f"{inspect.getdoc(documented)}\n")
    return {name: one_line(text) for section in sections for name, text in _ITEM.findall(section)}


def with_help(
    parameter: inspect.Parameter, text: str | None, panel: str | None
) -> inspect.Parameter:
    """A parameter of a command with its help text, metavar and panel in its annotation.

    Without `Annotated`, a parameter is an option of its name; a `bool` is a flag with no opposite.
    """
    value_type, info = parameter.annotation, typer.Option()
    if value_type is typer.Context:
        return parameter
    if get_origin(value_type) is Annotated:
        value_type, info = get_args(value_type)
    elif value_type is bool:
        info = typer.Option(f"--{parameter.name.replace('_', '-')}")
    info = copy.copy(info)
    info.help, info.rich_help_panel = text or info.help, panel
    types = (value_type, *get_args(value_type))
    metavar = next((METAVARS[one] for one in types if one in METAVARS), "NAME")
    info.metavar = metavar if info.metavar is None else info.metavar
    return parameter.replace(annotation=Annotated[value_type, info])


def check_exclusive(given: dict[str, Any]) -> str:
    """The one of some options that is given, if any; raises `UsageError` for more than one."""
    first, *others = [name for name, value in given.items() if value] or [""]
    if others:
        raise UsageError(f"{first}: cannot be used with {others[0]}")
    return first


def parse_lengths(text: str) -> "Lengths":
    """Parse a range of lengths, A:B or A; raises `UsageError`."""
    from stacktrans.tasks.lengths import checked_lengths

    match = re.fullmatch(r"([0-9]{1,9})(?::([0-9]{1,9}))?", text)
    if match is None:
        raise UsageError(f"--lengths {clipped(text)}: expected SHORTEST:LONGEST, such as 65:128")
    return checked_lengths(int(match[1]), int(match[2] or match[1]), f"--lengths {text}")


def parse_numbers(text: str) -> list[int]:
    """Parse numbers separated by commas; raises `UsageError`."""
    if not re.fullmatch(r"[0-9]{1,9}(,[0-9]{1,9})*", text):
        raise UsageError(f"--stacks {clipped(text)}: expected numbers such as 1,6")
    return [int(number) for number in text.split(",")]


def parse_seconds(text: str, option: str) -> float:
    """Parse a time such as 90s or 1h30m into seconds; raises `UsageError`."""
    # A number without a unit is in seconds, but after hours it would be taken for minutes.
    hours_first = r"(?:(\d+)h(?!\d+(?:\.\d+)?$))?"
    match = re.fullmatch(hours_first + r"(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s?)?", text)
    hours, minutes, seconds = (float(part or 0) for part in match.groups()) if match else (0, 0, 0)
    total = 3600 * hours + 60 * minutes + seconds
    if not 0 < total < math.inf:
        raise UsageError(
            f"{option} {clipped(text)}: expected a time of more than 0s, such as 90s, 5m or 1h30m"
        )
    return total


def load_model(name: str, device: str, hard: bool, workers: int = 1) -> "Checkpoint":
    """Load a checkpoint on a device, with a discrete memory if `hard`.

    Raises:
        CheckpointError: it does not exist or can't be read.
        UsageError: the device does not exist, or `workers` is less than 1.
    """
    from stacktrans.model.checkpoint import load

    check_positive(**{"--workers": workers})
    loaded = load(name, device, hard, workers)
    if not loaded.machine:
        from stacktrans.model.numpy_backend import NumpyModel  # slow to import

        if not isinstance(loaded.predictor, NumpyModel):
            import torch

            from stacktrans.common.processes import cores  # slow to import

            torch.set_num_threads(min(workers, cores()))
    gc.freeze()  # all modules and weights stay to the end, so garbage collection can skip them
    return loaded


def files_read(data: Path | None, models: "Sequence[Checkpoint]") -> Iterator[Path]:
    """The files of the given pairs, of models, and of the pairs that they were trained on."""
    from stacktrans.tasks.lines import files_of, labeled_file
    from stacktrans.tasks.pairs import Pairs

    if data:
        yield from files_of(labeled_file(data))
    for model in (part for each in models for part in each.members or [each]):
        yield from model.path.iterdir()
        if isinstance(model.task, Pairs):
            with suppress(OSError, StacktransError):  # they are not needed
                yield from model.task.request.files()
