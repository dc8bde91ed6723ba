"""The page of a trace in a browser: what its keys show, whatever the text and the window."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from browser import NEEDS_CHROMIUM, Browser, browser
from command_line import run
from soft_models import SOFT
from test_page import HOSTILE, SOURCE, shown
from traces import COPYING, never_popped

from stacktrans.inference.trace import CellRow, ReadShare, StoredRow, Trace, TraceStep
from stacktrans.showing.page import PageModel, page_of


def write_page(models: Sequence[PageModel], path: Path) -> None:
    path.write_text(page_of(models), encoding="utf-8")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


CELLS = """[...document.querySelectorAll(".model")].map((model) =>
  [...model.querySelectorAll(".cells")].map((cells) =>
    [...cells.querySelectorAll(".cell:not(.leaving)")].map((cell) =>
      [cell.dataset.symbol, Number(cell.dataset.step), cell.dataset.strength])))"""
NOW = """[...document.querySelectorAll(".model")].map((model) =>
  [...model.querySelectorAll("td.now")].map((cell) => cell.textContent))"""
SIGNALS = '[...document.querySelectorAll(".signal dd")].map((value) => value.textContent)'
THICK = """[...document.querySelectorAll(".cell")].map((cell) =>
  [cell.offsetHeight, cell.offsetWidth])"""
WORDS = 'document.getElementById("words").textContent'
COUNT = 'document.getElementById("count").textContent'


def expected_cells(step: TraceStep) -> list[list[Any]]:
    """The cells that a page should show for a step, from the top or from the left."""
    (held,) = step.contents.values()
    from_top = "front" not in step.reads
    rows = held[::-1] if from_top else held
    return [[row.symbol, row.step, f"{row.strength:.2f}"] for row in rows]


def check_step(chromium: Browser, models: list[PageModel], place: int) -> None:
    """Check that a page shows the same step of each trace."""
    steps = [each.trace.steps[min(place, len(each.trace.steps) - 1)] for each in models]
    assert chromium.value(CELLS) == [[expected_cells(step)] for step in steps]
    assert chromium.value(NOW) == [[step.input, step.output or ""] for step in steps]
    signals = [f"{strength:.2f}" for step in steps for strength in step.signals.values()]
    assert chromium.value(SIGNALS) == signals
    words = chromium.value(WORDS)
    for each, step in zip(models, steps, strict=True):
        beginning = f"Step {step.step} of {len(each.trace.steps)}. Reads {step.input}. "
        assert beginning + (f"Answers {step.output} with" if step.output else "Pop ") in words


@NEEDS_CHROMIUM
def test_keys_show_each_step(chromium: Browser, tmp_path: Path) -> None:
    models = [shown("reverse-stack", SOURCE)]
    write_page(models, tmp_path / "it.html")
    chromium.open(tmp_path / "it.html")
    last = len(models[0].trace.steps) - 1
    for place in range(last + 1):
        check_step(chromium, models, place)
        chromium.press("ArrowRight")
    check_step(chromium, models, last)
    for key, place in (("ArrowLeft", last - 1), ("Home", 0), ("ArrowLeft", 0), ("End", last)):
        chromium.press(key)
        check_step(chromium, models, place)
    assert chromium.value("document.querySelector('.verdict').textContent").endswith("(right)")
    assert chromium.requests() == [(tmp_path / "it.html").as_uri()]
    assert chromium.complaints() == []


@NEEDS_CHROMIUM
def test_words_say_what_happened(chromium: Browser, tmp_path: Path) -> None:
    def words(name: str, source: str, step: int) -> str:
        write_page([shown(name, source)], tmp_path / "it.html")
        chromium.open(tmp_path / "it.html")
        chromium.value(f"go({step - 1})")
        caption: str = chromium.value(WORDS)
        return caption

    caption = words(str(SOFT / "reverse-stack"), "ab", 4)
    assert caption.startswith("Step 4 of 6. Reads |||. Answers b with probability 0.9")
    assert re.search(r"\. Pop 0\.78, push 0\.04\. Read top: a 0\.\d\d, b 0\.\d\d, .*\. ", caption)
    assert re.search(
        r"Stack: from the top \|\|\| 0\.04, b 0\.\d\d, a 0\.\d\d, and 1 more\.$", caption
    )
    queued = words(str(SOFT / "copy-queue"), "ab", 2)
    assert "Queue: from the front <s> 0." in queued
    counted = words("anbncn", "aab", 2)
    assert "Stack 1: pop 1.00, empty. Stack 2: push 1.00, 2 cells." in counted


@NEEDS_CHROMIUM
def test_cells_are_as_thick_as_their_strengths(chromium: Browser, tmp_path: Path) -> None:
    for name, side in (("reverse-stack", 0), ("copy-queue", 1)):
        models = [shown(name, SOURCE)]
        write_page(models, tmp_path / "it.html")
        chromium.open(tmp_path / "it.html", prefers_reduced_motion="reduce")
        chromium.press("End")
        for _ in range(4):
            chromium.press("ArrowLeft")
        strengths = [float(row[2]) for row in chromium.value(CELLS)[0][0]]
        thick = [sides[side] for sides in chromium.value(THICK)]
        unit = max(thick) / max(strengths)
        assert unit > 30
        assert thick == pytest.approx([unit * each for each in strengths], abs=2)


@NEEDS_CHROMIUM
def test_long_memories_can_be_scrolled_from_the_top(chromium: Browser, tmp_path: Path) -> None:
    write_page([PageModel("long", never_popped(100), COPYING)], tmp_path / "it.html")
    chromium.open(tmp_path / "it.html", prefers_reduced_motion="reduce")
    chromium.press("End")
    box = "document.querySelector('.cells')"
    first = "document.querySelector('.cell').getBoundingClientRect().top"
    assert chromium.value(f"{box}.scrollHeight > 4 * {box}.clientHeight")
    assert chromium.value(f"{first} - {box}.getBoundingClientRect().top") == pytest.approx(0, abs=2)
    assert chromium.value("document.querySelector('.cell').dataset.step") == "100"
    assert min(height for height, _ in chromium.value(THICK)) > 15


@NEEDS_CHROMIUM
def test_two_models_are_stepped_through_together(chromium: Browser, tmp_path: Path) -> None:
    path = tmp_path / "it.html"
    done = run("inspect", "reverse-stack", "abcd", "--html", path, "--beside", "copy-deque")
    assert done.returncode == 0
    models = [shown(name, "abcd") for name in ("reverse-stack", "copy-deque")]
    chromium.open(path)
    for place in range(4):
        check_step(chromium, models, place)
        chromium.press("ArrowRight")
    names = chromium.value("[...document.querySelectorAll('h2')].map((name) => name.textContent)")
    assert names == ["reverse-stack", "copy-deque"]
    assert "copy-deque: Step 5 of 10." in chromium.value(WORDS)


@NEEDS_CHROMIUM
def test_lists_and_several_memories_are_drawn(chromium: Browser, tmp_path: Path) -> None:
    trace = never_popped(2)
    held = [step.contents["stack"] for step in trace.steps]
    line = CellRow([0.5, 1.0, 0.75], [[0.0], [1.0], [0.5]], 1)
    lists = [
        replace(step, contents={}, reads={}, tops={"list 1": [[1.0]]}, lines={"list 1": line})
        for step in trace.steps
    ]
    several = [
        replace(
            step,
            contents={"queue": rows, "stack": rows},
            reads={"queue front": [ReadShare("a", 1, 1.0)], "stack top": [ReadShare("b", 2, 1.0)]},
        )
        for step, rows in zip(trace.steps, held, strict=True)
    ]
    models = [
        PageModel(name, replace(trace, steps=steps), COPYING)
        for name, steps in (("list", lists), ("several", several))
    ]
    write_page(models, tmp_path / "it.html")
    chromium.open(tmp_path / "it.html")
    chromium.press("ArrowRight")
    first, second = ["a", 1, "1.00"], ["b", 2, "1.00"]
    assert chromium.value(CELLS) == [
        [[["", 0, "0.50"], ["", 0, "1.00"], ["", 0, "0.75"]]],
        [[first, second], [second, first]],
    ]
    heads = "[...document.querySelectorAll('.cell')].map((cell) => cell.matches('.head'))"
    assert chromium.value(heads)[:3] == [False, True, False]
    # Of the queue the front is read, of the stack the top.
    stripes = """[...document.querySelectorAll(".model:last-child .stripe")].map((stripe) =>
      getComputedStyle(stripe).getPropertyValue("--share"))"""
    each = [*("100%", "0%"), *("0%", "0%"), *("0%", "100%"), *("0%", "0%")]
    assert chromium.value(stripes) == each


@NEEDS_CHROMIUM
def test_a_model_that_has_ended_waits_for_the_other(chromium: Browser, tmp_path: Path) -> None:
    models = [shown("reverse-stack", "abc")]
    models.append(models[0]._replace(name="short"))
    steps = models[1].trace.steps[:3]
    models[1] = models[1]._replace(trace=replace(models[1].trace, steps=steps))
    write_page(models, tmp_path / "it.html")
    chromium.open(tmp_path / "it.html")
    chromium.press("End")
    check_step(chromium, models, len(models[0].trace.steps) - 1)
    verdicts = "[...document.querySelectorAll('.verdict')].map((each) => each.textContent)"
    assert chromium.value(verdicts)[1].startswith("ended at step 3; ")


@NEEDS_CHROMIUM
def test_space_plays_and_pauses(chromium: Browser, tmp_path: Path) -> None:
    write_page([shown("reverse-stack", "ab")], tmp_path / "it.html")
    chromium.open(tmp_path / "it.html")
    chromium.value("document.getElementById('speed').value = '4'")
    live = "document.getElementById('words').getAttribute('aria-live')"
    button = "document.getElementById('play').textContent"
    assert chromium.value(live) == "polite"
    chromium.press(" ")
    assert (chromium.value(button), chromium.value(live)) == ("Pause", "off")
    moved = "new Promise((done) => setTimeout(done, 700))"
    chromium.value(moved)
    chromium.press(" ")
    assert (chromium.value(button), chromium.value(live)) == ("Play", "polite")
    reached = chromium.value(COUNT)
    assert reached != "1 / 6"
    chromium.value(moved)
    assert chromium.value(COUNT) == reached
    # While the button has the focus, the space bar must not press it twice.
    chromium.value("document.getElementById('play').focus()")
    chromium.press(" ")
    assert chromium.value(button) == "Pause"
    # Playing continues from the current step, and starts over only from the last one.
    assert chromium.value(COUNT) != "1 / 6"
    chromium.press("End")
    chromium.value("document.getElementById('speed').value = '0.5'")
    chromium.value("document.getElementById('play').click()")
    assert (chromium.value(button), chromium.value(COUNT)) == ("Pause", "1 / 6")


def hostile() -> Trace:
    """A trace all of whose text is hostile."""
    trace, name = never_popped(len(HOSTILE)), HOSTILE[0]
    steps = [
        replace(
            step,
            input=symbol,
            output=symbol,
            probability=0.5,
            signals={name: 0.5},
            reads={name: [ReadShare(symbol, step.step, 0.5)]},
            contents={name: [StoredRow(symbol, step.step, 1.0)]},
        )
        for step, symbol in zip(trace.steps, HOSTILE, strict=True)
    ]
    return replace(trace, source=HOSTILE[0], marked=HOSTILE[1], steps=steps)


@NEEDS_CHROMIUM
def test_text_that_is_shown_is_not_executed(chromium: Browser, tmp_path: Path) -> None:
    trace = hostile()
    write_page(
        [PageModel(HOSTILE[0], trace, COPYING), PageModel(HOSTILE[1], trace, COPYING)],
        tmp_path / "it.html",
    )
    chromium.open(tmp_path / "it.html")
    for symbol in HOSTILE:
        shown_as = symbol.replace("\u2028", "\\u2028")
        assert chromium.value(NOW)[0][0] == shown_as
        assert chromium.value(CELLS)[0][0][0][0] == shown_as
        chromium.press("ArrowRight")
    assert chromium.value("[window.hacked, document.images.length]") == [None, 0]
    assert chromium.value("document.scripts.length") == 2
    assert len(chromium.requests()) == 1
    assert chromium.complaints() == []
    assert chromium.value("document.querySelector('h2').textContent") == HOSTILE[0]


@NEEDS_CHROMIUM
def test_foreign_scripts_are_not_run(chromium: Browser, tmp_path: Path) -> None:
    page = page_of([shown("reverse-stack", "ab")])
    added = page.replace("</body>", "<script>window.hacked = 1</script><img src='x.png'></body>")
    (tmp_path / "it.html").write_text(added, encoding="utf-8")
    chromium.open(tmp_path / "it.html")
    assert chromium.value("window.hacked") is None
    assert chromium.value(COUNT) == "1 / 6"
    assert len([each for each in chromium.complaints() if "entry" in each]) == 2


@NEEDS_CHROMIUM
@pytest.mark.parametrize("width", [360, 1400])
def test_a_page_is_as_wide_as_its_window(chromium: Browser, tmp_path: Path, width: int) -> None:
    models = [shown("copy-queue", SOURCE * 3), shown("addition", "10+11=")]
    write_page(models, tmp_path / "it.html")
    chromium.open(tmp_path / "it.html", width, prefers_reduced_motion="reduce")
    current = "document.querySelector('td.now').getBoundingClientRect().toJSON()"
    for key in ("Home", "End", "ArrowLeft"):
        chromium.press(key)
        assert chromium.value("document.documentElement.scrollWidth") <= width
        place = chromium.value(current)
        assert 0 <= place["left"] < place["right"] <= width


@NEEDS_CHROMIUM
def test_the_legend_is_that_of_the_memories(chromium: Browser, tmp_path: Path) -> None:
    legends = """["strengths", "cells"].filter((name) => !document.getElementById(name).hidden)"""
    strengths, cells = shown("reverse-stack", "ab"), shown("addition", "1+1=")
    for models, expected in (
        ([strengths], ["strengths"]),
        ([cells], ["cells"]),
        ([strengths, cells], ["strengths", "cells"]),
    ):
        write_page(models, tmp_path / "it.html")
        chromium.open(tmp_path / "it.html")
        assert chromium.value(legends) == expected


@NEEDS_CHROMIUM
def test_nothing_moves_for_those_who_want_no_motion(chromium: Browser, tmp_path: Path) -> None:
    write_page([shown("reverse-stack", "ab")], tmp_path / "it.html")
    moving = """[...document.querySelectorAll("*")].filter((each) => ["", "::before"].some((part) =>
      getComputedStyle(each, part).transitionDuration !== "0s")).length"""
    chromium.open(tmp_path / "it.html", prefers_reduced_motion="no-preference")
    assert chromium.value(moving) > 0
    chromium.open(tmp_path / "it.html", prefers_reduced_motion="reduce")
    assert chromium.value(moving) == 0
    chromium.press("End")
    chromium.press("ArrowLeft")
    # What is popped is gone at once.
    assert chromium.value("document.querySelectorAll('.leaving').length") == 0


@NEEDS_CHROMIUM
def test_themes_follow_the_system_or_the_button(chromium: Browser, tmp_path: Path) -> None:
    write_page([shown("reverse-stack", "ab")], tmp_path / "it.html")
    ground = "getComputedStyle(document.body).backgroundColor"
    grounds = {}
    for scheme in ("light", "dark"):
        chromium.open(tmp_path / "it.html", prefers_color_scheme=scheme)
        grounds[scheme] = chromium.value(ground)
    assert grounds["light"] != grounds["dark"]
    pressed = "document.getElementById('theme').click()"
    found = []
    for _ in range(3):
        chromium.value(pressed)
        found.append(
            (chromium.value("document.getElementById('theme').textContent"), chromium.value(ground))
        )
    assert found == [
        ("Theme: light", grounds["light"]),
        ("Theme: dark", grounds["dark"]),
        ("Theme: system", grounds["dark"]),
    ]


@NEEDS_CHROMIUM
def test_the_focused_element_is_outlined(chromium: Browser, tmp_path: Path) -> None:
    write_page([shown("reverse-stack", "ab")], tmp_path / "it.html")
    chromium.open(tmp_path / "it.html")
    reached = []
    for _ in range(7):
        chromium.press("Tab")
        outline = "getComputedStyle(document.activeElement).outlineWidth"
        assert chromium.value(outline) == "3px"
        reached.append(
            chromium.value("document.activeElement.id || document.activeElement.className")
        )
    # Buttons that would do nothing, at the first step, are passed over.
    assert reached == ["theme", "play", "on", "last", "step", "speed", "lines"]
