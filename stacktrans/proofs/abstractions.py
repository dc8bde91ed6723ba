"""Abstract contents of one memory, or of several in step on a tape; unknown cells as graph edges.

Part 0 is the memory of the reference automaton, part n + 1 is memory n of the machine. An
abstraction covers one part by itself, or several parts that are used in step, cell by cell, on one
tape. What it does not know is described by edges of a graph: a node has an edge for everything
that can be there, as far as it has been reached.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

from stacktrans.automata.rules import EMPTY
from stacktrans.common.ends import BOTTOM, TOP

FRONT, BACK = 0, 1
"""The ends of a tape."""
UNKNOWN = -2
"""Stands for any stack symbol that was ever pushed, or for none."""
MAX_CELLS = 3
"""Maximum number of cells of a memory that a situation contains completely."""
MAX_BLOCKS = 8
"""Maximum number of known blocks of a tape: the lag between its memories."""
MAX_KNOWN = 2
"""Maximum number of blocks up to which a queue is known completely."""
LAGS = f"lags more than {MAX_BLOCKS} steps behind another"
OTHER_END = "is used at both ends, unlike the other"
Operations = dict[int, tuple[list[int], list[tuple[int, Any]]]]
"""By parts, the sides that a step pops, and its pushes after that: sides and cells."""
Block = tuple[tuple[Hashable, ...], ...]
"""The cells that one step pushes to each part."""
Blocks = tuple[Block, ...]
Location = tuple[Blocks, tuple[int, int] | None]
"""Blocks, and the indices of a block and of a cell in a part of it; None if there is no cell."""
Edge = tuple[Hashable, Any]
"""A node, and something that can be there."""


class Refuted(Exception):
    """A memory does not satisfy the invariant that its abstraction rests on.

    Args:
        part: of the memory.
        why: the violation, as a predicate of the memory.
    """

    def __init__(self, part: int, why: str) -> None:
        self.part, self.why = part, why


class Unknown(Exception):
    """A read depends on which edge of a node is taken; the exploration has to branch.

    Args:
        part: the memory that is read.
        node: of its abstraction.
    """

    def __init__(self, part: int, node: Hashable) -> None:
        self.part, self.node = part, node


class Restart(Exception):
    """An assumption of emptiness is refuted; the exploration has to begin again."""


class Abstraction(ABC):
    """An abstract domain for the contents of one or several memories.

    Attributes:
        start: the contents before the first step.
        exact: whether everything that edges describe is reachable, by the inputs along them.
    """

    start: Any
    exact = False

    @abstractmethod
    def read(self, contents: Any, part: int, side: int, depth: int = 0) -> Hashable | None:
        """The cell of a part at a depth below a side, from 0; None or `EMPTY` if there is none.

        Raises:
            Unknown: it depends on edges; `reveal` gives the contents for each.
            Refuted: the abstraction cannot tell.
        """

    @abstractmethod
    def step(self, contents: Any, done: Operations, head: Hashable) -> tuple[Any, list[Edge]]:
        """The contents after a step, and the edges that it adds.

        Args:
            contents: before it.
            done: the operations on all memories.
            head: the situation after the step, without these contents.

        Raises:
            Refuted: the invariant does not hold.
        """

    def reveal(self, contents: Any, node: Any, value: Any) -> list[Any]:
        """The contents that unknown ones can be if an edge is taken."""
        return []

    def below(self, contents: Any) -> Hashable | None:
        """The node that stands for everything under contents, or under an edge; None for none."""
        return None


class Bounded(Abstraction):
    """A memory with all of its cells; the invariant is that there are at most `MAX_CELLS`."""

    start = ()

    def __init__(self, part: int, reads: Sequence[int]) -> None:
        self._part = part

    def read(self, contents: Any, part: int, side: int, depth: int = 0) -> Hashable | None:
        if len(contents) <= depth:
            return None
        return contents[-1 - depth if side == TOP else depth]  # type: ignore[no-any-return]

    def step(self, contents: Any, done: Operations, head: Hashable) -> tuple[Any, list[Edge]]:
        pops, pushes = done[self._part]
        for side in pops:
            contents = contents[:-1] if side == TOP else contents[1:]
        for side, cell in pushes:
            contents = (*contents, cell) if side == TOP else (cell, *contents)
        if len(contents) > MAX_CELLS:
            raise Refuted(self._part, f"holds more than {MAX_CELLS} cells")
        return contents, []


class Arbitrary(Abstraction):
    """A memory with the cells at its ends; a pop may uncover anything ever pushed, or nothing.

    Args:
        part: the memory.
        reads: the sides that rules depend on.
    """

    start = EMPTY, EMPTY

    def __init__(self, part: int, reads: Sequence[int]) -> None:
        self._part, self._reads = part, reads

    def read(self, contents: Any, part: int, side: int, depth: int = 0) -> Hashable | None:
        if depth:
            raise Refuted(part, "is read below its ends")
        if contents[side] == UNKNOWN:
            raise Unknown(part, side)
        return contents[side]  # type: ignore[no-any-return]

    def step(self, contents: Any, done: Operations, head: Hashable) -> tuple[Any, list[Edge]]:
        pops, pushes = done[self._part]
        if any(cell == EMPTY for _, cell in pushes):
            raise Refuted(self._part, "pushes the stack symbol of an empty memory")
        if pops and EMPTY not in contents:
            contents = self._popped(contents, pops, [side for side, _ in pushes])
        for side, cell in pushes:
            other = cell if EMPTY in contents else contents[1 - side]
            contents = (cell, other) if side == TOP else (other, cell)
        cells = (EMPTY, *(cell for _, cell in pushes))
        return contents, [*itertools.product((TOP, BOTTOM), cells)]

    def _popped(self, contents: Any, pops: list[int], pushed: list[int]) -> Any:
        return UNKNOWN, UNKNOWN

    def reveal(self, contents: Any, node: Any, value: Any) -> list[Any]:
        return [(value, contents[BOTTOM]) if node == TOP else (contents[TOP], value)]


class OnlyReplaced(Arbitrary):
    """A memory with the cells at its ends; the invariant is that pops only replace cells."""

    def _popped(self, contents: Any, pops: list[int], pushed: list[int]) -> Any:
        # With two pops the other end would be unknown: both may have taken the same cell.
        if len(pops) > 1 or not pops == pushed == self._reads:
            raise Refuted(self._part, "is popped")
        return contents


class AlignedMemories(Abstraction):
    """Several memories as a tape of blocks; the invariant is that they are used in parallel.

    The cells of a part, block by block, are the contents of its memory. Contents are named tuples,
    whose `blocks` are known.

    Args:
        tops: the end of the tape at which the top of each part is.
        parts: number of all parts, those on the tape and others.

    Attributes:
        pushed: all blocks that were pushed at the back.
    """

    def __init__(self, tops: Mapping[int, int], parts: int) -> None:
        self._tops, self._parts = tops, range(parts)
        self.pushed = set[Block]()

    def read(self, contents: Any, part: int, side: int, depth: int = 0) -> Hashable | None:
        blocks, indices = self._locate(contents, part, self._tops[part] ^ side, depth)
        return None if indices is None else blocks[indices[0]][part][indices[1]]

    def step(self, contents: Any, done: Operations, head: Hashable) -> tuple[Any, list[Edge]]:
        back: dict[int, tuple[Hashable, ...]] = {}
        for part, top in self._tops.items():
            pops, pushes = done[part]
            for side in pops:
                contents = self._pop(contents, part, top ^ side)
            for side, cell in pushes:
                if top ^ side == FRONT:
                    contents = self._push_front(contents, self._block({part: (cell,)}), part)
                else:
                    back[part] = (*back.get(part, ()), cell)
        if back:
            block = self._block(back)
            contents = self._push_back(contents, block)
            self.pushed.add(block)
        return self._forget(contents, head)

    def _block(self, cells: Mapping[int, tuple[Hashable, ...]]) -> Block:
        return tuple(cells.get(part, ()) for part in self._parts)

    def _pop(self, contents: Any, part: int, end: int) -> Any:
        blocks, indices = self._locate(contents, part, end)
        if indices is None:
            return contents
        index, _ = indices
        block = blocks[index]
        cells = block[part][:-1] if end == BACK else block[part][1:]
        changed = (*block[:part], cells, *block[part + 1 :])
        return contents._replace(blocks=(*blocks[:index], changed, *blocks[index + 1 :]))

    def _push_front(self, contents: Any, block: Block, part: int) -> Any:
        if self.below(contents) is not None or len(contents.blocks) >= MAX_BLOCKS:
            raise Refuted(part, OTHER_END)
        return contents._replace(blocks=(block, *contents.blocks))

    @abstractmethod
    def _push_back(self, contents: Any, block: Block) -> Any:
        """The contents with a block at the back."""

    @abstractmethod
    def _locate(self, contents: Any, part: int, end: int, depth: int = 0) -> Location:
        """The known blocks at an end, and where in them the cell is that `read` gives."""

    @abstractmethod
    def _forget(self, contents: Any, head: Hashable) -> tuple[Any, list[Edge]]:
        """The contents with as few blocks as possible, and the edges that describe the others."""


def _location(blocks: Blocks, part: int, end: int, depth: int) -> Location:
    """The place of the cell of a part at a depth below an end of blocks, all of which are known."""
    order = range(len(blocks)) if end == FRONT else range(len(blocks) - 1, -1, -1)
    for index in order:
        size = len(blocks[index][part])
        if size > depth:
            return blocks, (index, depth if end == FRONT else size - 1 - depth)
        depth -= size
    return blocks, None


class StackContents(NamedTuple):
    """A stack in a situation: its topmost blocks.

    Attributes:
        blocks: the last is on top.
        under: the node of what is under them; None for nothing.
    """

    blocks: Blocks
    under: Hashable


class AlignedStacks(AlignedMemories):
    """Stacks that are used in parallel, whose reachable contents are computed exactly.

    The rules of both automata form one pushdown system. A node stands for a situation in which a
    block was buried, as a state of the automaton of post* does (Bouajjani, Esparza and Maler 1997,
    "Reachability analysis of pushdown automata").
    """

    start = StackContents((), None)
    exact = True

    def _locate(self, contents: StackContents, part: int, end: int, depth: int = 0) -> Location:
        if end == FRONT and contents.under is not None:
            raise Refuted(part, OTHER_END)
        location = _location(contents.blocks, part, end, depth)
        if location[1] or contents.under is None:
            return location
        if len(contents.blocks) >= MAX_BLOCKS:
            raise Refuted(part, LAGS)
        raise Unknown(part, contents.under)

    def _push_back(self, contents: StackContents, block: Block) -> StackContents:
        return contents._replace(blocks=(*contents.blocks, block))

    def _forget(self, contents: StackContents, head: Hashable) -> tuple[StackContents, list[Edge]]:
        blocks, under, edges = tuple(filter(any, contents.blocks)), contents.under, list[Edge]()
        for index in range(1, len(blocks)):
            node = head, blocks[index:]
            edges.append((node, StackContents(blocks[index - 1 : index], under)))
            under = node
        return StackContents(blocks[-1:], under), edges

    def reveal(self, contents: StackContents, node: Any, value: StackContents) -> list[Any]:
        return [value._replace(blocks=(*value.blocks, *contents.blocks))]

    def below(self, contents: StackContents) -> Hashable | None:
        return contents.under


class QueueContents(NamedTuple):
    """A queue in a situation: the blocks at both ends.

    Attributes:
        blocks: those that are known, the first in front.
        last: the last of these as it was when others came to stand behind it; None if none did.
        back: the last block of all, behind any number of others that are behind `blocks`; none if
            there is nothing behind `blocks`. During a step there may be several.
    """

    blocks: Blocks
    last: Block | None
    back: Blocks


class AlignedQueues(AlignedMemories):
    """Queues that are used in parallel: their ends, and the blocks that may follow one another.

    This describes more contents than are reachable. If a part has no cell in any block that was
    ever behind a given block, directly or not, the part is assumed to be empty behind it.

    Args:
        tops: see `AlignedMemories`.
        parts: see `AlignedMemories`.
        refuted: blocks, and parts that are not empty behind them; extended before `Restart`.
    """

    start = QueueContents((), None, ())

    def __init__(
        self, tops: Mapping[int, int], parts: int, refuted: set[tuple[Block, int]]
    ) -> None:
        super().__init__(tops, parts)
        self._refuted = refuted
        self._assumed = set[tuple[Block, int]]()
        self._behind: defaultdict[Block, set[Block]] = defaultdict(set)

    def _locate(self, contents: QueueContents, part: int, end: int, depth: int = 0) -> Location:
        blocks, last, back = contents
        if not back:
            return _location(blocks, part, end, depth)
        location = _location(back[-1:] if end == BACK else blocks, part, end, depth)
        if location[1]:
            return location
        if end == FRONT and not back[-1][part] and last and self._is_last(last, part):
            return location
        if end == BACK or len(blocks) >= MAX_BLOCKS:
            raise Refuted(part, LAGS)
        raise Unknown(part, last)

    def _is_last(self, block: Block, part: int) -> bool:
        """Assume that a part is empty behind a block, unless it is known not to be."""
        if (block, part) in self._refuted:
            return False
        reached, frontier = {block}, [block]
        while frontier:
            behind = self._behind[frontier.pop()]
            if any(other[part] for other in behind):
                self._refuted.add((block, part))
                return False
            frontier += behind - reached
            reached |= behind
        self._assumed |= {(other, part) for other in reached}
        return True

    def _note_behind(self, block: Block, behind: Block) -> None:
        """Note what stands behind a block; raises `Restart` if it was assumed not to."""
        self._behind[block].add(behind)
        for part, cells in enumerate(behind):
            if (block, part) in self._assumed and (cells or not self._is_last(behind, part)):
                self._refuted |= {(other, of) for other, of in self._assumed if of == part}
                raise Restart

    def _pop(self, contents: QueueContents, part: int, end: int) -> QueueContents:
        if end == BACK and contents.back:
            raise Refuted(part, OTHER_END)
        return super()._pop(contents, part, end)  # type: ignore[no-any-return]

    def _push_back(self, contents: QueueContents, block: Block) -> QueueContents:
        if contents.back:
            return contents._replace(back=(*contents.back, block))
        blocks = (*filter(any, contents.blocks), block)
        if len(blocks) > MAX_KNOWN:
            return QueueContents(blocks[:1], blocks[0], blocks)
        return QueueContents(blocks, None, ())

    def _forget(self, contents: QueueContents, head: Hashable) -> tuple[QueueContents, list[Edge]]:
        front, last, back = contents
        edges: list[Edge] = [*itertools.pairwise(back)]
        for block, behind in itertools.pairwise(back):
            self._note_behind(block, behind)
        return QueueContents(tuple(filter(any, front)), last, back[-1:]), edges

    def reveal(self, contents: QueueContents, node: Any, value: Block) -> list[Any]:
        front = (*contents.blocks, value)
        revealed = [QueueContents(front, value, contents.back)]
        if (value,) == contents.back:
            revealed.append(QueueContents(front, None, ()))
        return revealed
