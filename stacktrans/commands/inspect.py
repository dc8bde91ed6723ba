"""The command `inspect`: what a model does with one string, also step by step by keys."""

import contextlib
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stacktrans.commands import completion
from stacktrans.commands.options import (
    CheckpointArgument,
    DeviceOption,
    FileOption,
    HardOption,
    JsonOption,
    LengthsOption,
    SeedOption,
    load_model,
    parse_lengths,
    parse_numbers,
)
from stacktrans.commands.terminal import output_width, print_json, print_out
from stacktrans.common.errors import StacktransError, UsageError
from stacktrans.common.files import check_file_path, write_atomically

if TYPE_CHECKING:
    from stacktrans.inference.trace import Trace
    from stacktrans.model.checkpoint import Checkpoint
    from stacktrans.tasks.base import Lengths

ALTERNATE, USUAL = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
"""What shows a screen of its own without a cursor, and what goes back to the usual one."""
CLEAR = "\x1b[H\x1b[2J"
KEY = re.compile(rb"\x1b\[[0-9;]*[A-Za-z~]|\x1bO[A-Z]|.", re.DOTALL)
BACK = {b"\x1b[D", b"\x1bOD", b"\x1b[A", b"\x1bOA", b"\x7f", b"\b"}
ON = {b"\x1b[C", b"\x1bOC", b"\x1b[B", b"\x1bOB", b" ", b"\r", b"\n"}
FIRST = {b"\x1b[H", b"\x1bOH", b"\x1b[1~", b"\x1b[7~"}
LAST = {b"\x1b[F", b"\x1bOF", b"\x1b[4~", b"\x1b[8~"}
QUIT = {b"q", b"Q"}


