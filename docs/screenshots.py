"""Take screenshots of the page of `inspect --html` for docs/inspecting.md, with Chromium.

    python docs/screenshots.py

writes docs/images/page-*.png, for the example in docs/inspecting.md.
"""

import runpy
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from typer.testing import CliRunner

from stacktrans.cli import app

DOCS = Path(__file__).parent
BROWSER = DOCS.parent / "tests" / "browser.py"
STEPS = 9
"""The number of steps to go forward before a screenshot."""


class Shot(NamedTuple):
    """A screenshot of a page.

    Attributes:
        name: the name of the file, without extension.
        arguments: the arguments of `inspect`.
        width: the width of the window, in pixels.
        scheme: the colour scheme, light or dark.
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
)


def main() -> None:
    """Write all screenshots."""
    open_browser = runpy.run_path(str(BROWSER))["browser"]
    with tempfile.TemporaryDirectory() as folder, open_browser() as browser:
        path = Path(folder) / "page.html"
        for shot in SHOTS:
            done = CliRunner().invoke(app, ["inspect", *shot.arguments, "--html", str(path)])
            assert done.exit_code == 0, done.output
            media = {"prefers_color_scheme": shot.scheme, "prefers_reduced_motion": "reduce"}
            browser.open(path, shot.width, **media)
            for _ in range(STEPS):
                browser.press("ArrowRight")
            browser.resize(shot.width, browser.value("document.body.scrollHeight"))
            (DOCS / "images" / f"{shot.name}.png").write_bytes(browser.picture())


if __name__ == "__main__":
    main()
