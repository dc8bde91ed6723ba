"""Recovery of runs that are killed or interrupted at random moments.

    python benchmarks/kills.py [--signals 200] [--seed 1] [--kind NAME ...] [--markdown FILE]

Small runs of every kind are started from the command line, ended by a signal, and resumed until
they are complete. Weights, metrics and summary have to be those of an uninterrupted run. The moment
is drawn uniformly from the duration of a run, from its file operations, or from the batches of
rounding. Each run is a separate process, forked from this one so that it need not load modules.
"""

import argparse
import contextlib
import io
import json
import os
import platform
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from robustness import write_section

from stacktrans import __version__, cli
from stacktrans.__main__ import main as main_of_program
from stacktrans.common.errors import StacktransError
from stacktrans.common.files import WEIGHTS
from stacktrans.common.messages import INTERRUPTED
from stacktrans.training.attempt import Attempt
from stacktrans.training.records import METRICS, SUMMARY
from stacktrans.training.rounding import ROUNDINGS, Rounding, RoundingKind
from stacktrans.training.run_directory import check_resumable

SIZES = "hidden_size=8 memory.size=4 embedding_size=4 output_size=8 measure.strings=20"
LENGTHS = "task.lengths.train=[1,5] task.lengths.test=[6,8]"
STRINGS = f"{SIZES} {LENGTHS} task.parameters.symbols=3 loss_every=5 accuracy_every=10"
RESTARTS = "accuracy_loss=null restart.loss=0.0001"
COUNTING = (
    "hidden_size=8 memory.count=2 measure.strings=20 task.lengths.train=[1,6] "
    "task.lengths.test=[7,8]"
)
STREAM = "sequences: 30, steps: 12"
ROUNDING = RoundingKind(factor=1.3, batches=12, indecision=1e-9, max_rounds=5)
"""Replaces all kinds of rounding, which would take too long."""
KINDS = {
    "strings, four attempts": (
        f"--task reverse --memory stack --set {STRINGS} {RESTARTS} restart.after=30 max_steps=100"
    ),
    "strings, rounded and pruned": (
        f"--task anbn --memory stack-rnn --set {COUNTING} loss_every=10 "
        "stop={converged:{patience:2}} accuracy_every=20 accuracy_loss=null restart=null "
        "rounding=quick"
    ),
    "examples": (
        f"--task reverse --memory queue --set {SIZES} {LENGTHS} task.parameters.symbols=3 "
        "examples={train:60,development:20,test:20,epochs:12} stop={development:{patience:5}}"
    ),
    "stream, three attempts, rounded and pruned": (
        f"--task anbn --memory stack-rnn --recipe paper --set {COUNTING} "
        f"data.stream={{{STREAM},epochs:3,attempts:3}}"
    ),
    "text": (
        "--text TEXT --memory stack-rnn --set hidden_size=8 memory.count=2 batch_size=2 "
        "loss_every=5 data.stream={steps:6,epochs:3,attempts:2}"
    ),
    "buffered": (
        f"--task reversal --memory stack --controller lstm --buffered --set {STRINGS} {RESTARTS} "
        "restart.after=30 max_steps=70"
    ),
    "strings, two processes": (
        f"--task reverse --memory stack --workers 2 --set {STRINGS} {RESTARTS} "
        "batch_size=40 restart.after=300 max_steps=800"
    ),
    "stream, two processes": (
        f"--task anbn --memory stack-rnn --recipe paper --workers 2 --set {COUNTING} "
        "data.stream={sequences:300,steps:12,epochs:3,attempts:3}"
    ),
}
"""Arguments of `train`; words after --set are settings."""
SIGNALS = ("SIGKILL", "SIGINT", "SIGINT twice")
MOMENTS = ("any time", "file operation", "rounding")
LONGEST = 120.0
"""Seconds after which a resumed run counts as hanging."""
FILE_OPERATIONS = ("rename", "replace", "fsync", "mkdir", "unlink")


@dataclass
class Kind:
    """Runs of the same command, and their results.

    Attributes:
        arguments: the arguments of the command.
        whole: the directory of the uninterrupted run.
        seconds: the duration of that run.
        counts: its number of file operations and of rounding batches, by moment.
        runs: the number of runs.
        sent: the number of signals by name.
        moments: the number of signals by moment.
        wrong: all differences from the uninterrupted run.
    """

    arguments: list[str]
    whole: Path
    seconds: float = 0.0
    counts: dict[str, int] = field(default_factory=dict)
    runs: int = 0
    sent: Counter[str] = field(default_factory=Counter)
    moments: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def arguments_of(words: str, text: Path) -> list[str]:
    """The arguments of a command, in which each setting after --set gets a --set of its own."""
    options, _, settings = words.replace("TEXT", str(text)).partition(" --set ")
    # Settings contain spaces only within braces.
    joined = settings.replace(", ", ",").replace(": ", ":").replace(":", ": ").split(" ")
    parts: list[str] = []
    for part in joined:
        open_brace = bool(parts) and parts[-1].count("{") > parts[-1].count("}")
        parts = [*parts[:-1], f"{parts[-1]} {part}"] if open_brace else [*parts, part]
    return [
        "train",
        "--recipe",
        "default",
        *options.split(),
        *(word for part in parts for word in ("--set", part)),
    ]


