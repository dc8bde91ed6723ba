"""The application, and the exit codes of failing commands."""

import contextlib
import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from stacktrans import __version__
from stacktrans.common.errors import StacktransError, is_out_of_memory
from stacktrans.common.messages import INTERRUPTED, complain, silence
from stacktrans.common.registry import blamed, use_plugins
from stacktrans.common.visible import visible


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
    """Register a command, with `--plugin`, and with messages and exit codes for its errors."""

    @functools.wraps(function)
    def guarded(*, plugin: list[str] | None, **options: Any) -> None:
        try:
            use_plugins(*plugin or [])
            function(**options)
            sys.stdout.flush()
        except (Exception, KeyboardInterrupt) as error:
            code, problems = _ending(error)
            if problems:
                complain(*problems)
            raise typer.Exit(code) from None

    declared = inspect.signature(function)
    option = inspect.Parameter("plugin", inspect.Parameter.KEYWORD_ONLY, default=None)
    option = option.replace(annotation=PluginOption)
    parameters = [*declared.parameters.values(), option]
    guarded.__signature__ = declared.replace(parameters=parameters)  # type: ignore[attr-defined]
    guarded.__annotations__ = {**function.__annotations__, "plugin": PluginOption}
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
        silence(sys.stdout)
        where = f"{error.filename}: " if error.filename else "standard output: "
        closed = isinstance(error, BrokenPipeError)
        return (0, []) if closed else (1, [f"{where}{error.strerror}"])
    if said := blamed(error):
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
