"""Training states that are well-formed and wrong: each is refused, with what is wrong in it."""

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from changed_checkpoints import reseal
from small_runs import CPU, ignore, small_run, trainer_of
from test_stream_training import small_run as stream_run

from stacktrans.model import checkpoint
from stacktrans.model.checkpoint import TRAINING, CheckpointError
from stacktrans.training.stateful import check_same_structure
from stacktrans.training.trainer import Trainer

State = dict[str, Any]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run of strings, and one of a stream."""
    place = tmp_path_factory.mktemp("runs")
    trainer_of(small_run("max_steps=10"), place / "strings").run(ignore)
    config = stream_run(stream="epochs: 2, attempts: 2")
    (place / "stream").mkdir()
    Trainer(config, place / "stream", CPU, "").run(ignore)
    return {kind: place / kind for kind in ("strings", "stream")}


def forged(run: Path, forge: Callable[[State], Any]) -> str:
    """The error when a forged state is resumed; afterwards the run's own state is restored."""
    path = run / "last" / TRAINING
    sound = path.read_bytes()
    state = torch.load(path, weights_only=True)
    forge(state)
    torch.save(state, path)
    reseal(run / "last")
    try:
        with pytest.raises(CheckpointError, match="damaged") as raised:
            Trainer.resume(run, [], CPU)
    finally:
        path.write_bytes(sound)
        reseal(run / "last")
    message = str(raised.value)
    assert message.startswith(f"{path}: damaged (")
    return message


def at(path: str, value: Any) -> Callable[[State], None]:
    """What puts a value where a path leads."""

    def forge(state: State) -> None:
        *parts, last = path.split(".")
        for part in parts:
            state = state[part]
        state[last] = value

    return forge


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("attempt.curriculum.share", [1, 2]),
        ("attempt.curriculum.share", 1e-300),
        ("attempts.number", -1000000),
        ("attempt.losses.step", "3"),
        ("attempt.losses.step", True),
        ("attempt.losses.step", 10**30),
        ("progress.best", {"a": 1}),
        ("progress.best", [math.nan]),
        ("progress.best_step", 11),
        ("attempt.losses.running", math.nan),
        ("progress.seconds", -1.0),
        ("progress.seconds", torch.tensor(1.0)),
        ("attempt.curriculum.settled", 1),
        ("attempt.stopping.in_a_row", -1),
        ("attempts.first_step", 1.5),
        ("attempt.losses.count", 1000),
        ("attempts.validation", ["x"]),
        ("progress.metrics_size", -5),
        ("progress.metrics_size", 10**9),
        ("progress.ended", "never"),
        ("rounding.weights", {}),
        ("rounding.weights", torch.zeros(1)),
        ("command", 3),
    ],
)
def test_values_that_no_run_can_have_saved_are_named(
    finished: dict[str, Path], path: str, value: Any
) -> None:
    message = forged(finished["strings"], at(path, value))
    name = path.removeprefix("attempt.")
    assert re.search(rf"\({re.escape(name)}(\.\w+)*: ", message)


@pytest.mark.parametrize(
    ("forge", "message"),
    [
        (lambda state: state.pop("command"), "state: 'command'"),
        (lambda state: state.update(more=3), "state: 'more'"),
        (lambda state: state.update(progress=3), "progress: 3"),
        (lambda state: state["progress"].pop("seconds"), "progress: 'seconds'"),
        (lambda state: state.update(attempt=[]), "attempt: []"),
        (lambda state: state["attempt"].update(source={"epoch": 1}), "source: 'epoch'"),
        (lambda state: state["attempt"].update(optimizer=[]), "optimizer: "),
        (lambda state: of_group(state, lr=1e30), "optimizer.param_groups.0.lr: 1e+30"),
        (lambda state: of_group(state, lr=math.nan), "optimizer.param_groups.0.lr: nan"),
        (lambda state: of_group(state, params=[1]), "optimizer.param_groups.0.params"),
        (lambda state: of_group(state, alpha="0.9"), "optimizer.param_groups.0.alpha: '0.9'"),
        (lambda state: of_weight(state, torch.zeros(1)), "optimizer.state.0.square_avg: [1]"),
        (lambda state: of_weight(state, math.nan), "optimizer.state.0.square_avg: not all"),
        (lambda state: of_weight(state, torch.int64), "optimizer.state.0.square_avg"),
        (lambda state: optimizer_of(state)["state"].update({99: {}}), "optimizer.state: '99'"),
        (lambda state: state["attempt"]["average"].popitem(), "average: "),
    ],
)
def test_impossible_states_of_a_run_are_named(
    finished: dict[str, Path], forge: Callable[[State], Any], message: str
) -> None:
    assert message in forged(finished["strings"], forge)


def optimizer_of(state: State) -> State:
    found: State = state["attempt"]["optimizer"]
    return found


def of_group(state: State, **changes: Any) -> None:
    optimizer_of(state)["param_groups"][0].update(changes)


def of_weight(state: State, change: Any) -> None:
    own = optimizer_of(state)["state"][0]
    if isinstance(change, float):
        own["square_avg"][0] = change
    else:
        own["square_avg"] = (
            change if isinstance(change, torch.Tensor) else own["square_avg"].to(change)
        )


@pytest.mark.parametrize(
    ("forge", "message"),
    [
        (at("attempts.number", 3), "attempts.number: 3"),
        (at("attempts.number", 10**9), "attempts.number: 1000000000"),
        (at("attempts.validation", [1.0, 2.0, 3.0]), "attempts.validation: [1.0, 2.0, 3.0]"),
        (at("attempt.curriculum.share", 0.5), "curriculum.share: 0.5"),
        (at("attempt.stopping.epochs", 1000), "stopping.epochs: 1000"),
        (at("attempt.source.epoch", -1), "source.epoch: -1"),
        (lambda state: state["attempt"]["stopping"]["kept"].update(more=torch.zeros(1)), ".kept: "),
        (lambda state: state["attempt"]["stopping"].pop("kept"), "stopping: 'kept'"),
    ],
)
def test_impossible_states_of_a_stream_are_named(
    finished: dict[str, Path], forge: Callable[[State], Any], message: str
) -> None:
    assert message in forged(finished["stream"], forge)


def test_saved_states_of_runs_are_read_back(finished: dict[str, Path]) -> None:
    for run in finished.values():
        before = checkpoint.load_training(run / "last")
        state = Trainer.resume(run, [], CPU).state
        assert state.progress.state_dict() == before["progress"]
        assert state.attempts.state_dict() == before["attempts"]
        check_same_structure("attempt", state.attempt.state_dict(), before["attempt"])
