"""How long it takes to a verified solution: a row for each commit and task.

    python benchmarks/leaderboard.py [--seeds 20] [--only copy]

Runs each task of `TASKS` with each seed, writes every run to leaderboard.jsonl, and all rows to
leaderboard.md: of each commit the seconds of the processor and of the clock, on two cores. What has
been run with a commit is not run again, so that it can be interrupted. A run counts if it ends
solved: `train` then has proved it on strings longer than those trained on. One that does not is as
slow as the slowest.
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
        commit: of the program.
        task: in `TASKS`.
        seed: random seed.
        solved: whether it ended solved.
        processor: seconds of the processor, of all processes.
        clock: seconds of the clock.
        machine: what it ran on.
    """

    commit: str
    task: str
    seed: int
    solved: bool
    processor: float
    clock: float
    machine: str


def committed() -> str:
    """The commit that is checked out; with + if files differ from it."""
    described = ["git", "describe", "--always", "--dirty=+", "--exclude=*"]
    done = subprocess.run(described, cwd=HERE, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def run(commit: str, task: str, seed: int) -> Run:
    """Train once."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        command = [sys.executable, "-m", "stacktrans", "train", *TASKS[task]]
        more = ["--seed", str(seed), "--workers", "2", "--budget", LONGEST, "--out", str(out)]
        done = subprocess.run([*command, *more], capture_output=True, check=False)
        if done.returncode:
            raise SystemExit(done.stderr.decode())
        summary = json.loads((out / "summary.json").read_text())
    clock, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    solved = summary["outcome"] == "solved"
    return Run(commit, task, seed, solved, round(spent, 2), round(clock, 2), processor())


def recorded() -> list[Run]:
    """All runs so far, in order."""
    lines = RUNS.read_text().splitlines() if RUNS.exists() else []
    return [Run(**json.loads(line)) for line in lines]


def seconds(times: list[float]) -> list[str]:
    """Median and worst."""
    return [f"{each:.1f}" if each < math.inf else "-" for each in (middle(times), max(times))]


def middle(times: list[float]) -> float:
    """The median; infinite if half of the runs were not solved."""
    ordered = sorted(times)
    both = ordered[(len(times) - 1) // 2], ordered[len(times) // 2]
    return math.inf if math.inf in both else statistics.mean(both)


def rows(runs: list[Run]) -> Iterator[str]:
    """Of each task the commits in the order in which they were first run."""
    for task in TASKS:
        before = math.nan
        for commit in dict.fromkeys(each.commit for each in runs if each.task == task):
            own = [each for each in runs if (each.task, each.commit) == (task, commit)]
            spent = [each.processor if each.solved else math.inf for each in own]
            clock = [each.clock if each.solved else math.inf for each in own]
            now = middle(spent)
            change = "" if math.isnan(before) else f"{100 * (now / before - 1):+.0f}%"
            solved = f"{sum(each.solved for each in own)} of {len(own)}"
            cells = task, commit, solved, *seconds(spent), *seconds(clock), change
            yield f"| {' | '.join(cells)} |"
            before = now


def write(runs: list[Run], command: str) -> None:
    """Write the table."""
    machines = ", ".join(dict.fromkeys(each.machine for each in runs))
    heads = (
        "task",
        "commit",
        "solved",
        "processor, s: median",
        "worst",
        "clock, s: median",
        "worst",
        "against the row before",
    )
    lines = [
        "# Leaderboard",
        "",
        "Seconds to a verified solution, with 2 workers: of the processor, all processes together,",
        "and of the clock. From nothing, so that what is loaded first is counted, too.",
        "",
        "| " + " | ".join(heads) + " |",
        "|---|---|---|" + "---:|" * 5,
        *rows(runs),
        "",
        f"{machines}. Written by `{command}`.",
    ]
    TABLE.write_text("\n".join(lines) + "\n")


def main() -> None:
    """Run what is missing, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--only", choices=TASKS, action="append")
    options = parser.parse_args()
    commit, runs = committed(), recorded()
    done = {(each.commit, each.task, each.seed) for each in runs}
    for seed in range(1, options.seeds + 1):
        for task in options.only or TASKS:
            if (commit, task, seed) in done:
                continue
            runs.append(run(commit, task, seed))
            with RUNS.open("a") as stream:
                stream.write(json.dumps(asdict(runs[-1])) + "\n")
                stream.flush()
                os.fsync(stream.fileno())
    only = [word for task in options.only or () for word in ("--only", task)]
    given = ["--seeds", str(options.seeds), *only]
    write(runs, shlex.join(["python", "benchmarks/leaderboard.py", *given]))


if __name__ == "__main__":
    main()
