"""Write the pages of docs/ that follow from the code.

    python docs/generate.py

docs/cli.md is what --help says, docs/settings.md what the settings of a run are; the strategies in
docs/training.md are those of their file.
"""

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from typer.main import get_command

from stacktrans.cli import app
from stacktrans.commands.catalogue import Entry, settings, type_of
from stacktrans.common.documents import yaml_line
from stacktrans.settings.config import RunConfig
from stacktrans.settings.model_config import ControllerConfig, MemoryConfig
from stacktrans.settings.resolve import strategies
from stacktrans.settings.schema import section_classes
from stacktrans.settings.values import PartConfig, meanings

DOCS = Path(__file__).parent
HEADING = """# The commands

The `--help` of each command. Written by `python docs/generate.py`."""
MANNERS = """Data goes to stdout; progress, notes and errors go to stderr. The exit code is 0 when
the work is done, 1 when it failed, a checkpoint could not be read or a line of data was wrong, 2
when the command or a file of settings or of a task was wrong, and 130 after Ctrl-C."""


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


SETTINGS = """# Settings

The settings of a run, which are changed by `--set KEY=VALUE`, in a file for `--config`, in a
recipe, in a task's file or in a sweep. A key is a path such as `training.learning_rate`, or the
end of one, `learning_rate`, where only one ends so. Written by `python docs/generate.py`.

A default holds where no recipe says otherwise (`stacktrans list recipes`); most defaults mean
"off". A block that is `null` by default has to be given with all of its settings that
have no default; `--set BLOCK=null` turns it off. Of `training.data` and of `training.stop` one
alternative is chosen: one that is set replaces the others. A memory and a controller are
chosen by name, `model.memory: queue`, or with settings of their own, `model.memory: {name:
stack-rnn, count: 4}`; settings in a recipe that the chosen one lacks are ignored. Several memories
have one name, `queue+stack`, and the settings of a stack or a queue, which hold for each."""


def settings_page() -> str:
    """What docs/settings.md should be."""
    listed: dict[str, list[Entry]] = {}
    for entry in settings():
        path = entry.name.split(".")
        section = ".".join(path[:-1][:2]) or "run"
        listed.setdefault(section, []).append(entry)
    parts = [SETTINGS]
    for section, entries in listed.items():
        parts += [f"## {section}", *_meaning(section), _table(map(_row, entries))]
        if section == "model":
            kinds: dict[str, Mapping[str, type[PartConfig]]] = {
                "memory": MemoryConfig.CONFIG_CLASSES,
                "controller": ControllerConfig.CONFIG_CLASSES,
            }
            parts += [part for name, kind in kinds.items() for part in _named(name, kind)]
    return "\n\n".join(parts) + "\n"


def _meaning(section: str) -> Iterator[str]:
    """What a section is for."""
    kind: type[BaseModel] = RunConfig
    *outer, last = section.split(".")
    for name in outer:
        (kind,) = section_classes(kind.model_fields[name])
    if last in kind.model_fields:
        meaning = meanings(kind)[last]
        yield meaning[0].upper() + meaning[1:]


def _named(part: str, kinds: Mapping[str, type[PartConfig]]) -> Iterator[str]:
    """The settings of the memories, or of the controllers, those of the same together."""
    for kind in dict.fromkeys(kinds.values()):
        names = [f"`{name}`" for name, each in kinds.items() if each is kind]
        yield f"### model.{part}: {', '.join(names)}"
        said = meanings(kind)
        yield _table(
            f"| `{name}` | {_default(field)} | {type_of(field)} | {_in_cell(said[name])} |"
            for name, field in kind.model_fields.items()
        )


def _row(entry: Entry) -> str:
    default = f"`{entry.columns['default']}`" if entry.columns["default"] else ""
    return f"| `{entry.name}` | {default} | {entry.columns['type']} | {_in_cell(entry.meaning)} |"


def _default(field: FieldInfo) -> str:
    return "" if field.is_required() else f"`{yaml_line(field.default)}`"


def _in_cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def _table(rows: Iterable[str]) -> str:
    return "\n".join(["| setting | default | value | meaning |", "|---|---|---|---|", *rows])


def training_page() -> str:
    """What docs/training.md should be: as it is, with the strategies that there are."""
    rows = [
        f"| `{name}` | {', '.join(each.kinds)} | {each.idea} |"
        for name, each in strategies().items()
    ]
    table = "\n".join(["| strategy | for tasks | idea |", "|---|---|---|", *rows])
    before, begins, rest = (DOCS / "training.md").read_text(encoding="utf-8").partition(BEGIN)
    _, ends, after = rest.partition(END)
    return f"{before}{begins}\n\n{table}\n\n{ends}{after}"


BEGIN, END = "<!-- strategies -->", "<!-- end of strategies -->"


def main() -> None:
    """Write the pages."""
    (DOCS / "training.md").write_text(training_page(), encoding="utf-8")
    (DOCS / "cli.md").write_text(cli_page(), encoding="utf-8")
    (DOCS / "settings.md").write_text(settings_page(), encoding="utf-8")


if __name__ == "__main__":
    main()
