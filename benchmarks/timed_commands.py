"""The parts of `speed.py` that time commands."""

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


def solve(run: tuple[str, str, int], more: Sequence[str]) -> dict[str, Any]:
    """What `stacktrans train` prints at the end of a run of a task with a memory and a seed."""
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
            *more,
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
    """Part e."""
    jobs = [(task, memory, seed) for task, memory in TASKS for seed in range(1, scale.seeds + 1)]
    done = [solve(job, scale.training) for job in jobs]
    rows, each = [], []
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
            each.append(
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
        "thread each. Seconds are of training, validation included.",
        ["task", "memory", "solved", "seconds", "range", "batches", "range"],
        rows,
    )
    yield Result(
        "Each run",
        "",
        ["task", "memory", "seed", "outcome", "attempts", "seconds", "batches"],
        each,
    )


LONG_LINE = """
import resource, subprocess, sys, time
began = time.monotonic()
command = [sys.executable, "-m", "stacktrans", "transduce", sys.argv[1]]
done = subprocess.run(command, stdin=open(sys.argv[2]), stdout=subprocess.PIPE, check=True)
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(time.monotonic() - began, peak / 1024, len(done.stdout.decode()) - 1)
"""


def long_line(scale: Scale) -> Iterator[Result]:
    """Part f."""
    rows = []
    for name in ("reverse-stack", "copy-queue"):
        print(f"transducing a long line with {name}", file=sys.stderr)
        with tempfile.NamedTemporaryFile("w") as line:
            line.write("0123456789" * (scale.line // 10) + "\n")
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
        "`stacktrans transduce` from its start to its end, one thread: symbols in and out, "
        "seconds, and the most memory it had at once.",
        ["model", "symbols", "answered", "seconds", "MiB"],
        rows,
    )
