"""Stepping through a trace: what is on the screen, and the keys, in a terminal of its own."""

import contextlib
import fcntl
import itertools
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import ENVIRONMENT, STACKTRANS, run
from rich.cells import cell_len
from soft_models import SOFT
from traces import followed, never_popped

from stacktrans.commands.inspect import CLEAR, ENTER_SCREEN, LEAVE_SCREEN
from stacktrans.showing.step_screen import bar_of, screen

WIDTH, HEIGHT = 70, 24
SOURCE = "abc"


class Terminal:
    """A command that runs in a terminal, whose screens can be read and whose keys pressed."""

    def __init__(self, *arguments: str | Path, **environment: str) -> None:
        self._keys, inner = pty.openpty()
        fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, WIDTH, 0, 0))
        self.usual = termios.tcgetattr(inner)
        self._inner = inner
        known = {name: value for name, value in ENVIRONMENT.items() if name != "COLUMNS"}
        self._process = subprocess.Popen(
            [*STACKTRANS, *map(str, arguments)],
            stdin=inner,
            stdout=inner,
            stderr=inner,
            env={**known, "TERM": "xterm", **environment},
            preexec_fn=_in_the_foreground,
        )

    def printed(self, ends: str) -> str:
        """What is printed next, until it ends like this."""
        text = b""
        while not text.decode(errors="ignore").endswith(ends):
            ready, _, _ = select.select([self._keys], [], [], 30)
            assert ready, text
            text += os.read(self._keys, 65536)
        return text.decode()

    def screen(self) -> list[str]:
        """The lines of the next screen."""
        return self.printed("q: quit").split(CLEAR)[-1].split("\r\n")

    def press(self, keys: bytes) -> None:
        os.write(self._keys, keys)

    def ended(self) -> int:
        """The exit code."""
        return self._process.wait(30)

    def settings(self) -> list[object]:
        """What the terminal does with keys."""
        return termios.tcgetattr(self._inner)

    def close(self) -> None:
        self._process.kill()
        self._process.wait(30)
        os.close(self._keys)
        os.close(self._inner)


def _in_the_foreground() -> None:
    """Make the terminal the one whose Ctrl-C is for this process."""
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextlib.contextmanager
def terminal(*arguments: str | Path, **environment: str) -> Iterator[Terminal]:
    made = Terminal(*arguments, **environment)
    try:
        yield made
    finally:
        made.close()


def test_keys_go_through_the_steps() -> None:
    trace = followed("reverse-stack", SOURCE)
    steps = [screen(trace, place, WIDTH, HEIGHT) for place in range(len(trace.steps))]
    assert len({*map(tuple, steps)}) == 8
    with terminal("inspect", "reverse-stack", SOURCE, "--step") as shown:
        assert shown.screen() == steps[0]
        pressed = [(b"\x1b[C", 1), (b" ", 2), (b"\x1b[D", 1), (b"\x1b[D\x1b[D\x1b[D", 0)]
        pressed += [(b"\x1b[F", 7), (b"\x1b[C", 7), (b"\x1b[H", 0), (b"x", 0), (b"\x1bOC", 1)]
        for keys, place in pressed:
            shown.press(keys)
            assert shown.screen() == steps[place], keys
        shown.press(b"q")
        left = shown.printed("(right)\r\n")
        assert left.startswith(LEAVE_SCREEN)
        assert "answer: cba  (right)" in left
        assert shown.ended() == 0
        assert shown.settings() == shown.usual


def test_an_interrupt_leaves_the_terminal_as_it_was() -> None:
    with terminal("inspect", "reverse-stack", SOURCE, "--step") as shown:
        assert ENTER_SCREEN in shown.printed("q: quit")
        assert shown.settings() != shown.usual
        shown.press(b"\x03")
        assert shown.ended() == 130
        assert shown.settings() == shown.usual
        assert shown.printed(LEAVE_SCREEN).endswith(LEAVE_SCREEN)


def test_a_terminal_is_needed() -> None:
    done = run("inspect", "reverse-stack", SOURCE, "--step")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"--step needs a terminal as standard input and output" in done.stderr
    with terminal("inspect", "reverse-stack", SOURCE, "--step", TERM="dumb") as shown:
        assert "--step needs a terminal that can be cleared" in shown.printed("dumb\r\n")
        assert shown.ended() == 2


def test_a_screen_shows_the_current_symbols_and_the_rows_from_the_top() -> None:
    lines = screen(followed(str(SOFT / "reverse-stack"), SOURCE), 4, 80, 24)
    assert lines[1] == "step 5 of 8"
    assert lines[3:5] == ["input  <s> a b c [|||] c b a", "output           [c]"]
    assert [line.split()[0] for line in lines[7:12]] == ["|||@5", "c@4", "b@3", "a@2", "<s>@1"]
    assert re.fullmatch(r"pop  0\.7\d █+.?", lines[13])
    assert lines[15].startswith("read top:  b@3 0.7")
    last = screen(followed(str(SOFT / "reverse-stack"), SOURCE), 7, 80, 24)
    assert last[1] == "step 8 of 8; answer: cba  (right)"


@pytest.mark.parametrize("name", ["reverse-stack", "copy-deque", "anbncn"])
def test_a_screen_fits_and_cuts_no_number(name: str) -> None:
    trace = followed(name, "aabb")
    sizes = [(24, 12), (40, 15), (80, 24), (200, 60), (10, 3)]
    for place, (width, height) in itertools.product(range(len(trace.steps)), sizes):
        lines = screen(trace, place, width, height)
        assert len(lines) <= height
        assert max(map(cell_len, lines)) <= width
        for number in re.findall(r"(?<= )\d*\.\d*", "\n".join(lines) if width > 20 else ""):
            assert re.fullmatch(r"\d\.\d\d", number), lines


def test_long_memories_are_left_out_in_the_middle() -> None:
    lines = screen(never_popped(50), 49, 80, 24)
    shown = [line for line in lines if "@" in line]
    (left_out,) = (int(line.split()[1]) for line in lines if line.endswith(" more"))
    assert len(shown) + left_out == 50
    assert (shown[0].split()[0], shown[-1].split()[0]) == ("x@50", "a@1")
    assert len(lines) == 24


def test_what_has_no_room_is_hinted_at() -> None:
    lines = screen(followed("addition", "1+1="), 0, 60, 24)
    assert any(line.endswith("more lines; --stacks shows some of the stacks") for line in lines)
    assert not any("--stacks" in line for line in screen(followed("copy-queue", "a"), 0, 60, 8))


def test_invisible_characters_do_not_reach_the_screen() -> None:
    trace = never_popped(3)
    steps = [replace(step, input="\x1b[2J", output="\x9b", state="\x1b[3J") for step in trace.steps]
    text = "".join(screen(replace(trace, steps=steps), 2, 80, 24))
    assert "\x1b" not in text
    assert "\x9b" not in text
    assert "\\x1b[2J" in text


@pytest.mark.parametrize(
    ("strength", "expected"), [(0, ""), (1, "█" * 20), (0.5, "█" * 10), (0.03, "▋"), (2, "█" * 20)]
)
def test_bars_are_as_long_as_strengths(strength: float, expected: str) -> None:
    assert bar_of(strength) == expected
