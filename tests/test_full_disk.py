"""A file that can't be written is named in the message, and its old content is kept."""

import errno
import json
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from command_line import SMALL, TRAIN, invoke
from tiny_models import tiny_config, tiny_model

from stacktrans.common import files
from stacktrans.common.errors import CheckpointError
from stacktrans.common.files import write_flushed
from stacktrans.model import checkpoint_files

FILES = ("config.yaml", "model.safetensors", "training.pt", "SHA256SUMS", "README.md")
COMMAND = [*TRAIN, "--task", "copy", "--memory", "queue", *SMALL]


def full_at(name: str, after: int = 0) -> Callable[[Path, bytes], None]:
    """A stand-in for `write_flushed` that writes `name` `after` times, and then fails at it."""
    left = after

    def write(path: Path, content: bytes) -> None:
        nonlocal left
        if path.name == name:
            left -= 1
            if left < 0:
                write_flushed(path, content[: len(content) // 2])
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write_flushed(path, content)

    return write


@pytest.mark.parametrize("name", FILES)
def test_a_full_disk_is_an_error_that_names_the_file_and_keeps_the_old_checkpoint(
    saved: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    before = {path.name: path.read_bytes() for path in saved.iterdir()}
    monkeypatch.setattr(files, "write_flushed", full_at(name))
    other = tiny_model(tiny_config(), seed=1).state_dict()
    with pytest.raises(CheckpointError) as caught:
        checkpoint_files.save(saved, tiny_config(), other, {"step": 4}, card="# model\n")
    message = f"{saved / name}: can't write the checkpoint: No space left on device"
    assert str(caught.value) == message
    assert caught.value.exit_code == 1
    assert {path.name: path.read_bytes() for path in saved.iterdir()} == before
    assert [path.name for path in saved.parent.iterdir()] == ["run"]


@contextmanager
def files_up_to(size: int) -> Iterator[None]:
    """Make writes beyond `size` bytes of a file fail, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_in_torch_is_an_ordinary_error(saved: Path) -> None:
    large = {"numbers": torch.zeros(10_000)}
    weights = tiny_model(tiny_config()).state_dict()
    with files_up_to(20_000), pytest.raises(CheckpointError, match=r"training.pt: .*too large"):
        checkpoint_files.save(saved, tiny_config(), weights, large)
    assert checkpoint_files.load_training(saved) == {"step": 3}


def test_a_run_that_fills_the_disk_exits_with_1_and_can_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(files, "write_flushed", full_at("training.pt", after=1))
    full = invoke(*COMMAND, "--max-steps", "10", "--out", "run")
    assert full.returncode == 1
    where = tmp_path / "run" / "last" / "training.pt"
    assert full.err.endswith(
        f"stacktrans: {where}: can't write the checkpoint: No space left on device\n"
    )
    monkeypatch.undo()
    resumed = invoke("train", "--resume", str(tmp_path / "run"))
    assert resumed.returncode == 0, resumed.err
    *_, last = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert json.loads(last)["step"] == 10


def test_metrics_that_can_not_be_written_are_named(tmp_path: Path) -> None:
    # A checkpoint is smaller than what is recorded of so many batches.
    options = ["--set", "loss_every=1", "--set", "accuracy_every=1000", "--max-steps", "300"]
    with files_up_to(25_000):
        full = invoke(*COMMAND, *options, "--out", str(tmp_path / "run"))
    assert full.returncode == 1
    assert full.err.endswith(f"{tmp_path / 'run' / 'metrics.jsonl'}: File too large\n")
    metrics = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert json.loads(metrics[0])["step"] == 1


def test_a_machine_that_can_not_be_saved_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "write_flushed", full_at("machine.json"))
    full = invoke("extract", "parenthesis-stack", "--out", tmp_path / "machine")
    assert full.returncode == 1
    assert "push it" in full.out
    assert full.err.endswith("machine.json: can't write the checkpoint: No space left on device\n")
