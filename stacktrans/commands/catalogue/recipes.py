"""Recipes, listed."""

from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

from stacktrans.commands.catalogue.entries import Entry, Listing, in_one_line
from stacktrans.settings import packaged
from stacktrans.settings.layers import read_layer


def recipes() -> Listing:
    """Every recipe: in general, and then what it says of the tasks of a paper."""
    return Listing([entry for name in packaged.recipe_names() for entry in _entries(name)])


def _entries(name: str) -> Iterator[Entry]:
    folder = packaged.recipes()
    for path in (folder / f"{name}.yaml", *sorted(folder.glob(f"*/{name}.yaml"))):
        paper = None if path.parent == folder else path.parent.name
        yield Entry(
            name,
            leading_comment(path),
            columns={"tasks": f"of {paper}" if paper else "all"},
            facts={"paper": paper, "settings": read_layer(path).settings},
        )


def leading_comment(path: Path) -> str:
    """What the first lines of a YAML file say, if they are comments."""
    lines = path.read_text(encoding="utf-8").splitlines()
    comments = takewhile(lambda line: line.startswith("#"), lines)
    return in_one_line(" ".join(comment.lstrip("#") for comment in comments))
