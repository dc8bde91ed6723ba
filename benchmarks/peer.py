"""Training speed side by side with the C++ program published with joulin2015.

    python benchmarks/peer.py --peer PATH [--rounds N] [--markdown FILE] [--quick]

PATH is a directory in which its `train_toy` was built with `make toy`, or that program itself.
Both programs train on the same stream, a^n b^n c^n d^n with n = 2, the only sequence of the first
epoch of `train_toy`, with stacks of the same size, in turn, with one thread each. Processor time is
measured, so that other work on the machine has little influence.

The two do different work per symbol. After each symbol, the C++ program propagates the error of
this symbol alone back through the last 50 steps and updates all weights, in float64; each stack has
all cells of its capacity. stacktrans reads pieces of 50 symbols, propagates the errors of a piece
back to its start and updates the weights once per piece, in float32, and its stacks have only the
cells in use; it trains on one stream, like the C++ program, or on several in parallel.
"""

import argparse
import json
import os
import platform
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from machine import processor
from measuring import stack_rnn
from results import Result, multiple, show, write_markdown
from rich.console import Console

from stacktrans import __version__

if TYPE_CHECKING:
    from torch import Tensor

PIECE = 50
SYMBOLS = 4
PERIOD = [symbol for symbol in range(SYMBOLS) for _ in range(2)]
"""The ids of a sequence with n = 2."""
STREAMS = (1, 32)
WARM_PIECES = 10
MIN_PIECES = 100
RATE = 0.1


@dataclass(frozen=True)
class Job:
    """The sizes of the model and of the training data.

    Attributes:
        hidden: number of hidden units.
        stacks: number of stacks.
        stack_size: number of cells of a stack.
        sequences: number of sequences that the C++ program trains on.
    """

    hidden: int
    stacks: int
    stack_size: int
    sequences: int


@dataclass(frozen=True)
class Speed:
    """The number of symbols that a program trained on, and its processor time in seconds."""

    symbols: int
    seconds: float

    @property
    def per_second(self) -> float:
        return self.symbols / self.seconds


JOBS = [
    Job(hidden, stacks, stack_size, sequences)
    for hidden, stacks, sequences in ((40, 10, 500), (10, 2, 2000))
    for stack_size in (20, 50, 200)
]
QUICK = [Job(10, 2, 20, 50)]


def peer(text: str) -> Path:
    """The C++ program at a path, which may be its directory."""
    path = Path(text)
    program = path / "train_toy" if path.is_dir() else path
    if path.is_dir() and not program.exists():
        raise argparse.ArgumentTypeError(f"{text}: no train_toy there; `make toy` builds it")
    if not program.is_file():
        raise argparse.ArgumentTypeError(f"{text}: no such file or directory")
    if not os.access(program, os.X_OK):
        raise argparse.ArgumentTypeError(f"{program}: not a program")
    return program.resolve()


def theirs(program: Path, job: Job) -> Speed:
    """Run the C++ program up to the end of its first epoch of training."""
    options = {
        "ntask": 1, "nchar": SYMBOLS, "nmax": 3, "nhid": job.hidden, "nstack": job.stacks,
        "stack_size": job.stack_size, "nseq": job.sequences, "depth": 2, "bptt": PIECE, "mod": 1,
        "lr": RATE,
    }  # fmt: skip
    command = [str(program)]
    for name, value in options.items():
        command += [f"-{name}", str(value)]
    output = b""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as directory:
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, cwd=directory
            )
        except OSError as error:
            raise SystemExit(f"{program}: {error.strerror}") from None
        assert process.stdout
        # Unbuffered, so that it is stopped as soon as validation begins.
        while b"[valid]" not in output and (more := os.read(process.stdout.fileno(), 1 << 16)):
            output = output[-1000:] + more
        process.kill()
        process.communicate()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    trained = re.findall(rb"\[train\][^\r\n]*? it= *(\d+)", output.partition(b"[valid]")[0])
    if b"[valid]" not in output or not trained:
        end = output.decode(errors="replace").strip().splitlines()[-1:]
        raise SystemExit(f"{program}: it did not train as train_toy does: {' '.join(end)!r}")
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Speed(int(trained[-1]), used)


