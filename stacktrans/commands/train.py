"""The command `train`."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stacktrans.commands import completion
from stacktrans.commands.options import TASK, DeviceOption, JsonOption, either, parse_seconds
from stacktrans.commands.terminal import print_data, print_json, print_out, progress_console
from stacktrans.common.errors import UsageError
from stacktrans.common.messages import complain
from stacktrans.common.registry import CONTROLLERS, MEMORIES, plugin_options
from stacktrans.common.visible import shell_text

DataOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Learn your own pairs: a file with a source, a tab and its target on each line, or "
        "JSON lines, perhaps packed (.gz); - for stdin.",
    ),
]
DevOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="With --data: pairs to choose and to stop by. Default: a tenth of --data, drawn by "
        "the seed.",
    ),
]
TestOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="With --data: pairs to measure at the end. Default: the longest tenth of --data.",
    ),
]
ColumnsOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME,...",
        help="With --data: what stands in a line, in its order. Default: source,target or, of "
        "three, source,target,features; features are separated by semicolons.",
    ),
]
SymbolsOption = Annotated[
    str | None,
    typer.Option(
        help="With --data: what strings are made of, characters or words. Default: found out."
    ),
]

if TYPE_CHECKING:
    from stacktrans.training.trainer import Trainer


def train(
    ctx: typer.Context,
    task: Annotated[str | None, TASK] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            help=f"The memory: {either(MEMORIES.builtin)}; or several side by side, as in "
            "queue+stack or '2*stack+queue'.",
            autocompletion=completion.memories,
        ),
    ] = None,
    controller: Annotated[
        str | None,
        typer.Option(
            help=f"What operates the memory: {either(CONTROLLERS.builtin)}. Default: the recipe's.",
            autocompletion=completion.controllers,
        ),
    ] = None,
    hidden: Annotated[
        int | None, typer.Option(help="Units of the controller. Default: the recipe's.")
    ] = None,
    memory_size: Annotated[
        int | None, typer.Option(help="Size of a pushed vector. Default: the recipe's.")
    ] = None,
    buffered: Annotated[
        bool | None,
        typer.Option(
            help="Read from an input buffer and write to an output buffer; for tasks of pairs."
        ),
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            help="default (used if none is given): small, fast and reliable; stops when the task "
            "is solved. paper: the settings of the paper that the task comes from.",
            autocompletion=completion.recipes,
        ),
    ] = None,
    text: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Learn to predict a text: a folder with train.txt, valid.txt and test.txt, one "
            "sentence per line.",
        ),
    ] = None,
    data: DataOption = None,
    dev: DevOption = None,
    test: TestOption = None,
    columns: ColumnsOption = None,
    symbols: SymbolsOption = None,
    config: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Settings from a YAML file, such as a run's config.yaml."
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Change one setting (see stacktrans list settings); may be repeated.",
            autocompletion=completion.settings_of_a_run,
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Random seed. Default: 1.")] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            help="Number of processes. With more than one, the starts that would come next are "
            "trained at the same time, in case the first fails; the result is the same."
        ),
    ] = None,
    max_steps: Annotated[
        int | None, typer.Option(help="Stop after this many batches. Default: the recipe's.")
    ] = None,
    time_limit: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Stop after this much training: 90s, 5m, 1h30m. Default: no limit. Training "
            "before a --resume counts.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Directory of the run. Default: checkpoints/TASK-MEMORY-SEED."),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Continue an interrupted run.", autocompletion=completion.runs
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Print the configuration, in the form that --config reads, and train nothing.",
        ),
    ] = False,
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Train a transducer, with live progress.

    Writes a directory with the resolved configuration, the metrics, the best
    and the last checkpoint and a summary. Ctrl-C finishes the batch, saves, and
    prints the command that resumes the run.

        stacktrans train --task copy --memory queue
        stacktrans train --task reverse --memory stack --seed 7 --time-limit 5m
        stacktrans train --task copy --memory none --recipe paper --set layers=4
        stacktrans train --task reversal --memory stack --buffered
        stacktrans train --data pairs.tsv --memory stack
        stacktrans train --text FOLDER --memory stack-rnn
        stacktrans train --config checkpoints/copy-queue-1/config.yaml --out again
        stacktrans train --task copy --memory queue --dry-run > mine.yaml
        stacktrans train --resume checkpoints/copy-queue-1
    """
    from stacktrans.settings.layers import given_layers
    from stacktrans.settings.resolve import resolve
    from stacktrans.tasks.corpus import find_files
    from stacktrans.tasks.pairs import task_of_data

    limits = given_layers(
        {
            "--max-steps": ("training.max_steps", max_steps),
            "--time-limit": ("training.time_limit", parse_seconds(time_limit)),
        }
    )
    if resume:
        _check_resumes_as_it_is(ctx)
        from stacktrans.api.runs import taken_up

        trainer = taken_up(resume, limits, device)
    else:
        files = {"dev": dev, "test": test, "columns": columns, "symbols": symbols}
        buffers: Any = None if buffered is None else {"buffers": {} if buffered else None}
        options = given_layers(
            {
                "--seed": ("seed", seed),
                "--workers": ("workers", workers),
                "--memory": ("model.memory", memory),
                "--controller": ("model.controller", controller),
                "--hidden": ("model.controller.hidden_size", hidden),
                "--memory-size": ("model.memory.size", memory_size),
                "--buffered": ("model", buffers),
                "--text": ("task.parameters", text and find_files(text)),
                "--data": ("task", task_of_data(task or text, data, files, "--")),
            }
        )
        if text and not config:
            task = task or "text"
        layers = [*options, *limits]
        run = resolve(
            task=task, recipe=recipe, config=config, options=layers, assignments=set_ or []
        )
        # Only now, so that errors are reported without waiting for torch.
        from stacktrans.api.runs import begin

        command = shell_text(["stacktrans", *sys.argv[1:]])
        trainer = begin(run, out, device, command, rehearsal=dry_run)
    if dry_run and as_json:
        print_json(trainer.config.model_dump(mode="json"))
    elif dry_run:
        for line in trainer.config.to_yaml().splitlines():
            print_data(line)
    else:
        _run(trainer, as_json)


def _check_resumes_as_it_is(ctx: typer.Context) -> None:
    """Raise `UsageError` if an option is given that changes a run."""
    allowed = {"resume", "max_steps", "time_limit", "dry_run", "device", "as_json", "plugin"}
    for name in ctx.params.keys() - allowed:
        if (source := ctx.get_parameter_source(name)) and source.name == "COMMANDLINE":
            raise UsageError(
                "--resume continues a run as it is; "
                "only --max-steps and --time-limit can be changed"
            )


def _run(trainer: "Trainer", as_json: bool) -> None:
    from stacktrans.showing.training import LanguageDisplay, TrainingDisplay, summary_view
    from stacktrans.training.trainer import Interrupted, stopping

    console, directory = progress_console(), str(trainer.directory)
    kind = LanguageDisplay if trainer.config.task.lengths is None else TrainingDisplay
    count, notes = trainer.state.parameter_count, trainer.source.notes
    display = kind(console, trainer.config, count, directory, notes)
    try:
        with stopping(trainer), display:
            summary = trainer.run(display.show)
    except Interrupted as stop:
        again = shell_text(["stacktrans", "train", "--resume", directory, *plugin_options()])
        complain(f"saved; resume with: {again}")
        raise typer.Exit(stop.exit_code) from None
    if as_json:
        print_json({**asdict(summary), "directory": directory})
    else:
        print_out(summary_view(summary, trainer.config, directory))
