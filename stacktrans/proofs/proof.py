"""Whether a machine answers every string of its task as the task does, whatever its length.

The machine and the task's own run side by side, and all pairs of states, with what can be read from
their memories, are looked at. At first as much as possible is assumed of each memory. Where that
turns out wrong, less is assumed, and it begins anew. If there is nothing that is answered wrongly,
this is a proof: a bisimulation of the two, as far as the task asks for something.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stacktrans.automata.machine import Machine
from stacktrans.proofs.induction import (
    Counted,
    Induction,
    Wrong,
    goes_wrong,
    parts_of,
    sequence,
    shortest_wrong,
)
from stacktrans.proofs.product import Explored, Explorer, Unproved, product_of
from stacktrans.proofs.references import QUEUE, STANDING, Reference, classes_of, reference_of
from stacktrans.proofs.tapes import (
    BACK,
    FRONT,
    AllKnown,
    Block,
    Broke,
    Contents,
    EndsKnown,
    Mistaken,
    Piles,
    QueueTapes,
    Whole,
)
from stacktrans.tasks.base import NotASource, Task
from stacktrans.tasks.streams import Counting

UNREAD, FEW, KEPT, ALONG, TURNED, ANYTHING = (
    "unread", "few", "kept", "along", "turned", "anything",
)  # fmt: skip
"""What is assumed of a memory: that nothing is read from it, that it holds few cells, that it is
never popped, that it goes with the task's own, its top or its bottom where that is pushed; or
nothing."""
_OTHER = "the machine does not read and write what the task does"
_WRONG = "an answer is wrong"
_WRONG_IN_A_ROW = "an answer is wrong where sequences follow one another"
_CONTENTS: dict[str, type[Contents]] = {FEW: AllKnown, KEPT: EndsKnown, ANYTHING: Contents}
_LADDER = (FEW, KEPT, ALONG, TURNED, ANYTHING)


@dataclass(frozen=True)
class Result:
    """What came of an attempt to prove that a machine is right.

    Attributes:
        reason: why there is no proof; None if there is one.
        wrong: a source that is answered wrongly, by the numbers of its symbols, if one was found.
        row: sequences of a stream that follow one another, of which the last goes
            wrong, if such were found.
        assumed: what holds of each memory, one of the words above.
        classes: the symbols of sources in classes, two of which stand for each.
        explored: what was looked at; None if nothing was.
        reference: the task's own machine, if it has one.
        counted: what the induction was made of, if it is one.
    """

    reason: str | None
    wrong: tuple[int, ...] | None = None
    row: tuple[int, ...] | None = None
    assumed: tuple[str, ...] = ()
    classes: tuple[tuple[int, ...], ...] = ()
    explored: Explored | None = None
    reference: Reference | None = None
    counted: Counted | None = None

    @property
    def proved(self) -> bool:
        """Whether the machine answers all sources of its task rightly."""
        return self.reason is None


def prove(machine: Machine, task: Task) -> Result:
    """Look for a proof that a machine answers all sources of a task rightly, or for a wrong answer.

    Args:
        machine: as it is run by `stacktrans.automata.machine`.
        task: what it is for.
    """
    own = machine.source, machine.target, machine.layout
    fits = own == (task.source.symbols, task.target.symbols, task.layout)
    if isinstance(task, Counting) and type(task) is Counting:
        return _by_induction(machine, task) if fits and not machine.buffers else Result(_OTHER)
    reference = reference_of(task)
    if reference is None:
        return Result("no algorithm of this task is known")
    if not fits:
        return Result(_OTHER)
    if machine.layout.backwards:
        return Result("only machines that read from the beginning are followed")
    if machine.memories.moves:
        return Result("lists are followed only where they count")
    try:
        return _Attempt(machine, task, reference).result()
    except Unproved as problem:
        return Result(str(problem), reference=reference)


def _by_induction(machine: Machine, task: Counting) -> Result:
    """Follow all sequences of a pattern, any number of them in a row, from empty memories on.

    Where the induction finds counts of a sequence that goes wrong, it is run to see whether it
    does.
    """
    try:
        parts = parts_of(task)
        return Result(None, counted=Induction(machine, parts).go())
    except Unproved as problem:
        return Result(str(problem))
    except Wrong as wrong:
        found = wrong
    row = [step for counts in (*found.before, found.counts) for step in sequence(parts, counts)]
    if not goes_wrong(machine, row):
        return Result("what sequences leave behind in memories is not known well enough")
    if found.before:
        return Result(_WRONG_IN_A_ROW, row=tuple(symbol for symbol, _ in row))
    return Result(_WRONG, shortest_wrong(machine, parts, found.counts))


class _Attempt:
    """Arguments are those of `prove`, and the task's own machine."""

    def __init__(self, machine: Machine, task: Task, reference: Reference) -> None:
        self._machine, self._task, self._reference = machine, task, reference
        self._classes = tuple(classes_of(machine, reference))
        symbols = frozenset(each for own in self._classes for each in own[:STANDING])
        self._product = product_of(machine, reference, symbols)
        self._filled = set[tuple[Block, int]]()
        # Of each memory, the ends that some rule looks at.
        self._reads: list[list[int]] = [[] for _ in machine.stack_symbols]
        for component, end in enumerate(machine.memories.reads, start=1):
            if component in machine.relevant:
                self._reads[end // 2].append(end % 2)

    def result(self) -> Result:
        """See `prove`; raises `Unproved`."""
        assumed = [FEW if reads else UNREAD for reads in self._reads]
        while True:
            try:
                explored = self._explored(assumed)
            except Broke as broke:
                self._assume_less(assumed, broke)
                continue
            except Mistaken:
                continue
            if explored.wrong is not None:
                whole = self._reference.whole(explored.wrong)
                if self._is_wrong(whole):
                    shortest = self._shortest(len(whole)) or whole
                    return Result(_WRONG, tuple(shortest), reference=self._reference)
                self._look_closer(assumed)
                continue
            return Result(
                None,
                assumed=tuple(assumed),
                classes=self._classes,
                explored=explored,
                reference=self._reference,
            )

    def _assume_less(self, assumed: list[str], broke: Broke) -> None:
        """Change what is assumed of the memory that does not do so; raises `Unproved`."""
        number = broke.part - 1
        if broke.part == 0:
            along = [at for at, each in enumerate(assumed) if each in (ALONG, TURNED)]
            if not along:
                raise Unproved(f"the task's own memory {broke.why}")
            number = along[0]
        if assumed[number] == ANYTHING:
            raise Unproved(f"{self._machine.memories.names[number]} {broke.why}")
        assumed[number] = _LADDER[_LADDER.index(assumed[number]) + 1]

    def _explored(self, assumed: Sequence[str]) -> Explored:
        apart, along = dict[int, Contents](), dict[int, int]()
        for number, each in enumerate(assumed):
            if each in (ALONG, TURNED):
                along[number] = BACK if each == ALONG else FRONT
            elif each != UNREAD:
                apart[number] = _CONTENTS[each](number + 1, self._reads[number])
        tape = QueueTapes(self._filled) if self._reference.memory == QUEUE else Piles()
        return Explorer(self._product, tape, along, apart).explore()

    def _look_closer(self, assumed: list[str]) -> None:
        """Have one more memory go with the task's own; raises `Unproved` if none is left.

        What seemed wrong cannot be, since too little is known of what is read together.
        """
        apart = [number for number, each in enumerate(assumed) if each in (FEW, KEPT)]
        if not apart:
            raise Unproved("what can be read from its memories is not known well enough")
        assumed[apart[0]] = ALONG

    def _is_wrong(self, source: Sequence[int]) -> bool:
        """Whether the machine, run as always, answers a source otherwise than the task."""
        try:
            right = self._task.answer([self._machine.source[each] for each in source])
        except NotASource:
            return False
        answer = self._machine.run(source, len(right))
        written = [self._machine.target[each] if each >= 0 else "" for each in answer.target]
        if answer.failed or len(written) != len(right) or not answer.ended:
            return True
        return any(known not in (None, one) for one, known in zip(written, right, strict=True))

    def _shortest(self, length: int) -> list[int] | None:
        """The shortest source that is answered wrongly, if it is not too long to be found."""
        along = {number: BACK for number, reads in enumerate(self._reads) if reads}
        try:
            found = Explorer(self._product, Whole(), along, {}).explore().wrong
        except Unproved:
            return None
        whole = None if found is None else self._reference.whole(found)
        return whole if whole and len(whole) <= length and self._is_wrong(whole) else None
