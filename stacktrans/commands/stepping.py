"""Stepping through a trace in a terminal, by its keys."""

import contextlib
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator

from stacktrans.common.errors import UsageError

ALTERNATE, USUAL = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
"""What shows a screen of its own without a cursor, and what goes back to the usual one."""
CLEAR = "\x1b[H\x1b[2J"
KEY = re.compile(rb"\x1b\[[0-9;]*[A-Za-z~]|\x1bO[A-Z]|.", re.DOTALL)
BACK = {b"\x1b[D", b"\x1bOD", b"\x1b[A", b"\x1bOA", b"\x7f", b"\b"}
ON = {b"\x1b[C", b"\x1bOC", b"\x1b[B", b"\x1bOB", b" ", b"\r", b"\n"}
FIRST = {b"\x1b[H", b"\x1bOH", b"\x1b[1~", b"\x1b[7~"}
LAST = {b"\x1b[F", b"\x1bOF", b"\x1b[4~", b"\x1b[8~"}
QUIT = {b"q", b"Q"}


def check_terminal() -> None:
    """Raise `UsageError` unless there is a terminal whose keys can be read."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("--step needs a terminal as standard input and output")
    if os.environ.get("TERM", "dumb") == "dumb":
        raise UsageError("--step needs a terminal that can be cleared, and TERM says there is none")
    try:
        import termios  # noqa: F401
    except ImportError as error:
        raise UsageError("--step needs termios, which this platform does not have") from error


def step_through(count: int, screen: Callable[[int, int, int], list[str]]) -> None:
    """Show one of some screens, and others by the keys, until q is pressed or the input ends.

    Args:
        count: how many there are.
        screen: the lines of the one at a place from 0, of a width and a height in characters.
    """
    place = 0
    with _own_screen():
        while True:
            size = shutil.get_terminal_size()
            sys.stdout.write(CLEAR + "\n".join(screen(place, size.columns, size.lines)))
            sys.stdout.flush()
            pressed = os.read(sys.stdin.fileno(), 1024)
            keys = KEY.findall(pressed)
            if not keys or QUIT & {*keys}:
                return
            for key in keys:
                place = min(max(_moved(key, place, count), 0), count - 1)


def _moved(key: bytes, place: int, count: int) -> int:
    if key in FIRST:
        return 0
    if key in LAST:
        return count - 1
    return place + (key in ON) - (key in BACK)


@contextlib.contextmanager
def _own_screen() -> Iterator[None]:
    """A screen without what was there, where keys are given at once; all as before at the end."""
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    sys.stdout.write(ALTERNATE)
    try:
        tty.setcbreak(descriptor)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
        sys.stdout.write(USUAL)
        sys.stdout.flush()
