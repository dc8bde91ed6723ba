"""Train the models that stacktrans ships, and lay them down in `checkpoints/`.

    python experiments/ship_checkpoints.py

Beside the weights and the configuration of each go `summary.json`, with the
command that made it, and `evaluation.json`, with its accuracy.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
SHIPPED = [("copy", "queue"), ("copy", "deque"), ("reverse", "stack")]


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


def ship(task: str, memory: str) -> None:
    """Train one model, check it, and put it in its place."""
    run, place = f"checkpoints/{task}-{memory}-run", ROOT / "checkpoints" / f"{task}-{memory}"
    shutil.rmtree(ROOT / run, ignore_errors=True)
    stacktrans("train", "--task", task, "--memory", memory, "--out", run)
    evaluation = json.loads(stacktrans("eval", run, "--lengths", "65:128", "--json"))
    (result,) = evaluation["results"]
    if result["coarse"] < 1:
        raise SystemExit(f"{run}: coarse accuracy {result['coarse']} on 65:128 is not 1")
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(ROOT / run / "best", place)
    shutil.copy(ROOT / run / "summary.json", place)
    del result["by_length"]
    (place / "evaluation.json").write_text(json.dumps(evaluation, indent=2) + "\n")
    shutil.rmtree(ROOT / run)


def main() -> None:
    """Ship all of them."""
    for task, memory in SHIPPED:
        ship(task, memory)


if __name__ == "__main__":
    main()
