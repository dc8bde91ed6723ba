"""Write the pages of docs/ that follow from the code: docs/cli.md, from what --help says.

python docs/generate.py
"""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from stacktrans.cli import app

DOCS = Path(__file__).parent
HEADING = """# The commands

What `--help` says of each command. Written by `python docs/generate.py`."""
MANNERS = """Data goes to stdout; progress, notes and errors go to stderr. The exit code is 0 when
the work is done, 1 when it failed, 2 when the command or a file was wrong, and 130 after Ctrl-C."""


def cli_page() -> str:
    """What docs/cli.md should be."""
    group: Any = get_command(app)
    context = group.make_context("stacktrans", [], resilient_parsing=True)
    sections = ["\n\n".join(_section(group, context, title="stacktrans COMMAND"))]
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        inner = type(context)(command, info_name=name, parent=context)
        sections.append("\n\n".join(_section(command, inner, title=f"stacktrans {name}")))
    return "\n\n".join([HEADING, MANNERS, *sections]) + "\n"


def _section(command: Any, context: Any, title: str) -> Iterator[str]:
    """A command: its use, its meaning, examples, and what it takes."""
    yield f"## {title}"
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    yield f"`{re.sub(r'[{}]', '', usage).replace('[[', '[').replace(']]', ']')}`"
    described, _, examples = inspect.cleandoc(command.help or "").partition("\n\n    ")
    yield described
    yield "```sh\n" + inspect.cleandoc("    " + examples) + "\n```"
    rows = [record for each in command.get_params(context) if (record := _record(each, context))]
    yield "\n".join(["| argument or option | meaning |", "|---|---|", *rows])


def _record(parameter: Any, context: Any) -> str | None:
    """A row of the table of options."""
    record = parameter.get_help_record(context)
    if record is None:
        return None
    name, meaning = (part.replace("|", "\\|") for part in record)
    name = re.sub(r" <[^|]+>$", lambda kind: f" {_KINDS.get(kind[0].strip(), '')}".rstrip(), name)
    return f"| `{name}` | {re.sub(_BRACKETS, _IN_PARENTHESES, meaning)} |"


_BRACKETS, _IN_PARENTHESES = r"  \[(.*)\]$", r" (\1)"
_KINDS = {"<int>": "N", "<int range>": "N", "<path>": "PATH", "<str>": "NAME"}
"""How the kinds of values are written where an option has no word of its own for it."""


def main() -> None:
    """Write the pages."""
    (DOCS / "cli.md").write_text(cli_page(), encoding="utf-8")


if __name__ == "__main__":
    main()
