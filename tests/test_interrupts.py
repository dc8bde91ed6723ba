"""Ctrl-C where nothing is to be saved: while modules are imported, at exit, and in workers."""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from command_line import ENVIRONMENT, SMALL, STACKTRANS

from stacktrans.training.race_state import read_race

INTERRUPT = """
import atexit, os, signal, sys

def interrupt():
    os.kill(os.getpid(), signal.SIGINT)

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["AT"]:
            try:
                interrupt()
            except KeyboardInterrupt:
                raise RuntimeError("as pydantic does it") from None

sys.meta_path.insert(0, Finder())
if os.environ["AT"] == "exit":
    atexit.register(interrupt)
if os.environ["AT"] == "workers" and any("popen_loky" in word for word in sys.orig_argv):
    interrupt()
"""
"""The module `sitecustomize`, which Python loads at its start in every process: it interrupts the
process at the moment that the environment variable `AT` names."""

(SCRIPT,) = entry_points(group="console_scripts", name="stacktrans")
CALL = f"import sys; from {SCRIPT.module} import {SCRIPT.attr}; sys.exit({SCRIPT.attr}())"
INSTALLED = (sys.executable, "-c", CALL)
TRAIN = ("train", "--task", "copy", *SMALL)


def interrupted(
    at: str, *command: str, cwd: Path, handler: signal.Handlers = signal.SIG_DFL
) -> subprocess.CompletedProcess[str]:
    """Run a command that is interrupted at a moment; `handler` says what it inherits for SIGINT."""
    (cwd / "sitecustomize.py").write_text(INTERRUPT)
    path = os.pathsep.join([str(cwd), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        command,
        env={**ENVIRONMENT, "PYTHONPATH": path, "AT": at},
        capture_output=True,
        text=True,
        cwd=cwd,
        check=False,
        timeout=240,
        preexec_fn=lambda: signal.signal(signal.SIGINT, handler),
    )


@pytest.mark.parametrize(
    ("entry", "at"),
    [
        (STACKTRANS, "stacktrans.cli"),
        (INSTALLED, "stacktrans.cli"),
        (STACKTRANS, "typer"),
        (STACKTRANS, "stacktrans.commands.catalogue"),
    ],
)
def test_an_interrupt_while_a_command_is_imported_ends_it_silently(
    entry: Sequence[str], at: str, tmp_path: Path
) -> None:
    done = interrupted(at, *entry, "list", "tasks", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.parametrize("at", ["pydantic", "torch"])
def test_an_interrupt_while_libraries_are_imported_ends_a_command_silently(
    at: str, tmp_path: Path
) -> None:
    command = (*TRAIN, "--strategies", "patient,wide", "--out", "run")
    done = interrupted(at, *STACKTRANS, *command, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_an_interrupt_that_is_ignored_has_no_effect(tmp_path: Path) -> None:
    done = interrupted("typer", *STACKTRANS, "list", cwd=tmp_path, handler=signal.SIG_IGN)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_interrupt_at_exit_changes_nothing(tmp_path: Path) -> None:
    done = interrupted("exit", *STACKTRANS, "list", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_workers_that_are_interrupted_as_they_start_and_have_no_streams_continue(
    tmp_path: Path,
) -> None:
    race = ("--strategies", "patient,wide", "--workers", "2", "--set", "kernel=torch")
    words = shlex.join([*STACKTRANS, *TRAIN, *race, "--max-steps", "5", "--out", "run"])
    done = interrupted("workers", "bash", "-c", f"{words} <&- >&- 2>&-", cwd=tmp_path)
    assert done.returncode == 0
    candidates = read_race(tmp_path / "run").candidates
    assert [each.failed for each in candidates.values()] == [None, None]
