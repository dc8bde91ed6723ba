"""Settings of all tests, and the models and runs that several of them share."""

import fcntl
import functools
import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from command_line import SMALL, TRAIN, run
from hypothesis import settings
from small_sweeps import sweep_file, work_here
from tiny_models import tiny_config, tiny_model

from stacktrans.common import registry
from stacktrans.kernels import code_cache
from stacktrans.model import checkpoint_files
from stacktrans.model.transducer import Transducer
from stacktrans.settings.resolve import resolve
from stacktrans.settings.training_config import StreamConfig
from stacktrans.tasks.layout import Layout
from stacktrans.training import rounding, scheduling
from stacktrans.training.rounding import ROUNDINGS, RoundingKind

# One thread is fastest for models this small.
torch.set_num_threads(1)
# No test is timed.
settings.register_profile("tests", deadline=None)
settings.load_profile("tests")


@pytest.fixture(autouse=True, scope="session")
def interrupts() -> None:
    """Handle Ctrl-C even if the tests run as a background job of a shell, which ignores it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def without_fsync() -> Iterator[None]:
    """Skip fsync, which costs time and makes a difference only if power is lost."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(autouse=True, scope="session")
def silent_compiling() -> Iterator[None]:
    """Suppress the announcement of compiling, which only the first test to compile would show."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(code_cache, "announce", lambda: None)
        yield


@pytest.fixture(autouse=True)
def no_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin each test without plugins, and forget those that the test loads."""
    # Set before it is deleted, so that monkeypatch undoes any change by the test.
    monkeypatch.setenv(registry.PLUGINS, "")
    monkeypatch.delenv(registry.PLUGINS)
    monkeypatch.setattr(registry, "_plugins", {})


@pytest.fixture
def brief_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounding is over after a few batches."""
    brief = RoundingKind(factor=2, batches=2, indecision=1e-9, max_rounds=3)
    for name, usual in ROUNDINGS.items():
        monkeypatch.setitem(ROUNDINGS, name, brief._replace(lossless=usual.lossless))
    monkeypatch.setattr(rounding, "AVERAGING_BATCHES", 1)
    monkeypatch.setattr(rounding, "RELEARNING", 2)
    monkeypatch.setattr(rounding, "LONGEST_RELEARNING", 2)


@pytest.fixture
def short_time_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time slices of a race are short."""
    monkeypatch.setattr(scheduling, "TIME_SLICE", 10)


@pytest.fixture
def brief_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams are emptied, grow longer and are judged soon."""
    for name, value in (("EMPTY_AFTER", 2), ("FIRST_LONGEST", 2), ("JUDGED_AFTER", 2)):
        monkeypatch.setattr(StreamConfig, name, value)


@pytest.fixture
def sweeps_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs of a sweep are done in this process."""
    work_here(monkeypatch)


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of a model that has learned nothing, but gives various short answers."""
    config = resolve(
        task="copy",
        recipe="paper",
        settings={"model": {"memory": "queue"}},
        assignments=["hidden_size=8", "memory.size=4", "embedding_size=4", "output_size=6"],
    )
    layout = Layout.joint(128, 128)
    torch.manual_seed(36)
    transducer = Transducer(config.model, layout.inputs, layout.outputs)
    with torch.no_grad():
        # Larger weights, so that answers differ, and a likely end, so that they are short.
        for weight in transducer.parameters():
            weight.mul_(3)
        transducer.classifier.weight.mul_(10 / 3)
        transducer.classifier.bias[layout.end] = 6
    path = tmp_path_factory.mktemp("models") / "untrained"
    checkpoint_files.save(path, config, transducer.state_dict())
    return path


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A checkpoint of a tiny model, with a training state."""
    config = tiny_config()
    path = tmp_path / "run"
    checkpoint_files.save(path, config, tiny_model(config).state_dict(), {"step": 3})
    return path


@pytest.fixture(scope="session")
def machine_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A function that extracts the machine of a shipped model, once, and returns its directory."""
    directory = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        directory = directory.parent  # that of all workers

    @functools.cache
    def extracted(name: str) -> Path:
        with open(directory / f"{name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (directory / name).exists():
                done = run("extract", name, "--out", directory / name)
                assert done.returncode == 0
                assert b"at which model and machine differ" not in done.stdout
        return directory / name

    return extracted


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("runs") / "run"
    done = run(
        *TRAIN, "--task", "copy", "--memory", "queue", "--max-steps", "20", "--out", directory,
        *SMALL,
    )  # fmt: skip
    assert done.returncode == 0
    assert "the maximum number of batches was reached" in done.stdout.decode()
    progress = done.stderr.decode()
    assert re.search(r"batch 20 .*loss \d.*batches/s", progress)
    return directory


@pytest.fixture(scope="session")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep that was carried out in this process, six runs; its file lies beside it."""
    directory = tmp_path_factory.mktemp("sweeps")
    path = sweep_file(directory)
    with pytest.MonkeyPatch.context() as patched:
        work_here(patched)
        done = run("sweep", path, "--workers", "1", "--out", directory / "swept")
    assert done.returncode == 0, done.stderr.decode()
    return directory / "swept"
