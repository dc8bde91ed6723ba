"""Generate docs/gallery.md, a page with a picture of each shipped model, and the pictures.

    python docs/gallery.py

needs matplotlib. The pictures are docs/images/MODEL.svg.
"""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from typer.testing import CliRunner

from stacktrans.cli import app
from stacktrans.model import checkpoint

DOCS = Path(__file__).parent
ROOT = DOCS.parent
HEADING = """# Gallery

This page shows each of the [trained models](index.md#use-a-trained-model) that come with stacktrans
at work on a short string. In each picture time goes from left to right. At the top are the memory
contents after each step, as thick as their strength (for a [stack with
actions](models.md#stacks-and-lists-with-actions), as high as its cells are full). Below, in shades
from white for 0 to black for 1, are the strengths of pushes and pops, the vectors pushed if they
are short, the reads, the inputs and the outputs. Some pictures are followed by the rules of the
machine extracted from the model; [Machines](machines.md) shows those of `copy-queue`, `copy-deque`,
`xor-buffered` and `anbncn`. [Inspecting](inspecting.md) describes more ways to look at these
models. Written by `python docs/gallery.py`."""


class Piece(NamedTuple):
    """A model in the gallery.

    Attributes:
        name: the name of the checkpoint.
        title: the heading.
        arguments: the arguments of `inspect` after the model, the string first.
        text: a description of the picture.
        ruled: whether the rules of the machine are shown.
    """

    name: str
    title: str
    arguments: Sequence[str]
    text: str
    ruled: bool = False


PIECES = (
    Piece(
        "copy-queue",
        "A queue that copies",
        ["queue"],
        """Every symbol that is read is pushed at the back. From `|||`, the end of the source, on,
one symbol per step is popped from the front, at the bottom of the picture, and written. When there
is no symbol to push, the model pushes a mark; when it is read, the answer is complete.""",
    ),
    Piece(
        "reverse-stack",
        "A stack that reverses",
        ["abcde"],
        """The symbol that was pushed last is on top, and is popped first. At the bottom is a mark
that was pushed for `<s>`, the beginning of the string; when it is reached, everything has been
popped.""",
        True,
    ),
    Piece(
        "copy-deque",
        "A double-ended queue that copies",
        ["abcde"],
        """A deque can be used as a queue or as a stack, and nothing in the training data says
which. To copy, this model learned to push at the top, to pop at the bottom, and to answer with
what it reads there: it uses the deque as a queue.""",
    ),
    Piece(
        "reversal-stack",
        "Two rules that reverse",
        ["0110####"],
        """The controller has no state of its own, and sees nothing but the current symbol and the
top of the stack. While it reads `0` and `1` it pushes, and at each `#` it pops what it answers.""",
        True,
    ),
    Piece(
        "parenthesis-stack",
        "Which bracket closes",
        ["([()]"],
        """At each step the model writes the bracket that would close the innermost open one. An
opening bracket is pushed, a closing one pops it, and the answer then matches the bracket below.
Each type of bracket is pushed in two ways, which encode the bracket below it.""",
        True,
    ),
    Piece(
        "xor-buffered",
        "An odd number of ones",
        ["1101"],
        """A model with [buffers](models.md#buffers), and a stack that it uses in an unusual
way: it never pops. Only the vector that was pushed last is relevant: it encodes whether the number
of ones so far is odd. The first output is dropped, so that each answer may come a step late.""",
    ),
    Piece(
        "anbn",
        "Counting up and down",
        ["aaabbb"],
        """Strings with as many `b` as `a`: the stack grows at each `a`, and shrinks at each `b`.
When it is empty, the next string begins. The second stack does the same, but nothing depends on
it.""",
        True,
    ),
    Piece(
        "anbncn",
        "Counting twice",
        ["aaaabbbb"],
        """In `aaaabbbbcccc` the number of `a` determines the rest. One stack grows at each `a` and
shrinks at each `b`; meanwhile the other one counts each `b` for the `c` to come. When a stack is
empty, the next symbol begins.""",
    ),
    Piece(
        "memorization",
        "A string of ones and twos",
        ["11212=", "--stacks", "3"],
        """Of the seven stacks of this model, the third stores the string. A cell is full for `2`
and half full for `1`, which is pushed as 0 (an empty cell holds -1). From `=` on, one cell per step
is popped, and the string is written in reverse.""",
    ),
    Piece(
        "addition",
        "The sum of two numbers",
        ["10+11=", "--stacks", "3,4,7"],
        """Three of nine stacks: the third is filled by the first number, the seventh by the second,
the fourth by both, and all are emptied while the sum is written, last digit first.""",
    ),
)


def command(piece: Piece) -> list[str]:
    """The arguments of `stacktrans` that draw the picture of a model."""
    model = f"checkpoints/{piece.name}"
    return ["inspect", model, *piece.arguments, "--plot", f"docs/images/{piece.name}.svg"]


def extraction(piece: Piece) -> list[str]:
    """The arguments of `stacktrans` that extract the machine of a model."""
    return ["extract", f"checkpoints/{piece.name}"]


def rules_of(piece: Piece) -> str:
    """The output of `extract` that was saved when the pictures were drawn."""
    return (DOCS / "rules" / f"{piece.name}.txt").read_text(encoding="utf-8")


def gallery_page() -> str:
    """The contents of docs/gallery.md."""
    return "\n\n".join([HEADING, *map(_section, PIECES)]) + "\n"


def _section(piece: Piece) -> str:
    """Title, command, picture, description and rules of a model."""
    loaded = checkpoint.load(ROOT / "checkpoints" / piece.name)
    shown = f"The memory, strengths, reads, inputs and outputs of {piece.name}, step by step"
    parts = [
        f"## {piece.title}",
        f"The model `{piece.name}`: {loaded.description}.",
        f"```console\n$ stacktrans {shlex.join(command(piece))}\n```",
        f"![{shown}](images/{piece.name}.svg)",
        piece.text,
    ]
    if piece.ruled:
        words = shlex.join(extraction(piece))
        parts.append(f"```console\n$ stacktrans {words}\n{rules_of(piece)}```")
    return "\n\n".join(parts)


def main() -> None:
    """Write the page, the pictures and the rules."""
    for piece in PIECES:
        _run([word.replace("docs/", f"{DOCS}/") for word in command(piece)])
        if piece.ruled:
            rules = _run(extraction(piece))
            (DOCS / "rules" / f"{piece.name}.txt").write_text(rules, encoding="utf-8")
    (DOCS / "gallery.md").write_text(gallery_page(), encoding="utf-8")


def _run(words: Sequence[str]) -> str:
    """Run a command, and return its output."""
    done = CliRunner().invoke(app, words, env={"COLUMNS": "100"})
    assert done.exit_code == 0, done.output
    return done.stdout


if __name__ == "__main__":
    main()
