"""Vector quantization of a network: it runs over the numbers of vectors in codebooks.

What a network pushes varies with all that it reads, but most of this variation makes no difference.
A quantized network replaces a vector by an earlier one that is near, so that there are few. As in
counterexample-guided abstraction refinement (Clarke et al. 2000), quantizations are tested, the
coarsest first, until one gives the network's answers.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from stacktrans.automata.execution import AutomatonModel, Transition
from stacktrans.automata.rules import EMPTY
from stacktrans.decoding.decoder import DecodingStep
from stacktrans.decoding.model import Model
from stacktrans.extraction.limits import OutOfTime
from stacktrans.extraction.network import NOTHING, Network, StepResults
from stacktrans.extraction.queries import Query, answers_of
from stacktrans.extraction.symmetry import Symmetry
from stacktrans.kernels import Array
from stacktrans.tasks.alphabets import Ids

GRID = 1 / 256
"""The spacing of the grid to which vectors are rounded, so that equal ones are one."""
RADII = (np.inf, 16.0, 8.0, 4.0, 2.0, 1.0, 0.5)
"""The radii that are tried, the greatest first."""

Observation = tuple[int, ...]
"""All that a step depends on: the input, the numbers of the vectors that are read, and of the
state."""


class Codebook:
    """Numbered vectors, in the order of their first occurrence.

    Args:
        first: [D] the vector of number 0.
        project: gives what a network makes of vectors [..., D]: [..., P], between which distances
            are measured.
        radius: the greatest distance at which vectors with the same key are one.
        reserved: whether no vector that is added has number 0, not even one that is equal.
    """

    def __init__(
        self, first: Array, project: Callable[[Array], Array], radius: float, reserved: bool = False
    ) -> None:
        self._project, self._radius = project, radius
        self._numbers: dict[bytes, int] = {}
        self._near: dict[Hashable, tuple[list[int], _Rows]] = {}
        self._vectors = _Rows(first)
        if reserved:
            self._vectors.append(first)
        else:
            self.add(first, None)

    def __len__(self) -> int:
        return self._vectors.count

    def of(self, numbers: Ids) -> Array:
        """The vectors [..., D] of numbers [...]."""
        vectors: Array = self._vectors.rows[numbers]
        return vectors

    def projected(self, numbers: Ids) -> Array:
        """[..., P] what a network makes of the vectors of numbers [...]."""
        return self._project(self.of(numbers))

    def add(self, vector: Array, key: Hashable) -> int:
        """Add a vector [D] unless it is near another of the same key; return the number."""
        if not self._radius:
            return self._number_of(vector)
        projected = self._project(vector)
        numbers, near = self._near.setdefault(key, ([], _Rows(projected)))
        if numbers:
            distances = np.linalg.norm(near.rows - projected, axis=1)
            nearest = int(distances.argmin())
            if distances[nearest] <= self._radius:
                return numbers[nearest]
        near.append(projected)
        numbers.append(self._number_of(vector))
        return numbers[-1]

    def _number_of(self, vector: Array) -> int:
        """The number of a vector, or of an equal one."""
        rounded = np.rint(vector / GRID).astype(np.int32)
        number = self._numbers.setdefault(rounded.tobytes(), len(self))
        if number == len(self):
            self._vectors.append(vector)
        return number


class _Rows:
    """An array [count, D] that grows by rows [D], of which it is given one for its type."""

    def __init__(self, row: Array) -> None:
        self._allocated, self.count = np.empty((8, *row.shape), row.dtype), 0

    @property
    def rows(self) -> Array:
        """The array."""
        return self._allocated[: self.count]

    def append(self, row: Array) -> None:
        """Add a row."""
        if self.count == len(self._allocated):
            self._allocated = np.concatenate([self._allocated, np.empty_like(self._allocated)])
        self._allocated[self.count] = row
        self.count += 1


class RecordedSteps(NamedTuple):
    """The N different recorded steps of a network, with vectors by number.

    Attributes:
        observations: [N, components] the input, the vector read from each end, the state before.
        signals: [N, signals] 0 or 1; `NOTHING` for the pop of an empty memory.
        outputs: [N]; `NOTHING` where they are not scored.
        pushed: [N, pushes]; `NOTHING` where nothing is pushed.
        next_states: [N] after each.
        images: [N] the step at the same place of the run over the shifted string; `NOTHING` if
            there is none.
    """

    observations: Ids
    signals: Ids
    outputs: Ids
    pushed: Ids
    next_states: Ids
    images: Ids


class QuantizedNetwork:
    """A network over numbered vectors: an automaton whose transitions the network computes.

    Vectors that are pushed by the same push after the same input, with the same memories empty,
    are one if they are near. So are states.

    Args:
        network: the network; runs end at its deadline.
        radii: of each alphabet of vectors, and of states; see `Codebook`. If all are 0, answers are
            those of the network.

    Attributes:
        states: before and after steps; the first is the initial one.
        pushed: of each memory, the vectors pushed; the first is read when it is empty.
        undecided: the number of undecided signals.
        signals: the number of signals.
        strings: the number of recorded strings.
    """

    def __init__(self, network: Network, radii: Sequence[float]) -> None:
        self.network, self.radii = network, radii
        self.memories, self.layout, self.buffers = network.ends, network.layout, network.buffers
        self.relevant_positions = network.ends.read_positions
        *of_vectors, of_states = radii
        # An LSTM reads its cells through a tanh: how far they are saturated makes no difference.
        self.states = Codebook(network.start, np.tanh, of_states)
        alphabets = network.ends.alphabets
        vectors = {
            # A cell with the vector that is read from an empty memory can still be popped.
            alphabet: Codebook(network.empty, network.projection(alphabet), radius, reserved=True)
            for alphabet, radius in zip(dict.fromkeys(alphabets), of_vectors, strict=True)
        }
        self.pushed = [vectors[alphabet] for alphabet in alphabets]
        self.undecided = self.signals = self.strings = 0
        self._transitions: dict[Observation, Transition] = {}
        self._recorded: dict[Observation, bool] = {}
        self._images: dict[Observation, Observation] = {}

    def transitions(self, observations: Sequence[Observation]) -> list[Transition | None]:
        """The transitions at several observations; new ones are computed together.

        Raises:
            OutOfTime: the deadline was reached.
            StacktransError: the network's numbers overflow.
        """
        new = [each for each in dict.fromkeys(observations) if each not in self._transitions]
        if new:
            self._compute(new)
        return [self._transitions[observation] for observation in observations]

    def step_results(self, observations: Ids) -> StepResults:
        """The results of the network's steps at observations [N, components]; raises as it does."""
        empty = self.network.empty
        reads = np.zeros((len(observations), len(self.memories.reads), len(empty)), empty.dtype)
        for index, end in enumerate(self.memories.reads):
            reads[:, index] = self.pushed[end // 2].of(observations[:, 1 + index])
        return self.network.step(self.states.of(observations[:, -1]), observations[:, 0], reads)

    def _compute(self, observations: Sequence[Observation]) -> None:
        """Compute the transitions at new observations; raises as `transitions` does."""
        ends, results = self.memories, self.step_results(np.array(observations))
        self.undecided += int(results.undecided.sum())
        self.signals += results.signals.size
        for row, observation in enumerate(observations):
            signals = tuple(results.signals[row].tolist())
            seen = observation[0], *[number != EMPTY for number in observation[1:]]
            pops, vectors, moves = ends.active(signals, range(len(ends.pushes)))
            pushes = tuple(
                (end, self.pushed[end // 2].add(results.pushed[row, index], (index, seen)))
                for end, index in vectors
            )
            next_state = self.states.add(results.states[row], seen)
            self._transitions[observation] = Transition(
                signals, int(results.outputs[row]), pops, pushes, moves, next_state
            )

    def record(self, queries: Sequence[Query], symmetry: Symmetry | None = None) -> None:
        """Record the steps over the strings of queries, until the network's deadline.

        Args:
            queries: the queries.
            symmetry: for whose shifts of symbols the images of steps are recorded, where a shifted
                string is among the queries.
        """
        layout, ended = self.layout, np.zeros(len(queries), np.bool_)
        self.strings += len(queries)
        runs: list[list[Observation]] = [[] for _ in queries]

        def observe(step: DecodingStep) -> None:
            rows = zip(step.state.items, step.items, step.positions, strict=True)
            for configuration, item, position in rows:
                mask, observation = queries[item].scored, configuration.observation
                counts = position >= 0 and not ended[item] and (mask is None or mask[position])
                runs[item].append(observation)
                self._recorded[observation] = counts or self._recorded.get(observation, False)
                if counts and not layout.feeds_back:  # otherwise the decoder stops at the end
                    ended[item] = configuration.last.output == layout.end

        with contextlib.suppress(OutOfTime):
            answers_of(layout, AutomatonModel(self), queries, observe)
        if symmetry and symmetry.classes:
            run_of = {query.ids.tobytes(): run for query, run in zip(queries, runs, strict=True)}
            for query, run in zip(queries, runs, strict=True):
                image = run_of.get(symmetry.shift[query.ids].tobytes(), [])
                for one, other in zip(run, image, strict=False):
                    if symmetry.input_shift[one[0]] != other[0]:
                        break  # the network does not quite treat the symbols equally
                    self._images.setdefault(one, other)

    def steps(self) -> RecordedSteps:
        """The different steps that were recorded, in the order of their first occurrence."""
        observations = np.array([*self._recorded])
        transitions = [self._transitions[observation] for observation in self._recorded]
        signals = np.array([transition.signals for transition in transitions])
        pushed = np.full((len(transitions), len(self.memories.pushes)), NOTHING)
        happen = signals[:, [signal for signal, _ in self.memories.pushes]] == 1
        pushed[happen] = [number for each in transitions for _, number in each.pushes]
        scored = zip(transitions, self._recorded.values(), strict=True)
        rows = {observation: row for row, observation in enumerate(self._recorded)}
        images = (self._images.get(observation) for observation in self._recorded)
        return RecordedSteps(
            observations=observations,
            signals=self.network.without_empty_pops(signals, observations[:, 1:-1]),
            outputs=np.array([step.output if counts else NOTHING for step, counts in scored]),
            pushed=pushed,
            next_states=np.array([transition.next_state for transition in transitions]),
            images=np.array([NOTHING if image is None else rows[image] for image in images]),
        )


def coarsest_quantization(network: Network, passes: Callable[[Model], bool]) -> QuantizedNetwork:
    """The coarsest quantization found of a network with which it passes a test, by greedy search.

    Args:
        network: the network.
        passes: the test, which it passes without a quantization.

    Raises:
        OutOfTime: the network's deadline was reached.
    """
    alphabets = len(set(network.ends.alphabets))

    def first_passing(candidates: Iterable[Sequence[float]]) -> QuantizedNetwork | None:
        """The first with some radii that passes, after the test."""
        quantized = (QuantizedNetwork(network, radii) for radii in candidates)
        return next((each for each in quantized if passes(AutomatonModel(each))), None)

    of_vectors = ((*[radius] * alphabets, 0.0) for radius in RADII)
    best = first_passing(of_vectors) or QuantizedNetwork(network, (0.0,) * (alphabets + 1))
    for index in reversed(range(alphabets + 1)):
        before, (radius, *after) = best.radii[:index], best.radii[index:]
        wider = itertools.takewhile(radius.__lt__, RADII)
        best = first_passing((*before, each, *after) for each in wider) or best
    return best
