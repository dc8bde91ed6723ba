"""Pairs of a task as users write them, to evaluate on: in a file, or as strings."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

from stacktrans.common.errors import StacktransError
from stacktrans.common.messages import print_message
from stacktrans.common.reading import check_length
from stacktrans.common.visible import counted
from stacktrans.tasks.alphabets import UnknownSymbol
from stacktrans.tasks.base import Task
from stacktrans.tasks.layout import Pair
from stacktrans.tasks.lines import RawLines, labeled_file, read_numbered, read_pair_content
from stacktrans.tasks.pair_files import PairFiles, columns_of
from stacktrans.tasks.pairs import Pairs


def read_pairs(path: Path, task: Task) -> list[Pair]:
    """Read pairs in the formats of `format_pair`, from a file or standard input; see `RawLines`.

    A header line that names the columns is not a pair unless the task was given its columns. It is
    reported on stderr, as are columns that seem to be in another order than those of the task.

    Raises:
        UsageError: the file can't be read.
        StacktransError: a line is not a pair.
    """
    path = labeled_file(path)
    lines = RawLines.of(path, read_pair_content(path))
    request = task.request if isinstance(task, Pairs) else PairFiles(str(path))
    if lines.header:
        print_message(lines.header_note(is_pair=not request.header))
    if not request.header:
        lines = lines._replace(header=None)
    there = lines.header or columns_of(lines, request, task.columns)
    if not lines.header and there != task.columns:
        print_message(lines.order_note(there))
    rows = lines.fields(task.columns, there)
    return [pair for _, pair in read_numbered(f"{lines.name}:", rows, partial(_pair, task))]


def pairs_of_strings(pairs: Iterable[Sequence[str] | Mapping[str, str]], task: Task) -> list[Pair]:
    """Read pairs of written strings, perhaps by the names of columns.

    Raises:
        StacktransError: one is not a pair of the task.
    """
    rows = enumerate(pairs, start=1)
    return [pair for _, pair in read_numbered("pair ", rows, partial(_pair, task))]


def _pair(task: Task, fields: Sequence[str] | Mapping[str, str]) -> Pair:
    """The pair of fields of the task's columns, whose symbols may be unknown."""
    if isinstance(fields, Mapping):
        fields = [fields[column] for column in task.columns if column in fields]
    if len(fields) != len(task.columns):
        expected = ", ".join(task.columns)
        raise StacktransError(f"expected {expected}; found {counted(len(fields), 'string')}")
    by_column = dict(zip(task.columns, fields, strict=True))
    target = task.target.split(by_column.pop("target"))
    source = task.source.split("\t".join(by_column.values()))
    check_length(len(source))
    check_length(len(target))
    if task.positive is not None and len(target) != 1:
        raise StacktransError(f"a target of {counted(len(target), 'symbol')}; expected a label")
    if task.same_length and len(source) != len(target):
        raise StacktransError(
            f"the source has {counted(len(source), 'symbol')} and the target {len(target)}; "
            "expected as many"
        )
    try:
        pair = task.pair(task.encode_source(source), task.target.encode(target))
    except UnknownSymbol:
        ids = task.source.encode_leniently(source), task.target.encode_leniently(target)
        pair = task.pair(*ids)._replace(in_vocabulary=False)
    return pair._replace(written=tuple(fields))
