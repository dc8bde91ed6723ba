"""Valid inputs made wrong at random: values, trees of settings, text and bytes."""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import yaml

Random = np.random.Generator

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2, 3, 7, 65_537, 10**9, 10**30, -(10**30)),
    *(0.5, -0.5, 1e-300, 1e38, 1e308, -1e308, float("nan"), float("inf"), -0.0),
    *("", " ", "x", "none", "null", "1e-999999999", "1e999999999", "1/0", "0x10", "1:59:59"),
    *(
        "../../x",
        "/dev/null",
        "a" * 5000,
        "é" * 300,
        "\x1b]0;owned\x07",
        "\x9b31m",
        "a\nb",
        "\u202e",
    ),
    *("S:1", "S:0 S:0", "{k}", "{", "a^n b^n", "a^n b^0n", "a^" + "n" * 2000, "=cmd|' /C calc'!A0"),
    *([], {}, [[]], [1, 2], [2, 1], [[1, 2], [3]], {"a": 1}, {"": None}, ["x"] * 300),
    {"mean": -5, "deviation": -1},
    {"depth": 10**6},
    {"probability": 1, "source": "a"},
)
"""Values that replace valid ones."""

SCALES = (-1, 0.5, 2, 10, 1000)
"""Factors by which numbers are multiplied."""

SNIPPETS = (
    *(
        b"*a",
        b"&a [*a]",
        b"&a",
        b"<<: *a",
        b"!!bool maybe",
        b"!!int ten",
        b"!!binary =",
        b"!!set {a}",
    ),
    *(
        b"!!python/object:os.system",
        b"1:59:59:59",
        b"9" * 6000,
        b"- " * 300,
        b"[" * 3000,
        b"{" * 3000,
    ),
    *(
        b"\x00",
        b"\xff\xfe",
        b"\xef\xbb\xbf",
        b"\x1b[2J",
        b"\xc2\x9b31m",
        b"\t",
        b"\r",
        b"\n\n---\n",
    ),
    *(b"%YAML 9.9", b": ", b"? ", b"| ", b'"', b"'", b"#", b"NaN", b"-Infinity", b"1e400"),
    b"b: &b [x,x,x,x,x,x,x,x,x]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n",
)
"""Bytes that are inserted into files or replace their lines."""


def how_many(rng: Random) -> int:
    """Mostly one change, so that what comes after it is reached; sometimes three."""
    return 1 if rng.random() < 0.7 else 3


def one_of(rng: Random, choices: Sequence[Any]) -> Any:
    """One of some things."""
    return choices[int(rng.integers(len(choices)))]


def _places(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    children = tree.items() if isinstance(tree, dict) else enumerate(tree)
    found = [path] if path else []
    for key, child in children:
        here = (*path, key)
        found += _places(child, here) if isinstance(child, dict | list) else [here]
    return found


def _value_at(tree: Any, path: Sequence[Any]) -> Any:
    for key in path:
        tree = tree[key]
    return tree


def wrong_tree(rng: Random, tree: Any, values: Sequence[Any] = VALUES) -> Any:
    """Settings with one or three random changes.

    Each replaces a value, perhaps by another of the tree, or removes, renames, repeats, nests or
    scales it.
    """
    tree = copy.deepcopy(tree)
    for _ in range(how_many(rng)):
        places = _places(tree)
        if not places:
            break
        *path, key = one_of(rng, places)
        within = _value_at(tree, path)
        match int(rng.integers(10)):
            case 0:
                del within[key]
            case 1 if isinstance(within, dict):
                within[f"{key}x"] = within.pop(key)
            case 1 | 2:
                within[key] = [within[key]] * int(rng.integers(1, 60))
            case 3:
                within[key] = {str(key): within[key]}
            case 4 | 5:
                within[key] = copy.deepcopy(_value_at(tree, one_of(rng, places)))
            case 6 | 7 if type(within[key]) in (int, float):
                within[key] *= one_of(rng, SCALES)
            case _:
                within[key] = copy.deepcopy(one_of(rng, values))
    return tree


def as_yaml(tree: Any) -> bytes:
    """Settings as a file."""
    text: str = yaml.safe_dump(tree, sort_keys=False, allow_unicode=True)
    return text.encode("utf-8", "surrogatepass")


def wrong_bytes(rng: Random, content: bytes) -> bytes:
    """A file with a change or three, wherever they fall."""
    for _ in range(how_many(rng)):
        change: Change = one_of(rng, _CHANGES)
        content = change(rng, content)
    return content


def _cut(rng: Random, content: bytes) -> tuple[int, int]:
    start = int(rng.integers(len(content) + 1))
    return start, min(len(content), start + int(rng.integers(1, 200)))


def _flipped(rng: Random, content: bytes) -> bytes:
    changed = bytearray(content)
    for _ in range(int(rng.integers(1, 5)) if content else 0):
        changed[int(rng.integers(len(changed)))] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def _without(rng: Random, content: bytes) -> bytes:
    start, stop = _cut(rng, content)
    return content[:start] + content[stop:]


def _repeated(rng: Random, content: bytes) -> bytes:
    start, stop = _cut(rng, content)
    return content[:start] + content[start:stop] * int(rng.integers(2, 500)) + content[stop:]


def _truncated(rng: Random, content: bytes) -> bytes:
    return content[: int(rng.integers(len(content) + 1))]


def _inserted(rng: Random, content: bytes) -> bytes:
    place = int(rng.integers(len(content) + 1))
    snippet: bytes = one_of(rng, SNIPPETS)
    return content[:place] + snippet + content[place:]


def _line_replaced(rng: Random, content: bytes) -> bytes:
    lines = content.split(b"\n")
    lines[int(rng.integers(len(lines)))] = one_of(rng, SNIPPETS)
    return b"\n".join(lines)


def _lines_swapped(rng: Random, content: bytes) -> bytes:
    lines = content.split(b"\n")
    first, second = (int(rng.integers(len(lines))) for _ in range(2))
    lines[first], lines[second] = lines[second], lines[first]
    return b"\n".join(lines)


Change = Callable[[Random, bytes], bytes]
_CHANGES: Sequence[Change] = (
    *(_flipped, _without, _repeated, _truncated, _inserted, _line_replaced, _lines_swapped),
)
