"""Checkpoints: written whole or not at all, read back exactly, refused clearly."""

import os
import shutil
from pathlib import Path

import pytest
import safetensors.torch
import torch
from changed_checkpoints import change_config, change_weights, reseal
from small_runs import CPU
from tiny_models import tiny_config, tiny_model

from stacktrans.common.errors import CheckpointError
from stacktrans.common.files import SUMS, write_atomically
from stacktrans.model import checkpoint, checkpoint_files


def test_a_saved_checkpoint_is_loaded_unchanged(saved: Path) -> None:
    loaded = checkpoint.load(saved, CPU)
    for name, weight in tiny_model(tiny_config()).state_dict().items():
        assert torch.equal(loaded.model.state_dict()[name], weight)
    assert loaded.config == tiny_config()
    assert not loaded.model.training
    assert checkpoint_files.load_training(saved) == {"step": 3}


def test_a_run_is_loaded_from_its_best_checkpoint_or_else_its_last(tmp_path: Path) -> None:
    config = tiny_config()
    checkpoint_files.save(tmp_path / "run" / "last", config, tiny_model(config, 1).state_dict(), {})
    assert checkpoint_files.locate(tmp_path / "run").name == "last"
    checkpoint_files.save(tmp_path / "run" / "best", config, tiny_model(config, 2).state_dict())
    assert checkpoint_files.locate(tmp_path / "run").name == "best"


def test_saving_again_replaces_all(saved: Path) -> None:
    config = tiny_config(hidden_size=7)
    checkpoint_files.save(saved, config, tiny_model(config).state_dict())
    assert checkpoint.load(saved, CPU).config == config
    assert sorted(path.name for path in saved.parent.iterdir()) == ["run"]
    assert sorted(path.name for path in saved.iterdir()) == [
        "SHA256SUMS",
        "config.yaml",
        "model.safetensors",
    ]


