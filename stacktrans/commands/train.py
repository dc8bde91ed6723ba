"""The command `train`: a run, live."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stacktrans.commands import completion
from stacktrans.commands.options import DeviceOption, JsonOption, either, given, parse_seconds
from stacktrans.commands.terminal import print_data, print_json, print_out, progress_console
from stacktrans.common.errors import UsageError
from stacktrans.common.messages import complain
from stacktrans.common.plugins import plugin_options
from stacktrans.common.registry import CONTROLLERS, MEMORIES
from stacktrans.common.visible import shell_text

if TYPE_CHECKING:
    from stacktrans.settings.layers import Layer
    from stacktrans.training.trainer import Trainer


def train(
    task: Annotated[
        str | None,
        typer.Option(
            help="The task: copy, reverse, parenthesis, ... (see stacktrans list tasks), or a YAML "
            "file of your own.",
            autocompletion=completion.tasks,
        ),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            help=f"The memory: {either(MEMORIES.builtin)}.", autocompletion=completion.memories
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
            help="Read from an input buffer and write to an output buffer; for tasks with a target "
            "symbol for each source symbol."
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
        stacktrans train --text FOLDER --memory stack-rnn
        stacktrans train --config checkpoints/copy-queue-1/config.yaml --out again
        stacktrans train --task copy --memory queue --dry-run > mine.yaml
        stacktrans train --resume checkpoints/copy-queue-1
    """
    budgets = [
        *given("--max-steps", "training.max_steps", max_steps),
        *given("--time-limit", "training.time_limit", time_limit and parse_seconds(time_limit)),
    ]
    if resume:
        others = (
            task,
            memory,
            controller,
            hidden,
            memory_size,
            buffered,
            recipe,
            text,
            config,
            set_,
            seed,
            workers,
            out,
        )
        if any(other is not None and other != [] for other in others):
            raise UsageError(
                "--resume continues a run as it is; "
                "only --max-steps and --time-limit can be changed"
            )
        trainer = _resumed(resume, budgets, device)
    else:
        options = [
            *given("--seed", "seed", seed),
            *given("--workers", "workers", workers),
            *given("--memory", "model.memory", memory),
            *given("--controller", "model.controller", controller),
            *given("--hidden", "model.controller.hidden_size", hidden),
            *given("--memory-size", "model.memory.size", memory_size),
            *([] if buffered is None else [_buffered(buffered)]),
            *given("--text", "task.parameters", text and _files_of(text)),
            *budgets,
        ]
        if text and not config:
            task = task or "text"
        trainer = _fresh(task, recipe, config, options, set_ or [], out, device, dry_run)
    if dry_run and as_json:
        print_json(trainer.config.model_dump(mode="json"))
    elif dry_run:
        for line in trainer.config.to_yaml().splitlines():
            print_data(line)
    else:
        _run(trainer, as_json)


def _buffered(asked: bool) -> "Layer":
    from stacktrans.settings.layers import Layer

    return Layer("--buffered", {"model": {"buffers": {} if asked else None}})


def _files_of(folder: Path) -> dict[str, str]:
    from stacktrans.tasks.corpora import find_files

    return find_files(folder)


def _fresh(
    task: str | None,
    recipe: str | None,
    config: str | None,
    options: "list[Layer]",
    assignments: list[str],
    out: Path | None,
    device: str,
    dry_run: bool,
) -> "Trainer":
    from stacktrans.settings.resolve import resolve

    run = resolve(task=task, recipe=recipe, config=config, options=options, assignments=assignments)
    # Only then, so that what is wrong is told without waiting for torch.
    from stacktrans.api.runs import begin

    return begin(run, out, device, shell_text(["stacktrans", *sys.argv[1:]]), rehearsal=dry_run)


def _resumed(directory: Path, budgets: "list[Layer]", device: str) -> "Trainer":
    from stacktrans.api.runs import taken_up

    return taken_up(directory, budgets, device)


def _run(trainer: "Trainer", as_json: bool) -> None:
    from stacktrans.showing.training import LanguageDisplay, TrainingDisplay, summary_view
    from stacktrans.training.preparing import learns_text
    from stacktrans.training.runs import stopping
    from stacktrans.training.trainer import Interrupted

    console, directory = progress_console(), str(trainer.directory)
    kind = LanguageDisplay if learns_text(trainer.config) else TrainingDisplay
    display = kind(console, trainer.config, trainer.state.parameter_count, directory)
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