def ours(job: Job, streams: int, symbols: int) -> Speed:
    """Train on about `symbols` symbols in all, but at least `MIN_PIECES` pieces of each stream."""
    import torch

    torch.set_num_threads(1)
    model = stack_rnn(job.stacks, job.hidden, "fused", capacity=job.stack_size)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    pieces = max(MIN_PIECES, round(symbols / PIECE / streams))
    length = (WARM_PIECES + pieces) * PIECE + 1
    stream = torch.tensor(PERIOD).repeat(-(-length // len(PERIOD)))
    state = None

    def train_on(ids: "Tensor") -> None:
        nonlocal state
        unrolled, state = model.unroll_segment(ids[:, :-1], state)
        logits = model.logits(unrolled, torch.ones(ids[:, 1:].shape, dtype=torch.bool))
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(logits, ids[:, 1:].flatten()).backward()
        optimizer.step()

    for number in range(WARM_PIECES + pieces):
        if number == WARM_PIECES:
            began = time.process_time()
        train_on(stream[number * PIECE : (number + 1) * PIECE + 1].expand(streams, -1))
    return Speed(pieces * PIECE * streams, time.process_time() - began)


def ours_in_process(job: Job, streams: int, symbols: int) -> Speed:
    """Train with stacktrans in a separate process."""
    work = json.dumps({"job": asdict(job), "streams": streams, "symbols": symbols})
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, __file__, "--ours", work],
        stdout=subprocess.PIPE,
        check=True,
        env=environment,
    )
    return Speed(**json.loads(done.stdout))


def side_by_side(program: Path, job: Job, rounds: int) -> list[str]:
    """Measure both programs, and return a row of the table."""
    print(f"measuring {job}", file=sys.stderr)
    their_speeds: list[float] = []
    our_speeds: dict[int, list[float]] = {streams: [] for streams in STREAMS}
    for _ in range(rounds):
        their = theirs(program, job)
        their_speeds.append(their.per_second)
        for streams, speeds in our_speeds.items():
            speeds.append(ours_in_process(job, streams, their.symbols).per_second)
    ratios = {
        streams: [our / their for our, their in zip(speeds, their_speeds, strict=True)]
        for streams, speeds in our_speeds.items()
    }
    return [
        str(job.hidden),
        str(job.stacks),
        str(job.stack_size),
        f"{statistics.median(their_speeds):,.0f}",
        *(f"{statistics.median(speeds):,.0f}" for speeds in our_speeds.values()),
        *(multiple(statistics.median(values)) for values in ratios.values()),
        f"{multiple(min(ratios[1]))} to {multiple(max(ratios[1]))}",
    ]


def comparison(program: Path, jobs: Sequence[Job], rounds: int) -> Result:
    """The table of both speeds for all sizes."""
    return Result(
        "Side by side with the C++ program of joulin2015",
        "Training on a^n b^n c^n d^n with n = 2, one thread each, in turn: symbols per second of "
        f"processor time, medians of {rounds}, and the ratio of our speed to that of the C++ "
        "program, by round. The two do different work. After each symbol the C++ program "
        f"propagates its error back through {PIECE} steps and updates all weights, in float64, and "
        "its stacks have all cells of their capacity from the start. stacktrans updates the "
        f"weights once in {PIECE} symbols, with the errors of all of them propagated to the start "
        "of the piece, in float32, and its stacks have the cells in use; it trains on one stream, "
        f"or on {STREAMS[1]} in parallel.",
        [
            "hidden",
            "stacks",
            "stack size",
            "C++",
            *(f"ours, {streams} stream{'s' * (streams > 1)}" for streams in STREAMS),
            *(f"ratio, {streams} stream{'s' * (streams > 1)}" for streams in STREAMS),
            "range, 1 stream",
        ],
        [side_by_side(program, job, rounds) for job in jobs],
    )


def provenance(options: argparse.Namespace) -> str:
    """The versions, the machine and the command that the table is from."""
    return (
        f"stacktrans {__version__}, torch {version('torch')}, numba {version('numba')}, Python "
        f"{platform.python_version()}; {processor()}, {os.cpu_count()} cores. Written by `python "
        f"benchmarks/peer.py --peer PATH --rounds {options.rounds}{' --quick' * options.quick}`."
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and show or write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--peer", type=peer, metavar="PATH", help="the C++ program, or its directory")
    mode.add_argument("--ours", help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=3, help="number of measurements")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="also write the table here")
    parser.add_argument("--quick", action="store_true", help="only check that everything works")
    options = parser.parse_args(arguments)
    if options.ours:
        work = json.loads(options.ours)
        speed = ours(Job(**work["job"]), work["streams"], work["symbols"])
        json.dump(asdict(speed), sys.stdout)
        return
    if options.rounds < 1:
        parser.error("--rounds: at least 1")
    result = comparison(options.peer, QUICK if options.quick else JOBS, options.rounds)
    origin = provenance(options)
    console = Console(width=None if sys.stdout.isatty() else 140)
    show(result, console)
    console.print(origin)
    if options.markdown:
        write_markdown(options.markdown, [result], origin)


if __name__ == "__main__":
    main()
