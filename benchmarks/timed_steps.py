"""The parts of `speed.py` that time training steps."""

from collections.abc import Iterator, Sequence

from measuring import BATCH, MEMORIES, Measurement, measure
from results import Result, milliseconds, multiple
from scale import Scale

SEVERAL = ("queue+stack", "stack+stack+queue", "deque+queue")
SMALL_TASKS = ("reversal", "parenthesis", "agreement")
PUBLISHED = {(40, 10): 3500, (10, 2): 23_400}
"""Symbols a second of the C++ on its authors' machine, by hidden units and stacks."""


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
