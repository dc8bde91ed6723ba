"""Training: it learns, is reproducible, and continues where it stopped."""

import json
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from small_runs import (
    CPU,
    assert_resumes_exactly,
    assert_same_run,
    ignore,
    records_of,
    small_run,
    trainer_of,
    weights_of,
)

from stacktrans.common.errors import UsageError
from stacktrans.common.files import WEIGHTS, try_lock
from stacktrans.common.randomness import Purpose
from stacktrans.memory import make_memory
from stacktrans.model.controllers import Layer, Noise
from stacktrans.model.transducer import Transducer
from stacktrans.settings.layers import SettingsLayer
from stacktrans.settings.resolve import resolve
from stacktrans.tasks.lengths import DepthLimit
from stacktrans.training.attempt import noise_of
from stacktrans.training.objective import indecision
from stacktrans.training.optimizers import make_optimizer, rate_factor
from stacktrans.training.records import METRICS, SUMMARY, Accuracy, Record
from stacktrans.training.sources import Moment
from stacktrans.training.trainer import Trainer


def test_the_loss_falls(tmp_path: Path) -> None:
    config = small_run("max_steps=400", "learning_rate=0.01", memory="none")
    summary = trainer_of(config, tmp_path).run(ignore)
    records = records_of(tmp_path)
    assert records[0]["loss"] > 1.2
    assert records[-1]["loss"] < 0.8 * records[0]["loss"]
    assert (summary.outcome, summary.steps) == ("max_steps", 400)


@pytest.mark.parametrize("stop_at", [1, 13, 20, 25])
def test_an_interrupted_run_resumes_bit_for_bit(tmp_path: Path, stop_at: int) -> None:
    changes = ("max_steps=40", "settle.loss=1.2", "restart.after=25", "restart.loss=0.01")
    assert_resumes_exactly(tmp_path, small_run(*changes), stop_at)


def test_a_checkpoint_is_not_read_while_another_process_may_replace_it(tmp_path: Path) -> None:
    config = small_run("max_steps=4")
    trainer_of(config, tmp_path).run(ignore)
    weights, aside = tmp_path / "last" / WEIGHTS, tmp_path / "aside"
    with (tmp_path / METRICS).open("rb") as stream, ThreadPoolExecutor(1) as pool:
        assert try_lock(stream)
        weights.rename(aside)
        resumed = pool.submit(Trainer, config, tmp_path, CPU, resumed=True)
        assert not wait([resumed], 0.5).done
        aside.rename(weights)
        stream.close()
        assert resumed.result().state.step == 4


def test_a_learning_rate_rises_and_falls(tmp_path: Path) -> None:
    changes = ("learning_rate=0.01 to 0.0025", "max_steps=40", "loss_every=1", "settle=null")
    trainer = trainer_of(small_run(*changes), tmp_path)
    rates = [trainer.state.attempt.rate]
    trainer.run(lambda record: rates.append(record.learning_rate))
    assert rates[:3] == pytest.approx([0.005, 0.01, 0.01])
    assert rates[2 + 19] == pytest.approx(0.005)
    assert rates[40] == pytest.approx(0.0025)


def test_a_run_with_a_falling_learning_rate_resumes_bit_for_bit(tmp_path: Path) -> None:
    config = small_run("learning_rate=0.01 to 1e-3", "max_steps=40")
    assert_resumes_exactly(tmp_path, config, stop_at=13)


@pytest.mark.parametrize(
    "rates", ["0.01 to 0", "0 to 0.01", "0.001 to 0.01", "0.01 to x", "0.01 to 0.1 to 0.2"]
)
def test_invalid_learning_rates_are_refused(rates: str) -> None:
    with pytest.raises(UsageError, match="learning_rate"):
        small_run(f"learning_rate={rates}", "max_steps=40")


def test_a_falling_learning_rate_follows_a_new_limit(tmp_path: Path) -> None:
    changes = ("learning_rate=0.01 to 0.0025", "max_steps=20", "settle=null", "stop=null")
    trainer_of(small_run(*changes), tmp_path).run(ignore)
    longer = SettingsLayer("--max-steps", {"training": {"max_steps": 40}})
    resumed = Trainer.resume(tmp_path, [longer], CPU)
    expected = 0.01 * rate_factor(resumed.config.training, 20)
    assert resumed.state.attempt.rate == pytest.approx(expected)
    assert expected > 0.005
    resumed.state.attempt.replace_model(resumed.state.attempt.model)  # as rounding does
    assert resumed.state.attempt.rate == pytest.approx(expected)


def test_training_strings_have_a_law_of_their_own_if_test_strings_are_as_long() -> None:
    lengths = "task.lengths={train: [3, 23], test: [3, 23]}"
    memory = {"model": {"memory": "stack"}}
    task = resolve("paper", task="agreement", settings=memory, assignments=[lengths]).task
    assert task.training_law == DepthLimit(16)
    assert task.law_of(task.ranges.test) == DepthLimit(32)


def test_a_falling_learning_rate_needs_a_number_of_batches() -> None:
    with pytest.raises(UsageError, match="learning_rate: a falling one stays over 0, and"):
        small_run("learning_rate=0.01 to 0.001", "max_steps=null")


@pytest.mark.parametrize("restart_after", [20, 25])
def test_a_killed_run_resumes_bit_for_bit(tmp_path: Path, restart_after: int) -> None:
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


