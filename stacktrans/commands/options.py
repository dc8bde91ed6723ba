"""Options that several commands share, and reading their values."""

import copy
import gc
import inspect
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

import typer

from stacktrans.commands import completion
from stacktrans.common.errors import UsageError, check_positive, clipped
from stacktrans.common.visible import one_line

if TYPE_CHECKING:
    from stacktrans.model.checkpoint import Checkpoint
    from stacktrans.tasks.base import Lengths

TASK = typer.Option(
    help="The task: copy, reverse, parenthesis, ... (see stacktrans list tasks), or a YAML file "
    "of your own.",
    autocompletion=completion.tasks,
)
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
BeamOption = Annotated[
    int | None,
    typer.Option(
        metavar="K",
        help="Search for the most probable answers with a beam of K hypotheses. Default: greedy.",
    ),
]
WorkersOption = Annotated[
    int, typer.Option(metavar="N", help="How many processor cores answer at the same time.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
SeedOption = Annotated[int, typer.Option(min=0)]
FileOption = Annotated[Path | None, typer.Option(metavar="FILE")]
TimeOption = Annotated[str | None, typer.Option(metavar="TIME")]
LengthsOption = Annotated[str | None, typer.Option(metavar="A:B")]

_SECTION = re.compile(r"^(?:Args|Attributes):\n((?: .*\n|\n)+)", re.MULTILINE)
_ITEM = re.compile(r"^ {4}(\w+): (.*(?:\n {5}.*)*)", re.MULTILINE)


def items(documented: object) -> dict[str, str]:
    """What a docstring's sections Args and Attributes say, by name."""
    sections = _SECTION.findall(f"{inspect.getdoc(documented)}\n")
    return {name: one_line(said) for section in sections for name, said in _ITEM.findall(section)}


def option_of(parameter: inspect.Parameter, meaning: str | None) -> Any:
    """The annotation of a command's parameter as Typer needs it, with its help, if it has one.

    Without `Annotated`, a parameter is an option of its name; a `bool` is a flag with no opposite.
    """
    if meaning is None:
        return parameter.annotation
    kind, info = parameter.annotation, typer.Option()
    if get_origin(kind) is Annotated:
        kind, info = get_args(kind)
    elif kind is bool:
        info = typer.Option(f"--{parameter.name.replace('_', '-')}")
    info = copy.copy(info)
    info.help = meaning
    return Annotated[kind, info]


def parse_lengths(text: str) -> "Lengths":
    """The range that A:B, or A alone, stands for; raises `UsageError` if it is not one."""
    from stacktrans.tasks.base import checked_lengths

    match = re.fullmatch(r"([0-9]{1,9})(?::([0-9]{1,9}))?", text)
    if match is None:
        raise UsageError(f"--lengths {clipped(text)}: expected SHORTEST:LONGEST, such as 65:128")
    return checked_lengths(int(match[1]), int(match[2] or match[1]), f"--lengths {text}")


def parse_numbers(text: str) -> list[int]:
    """Numbers separated by commas; raises `UsageError` if they are not."""
    if not re.fullmatch(r"[0-9]{1,9}(,[0-9]{1,9})*", text):
        raise UsageError(f"--stacks {clipped(text)}: expected numbers such as 1,6")
    return [int(number) for number in text.split(",")]


def parse_seconds(text: str, option: str) -> float:
    """The seconds in a time such as 90s or 1h30m; raises `UsageError` if it is not one."""
    match = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s?)?", text)
    hours, minutes, seconds = (float(part or 0) for part in match.groups()) if match else (0, 0, 0)
    total = 3600 * hours + 60 * minutes + seconds
    if not 0 < total < math.inf:
        raise UsageError(f"{option} {clipped(text)}: expected a time such as 90s, 5m or 1h30m")
    return total


def load_model(name: str, device: str, hard: bool, workers: int = 1) -> "Checkpoint":
    """The checkpoint of a name, on a device, its memory used as a discrete one if `hard`.

    Raises:
        CheckpointError: there is none that can be read.
        UsageError: there are no such workers, or there is no such device here.
    """
    from stacktrans.model.checkpoint import load

    check_positive(**{"--workers": workers})
    loaded = load(name, device, hard, workers)
    if not loaded.machine:
        from stacktrans.model.numpy_backend import NumpyModel  # which not every command needs

        if not isinstance(loaded.predictor, NumpyModel):
            import torch

            torch.set_num_threads(workers)
    gc.freeze()  # what is loaded by now stays to the end, so garbage collection can skip it
    return loaded
