"""Training: it learns, it repeats itself, it goes on where it stopped."""

import json
import math
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_runs import SETTINGS

from stacktrans.common.randomness import Purpose
from stacktrans.inference.evaluation import Scores
from stacktrans.model import checkpoint
from stacktrans.model.transducer import Transducer
from stacktrans.settings.config import RunConfig
from stacktrans.settings.layers import Layer
from stacktrans.settings.resolve import resolve
from stacktrans.tasks.base import Lengths
from stacktrans.tasks.layouts import Pair
from stacktrans.training import sources
from stacktrans.training.objective import indecision, make_optimizer
from stacktrans.training.records import METRICS, SUMMARY, Accuracy, Record
from stacktrans.training.saving import TrainingError
from stacktrans.training.sources import Moment, Source
from stacktrans.training.start import gate_noise
from stacktrans.training.trainer import Interrupted, Trainer

CPU = torch.device("cpu")
SMALL = (*SETTINGS, "accuracy_every=10", "accuracy_loss=null")


def small_run(*changes: str, memory: str = "stack") -> RunConfig:
    small = [each for each in SMALL if memory != "none" or not each.startswith("memory.")]
    return resolve(
        task="reverse", settings={"model": {"memory": memory}}, assignments=[*small, *changes]
    )


def trainer_of(config: RunConfig, directory: Path) -> Trainer:
    trainer = Trainer(config, directory, CPU, command="stacktrans train ...")
    directory.mkdir(parents=True, exist_ok=True)
    return trainer


def ignore(_: Record) -> None:
    pass


def records_of(directory: Path) -> list[dict[str, Any]]:
    lines = (directory / METRICS).read_text().splitlines()
    return [{key: v for key, v in json.loads(line).items() if key != "seconds"} for line in lines]


def weights_of(directory: Path) -> dict[str, torch.Tensor]:
    return checkpoint.load(directory, CPU).model.state_dict()


def assert_same_run(one: Path, other: Path) -> None:
    assert records_of(one) == records_of(other)
    for kind in ("best", "last"):
        theirs = weights_of(other / kind)
        for name, weight in weights_of(one / kind).items():
            assert torch.equal(weight, theirs[name]), (kind, name)


def test_it_learns(tmp_path: Path) -> None:
    config = small_run("max_steps=400", "learning_rate=0.01", memory="none")
    summary = trainer_of(config, tmp_path).run(ignore)
    records = records_of(tmp_path)
    assert records[0]["loss"] > 1.2
    assert records[-1]["loss"] < 0.8 * records[0]["loss"]
    assert (summary.outcome, summary.steps) == ("max_steps", 400)


def test_a_configuration_repeats_its_run_exactly(tmp_path: Path) -> None:
    config = small_run("max_steps=30")
    trainer_of(config, tmp_path / "one").run(ignore)
    again = resolve(config=str(tmp_path / "one" / "last" / "config.yaml"))
    assert again == config
    trainer_of(again, tmp_path / "two").run(ignore)
    assert_same_run(tmp_path / "one", tmp_path / "two")
    trainer_of(small_run("max_steps=30", "seed=2"), tmp_path / "three").run(ignore)
    assert records_of(tmp_path / "three") != records_of(tmp_path / "one")


@pytest.mark.parametrize("memory", ["stack", "deque", "2*queue", "none"])
@pytest.mark.parametrize("stop_at", [1, 13, 20, 25])
def test_an_interrupted_run_goes_on_bit_for_bit(tmp_path: Path, memory: str, stop_at: int) -> None:
    changes = ("max_steps=40", "settle.loss=1.2", "restart.after=25", "restart.loss=0.01")
    config = small_run(*changes, memory=memory)
    trainer_of(config, tmp_path / "whole").run(ignore)

    parted = trainer_of(config, tmp_path / "parted")
    stop_after(parted, stop_at)
    with pytest.raises(Interrupted) as stopped:
        parted.run(ignore)
    assert stopped.value.exit_code == 130
    Trainer.resume(tmp_path / "parted", [], CPU).run(ignore)
    assert_same_run(tmp_path / "whole", tmp_path / "parted")


def stop_after(trainer: Trainer, step: int) -> None:
    """Have the trainer asked to stop while it is at a step."""

    def stepping(*_: Any) -> None:
        if trainer.state.step + 1 == step:
            trainer.stop_requested = signal.SIGINT

    trainer.state.start.optimizer.register_step_pre_hook(stepping)


