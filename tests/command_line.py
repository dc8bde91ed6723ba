"""Running the commands as a shell does: real processes, pipes and signals."""

import functools
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

from small_runs import SETTINGS

STACKTRANS = (sys.executable, "-m", "stacktrans")
ENVIRONMENT = {**os.environ, "COLUMNS": "200", "OMP_NUM_THREADS": "1"}
ENVIRONMENT.pop("NO_COLOR", None)
SMALL = [word for setting in (*SETTINGS, "accuracy_every=5") for word in ("--set", setting)]


def run(
    *arguments: str | Path, stdin: bytes | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[bytes]:
    done = subprocess.run(
        [*STACKTRANS, *map(str, arguments)],
        input=b"" if stdin is None else stdin,
        capture_output=True,
        env=ENVIRONMENT,
        cwd=cwd,
        check=False,
        timeout=240,
    )
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    return done


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
