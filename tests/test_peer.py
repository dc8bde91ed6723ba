"""The benchmark beside the C++ of joulin2015, with a script in its place."""

import importlib
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
TRAINS = r"""#!/bin/sh
echo "$@" >> "$0.options"
printf '\r [train] lr: 0.10000 it=      0 nmax:3  entropy: 0.602  goal: _a pred: _b '
printf '\r [train] lr: 0.10000 it=    400 nmax:3  entropy: 0.301  goal: _a pred: _a \n'
printf '\r [valid] lr: 0.10000 it=     17 nmax:20  entropy: 0.300  goal: _a pred: _a '
exec sleep 600
"""


@pytest.fixture
def peer(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("peer")


def program(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_the_comparison_says_what_is_compared(
    peer: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script, table = program(tmp_path / "train_toy", TRAINS), tmp_path / "table.md"
    symbols = []

    def ours_in_process(job: object, streams: int, count: int) -> object:
        symbols.append(count)
        return peer.Speed(1000, 0.1 / streams)

    monkeypatch.setattr(peer, "ours_in_process", ours_in_process)
    for path in (tmp_path, script):
        peer.main(["--peer", str(path), "--quick", "--rounds", "2", "--markdown", str(table)])
    assert set(symbols) == {400}
    text = table.read_text()
    assert "The two do different work" in text
    (row,) = [line for line in text.splitlines() if line.startswith("| 10 ")]
    assert [cell.strip() for cell in row.split("|")[5:7]] == ["10,000", "320,000"]
    options = (tmp_path / "train_toy.options").read_text().splitlines()
    assert len(options) == 4
    for given in ("-nhid 10", "-nstack 2", "-stack_size 20", "-nseq 50", "-bptt 50", "-depth 2"):
        assert given in options[0]


def test_our_training_reads_as_many_symbols(peer: ModuleType) -> None:
    speed = peer.ours(peer.Job(3, 1, 4, 1), 2, 100)
    assert speed.symbols == 100 * 50 * 2
    assert speed.per_second > 0


def test_a_path_without_the_program_is_an_error(
    peer: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes.txt").touch()
    expected = {
        "nowhere": "nowhere: no such file",
        "": "no train_toy there; `make toy` builds it",
        "notes.txt": "notes.txt: not a program",
    }
    for name, message in expected.items():
        with pytest.raises(SystemExit, match="2"):
            peer.main(["--peer", str(tmp_path / name), "--quick"])
        assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("#!/bin/sh\necho 'unknown option: -nhid'\nexit 255\n", "unknown option: -nhid"),
        ("no program\n", "Exec format error"),
    ],
)
def test_a_program_that_does_not_train_is_an_error(
    text: str, message: str, peer: ModuleType, tmp_path: Path
) -> None:
    other = program(tmp_path / "other", text)
    with pytest.raises(SystemExit, match=message):
        peer.main(["--peer", str(other), "--quick"])
