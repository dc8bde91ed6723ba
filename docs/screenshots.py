"""Take screenshots of the pages of `inspect --html`, with Chromium.

    python docs/screenshots.py

writes docs/images/page-*.png, for the examples in docs/inspecting.md and docs/machines.md.
"""

import contextlib
import runpy
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from typer.testing import CliRunner

from stacktrans.cli import app

DOCS = Path(__file__).resolve().parent
BROWSER = DOCS.parent / "tests" / "browser.py"
STEPS = 9
"""The number of steps to go forward before a screenshot."""


class Shot(NamedTuple):
    """A screenshot of a page.

    Attributes:
        name: the name of the file, without extension.
        arguments: the arguments of `inspect`.
        width: the width of the window, in pixels.
        scheme: the color scheme, light or dark.
    """

    name: str
    arguments: Sequence[str]
    width: int
    scheme: str = "light"


ONE = ("checkpoints/reverse-stack", "abcdef")
TWO = (*ONE, "--beside", "checkpoints/copy-queue")
SHOTS = (
    Shot("page-wide", TWO, 1200),
    Shot("page-narrow", ONE, 400),
    Shot("page-dark", ONE, 900, "dark"),
    Shot("page-machine", ("xor-machine", "110100110100"), 900),
)


def main() -> None:
    """Write all screenshots."""
    open_browser = runpy.run_path(str(BROWSER))["browser"]
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.chdir(folder),
        open_browser() as browser,
    ):
        path = Path("page.html")
        _run("extract", "xor-buffered", "--out", "xor-machine")
        for shot in SHOTS:
            _run("inspect", *shot.arguments, "--html", str(path))
            media = {"prefers_color_scheme": shot.scheme, "prefers_reduced_motion": "reduce"}
            browser.open(path, shot.width, **media)
            for _ in range(STEPS):
                browser.press("ArrowRight")
            browser.resize(shot.width, browser.value("document.body.scrollHeight"))
            (DOCS / "images" / f"{shot.name}.png").write_bytes(browser.picture())


def _run(*arguments: str) -> None:
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output


if __name__ == "__main__":
    main()
