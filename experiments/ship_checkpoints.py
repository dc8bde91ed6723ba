"""Train the models that stacktrans ships, and lay them down in `checkpoints/`.

    python experiments/ship_checkpoints.py [--only reversal]

Beside the weights and the configuration of each go `summary.json`, with the
command that made it, and `evaluation.json`, with its accuracy; of those that are right without
degrees also `accuracy.svg`, a picture of their accuracy by length.
"""

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent


class Model(NamedTuple):
    """What is trained, and what it has to achieve.

    Attributes:
        name: of its directory.
        options: of `train`.
        lengths: of the strings that it is measured on.
        coarse: the least coarse accuracy.
        symbols: the least share of scored symbols that are right.
        hard: lengths at which everything has to be right without degrees; none if empty.
    """

    name: str
    options: str
    lengths: str
    coarse: float = 1
    symbols: float = 1
    hard: str = ""


SHIPPED = [
    Model("copy-queue", "--task copy --memory queue", "65:128"),
    Model("copy-deque", "--task copy --memory deque", "65:128"),
    Model("reverse-stack", "--task reverse --memory stack", "65:128"),
    Model("reversal-linear", "--task reversal --memory stack --controller linear", "13:24"),
    Model(
        "xor-buffered",
        "--task xor --memory stack --controller linear --buffered --seed 2",
        "13:24",
    ),
    Model(
        "parenthesis-lstm",
        "--task parenthesis --memory stack --controller lstm",
        "22:110",
        coarse=0.99,
        symbols=0.999,
    ),
    Model("anbncn", "--task anbncn --memory stack-rnn", "20:60", hard="1000:1000"),
    Model("memorization", "--task memorization --memory stack-rnn", "20:60", hard="1000:1000"),
    Model("addition", "--task addition --memory stack-rnn", "1:60", hard="1000:1000"),
]


def stacktrans(*arguments: str) -> str:
    """What a command prints on stdout."""
    done = subprocess.run(
        [sys.executable, "-m", "stacktrans", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        cwd=ROOT,
    )
    return done.stdout


def check_hard(run: str, lengths: str) -> None:
    """Leave off unless all of some long strings are right without degrees."""
    options = ("--lengths", lengths, "--count", "20", "--hard", "--json")
    (result,) = json.loads(stacktrans("eval", run, *options))["results"]
    if result["coarse"] < 1:
        raise SystemExit(f"{run}: without degrees coarse is {result['coarse']} on {lengths}")


def ship(model: Model) -> None:
    """Train one model, check it, and put it in its place."""
    run, place = f"checkpoints/{model.name}-run", ROOT / "checkpoints" / model.name
    shutil.rmtree(ROOT / run, ignore_errors=True)
    stacktrans("train", *model.options.split(), "--out", run)
    evaluation = json.loads(stacktrans("eval", run, "--lengths", model.lengths, "--json"))
    (result,) = evaluation["results"]
    for measure in ("coarse", "symbols"):
        if result[measure] < getattr(model, measure):
            raise SystemExit(f"{run}: {measure} is {result[measure]} on {model.lengths}")
    if model.hard:
        check_hard(run, model.hard)
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(ROOT / run / "best", place)
    shutil.copy(ROOT / run / "summary.json", place)
    del result["by_length"]
    (place / "evaluation.json").write_text(json.dumps(evaluation, indent=2) + "\n")
    if model.hard:
        picture = f"checkpoints/{model.name}/accuracy.svg"
        options = ("--lengths", "1:60", "--each", "--count", "50", "--hard", "--plot", picture)
        stacktrans("eval", f"checkpoints/{model.name}", *options)
    shutil.rmtree(ROOT / run)


def main() -> None:
    """Ship all of them, or those asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="models whose name holds this")
    only: str = parser.parse_args().only
    for model in SHIPPED:
        if only in model.name:
            ship(model)


if __name__ == "__main__":
    main()
