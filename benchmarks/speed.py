"""How fast training is, beside torch's own LSTM, the definition in torch and a naive loop.

    python benchmarks/speed.py [--parts a,b,c,d,e,f,g,h,i] [--markdown FILE] [--quick]

    a  a training step at four sizes, beside nn.LSTM, the definition and a naive loop
    b  strings from short to long, beside nn.LSTM
    c  a memory alone, from short to long
    d  one thread and two
    e  from nothing to a solved task, by the command line
    f  a very long line, transduced by the command line
    g  a whole batch of training with the small models of hao2018
    h  streams in pieces, with the models of joulin2015, and the speeds that it publishes
    i  several memories in one model, beside what each of them costs

Times are of this machine; what can be compared is the ratios, but for those of part h to
published speeds, which are of another machine and of other work: `peer.py` compares the two
side by side. `measuring.py` says how times are taken.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from machine import processor
from measuring import BATCH, MEMORIES, Measurement, measure
from rich.console import Console
from rich.table import Table

from stacktrans import __version__

TASKS = (("copy", "queue"), ("reverse", "stack"))
SEVERAL = ("queue+stack", "stack+stack+queue", "deque+queue")
SMALL_TASKS = ("reversal", "parenthesis", "agreement")
PUBLISHED = {(40, 10): 3500, (10, 2): 23_400}
"""Symbols a second of the C++ on its authors' machine, by hidden units and stacks."""


@dataclass(frozen=True)
class Scale:
    """How much is measured.

    Attributes:
        sizes: hidden and memory sizes of parts a and d.
        steps: length of their strings.
        growing_sizes: sizes of part b.
        lengths: lengths of strings in parts b and c.
        memory_size: size m in part c.
        rounds: least number of measurements of each thing.
        seconds: each thing is measured for at least so long.
        processes: how often part c starts a process for each number.
        seeds: runs of each task in part e.
        training: arguments that cut the runs of part e short.
        line: symbols in the line of part f.
        piece: symbols in a piece of part h.
    """

    sizes: tuple[tuple[int, int], ...] = ((64, 32), (128, 64), (256, 256), (512, 256))
    steps: int = 131
    growing_sizes: tuple[tuple[int, int], ...] = ((64, 32), (256, 256))
    lengths: tuple[int, ...] = (32, 64, 128, 256, 512, 1024, 2048, 4096)
    memory_size: int = 256
    rounds: int = 5
    seconds: float = 1.0
    processes: int = 2
    seeds: int = 5
    training: tuple[str, ...] = ()
    line: int = 100_000
    piece: int = 50


QUICK = Scale(
    sizes=((16, 8),),
    steps=20,
    growing_sizes=((16, 8),),
    lengths=(32, 64),
    memory_size=16,
    rounds=2,
    seconds=0.02,
    processes=1,
    seeds=1,
    training=("--max-steps", "20", "--set", "measure.strings=10"),
    line=1000,
    piece=10,
)


@dataclass
class Result:
    """A table and what is to be known about it."""

    title: str
    note: str
    columns: list[str]
    rows: list[list[str]]


def milliseconds(number: float) -> str:
    """With three digits, or all before the point."""
    return f"{number:.{max(0, 3 - len(str(int(number))))}f}"


def multiple(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}"


def job_of(scale: Scale, subjects: Sequence[str], size: tuple[int, int], steps: int) -> Measurement:
    return Measurement(tuple(subjects), *size, steps, scale.rounds, scale.seconds)


def training_step(scale: Scale) -> Iterator[Result]:
    """Part a."""
    memories = (*MEMORIES, "none")
    rows = []
    for size in scale.sizes:
        kinds = ("fused", "equal", "torch", "naive")
        subjects = ["lstm 1", "lstm 2", *(f"{k} {m}" for m in memories for k in kinds)]
        measured = measure(job_of(scale, subjects, size, scale.steps))
        found = measured.milliseconds
        for memory in memories:
            ours = found[f"fused {memory}"]
            rows.append(
                [
                    f"{size[0]}/{size[1]}" if memory != "none" else str(size[0]),
                    memory,
                    milliseconds(ours),
                    multiple(ours / found["lstm 1"]),
                    multiple(ours / found["lstm 2"]),
                    multiple(ours / found[f"equal {memory}"]),
                    str(measured.units[f"equal {memory}"]),
                    multiple(found[f"torch {memory}"] / ours),
                    multiple(found[f"naive {memory}"] / ours),
                ]
            )
    yield Result(
        "A training step",
        f"Forward and backward over {BATCH} strings of {scale.steps} steps, from ids to the "
        "controller's outputs, one thread. First our time as a multiple of nn.LSTM's: with one "
        "and two layers of as many units, and with one layer of as many parameters, whose units "
        "are given. Then the multiple of our time that the definition in torch and a naive loop "
        "over nn.LSTMCell take.",
        [
            "hidden/memory",
            "memory",
            "ms",
            "of LSTM, 1 layer",
            "of LSTM, 2 layers",
            "of LSTM, as many parameters",
            "its units",
            "definition takes",
            "naive loop takes",
        ],
        rows,
    )


