"""Tables of measurements, for the terminal and in Markdown."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from machine import processor
from rich.console import Console
from rich.table import Table


@dataclass
class Result:
    """A table with a title and an explanatory note."""

    title: str
    note: str
    columns: list[str]
    rows: list[list[str]]


def milliseconds(number: float) -> str:
    """A number with three significant digits, or with all digits before the decimal point."""
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
    """A table in Markdown, with its origin below."""
    lines = [f"## {result.title}", ""]
    if result.note:
        lines += [result.note, ""]
    lines.append(f"| {' | '.join(result.columns)} |")
    lines.append("|---" + "|---:" * (len(result.columns) - 1) + "|")
    lines += [f"| {' | '.join(row)} |" for row in result.rows]
    return "\n".join([*lines, "", origin, ""])


def report(result: Result, command: str, path: Path | None) -> None:
    """Show a table and, if a file is given, write it there with the command that made it."""
    show(result, Console())
    if path:
        write_markdown(path, [result], f"{processor()}. Written by `{command}`.")


def write_markdown(path: Path, results: Sequence[Result], origin: str) -> None:
    """Write tables to a file, where they replace those with the same title."""
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    head, *texts = before.split("\n## ")
    sections = {text.partition("\n")[0]: f"## {text.rstrip()}\n" for text in texts}
    sections |= {result.title: section(result, origin) for result in results}
    head = f"{head.rstrip() or '# Benchmarks'}\n"
    path.write_text("\n".join([head, *sections.values()]), encoding="utf-8")
