"""Whether no machine agrees with a solution: the test by which races choose between solutions."""

from dataclasses import replace
from pathlib import Path

import pytest
from own_machines import QUEUE, rearranging
from small_runs import small_run, trainer_of

from stacktrans.extraction.learner import Agreement, Extraction, Learner
from stacktrans.model import checkpoint
from stacktrans.tasks.lengths import Lengths
from stacktrans.training import machine_check
from stacktrans.training.machine_check import lacks_machine


@pytest.fixture(autouse=True)
def enough_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_check, "TIME_LIMIT", 600.0)


def is_cancelled() -> bool:
    return False


@pytest.mark.parametrize("name", ["reversal-stack", "anbn"])
def test_a_machine_agrees_with_a_shipped_model(name: str) -> None:
    assert not lacks_machine(checkpoint.load(name), is_cancelled)


def test_no_machine_is_found_without_time(monkeypatch: pytest.MonkeyPatch) -> None:
    model = checkpoint.load("copy-queue")
    assert lacks_machine(model, lambda: True)
    monkeypatch.setattr(machine_check, "TIME_LIMIT", 0.0)
    assert lacks_machine(model, is_cancelled)


@pytest.mark.parametrize("wrong", [0, 1])
def test_a_machine_has_to_agree_on_strings_of_up_to_ten_times_the_training_length(
    monkeypatch: pytest.MonkeyPatch, wrong: int
) -> None:
    model = checkpoint.load("copy-queue")
    learned = Extraction(rearranging(model.task, QUEUE), (), None, 0, 0, 0.0, 0.0)
    monkeypatch.setattr(Learner, "learn", lambda _: learned)
    shortest, longest = model.config.task.ranges.train

    def compare(_: object, found: Extraction, count: int, lengths: Lengths) -> Extraction:
        assert lengths == (shortest, 10 * longest)
        return replace(found, agreement=(Agreement("", count, count - wrong),))

    monkeypatch.setattr(machine_check, "compare", compare)
    assert lacks_machine(model, is_cancelled) == bool(wrong)


@pytest.mark.parametrize("memory", ["nondeterministic", "tape"])
def test_models_that_cannot_be_machines_lack_none(tmp_path: Path, memory: str) -> None:
    trainer = trainer_of(small_run(memory=memory), tmp_path)
    with trainer.state.opened(tmp_path):
        trainer.state.save_best()
        assert not lacks_machine(trainer.state.load_best(), is_cancelled)
