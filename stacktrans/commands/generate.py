"""The command `generate`: pairs of a task."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from stacktrans.commands import completion
from stacktrans.commands.options import TASK, DepthOption, parse_lengths
from stacktrans.commands.terminal import print_data
from stacktrans.common.errors import check_positive


def generate(
    task: Annotated[str, TASK],
    count: Annotated[int, typer.Option(help="Number of pairs.")] = 10,
    lengths: Annotated[
        str | None,
        typer.Option(metavar="A:B", help="Source lengths. Default: the task's training lengths."),
    ] = None,
    depth: DepthOption = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Change one setting of the task, named as in its file; may be repeated.",
            autocompletion=completion.settings_of_a_task,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 1,
    format: Annotated[Literal["tsv", "jsonl"], typer.Option(help="Output format.")] = "tsv",
    out: Annotated[
        Path | None, typer.Option(help="Write to this file, whole or not at all.")
    ] = None,
) -> None:
    """Write pairs of a task: a source and its exact answer on each line.

    Pairs are printed, or written to a file with --out. The same seed gives the same pairs, and
    a longer list begins with the shorter one.

        stacktrans generate --task reverse --count 3 --lengths 5:8 --seed 1
        stacktrans generate --task copy --count 1000 --format jsonl --out a.jsonl
        stacktrans generate --task parenthesis --depth 12
        stacktrans generate --task copy --set parameters.symbols=1000
    """
    from stacktrans.common.files import write_atomically
    from stacktrans.inference.evaluation import ranges
    from stacktrans.settings.resolve import load_task
    from stacktrans.tasks import make_task
    from stacktrans.tasks.base import drawn_pairs
    from stacktrans.tasks.lines import format_pair

    check_positive(**{"--count": count, "--depth": depth})
    config = load_task(task, set_ or [])
    maker = make_task(config.name, config.generator, config.parameters)
    given_bounds = [parse_lengths(lengths)] if lengths else []
    ((bounds, law),) = ranges(config, maker, given_bounds, [config.ranges.train], depth)
    pairs = drawn_pairs(maker, bounds, count, seed, law)
    lines = (format_pair(maker, pair, format) for pair in pairs)
    if out:
        write_atomically(out, "".join(f"{line}\n" for line in lines))
    else:
        for line in lines:
            print_data(line)
