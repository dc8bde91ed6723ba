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
from stacktrans.common.processes import cores
from stacktrans.common.registry import CONTROLLERS, MEMORIES, plugin_options
from stacktrans.common.visible import shell_text
from stacktrans.settings.strategies import AUTO

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stacktrans.settings.layers import Layer
    from stacktrans.training.race import Race
    from stacktrans.training.trainer import Trainer

OF_RACES = {"recipe", "strategies", "budget", "workers", "out", "as_json", "dry_run"}
"""Options that do not change a run that takes part in a race."""
BUDGET = 300.0
"""Seconds of a race unless another budget is given."""


def train(
    ctx: typer.Context,
    task: Annotated[str | None, TASK] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            help=f"The memory: {either(MEMORIES.builtin)}; or several side by side, as in "
            "queue+stack or '2*stack+queue'. Default: auto, the one that wins the race.",
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
            help="auto (used if none is given): a race of strategies, which the first that has "
            "solved the task wins; or a strategy by its name. default: what they all begin from. "
            "paper: the settings of the paper that the task comes from.",
            autocompletion=completion.recipes,
        ),
    ] = None,
    strategies: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,...",
            help="Race these strategies alone (see stacktrans list strategies).",
            autocompletion=completion.strategies,
        ),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Time for a race: 90s, 5m, 1h30m. Default: 5m. When it is over, the model that "
            "has come furthest is kept.",
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
            help="Number of processes. In a race, as many runs are trained at the same time "
            "(default: one on each core). Otherwise, the starts that would come next are, in case "
            "the first fails. The result is the same."
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
    from stacktrans.settings.layers import given_layers
    from stacktrans.settings.resolve import Asked, contestants, is_whole, resolve
    from stacktrans.tasks.corpus import find_files

    limits = given_layers(
        {
            "--max-steps": ("training.max_steps", max_steps),
            "--time-limit": ("training.time_limit", parse_seconds(time_limit)),
        }
    )
    if resume:
        _check_resumes_as_it_is(ctx)
        _resume(resume, limits, parse_seconds(budget), workers, device, dry_run, as_json)
        return
    buffers: Any = None if buffered is None else {"buffers": {} if buffered else None}
    options = given_layers(
        {
            "--seed": ("seed", seed),
            "--memory": ("model.memory", None if memory == AUTO else memory),
            "--controller": ("model.controller", controller),
            "--hidden": ("model.controller.hidden_size", hidden),
            "--memory-size": ("model.memory.size", memory_size),
            "--buffered": ("model", buffers),
            "--text": ("task.parameters", text and find_files(text)),
        }
    )
    if text and not config:
        task = task or "text"
    asked: Asked = {
        "task": task,
        "config": config,
        "options": [*options, *limits],
        "assignments": set_ or [],
    }
    named = [*filter(None, (strategies or "").split(","))]
    if recipe in (None, AUTO) and not (config and is_whole(config)):
        configs = contestants(named, **asked)
        from stacktrans.api.runs import begin_race

        if len(configs) > 1 and not dry_run:
            race = begin_race(configs, out, device, workers or cores(), _words(ctx))
            _run_race(race, parse_seconds(budget), device, as_json)
            return
        recipe = next(iter(configs))
    elif named:
        raise UsageError("--strategies: only for the recipe auto, which races them")
    asked["options"] = [*given_layers({"--workers": ("workers", workers)}), *asked["options"]]
    run = resolve(recipe, **asked)
    # Only now, so that errors are reported without waiting for torch.
    from stacktrans.api.runs import begin

    command = shell_text(["stacktrans", *sys.argv[1:]])
    trainer = begin(run, out, device, command, rehearsal=dry_run)
    _show_or_run(trainer, dry_run, as_json)


def _show_or_run(trainer: "Trainer", dry_run: bool, as_json: bool) -> None:
    if dry_run and as_json:
        print_json(trainer.config.model_dump(mode="json"))
    elif dry_run:
        for line in trainer.config.to_yaml().splitlines():
            print_data(line)
    else:
        _run(trainer, as_json)


def _resume(
    directory: Path,
    limits: "Sequence[Layer]",
    budget: float | None,
    workers: int | None,
    device: str,
    dry_run: bool,
    as_json: bool,
) -> None:
    from stacktrans.api.runs import race_in, taken_up

    if race := race_in(directory, device, workers or cores()):
        _run_race(race, budget, device, as_json)
    else:
        _show_or_run(taken_up(directory, limits, device), dry_run, as_json)


def _words(ctx: typer.Context) -> list[str]:
    """The command as it was given, without what concerns the race of strategies."""
    words = ["stacktrans", "train"]
    for option in ctx.command.params:
        source = ctx.get_parameter_source(str(option.name))
        value = ctx.params.get(str(option.name))
        if not source or source.name != "COMMANDLINE" or option.name in OF_RACES or value == AUTO:
            continue
        for each in value if isinstance(value, (list, tuple)) else [value]:
            words += option.opts[:1] if each is True else [option.opts[0], str(each)]
    return words


def _run_race(race: "Race", budget: float | None, device: str, as_json: bool) -> None:
    """Race, and then finish the run that has won."""
    from stacktrans.api.runs import after
    from stacktrans.showing.race import RaceDisplay
    from stacktrans.training.trainer import stopping

    display = RaceDisplay(progress_console(), race)
    with stopping(race), display:
        best = race.run(budget or BUDGET, display.show)
    if race.stop_requested:
        _say_how_to_resume(race.directory)
        raise typer.Exit(128 + race.stop_requested)
    _run(after(race, best, device), as_json)


def _say_how_to_resume(directory: Path) -> None:
    again = ["stacktrans", "train", "--resume", str(directory), *plugin_options()]
    complain(f"saved; resume with: {shell_text(again)}")


def _check_resumes_as_it_is(ctx: typer.Context) -> None:
    """Raise `UsageError` if an option is given that changes a run."""
    allowed = {"resume", "max_steps", "time_limit", "budget", "workers", "dry_run", "device"}
    allowed |= {"as_json", "plugin"}
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
    display = kind(console, trainer.config, trainer.state.parameter_count, directory)
    try:
        with stopping(trainer), display:
            summary = trainer.run(display.show)
    except Interrupted as stop:
        _say_how_to_resume(trainer.directory)
        raise typer.Exit(stop.exit_code) from None
    if as_json:
        print_json({**asdict(summary), "directory": directory})
    else:
        print_out(summary_view(summary, trainer.config, directory))
