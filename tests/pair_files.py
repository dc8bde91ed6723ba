"""Files of pairs for tests, the tasks that are learned from them, and options of small runs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stacktrans.settings.config import RunConfig
from stacktrans.settings.resolve import resolve
from stacktrans.tasks import make_task
from stacktrans.tasks.pairs import Pairs
from stacktrans.tasks.sets import PairSets

OPTIONS = [
    word
    for setting in ("hidden_size=8", "memory.size=4", "embedding_size=4", "output_size=8",
                    "measure.strings=20", "accuracy_every=10")
    for word in ("--set", setting)
]  # fmt: skip


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def lines_of(pairs: Sequence[tuple[str, ...]]) -> str:
    return "".join("\t".join(fields) + "\n" for fields in pairs)


def reversals(count: int, seed: int, shortest: int = 1, longest: int = 8) -> str:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(shortest, longest, size=count, endpoint=True)
    sources = ["".join(rng.choice([*"abcd"], size=size)) for size in sizes]
    return lines_of([(source, source[::-1]) for source in sources])


def learned(train: Path | str, **parameters: Any) -> Pairs:
    """The task of some files, with what it has learned from them."""
    given = {"train": str(train)} | {
        key: str(value) if isinstance(value, Path) else value for key, value in parameters.items()
    }
    learned_settings = make_task("mine", "pairs", given).settings_from_files(seed=1)
    made = make_task("mine", "pairs", learned_settings["parameters"])
    assert isinstance(made, Pairs)
    return made


def as_written(task: Pairs, part: int) -> list[tuple[str, str]]:
    pairs = task.data.sets[part]
    source, target = task.source, task.target
    return [
        (source.join(source.decode(pair.source)), target.join(target.decode(pair.target)))
        for pair in pairs
    ]


def config_of(path: Path | str, **parameters: Any) -> RunConfig:
    task = {"name": "mine", "generator": "pairs", "parameters": {"train": str(path), **parameters}}
    return resolve(settings={"task": task, "model": {"memory": "stack"}})


def all_of(found: PairSets) -> list[int]:
    return [len(each) for each in found.sets]
