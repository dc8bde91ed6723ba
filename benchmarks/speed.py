"""The speed of training, compared with torch's LSTM, the definition in torch and a naive loop.

    python benchmarks/speed.py [--parts a,b,c,d,e,f,g,h,i,j] [--markdown FILE] [--quick]

    a  a training step at four sizes, compared with nn.LSTM, the definition and a naive loop
    b  strings from short to long, compared with nn.LSTM
    c  a memory alone, from short to long
    d  one and two threads
    e  training until a task is solved, with the command line
    f  transduction of a very long line, with the command line
    g  a complete training batch with the small models of hao2018
    h  pieces of streams, with the models of joulin2015, compared with the published speeds
    i  several memories in one model, compared with each of them alone
    j  the matrix product of a step in tiles, compared with plain loops and numpy

Times depend on the machine; only ratios can be compared, except for those of part h to published
speeds, which are from another machine and for other work: `peer.py` compares the two side by side.
`measuring.py` describes how times are taken.
"""

import argparse
import os
import platform
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

from machine import processor
from results import Result, show, write_markdown
from rich.console import Console
from scale import QUICK, Scale
from timed_commands import long_line, solutions
from timed_products import products
from timed_steps import (
    growing_strings,
    memory_alone,
    several_memories,
    small_models,
    streams,
    threads,
    training_step,
)

from stacktrans import __version__

PARTS: dict[str, Callable[[Scale], Iterator[Result]]] = {
    "a": training_step,
    "b": growing_strings,
    "c": memory_alone,
    "d": threads,
    "e": solutions,
    "f": long_line,
    "g": small_models,
    "h": streams,
    "i": several_memories,
    "j": products,
}


def provenance(options: argparse.Namespace) -> str:
    """The versions, the machine and the command that the tables are from."""
    command = f"python benchmarks/speed.py --parts {','.join(options.parts)}"
    return (
        f"stacktrans {__version__}, torch {version('torch')}, numba {version('numba')}, "
        f"Python {platform.python_version()}; {processor()}, {os.cpu_count()} cores; "
        f"one thread unless stated otherwise. Written by `{command}"
        f"{' --quick' * options.quick}`."
    )


def parts(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in PARTS:
            raise argparse.ArgumentTypeError(
                f"no part {name!r}; expected some of {','.join(PARTS)}"
            )
    return names


def main() -> None:
    """Measure, and show or write the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--parts", type=parts, default=list(PARTS), help="such as a,c")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="also write the tables here")
    parser.add_argument("--quick", action="store_true", help="only check that everything works")
    options = parser.parse_args()
    scale = QUICK if options.quick else Scale()
    origin = provenance(options)
    console = Console(width=None if sys.stdout.isatty() else 140)
    results: list[Result] = []
    for part in options.parts:
        for result in PARTS[part](scale):
            results.append(result)
            show(result, console)
            if options.markdown:
                write_markdown(options.markdown, results, origin)
    console.print(origin)


if __name__ == "__main__":
    main()
