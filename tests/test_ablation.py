"""Ablation: models without their memory, pushes, pops or state."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from command_line import run
from torch import Tensor

import stacktrans
from stacktrans.common.errors import UsageError
from stacktrans.inference.transduction import AnswerOptions, transduce_strings
from stacktrans.model.ablation import ablatable_parts, ablate
from stacktrans.model.checkpoint import Checkpoint, load
from stacktrans.model.transducer import Transducer
from stacktrans.settings.locations import shipped
from stacktrans.settings.resolve import resolve
from stacktrans.training.rounding import SHARPNESS

CONTROLLERS = ("lstm", "gru", "rnn", "second-order", "sigmoid", "linear")
MEMORIES = ("stack", "deque", "queue+stack", "stack-rnn", "list-rnn", "superposed", "tape")
STRINGS = np.array([[0, 3, 4, 2, 1, 5], [0, 2, 2, 3, 1, 6]])


def random_model(controller: str, memory: str, *changes: str) -> Checkpoint:
    """A model that has learned nothing, with signals that differ."""
    if controller != "linear":
        changes = ("hidden_size=8", *changes)
    changes = (*changes, *(["memory.count=2"] if "rnn" in memory else ["memory.size=4"]))
    config = resolve(
        task="reverse",
        settings={"model": {"memory": memory, "controller": controller}},
        assignments=["task.parameters.symbols=3", "embedding_size=5", *changes],
    )
    task = config.make_task()
    torch.manual_seed(3)
    model = Transducer(config.model, task.layout.inputs, task.layout.outputs)
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_()
    weights = {name: each.numpy() for name, each in model.state_dict().items()}
    return Checkpoint(Path("random"), config, task, task.layout, weights)


def logits_of(checkpoint: Checkpoint, change: Callable[[Transducer], None] | None = None) -> Tensor:
    """The logits of a model at each step; in torch, step by step, if it is changed."""
    model = checkpoint.model
    if change:
        model.config = model.config.model_copy(update={"kernel": "torch"})
        change(model)
    with torch.no_grad():
        found: Tensor = model(torch.tensor(STRINGS))
    return found


def assert_alike(found: Tensor, expected: Tensor) -> None:
    """In single precision, by different code."""
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)


def no_reads(model: Transducer) -> None:
    controller, step = model.controller, model.controller.step

    def blind(projected: tuple[Tensor, ...], reads: Tensor, state: Any) -> Any:
        return step(projected, 0 * reads, state)

    controller.step = blind  # type: ignore[method-assign]


def block(action: str) -> Callable[[Transducer], None]:
    """A change that makes the signals of some actions 0 in the torch implementation."""

    def change(model: Transducer) -> None:
        memory, signals = model.memory, model.memory.signals
        rows = [name.split()[0] in action.split() for name in memory.signal_names]

        def blocked(sums: Tensor) -> Tensor:
            sums = sums.clone()
            sums[:, rows] = -torch.inf
            return signals(sums)

        object.__setattr__(memory, "signals", blocked)

    return change


def no_state(model: Transducer) -> None:
    controller, step = model.controller, model.controller.step

    def anew(projected: tuple[Tensor, ...], reads: Tensor, state: Any) -> Any:
        initial = controller.initial(len(reads))
        nothing = tuple(tuple(0 * part for part in layer) for layer in initial)
        return step(projected, reads, nothing)

    controller.step = anew  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("controller", "memory"),
    [
        *(("linear", memory) for memory in MEMORIES),
        *((controller, "deque") for controller in CONTROLLERS if controller != "linear"),
    ],
)
def test_without_memory_nothing_is_read(controller: str, memory: str) -> None:
    model = random_model(controller, memory)
    found, whole = logits_of(ablate(model, "memory")), logits_of(model)
    assert not torch.allclose(found, whole)
    assert_alike(found, logits_of(model, no_reads))  # which changes it for good


@pytest.mark.parametrize("memory", ["stack", "deque", "queue+stack", "stack-rnn", "superposed"])
@pytest.mark.parametrize(("part", "action"), [("pushes", "push"), ("pops", "pop")])
def test_signals_are_blocked(memory: str, part: str, action: str) -> None:
    model = random_model("lstm", memory)
    found, whole = logits_of(ablate(model, part)), logits_of(model)
    assert not torch.allclose(found, whole)
    assert_alike(found, logits_of(model, block(action)))


@pytest.mark.parametrize("memory", ["stack", "stack-rnn", "list-rnn"])
def test_signals_of_models_that_were_made_discrete_are_blocked(memory: str) -> None:
    model = random_model("lstm", memory)
    pushing = [name.split()[0] in {"push", "insert"} for name in model.signal_names]
    model.weights["operation.signals.weight"][:] = 0
    model.weights["operation.signals.bias"][:] = SHARPNESS * np.where(pushing, 1, -5)
    found, whole = logits_of(ablate(model, "pushes")), logits_of(model)
    assert not torch.allclose(found, whole)
    assert_alike(found, logits_of(model, block("push insert")))  # which changes it for good


def test_ablation_uses_the_current_weights_of_the_model() -> None:
    model = random_model("lstm", "stack")
    with torch.no_grad():
        model.model.classifier.weight.zero_()
        model.model.classifier.bias.zero_()
    assert not logits_of(ablate(model, "pops")).any()


@pytest.mark.parametrize("controller", ["lstm", "rnn", "second-order", "sigmoid"])
@pytest.mark.parametrize("layers", [1, 2])
def test_without_state_each_step_begins_from_zeros(controller: str, layers: int) -> None:
    model = random_model(controller, "stack", f"controller.layers={layers}")
    assert_alike(logits_of(ablate(model, "state")), logits_of(model, no_state))


def test_cells_are_a_state_without_recurrent_weights() -> None:
    model = random_model("lstm", "stack", "controller.recurrent=false")
    assert ablatable_parts(model) == ["memory", "pushes", "pops", "state"]
    assert_alike(logits_of(ablate(model, "state")), logits_of(model, no_state))


@pytest.mark.parametrize("controller", CONTROLLERS)
def test_without_state_and_memory_an_output_depends_only_on_its_input(controller: str) -> None:
    model = ablate(random_model(controller, "queue"), "memory")
    found = logits_of(ablate(model, "state") if "state" in ablatable_parts(model) else model)
    assert_alike(found[0, 1], found[1, 3])  # both read symbol 3
    assert not torch.allclose(found[0, 1], found[0, 2])


def test_blocking_signals_adds_biases_to_a_model_without_them() -> None:
    unbiased = random_model("rnn", "stack", "controller.biases=false")
    assert_alike(logits_of(ablate(unbiased, "pops")), logits_of(unbiased, block("pop")))


def test_ablation_does_not_change_the_model() -> None:
    model = random_model("lstm", "stack")
    before = {name: weight.copy() for name, weight in model.weights.items()}
    for part in ablatable_parts(model):
        ablate(model, part)
    for name, weight in model.weights.items():
        np.testing.assert_array_equal(weight, before[name])


def test_only_parts_that_a_model_has_can_be_removed() -> None:
    assert ablatable_parts(random_model("lstm", "stack")) == ["memory", "pushes", "pops", "state"]
    assert ablatable_parts(random_model("linear", "list-rnn")) == ["memory", "pushes"]
    assert ablatable_parts(random_model("lstm", "tape")) == ["memory", "state"]
    plain = resolve(task="reverse", settings={"model": {"memory": "none", "controller": "lstm"}})
    layout = plain.make_task().layout
    weights = Transducer(plain.model, layout.inputs, layout.outputs).state_dict()
    arrays = {name: each.numpy() for name, each in weights.items()}
    assert ablatable_parts(Checkpoint(Path("x"), plain, plain.make_task(), layout, arrays)) == [
        "state"
    ]
    with pytest.raises(UsageError, match="random: the model has no pops; it has memory, pushes"):
        ablate(random_model("linear", "list-rnn"), "pops")


def test_a_model_that_reverses_needs_each_of_its_parts() -> None:
    model = load("reverse-stack")
    assert answer_of(model) == "hgfedcba"
    for part in ablatable_parts(model):
        assert answer_of(ablate(model, part)) != "hgfedcba", part


@pytest.mark.parametrize("name", ["anbn", "anbncn"])
def test_shipped_counters_need_to_push_and_to_pop(name: str) -> None:
    done = run("eval", name, "--count", "20", "--without", "pushes", "--without", "pops", "--json")
    for each in json.loads(done.stdout):
        coarse = {found["coarse"] for found in each["results"]}
        assert max(coarse) < 0.5 if "without" in each["checkpoint"] else coarse == {1.0}
    summary = json.loads((shipped("checkpoints") / name / "summary.json").read_text())
    assert max(each["coarse"] for each in summary["without"].values()) < 0.5


def answer_of(model: Checkpoint) -> str | None:
    (line,) = transduce_strings(model, ["abcdefgh"], AnswerOptions(max_length=8))
    return line.output


def test_the_summary_of_a_run_has_accuracies_without_each_part(trained: Path) -> None:
    without = json.loads((trained / "summary.json").read_text())["without"]
    assert list(without) == ["memory", "pushes", "pops", "state"]
    assert {each["count"] for each in without.values()} == {20}


def test_python_evaluates_a_model_without_a_part() -> None:
    model = stacktrans.load("reverse-stack")
    assert model.without("memory").evaluate(lengths=(8, 64), count=20).coarse == 0
    with pytest.raises(UsageError, match="unknown part 'pop'"):
        model.without("pop")


def test_eval_shows_a_model_beside_its_ablations() -> None:
    options = ("--count", "20", "--lengths", "8:64", "--without", "memory", "--without", "pops")
    done = run("eval", "reverse-stack", *options, "--json")
    found = {each["checkpoint"]: each["results"][0]["coarse"] for each in json.loads(done.stdout)}
    assert found == {
        "reverse-stack": 1.0,
        "reverse-stack without memory": 0.0,
        "reverse-stack without pops": 0.0,
    }


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ("pusches", "unknown part 'pusches'; did you mean 'pushes'?"),
        ("state", "the model has no state; it has memory, pushes, pops"),
    ],
)
def test_eval_names_the_parts_that_can_be_removed(part: str, message: str) -> None:
    done = run("eval", "reversal-stack", "--without", part)
    assert (done.returncode, done.stdout) == (2, b"")
    assert message in done.stderr.decode()
