"""Inflection side by side with an LSTM with attention, which others train in one command, too.

    python benchmarks/inflection.py FOLDER --peer PROGRAM [--languages swa,tur] [--budget 5m]
        [--epochs 12] [--markdown FILE]

FOLDER has LANGUAGE.trn, .dev and .tst: lemma, features and form, with tabs between. PROGRAM is a
`yoyodyne` of PyPI (0.5.27, with `torch` and without `torchaudio` and `torchvision`), in an
environment of its own. Both train on the training set, keep what is best on the development set,
and are measured on the test set by the share of forms that are right from first to last letter.
Processor time is that of training, all processes together. The peers are trained side by side, one
thread each, and the races after them, one by one, since these have a limit in minutes.
"""

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import yaml
from machine import processor
from results import Result, show, write_markdown
from rich.console import Console

from stacktrans import __version__

ACCURACY = re.compile(r"test_accuracy\W+([0-9.]+)")
HIDDEN, EMBEDDINGS = 256, 128


@dataclass(frozen=True)
class Found:
    """How a model of a language was trained, and how good it is.

    Attributes:
        name: of what was trained.
        accuracy: share of test forms that are right.
        minutes: of processor time that training took.
        command: that trained it.
    """

    name: str
    accuracy: float
    minutes: float
    command: str


def ours(data: Path, language: str, budget: str, folder: Path) -> Found:
    """A race of strategies."""
    sets = {"--data": "trn", "--dev": "dev", "--test": "tst"}
    files = [word for name, end in sets.items() for word in (name, str(data / f"{language}.{end}"))]
    words = ["train", *files, "--columns", "source,features,target", "--time-limit", budget]
    minutes, _ = timed(["-m", "stacktrans", *words, "--out", str(folder)], sys.executable)
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    shown = " ".join(["stacktrans", *words]).replace(f"{data}/", "")
    return Found(f"stacktrans {__version__}", summary["test"]["coarse"], minutes, shown)


def peer(program: str, data: Path, language: str, epochs: int, folder: Path) -> Found:
    """An LSTM with attention, of the sizes above."""
    place = folder / "peer.yaml"
    config = peer_config(data, language, epochs, folder)
    place.write_text(yaml.safe_dump(config), encoding="utf-8")
    minutes, _ = timed(["fit", "--config", str(place)], program)
    (best,) = folder.glob("**/best.ckpt")
    config.pop("checkpoint")
    place.write_text(yaml.safe_dump(config), encoding="utf-8")
    _, said = timed(["test", "--config", str(place), "--ckpt_path", str(best)], program)
    accuracy = ACCURACY.search(said)
    assert accuracy, said
    command = "yoyodyne fit --config peer.yaml"
    return Found(f"LSTM with attention, {epochs} epochs", float(accuracy[1]), minutes, command)


def peer_config(data: Path, language: str, epochs: int, folder: Path) -> dict[str, object]:
    """Its configuration."""
    parts = "yoyodyne.models.modules."
    sets = {name: str(data / f"{language}.{end}") for name, end in SETS.items()}
    return {
        "seed_everything": 1,
        "data": {
            "model_dir": str(folder),
            **sets,
            "source_col": 1,
            "features_col": 2,
            "target_col": 3,
            "batch_size": 32,
        },
        "model": {
            "class_path": "yoyodyne.models.SoftAttentionLSTMModel",
            "init_args": {
                "decoder_hidden_size": HIDDEN,
                "decoder_input_size": 2 * HIDDEN,
                "embedding_size": EMBEDDINGS,
                "source_encoder": {
                    "class_path": f"{parts}LSTMEncoder",
                    "init_args": {"hidden_size": HIDDEN, "embedding_size": EMBEDDINGS},
                },
                "features_encoder": {
                    "class_path": f"{parts}LinearEncoder",
                    "init_args": {"output_size": 2 * HIDDEN, "embedding_size": EMBEDDINGS},
                },
                "optimizer": {"class_path": "yoyodyne.optimizers.Adam", "init_args": {"lr": 0.001}},
            },
        },
        "trainer": {
            "accelerator": "cpu",
            "max_epochs": epochs,
            "enable_progress_bar": False,
            "default_root_dir": str(folder),
        },
        "checkpoint": {"filename": "best", "monitor": "val_accuracy", "mode": "max"},
    }


SETS = {"train": "trn", "val": "dev", "test": "tst"}


def timed(words: list[str], program: str) -> tuple[float, str]:
    """Run a program: the minutes of processor time that it takes, and what it says."""
    with tempfile.TemporaryFile() as said:
        started = subprocess.Popen(
            [program, *words],
            stdout=said,
            stderr=subprocess.STDOUT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        # Of this process and what it has started: others may run at the same time.
        _, status, used = os.wait4(started.pid, 0)
        started.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        text = said.read().decode("utf-8", errors="replace")
    if started.returncode:
        raise SystemExit(f"{program} {' '.join(words)}\n{text}")
    return (used.ru_utime + used.ru_stime) / 60, text


def result(found: dict[str, list[Found]]) -> Result:
    """The table."""
    rows = [
        [language, each.name, f"{each.accuracy:.3f}", f"{each.minutes:.1f}"]
        for language, trained in found.items()
        for each in trained
    ]
    note = "Forms of the test set that are right from first to last letter, and processor time."
    return Result("Inflection", note, ["language", "model", "accuracy", "minutes"], rows)


def main() -> None:
    """Train both on each language."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--peer", required=True, help="the program yoyodyne")
    parser.add_argument("--languages", default="swa,tur")
    parser.add_argument("--budget", default="5m", help="of a race")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--markdown", type=Path)
    given = parser.parse_args()
    languages = given.languages.split(",")
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor() as pool:
        places = {language: Path(folder) / language for language in languages}
        for place in places.values():
            place.mkdir()
        peers = list(
            pool.map(
                lambda at: peer(given.peer, given.folder, at, given.epochs, places[at]), languages
            )
        )
        races = [ours(given.folder, at, given.budget, places[at] / "ours") for at in languages]
    found = {at: [race, other] for at, race, other in zip(languages, races, peers, strict=True)}
    table = result(found)
    show(table, Console())
    if given.markdown:
        commands = [each.command for trained in found.values() for each in trained]
        origin = f"`{'`, `'.join(commands)}`; {processor()}, Python {platform.python_version()}"
        write_markdown(given.markdown, [table], origin)


if __name__ == "__main__":
    main()
