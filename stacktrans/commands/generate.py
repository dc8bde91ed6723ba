"""The command `generate`: draw pairs of a task, a source and its answer on each line."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from stacktrans.commands import completion, options
from stacktrans.commands.terminal import print_data
from stacktrans.common.errors import UsageError, check_positive
from stacktrans.common.files import check_outputs

PANELS = {"Data": "task set_ plugin", "Strings": "lengths count depth seed", "Output": "format out"}


def generate(
    task: Annotated[str, options.TASK],
    count: int = 10,
    lengths: options.LengthRange = None,
    depth: options.Depth = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", autocompletion=completion.settings_of_a_task),
    ] = None,
    seed: options.Seed = 1,
    format: Literal["tsv", "jsonl"] | None = None,
    out: options.File = None,
) -> None:
    """Write pairs of a task: a source and its exact answer on each line.

    Pairs are printed, or written to a file with --out. The same seed gives the same pairs, and
    a longer list begins with the shorter one.

        stacktrans generate --task reverse --count 3 --lengths 5:8 --seed 1
        stacktrans generate --task copy --count 1000 --out a.jsonl.gz
        stacktrans generate --task copy --format jsonl
        stacktrans generate --task parenthesis --depth 12
        stacktrans generate --task copy --set parameters.symbols=1000

    Args:
        count: Number of pairs.
        lengths: Source lengths, as the task counts them: n for anbn, for instance. Default: the
            task's training lengths.
        set_: Change a setting of the task, by its name in the file; may be repeated.
        seed: Random seed.
        format: Output format, tsv or jsonl. Default: jsonl if --out ends in .jsonl, tsv otherwise.
        out: Write to this file, atomically, and compressed if it ends in .gz.
    """
    from stacktrans.settings.task_files import find_task, load_task
    from stacktrans.tasks.base import draw_pairs
    from stacktrans.tasks.lines import format_pair, pair_format_of, write_lines
    from stacktrans.tasks.pairs import Pairs

    check_positive(**{"--count": count, "--depth": depth})
    if format == "tsv" and out and pair_format_of(out) == "jsonl":
        raise UsageError(f"--format tsv: the name of {out} is that of a file of JSON lines")
    form = format or pair_format_of(out or Path())
    config = load_task(task, set_ or [], seed)
    made = config.make()
    if out:
        read = made.request.files() if isinstance(made, Pairs) else ()
        check_outputs([out], [find_task(task), *read])
    given = None if lengths is None else options.parse_lengths(lengths)
    bounds, law = config.range_of(made, given, depth, config.ranges.train)
    lines = (format_pair(made, pair, form) for pair in draw_pairs(made, bounds, count, seed, law))
    if out:
        write_lines(out, lines)
    else:
        for line in lines:
            print_data(line)
