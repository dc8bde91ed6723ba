"""What a shell offers for a word that is being typed.

It has to be there at once, so nothing here waits for torch or a whole configuration; and
what can't be read is not offered, without a word, since a word would stand amid the command.
"""

import contextlib
import functools
import json
import os
import shlex
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import typer

from stacktrans.commands.catalogue.kinds import KINDS
from stacktrans.common.registry import CONTROLLERS, MEMORIES
from stacktrans.settings import packaged

PROGRAM = "stacktrans"
INSTALL = "--install-completion"

Offered = Callable[[typer.Context, str], list[str]]
"""What is offered after the words before, in the place of what is typed so far."""
Setting = tuple[str, Any]
"""Path and value of a setting."""


def prepare() -> None:
    """Have what is said of each word stand in one line, if this is asked by a shell.

    Otherwise it is broken as for a terminal, and shells take each line for a word.
    """
    if f"_{PROGRAM.upper()}_COMPLETE" in os.environ:
        os.environ["COLUMNS"] = "10000"


def _completer(offer: Callable[[typer.Context, str], Iterable[str]]) -> Offered:
    """Words in order, as far as there are any and a shell takes them as they are."""

    @functools.wraps(offer)
    def offered(ctx: typer.Context, incomplete: str) -> list[str]:
        try:
            words = {str(word) for word in offer(ctx, incomplete)}
        except Exception:  # whatever is in the files that were read
            return []
        return sorted(word for word in words if shlex.quote(word) == word)

    return offered


@_completer
def tasks(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    """Names of tasks."""
    return packaged.task_files()


@_completer
def memories(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    """Names of memories."""
    return MEMORIES.installed()


@_completer
def controllers(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    """Names of controllers."""
    return CONTROLLERS.installed()


@_completer
def recipes(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    """Names of recipes."""
    return packaged.recipe_names()


@_completer
def kinds(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    """What can be listed."""
    return KINDS


@_completer
def checkpoints(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    """Shipped checkpoints, those in ./checkpoints, and those in the folder that is typed."""
    found = packaged.checkpoints()
    yield from found
    own = "checkpoints/"
    if incomplete and (own.startswith(incomplete) or incomplete.startswith(own)):
        # By this name there is every one of them.
        yield from (f"{own}{path.name}" for path in found.values())
    folder, _, begun = incomplete.rpartition("/")
    for path in Path(folder or ("/" if "/" in incomplete else ".")).glob("*"):
        if path.name.startswith(begun) and path.name[0] != "." and packaged.weights_of(path):
            yield f"{incomplete[: len(incomplete) - len(begun)]}{path.name}"


@_completer
def runs(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    """Runs to go on with, in ./checkpoints and in the folder that is typed."""
    return [word for word in checkpoints(ctx, incomplete) if (Path(word) / "last").is_dir()]


@_completer
def settings_of_a_run(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    """Assignments for --set of a run: every setting, with what recipes and the task say of it."""
    import yaml

    from stacktrans.settings.config import RunConfig
    from stacktrans.settings.layers import setting_paths

    settings: list[Setting] = [(path, None) for path in setting_paths(RunConfig)]
    folder = packaged.recipes()
    for path in (*folder.glob("*.yaml"), *folder.glob("*/*.yaml")):
        # Not as files of one's own are read, since that takes longer.
        recipe = yaml.load(path.read_bytes(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        settings += _leaves(recipe)
    with contextlib.suppress(Exception):  # those of recipes are there without a task, too
        settings += ((f"task.{path}", value) for path, value in _of_the_task(ctx))
    # As soon as something is typed, that may be a key without its section, too.
    return _assignments([*settings, *(_short(settings) if incomplete else ())], incomplete)


def _short(settings: Iterable[Setting]) -> list[Setting]:
    """Settings by the ends of their paths, where only one ends so."""
    ends: dict[str, set[str]] = {}
    listed = []
    for path, value in settings:
        end = path.partition(".")[2]
        while end:
            ends.setdefault(end, set()).add(path)
            listed.append((end, value))
            end = end.partition(".")[2]
    return [(end, value) for end, value in listed if len(ends[end]) == 1]


def _leaves(settings: dict[str, Any], prefix: str = "") -> Iterator[Setting]:
    """All settings, those for one kind of memory or controller alone included."""
    for key, value in settings.items():
        if key in packaged.BY_KIND:
            for special in value.values():
                yield from _leaves(special, prefix)
        elif isinstance(value, dict) and value:
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _assignments(settings: Iterable[Setting], begun: str) -> Iterator[str]:
    """Keys with `=`; where only one begins as is typed, the values, too, that it has in files.

    If that one were offered alone, bash and zsh would put a space after it.
    """
    values: dict[str, set[str]] = {}
    for path, value in settings:
        found = values.setdefault(path, set())
        if value is not None:
            found.add(value if isinstance(value, str) else json.dumps(value))
    key, equals, _ = begun.partition("=")
    names = [name for name in values if name == key or (not equals and name.startswith(key))]
    yield from (f"{name}=" for name in names)
    if len(names) == 1:
        yield from (f"{names[0]}={value}" for value in values[names[0]] or {"null"})


@_completer
def settings_of_a_task(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    """Assignments for --set of a task: what its file says."""
    return _assignments(_of_the_task(ctx), incomplete)


def _of_the_task(ctx: typer.Context) -> Iterator[Setting]:
    name = ctx.params.get("task") or ""
    path = packaged.task_files().get(name, Path(name))
    for key, value in _read(path).items():
        parts = value if key in ("parameters", "lengths") and isinstance(value, dict) else {}
        yield from ((f"{key}.{part}", parts[part]) for part in parts)
        if not parts and key not in ("name", "recipes"):
            yield key, value


@_completer
def profiles(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    """Profiles of a sweep's file."""
    # Where an option still lacks its value, arguments are not parsed yet.
    file = ctx.params.get("file") or ctx.args[0]
    return _read(Path(file)).get("profiles") or {}


def _read(path: Path) -> dict[str, Any]:
    from stacktrans.settings.layers import read_layer

    return read_layer(path).settings
