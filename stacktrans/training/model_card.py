"""Model cards in Markdown: task, example commands, training and accuracy of a model."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from stacktrans.common.randomness import Purpose, generator
from stacktrans.common.visible import markdown_table, markdown_text, shell_text, visible
from stacktrans.decoding.decoder import decode
from stacktrans.model.checkpoint import Checkpoint
from stacktrans.model.description import model_line
from stacktrans.settings.config import RunConfig
from stacktrans.settings.resolve import strategies
from stacktrans.tasks.lengths import Lengths

LONGEST_EXAMPLE = 100
"""Largest number of symbols of the source in an example."""
ACCURACIES = """\
Coarse: the share of strings that are right from first to last symbol. Fine: the mean
share of a string before its first error. Symbols: the share of scored symbols."""
MEASURES = {"coarse": ".3f", "fine": ".3f", "symbols": ".4f"}
"""The columns of accuracies, and the formats of their cells."""
_PLAIN = re.compile(r"'?[A-Za-z0-9+= ]+'?")


def model_card(
    checkpoint: Checkpoint,
    summary: Mapping[str, Any],
    directory: str | Path,
    *,
    source: str | None = None,
    evaluations: Sequence[Mapping[str, Any]] = (),
    license: str | None = None,
) -> str:
    """The model card of a checkpoint.

    Args:
        checkpoint: the trained model.
        summary: summary of its run, as in `summary.json`.
        directory: directory of the model in the example commands.
        source: source of the example, as text; by default, a sample of the task.
        evaluations: other measurements of its accuracy, as in `eval --json`.
        license: license of the model; left out if there is none.
    """
    config = checkpoint.config
    count = sum(weight.size for weight in checkpoint.weights.values())
    paragraphs = [
        f"# {markdown_text(config.task.name)}, memory {markdown_text(config.model.memory.name)}",
        f"Task: {markdown_text(config.task.description)}" if config.task.description else "",
        f"{markdown_text(model_line(config))}; {count:,} parameters.",
        _console(*_use(checkpoint, shell_text([str(directory)]), source)),
        "## Training",
        _console(f"$ {summary['command']}") if summary["command"] else "",
        _training(config, summary),
        "## Accuracy",
        _accuracies(checkpoint, summary, evaluations),
        f"## License\n\n{license}" if license else "",
    ]
    return "\n\n".join(part for part in paragraphs if part) + "\n"


def _use(checkpoint: Checkpoint, directory: str, source: str | None) -> Iterator[str]:
    """Example commands, and the answer of `transduce`."""
    yield f"$ stacktrans eval {directory}"
    alphabet = checkpoint.task.source
    symbols = _sample(checkpoint) if source is None else alphabet.split(source)
    if not 0 < len(symbols) <= LONGEST_EXAMPLE:
        return
    (answer,) = decode(checkpoint.predictor, checkpoint.layout, [alphabet.encode(symbols)])
    written = alphabet.join(symbols)
    source, dashes = shell_text([written]), "-- " if written.startswith("-") else ""
    command = "echo" if _PLAIN.fullmatch(source) else "printf '%s\\n'"
    yield f"$ {command} {source} | stacktrans transduce {directory}"
    yield checkpoint.task.target.join(checkpoint.task.target.decode(answer.target))
    yield f"$ stacktrans inspect {directory} {dashes}{source}"


def _sample(checkpoint: Checkpoint) -> list[str]:
    """The symbols of a short training source; none for pairs in files."""
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
    items = [
        f"Lengths of sources: {lengths.train}" if lengths else "",
        *(markdown_text(note) for note in summary.get("notes", ())),
        f"Seed: {summary['seed']}",
        f"Strategy: {config.recipe}: {strategy.idea}{won}" if strategy else "",
        f"Ended after {summary['steps']:,} batches, in attempt {summary['attempts']}: "
        f"{markdown_text(summary['rule'])}",
        markdown_text(f"Versions: stacktrans {summary['version']}, torch {summary['torch']}"),
    ]
    return "\n".join(f"- {part}" for part in items if part)


def _accuracies(
    checkpoint: Checkpoint, summary: Mapping[str, Any], evaluations: Sequence[Mapping[str, Any]]
) -> str:
    """A table of accuracies, with a legend; or of perplexities, for a text."""
    if texts := summary.get("texts"):
        of_texts = (
            (markdown_text(name), text["symbols"], f"{text['perplexity']:.2f}")
            for name, text in texts.items()
        )
        return markdown_table(["text", "symbols", "perplexity"], of_texts)
    config, ranges, rows = checkpoint.config, checkpoint.config.task.ranges, list[list[str]]()
    for part, lengths in (("train", ranges.train), ("test", ranges.test)):
        if accuracy := summary.get(part):
            own = "training set" if part == "train" else "test set"
            of_a_set = config.has_pair_files or (part == "train" and config.training.examples)
            which = own if of_a_set else "new at the end of the run"
            rows.append(_row(f"{which}, lengths {lengths}", accuracy))
    if accuracy := summary.get("hard"):
        rows.append(_row(f"the same, hard, lengths {ranges.test}", accuracy))
    for evaluation in evaluations:
        hard = ", hard" if evaluation.get("hard") else ""
        for accuracy in evaluation["results"]:
            drawn = f"`eval --seed {evaluation['seed']}`, lengths {Lengths(*accuracy['lengths'])}"
            rows.append(_row(f"{drawn}{hard}", accuracy))
    return f"{ACCURACIES}\n\n{markdown_table(['strings', 'count', *MEASURES], rows)}"


def _row(strings: str, accuracy: Mapping[str, Any]) -> list[str]:
    cells = (f"{accuracy[key]:{form}}" if key in accuracy else "" for key, form in MEASURES.items())
    return [strings, str(accuracy["count"]), *cells]


def _console(*lines: str) -> str:
    """A code block with the lines of a terminal."""
    return "\n".join(["```console", *map(visible, lines), "```"])
