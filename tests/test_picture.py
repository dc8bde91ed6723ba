"""Pictures of traces, in characters and in files."""

import html
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from command_line import run
from matplotlib.figure import Figure
from PIL import Image, ImageColor, ImageSequence
from soft_models import SOFT

from stacktrans.inference.scores import Scores
from stacktrans.inference.trace import ReadShare, StoredRow, Trace, TraceStep
from stacktrans.settings.resolve import resolve
from stacktrans.showing import pictures, plots
from stacktrans.showing.contents import Block
from stacktrans.showing.pictures import (
    COLORS,
    PlacedBlock,
    animate_trace,
    colors_of,
    fullest,
    panels_of,
)
from stacktrans.showing.traces import HeatRow, heat_map, heat_map_rows, shade
from stacktrans.tasks.lengths import Lengths

CONFIG = resolve(task="copy", settings={"model": {"memory": "queue"}})


def step_of(
    number: int, symbol: str, push: float, read: list[ReadShare] | None = None
) -> TraceStep:
    return TraceStep(
        step=number,
        input=symbol,
        output="b",
        probability=0.9,
        likely={"a": 0.1, "b": 0.9},
        signals={"pop": 1 - push, "push": push},
        pushed={"top": [-1.0, 0.5]},
        reads={},
        total_strength=1.0,
        tops={},
        input_read=read,
    )


def trace_of(*steps: TraceStep) -> Trace:
    return Trace("copy", "ab", "bb", "bb", True, None, None, None, None, list(steps))


def test_rows_are_strengths_values_inputs_and_outputs() -> None:
    rows = heat_map_rows(trace_of(step_of(1, "a", 0.25), step_of(2, "b", 1.0)), CONFIG)
    assert [(row.group, row.label, row.shades) for row in rows] == [
        ("strengths", "pop", [0.75, 0.0]),
        ("strengths", "push", [0.25, 1.0]),
        ("pushed top", "component 1", [0.0, 0.0]),
        ("pushed top", "component 2", [0.75, 0.75]),
        ("input", "a", [1.0, 0.0]),
        ("input", "b", [0.0, 1.0]),
        ("output", "a", [0.1, 0.1]),
        ("output", "b", [0.9, 0.9]),
    ]


def test_reads_are_drawn_by_the_step_that_pushed_them() -> None:
    first = replace(step_of(1, "a", 1.0), reads={"top": [ReadShare("a", 1, 0.9)]})
    second = replace(
        step_of(2, "a", 1.0),
        reads={"top": [ReadShare("a", 2, 0.7), ReadShare("a", 1, 0.3), ReadShare("b", 3, 0.01)]},
    )
    rows = heat_map_rows(trace_of(first, second), CONFIG)
    assert [(row.label, row.shades) for row in rows if row.group == "read top"] == [
        ("a@1", [0.9, 0.3]),
        ("a@2", [0.0, 0.7]),
    ]


def test_pushed_vectors_are_drawn_while_they_can_be_read() -> None:
    for size, drawn in ((16, 16), (17, 0)):
        step = replace(step_of(1, "a", 1.0), pushed={"top": [0.5] * size})
        rows = heat_map_rows(trace_of(step), CONFIG)
        assert sum(row.group == "pushed top" for row in rows) == drawn


def test_reads_of_a_buffer_are_split_between_symbols() -> None:
    read = [ReadShare("a", 1, 0.5), ReadShare("b", 2, 0.3), ReadShare("a", 3, 0.2)]
    rows = heat_map_rows(trace_of(step_of(1, "a", 0.5, read)), CONFIG)
    assert [row.shades for row in rows if row.group == "input"] == [[0.7], [0.3]]


def test_heat_maps_wrap_at_the_given_width() -> None:
    rows = [HeatRow("strengths", "pop", [0, 0.5, 1]), HeatRow("input", "a", [1, 0, 0.3])]
    lines = [line.plain for line in heat_map(rows, width=18)]
    assert lines == [
        "step          1",
        "strengths pop   ▒▒",
        "",
        "input a       ██  ",
        "",
        "step          3",
        "strengths pop ██",
        "",
        "input a       ░░",
        "",
    ]


@pytest.mark.parametrize(("strength", "expected"), [(-0.1, " "), (0, " "), (1, "█"), (1.2, "█")])
def test_shades_stay_within_bounds(strength: float, expected: str) -> None:
    assert shade(strength) == expected


