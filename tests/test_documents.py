"""YAML and JSON that is hostile or odd is refused, with the line."""

import os
from pathlib import Path

import pytest
from changed_checkpoints import reseal
from command_line import invoke

from stacktrans.common.documents import MAX_DEPTH, MAX_VALUES, DocumentError, parse_yaml
from stacktrans.common.errors import UsageError
from stacktrans.common.reading import MAX_BYTES, check_readable, parse_json, read_bytes, read_text
from stacktrans.settings.config import RunConfig
from stacktrans.settings.layers import option_layer, read_layer
from stacktrans.settings.resolve import resolve

LIST = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
MERGED = "a0: &a0 {a: 1, b: 1, c: 1, d: 1, e: 1, f: 1, g: 1, h: 1, i: 1, j: 1}\n"


def of_aliases(first: str, each: str, levels: int) -> str:
    repeated = (", ".join([f"*a{n}"] * 10) for n in range(levels))
    lines = (f"a{n}: &a{n} {each.format(own)}\n" for n, own in enumerate(repeated, start=1))
    return first + "".join(lines)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (of_aliases(LIST, "[{}]", 9), f":5: more than {MAX_VALUES} values"),
        (of_aliases(MERGED, "{{<<: [{}]}}", 9), f":5: more than {MAX_VALUES} values"),
        ("- 1\n" * (2 * MAX_VALUES), f"more than {MAX_VALUES} values"),
        ("a: &a [*a]", ":1: an alias (*) is used within its own definition"),
        ("a: &a {b: {<<: *a}}", ":1: an alias (*) is used within its own definition"),
        ("x: " + "[" * 100_000, f":1: nested more than {MAX_DEPTH} deep"),
        ("- " * 100_000, f":1: nested more than {MAX_DEPTH} deep"),
        (
            "".join(f"a{n}: &a{n} [{f'*a{n - 1}' if n else ''}]\n" for n in range(100)),
            f":{MAX_DEPTH}: nested more than {MAX_DEPTH} deep",
        ),
        ("x: " + "9" * 100_000, ":1: a whole number of 100000 digits"),
        ("x: 0x" + "f" * 100_000, ":1: a whole number of 100002 digits"),
        ("x: 0x_", ":1: '0x_' is not a number"),
        ("a: 0\nx: 010", ":2: '010' begins with 0, which YAML reads as octal"),
        ("x: -0_7", ":1: '-0_7' begins with 0"),
        ("x: !!int 1" + ":59" * 20, ":1: !!int cannot be used in settings"),
        ("a: 1\nx: !!bool maybe", ":2: !!bool cannot be used in settings"),
        ("x: !!binary aGk=", ":1: !!binary cannot be used in settings"),
        ("x: !!set {a}", ":1: !!set cannot be used in settings"),
        ("x: !!omap [a: 1]", ":1: !!omap cannot be used in settings"),
        ("x: !!python/name:os.system", "cannot be used in settings"),
        ("{[1]: 2}", ":1: a list or mapping as a key"),
        ("? {a: b}\n: c", ":1: a list or mapping as a key"),
        ("a: 1\n2: 3", ":2: '2' is read as a whole number; expected a name in quotes"),
        ("on: 3", ":1: 'on' is read as a truth value"),
        ("~: 3", ":1: '~' is read as a null"),
        ("a: 1\nb: c\0d", ":2: the character U+0000"),
        ("a: 1\nb: '\x1b[31m'", ":2: the character U+001B"),
        ("--- a\n--- b", "another document"),
    ],
)
def test_invalid_documents_are_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "odd.yaml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        read_layer(path)
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"{path}:")
    assert len(str(caught.value)) < 500


UNFOLDING = "a0: &a0 [x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10)
)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("train --config odd.yaml", 2),
        ("train --recipe default --task ./odd.yaml --memory queue", 2),
        ("generate --task ./odd.yaml", 2),
        ("sweep odd.yaml", 2),
        ("eval run", 2),
        ("inspect run a", 2),
        ("list tasks", 1),
        ("list checkpoints", 1),
    ],
)
def test_every_command_refuses_a_document_that_unfolds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, code: int
) -> None:
    monkeypatch.chdir(tmp_path)
    for path in ("odd.yaml", "tasks/odd.yaml", "run/config.yaml", "checkpoints/run/config.yaml"):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(UNFOLDING)
    for run in (Path("run"), Path("checkpoints/run")):
        (run / "model.safetensors").touch()
        reseal(run)
    done = invoke(*command.split())
    assert done.returncode == code
    assert "more than 100000 values" in done.err


def test_times_and_dates_are_text() -> None:
    text = "a: 1:59:59\nb: 2012-12-21\nc: =\nd: [8:32]\ne: 1:20.5"
    expected = {"a": "1:59:59", "b": "2012-12-21", "c": "=", "d": ["8:32"], "e": "1:20.5"}
    assert parse_yaml(text)[0] == expected


def test_aliases_and_merge_keys_are_accepted() -> None:
    text = "a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\nc: [*a, *a]"
    both = {"x": 1, "y": 2}
    assert parse_yaml(text)[0] == {"a": both, "b": {"x": 1, "y": 3}, "c": [both, both]}
    deeper = "a: &a {x: 1}\nb: &b {<<: *a, x: 2}\nc: {d: {e: *b}}\nf: *b"
    assert parse_yaml(deeper)[0]["c"] == {"d": {"e": {"x": 2}}}
    with pytest.raises(DocumentError, match="'x' appears twice"):
        parse_yaml("a: &a {x: 1}\nb: {<<: *a, x: 2, x: 3}")


@pytest.mark.parametrize("value", ["!!bool maybe", "&a [*a]", "[" * 90, "9" * 200, "{1: 2}"])
def test_an_option_s_value_is_read_within_the_same_bounds(value: str) -> None:
    with pytest.raises(UsageError, match="the value is not readable as YAML"):
        option_layer(f"learning_rate={value}", RunConfig)
    with pytest.raises(UsageError, match=f"nested more than {MAX_DEPTH} deep"):
        option_layer(f"task.parameters{'.x' * 5000}=1", RunConfig)


def test_wrong_values_are_abridged() -> None:
    with pytest.raises(UsageError) as caught:
        resolve(task="copy", settings={"model": {"memory": "queue", "layers": "x" * 10**6}})
    assert len(str(caught.value)) < 400


def test_only_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "circle").symlink_to("circle")
    names = {
        "pipe": "a named pipe; expected a file",
        "circle": "Too many levels of symbolic links",
        "absent": "No such file or directory",
        "": "Is a directory",
        "x" * 5000: "File name too long",
        "/dev/zero": "a device; expected a file",
    }
    for name, message in names.items():
        for read in (check_readable, read_bytes, read_text, read_layer):
            with pytest.raises(UsageError, match=message):
                read(tmp_path / name)
    with pytest.raises(UsageError, match="not a file name"):
        read_bytes("a\0b")
    with (tmp_path / "large").open("wb") as large:
        large.truncate(MAX_BYTES + 1)
    with pytest.raises(UsageError, match="large: more than 16 MiB"):
        read_layer(tmp_path / "large")


def test_a_pipe_that_is_open_already_is_read() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"a: 1\n")
    os.close(writing)
    assert read_layer(f"/dev/fd/{reading}").settings == {"a": 1}
    os.close(reading)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "9" * 5000, "{", b"\xff"])
def test_json_that_can_not_be_read_is_a_value_error(text: str | bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_json(text)


def test_a_document_error_knows_its_line() -> None:
    with pytest.raises(DocumentError) as caught:
        parse_yaml("a: 1\nb: 1: 2")
    assert caught.value.line == 2