def write_text(folder: Path) -> Path:
    """Write a small text in three files."""
    rng = np.random.default_rng(1)
    nouns, verbs = ["owl", "boat", "lamp", "sea", "night"], ["sees", "leaves", "keeps"]
    for part, count in (("train", 30), ("valid", 12), ("test", 12)):
        words = [
            f"the {rng.choice(nouns)} {rng.choice(verbs)} the {rng.choice(nouns)}\n"
            for _ in range(count)
        ]
        (folder / f"{part}.txt").write_text("".join(words))
    return folder


def begin(arguments: list[str], log: Path, prepare: Callable[[], None] = lambda: None) -> int:
    """Start a process that runs a command, and return its id."""
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for descriptor in (1, 2):
            os.dup2(output, descriptor)
        sys.argv = ["stacktrans", *arguments]
        for name, usual in ROUNDINGS.items():
            ROUNDINGS[name] = ROUNDING._replace(lossless=usual.lossless)
        prepare()
        main_of_program()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except KeyboardInterrupt:  # before the program began, which itself ends with this code
        code = INTERRUPTED
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def wait_for(process: int) -> int:
    """Wait for a process, killing it if it hangs; return its exit code, negative for a signal."""
    timer = threading.Timer(LONGEST, os.kill, (process, signal.SIGKILL))
    timer.start()
    _, status = os.waitpid(process, 0)
    timer.cancel()
    return os.waitstatus_to_exitcode(status)


def watched(moment: str, action: Callable[[], None]) -> Callable[[], None]:
    """A function that makes a process call `action` at each file operation or rounding batch."""

    def calling(function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any, **named: Any) -> Any:
            action()
            return function(*arguments, **named)

        return called

    def prepare() -> None:
        if moment == "rounding":
            certain, train = Rounding.round, Attempt.train_on_batch

            def rounded(*arguments: Any) -> Any:
                Attempt.train_on_batch = calling(train)  # type: ignore[method-assign]
                try:
                    return certain(*arguments)
                finally:
                    Attempt.train_on_batch = train  # type: ignore[method-assign]

            Rounding.round = rounded  # type: ignore[method-assign, assignment]
        else:
            for name in FILE_OPERATIONS:
                setattr(os, name, calling(getattr(os, name)))

    return prepare


def counted(path: Path, moment: str) -> Callable[[], None]:
    """A function that makes a process write a byte to a file at each moment of a kind."""

    def note() -> None:
        with path.open("ab", buffering=0) as notes:
            notes.write(b".")

    return watched(moment, note)


def ended_at(number: int, moment: str, name: str) -> Callable[[], None]:
    """A function that makes a process end itself at the n-th moment of a kind, from 0."""
    remaining = number

    def count() -> None:
        nonlocal remaining
        remaining -= 1
        if remaining == -1:
            send(os.getpid(), name, 0.0)

    return watched(moment, count)


def send(process: int, name: str, pause: float) -> None:
    """Send a process a signal of `SIGNALS`, the second one after a pause."""
    with contextlib.suppress(ProcessLookupError):
        if name == "SIGKILL":
            os.kill(process, signal.SIGKILL)
            return
        os.kill(process, signal.SIGINT)
        if name == "SIGINT twice":
            time.sleep(pause)
            os.kill(process, signal.SIGINT)


def prepare_kind(arguments: list[str], folder: Path) -> Kind:
    """Run a command without interruption, for its results and to count its moments."""
    kind = Kind(arguments, folder / "whole")
    log = folder / "log"
    # In this process, so that compiled code is loaded only once.
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        cli.app([*arguments, "--out", str(folder / "first")], standalone_mode=False)
    began = time.monotonic()
    if wait_for(begin([*arguments, "--out", str(kind.whole)], log)):
        raise SystemExit(f"{' '.join(arguments)}: failed\n{log.read_text()}")
    kind.seconds = time.monotonic() - began
    for moment in MOMENTS[1:]:
        notes = folder / f"count {moment}"
        notes.touch()
        wait_for(begin([*arguments, "--out", str(folder / moment)], log, counted(notes, moment)))
        kind.counts[moment] = notes.stat().st_size
    return kind


