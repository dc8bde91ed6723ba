"""Inputs that are too large, too deep or of a wrong type are refused; long ones are read."""

import hashlib
import itertools
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from command_line import invoke
from shipped_tasks import task_of

from stacktrans.common.errors import StacktransError, UsageError
from stacktrans.common.reading import BYTES_AT_ONCE, LONGEST_LINE, line_groups
from stacktrans.grammar import Grammar, GrammarError
from stacktrans.settings.resolve import resolve
from stacktrans.settings.task_files import load_task
from stacktrans.tasks import TaskError, make_task
from stacktrans.tasks.base import NotASource
from stacktrans.tasks.lengths import DepthLimit, Lengths, NoSuchLaw, NoSuchLength
from stacktrans.tasks.written_pairs import read_pairs

Rule = dict[str, Any]


def rule(probability: Any, source: str, **more: Any) -> Rule:
    return {"probability": probability, "source": source, **more}


def grammar(rules: dict[str, list[Rule]], root: str = "S") -> Grammar:
    return Grammar(root=root, rules=rules)


def chain(count: int, *rules: Callable[[int], Rule]) -> dict[str, list[Rule]]:
    links = {f"A{n}": [each(n) for each in rules] for n in range(count)}
    return {**links, f"A{count}": [rule(1, "w")]}


DRAWN_BY_DEPTH = {
    ("parenthesis", 6): "4cea838eeb25",
    ("parenthesis", 12): "5cad98f22316",
    ("agreement", 7): "16af0718431d",
    ("agreement", 16): "62db9fcc843f",
    ("agreement", 32): "fe160b2aaefc",
    ("formula", 6): "caf5817d41d4",
    ("formula", 7): "5aa127302590",
    ("svo-sov", 6): "d3da39ff5477",
    ("gender", 8): "279a0f5c525a",
}
"""Digests of strings that recorded results were measured on."""


@pytest.mark.parametrize(("name", "depth"), DRAWN_BY_DEPTH)
def test_strings_drawn_by_depth_stay_the_same(name: str, depth: int) -> None:
    task, law, digest = task_of(name), DepthLimit(depth), hashlib.sha256()
    for seed, lengths in itertools.product(range(5), (task.lengths_within(law), Lengths(2, 20))):
        for pair in task.sample(np.random.default_rng(seed), lengths, 10, law):
            digest.update(pair.source.tobytes() + b"|" + pair.target.tobytes())
    assert digest.hexdigest()[:12] == DRAWN_BY_DEPTH[name, depth]


def test_deep_derivations_are_drawn_within_lengths_or_refused() -> None:
    task, law = task_of("svo-sov"), DepthLimit(16)
    everything = task.lengths_within(law)
    assert everything == Lengths(3, 24_573)
    with pytest.raises(NoSuchLaw, match=r"up to 24573 source words.*expected lengths up to 512"):
        task.sample(np.random.default_rng(1), everything, 1, law)
    pairs = task.sample(np.random.default_rng(1), Lengths(8, 64), 10, law)
    assert all(8 <= len(pair.source) <= 64 for pair in pairs)
    with pytest.raises(NoSuchLaw, match="expected one from 1 to 10000"):
        task.lengths_within(DepthLimit(10**9))
    with pytest.raises(NoSuchLaw, match="1000000 or more"):
        task.sample(np.random.default_rng(1), Lengths(8, 10**6), 1, DepthLimit(10_000))


def test_a_limit_on_lengths_does_not_change_the_counts_of_derivations() -> None:
    small = grammar({"S": [rule("1/2", "S:1 S:2"), rule("1/4", "a"), rule("1/4", "b c")]})
    whole, part = small.derivations(6).counts(99), small.derivations(16).counts(8)
    assert {length: part[length] for length in range(1, 6)} == {
        length: small.derivations(9).counts(99)[length] for length in range(1, 6)
    }
    assert max(whole) == 32
    assert max(part) == 8


def test_a_long_chain_of_nonterminals_is_followed() -> None:
    units = grammar(chain(2000, lambda n: rule(1, f"A{n + 1}:1")), "A0")
    assert units.translate(["w"]) == ["w"]
    assert units.derivations(2001).bounds is None
    assert dict(units.derivations(2002).counts(9)) == {1: 1}
    longer = chain(1000, lambda n: rule(0.5, f"A{n + 1}:1 x{n}"), lambda n: rule(0.5, f"y{n}"))
    made = grammar(longer, "A0")
    assert made.sample(np.random.default_rng(1), 3)[0] == ["y2", "x1", "x0"]
    with pytest.raises(ValueError, match="no sentence of the grammar begins 'y9 x9'"):
        made.translate(["y9", "x9"])
    with pytest.raises(GrammarError, match=r"from A0, A1, A2, \.\.\., A.* ever ends"):
        grammar(
            chain(2000, lambda n: rule(1, f"A{n + 1}:1 x")) | {"A2000": [rule(1, "A0:1 x")]}, "A0"
        )


