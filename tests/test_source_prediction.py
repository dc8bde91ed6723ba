"""Source prediction: training also predicts the symbols of sources while they are read."""

import math
from pathlib import Path

import pytest
import torch
from changed_checkpoints import reseal
from small_runs import CPU, assert_resumes_exactly, ignore, records_of, small_run, trainer_of

from stacktrans.common.errors import CheckpointError, UsageError
from stacktrans.model import checkpoint, checkpoint_files
from stacktrans.model.controllers import NO_NOISE
from stacktrans.settings.resolve import resolve
from stacktrans.training.attempt import Attempt
from stacktrans.training.objective import SourcePrediction
from stacktrans.training.trainer import Trainer

PREDICTING = "source_loss=0.5"


@pytest.mark.parametrize("kernel", ["fused", "torch"])
def test_each_symbol_of_a_source_is_predicted_from_those_before(
    kernel: str, tmp_path: Path
) -> None:
    attempt = trainer_of(small_run(PREDICTING, f"kernel={kernel}"), tmp_path).state.attempt
    prediction = SourcePrediction(attempt.model)
    batch, unrolled = attempt.source.unroll(attempt.model, attempt.moment, NO_NOISE)
    costs = []
    for row, ids in enumerate(batch.inputs.tolist()):
        separator = ids.index(1)
        for place in range(separator):  # `<s>` and all of the source
            shown = attempt.model.output(unrolled.hidden[row, place])
            logits = prediction.classifier(shown).double()
            cost = logits.logsumexp(0) - logits[ids[place + 1]]
            costs.append(float(cost.detach()))
    found = prediction(attempt.model, batch, unrolled)
    assert float(found.detach()) == pytest.approx(sum(costs) / len(costs), rel=1e-5)


def test_source_prediction_affects_training_until_the_run_settles(tmp_path: Path) -> None:
    def trained(name: str, *changes: str) -> tuple[Attempt, list[float]]:
        trainer = trainer_of(small_run("max_steps=20", *changes), tmp_path / name)
        trainer.run(ignore)
        return trainer.state.attempt, [record["loss"] for record in records_of(tmp_path / name)]

    never, always = "settle=null", "settle={loss: 1000, rate: 1}"
    plain, without = trained("plain", never)
    predicting, losses = trained("predicting", never, PREDICTING)
    assert losses != without
    # What is recorded is the loss of the answers alone.
    assert all(loss < math.log(plain.source.layout.outputs) * 1.2 for loss in losses)
    settled, _ = trained("settled", always, PREDICTING)
    states = [attempt.state_dict()["optimizer"]["state"] for attempt in (predicting, settled)]
    weights = len([*plain.model.parameters()])
    assert int(states[0][weights]["step"]) == 20
    assert int(states[1][weights]["step"]) == 1  # a run settles after a batch at the earliest


def test_saved_models_have_no_weights_for_source_prediction(tmp_path: Path) -> None:
    trainer_of(small_run("max_steps=5"), tmp_path / "plain").run(ignore)
    trainer_of(small_run("max_steps=5", PREDICTING), tmp_path / "predicting").run(ignore)
    plain, predicting = (
        checkpoint.load(tmp_path / name / "best", CPU) for name in ("plain", "predicting")
    )
    assert plain.model.state_dict().keys() == predicting.model.state_dict().keys()
    assert predicting.config.training.source_loss == 0.5


def test_a_resumed_run_with_source_prediction_equals_an_uninterrupted_one(tmp_path: Path) -> None:
    assert_resumes_exactly(tmp_path, small_run("max_steps=20", PREDICTING), stop_at=7)


def test_a_damaged_state_of_source_prediction_is_refused(tmp_path: Path) -> None:
    trainer_of(small_run("max_steps=5", PREDICTING), tmp_path).run(ignore)
    path = tmp_path / "last" / checkpoint_files.TRAINING
    state = torch.load(path, weights_only=True)
    state["attempt"]["prediction"]["classifier.bias"] = torch.zeros(1)
    torch.save(state, path)
    reseal(tmp_path / "last")
    with pytest.raises(CheckpointError, match=r"damaged \(.*classifier\.bias"):
        Trainer.resume(tmp_path, [], CPU)


@pytest.mark.parametrize(
    ("task", "more", "message"),
    [
        ("copy", ["buffers={}"], "training.source_loss: not for a buffered model"),
        ("delayed-xor", [], "task delayed-xor has no targets after its sources"),
        ("anbn", [], "task anbn has no targets after its sources"),
    ],
)
def test_source_prediction_needs_a_source(task: str, more: list[str], message: str) -> None:
    memory = {"model": {"memory": "stack-rnn" if task == "anbn" else "stack"}}
    with pytest.raises(UsageError, match=message) as error:
        resolve(task=task, settings=memory, assignments=[*more, PREDICTING])
    assert "source_loss" in str(error.value)
