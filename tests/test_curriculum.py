"""The strings in a batch: their lengths in a curriculum, and their number."""

import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from small_runs import CURRICULUM, SMALL, ignore, records_of, small_run, trainer_of

from stacktrans.common.randomness import Purpose
from stacktrans.settings.resolve import resolve
from stacktrans.tasks.layout import Pair
from stacktrans.tasks.lengths import Lengths
from stacktrans.training.sources import DataSource, Moment


def test_short_strings_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    longest = {2: 0, 3: 0, 5: 0}
    strings = DataSource.strings

    def watched(
        self: DataSource, purpose: Purpose, moment: Moment, lengths: Lengths, count: int, *more: int
    ) -> list[Pair]:
        drawn = strings(self, purpose, moment, lengths, count, *more)
        if purpose is Purpose.TRAINING and count > 1:
            limit = lengths.longest
            longest[limit] = max(longest[limit], *(len(pair.source) for pair in drawn))
        return drawn

    monkeypatch.setattr(DataSource, "strings", watched)
    # With so high a threshold, the curriculum advances after every batch.
    config = small_run("max_steps=30", "loss_every=1", CURRICULUM % 100, "batch_size=50")
    trainer_of(config, tmp_path).run(ignore)
    assert longest == {limit: limit for limit in longest}
    lengths = [record["lengths"] for record in records_of(tmp_path)]
    # What a record shows is what is trained on next.
    assert lengths == [[1, 3], [1, 5]] + 28 * [[1, 5]]


def test_strings_do_not_lengthen_before_the_short_ones_are_learned(tmp_path: Path) -> None:
    config = small_run("max_steps=20", CURRICULUM % 0.0001, "settle.loss=100", "settle.rate=0.5")
    trainer_of(config, tmp_path).run(ignore)
    assert {tuple(record["lengths"]) for record in records_of(tmp_path)} == {(1, 2)}
    # Nor does a run settle.
    assert {record["learning_rate"] for record in records_of(tmp_path)} == {0.002}


@pytest.mark.parametrize("symbols", [2, 1000])
def test_a_threshold_relative_to_guessing_is_the_same_for_any_number_of_symbols(
    tmp_path: Path, symbols: int
) -> None:
    several = f"task.parameters.symbols={symbols}"
    # After a few batches, the loss is still about that of guessing, for any number of symbols.
    for share, longest in (("150%", 5), ("70%", 2)):
        config = small_run(several, "max_steps=20", "loss_every=1", CURRICULUM % share)
        directory = tmp_path / share.removesuffix("%")
        directory.mkdir()
        trainer_of(config, directory).run(ignore)
        assert records_of(directory)[-1]["lengths"] == [1, longest]


def test_a_relative_threshold_is_a_share_of_the_entropy_of_symbols(tmp_path: Path) -> None:
    source = trainer_of(small_run("batch_size=5000"), tmp_path).source
    pairs = source.strings(Purpose.TRAINING, Moment(1, 0), source.ranges.train, 5000)
    # Each answer ends with a symbol of its own.
    counted = Counter(symbol for pair in pairs for symbol in [*pair.target.tolist(), "end"])
    shares = [count / counted.total() for count in counted.values()]
    guessing = -sum(share * math.log(share) for share in shares)
    assert source.in_nats("50%") == pytest.approx(guessing / 2)
    assert source.in_nats(0.5) == 0.5


def test_a_batch_limited_by_symbols_has_more_strings_while_they_are_short(tmp_path: Path) -> None:
    lengths = ("task.lengths.train=[1, 40]", "task.lengths.test=[41, 80]")
    config = small_run(*lengths, "batch_size=900 symbols", CURRICULUM % 1)
    source = trainer_of(config, tmp_path).source
    counts = [len(source.batch(Moment(1, 3, share)).lengths) for share in (0.2, 1)]
    assert counts == [pytest.approx(900 / 5, rel=0.15), pytest.approx(900 / 20.5, rel=0.15)]


@pytest.mark.parametrize(
    ("symbols", "expected"),
    [(100, 500), (600, 1202), (5000, 2000)],  # 1202: 600 source and 600 target symbols, two marks
)
def test_a_batch_has_as_many_symbols_as_there_are_inputs_up_to_a_limit(
    symbols: int, expected: int, tmp_path: Path
) -> None:
    config = small_run(f"task.parameters.symbols={symbols}", "batch_size=500 symbols")
    batch = next(trainer_of(config, tmp_path).source.first_batches())
    lengths = np.array(batch.lengths) // 2 - 1  # of sources: as many symbols twice, and two marks
    assert lengths.sum() == pytest.approx(expected, rel=0.15)


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5])
def test_a_curriculum_begins_with_lengths_that_there_are(tmp_path: Path, share: float) -> None:
    given = ("task.lengths.train=[5, 12]", "task.lengths.test=[13, 14]", CURRICULUM % 1)
    config = resolve(
        task="bigram-flip",
        settings={"model": {"memory": "queue"}},
        assignments=[*SMALL, *given, f"curriculum.share={share}", "max_steps=5"],
    )
    trainer_of(config, tmp_path).run(ignore)
    assert 6 <= records_of(tmp_path)[0]["lengths"][1] <= 9