def growing_strings(scale: Scale) -> Iterator[Result]:
    """Part b."""
    for size in scale.growing_sizes:
        rows = []
        for steps in scale.lengths:
            subjects = ["lstm 2", *(f"fused {memory}" for memory in MEMORIES)]
            found = measure(job_of(scale, subjects, size, steps)).milliseconds
            ours = [found[f"fused {memory}"] for memory in MEMORIES]
            rows.append(
                [
                    str(steps),
                    milliseconds(found["lstm 2"]),
                    *map(milliseconds, ours),
                    *(multiple(our / found["lstm 2"]) for our in ours),
                ]
            )
        yield Result(
            f"Longer strings, {size[0]}/{size[1]}",
            f"Forward and backward over {BATCH} strings, one thread: milliseconds, and multiples "
            "of the time of an nn.LSTM of two layers of as many units.",
            [
                "steps",
                "LSTM, 2 layers, ms",
                *(f"{memory}, ms" for memory in MEMORIES),
                *(f"{memory} of LSTM" for memory in MEMORIES),
            ],
            rows,
        )


def memory_alone(scale: Scale) -> Iterator[Result]:
    """Part c."""
    found: dict[tuple[str, int], float] = {}
    for _ in range(scale.processes):
        for steps in scale.lengths:
            for memory in MEMORIES:
                job = job_of(scale, [f"alone {memory}"], (0, scale.memory_size), steps)
                (best,) = measure(job).milliseconds.values()
                found[memory, steps] = min(best, found.get((memory, steps), best))
    first = scale.lengths[0]
    rows = []
    for steps in scale.lengths:
        each = [1000 * found[memory, steps] / steps for memory in MEMORIES]
        at_first = [1000 * found[memory, first] / first for memory in MEMORIES]
        rows.append(
            [
                str(steps),
                *(f"{now:.1f}" for now in each),
                *(multiple(now / then) for now, then in zip(each, at_first, strict=True)),
            ]
        )
    yield Result(
        f"A memory alone, vectors of {scale.memory_size}",
        f"Forward and backward over {BATCH} strings with random strengths, one thread: "
        f"microseconds a step, and multiples of those at {first} steps. Each number is from a "
        "process of its own, since the first writing to fresh memory counts too.",
        [
            "steps",
            *(f"{memory}, µs a step" for memory in MEMORIES),
            *(f"{memory}, of {first} steps" for memory in MEMORIES),
        ],
        rows,
    )


def threads(scale: Scale) -> Iterator[Result]:
    """Part d."""
    rows = []
    for size in scale.sizes:
        what = {f"fused {memory}": memory for memory in MEMORIES} | {"lstm 2": "LSTM, 2 layers"}
        subjects = [f"{count} threads: {name}" for count in (1, 2) for name in what]
        found = measure(job_of(scale, subjects, size, scale.steps)).milliseconds
        for name, shown in what.items():
            one, two = (found[f"{count} threads: {name}"] for count in (1, 2))
            rows.append(
                [
                    f"{size[0]}/{size[1]}",
                    shown,
                    milliseconds(one),
                    milliseconds(two),
                    multiple(one / two),
                    multiple(two / found["2 threads: lstm 2"]),
                ]
            )
    yield Result(
        "One thread and two",
        f"Forward and backward over {BATCH} strings of {scale.steps} steps. In the last column, "
        "our time as a multiple of that of an nn.LSTM of two layers, both with two threads.",
        ["hidden/memory", "what", "1 thread, ms", "2 threads, ms", "speed-up", "of LSTM, 2 layers"],
        rows,
    )


