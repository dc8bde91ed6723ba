"""What memories hold after each step: in traces, and in a terminal."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import run
from rich.cells import cell_len
from rich.console import Console
from soft_models import SOFT
from traces import followed, never_popped

from stacktrans.common.errors import UsageError
from stacktrans.inference.trace import MIN_WEIGHT, StoredRow
from stacktrans.showing.contents import Block, bar, contents_view, drawn
from stacktrans.showing.traces import verdict


def read_by_hand(held: list[StoredRow], from_top: bool) -> dict[int, float]:
    """How much of each step's rows a read takes (grefenstette2015, equation 3)."""
    room, taken = 1.0, dict[int, float]()
    for row in reversed(held) if from_top else held:
        share = min(row.strength, max(0.0, room))
        taken[row.step] = taken.get(row.step, 0.0) + share
        room -= row.strength
    return {step: share for step, share in taken.items() if share >= 2 * MIN_WEIGHT}


@pytest.mark.parametrize(
    ("name", "part", "ends"),
    [
        ("reverse-stack", "stack", ["top"]),
        ("copy-queue", "queue", ["front"]),
        ("copy-deque", "deque", ["top", "bottom"]),
    ],
)
def test_reads_show_the_contents_at_an_end(name: str, part: str, ends: list[str]) -> None:
    found = followed(name, "abcab")
    for step in found.steps:
        assert [*step.contents] == [part]
        held = step.contents[part]
        # Of each that is left out, less than `MIN_WEIGHT` is missing.
        assert sum(row.strength for row in held) == pytest.approx(step.total_strength, abs=0.03)
        for row in held:
            assert row.symbol == found.steps[row.step - 1].input
        for end in ends:
            shown = {each.step: each.weight for each in step.reads[end]}
            expected = read_by_hand(held, end == "top")
            assert {at: shown[at] for at in expected} == pytest.approx(expected, abs=0.03)


def test_the_first_push_is_at_the_bottom_or_the_front() -> None:
    for name in ("reverse-stack", "copy-queue"):
        (held,) = followed(str(SOFT / name), "abcd").steps[4].contents.values()
        assert [row.symbol for row in held] == ["<s>", "a", "b", "c", "d"]


def test_stacks_with_actions_show_how_full_their_cells_are() -> None:
    steps = followed("anbncn", "aaabbbccc").steps
    counted = [[len(line.filled) for line in step.lines.values()] for step in steps]
    # The second stack counts a and then b against it, the first counts b for the c to come.
    assert [second for _, second in counted] == [1, 2, 3, 2, 1, 0, 0, 0, 0]
    assert [first for first, _ in counted] == [0, 0, 0, 1, 2, 3, 2, 1, 0]
    line = steps[2].lines["stack 2"]
    assert line.filled == pytest.approx([1, 1, 1], abs=0.01)
    assert [value for (value,) in line.values] == pytest.approx([1, 1, 1], abs=0.02)
    assert line.head is None


def test_json_has_the_contents(model: Path) -> None:
    steps = json.loads(run("inspect", model, "abc", "--contents", "--json").stdout)["steps"]
    held = [part for step in steps for part in step["contents"]["queue"]]
    assert held
    assert all(part["strength"] >= MIN_WEIGHT for part in held)
    assert all(step["lines"] == {} for step in steps)
    for step in json.loads(run("inspect", model, "abc", "--json").stdout)["steps"]:
        assert (step["contents"], step["lines"]) == ({}, {})


def test_each_step_is_a_row_of_bars() -> None:
    lines = run("inspect", SOFT / "reverse-stack", "ab", "--contents").stdout.decode()
    assert lines.splitlines()[1:] == [
        "step  input  output   pop  push  stack",
        "1     <s>            0.12  0.90  │<s>█",
        "2     a              0.05  0.90  │<s>▇ a█",
        "3     b              0.04  0.95  │<s>▇ a▇ b█",
        "4     |||    b       0.78  0.04  │<s>▇ a▇ b▂ |||▁",
        "5     b      a       0.93  0.02  │<s>▇ a▂ b▁",
        "6     a      </s>    0.92  0.02  │<s>▁ a▁",
        "bottom first; ▁ to █: the strength of a symbol, from 0 to 1",
        "answer: ba  (right)",
    ]


