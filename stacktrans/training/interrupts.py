"""Ctrl-C and SIGTERM: training is asked to stop, and is saved before it does."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Protocol

from stacktrans.common.messages import print_message


class Interrupted(Exception):
    """A run was asked to stop, perhaps by a signal; it is saved and can be resumed."""

    def __init__(self, signal_number: int) -> None:
        self.exit_code = 128 + signal_number


class Stoppable(Protocol):
    """Work that ends, and is saved, after `stop_requested` is set to a signal's number."""

    stop_requested: int


@contextlib.contextmanager
def stopping(run: Stoppable) -> Iterator[None]:
    """Ask a run to stop on the first Ctrl-C or SIGTERM; end at once on the second.

    Only the main thread can receive signals; in others nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def request(number: int, frame: object) -> None:
        if run.stop_requested:
            raise KeyboardInterrupt
        run.stop_requested = number
        again = "interrupt again to quit immediately"
        print_message(f"stopping after this batch or measurement; {again}")

    numbers = (signal.SIGINT, signal.SIGTERM)
    heeded = [each for each in numbers if signal.getsignal(each) is not signal.SIG_IGN]
    before = {number: signal.signal(number, request) for number in heeded}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
