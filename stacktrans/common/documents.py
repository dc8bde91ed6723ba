"""YAML documents: within bounds, and only of names, numbers, texts, lists and mappings."""

import functools
import re
from dataclasses import dataclass
from typing import Any

import yaml

MOST_VALUES = 100_000
"""The most values in a document, those that aliases repeat counted every time."""
DEEPEST = 64
"""The deepest nesting of lists and mappings."""
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
"""The kinds of values in settings, by their tags."""


class DocumentError(ValueError):
    """A text is not a YAML document of settings.

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
        value: its content; None if it is empty.
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
        kind = node.tag.removeprefix(_PREFIX)
        wrong = DocumentError(f"{_start(node)} is not a {_KINDS.get(kind, kind)}", _line(node))
        if kind in ("int", "float") and isinstance(node, yaml.ScalarNode):
            if kind == "int" and len(node.value) > MOST_DIGITS:
                digits = f"{len(node.value)} digits; expected at most {MOST_DIGITS}"
                raise DocumentError(f"a whole number of {digits}", _line(node))
            if ":" in node.value:  # tagged as a number to the base of 60
                raise wrong
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError) as error:  # of a scalar that is not what its tag says
            raise wrong from error


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _start(node: yaml.Node) -> str:
    value = str(node.value) if isinstance(node, yaml.ScalarNode) else "what is here"
    return repr(value if len(value) <= 40 else f"{value[:40]}...")


@functools.lru_cache
def parsed(text: str) -> Document:
    """What a YAML text holds; once for each, since hundreds of runs read the same recipes.

    Raises:
        DocumentError: it is not YAML, has a key twice or one that is not a name, has values of
            other kinds than settings have, or is too large or nested too deeply.
    """
    if found := _UNPRINTABLE.search(text.removeprefix("\ufeff")):
        line = text.count("\n", 0, found.start() + 1) + 1
        raise DocumentError(f"the character U+{ord(found[0]):04X} is not allowed in text", line)
    try:
        _check_events(text)
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return Document(None, None)
            _check_node(node, {})  # before aliases and merge keys are unfolded
            return Document(loader.construct_document(node), node)
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or "not readable as YAML"
        raise DocumentError(problem, mark.line + 1 if mark else None) from error


def _check_events(text: str) -> None:
    """Check the size and depth of a text first of all: parsers are slow with deep nesting."""
    depth = size = 0
    for event in yaml.parse(text, Loader=_PARSER):
        size += isinstance(event, yaml.NodeEvent)
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        _check_bounds(size, depth, event.start_mark.line + 1 if event.start_mark else None)


def _check_bounds(size: int, depth: int, line: int | None) -> None:
    if size > MOST_VALUES:
        message = f"more than {MOST_VALUES} values, counting what aliases (*) repeat"
        raise DocumentError(f"{message}; expected fewer", line)
    if depth > DEEPEST:
        raise DocumentError(f"nested more than {DEEPEST} deep", line)


def _check_node(node: yaml.Node, known: dict[int, tuple[int, int] | None]) -> tuple[int, int]:
    """The size and depth of a node, aliases unfolded; raises `DocumentError` as `parsed` does.

    Args:
        node: of the document, before other mappings are merged in.
        known: sizes and depths of nodes by identity, to which aliases lead; None for those around.
    """
    if id(node) in known:
        if found := known[id(node)]:
            return found
        raise DocumentError("an alias (*) is used within its own definition", _line(node))
    known[id(node)] = None
    if node.tag.removeprefix(_PREFIX) not in _KINDS:
        tag = node.tag.replace(_PREFIX, "!!")
        raise DocumentError(
            f"{tag} cannot be used in settings; expected a plain value", _line(node)
        )
    children = [] if isinstance(node, yaml.ScalarNode) else node.value
    if isinstance(node, yaml.MappingNode):
        _check_keys(node)
        children = [each for pair in node.value for each in pair]
    measured = [_check_node(child, known) for child in children]
    size = 1 + sum(size for size, _ in measured)
    depth = max((depth for _, depth in measured), default=0)
    depth += not isinstance(node, yaml.ScalarNode)
    _check_bounds(size, depth, _line(node))
    known[id(node)] = size, depth
    return size, depth


def _check_keys(node: yaml.MappingNode) -> None:
    keys: set[str] = set()
    for key, _ in node.value:
        kind = key.tag.removeprefix(_PREFIX)
        if not isinstance(key, yaml.ScalarNode):
            raise DocumentError("a list or mapping as a key; expected a name", _line(key))
        if kind not in ("str", "merge"):
            read = f"{_start(key)} is read as a {_KINDS.get(kind, kind)}"
            raise DocumentError(f"{read}; expected a name in quotes", _line(key))
        if key.value in keys:
            raise DocumentError(f"{_start(key)} appears twice", _line(key))
        keys.add(key.value)
