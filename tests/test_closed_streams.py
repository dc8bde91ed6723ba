"""Commands and scripts whose standard streams are closed."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import shell

from stacktrans.common.messages import print_message

CLOSED = ("<&-", ">&-", "2>&-", "<&- >&-", "<&- 2>&-", ">&- 2>&-", "<&- >&- 2>&-")


def test_commands_need_no_standard_streams(model: Path, tmp_path: Path) -> None:
    assert shell(f"stacktrans transduce {model} <&-", tmp_path).returncode == 0
    assert shell(f"stacktrans inspect {model} abc >&-", tmp_path).returncode == 0
    done = shell(f"printf '€\\n' | stacktrans transduce {model} 2>&-", tmp_path)
    assert (done.returncode, done.stdout) == (1, b"\n")


@pytest.mark.parametrize("closed", CLOSED)
def test_child_processes_inherit_a_stream_for_each_that_is_closed(
    closed: str, tmp_path: Path
) -> None:
    child = "import json, os; json.dump([os.fstat(n).st_ino for n in range(3)], open('found', 'w'))"
    code = (
        "import subprocess, sys; from stacktrans.common.messages import open_closed_streams;"
        f"open_closed_streams(); subprocess.run([sys.executable, '-c', {child!r}], check=True);"
        "sys.stdin.read(); print('text'); print('text', file=sys.stderr)"
    )
    command = shlex.join([sys.executable, "-c", code])
    subprocess.run(["bash", "-c", f"{command} </dev/null {closed}"], cwd=tmp_path, check=True)
    null = os.stat(os.devnull).st_ino
    found = json.loads((tmp_path / "found").read_text())
    for inode, closing in zip(found, ("<&-", ">&-", "2>&-"), strict=True):
        assert inode == null or closing not in closed.split()


def test_messages_without_a_stream_are_dropped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    print_message("nobody reads this")
    assert capsys.readouterr() == ("", "")
