"""Commands on input that is wrong at random, and what has to hold whatever it is.

A case is a kind and a number, which decide all of it. Whatever a command is given, it ends with 0,
1 or 2, says why on stderr if it does not end with 0, shows no control characters and no
traceback, and takes no more than `MOST_SECONDS` of CPU and `MOST_BYTES` of memory.
"""

import contextlib
import json
import re
import resource
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import yaml
from command_line import TRAIN, Ended, invoke
from hostile import VALUES, Random, as_yaml, one_of, wrong_bytes, wrong_tree
from small_runs import SETTINGS
from small_sweeps import sweep_file

from stacktrans.common.checksums import SUMS, sums_of

MOST_SECONDS = 5.0
MOST_BYTES = 1 << 30
ROOT = Path(__file__).parent.parent
WORDS = (b"hello\n", b"abc\n\nxyz\n", b"0110####\n", b"aaab\n", b"the old man\n", b"\xff\n")
PAIRS = {
    "copy": ('!"#', '!"#'),
    "in-step": ("01##", "##10"),
    "buffered": ("1011", "1101"),
    "stream": ("aab", "b"),
}
SIZES = ("hidden_size=6", "memory.size=3", "measure.strings=4", "max_steps=4")
RUNS: dict[str, tuple[str, ...]] = {
    "copy": ("--task", "copy", "--memory", "queue", *SETTINGS, "accuracy_every=2", "max_steps=4"),
    "in-step": ("--task", "reversal", "--memory", "stack", "lengths.train=[1, 3]", *SIZES[1:]),
    "buffered": (
        *("--task", "xor", "--memory", "deque", "--controller", "linear", "--buffered"),
        *("memory.size=3", "measure.strings=4", "max_steps=4", "lengths.train=[1, 4]"),
    ),
    "stream": (
        *("--task", "anbn", "--memory", "stack-rnn", "--recipe", "paper", "hidden_size=5"),
        *("memory.count=2", "measure.strings=4", "rounding=null"),
        "data.stream={sequences: 6, steps: 5, starts: 1, epochs: 2}",
        *("lengths.train=[1, 3]", "lengths.test=[4, 5]"),
    ),
    "text": (
        *("--text", "texts", "--memory", "list-rnn", "hidden_size=4", "memory.count=2"),
        *("batch_size=2", "data.stream.steps=5", "data.stream.epochs=1"),
    ),
}
"""Options and settings of the runs whose files are made wrong."""


def make_models(folder: Path) -> Path:
    """Make the runs, one of each of `RUNS`, in `folder/runs`, and the texts of one of them."""
    texts = folder / "texts"
    texts.mkdir(parents=True)
    for part in ("train", "valid", "test"):
        (texts / f"{part}.txt").write_text("the old man sees the sea .\na grey owl\n" * 3)
    with contextlib.chdir(folder):
        for name, words in RUNS.items():
            options, settings = _parted(words)
            ended = invoke(*TRAIN, *options, *settings, "--out", f"runs/{name}")
            assert ended.returncode == 0, ended.stderr.decode()
    return folder


def _parted(words: tuple[str, ...]) -> tuple[list[str], list[str]]:
    settings = [word for word in words if "=" in word]
    options = [word for word in words if "=" not in word]
    return options, [word for setting in settings for word in ("--set", setting)]


@dataclass(frozen=True)
class Case:
    """One command on wrong input.

    Attributes:
        kind: a key of `KINDS`.
        number: which.
        seed: of all cases.
    """

    kind: str
    number: int
    seed: int = 1

    def random(self) -> Random:
        """What decides the case."""
        return np.random.default_rng([self.seed, list(KINDS).index(self.kind), self.number])


class Verdict(NamedTuple):
    """What came of a case.

    Attributes:
        ended: how.
        seconds: of CPU.
        gained: bytes by which the memory in use rose at its height.
        problem: what must not be; empty if all is well.
    """

    ended: Ended
    seconds: float
    gained: int
    problem: str


