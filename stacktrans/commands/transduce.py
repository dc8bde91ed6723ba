"""The command `transduce`: print a model's answer to each line of files or stdin."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stacktrans.commands import options
from stacktrans.commands.terminal import print_data, print_json, print_text
from stacktrans.common.errors import UsageError, check_positive, shown
from stacktrans.common.messages import print_message
from stacktrans.common.visible import counted

if TYPE_CHECKING:
    from stacktrans.inference.transduction import AnsweredBatch, AnsweredLine

NOT_ENDED = "the answer did not end, and is cut off (see --max-length)"
ONE_ANSWER = "outputs are not fed back, so each line has a single answer"
PANELS = {
    "Models": "ensemble hard device workers plugin",
    "Answers": "max_length beam n_best",
    "Output": "everything probability as_json",
}


def transduce(
    checkpoint: options.CheckpointName,
    files: Annotated[list[Path] | None, typer.Argument(metavar="FILE")] = None,
    max_length: int | None = None,
    beam: options.Beam = None,
    n_best: int | None = None,
    everything: Annotated[bool, typer.Option("--all")] = False,
    probability: bool = False,
    ensemble: bool = False,
    hard: options.Hard = False,
    device: options.Device = "auto",
    workers: options.Workers = 1,
    as_json: options.Json = False,
) -> None:
    """Transduce strings: one line in, one line out, in order.

    A line that can't be transduced is reported on stderr, and its output is an empty
    line; the exit code is then 1. An empty line stays empty, unless the model labels
    strings. An answer that the model did not end is cut off and reported, too; the
    exit code is then 1 unless --max-length is given, or the model is a language model.
    Symbols that are unknown to a model of pairs in files or of a text are no error,
    since it has learned to read them as `<unk>`; their number is reported at the end.

    Answers are greedy, the most probable symbol at each step, unless --beam K searches for the
    most probable answer as a whole. --json then has the K best hypotheses, each with its log
    probability, which is not divided by the length. --beam 1 is greedy, and so is any beam if
    the model does not feed its outputs back, as in synchronous tasks.

    With --n-best N, each line has the N most probable answers that a beam finds, the best first:
    lines of the source, the rank, the answer and its log probability, separated by tabs. There are
    fewer if the model has fewer, and none for an empty line, or one that can't be transduced.

    In synchronous tasks, which have an output for each input, a line that arrives in parts is
    answered in parts, with · for each symbol that is not determined, and so not scored; --json has
    the model's output instead, and marks which symbols are scored. A language model continues the
    sentence; --json then has the most probable words after each word, and the perplexity of the
    line.

        echo hello | stacktrans transduce checkpoints/reverse-stack
        stacktrans transduce checkpoints/copy-queue words.txt > copies.txt
        echo hello | stacktrans transduce checkpoints/reverse-stack --json
        stacktrans transduce checkpoints/reverse-stack words.txt --probability
        echo hello | stacktrans transduce checkpoints/reverse-stack --beam 4 --json
        echo hello | stacktrans transduce checkpoints/reverse-stack --n-best 3
        stacktrans transduce runs/a runs/b runs/c --ensemble < words.txt

    Args:
        files: Files of lines; - for stdin. Default: stdin. With --ensemble, further checkpoints.
        max_length: Cut answers off after this many symbols. Default: twice the length of the
            longest targets in training for a source of that length, plus 20; for streams and texts,
            the length that their answers can be expected to need. Not for synchronous tasks.
        n_best: Print the N most probable answers to each line, found with a beam of N unless --beam
            is given; with --json, no other hypotheses.
        everything: Also print the model's output for symbols that are not scored.
        probability: Also print the probability of each answer, after a tab.
        ensemble: Average the probabilities of symbols of several checkpoints, which take the place
            of FILE.
    """
    from stacktrans.common.reading import STDIN, check_uncompressed
    from stacktrans.decoding.beam import beam_width
    from stacktrans.inference.transduction import AnswerOptions, transduce_lines
    from stacktrans.model.checkpoint import ensemble_of

    check_positive(**{"--max-length": max_length, "--beam": beam, "--n-best": n_best})
    options.check_exclusive({"--n-best": n_best, "--probability": probability})
    width = beam_width(beam, n_best, "--")
    names = [checkpoint, *map(str, files or [])] if ensemble else [checkpoint]
    inputs = [STDIN] if ensemble else files or [STDIN]
    for path in inputs:
        if path != STDIN:
            check_uncompressed(path)
    models = [options.load_model(name, device, hard, workers) for name in names]
    loaded = ensemble_of(models) if ensemble else models[0]
    if max_length and not (loaded.layout.feeds_back or loaded.layout.ends_answers):
        raise UsageError("--max-length: there is an output for each input")
    if n_best and n_best > 1 and not loaded.layout.feeds_back:
        print_message(f"--n-best {n_best}: {ONE_ANSWER}")
    full = as_json or probability or n_best is not None
    answer_options = AnswerOptions(max_length, not (everything or as_json), width, n_best, full)
    show = _print_json if as_json else _print_hypotheses if n_best else _print_answer
    # The continuation of a text has no right length.
    strict = max_length is None and loaded.config.task.lengths is not None
    failed = [
        _show_answers(transduce_lines(loaded, descriptor, answer_options, name), name, show, strict)
        for descriptor, name in _opened(inputs)
    ]
    if any(failed):
        raise typer.Exit(1)


def _show_answers(
    lines: "Iterator[AnsweredLine | AnsweredBatch]",
    name: str,
    show: "Callable[[AnsweredLine], None]",
    strict: bool,
) -> bool:
    """Show the answers to the lines of an input as they come; return whether one is missing.

    If `strict`, an answer that is cut off counts as missing.
    """
    from stacktrans.inference.transduction import AnsweredBatch

    failed, unknown = False, list[str]()
    for line in lines:
        if isinstance(line, AnsweredBatch):
            print_text(line.output)
            sys.stdout.flush()
            problems = [(number, NOT_ENDED) for number in line.unended]
        else:
            show(line)
            if line.last:
                sys.stdout.flush()
            unknown += (f"{shown(symbol)} in line {line.number}" for symbol in line.unknown)
            problem = line.error or (NOT_ENDED if line.ended is False else "")
            problems = [(line.number, problem)] if problem else []
        failed |= any(strict or problem != NOT_ENDED for _, problem in problems)
        for number, problem in problems:
            print_message(f"{name}:{number}: {problem}")
    if unknown:
        count = counted(len(unknown), "symbol")
        print_message(f"{name}: read {count} as unknown, the first {unknown[0]}")
    return failed


def _print_json(line: "AnsweredLine") -> None:
    print_json(line.as_json())


def _print_hypotheses(line: "AnsweredLine") -> None:
    for rank, (text, log_probability, _) in enumerate(line.hypotheses or [], start=1):
        print_data(f"{line.source}\t{rank}\t{text}\t{log_probability:.6f}")


def _print_answer(line: "AnsweredLine") -> None:
    """Print an answer, and its probability if that is known."""
    probability = "" if line.probability is None else f"\t{line.probability:.6f}"
    print_data(f"{line.output or ''}{probability}", end="\n" if line.complete else "")


def _opened(paths: list[Path]) -> Iterator[tuple[int, str]]:
    """The descriptor and the name of each input."""
    from stacktrans.common.reading import STDIN, name_of, open_file

    for path in paths:
        if path == STDIN and sys.stdin.isatty():
            print_message("answers each line that you type; end with Ctrl-D")
        with contextlib.nullcontext(sys.stdin) if path == STDIN else open_file(path) as stream:
            yield stream.fileno(), name_of(path)