def solve(run: tuple[str, str, int], more: Sequence[str]) -> dict[str, Any]:
    """What `stacktrans train` prints at the end of a run of a task with a memory and a seed."""
    task, memory, seed = run
    print(f"training {task} with a {memory}, seed {seed}", file=sys.stderr)
    with tempfile.TemporaryDirectory() as directory:
        command = [
            "train",
            "--recipe",
            "default",
            "--task",
            task,
            "--memory",
            memory,
            "--seed",
            str(seed),
            *more,
        ]
        done = subprocess.run(
            [sys.executable, "-m", "stacktrans", *command, "--json", "--out", f"{directory}/run"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=True,
        )
    summary: dict[str, Any] = json.loads(done.stdout)
    return summary


def solutions(scale: Scale) -> Iterator[Result]:
    """Part e."""
    jobs = [(task, memory, seed) for task, memory in TASKS for seed in range(1, scale.seeds + 1)]
    done = [solve(job, scale.training) for job in jobs]
    rows, each = [], []
    for task, memory in TASKS:
        runs = [run for job, run in zip(jobs, done, strict=True) if job[:2] == (task, memory)]
        seconds = [run["seconds"] for run in runs]
        batches = [run["steps"] for run in runs]
        rows.append(
            [
                task,
                memory,
                f"{sum(run['outcome'] == 'solved' for run in runs)} of {len(runs)}",
                f"{statistics.median(seconds):.1f}",
                f"{min(seconds):.1f} to {max(seconds):.1f}",
                f"{statistics.median(batches):.0f}",
                f"{min(batches)} to {max(batches)}",
            ]
        )
        for run in runs:
            each.append(
                [
                    task,
                    memory,
                    str(run["seed"]),
                    run["outcome"],
                    str(run["attempts"]),
                    f"{run['seconds']:.1f}",
                    str(run["steps"]),
                ]
            )
    command = " ".join(
        [
            "stacktrans train --recipe default --task TASK --memory MEMORY --seed SEED",
            *scale.training,
        ]
    )
    yield Result(
        "Time to solution",
        f"Medians and ranges over seeds 1 to {scale.seeds} of `{command}`, one run at a time, one "
        "thread each. Seconds are of training, validation included.",
        ["task", "memory", "solved", "seconds", "range", "batches", "range"],
        rows,
    )
    yield Result(
        "Each run", "", ["task", "memory", "seed", "outcome", "starts", "seconds", "batches"], each
    )


LONG_LINE = """
import resource, subprocess, sys, time
began = time.monotonic()
command = [sys.executable, "-m", "stacktrans", "transduce", sys.argv[1]]
done = subprocess.run(command, stdin=open(sys.argv[2]), stdout=subprocess.PIPE, check=True)
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(time.monotonic() - began, peak / 1024, len(done.stdout.decode()) - 1)
"""


def long_line(scale: Scale) -> Iterator[Result]:
    """Part f."""
    rows = []
    for name in ("reverse-stack", "copy-queue"):
        print(f"transducing a long line with {name}", file=sys.stderr)
        with tempfile.NamedTemporaryFile("w") as line:
            line.write("0123456789" * (scale.line // 10) + "\n")
            line.flush()
            done = subprocess.run(
                [sys.executable, "-c", LONG_LINE, name, line.name],
                stdout=subprocess.PIPE,
                check=True,
            )
        seconds, peak, answered = map(float, done.stdout.split())
        rows.append([name, str(scale.line), f"{answered:.0f}", f"{seconds:.1f}", f"{peak:.0f}"])
    yield Result(
        "A very long line",
        "`stacktrans transduce` from its start to its end, one thread: symbols in and out, "
        "seconds, and the most memory it had at once.",
        ["model", "symbols", "answered", "seconds", "MiB"],
        rows,
    )


def small_models(scale: Scale) -> Iterator[Result]:
    """Part g."""
    rows = []
    for task in SMALL_TASKS:
        for controller in ("linear", "lstm"):
            which = f"{task}/{controller}"
            job = job_of(scale, [f"batch {which}", f"slow-batch {which}"], (0, 0), 0)
            found = measure(job).milliseconds
            ours = found[f"batch {which}"]
            slow = multiple(found[f"slow-batch {which}"] / ours)
            rows.append([task, controller, milliseconds(ours), slow])
    yield Result(
        "A batch of training, small models",
        "Ten strings by the recipe of hao2018 with a stack, from the strings to new weights, one "
        "thread; and the multiple of our time that the definition in torch takes.",
        ["task", "controller", "ms", "definition takes"],
        rows,
    )


def streams(scale: Scale) -> Iterator[Result]:
    """Part h."""
    rows = []
    for (hidden, count), published in PUBLISHED.items():
        for number in (32, 1):
            which = f"{number}x{count}"
            subjects = [f"pieces {which}", f"slow-pieces {which}"]
            found = measure(job_of(scale, subjects, (hidden, 1), scale.piece)).milliseconds
            ours, slow = found.values()
            speed = 1000 * number * scale.piece / ours
            rows.append(
                [
                    str(hidden),
                    str(count),
                    str(number),
                    f"{speed:,.0f}",
                    f"{published:,}",
                    multiple(speed / published),
                    multiple(slow / ours),
                ]
            )
    yield Result(
        "Streams in pieces, stacks with actions",
        f"Training by the next symbol of streams that go on from piece to piece, {scale.piece} "
        "symbols at once, from ids to new weights, one thread: symbols a second; those that "
        "joulin2015 publishes for its C++, and our speed as a multiple of them; and the multiple "
        "of our time that the definition in torch takes. The published figures are of another "
        "machine and of other work: the C++ takes one stream, changes its weights after every "
        "symbol, carries each symbol's error back through 50 steps, and depends on the size that "
        "its stacks are given. `peer.py` runs both side by side.",
        [
            "hidden",
            "stacks",
            "streams",
            "symbols a second",
            "published, elsewhere",
            "multiple of it",
            "definition takes",
        ],
        rows,
    )


def several_memories(scale: Scale) -> Iterator[Result]:
    """Part i."""
    rows = []
    for size in scale.sizes:
        for together in SEVERAL:
            parts = together.split("+")
            subjects = [f"fused {name}" for name in ("none", *dict.fromkeys(parts), together)]
            found = measure(job_of(scale, subjects, size, scale.steps)).milliseconds
            without, ours = found["fused none"], found[f"fused {together}"]
            each = [found[f"fused {part}"] for part in parts]
            expected = without + sum(part - without for part in each)
            rows.append(
                [
                    f"{size[0]}/{size[1]}",
                    together,
                    milliseconds(without),
                    ", ".join(map(milliseconds, each)),
                    milliseconds(ours),
                    multiple(ours / max(each)),
                    multiple(ours / expected),
                ]
            )
    yield Result(
        "Several memories in one model",
        f"Forward and backward over {BATCH} strings of {scale.steps} steps, from ids to the "
        "controller's outputs, one thread: of a model without a memory, with each memory alone, "
        "and with all of them; the last as a multiple of the slowest alone, and of the sum, which "
        "is the time without a memory and what each adds to it.",
        [
            "hidden/memory",
            "memories",
            "without, ms",
            "each alone, ms",
            "together, ms",
            "of the slowest",
            "of the sum",
        ],
        rows,
    )


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
}


def provenance(options: argparse.Namespace) -> str:
    """What made the tables, and where."""
    command = f"python benchmarks/speed.py --parts {','.join(options.parts)}"
    return (
        f"stacktrans {__version__}, torch {version('torch')}, numba {version('numba')}, "
        f"Python {platform.python_version()}; {processor()}, {os.cpu_count()} cores; "
        f"one thread where nothing else is said. Written by `{command}"
        f"{' --quick' * options.quick}`."
    )


def show(result: Result, console: Console) -> None:
    table = Table(title=result.title, title_justify="left")
    for column in result.columns:
        table.add_column(column, justify="right")
    for row in result.rows:
        table.add_row(*row)
    console.print(table)
    console.print(f"{result.note}\n")


def section(result: Result, origin: str) -> str:
    """A table in Markdown, and what made it."""
    lines = [f"## {result.title}", ""]
    if result.note:
        lines += [result.note, ""]
    lines.append(f"| {' | '.join(result.columns)} |")
    lines.append("|---" + "|---:" * (len(result.columns) - 1) + "|")
    lines += [f"| {' | '.join(row)} |" for row in result.rows]
    return "\n".join([*lines, "", origin, ""])


def write_markdown(path: Path, results: Sequence[Result], origin: str) -> None:
    """Write tables to a file, in the place of those of the same title; others stay."""
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    sections = {
        text.partition("\n")[0]: f"## {text.rstrip()}\n" for text in before.split("\n## ")[1:]
    }
    sections |= {result.title: section(result, origin) for result in results}
    path.write_text("\n".join(["# Speed\n", *sections.values()]), encoding="utf-8")


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
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables here, too")
    parser.add_argument("--quick", action="store_true", help="only see that everything works")
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
