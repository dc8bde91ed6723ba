"""Measurement of times that are to be compared, each group in a separate process.

The subjects of a group are measured in turn, round after round, and the shortest time of each is
taken, since other work on the machine only adds to it. How a process gets its memory depends on
what it did before, so no process measures two groups.
"""

import functools
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor, nn

    from stacktrans.model.transducer import Transducer

MEMORIES = ("stack", "queue", "deque")
EMBEDDING = 64
BATCH_KERNELS = {"batch": "fused", "slow-batch": "torch"}
PIECE_KERNELS = {"pieces": "fused", "slow-pieces": "torch"}
SYMBOLS = 4
PIECES_BEFORE = 20
"""Number of pieces that a stream consists of before the measurement, so that stacks are filled."""
BATCH = 10


@dataclass(frozen=True)
class Measurement:
    """A group of subjects that one process measures: training steps, or a memory alone.

    Attributes:
        subjects: names of the subjects; see `subject`.
        hidden: size H.
        memory_size: size m.
        steps: length of the strings.
        rounds: as in `Scale`.
        seconds: as in `Scale`.
    """

    subjects: tuple[str, ...]
    hidden: int
    memory_size: int
    steps: int
    rounds: int
    seconds: float


@dataclass(frozen=True)
class Measured:
    """The results of a measurement.

    Attributes:
        milliseconds: the shortest time of each subject.
        units: number of units of each "equal ..." subject.
    """

    milliseconds: dict[str, float]
    units: dict[str, int]


@dataclass(frozen=True)
class Subject:
    """A function to be timed, and its number of threads."""

    threads: int
    run: Callable[[], None]


def shortest(subjects: Mapping[str, Subject], job: Measurement) -> dict[str, float]:
    """The shortest time of each subject, in milliseconds."""
    import torch

    def timed(subject: Subject) -> float:
        torch.set_num_threads(subject.threads)
        began = time.perf_counter()
        subject.run()
        return time.perf_counter() - began

    times: dict[str, list[float]] = {name: [] for name in subjects}
    for subject in subjects.values():
        timed(subject)  # compiles, and fills caches
    while waiting := [
        name for name, own in times.items() if len(own) < job.rounds or sum(own) < job.seconds
    ]:
        for name in waiting:
            times[name].append(timed(subjects[name]))
    return {name: 1000 * min(own) for name, own in times.items()}


@functools.cache
def transducer(memory: str, kernel: str, hidden: int, memory_size: int) -> "Transducer":
    import torch

    from stacktrans.model.transducer import Transducer
    from stacktrans.settings.resolve import resolve
    from stacktrans.tasks import make_task
    from stacktrans.tasks.layout import Layout

    size = {} if memory == "none" else {"size": memory_size}
    shape = {"memory": {"name": memory, **size}, "controller": {"hidden_size": hidden}}
    config = resolve(
        task="copy", settings={"model": {**shape, "embedding_size": EMBEDDING, "kernel": kernel}}
    )
    task = make_task(config.task.name, config.task.generator, config.task.parameters)
    layout = Layout.joint(len(task.source), len(task.target))
    torch.manual_seed(1)
    return Transducer(config.model, layout.inputs, layout.outputs)


def equal_units(memory: str, job: Measurement) -> int:
    """The units of a one-layer nn.LSTM with as many parameters as controller and memory."""
    model = transducer(memory, "fused", job.hidden, job.memory_size)
    parts = [model.controller, *([model.operation] if model.operation else [])]
    wanted = sum(weight.numel() for part in parts for weight in part.parameters())

    def distance(units: int) -> int:
        return abs(4 * units * (EMBEDDING + units + 2) - wanted)

    return next(units for units in itertools.count(1) if distance(units) <= distance(units + 1))


def subject(name: str, job: Measurement) -> Subject:
    """The subject of a name.

    "fused stack" is the transducer with a stack as it is trained, "torch stack" the definition,
    "naive stack" the naive loop, "equal stack" an nn.LSTM with as many parameters, "lstm 2" one
    with two layers, "alone stack" only the memory, "pieces 32x10" a piece of 32 streams with 10
    stacks, and "slow-pieces 32x10" the same by the definition. The prefix "2 threads: " sets the
    number of threads.
    """
    threads, _, workload = name.rpartition(" threads: ")
    kind, which = workload.split()
    if kind in BATCH_KERNELS:
        run = training_batch(which, BATCH_KERNELS[kind])
    elif kind in PIECE_KERNELS:
        run = training_piece(which, PIECE_KERNELS[kind], job)
    else:
        run = alone(which, job) if kind == "alone" else step(kind, which, job)
    return Subject(int(threads or 1), run)


def training_batch(which: str, kernel: str) -> Callable[[], None]:
    """A training batch, from the strings to updated weights."""
    import torch

    from stacktrans.settings.resolve import resolve
    from stacktrans.training.trainer import Trainer

    task, controller = which.split("/")
    model = {"memory": "stack", "controller": controller, "kernel": kernel}
    config = resolve(task=task, recipe="paper", settings={"model": model})
    return Trainer(config, Path(), torch.device("cpu"), command="").state.attempt.train_on_batch


