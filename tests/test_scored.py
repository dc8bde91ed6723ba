"""Symbols of an answer that are not scored are shown as such, however the source comes."""

import os
from collections import deque
from pathlib import Path

import pytest
import torch
from command_line import run
from shipped_tasks import task_of

from stacktrans.common.reading import LinePiece
from stacktrans.inference.line_stream import LineStream
from stacktrans.inference.scores import Scores
from stacktrans.inference.trace import trace
from stacktrans.inference.transduction import AnsweredLine, AnswerOptions, transduce_lines
from stacktrans.model import checkpoint
from stacktrans.showing.traces import verdict
from stacktrans.tasks.alphabets import UNSCORED_MARK

CASES = [
    ("0110####", "    0110"),
    ("01", "  "),  # no whole source yet
    ("01#", "  1"),
    ("01###", "  10?"),  # no source has more marks than symbols
    ("#", "?"),
    ("01#1", "  1?"),
]
"""Sources and their answers: a space is not scored, and a ? has no known answer."""


@pytest.fixture(scope="module")
def reversal() -> checkpoint.Checkpoint:
    return checkpoint.load("checkpoints/reversal-stack", torch.device("cpu"))


def answered(
    loaded: checkpoint.Checkpoint, folder: Path, text: str, as_json: bool, marked: bool
) -> list[AnsweredLine]:
    path = folder / "sources.txt"
    path.write_text(text)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        lines = transduce_lines(loaded, descriptor, AnswerOptions(marked=marked, full=as_json))
        return [line for line in lines if isinstance(line, AnsweredLine)]
    finally:
        os.close(descriptor)


@pytest.mark.parametrize(("source", "right"), CASES)
def test_unscored_symbols_are_marked(
    reversal: checkpoint.Checkpoint, source: str, right: str, tmp_path: Path
) -> None:
    (raw,) = answered(reversal, tmp_path, f"{source}\n", as_json=True, marked=False)
    (plain,) = answered(reversal, tmp_path, f"{source}\n", as_json=False, marked=True)
    assert raw.as_json()["scored"] == [symbol != " " for symbol in right]
    assert raw.output is not None
    places = zip(raw.output, right, strict=True)
    assert plain.output == "".join(UNSCORED_MARK if place == " " else one for one, place in places)
    assert all(place in " ?" or one == place for one, place in zip(raw.output, right, strict=True))
    stream = LineStream(reversal, marked=True)
    bits = [
        stream.feed(LinePiece(bit.encode(), begins=number == 0, ends=False))[0]
        for number, bit in enumerate(source)
    ]
    assert "".join(bits) == plain.output


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("reversal-deletion", "02130#####"),
        ("parenthesis", "([])[()"),
        ("agreement", "the lobsters in the lobster have"),
        ("xor", "1101"),
    ],
)
def test_unscored_symbols_are_known_from_the_source_and_from_the_task(
    name: str, source: str
) -> None:
    task = task_of(name)
    symbols = task.source.split(source)
    known = [symbol is not None for symbol in task.answer(symbols)]
    assert list(task.scored(symbols)) == known
    coming: deque[str] = deque()
    scored = task.scored(iter(coming.popleft, None))
    for symbol, expected in zip(symbols, known, strict=True):
        coming.append(symbol)
        assert next(scored) is expected


def test_every_symbol_far_into_a_long_sentence_is_scored() -> None:
    assert all(list(task_of("parenthesis").scored("()" * 50_000))[1000:])


def test_inspect_marks_what_is_not_scored(reversal: checkpoint.Checkpoint) -> None:
    followed = trace(reversal, list("01##"))
    assert (followed.marked, followed.expected) == ("··10", "··10")
    assert [step.scored for step in followed.steps] == [False, False, True, True]
    assert verdict(followed) == "answer: ··10  (right)"


def test_steps_without_an_output_of_the_answer_are_not_scored() -> None:
    steps = trace(checkpoint.load("copy-queue"), ["a", "b"]).steps
    assert [step.output for step in steps] == [None, None, None, "a", "b", "</s>"]
    assert [step.scored for step in steps] == [step.output is not None for step in steps]
    buffered = trace(checkpoint.load("xor-buffered"), [*"1101"]).steps
    assert [step.scored for step in buffered] == [False, *[True] * 4, *[False] * 4]
    assert [step.scored for step in buffered] == [bool(step.written) for step in buffered]


def test_a_line_below_a_table_explains_the_mark_of_what_is_not_scored() -> None:
    note = "· marks an output that is not scored"
    assert note in run("inspect", "parenthesis-stack", "())").out
    assert note not in run("inspect", "copy-queue", "ab").out


def test_a_range_of_one_length_is_not_repeated_by_length() -> None:
    import numpy as np

    from stacktrans.showing.scores import scores_tables
    from stacktrans.tasks.lengths import Lengths

    def of(first: int, last: int) -> tuple[Lengths, Scores]:
        lengths = np.arange(first, last + 1)
        ones = np.ones(len(lengths), dtype=np.int64)
        return Lengths(first, last), Scores(lengths, ones / 1.0, ones, ones, ones * 0)

    (alone,) = scores_tables([of(9, 9), of(12, 12)])
    assert [row[0] for row in alone.rows] == ["9", "12"]
    _, by_length = scores_tables([of(9, 9), of(10, 12)])
    assert [row[0] for row in by_length.rows] == ["10", "11", "12"]
