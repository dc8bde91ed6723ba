"""Learn the language of Python's documentation with and without stacks, and write down what came.

    python experiments/text.py [--only stack-rnn] [--seeds 2] [--workers 1]

The text is made by `documentation.py`. The runs are in `results/text.jsonl`, the table in
`results/text.md`. With one worker the models take turns, seed by seed, so that their times can be
compared.
"""

import itertools
import json
import platform
import statistics
import tempfile
from pathlib import Path

from documentation import write
from recording import Condition, Records, Run, stacktrans

from stacktrans import __version__

EPOCHS = "training.stream.epochs=2"
RNN = Condition("text", "none", (EPOCHS,))
MODELS = {
    RNN: "RNN 100",
    Condition("text", "none", ("controller=lstm", EPOCHS)): "LSTM 100",
    Condition("text", "stack-rnn", (EPOCHS,)): "Stack RNN 100 + 60",
}
HEADING = """# The language of Python's documentation

Written by `python experiments/text.py`. Perplexities of each seed, in their order; seconds of an
epoch with its validation, the median of all; and how many times those of the RNN they are, the
median over the epochs of the same number and seed."""


class Texts(Records):
    """Runs measured by perplexity."""

    def run(self, condition: Condition, seed: int) -> Run:
        changes = [word for change in condition.changes for word in ("--set", change)]
        command = ["train", "--text", "documentation", "--memory", condition.memory, *changes]
        command += ["--seed", str(seed)]
        with tempfile.TemporaryDirectory() as directory:
            folder = Path(directory)
            words = write(folder / "documentation")
            summary = stacktrans(*command, "--out", "run", folder=folder)
            lines = (folder / "run" / "metrics.jsonl").read_text().splitlines()
        ends = [record for record in map(json.loads, lines) if record["validation"] is not None]
        times = [0.0, *(record["seconds"] for record in ends)]
        return {
            "task": condition.task,
            "memory": condition.memory,
            "changes": list(condition.changes),
            "time_limit": self.time_limit,
            "seed": seed,
            "outcome": summary["outcome"],
            "seconds": summary["seconds"],
            "batches": summary["steps"],
            "epochs": [round(end - begin, 1) for begin, end in itertools.pairwise(times)],
            "perplexity": {part: found["perplexity"] for part, found in summary["texts"].items()},
            "parameters": summary["parameters"],
            "words": words,
            "command": " ".join(["stacktrans", *command]),
            "version": __version__,
            "torch": summary["torch"],
            "python": platform.python_version(),
            "recipe": condition.fingerprint(),
        }

    def table(self) -> str:
        lines = [
            HEADING,
            "",
            "| model | parameters | validation perplexity | test perplexity | seconds an epoch "
            "| times the RNN's |",
            "|---|---|---|---|---|---|",
        ]
        lines += [self._row(condition) for condition in self.conditions if self.of(condition)]
        return "\n".join([*lines, "", *self._texts(), self.versions(), ""])

    def _row(self, condition: Condition) -> str:
        runs = self.of(condition)
        valid, test = (
            " / ".join(f"{run['perplexity'][part]:.1f}" for run in runs)
            for part in ("valid", "test")
        )
        seconds = statistics.median(second for run in runs for second in run["epochs"])
        return (
            f"| {MODELS[condition]} | {runs[0]['parameters']:,} | {valid} | {test} "
            f"| {seconds:.0f} | {self._times(runs)} |"
        )

    def _times(self, runs: list[Run]) -> str:
        """How many times the seconds of an epoch of the RNN with the same seed are taken."""
        plain = {run["seed"]: run["epochs"] for run in self.of(RNN)}
        ratios = [
            own / other
            for run in runs
            for own, other in zip(run["epochs"], plain.get(run["seed"], []), strict=False)
        ]
        return f"{statistics.median(ratios):.2f}" if ratios else ""

    def _texts(self) -> list[str]:
        """What was learned from."""
        texts = {json.dumps(run["words"]): run for run in self.runs}
        return [
            "Words: {train:,} to train on, {valid:,} for validation, {test:,} to test on; ".format(
                **run["words"]
            )
            + f"{run['batches'] // len(run['epochs']):,} batches an epoch; Python {run['python']}."
            for run in texts.values()
        ]


if __name__ == "__main__":
    Texts("text", list(MODELS), HEADING).complete_as_asked(__doc__, seeds=2)
