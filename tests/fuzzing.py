"""Commands run on randomly damaged input, and the properties that must hold regardless.

The kind, number and seed of a case determine it completely. Whatever its input, a command exits
with 0, 1 or 2, explains a nonzero exit code on stderr, prints no control characters and no
traceback, and uses at most `MAX_BYTES` of memory.
"""

import contextlib
import gzip
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
from changed_checkpoints import reseal
from command_line import TRAIN, Ended, invoke
from hostile import VALUES, Random, as_yaml, one_of, wrong_bytes, wrong_tree
from small_runs import SETTINGS
from small_sweeps import sweep_file

MAX_BYTES = 1 << 30
ROOT = Path(__file__).parent.parent
WORDS = (b"hello\n", b"abc\n\nxyz\n", b"0110####\n", b"aaab\n", b"the old man\n", b"\xff\n")
PAIRS = {
    "copy": ('!"#', '!"#'),
    "padded": ("01##", "##10"),
    "buffered": ("1011", "1101"),
    "stream": ("aab", "b"),
}
SIZES = ("hidden_size=6", "memory.size=3", "measure.strings=4", "max_steps=4")
PAIR_FILES = {
    "a.tsv": "ab\tba\nabc\tcba\nb\tb\nca\tac\nbbc\tcbb\n",
    "headed.tsv": "lemma\tfeatures\tform\ngo\tV;PST\twent\nsing\tV; PST\tsang\nbe\tV\twas\n",
    "tags.tsv": "go\tV;PST\twent\nsing\tV;PST\tsang\nbe\tV;PST;1\twas\nbe\tV;PST;2\twere\n",
    "words.tsv": "bat\tB AE T\ncat\tK AE T\ntab\tT AE B\nab\tAEB\nat\tAE T\n",
    "forms.tsv": "\u00e9a\ta\u00e9\ne\u0301a\tae\u0301\na\ta\n\u00e9\t\u00e9\nb\tb\n",
    "a.jsonl": "".join(
        json.dumps({"source": source, "target": source[::-1], "n": 7}) + "\n"
        for source in ("ab", "abc", "b", "ca", "bbc")
    ),
}
"""Files of pairs, by names that say how they are written."""
ENCODINGS = ("utf-8", "utf-8", "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32-be", "latin-1")
NAMES = (
    *("\x1b]0;owned\x07", "\x9b31m", "a\nb", "a b", "-x", "--out", "'", '"', "$(id)", "`id`", "*"),
    *("\u202eabc", "\u2028", "e\u0301", "\udc80", "a" * 300, "..", "a/b", "\t", "%s", "{}", "$x^$"),
)
"""Names of files and directories, and symbols of strings, that somebody may come up with."""
SYMBOLS = (
    "$x^",
    "<&>",
    "\x1b[2J",
    "\x07",
    "\u202e",
    "\u0301",
    "\ufeff",
    "\\frac",
    "_{",
    "\U0001f600",
)
"""Parts of strings that plots and pages must display literally."""
RUNS: dict[str, tuple[str, ...]] = {
    "copy": ("--task", "copy", "--memory", "queue", *SETTINGS, "accuracy_every=2", "max_steps=4"),
    "padded": ("--task", "reversal", "--memory", "stack", "lengths.train=[1, 3]", *SIZES[1:]),
    "buffered": (
        *("--task", "xor", "--memory", "deque", "--controller", "linear", "--buffered"),
        *("memory.size=3", "measure.strings=4", "max_steps=4", "lengths.train=[1, 4]"),
    ),
    "stream": (
        *("--task", "anbn", "--memory", "stack-rnn", "--recipe", "paper", "hidden_size=5"),
        *("memory.count=2", "measure.strings=4", "rounding=null"),
        "data.stream={sequences: 6, steps: 5, attempts: 1, epochs: 2}",
        *("lengths.train=[1, 3]", "lengths.test=[4, 5]"),
    ),
    "pairs": ("--data", "pairs.tsv", "--memory", "stack", "measure.strings=4", "max_steps=4"),
    "text": (
        *("--text", "texts", "--memory", "list-rnn", "hidden_size=4", "memory.count=2"),
        *("batch_size=2", "data.stream.steps=5", "data.stream.epochs=1"),
    ),
}
"""Options and settings of the runs whose files are made wrong."""


def make_models(folder: Path, machine: Path | None = None) -> Path:
    """Make the runs, one of each of `RUNS`, in `folder/runs`, and a machine in `folder/machine`.

    Args:
        folder: a new folder.
        machine: the machine of reverse-stack, which is copied; None to extract it.
    """
    texts = folder / "texts"
    texts.mkdir(parents=True)
    for part in ("train", "valid", "test"):
        (texts / f"{part}.txt").write_text("the old man sees the sea .\na gray owl\n" * 3)
    (folder / "pairs.tsv").write_text("".join(f"{each}\t{each[::-1]}\n" for each in SYMBOLS))
    with contextlib.chdir(folder):
        if machine:
            shutil.copytree(machine, "machine")
        else:
            extracted = invoke("extract", "reverse-stack", "--out", "machine")
            assert extracted.returncode == 0, extracted.stderr.decode()
        for name, words in RUNS.items():
            options, settings = _options_and_settings(words)
            ended = invoke(*TRAIN, *options, *settings, "--out", f"runs/{name}")
            assert ended.returncode == 0, ended.stderr.decode()
    return folder


