"""The command `inspect`: trace a model over a string, as text, plot, page or by keys."""

import contextlib
import functools
import itertools
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stacktrans.commands import options
from stacktrans.commands.terminal import output_width, print_json, print_out
from stacktrans.common.errors import StacktransError, UsageError
from stacktrans.common.files import check_file_path, write_atomically
from stacktrans.common.messages import print_message
from stacktrans.common.visible import shell_text

if TYPE_CHECKING:
    from stacktrans.inference.trace import Trace
    from stacktrans.model.checkpoint import Checkpoint
    from stacktrans.showing.page import PageModel
    from stacktrans.tasks.lengths import Lengths

ENTER_SCREEN, LEAVE_SCREEN = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
"""The control sequences that enter the alternate screen, without a cursor, and leave it."""
CLEAR = "\x1b[H\x1b[2J"
KEY = re.compile(rb"\x1b\[[0-9;]*[A-Za-z~]|\x1bO[A-Z]|.", re.DOTALL)
BACK = {b"\x1b[D", b"\x1bOD", b"\x1b[A", b"\x1bOA", b"\x7f", b"\b"}
NEXT = {b"\x1b[C", b"\x1bOC", b"\x1b[B", b"\x1bOB", b" ", b"\r", b"\n"}
FIRST = {b"\x1b[H", b"\x1bOH", b"\x1b[1~", b"\x1b[7~"}
LAST = {b"\x1b[F", b"\x1bOF", b"\x1b[4~", b"\x1b[8~"}
QUIT = {b"q", b"Q"}
PANELS = {
    "String and model": "seed lengths hard device plugin",
    "In the terminal": "heatmap contents stepping stacks",
    "Files and data": "plot animate page beside as_json",
}


def inspect(
    checkpoint: options.CheckpointName,
    string: Annotated[str | None, typer.Argument(metavar="[STRING]")] = None,
    seed: Annotated[int | None, options.SEED] = None,
    lengths: options.LengthRange = None,
    heatmap: bool = False,
    contents: bool = False,
    stepping: Annotated[bool, typer.Option("--step")] = False,
    plot: options.File = None,
    animate: options.File = None,
    page: Annotated[Path | None, typer.Option("--html", metavar="FILE")] = None,
    beside: options.OtherCheckpoint = None,
    stacks: Annotated[str | None, typer.Option(metavar="N,...")] = None,
    hard: options.Hard = False,
    device: options.Device = "auto",
    as_json: options.Json = False,
) -> None:
    """Show what a model does with its memory, step by step.

    Each row is a step: the input symbol, the output symbol and its probability,
    the strength of each push and pop, and the read from the memory: the symbols
    whose pushed vectors make up the read, the step at which each was pushed, and
    its weight. For stacks and lists with actions, whose cells are mixtures, each
    row shows the most probable action with its probability, and the contents of
    the top or head after it. For a machine, the rule that applies is shown, too;
    for a model with buffers, the number of symbols left in the input buffer, the
    symbols read from it, the number held by the output buffer, and the symbols of
    the answer that the output is written to. A · before an output means that it
    is not scored: the task does not determine it, or it is not part of the answer.
    Without a STRING, the steps over each line of standard input are shown.

        stacktrans inspect checkpoints/reverse-stack hello
        stacktrans inspect checkpoints/reverse-stack hello --contents
        stacktrans inspect checkpoints/copy-deque --lengths 8 --json
        stacktrans inspect checkpoints/reverse-stack < words.txt
        stacktrans inspect checkpoints/reversal-stack '0110####' --heatmap
        stacktrans inspect checkpoints/reverse-stack hello --plot hello.svg
        stacktrans inspect checkpoints/reverse-stack hello --step
        stacktrans inspect checkpoints/reverse-stack hello --html hello.html

    Args:
        string: The source. Default: each line of standard input or, with --seed, --lengths, --step
            or a file to write, a random source of the task.
        seed: Random seed of that source. Default: 1.
        lengths: Length of that source.
        heatmap: Show a heat map over time instead of a table.
        contents: Show the contents of the memory after each step; also with --json.
        stepping: Go through the steps in the terminal with the arrow keys.
        plot: Plot the heat map in a .png, .svg or .pdf file.
        animate: Draw the memory at each step as an animation in a .gif file.
        page: Write an HTML page that plays the steps in a browser; that of a machine
            runs any string.
        beside: Show another model beside this one in the page of --html.
        stacks: Show only some of several stacks or lists with actions, by number.
    """
    from stacktrans.inference.trace import trace
    from stacktrans.showing.contents import contents_view
    from stacktrans.showing.page import SUFFIXES, PageModel
    from stacktrans.showing.plots import check_plot
    from stacktrans.showing.step_screen import screen
    from stacktrans.showing.tables import remark
    from stacktrans.showing.traces import heat_map_view, of_stacks, trace_view, verdict

    options.check_exclusive({"--step": stepping, "--heatmap": heatmap, "--json": as_json})
    options.check_exclusive({"--contents": contents, "--heatmap": heatmap})
    for name, value in {"--seed": seed, "--lengths": lengths}.items():
        options.check_exclusive({"STRING": string is not None, name: value is not None})
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
    numbers = None if stacks is None else options.parse_numbers(stacks)
    bounds = None if lengths is None else options.parse_lengths(lengths)
    loaded = options.load_model(checkpoint, device, hard)
    other = None if beside is None else options.load_model(beside, device, hard)

    def show(source: list[str]) -> None:
        steps = trace(loaded, source, bool(contents or stepping or plot or animate or page))
        steps = of_stacks(steps, numbers) if numbers else steps
        models = [PageModel(checkpoint, steps, loaded)]
        if beside is not None and other:
            models.append(PageModel(beside, _other_trace(beside, other, steps), other))
        _write_files(models, plot, animate, page)
        if as_json:
            print_json(asdict(steps))
        elif stepping:
            step_through(len(steps.steps), functools.partial(screen, steps))
            print_out(remark(verdict(steps)))
        elif contents:
            # Only a terminal has a width to fit.
            width = output_width() if sys.stdout.isatty() else sys.maxsize
            print_out(contents_view(steps, width))
        elif heatmap:
            print_out(heat_map_view(steps, loaded.config, output_width()))
        else:
            print_out(trace_view(steps, loaded.config))

    if string is not None:
        show(_symbols_of(string, loaded))
    elif stepping or plot or animate or page or bounds or seed is not None:
        show(_sample(loaded, 1 if seed is None else seed, bounds))
    elif not _all_shown(loaded.task.source.split, show):
        raise typer.Exit(1)