@pytest.mark.parametrize(
    ("suffix", "begins"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")]
)
def test_pictures_are_written_whole(
    model: Path, tmp_path: Path, suffix: str, begins: bytes
) -> None:
    path = tmp_path / f"picture{suffix}"
    # Symbols that matplotlib would read as formulas stay symbols.
    done = run("inspect", model, "a$b$^_", "--plot", path)
    assert done.returncode == 0
    assert path.read_bytes().startswith(begins)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    before = path.read_bytes()
    assert run("inspect", model, "a$b$^_", "--plot", path).returncode == 0
    assert path.read_bytes() == before


@pytest.mark.parametrize("command", [("inspect", "ab"), ("eval", "--count", "1")])
def test_pictures_of_other_kinds_are_refused(
    model: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    done = run(command[0], model, *command[1:], "--plot", tmp_path / "picture.txt")
    assert done.returncode == 2
    assert b"expected a file that ends in .png, .svg or .pdf" in done.stderr


def test_pictures_show_what_the_memory_holds(tmp_path: Path) -> None:
    path = tmp_path / "picture.svg"
    done = run("inspect", SOFT / "reverse-stack", "ab", "--plot", path)
    assert done.returncode == 0
    labels = re.findall("<!-- (.*?) -->", path.read_text())
    shown = [html.unescape(label) for label in labels[labels.index("stack holds") + 1 :]]
    # Of each step the rows that are thick enough, from the bottom up.
    steps = "<s>", "<s> a", "<s> a b", "<s> a", "<s>"
    expected = [symbol for step in steps for symbol in step.split()]
    assert shown[: len(expected)] == expected
    assert shown[len(expected)].startswith("reverse: LSTM")


def test_blocks_are_as_high_as_their_strengths() -> None:
    held = [StoredRow("a", 1, 0.25), StoredRow("b", 2, 0.5)]
    steps = [replace(step_of(1, "a", 1.0), contents={"stack": each}) for each in (held[:1], held)]
    assert panels_of(trace_of(*steps))["stack"] == [
        PlacedBlock(Block(0.25, "a", 1), 0, 0.0),
        PlacedBlock(Block(0.25, "a", 1), 1, 0.0),
        PlacedBlock(Block(0.5, "b", 2), 1, 0.25),
    ]


def test_heights_are_labeled_with_whole_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures: list[Figure] = []
    monkeypatch.setattr(pictures, "save", lambda figure, _: figures.append(figure))
    steps = [replace(step_of(1, "a", 1.0), contents={"stack": [StoredRow("a", 1, 0.25)]})]
    pictures.plot_trace(trace_of(*steps), CONFIG, tmp_path / "a.svg")
    axis = figures[0].axes[0]
    assert [tick for tick in axis.get_yticks() if 0 <= tick <= axis.get_ylim()[1]] == [0, 1]


def test_marks_have_no_color_of_their_own() -> None:
    steps = [step_of(place, symbol, 1.0) for place, symbol in enumerate(["<s>", "a", "|||", "b"])]
    colors = colors_of(trace_of(*steps))
    assert list(colors) == ["a", "b"]
    assert colors["a"] != colors["b"]


def test_heat_maps_are_printed(model: Path) -> None:
    printed = run("inspect", model, "ab", "--heatmap").stdout.decode()
    assert "strengths push" in printed
    assert "pushed back component 1" in printed
    assert "answer: " in printed


def test_accuracy_by_length_is_drawn_between_its_lengths(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "accuracy.svg"
    options = ("--lengths", "3:5", "--each", "--lengths", "9:9", "--count", "2", "--plot", path)
    done = run("eval", model, *options)
    assert (done.returncode, b"3:5" in done.stdout) == (0, True)
    picture = path.read_text()
    for label in ("coarse", "fine", "symbols", "trained on", "accuracy"):
        assert f"<!-- {label} -->" in picture
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_accuracy_of_several_models_is_drawn_with_a_line_for_each(
    model: Path, tmp_path: Path
) -> None:
    path = tmp_path / "accuracy.svg"
    options = ("--lengths", "41:60", "--lengths", "1:40", "--count", "30", "--plot", path)
    assert run("eval", model, "copy-queue", *options).returncode == 0
    labels = re.findall(r"<!-- (.*?) -->", path.read_text())
    assert {f" {model.name}", " copy-queue", "coarse accuracy"} <= {*labels}
    assert "fine" not in labels
    assert path.read_text().count('<g id="FillBetweenPolyCollection') == 2
    assert run("eval", model, "--without", "memory", *options).returncode == 0
    assert f"<!--  {model.name} without memory -->" in path.read_text()


@pytest.mark.parametrize(
    ("ranges", "drawn"),
    [
        ([(90, 90), (10, 10), (50, 50)], [10, 50, 90]),
        ([(2, 3)], [2.5]),
        ([(4, 8), (8, 8)], [6, np.nan, 8]),  # as those of a development and a test set
        ([(1, 100), (2, 5), (50, 60)], [50.5, np.nan, 3.5, np.nan, 55]),
    ],
)
def test_ranges_of_lengths_are_drawn_from_the_shortest_on(
    ranges: list[tuple[int, int]],
    drawn: list[float],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    figures: list[Figure] = []
    monkeypatch.setattr(plots, "save", lambda figure, _: figures.append(figure))
    one = np.ones(1, dtype=np.int64)
    results = [
        (Lengths(*bounds), Scores(bounds[1] * one, np.ones(1), one, one, 0 * one))
        for bounds in ranges
    ]
    plots.plot_accuracy({"a": results}, Lengths(1, 20), "a", tmp_path / "a.svg")
    coarse, *_ = figures[0].axes[0].lines
    ticks = figures[0].axes[0].get_xticks()
    assert np.array_equal(ticks, np.round(ticks))
    assert np.array_equal(coarse.get_xdata(), drawn, equal_nan=True)


def test_animations_have_a_picture_for_each_step(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "it.gif"
    done = run("inspect", model, "ab$", "--animate", path)
    assert done.returncode == 0
    assert b"answer: " in done.stdout
    steps = json.loads(run("inspect", model, "ab$", "--json").stdout)["steps"]
    with Image.open(path) as animation:
        assert animation.n_frames == len(steps)  # type: ignore[attr-defined]
        assert animation.info["loop"] == 0
    before = path.read_bytes()
    assert run("inspect", model, "ab$", "--animate", path).returncode == 0
    assert path.read_bytes() == before


def test_an_animation_shows_what_is_on_the_memory(tmp_path: Path) -> None:
    held = [StoredRow("a", 1, 1.0), StoredRow("b", 2, 0.5)]
    steps = [
        replace(step_of(1, "ab"[len(each) - 1], 1.0), contents={"queue": each})
        for each in (held[:1], held)
    ]
    path = tmp_path / "it.gif"
    animate_trace(trace_of(*steps), path)
    colors = {symbol: ImageColor.getrgb(name) for symbol, name in COLORED.items()}
    heights = []
    with Image.open(path) as animation:
        for frame in ImageSequence.Iterator(animation):
            pixels = frame.convert("RGB")
            heights.append([drawn_height(pixels, colors[symbol]) for symbol in "ab"])
    (first, none), (second, half) = heights
    assert none == 0
    assert first == pytest.approx(second, abs=2)
    assert half == pytest.approx(second / 2, abs=3)


COLORED = dict(zip("ab", COLORS, strict=False))


def drawn_height(picture: Image.Image, color: tuple[int, ...]) -> int:
    """How many rows of pixels have nearly some color somewhere."""
    pixels = np.asarray(picture).astype(int)
    return int((abs(pixels - color).max(axis=2) < 12).any(axis=1).sum())


def test_the_colors_of_an_animation_are_those_of_its_fullest_step() -> None:
    held = [StoredRow("a", 1, 1.0), StoredRow("b", 2, 0.5)]
    steps = [replace(step_of(1, "a", 1.0), contents={"queue": each}) for each in (held, held[:1])]
    assert (fullest(steps), fullest(steps[::-1])) == (0, 1)


def test_animations_of_other_kinds_are_refused(model: Path, tmp_path: Path) -> None:
    done = run("inspect", model, "ab", "--animate", tmp_path / "it.png")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"expected a file that ends in .gif" in done.stderr


def test_names_in_a_legend_are_short_unless_they_would_be_equal() -> None:
    assert plots.short_names([Path("runs/a"), Path("runs/b")]) == ["a", "b"]
    assert plots.short_names([Path("x/a"), Path("y/a")]) == [str(Path("x/a")), str(Path("y/a"))]
    assert plots.short_names([Path("x/a"), Path("x/a")]) == ["a", "a"]
    runs = [Path(f"runs/copy-{seed}-{identity * 16}") for seed, identity in ((1, "a"), (2, "b"))]
    assert plots.short_names(runs) == ["copy-1", "copy-2"]
    assert plots.short_names([runs[0], Path(f"runs/copy-1-{'c' * 16}")])[0] == runs[0].name
