"""Validation strings, which decide when a run stops, are others than those in the summary."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from small_runs import SETTINGS
from sweep_plans import plan_of, records_of

from stacktrans.common.randomness import Purpose
from stacktrans.settings.resolve import resolve
from stacktrans.sweeps.table import caption, markdown
from stacktrans.tasks.encoding import Encoded, encode
from stacktrans.tasks.layout import Layout, Pair
from stacktrans.training.records import Summary
from stacktrans.training.rounding import ROUNDINGS, RoundingKind
from stacktrans.training.run_state import RunState
from stacktrans.training.sources import DataSource
from stacktrans.training.trainer import Trainer
from stacktrans.training.wording import decided_by, reported_on

SMALL = [
    setting for setting in SETTINGS if "parameters" not in setting and "lengths" not in setting
]


@pytest.mark.parametrize(
    ("task", "memory", "more"),
    [
        ("copy", "queue", ["accuracy_every=2", "solved.accuracy=0.001", "accuracy_loss=null"]),
        ("copy", "queue", ["stop={converged: {}}", "accuracy_every=2", "accuracy_loss=null"]),
        ("memorization", "stack-rnn", ["accuracy_every=2", "accuracy_loss=null", "rounding=null"]),
    ],
)
def test_the_test_set_decides_nothing(
    task: str, memory: str, more: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths = ["task.lengths.train=[30, 40]", "task.lengths.test=[41, 50]"]
    config = resolve(
        task=task,
        settings={"model": {"memory": memory}},
        assignments=[*SMALL, *lengths, *more, "max_steps=4"],
    )
    drawn: dict[Purpose, set[str]] = defaultdict(set)
    strings = DataSource.strings

    def watched(self: DataSource, purpose: Purpose, *arguments: Any) -> list[Pair]:
        pairs = strings(self, purpose, *arguments)
        drawn[purpose] |= {str(pair.source.tolist()) for pair in pairs}
        return pairs

    monkeypatch.setattr(DataSource, "strings", watched)
    trainer = Trainer(config, tmp_path, torch.device("cpu"), "command")
    summary = trainer.run(lambda _: None)
    kinds = [drawn[kind] for kind in (Purpose.TRAINING, Purpose.VALIDATION, Purpose.SUMMARY)]
    assert all(kinds)
    assert len(set.union(*kinds)) == sum(map(len, kinds))
    assert summary.decided_by == decided_by(config)
    assert (
        summary.reported_on == reported_on(config) == ("other strings, drawn for the summary alone")
    )


EXAMPLES = "examples={train: 12, development: 6, test: 5, epochs: 3}"
CERTAIN = (
    "rounding=quick",
    "settle.loss=1000",
    "restart=null",
    "accuracy_every=2",
    "accuracy_loss=null",
    "batch_size=4",
)
"""Settings with which runs settle, and are rounded and pruned when a rule has ended them."""


@pytest.mark.parametrize(
    ("outcome", "task", "more"),
    [
        ("converged", "copy", ["stop={converged: {patience: 1}}"]),
        ("development", "copy", ["stop={development: {patience: 1}}", EXAMPLES]),
        ("attempts", "memorization", ["stream={sequences: 8, epochs: 1, attempts: 1}"]),
    ],
)
def test_test_strings_were_not_seen_in_training(
    outcome: str, task: str, more: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    brief = RoundingKind(factor=2, batches=2, indecision=1e-9, max_rounds=2, keep_best=True)
    monkeypatch.setitem(ROUNDINGS, "quick", brief)
    config = resolve(
        task=task,
        recipe="paper" if outcome == "attempts" else None,
        settings={"model": {"memory": {"name": "stack-rnn", "count": 2}}},
        assignments=[
            *SMALL,
            "task.lengths.train=[30, 40]",
            "task.lengths.test=[41, 50]",
            *(["task.parameters.symbols=60"] if task == "memorization" else []),
            *CERTAIN,
            *more,
        ],
    )
    trainer = Trainer(config, tmp_path, torch.device("cpu"), "command")
    before, after = set[str](), set[str]()
    seen = before
    # Whatever is trained on or measured is encoded before.
    finish = RunState.summary

    def watched(layout: Layout, rows: Sequence[Sequence[Pair]], score_all: bool = False) -> Encoded:
        seen.update(str(pair.source.tolist()) for row in rows for pair in row)
        return encode(layout, rows, score_all)

    strings, drawn = DataSource.strings, list[tuple[Purpose, bool]]()

    def drawing(self: DataSource, purpose: Purpose, *arguments: Any) -> list[Pair]:
        drawn.append((purpose, seen is after))
        return strings(self, purpose, *arguments)

    def finishing(self: RunState, outcome: str) -> Summary:
        nonlocal seen
        seen = after
        return finish(self, outcome)

    monkeypatch.setattr(DataSource, "strings", drawing)
    for module in ("tasks.encoding", "inference.scores"):
        monkeypatch.setattr(f"stacktrans.{module}.encode", watched)
    monkeypatch.setattr(RunState, "summary", finishing)
    summary = trainer.run(lambda _: None)
    assert (summary.outcome, trainer.state.attempt.curriculum.settled) == (outcome, True)
    assert before
    assert summary.test
    assert summary.train
    assert (Purpose.VALIDATION, False) in drawn
    assert all((purpose is Purpose.SUMMARY) == summarized for purpose, summarized in drawn)
    # Accuracies on the strings that were trained on are shown as such.
    fresh = summary.test.count + (0 if config.training.examples else summary.train.count)
    assert len(after - before) == fresh


def test_the_deciding_set_is_named() -> None:
    def named(*more: str, task: str = "copy", memory: str = "queue", recipe: str = "") -> str:
        settings = {"model": {"memory": memory}}
        return decided_by(
            resolve(task=task, recipe=recipe or None, settings=settings, assignments=more)
        )

    kept = "validation strings of both ranges"
    assert named("measure.strings=500") == (
        "500 fresh validation strings of lengths 65:128, drawn anew each time; "
        f"rounding and pruning: {kept}"
    )
    assert kept not in named("measure.strings=500", memory="none")
    assert "and some of lengths 8:64" in named("solved.ranges=both")
    assert named(recipe="paper") == "the training perplexity"
    assert named(task="xor", memory="stack", recipe="paper") == (
        "100 development strings of lengths 12, drawn once"
    )
    stream = named(task="anbn", memory="stack-rnn", recipe="paper")
    assert stream.startswith("the loss on ")
    assert stream.endswith("; rounding and pruning: validation strings of both ranges")


def test_a_sweep_s_figures_are_named(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    page = markdown(plan, records_of(plan))
    assert "| test, median | copy | reverse |" in page
    assert "test: coarse accuracy on each run's own test strings, in per cent. " in page
    assert "The median of the runs with the best training perplexity, among learning_rate" in page
    assert "▲, ▼: above, below the published figure by more than 3." in page
    assert "Published →" not in markdown(plan, {}), "not even one is shown"
    agreeing = plan_of(tmp_path, tolerance=100)
    unmarked = markdown(agreeing, records_of(agreeing))
    assert "Published →" in unmarked
    assert "▲" not in unmarked
    best = plan_of(tmp_path, choose={"by": "test accuracy", "among": ["learning_rate", "seed"]})
    assert "| test, best run | copy | reverse |" in markdown(best, {})
    selected = "Runs were selected on these strings, so the figure is optimistic."
    assert selected in caption(best, [], "test")
    assert selected not in caption(plan, [], "test")
    drawn = plan_of(tmp_path, measures={"test": {"of": "coarse", "count": 9}})
    assert selected not in caption(drawn, [], "test")
