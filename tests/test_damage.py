"""Checkpoints that are damaged, forged or of another model are refused, with the file's name."""

import hashlib
import json
import random
import shutil
import subprocess
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
import yaml
from changed_checkpoints import reseal
from command_line import invoke
from fuzzing import forget_peak, peak
from shapes import shaped
from small_runs import CPU
from tiny_models import tiny_config, tiny_model

from stacktrans.common.errors import CheckpointError, StacktransError
from stacktrans.common.files import SUMS
from stacktrans.model import checkpoint, checkpoint_files
from stacktrans.model.transducer import Transducer, meta_transducer
from stacktrans.model.weights import serialize
from stacktrans.settings.model_config import (
    ActionMemoryConfig,
    ControllerConfig,
    RecurrentConfig,
    VectorMemoryConfig,
)
from stacktrans.settings.resolve import resolve

FILES = ("config.yaml", "model.safetensors", "training.pt")


def read(directory: Path) -> None:
    checkpoint.load(directory, CPU)
    checkpoint_files.load_training(directory)


def test_flipped_bits_are_refused_with_the_file_s_name(saved: Path) -> None:
    bits = random.Random(13)
    read(saved)
    for number in range(100):
        path = saved / FILES[number % len(FILES)]
        whole = path.read_bytes()
        flipped = bytearray(whole)
        flipped[bits.randrange(len(whole))] ^= 1 << bits.randrange(8)
        path.write_bytes(flipped)
        with pytest.raises(StacktransError, match=path.name) as caught:
            read(saved)
        assert caught.value.exit_code == 1
        path.write_bytes(whole)
    read(saved)


@pytest.mark.parametrize("name", FILES)
def test_a_flipped_bit_ends_a_command_with_one(trained: Path, tmp_path: Path, name: str) -> None:
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    path = run / "last" / name
    content = bytearray(path.read_bytes())
    content[-9] ^= 4
    path.write_bytes(content)
    commands = [["train", "--resume", str(run), "--max-steps", "21"]]
    if name != "training.pt":
        last = str(run / "last")
        commands += [["transduce", last], ["eval", last], ["inspect", last]]
    for command in commands:
        done = invoke(*command)
        assert done.returncode == 1
        assert f"{name}: " in done.err


def test_sha256sum_takes_the_checksums(saved: Path) -> None:
    lines = (saved / SUMS).read_text().splitlines()
    found = {name: hashlib.sha256((saved / name).read_bytes()).hexdigest() for name in FILES}
    assert lines == [f"{digest}  {name}" for name, digest in found.items()]
    if shutil.which("sha256sum"):
        subprocess.run(["sha256sum", "--status", "-c", SUMS], cwd=saved, check=True)


def without_line(name: str) -> Callable[[str], str]:
    def changed(sums: str) -> str:
        return "".join(line for line in sums.splitlines(keepends=True) if name not in line)

    return changed


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without_line("config.yaml"), "config.yaml: no checksum in SHA256SUMS"),
        (without_line("model"), "model.safetensors: no checksum in SHA256SUMS"),
        (without_line("training"), "training.pt: no checksum in SHA256SUMS"),
        (lambda sums: "", "config.yaml: no checksum in SHA256SUMS"),
        (lambda sums: sums[:200], "SHA256SUMS:3: damaged"),
        (lambda sums: sums.replace(" ", "\x1b"), "SHA256SUMS:1: damaged"),
        (lambda sums: sums + "é", "SHA256SUMS:4: damaged"),
    ],
)
def test_a_checkpoint_without_all_checksums_is_not_whole(
    saved: Path, change: Callable[[str], str], message: str
) -> None:
    path = saved / SUMS
    path.write_text(change(path.read_text()), encoding="utf-8")
    with pytest.raises(CheckpointError, match=message):
        read(saved)


def test_a_checkpoint_without_checksums_is_not_whole(saved: Path) -> None:
    (saved / SUMS).unlink()
    for reading in (checkpoint_files.load_training, checkpoint_files.read_config):
        with pytest.raises(CheckpointError, match="SHA256SUMS: missing; the checkpoint"):
            reading(saved)


