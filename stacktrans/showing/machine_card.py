"""The README of a checkpoint that is a machine."""

from __future__ import annotations

from stacktrans.extraction.extracting import Extracted
from stacktrans.showing.machines import machine_line, numbered_rules


def card(extracted: Extracted, source: str) -> str:
    """What a machine is, in Markdown: its rules, and how far it agrees with its model.

    Args:
        extracted: the machine.
        source: what the model was called that it was extracted from.
    """
    machine = extracted.machine
    rules = "\n".join(
        f"| {number} | {_cell(when)} | {_cell(done)} |"
        for number, when, done in numbered_rules(machine)
    )
    agreement = "\n".join(
        f"| {each.what} | {each.strings} | {each.agreeing} |" for each in extracted.agreement
    )
    return f"""# A machine for {machine.task}

Extracted from `{source}` by `stacktrans extract`: {machine_line(machine)}.

| rule | when | what is done |
|---|---|---|
{rules}

The answers of model and machine, where signals of the model are made 0 or 1:

| strings | number | same answer |
|---|---|---|
{agreement}
"""


def _cell(text: str) -> str:
    """A text as it can stand in a table of Markdown."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
