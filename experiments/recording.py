"""Training conditions with many seeds, and writing down what came of each run.

Each run is what `stacktrans train` and `stacktrans eval` do on the command line. Runs that
are recorded already, for the same configuration, are not run again.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

from stacktrans import __version__
from stacktrans.settings.resolve import resolve

RESULTS = Path(__file__).parent / "results"
STRINGS = 1000
LENGTHS = "65:128"

Run = dict[str, Any]


class Condition(NamedTuple):
    """What is trained, but for the seed.

    Attributes:
        task: its name.
        memory: its name.
        changes: settings unlike the recipe's, as for `--set`.
        recipe: its name.
    """

    task: str
    memory: str
    changes: tuple[str, ...] = ()
    recipe: str = "default"

    @property
    def name(self) -> str:
        """How it is called in tables."""
        return " ".join([f"{self.task}/{self.memory}", *self.changes])

    def fingerprint(self) -> str:
        """Changes whenever anything does that decides the runs, but the seed."""
        memory = {"model": {"memory": self.memory}}
        config = resolve(
            task=self.task, recipe=self.recipe, settings=memory, assignments=self.changes
        )
        return config.identity()


def stacktrans(*arguments: str, folder: Path | None = None) -> Run:
    """What a command prints with --json, run in a folder; where this one is if none is given."""
    done = subprocess.run(
        [sys.executable, "-m", "stacktrans", *arguments, "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        check=True,
    )
    result: Run = json.loads(done.stdout)
    return result


def train(
    condition: Condition, seed: int, time_limit: str | None, *measures: str
) -> tuple[Run, list[Run]]:
    """One run: what is recorded of any, and what came of `eval` with each of some options."""
    changes = [word for change in condition.changes for word in ("--set", change)]
    command = ["train", "--task", condition.task, "--memory", condition.memory, *changes]
    if condition.recipe != "default":
        command += ["--recipe", condition.recipe]
    command += ["--seed", str(seed), *(["--time-limit", time_limit] if time_limit else [])]
    with tempfile.TemporaryDirectory() as directory:
        out = f"{directory}/run"
        summary = stacktrans(*command, "--out", out)
        results = [
            stacktrans("eval", out, *options.split(), "--count", str(STRINGS))["results"][0]
            for options in measures
        ]
    run = {
        "task": condition.task,
        "memory": condition.memory,
        "changes": list(condition.changes),
        "time_limit": time_limit,
        "seed": seed,
        "outcome": summary["outcome"],
        "seconds": summary["seconds"],
        "batches": summary["steps"],
        "starts": summary["attempts"],
        "accuracy": {part: summary[part] for part in ("train", "development", "test")},
        "command": " ".join(["stacktrans", *command]),
        "version": __version__,
        "torch": summary["torch"],
        "recipe": condition.fingerprint(),
    }
    return run, results


def condition_of(run: Run) -> Condition:
    """The condition of a recorded run."""
    recipe = "paper" if "--recipe paper" in run["command"] else "default"
    return Condition(run["task"], run["memory"], tuple(run["changes"]), recipe)


class Records(ABC):
    """The runs of some conditions, in a file of JSON lines with a table beside it.

    Args:
        name: of the files in `results/`, without ending.
        conditions: in the order of the table.
        heading: what the table is about.
        time_limit: of each run.
    """

    def __init__(
        self,
        name: str,
        conditions: Sequence[Condition],
        heading: str,
        time_limit: str | None = None,
    ) -> None:
        self.lines = RESULTS / f"{name}.jsonl"
        self.markdown = RESULTS / f"{name}.md"
        self.conditions = conditions
        self.heading = heading
        self.time_limit = time_limit
        self.runs = self._read()

    def _read(self) -> list[Run]:
        """The recorded runs of the conditions as they are now."""
        if not self.lines.exists():
            return []
        runs = [json.loads(line) for line in self.lines.read_text().splitlines()]
        now = {condition: condition.fingerprint() for condition in self.conditions}
        return [
            run
            for run in runs
            if run["recipe"] == now.get(condition_of(run)) and run["time_limit"] == self.time_limit
        ]

    def complete_as_asked(self, description: str | None, seeds: int) -> None:
        """Train what is missing, as the script's options say; so many seeds if they do not."""
        parser = argparse.ArgumentParser(description=description)
        parser.add_argument("--only", default="", help="conditions whose name holds this")
        parser.add_argument("--seeds", type=int, default=seeds)
        parser.add_argument("--workers", type=int, default=2, help="runs side by side")
        options = parser.parse_args()
        self.complete(options.seeds, options.workers, options.only)

    def complete(self, seeds: int, workers: int, only: str) -> None:
        """Train what is missing, so many runs side by side: all conditions, seed by seed."""
        done = {(condition_of(run), run["seed"]) for run in self.runs}
        missing = [
            (condition, seed)
            for seed in range(1, seeds + 1)
            for condition in self.conditions
            if only in condition.name
            if (condition, seed) not in done
        ]
        RESULTS.mkdir(exist_ok=True)
        with ThreadPoolExecutor(workers) as pool:
            jobs = [pool.submit(self.run, *job) for job in missing]
            for job in as_completed(jobs):
                run = job.result()
                self.runs.append(run)
                self._write()
                print(run, file=sys.stderr, flush=True)
        self._write()

    def _write(self) -> None:
        self.lines.write_text("".join(json.dumps(run) + "\n" for run in self.runs))
        self.markdown.write_text(self.table())

    @abstractmethod
    def run(self, condition: Condition, seed: int) -> Run:
        """Train once."""

    @abstractmethod
    def table(self) -> str:
        """What is shown of the runs, as Markdown."""

    def of(self, condition: Condition) -> list[Run]:
        """The runs of a condition, by seed."""
        runs = [run for run in self.runs if condition_of(run) == condition]
        return sorted(runs, key=lambda run: int(run["seed"]))

    def versions(self) -> str:
        """What the runs were made with."""
        return "; ".join(
            sorted({f"stacktrans {run['version']}, torch {run['torch']}" for run in self.runs})
        )


