"""What a task's memory and memories of a machine hold, side by side, or what one holds alone.

A tape is a row of blocks. A block is what was pushed in one step: part 0 to the task's memory, and
part n + 1 to memory n of the machine, if that goes with it. The parts of one memory, in a row, are
its contents. Few blocks are known; what is beyond them is described by edges: a node has edges to
all blocks that can come next, as far as they are known so far.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

from stacktrans.automata.rules import EMPTY
from stacktrans.common.ends import TOP

Block = tuple[tuple[Hashable, ...], ...]
Blocks = tuple[Block, ...]
MOST_BLOCKS = 8
"""The most blocks that are looked at: how far memories may be apart."""
MOST_KNOWN = 2
"""The most blocks of a queue that are all known."""
FAR, OTHER_END = "falls behind the task's own", "is worked at another end than the task's own"
FRONT, BACK = 0, 1
"""The ends of a row."""
UNKNOWN = -2
"""The stack symbol that is read where it can be any that was ever pushed, or none."""
MOST_CELLS = 3
"""The most cells of a memory all of which are known."""
Held = tuple[int, ...]
"""The stack symbols that are known of a memory alone."""
Pushes = Sequence[tuple[int, int]]
"""Ends of a memory, `TOP` or `BOTTOM`, and the stack symbols that are pushed there."""


class Broke(Exception):
    """A memory does not do what is assumed of it.

    Args:
        part: of the memory in blocks.
        why: in words, after its name.
    """

    def __init__(self, part: int, why: str) -> None:
        self.part, self.why = part, why
        super().__init__()


class Lacking(Exception):
    """What is beyond the blocks that are known has to be looked at, from a node."""

    def __init__(self, node: Hashable) -> None:
        self.node = node
        super().__init__()


class Mistaken(Exception):
    """Something stands where nothing was assumed to stand; it has to be looked at anew."""


class Spot(NamedTuple):
    """Where a cell is: the index of its block, and which cell of a part of that it is."""

    block: int
    cell: int


Found = tuple[Blocks, Spot | None]
"""Blocks, and where in them a cell is; None if there is none."""
Edge = tuple[Hashable, Any]
"""An edge from a node, to what a tape can make use of."""


class Tape(ABC):
    """The tapes of one kind; one is a named tuple, whose `blocks` are known at an end.

    Attributes:
        exact: whether all that edges describe can come about, and whether what follows on a node
            depends on nothing that is beyond it.
        whole: whether all blocks are known.
    """

    exact, whole = True, False
    start: Any

    def read(self, tape: Any, part: int, end: int, depth: int = 0) -> Hashable | None:
        """What is at an end of a part, or so deep under it; None if there is nothing.

        Raises:
            Lacking: it is not known; then there are several tapes that it can be.
            Broke: it is too far away.
        """
        blocks, spot = self._spot(tape, part, end, depth)
        return None if spot is None else blocks[spot.block][part][spot.cell]

    def popped(self, tape: Any, part: int, end: int) -> Any:
        """The tape without what `read` finds at an end of a part; raises the same errors."""
        blocks, spot = self._spot(tape, part, end)
        if spot is None:
            return tape
        own = blocks[spot.block]
        cells = own[part][:-1] if end == BACK else own[part][1:]
        changed = (*own[:part], cells, *own[part + 1 :])
        return tape._replace(blocks=(*blocks[: spot.block], changed, *blocks[spot.block + 1 :]))

    @abstractmethod
    def _spot(self, tape: Any, part: int, end: int, depth: int = 0) -> Found:
        """The blocks at an end, and where in them that is which `read` finds."""

    @abstractmethod
    def pushed(self, tape: Any, end: int, block: Block) -> Any:
        """The tape with a block at an end."""

    def settled(self, tape: Any, head: Hashable) -> tuple[Any, list[Edge]]:
        """The tape with as little known as can be, and the edges that describe what is not.

        Args:
            tape: after a step.
            head: all that the next steps depend on, apart from the tape.
        """
        return tape, []

    def revealed(self, tape: Any, value: Any) -> list[Any]:
        """The tapes that a tape that lacks something can be, by one edge of its node."""
        return []

    def below(self, tape: Any) -> Hashable | None:
        """The node beyond a tape whose nodes stand for all that is there; None for nothing."""
        return None

    def beyond(self, value: Any) -> Hashable | None:
        """The node beyond what an edge leads to; None for nothing."""
        return None


def spot_of(blocks: Blocks, part: int, end: int, depth: int = 0) -> Spot | None:
    """Where the outermost cell of a part is, or one so deep under it; None if there is none."""
    order = range(len(blocks)) if end == FRONT else range(len(blocks) - 1, -1, -1)
    for index in order:
        size = len(blocks[index][part])
        if size > depth:
            return Spot(index, depth if end == FRONT else size - 1 - depth)
        depth -= size
    return None


class Pile(NamedTuple):
    """The topmost blocks of a stack.

    Attributes:
        blocks: the last is on top.
        under: the node of what is under them; None for nothing.
    """

    blocks: Blocks
    under: Hashable


class Piles(Tape):
    """Tapes of stacks, of which the last block is known; what is described is exactly what can be.

    A node stands for what was on top, and the state, when something was buried under it (Bouajjani,
    Esparza and Maler 1997, "Reachability analysis of pushdown automata").
    """

    start = Pile((), None)

    def _spot(self, tape: Pile, part: int, end: int, depth: int = 0) -> Found:
        if end == FRONT and tape.under is not None:
            raise Broke(part, OTHER_END)
        spot = spot_of(tape.blocks, part, end, depth)
        if spot is not None or tape.under is None:
            return tape.blocks, spot
        if len(tape.blocks) >= MOST_BLOCKS:
            raise Broke(part, FAR)
        raise Lacking(tape.under)

    def pushed(self, tape: Pile, end: int, block: Block) -> Pile:
        if end == BACK:
            return tape._replace(blocks=(*tape.blocks, block))
        if tape.under is not None or len(tape.blocks) >= MOST_BLOCKS:
            raise Broke(_owner(block), OTHER_END)
        return tape._replace(blocks=(block, *tape.blocks))

    def settled(self, tape: Pile, head: Hashable) -> tuple[Pile, list[Edge]]:
        blocks, under, edges = tuple(filter(any, tape.blocks)), tape.under, list[Edge]()
        while len(blocks) > 1:
            lowest, *others = blocks
            blocks = tuple(others)
            node = head, blocks
            edges.append((node, (lowest, under)))
            under = node
        return Pile(blocks, under), edges

    def revealed(self, tape: Pile, value: Any) -> list[Pile]:
        block, under = value
        return [Pile((block, *tape.blocks), under)]

    def below(self, tape: Pile) -> Hashable | None:
        return tape.under

    def beyond(self, value: Any) -> Hashable | None:
        _, under = value
        return under  # type: ignore[no-any-return]


class Whole(Piles):
    """Tapes all of whose blocks are known, for a search among concrete strings."""

    whole = True

    def pushed(self, tape: Pile, end: int, block: Block) -> Pile:
        blocks = (*tape.blocks, block) if end == BACK else (block, *tape.blocks)
        return tape._replace(blocks=blocks)

    def settled(self, tape: Pile, head: Hashable) -> tuple[Pile, list[Edge]]:
        return tape._replace(blocks=tuple(filter(any, tape.blocks))), []


class QueueEnds(NamedTuple):
    """The blocks at both ends of a queue.

    Attributes:
        blocks: those that are known, the first in front.
        last: the last of these as it was when others came to stand behind it.
        back: the last block of all, behind any number of others that are behind `blocks`; none if
            there is nothing behind `blocks`. Before a tape is settled there may be several.
        grown: whether a block was pushed since the tape was settled.
    """

    blocks: Blocks
    last: Block | None
    back: Blocks
    grown: bool = False


class QueueTapes(Tape):
    """Tapes of queues, of which both ends are known, and what has ever stood behind what.

    More is described than can be, which is on the safe side. Where a part is looked for that none
    of the blocks has that ever stood behind a block, one after another, it is assumed to be empty.

    Args:
        refuted: the blocks behind which something turned out to stand, and of which part; more are
            added, where `Mistaken` is raised.
    """

    exact = False
    start = QueueEnds((), None, ())

    def __init__(self, refuted: set[tuple[Block, int]]) -> None:
        self._refuted = refuted
        self._assumed = set[tuple[Block, int]]()
        self._behind: defaultdict[Block, set[Block]] = defaultdict(set)

    def _ends(self, tape: QueueEnds, part: int) -> bool:
        """Whether a part has nothing behind the blocks in front; what that rests on is noted."""
        last = tape.last
        if last is None or tape.back[-1][part] or (last, part) in self._refuted:
            return False
        return self._assume_end(last, part)

    def _assume_end(self, block: Block, part: int) -> bool:
        """Assume that a part is empty behind a block, unless it is known not to be."""
        found, left = {block}, [block]
        while left:
            after = self._behind[left.pop()]
            if any(each[part] for each in after):
                self._refuted.add((block, part))
                return False
            left += after - found
            found |= after
        self._assumed |= {(each, part) for each in found}
        return True

    def _note(self, one: Block, other: Block) -> None:
        """Note what stands behind what; raises `Mistaken` if that is not as assumed."""
        self._behind[one].add(other)
        for part, cells in enumerate(other):
            if (one, part) in self._assumed and (cells or not self._assume_end(other, part)):
                self._refuted |= {(block, own) for block, own in self._assumed if own == part}
                raise Mistaken

    def _spot(self, tape: QueueEnds, part: int, end: int, depth: int = 0) -> Found:
        if not tape.back:
            return tape.blocks, spot_of(tape.blocks, part, end, depth)
        blocks = tape.back[-1:] if end == BACK else tape.blocks
        spot = spot_of(blocks, part, end, depth)
        if spot is not None or (end == FRONT and self._ends(tape, part)):
            return blocks, spot
        if end == BACK or len(tape.blocks) >= MOST_BLOCKS:
            raise Broke(part, FAR)
        raise Lacking(("behind", tape.last))

    def popped(self, tape: QueueEnds, part: int, end: int) -> QueueEnds:
        if end == BACK and tape.back:
            raise Broke(part, OTHER_END)
        return super().popped(tape, part, end)  # type: ignore[no-any-return]

    def pushed(self, tape: QueueEnds, end: int, block: Block) -> QueueEnds:
        if end == FRONT:
            if len(tape.blocks) >= MOST_BLOCKS:
                raise Broke(_owner(block), OTHER_END)
            return tape._replace(blocks=(block, *tape.blocks))
        if tape.back:
            return tape._replace(back=(*tape.back, block))
        return tape._replace(blocks=(*tape.blocks, block), grown=True)

    def settled(self, tape: QueueEnds, head: Hashable) -> tuple[QueueEnds, list[Edge]]:
        front, last, back = tuple(filter(any, tape.blocks)), tape.last, tape.back
        row = back
        # Otherwise blocks of which something is popped would count as ones that were pushed so.
        if tape.grown and not back and len(front) > MOST_KNOWN:
            row, last, front = front, front[0], front[:1]
        for one, other in itertools.pairwise(row):
            self._note(one, other)
        edges: list[Edge] = [(("behind", one), other) for one, other in itertools.pairwise(row)]
        return QueueEnds(front, last if row else None, row[-1:]), edges

    def revealed(self, tape: QueueEnds, value: Block) -> list[QueueEnds]:
        front = (*tape.blocks, value)
        found = [QueueEnds(front, value, tape.back)]
        if (value,) == tape.back:
            found.append(QueueEnds(front, None, ()))
        return found


def _owner(block: Block) -> int:
    """A part of a block that is not empty."""
    return max(part for part, cells in enumerate(block) if cells)


class Contents:
    """What is known of a memory alone: the stack symbols at its top and its bottom.

    Where something was popped, anything can be read that was ever pushed, or nothing.

    Args:
        part: of the memory in blocks.
        reads: the ends of it that are read.
    """

    start: Held = (EMPTY, EMPTY)

    def __init__(self, part: int, reads: Sequence[int]) -> None:
        self._part, self._reads = part, reads

    def read(self, held: Held, end: int, depth: int = 0) -> int:
        """The stack symbol that is read at an end, or so deep under it; raises `Broke`."""
        if depth:
            raise Broke(self._part, "is read below its ends")
        return held[end]

    def stepped(self, held: Held, popped: Sequence[int], pushed: Pushes) -> Held:
        """What is held after a step that pops at some ends, and then pushes.

        Raises:
            Broke: that is not as assumed.
        """
        if any(stack_symbol == EMPTY for _, stack_symbol in pushed):
            raise Broke(self._part, "holds cells that cannot be told from none")
        if popped and EMPTY not in held:
            held = self._popped(held, popped, [end for end, _ in pushed])
        for end, stack_symbol in pushed:
            other = stack_symbol if EMPTY in held else held[1 - end]
            held = (stack_symbol, other) if end == TOP else (other, stack_symbol)
        return held

    def _popped(self, held: Held, popped: Sequence[int], pushed: Sequence[int]) -> Held:
        """What is held after pops at some ends, where something is pushed at some afterwards."""
        return UNKNOWN, UNKNOWN


class AllKnown(Contents):
    """It never holds more than a few cells."""

    start = ()

    def read(self, held: Held, end: int, depth: int = 0) -> int:
        return held[-1 - depth if end == TOP else depth] if len(held) > depth else EMPTY

    def stepped(self, held: Held, popped: Sequence[int], pushed: Pushes) -> Held:
        for end in popped:
            held = held[:-1] if end == TOP else held[1:]
        for end, stack_symbol in pushed:
            held = (*held, stack_symbol) if end == TOP else (stack_symbol, *held)
        if len(held) > MOST_CELLS:
            raise Broke(self._part, f"holds more than {MOST_CELLS} cells")
        return held


class EndsKnown(Contents):
    """Nothing is popped from it, but what something is pushed in the place of."""

    def _popped(self, held: Held, popped: Sequence[int], pushed: Sequence[int]) -> Held:
        # What is at the other end is not known then, since both may have been the same cell.
        if len(popped) > 1 or not popped == pushed == self._reads:
            raise Broke(self._part, "is popped")
        return held
