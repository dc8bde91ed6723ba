"""Tables of measurements: shown, and written in Markdown."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from machine import processor
from rich.console import Console
from rich.table import Table


@dataclass
class Result:
    """A table and what is to be known about it."""

    title: str
    note: str
    columns: list[str]
    rows: list[list[str]]


def milliseconds(number: float) -> str:
    """With three digits, or all before the point."""
    return f"{number:.{max(0, 3 - len(str(int(number))))}f}"


def multiple(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}"


def show(result: Result, console: Console) -> None:
    table = Table(title=result.title, title_justify="left")
    for column in result.columns:
        table.add_column(column, justify="right")
    for row in result.rows:
        table.add_row(*row)
    console.print(table)
    console.print(f"{result.note}\n")


def section(result: Result, origin: str) -> str:
    """A table in Markdown, and what made it."""
    lines = [f"## {result.title}", ""]
    if result.note:
        lines += [result.note, ""]
    lines.append(f"| {' | '.join(result.columns)} |")
    lines.append("|---" + "|---:" * (len(result.columns) - 1) + "|")
    lines += [f"| {' | '.join(row)} |" for row in result.rows]
    return "\n".join([*lines, "", origin, ""])


def report(result: Result, command: str, place: Path | None) -> None:
    """Show a table, and write it to a file, if one is given, with the command that made it."""
    show(result, Console())
    if place:
        write_markdown(place, [result], f"{processor()}. Written by `{command}`.")


def write_markdown(path: Path, results: Sequence[Result], origin: str) -> None:
    """Write tables to a file, in the place of those of the same title; others stay."""
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    sections = {
        text.partition("\n")[0]: f"## {text.rstrip()}\n" for text in before.split("\n## ")[1:]
    }
    sections |= {result.title: section(result, origin) for result in results}
    path.write_text("\n".join(["# Speed\n", *sections.values()]), encoding="utf-8")
