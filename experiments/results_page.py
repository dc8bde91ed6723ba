"""Write RESULTS.md from the records of the sweeps in `experiments/`.

    python experiments/results_page.py [--check]

With --check nothing is written; the exit code is 1 if the page is out of date.
"""

import argparse
from pathlib import Path

from stacktrans.common.errors import UsageError
from stacktrans.common.visible import one_line
from stacktrans.settings.layers import read_layer
from stacktrans.sweeps.plan import read_plan
from stacktrans.sweeps.store import RESULTS, TABLE, SweepStore
from stacktrans.sweeps.table import summary

HERE = Path(__file__).parent
PAGE = HERE.parent / "RESULTS.md"
HEADING = """# Results

The results of all sweeps, beside the published figures. The text above each table says what is
measured, which statistic of the runs a cell shows, and what the marks mean. Written by `python
experiments/results_page.py` from the records in `experiments/results/`, which contain more: ranges,
intervals, times to solve, and every run with the command that repeats it."""


def page() -> str:
    """The contents of RESULTS.md."""
    sections = map(_section, sorted(HERE.glob("*.yaml")))
    return "\n\n".join([HEADING, *filter(None, sections)]) + "\n"


def _section(path: Path) -> str:
    """The section of a sweep, with those of its profiles that were run."""
    layer, parts = read_layer(path), []
    for profile in [None, *layer.section("profiles").settings]:
        try:
            plan = read_plan(path, profile)
        except UsageError:
            found = f"[{path.stem}](experiments/results/{path.stem}/{TABLE})"
            file = f"[{path.name}](experiments/{path.name})"
            unread = f"See {found}: {file} reads files that are not part of this project."
            return f"## {one_line(layer.settings['title'])}\n\n{unread}"
        directory = HERE / "results" / plan.name
        if not (directory / RESULTS).exists():
            continue
        heading = f"## {one_line(plan.file.title)}" + (f": profile {profile}" if profile else "")
        text = summary(plan, SweepStore(directory, plan).records)
        more = f"More in [{plan.name}](experiments/results/{plan.name}/results.md)."
        parts.append("\n\n".join([heading, text, more]))
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
