"""YAML documents: read within bounds, as nothing but names, numbers, texts, lists and mappings.

What a few lines unfold to by aliases and merge keys is counted before it is unfolded.
"""

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

MOST_VALUES = 100_000
"""The most values in a document, those that aliases repeat counted every time."""
DEEPEST = 64
"""The deepest that lists and mappings may lie within one another."""
MOST_DIGITS = 100
"""The longest whole number, in characters."""

# The same documents, ten times as fast, where PyYAML was built with libyaml.
_PARSER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_UNPRINTABLE = re.compile(
    "[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)
_PREFIX = "tag:yaml.org,2002:"
_KINDS = {
    "null": "null",
    "bool": "truth value",
    "int": "whole number",
    "float": "number",
    "str": "text",
    "seq": "list",
    "map": "mapping",
    "merge": "merge key",
}
"""The kinds of values that there are in settings, by their tags."""


class DocumentError(ValueError):
    """A text is no YAML document, or not one that is read.

    Attributes:
        line: of the text, from 1, where it goes wrong; None if that is not known.
    """

    def __init__(self, message: str, line: int | None = None) -> None:
        self.line = line
        super().__init__(message)


@dataclass(frozen=True)
class Document:
    """What a YAML text holds.

    Attributes:
        value: what it is; None if it is empty.
        node: what that was made from, which knows lines; None likewise.
    """

    value: Any
    node: yaml.Node | None


class _Loader(_PARSER):  # type: ignore[misc, valid-type]
    """The usual one, but 2012-12-21, 1:59:59 and = are text: no setting is a date or a time."""

    def resolve(self, kind: type[yaml.Node], value: str, implicit: tuple[bool, bool]) -> str:
        tag = str(super().resolve(kind, value, implicit))
        if kind is not yaml.ScalarNode:
            return tag
        number = tag in (f"{_PREFIX}int", f"{_PREFIX}float")
        odd = ":" in value if number else tag in (f"{_PREFIX}timestamp", f"{_PREFIX}value")
        return f"{_PREFIX}str" if odd else tag

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        line, kind = node.start_mark.line + 1, node.tag.removeprefix(_PREFIX)
        if kind in ("int", "float") and isinstance(node, yaml.ScalarNode):
            _check_number(node.value, kind, line)
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError) as error:  # of a scalar that is not what its tag says
            raise DocumentError(
                f"{_start(node)} is not a {_KINDS.get(kind, kind)}", line
            ) from error


def _check_number(written: str, kind: str, line: int) -> None:
    if kind == "int" and len(written) > MOST_DIGITS:
        raise DocumentError(
            f"a whole number of {len(written)} digits; expected at most {MOST_DIGITS}", line
        )
    if ":" in written:
        raise DocumentError(f"{written[:40]!r} is not a {_KINDS[kind]}", line)


def _start(node: yaml.Node) -> str:
    value = str(node.value) if isinstance(node, yaml.ScalarNode) else "what is here"
    return repr(value if len(value) <= 40 else f"{value[:40]}...")


@functools.lru_cache
def parsed(text: str) -> Document:
    """What a YAML text holds; once for each, since hundreds of runs read the same recipes.

    Raises:
        DocumentError: it is no YAML, has a key twice or one that is no name, has values of
            other kinds than settings have, or is larger or nested deeper than any.
    """
    if found := _UNPRINTABLE.search(text.removeprefix("\ufeff")):
        line = text.count("\n", 0, found.start() + 1) + 1
        raise DocumentError(f"the character U+{ord(found[0]):04X} is not allowed in text", line)
    try:
        _check_size(yaml.parse(text, Loader=_PARSER))
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return Document(None, None)
            _check_nodes(node, set())
            return Document(loader.construct_document(node), node)
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or "not readable as YAML"
        raise DocumentError(problem, mark.line + 1 if mark else None) from error


@dataclass
class _Open:
    """A list or mapping whose end has not come yet."""

    anchor: str | None
    size: int = 1
    height: int = 1

    def take(self, size: int, height: int) -> None:
        self.size += size
        self.height = max(self.height, height + 1)


def _check_size(events: Iterator[yaml.Event]) -> None:
    """Raise `DocumentError` if a document holds too much, its aliases unfolded."""
    known: dict[str, tuple[int, int]] = {}
    around = [_Open(None)]
    for number, event in enumerate(events):
        line = event.start_mark.line + 1 if event.start_mark else None
        if isinstance(event, yaml.CollectionStartEvent):
            around.append(_Open(event.anchor))
            _check_depth(len(around) - 1, line)  # now, since parsers are slow with what is deep
            continue
        if isinstance(event, yaml.CollectionEndEvent):
            ended = around.pop()
            anchor, size, height = ended.anchor, ended.size, ended.height
        elif isinstance(event, yaml.ScalarEvent):
            anchor, size, height = event.anchor, 1, 1
        elif isinstance(event, yaml.AliasEvent):
            anchor = None
            if event.anchor in {part.anchor for part in around}:
                raise DocumentError(f"*{event.anchor} is used within its own definition", line)
            size, height = known.get(str(event.anchor), (1, 1))
        else:
            continue
        if anchor is not None:
            known[anchor] = size, height
        around[-1].take(size, height)
        _check_depth(len(around) - 2 + height, line)
        if max(around[-1].size, number // 2) > MOST_VALUES:
            raise DocumentError(
                f"more than {MOST_VALUES} values, counting what aliases (*) repeat; expected fewer",
                line,
            )


def _check_depth(depth: int, line: int | None) -> None:
    if depth > DEEPEST:
        raise DocumentError(f"nested more than {DEEPEST} deep", line)


def _check_nodes(node: yaml.Node, seen: set[int]) -> None:
    """Raise `DocumentError` if there is a value of a strange kind, or an odd or repeated key.

    Args:
        node: of the document, before other mappings are merged in.
        seen: what has been looked at, by identity: aliases lead to the same nodes.
    """
    if id(node) in seen:
        return
    seen.add(id(node))
    line = node.start_mark.line + 1
    if node.tag.removeprefix(_PREFIX) not in _KINDS:
        tag = node.tag.replace(_PREFIX, "!!")
        raise DocumentError(f"{tag} cannot be used in settings; expected a plain value", line)
    if isinstance(node, yaml.MappingNode):
        _check_keys(node)
        for _, child in node.value:
            _check_nodes(child, seen)
    elif isinstance(node, yaml.SequenceNode):
        for child in node.value:
            _check_nodes(child, seen)


def _check_keys(node: yaml.MappingNode) -> None:
    keys: set[str] = set()
    for key, _ in node.value:
        line, kind = key.start_mark.line + 1, key.tag.removeprefix(_PREFIX)
        if not isinstance(key, yaml.ScalarNode):
            raise DocumentError("a list or mapping as a key; expected a name", line)
        if kind not in ("str", "merge"):
            raise DocumentError(
                f"{_start(key)} is read as a {_KINDS.get(kind, kind)}; expected a name in quotes",
                line,
            )
        if key.value in keys:
            raise DocumentError(f"{_start(key)} appears twice", line)
        keys.add(key.value)
