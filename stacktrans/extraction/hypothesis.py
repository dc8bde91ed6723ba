"""Hypotheses: machines built from a partition with named classes, by generalization to rules.

At first the entries of a family form one block. Steps whose components are in the same blocks
should do the same, which may be to write or push the symbol that is read. Where they do not, the
entries that deviate become a block of their own, or a rule compares two symbols. In the end rules
are generalized as far as all recorded steps allow.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from stacktrans.automata.machine import Machine
from stacktrans.automata.rules import CONSTANT, EMPTY, START, Rule, SymbolTable, Term
from stacktrans.extraction.limits import GRACE
from stacktrans.extraction.naming import name_classes
from stacktrans.extraction.network import NOTHING
from stacktrans.extraction.partition import Partition, row_ids
from stacktrans.extraction.symmetry import Symmetry
from stacktrans.tasks.alphabets import Ids, Mask

ANYTHING = None
"""The terms of an irrelevant action: any would do."""
Terms = frozenset[Term] | None
FEW_RULES = 30
"""The most rules for which another order of generalization is tried."""


def build_hypothesis(symmetry: Symmetry, partition: Partition) -> Machine:
    """The machine of a consistent partition; raises `OutOfTime` if there is no time for its rules.

    Its states and stack symbols are the classes of states and pushed vectors. Those that nothing
    distinguishes any more are merged first.
    """
    machine = name_classes(symmetry, partition)
    orbits = [symmetry.orbit_of(table) for table in machine.components]
    return replace(machine, rules=tuple(_RuleLearner(partition, machine, orbits).learn()))


@dataclass
class _Action:
    """A component of transitions: a signal, the output, a pushed stack symbol or the next state.

    Attributes:
        values: [N] the actions; `NOTHING` where it is irrelevant or unknown.
        likely: [N] the same, guesses included.
        table: of the values; None for signals.
        needed: whether a machine needs a value even where it is irrelevant.
    """

    values: Ids
    likely: Ids
    table: SymbolTable | None
    needed: bool


def _actions(partition: Partition, machine: Machine) -> list[_Action]:
    """All actions: signals, the output, pushed stack symbols and the next state."""
    pushed = (machine.stack_symbols[memory] for memory in partition.push_memories)
    tables = [*[None] * partition.output, machine.outputs, *pushed, machine.states]
    actions = []
    for column, table in enumerate(tables):
        values = likely = partition.majority_values(column)
        if column in partition.results:
            classes, vectors = partition.results[column]
            likely = np.where(vectors == NOTHING, NOTHING, classes.label_of[vectors])
        actions.append(_Action(values, likely, table, needed=column != partition.output))
    return actions


@dataclass
class _Group:
    """Steps whose components are in the same blocks.

    Attributes:
        key: the block of each component, then whether compared symbols are equal.
        rows: the steps.
        symbols: of each component, its symbols in these steps.
        terms: of each action, the terms that are right in all of these steps.
    """

    key: tuple[int, ...]
    rows: Ids
    symbols: list[frozenset[int]]
    terms: list[Terms]


class _RuleLearner:
    """A learner of rules that generalize the groups of a partition.

    Args:
        partition: of the steps; after its deadline blocks are not split any further.
        machine: the machine, without rules, whose entries are its classes.
        orbits: of each component, the orbit of each entry under permutations of interchangeable
            symbols; no block separates an orbit.

    Attributes:
        tables: of the components of observations.
        observations: [N, components] of the different steps.
        counts: [N] how often each step was recorded.
        actions: the actions of each step.
        blocks: for each component, the block of each entry.
        pairs: components whose symbols are compared.
        push_signals: the signal of each push.
    """

    def __init__(self, partition: Partition, machine: Machine, orbits: Sequence[Ids]) -> None:
        self._orbits = orbits
        self.deadline, actions = partition.deadline, _actions(partition, machine)
        columns = [partition.steps.observations[:, 0]]
        columns += (classes.label_of[vectors] for classes, vectors in partition.components[1:])
        observed = np.column_stack(columns) * partition.relevant
        done = [column for action in actions for column in (action.values, action.likely)]
        table = np.column_stack([observed, *done])
        _, first, self.counts = np.unique(table, axis=0, return_index=True, return_counts=True)
        self.tables, self.observations = machine.components, observed[first]
        self.actions = [
            replace(action, values=action.values[first], likely=action.likely[first])
            for action in actions
        ]
        components = zip(self.tables, self.observations.T, strict=True)
        self._symbols = [table.symbol_of[column] for table, column in components]
        self.blocks = [table.family_of.copy() for table in self.tables]
        self.pairs: list[tuple[int, int]] = []
        self.push_signals = [signal for signal, _ in partition.ends.pushes]

    def learn(self) -> list[Rule]:
        """The rules, the most general first; raises `OutOfTime`."""
        groups = self._groups([])
        while not self.deadline.over() and self._split_blocks(groups):
            groups = self._groups(groups)
        inputs, *others = range(len(self.tables))
        rules = _Generalization(self, groups, [*others, inputs]).rules()
        if len(rules) > FEW_RULES:
            return rules
        return min(rules, _Generalization(self, groups, [inputs, *others]).rules(), key=len)

    def _equal(self, one: int, other: int, rows: Ids | slice) -> Mask:
        """[n] whether two components have the same symbol, in some steps or in all."""
        symbols, others = self._symbols[one][rows], self._symbols[other][rows]
        equal: Mask = (symbols == others) & (symbols != NOTHING)
        return equal

    def _groups(self, before: Sequence[_Group]) -> list[_Group]:
        """The groups by blocks and pairs; earlier groups that were not split are kept."""
        components = zip(self.blocks, self.observations.T, strict=True)
        columns = [blocks[column] for blocks, column in components]
        columns += [self._equal(*pair, slice(None)) for pair in self.pairs]
        numbers, keys = row_ids(columns), np.column_stack(columns)
        order = np.argsort(numbers, kind="stable")
        # Groups are only ever split: one with the first step and the size of an earlier one is it.
        whole = {(group.rows[0], len(group.rows)): group for group in before}
        groups = []
        for rows in np.split(order, np.cumsum(np.bincount(numbers))[:-1]):
            group = whole.get((rows[0], len(rows))) or self._group(rows)
            groups.append(replace(group, key=tuple(keys[rows[0]].tolist())))
        return groups

    def _group(self, rows: Ids) -> _Group:
        """The group of some steps, without its key."""
        symbols = [frozenset(symbols[rows].tolist()) for symbols in self._symbols]
        return _Group((), rows, symbols, [self._terms(action, rows) for action in self.actions])

    def _terms(self, action: _Action, rows: Ids) -> Terms:
        """The terms that are right in all of some steps; `ANYTHING` if no value is known."""
        self.deadline.check(GRACE)
        candidates = self.candidates(action, rows)
        if not candidates:
            return ANYTHING
        return frozenset(term for term, right in candidates if right.all())

    def candidates(
        self, action: _Action, rows: Ids, likely: bool = False
    ) -> list[tuple[Term, Mask]]:
        """Terms, each with the steps in which it is right; none if nothing is known."""
        values = (action.likely if likely else action.values)[rows]
        relevant = values != NOTHING
        if not relevant.any():
            return []
        usual = int(np.bincount(values[relevant]).argmax())
        candidates = [(Term(CONSTANT, usual), ~relevant | (values == usual))]
        if action.table is None:
            return candidates
        symbols, families = action.table.symbol_of, action.table.family_of
        family = int(np.bincount(families[values[relevant]]).argmax())
        members = action.table.families[family].symbols
        if members is None:
            return candidates
        for component, of_component in enumerate(self._symbols):
            wanted = of_component[rows]
            right = (symbols[values] == wanted) & (families[values] == family) & (wanted != NOTHING)
            if not relevant.all():
                right |= ~relevant & (np.isin(wanted, members) | (not action.needed))
            candidates.append((Term(component, family), right))
        return candidates

    def _split_blocks(self, groups: Sequence[_Group]) -> bool:
        """Split a block of each component where equivalent steps deviate; whether any was split."""
        self._split_in_round = set[tuple[int, int]]()  # components and blocks
        for group in groups:
            if self.deadline.over():
                break
            actions = zip(self.actions, group.terms, strict=True)
            action = next((action for action, terms in actions if terms == frozenset()), None)
            if action:
                self._split_by(group, action)
        return bool(self._split_in_round)

    def _split_by(self, group: _Group, action: _Action) -> None:
        """Split a block to explain the steps that deviate from the best term of an action."""
        candidates = self.candidates(action, group.rows)
        _, right = max(candidates, key=lambda candidate: int(candidate[1].sum()))
        # The steps that a split explains, the component, and the entries to split off.
        options: list[tuple[int, int, Ids]] = []
        for component, orbit_of in enumerate(self._orbits):
            column = orbit_of[self.observations[group.rows, component]]
            total = np.bincount(column)
            wrong = np.bincount(column[~right], minlength=len(total))
            if np.count_nonzero(total) < 2:
                continue
            deviating = np.flatnonzero(2 * wrong > total)
            explained = int(np.maximum(wrong, total - wrong).sum())
            if len(deviating) in (0, np.count_nonzero(total)):  # take that of a deviating step
                deviating, explained = np.array([wrong.argmax()]), 0
            options.append((explained, component, np.flatnonzero(np.isin(orbit_of, deviating))))
        pair = self._deciding_pair(group, right)
        best = max(options, key=lambda option: option[0], default=None)
        if pair is not None and (best is None or best[0] < len(group.rows)):
            self.pairs.append(pair)
            self._split_in_round.add((-1, -1))
        elif best:
            self._split_off(*best[1:])

    def _split_off(self, component: int, entries: Ids) -> None:
        """Make a block of some entries, unless their block was split in this round."""
        blocks = self.blocks[component]
        block = int(blocks[entries[0]])
        if (component, block) not in self._split_in_round:
            blocks[entries] = blocks.max() + 1
        self._split_in_round.add((component, block))

    def _deciding_pair(self, group: _Group, right: Mask) -> tuple[int, int] | None:
        """Two components with equal symbols in just those steps that deviate, or that do not."""
        for pair in itertools.combinations(range(len(self._symbols)), 2):
            equal = self._equal(*pair, group.rows)
            decides = (equal == right).all() or (equal != right).all()
            if pair not in self.pairs and decides and 0 < equal.sum() < len(equal):
                return pair
        return None


class _CoveringRule(NamedTuple):
    """A rule in the making.

    Attributes:
        when: of each component the blocks to which it applies; None for all.
        chosen: the term of each action; None where any would do.
        matching: [groups] to which it applies.
    """

    when: list[set[int] | None]
    chosen: list[Term | None]
    matching: Mask


class _Generalization:
    """A generalization of groups of steps to rules.

    Args:
        learner: the learner that made the groups.
        groups: groups of equivalent steps.
        order: of the components on which conditions are widened.
    """

    def __init__(
        self, learner: _RuleLearner, groups: Sequence[_Group], order: Sequence[int]
    ) -> None:
        self._learner, self._order = learner, order
        self._groups = sorted(groups, key=lambda group: -int(learner.counts[group.rows].sum()))
        self._keys = np.array([group.key for group in self._groups])
        self._covered: Mask = np.zeros(len(groups), np.bool_)

    def rules(self) -> list[Rule]:
        """Rules for all groups, those of the most steps first, without redundant ones."""
        covering = self._without_redundant([*self._covering()])
        return [self._rule(rule.when, rule.chosen) for rule in covering]

    def _covering(self) -> Iterator[_CoveringRule]:
        for index, group in enumerate(self._groups):
            if self._covered[index]:
                continue
            when: list[set[int] | None] = [{part} for part in group.key]
            matching, terms = self._generalize(when, index)
            self._covered |= matching
            rows = np.concatenate([group.rows for group in self._matched(matching)])
            chosen = [
                _preferred(of_action) if of_action else self._best(action, rows)
                for action, of_action in zip(self._learner.actions, terms, strict=True)
            ]
            yield _CoveringRule(when, chosen, matching)

    def _without_redundant(self, rules: list[_CoveringRule]) -> list[_CoveringRule]:
        """The rules, except those whose steps later rules also get right."""
        nothing = np.ones((1, len(self._groups)), np.bool_)  # applies where no rule does
        matching = np.concatenate([*(rule.matching[None] for rule in rules), nothing])
        right = np.zeros_like(matching)
        for index, group in np.argwhere(matching[:-1]).tolist():
            right[index, group] = self._is_right(rules[index].chosen, self._groups[group])
        kept = np.ones(len(matching), np.bool_)
        for index in range(len(rules)):
            kept[index] = False
            first = matching[kept].argmax(axis=0)
            kept[index] = not right[kept][first, np.arange(len(first))].all()
        return [rule for rule, needed in zip(rules, kept, strict=False) if needed]

    def _is_right(self, chosen: Sequence[Term | None], group: _Group) -> bool:
        """Whether terms of a rule are right in all steps of a group."""
        return all(
            (terms is ANYTHING or term in terms) and _is_defined(term, action, [group])
            for term, terms, action in zip(chosen, group.terms, self._learner.actions, strict=True)
        )

    def _matched(self, matching: Mask) -> list[_Group]:
        return [self._groups[index] for index in np.flatnonzero(matching).tolist()]

    def _best(self, action: _Action, rows: Ids) -> Term | None:
        """The term that is right in most steps, guesses included."""
        candidates = self._learner.candidates(action, rows, likely=True)
        best = max(candidates, key=lambda candidate: int(candidate[1].sum()), default=None)
        return best and best[0]

    def _generalize(self, when: list[set[int] | None], index: int) -> tuple[Mask, list[Terms]]:
        """Drop and widen the conditions of a rule as far as possible, beginning with one group.

        Args:
            when: the blocks of the group, which become those of the rule.
            index: of the group. Groups that earlier rules cover restrict the rule, too, but are no
                evidence for a wider condition.

        Returns:
            the groups that the rule covers, and its terms.
        """
        matching: Mask = np.zeros(len(self._groups), np.bool_)
        matching[index] = True
        terms, count = self._groups[index].terms, len(self._learner.tables)
        for component in [*range(count, len(when)), *self._order]:
            others = self._matching([*when[:component], None, *when[component + 1 :]])
            for wider in self._wider(component, when):
                self._learner.deadline.check(GRACE)
                covered = others & self._admitted(component, wider)
                more = (covered & ~matching & ~self._covered).any()
                if not more and self._needs_evidence(component, when[component], wider):
                    continue
                common = self._common_terms(terms, self._matched(covered))
                if common is not None:
                    when[component], matching, terms = wider, covered, common
                    if wider is None:
                        break
        return matching, terms

    def _matching(self, when: Sequence[set[int] | None]) -> Mask:
        """[groups] which of them a rule covers."""
        matching: Mask = np.ones(len(self._keys), np.bool_)
        for component, blocks in enumerate(when):
            matching &= self._admitted(component, blocks)
        return matching

    def _admitted(self, component: int, blocks: set[int] | None) -> Mask:
        """[groups] which of them a condition on one component admits."""
        column = self._keys[:, component]
        admitted = np.full(int(column.max()) + 1, blocks is None)
        admitted[[*(blocks or ())]] = True
        matching: Mask = admitted[column]
        return matching

    def _needs_evidence(
        self, component: int, blocks: set[int] | None, wider: set[int] | None
    ) -> bool:
        """Whether a wider condition holds of another input, or of a memory that may be empty."""
        reads = 0 < component < len(self._learner.blocks) - 1
        added = (wider or set()) - (blocks or set())
        return component == 0 or (reads and added == {self._learner.blocks[component][EMPTY]})

    def _common_terms(self, terms: Sequence[Terms], groups: Sequence[_Group]) -> list[Terms] | None:
        """The terms that groups have in common; None if an action has none."""
        result: list[Terms] = []
        for index, action in enumerate(self._learner.actions):
            every = (terms[index], *(group.terms[index] for group in groups))
            known = [of_group for of_group in every if of_group is not ANYTHING]
            common = frozenset.intersection(*known) if known else ANYTHING
            common = common and frozenset(
                term for term in common if _is_defined(term, action, groups)
            )
            if common == frozenset():
                return None
            result.append(common)
        return result

    def _wider(self, component: int, when: Sequence[set[int] | None]) -> Iterator[set[int] | None]:
        """Wider conditions on a component: none at all, or one more block."""
        yield None
        for block in np.unique(self._keys[:, component]).tolist():
            blocks = when[component]
            if blocks is not None and block not in blocks:
                yield blocks | {block}

    def _rule(self, when: Sequence[set[int] | None], chosen: Sequence[Term | None]) -> Rule:
        learner = self._learner
        entries = [
            None if own is None else frozenset(np.flatnonzero(np.isin(blocks, [*own])).tolist())
            for own, blocks in zip(when, learner.blocks, strict=False)
        ]
        equal = tuple(
            (*pair, bool(next(iter(own))))
            for pair, own in zip(learner.pairs, when[len(entries) :], strict=True)
            if own is not None
        )
        count = len([action for action in learner.actions if action.table is None])
        signals = tuple(0 if term is None else term.entry for term in chosen[:count])
        output, *pushed, next_state = chosen[count:]
        terms = tuple(
            term if signals[signal] else None
            for signal, term in zip(learner.push_signals, pushed, strict=True)
        )
        return Rule(
            tuple(entries), equal, signals, output, terms, next_state or Term(CONSTANT, START)
        )


def _preferred(terms: frozenset[Term]) -> Term:
    """The simplest term: a component of the observation, or else a constant."""
    return min(terms, key=lambda term: (term.component == CONSTANT, *term))


def _is_defined(term: Term | None, action: _Action, groups: Sequence[_Group]) -> bool:
    """Whether a term has a value in all steps of some groups, or need not have one."""
    if term is None or term.component == CONSTANT or not (action.table and action.needed):
        return True
    members = {*(action.table.families[term.entry].symbols or ())}
    return all(group.symbols[term.component] <= members for group in groups)