@pytest.mark.parametrize("call", ["rename", "fsync"])
def test_a_failure_at_any_moment_loses_nothing(
    saved: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    original, config = getattr(os, call), tiny_config()
    left = 0

    def failing(*args: object) -> object:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(28, "No space left on device")
        return original(*args)

    monkeypatch.setattr(os, call, failing)
    for calls in range(20):
        before, left = checkpoint_files.load_training(checkpoint_files.locate(saved)), calls
        new = tiny_model(config, seed=calls).state_dict()
        try:
            checkpoint_files.save(saved, config, new, {"step": calls})
        except CheckpointError:
            left = 99
            assert checkpoint_files.load_training(checkpoint_files.locate(saved)) in (
                before,
                {"step": calls},
            )
            checkpoint.load(saved, CPU)  # raises an error if the two are not of one checkpoint
        else:
            break
    assert calls > 1
    assert checkpoint_files.load_training(checkpoint_files.locate(saved)) == {"step": calls}
    found = checkpoint.load(saved, CPU).model.state_dict()
    assert all(torch.equal(found[name], weight) for name, weight in new.items())


def test_a_kill_between_the_renames_leaves_the_old_one_to_be_found(tmp_path: Path) -> None:
    config = tiny_config()
    run = tmp_path / "run"
    for name in ("best", "last"):
        checkpoint_files.save(run / name, config, tiny_model(config).state_dict(), {"step": 1})
        os.rename(run / name, run / f".{name}.old")
    assert checkpoint.load(run, CPU).config == config
    assert checkpoint_files.load_training(checkpoint_files.last_checkpoint(run)) == {"step": 1}
    checkpoint_files.save(run / "last", config, tiny_model(config).state_dict(), {"step": 2})
    assert checkpoint_files.load_training(checkpoint_files.last_checkpoint(run)) == {"step": 2}


@pytest.mark.parametrize("size", [0, 5, 200, -1])
def test_truncated_weights_are_refused(saved: Path, size: int) -> None:
    path = saved / "model.safetensors"
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(CheckpointError, match=r"model.safetensors: truncated"):
        checkpoint.load(saved, CPU)


def test_truncated_training_state_is_refused(saved: Path) -> None:
    path = saved / "training.pt"
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(CheckpointError, match=r"training.pt: truncated"):
        checkpoint_files.load_training(saved)


def test_training_state_holds_no_code(saved: Path) -> None:
    torch.save({"harmful": Path("x")}, saved / "training.pt")
    with pytest.raises(CheckpointError, match=r"training.pt"):
        checkpoint_files.load_training(saved)


def test_another_format_is_refused(saved: Path) -> None:
    change_config(saved, "format: 3", "format: 4")
    (saved / SUMS).write_text("whatever comes then")
    with pytest.raises(CheckpointError, match="format 4; this stacktrans reads format 3"):
        checkpoint.load(saved, CPU)


def test_foreign_directories_are_refused(saved: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(CheckpointError, match="not a stacktrans checkpoint"):
        checkpoint.load(tmp_path / "empty", CPU)
    with pytest.raises(CheckpointError, match="no such checkpoint"):
        checkpoint.load(tmp_path / "absent", CPU)
    (saved / "config.yaml").write_text("architectures: [GPT]\n")
    reseal(saved)
    with pytest.raises(CheckpointError, match="not a stacktrans checkpoint"):
        checkpoint.load(saved, CPU)
    (saved / "config.yaml").unlink()
    with pytest.raises(CheckpointError, match=r"config.yaml: missing"):
        checkpoint.load(saved, CPU)


def test_weights_of_another_model_are_refused(saved: Path, tmp_path: Path) -> None:
    config = tiny_config(hidden_size=9)
    checkpoint_files.save(tmp_path / "other", config, tiny_model(config).state_dict())
    shutil.copy(tmp_path / "other" / "model.safetensors", saved)
    with pytest.raises(CheckpointError, match="the configuration requires"):
        checkpoint.load(saved, CPU)


def test_a_directory_that_can_not_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    config = tiny_config()
    with pytest.raises(CheckpointError, match=r"file/run: can't write"):
        checkpoint_files.save(tmp_path / "file" / "run", config, tiny_model(config).state_dict())


def test_texts_are_written_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "summary.json"
    write_atomically(path, "old")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="No space"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert [other.name for other in tmp_path.iterdir()] == ["summary.json"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (torch.nan, "has NaN or infinite numbers"),
        (None, "has no floating-point numbers"),
        (torch.inf, "has NaN or infinite numbers"),
        (-torch.inf, "has NaN or infinite numbers"),
    ],
)
@pytest.mark.parametrize("sealed", [True, False])
def test_weights_that_are_no_numbers_are_refused(
    saved: Path, wrong: float | None, message: str, sealed: bool
) -> None:
    path = saved / "model.safetensors"
    weights = safetensors.torch.load_file(path)
    name = "controller.layers.0.bias"
    weights[name] = (
        weights[name].long()
        if wrong is None
        else weights[name].index_fill(0, torch.tensor([3]), wrong)
    )
    safetensors.torch.save_file(weights, path)
    if sealed:
        reseal(saved)
    with pytest.raises(CheckpointError, match=f"weight {name} {message}"):
        checkpoint.load(saved, CPU)


def test_numbers_too_large_for_a_model_are_refused(saved: Path) -> None:
    weights = safetensors.torch.load_file(saved / "model.safetensors")
    weights["classifier.bias"] = weights["classifier.bias"].double().fill_(1e300)
    change_weights(saved, weights)
    with pytest.raises(CheckpointError, match=r"weight classifier.bias has NaN or infinite"):
        checkpoint.load(saved, CPU)


def test_an_open_pipe_is_written_to_by_its_name() -> None:
    reading, writing = os.pipe()
    write_atomically(Path(f"/dev/fd/{writing}"), "content")
    os.close(writing)
    with open(reading, encoding="utf-8") as stream:
        assert stream.read() == "content"
    with pytest.raises(OSError, match="/dev/full"):
        write_atomically(Path("/dev/full"), "content")
