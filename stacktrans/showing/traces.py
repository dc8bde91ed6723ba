"""Traces in a terminal: tables with a row for each step, and heat maps of characters."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.console import Group, RenderableType
from rich.text import Text

from stacktrans.common.errors import UsageError
from stacktrans.common.visible import visible, visible_symbol
from stacktrans.inference.trace import ReadShare, Trace, TraceStep
from stacktrans.memory import make_memory
from stacktrans.settings.config import RunConfig
from stacktrans.showing.tables import GAP, Column, Table, heading, remark
from stacktrans.tasks.alphabets import UNSCORED_MARK

SHADES = " ░▒▓█"
BAR = f" [{SHADES}]+"
"""What follows a strength in a table that has room for it, as a regular expression."""
CELL = 2
"""Characters of a step in a heat map."""
VISIBLE = 0.05
"""The least share, at any step, of a symbol or a memory row that is shown in a heat map."""
MAX_SHOWN = 16
"""The most components of pushed vectors that are shown, and the most signals that always are."""
CELL_NUMBERS = 4
"""The components of a larger cell that a table shows."""
RULE = Column("when", left=True, fold=", "), Column("action", left=True, fold=", ")
"""The columns of a rule of a machine, beside its number."""


def of_stacks(whole: Trace, numbers: Sequence[int]) -> Trace:
    """A trace of some of the stacks or lists only, by their numbers from 1.

    Raises:
        UsageError: there is none with such a number.
    """
    names = list(whole.steps[0].tops)
    for number in numbers:
        if not 1 <= number <= len(names):
            if len(names) > 1:
                raise UsageError(f"--stacks {number}: the model's are 1 to {len(names)}")
            raise UsageError("--stacks: for a model with several stacks or lists with actions")
    kept = [name for number, name in enumerate(names, start=1) if number in numbers]

    def chosen(step: TraceStep) -> TraceStep:
        by_stack = step.by_stack()
        others = {name for stack in by_stack if stack not in kept for name in by_stack[stack]}
        return replace(
            step,
            signals={name: value for name, value in step.signals.items() if name not in others},
            pushed={name: vector for name, vector in step.pushed.items() if name in kept},
            tops={name: cells for name, cells in step.tops.items() if name in kept},
            lines={name: line for name, line in step.lines.items() if name in kept},
        )

    return replace(whole, steps=[chosen(step) for step in whole.steps])


def trace_view(trace: Trace, config: RunConfig) -> RenderableType:
    """A trace as a table with a row for each step; for actions, as table 3 of joulin2015."""
    if make_memory(config.model).takes_actions:
        following = [*(visible_symbol(step.input) for step in trace.steps[1:]), ""]
        rows = [*map(_action_row, trace.steps, following)]
    else:
        rows = [*map(_strength_row, trace.steps)]
    cells = ([cell for _, cell in row] for row in rows)
    table = Table(*(column for column, _ in rows[0]), rows=cells, continued=True)
    return Group(heading(trace.model), table, *remarks(trace))


def remarks(trace: Trace) -> list[RenderableType]:
    """The lines below a table: a note on unscored outputs, the rules applied, and the answer."""
    marked = any(step.output is not None and not step.scored for step in trace.steps)
    note = [remark(f"{UNSCORED_MARK} marks an output that is not scored")] if marked else []
    rules = (step.rule for step in trace.steps if step.rule)
    rows = sorted({(rule.number, rule.when, rule.action) for rule in rules})
    applied = [Table("rule", *RULE, rows=rows)] if rows else []
    return [*note, *applied, remark(verdict(trace))]


def verdict(trace: Trace) -> str:
    """The answer, and whether it is right."""
    if trace.failure:
        return f"no answer: {trace.failure}"
    if not trace.ended:
        judgement = "cut off: it did not end"
        if trace.expected is not None:
            judgement += f"; the target is {trace.expected or 'empty'}"
    elif trace.no_target is not None:
        judgement = f"not checked: {trace.no_target}"
    elif trace.correct:
        judgement = "right"
    else:
        judgement = f"wrong; the target is {trace.expected or 'empty'}"
    answer = f"answer: {trace.marked}" if trace.marked else "empty answer"
    return f"{answer}  ({judgement})"


Row = list[tuple[Column, object]]
"""The cells of a step, each with its column."""


def control_cells(step: TraceStep) -> Row:
    """The number of the rule that a machine applies, and its state after it, if it has several."""
    rule, state = step.rule, step.state
    return [
        *([(Column("rule"), rule.number if rule else "none")] if rule or step.stuck else []),
        *([(Column("state", left=True), state)] if state else []),
    ]


def _strength_row(step: TraceStep) -> Row:
    """The signals and reads of a step, and what its buffers contain."""
    before, after = Row(), Row()
    if step.input_read is not None:
        before += [
            (Column("input left"), f"{step.input_left:.2f}"),
            _parts_cell("read input", step.input_read),
        ]
        after += [
            (Column("output held"), f"{step.output_strength:.2f}"),
            _parts_cell("write answer", step.written),
        ]
    return [
        (Column("step"), step.step),
        (Column("input", left=True), visible_symbol(step.input)),
        (Column("output", left=True), output_text(step)),
        (Column("prob."), _probability(step)),
        *control_cells(step),
        *((Column(name, extra=BAR), _shaded(own)) for name, own in step.signals.items()),
        *before,
        *_read_cells(step),
        *((Column(name), _numbers(cells[0])) for name, cells in step.tops.items()),
        *after,
    ]


def _read_cells(step: TraceStep) -> Row:
    """The parts of each vector read."""
    return [_parts_cell(f"read {name}", parts) for name, parts in step.reads.items()]


def _parts_cell(name: str, parts: Sequence[ReadShare] | None) -> tuple[Column, str]:
    return Column(name, left=True, fold=GAP), parts_text(parts)


def _action_row(step: TraceStep, following: str) -> Row:
    """The most probable action of each memory, the values at its top or head, and its reads."""
    tops = [step.tops.get(name, []) for name in step.pushed]
    return [
        (Column("step"), step.step),
        (Column("input", left=True), visible_symbol(step.input)),
        (Column("next", left=True), following),
        (Column("output", left=True), output_text(step)),
        (Column("prob."), _probability(step)),
        *control_cells(step),
        *(
            (Column(name), " ".join([best_action(step, name), *map(_numbers, top[:1])]))
            for name, top in zip(step.pushed, tops, strict=True)
        ),
        *_read_cells(step),
    ]


def best_action(step: TraceStep, name: str) -> str:
    """The most probable action of a stack or list, with its probability."""
    actions = actions_of(step)[name]
    best = max(actions, key=actions.__getitem__)
    return f"{best} {actions[best]:.2f}"


def actions_of(step: TraceStep) -> dict[str, dict[str, float]]:
    """The actions of each stack or list, with their probabilities."""
    return {  # the name of a signal ends with the number of its stack if there are several
        name: {each.removesuffix(f" {name.split()[-1]}"): own[each] for each in own}
        for name, own in step.by_stack().items()
    }


def _numbers(cell: Sequence[float]) -> str:
    """The components of a cell, or the first of them."""
    shown = cell if len(cell) <= MAX_SHOWN else cell[:CELL_NUMBERS]
    return " ".join([*(f"{number:5.2f}" for number in shown), *["…"] * (len(shown) < len(cell))])


def parts_text(parts: Sequence[ReadShare] | None) -> str:
    """The parts of a read, each with the step of its push and its weight."""
    return GAP.join(
        f"{visible_symbol(part.symbol)}@{part.step} {part.weight:.2f}" for part in parts or []
    )


def output_text(step: TraceStep) -> str:
    """The output of a step, marked if it is not scored."""
    if step.output is None:
        return ""
    return f"{'' if step.scored else f'{UNSCORED_MARK} '}{visible_symbol(step.output)}"


def _probability(step: TraceStep) -> str:
    return "" if step.probability is None else f"{step.probability:.3f}"


def shade(strength: float) -> str:
    """The character of a shade for a number from 0 to 1, darker for greater ones."""
    return SHADES[min(max(int(strength * len(SHADES)), 0), len(SHADES) - 1)]


def _shaded(strength: float) -> str:
    return f"{strength:.2f} {shade(strength) * 2}".rstrip()


class HeatRow(NamedTuple):
    """A row of a heat map: a quantity over time, as shades from 0 to 1."""

    group: str
    label: str
    shades: list[float]


def heat_map_rows(trace: Trace, config: RunConfig) -> list[HeatRow]:
    """The rows of the heat map of a trace, from top to bottom."""
    least = -1.0 if config.model.value_nonlinearity == "tanh" else 0.0
    steps = trace.steps
    rows = [
        HeatRow("strengths", name, shades)
        for name in steps[0].signals
        if (shades := [step.signals[name] for step in steps])
        and (len(steps[0].signals) <= MAX_SHOWN or max(shades) >= VISIBLE)
    ]
    # What a machine pushes is no vector, but the number of a stack symbol.
    for end, vector in () if steps[0].rule or steps[0].stuck else steps[0].pushed.items():
        for index in range(len(vector) if len(vector) <= MAX_SHOWN else 0):
            shades = [(step.pushed[end][index] - least) / (1 - least) for step in steps]
            rows.append(HeatRow(f"pushed {end}", _component(vector, index), shades))
    for end in steps[0].reads:
        reads = [
            {(part.step, part.symbol): part.weight for part in step.reads[end]} for step in steps
        ]
        rows += _rows(f"read {end}", reads, lambda key: f"{key[1]}@{key[0]}")
    for name, cells in steps[0].tops.items():
        for index in range(len(cells[0])):
            shades = [(step.tops[name][0][index] + 1) / 2 for step in steps]
            rows.append(HeatRow(f"read {name}", _component(cells[0], index), shades))
    rows += _rows("input", [_input_shares(step) for step in steps], str)
    return rows + _rows("output", [step.likely for step in steps], str)


def _component(vector: Sequence[float], index: int) -> str:
    """The label of a component, by its index from 0; empty if it is the only one."""
    return f"component {index + 1}" if len(vector) > 1 else ""


def _rows(
    group: str, shares: Sequence[Mapping[Any, float]], label: Callable[[Any], str]
) -> list[HeatRow]:
    """A row for each key with a visible share at some step, in order."""
    keys = sorted({key for step in shares for key in step if step[key] >= VISIBLE})
    return [
        HeatRow(group, visible(label(key)), [step.get(key, 0.0) for step in shares]) for key in keys
    ]


def _input_shares(step: TraceStep) -> Mapping[str, float]:
    if step.input_read is None:
        return {step.input: 1.0}
    shares: dict[str, float] = defaultdict(float)
    for part in step.input_read:
        shares[part.symbol] += part.weight
    return shares


def heat_map_view(trace: Trace, config: RunConfig, width: int) -> RenderableType:
    """The heat map of a trace, and the answer."""
    lines = heat_map(heat_map_rows(trace, config), width)
    return Group(heading(trace.model), *lines, remark(verdict(trace)))


def heat_map(rows: Sequence[HeatRow], width: int) -> Iterator[Text]:
    """The lines of a heat map; steps that do not fit follow below."""
    labels = [f"{row.group} {row.label}".rstrip() for row in rows]
    margin = max(map(cell_len, labels)) + 1
    fitting = max((width - margin) // CELL, 1)
    count = len(rows[0].shades)
    for first in range(0, count, fitting):
        last = min(first + fitting, count)
        yield Text(f"{'step':<{margin}}" + _ruler(first, last), style="bold")
        for _, members in groupby(zip(rows, labels, strict=True), lambda each: each[0].group):
            for row, label in members:
                cells = "".join(shade(strength) * CELL for strength in row.shades[first:last])
                yield Text(set_cell_size(label, margin) + cells)
            yield Text("")


def _ruler(first: int, last: int) -> str:
    """A ruler with the number, from 1, of the first and of each fifth step."""
    ruler = ""
    for step in range(first, last):
        mark = str(step + 1) if step == first or (step + 1) % 5 == 0 else ""
        room = CELL * (step - first)
        if mark and len(ruler) <= room:
            ruler = ruler.ljust(room) + mark
    return ruler
