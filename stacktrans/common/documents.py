"""YAML documents: within bounds, and only of names, numbers, texts, lists and mappings."""

import functools
import math
import re
from typing import Any, NamedTuple

import yaml

from stacktrans.common.errors import shown

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
_OCTAL = re.compile("[+-]?0[0-7_]+")
_PREFIX = "tag:yaml.org,2002:"
_KINDS = {"null": "null", "bool": "truth value", "int": "whole number", "float": "number"}
"""What a name may be read as instead, by tags."""


class DocumentError(ValueError):
    """A text is not a YAML document of settings, from a line on, if that is known."""

    def __init__(self, message: str, line: int | None = None) -> None:
        self.line = line
        super().__init__(message)


class Document(NamedTuple):
    """The content of a YAML text, and the node it was made from, which knows lines."""

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
        if node.tag == f"{_PREFIX}int" and _OCTAL.fullmatch(node.value):
            written = shown(node.value)
            raise DocumentError(f"{written} begins with 0, which YAML reads as octal", _line(node))
        if node.tag == f"{_PREFIX}int" and len(node.value) > MOST_DIGITS:
            digits = f"{len(node.value)} digits; expected at most {MOST_DIGITS}"
            raise DocumentError(f"a whole number of {digits}", _line(node))
        try:
            return super().construct_object(node, deep)
        except ValueError as error:  # of 0x_
            raise DocumentError(f"{shown(node.value)} is not a number", _line(node)) from error


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


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
        node = loader.get_single_node()
        _check_keys(node)
        return Document(loader.construct_document(node) if node else None, node)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or "not readable as YAML"
        raise DocumentError(problem, mark.line + 1 if mark else None) from error


def yaml_line(value: Any) -> str:
    """A value in one line of YAML."""
    text: str = yaml.safe_dump(
        value, default_flow_style=True, width=math.inf, allow_unicode=True, sort_keys=False
    )
    return text.removesuffix("\n...\n").strip()


def _check_events(text: str) -> None:
    """Check tags, and size and depth with aliases unfolded, before anything is built."""
    size = 0
    depths: list[int] = []  # that each value reaches
    around: list[tuple[str | None, int, int]] = []  # anchor, and size and values before
    measured: dict[Any, tuple[int, int] | None] = {}  # None within its definition
    for event in yaml.parse(text, Loader=_PARSER):
        if isinstance(event, yaml.CollectionEndEvent):
            anchor, before, start = around.pop()
            if anchor:
                measured[anchor] = size - before, max(depths[start:]) - len(around)
        if not isinstance(event, yaml.NodeEvent):
            continue
        line = event.start_mark.line + 1 if event.start_mark else None
        more, deeper = 1, 0
        if isinstance(event, yaml.AliasEvent):
            found = measured.get(event.anchor, (1, 0))  # an unknown one is found by the parser
            if found is None:
                raise DocumentError("an alias (*) is used within its own definition", line)
            more, deeper = found
        elif tag := getattr(event, "tag", None):
            tag = tag.replace(_PREFIX, "!!")
            raise DocumentError(f"{tag} cannot be used in settings; expected a plain value", line)
        elif isinstance(event, yaml.CollectionStartEvent):
            around.append((event.anchor, size, len(depths)))
            measured[event.anchor] = None
        else:
            measured[event.anchor] = more, deeper
        size += more
        depths.append(len(around) + deeper)
        if size > MOST_VALUES:
            message = f"more than {MOST_VALUES} values, counting what aliases (*) repeat"
            raise DocumentError(f"{message}; expected fewer", line)
        if depths[-1] > DEEPEST:
            raise DocumentError(f"nested more than {DEEPEST} deep", line)


def _check_keys(node: yaml.Node | None) -> None:
    """Check the keys of all mappings, before what they merge is written into them."""
    if isinstance(node, yaml.MappingNode):
        keys: set[str] = set()
        for key, value in node.value:
            kind = key.tag.removeprefix(_PREFIX)
            if not isinstance(key, yaml.ScalarNode):
                raise DocumentError("a list or mapping as a key; expected a name", _line(key))
            if kind not in ("str", "merge"):
                read = f"{shown(key.value)} is read as a {_KINDS.get(kind, kind)}"
                raise DocumentError(f"{read}; expected a name in quotes", _line(key))
            if key.value in keys:
                raise DocumentError(f"{shown(key.value)} appears twice", _line(key))
            keys.add(key.value)
            _check_keys(value)
    elif isinstance(node, yaml.SequenceNode):
        for each in node.value:
            _check_keys(each)