def inspect(
    checkpoint: CheckpointArgument,
    string: Annotated[str | None, typer.Argument(metavar="[STRING]")] = None,
    seed: SeedOption = 1,
    lengths: LengthsOption = None,
    heatmap: bool = False,
    contents: bool = False,
    stepping: Annotated[bool, typer.Option("--step")] = False,
    plot: FileOption = None,
    animate: FileOption = None,
    page: Annotated[Path | None, typer.Option("--html", metavar="FILE")] = None,
    beside: Annotated[
        str | None, typer.Option(metavar="CHECKPOINT", autocompletion=completion.checkpoints)
    ] = None,
    stacks: Annotated[str | None, typer.Option(metavar="N,...")] = None,
    hard: HardOption = False,
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Show what a model does with its memory, step by step.

    Each row is a step: the symbol read, the symbol answered and its probability,
    the strength of each push and pop, and what is read from the memory: the
    symbols whose pushed vectors make up the read, the step at which each was
    pushed, and its weight. For stacks and lists whose cells are mixed by actions,
    each row shows the most probable action with its probability, and what the top
    or head then holds.

        stacktrans inspect checkpoints/reverse-stack hello
        stacktrans inspect checkpoints/reverse-stack hello --contents
        stacktrans inspect checkpoints/copy-deque --json
        stacktrans inspect checkpoints/reversal-stack '0110####' --heatmap
        stacktrans inspect checkpoints/reverse-stack hello --plot hello.svg
        stacktrans inspect checkpoints/reverse-stack hello --step
        stacktrans inspect checkpoints/reverse-stack hello --html hello.html

    Args:
        string: The source. Default: a sample of the task.
        seed: Random seed of the sample.
        lengths: Length of the sample.
        heatmap: Show a picture, with time across, instead of a table.
        contents: Show what the memory holds after each step; also with --json.
        stepping: Step through it in the terminal, by the arrow keys.
        plot: Draw the picture to a .png, .svg or .pdf file.
        animate: Draw the memory step by step to a .gif file.
        page: Write a page in which a browser plays the steps.
        beside: Another model, beside this one in the page of --html.
        stacks: Show only these of several stacks or lists.
    """
    from stacktrans.inference.trace import of_stacks, trace
    from stacktrans.showing.contents import contents_view, screen
    from stacktrans.showing.page import SUFFIXES, Shown, page_of
    from stacktrans.showing.plots import animate_trace, check_plot, plot_trace
    from stacktrans.showing.tables import remark
    from stacktrans.showing.traces import heat_map_view, trace_view, verdict

    if stepping:
        check_terminal()
    if plot:
        check_plot(plot)
    if animate:
        check_plot(animate, [".gif"])
    if page:
        check_file_path(page, *SUFFIXES)
    elif beside is not None:
        raise UsageError("--beside needs --html")
    numbers = None if stacks is None else parse_numbers(stacks)
    bounds = parse_lengths(lengths) if lengths else None
    loaded = load_model(checkpoint, device, hard)
    source = _sample(loaded, seed, bounds) if string is None else loaded.task.source.split(string)
    held = bool(contents or stepping or plot or animate or page)
    followed = trace(loaded, source, held)
    followed = of_stacks(followed, numbers) if numbers else followed
    if plot:
        plot_trace(followed, loaded.config, plot)
    if animate:
        animate_trace(followed, loaded.config, animate)
    if page:
        models = [Shown(checkpoint, followed, loaded.config)]
        if beside is not None:
            other = load_model(beside, device, hard)
            models.append(Shown(beside, _other_trace(beside, other, followed), other.config))
        write_atomically(page, page_of(models))
    if as_json:
        print_json(asdict(followed))
    elif stepping:
        count, config = len(followed.steps), loaded.config
        step_through(count, lambda place, *size: screen(followed, config, place, *size))
        print_out(remark(verdict(followed)))
    elif contents:
        print_out(contents_view(followed, loaded.config, output_width()))
    elif heatmap:
        print_out(heat_map_view(followed, loaded.config, output_width()))
    else:
        print_out(trace_view(followed, loaded.config))


def _other_trace(name: str, checkpoint: "Checkpoint", first: "Trace") -> "Trace":
    """The trace of another model over the same string."""
    from stacktrans.inference.trace import trace

    try:
        return trace(checkpoint, checkpoint.task.source.split(first.source))
    except StacktransError as error:
        raise StacktransError(f"{name}: {error}") from error


def _sample(checkpoint: "Checkpoint", seed: int, lengths: "Lengths | None") -> list[str]:
    from stacktrans.common.randomness import Purpose, generator
    from stacktrans.tasks.base import Lengths

    # Unless asked for, no longer than fits on a screen.
    shortest = checkpoint.config.task.ranges.train.shortest
    lengths = lengths or Lengths(shortest, 2 * shortest)
    law = checkpoint.config.task.law_of(lengths)
    pair = checkpoint.task.sample(generator(seed, Purpose.SAMPLE), lengths, 1, law)[0]
    return checkpoint.task.source.decode(pair.source)


def check_terminal() -> None:
    """Raise `UsageError` unless there is a terminal whose keys can be read."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("--step needs a terminal as standard input and output")
    if os.environ.get("TERM", "dumb") == "dumb":
        raise UsageError("--step needs a terminal that can be cleared, and TERM says there is none")
    try:
        import termios  # noqa: F401
    except ImportError as error:
        raise UsageError("--step needs termios, which this platform does not have") from error


def step_through(count: int, screen: Callable[[int, int, int], list[str]]) -> None:
    """Show one of some screens, and others by the keys, until q is pressed or the input ends.

    Args:
        count: how many there are.
        screen: the lines of the one at a place from 0, of a width and a height in characters.
    """
    place = 0
    with _own_screen():
        while True:
            size = shutil.get_terminal_size()
            sys.stdout.write(CLEAR + "\n".join(screen(place, size.columns, size.lines)))
            sys.stdout.flush()
            pressed = os.read(sys.stdin.fileno(), 1024)
            keys = KEY.findall(pressed)
            if not keys or QUIT & {*keys}:
                return
            for key in keys:
                place = min(max(_moved(key, place, count), 0), count - 1)


def _moved(key: bytes, place: int, count: int) -> int:
    if key in FIRST:
        return 0
    if key in LAST:
        return count - 1
    return place + (key in ON) - (key in BACK)


@contextlib.contextmanager
def _own_screen() -> Iterator[None]:
    """A screen without what was there, where keys are given at once; all as before at the end."""
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    sys.stdout.write(ALTERNATE)
    try:
        tty.setcbreak(descriptor)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
        sys.stdout.write(USUAL)
        sys.stdout.flush()
