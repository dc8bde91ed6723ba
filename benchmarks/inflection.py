"""Inflection side by side with an LSTM with attention (yoyodyne).

    python benchmarks/inflection.py FOLDER --peer PROGRAM [--languages swa,tur] [--budget 5m]
        [--epochs 12] [--markdown FILE]

FOLDER contains LANGUAGE.trn, .dev and .tst: lemma, features and form, separated by tabs. PROGRAM is
the program `yoyodyne` from PyPI (0.5.27, with `torch` and without `torchaudio` and `torchvision`),
in a separate environment. Both train on the training set, keep the weights that are best on the
development set, and are measured on the test set by the share of forms that are entirely right.
Processor time is that of training, all processes together. The yoyodyne models are trained in
parallel, one thread each; the races follow one by one, since their time is limited.
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
class Trained:
    """A trained model of a language, and its accuracy.

    Attributes:
        name: the name of the model.
        accuracy: the share of test forms that are right.
        minutes: the processor time of training.
        command: the command that trained it.
    """

    name: str
    accuracy: float
    minutes: float
    command: str


def ours(data: Path, language: str, budget: str, folder: Path) -> Trained:
    """Run a race of strategies with stacktrans."""
    sets = {"--data": "trn", "--dev": "dev", "--test": "tst"}
    files = [word for name, end in sets.items() for word in (name, str(data / f"{language}.{end}"))]
    words = ["train", *files, "--columns", "source,features,target", "--time-limit", budget]
    minutes, _ = timed(["-m", "stacktrans", *words, "--out", str(folder)], sys.executable)
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    shown = " ".join(["stacktrans", *words]).replace(f"{data}/", "")
    return Trained(f"stacktrans {__version__}", summary["test"]["coarse"], minutes, shown)


def peer(program: str, data: Path, language: str, epochs: int, folder: Path) -> Trained:
    """Train an LSTM with attention with yoyodyne."""
    path = folder / "peer.yaml"
    config = peer_config(data, language, epochs, folder)
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    minutes, _ = timed(["fit", "--config", str(path)], program)
    (best,) = folder.glob("**/best.ckpt")
    config.pop("checkpoint")
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    _, output = timed(["test", "--config", str(path), "--ckpt_path", str(best)], program)
    accuracy = ACCURACY.search(output)
    assert accuracy, output
    command = "yoyodyne fit --config peer.yaml"
    return Trained(f"LSTM with attention, {epochs} epochs", float(accuracy[1]), minutes, command)


def peer_config(data: Path, language: str, epochs: int, folder: Path) -> dict[str, object]:
    """The configuration of yoyodyne."""
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
    """Run a program, and return its processor time in minutes and its output."""
    with tempfile.TemporaryFile() as output:
        started = subprocess.Popen(
            [program, *words],
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        # The time of this process and its children only: others may run at the same time.
        _, status, used = os.wait4(started.pid, 0)
        started.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read().decode("utf-8", errors="replace")
    if started.returncode:
        raise SystemExit(f"{program} {' '.join(words)}\n{text}")
    return (used.ru_utime + used.ru_stime) / 60, text


def result(models: dict[str, list[Trained]]) -> Result:
    """The table of accuracies and times."""
    rows = [
        [language, model.name, f"{model.accuracy:.3f}", f"{model.minutes:.1f}"]
        for language, trained in models.items()
        for model in trained
    ]
    note = "The share of forms in the test set that are entirely right, and processor time."
    return Result("Inflection", note, ["language", "model", "accuracy", "minutes"], rows)


def main() -> None:
    """Train both models on each language."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--peer", required=True, help="the program yoyodyne")
    parser.add_argument("--languages", default="swa,tur")
    parser.add_argument("--budget", default="5m", help="time limit of a race")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    languages = options.languages.split(",")
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor() as pool:
        folders = {language: Path(folder) / language for language in languages}
        for own in folders.values():
            own.mkdir()
        peers = list(
            pool.map(
                lambda language: peer(
                    options.peer, options.folder, language, options.epochs, folders[language]
                ),
                languages,
            )
        )
        races = [
            ours(options.folder, language, options.budget, folders[language] / "ours")
            for language in languages
        ]
    models = {
        language: [race, peer_model]
        for language, race, peer_model in zip(languages, races, peers, strict=True)
    }
    table = result(models)
    show(table, Console())
    if options.markdown:
        commands = [model.command for trained in models.values() for model in trained]
        origin = f"`{'`, `'.join(commands)}`; {processor()}, Python {platform.python_version()}"
        write_markdown(options.markdown, [table], origin)


if __name__ == "__main__":
    main()
