"""Tasks and generators, listed."""

import inspect
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from stacktrans.commands.catalogue.docstrings import items, summary
from stacktrans.commands.catalogue.entries import Entry, Listing, assigned
from stacktrans.common.errors import StacktransError
from stacktrans.grammar import Grammar
from stacktrans.settings.config import TaskConfig
from stacktrans.settings.packaged import shipped, task_files
from stacktrans.settings.resolve import load_task
from stacktrans.tasks import GENERATORS
from stacktrans.tasks.grammatical import Grammatical

FURTHER: Mapping[type, type] = {Grammatical: Grammar}
"""What is made of further parameters that a class takes, but its bases do not."""


def tasks() -> Listing:
    """Every task: its lengths, its generator, and the parameters of this."""
    entries, problems = [], []
    for name, path in sorted(task_files().items()):
        try:
            entries.append(_task(name, path, load_task(str(path))))
        except StacktransError as error:
            problems.append(str(error))
    return Listing(entries, problems)


def _task(name: str, path: Path, task: TaskConfig) -> Entry:
    plain = {
        key: value
        for key, value in task.parameters.items()
        if value is not None and not isinstance(value, dict)
    }
    made = f"{task.generator}: {assigned(plain)}" if plain else task.generator
    own = path.resolve().parent != shipped("tasks").resolve()
    lengths = task.lengths
    return Entry(
        name,
        task.description,
        columns={
            "train": str(lengths.train) if lengths else "",
            "test": str(lengths.test) if lengths else "",
        },
        remarks=[f"generator {made}", *([str(path)] if own else [])],
        facts={
            **task.model_dump(
                mode="json",
                include={"generator", "parameters", "paper", "lengths", "length_law"},
            ),
            "file": str(path),
        },
    )


def generators() -> Listing:
    """Every generator with its parameters."""
    return Listing([_generator(name, maker) for name, maker in GENERATORS.items()])


def _generator(name: str, maker: Any) -> Entry:
    parameters = list(_parameters(maker))
    return Entry(
        name,
        summary(maker),
        parts=[(_shown(parameter), parameter["meaning"]) for parameter in parameters],
        facts={"parameters": parameters},
    )


def _shown(parameter: Mapping[str, Any]) -> str:
    if "default" not in parameter:
        return f"{parameter['name']} (required)"
    return assigned({parameter["name"]: parameter["default"]})


def _parameters(made: Any) -> Iterator[dict[str, Any]]:
    """What a class is made with: each parameter's name, meaning, and default if it has one.

    Where it takes further ones, they are those of its base, or of what `FURTHER` says.
    """
    kind, *bases = (kind for kind in made.__mro__ if "__init__" in vars(kind))
    if kind is object:
        return
    meanings = items(kind)
    for name, parameter in inspect.signature(kind).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            yield from _parameters(FURTHER.get(kind, bases[0]))
        elif parameter.default is parameter.empty:
            yield {"name": name, "meaning": meanings[name]}
        else:
            yield {"name": name, "meaning": meanings[name], "default": parameter.default}
