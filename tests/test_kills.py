"""benchmarks/kills.py kills and resumes runs."""

import subprocess
import sys
from pathlib import Path

import pytest
from command_line import ENVIRONMENT

KILLS = Path(__file__).parent.parent / "benchmarks" / "kills.py"


@pytest.mark.skipif(not KILLS.exists(), reason="not where it was installed")
def test_kills_succeeds_and_updates_only_its_section_of_a_report(tmp_path: Path) -> None:
    report = tmp_path / "report.md"
    old = [f"<!-- {name} -->\nold\n<!-- end of {name} -->\n" for name in ("kills", "other")]
    report.write_text("".join(old))
    options = ("--kind", "examples", "--signals=2", "--markdown", str(report))
    command = [sys.executable, str(KILLS), *options]
    done = subprocess.run(command, capture_output=True, env=ENVIRONMENT, check=False, timeout=240)
    assert done.returncode == 0, done.stderr.decode()
    text = report.read_text()
    assert text.count("<!-- kills -->") == text.count("<!-- end of kills -->") == 1
    assert text.endswith("<!-- other -->\nold\n<!-- end of other -->\n")
    assert "Runs were ended 2 times" in text
    assert "| examples |" in text
