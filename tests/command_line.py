"""Running the commands: in this process, or as a shell does, with real pipes and signals."""

import contextlib
import functools
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from small_runs import SETTINGS

from stacktrans.cli import app

STACKTRANS = (sys.executable, "-m", "stacktrans")
ENVIRONMENT = {**os.environ, "COLUMNS": "200", "OMP_NUM_THREADS": "1"}
for name in ("NO_COLOR", "PYTHONUNBUFFERED"):
    ENVIRONMENT.pop(name, None)
TRAIN = ("train", "--recipe", "default")
"""The command for a single run, with no race of strategies."""
SMALL = [word for setting in (*SETTINGS, "accuracy_every=5") for word in ("--set", setting)]


class Ended(NamedTuple):
    """How a command ended.

    Attributes:
        returncode: its exit code; None after an exception that no user should see.
        stdout: what it printed.
        stderr: what it printed there; the traceback of an exception.
    """

    returncode: int | None
    stdout: bytes
    stderr: bytes

    @property
    def out(self) -> str:
        """What it printed, as text."""
        return self.stdout.decode()

    @property
    def err(self) -> str:
        """What it printed on standard error, as text."""
        return self.stderr.decode()


def run(*arguments: str | Path, stdin: bytes = b"", cwd: Path | None = None) -> Ended:
    """Run a command in this process, with COLUMNS=200 but no terminal."""
    with _variable("COLUMNS", ENVIRONMENT["COLUMNS"]), contextlib.chdir(cwd or Path.cwd()):
        ended = invoke(*arguments, stdin=stdin)
    assert b"Traceback" not in ended.stderr, ended.stderr.decode()
    return ended


def invoke(*arguments: str | Path, stdin: bytes = b"") -> Ended:
    """Run a command in this process, with standard streams that are files."""
    before = sys.stdin, sys.stdout, sys.stderr, sys.argv
    code: int | None = 0
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        paths = [Path(folder) / name for name in ("stdin", "stdout", "stderr")]
        paths[0].write_bytes(stdin)
        sys.stdin, sys.stdout, sys.stderr = (
            stack.enter_context(open(path, mode, encoding="utf-8", errors="backslashreplace"))
            for path, mode in zip(paths, "rww", strict=True)
        )
        sys.argv = ["stacktrans", *map(str, arguments)]
        try:
            app(sys.argv[1:])
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
        except BaseException:  # what the user would see as a traceback
            code = None
            traceback.print_exc()
        finally:
            sys.stdin, sys.stdout, sys.stderr, sys.argv = before
            stack.close()
        return Ended(code, paths[1].read_bytes(), paths[2].read_bytes())


@contextlib.contextmanager
def _variable(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        os.environ.pop(name)
        os.environ.update({name: before} if before is not None else {})


def start(
    *arguments: str | Path, cwd: Path | None = None, stdin: bool = False
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*STACKTRANS, *map(str, arguments)],
        stdin=subprocess.PIPE if stdin else None,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
        cwd=cwd,
        # As from a terminal, even if the tests run in the background, where Ctrl-C is ignored.
        preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )


def hint_after(process: subprocess.Popen[bytes], number: int) -> str:
    """The last line on standard error of a command that is interrupted by a signal, as it ends."""
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert "Traceback" not in errors.decode()
    return errors.decode().splitlines()[-1]


def wait_for(path: Path, size: int = 1) -> None:
    for _ in range(1200):
        if path.exists() and path.stat().st_size >= size:
            return
        time.sleep(0.05)
    raise AssertionError(f"{path} was not written")


def shell(command: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[bytes]:
    done = subprocess.run(
        ["bash", "-c", command.replace("stacktrans", shlex.join(STACKTRANS), 1)],
        capture_output=True,
        env={**ENVIRONMENT, **environment},
        cwd=cwd,
        check=False,
        timeout=240,
    )
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    return done
