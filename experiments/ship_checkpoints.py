"""Train the shipped models, and write them to `checkpoints/`.

    python experiments/ship_checkpoints.py [--only reversal]
    python experiments/ship_checkpoints.py --rewrite

Besides its weights and configuration, the directory of each model contains `summary.json`, with
the command that trained it, `evaluation.json`, with its accuracy, and `README.md`, with both.

With --rewrite nothing is trained: the present models are measured again and saved in the current
format, with the same weights.
"""

import argparse
import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import torch

from stacktrans.model import checkpoint, checkpoint_files
from stacktrans.training.model_card import model_card

ROOT = Path(__file__).parent.parent


class Model(NamedTuple):
    """A shipped model: how it is trained, and which strings it has to answer.

    Attributes:
        name: the name of its directory.
        source: the source of the example in its README.
        options: the options of `train`.
        lengths: the lengths of the strings that it is evaluated on; all answers have to be right.
    """

    name: str
    source: str
    options: str
    lengths: str


SHIPPED = [
    Model("copy-queue", "hello", "--task copy --memory queue --recipe feedforward", "65:128"),
    Model(
        "copy-deque",
        "hello",
        "--task copy --memory deque --recipe feedforward --set 'lengths.train=[1, 64]'",
        "65:128",
    ),
    Model("reverse-stack", "hello", "--task reverse --memory stack --recipe feedforward", "65:128"),
    Model(
        "reversal-stack", "0110####", "--task reversal --memory stack --recipe feedforward", "13:24"
    ),
    Model("xor-buffered", "1101", "--config checkpoints/xor-buffered/config.yaml", "13:24"),
    Model(
        "parenthesis-stack",
        "([()]",
        "--task parenthesis --memory stack --recipe feedforward",
        "22:110",
    ),
    Model("anbn", "aaab", "--task anbn --recipe counting", "20:60"),
    Model("anbncn", "aaab", "--task anbncn --recipe counting", "20:60"),
    Model(
        "memorization",
        "12212=",
        "--task memorization --memory stack-rnn --recipe default --set memory.count=10 "
        "--set hidden_size=100 --set recurrent=true --set state_gradient=0 "
        "--set learning_rate=0.005 --set sequences=8 --set curriculum=null --set noise.gates=0 "
        "--set 'settle={rate: 0.1}' --set 'solved={ranges: both, times: 2}' --set rounding=slow "
        "--set 'restart={after: null, give_up_after: 15000}' --set max_steps=80000",
        "20:60",
    ),
    Model(
        "addition",
        "101+1=",
        "--task addition --memory stack-rnn --recipe default --set memory.count=10 "
        "--set 'lengths={train: [1, 39], test: [40, 80]}' "
        "--set hidden_size=100 --set recurrent=true --set state_gradient=0.3 "
        "--set learning_rate=0.005 --set batch_size=20 --set noise.gates=0 "
        "--set 'curriculum={share: 0.5, growth: 2, loss: 0.02}' "
        "--set 'restart={after: 7000, loss: 0.05, give_up_after: 60000}' "
        "--set 'settle={rate: 0.1, sharpening: 20}' "
        "--set 'measure={strings: 1000, accuracy_every: 500}' "
        "--set 'solved={ranges: both, times: 30}' --set rounding=thorough --set max_steps=200000 "
        "--seed 2",
        "1:60",
    ),
]
"""All shipped models, in the order in which they are trained."""
FAR = ("--lengths", "10000:10000", "--count", "100", "--hard")
"""Options of `eval` for long strings, all of which have to be right with hard signals."""


def stacktrans(*arguments: str) -> str:
    """Run a command, and return its standard output."""
    done = subprocess.run(
        [sys.executable, "-m", "stacktrans", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        cwd=ROOT,
    )
    return done.stdout


def evaluation_of(name: str, model: Model) -> dict[str, Any]:
    """The output of `eval --json` for a model, without the scores by length."""
    found: dict[str, Any] = json.loads(
        stacktrans("eval", name, "--lengths", model.lengths, "--json")
    )
    for result in found["results"]:
        del result["by_length"]
    return found


def check(run: str, model: Model) -> None:
    """Exit with a message unless a model answers all strings of `eval` and `verify` correctly."""
    (near,) = evaluation_of(run, model)["results"]
    (far,) = json.loads(stacktrans("eval", run, *FAR, "--json"))["results"]
    for lengths, result in ((model.lengths, near), (FAR[1], far)):
        if result["coarse"] < 1:
            raise SystemExit(f"{run}: coarse is {result['coarse']} on {lengths}")
    stacktrans("verify", run)


def rewrite(model: Model) -> None:
    """Measure a model and save it again, with the same weights."""
    name = f"checkpoints/{model.name}"
    place, evaluation = ROOT / name, evaluation_of(name, model)
    loaded = checkpoint.load(place, torch.device("cpu"))
    summary = json.loads((place / "summary.json").read_text())
    card = model_card(
        loaded,
        summary,
        name,
        source=model.source,
        evaluations=[evaluation],
        license="Apache-2.0, as stacktrans itself.",
    )
    accuracy = {part: summary[part] for part in ("train", "test")}
    weights = loaded.model.state_dict()
    sharpness = loaded.model.sharpness
    checkpoint_files.save(
        place, loaded.config, weights, accuracy=accuracy, card=card, sharpness=sharpness
    )
    (place / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
    (place / "evaluation.json").write_text(json.dumps(evaluation, indent=2) + "\n")


def ship(model: Model) -> None:
    """Train a model, check it, and replace its directory in `checkpoints/`."""
    run, place = f"checkpoints/{model.name}-run", ROOT / "checkpoints" / model.name
    shutil.rmtree(ROOT / run, ignore_errors=True)
    stacktrans("train", *shlex.split(model.options), "--out", run)
    check(run, model)
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(ROOT / run / "best", place)
    shutil.copy(ROOT / run / "summary.json", place)
    rewrite(model)
    shutil.rmtree(ROOT / run)


def main() -> None:
    """Train or rewrite all models, or those that --only selects."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="models whose name holds this")
    parser.add_argument("--rewrite", action="store_true", help="train none, write them anew")
    arguments = parser.parse_args()
    chosen = [model for model in SHIPPED if arguments.only in model.name]
    if not chosen:
        known = ", ".join(model.name for model in SHIPPED)
        parser.error(f"--only {arguments.only}: expected part of one of {known}")
    for model in chosen:
        (rewrite if arguments.rewrite else ship)(model)


if __name__ == "__main__":
    main()
