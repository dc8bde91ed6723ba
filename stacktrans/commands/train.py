"""The command `train`: train or resume a run, or race several strategies, with live progress."""

import contextlib
import gc
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from stacktrans.commands import completion, options
from stacktrans.commands.terminal import print_json, print_out, print_text, progress_console
from stacktrans.common.errors import UsageError, check_positive
from stacktrans.common.messages import print_message
from stacktrans.common.registry import CONTROLLERS, MEMORIES
from stacktrans.common.visible import listed, shell_text
from stacktrans.settings.locations import AUTO

if TYPE_CHECKING:
    from stacktrans.settings.config import RunConfig
    from stacktrans.training.race import Race
    from stacktrans.training.records import Record, Summary
    from stacktrans.training.trainer import Trainer

NOT_FOR_CANDIDATES = {
    *("recipe", "strategies", "budget", "workers", "out", "log_to", "as_json", "dry_run")
}
"""Options that do not affect the candidates of a race."""
PANELS = {
    "Data": "task from_ text data dev test columns symbols separator normalize",
    "Model": "memory controller hidden as_large_as memory_size buffered no_buffered plugin",
    "Training": "accept recipe config set_ seed max_steps time_limit resume workers device",
    "Race": "strategies budget",
    "Output": "out log_to dry_run as_json",
}