def _symbols_of(string: str, loaded: "Checkpoint") -> list[str]:
    """The symbols of a source in a command; raises `StacktransError` if columns are missing."""
    try:
        return loaded.task.source.split(string)
    except StacktransError as error:
        columns = [column for column in loaded.task.columns if column != "target"]
        if len(columns) == 1:
            raise
        written = shell_text(["\t".join(columns)])
        raise StacktransError(f"{error}; in a shell, a tab is written as in {written}") from error


def _write_files(
    models: "Sequence[PageModel]", plot: Path | None, animate: Path | None, page: Path | None
) -> None:
    """Write the files that are given: plot and animation of the first model, the page of all."""
    from stacktrans.showing.page import page_of
    from stacktrans.showing.pictures import animate_trace, plot_trace

    first = models[0]
    if plot:
        plot_trace(first.trace, first.checkpoint.config, plot)
    if animate:
        animate_trace(first.trace, animate)
    if page:
        write_atomically(page, page_of(models))
    for path in filter(None, (plot, animate, page)):
        print_message(f"saved in {path}")


def _all_shown(split: Callable[[str], list[str]], show: Callable[[list[str]], None]) -> bool:
    """Show the steps over each line of standard input; return whether that could be done."""
    from stacktrans.common.reading import decode_line, line_groups

    if sys.stdin.isatty():
        print_message("shows the steps over each line that you type; end with Ctrl-D")
    complete, number = True, 0
    groups = line_groups(sys.stdin.fileno(), "standard input")
    for number, piece in enumerate(itertools.chain.from_iterable(groups), start=1):
        try:
            show(split(decode_line(piece.raw)))
            sys.stdout.flush()
        except UsageError:  # of an option, for any line
            raise
        except StacktransError as error:
            complete = False
            print_message(f"standard input:{number}: {error}")
    if not number:
        print_message("standard input has no lines to show the steps over")
    return complete


def _other_trace(name: str, checkpoint: "Checkpoint", first: "Trace") -> "Trace":
    """The trace of another model over the source of a trace."""
    from stacktrans.inference.trace import trace

    try:
        return trace(checkpoint, checkpoint.task.source.split(first.source))
    except StacktransError as error:
        raise StacktransError(f"{name}: {error}") from error


def _sample(checkpoint: "Checkpoint", seed: int, lengths: "Lengths | None") -> list[str]:
    """The symbols of a random source; by default, of one whose trace fits on a screen."""
    from stacktrans.tasks.lengths import Lengths, NoSuchLength

    training = checkpoint.config.task.ranges.train
    if lengths is None:
        with contextlib.suppress(NoSuchLength):
            return _drawn(checkpoint, seed, Lengths(training.shortest, 2 * training.shortest))
    return _drawn(checkpoint, seed, lengths or training)


def _drawn(checkpoint: "Checkpoint", seed: int, lengths: "Lengths") -> list[str]:
    from stacktrans.common.randomness import Purpose, generator

    law = checkpoint.config.task.law_of(lengths)
    pair = checkpoint.task.sample(generator(seed, Purpose.SAMPLE), lengths, 1, law)[0]
    return checkpoint.task.source.decode(pair.source)


def check_terminal() -> None:
    """Raise `UsageError` unless stdin and stdout are a terminal that can be controlled."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("--step needs a terminal as standard input and output")
    if os.environ.get("TERM", "dumb") == "dumb":
        raise UsageError("--step needs a terminal that can be cleared, but TERM is unset or dumb")


def step_through(count: int, screen: Callable[[int, int, int], list[str]]) -> None:
    """Show one screen after another by the keys, until q is pressed or the input ends.

    Args:
        count: number of screens.
        screen: the lines of the screen with an index, a width and a height in characters.
    """
    index = 0
    with _alternate_screen():
        while True:
            size = shutil.get_terminal_size()
            sys.stdout.write(CLEAR + "\n".join(screen(index, size.columns, size.lines)))
            sys.stdout.flush()
            pressed = os.read(sys.stdin.fileno(), 1024)
            keys = KEY.findall(pressed)
            if not keys or QUIT & {*keys}:
                return
            for key in keys:
                index = min(max(_next_index(key, index, count), 0), count - 1)


def _next_index(key: bytes, index: int, count: int) -> int:
    if key in FIRST:
        return 0
    if key in LAST:
        return count - 1
    return index + (key in NEXT) - (key in BACK)


@contextlib.contextmanager
def _alternate_screen() -> Iterator[None]:
    """Use the alternate screen, with keys that need no Enter; restore the terminal at the end."""
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    sys.stdout.write(ENTER_SCREEN)
    try:
        tty.setcbreak(descriptor)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
        sys.stdout.write(LEAVE_SCREEN)
        sys.stdout.flush()