@pytest.mark.parametrize("restart_after", [20, 25, 100])
def test_a_killed_run_goes_on_bit_for_bit(tmp_path: Path, restart_after: int) -> None:
    config = small_run("max_steps=40", f"restart.after={restart_after}", "restart.loss=0.01")
    trainer_of(config, tmp_path / "whole").run(ignore)

    killed = trainer_of(config, tmp_path / "killed")

    def die(record: Record) -> None:
        if record.step == 25:
            raise MemoryError

    with pytest.raises(MemoryError):
        killed.run(die)
    assert records_of(tmp_path / "killed")[-1]["step"] == 25
    Trainer.resume(tmp_path / "killed", [], CPU).run(ignore)
    assert_same_run(tmp_path / "whole", tmp_path / "killed")


def test_a_finished_run_can_be_given_a_larger_budget(tmp_path: Path) -> None:
    trainer_of(small_run("max_steps=20"), tmp_path / "parted").run(ignore)
    summary = Trainer.resume(
        tmp_path / "parted", [Layer("--max-steps", {"training": {"max_steps": 40}})], CPU
    ).run(ignore)
    assert summary.steps == 40
    trainer_of(small_run("max_steps=40"), tmp_path / "whole").run(ignore)
    assert records_of(tmp_path / "whole") == records_of(tmp_path / "parted")


def test_a_run_writes_what_it_says(tmp_path: Path) -> None:
    summary = trainer_of(small_run("max_steps=20"), tmp_path).run(ignore)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "best",
        "config.yaml",
        "last",
        METRICS,
        SUMMARY,
    ]
    written = json.loads((tmp_path / SUMMARY).read_text())
    assert summary.test
    assert written["test"] == {
        "coarse": summary.test.coarse,
        "fine": summary.test.fine,
        "symbols": summary.test.symbols,
        "count": summary.test.count,
    }
    assert written["command"] == "stacktrans train ..."
    assert written["rule"]
    records = records_of(tmp_path)
    assert [record["step"] for record in records] == [5, 10, 15, 20]
    assert [record["test"] is None for record in records] == [True, False, True, False]
    assert set(records[0]["signals"]) == {"pop", "push"}
    assert all(0 < mean < 1 for mean in records[0]["signals"].values())


@pytest.mark.parametrize(
    ("solved_accuracy", "found", "best_step"),
    [(1, [0.9, 1, 0.999, 1, 1], 50), (0.99, [0.9, 0.995, 0.985, 0.99, 0.991], 20)],
)
def test_it_stops_when_solved_twice_running(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    solved_accuracy: float,
    found: list[float],
    best_step: int,
) -> None:
    def measured(_: Source, __: Transducer, purpose: Purpose, ___: Moment) -> list[Accuracy]:
        coarse = found.pop(0) if purpose is Purpose.VALIDATION else 1.0
        return 2 * [Accuracy(coarse, coarse, 20, coarse)]

    monkeypatch.setattr(Source, "accuracies", measured)
    config = small_run("max_steps=1000", f"solved.accuracy={solved_accuracy}")
    summary = trainer_of(config, tmp_path).run(ignore)
    assert (summary.outcome, summary.steps, summary.best_step) == ("solved", 50, best_step)
    assert "in a row" in summary.rule


@pytest.mark.parametrize(("solved_accuracy", "strings"), [(1, 100), (0.5, 900), (0.1, 1000)])
def test_validation_goes_on_while_the_task_may_be_solved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, solved_accuracy: float, strings: int
) -> None:
    monkeypatch.setattr(sources, "score", one_in_four_right)
    config = small_run(f"solved.accuracy={solved_accuracy}", "measure.strings=1000", "max_steps=10")
    trainer_of(config, tmp_path).run(ignore)
    (record,) = [record for record in records_of(tmp_path) if record["test"]]
    assert record["test"] == {"coarse": 0.25, "fine": 0.25, "count": strings, "symbols": 0.25}


def one_in_four_right(_: Any, __: Any, pairs: list[Pair]) -> Scores:
    numbers = np.arange(len(pairs))
    right = np.where(numbers % 4 == 0, 1, 0)
    return Scores(
        numbers, right.astype(np.float64), right, np.ones_like(right), np.zeros_like(right)
    )


CURRICULUM = "curriculum={share: 0.2, growth: 2, loss: %s}"


