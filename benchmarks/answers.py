"""Whether many lines are answered as another commit answers them, and in how much less time.

    python benchmarks/answers.py COMMIT [--lines 100000] [--markdown FILE]

Each takes the checkpoints that it ships. The probabilities of `transduce --json` are compared on
the first lines.
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
    """How alike the answers of a model are, and how long they take."""
    lines, place = lines_for(model, count), f"checkpoints/{model}"
    few = b"".join(lines.splitlines(keepends=True)[:PROBABILITIES])
    for side in sides:  # so that all is compiled
        side.run("transduce", place, stdin=few)
    (then, old), (now, new) = (side.said("transduce", place, stdin=lines) for side in sides)
    other = [
        sum(one != another for one, another in zip_longest(before, after))
        for before, after in zip(old.splitlines(), new.splitlines(), strict=True)
    ]
    wide = [
        [json.loads(line)["probability"] for line in said.splitlines()]
        for _, said in (side.said("transduce", place, "--json", stdin=few) for side in sides)
    ]
    apart = max(abs(one - another) for one, another in zip(*wide, strict=True))
    seconds = [f"{then:.2f}", f"{now:.2f}", f"{then / now:.1f}"]
    return [model, f"{sum(other):,} of {len(new) - count:,}", f"{apart:.1e}", *seconds]


def main() -> None:
    """Compare and show."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commit")
    parser.add_argument("--lines", type=int, default=100_000)
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    with two_sides(options.commit) as sides:
        rows = [row(sides, model, options.lines) for model in MODELS]
    result = Result(
        f"Answers to {options.lines:,} lines",
        f"Beside commit {options.commit}, on one thread: how many symbols are others, how far the "
        f"probabilities of {PROBABILITIES:,} answers are apart, and seconds of the processor.",
        ["", "other symbols", "probabilities", "before, s", "now, s", "ratio"],
        rows,
    )
    command = f"python benchmarks/answers.py {options.commit} --lines {options.lines}"
    report(result, command, options.markdown)


if __name__ == "__main__":
    main()
