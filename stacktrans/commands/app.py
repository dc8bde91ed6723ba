"""The application, and how a failing command ends."""

import contextlib
import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperGroup

from stacktrans import __version__
from stacktrans.commands.terminal import silence_stdout
from stacktrans.common.errors import StacktransError
from stacktrans.common.messages import complain
from stacktrans.common.plugins import blamed
from stacktrans.common.registry import use_plugins
from stacktrans.common.visible import visible


@contextlib.contextmanager
def _visible_complaints() -> Iterator[None]:
    """Escape what can't be seen in error messages that quote arguments."""
    try:
        yield
    except Exception as error:
        if isinstance(message := getattr(error, "message", None), str):
            error.message = visible(message)  # type: ignore[attr-defined]
        raise


class Commands(TyperGroup):
    """The commands, whose arguments do no harm when they are refused."""

    def make_context(self, *args: Any, **options: Any) -> Any:
        """Read the arguments before the command."""
        with _visible_complaints():
            return super().make_context(*args, **options)

    def invoke(self, ctx: Any) -> Any:
        """Read the arguments of the command, and run it."""
        with _visible_complaints():
            return super().invoke(ctx)


app = typer.Typer(
    name="stacktrans",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)

R = TypeVar("R")
INTERRUPTED = 130
PluginOption = Annotated[
    list[str] | None,
    typer.Option(
        "--plugin",
        metavar="FILE",
        help="Use the memories, controllers and generators of this Python file; may be repeated.",
    ),
]


def command(function: Callable[..., R]) -> None:
    """Register a command, which knows plugins, and whose failures end in a message and a code."""

    @functools.wraps(function)
    def guarded(*, plugin: list[str] | None, **options: Any) -> R:
        try:
            use_plugins(*plugin or [])
            result = function(**options)
            sys.stdout.flush()
            return result
        except StacktransError as error:
            complain(*error.problems)
            raise typer.Exit(error.exit_code) from None
        except BrokenPipeError:
            silence_stdout()
            raise typer.Exit(0) from None
        except OSError as error:
            silence_stdout()
            where = f"{error.filename}: " if error.filename else "standard output: "
            complain(f"{where}{error.strerror}")
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except Exception as error:
            if said := blamed(error):
                complain(said)
                raise typer.Exit(1) from None
            if not (isinstance(error, MemoryError) or "allocate memory" in str(error)):
                raise
            complain("not enough memory for sizes, lengths or batches as large as these")
            raise typer.Exit(1) from None

    declared = inspect.signature(function)
    option = inspect.Parameter("plugin", inspect.Parameter.KEYWORD_ONLY, default=None)
    option = option.replace(annotation=PluginOption)
    parameters = [*declared.parameters.values(), option]
    guarded.__signature__ = declared.replace(parameters=parameters)  # type: ignore[attr-defined]
    guarded.__annotations__ = {**function.__annotations__, "plugin": PluginOption}
    app.command()(guarded)


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
    """Train, evaluate and look into stack-augmented transducers.

    Recurrent networks that learn to operate a differentiable stack, queue,
    double-ended queue or list, and so learn string-to-string algorithms that
    work far beyond the lengths they were trained on.

        stacktrans list tasks
        stacktrans train --task copy --memory queue
        stacktrans eval checkpoints/copy-queue --lengths 65:128
        echo hello | stacktrans transduce checkpoints/reverse-stack
        stacktrans inspect checkpoints/reverse-stack hello
    """