class LongStrings(Records):
    """Runs measured on strings longer than they were trained on."""

    def run(self, condition: Condition, seed: int) -> Run:
        run, (result,) = train(condition, seed, self.time_limit, f"--lengths {LENGTHS}")
        del run["accuracy"]
        found = {"coarse": result["coarse"], "fine": result["fine"], "strings": result["count"]}
        return {**run, **found}

    def table(self) -> str:
        lines = [
            self.heading,
            "",
            "| task | memory | seeds | coarse 1.000 | lowest coarse | median seconds | longest |"
            " median batches |",
            "|---|---|---|---|---|---|---|---|",
        ]
        for condition in self.conditions:
            if runs := self.of(condition):
                lines.append(_summary(condition, runs))
        lines += [
            "",
            "| task | memory | seed | outcome | starts | batches | seconds | coarse | fine |",
            "|---|---|---|---|---|---|---|---|---|",
        ]
        for condition in self.conditions:
            lines += [
                f"| {_task(condition)} | "
                "{memory} | {seed} | {outcome} | {starts} | {batches} | {seconds:.0f} "
                "| {coarse:.3f} | {fine:.4f} |".format(**run)
                for run in self.of(condition)
            ]
        return "\n".join([*lines, "", self.versions(), ""])


def _task(condition: Condition) -> str:
    return " ".join([condition.task, *(f"`{change}`" for change in condition.changes)])


def _summary(condition: Condition, runs: Sequence[Run]) -> str:
    seconds = [run["seconds"] for run in runs]
    return (
        f"| {_task(condition)} | {condition.memory} | {len(runs)} "
        f"| {sum(run['coarse'] == 1 for run in runs)} | {min(run['coarse'] for run in runs):.3f} "
        f"| {statistics.median(seconds):.0f} | {max(seconds):.0f} "
        f"| {statistics.median(run['batches'] for run in runs):.0f} |"
    )
