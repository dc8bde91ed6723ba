"""Safe parsing of YAML, with limits on size, depth, keys and tags, and errors with line numbers."""

import functools
import math
import re
from typing import Any

import yaml

from stacktrans.common.errors import shown

MAX_VALUES = 100_000
"""The maximum number of values in a document, after aliases are expanded."""
MAX_DEPTH = 64
"""The maximum nesting of lists and mappings."""
MAX_DIGITS = 100
"""The maximum length of a whole number, in characters."""

# libyaml, if PyYAML was built with it, gives the same results ten times as fast.
_PARSER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_UNPRINTABLE = re.compile(
    "[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)
_OCTAL = re.compile("[+-]?0[0-7_]+")
_PREFIX = "tag:yaml.org,2002:"
_TAG_NAMES = {"null": "null", "bool": "truth value", "int": "whole number", "float": "number"}
"""The types that YAML may take a name for, by tag."""


class DocumentError(ValueError):
    """A text is not a valid YAML document of settings.

    Attributes:
        line: of the error; None if it is unknown.
    """

    def __init__(self, message: str, line: int | None = None) -> None:
        self.line = line
        super().__init__(message)


class _Loader(_PARSER):  # type: ignore[misc, valid-type]
    """PyYAML's safe loader, except that 2012-12-21, 1:59:59 and = are text."""

    def resolve(self, kind: type[yaml.Node], value: str, implicit: tuple[bool, bool]) -> str:
        tag = str(super().resolve(kind, value, implicit))
        if kind is not yaml.ScalarNode:
            return tag
        number = tag in (f"{_PREFIX}int", f"{_PREFIX}float")
        is_text = ":" in value if number else tag in (f"{_PREFIX}timestamp", f"{_PREFIX}value")
        return f"{_PREFIX}str" if is_text else tag

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        if node.tag == f"{_PREFIX}int" and _OCTAL.fullmatch(node.value):
            written = shown(node.value)
            raise DocumentError(f"{written} begins with 0, which YAML reads as octal", _line(node))
        if node.tag == f"{_PREFIX}int" and len(node.value) > MAX_DIGITS:
            digits = f"{len(node.value)} digits; expected at most {MAX_DIGITS}"
            raise DocumentError(f"a whole number of {digits}", _line(node))
        try:
            return super().construct_object(node, deep)
        except ValueError as error:  # such as 0x_
            raise DocumentError(f"{shown(node.value)} is not a number", _line(node)) from error


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


@functools.lru_cache
def parse_yaml(text: str) -> tuple[Any, yaml.Node | None]:
    """Parse YAML: the value, and its node, which has line numbers.

    Cached, since hundreds of runs read the same recipes.

    Raises:
        DocumentError: the text is not YAML, repeats a key, has a key that is not a name, has tags,
            or is too large or nested too deeply.
    """
    if match := _UNPRINTABLE.search(text.removeprefix("\ufeff")):
        line = text.count("\n", 0, match.start() + 1) + 1
        raise DocumentError(f"the character U+{ord(match[0]):04X} is not allowed in text", line)
    try:
        _check_events(text)
        loader = _Loader(text)
        node = loader.get_single_node()
        _check_keys(node)
        return (loader.construct_document(node) if node else None), node
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or "not readable as YAML"
        raise DocumentError(problem, mark.line + 1 if mark else None) from error


def yaml_text(value: Any) -> str:
    """A value as a YAML document."""
    return str(yaml.dump(value, Dumper=_DUMPER, sort_keys=False, allow_unicode=True, width=100))


class _LineDumper(yaml.SafeDumper):
    """Writes strings with line ends in quotes, with escapes."""


_LineDumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar(
        f"{_PREFIX}str", text, style='"' if re.search("[\n\x85\u2028\u2029]", text) else None
    ),
)
# The default of a plugin's parameter may be of any type.
_LineDumper.add_multi_representer(object, lambda dumper, value: dumper.represent_str(str(value)))


def yaml_line(value: Any) -> str:
    """A value in one line of YAML."""
    text: str = yaml.dump(
        value,
        Dumper=_LineDumper,
        default_flow_style=True,
        width=math.inf,
        allow_unicode=True,
        sort_keys=False,
    )
    return text.removesuffix("\n...\n").strip()


def _check_events(text: str) -> None:
    """Check tags, size and depth, after expansion of aliases, before any value is constructed."""
    size = 0
    depths: list[int] = []  # of the deepest value in each node
    open_collections: list[tuple[str | None, int, int]] = []  # anchor, and size and nodes before
    measured: dict[Any, tuple[int, int] | None] = {}  # by anchor; None within its definition
    for event in yaml.parse(text, Loader=_PARSER):
        if isinstance(event, yaml.CollectionEndEvent):
            anchor, size_before, start = open_collections.pop()
            if anchor:
                measured[anchor] = size - size_before, max(depths[start:]) - len(open_collections)
        if not isinstance(event, yaml.NodeEvent):
            continue
        line = event.start_mark.line + 1 if event.start_mark else None
        node_size, height = 1, 0
        if isinstance(event, yaml.AliasEvent):
            anchored = measured.get(event.anchor, (1, 0))  # the composer reports unknown anchors
            if anchored is None:
                raise DocumentError("an alias (*) is used within its own definition", line)
            node_size, height = anchored
        elif tag := getattr(event, "tag", None):
            tag = tag.replace(_PREFIX, "!!")
            raise DocumentError(f"{tag} cannot be used in settings; expected a plain value", line)
        elif isinstance(event, yaml.CollectionStartEvent):
            open_collections.append((event.anchor, size, len(depths)))
            measured[event.anchor] = None
        else:
            measured[event.anchor] = node_size, height
        size += node_size
        depths.append(len(open_collections) + height)
        if size > MAX_VALUES:
            message = f"more than {MAX_VALUES} values, counting what aliases (*) repeat"
            raise DocumentError(f"{message}; expected fewer", line)
        if depths[-1] > MAX_DEPTH:
            raise DocumentError(f"nested more than {MAX_DEPTH} deep", line)


def _check_keys(node: yaml.Node | None) -> None:
    """Check the keys of all mappings, before merge keys (<<) are expanded."""
    if isinstance(node, yaml.MappingNode):
        keys: set[str] = set()
        for key, value in node.value:
            tag = key.tag.removeprefix(_PREFIX)
            if not isinstance(key, yaml.ScalarNode):
                raise DocumentError("a list or mapping as a key; expected a name", _line(key))
            if tag not in ("str", "merge"):
                read = f"{shown(key.value)} is read as a {_TAG_NAMES.get(tag, tag)}"
                raise DocumentError(f"{read}; expected a name in quotes", _line(key))
            if key.value in keys:
                raise DocumentError(f"{shown(key.value)} appears twice", _line(key))
            keys.add(key.value)
            _check_keys(value)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _check_keys(item)