def test_units_that_multiply_are_refused() -> None:
    twice = chain(60, *[lambda n: rule(0.5, f"A{n + 1}:1")] * 2)
    with pytest.raises(GrammarError, match="unit productions that lead to one another stand for"):
        grammar(twice, "A0")


def test_a_grammar_rule_with_many_words_can_be_sampled() -> None:
    words = [f"w{n}" for n in range(5000)]
    made = grammar({"S": [rule(0.5, " ".join(words)), rule(0.5, "a")]})
    assert made.sample(np.random.default_rng(1), 1)[0] == ["a"]
    with pytest.raises(GrammarError, match="too long to be drawn from this grammar; expected at"):
        made.sample(np.random.default_rng(1), 5000)
    middling = grammar({"S": [rule(0.5, " ".join(words[:100])), rule(0.5, "a")]})
    assert middling.sample(np.random.default_rng(1), 100)[0] == words[:100]


def test_the_words_of_a_grammar_are_limited() -> None:
    many = {"k": [1, 100_000]}
    with pytest.raises(GrammarError, match="alternative 1: more than 500000 words"):
        grammar({"S": [rule(1, "w{k} " * 1000, each=many)]})


@pytest.mark.parametrize(
    "written",
    ["1e-999999999", "1e999999999", "1/0", "nan", "9" * 5000, "1/" + "9" * 5000, "1e-400", 10**400],
)
def test_invalid_probabilities_are_refused(written: Any) -> None:
    with pytest.raises(GrammarError, match="expected a number or fraction above 0, at most 1"):
        grammar({"S": [rule(written, "a")]})


def test_sentences_that_are_too_long_to_draw_or_to_parse_are_refused() -> None:
    task = task_of("svo-sov")
    with pytest.raises(NoSuchLaw, match="1000000 words are too long to be drawn"):
        task.sample(np.random.default_rng(1), Lengths(8, 10**6), 1, "uniform")
    with pytest.raises(NotASource, match="3000 words are too many to parse"):
        task.answer(["si1"] * 3000)
    rules = {"S": [{"source": "a S:1", "target": "b S:1"}, {"source": "a", "target": "b"}]}
    members = make_task("as", "membership", {"root": "S", "rules": rules})
    with pytest.raises(NotASource, match="too many to parse"):
        members.answer(["a"] * 30_000)
    pairs = task_of("parenthesis").sample(
        np.random.default_rng(1), Lengths(2999, 3000), 1, "uniform"
    )
    assert len(pairs[0].source) == 2999  # however improbable


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("a^n b^0n", "'b.0n' has 0 as a number; expected 1 or more"),
        ("a^n b^(n+0)", "has 0 as a number"),
        ("a^n b^" + "n" * 2000, "expected one like 'a.n' or 'c.*', of at most 100 characters"),
        ("a^n b^" + "9" * 5000, "of at most 100 characters"),
        (["a"], "pattern is .'a'."),
    ],
)
def test_invalid_patterns_are_refused(pattern: Any, message: str) -> None:
    with pytest.raises(TaskError, match=message):
        make_task("odd", "counting", {"pattern": pattern})


def test_sequences_that_are_too_long_are_refused() -> None:
    task = make_task("long", "counting", {"pattern": "a^n b^" + "n" * 90})
    with pytest.raises(NoSuchLength, match="more than 1000000 symbols where its counts are n = 9"):
        task.sample(np.random.default_rng(1), Lengths(9, 9), 1, "uniform")
    with pytest.raises(NotASource, match="more than 1000000 symbols"):
        task.answer([*"aaab"])


