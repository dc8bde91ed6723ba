"""Training states that can be read and are wrong: each is refused in one line."""

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from changed_checkpoints import reseal
from small_runs import CPU, ignore, small_run, small_stream, trainer_of
from torch.utils._pytree import tree_leaves

from stacktrans.common.errors import CheckpointError
from stacktrans.model import checkpoint_files
from stacktrans.model.checkpoint_files import TRAINING
from stacktrans.training.trainer import Trainer

State = dict[str, Any]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run of strings, and one of a stream."""
    place = tmp_path_factory.mktemp("runs")
    trainer_of(small_run("max_steps=10"), place / "strings").run(ignore)
    config = small_stream(stream="epochs: 2, attempts: 2")
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
    assert "\n" not in message
    return message


def at(path: str, value: Any) -> Callable[[State], None]:
    """A function that sets the value at a dotted path of a state."""

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
        ("attempts.number", -1000000),
        ("attempt.losses.step", "3"),
        ("attempt.losses.step", 10**30),
        ("progress.best", {"a": 1}),
        ("attempt.losses.running", math.nan),
        ("progress.ended", "never"),
        ("progress.metrics_size", -5),
    ],
)
def test_values_of_wrong_types_and_ranges_are_named(
    finished: dict[str, Path], path: str, value: Any
) -> None:
    message = forged(finished["strings"], at(path, value))
    name = path.removeprefix("attempt.")
    assert re.search(rf"{re.escape(name)}(\.\w+)*: ", message)


@pytest.mark.parametrize(
    ("forge", "message"),
    [
        (lambda state: state.pop("command"), "'command'"),
        (lambda state: state.update(progress=3), "progress: "),
        (lambda state: state["progress"].pop("seconds"), "progress.seconds: Field required"),
        (lambda state: state.update(attempt=[]), "list indices"),
        (at("attempt.optimizer", []), "list indices"),
        (at("attempt.optimizer.state.99", {}), "'str' object has no attribute 'shape'"),
        (lambda state: of_group(state, lr="fast"), "'fast'"),
        (lambda state: of_weight(state).update(square_avg=torch.zeros(1)), "of other weights"),
        (lambda state: of_weight(state).pop("square_avg"), "of other weights"),
        (
            lambda state: of_weight(state).update(square_avg=[1]),
            "'list' object has no attribute 'shape'",
        ),
        (lambda state: state["attempt"]["average"].popitem(), "Missing key"),
        (at("attempt.average.memory", torch.zeros(1)), "Unexpected key"),
        (at("rounding.weights", {"memory": torch.zeros(1)}), "Missing key"),
    ],
)
def test_states_that_are_incomplete_or_of_other_shapes_are_refused(
    finished: dict[str, Path], forge: Callable[[State], Any], message: str
) -> None:
    assert message in forged(finished["strings"], forge)


def test_states_without_storage_of_their_own_are_refused(finished: dict[str, Path]) -> None:
    def forge(state: State) -> None:
        buffers = of_weight(state)
        buffers["square_avg"] = torch.zeros(()).expand(buffers["square_avg"].shape)

    assert "of other weights" in forged(finished["strings"], forge)


def of_group(state: State, **changes: Any) -> None:
    state["attempt"]["optimizer"]["param_groups"][0].update(changes)


def of_weight(state: State) -> State:
    found: State = state["attempt"]["optimizer"]["state"][0]
    return found


@pytest.mark.parametrize(
    ("forge", "message"),
    [
        (at("attempt.source.epoch", -1), "source.epoch: "),
        (lambda state: state["attempt"]["stopping"]["kept"].popitem(), "Missing key"),
        (lambda state: state["attempt"]["stopping"].pop("kept"), "stopping.kept: Field required"),
    ],
)
def test_incomplete_states_of_a_stream_are_refused(
    finished: dict[str, Path], forge: Callable[[State], Any], message: str
) -> None:
    assert message in forged(finished["stream"], forge)


def test_saved_states_of_runs_are_read_back(finished: dict[str, Path]) -> None:
    for run in finished.values():
        before = checkpoint_files.load_training(run / "last")
        state = Trainer.resume(run, [], CPU).state
        assert state.progress.state_dict() == before["progress"]
        assert state.attempts.state_dict() == before["attempts"]
        pairs = zip(*map(tree_leaves, (state.attempt.state_dict(), before["attempt"])), strict=True)
        assert all(
            torch.equal(*map(torch.as_tensor, pair)) for pair in pairs if pair[0] is not None
        )
