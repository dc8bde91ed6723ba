"""Lines that are answered together are answered as each of them alone."""

import functools
import os
from pathlib import Path

import numpy as np
import pytest

from stacktrans.common.ragged import Ragged, concatenate
from stacktrans.common.reading import LinePiece
from stacktrans.inference.line_stream import LineStream
from stacktrans.inference.transduction import (
    AnsweredBatch,
    AnsweredLine,
    AnswerOptions,
    transduce_lines,
)
from stacktrans.model.checkpoint import Checkpoint, load
from stacktrans.tasks.alphabets import Alphabet, Characters

LINES = {
    "plain": [b"ab", b"", b"a", b"abba" * 10],
    "ends of lines": [b"ab\r", b"\r", b"a\r\r", b"b"],
    "unknown": [b"ab", "a→b".encode(), b"ba"],
    "not text": [b"ab", b"a\xffb", b"ba"],
    "nothing": [b"", b""],
    "spaces": [b"a b", b" ", b"\tb"],
}


def as_source(line: bytes, model: Checkpoint) -> bytes:
    """A line with the model's symbols in the place of `a` and `b`."""
    own = [symbol.encode() for symbol in model.task.source.symbols]
    return line.replace(b"a", b"\0").replace(b"b", own[-1]).replace(b"\0", own[0])


def both(
    model: Checkpoint, path: Path, most: int | None
) -> tuple[list[AnsweredLine], list[AnsweredLine | AnsweredBatch]]:
    found: list[list[AnsweredLine | AnsweredBatch]] = []
    for full in (True, False):
        with path.open("rb") as stream:
            options = AnswerOptions(most, marked=True, full=full)
            found.append([*transduce_lines(model, stream.fileno(), options)])
    each, together = found
    return [line for line in each if isinstance(line, AnsweredLine)], together


@functools.cache
def shipped(name: str) -> Checkpoint:
    return load(f"checkpoints/{name}")


@pytest.mark.parametrize(("kind", "most"), [*((kind, None) for kind in LINES), ("plain", 3)])
@pytest.mark.parametrize(
    "name", ["reverse-stack", "xor-buffered", "anbncn", "parenthesis-stack", "reversal-stack"]
)
def test_lines_have_the_same_answers_in_batches_as_alone(
    name: str, kind: str, most: int | None, tmp_path: Path
) -> None:
    model = shipped(name)
    path = tmp_path / "lines"
    path.write_bytes(b"\n".join(as_source(line, model) for line in LINES[kind]))
    each, together = both(model, path, most)
    text, unended, errors = "", [], []
    for answer in together:
        if isinstance(answer, AnsweredBatch):
            text += answer.output
            unended += answer.unended
        else:
            text += f"{answer.output or ''}\n"
            unended += [answer.number] * (answer.ended is False)
            errors.append(answer.error)
    assert text == "".join(f"{line.output or ''}\n" for line in each)
    assert unended == [line.number for line in each if line.ended is False]
    assert [*filter(None, errors)] == [line.error for line in each if line.error]


def test_many_plain_lines_come_together(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    lines = ["".join(rng.choice([*"01"], size=rng.integers(30))) for _ in range(3000)]
    path = tmp_path / "lines"
    path.write_text("\n".join(lines))
    each, together = both(load("checkpoints/xor-buffered"), path, None)
    assert all(isinstance(answer, AnsweredBatch) for answer in together)
    assert len(together) < 20
    printed = "".join(answer.output or "" for answer in together)
    assert printed.splitlines() == [line.output for line in each]


def test_a_line_after_a_batch_has_its_line_number(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_text("01\n" * 3000 + "0x\n")
    with path.open("rb") as stream:
        *_, last = transduce_lines(load("checkpoints/xor-buffered"), stream.fileno())
    assert isinstance(last, AnsweredLine)
    assert last.number == 3001
    assert last.error == "symbol 2 is 'x', which is not in the alphabet"


def test_a_line_in_a_pipe_is_answered_before_the_next() -> None:
    reading, writing = os.pipe()
    answers = transduce_lines(load("checkpoints/reverse-stack"), reading)
    for line, right in (("abc", "cba\n"), ("", "\n"), ("xy", "yx\n")):
        os.write(writing, f"{line}\n".encode())
        assert next(answers).output == right
    os.close(writing)
    assert [*answers] == []
    os.close(reading)


def test_symbols_before_a_byte_that_is_not_text_are_answered_in_parts() -> None:
    stream = LineStream(load("checkpoints/parenthesis-stack"))
    assert stream.feed(LinePiece(b"([", ends=False)) == (")]", None)
    wrong = "0xff after 4 symbols is not UTF-8"
    assert stream.feed(LinePiece(b"])\xff(", begins=False)) == ("))", wrong)


def test_characters_are_encoded_as_by_the_alphabet() -> None:
    alphabet = Alphabet("aä→𝄞\t\0", words=False)
    characters = Characters(alphabet)
    lines = ["𝄞→", "", "aaä", "\t\0a"]
    encoded = characters.encode("".join(f"{line}\n" for line in lines))
    assert encoded is not None
    assert [ids.tolist() for ids in encoded] == [alphabet.encode(line).tolist() for line in lines]
    assert characters.decode(encoded) == "".join(f"{line}\n" for line in lines)
    for unknown in ("b\n", "a\r\n", "a\U0010ffff\n", "𝄞\n\x01\n"):
        assert characters.encode(unknown) is None


@pytest.mark.parametrize(
    "alphabet",
    [Alphabet(["s1"], words=True), Alphabet(["ab"], words=False), Alphabet("\n", words=False)],
)
def test_only_alphabets_of_characters_are_encoded_at_once(alphabet: Alphabet) -> None:
    with pytest.raises(ValueError, match="must be characters"):
        Characters(alphabet)


def test_rows_in_one_array_are_those_apart() -> None:
    rng = np.random.default_rng(2)
    rows = [rng.integers(9, size=size) for size in (3, 0, 5, 1, 0)]
    ragged = Ragged.of(rows)
    order = np.array([4, 2, 2, 0])

    def lists(found: Ragged) -> list[list[int]]:
        return [row.tolist() for row in found]

    assert lists(ragged) == [row.tolist() for row in rows]
    assert lists(ragged[1:4]) == [row.tolist() for row in rows[1:4]]
    assert lists(ragged[3:1]) == lists(ragged[9:]) == []
    assert ragged[-3].tolist() == rows[2].tolist()
    assert lists(ragged.take(order)) == [rows[index].tolist() for index in order]
    lengths = np.array([1, 0, 4, 1, 0])
    assert lists(ragged.truncate(lengths)) == [
        row[:length].tolist() for row, length in zip(rows, lengths, strict=True)
    ]
    assert lists(concatenate([ragged, ragged[:1]])) == [row.tolist() for row in [*rows, rows[0]]]
    assert ragged.row_indices.tolist() == [0] * 3 + [2] * 5 + [3]
    with pytest.raises(IndexError):
        ragged[5]
