"""The command `list`: parses, calls and shows.

Nothing heavy is imported at the top, as in all that `--help` waits for.
"""

import sys
from typing import Annotated

import typer

from stacktrans.commands import completion
from stacktrans.commands.catalogue.kinds import KINDS
from stacktrans.commands.options import JsonOption
from stacktrans.commands.terminal import output_width, print_data, print_json
from stacktrans.common.errors import UsageError, unknown_name
from stacktrans.common.messages import complain


def list(
    kind: Annotated[
        str | None,
        typer.Argument(
            metavar="KIND",
            help=f"What to list: {', '.join(KINDS)}. Default: these kinds.",
            autocompletion=completion.kinds,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List what is available, and what each means.

    Tasks with their lengths, generators with their parameters, memories and controllers with
    the settings that concern them, recipes, trained models, and every setting of a run with its
    default.

        stacktrans list
        stacktrans list tasks
        stacktrans list settings | grep learning
        stacktrans list checkpoints --json
    """
    from stacktrans.commands.catalogue.docstrings import summary
    from stacktrans.commands.catalogue.entries import Entry, Listing
    from stacktrans.commands.catalogue.layout import lines

    if kind is not None and kind not in KINDS:
        raise UsageError(unknown_name("kind", kind, KINDS))
    if kind:
        found = KINDS[kind]()
    else:
        found = Listing([Entry(name, summary(listed)) for name, listed in KINDS.items()])
    if as_json:
        print_json([entry.as_json() for entry in found.entries])
    else:
        width = output_width() if sys.stdout.isatty() else None
        for line in lines(found.entries, width):
            print_data(line)
    for problem in found.problems:
        complain(problem)
    if found.problems:
        raise typer.Exit(1)
