"""The command line: parses, calls and shows.

Nothing heavy is imported at the top: `--help` must answer at once.
"""

import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stacktrans import completion
from stacktrans.application import INTERRUPTED, app, command
from stacktrans.catalogue.command import list as list_
from stacktrans.errors import UsageError
from stacktrans.names import ControllerName, MemoryName
from stacktrans.options import (
    CheckpointArgument,
    DepthOption,
    DeviceOption,
    HardOption,
    JsonOption,
    PairFormat,
    TaskOption,
    check_positive,
    either,
    find_device,
    given,
    parse_lengths,
    parse_numbers,
    parse_seconds,
)
from stacktrans.sweeps.command import sweep
from stacktrans.terminal import (
    complain,
    open_standard_streams,
    output_width,
    print_data,
    print_json,
    print_out,
    progress_console,
)
from stacktrans.visible import shell_text

if TYPE_CHECKING:
    from stacktrans.checkpoint import Checkpoint
    from stacktrans.evaluation import Scores
    from stacktrans.settings import Layer
    from stacktrans.tasks.base import Lengths, Task
    from stacktrans.trace import Trace
    from stacktrans.training import Trainer

__all__ = ["app", "main"]


@command
def generate(
    task: TaskOption,
    count: Annotated[int, typer.Option(help="How many pairs.")] = 10,
    lengths: Annotated[
        str | None,
        typer.Option(
            metavar="A:B", help="Source lengths; the task's training lengths if not given."
        ),
    ] = None,
    depth: DepthOption = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Change one setting of the task, as its file has them; may be repeated.",
            autocompletion=completion.settings_of_a_task,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Which pairs.")] = 1,
    format: Annotated[PairFormat, typer.Option(help="How to write them.")] = PairFormat.tsv,
    out: Annotated[
        Path | None, typer.Option(help="Write to this file, whole or not at all.")
    ] = None,
) -> None:
    """Write pairs of a task: a source and its exact answer on each line.

    They are printed, or written to a file. The same seed gives the same pairs, and a longer list
    begins with the shorter one.

        stacktrans generate --task reverse --count 3 --lengths 5:8 --seed 1
        stacktrans generate --task copy --count 1000 --format jsonl --out a.jsonl
        stacktrans generate --task parenthesis --depth 12
        stacktrans generate --task copy --set parameters.symbols=1000
    """
    from stacktrans.files import write_atomically
    from stacktrans.measuring import ranges
    from stacktrans.resolution import load_task
    from stacktrans.tasks import make_task

    check_positive("--count", count)
    config = load_task(task, set_ or [])
    maker = make_task(config.name, config.generator, config.parameters)
    given_bounds = [parse_lengths(lengths)] if lengths else []
    ((bounds, law),) = ranges(config, maker, given_bounds, [config.ranges.train], depth)
    lines = _pair_lines(maker, bounds, law, count, seed, format.value)
    if out:
        write_atomically(out, "".join(f"{line}\n" for line in lines))
    else:
        for line in lines:
            print_data(line)


def _pair_lines(
    task: "Task", lengths: "Lengths", law: Any, count: int, seed: int, form: Any
) -> Iterator[str]:
    from stacktrans.randomness import Purpose, generator
    from stacktrans.text import format_pair

    # Drawn in blocks, so that a longer list begins with the shorter one.
    block = 100
    for start in range(0, count, block):
        rng = generator(seed, Purpose.GENERATION, start)
        for pair in task.sample(rng, lengths, block, law)[: count - start]:
            yield format_pair(task, pair, form)


