"""Traces of models as an interactive HTML page, which steps through a string in words.

The page is a single file that loads nothing: it contains its style and script, the files beside
this one, and its Content-Security-Policy allows only these, by their hashes. All text of models
and strings is data, which the script inserts as text and never as markup. A page of machines alone
contains these instead of their steps, and runs them over any string that is typed.
"""

import base64
import hashlib
import html
import json
import re
from collections.abc import Iterable, Sequence
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np

from stacktrans.automata.machine_file import machine_json
from stacktrans.automata.wording import describe_component, entry_name
from stacktrans.common.visible import visible
from stacktrans.inference.trace import END, NOTHING, ReadShare, Trace, TraceStep, input_symbols
from stacktrans.model.checkpoint import Checkpoint
from stacktrans.showing.contents import (
    Block,
    order_of,
    parts_of,
    read_name,
    symbol_text,
    symbols_read,
)
from stacktrans.showing.traces import actions_of, verdict
from stacktrans.tasks.alphabets import FEATURE
from stacktrans.tasks.pair_alphabets import SourceAlphabet

SUFFIXES = (".html", ".htm")
DIGITS = 4
"""Decimal places of the numbers in a page."""
IN_SCRIPTS = {ord(character): f"\\u{ord(character):04x}" for character in "<>&"}
"""JSON escapes of the characters that could end a script or begin a comment in one."""


class PageModel(NamedTuple):
    """A model and its trace on a page.

    Attributes:
        name: its name.
        trace: its trace of the string.
        checkpoint: the model.
    """

    name: str
    trace: Trace
    checkpoint: Checkpoint

    @property
    def can_be_run(self) -> bool:
        """Whether the page can run it: it is a whole machine that reads plain strings."""
        shown = [*self.trace.steps[0].signals] == [*self.checkpoint.signal_names]
        source = self.checkpoint.task.source
        features = any(role[0] == FEATURE for role in source.roles())
        normalized = isinstance(source, SourceAlphabet) and source.tokenizer.form
        return bool(self.checkpoint.machine and shown and not features and not normalized)


def page_of(models: Sequence[PageModel]) -> str:
    """The self-contained HTML of a page that steps through models side by side."""
    directory = files(__package__)
    page, *scripts, page_style, model_style = (
        (directory / name).read_text(encoding="utf-8")
        for name in ("page.html", "machine.js", "page.js", "page.css", "model.css")
    )
    script, style = "".join(scripts), page_style + model_style
    allowed = f"style-src '{_hash(style)}'; script-src '{_hash(script)}'"
    parts = {
        "policy": f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'",
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


def _json(models: Sequence[PageModel]) -> str:
    """The data of the page, as JSON that is safe inside a script."""
    can_be_run = all(each.can_be_run for each in models)
    text, symbols = models[0].trace.source, symbols_read([each.trace for each in models])
    if can_be_run:
        machines = [each.checkpoint.machine for each in models]
        symbols = [symbol for machine in machines if machine for symbol in machine.symbols]
    data = {
        "source": symbol_text(text),
        "text": text,
        "models": [
            _model(each) | (_machine(each.checkpoint) if can_be_run else _steps(each))
            for each in models
        ],
        "colors": [*dict.fromkeys(map(symbol_text, symbols))],
    }
    return json.dumps(data, allow_nan=False, separators=(",", ":")).translate(IN_SCRIPTS)


def _model(model: PageModel) -> dict[str, Any]:
    """The data of a model except its steps."""
    checkpoint, first = model.checkpoint, model.trace.steps[0]
    rules = checkpoint.machine.rule_descriptions if checkpoint.machine else []
    return {
        "name": visible(model.name),
        "about": visible(checkpoint.description),
        "verdict": visible(verdict(model.trace)),
        "signals": [visible(name) for name in first.signals],
        "ends": [visible(end) for end in first.reads],
        "parts": [
            {"name": visible(name), "order": order_of(first, name)} for name in parts_of(first)
        ],
        "actions": [*map(_names, actions_of(first).values())]
        if checkpoint.memory.takes_actions
        else [],
        "strengths": bool(first.contents),
        "cells": bool(first.lines),
        "rules": [[visible(rule.when), visible(rule.action)] for rule in rules],
    }


def _steps(model: PageModel) -> dict[str, Any]:
    return {"steps": [*map(_step, model.trace.steps)]}


def _machine(checkpoint: Checkpoint) -> dict[str, Any]:
    """The data with which the page runs a machine: its file, and names of what is shown."""
    machine, layout, task = checkpoint.machine, checkpoint.layout, checkpoint.task
    assert machine
    inputs = [*input_symbols(checkpoint, np.arange(layout.inputs)), NOTHING]
    no_states = {len(machine.components) - 1} if machine.states.size == 1 else set()
    states = [entry_name(machine, machine.states, state) for state in range(machine.states.size)]
    return {
        "machine": json.loads(machine_json(machine)),
        "bound": layout.bound(),
        "unknown": task.source.unknown,
        "observations": [
            [visible(describe_component(machine, component, entry)) for entry in range(table.size)]
            if component in machine.relevant - no_states
            else None
            for component, table in enumerate(machine.components)
        ],
        "names": {
            "inputs": _names(inputs),
            "outputs": _names([*task.target.symbols, END]),
            "stackSymbols": [*map(_names, machine.stack_symbol_names)],
            "states": _names(states),
        },
    }


def _names(symbols: Iterable[str]) -> list[str]:
    return [*map(symbol_text, symbols)]


def _step(step: TraceStep) -> dict[str, Any]:
    """The data of a step; rows and reads are lists, to save space."""
    return {
        "input": symbol_text(step.input),
        "output": None if step.output is None else symbol_text(step.output),
        "probability": None if step.probability is None else round(step.probability, DIGITS),
        "scored": step.scored,
        "signals": [round(value, DIGITS) for value in step.signals.values()],
        "reads": [[*map(_part, parts)] for parts in step.reads.values()],
        "contents": [_contents(step, name, blocks) for name, blocks in parts_of(step).items()],
        "rule": step.rule and step.rule.number,
        "state": step.state and visible(step.state),
    }


def _part(part: ReadShare) -> list[Any]:
    return [symbol_text(part.symbol), part.step, round(part.weight, DIGITS)]


def _contents(step: TraceStep, name: str, blocks: Sequence[Block]) -> list[list[Any]]:
    """The contents of a part: symbol, step, strength, and the shares read from both ends.

    A cell has an empty symbol and step 0; that at a head has a further 1.
    """
    from_first, from_last = [0.0] * len(blocks), [0.0] * len(blocks)
    top, bottom, front = (read_name(step, name, end) for end in ("top", "bottom", "front"))
    for end, parts in step.reads.items():
        if end == top:
            from_last = _shares(blocks[::-1], parts)[::-1]
        elif end in (bottom, front):
            from_first = _shares(blocks, parts)
    return [
        [
            *(block.name, block.step),
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