def end_and_resume(kind: Kind, folder: Path, most: int, rng: np.random.Generator) -> None:
    """Interrupt and resume a run, with at most `most` signals, and compare its results."""
    out, log, history = folder / "run", folder / "log", []
    for number in range(1000):
        try:
            check_resumable(out)
            arguments = ["train", "--resume", str(out)]
        except StacktransError:
            arguments = [*kind.arguments, "--out", str(out)]
        name = str(rng.choice(SIGNALS))
        moment = str(rng.choice(MOMENTS, p=(0.6, 0.25, 0.15)))
        if moment == "rounding" and not kind.counts[moment]:
            moment = "any time"
        when, pause = rng.uniform(), rng.uniform(0, 0.1)
        if number >= most:
            code = wait_for(begin(arguments, log))
        elif moment == "any time":
            process = begin(arguments, log)
            timer = threading.Timer(when * kind.seconds, send, (process, name, pause))
            timer.start()
            code = wait_for(process)
            timer.cancel()
        else:
            at = int(when * kind.counts[moment])
            code = wait_for(begin(arguments, log, ended_at(at, moment, name)))
        if code == 0:
            break
        kind.sent[name] += 1
        kind.moments[moment] += 1
        history.append(f"{name}, {moment} {when:.3f}")
        if code not in (-signal.SIGKILL, INTERRUPTED) or number >= most:
            kind.wrong.append(f"{history}: exit code {code}\n{log.read_text()}")
            break
    else:
        kind.wrong.append(f"{history}: does not end")
    kind.runs += 1
    if code == 0:
        kind.wrong += [f"{history}: {part}" for part in differences(kind.whole, out)]


def differences(whole: Path, resumed: Path) -> Iterator[str]:
    """The differences between two runs, except for their duration."""
    for name in ("best", "last"):
        weights, others = (
            safetensors.torch.load_file(run / name / WEIGHTS) for run in (whole, resumed)
        )
        if weights.keys() != others.keys() or not all(
            torch.equal(weight, others[key]) for key, weight in weights.items()
        ):
            yield f"different weights in {name}"
    if records(whole) != records(resumed):
        yield "different metrics"
    if summary(whole) != summary(resumed):
        yield f"different summary: {summary(resumed)}"
    extra = {path.name for path in resumed.iterdir()} - {path.name for path in whole.iterdir()}
    if extra:
        yield f"additional files: {extra}"


def records(run: Path) -> list[dict[str, Any]]:
    lines = (run / METRICS).read_text().splitlines()
    return [{**json.loads(line), "seconds": None} for line in lines]


def summary(run: Path) -> dict[str, Any]:
    return {**json.loads((run / SUMMARY).read_text()), "seconds": None, "command": None}


def report(kinds: dict[str, Kind], arguments: argparse.Namespace) -> str:
    columns = ["kind of run", "runs", *SIGNALS, *MOMENTS, "different"]
    rows = [columns, ["---"] * len(columns)]
    for name, kind in kinds.items():
        numbers = [kind.runs, *(kind.sent[name] for name in SIGNALS)]
        numbers += [*(kind.moments[moment] for moment in MOMENTS), len(kind.wrong)]
        rows.append([name, *map(str, numbers)])
    totals = [sum(int(row[column]) for row in rows[2:]) for column in range(1, len(columns))]
    rows.append(["all", *map(str, totals)])
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return f"""## Killed runs

Runs were ended {sum(totals[1:4])} times and resumed until they were complete. The best and the last
weights, the metrics and the summary of each run were compared with those of an uninterrupted run,
bit for bit except for times. The moment of a signal was drawn uniformly from the duration of the
run, from its file operations ({", ".join(FILE_OPERATIONS)}), or from its rounding batches.

{table}

stacktrans {__version__}, torch {torch.__version__}, Python {platform.python_version()}. Written by
`python benchmarks/kills.py --signals {arguments.signals} --seed {arguments.seed}`.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--signals", type=int, default=200, help="number of signals, over all kinds of runs"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--kind", action="append", choices=KINDS, help="kind of run; all kinds if not given"
    )
    parser.add_argument("--markdown", type=Path, help="write a section of this file")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        kinds = work(arguments, folder)
    text = report(kinds, arguments)
    print(text)
    if arguments.markdown:
        write_section(arguments.markdown, "kills", text)
    wrong = [f"{name}: {problem}" for name, kind in kinds.items() for problem in kind.wrong]
    if wrong:
        raise SystemExit("\n".join(wrong))


def weight(name: str) -> int:
    """The relative number of signals for a kind of run: fewer where a run takes long."""
    return 1 if "two processes" in name else 3


def work(arguments: argparse.Namespace, folder: Path) -> dict[str, Kind]:
    """Run all kinds, each with its share of the signals."""
    text, kinds = write_text(folder), {}
    names = arguments.kind or list(KINDS)
    for index, name in enumerate(names):
        own_folder = folder / str(index)
        own_folder.mkdir()
        kind = kinds[name] = prepare_kind(arguments_of(KINDS[name], text), own_folder)
        print(f"{name}: {kind.seconds:.1f} s, {kind.counts}", file=sys.stderr, flush=True)
        shares = [sum(map(weight, names[:end])) for end in (index, index + 1, len(names))]
        before, after = (arguments.signals * part // shares[-1] for part in shares[:2])
        share = after - before
        rng = np.random.default_rng([arguments.seed, list(KINDS).index(name)])
        while (remaining := share - kind.sent.total()) > 0:
            run = own_folder / f"run {kind.runs}"
            run.mkdir()
            end_and_resume(kind, run, remaining, rng)
            print(f"  {kind.sent.total()}/{share}", *kind.wrong[-1:], file=sys.stderr, flush=True)
    return kinds


if __name__ == "__main__":
    main()
