"""Write RESULTS.md from what the sweeps of `experiments/` have recorded.

    python experiments/results_page.py [--check]

With --check nothing is written; it fails if the page is not what it should be.
"""

import argparse
from pathlib import Path

from stacktrans.common.visible import one_line
from stacktrans.settings.layers import read_layer
from stacktrans.sweeps.plan import read_plan
from stacktrans.sweeps.store import RESULTS, SweepStore
from stacktrans.sweeps.table import summary

HERE = Path(__file__).parent
PAGE = HERE.parent / "RESULTS.md"
HEADING = """# Results

What came of everything that was run, beside what is published of it. Above each table stand what
is measured, which figure stands for the runs of a cell, and what marks mean. Written by `python
experiments/results_page.py` from the records in `experiments/results/`, where there is more of
each: spreads, intervals, times to solve, and every run with the command that repeats it."""


def page() -> str:
    """What RESULTS.md should be."""
    return "\n\n".join([HEADING, *(_section(path) for path in sorted(HERE.glob("*.yaml")))]) + "\n"


def _section(path: Path) -> str:
    """What was run of a sweep, at which scale, and what was not."""
    parts = []
    for profile in [None, *read_layer(path).section("profiles").settings]:
        plan = read_plan(path, profile)
        directory = HERE / "results" / plan.name
        heading = f"## {one_line(plan.file.title)}" + (f": profile {profile}" if profile else "")
        if (directory / RESULTS).exists():
            text = summary(plan, SweepStore(directory, plan).records)
            more = f"More in [{plan.name}](experiments/results/{plan.name}/results.md)."
            parts.append("\n\n".join([heading, text, more]))
        else:
            parts.append(f"{heading}\n\nNot run: {len(plan.runs)} runs.")
    return "\n\n".join(parts)


def main() -> None:
    """Write the page, or check it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail if the page is stale")
    if not parser.parse_args().check:
        PAGE.write_text(page(), encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page():
        raise SystemExit(f"{PAGE.name} is stale: python experiments/results_page.py")


if __name__ == "__main__":
    main()
