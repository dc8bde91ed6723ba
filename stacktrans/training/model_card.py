"""Model cards in Markdown: task, training and accuracy of a model."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from stacktrans.common.randomness import Purpose, generator
from stacktrans.common.visible import shell_text, visible
from stacktrans.decoding.decoder import decode
from stacktrans.model.checkpoint import Checkpoint
from stacktrans.model.description import model_line
from stacktrans.settings.config import RunConfig
from stacktrans.settings.resolve import strategies
from stacktrans.tasks.base import Lengths

LONGEST_EXAMPLE = 100
"""Symbols of a source that is shown."""
_PLAIN = re.compile(r"'?[A-Za-z0-9+= ]+'?")
_MARKUP = re.compile(r"([\\`*_\[<|&])")


def model_card(
    checkpoint: Checkpoint,
    summary: Mapping[str, Any],
    directory: str | Path,
    *,
    source: str | None = None,
    evaluations: Sequence[Mapping[str, Any]] = (),
    licence: str | None = None,
) -> str:
    """The card of a model.

    Args:
        summary: how its run ended, as `summary.json` has it.
        directory: of the model in the examples.
        source: of the example, as it is written; a sample of the task unless given.
        evaluations: other measurements of its accuracy, as `eval --json` has them.
        licence: under which the model is passed on; nothing is said of it if there is none.
    """
    config = checkpoint.config
    count = sum(weight.size for weight in checkpoint.weights.values())
    paragraphs = [
        f"# {_text(config.task.name)}, memory {_text(config.model.memory.name)}",
        f"Task: {_text(config.task.description)}" if config.task.description else "",
        f"{_text(model_line(config))}; {count:,} parameters.",
        _console(*_use(checkpoint, shell_text([str(directory)]), source)),
        "## Training",
        _console(f"$ {summary['command']}") if summary["command"] else "",
        _training(config, summary),
        "## Accuracy",
        "\n".join(_accuracies(checkpoint, summary, evaluations)),
        f"## Licence\n\n{licence}" if licence else "",
    ]
    return "\n\n".join(part for part in paragraphs if part) + "\n"


def _use(checkpoint: Checkpoint, directory: str, source: str | None) -> Iterator[str]:
    """Commands to try, and what the first of them answers."""
    yield f"$ stacktrans eval {directory}"
    written = checkpoint.task.source
    symbols = _sample(checkpoint) if source is None else written.split(source)
    if not 0 < len(symbols) <= LONGEST_EXAMPLE:
        return
    (answer,) = decode(checkpoint.predictor, checkpoint.layout, [written.encode(symbols)])
    source = shell_text([written.join(symbols)])
    say = "echo" if _PLAIN.fullmatch(source) else "printf '%s\\n'"
    yield f"$ {say} {source} | stacktrans transduce {directory}"
    yield checkpoint.task.target.join(checkpoint.task.target.decode(answer.target))
    yield f"$ stacktrans inspect {directory} {'-- ' if source[0] == '-' else ''}{source}"


def _sample(checkpoint: Checkpoint) -> list[str]:
    """The symbols of a short source that is as those trained on; none of what is in files."""
    task = checkpoint.config.task
    if task.lengths is None or checkpoint.config.has_pair_files:
        return []
    lengths = task.lengths.train
    drawn = checkpoint.task.sample(generator(1, Purpose.SAMPLE), lengths, 8, task.law_of(lengths))
    return checkpoint.task.source.decode(min(drawn, key=lambda pair: len(pair.source)).source)


def _training(config: RunConfig, summary: Mapping[str, Any]) -> str:
    lengths, race, won = config.task.lengths, summary.get("race"), ""
    strategy = strategies().get(config.recipe)
    if race:
        how = "It won" if race["winner"] else "It came furthest in"
        won = f" {how} a race of {len(race['strategies'])} strategies."
    said = [
        f"Lengths of sources: {lengths.train}" if lengths else "",
        *(_text(note) for note in summary.get("notes", ())),
        f"Seed: {summary['seed']}",
        f"Strategy: {config.recipe}: {strategy.idea}{won}" if strategy else "",
        f"Ended after {summary['steps']:,} batches, in attempt {summary['attempts']}: "
        f"{_text(summary['rule'])}",
        f"Versions: stacktrans {_text(summary['version'])}, torch {_text(summary['torch'])}",
    ]
    return "\n".join(f"- {part}" for part in said if part)


def _accuracies(
    checkpoint: Checkpoint, summary: Mapping[str, Any], evaluations: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    """The lines of a table; one of perplexities for a model of a text."""
    if summary.get("texts"):
        yield from ("| text | symbols | perplexity |", "|---|---|---|")
        for name, found in summary["texts"].items():
            yield f"| {_text(name)} | {found['symbols']} | {found['perplexity']:.2f} |"
        return
    yield "Coarse: the share of strings that are right from first to last symbol. Fine: the mean"
    yield "share of a string before its first error. Symbols: the share of scored symbols."
    yield ""
    yield "| strings | count | coarse | fine | symbols |"
    yield "|---|---|---|---|---|"
    ranges = checkpoint.config.task.ranges
    config = checkpoint.config
    for part, lengths in (("train", ranges.train), ("test", ranges.test)):
        if found := summary.get(part):
            own = "training set" if part == "train" else "test set"
            of_a_set = config.has_pair_files or (part == "train" and config.training.examples)
            which = own if of_a_set else "new at the end of the run"
            yield _row(f"{which}, lengths {lengths}", found)
    if found := summary.get("hard"):
        yield _row(f"these once more, hard, lengths {ranges.test}", found)
    for evaluation in evaluations:
        hard = ", hard" if evaluation.get("hard") else ""
        for found in evaluation["results"]:
            lengths = Lengths(*found["lengths"])
            yield _row(f"`eval --seed {evaluation['seed']}`, lengths {lengths}{hard}", found)


def _row(strings: str, found: Mapping[str, Any]) -> str:
    symbols = f"{found['symbols']:.4f}" if "symbols" in found else ""
    coarse, fine = (f"{found[measure]:.3f}" for measure in ("coarse", "fine"))
    return f"| {strings} | {found['count']} | {coarse} | {fine} | {symbols} |"


def _console(*lines: str) -> str:
    """Lines of a terminal, as they are."""
    return "\n".join(["```console", *map(visible, lines), "```"])


def _text(words: str) -> str:
    """Words that mean nothing to Markdown."""
    return _MARKUP.sub(r"\\\1", visible(words))
