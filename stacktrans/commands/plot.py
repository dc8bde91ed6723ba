"""The command `plot`: learning curves of runs."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from stacktrans.commands import options
from stacktrans.commands.terminal import output_width
from stacktrans.common.messages import print_message


def plot(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN", help="The directories of runs or races.")
    ],
    out: options.File = None,
    by: Literal["batches", "seconds"] = "batches",
) -> None:
    """Show the learning curves of runs: their loss and accuracy over time.

    Accuracy is that on the development set, or else on strings of test lengths. A file
    also shows it on the longest development strings (a dashed line) or, where strings are
    drawn, on those of training lengths (a dotted line).

        stacktrans plot runs/copy
        stacktrans plot runs/copy --by seconds
        stacktrans plot runs/stack runs/queue --by seconds --out curves.svg

    Args:
        out: Draw them to a .png, .svg or .pdf file instead of the terminal.
        by: Measure time in batches or in seconds.
    """
    from stacktrans.showing.curves import charts, plot_curves, read_metrics
    from stacktrans.showing.plots import check_plot, short_names

    if out:
        check_plot(out)
    metrics = dict(zip(short_names(runs), map(read_metrics, runs), strict=True))
    if out:
        plot_curves(metrics, by, out)
        print_message(f"saved in {out}")
        return
    for chart in charts(metrics, by, output_width(), colors=sys.stdout.isatty()):
        print(chart, end="\n\n")
