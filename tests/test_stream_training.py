"""Training on an unsegmented stream (joulin2015, section 4)."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from command_line import run
from small_runs import (
    CPU,
    assert_resumes_exactly,
    ignore,
    records_of,
    small_stream,
    trainer_of,
    weights_of,
)

from stacktrans.common.errors import UsageError
from stacktrans.model.controllers import NO_NOISE
from stacktrans.settings.config import RunConfig
from stacktrans.settings.resolve import resolve
from stacktrans.settings.training_config import StreamConfig
from stacktrans.training.make_source import make_source
from stacktrans.training.sources import Moment
from stacktrans.training.streams import Streams, StreamSegment

pytestmark = pytest.mark.usefixtures("brief_streams")


def streams_of(config: RunConfig) -> Streams:
    source = make_source(config, CPU)
    assert isinstance(source, Streams)
    return source


def test_an_epoch_is_its_sequences_in_pieces_that_grow_longer() -> None:
    streams = streams_of(small_stream())
    for number, longest in ((0, 2), (1, 3), (2, 4), (9, 4)):
        pieces = streams.segments(1, number)
        assert streams.lengths_of(number) == (1, longest)
        inputs = np.concatenate([piece.batch.inputs for piece in pieces], axis=1)
        # Each sequence ends with as many b as there were a before.
        starts = [int((np.diff(row, prepend=1) == -1).sum()) for row in inputs]
        assert sum(starts) >= 12
        assert all(piece.batch.inputs.shape[1] <= 10 for piece in pieces)
    assert all(
        np.array_equal(one.batch.inputs, other.batch.inputs)
        for one, other in zip(streams.segments(1, 0), streams.segments(1, 0), strict=True)
    )


def test_streams_are_emptied_at_the_start_and_after_a_number_of_sequences(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pieces = streams_of(small_stream()).segments(1, 0)
    # Of 12 sequences in two streams, each has 6, and is emptied after every 2.
    assert sum(piece.begins for piece in pieces) == 3
    monkeypatch.setattr(StreamConfig, "EMPTY_AFTER", 1000)
    pieces = streams_of(small_stream()).segments(1, 0)
    assert [piece.begins for piece in pieces] == [True] + [False] * (len(pieces) - 1)


def test_no_symbol_is_lost_between_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StreamConfig, "EMPTY_AFTER", 1000)
    streams = streams_of(small_stream(stream="steps: 3"))
    pieces = streams.segments(1, 3)
    inputs, targets, mask = (
        np.concatenate([getattr(piece.batch, part) for piece in pieces], axis=1)
        for part in ("inputs", "targets", "mask")
    )
    following = np.pad(inputs[:, 1:], ((0, 0), (0, 1)))
    assert (targets[mask] == following[mask]).all()
    ends = [int(row.nonzero()[0][-1]) + 1 for row in mask]
    assert all(row[:end].all() for row, end in zip(mask, ends, strict=True))


def test_one_epoch_is_drawn_to_estimate_the_loss_of_guessing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    streams, drawn = streams_of(small_stream()), list[tuple[int, int]]()
    segments = streams.segments

    def drawing(attempt: int, epoch: int) -> list[StreamSegment]:
        drawn.append((attempt, epoch))
        return segments(attempt, epoch)

    monkeypatch.setattr(streams, "segments", drawing)
    assert 0 < streams.in_nats("100%") < 1.1  # of three symbols
    assert drawn == [(1, 0)]


def test_the_state_of_a_stream_is_carried_to_the_next_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StreamConfig, "EMPTY_AFTER", 1000)
    whole, cut = (
        trainer_of(small_stream(stream=f"steps: {steps}"), tmp_path / str(steps))
        for steps in (1000, 7)
    )
    model, moment = whole.state.attempt.model, Moment(1, 0)
    _, together = whole.source.unroll(model, moment, NO_NOISE)
    assert whole.source.resumable
    parts: list[torch.Tensor] = []
    cut.source.begin(model)
    while not parts or not cut.source.resumable:
        parts.append(cut.source.unroll(model, moment, NO_NOISE)[1].hidden)
    torch.testing.assert_close(torch.cat(parts, dim=1), together.hidden, rtol=0, atol=1e-6)


def test_without_improvement_the_rate_is_halved_and_the_best_weights_are_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StreamConfig, "MIN_RATE", 0.1)
    # With a rate this high nothing is gained after the first epochs.
    config = small_stream("learning_rate=1", stream="epochs: 50")
    trainer = trainer_of(config, tmp_path)
    summary = trainer.run(ignore)
    assert summary.outcome == "attempts"
    records = records_of(tmp_path)
    best = float("inf")
    rate = 1.0
    for record in records:
        assert record["learning_rate"] == pytest.approx(rate)
        if record["validation"] >= best:
            rate /= 2
        best = min(best, record["validation"])
    assert rate < 0.1
    # In the end there was no gain, so that the last weights are those of the best epoch.
    assert records[-1]["validation"] > best
    last = weights_of(tmp_path / "last")
    for name, weight in weights_of(tmp_path / "best").items():
        assert torch.equal(last[name], weight)


def test_attempts_that_are_worse_than_the_mean_so_far_are_thrown_away(tmp_path: Path) -> None:
    config = small_stream("seed=3", stream="attempts: 4, epochs: 4")
    trainer = trainer_of(config, tmp_path)
    summary = trainer.run(ignore)
    assert (summary.outcome, summary.attempts) == ("attempts", 4)
    records = records_of(tmp_path)
    judged: list[float] = []
    for attempt in range(1, 5):
        own = [record["validation"] for record in records if record["attempt"] == attempt]
        judged.append(min(own[:2]))
        assert len(own) == (2 if judged[-1] > sum(judged) / len(judged) else 4)
    assert {sum(record["attempt"] == attempt for record in records) for attempt in (1, 2)} == {2, 4}
    assert trainer.state.progress.best[0] == -min(record["validation"] for record in records)


def test_the_best_attempt_is_kept_if_the_last_fails(tmp_path: Path) -> None:
    config = small_stream("restart={after: 8, loss: 1.0e-05}", stream="attempts: 2, epochs: 3")
    trainer = trainer_of(config, tmp_path)
    summary = trainer.run(ignore)
    assert (summary.outcome, summary.attempts) == ("attempts", 2)
    assert trainer.state.progress.best


@pytest.mark.parametrize("stop_at", [1, 5, 12])
def test_an_interrupted_run_resumes_from_its_last_epoch_bit_for_bit(
    tmp_path: Path, stop_at: int
) -> None:
    assert_resumes_exactly(tmp_path, small_stream(stream="epochs: 3, attempts: 2"), stop_at)


@pytest.mark.parametrize(
    ("task", "memory", "why"),
    [
        ("copy", "stack-rnn", "copy is not a stream"),
        ("anbn", "stack", "memory stack: its state can't be carried from one segment"),
    ],
)
def test_tasks_and_memories_without_streams_are_refused(
    tmp_path: Path, task: str, memory: str, why: str
) -> None:
    config = resolve(
        task=task,
        recipe="paper",
        settings={"model": {"memory": memory}},
        assignments=[
            *("data.stream={sequences: 5, steps: 5, epochs: 1, attempts: 1}", "stop=null")
        ],
    )
    with pytest.raises(UsageError, match=why):
        trainer_of(config, tmp_path)


def test_the_command_line_trains_and_looks_into_streams(tmp_path: Path) -> None:
    directory = str(tmp_path / "run")
    small = (
        "data.stream={sequences: 20, epochs: 1, attempts: 1}",
        "measure.strings=5",
        "rounding=null",
    )
    options = [
        word for change in (*small, "task.lengths.test=[20,22]") for word in ("--set", change)
    ]
    task = ("--task", "anbncn", "--memory", "stack-rnn", "--recipe", "paper")
    trained = run("train", *task, *options, "--out", directory)
    assert trained.returncode == 0, trained.stderr
    assert "all attempts have ended" in trained.stdout.decode()
    looked = run("inspect", directory, "aab", "--stacks", "2,7")
    assert looked.returncode == 0, looked.stderr
    header = looked.stdout.decode().splitlines()[1]
    assert header.split() == [
        "step",
        "input",
        "next",
        "output",
        "prob.",
        "stack",
        "2",
        "stack",
        "7",
    ]
    measured = run("eval", directory, "--lengths", "2:3", "--count", "5", "--hard", "--json")
    assert measured.returncode == 0, measured.stderr
    result = json.loads(measured.stdout)
    assert result["hard"]
    assert 0 <= result["results"][0]["differing"] <= 1
    for wrong, why in (
        ("11", "--stacks 11: the model's are 1 to 10"),
        ("x", "expected numbers such as 1,6"),
        ("", "such"),
    ):
        missing = run("inspect", directory, "aab", "--stacks", wrong)
        assert missing.returncode == 2
        assert why in missing.stderr.decode()


def test_the_first_epoch_has_sequences_however_long_the_shortest_is() -> None:
    streams = streams_of(small_stream("task.lengths.train=[30, 40]", "task.lengths.test=[50, 60]"))
    assert [streams.lengths_of(number) for number in (0, 4, 20)] == [(30, 30), (30, 34), (30, 40)]
