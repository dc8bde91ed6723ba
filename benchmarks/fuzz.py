"""The behaviour of commands on randomly damaged input.

    python benchmarks/fuzz.py [--cases 10000] [--seed 1] [--markdown benchmarks/robustness.md]

A case is a command on a damaged file: `tests/fuzzing.py` defines the damage and the requirements,
and a command that takes more than `MAX_SECONDS` has a problem, too. Cases run in separate
processes, two at a time, so that a crash is detected and counted. The exit code is 1 if any case
has a problem.
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

MAX_SECONDS = 5.0
"""The maximum CPU time of a command."""
CASES_PER_PROCESS = 125
PROCESSES = 2
TIMEOUT = 900
"""Seconds after which a process counts as hanging."""
MEMORY_LIMIT = 3 << 30
"""Bytes of data that a process may allocate, which protects the machine."""


@dataclass
class Outcomes:
    """The results of all cases of a kind.

    Attributes:
        codes: the number of cases by exit code.
        seconds: the maximum CPU time.
        gained: the maximum increase in memory, in bytes.
        problems: descriptions of all problems.
    """

    codes: Counter[int | None] = field(default_factory=Counter)
    seconds: float = 0.0
    gained: int = 0
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Chunk:
    """Cases of a kind that one process runs: the numbers from `start` to before `stop`."""

    kind: str
    start: int
    stop: int


def run_cases(chunk: Chunk, seed: int, models: Path) -> None:
    """Run some cases, and print the result of each as a line of JSON."""
    import torch
    from fuzzing import Case, carry_out

    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_LIMIT, MEMORY_LIMIT))
    for number in range(chunk.start, chunk.stop):
        ended, seconds, gained, problem = carry_out(Case(chunk.kind, number, seed), models)
        if not problem and seconds > MAX_SECONDS:
            problem = f"took {seconds:.1f} s"
        print(json.dumps((number, ended.returncode, seconds, gained, problem)), flush=True)


Result = tuple[int, int | None, float, int, str]
"""The number of a case, its exit code, CPU seconds, additional bytes of memory, and any problem."""


def results(chunk: Chunk, seed: int, models: Path) -> Iterator[Result]:
    """Run the cases of a chunk in separate processes; a crash is the result of its case."""
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
                process.communicate(timeout=TIMEOUT)[0],
                f"died ({process.returncode})",
            )
        except subprocess.TimeoutExpired:
            process.kill()
            printed, ended = process.communicate()[0], "hung"
        finished: list[Result] = [json.loads(line) for line in printed.splitlines()]
        yield from finished
        reached = chunk.start + len(finished)
        if reached < chunk.stop:
            yield reached, None, 0.0, 0, ended
        chunk = Chunk(chunk.kind, reached + 1, chunk.stop)


def outcomes(cases: int, seed: int, models: Path) -> dict[str, Outcomes]:
    """Run cases, equally many of each kind, and collect their results by kind."""
    from fuzzing import KINDS

    per_kind = -(-cases // len(KINDS))
    chunks = [
        Chunk(kind, start, min(start + CASES_PER_PROCESS, per_kind))
        for kind in KINDS
        for start in range(0, per_kind, CASES_PER_PROCESS)
    ]
    kinds = {kind: Outcomes() for kind in KINDS}
    with ThreadPoolExecutor(PROCESSES) as pool:
        by_chunk = pool.map(lambda chunk: (chunk, list(results(chunk, seed, models))), chunks)
        for chunk, lines in by_chunk:
            kind = kinds[chunk.kind]
            for number, code, seconds, gained, problem in lines:
                kind.codes[code] += 1
                kind.seconds = max(kind.seconds, seconds)
                kind.gained = max(kind.gained, gained)
                if problem:
                    kind.problems.append(f"{chunk.kind} {number}: {problem}")
                    print(kind.problems[-1], file=sys.stderr, flush=True)
    return kinds


def as_markdown(kinds: dict[str, Outcomes], cases: int, seed: int) -> str:
    """The results as a table in Markdown."""
    from fuzzing import KINDS, MAX_BYTES

    lines = [
        "## Randomly damaged input",
        "",
        "Each case is a command on a file that was damaged by one to three changes to its text or "
        "settings. The command has to end with exit code 0, 1 or 2, with a message unless that is "
        "0, without a traceback, without control characters from the file in its output, and "
        f"within {MAX_SECONDS:.0f} s of CPU time and {MAX_BYTES >> 20} MiB of additional memory.",
        "",
        "| command and input | cases | exit code 0 | 1 | 2 | problems | maximum s | maximum MiB |",
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
    """Run all cases or, as a worker, some of them."""
    if sys.argv[1:2] == ["--worker"]:
        kind, start, stop, seed, folder = sys.argv[2:]
        run_cases(Chunk(kind, int(start), int(stop)), int(seed), Path(folder))
        return
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--markdown", type=Path, help="write the results into this file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="models-") as place:
        from fuzzing import make_models

        models = make_models(Path(place) / "models")
        kinds = outcomes(options.cases, options.seed, models)
    text = as_markdown(kinds, options.cases, options.seed)
    print(text)
    if options.markdown:
        write_section(options.markdown, "fuzz", text)
    raise SystemExit(any(kind.problems for kind in kinds.values()))


if __name__ == "__main__":
    main()