def train(
    ctx: typer.Context,
    task: Annotated[str | None, options.TASK] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            help=f"The memory: {listed(MEMORIES.builtin, 'or')}; or several side by side, as in "
            "queue+stack or '2*stack+queue'. Default: auto, the one that wins the race.",
            autocompletion=completion.memories,
        ),
    ] = None,
    controller: Annotated[
        str | None,
        typer.Option(
            help=f"What operates the memory: {listed(CONTROLLERS.builtin, 'or')}. "
            "Default: the recipe's.",
            autocompletion=completion.controllers,
        ),
    ] = None,
    hidden: int | None = None,
    as_large_as: options.OtherCheckpoint = None,
    memory_size: int | None = None,
    buffered: bool = False,
    no_buffered: bool = False,
    accept: Literal["machine", "discrete", "soft"] | None = None,
    recipe: Annotated[str | None, typer.Option(autocompletion=completion.recipes)] = None,
    strategies: Annotated[
        str | None, typer.Option(metavar="NAME,...", autocompletion=completion.strategies)
    ] = None,
    budget: options.Time = None,
    from_: Annotated[
        str | None,
        typer.Option("--from", metavar="CHECKPOINT", autocompletion=completion.checkpoints),
    ] = None,
    text: Annotated[Path | None, typer.Option(metavar="DIR")] = None,
    data: options.File = None,
    dev: options.File = None,
    test: options.File = None,
    columns: Annotated[str | None, typer.Option(metavar="NAME,...")] = None,
    symbols: str | None = None,
    separator: Annotated[str | None, typer.Option(metavar="TEXT")] = None,
    normalize: str | None = None,
    config: Annotated[str | None, typer.Option(metavar="FILE")] = None,
    set_: options.Assignments = None,
    seed: Annotated[int | None, options.SEED] = None,
    workers: int | None = None,
    max_steps: int | None = None,
    time_limit: options.Time = None,
    out: options.Directory = None,
    log_to: Literal["csv", "tensorboard"] | None = None,
    resume: Annotated[
        Path | None, typer.Option(metavar="DIR", autocompletion=completion.runs)
    ] = None,
    dry_run: bool = False,
    device: options.Device = "auto",
    as_json: options.Json = False,
) -> None:
    """Train a transducer, with live progress.

    Unless --recipe names one, several strategies are raced until one has a discrete solution,
    preferably one from which a machine can be extracted: that run is kept, and the command that
    trains it alone is printed. With --memory, all of them use that memory.

    Writes a directory with the resolved configuration, the metrics, the best
    and the last checkpoint and a summary. Ctrl-C finishes the batch, saves, and
    prints the command that resumes the run.

        stacktrans train --task reverse
        stacktrans train --task reverse --strategies joint,buffered --budget 10m
        stacktrans train --task copy --memory queue
        stacktrans train --task reverse --recipe joint --seed 7 --time-limit 5m
        stacktrans train --task copy --memory none --recipe paper --set layers=4
        stacktrans train --data pairs.tsv
        stacktrans train --task reversal --recipe default --memory stack --buffered
        stacktrans train --text DIR --memory stack-rnn
        stacktrans train --config checkpoints/copy-queue-1/config.yaml --out again
        stacktrans train --task copy --memory queue --dry-run > mine.yaml
        stacktrans train --from checkpoints/copy-queue-1 --data more.tsv
        stacktrans train --resume checkpoints/copy-queue-1

    Args:
        hidden: Units of the controller. Default: the recipe's.
        as_large_as: Choose the number of units so that the model has about as many parameters as
            this trained model.
        memory_size: Size of a pushed vector. Default: the recipe's.
        buffered: Read from an input buffer and write to an output buffer; not for streams and
            texts.
        no_buffered: Use no buffers, even if the recipe has them.
        accept: Which solutions end training. soft: any, even one that needs signals between 0 and
            1, although such solutions seldom generalize to much longer strings. discrete: only a
            discrete one; a soft one is kept while training continues. machine: a discrete one from
            which a machine can be extracted; after one without a machine, training continues for a
            while. Default: that of the recipe: machine in most strategies, raced or alone; soft in
            the recipe default.
        recipe: auto (used if none is given): a race of strategies, won by the first with a solution
            that --accept admits; or the name of a strategy, which is trained alone. default: the
            small model that every strategy modifies. paper: the settings of the paper that the task
            comes from, or else of grefenstette2015. lstm: a large LSTM as a baseline.
        strategies: Race these strategies alone (see stacktrans list strategies).
        budget: Time for a race: 90s, 5m, 1h30m. Default: the --time-limit, or 5m. When it is over,
            the model that has come furthest is kept. Time before --resume is included.
        from_: Start from a trained model: from its weights, and with its settings and its task
            unless others are given. Its symbols are kept, and new ones added. There is no race.
        text: Learn to predict a text: a directory with train.txt, valid.txt and test.txt, one
            sentence per line.
        data: Learn your own pairs: a file with a source, a tab and its target on each line, or JSON
            lines, perhaps compressed (.gz); - for stdin.
        dev: With --data: pairs that decide when to stop and which weights to keep. Default: a tenth
            of --data, drawn by the seed.
        test: With --data: pairs to measure at the end. Default: the longest tenth of --data.
        columns: With --data: the columns of a line, in order, such as source,features,target.
            Default: those that the first line names, or else inferred from the file.
        symbols: With --data: what strings are made of, characters or words. Default: inferred from
            the file.
        separator: With --data: what separates features. Default: ; or |.
        normalize: With --data: the Unicode normalization form of all strings, nfc, nfd, nfkc or
            none; it is saved with the model. Default: none, with a warning if they are mixed.
        config: Settings from a YAML file, such as a run's config.yaml.
        set_: Change one setting (see stacktrans list settings); may be repeated.
        seed: Random seed. Default: that of --from or --config, or else 1.
        workers: Number of processes. In a race, this many runs are trained at the same time
            (default: one on each core). In a single run, the extra processes train the next
            attempts in advance, in case the first fails. Their number changes the result only if
            time runs out.
        max_steps: Stop training after this many batches; rounding may add some. In a race, the
            limit applies to each run. Default: the recipe's.
        time_limit: Stop after this much training: 90s, 5m, 1h30m. Default: none for a single run;
            a race has a --budget. Time before --resume is included.
        out: Directory of the run, new or empty. Default: checkpoints/TASK-MEMORY-SEED, in which the
            memory is auto where several are raced, followed by a number if it exists.
        log_to: csv or tensorboard: also write the metrics of the run (of a race, of its winner) as
            metrics.csv, or as events for TensorBoard, in the run's directory.
        resume: Continue an interrupted run, or a race that did not solve its task.
        dry_run: Print the configuration, in the form that --config reads, or the strategies that
            would be raced, and train nothing.
    """
    from stacktrans.settings.command import option_layers
    from stacktrans.training import requests
    from stacktrans.training.loggers import check_tensorboard
    from stacktrans.training.requests import TrainRequest

    seconds = None if budget is None else options.parse_seconds(budget, "--budget")
    most_seconds = None if time_limit is None else options.parse_seconds(time_limit, "--time-limit")
    check_positive(**{"--workers": workers})
    if log_to == "tensorboard":
        check_tensorboard()
    options.check_exclusive({"--buffered": buffered, "--no-buffered": no_buffered})
    limits = {"max_steps": max_steps, "time_limit": most_seconds}
    if resume:
        _check_resumes_as_it_is(ctx)
        layers = option_layers(limits, "--")
        resumed = requests.resume(resume, device, layers, seconds, workers)
        _train(resumed, log_to, dry_run, as_json)
        return
    buffers: Any = {"buffers": {} if buffered else None} if buffered or no_buffered else None
    request = TrainRequest.of(
        {**locals(), **limits, "buffered": buffers},
        assignments=set_ or [],
        strategies=_names(strategies),
        budget=seconds,
        command=shell_text(["stacktrans", *sys.argv[1:]]),
        candidate_command=_arguments_of_candidate(ctx),
        prefix="--",
    )
    with _loading(request.configs, dry_run):
        training = requests.begin(request, dry_run=dry_run)
    _train(training, log_to, dry_run, as_json)


