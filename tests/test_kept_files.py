"""Commands replace no file that they read, or that they did not write; and names of any kind."""

import itertools
import shutil
from pathlib import Path

import pytest
from command_line import TRAIN, run, shell

from stacktrans.settings.locations import shipped

STRINGS = ["".join(each) for size in range(1, 6) for each in itertools.product("ab", repeat=size)]


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{string}\t{string[::-1]}\n" for string in STRINGS))
    return path


@pytest.fixture
def labeled(tmp_path: Path) -> Path:
    """A directory with strings and their labels."""
    (directory := tmp_path / "labeled").mkdir()
    (directory / "main.tok").write_text("".join(f"{' '.join(each)}\n" for each in STRINGS))
    (directory / "labels.txt").write_text("".join(f"{len(each) % 2}\n" for each in STRINGS))
    return directory


def test_predictions_do_not_replace_the_pairs_they_are_about(
    tmp_path: Path, pairs: Path, labeled: Path
) -> None:
    model = tmp_path / "run"
    small = ("--recipe", "feedforward", "--max-steps", "1", "--set", "memory.size=4")
    assert run("train", "--data", pairs, *small, "--out", model).returncode == 0
    (tmp_path / "link.tsv").symlink_to(pairs)
    for data, predictions in [
        (pairs, pairs),
        (None, tmp_path / "link.tsv"),
        (labeled, labeled / "main.tok"),
        (labeled / "main.tok", labeled / "labels.txt"),
    ]:
        before = predictions.read_bytes()
        given = ("--data", data) if data else ()
        refused = run("eval", model, *given, "--predictions", predictions)
        assert (refused.returncode, refused.out) == (2, "")
        assert f"{predictions}: would replace a file that is read" in refused.err
        assert predictions.read_bytes() == before
    piped = shell(f"stacktrans eval {model} --data - --predictions {pairs} < {pairs}", tmp_path)
    assert piped.returncode == 2
    assert b"would replace a file that is read" in piped.stderr


def test_generated_pairs_do_not_replace_their_task(tmp_path: Path, pairs: Path) -> None:
    task = tmp_path / "mine.yaml"
    task.write_text("name: mine\ngenerator: pairs\nparameters: {train: pairs.tsv}\n")
    for out in (task, pairs):
        before = out.read_bytes()
        refused = run("generate", "--task", task, "--out", out)
        assert refused.returncode == 2
        assert f"{out}: would replace a file that is read" in refused.err
        assert out.read_bytes() == before
    assert run("generate", "--task", task, "--out", tmp_path / "drawn.tsv").returncode == 0
    plugin = tmp_path / "mine.py"
    copy = "from stacktrans.tasks.computed import Copy"
    plugin.write_text(f"{copy}\n\n\nclass Mine(Copy):\n    name = 'mine'\n")
    refused = run("generate", "--plugin", plugin, "--task", "copy", "--out", plugin)
    assert f"{plugin}: would replace a file that is read" in refused.err


def test_a_comparison_does_not_replace_the_task_it_is_given(tmp_path: Path) -> None:
    (folder := tmp_path / "turned").mkdir()
    task = folder / "turned.yaml"
    shutil.copy(shipped("tasks") / "reverse.yaml", task)
    before = task.read_bytes()
    small = ("--max-steps", "1", "--seeds", "1", "--task", str(task))
    refused = run("compare", "stack", "queue", *small, "--out", ".", cwd=folder)
    assert refused.returncode == 2
    assert "turned.yaml: not written by compare; choose another directory" in refused.err
    assert task.read_bytes() == before
    assert [*folder.iterdir()] == [task]


def test_a_machine_is_written_to_different_files(tmp_path: Path) -> None:
    out = tmp_path / "file"
    table = tmp_path / "file.isyms"
    for files in [("--dot", out, "--python", out), ("--fst", out, "--dot", table)]:
        refused = run("extract", "xor-buffered", *files)
        assert (refused.returncode, refused.out) == (2, "")
        assert "given for two files that are written" in refused.err
    assert not [*tmp_path.iterdir()]
    (tmp_path / "file.osyms").mkdir()
    refused = run("extract", "xor-buffered", "--fst", out)
    assert "file.osyms: Is a directory; expected a file" in refused.err


def test_nothing_replaces_the_model_that_is_read(tmp_path: Path) -> None:
    shutil.copytree(shipped("checkpoints") / "xor-buffered", tmp_path / "model")
    (weights,) = tmp_path.rglob("*.safetensors")
    before = weights.read_bytes()
    for command in (("extract", "--dot", weights), ("eval", "--predictions", weights)):
        refused = run(command[0], tmp_path / "model", *command[1:])
        assert (refused.returncode, refused.out) == (2, "")
        assert f"{weights}: would replace a file that is read" in refused.err
    assert weights.read_bytes() == before


def test_files_may_have_the_longest_names(tmp_path: Path) -> None:
    for name in (f"{'a' * 251}.tsv", f"{'木' * 83}.tsv"):
        done = run("generate", "--task", "copy", "--count", "2", "--out", tmp_path / name)
        assert done.returncode == 0, done.err
        assert len((tmp_path / name).read_text().splitlines()) == 2


def test_a_loop_of_links_is_no_reason_to_crash(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for code, command in [
        (2, ["train", "--task", "copy", "--plugin", str(loop)]),
        (1, ["compare", "stack", "queue", "--task", "copy", "--out", str(loop)]),
        (2, ["plot", str(loop)]),
    ]:
        done = run(*command)
        assert done.returncode == code
        assert str(loop) in done.err
    assert run("generate", "--task", "copy", "--out", loop).returncode == 0
    assert loop.is_file()


def test_a_dangling_link_in_place_of_the_checkpoints_is_reported(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").symlink_to(tmp_path / "unmounted")
    done = run(*TRAIN, "--task", "copy", "--memory", "queue", "--max-steps", "1", cwd=tmp_path)
    assert done.returncode == 1
    assert "checkpoints" in done.err
