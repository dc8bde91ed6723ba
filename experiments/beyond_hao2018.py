"""Train the tasks of hao2018 by the default recipe with many seeds, and write down what came of it.

    python experiments/beyond_hao2018.py [--only reversal] [--seeds 10] [--workers 2]

The runs are in `results/beyond-hao2018.jsonl`, the table in `results/beyond-hao2018.md`.
"""

import statistics
from pathlib import Path

from recording import Condition, Records, Run, train

from stacktrans.sweeps.plan import read_plan
from stacktrans.sweeps.table import comparable, published_of

LENGTHS = {"reversal": "13:24", "xor": "13:24", "formula": "17:31", "agreement": "24:51"}
DEPTHS = {"parenthesis": ("12", "24"), "formula": ("7",), "agreement": ("32",)}
"""The published depths of test strings, and for parenthesis twice that."""


def condition(task: str, controller: str, *changes: str) -> Condition:
    """A task learned with a stack."""
    return Condition(task, "stack", (f"controller={controller}", *changes))


CONDITIONS = [
    condition("reversal", "linear"),
    condition("reversal", "linear", "buffered=true"),
    condition("reversal", "lstm"),
    condition("xor", "lstm"),
    condition("xor", "linear", "buffered=true"),
    condition("parenthesis", "linear"),
    condition("parenthesis", "lstm"),
    condition("formula", "lstm"),
    condition("agreement", "lstm"),
]
HEADING = """# The tasks of hao2018 by the default recipe

Written by `python experiments/beyond_hao2018.py`. Share of the scored symbols that are right, in
per cent: least, median and greatest over the seeds, on 1000 strings of each kind; published are the
test strings of the paper, parentheses to depth 12. All are trained
on strings no longer than the published training strings, but for agreement, which is trained on
strings of up to 40 words where 23 were published."""


def measures(task: str) -> list[str]:
    """Options of `eval`."""
    lengths = [f"--lengths {LENGTHS[task]}"] if task in LENGTHS else []
    return [*lengths, *(f"--depth {depth}" for depth in DEPTHS.get(task, ()))]


PUBLISHED = read_plan(Path(__file__).with_name("hao2018.yaml")).file


def published_median(condition: Condition) -> str:
    """Of the test strings, in per cent."""
    controller = condition.changes[0].partition("=")[2].replace("lstm", "LSTM")
    buffered = "buffered " if "buffered=true" in condition.changes else ""
    name = f"{condition.task}, {buffered}{controller}, stack"
    ((_, figure),) = published_of(PUBLISHED, name, "", "test")
    return f"{100 * comparable(figure):.3g}"


class Beyond(Records):
    """Runs measured on longer and deeper strings."""

    def run(self, condition: Condition, seed: int) -> Run:
        options = measures(condition.task)
        run, results = train(condition, seed, self.time_limit, *options)
        found = {
            option: {part: result[part] for part in ("symbols", "coarse", "count")}
            for option, result in zip(options, results, strict=True)
        }
        return {**run, "measured": found}

    def table(self) -> str:
        lines = [
            HEADING,
            "",
            "| task and settings | strings | symbols | published median "
            "| all of a string right, median | median seconds | seeds |",
            "|---|---|---|---|---|---|---|",
        ]
        for condition in self.conditions:
            runs = self.of(condition)
            for option in measures(condition.task) if runs else []:
                symbols = [100 * run["measured"][option]["symbols"] for run in runs]
                coarse = statistics.median(run["measured"][option]["coarse"] for run in runs)
                published = published_median(condition)
                spread = (min(symbols), statistics.median(symbols), max(symbols))
                lines.append(
                    f"| {condition.task} `{' '.join(condition.changes)}` | `{option}` "
                    f"| {' / '.join(f'{share:.2f}' for share in spread)} | {published} "
                    f"| {coarse:.3f} "
                    f"| {statistics.median(run['seconds'] for run in runs):.0f} | {len(runs)} |"
                )
        return "\n".join([*lines, "", self.versions(), ""])


if __name__ == "__main__":
    Beyond("beyond-hao2018", CONDITIONS, HEADING).complete_as_asked(__doc__, seeds=10)