COPY = yaml.safe_load((Path(__file__).parent.parent / "tasks" / "copy.yaml").read_text())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"recipes": {"paper": {"model": 3}}}, "model: expected settings"),
        ({"recipes": {"paper": {"by_memory": [1]}}}, "by_memory: expected settings"),
        ({"recipes": {"paper": {"by_memory": {"queue": [1]}}}}, "queue: expected settings"),
        ({"recipes": {"paper": {"by_memory": {"queue": {"model": 3}}}}}, "model: expected setti"),
        ({"recipes": {"paper": [1]}}, "recipes.paper: "),
        ({"recipes": [1]}, "recipes: "),
        ({"recipes": {"paper": {"task": {"recipes": [1]}}}}, "recipes: "),
        ({"recipes": {"paper": {"training": 0}}}, "training: expected settings"),
        ({"recipes": {"paper": {"model": {"initialization": []}}}}, "model.initialization: "),
        ({"recipes": {"paper": {"training": {"restart": {"attempts": [3]}}}}}, "attempts.0: "),
        ({"length_law": {"mean": -5, "deviation": -1}}, "length_law"),
        ({"length_law": {"mean": 5, "deviation": 1, "depth": 3}}, "depth"),
        ({"length_law": {"depth": 10**9}}, "length_law"),
    ],
)
def test_invalid_tasks_are_refused_with_the_line(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    path = tmp_path / "odd.yaml"
    path.write_text(yaml.safe_dump({**COPY, **changes}))
    with pytest.raises(UsageError, match=rf"odd\.yaml:\d+: .*{message}"):
        resolve(task=str(path), recipe="paper", settings={"model": {"memory": "queue"}})


@pytest.mark.parametrize(
    "assignment",
    [
        "signal_bias={pop: -1e+308}",
        "gate_bias={forget: 3e-320}",
        "read_scale=1e+300",
        "learning_rate=3e-320",
        "weight_decay=1e+39",
        "batch_size=1000000000000",
        "measure.strings=1000000000000000",
        "max_steps=1e99",
        "examples={train: 1000000000000, development: 1, test: 1, epochs: 1}",
    ],
)
def test_numbers_that_no_run_can_have_are_refused(assignment: str) -> None:
    with pytest.raises(UsageError, match=assignment.partition("=")[0]):
        resolve(task="copy", settings={"model": {"memory": "queue"}}, assignments=[assignment])


def test_a_name_too_long_for_a_file_is_an_unknown_task() -> None:
    with pytest.raises(UsageError, match="unknown task 'xxx"):
        load_task("x" * 5000)


def test_many_and_very_long_lines_are_split_correctly(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"\n" * 300_000 + b"a" * 10**7 + b"\nb\n" + b"c" * (LONGEST_LINE + 10**6))
    with path.open("rb") as stream:
        pieces = [piece.raw for group in line_groups(stream.fileno(), "lines") for piece in group]
    assert len(pieces) == 300_003
    assert (len(pieces[-3]), pieces[-2]) == (10**7, b"b")
    assert LONGEST_LINE < len(pieces[-1]) <= LONGEST_LINE + (1 << 17)


def test_groups_of_long_lines_are_limited_in_size(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes((b"a" * 10_000 + b"\n") * 200)
    with path.open("rb") as stream:
        groups = [*line_groups(stream.fileno(), "lines")]
    sizes = [sum(len(piece.raw) for piece in group) for group in groups]
    assert sum(sizes) == 2_000_000
    assert max(sizes) < 2 * BYTES_AT_ONCE


def test_long_lines_of_pairs_are_refused_with_their_number(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_bytes(b"\n" * 300_000 + b"a" * 2_000_000 + b"\ta\n")
    with pytest.raises(StacktransError, match=r"pairs\.tsv:300001: a string of 2000000 symbols"):
        read_pairs(path, task_of("copy"))
    path.write_bytes(b"a\tb\n" + b"a" * (LONGEST_LINE + 1))
    with pytest.raises(StacktransError, match=rf"pairs\.tsv:2: more than {LONGEST_LINE} bytes"):
        read_pairs(path, task_of("copy"))


def test_generate_refuses_derivations_that_are_too_deep() -> None:
    done = invoke("generate", "--task", "svo-sov", "--depth", "16")
    assert done.returncode == 2
    assert "expected lengths up to 512, or less depth" in done.err


def test_lines_are_read_from_a_slow_nonblocking_pipe() -> None:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)

    def write() -> None:
        for part in (b"\xef", b"\xbb\xbf", b"ab", b"c\nd"):
            time.sleep(0.05)
            os.write(writing, part)
        os.close(writing)

    with ThreadPoolExecutor(1) as threads:
        done = threads.submit(write)
        pieces = [piece.raw for group in line_groups(reading, "pipe") for piece in group]
        done.result()
    assert pieces == [b"abc", b"d"]
    os.close(reading)


def test_a_directory_cannot_be_read_as_lines(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(StacktransError, match=r"^lines: Is a directory"):
        [*line_groups(descriptor, "lines")]
    os.close(descriptor)


@pytest.mark.parametrize("given", [["--lengths", "9" * 5000], ["--lengths", f"1:{'9' * 12}"]])
def test_immense_lengths_are_refused(given: list[str]) -> None:
    done = invoke("generate", "--task", "copy", *given)
    assert done.returncode == 2
    assert done.err.startswith("stacktrans: --lengths ")
    assert len(done.err) < 300
