"""Every block of the README and of docs/ runs, and prints what is shown below it."""

import contextlib
import itertools
import json
import re
import runpy
import shlex
import shutil
import statistics
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import command_line
import pytest
import yaml
from command_line import Ended

from stacktrans.settings.config import RunConfig
from stacktrans.settings.resolve import resolve
from stacktrans.sweeps.plan import read_plan
from stacktrans.training import race, requests

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
TRAINED = "tutorial"
"""The page whose models are trained until they have learned something."""
MADE_BY = {
    "pairs.tsv": "stacktrans generate --task reverse --count 20 --out pairs.tsv",
    "checkpoints/copy-queue-1": "stacktrans train --task copy --memory queue",
    "checkpoints/text-stack-rnn-1": "stacktrans train --text mytext --memory stack-rnn",
}
"""The commands that make files which examples read, but which their own pages do not make."""
FENCE = re.compile(r'^```(\w*)(?: title="([^"]+)")?\n(.*?)^```$', re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    """A fenced block of a page.

    Attributes:
        language: "console" for commands and what they print; "python"; "yaml" and "toml"; "sh"
            for commands that need more than stacktrans; or empty for text that is not run.
        title: the name of the file that the block contains; None if it is not a file.
        text: the content of the block.
    """

    language: str
    title: str | None
    text: str


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [Block(found[1], found[2], found[3]) for found in FENCE.finditer(text)]


def commands(text: str) -> Iterator[tuple[str, str]]:
    """The commands of a console block, each with what is printed after it."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, printed = part.partition("\n")
        yield command, printed


def run(command: str, folder: Path) -> Ended:
    """Run `head`, or a command that may have its input from `echo`, and be filtered by `grep`.

    A program in Python is run by this interpreter.
    """
    echo = re.match(r"echo (.*?) \| ", command)
    stdin = f"{shlex.split(echo[1])[0]}\n".encode() if echo else b""
    words = shlex.split(command[echo.end() :] if echo else command)
    filtered = words.index("|") if "|" in words else len(words)
    own, words = words[:filtered], words[filtered + 1 :]
    if own[0] in ("head", "python"):
        own[0] = sys.executable if own[0] == "python" else "head"
        done = subprocess.run(own, cwd=folder, check=True, stdout=-1, input=stdin)
        return Ended(0, done.stdout, b"")
    assert own[0] == "stacktrans", command
    if both := own[-1] == "2>&1":
        own.pop()
    ended = command_line.run(*own[1:], stdin=stdin, cwd=folder)
    if both:
        ended = ended._replace(stdout=ended.stderr + ended.stdout)
    if words:
        program, *inverted, pattern = words
        assert (program, inverted) in (("grep", []), ("grep", ["-v"])), command
        lines = [
            line
            for line in ended.stdout.splitlines(True)
            if (pattern.encode() in line) != bool(inverted)
        ]
        assert lines, command
        ended = ended._replace(stdout=b"".join(lines))
    return ended


def shortened(command: str) -> str:
    """The command with less training and fewer strings, which still shows whether it is valid."""
    if re.search(r"\b(train|compare) ", command):
        command += " --max-steps 2 --set measure.strings=4 --set loss_every=1"
        command += "" if "--workers" in command else " --workers 1"
    if " compare " in command:
        command += " --seeds 1 --count 4"
    if " --each " in command:
        command += " --count 1"
    return command


def run_console(text: str, folder: Path, whole: bool) -> None:
    """Run the commands of a block and check their output; unless `whole`, train only briefly."""
    for command, printed in commands(text):
        for path, maker in MADE_BY.items():
            if path in command and "--out" not in command and not (folder / path).exists():
                assert run(shortened(maker), folder).returncode == 0
        if " train " in command and not (printed or "--out" in command):
            command += " --dry-run"  # no example reads the run
        done = run(command if whole else shortened(command), folder)
        # A model that was trained for a moment need not end its answers.
        unended = not whole and b"cut off" in done.stderr
        assert done.returncode == 0 or unended, f"{command}\n{done.stderr.decode()}"
        shown = done.stdout.decode()
        if printed and whole:
            nearly = [[_nearly(word) for word in line] for line in lasting(printed)]
            assert lasting(shown) == nearly, command
        elif printed:
            assert rows(shown) == rows(printed), command


def rows(printed: str) -> list[str]:
    return [line.rstrip() for line in printed.splitlines()]


OF_A_PROCESSOR = re.compile(
    r"[░▒▓█]+|<s>@1 [.0-9]+|\S+@\d+ 0\.0\d|SHA-256 \w+|[\d,]+ batches in \d+ seconds"
    r"|test without state .*|^\d+ (?= *reading)"
    r"|stack of \d+ symbols, \d+ rules|mark 1█ ?|\d+(?= +[.0-9]+ +[.0-9]+ +│)"
)


def lasting(printed: str) -> list[list[str | float]]:
    """The words of each line printed about a newly trained model, without those that may vary.

    Processors round differently, so that the number of batches varies, and strengths are only
    close to 0 and 1. Whether `<s>` is pushed makes no difference: an answer ends when the stack is
    empty, or when the vector pushed at `<s>` is read. How much a model with a memory also keeps in
    its state is arbitrary. Rules are sorted, since they are printed by how often they were seen.
    """
    lines = [OF_A_PROCESSOR.sub("", line).split() for line in printed.splitlines()]
    lasting_lines = [
        line
        for line in lines
        if line[:2] != ["stacktrans:", "compiling"] and {"<s>", "</s>"}.isdisjoint(line)
    ]
    rules = sorted(line for line in lasting_lines if line[:1] == ["reading"])
    others = [line for line in lasting_lines if line[:1] != ["reading"]]
    return [[*map(_number, line)] for line in [*others, *rules]]


def _number(word: str) -> str | float:
    return float(word) if re.fullmatch(r"\d+\.\d+", word) else word


def _nearly(word: str | float) -> Any:
    return pytest.approx(word, abs=0.1) if isinstance(word, float) else word


def write_file(block: Block, folder: Path) -> None:
    """Write the file that a block contains; the runs of a sweep are shortened."""
    assert block.title
    content = block.text
    if block.language == "yaml" and "conditions" in (settings := yaml.safe_load(content)):
        for condition in settings["conditions"].values():
            condition["training"] = {"max_steps": 2, "measure": {"strings": 4}}
        content = yaml.safe_dump(settings)
    (folder / block.title).write_text(content)


def check_shell(text: str) -> None:
    """Check that a shell can parse the commands, and that their make targets and options exist."""
    assert subprocess.run(["bash", "-n", "-c", text], check=False).returncode == 0
    makefile = (ROOT / "Makefile").read_text()
    for line in text.splitlines():
        if found := re.match(r"make (\w+)", line):
            assert f"\n{found[1]}:" in makefile, line
        for name, options in re.findall(r"stacktrans ([a-z]+)((?: [^|>#]*)?)", line):
            usage = command_line.run(name, "--help").stdout.decode()
            for option in re.findall(r"--[a-z-]+", options):
                assert option in usage, line


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where a page's examples run, in order, with the checkpoints beside them."""
    shutil.copytree(ROOT / "checkpoints", tmp_path / "checkpoints")
    shutil.copytree(DOCS / "data", tmp_path / "docs" / "data")
    (tmp_path / "experiments").mkdir()
    for sweep in ("deletang2023.yaml", "grefenstette2015.yaml"):
        shutil.copy(ROOT / "experiments" / sweep, tmp_path / "experiments")
    (tmp_path / "docs" / "images").mkdir()
    (tmp_path / "mytext").mkdir()
    for part in ("train", "valid", "test"):
        (tmp_path / "mytext" / f"{part}.txt").write_text("the old man sees the sea .\n" * 9)
    return tmp_path


@pytest.fixture
def small_races(monkeypatch: pytest.MonkeyPatch) -> None:
    """Races run only the first two of their strategies, in this process."""
    begin = race.begin

    def begin_two(directory: Path, configs: Mapping[str, RunConfig], *others: Any) -> None:
        begin(directory, dict(itertools.islice(configs.items(), 2)), *others)

    monkeypatch.setattr(race, "begin", begin_two)
    monkeypatch.setattr(requests, "cores", lambda: 1)


@pytest.mark.usefixtures("small_races", "sweeps_here")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_of_a_page_runs(page: Path, folder: Path) -> None:
    namespace: dict[str, Any] = {}
    for block in blocks(page):
        if block.title:
            write_file(block, folder)
        if block.language == "console":
            run_console(block.text, folder, page.stem == TRAINED)
        elif block.language == "python" and not block.title:
            with contextlib.chdir(folder):
                exec(compile(block.text, page.name, "exec"), namespace)
        elif block.language == "yaml":
            assert yaml.safe_load(block.text)
        elif block.language == "toml":
            assert tomllib.loads(block.text)
        elif block.language == "sh":
            check_shell(block.text)
        else:
            assert block.title or not block.language, block.language
    for picture in (folder / "docs" / "images").iterdir():
        assert labels(picture) == labels(DOCS / "images" / picture.name)


def labels(picture: Path) -> list[str]:
    """The labels of a picture in order, without those of its scale and of `<s>`; see `lasting`."""
    found = re.findall(r"<!-- (.*?) -->", picture.read_text(encoding="utf-8"))
    assert len(found) > 10
    return [label for label in found if not (label.isdecimal() or label.startswith("&lt;s&gt;"))]


def test_every_picture_is_made_by_an_example() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    shots = [shot.name for shot in runpy.run_path(str(DOCS / "screenshots.py"))["SHOTS"]]
    for picture in (DOCS / "images").iterdir():
        assert f"images/{picture.name})" in text
        assert picture.stat().st_size < 150_000
        if picture.suffix == ".png":
            assert picture.stem in shots
        else:
            assert f"--plot docs/images/{picture.name}\n" in text


def anchors(page: Path) -> set[str]:
    """The anchors of the headings of a page."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_link_leads_to_a_file_and_a_heading() -> None:
    for page in PAGES:
        links = re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", page.read_text(encoding="utf-8"))
        for target, anchor in links:
            linked = page.parent / target if target else page
            assert linked.exists(), f"{page.name}: {target}"
            assert not anchor or anchor in anchors(linked), f"{page.name}: {target}#{anchor}"


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 200


def test_the_generated_pages_are_up_to_date() -> None:
    made = runpy.run_path(str(DOCS / "generate.py"))
    for name in ("cli", "settings", "training"):
        page = made[f"{name}_page"]()
        assert (DOCS / f"{name}.md").read_text(encoding="utf-8") == page, "python docs/generate.py"


def test_the_gallery_shows_every_shipped_model() -> None:
    made = runpy.run_path(str(DOCS / "gallery.py"))
    page = made["gallery_page"]()
    assert (DOCS / "gallery.md").read_text(encoding="utf-8") == page, "python docs/gallery.py"
    assert {piece.name for piece in made["PIECES"]} == {
        path.name for path in (ROOT / "checkpoints").iterdir()
    }
    pictures = [*(DOCS / "images").iterdir()]
    assert sum(picture.stat().st_size for picture in pictures) < 1_500_000


def test_the_sweep_of_the_docs_is_valid(tmp_path: Path) -> None:
    (block,) = (block for block in blocks(DOCS / "sweeps.md") if block.title)
    (tmp_path / "mine.yaml").write_text(block.text)
    assert len(read_plan(tmp_path / "mine.yaml").runs) == 12
    assert len(read_plan(tmp_path / "mine.yaml", "small").runs) == 4


def titled(page: Path, title: str, folder: Path) -> Path:
    """Write the file that a titled block of a page contains."""
    (text,) = (block.text for block in blocks(page) if block.title == title)
    (folder / title).write_text(text)
    return folder / title


@pytest.mark.parametrize(
    ("page", "title"), [(DOCS / "tasks.md", "tiny.yaml"), (ROOT / "README.md", "turned.yaml")]
)
def test_the_grammars_of_the_docs_are_as_described(tmp_path: Path, page: Path, title: str) -> None:
    titled(page, title, tmp_path)
    done = run(f"stacktrans generate --task {title} --count 3 --seed 1", tmp_path)
    assert done.returncode == 0
    lines = done.out.splitlines()
    assert len(lines) == 3
    for line in lines:
        source, target = line.split("\t")
        assert source.split()[0].upper() == target.split()[1]


def test_the_pattern_of_the_docs_is_as_described(tmp_path: Path) -> None:
    path = titled(DOCS / "tasks.md", "counts.yaml", tmp_path)
    done = run("stacktrans generate --task counts.yaml --count 5", tmp_path)
    assert done.returncode == 0
    lines = done.out.splitlines()
    assert len(lines) == 5
    for line in lines:
        whole = line.replace("\t", "")
        n, m = (whole.count(symbol) for symbol in "ab")
        assert whole == "a" * n + "b" * m + "c" * (2 * n + m)
    config = resolve(task=str(path), settings={"model": {"memory": "stack-rnn"}})
    assert config.task.length_law == "uniform"


def file_tree() -> dict[str, str]:
    """The description of each folder and file on the architecture page, by its path."""
    (text,) = (
        block.text
        for block in blocks(DOCS / "architecture.md")
        if block.text.startswith("stacktrans/\n")
    )
    tree: dict[str, str] = {}
    folder = ""
    for line in text.splitlines():
        name, _, meaning = line.strip().partition(" ")
        folder = folder if line.startswith(" ") else name
        tree[folder if name == folder else folder + name] = meaning.strip()
    return tree


def test_every_file_is_in_the_file_tree() -> None:
    package = {
        f"stacktrans/{path.name}{'/' if path.is_dir() else ''}"
        for path in (ROOT / "stacktrans").iterdir()
        if not path.name.startswith("__") and (path.is_dir() or path.suffix == ".py")
    }
    tree = file_tree()
    assert package <= tree.keys()
    for path, meaning in tree.items():
        assert (ROOT / path).exists(), path
        assert meaning or path == "stacktrans/"


def test_files_that_the_architecture_names_exist() -> None:
    named = re.findall(r"`([\w/]+/[\w/]*(?:\.py)?)`", (DOCS / "architecture.md").read_text())
    assert len(named) > 8
    for path in named:
        assert (ROOT / path).exists() or (ROOT / "stacktrans" / path).exists(), path


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def test_the_results_are_those_recorded() -> None:
    """Each row of the page is a row of a sweep's table, some columns of it left out."""
    tables = "*default*/results.md", "documentation/results.md"
    recorded = [
        cells(line)
        for pattern in tables
        for path in (ROOT / "experiments" / "results").glob(pattern)
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.startswith("|")
    ]
    lines = (DOCS / "results.md").read_text(encoding="utf-8").splitlines()
    rows = [cells(line) for line in lines if line.startswith("|") and " / " in line]
    rows = [row for row in rows if "min / median / max" not in "".join(row)]
    assert len(rows) > 20
    for row in rows:
        assert any(set(row) <= set(other) for other in recorded), row


def test_the_table_of_the_readme_is_as_recorded() -> None:
    """Its figures are those of all runs of a task."""
    path = ROOT / "experiments" / "results" / "deletang2023" / "results.jsonl"
    runs = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    rows = [cells(line) for line in lines if " of 10 |" in line]
    assert len(rows) >= 4
    for name, *_, scores, seconds, machines in rows:
        own = [run for run in runs if run["condition"] == name.strip("`")]
        values = [100 * run["measured"]["score"]["value"] for run in own]
        assert scores == f"{min(values):.1f} – {max(values):.1f}"
        assert seconds == f"{statistics.median(run['seconds'] for run in own):.0f}"
        found = sum(run["measured"]["machine"]["value"] == 1 for run in own)
        assert machines == f"{found} of {len(own)}"
