"""Time to a verified solution, by commit and task.

    python benchmarks/leaderboard.py [--seeds 20] [--only copy]

Runs each task of `TASKS` with each seed, writes every run to leaderboard.jsonl, and a table of
processor and wall-clock time per commit, on two cores, to leaderboard.md. Recorded runs of a commit
are not repeated, so that the program can be interrupted. A run counts as solved if `train` has
verified it on strings longer than those trained on; the time of an unsolved run is infinite.
"""

import argparse
import json
import math
import os
import resource
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from machine import processor

HERE = Path(__file__).resolve().parent
RUNS, TABLE = HERE / "leaderboard.jsonl", HERE / "leaderboard.md"
TASKS = {
    "copy, queue": ("--task", "copy", "--memory", "queue"),
    "reverse, stack": ("--task", "reverse", "--memory", "stack"),
    "copy": ("--task", "copy"),
    "reverse": ("--task", "reverse"),
    "bigram-flip": ("--task", "bigram-flip"),
    "gender": ("--task", "gender"),
}
LONGEST = "10m"


@dataclass(frozen=True)
class Run:
    """A run of a task.

    Attributes:
        commit: the commit of the program.
        task: a name in `TASKS`.
        seed: the random seed.
        solved: whether it ended solved.
        processor: seconds of processor time of all processes.
        clock: seconds of wall-clock time.
        machine: the processor that it ran on.
    """

    commit: str
    task: str
    seed: int
    solved: bool
    processor: float
    clock: float
    machine: str


def committed() -> str:
    """The commit that is checked out, with + if files differ from it."""
    described = ["git", "describe", "--always", "--dirty=+", "--exclude=*"]
    done = subprocess.run(described, cwd=HERE, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def train(commit: str, task: str, seed: int) -> Run:
    """Train once."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        command = [sys.executable, "-m", "stacktrans", "train", *TASKS[task]]
        more = ["--seed", str(seed), "--workers", "2", "--budget", LONGEST, "--out", str(out)]
        done = subprocess.run([*command, *more], capture_output=True, check=False)
        if done.returncode:
            raise SystemExit(done.stderr.decode())
        summary = json.loads((out / "summary.json").read_text())
    clock, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    solved = summary["outcome"] in ("solved", "no_machine")
    return Run(commit, task, seed, solved, round(spent, 2), round(clock, 2), processor())


def recorded() -> list[Run]:
    """All recorded runs, in order."""
    lines = RUNS.read_text().splitlines() if RUNS.exists() else []
    return [Run(**json.loads(line)) for line in lines]


def median_and_maximum(times: list[float]) -> list[str]:
    """The median and the maximum, as text."""
    return [f"{time:.1f}" if time < math.inf else "-" for time in (middle(times), max(times))]


def middle(times: list[float]) -> float:
    """The median; infinite if half of the runs were not solved."""
    ordered = sorted(times)
    both = ordered[(len(times) - 1) // 2], ordered[len(times) // 2]
    return math.inf if math.inf in both else statistics.mean(both)


def rows(runs: list[Run]) -> Iterator[str]:
    """The rows of the table: the commits of each task in the order of their first runs."""
    for task in TASKS:
        before = math.nan
        for commit in dict.fromkeys(run.commit for run in runs if run.task == task):
            own = [run for run in runs if (run.task, run.commit) == (task, commit)]
            processor_times = [run.processor if run.solved else math.inf for run in own]
            clock_times = [run.clock if run.solved else math.inf for run in own]
            now = middle(processor_times)
            change = f"{100 * (now / before - 1):+.0f}%" if max(before, now) < math.inf else ""
            solved = f"{sum(run.solved for run in own)} of {len(own)}"
            cells = (
                task,
                commit,
                solved,
                *median_and_maximum(processor_times),
                *median_and_maximum(clock_times),
                change,
            )
            yield f"| {' | '.join(cells)} |"
            before = now


def write(runs: list[Run], command: str) -> None:
    """Write the table."""
    machines = ", ".join(dict.fromkeys(run.machine for run in runs))
    heads = (
        "task",
        "commit",
        "solved",
        "processor, s: median",
        "maximum",
        "clock, s: median",
        "maximum",
        "change",
    )
    lines = [
        "# Leaderboard",
        "",
        "Seconds to a verified solution with 2 workers: processor time of all processes together,",
        "and wall-clock time, both including start-up. The last column is the change from the row",
        "above.",
        "",
        "| " + " | ".join(heads) + " |",
        "|---|---|---|" + "---:|" * 5,
        *rows(runs),
        "",
        f"{machines}. Written by `{command}`.",
    ]
    TABLE.write_text("\n".join(lines) + "\n")


def main() -> None:
    """Run all missing runs, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--only", choices=TASKS, action="append")
    options = parser.parse_args()
    commit, runs = committed(), recorded()
    done = {(run.commit, run.task, run.seed) for run in runs}
    for seed in range(1, options.seeds + 1):
        for task in options.only or TASKS:
            if (commit, task, seed) in done:
                continue
            runs.append(train(commit, task, seed))
            with RUNS.open("a") as stream:
                stream.write(json.dumps(asdict(runs[-1])) + "\n")
                stream.flush()
                os.fsync(stream.fileno())
    only = [word for task in options.only or () for word in ("--only", task)]
    arguments = ["--seeds", str(options.seeds), *only]
    write(runs, shlex.join(["python", "benchmarks/leaderboard.py", *arguments]))


if __name__ == "__main__":
    main()
