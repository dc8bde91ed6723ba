"""Comparison with another commit of the answers to many lines, and of the time they take.

    python benchmarks/answers.py COMMIT [--lines 100000] [--markdown FILE]

Each commit uses its own checkpoints. Probabilities (`transduce --json`) are compared on the first
lines.
"""

import argparse
import json
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path

from results import Result, report
from waiting import MODELS, Side, lines_for, two_sides

PROBABILITIES = 2_000


def row(sides: Sequence[Side], model: str, count: int) -> list[str]:
    """The differences between the answers of a model, and their times."""
    lines, checkpoint = lines_for(model, count), f"checkpoints/{model}"
    first_lines = b"".join(lines.splitlines(keepends=True)[:PROBABILITIES])
    for side in sides:  # to compile
        side.run("transduce", checkpoint, stdin=first_lines)
    (then, old), (now, new) = (side.output("transduce", checkpoint, stdin=lines) for side in sides)
    differing = [
        sum(one != another for one, another in zip_longest(before, after))
        for before, after in zip(old.splitlines(), new.splitlines(), strict=True)
    ]
    outputs = (
        side.output("transduce", checkpoint, "--json", stdin=first_lines)[1] for side in sides
    )
    probabilities = [
        [json.loads(line)["probability"] for line in output.splitlines()] for output in outputs
    ]
    distance = max(abs(one - another) for one, another in zip(*probabilities, strict=True))
    seconds = [f"{then:.2f}", f"{now:.2f}", f"{then / now:.1f}"]
    return [model, f"{sum(differing):,} of {len(new) - count:,}", f"{distance:.1e}", *seconds]


def main() -> None:
    """Compare, and show the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commit")
    parser.add_argument("--lines", type=int, default=100_000)
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    with two_sides(options.commit) as sides:
        rows = [row(sides, model, options.lines) for model in MODELS]
    result = Result(
        f"Answers to {options.lines:,} lines",
        f"Compared with commit {options.commit}, on one thread: the number of different symbols, "
        f"the maximum difference of the probabilities of {PROBABILITIES:,} answers, and processor "
        "time.",
        ["model", "different symbols", "probabilities", "before, s", "now, s", "ratio"],
        rows,
    )
    command = f"python benchmarks/answers.py {options.commit} --lines {options.lines}"
    report(result, command, options.markdown)


if __name__ == "__main__":
    main()