def test_a_training_state_that_unfolds_is_refused(saved: Path) -> None:
    path = saved / "training.pt"
    with zipfile.ZipFile(path) as archive:
        parts = {part: archive.read(part) for part in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for part, content in parts.items():
            archive.writestr(part, content + bytes(1 << 20))
    reseal(saved)
    with pytest.raises(CheckpointError, match=r"training.pt: truncated or damaged"):
        checkpoint_files.load_training(saved)


@contextmanager
def within_memory() -> Iterator[None]:
    """Fail if more than 100 MiB of memory are taken."""
    forget_peak()
    before = peak()
    yield
    assert peak() - before < 100 << 20


LARGEST = 65536
STACKS = ActionMemoryConfig(name="stack-rnn", count=LARGEST)
LISTS = ActionMemoryConfig(name="list-rnn", count=LARGEST, size=LARGEST, depth=LARGEST)
UNITS = RecurrentConfig(name="lstm", hidden_size=LARGEST, layers=64)
LARGE: list[dict[str, Any]] = [
    {"controller": RecurrentConfig(name="lstm", hidden_size=16384).model_dump()},
    {"controller": UNITS.model_dump()},
    {"embedding_size": LARGEST},
    {"output_size": LARGEST},
    {"memory": STACKS.model_dump()},
    {"memory": LISTS.model_dump() | {"name": "stack-rnn"}},
    {
        "memory": LISTS.model_dump(),
        "controller": UNITS.model_dump(),
        "embedding_size": LARGEST,
        "output_size": LARGEST,
    },
    {
        "controller": ControllerConfig(name="linear").model_dump(),
        "memory": VectorMemoryConfig(name="stack", size=LARGEST).model_dump(),
    },
]


@pytest.mark.parametrize("sizes", LARGE)
def test_sizes_are_compared_with_the_weights_before_a_model_is_made(
    saved: Path, sizes: dict[str, Any]
) -> None:
    path = saved / "config.yaml"
    config = yaml.safe_load(path.read_text())
    config["model"].update(sizes)
    path.write_text(yaml.safe_dump(config))
    reseal(saved)
    run = saved.parent / "resumed"
    shutil.copytree(saved, run / "last")
    with within_memory():
        for command in (["transduce", str(saved)], ["train", "--resume", str(run)]):
            done = invoke(*command)
            assert done.returncode == 1
            assert "model.safetensors: weight" in done.err
            assert "the configuration requires" in done.err


MEMORIES = ("stack", "deque", "stack-rnn", "list-rnn", "nondeterministic", "none")
CONTROLLERS = ("gru", "second-order", "sigmoid", "linear")
SHAPES = [
    {"memory": memory, "controller": controller, **more}
    for memory, controller in (
        *((each, "lstm") for each in MEMORIES),
        *(("stack", each) for each in CONTROLLERS),
    )
    for more in (
        {},
        {"embedding_size": "one-hot", "biases": False, "buffered": True, "output_size": None},
        {
            "recurrent": controller == "second-order",
            "initial_state": "zero",
            "depth": 3,
            "no_op": False,
        },
    )
]


def shapes_of(model: Transducer) -> dict[str, torch.Size]:
    return {name: part.shape for name, part in model.state_dict().items()}


@pytest.mark.parametrize("settings", SHAPES)
def test_shapes_are_known_without_a_model(settings: dict[str, Any]) -> None:
    model = shaped(**settings, hidden_size=5, layers=2, size=3, count=2)
    config = resolve(task="reversal", settings={"model": model}).model
    assert shapes_of(meta_transducer(config, 7, 4)) == shapes_of(Transducer(config, 7, 4))


def forged(change: Callable[[dict[str, Any]], None]) -> Callable[[bytes], bytes]:
    """A function that changes the header in the content of a file of weights."""

    def made(content: bytes) -> bytes:
        end = 8 + int.from_bytes(content[:8], "little")
        header = json.loads(content[8:end])
        change(header)
        text = json.dumps(header).encode()
        return len(text).to_bytes(8, "little") + text + content[end:]

    return made


def with_header(text: bytes) -> Callable[[bytes], bytes]:
    return lambda content: len(text).to_bytes(8, "little") + text + content[-1000:]


BIAS = "classifier.bias"


@pytest.mark.parametrize(
    ("forge", "message"),
    [
        (lambda content: bytes([255] * 8) + content[8:], "header too large"),
        (lambda content: (1 << 40).to_bytes(8, "little") + content[8:], "header too large"),
        (with_header(b" " * (2 << 20)), "not a safetensors file"),
        (with_header(b"[" * 100_000), "not a safetensors file"),
        (with_header(b"9" * 100_000), "not a safetensors file"),
        (with_header(b"\xff\xfe"), "not a safetensors file"),
        (with_header(b"[]"), "not a safetensors file"),
        (with_header(b'{"a": 3}'), "not a safetensors file"),
        (with_header(b'{"a": {}, "a": {}}'), "not a safetensors file"),
        (forged(lambda header: header[BIAS].update(shape=[10**12])), "invalid shape"),
        (forged(lambda header: header[BIAS].update(shape=[-1])), "not a safetensors file"),
        (forged(lambda header: header[BIAS].update(shape="12")), "not a safetensors file"),
        (forged(lambda header: header[BIAS].update(shape=[2] * 9999)), "overflow"),
        (forged(lambda header: header[BIAS].pop("shape")), "missing field `shape`"),
        (forged(lambda header: header[BIAS].update(dtype="F999")), "not a safetensors file"),
        (forged(lambda header: header[BIAS].update(dtype=["F32"])), "not a safetensors file"),
        (forged(lambda header: header[BIAS].update(dtype="F64")), "invalid shape, data type"),
        (
            forged(lambda header: header[BIAS].update(data_offsets=[10**12, 10**12 + 24])),
            "invalid offset",
        ),
        (
            forged(lambda header: header[BIAS].update(data_offsets=[-24, 0])),
            "not a safetensors file",
        ),
        (forged(lambda header: header[BIAS].update(data_offsets=7)), "not a safetensors file"),
        (
            forged(lambda header: header.update({"a\x1b[2Jb": header.pop(BIAS)})),
            r"weight a\\x1b\[2Jb is 6; the configuration requires absent",
        ),
        (lambda content: content + b"more", "file not fully covered"),
    ],
)
def test_inconsistent_safetensors_headers_are_refused(
    saved: Path, forge: Callable[[bytes], bytes], message: str
) -> None:
    path = saved / "model.safetensors"
    path.write_bytes(forge(path.read_bytes()))
    reseal(saved)
    with within_memory(), pytest.raises(CheckpointError, match=message) as caught:
        checkpoint.load(saved, CPU)
    assert "model.safetensors" in str(caught.value)
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize("sharpness", ["abc", "nan", "inf", "0", "-3", "1e-320"])
def test_an_invalid_sharpness_is_refused(saved: Path, sharpness: str) -> None:
    path = saved / "model.safetensors"
    change = forged(lambda header: header["__metadata__"].update(sharpness=sharpness))
    path.write_bytes(change(path.read_bytes()))
    reseal(saved)
    with pytest.raises(CheckpointError, match=f"sharpness is '{sharpness}'; expected a number"):
        checkpoint.load(saved, CPU)


@pytest.mark.parametrize("origins", ["[" * 99_999, '{"memory": {"stack": 5}}', "3", "{"])
def test_malformed_plugin_origins_are_ignored(saved: Path, origins: str) -> None:
    path = saved / "model.safetensors"
    change = forged(lambda header: header["__metadata__"].update(origins=origins))
    path.write_bytes(change(path.read_bytes()))
    reseal(saved)
    read(saved)


def test_equal_weights_make_equal_files(saved: Path) -> None:
    weights = tiny_model(tiny_config()).state_dict()
    metadata = {"task": "copy", "version": "1", "configuration": "a", "accuracy": "{}"}
    assert len({serialize(weights, metadata) for _ in range(20)}) == 1
    assert safetensors.torch.load(serialize(weights, metadata)).keys() == weights.keys()
    before = {name: (saved / name).read_bytes() for name in FILES}
    checkpoint_files.save(saved, tiny_config(), weights, {"step": 3})
    assert before == {name: (saved / name).read_bytes() for name in FILES}


def test_a_file_of_weights_says_what_it_is(saved: Path) -> None:
    accuracy = {"test": {"coarse": 0.5}}
    config = tiny_config()
    checkpoint_files.save(saved, config, tiny_model(config).state_dict(), accuracy=accuracy)
    with safetensors.safe_open(saved / "model.safetensors", "pt") as file:
        metadata = file.metadata()
    assert json.loads(metadata.pop("accuracy")) == accuracy
    assert metadata == {
        "task": "copy",
        "version": config.version,
        "configuration": config.identity(),
    }
    assert checkpoint.load(saved, CPU).config.identity() == metadata["configuration"]
