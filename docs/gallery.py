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
outputs. [Inspecting](inspecting.md) shows more ways to look at these models. Written by `python
docs/gallery.py`."""


class Piece(NamedTuple):
    """A model in the gallery.

    Attributes:
        name: of its checkpoint.
        title: what it does.
        arguments: of `inspect`, the string first.
        text: what can be seen.
    """

    name: str
    title: str
    arguments: Sequence[str]
    text: str


PIECES = (
    Piece(
        "copy-queue",
        "A queue that copies",
        ["queue"],
        """What is read is pushed at the back. From the end of the source, `|||`, on one symbol a
step is popped from the front, which is at the bottom here, and what then comes up is the answer.
The model goes on pushing what it answers; that is never read again, since the answer is over
before its turn comes.""",
    ),
    Piece(
        "reverse-stack",
        "A stack that reverses",
        ["abcde"],
        """What was pushed last is on top, and comes back first. While it answers, the model
pushes next to nothing. It pops a little less than 1 a step, so that a thin rest of each symbol is
read together with the next one.""",
    ),
    Piece(
        "copy-deque",
        "A double-ended queue that copies",
        ["abcde"],
        """A deque can be used as a queue or as a stack, and nobody said which. To copy, this
model learned to push at the top, to pop at the bottom, and to answer with what it reads there: it
is used as a queue.""",
    ),
    Piece(
        "reversal-stack",
        "72 numbers that reverse",
        ["0110####"],
        """The controller is linear: it has no state of its own, and sees nothing but the current
symbol and the top of the stack. While it reads `0` and `1` it pushes more than it pops, and at
each `#` it pops more.""",
    ),
    Piece(
        "parenthesis-stack",
        "Which bracket closes",
        ["([()]"],
        """At each step the model says which bracket would close the innermost open one. An
opening bracket is pushed, a closing one pops it, and the answer is that which fits the top.""",
    ),
    Piece(
        "xor-buffered",
        "An odd number of ones",
        ["1101"],
        """A model with [buffers](models.md#buffers), and a stack that it uses in a way of its
own: it pushes at each `1` and never pops. What counts is the vector on top. There are two of them
in turn (`pushed top`: compare steps 1, 2 and 4), for an odd and an even number of ones so far.""",
    ),
    Piece(
        "anbncn",
        "Counting up and down",
        ["aaaabbbb"],
        """In `aaaabbbbcccc` the first letters decide on all others. The second stack grows at
each `a` and shrinks at each `b`; meanwhile the first one counts each `b` for the `c` to come.
Where a stack is empty, the next letter begins.""",
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


def gallery_page() -> str:
    """What docs/gallery.md should be."""
    return "\n\n".join([HEADING, *map(_section, PIECES)]) + "\n"


def _section(piece: Piece) -> str:
    """The title, the command, the picture, and what can be seen."""
    loaded = checkpoint.load(ROOT / "checkpoints" / piece.name)
    shown = f"The memory, strengths, reads, inputs and outputs of {piece.name}, step by step"
    return "\n\n".join(
        (
            f"## {piece.title}",
            f"`{piece.name}`. {model_line(loaded.config)}.",
            f"```console\n$ stacktrans {shlex.join(command(piece))}\n```",
            f"![{shown}](images/{piece.name}.svg)",
            piece.text,
        )
    )


def main() -> None:
    """Write the page and the pictures."""
    (DOCS / "gallery.md").write_text(gallery_page(), encoding="utf-8")
    for piece in PIECES:
        words = [word.replace("docs/", f"{DOCS}/") for word in command(piece)]
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, done.output


if __name__ == "__main__":
    main()
