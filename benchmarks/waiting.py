"""Latency of common commands, compared with another commit.

    python benchmarks/waiting.py COMMIT [--rounds 3] [--markdown FILE]

The commands are a first answer, answers to many lines, `eval`, and training. Both commits are run
in turn, on one thread, each in its own checkout and with its own cache of compiled code. Times are
seconds of processor time, including child processes; only their ratio can be compared. The minimum
of several rounds is taken, since other work on the machine only adds to it.
"""

import argparse
import contextlib
import os
import random
import resource
import shutil
import string
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from results import Result, report

ROOT = Path(__file__).resolve().parent.parent
LINES = 20_000
MODELS = ("reverse-stack", "copy-deque", "xor-buffered", "anbncn")
LETTERS = {"xor-buffered": "01", "anbncn": "a"}
EVALUATED = 10_000
TIMED = """
import atexit, pathlib, sys, time
try:
    from stacktrans.inference import scores
except ImportError:  # commits without this module
    from stacktrans.inference import evaluation as scores

path, score, spent = pathlib.Path(sys.argv.pop(1)), scores.score, 0.0

def timed(*arguments, **options):
    global spent
    began = time.process_time()
    try:
        return score(*arguments, **options)
    finally:
        spent += time.process_time() - began

scores.score = timed
atexit.register(lambda: path.write_text(str(spent)))
from stacktrans.cli import main
main()
"""
"""A program that runs a command and writes the seconds spent on measuring accuracy to a file."""


@dataclass(frozen=True)
class Side:
    """A checkout and its cache of compiled code."""

    name: str
    checkout: Path
    code: Path

    def run(self, *arguments: str, stdin: bytes = b"") -> float:
        """Run a command, and return its processor time in seconds."""
        return self.output(*arguments, stdin=stdin)[0]

    def output(self, *arguments: str, stdin: bytes = b"") -> tuple[float, bytes]:
        """Run a command, and return its processor time and its output."""
        return self.run_python("-m", "stacktrans", *arguments, stdin=stdin)

    def run_python(self, *arguments: str, stdin: bytes = b"") -> tuple[float, bytes]:
        """Run Python with some arguments, and return its processor time and its output."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [sys.executable, *arguments],
            input=stdin,
            capture_output=True,
            check=True,
            cwd=self.checkout,
            env={
                **os.environ,
                "PYTHONPATH": str(self.checkout),
                "NUMBA_CACHE_DIR": str(self.code),
                "OMP_NUM_THREADS": "1",
                "PYTHONDONTWRITEBYTECODE": "",  # installed packages have bytecode, too
            },
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return seconds, done.stdout


def lines_for(model: str, count: int = LINES) -> bytes:
    """Reproducible random lines of 5 to 40 symbols."""
    rng, letters = random.Random(1), LETTERS.get(model, string.ascii_letters)
    lines = ("".join(rng.choices(letters, k=rng.randint(5, 40))) for _ in range(count))
    return "".join(f"{line}\n" for line in lines).encode()


def cold(side: Side) -> float:
    """Time a first answer with an empty cache of compiled code."""
    shutil.rmtree(side.code, ignore_errors=True)
    return warm(side)


def warm(side: Side) -> float:
    """Time a first answer with a filled cache of compiled code."""
    return side.run("transduce", "checkpoints/reverse-stack", stdin=b"hello\n")


def many_lines(model: str) -> Callable[[Side], float]:
    """A function that times the answers of a model to many lines."""
    lines = lines_for(model)
    return lambda side: side.run("transduce", f"checkpoints/{model}", stdin=lines)


def evaluated(side: Side) -> float:
    """Time the evaluation of accuracy on many strings."""
    return side.run("eval", "checkpoints/reverse-stack", "--count", str(EVALUATED))


def trained(side: Side, *options: str) -> float:
    """Time a run that learns to copy, until it has solved the task."""
    with tempfile.TemporaryDirectory() as folder:
        task = ("--task", "copy", "--memory", "queue", "--seed", "1")
        return side.run("train", *task, "--set", "workers=1", "--out", f"{folder}/run", *options)


def cold_training(side: Side) -> float:
    """Time a run of one batch with an empty cache of compiled code."""
    shutil.rmtree(side.code, ignore_errors=True)
    return trained(side, "--recipe", "default", "--max-steps", "1")


def warm_training(side: Side) -> float:
    """Time a run of one batch with a filled cache of compiled code."""
    return trained(side, "--recipe", "default", "--max-steps", "1")


MEASURED: dict[str, Callable[[Side], float]] = {
    "first answer, cold": cold,
    "first answer, warm": warm,
    "generate": lambda side: side.run("generate", "--task", "copy", "--count", "3"),
    "list tasks": lambda side: side.run("list", "tasks"),
    "--help": lambda side: side.run("--help"),
    **{f"{LINES:,} lines, {model}": many_lines(model) for model in MODELS},
    f"eval of {EVALUATED:,} strings": evaluated,
    "one batch of training, cold": cold_training,
    "one batch of training, warm": warm_training,
    "training copy with a queue": trained,
}


def measured(sides: list[Side], rounds: int) -> Iterator[tuple[str, list[float]]]:
    """The minimum time of each command on each side, in seconds."""
    for name, measure in MEASURED.items():
        by_round = [[measure(side) for side in sides] for _ in range(rounds)]
        yield name, [min(times) for times in zip(*by_round, strict=True)]


def split(side: Side) -> dict[str, float]:
    """The seconds of each phase of a run in one process that solves its task."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "seconds"
        task = ("--task", "copy", "--memory", "queue", "--seed", "1", "--recipe", "default")
        settings = ("--set", "workers=1", "--set", "training.rounding=null")
        train = ("train", *task, *settings, "--out", f"{folder}/run")
        whole, _ = side.run_python("-c", TIMED, str(path), *train)
        validation = float(path.read_text())
    ends, cold_ends = warm_training(side), cold_training(side)
    return {
        "compilation": cold_ends - ends,
        "start and end of the run": ends,
        "validation": validation,
        "training steps": whole - ends - validation,
    }


@contextlib.contextmanager
def two_sides(commit: str) -> Iterator[list[Side]]:
    """A checkout of a commit, and this one."""
    with tempfile.TemporaryDirectory() as made:
        folder, checkout = Path(made), Path(made) / "before"
        subprocess.run(
            ["git", "worktree", "add", "--detach", checkout, commit], cwd=ROOT, check=True
        )
        try:
            before = Side(commit, checkout, folder / "code-before")
            yield [before, Side("now", ROOT, folder / "code-now")]
        finally:
            remove = ["git", "worktree", "remove", "--force", str(checkout)]
            subprocess.run(remove, cwd=ROOT, check=True)


def _row(then: float, now: float) -> list[str]:
    return [f"{then:.2f}", f"{now:.2f}", f"{then / now:.1f}"]


def main() -> None:
    """Measure, and show the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commit")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    with two_sides(options.commit) as sides:
        rows = [[name, *_row(*pair)] for name, pair in measured(sides, options.rounds)]
        then, now = (split(side) for side in sides)
    rows += [[f"learning to copy: {name}", *_row(then[name], now[name])] for name in now]
    result = Result(
        "Latency",
        f"Seconds of processor time, the minimum of {options.rounds}, beside commit "
        f"{options.commit}.",
        ["command", "before, s", "now, s", "ratio"],
        rows,
    )
    command = f"python benchmarks/waiting.py {options.commit} --rounds {options.rounds}"
    report(result, command, options.markdown)


if __name__ == "__main__":
    main()
