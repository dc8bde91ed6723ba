"""Descriptions of a run in words: what it starts from, ends by, and is measured on."""

from pathlib import Path

from stacktrans.common.reading import name_of
from stacktrans.common.visible import counted
from stacktrans.settings.config import RunConfig, StartFromConfig
from stacktrans.training.records import OUTCOMES


def started_from(start_from: StartFromConfig) -> str:
    """The checkpoint that a run starts from, and counts of its symbols, in words."""
    source, target = start_from.source_symbols, start_from.target_symbols
    became = (
        f"symbols: {source}" if source == target else f"of sources: {source}; of targets: {target}"
    )
    return f"starts from {start_from.checkpoint} (SHA-256 {start_from.sha256[:12]}); {became}"


def rule_of(config: RunConfig, outcome: str) -> str:
    """The meaning of a key of `OUTCOMES`, with the numbers of the configuration."""
    solved = config.training.solved
    return OUTCOMES[outcome][1].format(
        accuracy=f"{100 * solved.accuracy:g}%", measurements=counted(solved.times, "measurement")
    )


def briefly(outcome: str) -> str:
    """A key of `OUTCOMES` in a word or two."""
    return OUTCOMES.get(outcome, (outcome,))[0]


def decided_by(config: RunConfig) -> str:
    """A description of what decides when a run stops, and which weights are best."""
    by = _ended_by(config)
    if not config.is_rounded:
        return by
    pairs = "the development set" if config.has_pair_files else "validation strings of both ranges"
    return f"{by}; rounding and pruning: {pairs}"


def _ended_by(config: RunConfig) -> str:
    training = config.training
    if config.task.lengths is None:
        return "the perplexity of the validation text"
    train, test = config.task.lengths.train, config.task.lengths.test
    if training.stop and training.stop.converged:
        return "the training perplexity"
    if config.has_pair_files:
        files, measured = config.task.parameters, "accuracy on the development set"
        if files["dev"] is None:
            return f"{measured}, a tenth of {name_of(Path(files['train']))}, drawn at random"
        return f"{measured}, {name_of(Path(files['dev']))}"
    fresh = f"{training.measure.strings} fresh validation strings"
    if training.stream:
        return f"the loss on {fresh} of lengths {train}, drawn anew after each epoch"
    if training.examples:
        count = training.examples.development
        return f"{count} development strings of lengths {train}, drawn once"
    also = f" and some of lengths {train}" if training.solved.ranges == "both" else ""
    return f"{fresh} of lengths {test}{also}, drawn anew each time"


def reported_on(config: RunConfig) -> str:
    """A description of what the measurements in a run's summary are made on."""
    if config.task.lengths is None:
        return "the test text, which decides nothing, and the validation text"
    test, examples = config.task.lengths.test, config.training.examples
    if config.has_pair_files:
        others = "the development set, and pairs that were trained on"
        return f"the test set, which decides nothing, {others}"
    if examples:
        drawn = f"{examples.test} test strings of lengths {test}, which decide nothing"
        return f"{drawn}, the development strings, and those that were trained on"
    return "other strings, drawn for the summary alone"
