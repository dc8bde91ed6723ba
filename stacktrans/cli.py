"""The command line's face: its commands, and where it begins.

Nothing heavy is imported at the top of a command's file: `--help` must answer at once.
"""

from stacktrans.commands import completion
from stacktrans.commands.app import INTERRUPTED, app, command
from stacktrans.commands.evaluate import eval
from stacktrans.commands.generate import generate
from stacktrans.commands.inspect import inspect
from stacktrans.commands.listing import list as list_
from stacktrans.commands.sweep import sweep
from stacktrans.commands.terminal import open_standard_streams
from stacktrans.commands.train import train
from stacktrans.commands.transduce import transduce
from stacktrans.common.messages import complain

__all__ = ["app", "main"]

for each in (generate, train, eval, transduce, inspect, sweep, list_):
    command(each)


def main() -> None:
    """The entry point."""
    open_standard_streams()
    completion.prepare()
    try:
        app(prog_name=completion.PROGRAM)
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    except (OSError, UnicodeError) as error:  # in files of a shell, to install completion in
        complain(f"completion can't be installed: {error}")
        raise SystemExit(1) from None
