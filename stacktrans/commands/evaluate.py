"""The command `eval`: accuracy, or the perplexity of a text."""

from pathlib import Path
from typing import Annotated

import typer

from stacktrans.commands.options import (
    CheckpointArgument,
    DepthOption,
    DeviceOption,
    HardOption,
    JsonOption,
    load_model,
    parse_lengths,
)
from stacktrans.commands.terminal import print_json, print_out
from stacktrans.common.errors import UsageError, check_positive


def eval(
    checkpoint: CheckpointArgument,
    lengths: Annotated[
        list[str] | None,
        typer.Option(
            metavar="A:B",
            help="Source lengths; may be repeated. Default: the task's training and test lengths.",
        ),
    ] = None,
    count: Annotated[
        int | None,
        typer.Option(
            help="Number of strings: per range (default: 1000, or all of --data), or per length "
            "with --each (default: 100)."
        ),
    ] = None,
    each: Annotated[
        bool, typer.Option("--each", help="Draw --count strings of every available length.")
    ] = False,
    depth: DepthOption = None,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Your own pairs, as generate writes them, in TSV or JSON lines; - for stdin.",
        ),
    ] = None,
    text: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="For a model of text: the perplexity of this file, instead of its run's texts.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the strings.")] = 1,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw accuracy by length to a .png, .svg or .pdf file."),
    ] = None,
    hard: HardOption = False,
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Measure coarse, fine and symbol accuracy, or the perplexity of a text.

    Coarse accuracy is the share of strings that are right from first to last
    symbol, fine accuracy the mean share of a string before its first error,
    both with 95% intervals; symbol accuracy is the share of all scored symbols
    that are right. For a model of text, the perplexity of the validation and
    test texts, or of --text, is measured instead.

        stacktrans eval checkpoints/copy-queue
        stacktrans eval checkpoints/reverse-stack --lengths 8:64 --lengths 200:200
        stacktrans eval checkpoints/copy-queue --data test.tsv --json
        stacktrans generate --task copy | stacktrans eval copy-queue --data -
        stacktrans eval checkpoints/parenthesis-lstm --depth 24
        stacktrans eval checkpoints/anbncn --lengths 2:60 --each --plot anbncn.svg
        stacktrans eval checkpoints/text-stack-rnn-1 --text more.txt
    """
    from stacktrans.inference import evaluation
    from stacktrans.inference.perplexity import perplexities
    from stacktrans.model.description import model_line
    from stacktrans.showing import scores
    from stacktrans.showing.plots import check_plot, plot_accuracy
    from stacktrans.tasks.lines import name_of, read_pairs

    check_positive(**{"--count": count, "--depth": depth})
    if plot:
        check_plot(plot)
    bounds = [parse_lengths(range_) for range_ in lengths or []]
    if data and (depth is not None or each):
        raise UsageError(f"{'--each' if each else '--depth'}: cannot be used with --data")
    loaded = load_model(checkpoint, device, hard)
    config = loaded.config.task
    if text or config.lengths is None:
        given = {"--lengths": lengths, "--count": count, "--each": each, "--depth": depth}
        for name, value in {**given, "--data": data, "--plot": plot}.items():
            if value:
                raise UsageError(f"{name}: cannot be used with a text")
        measured = perplexities(loaded, text)
        if as_json:
            facts = {"checkpoint": checkpoint, "hard": hard, "task": config.name}
            print_json({**facts, "results": scores.perplexity_json(measured)})
        else:
            print_out(model_line(loaded.config), scores.perplexity_table(measured))
        return
    names: list[str] = []
    if data:
        pairs = read_pairs(data, loaded.task)[:count]
        results = evaluation.scores_of_pairs(loaded, pairs, bounds, name_of(data))
    elif loaded.task.paths:
        if depth is not None or each:
            raise UsageError(
                f"{'--each' if each else '--depth'}: cannot be used with pairs in files"
            )
        found = evaluation.scores_of_sets(loaded, bounds, count)
        names, results = [name for name, *_ in found], [(part, scores) for _, part, scores in found]
    else:
        usual = [config.ranges.train, config.ranges.test]
        results = [
            (range_, evaluation.scores_of_range(loaded, range_, law, count, seed, each))
            for range_, law in evaluation.ranges(config, loaded.task, bounds, usual, depth)
        ]
    if plot:
        plot_accuracy(results, config.ranges.train, model_line(loaded.config), plot)
    if as_json:
        facts = {"checkpoint": checkpoint, "task": config.name, "seed": seed, "hard": hard}
        print_json({**facts, "results": scores.scores_json(results, hard, names)})
    else:
        print_out(model_line(loaded.config), *scores.scores_tables(results, hard, names))
