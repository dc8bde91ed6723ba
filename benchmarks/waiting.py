"""What people wait for, beside another commit: the first answer, many lines, `eval`, and training.

    python benchmarks/waiting.py COMMIT [--rounds 3] [--markdown FILE]

Both are run by turns in one go, each in a checkout and with a folder for compiled code of its own,
on one thread. Times are seconds of the processor, children included; what can be compared is their
ratio, and the least of some rounds is taken, since anything else on the machine only adds to it.
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
except ImportError:  # of commits before accuracies had a module of their own
    from stacktrans.inference import evaluation as scores

kept, score, spent = pathlib.Path(sys.argv.pop(1)), scores.score, 0.0

def timed(*given, **more):
    global spent
    begun = time.process_time()
    try:
        return score(*given, **more)
    finally:
        spent += time.process_time() - begun

scores.score = timed
atexit.register(lambda: kept.write_text(str(spent)))
from stacktrans.cli import main
main()
"""
"""A command of which the seconds that go into measuring accuracy are written to a file."""


@dataclass(frozen=True)
class Side:
    """A checkout and where its compiled code is kept."""

    name: str
    checkout: Path
    code: Path

    def run(self, *arguments: str, stdin: bytes = b"") -> float:
        """Run a command of it; the seconds of the processor that it took."""
        return self.said(*arguments, stdin=stdin)[0]

    def said(self, *arguments: str, stdin: bytes = b"") -> tuple[float, bytes]:
        """The same, and what it said."""
        return self.called("-m", "stacktrans", *arguments, stdin=stdin)

    def called(self, *arguments: str, stdin: bytes = b"") -> tuple[float, bytes]:
        """The same of Python with some arguments."""
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
                "PYTHONDONTWRITEBYTECODE": "",  # what is installed has its bytecode, too
            },
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return seconds, done.stdout


def lines_for(model: str, count: int = LINES) -> bytes:
    """Lines of 5 to 40 symbols, the same each time."""
    drawn, letters = random.Random(1), LETTERS.get(model, string.ascii_letters)
    lines = ("".join(drawn.choices(letters, k=drawn.randint(5, 40))) for _ in range(count))
    return "".join(f"{line}\n" for line in lines).encode()


def cold(side: Side) -> float:
    """The first answer, with nothing compiled yet."""
    shutil.rmtree(side.code, ignore_errors=True)
    return warm(side)


def warm(side: Side) -> float:
    """An answer, where as much is compiled as ever is for one."""
    return side.run("transduce", "checkpoints/reverse-stack", stdin=b"hello\n")


def many_lines(model: str) -> Callable[[Side], float]:
    """Lines through a model."""
    given = lines_for(model)
    return lambda side: side.run("transduce", f"checkpoints/{model}", stdin=given)


def evaluated(side: Side) -> float:
    """The accuracy on many strings."""
    return side.run("eval", "checkpoints/reverse-stack", "--count", str(EVALUATED))


def trained(side: Side, *more: str) -> float:
    """A run that learns to copy, as long as it takes."""
    with tempfile.TemporaryDirectory() as folder:
        task = ("--task", "copy", "--memory", "queue", "--seed", "1")
        return side.run("train", *task, "--set", "workers=1", "--out", f"{folder}/run", *more)


def cold_training(side: Side) -> float:
    """A run of one batch, with nothing compiled yet."""
    shutil.rmtree(side.code, ignore_errors=True)
    return trained(side, "--recipe", "default", "--max-steps", "1")


def warm_training(side: Side) -> float:
    """The same once more."""
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
    """For each thing, the least seconds that each side takes."""
    for name, measure in MEASURED.items():
        found = [[measure(side) for side in sides] for _ in range(rounds)]
        yield name, [min(times) for times in zip(*found, strict=True)]


def split(side: Side) -> dict[str, float]:
    """What a run is made of that trains in one process until it has learned; seconds by name."""
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder) / "seconds"
        task = ("--task", "copy", "--memory", "queue", "--seed", "1", "--recipe", "default")
        settings = ("--set", "workers=1", "--set", "training.rounding=null")
        train = ("train", *task, *settings, "--out", f"{folder}/run")
        whole, _ = side.called("-c", TIMED, str(kept), *train)
        validation = float(kept.read_text())
    ends, cold_ends = warm_training(side), cold_training(side)
    return {
        "compiling, the first time": cold_ends - ends,
        "start, and what follows the last batch": ends,
        "validation": validation,
        "steps": whole - ends - validation,
    }


@contextlib.contextmanager
def two_sides(commit: str) -> Iterator[list[Side]]:
    """A commit, and what is checked out here."""
    with tempfile.TemporaryDirectory() as made:
        folder, place = Path(made), Path(made) / "before"
        subprocess.run(["git", "worktree", "add", "--detach", place, commit], cwd=ROOT, check=True)
        try:
            before = Side(commit, place, folder / "code-before")
            yield [before, Side("now", ROOT, folder / "code-now")]
        finally:
            remove = ["git", "worktree", "remove", "--force", str(place)]
            subprocess.run(remove, cwd=ROOT, check=True)


def _row(then: float, now: float) -> list[str]:
    return [f"{then:.2f}", f"{now:.2f}", f"{then / now:.1f}"]


def main() -> None:
    """Measure and show."""
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
        "What people wait for",
        f"Seconds of the processor, the least of {options.rounds}, beside commit {options.commit}.",
        ["", "before, s", "now, s", "ratio"],
        rows,
    )
    command = f"python benchmarks/waiting.py {options.commit} --rounds {options.rounds}"
    report(result, command, options.markdown)


if __name__ == "__main__":
    main()
