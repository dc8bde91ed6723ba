"""The application, and what becomes of a command that fails."""

import functools
import sys
from collections.abc import Callable
from typing import Annotated, ParamSpec, TypeVar

import typer

from stacktrans import __version__
from stacktrans.errors import StacktransError
from stacktrans.terminal import complain, silence_stdout

app = typer.Typer(
    name="stacktrans",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)

P = ParamSpec("P")
R = TypeVar("R")
INTERRUPTED = 130


def command(function: Callable[P, R]) -> Callable[P, R]:
    """Register a command whose failures end in a message and an exit code."""

    @app.command()
    @functools.wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            result = function(*args, **kwargs)
            sys.stdout.flush()
            return result
        except StacktransError as error:
            complain(str(error))
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
        except (MemoryError, RuntimeError) as error:
            if not (isinstance(error, MemoryError) or "allocate memory" in str(error)):
                raise
            complain("not enough memory for sizes, lengths or a batch as large as these")
            raise typer.Exit(1) from None

    return guarded


def _version(wanted: bool) -> None:
    if wanted:
        print(f"stacktrans {__version__}")
        raise typer.Exit


@app.callback()
def stacktrans(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which version.")
    ] = False,
) -> None:
    """Train, evaluate and look into stack-augmented transducers.

    Recurrent networks that learn to operate a differentiable stack, queue,
    double-ended queue or list, and so learn string-to-string algorithms that
    hold far beyond the lengths they were trained on.

        stacktrans list tasks
        stacktrans train --task copy --memory queue
        stacktrans eval checkpoints/copy-queue --lengths 65:128
        echo hello | stacktrans transduce checkpoints/reverse-stack
        stacktrans inspect checkpoints/reverse-stack hello
    """
