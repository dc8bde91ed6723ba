"""Parts of `speed.py` that time training steps."""

from collections.abc import Iterator, Sequence

from measuring import BATCH, MEMORIES, Measurement, measure
from results import Result, milliseconds, multiple
from scale import Scale

SEVERAL = ("queue+stack", "stack+stack+queue", "deque+queue")
VECTORS = ("superposed", "tape")
"""Memories of part a that are measured at the first size alone, without a naive loop."""
SMALL_TASKS = ("reversal", "parenthesis", "agreement")
PUBLISHED = {(40, 10): 3500, (10, 2): 23_400}
"""Symbols per second of the C++ program on its authors' machine, by hidden units and stacks."""


def job_of(scale: Scale, subjects: Sequence[str], size: tuple[int, int], steps: int) -> Measurement:
    return Measurement(tuple(subjects), *size, steps, scale.rounds, scale.seconds)


def training_step(scale: Scale) -> Iterator[Result]:
    """Part a: a training step beside nn.LSTM, the definition and a naive loop."""
    rows = []
    for size in scale.sizes:
        vectors = VECTORS if size == scale.sizes[0] else ()
        memories = (*MEMORIES, *vectors, "none")
        subjects = [
            "lstm 1",
            "lstm 2",
            *(f"{kind} {memory}" for memory in memories for kind in ("fused", "equal", "torch")),
            *(f"naive {memory}" for memory in memories if memory not in vectors),
        ]
        measured = measure(job_of(scale, subjects, size, scale.steps))
        times = measured.milliseconds
        for memory in memories:
            ours = times[f"fused {memory}"]
            rows.append(
                [
                    f"{size[0]}/{size[1]}" if memory != "none" else str(size[0]),
                    memory,
                    milliseconds(ours),
                    multiple(ours / times["lstm 1"]),
                    multiple(ours / times["lstm 2"]),
                    multiple(ours / times[f"equal {memory}"]),
                    str(measured.units[f"equal {memory}"]),
                    multiple(times[f"torch {memory}"] / ours),
                    "" if memory in vectors else multiple(times[f"naive {memory}"] / ours),
                ]
            )
    yield Result(
        "A training step",
        f"Forward and backward over {BATCH} strings of {scale.steps} steps, from ids to the "
        "controller's outputs, one thread. The first ratios are to the time of an nn.LSTM with as "
        "many units, in one and two layers, and with as many parameters in one layer, whose "
        "number of units is given. The last two are the ratios of the times of the definition in "
        "torch and of a naive loop over nn.LSTMCell to ours.",
        [
            "hidden/memory",
            "memory",
            "ms",
            "ours / LSTM, 1 layer",
            "ours / LSTM, 2 layers",
            "ours / LSTM, as many parameters",
            "units of that LSTM",
            "definition / ours",
            "naive loop / ours",
        ],
        rows,
    )


def growing_strings(scale: Scale) -> Iterator[Result]:
    """Part b: training steps over strings of increasing length."""
    for size in scale.growing_sizes:
        rows = []
        for steps in scale.lengths:
            subjects = ["lstm 2", *(f"fused {memory}" for memory in MEMORIES)]
            times = measure(job_of(scale, subjects, size, steps)).milliseconds
            ours = [times[f"fused {memory}"] for memory in MEMORIES]
            rows.append(
                [
                    str(steps),
                    milliseconds(times["lstm 2"]),
                    *map(milliseconds, ours),
                    *(multiple(our / times["lstm 2"]) for our in ours),
                ]
            )
        yield Result(
            f"Longer strings, {size[0]}/{size[1]}",
            f"Forward and backward over {BATCH} strings, one thread: milliseconds, and ratios "
            "to the time of an nn.LSTM of two layers with as many units.",
            [
                "steps",
                "LSTM, 2 layers, ms",
                *(f"{memory}, ms" for memory in MEMORIES),
                *(f"{memory} / LSTM" for memory in MEMORIES),
            ],
            rows,
        )


def memory_alone(scale: Scale) -> Iterator[Result]:
    """Part c: a memory without a controller, over sequences of increasing length."""
    times: dict[tuple[str, int], float] = {}
    for _ in range(scale.processes):
        for steps in scale.lengths:
            for memory in MEMORIES:
                job = job_of(scale, [f"alone {memory}"], (0, scale.memory_size), steps)
                (best,) = measure(job).milliseconds.values()
                times[memory, steps] = min(best, times.get((memory, steps), best))
    first = scale.lengths[0]
    rows = []
    for steps in scale.lengths:
        own = [1000 * times[memory, steps] / steps for memory in MEMORIES]
        shortest = [1000 * times[memory, first] / first for memory in MEMORIES]
        rows.append(
            [
                str(steps),
                *(f"{time:.1f}" for time in own),
                *(multiple(time / base) for time, base in zip(own, shortest, strict=True)),
            ]
        )
    yield Result(
        f"A memory alone, vectors of {scale.memory_size}",
        f"Forward and backward over {BATCH} strings with random strengths, one thread: "
        f"microseconds per step, and ratios to those at {first} steps. Each number is from a "
        "separate process, so that first writes to fresh memory count, too.",
        [
            "steps",
            *(f"{memory}, µs per step" for memory in MEMORIES),
            *(f"{memory} / {first} steps" for memory in MEMORIES),
        ],
        rows,
    )


