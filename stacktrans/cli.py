"""The command line.

Nothing heavy is imported at the top of a command's file: `--help` must answer at once.
"""

import atexit
import contextlib
import gc
import signal
import sys
from typing import TextIO, cast

from stacktrans.commands import completion
from stacktrans.commands.app import app, command
from stacktrans.commands.evaluate import eval
from stacktrans.commands.extract import extract
from stacktrans.commands.generate import generate
from stacktrans.commands.inspect import inspect
from stacktrans.commands.listing import list as list_
from stacktrans.commands.sweep import sweep
from stacktrans.commands.terminal import open_standard_streams
from stacktrans.commands.train import train
from stacktrans.commands.transduce import transduce
from stacktrans.commands.verify import verify
from stacktrans.common.messages import Dispensable, complain, silence

__all__ = ["app", "main"]

for each in (generate, train, eval, transduce, inspect, verify, extract, sweep, list_):
    command(each)


def main() -> None:
    """Run the command line."""
    # Half a second of every end would go into looking for what can be freed in modules.
    atexit.register(gc.freeze)
    open_standard_streams()
    completion.prepare()
    # A wrong command decides the exit code even if that can't be said.
    with contextlib.redirect_stderr(cast(TextIO, Dispensable(sys.stderr))):
        try:
            app(prog_name=completion.PROGRAM)
        except SystemExit as end:
            if isinstance(end.__context__, BrokenPipeError):
                # Whoever read the help has read enough.
                raise SystemExit(0) from None
            raise
        except (OSError, UnicodeError) as error:
            if completion.INSTALL in sys.argv:  # in files of a shell
                complain(f"completion can't be installed: {error}")
            else:
                silence(sys.stdout)
                complain(f"standard output: {getattr(error, 'strerror', error)}")
            raise SystemExit(1) from None
        finally:
            # All is done; what runs at exit would only show a traceback.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
