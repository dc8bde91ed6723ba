"""The overhead of a sweep, compared with the work of its runs.

    python benchmarks/sweeps.py [--runs 200] [--workers 2] [--seconds 0.1] [--markdown FILE]

A sweep of short runs is executed from the command line, in an empty directory. The work of a
worker is the median time of a run, from the lock on its directory to its summary, times the number
of runs per worker. The median is used because the first runs load modules and compile code. The
overhead is the time to start the command and its processes, to distribute the runs, and to write
the records and the tables.
"""

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import yaml

from stacktrans import __version__
from stacktrans.sweeps.work import LOCK
from stacktrans.training.records import SUMMARY

MODEL = {
    "memory": {"name": "stack", "size": 8},
    "controller": {"hidden_size": 16},
    "embedding_size": 8,
}
FIRST_GUESS = 20
"""Number of batches in trial runs, from whose durations the final number is extrapolated."""
TRIES = 20
"""Number of trial runs of each length."""


def sweep_file(directory: Path, runs: int, batches: int) -> Path:
    """Write the file of a sweep over seeds, and return its path."""
    content = {
        "title": "Short runs",
        "settings": {
            "task": "reverse",
            "model": MODEL,
            "training": {"max_steps": batches, "measure": {"strings": 10}},
        },
        "grid": {"seed": list(range(1, runs + 1))},
        "conditions": {"Stack": {}},
        "measures": {"coarse": {"of": "coarse", "strings": "test"}},
    }
    path = directory / "short.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def batches_for(directory: Path, seconds: float, workers: int) -> int:
    """The number of batches of runs that take this many seconds."""
    shorter, longer = (
        sweep(sweep_file(directory, TRIES, batches), directory / str(batches), workers)[1]
        for batches in (FIRST_GUESS, 2 * FIRST_GUESS)
    )
    return max(1, FIRST_GUESS + round((seconds - shorter) / (longer - shorter) * FIRST_GUESS))


def sweep(file: Path, directory: Path, workers: int) -> tuple[float, float]:
    """The seconds that a sweep command takes, and the median of its runs."""
    command = [sys.executable, "-m", "stacktrans", "sweep", str(file)]
    options = ["--workers", str(workers), "--out", str(directory)]
    began = time.perf_counter()
    subprocess.run([*command, *options], check=True, capture_output=True)
    elapsed = time.perf_counter() - began
    return elapsed, median(map(duration, (directory / "runs").iterdir()))


def duration(run: Path) -> float:
    """The seconds from a run's lock to its summary."""
    return (run / SUMMARY).stat().st_mtime - (run / LOCK).stat().st_mtime


def report(arguments: argparse.Namespace) -> str:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        batches = batches_for(folder, arguments.seconds, arguments.workers)
        file = sweep_file(folder, arguments.runs, batches)
        elapsed, per_run = sweep(file, folder / "sweep", arguments.workers)
    work = per_run * arguments.runs / arguments.workers
    return (
        "# Overhead of a sweep\n\n"
        f"{arguments.runs} runs of {1000 * per_run:.0f} ms ({batches} batches) with "
        f"{arguments.workers} workers are {work:.1f} s of work for each worker. The sweep takes "
        f"{elapsed:.1f} s, {elapsed / work:.2f} times as much.\n\n"
        f"stacktrans {__version__}, Python {platform.python_version()}, {os.cpu_count()} cores. "
        f"Written by `python benchmarks/sweeps.py --runs {arguments.runs} --workers "
        f"{arguments.workers} --seconds {arguments.seconds}`.\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0.1, help="duration of a run")
    parser.add_argument("--markdown", type=Path, help="also write the result here")
    arguments = parser.parse_args()
    text = report(arguments)
    print(text)
    if arguments.markdown:
        arguments.markdown.write_text(text)


if __name__ == "__main__":
    main()
