"""The command `sweep`: train a sweep file's runs, and compare them with published figures."""

import signal
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated

import typer

from stacktrans.commands import completion, options
from stacktrans.commands.terminal import print_json, print_out, progress_console
from stacktrans.common.errors import UsageError, check_positive
from stacktrans.common.messages import print_message
from stacktrans.common.visible import counted, duration, visible
from stacktrans.model.devices import check_device

if TYPE_CHECKING:
    from stacktrans.sweeps.plan import PlannedRun
    from stacktrans.sweeps.store import SweepStore
PANELS = {
    "Training": "profile only workers cluster device plugin",
    "Output": "out dry_run plot as_json",
}


def sweep(
    file: Annotated[Path, typer.Argument(metavar="FILE")],
    profile: Annotated[str | None, typer.Option(autocompletion=completion.profiles)] = None,
    only: Annotated[str | None, typer.Option(metavar="PATTERN")] = None,
    workers: int | None = None,
    cluster: Annotated[str | None, typer.Option(metavar="ADDRESS")] = None,
    out: options.Directory = None,
    dry_run: bool = False,
    plot: bool = False,
    device: options.Device = "auto",
    as_json: options.Json = False,
) -> None:
    """Train the runs of a sweep file, and compare them with published figures.

    Writes a directory with a subdirectory for each run, a record of all runs, and tables. The same
    command continues a sweep that was interrupted or killed: finished runs are skipped, and
    failed ones are tried again.

        stacktrans sweep experiments/joulin2015.yaml --profile small
        stacktrans sweep experiments/hao2018.yaml --only 'reversal*' --workers 2
        stacktrans sweep experiments/joulin2015.yaml --dry-run
        stacktrans sweep experiments/hao2018.yaml --cluster tcp://scheduler:8786

    Args:
        file: A sweep file, such as those in experiments/.
        profile: One of the file's profiles, such as small.
        only: Run only those whose name contains or matches a pattern such as 'LSTM*'.
        workers: Number of parallel runs on this computer. Default: one per core.
        cluster: Run on a Dask scheduler, such as tcp://host:8786.
        out: Directory of the sweep. Default: sweeps/NAME.
        dry_run: List the runs without running them.
        plot: Also draw learning curves and accuracy by length.
    """
    from stacktrans.sweeps.live import overview
    from stacktrans.sweeps.plan import read_plan
    from stacktrans.sweeps.store import SweepStore
    from stacktrans.sweeps.table import as_json as numbers

    check_positive(**{"--workers": workers})
    if workers and cluster is not None:
        raise UsageError("--workers: cannot be used with --cluster, which has its own")
    if cluster is None:
        check_device(device)
    plan = read_plan(file, profile)
    runs = plan.runs if only is None else plan.only(only)
    store = SweepStore(out or Path("sweeps") / plan.name, plan)
    if dry_run:
        _list_runs(store, runs, as_json)
        return
    carry_out_runs(store, runs, workers, cluster, device, plot)
    if as_json:
        print_json(numbers(plan, store.records))
    else:
        print_out(*overview(store))
    check_finished(store, runs)


def _list_runs(store: "SweepStore", runs: "Sequence[PlannedRun]", as_json: bool) -> None:
    """Print the runs, whether they are done, and the commands that repeat them.

    Their number follows on stderr, and the time that they will take, if some are done.
    """
    from stacktrans.sweeps.plan import distinct

    for run in runs:
        done = store.done(run)
        facts = {"condition": run.condition, "axes": dict(run.axes), "identity": run.identity}
        if as_json:
            print_json({**facts, "done": done, "command": run.command})
        else:
            state = "done" if done else "to do"
            print(visible(f"{state}\t{run.name}\t{run.command}", keep="\t"))
    own = distinct(runs)
    seconds = [store.records[run.identity]["seconds"] for run in own if store.done(run)]
    left = len(own) - len(seconds)
    total = f"{counted(left, 'run')} to do, {len(seconds)} done"
    if left and seconds:
        total += (
            f"; about {duration(left * fmean(seconds))} of training left, at the speed of these"
        )
    print_message(total)


def carry_out_runs(
    store: "SweepStore",
    runs: "Sequence[PlannedRun]",
    workers: int | None,
    cluster: str | None,
    device: str,
    plot: bool,
) -> None:
    """Carry out the missing runs of a sweep with a progress display, and plot the results.

    Raises:
        typer.Exit: the sweep was interrupted.
        UsageError: matplotlib, or Dask for a cluster, is not installed.
    """
    from stacktrans.showing.plots import check_matplotlib
    from stacktrans.sweeps.execution import carry_out
    from stacktrans.sweeps.live import SweepDisplay
    from stacktrans.sweeps.plots import draw

    if plot:
        check_matplotlib()  # not after the runs
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        with SweepDisplay(progress_console(), store, runs) as display:
            carry_out(store, runs, display.show, workers=workers, cluster=cluster, device=device)
    except KeyboardInterrupt as stop:
        print_message("stopped; the same command continues from here")
        raise typer.Exit(128 + (stop.args[0] if stop.args else signal.SIGINT)) from None
    finally:
        signal.signal(signal.SIGTERM, before)
    if plot:
        for note in draw(store):
            print_message(note)


def check_finished(store: "SweepStore", runs: "Sequence[PlannedRun]") -> None:
    """Exit with code 1 and a message if a run failed."""
    from stacktrans.sweeps.plan import distinct

    if failed := distinct(run for run in runs if not store.done(run)):
        error = store.records[failed[0].identity].get(
            "error", "its measures have changed; run the sweep again"
        )
        total = counted(len(distinct(runs)), "run")
        print_message(f"{len(failed)} of {total} failed; {failed[0].name}: {error}")
        raise typer.Exit(1)


def _terminate(number: int, frame: object) -> None:
    """Stop as on Ctrl-C, after all records are written."""
    raise KeyboardInterrupt(number)
