"""Check that a refactoring leaves all results unchanged, bit for bit.

    python benchmarks/guard.py [--only PATTERN] [--record]

Through the command line, this program trains short runs of every kind, runs the shipped
checkpoints, soft and hard, draws pairs of every task, and rebuilds the recorded sweeps. It compares
the results with guard.json, which --record writes, prints all differences, and exits with 1 if
there are any. It imports nothing from the package, so that all of it can be restructured: when an
option or a setting is renamed, guarded.py is edited by hand. Bits also depend on the processor and
on the versions of torch, numba and numpy, which are recorded, too.
"""

import argparse
import csv
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

import guarded
import safetensors.numpy
from machine import origin

ROOT = Path(__file__).parent.parent
RECORD = Path(__file__).with_suffix(".json")
ENVIRONMENT = {**os.environ, "COLUMNS": "200", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
TIMEOUT = 300
"""Seconds after which a command counts as hanging."""
ANSWERED = 1_000
"""Number of lines that each checkpoint answers."""
INSPECTED = 50
"""Number of lines that each checkpoint is traced on."""

SERIES = """
import json, runpy, sys
for words in json.load(sys.stdin):
    sys.argv = ["stacktrans", *words]
    try:
        runpy.run_module("stacktrans", run_name="__main__")
    except SystemExit as end:
        if end.code:
            raise
"""
"""A program that runs many commands."""


class Failed(Exception):
    """A command failed, or did not do what it should have done."""


def run(*words: str, stdin: str = "") -> str:
    """Run Python with the package of this checkout, and return its output."""
    command = [sys.executable, *words]
    settings: Any = {"env": ENVIRONMENT, "cwd": ROOT, "timeout": TIMEOUT, "capture_output": True}
    done = subprocess.run(command, input=stdin, encoding="utf-8", **settings)
    if done.returncode:
        raise Failed(f"{shlex.join(words)}: ended with {done.returncode}\n{done.stderr}")
    return str(done.stdout)


def stacktrans(*words: str) -> str:
    return run("-m", "stacktrans", *words)


def series(commands: list[list[str]]) -> str:
    """Run commands in one process, since start-up dominates their time, and return their output."""
    return run("-c", SERIES, stdin=json.dumps(commands))


def digest(value: object) -> str:
    """A hash of bytes or of a JSON value."""
    data = value if isinstance(value, bytes) else json.dumps(value, sort_keys=True).encode()
    return hashlib.sha256(data).hexdigest()[:32]


def parsed(lines: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines.splitlines()]


def digest_of(keys: str, records: list[dict[str, Any]]) -> str:
    return digest([[record.get(key) for key in keys.split()] for record in records])


def compared(record: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key not in guarded.IGNORED.split()}


def table(page: str) -> str:
    return digest([line for line in page.splitlines() if line.startswith("|")])


def of_run(options: str, scratch: Path) -> dict[str, Any]:
    """Train a run; 8 digits per record of the metrics show where runs begin to differ."""
    guarded.write_text(scratch)
    for word, meaning in {**guarded.WORDS, "TEXT": shlex.quote(str(scratch))}.items():
        options = options.replace(word, meaning)
    out = scratch / "run"
    usual = ("--seed=1", "--workers=1", "--recipe=default")
    stacktrans("train", *usual, *shlex.split(options), "--out", str(out))
    metrics = parsed((out / "metrics.jsonl").read_text())
    return {
        "best": of_weights(out / "best"),
        "last": of_weights(out / "last"),
        "metrics": [digest(compared(record))[:8] for record in metrics],
        "summary": compared(json.loads((out / "summary.json").read_text())),
    }


def of_weights(directory: Path) -> dict[str, str]:
    """Hashes of all tensors with their names, and of their bytes alone."""
    tensors = safetensors.numpy.load_file(next(directory.glob("*.safetensors")))
    digests = {name: digest(tensor.tobytes()) for name, tensor in tensors.items()}
    shapes = {name: [str(tensor.dtype), tensor.shape] for name, tensor in tensors.items()}
    return {"weights": digest([digests, shapes]), "bytes": digest(sorted(digests.values()))}


def of_checkpoint(name: str, options: Sequence[str], scratch: Path) -> dict[str, str]:
    """Transduce, trace and evaluate with a checkpoint."""
    checkpoint, path = f"checkpoints/{name}", scratch / "lines"
    path.write_text("".join(f"{line}\n" for line in guarded.lines(name, ANSWERED)))
    answers = parsed(stacktrans("transduce", checkpoint, str(path), "--json", *options))
    lines = filter(None, guarded.lines(name, INSPECTED))
    commands = [["inspect", checkpoint, "--json", *options, "--", line] for line in lines]
    steps = [step for trace in parsed(series(commands)) for step in trace["steps"]]
    scores = json.loads(stacktrans("eval", checkpoint, "--count", "50", "--json", *options))
    return {
        "answers": digest_of(guarded.ANSWER, answers),
        "probabilities of answers": digest_of("probability", answers),
        "probabilities of symbols": digest_of(guarded.PROBABILITIES, steps),
        "traces": digest_of(guarded.TRACE, steps),
        "buffers": digest_of(guarded.BUFFERS, steps),
        "accuracy": digest_of(guarded.SCORES, scores["results"]),
    }


def of_sweep(name: str, options: str, scratch: Path) -> dict[str, Any]:
    """Check that all runs of a sweep are done, and rebuild its tables from the records."""
    recorded, out = ROOT / "experiments" / "results" / name, scratch / name
    words = ["sweep", *shlex.split(f"experiments/{options}")]
    planned = parsed(stacktrans(*words, "--dry-run", "--json", "--out", str(recorded)))
    if missing := [run for run in planned if not run["done"]]:  # would take days
        raise Failed(f"{len(missing)} of {len(planned)} runs are not done")
    out.mkdir()
    shutil.copy(recorded / "results.jsonl", out)
    stacktrans(*words, "--out", str(out))
    rows = csv.DictReader((out / "results.csv").read_text().splitlines())
    page = (out / "results.md").read_text()
    return {
        "done": len(planned),
        "runs": digest([[run["condition"], *run["axes"].values()] for run in planned]),
        "results.csv": digest([list(compared(row).values()) for row in rows]),
        "tables of results.md": table(page),
        "results.md": digest(page),
    }


def of_page(scratch: Path) -> dict[str, str]:
    """Rebuild RESULTS.md."""
    run("experiments/results_page.py", "--check")
    return {"tables": table((ROOT / "RESULTS.md").read_text())}


def of_tasks(scratch: Path) -> dict[str, str]:
    """Draw pairs of every task."""
    names = sorted({path.stem for path in (ROOT / "tasks").glob("*.yaml")} - {"text"})
    command = ["generate", "--count", "200", "--task"]
    series([[*command, name, "--out", str(scratch / name)] for name in names])
    return {name: digest((scratch / name).read_bytes()) for name in names}


def parts() -> dict[str, Callable[[Path], dict[str, Any]]]:
    """The functions that compute each part of the record, given an empty directory."""
    runs = [line.split(": ", 1) for line in guarded.RUNS.strip().splitlines()]
    sweeps = guarded.SWEEPS.items()
    return {
        **{f"run: {name}": partial(of_run, options) for name, options in runs},
        **{
            f"checkpoint: {name}{option}": partial(of_checkpoint, name, option.split())
            for name in guarded.CHECKPOINTS
            for option in ("", " --hard")
        },
        **{f"sweep: {name}": partial(of_sweep, name, file) for name, file in sweeps},
        "RESULTS.md": of_page,
        "tasks": of_tasks,
    }


def computed(part: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
    """The record of a part, or its error."""
    with tempfile.TemporaryDirectory(prefix="guard-") as scratch:
        try:
            return part(Path(scratch))
        except (Failed, subprocess.TimeoutExpired) as error:
            return {"failed": str(error)}


def differences(before: Any, now: Any, path: str) -> Iterator[str]:
    """The differences between two records; in lists, the first one."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key in ["failed"] if "failed" in now else {**before, **now}:
            yield from differences(before.get(key), now.get(key), f"{path}{key}: ")
    elif isinstance(before, list) and isinstance(now, list):
        pairs = enumerate(zip_longest(before, now), 1)
        for number, pair in [(number, pair) for number, pair in pairs if pair[0] != pair[1]][:1]:
            yield from differences(*pair, f"{path}number {number} of {len(before)}: ")
    elif before != now:
        yield f"{path}{before} was recorded, now it is {now}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--record", action="store_true", help="write guard.json")
    parser.add_argument("--only", metavar="PATTERN", default="", help="parts whose name matches")
    options = parser.parse_args()
    recorded = json.loads(RECORD.read_text()) if RECORD.exists() else {"origin": {}, "parts": {}}
    known, now = parts(), {}
    for name in known if options.record else recorded["parts"]:
        if fnmatch(name, f"*{options.only}*"):
            began = time.monotonic()
            now[name] = computed(known[name]) if name in known else {"failed": "no such part"}
            print(f"{name}: {time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)
    if not now:
        raise SystemExit(f"no part matches {options.only!r}")
    if options.record:
        write(now, recorded["parts"] if options.only else {})
        return
    for difference in differences(recorded["origin"], origin(), ""):
        print(f"Bits may differ: {difference}", file=sys.stderr)
    before = {name: recorded["parts"][name] for name in now}
    if changes := list(differences(before, now, "")):
        raise SystemExit("\n".join(changes))
    print(f"{len(now)} parts, no differences")


def write(now: dict[str, Any], others: dict[str, Any]) -> None:
    """Record parts, unless one failed, and keep the others."""
    if failed := [f"{name}: {part['failed']}" for name, part in now.items() if "failed" in part]:
        raise SystemExit("\n".join(failed))
    release = stacktrans("--version").split()[-1]
    command = {"command": "python benchmarks/guard.py --record", "version": release}
    content = {**command, "origin": origin(), "parts": {**others, **now}}
    RECORD.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
