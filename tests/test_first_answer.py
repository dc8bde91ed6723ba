"""Commands with little work load neither torch nor compiled code."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stacktrans.commands.listing import KINDS
from stacktrans.kernels import Array
from stacktrans.kernels.compiling import CompiledFunction, compiled_entry

COMMANDS = {
    ";".join(
        (
            "--help",
            *(f"list {kind}" for kind in KINDS),
            "generate --task copy --count 3",
            "inspect memorization 12=",
            "inspect xor-buffered 0110 --json",
        )
    ): "",
    "transduce reverse-stack": "hello\n",
    "transduce xor-buffered": "0110\n",
    "transduce anbncn --json": "aaab\n",
    "transduce copy-deque --beam 3 --json": "abc\n",
    "transduce parenthesis-stack --hard": "(())\n",
    "eval reversal-stack --count 20": "",
    "eval reverse-stack --count 5 --errors 2": "",
}


def run_fresh(commands: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run commands without any compiled code; the last line of stderr says what they load."""
    code = (
        "import sys\nfrom stacktrans.cli import app\n"
        "for command in sys.argv[1].split(';'):\n"
        "    try:\n        app(command.split())\n"
        "    except SystemExit as end:\n        assert not end.code\n"
        "print('loaded', *{'torch', 'numba'} & sys.modules.keys(), file=sys.stderr)"
    )
    return subprocess.run(
        [sys.executable, "-c", code, commands],
        env={**os.environ, "NUMBA_CACHE_DIR": str(folder)},
        input=COMMANDS[commands],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_short_work_waits_for_neither_torch_nor_compiling(command: str, tmp_path: Path) -> None:
    done = run_fresh(command, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert done.stderr.splitlines()[-1] == "loaded"
    assert "compiling" not in done.stderr
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def in_compiled_code(entry: CompiledFunction) -> bool:
    """Whether there is compiled code that Python calls."""
    return bool(entry.code)


def test_long_work_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    @compiled_entry(len)
    def doubled(numbers: Array) -> None:
        for i in range(numbers.shape[0]):
            numbers[i] *= 2

    monkeypatch.setattr(CompiledFunction, "_always", False)
    monkeypatch.setattr(CompiledFunction, "_steps_in_python", 0)
    few: Any = np.ones(900)
    for _ in range(2):
        doubled(few)
        assert not in_compiled_code(doubled)
    doubled(few)
    assert in_compiled_code(doubled)
    assert (few == 8).all()
