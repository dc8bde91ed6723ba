"""Write a text for language modelling, taken from the documentation that comes with Python.

    python experiments/documentation.py FOLDER

It consists of the docstrings and comments of the standard library's modules, the docstrings of
built-in modules, and the language reference that `help` shows. The same version of Python always
gives the same text. `documentation.yaml` is a sweep that trains models on it.
"""

import ast
import importlib
import inspect
import re
import sys
import sysconfig
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from pydoc_data.topics import topics

WITHOUT = {
    "site-packages",
    "dist-packages",
    "pydoc_data",  # its topics are added by `documents`
    "encodings",  # its comments are tables
}
TOKEN = re.compile(r"[a-z_]+(?:'[a-z]+)?|\d+|[^\w\s]")
COMMENT = re.compile(r"(?:.*?\s)?#+ (.*)")
SENTENCE_END = re.compile(r"(?<=[.!?:])\s+|\n\s*\n")
ONE_IN = 20
"""One in this many documents is for validation, and one for testing."""


def documents() -> Iterator[str]:
    """The documentation of each module, and each topic of the reference, in a fixed order."""
    library = Path(sysconfig.get_path("stdlib"))
    for path in sorted(library.rglob("*.py")):
        if not WITHOUT & set(path.relative_to(library).parts):
            yield "\n\n".join([*_documentation(path), *_comments(path)])
    for name in sorted(sys.builtin_module_names):
        yield "\n\n".join(_documentation_of(importlib.import_module(name), set()))
    for _, topic in sorted(topics.items()):
        yield topic


def _documentation(path: Path) -> Iterator[str]:
    """The docstrings of a module."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tree = ast.parse(path.read_bytes())
        except SyntaxError:  # a few are examples of mistakes
            return
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""


def _documentation_of(thing: object, seen: set[int]) -> Iterator[str]:
    """The docstrings of a built-in module or class and of all its members."""
    seen.add(id(thing))
    yield inspect.getdoc(thing) or ""
    for _, member in sorted(vars(thing).items()):
        if isinstance(member, type) and id(member) not in seen:
            yield from _documentation_of(member, seen)
        elif inspect.isroutine(member):
            yield inspect.getdoc(member) or ""


def _comments(path: Path) -> Iterator[str]:
    """The comments of a module; comments on consecutive lines are joined."""
    block: list[str] = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        comment = COMMENT.fullmatch(line)
        if comment:
            block.append(comment[1])
        elif block:
            yield "\n".join(block)
            block = []
    yield "\n".join(block)


def sentences(document: str) -> Iterator[str]:
    """The sentences of a document in lower case, punctuation separated, and N for numbers."""
    for sentence in SENTENCE_END.split(document):
        words = TOKEN.findall(sentence.lower())
        if words:
            yield " ".join("N" if word.isdigit() else word for word in words)


def parts(texts: Iterable[str]) -> dict[str, list[str]]:
    """Sentences for training, validation and testing, without duplicates."""
    found: dict[str, list[str]] = {"train": [], "valid": [], "test": []}
    seen: set[str] = set()
    for number, document in enumerate(texts):
        part = {ONE_IN // 2: "valid", 0: "test"}.get(number % ONE_IN, "train")
        for sentence in sentences(document):
            if sentence not in seen:
                seen.add(sentence)
                found[part].append(sentence)
    return found


def write(folder: Path) -> dict[str, int]:
    """Write train.txt, valid.txt and test.txt, and return the number of words in each."""
    folder.mkdir(parents=True, exist_ok=True)
    found = parts(documents())
    for part, lines in found.items():
        (folder / f"{part}.txt").write_text("".join(f"{line}\n" for line in lines))
    return {part: sum(len(line.split()) for line in lines) for part, lines in found.items()}


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    print(write(Path(sys.argv[1])))