def stack_rnn(count: int, hidden: int, kernel: str, capacity: int | None = None) -> "Transducer":
    """The untrained model of joulin2015: sigmoid units, and stacks of numbers."""
    import torch

    from stacktrans.model.transducer import Transducer
    from stacktrans.settings.resolve import resolve

    stacks = {"name": "stack-rnn", "count": count, "size": 1, "values": "sigmoid", "no_op": False}
    units = {"name": "sigmoid", "hidden_size": hidden, "recurrent": False, "biases": False}
    parts = {"memory": {**stacks, "capacity": capacity}, "controller": units}
    ends = {"embedding_size": "one-hot", "output_size": None, "kernel": kernel}
    settings = {"model": {**parts, **ends}}
    torch.manual_seed(1)
    return Transducer(resolve(task="copy", settings=settings).model, SYMBOLS, SYMBOLS)


def training_piece(which: str, kernel: str, job: Measurement) -> Callable[[], None]:
    """Training on a piece of streams with the model of joulin2015, from ids to updated weights."""
    import torch

    streams, count = map(int, which.split("x"))
    model = stack_rnn(count, job.hidden, kernel)
    ids = torch.randint(SYMBOLS, (streams, job.steps + 1))
    everything = torch.ones(streams, job.steps, dtype=torch.bool)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    state = None
    for _ in range(PIECES_BEFORE):
        _, state = model.unroll_segment(ids[:, :-1], state)

    def run() -> None:
        # From the same state each time, so that all calls take as long.
        unrolled, _ = model.unroll_segment(ids[:, :-1], state)
        logits = model.logits(unrolled, everything)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(logits, ids[:, 1:].flatten()).backward()
        optimizer.step()

    return run


def step(kind: str, which: str, job: Measurement) -> Callable[[], None]:
    """Forward and backward passes from ids to the outputs of the recurrent part."""
    import torch

    units = equal_units(which, job) if kind == "equal" else job.hidden
    model, forward = recurrent(kind, which, units, job)
    generator = torch.Generator().manual_seed(2)
    ids = torch.randint(0, 100, (BATCH, job.steps), generator=generator)
    grad = torch.randn(BATCH, job.steps, units, generator=generator)

    def run() -> None:
        model.zero_grad()
        forward(ids).backward(grad)

    return run


def recurrent(
    kind: str, which: str, units: int, job: Measurement
) -> "tuple[nn.Module, Callable[[Tensor], Tensor]]":
    """A model, and the function from ids [B, T] to outputs of its recurrent part [B, T, units]."""
    from naive import NaiveTransducer
    from torch import nn

    if kind in ("lstm", "equal"):
        embedding = transducer("none", "fused", job.hidden, job.memory_size).embedding
        assert embedding
        layers = int(which) if kind == "lstm" else 1
        lstm = nn.LSTM(EMBEDDING, units, layers, batch_first=True)
        return nn.ModuleList([embedding, lstm]), lambda ids: lstm(embedding(ids))[0]
    if kind == "naive":
        naive = NaiveTransducer(transducer(which, "torch", units, job.memory_size))
        return naive, naive.forward
    model = transducer(which, kind, units, job.memory_size)
    return model, lambda ids: model.unroll(ids).hidden


def alone(memory: str, job: Measurement) -> Callable[[], None]:
    """Forward and backward passes through a memory with random signals and values."""
    import torch
    from alone import fused_memory

    from stacktrans.common.registry import MEMORIES as REGISTERED

    store = REGISTERED.load(memory)()
    generator = torch.Generator().manual_seed(2)
    signals = torch.rand(BATCH, job.steps, len(store.signal_names), generator=generator)
    shape = (BATCH, job.steps, store.pushes * job.memory_size)
    values, grad = torch.randn(shape, generator=generator), torch.randn(shape, generator=generator)
    signals.requires_grad_()
    values.requires_grad_()

    def run() -> None:
        torch.autograd.grad(fused_memory(store, signals, values), (signals, values), grad)

    return run


def check_naive_loop(job: Measurement) -> None:
    """Check that the naive loop computes the same outputs, so that times can be compared."""
    import torch
    from naive import NaiveTransducer

    ids = torch.arange(2 * 30).reshape(2, 30)
    for memory in (*MEMORIES, "none"):
        model = transducer(memory, "fused", job.hidden, job.memory_size)
        with torch.no_grad():
            torch.testing.assert_close(
                NaiveTransducer(model)(ids), model.unroll(ids).hidden, rtol=1e-4, atol=1e-5
            )


def measure_here(job: Measurement) -> Measured:
    """Measure in this process."""
    if any(name.startswith("naive ") for name in job.subjects):
        check_naive_loop(job)
    times = shortest({name: subject(name, job) for name in job.subjects}, job)
    equal = [name for name in job.subjects if name.startswith("equal ")]
    return Measured(times, {name: equal_units(name.split()[1], job) for name in equal})


def measure(job: Measurement) -> Measured:
    """Measure in a separate process."""
    print(f"measuring {describe(job)}", file=sys.stderr)
    done = subprocess.run(
        [sys.executable, __file__, json.dumps(asdict(job))], stdout=subprocess.PIPE, check=True
    )
    return Measured(**json.loads(done.stdout))


def describe(job: Measurement) -> str:
    names = job.subjects[0] if len(job.subjects) == 1 else f"{len(job.subjects)} subjects"
    return f"{names}, sizes {job.hidden} and {job.memory_size}, {job.steps} steps"


if __name__ == "__main__":
    json.dump(asdict(measure_here(Measurement(**json.loads(sys.argv[1])))), sys.stdout)