def test_short_strings_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    longest = {2: 0, 3: 0, 5: 0}
    strings = Source.strings

    def watched(
        self: Source, purpose: Purpose, moment: Moment, lengths: Lengths, count: int, *more: int
    ) -> list[Pair]:
        drawn = strings(self, purpose, moment, lengths, count, *more)
        if purpose is Purpose.TRAINING and count > 1:
            limit = lengths.longest
            longest[limit] = max(longest[limit], *(len(pair.source) for pair in drawn))
        return drawn

    monkeypatch.setattr(Source, "strings", watched)
    # So easy to please that every batch is enough.
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
def test_a_share_of_guessing_asks_as_much_for_few_symbols_as_for_many(
    tmp_path: Path, symbols: int
) -> None:
    several = f"task.parameters.symbols={symbols}"
    # What guesses well costs about as much as guessing, for any number of symbols.
    for share, longest in (("150%", 5), ("70%", 2)):
        config = small_run(several, "max_steps=20", "loss_every=1", CURRICULUM % share)
        directory = tmp_path / share.removesuffix("%")
        directory.mkdir()
        trainer_of(config, directory).run(ignore)
        assert records_of(directory)[-1]["lengths"] == [1, longest]


def test_guessing_is_by_how_frequent_symbols_are(tmp_path: Path) -> None:
    source = trainer_of(small_run("batch_size=50000"), tmp_path).source
    pairs = source.strings(Purpose.TRAINING, Moment(1, 0), source.ranges.train, 50000)
    # Each answer ends with a symbol of its own.
    said = Counter(symbol for pair in pairs for symbol in [*pair.target.tolist(), "end"])
    shares = [count / said.total() for count in said.values()]
    guessing = -sum(share * math.log(share) for share in shares)
    assert source.nats("50%") == pytest.approx(guessing / 2)
    assert source.nats(0.5) == 0.5


def test_a_batch_of_so_many_symbols_has_more_strings_while_they_are_short(tmp_path: Path) -> None:
    lengths = ("task.lengths.train=[1, 40]", "task.lengths.test=[41, 80]")
    config = small_run(*lengths, "batch_size=900 symbols", CURRICULUM % 1)
    source = trainer_of(config, tmp_path).source
    counts = [len(source.batch(Moment(1, 3, share)).lengths) for share in (0.2, 1)]
    assert counts == [pytest.approx(900 / 5, rel=0.15), pytest.approx(900 / 20.5, rel=0.15)]


@pytest.mark.parametrize(
    ("symbols", "expected"),
    [(100, 500), (600, 1202), (5000, 2000)],  # a source and a target of its own, and two marks
)
def test_a_batch_has_no_fewer_symbols_than_there_are_different_ones(
    symbols: int, expected: int, tmp_path: Path
) -> None:
    config = small_run(f"task.parameters.symbols={symbols}", "batch_size=500 symbols")
    batch = trainer_of(config, tmp_path).source.batch(Moment(1, 0))
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


def test_a_run_that_is_stuck_on_longer_strings_starts_again(tmp_path: Path) -> None:
    changes = ("max_steps=27", "loss_every=1", "restart.after=10", "restart.loss=0.0001")
    # Three batches make the range whole; ten batches later it is not learned.
    summary = trainer_of(small_run(*changes, CURRICULUM % 100), tmp_path).run(ignore)
    assert summary.attempts == 3
    lengths = [record["lengths"][1] for record in records_of(tmp_path)]
    assert lengths == 2 * [3, *[5] * 12] + [3]


def test_it_stops_at_convergence_of_the_perplexity(tmp_path: Path) -> None:
    config = small_run(
        "stop={converged: {patience: 3}}", "learning_rate=0.000001", "settle=null", "averaging=0"
    )
    summary = trainer_of(config, tmp_path).run(ignore)
    losses = [record["loss"] for record in records_of(tmp_path)]
    best = losses.index(min(losses))
    assert summary.outcome == "converged"
    assert len(losses) == best + 1 + 3
    assert summary.best_step == 5 * (best + 1)


def test_it_stops_at_its_time_limit(tmp_path: Path) -> None:
    summary = trainer_of(small_run("time_limit=0.001"), tmp_path).run(ignore)
    assert (summary.outcome, summary.steps) == ("time_limit", 1)


def test_a_run_that_does_not_take_off_starts_again(tmp_path: Path) -> None:
    config = small_run("max_steps=35", "restart.after=10", "restart.loss=0.0001")
    summary = trainer_of(config, tmp_path).run(ignore)
    assert summary.attempts == 4
    assert [record["attempt"] for record in records_of(tmp_path)] == [1, 1, 2, 2, 3, 3, 4]
    one = small_run("max_steps=10")
    trainer_of(one, tmp_path / "one").run(ignore)
    assert records_of(tmp_path / "one") == records_of(tmp_path)[:2]


