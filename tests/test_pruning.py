"""Leaving out stacks and lists, and making what remains certain."""

from pathlib import Path
from typing import Any

import pytest
import torch
from test_training import ignore

from stacktrans import checkpoint
from stacktrans.config import resolve
from stacktrans.memory.actions import EMPTY
from stacktrans.pruning import least, prunable, pruned
from stacktrans.stream_training import StreamTrainer
from stacktrans.transducer import Transducer

CPU = torch.device("cpu")


def model_of(memory: str = "stack-rnn", **settings: object) -> Transducer:
    small = {"memory": memory, "memory_count": 4, "hidden_size": 6, "memory_size": 2, **settings}
    config = resolve(task="anbn", settings={"model": small}).model
    torch.manual_seed(1)
    return Transducer(config, 3, 3).double().eval()


def without(model: Transducer, left_out: list[int]) -> None:
    """Have some of the memories be empty for ever: all that they are pushed is -1."""
    assert model.operation
    assert model.operation.values
    values = model.operation.values
    with torch.no_grad():
        for index in left_out:
            rows = slice(2 * index, 2 * index + 2)
            values.weight[rows] = 0
            values.bias[rows] = -100  # through a tanh


@pytest.mark.parametrize("memory", ["stack-rnn", "list-rnn"])
@pytest.mark.parametrize("controller", ["sigmoid", "lstm"])
def test_memories_that_are_always_empty_can_be_left_out(memory: str, controller: str) -> None:
    model = model_of(memory, controller=controller, value_nonlinearity="tanh")
    assert EMPTY == -1
    without(model, [0, 2])
    smaller = pruned(model, [1, 3])
    assert smaller.config.memory_count == 2
    ids = torch.randint(3, (2, 30))
    with torch.no_grad():
        torch.testing.assert_close(smaller.double()(ids), model(ids), rtol=0, atol=1e-9)


def test_as_few_are_left_as_are_needed() -> None:
    model = model_of()
    needed = {1, 3}

    def accuracy(other: Transducer) -> float:
        """That of a model that needs two, which are known by their weights."""
        assert other.operation
        own = other.operation.signals.weight.unflatten(0, (other.config.memory_count, -1))
        assert model.operation
        all_of = model.operation.signals.weight.unflatten(0, (4, -1))
        there = {place for place in range(4) if any(torch.equal(all_of[place], row) for row in own)}
        return len(there & needed) / 2

    assert least(model, accuracy).config.memory_count == 2


@pytest.mark.parametrize(
    ("settings", "possible"),
    [({}, True), ({"memory_count": 1}, False), ({"controller": "linear"}, False)],
)
def test_what_can_be_pruned(settings: dict[str, Any], possible: bool) -> None:
    assert prunable(model_of(**settings)) is possible


def test_what_has_no_actions_can_not() -> None:
    model = model_of("stack", memory_count=1)
    assert not prunable(model)
    with pytest.raises(TypeError):
        pruned(model, [0])


def test_a_run_that_a_rule_has_ended_is_rounded_and_pruned(tmp_path: Path) -> None:
    config = resolve(
        task="anbn",
        settings={"model": {"memory": "stack-rnn", "memory_count": 2, "hidden_size": 10}},
        assignments=[
            "task.lengths.train=[1, 2]",
            "task.lengths.test=[3, 3]",
            "validation_count=10",
            "training.stream={steps: 8, sequences: 8, empty_after: null, first_longest: null, "
            "rate_decay: 0.5, least_rate: 1e-9, epochs: 1, starts: 1, judged_after: 1}",
            "rounding={factor: 2, batches: 1, indecision: 1e-4, most: 30}",
        ],
    )
    trainer = StreamTrainer(config, tmp_path, CPU, "stacktrans train")
    # As if every answer were right, so that nothing that is done counts as harm.
    trainer._certain_accuracy = lambda model: 1.0  # type: ignore[method-assign]
    assert trainer.run(ignore).outcome == "starts"
    kept = checkpoint.load(tmp_path, CPU)
    assert kept.model.config.memory_count == kept.config.model.memory_count == 1
    with torch.no_grad():
        signals = kept.model.unroll(torch.tensor([[0, 0, 1, 1, 0, 1]])).signals
    assert float((signals * (1 - signals)).max()) < 0.01


def test_what_does_harm_is_not_kept(tmp_path: Path) -> None:
    config = resolve(
        task="anbn",
        settings={"model": {"memory": "stack-rnn", "memory_count": 2, "hidden_size": 10}},
        assignments=[
            "validation_count=10",
            "training.stream={steps: 8, sequences: 8, empty_after: null, first_longest: null, "
            "rate_decay: 0.5, least_rate: 1e-9, epochs: 1, starts: 1, judged_after: 1}",
            "rounding={factor: 2, batches: 1, indecision: 1e-4, most: 3}",
        ],
    )
    trainer = StreamTrainer(config, tmp_path, CPU, "stacktrans train")
    looked_at: list[Transducer] = []

    def worse_and_worse(model: Transducer) -> float:
        looked_at.append(model)
        return 1 / len(looked_at)

    trainer._certain_accuracy = worse_and_worse  # type: ignore[method-assign]
    trainer.run(ignore)
    kept = checkpoint.load(tmp_path, CPU).model.state_dict()
    first = looked_at[0].state_dict()
    assert all(torch.equal(kept[name], first[name]) for name in kept)