@command
def train(
    task: Annotated[
        str | None,
        typer.Option(
            help="What to learn: copy, reverse, parenthesis, ... (stacktrans list tasks), or a "
            "YAML file.",
            autocompletion=completion.tasks,
        ),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            help=f"What to learn it with: {either(MemoryName)}.",
            autocompletion=completion.memories,
        ),
    ] = None,
    controller: Annotated[
        str | None,
        typer.Option(
            help=f"What operates the memory: {either(ControllerName)}; as the recipe says.",
            autocompletion=completion.controllers,
        ),
    ] = None,
    hidden: Annotated[
        int | None, typer.Option(help="Units of the controller; as the recipe says.")
    ] = None,
    memory_size: Annotated[
        int | None, typer.Option(help="Size of a pushed vector; as the recipe says.")
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
            help="default, which is taken if none is given: small, quick and sure; stops when "
            "solved. paper: the settings of the paper that the task is from.",
            autocompletion=completion.recipes,
        ),
    ] = None,
    text: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Learn the language of a text: train.txt, valid.txt and test.txt, a sentence a "
            "line.",
        ),
    ] = None,
    config: Annotated[
        str | None, typer.Option(help="Settings from a YAML file, such as a run's config.yaml.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Change one setting (stacktrans list settings); may be repeated.",
            autocompletion=completion.settings_of_a_run,
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Which random numbers; 1 if not given.")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            help="Processes. With more than one, the starts that would be next are trained at "
            "the same time, in case the first does not take off; what comes out is the same."
        ),
    ] = None,
    max_steps: Annotated[
        int | None, typer.Option(help="Stop after this many batches; as the recipe says.")
    ] = None,
    time_limit: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Stop after this much training: 90s, 5m, 1h30m; never if not given. It is the "
            "run's total, with what was trained before it was resumed.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The run's directory; checkpoints/... if not given.")
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Go on with an interrupted run.",
            autocompletion=completion.runs,
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Print the configuration, as --config reads it; train and write nothing.",
        ),
    ] = False,
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Train a transducer, live.

    Writes a directory with the resolved configuration, the metrics, the best
    and the last checkpoint and a summary. Ctrl-C finishes the batch, saves, and
    says how to go on.

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
                "--resume goes on with a run as it is; only its budgets can be changed"
            )
        trainer = _resumed(resume, budgets, device)
    else:
        options = [
            *given("--seed", "seed", seed),
            *given("--workers", "workers", workers),
            *given("--memory", "model.memory", memory),
            *given("--controller", "model.controller", controller),
            *given("--hidden", "model.hidden_size", hidden),
            *given("--memory-size", "model.memory_size", memory_size),
            *given("--buffered", "model.buffered", buffered),
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


def _files_of(folder: Path) -> dict[str, str]:
    from stacktrans.corpora import find_files

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
    from stacktrans.resolution import resolve

    run = resolve(task=task, recipe=recipe, config=config, options=options, assignments=assignments)
    # Only then, so that what is wrong is told without waiting for torch.
    from stacktrans.runs import check_free, claim
    from stacktrans.trainers import trainer_for

    name = f"{run.task.name}-{run.model.memory}-{run.seed}"
    if out is not None:
        check_free(out)
    told = shell_text(["stacktrans", *sys.argv[1:]])
    # Nothing is written before everything that was asked for is known to be there.
    place = find_device(device)
    trainer = trainer_for(run)(run, Path(), place, command=told, rehearsal=dry_run)
    if not dry_run:
        trainer.directory = claim(out, name)
    return trainer


def _resumed(directory: Path, budgets: "list[Layer]", device: str) -> "Trainer":
    from stacktrans.checkpoint import read_config
    from stacktrans.runs import last_saved
    from stacktrans.trainers import trainer_for

    kind = trainer_for(read_config(last_saved(directory)))
    return kind.resume(directory, budgets, find_device(device))


def _run(trainer: "Trainer", as_json: bool) -> None:
    from stacktrans.display import TrainingDisplay, summary_table
    from stacktrans.language_display import LanguageDisplay, language_summary
    from stacktrans.runs import stopping
    from stacktrans.trainers import learns_text
    from stacktrans.training import Interrupted

    console, directory = progress_console(), str(trainer.directory)
    of_text = learns_text(trainer.config)
    kind = LanguageDisplay if of_text else TrainingDisplay
    display = kind(console, trainer.config, trainer.parameter_count, directory)
    try:
        with stopping(trainer), display:
            summary = trainer.run(display.show)
    except Interrupted as stop:
        again = shell_text(["stacktrans", "train", "--resume", directory])
        complain(f"saved; go on with: {again}")
        raise typer.Exit(stop.exit_code) from None
    if as_json:
        print_json({**asdict(summary), "directory": directory})
    elif of_text:
        print_out(language_summary(summary, directory))
    else:
        print_out(summary_table(summary, trainer.config, directory))


def _load(name: str, device: str, hard: bool) -> "Checkpoint":
    import torch

    from stacktrans.checkpoint import load

    checkpoint = load(name, find_device(device))
    torch.set_num_threads(checkpoint.config.threads)
    checkpoint.model.hard = hard
    return checkpoint


@command
def eval(
    checkpoint: CheckpointArgument,
    lengths: Annotated[
        list[str] | None,
        typer.Option(
            metavar="A:B",
            help="Source lengths; may be repeated. The task's own ranges if not given.",
        ),
    ] = None,
    count: Annotated[
        int | None,
        typer.Option(help="Strings of each range: 1000, or all of --data; of each length: 100."),
    ] = None,
    each: Annotated[
        bool, typer.Option("--each", help="Draw --count strings of every length there is.")
    ] = False,
    depth: DepthOption = None,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Pairs of your own, as generate writes them, in TSV or JSON lines; - for stdin.",
        ),
    ] = None,
    text: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Of a model of a text: the perplexity of this one, and not of those of its run.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Which strings.")] = 1,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw accuracy by length to a .png, .svg or .pdf file."),
    ] = None,
    hard: HardOption = False,
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Measure coarse and fine accuracy, and that of symbols.

    Coarse: the share of strings that are right from first to last symbol. Fine:
    the mean share of a string before its first error. Both with 95% intervals.
    Symbols: the share of all scored symbols that are right. Of a model of a
    text: the perplexity of the validation and the test text, or of --text.

        stacktrans eval checkpoints/copy-queue
        stacktrans eval checkpoints/reverse-stack --lengths 8:64 --lengths 200:200
        stacktrans eval checkpoints/copy-queue --data test.tsv --json
        stacktrans generate --task copy | stacktrans eval copy-queue --data -
        stacktrans eval checkpoints/parenthesis-lstm --depth 24
        stacktrans eval checkpoints/anbncn --lengths 2:60 --each --plot anbncn.svg
        stacktrans eval checkpoints/text-stack-rnn-1 --text more.txt
    """
    from stacktrans.display import model_line, scores_json, scores_tables
    from stacktrans.figures import check_picture
    from stacktrans.measuring import ranges, scores_of_data, scores_of_each, scores_of_range

    if count is not None:
        check_positive("--count", count)
    if plot:
        check_picture(plot)
    bounds = [parse_lengths(text) for text in lengths or []]
    if data and (depth is not None or each):
        raise UsageError(f"{'--each' if each else '--depth'}: of no use with --data")
    loaded = _load(checkpoint, device, hard)
    config = loaded.config.task
    if text or config.lengths is None:
        useless = {"--lengths": lengths, "--count": count, "--each": each, "--depth": depth}
        _refuse("with a text", {**useless, "--data": data, "--plot": plot})
        _show_perplexity(loaded, text, {"checkpoint": checkpoint, "hard": hard}, as_json)
        return
    if data:
        results = scores_of_data(loaded, data, bounds, count)
    else:
        usual = [config.ranges.train, config.ranges.test]
        scores_of = scores_of_each if each else scores_of_range
        results = [
            (range_, scores_of(loaded, range_, law, count or (100 if each else 1000), seed))
            for range_, law in ranges(config, loaded.task, bounds, usual, depth)
        ]
    if plot:
        _chart(results, loaded, plot)
    if as_json:
        facts = {
            "checkpoint": checkpoint,
            "task": config.name,
            "seed": seed,
            "hard": hard,
        }
        print_json({**facts, "results": scores_json(results, hard)})
    else:
        print_out(model_line(loaded.config), *scores_tables(results, hard))


def _refuse(where: str, options: dict[str, Any]) -> None:
    """Raise `UsageError` if one of some options, that are of no use here, is given."""
    for name, value in options.items():
        if value:
            raise UsageError(f"{name}: of no use {where}")


def _show_perplexity(
    checkpoint: "Checkpoint", file: Path | None, facts: dict[str, Any], as_json: bool
) -> None:
    from stacktrans.display import model_line
    from stacktrans.language import perplexities
    from stacktrans.language_display import perplexity_json, perplexity_table

    found = perplexities(checkpoint, file)
    if as_json:
        task = checkpoint.config.task.name
        print_json({**facts, "task": task, "results": perplexity_json(found)})
    else:
        print_out(model_line(checkpoint.config), perplexity_table(found))


def _chart(results: "list[tuple[Lengths, Scores]]", checkpoint: "Checkpoint", path: Path) -> None:
    from stacktrans.accuracy_chart import accuracy_chart
    from stacktrans.display import model_line
    from stacktrans.files import write_atomically

    trained = checkpoint.config.task.ranges.train
    write_atomically(path, accuracy_chart(results, trained, model_line(checkpoint.config), path))


@command
def transduce(
    checkpoint: CheckpointArgument,
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[FILE]...", help="Files, - for stdin; stdin if none."),
    ] = None,
    max_length: Annotated[
        int | None,
        typer.Option(help="Longest answer, in symbols; twice the source and 20 more if not given."),
    ] = None,
    everything: Annotated[
        bool,
        typer.Option("--all", help="Print what the model says where nothing is scored, too."),
    ] = False,
    hard: HardOption = False,
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Transduce strings: one line in, one line out, in order.

    A line that can't be transduced is named on stderr and leaves an empty line
    in its place; the exit code is then 1. An empty line stays empty. Where the task has an
    answer to each symbol, a line that is typed bit by bit is answered bit by bit, with · for
    each symbol that can't be known and is not scored; --json has what the model says there,
    and which symbols are scored.
    A model of a text goes on with the sentence; --json then has the probabilities
    of what could come after each word, and the perplexity of the line.

        echo hello | stacktrans transduce checkpoints/reverse-stack
        stacktrans transduce checkpoints/copy-queue words.txt > copies.txt
        echo hello | stacktrans transduce checkpoints/reverse-stack --json
    """
    from stacktrans.reading import check_readable
    from stacktrans.text import STDIN
    from stacktrans.transduction import transduce_lines

    if max_length is not None:
        check_positive("--max-length", max_length)
    for path in files or []:
        if path != STDIN:
            check_readable(path)
    loaded = _load(checkpoint, device, hard)
    failed = False
    for descriptor, name in _inputs(files):
        marked = not (as_json or everything)
        for line in transduce_lines(loaded, descriptor, max_length, as_json, marked):
            if as_json:
                print_json(line.as_json())
            else:
                print_data(line.output or "", end="\n" if line.complete else "")
            if line.last:
                sys.stdout.flush()
            if line.error:
                failed = True
                complain(f"{name}:{line.number}: {line.error}")
            elif line.ended is False:
                complain(f"{name}:{line.number}: the model did not end its answer; it is cut off")
    if failed:
        raise typer.Exit(1)


