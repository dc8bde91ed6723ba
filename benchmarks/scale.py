"""The extent of the measurements of `speed.py`."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """Sizes, lengths and numbers of repetitions of all parts.

    Attributes:
        sizes: hidden and memory sizes of parts a, d and j.
        steps: length of their strings.
        growing_sizes: sizes of part b.
        lengths: lengths of strings in parts b and c.
        memory_size: size m in part c.
        rounds: minimum number of measurements of each subject.
        seconds: minimum total time for which each subject is measured.
        processes: number of processes that part c starts for each number.
        seeds: number of runs of each task in part e.
        training: arguments that shorten the runs of part e.
        line: number of symbols in the lines of part f.
        piece: number of symbols in a piece of part h.
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
