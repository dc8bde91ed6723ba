"""Shell completion.

It has to answer at once, so nothing here imports torch or resolves a whole configuration. What
can't be read is not offered, without a message, which would appear within the command line.
"""

import contextlib
import json
import os
import shlex
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import typer

from stacktrans.common.registry import CONTROLLERS, MEMORIES
from stacktrans.settings import packaged

PROGRAM = "stacktrans"
INSTALL = "--install-completion"

Offered = Callable[[typer.Context, str], list[str]]
"""Completions, from the words before and what is typed so far."""
Setting = tuple[str, Any]
"""Path and value of a setting."""


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


tasks = names(packaged.task_files)
memories = names(MEMORIES.installed)
controllers = names(CONTROLLERS.installed)
recipes = names(packaged.recipe_names)


@_completer
def checkpoints(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    """Shipped checkpoints, those in ./checkpoints, and those in the folder that is typed."""
    found = packaged.checkpoints()
    yield from found
    own = "checkpoints/"
    if incomplete and (own.startswith(incomplete) or incomplete.startswith(own)):
        # A command finds the shipped ones under this name, too.
        yield from (f"{own}{path.name}" for path in found.values())
    folder, _, begun = incomplete.rpartition("/")
    for path in Path(folder or ("/" if "/" in incomplete else ".")).glob("*"):
        if path.name.startswith(begun) and path.name[0] != "." and packaged.weights_of(path):
            yield f"{incomplete[: len(incomplete) - len(begun)]}{path.name}"


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
    """Assignments for --set of a task, as in its file."""
    return _assignments(_of_the_task(ctx), incomplete)


@_completer
def settings_of_a_run(ctx: typer.Context, incomplete: str) -> Iterable[str]:
    """Assignments for --set of a run: every setting, as in recipes and in the task."""
    import yaml

    from stacktrans.settings.config import RunConfig
    from stacktrans.settings.layers import setting_paths

    settings: list[Setting] = [(path, None) for path in setting_paths(RunConfig)]
    for path in packaged.recipes().glob("**/*.yaml"):
        # Not as files of one's own are read, since that takes longer.
        recipe = yaml.load(path.read_bytes(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        settings += _leaves(recipe)
    with contextlib.suppress(Exception):  # those of recipes are there without a task, too
        settings += ((f"task.{path}", value) for path, value in _of_the_task(ctx))
    # As soon as something is typed, that may be a key without its section, too.
    return _assignments([*settings, *(_short(settings) if incomplete else ())], incomplete)


def _short(settings: Iterable[Setting]) -> list[Setting]:
    """Settings by the ends of their paths, where only one ends so."""
    ends = defaultdict(set)
    listed = []
    for path, value in settings:
        parts = path.split(".")
        for end in (".".join(parts[start:]) for start in range(1, len(parts))):
            ends[end].add(path)
            listed.append((end, value))
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


def _of_the_task(ctx: typer.Context) -> Iterator[Setting]:
    name = ctx.params.get("task") or ""
    for key, value in _read(packaged.task_files().get(name, Path(name))).items():
        parts = value if key in ("parameters", "lengths") and isinstance(value, dict) else {}
        yield from ((f"{key}.{part}", parts[part]) for part in parts)
        if not parts and key not in ("name", "recipes"):
            yield key, value


def _read(path: Path) -> dict[str, Any]:
    from stacktrans.settings.layers import read_layer

    return read_layer(path).settings


def _assignments(settings: Iterable[Setting], begun: str) -> Iterator[str]:
    """Keys with `=`; where only one begins as is typed, the values, too, that it has in files.

    If that one were offered alone, bash and zsh would put a space after it.
    """
    values: defaultdict[str, set[str]] = defaultdict(set)
    for path, value in settings:
        written = value if isinstance(value, str) else json.dumps(value)
        values[path] |= set() if value is None else {written}
    key, equals, _ = begun.partition("=")
    found = [name for name in values if name == key or (not equals and name.startswith(key))]
    yield from (f"{name}=" for name in found)
    if len(found) == 1:
        yield from (f"{found[0]}={value}" for value in values[found[0]] or {"null"})