def test_a_run_writes_its_metrics(tmp_path: Path) -> None:
    summary = trainer_of(small_run("max_steps=20"), tmp_path).run(ignore)
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


def test_the_learning_rate_falls_once_the_task_is_nearly_solved(tmp_path: Path) -> None:
    changes = ("max_steps=20", "settle.loss=100", "settle.rate=0.5", "learning_rate=0.01")
    config = small_run(*changes, "curriculum=null")
    trainer_of(config, tmp_path).run(ignore)
    assert {record["learning_rate"] for record in records_of(tmp_path)} == {0.005}


@pytest.mark.parametrize(("name", "kind"), [("adam", "Adam"), ("rmsprop", "RMSprop")])
def test_the_setting_chooses_the_optimizer(name: str, kind: str) -> None:
    config = small_run(f"optimizer={name}", "learning_rate=0.5")
    optimizer = make_optimizer(Transducer(config.model, 5, 5), config.training)
    assert type(optimizer).__name__ == kind
    assert [group["lr"] for group in optimizer.param_groups] == [0.5]


def test_weights_of_reads_have_their_own_learning_rate() -> None:
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
    attempt = trainer.state.attempt

    def note(*_: Any) -> None:
        raw.append(attempt.model.classifier.weight.detach().clone())

    attempt.optimizer.register_step_post_hook(note)
    trainer.run(ignore)
    mean = raw[0]
    for weight in raw[1:]:
        mean = 0.5 * mean + 0.5 * weight
    kept = weights_of(tmp_path / "best")["classifier.weight"]
    torch.testing.assert_close(kept, mean)
    assert not torch.allclose(kept, raw[-1])


def test_nan_gradients_do_not_change_the_weights(tmp_path: Path) -> None:
    trainer = trainer_of(small_run("max_steps=1"), tmp_path)
    model = trainer.state.attempt.model
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    model.classifier.weight.register_hook(lambda grad: grad * torch.nan)
    assert trainer.run(ignore).attempts == 1
    after = model.state_dict()
    assert all(torch.equal(after[name], weight) for name, weight in before.items())


def test_an_attempt_that_fails_with_the_last_batch_starts_no_other(tmp_path: Path) -> None:
    config = small_run("max_steps=20", "restart.after=10", "restart.loss=0.0001")
    summary = trainer_of(config, tmp_path).run(ignore)
    assert (summary.attempts, summary.steps) == (2, 20)


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


@pytest.mark.parametrize("noise", ["noise.gates", "noise.signals"])
def test_noise_disturbs_training_alone_and_comes_from_the_seed(noise: str, tmp_path: Path) -> None:
    def losses(name: str, *changes: str) -> list[float]:
        trainer_of(small_run("max_steps=10", *changes), tmp_path / name).run(ignore)
        return [record["loss"] for record in records_of(tmp_path / name)]

    plain, noisy = losses("plain"), losses("noisy", f"{noise}=0.5")
    assert plain != noisy
    assert losses("again", f"{noise}=0.5") == noisy
    assert losses("faint", f"{noise}=1e-9") == pytest.approx(plain, rel=1e-5)
    assert measured(f"{noise}=5") == measured(f"{noise}=0")


def measured(setting: str) -> tuple[Accuracy, Accuracy]:
    """How good a model is that has learned nothing."""
    attempt = trainer_of(small_run(setting), Path()).state.attempt
    return attempt.source.accuracies(attempt.model, Purpose.SUMMARY, attempt.moment)


@pytest.mark.parametrize(
    "memory", ["superposed", "tape", "stack-rnn", "list-rnn", "nondeterministic"]
)
def test_only_strengths_have_noise(memory: str) -> None:
    config = small_run("noise={gates: 1, signals: 1}", memory=memory)
    noise = noise_of(config, Moment(1, 0), make_memory(config.model))
    assert (noise.gates, noise.signals) == (1, 0)


@dataclass(frozen=True)
class Watched(Noise):
    """Keeps what is added to gates and to signals."""

    added: tuple[list[torch.Tensor], list[torch.Tensor]] = field(default_factory=lambda: ([], []))

    def on_gates(self, layer: Layer, sums: torch.Tensor) -> torch.Tensor:
        noisy = super().on_gates(layer, sums)
        self.added[0].append(noisy - sums)
        return noisy

    def on_signals(self, sums: torch.Tensor) -> torch.Tensor:
        noisy = super().on_signals(sums)
        self.added[1].append(noisy - sums)
        return noisy


@pytest.mark.parametrize("kernel", ["fused", "torch"])
def test_noise_has_the_configured_deviation(kernel: str) -> None:
    config = small_run("noise.gates=0.25", "noise.signals=2", f"kernel={kernel}")
    model = Transducer(config.model, 5, 5)
    drawn = noise_of(config, Moment(1, 0), model.memory)
    watched = Watched(drawn.gates, drawn.signals, drawn.generator)
    model.unroll(torch.zeros(50, 20, dtype=torch.int64), noise=watched)
    gates, signals = (torch.cat([part.flatten() for part in parts]) for parts in watched.added)
    assert gates.numel() == 50 * 20 * 4 * 8
    assert gates.std().item() == pytest.approx(0.25, rel=0.03)
    assert abs(gates.mean().item()) < 0.01
    assert signals.numel() == 50 * 20 * len(model.signal_names)
    assert signals.std().item() == pytest.approx(2, rel=0.06)
    assert abs(signals.mean().item()) < 0.2