def _options_and_settings(words: tuple[str, ...]) -> tuple[list[str], list[str]]:
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
    """The outcome of a case.

    Attributes:
        ended: the exit code and output of the command.
        seconds: CPU time.
        gained: the number of bytes by which the peak memory use rose.
        problem: the property that was violated; empty if none was.
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
        problem = _problem(ended, gained, command[0] in ("list", "inspect", "eval"))
        if case.kind == "machine":
            problem = problem or _disagreement(ended)
    return Verdict(ended, seconds, gained, problem)


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


def _problem(ended: Ended, gained: int, shows: bool) -> str:
    """The property that a command violated, or an empty string.

    Control characters on stdout are a violation if the command `shows` results there, but not if
    it prints data.
    """
    errors = ended.stderr.decode("utf-8", "replace")
    if ended.returncode not in (0, 1, 2):
        return f"ended with {ended.returncode}: {errors[-2000:]}"
    if ended.returncode and not errors.strip():
        return f"ended with {ended.returncode} without a word"
    if "Traceback" in errors:
        return f"a traceback: {errors[-2000:]}"
    shown = ended.stdout.decode("utf-8", "replace") if shows else ""
    if found := _CONTROL.search(errors + shown):
        return f"shows the control character {found[0]!r}"
    if gained > MAX_BYTES:
        return f"took {gained >> 20} MiB"
    return ""


def _config(rng: Random, models: Path, place: Path) -> list[str]:
    """`train --config` with a damaged configuration."""
    path = models / "runs" / one_of(rng, list(RUNS)) / "config.yaml"
    _write_wrong(rng, path.read_bytes(), place / "config.yaml")
    return ["train", "--config", "config.yaml", "--dry-run"]


def _short_run(rng: Random, models: Path, place: Path) -> list[str]:
    """A run of two batches with a wrong setting other than a size."""
    options, settings = _options_and_settings(
        RUNS[one_of(rng, ("copy", "padded", "stream", "buffered"))]
    )
    name = one_of(rng, _SETTINGS)
    value = json.dumps(one_of(rng, VALUES))
    return [
        *(*TRAIN, *options, *settings, "--set", "max_steps=2", "--set", f"{name}={value}"),
        *("--out", "run"),
    ]


_SETTINGS = (
    *("learning_rate", "gradient_clip", "averaging", "settle", "restart", "measure"),
    *("noise", "scale", "buffers", "controller", "gate_bias", "signal_bias"),
    *("curriculum", "rounding", "stop", "loss_per", "weight_decay", "length_law", "optimizer"),
    *("initialization", "recipes", "description", "seed", "threads", "kernel", "lengths"),
)


def _task(rng: Random, models: Path, place: Path) -> list[str]:
    """`generate` with a damaged task file."""
    path = one_of(rng, sorted((ROOT / "tasks").glob("*.yaml")))
    _write_wrong(rng, path.read_bytes(), place / "task.yaml")
    if rng.random() < 0.3:
        return [*TRAIN, "--task", "task.yaml", "--memory", "stack", "--dry-run"]
    return ["generate", "--task", "task.yaml", "--count", "2", "--lengths", "2:6"]


def _sweep(rng: Random, models: Path, place: Path) -> list[str]:
    """`sweep --dry-run` with a damaged sweep file."""
    shipped = sorted((ROOT / "experiments").glob("*.yaml"))
    path = sweep_file(place) if rng.random() < 0.8 else one_of(rng, shipped)
    _write_wrong(rng, path.read_bytes(), place / "sweep.yaml")
    return ["sweep", "sweep.yaml", "--dry-run"]


def _records(rng: Random, models: Path, place: Path) -> list[str]:
    """`sweep` with damaged records."""
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
    """`eval --data` or `transduce` with damaged lines."""
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
    """`eval --text` or `train --text` with damaged texts."""
    shutil.copytree(models / "texts", place / "texts")
    path = place / "texts" / one_of(rng, ("train.txt", "valid.txt", "test.txt"))
    path.write_bytes(wrong_bytes(rng, path.read_bytes()))
    if rng.random() < 0.5:
        return ["eval", str(models / "runs" / "text"), "--text", str(path)]
    options, settings = _options_and_settings(RUNS["text"])
    return [*TRAIN, *options, *settings, "--set", "max_steps=2", "--out", "run"]


def _checkpoint(rng: Random, models: Path, place: Path) -> list[str]:
    """Commands that read a checkpoint with a damaged file."""
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


def _pair_file(rng: Random, models: Path, place: Path) -> list[str]:
    """`train --data` or `eval --data` with a damaged file of pairs, or with wrong options."""
    name = one_of(rng, list(PAIR_FILES))
    content = PAIR_FILES[name].encode(one_of(rng, ENCODINGS), "replace")
    packed, wrong = rng.random() < 0.3, rng.random()
    content = wrong_bytes(rng, content) if wrong < 0.6 else content
    content = gzip.compress(content) if packed else content
    content = wrong_bytes(rng, content) if wrong > 0.8 else content
    (place / name).write_bytes(content)
    if rng.random() < 0.2:
        return ["eval", str(models / "runs" / "pairs"), "--data", name]
    words = ["train", "--data", name, "--recipe", "default", "--memory", "stack", "--dry-run"]
    for option, values in _READING.items():
        if rng.random() < 0.3:
            words += [f"{option}={one_of(rng, values)}"]
    return words


_READING = {
    "--columns": ("source,target", "target,source", "lemma,features,form", "source", "a,b", ""),
    "--symbols": ("characters", "words", "words,characters", "letters", ","),
    "--separator": (";", "|", " ", "", "\t", "\x1b"),
    "--normalize": ("nfc", "nfd", "nfkc", "none", "NFC", ""),
}
"""Options that say how a file of pairs is read, and values of each."""


def _machine(rng: Random, models: Path, place: Path) -> list[str]:
    """`transduce` with a damaged machine, compared with other ways to run it."""
    shutil.copytree(models / "machine", place / "machine")
    path = place / "machine" / "machine.json"
    held = json.loads(path.read_bytes())
    part = one_of(rng, [key for key in held if key != "rules"])
    if rng.random() < 0.5:
        held = wrong_tree(rng, {part: held[part]}) | {k: v for k, v in held.items() if k != part}
    else:
        number = int(rng.integers(len(held["rules"])))
        held["rules"][number] = wrong_tree(rng, held["rules"][number])
    path.write_text(json.dumps(held))
    reseal(place / "machine")
    (place / "lines").write_text("hello\na\nabcabc\n\nxyzzy\n")
    return ["transduce", "machine", "lines"]


def _disagreement(ended: Ended) -> str:
    """How other routes differ from what `transduce` made of a machine; empty if they do not."""
    sources, answers = Path("lines").read_text().splitlines(), ended.stdout.decode().splitlines()
    found = invoke("transduce", "machine", "lines", "--json")
    entries = [json.loads(line) for line in found.stdout.splitlines()]
    if [entry["output"] or "" for entry in entries] != answers:
        return f"transduce --json gives other answers: {entries} and not {answers}"
    if answers and not ended.returncode:
        pairs = zip(sources, answers, strict=True)
        lines = [json.dumps({"source": a, "target": b}) for a, b in pairs if a]
        Path("pairs.jsonl").write_text("\n".join(lines))
        measured = invoke("eval", "machine", "--data", "pairs.jsonl", "--json")
        if measured.returncode or json.loads(measured.stdout)["results"][0]["coarse"] != 1:
            return f"eval gives other answers: {measured}"
    proved = invoke("verify", "machine", "--count", "10", "--exhaustive", "100", "--longest", "20")
    if not proved.returncode and answers != [source[::-1] for source in sources]:
        return f"verify finds nothing wrong with {answers}"
    return ""


def _named(rng: Random, models: Path, place: Path) -> list[str]:
    """Plots and files with hostile names and symbols."""
    name, symbols = one_of(rng, NAMES), one_of(rng, SYMBOLS)
    model = str(models / "runs" / "pairs")
    kind = one_of(rng, (".svg", ".png", ".pdf", ".html", ".dot", ".tsv", ".jsonl.gz", ""))
    with contextlib.suppress(OSError, ValueError):
        shutil.copytree(models / "runs" / "pairs" / "best", place / "checkpoints" / name)
    commands = [
        ["inspect", model, symbols, f"--plot={name}{kind}"],
        ["inspect", model, symbols, f"--html={name}{kind}"],
        ["inspect", model, f"{symbols}{name}", "--contents"],
        ["eval", model, "--data", str(models / "pairs.tsv"), f"--plot={name}{kind}"],
        ["eval", model, "--data", str(models / "pairs.tsv"), f"--predictions={name}{kind}"],
        ["eval", model, "--data", str(models / "pairs.tsv"), "--errors", "9"],
        ["extract", str(models / "machine"), f"--out={name}"],
        ["extract", model, f"--dot={name}{kind}", f"--svg={name}{kind}"],
        ["extract", str(models / "machine"), f"--python={name}{kind}", f"--fst={name}"],
        ["transduce", f"checkpoints/{name}", "--", name],
        ["list", "checkpoints"],
    ]
    return one_of(rng, commands)  # type: ignore[no-any-return]


def _resumed(rng: Random, models: Path, place: Path) -> list[str]:
    """`train --resume` of a run with a damaged last checkpoint."""
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
        reseal(directory)


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
    "file of pairs": _pair_file,
    "machine": _machine,
    "names": _named,
    "text": _text,
    "checkpoint": _checkpoint,
    "resumed run": _resumed,
}
