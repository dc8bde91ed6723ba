"""Shell completion.

It has to answer at once, so nothing here imports torch or resolves a whole configuration. What
can't be read is not offered, without a message, which would appear within the command line.
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
from stacktrans.settings import packaged
from stacktrans.settings.packaged import AUTO

PROGRAM = "stacktrans"
INSTALL = "--install-completion"

Offered = Callable[[typer.Context, str], list[str]]
"""Completions, from the words before and what is typed so far."""


def prepare() -> None:
    """Have each description stand in one line if a shell asks, which takes each line for a word."""
    if f"_{PROGRAM.upper()}_COMPLETE" in os.environ:
        os.environ["COLUMNS"] = "10000"


def _completer(offer: Callable[[typer.Context, str], Iterable[str]]) -> Offered:
    """Words in order, as far as they can be had and a shell takes them as they are."""

    def offered(ctx: typer.Context, incomplete: str) -> list[str]:
        try:
            words = {str(word) for word in offer(ctx, incomplete)}
        except Exception:  # whatever is in the files that were read
            return []
        return sorted(word for word in words if shlex.quote(word) == word)

    return offered


def names(offer: Callable[[], Iterable[str]]) -> Offered:
    """Words that do not depend on others."""
    return _completer(lambda ctx, incomplete: offer())


def _strategies() -> Iterable[str]:
    from stacktrans.settings.resolve import strategies

    return strategies()


tasks = names(packaged.task_files)
controllers = names(CONTROLLERS.installed)
recipes = names(lambda: [AUTO, *packaged.recipe_names(), *_strategies()])
strategies = names(_strategies)


@_completer
def memories(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    """Memories, or those that can stand beside the ones that are typed."""
    before, plus, _ = incomplete.rpartition("+")
    others = [name for name in MEMORIES.installed() if not plus or name not in MEMORIES.ALONE]
    return (f"{before}{plus}{name}" for name in others)


@_completer
def checkpoints(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    """Shipped checkpoints, those in ./checkpoints, and those in the folder that is typed."""
    found = packaged.checkpoints()
    yield from found
    own = "checkpoints/"
    if incomplete and (own.startswith(incomplete) or incomplete.startswith(own)):
        # A command finds the shipped ones under this name, too.
        yield from (f"{own}{path.name}" for path in found.values())
    places = glob(f"{escape(incomplete)}*")
    yield from (place for place in places if packaged.checkpoint_in(Path(place)))


@_completer
def runs(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    """Runs that can be resumed, in ./checkpoints and in the folder that is typed."""
    return [word for word in checkpoints(ctx, incomplete) if (Path(word) / "last").is_dir()]


@_completer
def profiles(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    """Profiles of a sweep's file."""
    # Where an option still lacks its value, arguments are not parsed yet.
    file = ctx.params.get("file") or ctx.args[0]
    return _read(Path(file)).get("profiles") or {}


@_completer
def settings_of_a_task(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    """Keys for --set of a task, as in its file."""
    return _keys(_of_the_task(ctx), incomplete)


@_completer
def settings_of_a_run(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    """Keys for --set of a run: every setting, those of the task included."""
    from stacktrans.settings.config import RunConfig
    from stacktrans.settings.schema import setting_paths

    paths = set(setting_paths(RunConfig))
    with contextlib.suppress(Exception):  # the others are there without a task, too
        paths |= {f"task.{path}" for path in _of_the_task(ctx)}
    # As soon as something is typed, that may be a key without its section, too.
    ends = Counter(path[dot.end() :] for path in paths for dot in re.finditer(r"\.", path))
    short = [end for end, count in ends.items() if count == 1 and incomplete]
    return _keys([*paths, *short], incomplete)


def _of_the_task(ctx: typer.Context) -> Iterator[str]:
    name = ctx.params.get("task") or ""
    for key, value in _read(packaged.task_files().get(name, Path(name))).items():
        if key in ("parameters", "lengths") and isinstance(value, dict):
            yield from (f"{key}.{part}" for part in value)
        elif key not in ("name", "recipes"):
            yield key


def _read(path: Path) -> dict[str, Any]:
    from stacktrans.settings.layers import read_layer

    return read_layer(path).settings


def _keys(paths: Iterable[str], begun: str) -> list[str]:
    """Keys with `=`; where only one begins as is typed, also with `...` for its value.

    If that one were offered alone, bash and zsh would put a space after it.
    """
    key, equals, _ = begun.partition("=")
    found = [path for path in paths if path == key or (not equals and path.startswith(key))]
    words = [f"{path}=" for path in found]
    return [*words, f"{words[0]}..."] if len(words) == 1 else words