def test_only_some_stacks_are_shown() -> None:
    words = ["checkpoints/anbncn", "aab", "--contents", "--stacks", "2"]
    shown = run("inspect", *words).stdout.decode().splitlines()
    assert shown[1].split() == [
        *("step", "input", "output"),
        *("push", "2", "pop", "2", "no-op", "2"),
        *("stack", "2"),
    ]
    assert [line.split("│")[1] for line in shown[2:-2]] == ["█", "██", "█", "", "", ""]
    single = run("inspect", "reverse-stack", "abc", "--stacks", "2")
    assert b"--stacks: for a model with several stacks or lists with actions" in single.stderr


def test_a_memory_without_contents_is_named() -> None:
    empty = never_popped(2)
    steps = [replace(step, contents={}) for step in empty.steps]
    with pytest.raises(UsageError, match=r"--contents: copy: .* without the option"):
        contents_view(replace(empty, steps=steps), 80)


@pytest.mark.parametrize(
    ("height", "expected"), [(0.0, "▁"), (0.125, "▁"), (0.126, "▂"), (1.0, "█"), (1.5, "█")]
)
def test_bars_are_as_high_as_strengths(height: float, expected: str) -> None:
    assert bar(height) == expected


def test_long_contents_are_left_out_in_the_middle_with_a_count() -> None:
    blocks = [Block(1, symbol, step) for step, symbol in enumerate("abcdefghij", start=1)]
    assert drawn(blocks, 30) == "│a█ b█ c█ d█ e█ f█ g█ h█ i█ j█"
    assert drawn(blocks, 29) == "│a█ b█ c█ d█ …2… g█ h█ i█ j█"
    assert drawn(blocks, 12) == "│a█ …8… j█"
    assert drawn(blocks, 3) == "│…10…"
    assert drawn([Block(1), Block(0.2, head=True), Block(0.5)], 9) == "│█[▂]▄"


def test_invisible_symbols_are_escaped() -> None:
    blocks = [Block(1, " ", 1), Block(1, "\x1b", 2), Block(1, "", 3)]
    assert drawn(blocks, 99) == "│␣█ \\x1b█ ∅█"


@pytest.mark.parametrize("width", [24, 36, 60, 80, 150])
def test_contents_fit_a_terminal(width: int) -> None:
    console = Console(width=width)
    with console.capture() as captured:
        console.print(contents_view(never_popped(100), width))
    lines = captured.get().splitlines()
    assert max(map(cell_len, lines)) <= width
    held = [line.split("│")[1] for line in lines if "│" in line]
    assert len(held) == 100
    for number, text in enumerate(held, start=1):
        shown = text.split()
        left_out = sum(int(each.strip("…")) for each in shown if "…" in each)
        assert left_out + sum("…" not in each for each in shown) == number
    # Narrow tables have their last columns below, and none is left out.
    names = " ".join(line for line in lines if line.startswith("step")).replace("step", "")
    assert names.split() == ["input", "output", "pop", "push", "stack"]


def test_an_empty_answer_is_said_to_be_empty() -> None:
    assert verdict(followed("reverse-stack", "")) == "empty answer  (right)"
    wrong = replace(followed("anbn", "aab"), expected="", correct=False)
    assert verdict(wrong).endswith("(wrong; the target is empty)")


@pytest.mark.parametrize("width", [20, 40, 60, 80])
def test_stacks_that_do_not_fit_follow_below(width: int) -> None:
    console = Console(width=width)
    with console.capture() as captured:
        console.print(contents_view(followed("addition", "10+11="), width))
    text = captured.get()
    assert max(map(cell_len, text.splitlines())) <= width
    assert text.count("│") == 9 * 10
    assert "…" not in text


def test_contents_are_whole_without_a_terminal() -> None:
    lines = run("inspect", "copy-queue", "a" * 300, "--contents").stdout.decode().splitlines()
    assert lines[302].count("a█") == 300
