"""Train every condition of the default recipe with many seeds, and write down what came of it.

    python experiments/default_recipe.py [--only copy] [--seeds 10] [--workers 2]

Each run is what `stacktrans train` and `stacktrans eval` do on the command line.
Runs that `results/default-recipe.jsonl` holds already, for this version and
recipe, are not run again. The table is written from that file.
"""

import argparse
import hashlib
import json
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from stacktrans import __version__
from stacktrans.config import resolve

RESULTS = Path(__file__).parent / "results"
RECORDS = RESULTS / "default-recipe.jsonl"
TABLE = RESULTS / "default-recipe.md"
CONDITIONS = [
    ("copy", "queue"),
    ("copy", "deque"),
    ("reverse", "stack"),
    ("reverse", "deque"),
    ("bigram-flip", "queue"),
    ("svo-sov", "queue"),
    ("gender", "queue"),
]
STRINGS = 1000

Record = dict[str, Any]


def stacktrans(*arguments: str) -> Record:
    """What a command prints with --json."""
    done = subprocess.run(
        [sys.executable, "-m", "stacktrans", *arguments, "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    result: Record = json.loads(done.stdout)
    return result


def fingerprint(task: str, memory: str) -> str:
    """Changes whenever anything does that decides a condition's runs, but the seed."""
    config = resolve(task=task, settings={"model": {"memory": memory}})
    return hashlib.sha256(config.to_yaml().encode()).hexdigest()[:12]


def run(task: str, memory: str, seed: int) -> Record:
    """One run and its accuracy on strings longer than it was trained on."""
    command = ["train", "--task", task, "--memory", memory, "--seed", str(seed)]
    with tempfile.TemporaryDirectory() as directory:
        out = f"{directory}/run"
        summary = stacktrans(*command, "--out", out)
        (result,) = stacktrans("eval", out, "--lengths", "65:128", "--count", str(STRINGS))[
            "results"
        ]
    return {
        "task": task,
        "memory": memory,
        "seed": seed,
        "outcome": summary["outcome"],
        "seconds": summary["seconds"],
        "batches": summary["steps"],
        "starts": summary["attempts"],
        "coarse": result["coarse"],
        "fine": result["fine"],
        "strings": result["count"],
        "command": " ".join(["stacktrans", *command]),
        "version": __version__,
        "torch": summary["torch"],
        "recipe": fingerprint(task, memory),
    }


def recorded() -> list[Record]:
    """The records of the recipe as it is now."""
    if not RECORDS.exists():
        return []
    records = [json.loads(line) for line in RECORDS.read_text().splitlines()]
    now = {condition: fingerprint(*condition) for condition in CONDITIONS}
    return [
        record for record in records if record["recipe"] == now[record["task"], record["memory"]]
    ]


def table(records: list[Record]) -> str:
    """A line a condition, then a line a run."""
    lines = [
        "# What the default recipe achieves",
        "",
        "Written by `python experiments/default_recipe.py`. Trained on sources of 8 to 64; coarse",
        f"accuracy on {STRINGS} sources of 65 to 128. Seconds are of training, two runs",
        "side by side.",
        "",
        "| task | memory | seeds | coarse 1.000 | lowest coarse | median seconds | longest |"
        " median batches |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for task, memory in CONDITIONS:
        runs = [r for r in records if (r["task"], r["memory"]) == (task, memory)]
        if runs:
            seconds = [r["seconds"] for r in runs]
            lines.append(
                f"| {task} | {memory} | {len(runs)} | {sum(r['coarse'] == 1 for r in runs)} "
                f"| {min(r['coarse'] for r in runs):.3f} | {statistics.median(seconds):.0f} "
                f"| {max(seconds):.0f} | {statistics.median(r['batches'] for r in runs):.0f} |"
            )
    lines += [
        "",
        "| task | memory | seed | outcome | starts | batches | seconds | coarse | fine |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for record in sorted(records, key=lambda r: (r["task"], r["memory"], r["seed"])):
        lines.append(
            "| {task} | {memory} | {seed} | {outcome} | {starts} | {batches} | {seconds:.0f} "
            "| {coarse:.3f} | {fine:.4f} |".format(**record)
        )
    version = sorted({f"stacktrans {r['version']}, torch {r['torch']}" for r in records})
    return "\n".join([*lines, "", "; ".join(version), ""])


def main() -> None:
    """Run what is missing, then write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="conditions whose name holds this")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    records = recorded()
    done = {(r["task"], r["memory"], r["seed"]) for r in records}
    missing = [
        (task, memory, seed)
        for task, memory in CONDITIONS
        if options.only in f"{task}/{memory}"
        for seed in range(1, options.seeds + 1)
        if (task, memory, seed) not in done
    ]
    RESULTS.mkdir(exist_ok=True)
    with ThreadPoolExecutor(options.workers) as pool:
        for record in pool.map(lambda job: run(*job), missing):
            records.append(record)
            RECORDS.write_text("".join(json.dumps(r) + "\n" for r in records))
            TABLE.write_text(table(records))
            print(record, file=sys.stderr, flush=True)
    TABLE.write_text(table(records))


if __name__ == "__main__":
    main()
