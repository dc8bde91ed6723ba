"""What the figures of a sweep's table are, in words."""

from stacktrans.sweeps.file import Measure, SweepFile

ACCURACIES = {
    "coarse": "coarse accuracy",
    "fine": "fine accuracy",
    "symbols": "symbol accuracy",
    "lengths": "share of the lengths at which every string is right",
    "perplexity": "perplexity",
}
SAME_STRINGS = {
    "development accuracy": "development",
    "test accuracy": "test",
    "validation perplexity": "valid",
}
"""The strings that a winner is chosen by."""


def figure_kind(file: SweepFile) -> str:
    """What stands for the runs of a cell, in a word or two."""
    return "best run" if file.choose and "seed" in file.choose.among else "median"


def caption(file: SweepFile, name: str) -> str:
    """What a measure is, which figure stands for the runs of a cell, and what marks mean."""
    measure = file.measures[name]
    unit = ", in per cent" if file.percent else ""
    parts = [f"{name}: {ACCURACIES[measure.of]} on {_strings(measure)}{unit}; {_figure(file)}"]
    if file.choose and measure.strings == SAME_STRINGS.get(file.choose.by):
        parts.append("it was chosen by these very strings, and so is better on them than on others")
    if any(part.measure == name and part.values for part in file.published):
        parts.append(
            f"published → measured; ▲ and ▼ are more than {file.tolerance:g} over or under"
        )
    return "; ".join(parts) + "."


def _figure(file: SweepFile) -> str:
    if file.choose is None:
        return "the median of the runs"
    along = ", ".join(file.choose.among)
    if "seed" in file.choose.among:
        return f"the run with the best {file.choose.by}, among {along}"
    return f"the median of the runs with the best {file.choose.by}, among {along}"


def _strings(measure: Measure) -> str:
    """Which strings are measured on."""
    if measure.of == "perplexity":
        return f"the {'validation' if measure.strings == 'valid' else 'test'} text"
    if measure.strings:
        kind = "training" if measure.strings == "train" else measure.strings
        return f"each run's own {kind} strings"
    place = f"lengths {measure.lengths}" if measure.lengths else "the test lengths"
    if measure.depth:
        place = f"derivations to depth {measure.depth}"
        place += f" and lengths {measure.lengths}" if measure.lengths else ""
    each = "each of " if measure.each else ""
    return f"{measure.count} strings of {each}{place}{', without degrees' if measure.hard else ''}"
