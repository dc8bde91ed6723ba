"""What commands make of input that is wrong at random.

    python benchmarks/fuzz.py [--cases 10000] [--seed 1] [--markdown benchmarks/robustness.md]

A case is a command on a file that was made wrong: `tests/fuzzing.py` says how, and what has to
hold. Cases run in processes of their own, two side by side, so that one that dies is found and
counted, too. Ends with 1 if anything is wrong with a case.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from robustness import write_section

from stacktrans import __version__

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

TOGETHER = 125
"""Cases in a process."""
PROCESSES = 2
PATIENCE = 900
"""Seconds after which a process counts as hanging."""
MOST_ROOM = 3 << 30
"""Bytes of data that a process of cases can have, so that the machine itself is safe."""


@dataclass
class Kind:
    """What came of the cases of a kind.

    Attributes:
        codes: how often each exit code came.
        seconds: of CPU, the slowest.
        gained: bytes of memory, the greatest.
        problems: what must not be.
    """

    codes: Counter[int | None] = field(default_factory=Counter)
    seconds: float = 0.0
    gained: int = 0
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Chunk:
    """Some cases of a kind that one process tries: the numbers from `start` to before `stop`."""

    kind: str
    start: int
    stop: int


def try_out(chunk: Chunk, seed: int, models: Path) -> None:
    """Try some cases and print, a line of JSON each, what came of them."""
    import torch
    from fuzzing import Case, carry_out

    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_ROOM, MOST_ROOM))
    for number in range(chunk.start, chunk.stop):
        verdict = carry_out(Case(chunk.kind, number, seed), models)
        found = (number, verdict.ended.returncode, verdict.seconds, verdict.gained, verdict.problem)
        print(json.dumps(found), flush=True)


Result = tuple[int, int | None, float, int, str]
"""The number of a case, its exit code, seconds of CPU, bytes of memory, and what must not be."""


def results(chunk: Chunk, seed: int, models: Path) -> Iterator[Result]:
    """What came of each case, from processes of their own; one that died is one of them."""
    while chunk.start < chunk.stop:
        words = [chunk.kind, str(chunk.start), str(chunk.stop), str(seed), str(models)]
        process = subprocess.Popen(
            [sys.executable, __file__, "--worker", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        try:
            printed, ended = (
                process.communicate(timeout=PATIENCE)[0],
                f"died ({process.returncode})",
            )
        except subprocess.TimeoutExpired:
            process.kill()
            printed, ended = process.communicate()[0], "hung"
        found: list[Result] = [json.loads(line) for line in printed.splitlines()]
        yield from found
        reached = chunk.start + len(found)
        if reached < chunk.stop:
            yield reached, None, 0.0, 0, ended
        chunk = Chunk(chunk.kind, reached + 1, chunk.stop)


def tried(cases: int, seed: int, models: Path) -> dict[str, Kind]:
    """What came of so many cases, as many of each kind."""
    from fuzzing import KINDS

    each = -(-cases // len(KINDS))
    chunks = [
        Chunk(kind, start, min(start + TOGETHER, each))
        for kind in KINDS
        for start in range(0, each, TOGETHER)
    ]
    kinds = {kind: Kind() for kind in KINDS}
    with ThreadPoolExecutor(PROCESSES) as pool:
        found = pool.map(lambda chunk: (chunk, list(results(chunk, seed, models))), chunks)
        for chunk, lines in found:
            kind = kinds[chunk.kind]
            for number, code, seconds, gained, problem in lines:
                kind.codes[code] += 1
                kind.seconds = max(kind.seconds, seconds)
                kind.gained = max(kind.gained, gained)
                if problem:
                    kind.problems.append(f"{chunk.kind} {number}: {problem}")
                    print(kind.problems[-1], file=sys.stderr, flush=True)
    return kinds


def as_markdown(kinds: dict[str, Kind], cases: int, seed: int) -> str:
    """The counts as a table."""
    from fuzzing import KINDS, MOST_BYTES, MOST_SECONDS

    lines = [
        "## Input that is wrong at random",
        "",
        "Each case is a command on a file that was made wrong by a change or three, in its text or "
        "in its settings. It has to end with 0, 1 or 2 and, unless with 0, a message; without a "
        "traceback, without a control character of the file in what it says, within "
        f"{MOST_SECONDS:.0f} s of CPU and {MOST_BYTES >> 20} MiB more memory than before.",
        "",
        "| what is wrong | cases | ended with 0 | 1 | 2 | problems | slowest, s | most, MiB |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, kind in kinds.items():
        counts = [kind.codes.total(), *(kind.codes[code] for code in (0, 1, 2)), len(kind.problems)]
        cells = [(KINDS[name].__doc__ or name).strip().rstrip("."), *map(str, counts)]
        cells += [f"{kind.seconds:.1f}", str(kind.gained >> 20)]
        lines.append(f"| {' | '.join(cells)} |")
    command = f"python benchmarks/fuzz.py --cases {cases} --seed {seed}"
    return "\n".join([*lines, "", f"Written by `{command}`, stacktrans {__version__}."])


def main() -> None:
    """Try many cases, or as a worker some of them."""
    if sys.argv[1:2] == ["--worker"]:
        kind, start, stop, seed, folder = sys.argv[2:]
        try_out(Chunk(kind, int(start), int(stop)), int(seed), Path(folder))
        return
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--markdown", type=Path, help="write the counts into this file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="models-") as place:
        from fuzzing import make_models

        models = make_models(Path(place) / "models")
        kinds = tried(options.cases, options.seed, models)
    text = as_markdown(kinds, options.cases, options.seed)
    print(text)
    if options.markdown:
        write_section(options.markdown, "fuzz", text)
    raise SystemExit(any(kind.problems for kind in kinds.values()))


if __name__ == "__main__":
    main()
