"""The page of a trace: one file that loads nothing, whose text is data."""

import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from command_line import run
from traces import CHECKPOINTS, COPYING, followed, never_popped

from stacktrans.model import checkpoint
from stacktrans.showing.page import PageModel, page_of

SOURCE = "abcdef"
HOSTILE = [
    "</script><script>window.hacked = 1</script>",
    '<img src="x" onerror="window.hacked = 2">',
    "<!--<script>",
    "{{data}}",
    "\u2028'\"&amp;",
]
"""Symbols that would do something if they were read as markup, or as a part of a script."""


def shown(name: str, source: str) -> PageModel:
    return PageModel(name, followed(name, source), checkpoint.load(CHECKPOINTS / name))


class Elements(HTMLParser):
    """The elements of a page, and the text in its scripts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.scripts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1] == "script":
            self.scripts.append(data)


def data_of(page: str) -> Any:
    """The data in a page."""
    return json.loads("".join(Elements(page).scripts[:1]))


def test_a_page_is_one_file_that_loads_nothing(tmp_path: Path) -> None:
    path = tmp_path / "it.html"
    done = run("inspect", "reverse-stack", SOURCE, "--html", path)
    assert done.returncode == 0
    assert b"answer: fedcba" in done.stdout
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    page = path.read_text(encoding="utf-8")
    assert len(page.encode()) < 300_000
    assert "://" not in page
    elements = Elements(page)
    assert not {"link", "img", "iframe", "object", "base", "form"} & {*elements.tags}
    assert not {"src", "href", "srcset", "style"} & {name for name, _ in elements.attributes}
    assert not [name for name, _ in elements.attributes if name.startswith("on")]
    policy = next(
        text for name, text in elements.attributes if name == "content" and "default" in str(text)
    )
    assert str(policy).startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in str(policy)


def test_the_data_are_those_of_the_trace() -> None:
    each = shown("reverse-stack", "abc")
    (model,) = data_of(page_of([each]))["models"]
    for step, found in zip(each.trace.steps, model["steps"], strict=True):
        assert (found["input"], found["output"]) == (step.input, step.output)
        assert found["signals"] == pytest.approx([*step.signals.values()], abs=1e-4)
        held = step.contents["stack"]
        assert [row[:2] for row in found["contents"][0]] == [[row.symbol, row.step] for row in held]
        assert [row[2] for row in found["contents"][0]] == pytest.approx(
            [row.strength for row in held], abs=1e-4
        )
        assert sum(row[4] for row in found["contents"][0]) == pytest.approx(
            sum(part.weight for part in step.reads["top"]), abs=0.02
        )


def test_symbols_cannot_inject_markup_or_scripts() -> None:
    for symbol in HOSTILE:
        trace = replace(never_popped(1), source=symbol)
        trace = replace(trace, steps=[replace(trace.steps[0], input=symbol)])
        page = page_of([PageModel(symbol, trace, COPYING)])
        tags = Elements(page).tags
        assert (tags.count("script"), tags.count("img")) == (2, 0)
        (model,) = data_of(page)["models"]
        assert model["steps"][0]["input"] == symbol.replace("\u2028", "\\u2028")


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--html", "it.txt"], 2, b"expected a file that ends in .html or .htm"),
        (["--html", "absent/it.html"], 2, b"absent"),
        (["--beside", "copy-queue"], 2, b"--beside needs --html"),
        (["--html", "it.html", "--beside", "absent"], 2, b"no such checkpoint"),
        (
            ["--html", "it.html", "--beside", "xor-buffered"],
            1,
            b"xor-buffered: symbol 1 is 'a', which is not in the alphabet",
        ),
    ],
)
def test_a_page_that_cannot_be_written_is_an_error(
    tmp_path: Path, options: list[str], code: int, message: bytes
) -> None:
    done = run("inspect", CHECKPOINTS / "reverse-stack", "ab", *options, cwd=tmp_path)
    assert done.returncode == code
    assert message in done.stderr
    assert not [*tmp_path.iterdir()]
