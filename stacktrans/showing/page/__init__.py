"""Traces as a page for a browser, in which a string is stepped through and played.

The page is a single file that loads nothing: its style and its script, the files beside this one,
are in it, and its Content-Security-Policy allows those alone, by their hashes. All text of models
and strings is data, which the script puts on the page as text and never as markup.
"""

import base64
import hashlib
import html
import json
import re
from collections.abc import Sequence
from importlib.resources import files
from typing import Any, NamedTuple

from stacktrans.common.visible import counted, visible
from stacktrans.inference.trace import ReadShare, Trace, TraceStep
from stacktrans.model.description import model_line
from stacktrans.settings.config import RunConfig
from stacktrans.showing.contents import Block, order_of, parts_of, symbol_text, symbols_read
from stacktrans.showing.traces import best_action, verdict

SUFFIXES = (".html", ".htm")
DIGITS = 4
"""Decimal places of the numbers in a page."""
IN_SCRIPTS = {ord(character): f"\\u{ord(character):04x}" for character in "<>&"}
"""How characters that could end a script, or begin a comment in one, are written in JSON."""

NAMED = 3
"""How many rows of a memory are named, those that it is nearest to."""


class Shown(NamedTuple):
    """A model on a page.

    Attributes:
        name: what it is called.
        trace: its way through a string.
        config: of the run that it is of.
    """

    name: str
    trace: Trace
    config: RunConfig


def page_of(models: Sequence[Shown]) -> str:
    """A page in which models are stepped through side by side: HTML that needs no other file."""
    folder = files(__package__)
    page, script, *styles = (
        (folder / name).read_text(encoding="utf-8")
        for name in ("page.html", "page.js", "page.css", "model.css")
    )
    style = "".join(styles)
    parts = {
        "policy": "; ".join(
            (
                "default-src 'none'",
                f"style-src '{_hash(style)}'",
                f"script-src '{_hash(script)}'",
                "base-uri 'none'",
                "form-action 'none'",
            )
        ),
        "title": html.escape(f"{visible(models[0].trace.source)} – stacktrans"),
        "style": style,
        "script": script,
        "data": _json(models),
    }
    # In one go, so that nothing that is put in is taken for a place to put something in.
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], page)


def _hash(text: str) -> str:
    """What a Content-Security-Policy calls a style or a script."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _json(models: Sequence[Shown]) -> str:
    """The data, as JSON that can stand in a script."""
    data = {
        "source": symbol_text(models[0].trace.source),
        "models": [_model(each) for each in models],
        "colours": [*map(symbol_text, symbols_read([each.trace for each in models]))],
    }
    return json.dumps(data, allow_nan=False, separators=(",", ":")).translate(IN_SCRIPTS)


def _model(shown: Shown) -> dict[str, Any]:
    steps = shown.trace.steps
    first = steps[0]
    return {
        "name": visible(shown.name),
        "about": visible(model_line(shown.config)),
        "verdict": visible(verdict(shown.trace)),
        "signals": [visible(name) for name in first.signals],
        "ends": [visible(end) for end in first.reads],
        "parts": [
            {"name": visible(name), "order": order_of(first, name)} for name in parts_of(first)
        ],
        "steps": [_step(step, len(steps)) for step in steps],
    }


def _step(step: TraceStep, count: int) -> dict[str, Any]:
    """A step; rows and reads are lists, since there may be many of them."""
    return {
        "input": symbol_text(step.input),
        "output": None if step.output is None else symbol_text(step.output),
        "probability": None if step.probability is None else round(step.probability, DIGITS),
        "scored": step.scored,
        "signals": [round(value, DIGITS) for value in step.signals.values()],
        "reads": [[*map(_part, parts)] for parts in step.reads.values()],
        "held": [_held(step, name, blocks) for name, blocks in parts_of(step).items()],
        "words": step_words(step, count),
    }


def _part(part: ReadShare) -> list[Any]:
    return [symbol_text(part.symbol), part.step, round(part.weight, DIGITS)]


def _held(step: TraceStep, name: str, blocks: Sequence[Block]) -> list[list[Any]]:
    """What a part of a memory holds: symbol, step, strength, and what is read of it from each side.

    A cell has no symbol and no step; a 1 is added to the one at a head.
    """
    from_first, from_last = [0.0] * len(blocks), [0.0] * len(blocks)
    label = "" if len(step.contents) == 1 else f"{name} "
    for end, parts in step.reads.items():
        if end == f"{label}top":
            from_last = _shares(blocks[::-1], parts)[::-1]
        elif end in (f"{label}bottom", f"{label}front"):
            from_first = _shares(blocks, parts)
    return [
        [
            *(symbol_text(block.symbol) if block.step else "", block.step),
            *(round(number, DIGITS) for number in (block.height, first, last)),
            *([1] if block.head else []),
        ]
        for block, first, last in zip(blocks, from_first, from_last, strict=True)
    ]


def _shares(blocks: Sequence[Block], parts: Sequence[ReadShare]) -> list[float]:
    """How much of each row is read: of rows that were pushed at one step, the nearer ones first."""
    left = {part.step: part.weight for part in parts}
    shares = []
    for block in blocks:
        share = min(block.height, left.get(block.step, 0.0))
        left[block.step] = left.get(block.step, 0.0) - share
        shares.append(share)
    return shares


def step_words(step: TraceStep, count: int) -> str:
    """A step of `count` in sentences: what is read, answered and done, and what is held then."""
    sentences = [f"Step {step.step} of {count}", f"reads {symbol_text(step.input)}"]
    if step.output is not None:
        aside = "" if step.scored else ", which is not scored"
        sentences.append(
            f"answers {symbol_text(step.output)} with probability {step.probability:.2f}{aside}"
        )
    sentences += [
        f"read {end}: {_named([(part.symbol, part.weight) for part in parts]) or 'nothing'}"
        for end, parts in step.reads.items()
    ]
    if step.lines:
        sentences += [_action(step, name) for name in step.lines]
    else:
        signals = [f"{name} {strength:.2f}" for name, strength in step.signals.items()]
        sentences.insert(len(sentences) - len(step.reads), ", ".join(signals))
        sentences += [f"{name}: {_held_in_words(step, name)}" for name in step.contents]
    return ". ".join(each[0].upper() + each[1:] for each in sentences if each) + "."


def _action(step: TraceStep, name: str) -> str:
    """The most probable action of a stack or list, and how many cells it then has."""
    return f"{name}: {best_action(step, name)}, {counted(len(step.lines[name].filled), 'cell')}"


def _held_in_words(step: TraceStep, name: str) -> str:
    """What a part of a memory holds, from the end where it is used."""
    held = step.contents[name]
    if not held:
        return "empty"
    from_top = order_of(step, name) == "bottom first"
    nearest = held[::-1] if from_top else held
    named = _named([(row.symbol, row.strength) for row in nearest[:NAMED]])
    more = f", and {len(held) - NAMED} more" if len(held) > NAMED else ""
    return f"from the {'top' if from_top else 'front'} {named}{more}"


def _named(shares: Sequence[tuple[str, float]]) -> str:
    return ", ".join(f"{symbol_text(symbol)} {share:.2f}" for symbol, share in shares)
