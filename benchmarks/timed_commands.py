"""Parts of `speed.py` that time commands."""

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

from results import Result
from scale import Scale

TASKS = (("copy", "queue"), ("reverse", "stack"))


def solve(run: tuple[str, str, int], options: Sequence[str]) -> dict[str, Any]:
    """The summary that `stacktrans train` prints after a run of a task with a memory and a seed."""
    task, memory, seed = run
    print(f"training {task} with a {memory}, seed {seed}", file=sys.stderr)
    with tempfile.TemporaryDirectory() as directory:
        command = [
            "train",
            "--recipe",
            "default",
            "--task",
            task,
            "--memory",
            memory,
            "--seed",
            str(seed),
            *options,
        ]
        done = subprocess.run(
            [sys.executable, "-m", "stacktrans", *command, "--json", "--out", f"{directory}/run"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=True,
        )
    summary: dict[str, Any] = json.loads(done.stdout)
    return summary


def solutions(scale: Scale) -> Iterator[Result]:
    """Part e: training until the task is solved."""
    jobs = [(task, memory, seed) for task, memory in TASKS for seed in range(1, scale.seeds + 1)]
    done = [solve(job, scale.training) for job in jobs]
    rows, run_rows = [], []
    for task, memory in TASKS:
        runs = [run for job, run in zip(jobs, done, strict=True) if job[:2] == (task, memory)]
        seconds = [run["seconds"] for run in runs]
        batches = [run["steps"] for run in runs]
        rows.append(
            [
                task,
                memory,
                f"{sum(run['outcome'] == 'solved' for run in runs)} of {len(runs)}",
                f"{statistics.median(seconds):.1f}",
                f"{min(seconds):.1f} to {max(seconds):.1f}",
                f"{statistics.median(batches):.0f}",
                f"{min(batches)} to {max(batches)}",
            ]
        )
        for run in runs:
            run_rows.append(
                [
                    task,
                    memory,
                    str(run["seed"]),
                    run["outcome"],
                    str(run["attempts"]),
                    f"{run['seconds']:.1f}",
                    str(run["steps"]),
                ]
            )
    command = " ".join(
        [
            "stacktrans train --recipe default --task TASK --memory MEMORY --seed SEED",
            *scale.training,
        ]
    )
    yield Result(
        "Time to solution",
        f"Medians and ranges over seeds 1 to {scale.seeds} of `{command}`, one run at a time, one "
        "thread each. Seconds are training time, including validation.",
        ["task", "memory", "solved", "seconds", "range", "batches", "range"],
        rows,
    )
    yield Result(
        "Each run",
        "",
        ["task", "memory", "seed", "outcome", "attempts", "seconds", "batches"],
        run_rows,
    )


LONG_LINES = {
    "reverse-stack": ("0123456789", ""),
    "copy-queue": ("0123456789", ""),
    "memorization": ("12", "="),
}
"""The symbols that a line repeats, and those at its end, by model."""
LONG_LINE = """
import resource, subprocess, sys
command = [sys.executable, "-m", "stacktrans", "transduce", sys.argv[1]]
done = subprocess.run(command, stdin=open(sys.argv[2]), stdout=subprocess.PIPE, check=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, len(done.stdout.decode()) - 1)
"""


def long_line(scale: Scale) -> Iterator[Result]:
    """Part f: transduction of a very long line."""
    rows = []
    for name, (symbols, end) in LONG_LINES.items():
        print(f"transducing a long line with {name}", file=sys.stderr)
        with tempfile.NamedTemporaryFile("w") as line:
            line.write(symbols * (scale.line // len(symbols)) + f"{end}\n")
            line.flush()
            done = subprocess.run(
                [sys.executable, "-c", LONG_LINE, name, line.name],
                stdout=subprocess.PIPE,
                check=True,
            )
        seconds, peak, answered = map(float, done.stdout.split())
        rows.append([name, str(scale.line), f"{answered:.0f}", f"{seconds:.1f}", f"{peak:.0f}"])
    yield Result(
        "A very long line",
        "`stacktrans transduce` from start to exit, one thread: symbols in and out, seconds of "
        "processor time, and peak memory.",
        ["model", "symbols", "answered", "seconds", "MiB"],
        rows,
    )
