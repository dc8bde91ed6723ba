"""What a run remembers besides its weights to go on, and how that is checked when it is read."""

import copy
import dataclasses
import math
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import torch
from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError
from torch import Tensor

from stacktrans.model.transducer import Transducer
from stacktrans.settings.config import TrainingConfig
from stacktrans.training.optimizers import make_optimizer
from stacktrans.training.records import BUDGETS, RULES

MOST = 2**53
"""What is counted stays under this, so that it is the same as a float."""


def _plain(value: Any) -> Any:
    """Refuse what only behaves like a number, as tensors do."""
    if type(value) not in (int, float):
        raise ValueError("expected a number")
    return value


Count = Annotated[int, BeforeValidator(_plain), Field(strict=True, ge=0, le=MOST)]
Number = Annotated[float, BeforeValidator(_plain), Field(strict=True, allow_inf_nan=False)]
Truth = Annotated[bool, Field(strict=True)]
Merit = Annotated[list[Number], Field(max_length=2)]


@dataclass
class Progress:
    """How far a run is; plain numbers only.

    Attributes:
        step: batches trained on.
        attempt: how many times the run has started.
        attempt_began: the step at which it last did.
        seconds: of training.
        running_loss: running mean of the loss, nats a symbol; None before there is one.
        share: of the training lengths, that is trained on.
        settled: whether the learning rate has fallen, once the loss was low.
        loss_sum: of the losses since the last record.
        loss_count: how many they are.
        best: what the best weights were told by; empty if there are none.
        best_step: when they were taken.
        best_of_attempt: the same of this start.
        since_best: measurements since then.
        solved_in_a_row: measurements running by which the task is solved.
        epoch: of a stream, how many are done.
        judged: of a stream, the loss of each start when it was judged.
        metrics_size: bytes of the metrics that were written by then.
        ended: the rule that has ended the training, while rounding and pruning go on.
        outcome: the rule that has ended the run, when all is done.
        failed: whether the start has failed, so that the next begins.
    """

    step: Count = 0
    attempt: Annotated[Count, Field(ge=1)] = 1
    attempt_began: Count = 0
    seconds: Annotated[Number, Field(ge=0)] = 0.0
    running_loss: Number | None = None
    share: Annotated[Number, Field(gt=0, le=1)] = 1.0
    settled: Truth = False
    loss_sum: Number = 0.0
    loss_count: Count = 0
    best: Merit = field(default_factory=list)
    best_step: Count = 0
    best_of_attempt: Merit = field(default_factory=list)
    since_best: Count = 0
    solved_in_a_row: Count = 0
    epoch: Count = 0
    judged: list[Number] = field(default_factory=list)
    metrics_size: Count = 0
    ended: str | None = None
    outcome: str | None = None
    failed: Truth = False


_PROGRESS = TypeAdapter(Progress)


def read_progress(found: Any) -> Progress:
    """How far a run was; raises `ValueError` naming what it can't have been."""
    names = {each.name for each in dataclasses.fields(Progress)}
    if not isinstance(found, dict) or found.keys() != names:
        different = names ^ found.keys() if isinstance(found, dict) else ()
        raise _wrong("progress", ", ".join(sorted(map(str, different))) or found)
    try:
        progress = _PROGRESS.validate_python(found)
    except ValidationError as error:
        first = error.errors()[0]
        raise _wrong(".".join(map(str, first["loc"])), first["input"]) from error
    _check_consistent(progress)
    return progress


def _check_consistent(progress: Progress) -> None:
    """Raise `ValueError` for numbers that can't be those of one run."""
    for name in ("attempt_began", "best_step"):
        _check(progress, name, getattr(progress, name) <= progress.step)
    done = progress.step - progress.attempt_began
    _check(progress, "loss_count", progress.loss_count <= done)
    _check(progress, "epoch", progress.epoch <= done)
    _check(progress, "judged", len(progress.judged) <= progress.attempt)
    for name in ("ended", "outcome"):
        found = getattr(progress, name)
        _check(progress, name, found is None or found in RULES.keys() - BUDGETS)
    _check(progress, "outcome", progress.outcome in (None, progress.ended))
    _check(progress, "best", bool(progress.best) or not progress.ended)
    _check(progress, "failed", not (progress.failed and progress.ended))


