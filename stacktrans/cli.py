"""The Typer application: registers and loads commands, and turns errors into exit codes.

Files of commands import nothing slow at the top, so that `--help` answers at once.
"""

import atexit
import contextlib
import errno
import functools
import gc
import importlib
import re
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from inspect import Parameter, getdoc, signature
from pathlib import Path
from typing import Annotated, Any, TextIO, cast

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup

from stacktrans.commands import completion
from stacktrans.commands.options import items, with_help
from stacktrans.commands.terminal import open_standard_streams
from stacktrans.common import __version__
from stacktrans.common.errors import StacktransError, is_out_of_memory, plain_words
from stacktrans.common.messages import INTERRUPTED, OptionalStream, discard_output, print_message
from stacktrans.common.registry import plugin_error, use_plugins

__all__ = ["app", "main"]

ERRORS_OF_OUTPUT = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF}
"""Error numbers of failed writes; for standard output, such an error names no file."""


@contextlib.contextmanager
def _in_one_style() -> Iterator[None]:
    """Print the error messages of Typer like all others."""
    try:
        yield
    except Exception as error:
        if not (hasattr(error, "format_message") and error.format_message()):
            raise  # not an error of Typer, or one without a message, after the help
        print_message(_complaint(error))
        raise typer.Exit(cast(Any, error).exit_code) from None


def _complaint(error: Any) -> str:
    """The message of an error of Typer, which begins with the option and refers to the help."""
    message = re.sub(r"^Invalid value for '(.+?)'", r"\1", plain_words(error.format_message()))
    if near := getattr(error, "possibilities", None):  # the nearest first
        message = f"{error.message}; did you mean '{near[0]}'?"
    command = error.ctx.command_path if error.ctx else completion.PROGRAM
    see = " See" if message.endswith("?") else "; see"
    return f"{message[0].lower()}{message[1:].rstrip('.')}{see} {command} --help"


class Command(TyperCommand):
    """A command whose help shows the names of arguments without brackets and types of Python."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The words of the usage line."""
        pieces = super().collect_usage_pieces(ctx)
        return [re.sub(r"[{}]|(?<=\[)\[|\](?=\])", "", piece) for piece in pieces]

    def get_params(self, ctx: Any) -> list[Any]:
        """The arguments and options."""
        return without_types(super().get_params(ctx))


class Commands(TyperGroup):
    """The group of commands, with error messages like those of their work."""

    make_context = _in_one_style()(TyperGroup.make_context)
    invoke = _in_one_style()(TyperGroup.invoke)

    def get_params(self, ctx: Any) -> list[Any]:
        """The options."""
        return without_types(super().get_params(ctx))


def without_types(parameters: list[Any]) -> list[Any]:
    """Parameters whose help does not show types of Python, such as `<bool>`."""
    for parameter in parameters:
        if isinstance(parameter, TyperArgument) or parameter.metavar is None:
            parameter.display_type_rich = lambda ctx: ""
    return parameters


app = typer.Typer(
    name="stacktrans",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)

PluginOption = Annotated[
    list[str] | None,
    typer.Option(
        "--plugin",
        metavar="FILE",
        help="Load memories, controllers and generators from this Python file; may be repeated.",
    ),
]


def command(function: Callable[..., None], panels: Mapping[str, str]) -> None:
    """Register a command, add `--plugin` to it, and turn its errors into messages and exit codes.

    The help of its options is taken from the section "Args" of its docstring.

    Args:
        function: which runs the command.
        panels: the parameters in each panel of the help; others are in the first one.
    """

    @functools.wraps(function)
    def guarded(*, plugin: list[str] | None, **options: Any) -> None:
        try:
            use_plugins(*plugin or [])
            function(**options)
            sys.stdout.flush()
        except (Exception, KeyboardInterrupt) as error:
            code, messages = _exit_of(error)
            if messages:
                print_message(*messages)
            raise typer.Exit(code) from None

    declared, meanings = signature(function), items(function)
    plugin_option = Parameter("plugin", Parameter.KEYWORD_ONLY, annotation=PluginOption)
    panel_of = {name: panel for panel, names in panels.items() for name in names.split()}
    parameters = [
        with_help(option, meanings.get(option.name), panel_of.get(option.name))
        for option in (*declared.parameters.values(), plugin_option.replace(default=None))
    ]
    guarded.__doc__ = (getdoc(function) or "").partition("\nArgs:\n")[0]
    guarded.__signature__ = declared.replace(parameters=parameters)  # type: ignore[attr-defined]
    guarded.__annotations__ = {option.name: option.annotation for option in parameters}
    app.command(cls=Command)(guarded)


