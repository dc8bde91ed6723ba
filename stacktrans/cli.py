"""The command line.

Nothing heavy is imported at the top of a command's file: `--help` must answer at once.
"""

import atexit
import contextlib
import functools
import gc
import importlib
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from inspect import Parameter, getdoc, signature
from pathlib import Path
from typing import Annotated, Any, TextIO, cast

import typer
from typer.core import TyperGroup

from stacktrans.commands import completion
from stacktrans.commands.options import items, option_of
from stacktrans.commands.terminal import open_standard_streams
from stacktrans.common import __version__
from stacktrans.common.errors import StacktransError, is_out_of_memory
from stacktrans.common.messages import INTERRUPTED, OptionalStream, discard_output, print_message
from stacktrans.common.registry import plugin_error, use_plugins
from stacktrans.common.visible import visible

__all__ = ["app", "main"]


@contextlib.contextmanager
def _escaped() -> Iterator[None]:
    """Escape what can't be seen in error messages that quote arguments."""
    try:
        yield
    except Exception as error:
        if isinstance(message := getattr(error, "message", None), str):
            error.message = visible(message)  # type: ignore[attr-defined]
        raise


class Commands(TyperGroup):
    """The commands; arguments are quoted safely in messages about them."""

    make_context = _escaped()(TyperGroup.make_context)
    invoke = _escaped()(TyperGroup.invoke)


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
        help="Use the memories, controllers and generators of this Python file; may be repeated.",
    ),
]


def command(function: Callable[..., None]) -> None:
    """Register a command, with `--plugin`, and with messages and exit codes for its errors.

    The help of its options is what its docstring says of them under "Args".
    """

    @functools.wraps(function)
    def guarded(*, plugin: list[str] | None, **options: Any) -> None:
        try:
            use_plugins(*plugin or [])
            function(**options)
            sys.stdout.flush()
        except (Exception, KeyboardInterrupt) as error:
            code, problems = _ending(error)
            if problems:
                print_message(*problems)
            raise typer.Exit(code) from None

    declared, meanings = signature(function), items(function)
    plugin_option = Parameter("plugin", Parameter.KEYWORD_ONLY, annotation=PluginOption)
    parameters = [
        each.replace(annotation=option_of(each, meanings.get(each.name)))
        for each in declared.parameters.values()
    ]
    parameters.append(plugin_option.replace(default=None))
    guarded.__doc__ = (getdoc(function) or "").partition("\nArgs:\n")[0]
    guarded.__signature__ = declared.replace(parameters=parameters)  # type: ignore[attr-defined]
    guarded.__annotations__ = {each.name: each.annotation for each in parameters}
    app.command()(guarded)


def _ending(error: BaseException) -> tuple[int, Sequence[str]]:
    """The exit code and messages of a command that failed; raises the error if it is a bug."""
    if isinstance(error, typer.Exit):
        raise error
    if isinstance(error, StacktransError):
        return error.exit_code, error.problems
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED, []
    if isinstance(error, OSError):
        discard_output(sys.stdout)
        where = f"{error.filename}: " if error.filename else "standard output: "
        closed = isinstance(error, BrokenPipeError)
        return (0, []) if closed else (1, [f"{where}{error.strerror}"])
    if said := plugin_error(error):
        return 1, [said]
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

    Recurrent networks that learn to operate a differentiable stack, queue,
    double-ended queue or list, and so learn string-to-string algorithms that
    work far beyond the lengths they were trained on.

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
    "sweep": "sweep",
    "list": "listing",
}
"""The commands, in the order of the help, and the file of each in commands/."""


def _called() -> list[str]:
    """The command that the program was called with; all of them if that is not known yet."""
    program, *arguments = sys.argv
    is_own = Path(program).name in (completion.PROGRAM, "__main__.py")
    return arguments[:1] if is_own and arguments and arguments[0] in COMMANDS else [*COMMANDS]


for each in _called():
    command(getattr(importlib.import_module(f"stacktrans.commands.{COMMANDS[each]}"), each))


def main() -> None:
    """Run the command line."""
    # Half a second of every end would go into looking for what can be freed in modules.
    atexit.register(gc.freeze)
    open_standard_streams()
    completion.prepare()
    # A wrong command decides the exit code even if that can't be said.
    with contextlib.redirect_stderr(cast(TextIO, OptionalStream(sys.stderr))):
        try:
            app(prog_name=completion.PROGRAM)
        except SystemExit as end:
            if isinstance(end.__context__, BrokenPipeError):
                # Whoever read the help has read enough.
                raise SystemExit(0) from None
            raise
        except (OSError, UnicodeError) as error:
            if completion.INSTALL in sys.argv:  # in files of a shell
                print_message(f"completion can't be installed: {error}")
            else:
                discard_output(sys.stdout)
                print_message(f"standard output: {getattr(error, 'strerror', error)}")
            raise SystemExit(1) from None
        finally:
            # All is done; what runs at exit would only show a traceback.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