def test_a_loss_that_is_no_number_starts_again_or_is_told(tmp_path: Path) -> None:
    for changes in (("restart.after=100",), ("restart=null",)):
        trainer = trainer_of(small_run("max_steps=12", *changes), tmp_path / changes[0])
        with torch.no_grad():
            trainer.state.start.model.classifier.bias.fill_(float("nan"))
        if changes == ("restart=null",):
            with pytest.raises(TrainingError, match="not a finite number after batch 1"):
                trainer.run(ignore)
        else:
            assert trainer.run(ignore).attempts == 2


def test_the_learning_rate_falls_once_the_task_is_nearly_solved(tmp_path: Path) -> None:
    changes = ("max_steps=20", "settle.loss=100", "settle.rate=0.5", "learning_rate=0.01")
    config = small_run(*changes, "curriculum=null")
    trainer_of(config, tmp_path).run(ignore)
    assert {record["learning_rate"] for record in records_of(tmp_path)} == {0.005}


@pytest.mark.parametrize(("name", "kind"), [("adam", "Adam"), ("rmsprop", "RMSprop")])
def test_optimisers(name: str, kind: str) -> None:
    config = small_run(f"optimizer={name}", "learning_rate=0.5")
    optimizer = make_optimizer(Transducer(config.model, 5, 5), config.training)
    assert type(optimizer).__name__ == kind
    assert [group["lr"] for group in optimizer.param_groups] == [0.5]


def test_what_was_read_is_learned_about_at_a_rate_of_its_own() -> None:
    config = small_run("optimizer=sgd", "learning_rate=0.5", "read_rate=0.1")
    model = Transducer(config.model, 5, 5)
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    optimizer = make_optimizer(model, config.training)
    for weight in model.parameters():
        weight.grad = torch.ones_like(weight)
    optimizer.step()
    for name, weight in model.named_parameters():
        rate = 0.05 if name == "controller.layers.0.below_weight" else 0.5
        torch.testing.assert_close(weight, before[name] - rate, msg=name)


def test_evaluated_weights_are_a_running_mean(tmp_path: Path) -> None:
    raw: list[torch.Tensor] = []

    trainer = trainer_of(small_run("max_steps=10", "averaging=0.5"), tmp_path)
    start = trainer.state.start

    def note(*_: Any) -> None:
        raw.append(start.model.classifier.weight.detach().clone())

    start.optimizer.register_step_post_hook(note)
    trainer.run(ignore)
    mean = raw[0]
    for weight in raw[1:]:
        mean = 0.5 * mean + 0.5 * weight
    kept = weights_of(tmp_path / "best")["classifier.weight"]
    torch.testing.assert_close(kept, mean)
    assert not torch.allclose(kept, raw[-1])


def test_gradients_that_are_no_numbers_leave_the_weights_as_they_are(tmp_path: Path) -> None:
    trainer = trainer_of(small_run("max_steps=1"), tmp_path)
    model = trainer.state.start.model
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    model.classifier.weight.register_hook(lambda grad: grad * torch.nan)
    assert trainer.run(ignore).attempts == 1
    after = model.state_dict()
    assert all(torch.equal(after[name], weight) for name, weight in before.items())


def test_a_run_that_fails_with_its_last_batch_keeps_what_it_trained(tmp_path: Path) -> None:
    config = small_run("max_steps=20", "restart.after=10", "restart.loss=0.0001")
    summary = trainer_of(config, tmp_path).run(ignore)
    assert (summary.attempts, summary.steps) == (2, 20)


def test_patience_begins_anew_with_each_start(tmp_path: Path) -> None:
    # No start has as many records as would end it, all together have many times more.
    starts = ("restart={after: null, give_up_after: 10}", "learning_rate=1e-30")
    config = small_run("stop={converged: {patience: 2}}", "max_steps=100", *starts)
    summary = trainer_of(config, tmp_path).run(ignore)
    assert (summary.outcome, summary.attempts) == ("max_steps", 10)


def test_a_damaged_run_is_not_resumed(tmp_path: Path) -> None:
    with pytest.raises(checkpoint.CheckpointError, match="no run to resume here"):
        Trainer.resume(tmp_path, [], CPU)
    trainer_of(small_run("max_steps=5"), tmp_path).run(ignore)
    path = tmp_path / "last" / "training.pt"
    os.truncate(path, 100)
    with pytest.raises(checkpoint.CheckpointError, match="truncated or damaged"):
        Trainer.resume(tmp_path, [], CPU)