def _loading(
    configs: Mapping[str, "RunConfig"], dry_run: bool
) -> contextlib.AbstractContextManager[object]:
    """Show the first row of a race before torch is loaded."""
    if dry_run or len(configs) == 1:
        return contextlib.nullcontext()
    from stacktrans.showing.race import LoadingDisplay

    return LoadingDisplay(progress_console(), configs)


def _names(text: str | None) -> list[str]:
    """Split a list of strategies; raises `UsageError` if it is empty."""
    names = [*filter(None, (text or "").split(","))]
    if text is not None and not names:
        raise UsageError(f"--strategies {text}: expected names such as joint,buffered")
    return names


def _train(training: "Trainer | Race", log_to: str | None, dry_run: bool, as_json: bool) -> None:
    """Train a run or a race; or only show its configuration."""
    from stacktrans.training.race import Race

    gc.freeze()  # what is loaded by now is never garbage
    if dry_run:
        _show(training, as_json)
    elif isinstance(training, Race):
        _race(training, log_to, as_json)
    else:
        _run(training, log_to, as_json)


def _show(training: "Trainer | Race", as_json: bool) -> None:
    """Print the configuration of a run or the candidates of a race, and remarks on the data."""
    from stacktrans.common.files import CONFIG
    from stacktrans.showing.race import candidates_table
    from stacktrans.showing.tables import remark
    from stacktrans.training.race import Race

    if isinstance(training, Race):
        configs, notes = training.configs, training.notes
        dumped: Any = {name: config.model_dump(mode="json") for name, config in configs.items()}
    else:
        notes, dumped = training.source.notes, training.config.model_dump(mode="json")
    print_out(*map(remark, notes), stderr=True)
    if as_json:
        print_json(dumped)
    elif isinstance(training, Race):
        print_out(candidates_table(configs))
        name = next(iter(configs))
        file = training.directory_of(name) / CONFIG
        resumed = training.directory != Path() and file.exists()
        one = shell_text(["--config", str(file)] if resumed else ["--recipe", name])
        print_out(remark(f"the settings of one of them: {one} --dry-run"), stderr=True)
    else:
        print_text(training.config.to_yaml())


