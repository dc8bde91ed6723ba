"""The command `transduce`: a line in, a line out."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from stacktrans.commands.options import (
    BeamOption,
    CheckpointArgument,
    DeviceOption,
    HardOption,
    JsonOption,
    WorkersOption,
    load_model,
)
from stacktrans.commands.terminal import print_data, print_json, print_text
from stacktrans.common.errors import check_positive
from stacktrans.common.messages import print_message
from stacktrans.common.reading import Unreadable

NOT_ENDED = "the model did not end its answer, which is cut off (see --max-length)"


def transduce(
    checkpoint: CheckpointArgument,
    files: Annotated[list[Path] | None, typer.Argument(metavar="FILE")] = None,
    max_length: int | None = None,
    beam: BeamOption = None,
    everything: Annotated[bool, typer.Option("--all")] = False,
    hard: HardOption = False,
    device: DeviceOption = "auto",
    workers: WorkersOption = 1,
    as_json: JsonOption = False,
) -> None:
    """Transduce strings: one line in, one line out, in order.

    A line that can't be transduced is reported on stderr and leaves an empty line
    in its place; the exit code is then 1. An empty line stays empty. An answer that
    the model did not end is cut off and reported, too; the exit code is then 1
    unless --max-length is given, or the model is of a text.

    Answers are greedy, the most probable symbol at each step, unless --beam K searches for the
    most probable answer as a whole. --json then has the K best that were found, each with the
    logarithm of its probability, which is not divided by the length. --beam 1 is greedy, and so
    is any beam where the model does not read its own answer, as in tasks with an answer to each
    symbol.

    Where the task has an answer to each symbol, a line that arrives bit by bit is answered bit
    by bit, with · for each symbol that can't be known and is not scored; --json has the model's
    output there, and says which symbols are scored. A model of text continues the sentence;
    --json then has the likeliest words after each word, and the perplexity of the line.

        echo hello | stacktrans transduce checkpoints/reverse-stack
        stacktrans transduce checkpoints/copy-queue words.txt > copies.txt
        echo hello | stacktrans transduce checkpoints/reverse-stack --json
        echo hello | stacktrans transduce checkpoints/reverse-stack --beam 4 --json

    Args:
        files: Files; - for stdin. Default: stdin.
        max_length: Cut answers off after so many symbols. Default: twice the length of the longest
            targets in training for a source of that length, plus 20; of streams and texts, what
            their answers can be expected to need. Not for answers that are given in step with
            sources.
        everything: Also print the model's output where nothing is scored.
    """
    from stacktrans.common.reading import STDIN, check_readable
    from stacktrans.inference.transduction import AnswerOptions, transduce_lines

    check_positive(**{"--max-length": max_length, "--beam": beam})
    inputs = files or [STDIN]
    for path in inputs:
        if path != STDIN:
            check_readable(path)
    loaded = load_model(checkpoint, device, hard, workers)
    options = AnswerOptions(max_length, not (everything or as_json), beam, full=as_json)
    # The continuation of a text has no length that would be right.
    strict = max_length is None and loaded.config.task.lengths is not None
    failed = [
        _failed(transduce_lines(loaded, descriptor, options), name, as_json, strict)
        for descriptor, name in _opened(inputs)
    ]
    if any(failed):
        raise typer.Exit(1)


def _failed(lines: Iterator[Any], name: str, as_json: bool, strict: bool) -> bool:
    """Print the answers to the lines of an input as they come; whether one has none.

    If `strict`, an answer that is cut off counts as none.
    """
    failed = False
    try:
        for line in lines:
            if hasattr(line, "unended"):  # several, of which each has an answer
                print_text(line.output)
                sys.stdout.flush()
                unended = line.unended
            else:
                if as_json:
                    print_json(line.as_json())
                else:
                    print_data(line.output or "", end="\n" if line.complete else "")
                if line.last:
                    sys.stdout.flush()
                if line.error:
                    failed = True
                    print_message(f"{name}:{line.number}: {line.error}")
                unended = [line.number] if line.ended is False and not line.error else []
            failed |= strict and bool(unended)
            for number in unended:
                print_message(f"{name}:{number}: {NOT_ENDED}")
    except Unreadable as error:
        raise Unreadable(f"{name}: {error}") from error
    return failed


def _opened(paths: list[Path]) -> Iterator[tuple[int, str]]:
    """The descriptor and the name of each input."""
    from stacktrans.common.reading import STDIN, name_of, opened

    for path in paths:
        with contextlib.nullcontext(sys.stdin) if path == STDIN else opened(path) as stream:
            yield stream.fileno(), name_of(path)
