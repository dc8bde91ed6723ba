"""Wrong answers: examples grouped by their edits, and tables of the edits of all of them."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

from rich.console import RenderableType

from stacktrans.common.visible import visible_symbol
from stacktrans.inference.edits import KINDS, THIRDS, Edit
from stacktrans.inference.predictions import Prediction
from stacktrans.inference.scores import symbol_error_rate
from stacktrans.showing.scores import ACCURACIES, Results, prediction_json, predictions_of
from stacktrans.showing.tables import GAP, Column, Table, remark, table_of
from stacktrans.tasks.alphabets import Alphabet
from stacktrans.tasks.base import Task
from stacktrans.tasks.pair_alphabets import Feature

CONTEXT = 20
"""Symbols of a long string that are shown before and after the first wrong one."""
MAX_LISTED = 12
"""The most edits of a kind, and the most features, that are shown."""
NONE = "∅"
"""What stands for no symbol in an insertion or a deletion."""

STRINGS = Column("target", left=True), Column("answer", left=True)


def confusions_json(results: Results, task: Task) -> dict[str, Any]:
    """Counts of each kind of edits, in all and by symbols, and error rates by feature.

    The most frequent symbols come first, and the features with the most edits. Sources without an
    answer are left out.
    """
    edits, by_feature = list[Edit](), defaultdict[str, list[Prediction]](list)
    for prediction in predictions_of(results):
        if prediction.pair.in_vocabulary and prediction.ended is not None:
            edits += prediction.alignment
            for symbol in {*task.source.decode(prediction.pair.source)}:
                if isinstance(symbol, Feature):
                    by_feature[str(symbol)].append(prediction)
    features = [_of_feature(feature, found) for feature, found in sorted(by_feature.items())]
    features.sort(key=itemgetter("edits"), reverse=True)
    kinds = {kind: _of_kind(kind, edits) for kind in KINDS.values()}
    return {**kinds, **({"features": features} if features else {})}


def _of_feature(feature: str, found: Sequence[Prediction]) -> dict[str, Any]:
    """The measures of the answers to sources with a feature."""
    count, right = len(found), sum(each.right for each in found)
    edits, rate = sum(each.edits for each in found), symbol_error_rate(found)
    measures = {"count": count, "coarse": right / count, "edits": edits, "symbol_error_rate": rate}
    return {"feature": feature, **measures}


def _of_kind(kind: str, edits: Sequence[Edit]) -> dict[str, Any]:
    """The counts of edits of a kind, in all and by symbols."""
    of_kind = [edit for edit in edits if edit.kind == kind]
    by_symbols = defaultdict[tuple[str, ...], list[Edit]](list)
    for edit in of_kind:
        by_symbols[edit[:2]].append(edit)
    ordered = sorted(by_symbols.items(), key=lambda item: len(item[1]), reverse=True)
    symbols = [{**_symbols(pair), **_counts(group)} for pair, group in ordered]
    return {**_counts(of_kind), "symbols": symbols}


def _symbols(pair: tuple[str, ...]) -> dict[str, str]:
    """The symbols of a target and an answer, without one that is missing."""
    return {name: each for name, each in zip(("target", "answer"), pair, strict=True) if each}


def _counts(edits: Sequence[Edit]) -> dict[str, int]:
    """The number of edits, and those in each third of the target."""
    thirds = {third: sum(edit.third == third for edit in edits) for third in THIRDS}
    return {"count": len(edits), **thirds}


def confusions_tables(confusions: Mapping[str, Any]) -> Iterator[RenderableType]:
    """The most frequent edits of each kind, and the features with the most edits."""
    thirds = (Column(third, "third of the target", drop=1) for third in THIRDS)
    rows, features = list[list[object]](), confusions.get("features", [])
    for kind in KINDS.values():
        symbols = confusions[kind]["symbols"][:MAX_LISTED]
        for first, row in [(kind, confusions[kind]), *(("", row) for row in symbols)]:
            rows.append([first, *_visible(row), *(row[name] for name in ("count", *THIRDS))])
    yield Table("edits", *STRINGS, "count", *thirds, rows=rows)
    if features:
        names = Column("feature"), Column("count")
        rate = Column("error rate", form="{symbol_error_rate:.4f}")
        yield table_of(features[:MAX_LISTED], *names, ACCURACIES[0], rate)
    lists = [features, *(confusions[kind]["symbols"] for kind in KINDS.values())]
    if max(map(len, lists)) > MAX_LISTED:
        yield remark(f"of each kind, only the first {MAX_LISTED} are shown")


def _visible(symbols: Mapping[str, Any]) -> Iterator[str]:
    """The symbol of the target and that of the answer."""
    return (visible_symbol(symbols.get(name, "")) for name in ("target", "answer"))


def errors_json(results: Results, count: int) -> list[dict[str, Any]]:
    """Wrong answers, each with its distinct edits and the number of answers with the same ones.

    Those with the most frequent edits come first. Of more than `count` wrong answers, the first of
    each group are chosen, then the second of each, and so on.
    """
    by_edits = defaultdict[frozenset[tuple[str, ...]], list[Prediction]](list)
    for prediction in predictions_of(results):
        if not prediction.right:
            by_edits[frozenset(edit[:2] for edit in prediction.alignment)].append(prediction)
    groups = sorted(by_edits.values(), key=len, reverse=True)
    members = ((rank, number) for number, group in enumerate(groups) for rank in range(len(group)))
    chosen = sorted((number, rank) for rank, number in sorted(members)[:count])
    return [
        {
            **prediction_json(found := groups[number][rank]),
            "edits": [*map(_symbols, dict.fromkeys(edit[:2] for edit in found.alignment))],
            "count": len(groups[number]),
        }
        for number, rank in chosen
    ]


def errors_table(
    entries: Sequence[Mapping[str, Any]], results: Results, task: Task
) -> Iterator[RenderableType]:
    """Wrong answers, from `errors_json`, beside their targets, and the number of all of them.

    Long strings are abridged: targets and answers around the first wrong symbol, sources after
    their beginning.
    """
    right = [prediction.right for prediction in predictions_of(results)]
    rows = []
    for entry in entries:
        first, source = entry["first_wrong"], _excerpt(task.source, entry["source"], 0)
        source = source.replace("\t", GAP)  # between features and string
        strings = (_excerpt(task.target, entry[name], first - 1) for name in ("target", "answer"))
        changes = ", ".join(
            "→".join(each or NONE for each in _visible(edit)) for edit in entry["edits"]
        )
        rows.append([source, *strings, first, changes, entry["count"]])
    edits = Column("edits", left=True, drop=1, fold=", ")
    columns = "source", *STRINGS, "first wrong", edits, Column("count", drop=2)
    wrong = right.count(False)
    yield from [Table(*columns, rows=rows)] if entries else []
    more = f"; {len(entries)} shown" if len(entries) < wrong else ""
    yield remark(f"wrong answers: {wrong:,} of {len(right):,}{more}")
    yield from [remark("count: the wrong answers with the same edits")] if entries else []


def _excerpt(alphabet: Alphabet, text: str, position: int) -> str:
    """A string; of a long one, the part around a position."""
    symbols = alphabet.split(text)
    if len(symbols) <= 2 * CONTEXT:
        return text
    first = max(0, min(position - CONTEXT, len(symbols) - 2 * CONTEXT))
    last = first + 2 * CONTEXT
    before, after = "..." * (first > 0), "..." * (last < len(symbols))
    return before + alphabet.join(symbols[first:last]) + after
