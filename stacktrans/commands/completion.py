"""Shell completion of names of memories, checkpoints, runs and settings.

It must be fast, so nothing here imports torch or resolves a configuration. Files that can't be
read are skipped without a message, which would disturb the command line.
"""

import contextlib
import os
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from glob import escape, glob
from pathlib import Path
from typing import Any

import typer

from stacktrans.common.registry import CONTROLLERS, MEMORIES
from stacktrans.settings import locations
from stacktrans.settings.locations import AUTO

PROGRAM = "stacktrans"
INSTALL = "--install-completion"

Completer = Callable[[typer.Context, str], list[str]]
"""A function from the context and an incomplete word to completions."""


def prepare() -> None:
    """Keep each description in one line for a shell, which takes each line for a completion."""
    if f"_{PROGRAM.upper()}_COMPLETE" in os.environ:
        os.environ["COLUMNS"] = "10000"


def _completer(candidates: Callable[[typer.Context, str], Iterable[str]]) -> Completer:
    """A completer that sorts candidates, drops words that need quotes, and ignores all errors."""

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        try:
            words = {str(word) for word in candidates(ctx, incomplete)}
        except Exception:  # files may have any contents
            return []
        return sorted(word for word in words if shlex.quote(word) == word)

    return complete


def names(known: Callable[[], Iterable[str]]) -> Completer:
    """A completer of names that depend on nothing else in the command."""
    return _completer(lambda ctx, incomplete: known())


def _strategies() -> Iterable[str]:
    from stacktrans.settings.resolve import strategies

    return strategies()


tasks = names(locations.task_files)
controllers = names(CONTROLLERS.installed)
recipes = names(lambda: [AUTO, *locations.recipe_names(), *_strategies()])
strategies = names(_strategies)


@_completer
def memories(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    """Names of memories; after a `+`, of those that can be combined with others."""
    before, plus, _ = incomplete.rpartition("+")
    fitting = [name for name in MEMORIES.installed() if not plus or name not in MEMORIES.ALONE]
    return (f"{before}{plus}{name}" for name in fitting)


@_completer
def checkpoints(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    """Shipped checkpoints, those in ./checkpoints, and those at the path that is typed."""
    known = locations.checkpoints()
    yield from known
    folder = "checkpoints/"
    if incomplete and (folder.startswith(incomplete) or incomplete.startswith(folder)):
        # A command finds the shipped ones under this name, too.
        yield from (f"{folder}{path.name}" for path in known.values())
    paths = glob(f"{escape(incomplete)}*")
    yield from (path for path in paths if locations.checkpoint_in(Path(path)))


@_completer
def runs(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    """Runs and races that can be resumed, in ./checkpoints and at the path that is typed."""
    from stacktrans.common.files import is_race

    known = (path for path in checkpoints(ctx, incomplete) if (Path(path) / "last").is_dir())
    paths = [*glob("checkpoints/*"), *glob(f"{escape(incomplete)}*")]
    return [*known, *(path for path in paths if is_race(Path(path)))]


@_completer
def profiles(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    """Profiles of a sweep file."""
    # Arguments are not parsed yet if an option lacks its value.
    file = ctx.params.get("file") or ctx.args[0]
    return _read(Path(file)).get("profiles") or {}


@_completer
def settings_of_a_task(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    """Keys of settings of a task for --set, as in its file."""
    return _keys(_of_the_task(ctx), incomplete)


@_completer
def settings_of_a_run(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    """Keys of settings of a run for --set, those of its task included."""
    from stacktrans.settings.config import RunConfig
    from stacktrans.settings.schema import setting_paths

    paths = set(setting_paths(RunConfig))
    with contextlib.suppress(Exception):  # the other keys do not need the file of the task
        paths |= {f"task.{path}" for path in _of_the_task(ctx)}
    # Once something is typed, unambiguous ends of paths are completed, too.
    ends = Counter(path[dot.end() :] for path in paths for dot in re.finditer(r"\.", path))
    unique = [end for end, count in ends.items() if count == 1 and incomplete]
    return _keys([*paths, *unique], incomplete)


def _of_the_task(ctx: typer.Context) -> Iterator[str]:
    name = ctx.params.get("task") or ""
    for key, value in _read(locations.task_files().get(name, Path(name))).items():
        if key in ("parameters", "lengths") and isinstance(value, dict):
            yield from (f"{key}.{part}" for part in value)
        elif key not in ("name", "recipes"):
            yield key


def _read(path: Path) -> dict[str, Any]:
    from stacktrans.settings.layers import read_layer

    return read_layer(path).settings


def _keys(paths: Iterable[str], incomplete: str) -> list[str]:
    """The keys that an incomplete assignment may have, each followed by `=`.

    A single key is also returned with `...` as its value: bash and zsh put a space after a single
    completion.
    """
    key, equals, _ = incomplete.partition("=")
    keys = [path for path in paths if path == key or (not equals and path.startswith(key))]
    words = [f"{name}=" for name in keys]
    return [*words, f"{words[0]}..."] if len(words) == 1 else words
