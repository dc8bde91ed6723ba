"""Write docs/gallery.md, a page with a picture of each shipped model, and the pictures.

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
from stacktrans.model.description import model_line

DOCS = Path(__file__).parent
ROOT = DOCS.parent
HEADING = """# Gallery

Each of the [trained models](models.md) that come with stacktrans at work on a short string. In
each picture time goes from left to right. On top is what is on the memory after each step, as
thick as its strength (or of a [stack with actions](models.md#stacks-and-lists-with-actions) as
high as its cells are full); below, in shades from white for 0 to black for 1, how strongly the
model pushes and pops, the vectors pushed where they are short, what is read, and inputs and
outputs. Below some stand the rules of the [machine](machines.md) that the model is.
[Inspecting](inspecting.md) shows more ways to look at these models. Written by `python
docs/gallery.py`."""


class Piece(NamedTuple):
    """A model in the gallery.

    Attributes:
        name: of its checkpoint.
        title: what it does.
        arguments: of `inspect`, the string first.
        text: what can be seen.
        ruled: whether the rules of its machine are shown.
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
        """Every symbol that is read is pushed at the back. From the separator `|||` on, one symbol
a step is popped from the front, at the bottom of the picture, and what comes up next is the
answer. Where there is no symbol to push, the model pushes a mark; when the mark reaches the
front, the answer is complete.""",
        True,
    ),
    Piece(
        "reverse-stack",
        "A stack that reverses",
        ["abcde"],
        """What was pushed last is on top, and comes back first. At the bottom lies a mark that was
pushed at the beginning of the string, `<s>`; when it is reached, everything has been popped.""",
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
        """At each step the model says which bracket would close the innermost open one. An
opening bracket is pushed, a closing one pops it, and the answer is that which fits the bracket
below. Each kind of bracket is pushed in two ways, which tell what is below it.""",
        True,
    ),
    Piece(
        "xor-buffered",
        "An odd number of ones",
        ["1101"],
        """A model with [buffers](models.md#buffers), and a stack that it uses in a way of its
own: it never pops. Only the vector that was pushed last matters: it encodes whether the number of
ones so far is odd. The first output is dropped, so that each answer may come a step late.""",
        True,
    ),
    Piece(
        "anbn",
        "Counting up and down",
        ["aaabbb"],
        """As many `b` as `a`: the stack grows at each `a`, and shrinks at each `b`. Where it
gets empty, another string begins. The second stack does the same, and nothing depends on it.""",
        True,
    ),
    Piece(
        "anbncn",
        "Counting twice",
        ["aaaabbbb"],
        """In `aaaabbbbcccc` the first symbols decide on all others. One stack grows at each `a` and
shrinks at each `b`; meanwhile the other one counts each `b` for the `c` to come. Where a stack is
empty, the next symbol begins.""",
        True,
    ),
    Piece(
        "memorization",
        "A string of ones and twos",
        ["11212=", "--stacks", "3"],
        """Of this model's seven stacks the third remembers. A cell is full for `2` and half full
for `1`, which is pushed as 0 (an empty cell holds -1). From `=` on one cell a step is popped, and
the string comes back in reverse.""",
    ),
    Piece(
        "addition",
        "The sum of two numbers",
        ["10+11=", "--stacks", "3,4,7"],
        """Three of eight stacks: the third is filled by the first number, the seventh by the
second, the fourth by both, and all are emptied while the sum is written, last digit first.""",
    ),
)


def command(piece: Piece) -> list[str]:
    """What draws a picture, after `stacktrans`."""
    model = f"checkpoints/{piece.name}"
    return ["inspect", model, *piece.arguments, "--plot", f"docs/images/{piece.name}.svg"]


def extraction(piece: Piece) -> list[str]:
    """What finds the rules of its machine, after `stacktrans`."""
    return ["extract", f"checkpoints/{piece.name}"]


def rules_of(piece: Piece) -> str:
    """What `extract` prints of its model, as it was when the pictures were drawn."""
    return (DOCS / "rules" / f"{piece.name}.txt").read_text(encoding="utf-8")


def gallery_page() -> str:
    """What docs/gallery.md should be."""
    return "\n\n".join([HEADING, *map(_section, PIECES)]) + "\n"


def _section(piece: Piece) -> str:
    """The title, the command, the picture, what can be seen, and the rules."""
    loaded = checkpoint.load(ROOT / "checkpoints" / piece.name)
    shown = f"The memory, strengths, reads, inputs and outputs of {piece.name}, step by step"
    parts = [
        f"## {piece.title}",
        f"`{piece.name}`. {model_line(loaded.config)}.",
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
    """What a command prints on stdout."""
    done = CliRunner().invoke(app, words, env={"COLUMNS": "100"})
    assert done.exit_code == 0, done.output
    return done.stdout


if __name__ == "__main__":
    main()