def _inputs(files: list[Path] | None) -> Iterator[tuple[int, str]]:
    from stacktrans.reading import opened
    from stacktrans.text import STDIN, name_of

    for path in files or [STDIN]:
        if path == STDIN:
            yield sys.stdin.fileno(), name_of(path)
            continue
        with opened(path) as stream:
            yield stream.fileno(), name_of(path)


@command
def inspect(
    checkpoint: CheckpointArgument,
    string: Annotated[
        str | None,
        typer.Argument(metavar="[STRING]", help="A source; a sample of the task if not given."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Which sample.")] = 1,
    lengths: Annotated[
        str | None, typer.Option(metavar="A:B", help="Length of the sample.")
    ] = None,
    heatmap: Annotated[
        bool, typer.Option("--heatmap", help="Show a picture, time across, and not a table.")
    ] = False,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the picture to a .png, .svg or .pdf file."),
    ] = None,
    stacks: Annotated[
        str | None,
        typer.Option(metavar="N,...", help="Show these of several stacks or lists alone."),
    ] = None,
    hard: HardOption = False,
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Look at what a model does with its memory, step by step.

    Each row is a step: the symbol read, the symbol said and its probability,
    the strength of each push and pop, and what is read back: the symbols whose
    pushed vectors the read is made of, with the step they were pushed at and
    their weights. Of stacks and lists whose cells are mixed by actions, each row shows the
    most probable action with its probability, and what the top or head then holds.

        stacktrans inspect checkpoints/reverse-stack hello
        stacktrans inspect checkpoints/copy-deque --json
        stacktrans inspect checkpoints/reversal-linear '0110####' --heatmap
        stacktrans inspect checkpoints/reverse-stack hello --plot hello.svg
    """
    from stacktrans.display import heat_map_view, trace_view
    from stacktrans.figures import check_picture
    from stacktrans.trace import of_stacks, trace

    if plot:
        check_picture(plot)
    numbers = None if stacks is None else parse_numbers("--stacks", stacks)
    bounds = parse_lengths(lengths) if lengths else None
    loaded = _load(checkpoint, device, hard)
    source = _sample(loaded, seed, bounds) if string is None else loaded.task.source.split(string)
    followed = trace(loaded, source)
    followed = of_stacks(followed, numbers) if numbers else followed
    if plot:
        _draw(followed, loaded, plot)
    if as_json:
        print_json(asdict(followed))
    elif heatmap:
        print_out(heat_map_view(followed, loaded.config, output_width()))
    else:
        print_out(trace_view(followed, loaded.config))


def _draw(followed: "Trace", checkpoint: "Checkpoint", path: Path) -> None:
    from stacktrans.display import model_line, picture_rows
    from stacktrans.files import write_atomically
    from stacktrans.picture import plot

    rows = picture_rows(followed, checkpoint.config)
    write_atomically(path, plot(followed, rows, model_line(checkpoint.config), path))


def _sample(checkpoint: "Checkpoint", seed: int, lengths: "Lengths | None") -> list[str]:
    from stacktrans.randomness import Purpose, generator
    from stacktrans.tasks.base import Lengths

    # Unless asked for, no longer than fits on a screen.
    shortest = checkpoint.config.task.ranges.train.shortest
    lengths = lengths or Lengths(shortest, 2 * shortest)
    law = checkpoint.config.task.law_of(lengths)
    pair = checkpoint.task.sample(generator(seed, Purpose.SAMPLE), lengths, 1, law)[0]
    return checkpoint.task.source.decode(pair.source)


command(sweep)
command(list_)


def main() -> None:
    """The entry point."""
    open_standard_streams()
    completion.prepare()
    try:
        app(prog_name=completion.PROGRAM)
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    except (OSError, UnicodeError) as error:  # in files of a shell, to install completion in
        complain(f"completion can't be installed: {error}")
        raise SystemExit(1) from None