def _exit_of(error: BaseException) -> tuple[int, Sequence[str]]:
    """The exit code and messages for an error of a command; raises it again if it is a bug."""
    if isinstance(error, typer.Exit):
        raise error
    if isinstance(error, StacktransError):
        return error.exit_code, error.problems
    # Pydantic wraps an interrupt of its serialization.
    if isinstance(error, KeyboardInterrupt) or isinstance(error.__cause__, KeyboardInterrupt):
        return INTERRUPTED, []
    if isinstance(error, OSError):
        try:
            sys.stdout.flush()  # what was printed is kept if it is another file that failed
        except OSError:
            discard_output(sys.stdout)
        if isinstance(error, BrokenPipeError):
            return 0, []
        of_output = "standard output" if error.errno in ERRORS_OF_OUTPUT else None
        where, what = error.filename or of_output, error.strerror or str(error)
        return 1, [f"{where}: {what}" if where else what]
    if message := plugin_error(error):
        return 1, [message]
    if is_out_of_memory(error):
        return 1, ["not enough memory for sizes, lengths or batches as large as these"]
    raise error


def _version(wanted: bool) -> None:
    if wanted:
        print(f"stacktrans {__version__}")
        raise typer.Exit


@app.callback()
def stacktrans(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Train, evaluate and inspect stack-augmented transducers.

    These are recurrent networks that learn to operate a differentiable stack,
    queue, double-ended queue, list or tape. The string-to-string algorithms that
    they learn work far beyond the lengths that they were trained on.

        stacktrans list tasks
        stacktrans train --task copy --memory queue
        stacktrans eval checkpoints/copy-queue --lengths 65:128
        echo hello | stacktrans transduce checkpoints/reverse-stack
        stacktrans inspect checkpoints/reverse-stack hello
    """


COMMANDS = {
    "generate": "generate",
    "train": "train",
    "eval": "evaluate",
    "transduce": "transduce",
    "inspect": "inspect",
    "verify": "verify",
    "extract": "extract",
    "compare": "compare",
    "sweep": "sweep",
    "plot": "plot",
    "list": "listing",
}
"""The commands, in the order of the help, and the module of each in `stacktrans.commands`."""


def _needed_commands() -> list[str]:
    """The command that the program was called with; all of them if it is not known."""
    program, *arguments = sys.argv
    is_program = Path(program).name in (completion.PROGRAM, "__main__.py")
    return arguments[:1] if is_program and arguments and arguments[0] in COMMANDS else [*COMMANDS]


for name in _needed_commands():
    module = importlib.import_module(f"stacktrans.commands.{COMMANDS[name]}")
    command(getattr(module, name), getattr(module, "PANELS", {}))


def main() -> None:
    """Run the command line."""
    # Otherwise garbage collection of all modules would take half a second at exit.
    atexit.register(gc.freeze)
    open_standard_streams()
    completion.prepare()
    # The exit code is right even if an error message can't be written.
    with contextlib.redirect_stderr(cast(TextIO, OptionalStream(sys.stderr))):
        try:
            try:
                app(prog_name=completion.PROGRAM)
            finally:  # at exit, an error of what is still in the buffer would get no message
                sys.stdout.flush()
        except SystemExit as end:
            if isinstance(end.__context__, BrokenPipeError):
                raise SystemExit(0) from None  # the reader of the help has closed the pipe
            raise
        except BrokenPipeError as error:
            discard_output(sys.stdout)
            before = error.__context__
            raise SystemExit(before.code if isinstance(before, SystemExit) else 0) from None
        except (OSError, UnicodeError) as error:
            if completion.INSTALL in sys.argv:  # the start-up file of the shell can't be written
                print_message(f"completion can't be installed: {error}")
            else:
                discard_output(sys.stdout)
                print_message(f"standard output: {getattr(error, 'strerror', error)}")
            raise SystemExit(1) from None
        finally:
            # An interrupt of what runs at exit would only show a traceback.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
