"""How much is measured of each part of `speed.py`."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """How much is measured.

    Attributes:
        sizes: hidden and memory sizes of parts a, d and j.
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
