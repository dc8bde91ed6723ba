"""Traces of models as an interactive HTML page, which steps through a string in words.

The page is a single file that loads nothing: it contains its style and script, the files beside
this one, and its Content-Security-Policy allows only these, by their hashes. All text of models
and strings is data, which the script inserts as text and never as markup.
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
from stacktrans.memory import make_memory
from stacktrans.model.description import model_line
from stacktrans.settings.config import RunConfig
from stacktrans.showing.contents import Block, order_of, parts_of, symbol_text, symbols_read
from stacktrans.showing.traces import best_action, verdict

SUFFIXES = (".html", ".htm")
DIGITS = 4
"""Decimal places of the numbers in a page."""
IN_SCRIPTS = {ord(character): f"\\u{ord(character):04x}" for character in "<>&"}
"""JSON escapes of the characters that could end a script or begin a comment in one."""

MAX_LISTED = 3
"""The most rows of a memory that a sentence lists, from the end where it is used."""


class Shown(NamedTuple):
    """A model and its trace on a page.

    Attributes:
        name: its name.
        trace: its trace of the string.
        config: the configuration of its run.
    """

    name: str
    trace: Trace
    config: RunConfig


def page_of(models: Sequence[Shown]) -> str:
    """The self-contained HTML of a page that steps through models side by side."""
    directory = files(__package__)
    page, script, *styles = (
        (directory / name).read_text(encoding="utf-8")
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
    # In a single pass, so that inserted text with such braces stays as it is.
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], page)


def _hash(text: str) -> str:
    """The hash of a style or a script for a Content-Security-Policy."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _json(models: Sequence[Shown]) -> str:
    """The data of the page, as JSON that is safe inside a script."""
    data = {
        "source": symbol_text(models[0].trace.source),
        "models": [_model(each) for each in models],
        "colours": [*map(symbol_text, symbols_read([each.trace for each in models]))],
    }
    return json.dumps(data, allow_nan=False, separators=(",", ":")).translate(IN_SCRIPTS)


def _model(shown: Shown) -> dict[str, Any]:
    steps = shown.trace.steps
    first, takes_actions = steps[0], make_memory(shown.config.model).takes_actions
    return {
        "name": visible(shown.name),
        "about": visible(model_line(shown.config)),
        "verdict": visible(verdict(shown.trace)),
        "signals": [visible(name) for name in first.signals],
        "ends": [visible(end) for end in first.reads],
        "parts": [
            {"name": visible(name), "order": order_of(first, name)} for name in parts_of(first)
        ],
        "steps": [_step(step, len(steps), takes_actions) for step in steps],
    }


def _step(step: TraceStep, count: int, takes_actions: bool) -> dict[str, Any]:
    """The data of a step; rows and reads are lists, to save space."""
    return {
        "input": symbol_text(step.input),
        "output": None if step.output is None else symbol_text(step.output),
        "probability": None if step.probability is None else round(step.probability, DIGITS),
        "scored": step.scored,
        "signals": [round(value, DIGITS) for value in step.signals.values()],
        "reads": [[*map(_part, parts)] for parts in step.reads.values()],
        "held": [_contents(step, name, blocks) for name, blocks in parts_of(step).items()],
        "words": step_words(step, count, takes_actions),
    }


def _part(part: ReadShare) -> list[Any]:
    return [symbol_text(part.symbol), part.step, round(part.weight, DIGITS)]


def _contents(step: TraceStep, name: str, blocks: Sequence[Block]) -> list[list[Any]]:
    """The contents of a part: symbol, step, strength, and the shares read from both ends.

    A cell has an empty symbol and step 0; that at a head has a further 1.
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
    """The share of each row in a read; rows that were pushed at one step are used up in order."""
    left = {part.step: part.weight for part in parts}
    shares = []
    for block in blocks:
        share = min(block.height, left.get(block.step, 0.0))
        left[block.step] = left.get(block.step, 0.0) - share
        shares.append(share)
    return shares


def step_words(step: TraceStep, count: int, takes_actions: bool) -> str:
    """A step of `count` in sentences: input, output, operations, and contents afterwards."""
    sentences = [f"Step {step.step} of {count}", f"reads {symbol_text(step.input)}"]
    if step.output is not None:
        aside = "" if step.scored else ", which is not scored"
        sentences.append(
            f"answers {symbol_text(step.output)} with probability {step.probability:.2f}{aside}"
        )
    sentences += [
        f"read {end}: {_listed([(part.symbol, part.weight) for part in parts]) or 'nothing'}"
        for end, parts in step.reads.items()
    ]
    cells = {name: counted(len(line.filled), "cell") for name, line in step.lines.items()}
    if takes_actions:
        sentences += [f"{name}: {best_action(step, name)}, {held}" for name, held in cells.items()]
    else:
        signals = [f"{name} {strength:.2f}" for name, strength in step.signals.items()]
        sentences.insert(len(sentences) - len(step.reads), ", ".join(signals))
        sentences += [f"{name}: {_contents_in_words(step, name)}" for name in step.contents]
        sentences += [f"{name}: {held}" for name, held in cells.items()]
    return ". ".join(each[0].upper() + each[1:] for each in sentences if each) + "."


def _contents_in_words(step: TraceStep, name: str) -> str:
    """The contents of a part, from the end where it is used."""
    rows = step.contents[name]
    if not rows:
        return "empty"
    from_top = order_of(step, name) == "bottom first"
    nearest = (rows[::-1] if from_top else rows)[:MAX_LISTED]
    listed = _listed([(row.symbol, row.strength) for row in nearest])
    more = f", and {len(rows) - MAX_LISTED} more" if len(rows) > MAX_LISTED else ""
    return f"from the {'top' if from_top else 'front'} {listed}{more}"


def _listed(shares: Sequence[tuple[str, float]]) -> str:
    return ", ".join(f"{symbol_text(symbol)} {share:.2f}" for symbol, share in shares)
