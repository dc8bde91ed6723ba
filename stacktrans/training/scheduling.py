"""The schedule of a race: which candidates get the next time slices, and which wins a round.

It depends on what candidates have achieved after some batches, and not on the time that it took.
"""

from collections.abc import Mapping, Sequence

from stacktrans.training.race_state import Candidate

TIME_SLICE = 200
"""Batches of a time slice."""
BEGINNING_SYMBOLS = 200_000
"""Symbols that a run is trained on, once it has begun, before another begins. After fewer, hardly
any run has learned enough to be distinguished from others."""
RUNS_PER_ROUND = 2
"""Runs that get a time slice in a round."""
PROVISIONAL_COST = 16
"""Factor on the cost of a run whose solutions are provisional, since it cannot end the race."""
STALLED_AFTER = 3
"""Time slices without progress after which the leader is no longer preferred."""

Candidates = Mapping[str, Candidate]


def next_round(candidates: Candidates, width: int, sizes: Mapping[str, int]) -> list[str]:
    """Choose the runs that get a time slice in a round, the most promising first.

    Runs are ranked by accuracy on strings longer than those trained on, in tenths: smaller
    differences may be chance. Ties are broken by the order of strategies or, once all have begun,
    by accuracy on training lengths, whichever ranks a run higher: by the former alone, slow
    learners would hardly get a time slice; by the latter alone, memorization would get them all.

    The leader gets a time slice in each round, unless it has stalled, and so do the runs with the
    smallest cost: the batches up to the middle of their next time slice, times their rank. So runs
    begin one after another, and the second need not wait for the last. Batches do not count until
    they add up to `BEGINNING_SYMBOLS`; those of a stalled run count the more, the longer it stalls,
    and those of a provisional one always count more. A run with a fallback leads, unless it is
    provisional.

    Args:
        candidates: all candidates by name, in the order of strategies.
        width: number of runs that get a time slice in a round.
        sizes: symbols in a batch of each run.
    """
    able = [name for name, candidate in candidates.items() if candidate.can_continue]
    ranks = _ranks(candidates, able)

    def cost(name: str) -> float:
        candidate = candidates[name]
        counts = candidate.step * sizes[name] >= BEGINNING_SYMBOLS
        batches = (candidate.step if counts else 0) + TIME_SLICE / 2
        factor = PROVISIONAL_COST if candidate.provisional else 1
        return ranks[name] * batches * factor * max(1, candidate.stalled / STALLED_AFTER)

    by_cost = sorted(able, key=cost)
    progressing = [name for name in by_cost if candidates[name].stalled < STALLED_AFTER]
    leading = [name for name in progressing if ranks[name] == 1]
    solvers = [name for name in able if candidates[name].has_fallback]
    leader = ([name for name in solvers if not candidates[name].provisional] or leading)[:1]
    return [*leader, *(name for name in by_cost if name not in leader)][:width]


def _ranks(candidates: Candidates, able: Sequence[str]) -> dict[str, int]:
    """The rank of each run by accuracy, from 1; two may have the same."""

    def tenths(name: str) -> list[int]:
        shares = candidates[name].test, candidates[name].train
        return [round(10 * (share or 0.0)) for share in shares]

    orders = [sorted(able, key=lambda name: tenths(name)[0], reverse=True)]
    if all(candidates[name].step for name in able):
        orders.append(sorted(able, key=tenths, reverse=True))
    return {name: 1 + min(order.index(name) for order in orders) for name in able}


def round_winner(names: Sequence[str], pending: Mapping[str, Sequence[Candidate]]) -> str | None:
    """The best run that solved the task in a round; None if none did, or it is not known yet.

    A run that is right on all strings does not wait for those that come after it.
    """
    solved = dict[str, Candidate]()
    for name in names:
        if not pending.get(name):
            return None
        result = pending[name][0]
        if result.solved and not result.provisional:
            solved[name] = result
            if result.is_right and not result.has_fallback:
                return name
    return max(solved, key=lambda name: solved[name].ranking_key, default=None)
