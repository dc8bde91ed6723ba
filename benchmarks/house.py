"""Size and coupling of the package, and the files executed for a line and for a training step.

    python benchmarks/house.py [--markdown docs/architecture.md]
    python benchmarks/house.py --index

--index prints every module and class with the first line of its docstring.

Lines of code exclude blank lines, comments and docstrings. The executed files are recorded with
Python's profiler after everything has been loaded and compiled: for the second of two lines, and
from one backward pass to the next. Compiled code is not counted.
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
"""The only file that uses the low-level interface of numba."""
BEGIN, END = "<!-- begin: benchmarks/house.py -->", "<!-- end: benchmarks/house.py -->"


class Entered:
    """A profiler that records files of the package in the order of the first calls in them."""

    def __init__(self) -> None:
        self.files: list[str] = []
        # numba reports compiled functions to profilers, too. They are compared by identity, as the
        # hash of code changes when Python specializes it.
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


def files_of_line() -> list[str]:
    """The files entered to answer a line."""
    CompiledFunction.always_compile()  # instead of running a short line in Python
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


def files_of_step() -> list[str]:
    """The files entered from the end of one backward pass to the end of the next."""
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


def modules_of_line() -> int:
    """The number of modules of the package that are loaded to answer a line."""
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
    """The number of lines of a source that are not blank, comments or docstrings."""
    ignored = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in ignored and token.type != tokenize.ENDMARKER:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(getattr(node.value, "value", None), str):
            lines.difference_update(range(node.lineno, (node.end_lineno or 0) + 1))
    return len(lines)


def length(node: ast.AST) -> int:
    """The number of lines of a definition."""
    return int(node.end_lineno - node.lineno + 1)  # type: ignore[attr-defined]


def summary(node: ast.Module | ast.ClassDef) -> str:
    """The first line of a docstring."""
    return (ast.get_docstring(node) or "").partition("\n")[0]


def parameters(function: ast.FunctionDef) -> int:
    """The number of parameters of a function, except `self`."""
    arguments = function.args
    groups = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    names = [argument.arg for argument in groups]
    return len(names) - (names[:1] in (["self"], ["cls"]))


class Sources:
    """The sources of the package.

    Attributes:
        trees: the syntax tree of each file, by its name within the package.
        texts: the text of each file.
    """

    def __init__(self) -> None:
        paths = sorted(PACKAGE.rglob("*.py"))
        self.texts = {path.relative_to(PACKAGE).as_posix(): path.read_text() for path in paths}
        self.trees = {name: ast.parse(text) for name, text in self.texts.items()}

    def nodes(self, kind: type[ast.AST]) -> Iterator[tuple[str, Any]]:
        """All nodes of a type, each with the name of its file."""
        for name, tree in self.trees.items():
            yield from ((name, node) for node in ast.walk(tree) if isinstance(node, kind))

    def index(self) -> Iterator[str]:
        """Modules and classes, each with the first line of its docstring."""
        for name, tree in self.trees.items():
            yield f"{name}: {summary(tree)}"
            classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
            yield from (f"    {node.name}: {summary(node)}" for node in classes)

    def functions(self) -> list[ast.FunctionDef]:
        """All functions except commands, the Python API, and constructors of tasks."""
        public = ("commands/", "api/")
        return [
            function
            for name, function in self.nodes(ast.FunctionDef)
            if not name.startswith(public)
            and not (name.startswith("tasks/") and function.name == "__init__")
        ]

    def layout_tests(self) -> int:
        """The number of calls of isinstance outside tasks/ that name a layout."""
        calls = ((name, node) for name, node in self.nodes(ast.Call) if "tasks/" not in name)
        return sum(
            getattr(node.func, "id", "") == "isinstance" and "Layout" in ast.unparse(node)
            for _, node in calls
        )

    def private_names(self) -> int:
        """The number of imports from numba that are private or not documented."""
        documented = {"numba", "numba.extending", "numba.types"}
        count = 0
        for name, node in self.nodes(ast.ImportFrom):
            if (node.module or "").split(".")[0] != "numba":
                continue
            allowed = documented | ({"numba.core"} if name == LOW_LEVEL else set())
            private = any(alias.name.startswith("_") for alias in node.names)
            count += private or node.module not in allowed
        return count

    def figures(self) -> list[tuple[str, int, int | str]]:
        """Each quantity with its value and its limit."""
        lines = [code_lines(self.texts[name], tree) for name, tree in self.trees.items()]
        functions = self.functions()
        classes = [definition for _, definition in self.nodes(ast.ClassDef)]
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
            ("modules that `transduce` loads", modules_of_line(), 60),
        ]


def tables() -> str:
    """All tables in Markdown."""
    line, step = files_of_line(), files_of_step()
    figures = [
        *Sources().figures(),
        ("files that a line and its answer enter", len(line), 9),
        ("files that a training step enters", len(step), 13),
    ]
    counted = [f"| {quantity} | {value:,} | {limit:,} |" for quantity, value, limit in figures]
    rows = itertools.zip_longest(*([f"`{name}`" for name in names] for names in (line, step)))
    entered = [f"| {number} | {a or ''} | {b or ''} |" for number, (a, b) in enumerate(rows, 1)]
    first = ["| | now | at most |", "|---|---:|---:|", *counted]
    second = ["| | a line and its answer | a training step |", "|---|---|---|", *entered]
    return "\n".join([*first, "", *second])


def main() -> None:
    """Print the tables or the index, or write the tables between the markers of a page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="page with these tables")
    parser.add_argument("--index", action="store_true", help="print modules and classes")
    options = parser.parse_args()
    page = options.markdown
    if options.index:
        print("\n".join(Sources().index()))
        return
    text = tables()
    if page is None:
        print(text)
        return
    before, _, rest = page.read_text(encoding="utf-8").partition(f"{BEGIN}\n")
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