def _check(progress: Progress, name: str, right: bool) -> None:
    if not right:
        raise _wrong(name, getattr(progress, name))


def check_value(name: str, value: object, right: bool) -> None:
    """Raise `ValueError` naming a value of a run's state if it is not right."""
    if not right:
        raise _wrong(name, value)


def check_alike(name: str, found: Any, expected: Any) -> None:
    """Raise `ValueError` unless two states differ in nothing but the numbers in their tensors.

    Args:
        name: what to call what was found.
        found: what was read; its tensors must hold finite numbers.
        expected: a state of the same kind.
    """
    if isinstance(expected, Tensor):
        right = isinstance(found, Tensor) and found.layout is torch.strided
        if not right or (found.shape, found.dtype) != (expected.shape, expected.dtype):
            raise _wrong(name, found)
        if found.is_floating_point() and not found.isfinite().all():
            raise ValueError(f"{name}: not all of it are finite numbers")
    elif isinstance(expected, Mapping):
        if not isinstance(found, Mapping) or found.keys() != expected.keys():
            raise _wrong(name, sorted(map(str, found)) if isinstance(found, Mapping) else found)
        for key, part in expected.items():
            check_alike(f"{name}.{key}", found[key], part)
    elif isinstance(expected, (list, tuple)):
        if type(found) is not type(expected) or len(found) != len(expected):
            raise _wrong(name, found)
        for index, (part, other) in enumerate(zip(found, expected, strict=True)):
            check_alike(f"{name}.{index}", part, other)
    elif type(found) is not type(expected) or found != expected:
        raise _wrong(name, found)


def check_optimizer(found: Any, model: Transducer, training: TrainingConfig) -> None:
    """Raise `ValueError` unless a state is one that the optimiser of a model can have.

    Its learning rates may have fallen, or have changed when the run settled; weights that have
    never had a gradient have no state.
    """
    expected = _state_after_a_batch(model, training)
    if not isinstance(found, dict) or found.keys() != expected.keys():
        raise _wrong("optimizer", found)
    groups, others = found["param_groups"], expected["param_groups"]
    if not isinstance(groups, list) or len(groups) != len(others):
        raise _wrong("optimizer.param_groups", groups)
    most = max(1.0, training.settle_rate) * (1 + 1e-9)
    for number, (group, other) in enumerate(zip(groups, others, strict=True)):
        name = f"optimizer.param_groups.{number}"
        rate = group.get("lr") if isinstance(group, dict) else None
        if not (isinstance(rate, float) and 0 <= rate <= other["lr"] * most):
            raise _wrong(f"{name}.lr", rate)
        check_alike(name, {**group, "lr": other["lr"]}, other)
    if not isinstance(found["state"], dict):
        raise _wrong("optimizer.state", found["state"])
    for key, part in found["state"].items():
        if key not in expected["state"]:
            raise _wrong("optimizer.state", key)
        check_alike(f"optimizer.state.{key}", part, expected["state"][key])


def _state_after_a_batch(model: Transducer, training: TrainingConfig) -> dict[str, Any]:
    trained = copy.deepcopy(model)
    for weight in trained.parameters():
        weight.grad = torch.zeros_like(weight)
    rate = min(training.learning_rate, 1.0)  # of whatever size, it can be taken a step with
    optimizer = make_optimizer(trained, training.model_copy(update={"learning_rate": rate}))
    optimizer.step()
    state = optimizer.state_dict()
    for group, real in zip(
        state["param_groups"], make_optimizer(trained, training).param_groups, strict=True
    ):
        group["lr"] = real["lr"]
    return state


_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = 60


def _wrong(name: str, value: object) -> ValueError:
    shown = f"{list(value.shape)} {value.dtype}" if isinstance(value, Tensor) else _shown(value)
    return ValueError(f"{name}: {shown}")


def _shown(value: object) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return _REPR.repr(value)