def _arguments_of_candidate(ctx: typer.Context) -> list[str]:
    """The arguments of the command that trains any run of a race alone, except its recipe."""
    words = ["stacktrans", "train"]
    for option in ctx.command.params:
        value = ctx.params.get(str(option.name))
        omitted = option.name in NOT_FOR_CANDIDATES or (option.name == "memory" and value == AUTO)
        if omitted or not _is_given(ctx, option.name):
            continue
        for argument in value if isinstance(value, (list, tuple)) else [value]:
            words += [option.opts[0], *([] if argument is True else [str(argument)])]
    return words


def _race(race: "Race", log_to: str | None, as_json: bool) -> None:
    """Run a race, and finish the run that has come furthest."""
    from stacktrans.settings.candidates import not_raced
    from stacktrans.showing.race import RaceDisplay, advice
    from stacktrans.training.records import BUDGET_OUTCOMES

    with race.opened():
        display = RaceDisplay(progress_console(), race)
        with _resumable(race), display:
            trainer = race.run_to_best(display.show)
        summary = _run(trainer, log_to, as_json, race.notes, race.close)
        if summary.outcome in {"development", *BUDGET_OUTCOMES}:
            config = trainer.config
            memories = {each.model.memory.name for each in race.configs.values()}
            memory = memories.pop() if len(memories) == 1 else None
            others = not_raced(config.task, race.state.candidates, memory)
            print_message(*advice(race.state, summary, config, others, race.directory))


@contextlib.contextmanager
def _resumable(training: "Trainer | Race") -> Iterator[None]:
    """Print how to resume an interrupted run; one on a text resumes where an epoch began."""
    from stacktrans.settings.command import resume_command
    from stacktrans.training.interrupts import Interrupted
    from stacktrans.training.race import Race

    try:
        yield
    except Interrupted as stop:
        between = isinstance(training, Race) or training.source.resumable
        saved = "saved" if between else "saved as it was when this epoch began"
        print_message(f"{saved}; resume with: {shell_text(resume_command(training.directory))}")
        raise typer.Exit(stop.exit_code) from None


def _check_resumes_as_it_is(ctx: typer.Context) -> None:
    """Raise `UsageError` if an option is given that changes a run."""
    allowed = {"resume", "max_steps", "time_limit", "budget", "workers", "dry_run", "device"}
    allowed |= {"as_json", "log_to", "plugin"}
    if any(_is_given(ctx, name) for name in ctx.params.keys() - allowed):
        raise UsageError(
            "--resume continues a run as it is; only --max-steps, --time-limit, --device, "
            "--log-to, --json, --plugin, --dry-run and, of a race, --budget and --workers can be "
            "given"
        )


def _is_given(ctx: typer.Context, name: str | None) -> bool:
    """Whether an option was given on the command line."""
    source = ctx.get_parameter_source(str(name))
    return source is not None and source.name == "COMMANDLINE"


def _run(
    trainer: "Trainer",
    log_to: str | None,
    as_json: bool,
    shown: Sequence[str] = (),
    close: Callable[[], None] = lambda: None,
) -> "Summary":
    """Train a run with a progress display, close it, and print the summary.

    Notes that were shown before are not shown again.
    """
    from stacktrans.showing.training import LanguageDisplay, TrainingDisplay, summary_view
    from stacktrans.training.interrupts import stopping
    from stacktrans.training.loggers import logger

    console, directory = progress_console(), str(trainer.directory)
    display_class = LanguageDisplay if trainer.config.task.lengths is None else TrainingDisplay
    count = trainer.state.attempt.model.parameter_count
    notes = [note for note in trainer.source.notes if note not in shown]
    display = display_class(console, trainer.config, count, directory, notes)
    logging = logger(log_to, trainer.directory) if log_to else contextlib.nullcontext()
    with _resumable(trainer), stopping(trainer), display, logging as log:

        def listener(record: "Record") -> None:
            display.show(record)
            if log:
                log(record)

        summary = trainer.run(listener)
    close()
    if as_json:
        print_json({**asdict(summary), "directory": directory})
    else:
        print_out(summary_view(summary, trainer.config, directory))
    return summary