def threads(scale: Scale) -> Iterator[Result]:
    """Part d: training steps with one and two threads."""
    rows = []
    for size in scale.sizes:
        what = {f"fused {memory}": memory for memory in MEMORIES} | {"lstm 2": "LSTM, 2 layers"}
        subjects = [f"{count} threads: {name}" for count in (1, 2) for name in what]
        times = measure(job_of(scale, subjects, size, scale.steps)).milliseconds
        for name, shown in what.items():
            one, two = (times[f"{count} threads: {name}"] for count in (1, 2))
            rows.append(
                [
                    f"{size[0]}/{size[1]}",
                    shown,
                    milliseconds(one),
                    milliseconds(two),
                    multiple(one / two),
                    multiple(two / times["2 threads: lstm 2"]),
                ]
            )
    yield Result(
        "One and two threads",
        f"Forward and backward over {BATCH} strings of {scale.steps} steps. The last column is "
        "the ratio to the time of an nn.LSTM of two layers, both with two threads.",
        ["hidden/memory", "model", "1 thread, ms", "2 threads, ms", "speed-up", "ratio to LSTM"],
        rows,
    )


def small_models(scale: Scale) -> Iterator[Result]:
    """Part g: a training batch of the models of hao2018."""
    rows = []
    for task in SMALL_TASKS:
        for controller in ("linear", "lstm"):
            which = f"{task}/{controller}"
            job = job_of(scale, [f"batch {which}", f"slow-batch {which}"], (0, 0), 0)
            times = measure(job).milliseconds
            ours = times[f"batch {which}"]
            slow = multiple(times[f"slow-batch {which}"] / ours)
            rows.append([task, controller, milliseconds(ours), slow])
    yield Result(
        "A training batch, small models",
        "Ten strings with the recipe of hao2018 and a stack, from the strings to updated weights, "
        "one thread; and the ratio of the time of the definition in torch to ours.",
        ["task", "controller", "ms", "definition / ours"],
        rows,
    )


def streams(scale: Scale) -> Iterator[Result]:
    """Part h: training on pieces of streams with the models of joulin2015."""
    rows = []
    for (hidden, count), published in PUBLISHED.items():
        for number in (32, 1):
            which = f"{number}x{count}"
            subjects = [f"pieces {which}", f"slow-pieces {which}"]
            times = measure(job_of(scale, subjects, (hidden, 1), scale.piece)).milliseconds
            ours, slow = times.values()
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
        f"Next-symbol training on streams in pieces of {scale.piece} symbols, with state carried "
        "from piece to piece, from ids to updated weights, one thread: symbols per second, the "
        "figures that joulin2015 publishes for its C++ program, the ratio of our speed to those, "
        "and the ratio of the time of the definition in torch to ours. The published figures are "
        "from another machine and for other work: the C++ program reads one stream, updates its "
        "weights after every symbol, propagates each symbol's error back through 50 steps, and "
        "its speed depends on the capacity of its stacks. `peer.py` runs both side by side.",
        [
            "hidden",
            "stacks",
            "streams",
            "symbols per second",
            "published",
            "ours / published",
            "definition / ours",
        ],
        rows,
    )


def several_memories(scale: Scale) -> Iterator[Result]:
    """Part i: several memories in one model, beside each of them alone."""
    rows = []
    for size in scale.sizes:
        for names in SEVERAL:
            parts = names.split("+")
            subjects = [f"fused {name}" for name in ("none", *dict.fromkeys(parts), names)]
            times = measure(job_of(scale, subjects, size, scale.steps)).milliseconds
            without, ours = times["fused none"], times[f"fused {names}"]
            alone = [times[f"fused {part}"] for part in parts]
            expected = without + sum(part - without for part in alone)
            rows.append(
                [
                    f"{size[0]}/{size[1]}",
                    names,
                    milliseconds(without),
                    ", ".join(map(milliseconds, alone)),
                    milliseconds(ours),
                    multiple(ours / max(alone)),
                    multiple(ours / expected),
                ]
            )
    yield Result(
        "Several memories in one model",
        f"Forward and backward over {BATCH} strings of {scale.steps} steps, from ids to the "
        "controller's outputs, one thread: for a model without a memory, with each memory alone, "
        "and with all of them; and the ratios of the last to the slowest memory alone, and to the "
        "sum of the time without a memory and the additional time of each.",
        [
            "hidden/memory",
            "memories",
            "without, ms",
            "each alone, ms",
            "together, ms",
            "together / slowest",
            "together / sum",
        ],
        rows,
    )
