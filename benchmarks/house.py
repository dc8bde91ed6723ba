"""How large the package is, how entangled, and which files of it a line and a training step enter.

    python benchmarks/house.py [--markdown docs/architecture.md]

Lines of code are those with anything but comments and docstrings on them. Files entered are counted
with Python's profiler, once everything is loaded and compiled: the second of two lines, and the
update of the weights from one backward pass to the next. Compiled code is no file of Python's and
is not counted.
"""

import argparse
import ast
import io
import itertools
import os
import subprocess
import sys
import tempfile
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import torch

import stacktrans
from stacktrans.inference.transduction import transduce_lines
from stacktrans.kernels.compiling import CompiledFunction
from stacktrans.kernels.unroll import backward, forward
from stacktrans.model.checkpoint import load

PACKAGE = Path(stacktrans.__file__).parent
CHECKPOINT = "reverse-stack"
LOW_LEVEL = "kernels/matmul.py"
"""The one file that writes instructions itself, with numba's low-level interface."""
BEGIN, END = "<!-- begin: benchmarks/house.py -->", "<!-- end: benchmarks/house.py -->"


class Entered:
    """Files of the package in which a function was called, in the order of the first calls."""

    def __init__(self) -> None:
        self.files: list[str] = []
        # numba tells profilers of compiled functions, too, by their sources. By identity: the hash
        # of code changes as Python specialises it.
        self.compiled = {id(entry.function.__code__) for entry in (forward, backward)}

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event != "call" or id(code) in self.compiled:
            return
        if not code.co_filename.startswith(f"{PACKAGE}{os.sep}"):
            return
        name = Path(code.co_filename).relative_to(PACKAGE).as_posix()
        if name not in self.files:
            self.files.append(name)


def in_a_line() -> list[str]:
    """What a line goes through that a trained model answers."""
    CompiledFunction.compile_from_now_on()  # so short a line would be run in Python otherwise
    model = load(CHECKPOINT)
    read, write = os.pipe()
    lines, entered = transduce_lines(model, read), Entered()
    for profile in (None, entered):
        os.write(write, b"hello\n")
        sys.setprofile(profile)
        try:
            line = next(lines)
        finally:
            sys.setprofile(None)
        assert line.output == "olleh\n"
    os.close(write)
    os.close(read)
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


def modules_of_a_line() -> int:
    """How many modules of the package are loaded to answer a line."""
    script = (
        "import runpy, sys; sys.argv = ['stacktrans', 'transduce', sys.argv[1]]\n"
        "try: runpy.run_module('stacktrans', run_name='__main__')\n"
        "except SystemExit: pass\n"
        "print(sum(name.split('.')[0] == 'stacktrans' for name in sys.modules))"
    )
    command = [sys.executable, "-c", script, CHECKPOINT]
    done = subprocess.run(command, input="hello\n", capture_output=True, text=True, check=True)
    return int(done.stdout.split()[-1])


def code_lines(text: str, tree: ast.Module) -> int:
    """The lines of a source that are neither blank nor comments nor docstrings."""
    quiet = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in quiet and token.type != tokenize.ENDMARKER:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(getattr(node.value, "value", None), str):
            lines.difference_update(range(node.lineno, (node.end_lineno or 0) + 1))
    return len(lines)


def length(node: ast.AST) -> int:
    """Lines of a definition."""
    return int(node.end_lineno - node.lineno + 1)  # type: ignore[attr-defined]


def parameters(function: ast.FunctionDef) -> int:
    """Of a function, `self` aside."""
    own = function.args
    names = [each.arg for each in (*own.posonlyargs, *own.args, *own.kwonlyargs)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


class House:
    """The sources of the package.

    Attributes:
        trees: of each file, by its name within the package.
        texts: the same as text.
    """

    def __init__(self) -> None:
        paths = sorted(PACKAGE.rglob("*.py"))
        self.texts = {path.relative_to(PACKAGE).as_posix(): path.read_text() for path in paths}
        self.trees = {name: ast.parse(text) for name, text in self.texts.items()}

    def named(self, kind: type[ast.AST]) -> Iterator[tuple[str, Any]]:
        """The nodes of a kind, each after the file that it is in."""
        for name, tree in self.trees.items():
            yield from ((name, node) for node in ast.walk(tree) if isinstance(node, kind))

    def functions(self) -> list[ast.FunctionDef]:
        """Those that are no signatures of commands or of the Python API, nor settings of a task."""
        public = ("commands/", "api/")
        return [
            each
            for name, each in self.named(ast.FunctionDef)
            if not name.startswith(public)
            and not (name.startswith("tasks/") and each.name == "__init__")
        ]

    def layout_tests(self) -> int:
        """Calls of isinstance outside of tasks/ that name a layout."""
        calls = ((name, node) for name, node in self.named(ast.Call) if "tasks/" not in name)
        return sum(
            getattr(node.func, "id", "") == "isinstance" and "Layout" in ast.unparse(node)
            for _, node in calls
        )

    def private_names(self) -> int:
        """Names of numba that begin with an underscore, or that its documentation leaves out."""
        documented = {"numba", "numba.extending", "numba.types"}
        found = 0
        for name, node in self.named(ast.ImportFrom):
            if (node.module or "").split(".")[0] != "numba":
                continue
            allowed = documented | ({"numba.core"} if name == LOW_LEVEL else set())
            private = any(each.name.startswith("_") for each in node.names)
            found += private or node.module not in allowed
        return found

    def figures(self) -> list[tuple[str, int, int | str]]:
        """What is counted, its number, and the most that it should be."""
        lines = [code_lines(self.texts[name], tree) for name, tree in self.trees.items()]
        functions = self.functions()
        classes = [each for _, each in self.named(ast.ClassDef)]
        return [
            ("lines of code", sum(lines), 20_200),
            ("files", len(self.texts), 165),
            (
                "lines of the longest file",
                max(text.count("\n") for text in self.texts.values()),
                600,
            ),
            ("lines of the longest function", max(map(length, functions)), 60),
            ("most parameters of a function", max(map(parameters, functions)), 8),
            ("lines of the longest class", max(map(length, classes)), 250),
            ("`isinstance` on layouts outside `tasks/`", self.layout_tests(), 0),
            ("private names of numba", self.private_names(), 0),
            ("modules that `transduce` loads", modules_of_a_line(), 60),
        ]


def tables() -> str:
    """All that is counted, in Markdown."""
    line, step = in_a_line(), in_a_step()
    figures = [
        *House().figures(),
        ("files that a line and its answer enter", len(line), 9),
        ("files that a training step enters", len(step), 13),
    ]
    counted = [f"| {what} | {number:,} | {most:,} |" for what, number, most in figures]
    rows = itertools.zip_longest(*([f"`{name}`" for name in names] for names in (line, step)))
    entered = [f"| {number} | {a or ''} | {b or ''} |" for number, (a, b) in enumerate(rows, 1)]
    first = ["| | now | at most |", "|---|---:|---:|", *counted]
    second = ["| | a line and its answer | a training step |", "|---|---|---|", *entered]
    return "\n".join([*first, "", *second])


def main() -> None:
    """Print the tables, or write them between the marks of a page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="page with such tables")
    page = parser.parse_args().markdown
    found = tables()
    if page is None:
        print(found)
        return
    before, _, rest = page.read_text(encoding="utf-8").partition(f"{BEGIN}\n")
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n\n{found}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
