"""Generate the pages of docs/ that follow from the code.

    python docs/generate.py

This writes docs/cli.md from --help, docs/settings.md from the settings of a run, and the tables of
strategies and of the fields of metrics.jsonl in docs/training.md.
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
from stacktrans.commands.options import items
from stacktrans.common.documents import yaml_line
from stacktrans.settings.config import RunConfig
from stacktrans.settings.model_config import ControllerConfig, MemoryConfig
from stacktrans.settings.resolve import strategies
from stacktrans.settings.schema import meanings, section_classes
from stacktrans.settings.values import PartConfig
from stacktrans.training.records import Record

DOCS = Path(__file__).parent
HEADING = """# The commands

The `--help` of each command. Written by `python docs/generate.py`."""
CONVENTIONS = """Data goes to stdout; progress, notes and errors go to stderr. The exit code is 0 on
success, 1 if the work failed, a checkpoint could not be read or a line of data was wrong, 2 if the
command or a file of settings or of a task was wrong, 130 after Ctrl-C and 143 after SIGTERM. A run
that ends without having solved its task is a success: its `summary.json` says how it ended
(`outcome`).

An output FILE replaces an existing file of that name; but `eval`, `extract` and `generate` refuse
to replace a file that they read. The DIR of a new run
must be new or empty, and that of a machine must not exist yet; `compare` and `sweep` continue
theirs."""


def cli_page() -> str:
    """The contents of docs/cli.md."""
    group: Any = get_command(app)
    context = group.make_context("stacktrans", [], resilient_parsing=True)
    sections = ["\n\n".join(_section(group, context, title="stacktrans COMMAND"))]
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        inner = type(context)(command, info_name=name, parent=context)
        sections.append("\n\n".join(_section(command, inner, title=f"stacktrans {name}")))
    return "\n\n".join([HEADING, CONVENTIONS, *sections]) + "\n"


def _section(command: Any, context: Any, title: str) -> Iterator[str]:
    """The section of a command: usage, description, examples, arguments and options."""
    yield f"## {title}"
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    yield f"`{usage}`"
    described, _, examples = inspect.cleandoc(command.help or "").partition("\n\n    ")
    yield described
    yield "```sh\n" + inspect.cleandoc("    " + examples) + "\n```"
    parameters = command.get_params(context)
    rows = [row for parameter in parameters if (row := _option_row(parameter, context))]
    yield "\n".join(["| argument or option | meaning |", "|---|---|", *rows])


def _option_row(parameter: Any, context: Any) -> str | None:
    """A row of the table of options, or None if the option has no help."""
    record = parameter.get_help_record(context)
    if record is None:
        return None
    name, meaning = (part.replace("|", "\\|") for part in record)
    return f"| `{name.rstrip()}` | {re.sub(_BRACKETS, _IN_PARENTHESES, meaning)} |"


_BRACKETS, _IN_PARENTHESES = r"  \[(.*)\]$", r" (\1)"


SETTINGS = """# Settings

The settings of a run are changed by `--set KEY=VALUE`, in a file for `--config`, in a recipe, in a
task file or in a sweep. A key is a path such as `training.learning_rate`, or the end of a path,
`learning_rate`, if it is unique. Written by `python docs/generate.py`.

Defaults apply where no recipe says otherwise (`stacktrans list recipes`); most defaults mean
"off". A section that is `null` by default has to be given with all of its settings that have no
default; `--set SECTION=null` turns it off. `training.data` and `training.stop` contain
alternatives, and one that is set replaces the others. A memory and a controller are chosen by
name, `model.memory: queue`, or with their own settings, `model.memory: {name: stack-rnn, count:
4}`; settings in a recipe that the chosen one does not have are ignored. A combination of memories
has one name, `queue+stack`, and the settings of a stack or a queue, which apply to each."""


def settings_page() -> str:
    """The contents of docs/settings.md."""
    by_section: dict[str, list[Entry]] = {}
    for entry in settings():
        path = entry.name.split(".")
        section = ".".join(path[:-1][:2]) or "run"
        by_section.setdefault(section, []).append(entry)
    parts = [SETTINGS]
    for section, entries in by_section.items():
        parts += [f"## {section}", *_meaning(section), _table(map(_row, entries))]
        if section == "model":
            choices: dict[str, Mapping[str, type[PartConfig]]] = {
                "memory": MemoryConfig.CONFIG_CLASSES,
                "controller": ControllerConfig.CONFIG_CLASSES,
            }
            parts += [text for part, configs in choices.items() for text in _named(part, configs)]
    return "\n\n".join(parts) + "\n"


def _meaning(section: str) -> Iterator[str]:
    """The meaning of a section."""
    config: type[BaseModel] = RunConfig
    *outer, last = section.split(".")
    for name in outer:
        (config,) = section_classes(config.model_fields[name])
    if last in config.model_fields:
        meaning = meanings(config)[last]
        yield meaning[0].upper() + meaning[1:]


def _named(part: str, configs: Mapping[str, type[PartConfig]]) -> Iterator[str]:
    """The settings of memories or controllers, in one table for all with the same settings."""
    for config in dict.fromkeys(configs.values()):
        names = [f"`{name}`" for name, own in configs.items() if own is config]
        yield f"### model.{part}: {', '.join(names)}"
        texts = meanings(config)
        yield _table(
            f"| `{name}` | {_default(field)} | {type_of(field)} | {_in_cell(texts[name])} |"
            for name, field in config.model_fields.items()
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
    """The contents of docs/training.md, with its tables of strategies and of fields replaced."""
    kinds = {name: ", ".join(strategy.kinds) for name, strategy in strategies().items()}
    tables = {
        "strategies": [
            "| strategy | for tasks | idea |",
            "|---|---|---|",
            *(f"| `{name}` | {kinds[name]} | {each.idea} |" for name, each in strategies().items()),
        ],
        "metrics": [
            "| field | meaning |",
            "|---|---|",
            *(
                f"| `{name}` | {_in_cell(meaning).replace('None', 'null')} |"
                for name, meaning in items(Record).items()
            ),
        ],
    }
    page = (DOCS / "training.md").read_text(encoding="utf-8")
    for name, rows in tables.items():
        before, begin, rest = page.partition(f"<!-- {name} -->")
        _, end, after = rest.partition(f"<!-- end of {name} -->")
        page = "".join([before, begin, "\n\n", "\n".join(rows), "\n\n", end, after])
    return page


def main() -> None:
    """Write all generated pages."""
    (DOCS / "training.md").write_text(training_page(), encoding="utf-8")
    (DOCS / "cli.md").write_text(cli_page(), encoding="utf-8")
    (DOCS / "settings.md").write_text(settings_page(), encoding="utf-8")


if __name__ == "__main__":
    main()
