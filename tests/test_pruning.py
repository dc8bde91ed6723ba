"""Pruning: leaving out stacks, queues and lists that a model does not need."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from shapes import shaped
from small_runs import small_run, trainer_of

from stacktrans.model.transducer import Transducer
from stacktrans.settings.resolve import resolve
from stacktrans.training import rounding
from stacktrans.training.pruning import prunable, pruned, smallest
from stacktrans.training.rounding import Rounding, SoftHardAccuracy


def model_of(memory: str = "stack-rnn", task: str = "anbn", **settings: Any) -> Transducer:
    small = {"memory": memory, "count": 4, "hidden_size": 6, "size": 2, **settings}
    config = resolve(task=task, settings={"model": shaped(kernel="torch", **small)}).model
    torch.manual_seed(1)
    return Transducer(config, 3, 3).double().eval()


def without(model: Transducer, left_out: list[int]) -> None:
    """Have some of the memories stay empty: all that they are pushed is an empty cell."""
    assert model.operation
    assert model.operation.values
    values = model.operation.values
    with torch.no_grad():
        for index in left_out:
            rows = slice(2 * index, 2 * index + 2)
            values.weight[rows] = 0
            values.bias[rows] = 100 * model.memory.empty  # through a tanh


@pytest.mark.parametrize("memory", ["stack-rnn", "list-rnn", "superposed", "tape"])
@pytest.mark.parametrize("controller", ["sigmoid", "lstm"])
def test_memories_that_are_always_empty_can_be_left_out(memory: str, controller: str) -> None:
    model = model_of(memory, controller=controller, values="tanh")
    without(model, [0, 2])
    smaller = pruned(model, [1, 3])
    assert smaller.config.memory.arguments["count"] == 2
    ids = torch.randint(3, (2, 30))
    with torch.no_grad():
        torch.testing.assert_close(smaller.double()(ids), model(ids), rtol=0, atol=1e-9)


def test_as_few_stacks_as_possible_are_kept() -> None:
    model = model_of()
    needed = {1, 3}

    def accuracy(other: Transducer) -> float:
        """The accuracy of a model that needs two stacks, which are recognized by their weights."""
        assert other.operation
        own = other.operation.signals.weight.unflatten(
            0, (other.config.memory.arguments["count"], -1)
        )
        assert model.operation
        all_of = model.operation.signals.weight.unflatten(0, (4, -1))
        there = {place for place in range(4) if any(torch.equal(all_of[place], row) for row in own)}
        return len(there & needed) / 2

    assert smallest(model, lambda other: accuracy(other) == 1).config.memory.arguments["count"] == 2


@pytest.mark.parametrize(
    ("settings", "possible"), [({}, True), ({"count": 1}, False), ({"controller": "linear"}, False)]
)
def test_only_some_models_are_prunable(settings: dict[str, Any], possible: bool) -> None:
    assert prunable(model_of(**settings)) is possible


@pytest.mark.parametrize("settings", [{}, {"buffers": {}}])
def test_queues_and_stacks_that_are_never_pushed_to_can_be_left_out(
    settings: dict[str, Any],
) -> None:
    model = model_of("2*queue+deque+stack", "reverse", controller="lstm", **settings)
    model.hard = True
    assert model.operation
    with torch.no_grad():
        for index, name in enumerate(model.operation.signal_names):
            if name.startswith("push") and not name.endswith("queue 2"):
                model.operation.signals.bias[index] = -100
    smaller = pruned(model, [1])
    assert smaller.config.memory.name == "queue"
    smaller.hard = True
    ids, lengths = torch.randint(3, (2, 30)), [30, 20]
    with torch.no_grad():
        one, other = (each.double().unroll(ids, lengths).hidden for each in (smaller, model))
    torch.testing.assert_close(one, other, rtol=0, atol=1e-9)


def test_a_single_memory_cannot_be_pruned() -> None:
    assert not prunable(model_of("stack", count=1))


@pytest.mark.parametrize(
    ("before", "after", "relearned", "memory"),
    [
        (1.0, 0.9, "0.001%", "queue"),  # it is not trained
        (0.9, 1.0, "100000%", "queue"),
        (0.9, 0.9, "100000%", "2*queue"),
        (0.9, 1.0, "0.001%", "2*queue"),  # its loss remains too high
    ],
)
def test_a_memory_is_left_out_if_the_model_learns_to_do_without_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    before: float,
    after: float,
    relearned: str,
    memory: str,
) -> None:
    """The accuracies are those without a memory, before and after training."""

    def measured(self: Rounding, model: Transducer) -> SoftHardAccuracy:
        smaller = before if self.attempt.losses.running is None else after
        accuracy = 1.0 if len(model.memory.parts) > 1 else smaller
        return accuracy, accuracy

    monkeypatch.setattr(rounding, "RELEARNED", (relearned,))
    monkeypatch.setattr(rounding, "RELEARNING", 5)
    monkeypatch.setattr(rounding, "LONGEST_RELEARNING", 5)
    monkeypatch.setattr(Rounding, "_measured", measured)
    config = small_run("rounding=discrete", "kernel=torch", memory="2*queue")
    state = trainer_of(config, tmp_path).state
    state.rounding.weights = copy.deepcopy(state.attempt.model.state_dict())
    state.attempt.losses.running = 0.125
    rounded = state.rounding.round(lambda: None, may_fail=False)
    assert rounded
    assert rounded.config.memory.name == memory
    assert state.attempt.losses.running == 0.125, "the loss before, not of models that are dropped"
    # The attempt keeps all memories, as its configuration says, and can be saved.
    assert state.attempt.model.config.memory.name == "2*queue"


def test_a_pruned_model_has_no_initial_biases_of_signals_that_it_lost() -> None:
    config = resolve(
        task="copy",
        settings={"model": {"memory": "queue+2*stack"}},
        assignments=["signal_bias={pop: -1, push queue: 2, push stack 2: 1}"],
    )
    model = pruned(Transducer(config.model, 5, 5), [0])
    smaller = config.model_copy(update={"model": model.config})
    assert type(config).model_validate(smaller.model_dump()).model.memory.name == "queue"
