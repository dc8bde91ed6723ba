"""What answers at once: without torch or numba, which take their time to load."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from stacktrans.kernels import compiling, loading
from stacktrans.kernels.drive import forward

COMMANDS = {
    "--help": "",
    "list tasks": "",
    "list memories": "",
    "list controllers": "",
    "list settings": "",
    "list strategies": "",
    "generate --task copy --count 3": "",
    "transduce reverse-stack": "hello\n",
    "transduce xor-buffered": "0110\n",
    "transduce anbncn --json": "aaab\n",
    "transduce copy-deque --beam 3 --json": "abc\n",
    "transduce parenthesis-stack --hard": "(())\n",
    "inspect memorization 12=": "",
    "inspect xor-buffered 0110 --json": "",
    "eval reversal-stack --count 20": "",
    "eval reverse-stack --count 5 --errors 2": "",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_short_work_waits_for_neither_torch_nor_numba(command: str) -> None:
    code = (
        "import sys\nfrom stacktrans.cli import main\n"
        "try:\n    main()\n"
        "finally:\n    print('loaded', *{'torch', 'numba'} & sys.modules.keys(), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *command.split()],
        input=COMMANDS[command],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert done.stderr.splitlines()[-1] == "loaded"


def test_numba_may_be_loaded_before_what_it_compiles(tmp_path: Path) -> None:
    code = (
        "from stacktrans.kernels.loading import use_numba\nuse_numba()\n"
        "from stacktrans.cli import main\nmain()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "transduce", "reverse-stack"],
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},  # where nothing is compiled yet
        input="hello\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "olleh\n", done.stderr


def test_long_work_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(compiling, "_numba", False)
    monkeypatch.setattr(loading, "_steps", Counter())
    monkeypatch.setattr(loading, "use_numba", lambda: asked.append(1))
    there = [False]
    monkeypatch.setattr(loading, "has_code", lambda name: there[0])
    loading.prepare(loading._WORTH_LOADING, forward)
    assert not asked
    loading.prepare(1, forward)
    assert not asked  # without code, it would have to be compiled first
    there[0] = True
    loading.prepare(0, forward)
    assert len(asked) == 1
    there[0] = False
    loading.prepare(loading._WORTH_COMPILING - loading._WORTH_LOADING, forward)
    assert len(asked) == 2
