"""The command `list`: lay out the entries of `catalogue` in a terminal of any width."""

import sys
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.cells import cell_len, set_cell_size

from stacktrans.commands import completion, options
from stacktrans.commands.terminal import output_width, print_data, print_json
from stacktrans.common.errors import StacktransError, UsageError, unknown_name
from stacktrans.common.messages import print_message
from stacktrans.common.visible import one_line, shell_text

if TYPE_CHECKING:
    from stacktrans.commands.catalogue import Entry

KINDS = {
    "tasks": "Tasks to learn, for --task: shipped ones, and those in ./tasks.",
    "generators": "Generators of strings for your own tasks, with their parameters.",
    "memories": "Memories that a controller operates, for --memory; several as in queue+stack.",
    "controllers": "Networks that operate a memory, for --controller.",
    "recipes": "Named changes to the default settings of a run, for --recipe.",
    "strategies": "Strategies raced by the recipe auto, for --strategies, or one for --recipe.",
    "checkpoints": "Trained models, for CHECKPOINT: shipped ones, and those in ./checkpoints.",
    "settings": "Settings of a run, for --set.",
}
"""The kinds that can be listed; `catalogue` has a function for each."""
GAP = "  "
INDENT = 4 * " "
MIN_COLUMN = 32
"""The minimum width of the last column, in which text is wrapped."""


def list(
    kind: Annotated[
        str | None,
        typer.Argument(
            metavar="KIND",
            help=f"The kind to list: {', '.join(KINDS)}. Default: list these kinds.",
            autocompletion=completion.names(lambda: KINDS),
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """List tasks, memories, trained models, settings and more, and what each means.

    Tasks are listed with their lengths, generators with their parameters, memories and
    controllers with their settings, and settings of a run with their defaults. Names with
    characters that are special in a shell are quoted, except in JSON.

        stacktrans list
        stacktrans list tasks
        stacktrans list settings | grep learning
        stacktrans list checkpoints --json
    """
    from stacktrans.commands import catalogue

    if kind is not None and kind not in KINDS:
        raise UsageError(unknown_name("kind", kind, KINDS))
    kinds = (catalogue.Entry(name, meaning) for name, meaning in KINDS.items())
    listed = [*(getattr(catalogue, kind)() if kind else kinds)]
    entries = [entry for entry in listed if isinstance(entry, catalogue.Entry)]
    if as_json:
        print_json([{"name": e.name, "meaning": e.meaning, **e.facts} for e in entries])
    else:
        width = output_width() if sys.stdout.isatty() else None
        for line in lines(entries, width):
            print_data(line)
    if errors := [entry for entry in listed if isinstance(entry, StacktransError)]:
        print_message(*(problem for error in errors for problem in error.problems))
        raise typer.Exit(1)


def lines(entries: "Sequence[Entry]", width: int | None) -> Iterator[str]:
    """Lay a list out in lines, one or more for each entry.

    Names are quoted for a shell, so that they can be copied, and unprintable characters escaped.
    The meaning is beside the columns, or indented below them if the terminal is too narrow. If even
    the columns do not fit, each cell has its title, and there is no heading.
    """
    from stacktrans.commands.catalogue import Entry

    width = width or sys.maxsize
    titles = [*dict.fromkeys(title for entry in entries for title in entry.columns)]
    listed = [Entry("name", "meaning", {title: title for title in titles}), *entries]
    rows = [
        [shell_text([entry.name]), *(one_line(entry.columns.get(title, "")) for title in titles)]
        for entry in listed
    ]
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    beside = sum(widths) + len(widths) * len(GAP)
    below = width - beside < MIN_COLUMN
    starts = [GAP.join(map(set_cell_size, row, widths)) + GAP for row in rows]
    titled = any(cell_len(start.rstrip()) > width for start in starts)
    for entry, row, start in [*zip(listed, rows, starts, strict=True)][titled:]:
        if titled:
            yield from _with_titles(row, titles, width)
        elif below:
            yield start.rstrip()
        first, margin = (INDENT, INDENT) if below else (start, " " * beside)
        yield from _wrapped(entry.line(), first, margin, width)
        for name, meaning in entry.parts:
            yield from _wrapped(f"{name}: {meaning}", INDENT, 2 * INDENT, width)


def _with_titles(row: Sequence[str], titles: Sequence[str], width: int) -> Sequence[str]:
    """The name of an entry, and below it the other columns with their titles, wrapped."""
    known = [f"{title} {cell}" for title, cell in zip(titles, row[1:], strict=True) if cell]
    return [row[0], *(_wrapped("; ".join(known), INDENT, 2 * INDENT, width) if known else ())]


def _wrapped(text: str, first: str, further: str, width: int) -> Sequence[str]:
    """Wrap a text with indents; words stay whole, so that they can be copied."""
    wrapped = textwrap.wrap(
        text,
        width,
        initial_indent=first,
        subsequent_indent=further,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return wrapped or [first.rstrip()]