def carry_out(case: Case, models: Path) -> Verdict:
    """Carry a case out in a folder of its own, beside the models of `make_models`."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as place, contextlib.chdir(place):
        command = KINDS[case.kind](case.random(), models, Path(place))
        forget_peak()
        begun, before = time.process_time(), peak()
        ended = invoke(*command)
        seconds, gained = time.process_time() - begun, peak() - before
    return Verdict(ended, seconds, gained, _problem(ended, seconds, gained))


def forget_peak() -> None:
    """Have the peak of memory start from what is in use now, where the system lets us."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak() -> int:
    """The most memory, in bytes, that this process has had in use."""
    with contextlib.suppress(OSError):
        found = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
        if found:
            return int(found[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def _problem(ended: Ended, seconds: float, gained: int) -> str:
    errors = ended.stderr.decode("utf-8", "replace")
    if ended.returncode not in (0, 1, 2):
        return f"ended with {ended.returncode}: {errors[-2000:]}"
    if ended.returncode and not errors.strip():
        return f"ended with {ended.returncode} without a word"
    if "Traceback" in errors:
        return f"a traceback: {errors[-2000:]}"
    if found := _CONTROL.search(errors):
        return f"shows the control character {found[0]!r}"
    if seconds > MOST_SECONDS:
        return f"took {seconds:.1f} s"
    if gained > MOST_BYTES:
        return f"took {gained >> 20} MiB"
    return ""


def _config(rng: Random, models: Path, place: Path) -> list[str]:
    """`train` with a configuration."""
    path = models / "runs" / one_of(rng, list(RUNS)) / "config.yaml"
    _write_wrong(rng, path.read_bytes(), place / "config.yaml")
    return ["train", "--config", "config.yaml", "--dry-run"]


def _short_run(rng: Random, models: Path, place: Path) -> list[str]:
    """A run of two batches with a wrong setting that is no size."""
    options, settings = _parted(RUNS[one_of(rng, ("copy", "in-step", "stream", "buffered"))])
    name = one_of(rng, _RATES)
    value = json.dumps(one_of(rng, VALUES))
    return [
        *(*TRAIN, *options, *settings, "--set", "max_steps=2", "--set", f"{name}={value}"),
        *("--out", "run"),
    ]


_RATES = (
    *("learning_rate", "gradient_clip", "averaging", "settle", "restart", "measure"),
    *("gate_noise", "scale", "buffers", "controller", "gate_bias", "signal_bias"),
    *("curriculum", "rounding", "stop", "loss_per", "weight_decay", "length_law", "optimizer"),
    *("start", "recipes", "description", "seed", "threads", "kernel", "lengths"),
)


def _task(rng: Random, models: Path, place: Path) -> list[str]:
    """`generate` with a task file."""
    path = one_of(rng, sorted((ROOT / "tasks").glob("*.yaml")))
    _write_wrong(rng, path.read_bytes(), place / "task.yaml")
    if rng.random() < 0.3:
        return [*TRAIN, "--task", "task.yaml", "--memory", "stack", "--dry-run"]
    return ["generate", "--task", "task.yaml", "--count", "2", "--lengths", "2:6"]


def _sweep(rng: Random, models: Path, place: Path) -> list[str]:
    """`sweep --dry-run` with a sweep's file."""
    shipped = sorted((ROOT / "experiments").glob("*.yaml"))
    path = sweep_file(place) if rng.random() < 0.8 else one_of(rng, shipped)
    _write_wrong(rng, path.read_bytes(), place / "sweep.yaml")
    return ["sweep", "sweep.yaml", "--dry-run"]


def _records(rng: Random, models: Path, place: Path) -> list[str]:
    """A sweep whose records are wrong."""
    path = ROOT / "experiments" / "results" / "hao2018" / "results.jsonl"
    with path.open("rb") as stream:
        lines = [stream.readline() for _ in range(4)]
    content = b"".join(lines)
    if rng.random() < 0.5:
        trees = [json.loads(line) for line in lines]
        content = "".join(f"{json.dumps(wrong_tree(rng, tree))}\n" for tree in trees).encode()
    else:
        content = wrong_bytes(rng, content)
    (place / "results").mkdir()
    (place / "results" / "results.jsonl").write_bytes(content)
    sweep = str(sweep_file(place))
    as_json = ["--json"] if rng.random() < 0.5 else []
    return ["sweep", sweep, "--dry-run", "--out", "results", *as_json]


def _pairs(rng: Random, models: Path, place: Path) -> list[str]:
    """`eval --data` or `transduce` with a file of wrong lines."""
    name = one_of(rng, list(PAIRS))
    run = str(models / "runs" / name)
    if rng.random() < 0.3:
        (place / "lines").write_bytes(wrong_bytes(rng, b"".join(WORDS)))
        return ["transduce", run, "lines", *(["--json"] if rng.random() < 0.5 else [])]
    form = one_of(rng, ("tsv", "jsonl"))
    source, target = PAIRS[name]
    pair = json.dumps({"source": source, "target": target})
    line = f"{source}\t{target}\n" if form == "tsv" else f"{pair}\n"
    (place / f"data.{form}").write_bytes(wrong_bytes(rng, line.encode() * 6))
    return ["eval", run, "--data", f"data.{form}", *(["--json"] if rng.random() < 0.5 else [])]


def _text(rng: Random, models: Path, place: Path) -> list[str]:
    """`eval --text` or `train --text` with wrong texts."""
    shutil.copytree(models / "texts", place / "texts")
    path = place / "texts" / one_of(rng, ("train.txt", "valid.txt", "test.txt"))
    path.write_bytes(wrong_bytes(rng, path.read_bytes()))
    if rng.random() < 0.5:
        return ["eval", str(models / "runs" / "text"), "--text", str(path)]
    options, settings = _parted(RUNS["text"])
    return [*TRAIN, *options, *settings, "--set", "max_steps=2", "--out", "run"]


def _checkpoint(rng: Random, models: Path, place: Path) -> list[str]:
    """What reads a checkpoint, one of whose files is wrong."""
    name = one_of(rng, list(RUNS))
    shutil.copytree(models / "runs" / name / "best", place / "model")
    _spoil(rng, place / "model", ("config.yaml", "model.safetensors"))
    match int(rng.integers(3)):
        case 0:
            return ["inspect", "model", "--json"]
        case 1:
            return ["eval", "model", "--count", "2", "--json"]
        case _:
            (place / "lines").write_bytes(one_of(rng, WORDS))
            return ["transduce", "model", "lines"]


def _resumed(rng: Random, models: Path, place: Path) -> list[str]:
    """`train --resume` of a run whose last checkpoint is wrong."""
    name = one_of(rng, list(RUNS))
    shutil.copytree(models / "runs" / name, place / "run")
    _spoil(rng, place / "run" / "last", ("config.yaml", "model.safetensors", "training.pt"))
    return ["train", "--resume", "run", "--max-steps", "5"]


def _spoil(rng: Random, directory: Path, names: tuple[str, ...]) -> None:
    """Make a file of a checkpoint wrong, mostly with a checksum that says that it is right."""
    name = one_of(rng, names)
    path = directory / name
    if rng.random() < 0.3:
        path.write_bytes(wrong_bytes(rng, path.read_bytes()))
    elif name == "config.yaml":
        _write_wrong(rng, path.read_bytes(), path)
    elif name == "training.pt":
        state = torch.load(path, weights_only=True)
        torch.save(wrong_tree(rng, state), path)
    else:
        _spoil_weights(rng, path)
    if rng.random() < 0.6:
        files = [file for file in sorted(directory.iterdir()) if file.name != SUMS]
        sums = sums_of({file.name: file.read_bytes() for file in files})
        (directory / SUMS).write_text(sums)


def _spoil_weights(rng: Random, path: Path) -> None:
    import safetensors.torch

    weights = safetensors.torch.load_file(path)
    name = one_of(rng, sorted(weights))
    tensor = weights[name]
    changes: list[Callable[[], torch.Tensor]] = [
        lambda: tensor * torch.nan,
        lambda: tensor + torch.inf,
        lambda: tensor * 1e38,
        lambda: tensor.double(),
        lambda: tensor.half(),
        lambda: tensor.long(),
        lambda: tensor.flatten()[:-1].clone(),
        lambda: tensor.unsqueeze(0).clone(),
        lambda: torch.zeros(0),
    ]
    weights[name] = one_of(rng, changes)()
    safetensors.torch.save_file(weights, path)


def _write_wrong(rng: Random, content: bytes, path: Path) -> None:
    """Write YAML that is wrong, be it in its settings or in its text."""
    if rng.random() < 0.7:
        path.write_bytes(as_yaml(wrong_tree(rng, yaml.safe_load(content))))
    else:
        path.write_bytes(wrong_bytes(rng, content))


Kind = Callable[[Random, Path, Path], list[str]]
KINDS: dict[str, Kind] = {
    "configuration": _config,
    "short run": _short_run,
    "task": _task,
    "sweep": _sweep,
    "records": _records,
    "pairs": _pairs,
    "text": _text,
    "checkpoint": _checkpoint,
    "resumed run": _resumed,
}