def test_sharpening_drives_strengths_to_0_and_1(tmp_path: Path) -> None:
    means = {}
    for weight in (0, 20):
        out = tmp_path / str(weight)
        changes = ("max_steps=100", "settle.loss=100", "settle.rate=1", f"sharpening={weight}")
        config = small_run(*changes, "learning_rate=0.01", "curriculum=null")
        trainer_of(config, out).run(ignore)
        means[weight] = indecision(torch.tensor(list(records_of(out)[-1]["signals"].values())))
    assert means[20] < means[0] / 2


def test_indecision_is_0_for_whole_strengths() -> None:
    assert indecision(torch.tensor([0.0, 1.0, 1.0])) == 0
    assert indecision(torch.tensor([0.5])) == 0.25
    assert indecision(torch.zeros(0)) == 0


def test_a_solved_run_stays_solved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Source, "accuracies", lambda *_: 2 * [Accuracy(1.0, 1.0, 20, 1.0)])
    first = trainer_of(small_run(), tmp_path).run(ignore)
    assert (first.outcome, first.steps) == ("solved", 20)
    assert Trainer.resume(tmp_path, [], CPU).run(ignore) == first


def test_a_run_is_solved_as_often_as_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    coarse = iter([1.0, 1.0, 0.9, 1.0, 1.0, 1.0, 1.0])

    monkeypatch.setattr(Source, "accuracies", lambda *_: 2 * [Accuracy(next(coarse), 1.0, 20, 1.0)])
    summary = trainer_of(small_run("solved.times=3"), tmp_path).run(ignore)
    assert (summary.outcome, summary.steps) == ("solved", 60)


def test_accuracy_is_measured_when_it_is_due_though_no_loss_is(tmp_path: Path) -> None:
    trainer_of(small_run("max_steps=12", "loss_every=5", "accuracy_every=3"), tmp_path).run(ignore)
    records = records_of(tmp_path)
    assert [record["step"] for record in records] == [3, 5, 6, 9, 10, 12]
    assert [record["test"] is not None for record in records] == [
        True,
        False,
        True,
        True,
        False,
        True,
    ]


def test_the_summary_is_measured_on_all_strings(tmp_path: Path) -> None:
    summary = trainer_of(small_run("max_steps=10", "measure.strings=450"), tmp_path).run(ignore)
    assert summary.test
    assert summary.test.coarse < 1
    assert summary.test.count == 450
    assert records_of(tmp_path)[-1]["test"]["count"] == 100


def test_gate_noise_disturbs_training_alone_and_comes_from_the_seed(tmp_path: Path) -> None:
    def losses(name: str, *changes: str) -> list[float]:
        trainer_of(small_run("max_steps=10", *changes), tmp_path / name).run(ignore)
        return [record["loss"] for record in records_of(tmp_path / name)]

    plain, noisy = losses("plain"), losses("noisy", "gate_noise=0.5")
    assert plain != noisy
    assert losses("again", "gate_noise=0.5") == noisy
    assert losses("faint", "gate_noise=1e-9") == pytest.approx(plain, rel=1e-5)
    assert measured("gate_noise=5") == measured("gate_noise=0")


def measured(setting: str) -> tuple[Accuracy, Accuracy]:
    """How good a model is that has learned nothing."""
    start = trainer_of(small_run(setting), Path()).state.start
    return start.source.accuracies(start.model, Purpose.SUMMARY, start.moment)


@pytest.mark.parametrize("kernel", ["fused", "torch"])
def test_gate_noise_is_of_the_deviation_asked_for(kernel: str) -> None:
    config = small_run("gate_noise=0.25", f"kernel={kernel}")
    found: list[torch.Tensor] = []
    disturb = gate_noise(config, Moment(1, 0))

    def watched(sums: torch.Tensor) -> torch.Tensor:
        disturbed = disturb(sums)
        found.append(disturbed - sums)
        return disturbed

    Transducer(config.model, 5, 5).unroll(torch.zeros(50, 20, dtype=torch.int64), noise=watched)
    (noise,) = found
    assert noise.numel() == 50 * 20 * 4 * 8
    assert noise.std().item() == pytest.approx(0.25, rel=0.03)
    assert abs(noise.mean().item()) < 0.01
