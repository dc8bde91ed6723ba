"""Commands and scripts whose standard streams are closed."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import ENVIRONMENT, SMALL, shell

from stacktrans.common.messages import print_message
from stacktrans.training.race_state import read_race

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


def test_a_script_that_races_needs_no_standard_streams(tmp_path: Path) -> None:
    settings = dict(setting.split("=") for setting in (*SMALL[1::2], "kernel=torch"))
    (tmp_path / "script.py").write_text(
        "import stacktrans, yaml\n"
        "if __name__ == '__main__':\n"
        f"    settings = {{k: yaml.safe_load(v) for k, v in {settings!r}.items()}}\n"
        "    stacktrans.train('copy', strategies=['patient', 'wide'], settings=settings, "
        "workers=2, max_steps=5, out='raced')\n"
    )
    command = f"{shlex.join([sys.executable, 'script.py'])} {CLOSED[-1]}"
    subprocess.run(["bash", "-c", command], cwd=tmp_path, env=ENVIRONMENT, check=True)
    candidates = read_race(tmp_path / "raced").candidates
    assert [each.failed for each in candidates.values()] == [None, None]


def test_messages_without_a_stream_are_dropped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    print_message("nobody reads this")
    assert capsys.readouterr() == ("", "")
