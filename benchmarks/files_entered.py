"""Which files of the package are entered between a line on stdin and its answer, and in a step.

    python benchmarks/files_entered.py [--markdown docs/architecture.md]

Counted with Python's profiler, once everything is loaded and compiled: the second of two lines, and
the updates of the weights from one backward pass to the next. Compiled code is no file of Python's
and is not counted.
"""

import argparse
import itertools
import os
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import torch

import stacktrans
from stacktrans.inference.transduction import transduce_lines
from stacktrans.kernels.loading import use_numba
from stacktrans.model.checkpoint import load

PACKAGE = Path(stacktrans.__file__).parent
CHECKPOINT = "reverse-stack"


class Entered:
    """Files of the package in which a function was called, in the order of the first calls."""

    def __init__(self) -> None:
        self.files: list[str] = []

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        if event != "call" or not frame.f_code.co_filename.startswith(f"{PACKAGE}{os.sep}"):
            return
        name = Path(frame.f_code.co_filename).relative_to(PACKAGE).as_posix()
        if name not in self.files:
            self.files.append(name)


def in_a_line() -> list[str]:
    """What a line goes through that a trained model answers."""
    use_numba()  # of so short a line, Python would run what is compiled else
    model = load(CHECKPOINT)
    for entered in (None, Entered()):
        read, write = os.pipe()
        os.write(write, b"hello\n")
        os.close(write)
        sys.setprofile(entered)
        try:
            answers = [line.output for line in transduce_lines(model, read, None)]
        finally:
            sys.setprofile(None)
            os.close(read)
        assert answers == ["olleh"]
    assert entered is not None
    return entered.files


def in_a_step() -> list[str]:
    """What a batch goes through from the end of one backward pass to the end of the next."""
    entered = Entered()
    backward: Callable[..., None] = torch.Tensor.backward
    passes = 0

    def counted(*arguments: Any, **options: Any) -> None:
        nonlocal passes
        backward(*arguments, **options)
        passes += 1
        if passes in (2, 3):
            sys.setprofile(entered if passes == 2 else None)

    torch.Tensor.backward = counted  # type: ignore[method-assign]
    try:
        with tempfile.TemporaryDirectory() as folder:
            settings = {"measure.strings": 4}
            out = Path(folder) / "run"
            stacktrans.train(
                "copy", memory="queue", recipe="default", max_steps=4, out=out, settings=settings
            )
    finally:
        torch.Tensor.backward = backward  # type: ignore[method-assign]
        sys.setprofile(None)
    return entered.files


def table(line: list[str], step: list[str]) -> str:
    """Both lists side by side, in Markdown."""
    rows = itertools.zip_longest(*([f"`{name}`" for name in names] for names in (line, step)))
    heading = f"| | a line and its answer: {len(line)} | an update of the weights: {len(step)} |"
    numbered = (f"| {number} | {a or ''} | {b or ''} |" for number, (a, b) in enumerate(rows, 1))
    return "\n".join([heading, "|---|---|---|", *numbered])


def main() -> None:
    """Print the table, or write it in the place of the one in a page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="page with such a table")
    page = parser.parse_args().markdown
    found = table(in_a_line(), in_a_step())
    if page is None:
        print(found)
        return
    text = page.read_text(encoding="utf-8")
    page.write_text(re.sub(r"\| \| a line and.*?\n(?=\n|$)", f"{found}\n", text, flags=re.DOTALL))


if __name__ == "__main__":
    main()
