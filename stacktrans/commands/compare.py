"""The command `compare`: train several models on one task, and compare their accuracy."""

from pathlib import Path
from typing import Annotated

import typer

from stacktrans.commands import completion, options
from stacktrans.commands.sweep import carry_out_runs, check_finished
from stacktrans.commands.terminal import print_json, print_out, print_text
from stacktrans.common.documents import yaml_text
from stacktrans.common.errors import UsageError, check_positive
from stacktrans.common.files import real_path, write_atomically
from stacktrans.common.reading import is_stream, read_bytes
from stacktrans.common.registry import plugin_options
from stacktrans.common.visible import shell_text
from stacktrans.model.devices import check_device

HEADER = """\
# Written by stacktrans compare, which replaces it: edit a copy.
# To continue its runs: {command}
"""
"""The first lines of a sweep file."""
PANELS = {
    "Data": "task data dev test",
    "Models": "equal_size plugin",
    "Training": "recipe set_ seeds max_steps time_limit workers device",
    "Strings": "lengths count",
    "Output": "out plot as_json as_csv as_latex",
}


def compare(
    models: Annotated[list[str], typer.Argument(metavar="MODEL")],
    task: Annotated[str | None, options.TASK] = None,
    data: options.File = None,
    dev: options.File = None,
    test: options.File = None,
    recipe: Annotated[str | None, typer.Option(autocompletion=completion.recipes)] = None,
    set_: options.Assignments = None,
    equal_size: bool = False,
    seeds: int = 3,
    max_steps: int | None = None,
    time_limit: options.Time = None,
    lengths: Annotated[list[str] | None, typer.Option(metavar="A:B")] = None,
    count: int = 1000,
    workers: int | None = None,
    out: options.Directory = None,
    plot: bool = False,
    device: options.Device = "auto",
    as_json: options.Json = False,
    as_csv: Annotated[bool, typer.Option("--csv")] = False,
    as_latex: Annotated[bool, typer.Option("--latex")] = False,
) -> None:
    """Train several models on one task, and compare their accuracy.

    A model is a memory, perhaps with a controller and other settings after commas. Each
    is trained with several seeds; the table shows mean coarse accuracies and, of three or
    more runs, their 95% bootstrap intervals.

    Writes a directory with everything that a sweep writes, and a sweep file of the same
    name; stacktrans sweep, with --out and the directory, continues from an edited copy of
    it. The same command continues a comparison that was interrupted; runs that are done
    are not repeated.

        stacktrans compare stack queue none --task reverse --time-limit 2m
        stacktrans compare none,gru stack,lstm,hidden_size=32 --task reverse
        stacktrans compare stack stack-rnn --data pairs.tsv --equal-size --plot
        stacktrans compare stack queue --task copy --lengths 8:64 --lengths 128

    Args:
        models: The models, each a memory, perhaps with a controller and with settings KEY=VALUE,
            separated by commas: stack or none,lstm,hidden_size=128.
        data: Pairs of your own in a file, instead of a task.
        dev: With --data: pairs that decide when to stop. Default: a tenth of --data.
        test: With --data: pairs to measure on. Default: the longest tenth of --data.
        recipe: The recipe of all models: default, paper, lstm, auto or a strategy. Default:
            default.
        set_: Change one setting of all models (see stacktrans list settings); may be repeated.
        equal_size: Choose the hidden sizes of the models after the first so that they have about
            as many parameters as the first.
        seeds: Number of runs of each model.
        max_steps: Stop each run after this many batches.
        time_limit: Stop each run after this much training: 90s, 5m, 1h30m.
        lengths: Lengths of sources to measure on; may be repeated. Default: the task's training
            and test lengths; with --data, its training and test pairs.
        count: Number of strings of test lengths, or of each range of --lengths.
        workers: Number of parallel runs. Default: one per core.
        out: Directory of the comparison. Default: sweeps/compare-TASK.
        plot: Also draw learning curves and accuracy by length.
        as_csv: Print the table as CSV, with unrounded numbers.
        as_latex: Print the table as LaTeX, for the package booktabs.
    """
    from stacktrans.settings.command import option_layers
    from stacktrans.settings.layers import SettingsLayer
    from stacktrans.settings.resolve import DEFAULT_RECIPE
    from stacktrans.settings.values import MAX_STRINGS
    from stacktrans.showing.tables import csv_of, latex_text, remark
    from stacktrans.sweeps import comparison
    from stacktrans.sweeps.plan import make_plan, swept_task
    from stacktrans.sweeps.store import TABLE, SweepStore
    from stacktrans.tasks.pairs import task_from_files

    options.check_exclusive({"--json": as_json, "--csv": as_csv, "--latex": as_latex})
    check_positive(**{"--seeds": seeds, "--count": count, "--workers": workers})
    if count > MAX_STRINGS:
        raise UsageError(f"--count {count}: expected at most {MAX_STRINGS}")
    check_device(device)
    seconds = None if time_limit is None else options.parse_seconds(time_limit, "--time-limit")
    bounds = [options.parse_lengths(each) for each in lengths or []]
    for name, path in {"--data": data, "--dev": dev, "--test": test}.items():
        if path and is_stream(path):
            raise UsageError(f"{name} {path}: expected a file, which each run can read by itself")
    pairs = task_from_files(task, data, {"dev": dev, "test": test}, "--")
    if not (task or pairs):
        raise UsageError("expected --task or --data")
    shared = [
        SettingsLayer("--data" if pairs else "--task", {"task": pairs or task}),
        SettingsLayer("--recipe", {"recipe": recipe or DEFAULT_RECIPE}),
        *option_layers({"max_steps": max_steps, "time_limit": seconds}, "--"),
    ]
    name = str(swept_task(pairs or task))
    settings = comparison.comparison_settings(
        name, models, shared, set_ or [], seeds, bounds, count
    )
    directory = out or Path("sweeps") / f"compare-{name}"
    path = directory / f"{real_path(directory).name}.yaml"
    if path.exists() and not read_bytes(path).startswith(HEADER.split("\n")[0].encode()):
        raise UsageError(f"{path}: not written by compare; choose another directory")
    plan = make_plan(path, SettingsLayer(str(path), settings))
    if equal_size:
        settings = comparison.with_equal_sizes(plan, settings)
        plan = make_plan(path, SettingsLayer(str(path), settings))
    store = SweepStore(directory, plan)
    directory.mkdir(parents=True, exist_ok=True)
    command = shell_text(
        ["stacktrans", "sweep", "COPY", "--out", str(directory), *plugin_options()]
    )
    write_atomically(path, HEADER.format(command=command) + yaml_text(settings))
    carry_out_runs(store, plan.runs, workers, None, device, plot)
    entries = comparison.comparison_entries(plan, store.records)
    table = comparison.comparison_table(plan, entries)
    if as_json:
        print_json(entries)
    elif as_csv:
        print_text(csv_of(entries))
    elif as_latex:
        print_text(latex_text(table))
    else:
        print_out(table, remark(f"more in {directory / TABLE}"))
    check_finished(store, plan.runs)
