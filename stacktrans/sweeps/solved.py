"""How many runs of a sweep are solved, how soon, and which are not."""

from collections.abc import Iterator, Sequence
from statistics import median

from stacktrans.common.statistics import confidence_interval
from stacktrans.sweeps.file import Solved
from stacktrans.sweeps.plan import Plan
from stacktrans.sweeps.table import Cell

NAMED = 12
"""How many cells are named that were not always solved."""


def share_solved(cell: Cell) -> str:
    """How many runs of a cell are solved, and the interval of their share; empty if unknown."""
    if cell.solved is None or cell.solved_interval is None:
        return ""
    return f"{cell.solved} of {cell.runs} {_interval(cell.solved_interval)}"


def seconds_to_solve(cell: Cell) -> str:
    """How long the median of the solved runs took; empty if there is none."""
    seconds = cell.median_seconds_to_solve
    return "" if seconds is None else f"{seconds:.0f}"


def solved_in_words(plan: Plan, cells: Sequence[Cell]) -> str:
    """How many runs of a sweep are solved, how soon, and where not all are; empty if unknown."""
    bound = plan.file.solved
    judged = [cell for cell in cells if bound and cell.measure == bound.measure and cell.runs]
    if not (bound and judged):
        return ""
    count, seconds = sum(cell.runs for cell in judged), [s for cell in judged for s in cell.seconds]
    share = _interval(confidence_interval(len(seconds) / count, count))
    least = f"{bound.measure} at least {_least(plan, bound)}"
    said = f"Solved, with {least}: {len(seconds)} of {count} runs {share}"
    if seconds:
        said += (
            f", half of these within {median(seconds):.0f} seconds, all within {max(seconds):.0f}"
        )
    said += "".join(f". {each}" for each in _also_in_words(plan, cells))
    missed = [_named(cell) for cell in judged if len(cell.seconds) < cell.runs]
    if missed:
        more = f" and {len(missed) - NAMED} more" if len(missed) > NAMED else ""
        said += f". Not all runs of {', '.join(missed[:NAMED])}{more}"
    return f"{said}."


def _also_in_words(plan: Plan, cells: Sequence[Cell]) -> Iterator[str]:
    """How many of the solved runs are as good with hard signals, and of how many is a machine."""
    bound = plan.file.solved
    for name, measure in plan.file.measures.items():
        own = [cell for cell in cells if cell.measure == name and cell.solved]
        discrete = measure.hard or measure.of == "machine"
        if not (bound and own and discrete) or name == bound.measure:
            continue
        also, count = sum(cell.also for cell in own), sum(cell.solved or 0 for cell in own)
        share = f"{also} of {count} {_interval(confidence_interval(also / count, count))}"
        has = "a machine" if measure.of == "machine" else f"{name} at least {_least(plan, bound)}"
        yield f"Of the solved runs, {share} have {has}"


def _least(plan: Plan, bound: Solved) -> str:
    return f"{bound.least:g}{' per cent' if plan.file.percent else ''}"


def _named(cell: Cell) -> str:
    name = f"{cell.condition} on {cell.task}" if cell.task else cell.condition
    return f"{name} ({len(cell.seconds)} of {cell.runs})"


def _interval(bounds: tuple[float, float]) -> str:
    return "[{:.2f} – {:.2f}]".format(*bounds)
