"""Training states that are well-formed and wrong: each is refused, with what is wrong in it."""

import copy
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from changed_checkpoints import reseal
from test_stream_training import small_run as stream_run
from test_training import CPU, ignore, small_run, trainer_of

from stacktrans.model import checkpoint
from stacktrans.model.checkpoint import TRAINING, CheckpointError
from stacktrans.training.streams import StreamTrainer
from stacktrans.training.trainer import Trainer

State = dict[str, Any]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run of strings, and one of a stream."""
    place = tmp_path_factory.mktemp("runs")
    trainer_of(small_run("max_steps=10"), place / "strings").run(ignore)
    config = stream_run(stream="epochs: 2, starts: 2")
    (place / "stream").mkdir()
    StreamTrainer(config, place / "stream", CPU, "").run(ignore)
    return {kind: place / kind for kind in ("strings", "stream")}


def forged(run: Path, forge: Callable[[State], Any]) -> str:
    """What is said when a forged state is resumed; the run's own is put back."""
    path = run / "last" / TRAINING
    sound = path.read_bytes()
    state = torch.load(path, weights_only=True)
    forge(state)
    torch.save(state, path)
    reseal(run / "last")
    kind = StreamTrainer if run.name == "stream" else Trainer
    try:
        with pytest.raises(CheckpointError, match="damaged") as told:
            kind.resume(run, [], CPU)
    finally:
        path.write_bytes(sound)
        reseal(run / "last")
    said = str(told.value)
    assert said.startswith(f"{path}: damaged (")
    return said


def in_progress(**changes: Any) -> Callable[[State], None]:
    return lambda state: state["progress"].update(changes)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("share", [1, 2]),
        ("share", 1e-300),
        ("attempt", -1000000),
        ("step", "3"),
        ("step", True),
        ("step", 10**30),
        ("best", {"a": 1}),
        ("best", [math.nan]),
        ("running_loss", math.nan),
        ("seconds", -1.0),
        ("seconds", torch.tensor(1.0)),
        ("settled", 1),
        ("epoch", 1000),
        ("attempt_began", 11),
        ("loss_count", 1000),
        ("judged", ["x"]),
        ("metrics_size", -5),
        ("metrics_size", 10**9),
        ("outcome", "max_steps"),
        ("ended", "never"),
    ],
)
def test_progress_that_no_run_can_have_made_is_named(
    finished: dict[str, Path], name: str, value: Any
) -> None:
    said = forged(finished["strings"], in_progress(**{name: value}))
    assert re.search(rf"\({name}(\.\w+)*: ", said)


@pytest.mark.parametrize(
    ("forge", "said"),
    [
        (lambda state: state.pop("command"), "state: 'command'"),
        (lambda state: state.update(command=3), "command: 3"),
        (lambda state: state.update(more=3), "state: 'more'"),
        (lambda state: state.update(progress=3), "progress: 3"),
        (lambda state: state["progress"].pop("step"), "progress: 'step'"),
        (lambda state: state.update(optimizer=[]), "optimizer: "),
        (lambda state: of_group(state, lr=1e30), "optimizer.param_groups.0.lr: 1e+30"),
        (lambda state: of_group(state, lr=math.nan), "optimizer.param_groups.0.lr: nan"),
        (lambda state: of_group(state, params=[1]), "optimizer.param_groups.0.params"),
        (lambda state: of_group(state, alpha="0.9"), "optimizer.param_groups.0.alpha: '0.9'"),
        (lambda state: of_weight(state, torch.zeros(1)), "optimizer.state.0.square_avg: [1]"),
        (lambda state: of_weight(state, math.nan), "optimizer.state.0.square_avg: not all"),
        (lambda state: of_weight(state, torch.int64), "optimizer.state.0.square_avg"),
        (lambda state: state["optimizer"]["state"].update({99: {}}), "optimizer.state: 99"),
        (lambda state: state["average"].update(begun=2), "average.begun: 2"),
        (lambda state: state["average"]["model"].popitem(), "average.model: "),
        (lambda state: state.update(uncertain={}), "uncertain: []"),
    ],
)
def test_what_no_run_can_have_saved_is_named(
    finished: dict[str, Path], forge: Callable[[State], Any], said: str
) -> None:
    assert said in forged(finished["strings"], forge)


def of_group(state: State, **changes: Any) -> None:
    state["optimizer"]["param_groups"][0].update(changes)


def of_weight(state: State, change: Any) -> None:
    own = state["optimizer"]["state"][0]
    if isinstance(change, float):
        own["square_avg"][0] = change
    else:
        own["square_avg"] = (
            change if isinstance(change, torch.Tensor) else own["square_avg"].to(change)
        )


@pytest.mark.parametrize(
    ("forge", "said"),
    [
        (in_progress(attempt=3), "attempt: 3"),
        (in_progress(attempt=10**9), "attempt: 1000000000"),
        (in_progress(share=0.5), "share: 0.5"),
        (in_progress(judged=[1.0, 2.0, 3.0]), "judged: [1.0, 2.0, 3.0]"),
        (lambda state: state["kept"].update(more=torch.zeros(1)), "kept: "),
        (lambda state: state.pop("kept"), "state: 'kept'"),
    ],
)
def test_what_no_stream_can_have_saved_is_named(
    finished: dict[str, Path], forge: Callable[[State], Any], said: str
) -> None:
    assert said in forged(finished["stream"], forge)


def test_what_runs_save_is_what_they_read(finished: dict[str, Path]) -> None:
    for kind, run in finished.items():
        before = checkpoint.load_training(run / "last")
        trainer = (StreamTrainer if kind == "stream" else Trainer).resume(run, [], CPU)
        assert trainer.progress.step == before["progress"]["step"]
        assert copy.deepcopy(trainer.optimizer.state_dict()).keys() == before["optimizer"].keys()
